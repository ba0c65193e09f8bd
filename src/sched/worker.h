/*
 * sched/worker.h: a worker: one thread of a scheduler, what is ready on it, and the loop that runs it.
 *
 * What is ready is in one of
 *
 *      slot      the fiber that the last one woke: it runs next, as what it needs is in the caches; not for ever
 *      queue     started fibers, which only this worker may run; no atomics
 *      ring      fibers that have not started, and those that may move: idle workers steal from it. `waiting` has those
 *                that do not fit, and they follow as it empties
 *      inbox     fibers that others woke or bound to this worker
 *      set       instead of slot, queue and ring: the ready set of a policy that is not FIFO
 *
 * and the scheduler's injection queue, for work that plain threads bring. Each
 * fiber in queue and ring has a `turn`, a count of what came before it; the lower one is first, so that both together
 * are one FIFO queue.
 *
 * A worker without work announces that it sleeps, looks everywhere once more, and sleeps in its driver. Who brings work
 * wakes one sleeper if nobody is searching already; who finds work while searching wakes the next.
 */
#ifndef WF_SCHED_WORKER_H
#define WF_SCHED_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/coro.h>
#include <weft/sched.h>

#include "base/inbox.h"
#include "base/ring.h"
#include "base/thread.h"
#include "fiber/fiber.h"
#include "fiber/pool.h"
#include "sched/driver.h"
#include "time/wheel.h"

struct wf_timers;

/* Why a fiber gave its worker control. */
enum wf_left {
    WF_LEFT_YIELD, /* ready again */
    WF_LEFT_SLICE, /* the same, and it did not want to */
    WF_LEFT_WAIT,  /* its commit step is to be done */
    WF_LEFT_END,   /* it has ended */
};

/* Bits of a worker's `round`. */
enum {
    WF_ROUND_ALWAYS = 1,   /* a policy, or WEFT_DIRECT */
    WF_ROUND_COUNTED = 2,  /* turns are counted */
    WF_ROUND_SLEEPERS = 4, /* `direct` has somebody */
};

struct wf_fifo {
    weft_fiber *first, *last;
    size_t count; /* atomic: others look */
};

enum {
    WF_LOOK_EVERY = 64,  /* passes between two looks at the clock */
    WF_CROWD = 64,       /* so many are ready, and sleepers whose time has come do not wait for all of them */
    WF_SLOT_STREAK = 16, /* the slot is taken so often in a row, then it goes to the end like everybody */
};

/* Single writer: the worker. atomic: others add them up. */
struct wf_counts {
    uint64_t spawned, ended, switches, stolen, warm_hits, warm_misses;
    size_t watches; /* of all workers together, as a fiber may end its wait on another */
};

struct wf_worker {
    /* owner: the worker, all of this part unless a field says otherwise */
    struct wf_thread *thread;
    weft_sched *sched; /* const */
    weft_fiber *slot;  /* atomic: others look */
    struct wf_fifo queue;
    struct wf_fifo
        direct;    /* sleepers whose time has come; of WEFT_DIRECT also whose descriptor is ready. See goes_first() */
    uint32_t turn; /* the next fiber's */
    uint32_t tick; /* passes; decides when to look around */
    uint32_t inject_at;   /* the tick from which the injection queue comes first */
    uint32_t slot_streak; /* how often in a row the slot was taken */
    enum wf_left left;
    weft_fiber *left_behind; /* it hopped away to wait, and its commit step is to be done at once; or NULL */
    bool solo;               /* const: the only worker, nobody steals */
    uint8_t round;  /* why a yield goes through the worker instead of straight to the next fiber: WF_ROUND_... */
    bool works;     /* it is in its loop. atomic: others look */
    bool searching; /* counted in sched->searching */
    bool listed;    /* among the idle. guarded by: sched->idle_lock */
    struct wf_eh_globals *eh; /* the thread's C++ exception globals; NULL: there is no C++ */
    int *errno_at;            /* const while the thread runs */
    int64_t woken_at;         /* the end of the last sleep */
    int64_t now;              /* the clock at the last look: for ages */
    uint32_t looked;          /* the tick at which it was read, if nothing has run since */
    int64_t slice;            /* const: 0: none */
    int64_t slice_end;        /* of the fiber that runs */
    void *set;                /* the policy's, NULL: FIFO */
    size_t set_count;         /* atomic: others look */
    weft_coro *spare;         /* the base of the last fiber that ended, if it is plain: for the next one; or NULL */
    struct wf_records records;
    struct wf_counts counts;
    struct wf_worker *idle_next, *idle_prev; /* guarded by: sched->idle_lock */
    uint64_t cancelled_to;                   /* the sched->cancels that it has done */
    uint32_t random;
    int64_t settled; /* when it last gave records back */

    pthread_t id;                     /* owner: who starts and stops */
    bool has_thread;                  /* owner: who starts and stops */
    unsigned index;                   /* const */
    struct wf_wheel wheel;            /* of the deadlines of fibers that wait here, or did: see wf_deadline_begin */
    int64_t first_due;                /* nothing in the wheel is due before it; INT64_MAX: it is empty */
    struct wf_timers *timers;         /* const: with callbacks; see timer.h */
    struct wf_fifo waiting;           /* for a place in the ring, younger than all in it */
    size_t pass_left;                 /* WEFT_DIRECT: fibers that are left of what was ready when the pass began */
    bool polls;                       /* it is in its driver: who becomes ready does so by an event */
    uint32_t ring_turn[WF_RING_SIZE]; /* the turns of what is in the ring */

    /* Others write here. */
    struct wf_inbox inbox __attribute__((aligned(64)));
    struct wf_driver driver;
    int64_t sleeps_until; /* atomic: asleep: when it wakes by itself. Written by the worker */
    struct wf_ring ring;  /* aligned by itself */
};

/* A fiber that is to run on worker `w`, which the caller is, for the reason given. */
void wf_worker_push(struct wf_worker *w, weft_fiber *f, enum weft_why why);

/* The same from any thread: by its inbox. */
void wf_worker_send(struct wf_worker *w, weft_fiber *f);

/* Spawns a detached fiber on worker `w`, which the caller is, though no fiber of it. False: no memory. */
bool wf_spawn_on(struct wf_worker *w, const char *site, weft_fn *fn, void *arg);

/* Wakes one idle worker if nobody is searching. Any thread, after work was published. */
void wf_sched_wake_one(weft_sched *s);

/* When a loop ends. */
enum wf_until {
    WF_UNTIL_OVER,  /* the scheduler is over */
    WF_UNTIL_EMPTY, /* no fiber is left */
    WF_UNTIL_ONCE,  /* what is ready has run once */
};

/* The loop of the calling thread, which is this worker. 0, or -ETIMEDOUT past the deadline. */
int wf_worker_loop(struct wf_worker *w, enum wf_until until, int64_t deadline);

/* Gives back the stack that is kept for the next fiber. */
void wf_worker_drop_spare(struct wf_worker *w);

/* The thread becomes this worker, or is no longer. */
void wf_worker_enter(struct wf_worker *w);
void wf_worker_leave(struct wf_worker *w);

/*
 * A wait with a deadline begins and ends. What it leaves in the wheel stays there, if the next one's is not before it: it
 * is put right when its time comes (expire in worker.c), and most deadlines never come to that. Only a fiber that ends or
 * may go to another worker takes it out.
 */
static inline void wf_deadline_begin(struct wf_worker *w, weft_fiber *f);
static inline void wf_deadline_end(struct wf_worker *w, weft_fiber *f);
void wf_deadline_add(struct wf_worker *w, weft_fiber *f);
WF_COLD void wf_deadline_drop(struct wf_worker *w, weft_fiber *f);

/* A fiber of this worker, which the caller is, was settled: it is ready. */
void wf_worker_woken(struct wf_worker *w, weft_fiber *f);

/* Nobody has a handle of a fiber that has ended or never began: its record is free. `w`: the caller's worker, or NULL. */
void wf_fiber_release(struct wf_worker *w, weft_fiber *f);

/* A fiber has ended, and its value is there: gives it to whoever joins it. False: it is detached, release it. */
bool wf_join_ended(weft_fiber *f);

/* Releases a fiber that never began, with what it was given; its join is GONE. */
void wf_fiber_drop(weft_fiber *f);

/* Cancels every fiber that started on this worker, which the caller is, and its timers. */
void wf_cancel_all_of(struct wf_worker *w);

/* Called by a fiber: gives control to its worker; returns when it is picked again. */
WF_ENTRY void *wf_leave(struct wf_thread *t, enum wf_left why);

/* Gives a fiber that is to run for the first time the stack of the last one that ended, if that is there and fits. */
bool wf_worker_start_on_spare(struct wf_worker *w, weft_fiber *f);

/*
 * Called by a fiber that is to wait: as wf_leave, or straight to the fiber that it has just woken, or to one that has
 * not started. Then it is that fiber which does its commit step, when it arrives: every wait ends, and every fiber
 * begins, with wf_arrived().
 */
WF_ENTRY void *wf_leave_waiting(weft_fiber *f);

/* The commit step of a fiber that was left. On its worker's thread, on another stack than its own. */
void wf_worker_commit(struct wf_worker *w, weft_fiber *f);

static inline void wf_deadline_begin(struct wf_worker *w, weft_fiber *f)
{
    if (!f->timed || f->timer.when > f->until)
        wf_deadline_add(w, f);
}

static inline void wf_deadline_end(struct wf_worker *w, weft_fiber *f)
{
    if (wf_unlikely(f->flags & WEFT_MIGRATE) && f->timed)
        wf_deadline_drop(w, f);
}

static inline void wf_arrived(void)
{
    struct wf_worker *w = wf_thread_now()->worker;
    weft_fiber *left = w->left_behind;
    if (left) {
        w->left_behind = NULL;
        wf_worker_commit(w, left);
    }
}

#endif
