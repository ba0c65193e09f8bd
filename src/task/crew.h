/*
 * task/crew.h: the threads of one executor: made one by one, and all gone when a join has returned.
 *
 * Each thread that ends joins the thread that ended before it. So at most one thread is left to be joined, and a join
 * waits for the last thread alone. Of several joins at a time one joins that thread, and the others wait until it has.
 */
#ifndef WF_TASK_CREW_H
#define WF_TASK_CREW_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/sync.h>
#include <weft/time.h>

#include "base/lock.h"
#include "base/plain.h"

struct wf_crew {
    void (*release)(struct wf_crew *crew); /* const: frees what the crew is part of */
    bool detached;                         /* const: it is never closed, and nobody joins its threads */
    uint32_t forks;                        /* const: wf_forks when it was made */
    struct wf_plain_mutex joining;         /* held while a join of the executor joins `ended` */
    struct wf_lock lock;
    unsigned threads; /* how many exist, or are being made. guarded by: lock */
    bool closed;      /* no thread will be made. guarded by: lock */
    bool abandoned;   /* the last thread releases it. guarded by: lock */
    bool telling;     /* a thread that is not of the crew sets `over`. guarded by: lock */
    bool has_ended;   /* `ended` is to be joined. guarded by: lock */
    pthread_t ended;  /* the thread that ended last. guarded by: lock */
    weft_event over;  /* set when the crew is closed and its last thread is ending */
};

void wf_crew_init(struct wf_crew *crew, void (*release)(struct wf_crew *));

/* Counts a thread that is about to be made. Call it while a work of the executor is sure to keep the crew. */
void wf_crew_reserve(struct wf_crew *crew);

/* The last act of a caller that has reserved a thread and could not make it. The crew may be gone when it returns. */
void wf_crew_unreserve(struct wf_crew *crew);

/* Makes a thread of no crew, with all signals blocked. 0 or -EAGAIN. */
int wf_crew_thread(pthread_t *id, void *(*fn)(void *), void *arg);

/* Makes a reserved thread, with all signals blocked. fn(arg) enters the crew first and leaves it last. 0 or -EAGAIN. */
int wf_crew_start(struct wf_crew *crew, void *(*fn)(void *), void *arg);
void wf_crew_enter(const struct wf_crew *crew); /* its first act */
void wf_crew_leave(struct wf_crew *crew);

/* Call after each function of a program; `forks` is wf_forks before it. Ends the process in a child that it forked. */
void wf_crew_check_fork(uint32_t forks);

/* Like close and join of a table. wf_crew_close may be called inside a thread of the crew. */
void wf_crew_close(struct wf_crew *crew);
int wf_crew_join(struct wf_crew *crew, weft_time deadline);

/* Releases the crew: now, or when its last thread ends. */
void wf_crew_free(struct wf_crew *crew);

#endif
