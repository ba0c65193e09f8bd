/*
 * base/thread.h: the one thread-local variable of the library, and the list of threads that have used it.
 *
 * Two ways to reach it. &wf_thread_self is inline and for code that does not switch between reading it and using it.
 * wf_thread_now() is a call, for code that runs after a switch: a compiler keeps the address of a thread-local in a
 * register across a call, and a coroutine may go on on another thread.
 */
#ifndef WF_BASE_THREAD_H
#define WF_BASE_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

struct weft_coro;
struct weft_fiber;
struct wf_crew;
struct wf_flow;
struct wf_stack_cache;
struct wf_worker;

/* Everything is zero until wf_thread_enter(). owner: its thread, unless a field says otherwise. */
struct wf_thread {
    struct weft_coro *current;     /* the innermost coroutine, NULL on the thread's own stack */
    uint32_t expect;               /* the mode of a coroutine that may be resumed without a further look; 0: none */
    bool entered;                  /* wf_thread_enter() was here */
    bool listed;                   /* it is on the list, and will be told when it ends; else it keeps nothing */
    bool ended;                    /* it was told so: what still runs on it are destructors */
    struct weft_fiber *fiber;      /* the fiber that runs; NULL: none does */
    struct wf_worker *worker;      /* the worker that this thread is; NULL: a plain thread */
    struct wf_flow *flow;          /* what an executor runs on its own stack; see sched/flow.h. NULL: nothing */
    const struct wf_crew *crew;    /* whose thread it is (task/crew.h); NULL: of none */
    void *spare_task;              /* memory for the next task that is started here; NULL: none */
    uint64_t next_id, last_id;     /* ids taken from the common counter and not yet given out */
    uint32_t budget;               /* of its fibers; see sched/budget.h */
    uint16_t hook_flag;            /* WEFT_NO_HOOK: fibers started from its own stack have it; else 0 */
    uint32_t stacks_kept;          /* the most stacks of a class that are kept for the next; 0: as many as are good */
    struct wf_stack_cache *stacks; /* stacks kept for the next coroutines; NULL until the first */
    int64_t live;                  /* coroutines made here minus freed here. atomic: weft_coro_count adds them up */

    void *signal_stack;     /* the alternate signal stack that we made, or NULL */
    struct weft_coro *left; /* debug: the one we just switched away from; released on arrival */
    const void *own_stack;  /* ASan: the thread's own stack, learnt when it was last left */
    size_t own_stack_bytes;
    bool left_own_stack; /* ASan: the switch under way leaves the thread's own stack */
    void *own_fiber;     /* TSan: the thread's own context */

    struct wf_thread *next, **link; /* guarded by: the list's lock */
};

extern __thread struct wf_thread wf_thread_self __attribute__((tls_model("initial-exec"))) WF_HIDDEN;

/* The calling thread's state; a call, so never a remembered address. */
WF_ENTRY struct wf_thread *wf_thread_now(void);

/*
 * Puts the calling thread on the list, with `leave` to be run when it ends. Once per thread. One that cannot be told of
 * its end (no pthread key left, or it is ending) stays off the list, and must keep nothing.
 */
WF_COLD void wf_thread_enter(struct wf_thread *t, void (*leave)(struct wf_thread *));

/* A fresh id, unique in the process. */
WF_COLD uint64_t wf_thread_more_ids(struct wf_thread *t);

static inline bool wf_thread_id_at_hand(const struct wf_thread *t)
{
    return t->next_id < t->last_id;
}

static inline uint64_t wf_thread_id(struct wf_thread *t)
{
    return wf_likely(wf_thread_id_at_hand(t)) ? t->next_id++ : wf_thread_more_ids(t);
}

/* Ids below it were given out before the fork that made this process. */
extern WF_HIDDEN uint64_t wf_thread_first_id; /* const, but for a child that is alone */

/* Counts a coroutine that is made or freed here. */
void wf_thread_count(struct wf_thread *t, int change);

static inline void wf_thread_count_listed(struct wf_thread *t, int change)
{
    __atomic_store_n(&t->live, t->live + change, __ATOMIC_RELAXED); /* one writer: no locked instruction */
}

/* The sum of `live` over all threads, ended ones included. */
int64_t wf_thread_live(void);

#endif
