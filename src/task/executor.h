/*
 * task/executor.h: the library's side of an executor, around the table of functions that does the work.
 *
 * Everything that an executor is given is a *work*: a task, or a call of a plain function. The wrapper links all works
 * from the moment they are taken until they are over, so that it can refuse, drop, cancel and count them. The table
 * only calls functions.
 *
 *                 table calls it              its function, or its task, has ended
 *      QUEUED ─────────────────────▶ BEGUN ─────────────────────────────────────────▶ over
 *         └─close without drain─▶ DROPPING ──drop has returned──▶ DROPPED ──table calls it──▶ over
 *                                    └──table calls it──▶ CALLED ──drop has returned──▶ over
 *
 * QUEUED    the table has the work, and has not called it
 * BEGUN     the work runs, or is a task that waits
 * DROPPING  the closing thread runs the drop step; the later of that step and the table's call releases the work
 *
 * When a closed executor has no work left, the thread that ended the last work closes the table.
 */
#ifndef WF_TASK_EXECUTOR_H
#define WF_TASK_EXECUTOR_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/executor.h>

#include "base/fork.h"
#include "base/lock.h"
#include "sched/flow.h"
#include "sched/wait.h"

enum wf_work_state { WF_WORK_QUEUED, WF_WORK_BEGUN, WF_WORK_DROPPING, WF_WORK_CALLED, WF_WORK_DROPPED };

struct wf_work;
struct wf_later;

/* What a kind of work does; const. */
struct wf_work_kind {
    void (*run)(struct wf_work *work); /* the table calls it: the first time */
    /* It will never run: on the thread that closes. That thread does `later` when it has dropped and cancelled all. */
    void (*drop)(struct wf_work *work, struct wf_later *later);
    /* It is BEGUN, and the executor closes. The caller holds the work. */
    void (*cancel)(struct wf_work *work, struct wf_later *later);
    void (*hold)(struct wf_work *work); /* keeps it until `let_go` */
    void (*let_go)(struct wf_work *work);
    size_t flow;   /* where its struct wf_flow is, from the work on */
    bool destroys; /* let_go may call a function of the program: a value's destructor */
};

struct wf_work {
    struct wf_work *next_queued;     /* in a queue of a library table. guarded by: the table */
    void (*turn)(void *arg);         /* in such a queue: the function to call. guarded by: the table */
    const struct wf_work_kind *kind; /* const */
    weft_executor *on;               /* const; NULL: a task of a scheduler, without an executor */
    const weft_attr *attr;           /* for executor_sched, during its execute; NULL: none */
    struct wf_work *next, **link;    /* among the executor's works. guarded by: on->lock */
    struct wf_work *next_closed;     /* in the list that a close makes. owner: the closing thread */
    enum wf_work_state state;        /* guarded by: on->lock */
};

struct weft_executor {
    weft_executor_ops ops; /* const */
    void *self;            /* const */
    bool has_threads;      /* const: its threads do not exist in the child of a fork */
    weft_sched *sched;     /* const: its works are fibers of this scheduler; NULL: they are no fibers */
    bool is_noop;          /* const: the thread that ends a wait of its task continues the task */
    uint32_t refs;         /* atomic: counts the handle, each work, each call that waits for its end */
    uint32_t forks;        /* wf_forks when it was made. const, except in the child of a fork while it has one thread */
    struct wf_lock lock;
    struct wf_work *works;                     /* guarded by: lock */
    bool closed;                               /* guarded by: lock. atomic: also read without it */
    bool dropped;                              /* closed without drain. guarded by: lock */
    bool table_closed;                         /* a thread closes the table, or has closed it. guarded by: lock */
    bool over;                                 /* the table is closed. guarded by: lock */
    struct wf_waiters joiners;                 /* wait for `over`. guarded by: lock */
    weft_executor *next_of_all, **link_of_all; /* guarded by: a lock in executor_fork.c */
};

/* A table of the library: makes the executor, or releases self and returns -ENOMEM. */
int wf_executor_make(weft_executor **out, const weft_executor_ops *ops, void *self, bool has_threads);

/*
 * Gives a work, which the caller holds, to its executor. A failure changes nothing. Returns 0 if a close dropped the
 * work during the call. Does not return if the work is called at once and ends the calling fiber (weft_hook_end).
 */
int wf_executor_begin(struct wf_work *work);

/* Asks the executor to call turn(work), for a work that has BEGUN. 0, or why it cannot. */
static inline int wf_executor_resume(struct wf_work *work, void (*turn)(void *))
{
    return work->on->ops.execute(work->on->self, turn, work);
}

/* A BEGUN work has ended. The executor may be gone when it returns. */
void wf_executor_over(struct wf_work *work);

/* Like weft_executor_free inside a function of the executor: does not wait. What is left to be done goes to `later`. */
void wf_executor_abandon(weft_executor *x, struct wf_later *later);

/* Whether the executor was made before a fork, and its threads exist only in the parent. */
static inline bool wf_executor_is_lost(const weft_executor *x)
{
    return wf_unlikely(x->forks != wf_forks) && x->has_threads;
}

/*
 * Whether only the calling thread could run fibers of s (NULL: false), and does not while it blocks: it is the only
 * worker of s, and in no fiber. Only the address of s is used.
 */
static inline bool wf_needs_this_worker(const struct weft_sched *s)
{
    const struct wf_thread *me = wf_thread_now();
    return s && !me->fiber && me->worker && me->worker->solo && me->worker->sched == s;
}

/* The executor of tasks that name none, where there is no scheduler: a thread for each turn. NULL: no memory. */
weft_executor *wf_executor_default(void);

/* From now on a fork sees to executors and tasks. */
void wf_executor_watch_forks(void);

/* Executors that a fork has to see to. */
void wf_executor_list(weft_executor *x);
void wf_executor_unlist(weft_executor *x);

#endif
