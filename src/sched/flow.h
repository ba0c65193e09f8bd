/*
 * sched/flow.h: a flow is what runs on a stack on behalf of an executor: a task, or a plain function. src/task makes
 * flows. This layer lets a cancel end the waits of a task that is not a fiber.
 *
 * A flow is found from its stack: the record of the base coroutine (coro/mount.h) points to it. On a thread's own stack
 * there is no coroutine, and the thread points to the flow. So a flow moves with its stack from thread to thread, and a
 * switch need not save it.
 *
 * A plain function on noop may also run on a raw coroutine, and yield out of it. Then the caller of the resume goes on
 * outside of the function, and another thread or fiber may resume the coroutine, and be inside the function. So a flow
 * that is entered on a raw coroutine is noted for that coroutine, in a list of all of them: the record of a raw
 * coroutine has no room for it. Without memory for the note, calls inside the function do not know that they are.
 *
 * Cancelling. The canceller takes the lock, sets `cancelled` and wakes up the thread that waits in `sleeper`, or polls
 * beside `wake`. A thread that is about to wait takes the same lock, looks at `cancelled`, and only then stores its
 * sleeper. After the wait it takes the sleeper out under the lock. So the canceller never touches a sleeper that is
 * gone.
 */
#ifndef WF_SCHED_FLOW_H
#define WF_SCHED_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/lock.h"
#include "base/thread.h"
#include "fiber/extra.h"

struct weft_coro;
struct weft_executor;
struct weft_task;
struct wf_sleeper;

struct wf_flow {
    struct wf_flow *outer;          /* the flow that it interrupts on the same coroutine, or NULL. owner: the flow */
    struct weft_executor *executor; /* const: what runs it; NULL: a scheduler, without an executor */
    struct weft_task *task;         /* const; NULL: it is a plain function */
    bool suspends;                  /* const: an await suspends it alone: it has a base coroutine of its own */
    bool in_scope;                  /* const: the task is a child of a scope */
    bool unrun;        /* const: its task never runs; the task's callbacks do, on a stack that is not the task's */
    bool blocks;       /* an await blocks its thread: no thread could resume it. const, except in the child of a fork */
    uint32_t deaf;     /* how many calls under way keep its waits from being cancelled. owner: the flow */
    uint32_t stopping; /* atomic: the task's scope is to stop. begin_fiber says what it pairs with */
    uint32_t cancelled; /* atomic: set under the lock, after `cause` */
    struct wf_lock lock;
    struct wf_cause cause;      /* of the first cancel. guarded by: lock */
    struct wf_sleeper *sleeper; /* its thread waits in it, or NULL. guarded by: lock */
    int wake;                   /* the eventfd that its thread polls beside others, plus 1; 0: none. guarded by: lock */
};

/* The innermost flow that is a task, or NULL. The caller is on that task's stack, so `unrun` flows do not count. */
struct wf_flow *wf_flow_task(void);

/* The task that the caller works for, or NULL: the task of wf_flow_task, or the one whose callback the caller runs. */
struct weft_task *wf_flow_current(void);

/*
 * The calling fiber, for what belongs to a fiber. NULL: a plain thread, or a task on noop inside a fiber, because such
 * a task leaves the fiber at an await.
 */
struct weft_fiber *wf_flow_fiber(void);

/* Calls see(flow, arg) for the thread's flows, innermost first, until see returns true. Returns that flow, or NULL. */
struct wf_flow *wf_flow_find(bool (*see)(struct wf_flow *flow, const void *arg), const void *arg);

/* From enter to leave, `flow` runs on the caller's coroutine (or own stack); leave is called there. Flows nest. */
void wf_flow_enter(struct wf_flow *flow);
void wf_flow_leave(struct wf_flow *flow);

/* Whether the calling thread (in a fiber: that fiber) is inside a function or a task of this executor. */
bool wf_flow_is_inside(const struct weft_executor *executor);

/* Identifies the caller until it returns: its base coroutine, or its thread. */
const void *wf_flow_identity(void);

static inline bool wf_flow_is_cancelled(const struct wf_flow *flow)
{
    return wf_load(&flow->cancelled);
}

/* Marks a flow as cancelled; the first cause counts. Any thread. The flow must stay valid during the call. */
void wf_flow_cancel(struct wf_flow *flow, const struct wf_cause *why);

/* Why the calling task, which is not a fiber, is cancelled. kind 0: it is not cancelled, or there is no such task. */
struct wf_cause wf_flow_cause(void);

/* From begin to end no cancel ends a wait of the caller: fiber f, or (f NULL) a task that is none. They nest. */
struct wf_deaf {
    struct weft_fiber *fiber; /* NULL: a thread */
    struct wf_flow *flow;     /* NULL: no task, or a fiber */
    bool was;
};

struct wf_deaf wf_deaf_begin(struct weft_fiber *f);
void wf_deaf_end(const struct wf_deaf *deaf);

/* The flow whose cancel ends waits of the calling thread now, or NULL. */
struct wf_flow *wf_flow_cancellable(void);

/* Around a wait in `sleeper`, which is WAITING when it begins. Begin is false if the flow was cancelled before. */
bool wf_flow_wait_begin(struct wf_flow *flow, struct wf_sleeper *sleeper);
void wf_flow_wait_end(struct wf_flow *flow);

/* Around a poll beside the eventfd `wake`. Begin is false if the flow was cancelled before. */
bool wf_flow_poll_begin(struct wf_flow *flow, int wake);
void wf_flow_poll_end(struct wf_flow *flow);

/* Around a fork: the list is whole in the child. */
void wf_flow_fork_begin(void);
void wf_flow_fork_end(void);

#endif
