/*
 * task/task.h: a task's record, and what the files of this folder need of each other.
 *
 *      start ──▶ QUEUED ──▶ RUNNING ──▶ ENDING ──▶ ENDED
 *                   └──cancelled, dropped──▲
 *
 * QUEUED   the executor has the task, and has not called it
 * RUNNING  the task's function runs, or waits
 * ENDING   code and value are set, and the finisher runs the callbacks; awaits still wait, except those of the finisher
 * ENDED    awaits return; a callback that is added runs at once
 *
 * On a scheduler a task is a fiber. Elsewhere it is a base coroutine (coro/mount.h), which the executor's function
 * mounts. When such a task awaits, it unmounts itself, and then the thread that had it mounted publishes the wait
 * (task_coro.c). From that moment the end of the awaited task, the deadline and a cancel race for the waiting task with
 * one compare-and-swap on `phase`. The winner tells the executor to mount the task again.
 */
#ifndef WF_TASK_TASK_H
#define WF_TASK_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/task.h>

#include "base/lock.h"
#include "fiber/extra.h"
#include "sched/flow.h"
#include "sched/later.h"
#include "sched/wait.h"
#include "task/executor.h"
#include "task/scope.h"
#include "time/wheel.h"

enum wf_task_state { WF_TASK_QUEUED, WF_TASK_RUNNING, WF_TASK_ENDING, WF_TASK_ENDED };

/* Where a coroutine is in an await. */
enum wf_await_phase { WF_AWAIT_NONE, WF_AWAIT_WAITING, WF_AWAIT_SETTLED };

enum { WF_OWN_CALLBACKS = 2 };

struct wf_callback {
    struct wf_callback *next;
    enum { WF_CALL_THEN, WF_CALL_CATCHING, WF_CALL_FINALLY } when;
    union {
        void (*then)(void *value, void *arg);
        void (*catching)(const weft_error *error, void *arg);
        void (*finally)(void *arg);
    } fn;
    void *arg;
};

struct wf_group;

/* What a coroutine waits for. Lies on the coroutine's stack, which is never a shared stack. */
struct wf_await {
    /* Links the waiter. False: there is nothing to wait for. Once linked, the task may be settled. */
    bool (*link)(struct wf_await *a, struct wf_sleeper *sleeper, weft_task *task);
    /* After the wait: unlinks what is still linked. */
    void (*unlink)(struct wf_await *a);
};

/* The part of a task that is a coroutine. owner: the thread that has it mounted, unless a field says otherwise */
struct wf_task_coro {
    struct weft_coro *base;  /* NULL: it has not started, or has ended */
    struct weft_coro *inner; /* while not mounted: the innermost of its coroutines */
    unsigned class, flags;   /* const: the class of its stack; the flags of weft_attr */
    bool done;               /* its function has returned, and it will not be mounted again */
    struct wf_await *await;  /* what it waits for */
    int64_t until;           /* its await's deadline */
    int result;              /* of its await. owner: the thread that settled it */
    uint32_t phase;          /* atomic: enum wf_await_phase */
    struct wf_lock gate;     /* held while its await is published; the resumed task passes it first */
    struct wf_waiter node;   /* guarded by: the awaited task's lock */
    struct wf_timer timer;   /* guarded by: the lock of deadline.c */
    weft_task *next;         /* in a struct wf_later, or in a list of deadline.c. owner: the thread that settled it */
};

struct weft_task {
    struct wf_work work; /* first: executors know a task by it */
    struct wf_flow flow;
    weft_task_fn *fn;             /* const */
    void *arg;                    /* const */
    void (*destroy)(void *value); /* const; NULL: none */
    char *name;                   /* const; owned; NULL: none */
    uint32_t refs;                /* atomic: counts the handle, its executor or fiber, each await */
    uint32_t forks; /* wf_forks when it was started. const, except in the child of a fork while it has one thread */

    struct wf_lock lock;
    uint32_t state; /* enum wf_task_state. atomic: changes under the lock, but to RUNNING; ENDED is released */
    int code;       /* const from ENDING on. RUNNING: owner: the task */
    uint32_t taken; /* atomic: 1: a caller has taken the value */
    bool is_freed;  /* its handle is gone. guarded by: lock */
    void *value;    /* from ENDING on. atomic: const, but for the caller that takes it. RUNNING: owner: the task */
    const void *finisher; /* ENDING: runs the callbacks; as of wf_flow_identity. guarded by: lock */
    bool owns;            /* const: weft_task_opts.owns_executor */
    weft_executor *owned; /* the executor to free with the task; NULL: none, or none any more. guarded by: lock */
    bool serial;          /* const: one thread calls all functions of its executor. A copy: the executor may be gone */
    struct weft_sched *on_sched; /* const: the scheduler whose fiber it is, or will be; NULL: it is no fiber */
    weft_fiber *fiber; /* the fiber that runs it, or is about to. atomic: set by the fiber, cleared under the lock */
    struct wf_waiters waiters;        /* guarded by: lock */
    struct wf_waiter *won;            /* ENDED: the waiters that are to be made ready. owner: the finisher */
    struct wf_callback *first, **end; /* guarded by: lock */
    unsigned own_used;                /* guarded by: lock */
    uint32_t looked;                  /* atomic: a call, a callback or a scope has seen its failure */

    int noted_code;             /* what the note is for; 0: there is none. owner: the task */
    char *note;                 /* of weft_fail, or of a task that it awaited; NULL: no memory. owner: the task */
    char *message;              /* const from ENDED on; NULL: that of weft_strerror */
    struct wf_context *context; /* its values until it is a fiber; NULL: none. owner: the task */
    uint32_t cancellers;        /* threads that use `fiber`, which waits for them before it ends. guarded by: lock */
    uint32_t in_walk;           /* atomic: 1: a cancel of its scope holds it, and is about to cancel it */
    struct wf_cause scope_why;  /* why its scope was cancelled. owner: the canceller that has set in_walk */
    struct wf_child child;      /* its place in a scope. Valid if child.scope is set */
    weft_task *awaits;          /* the task that it waits for, or NULL. guarded by: the lock of ring.c */
    struct wf_group *group;     /* the group that it waits for, or NULL. guarded by: the lock of ring.c */

    /* Not set in a new task. */
    struct wf_callback own[WF_OWN_CALLBACKS]; /* guarded by: lock; own_used says how many are in use */
    struct wf_task_coro coro;                 /* of a task that is a coroutine */
};

static inline weft_task *wf_task_of(struct wf_work *work)
{
    return (weft_task *)work;
}

static inline bool wf_task_has_ended(const weft_task *t)
{
    return wf_load_acquire(&t->state) == WF_TASK_ENDED; /* pairs with wf_task_finish */
}

/* References. */
static inline void wf_task_hold(weft_task *t)
{
    wf_add(&t->refs, 1);
}

void wf_task_let_go(weft_task *t);

/* task.c: whether the caller may read code and value: the task has ended, or the caller is in one of its callbacks. */
bool wf_task_is_readable(weft_task *t);

/* Ends a task whose function has returned, or will never run: runs the callbacks, settles the waiters into t->won. */
void wf_task_finish(weft_task *t, int code, void *value);

/* After that: makes the waiters ready. Coroutines that are to run on this thread go to `later`. */
void wf_task_tell(weft_task *t, struct wf_later *later);

/* A task that never runs ends on the calling thread, as a plain function of its executor. `later` as wf_task_tell's. */
void wf_task_end_unrun(weft_task *t, int code, struct wf_later *later);

/*
 * The handle of a child of a scope is being freed: destroys the value in this call if the task has ended. Else the task
 * does so before it leaves the scope. After the close, what the destructor uses may be gone.
 */
void wf_task_leave_value(weft_task *t);

/* Takes a task that has ended out of its scope. Returns the executor that the caller must abandon, or NULL. */
weft_executor *wf_task_leave(weft_task *t, struct wf_later *later);

/* The last act of a task: leaves its scope and its executor, and lets go of an executor that it owns. */
void wf_task_over(weft_task *t, struct wf_later *later);

/*
 * The fiber that runs the task; it does not end before wf_task_release_fiber. NULL: no fiber runs the task now. The
 * caller has set a mark in the flow. A fiber that this call does not see will see the mark when it begins.
 */
weft_fiber *wf_task_keep_fiber(weft_task *t);
void wf_task_release_fiber(weft_task *t);

/* Asks a task to end, as weft_task_cancel does. */
int wf_task_cancel(weft_task *t, const struct wf_cause *why, struct wf_later *later);

/* callbacks.c: calls one. */
void wf_callback_call(weft_task *t, const struct wf_callback *c);

/* task_coro.c */
void wf_task_coro_run(struct wf_work *work); /* the executor's first call */
/*
 * Tells its executor to continue a task that the caller has settled, or adds it to `later`; `now`: before others there,
 * because these may wait for its end.
 */
void wf_task_resume(weft_task *t, struct wf_later *later, bool now);
int wf_task_suspend(weft_task *me, struct wf_await *a, weft_time deadline); /* called in `me` */

/* Races for a coroutine that waits. True: won, and the caller must call wf_task_resume, once. */
static inline bool wf_task_settle(weft_task *t, int result)
{
    uint32_t waits = WF_AWAIT_WAITING;
    if (!wf_cas(&t->coro.phase, &waits, WF_AWAIT_SETTLED)) /* pairs with publish in task_coro.c */
        return false;
    t->coro.result = result;
    return true;
}

/* deadline.c: the timer of a coroutine's await. 0, or -EAGAIN: no thread to be had. */
int wf_task_deadline_add(weft_task *t, int64_t when);
void wf_task_deadline_del(weft_task *t);
void wf_task_deadline_in_child(void);

/* task_error.c */
void wf_task_note(weft_task *t, int code, const char *format, ...) WF_PRINTF(3, 4);
void wf_task_pass_on(weft_task *to, const weft_task *failed); /* `to` has awaited it */
void wf_task_make_message(weft_task *t);
void wf_task_report(const weft_task *t);

/* group.c: a member of a group has ended. True: the group's waiter was won. Called with the member's lock. */
bool wf_group_note(struct wf_waiter *member, const weft_task *ended);
void wf_group_ready(struct wf_waiter *member, struct wf_later *later);

/*
 * ring.c: `me` is about to wait for t or for g, the other one is NULL. 0; or -EDEADLK, with a message that names the
 * ring: then `me` must not wait. After 0 and the wait: leave.
 */
int wf_ring_enter(weft_task *me, weft_task *t, struct wf_group *g);
void wf_ring_leave(weft_task *me);
void wf_ring_in_child(void);

/* In wf_waiter.index of a waiter for a task. */
enum { WF_AWAITS_ONE = 0, WF_AWAITS_GROUP = 1 };

/* task_await.c: the common parts of await and groups. `flow` is the caller's, of wf_flow_task. */
bool wf_await_is_cancelled(const struct wf_flow *flow, weft_time deadline);
bool wf_await_suspends(
    const struct wf_flow *flow); /* false: it blocks; also where no thread could resume it after a fork */
int wf_await_refused(const struct wf_flow *flow, weft_task *t); /* whether it must not wait for t: 0, or a code */
int wf_await_result(weft_task *t, void **value);                /* of a task that has ended */
void wf_task_in_child(void);

/* task_scope.c: a task as the child of a scope. */
int wf_task_join_scope(weft_task *t, weft_scope *scope); /* 0, or why not: -EPERM, -ECANCELED, -EAGAIN */
void wf_task_leave_scope(weft_task *t, int code, bool cancelled, struct wf_later *later);
int wf_task_move_context(weft_task *t); /* gives the context values to the task's fiber: 0, or -ENOMEM */

#endif
