/*
 * task/task_await.c: waiting for one task; see weft/task.h. Tasks, fibers and any thread.
 */
#include "base/errno.h"
#include "base/sys.h"
#include "coro/coro.h"
#include "sched/fork.h"
#include "sched/slice.h"
#include "task/task.h"

bool wf_await_is_cancelled(const struct wf_flow *flow, weft_time deadline)
{
    if (flow && flow->suspends)
        return wf_flow_is_cancelled(flow) && !wf_time_is_now(deadline);
    return wf_cancel_point(wf_thread_now()->fiber, deadline);
}

int wf_await_result(weft_task *t, void **value)
{
    if (wf_unlikely(t->code != 0)) {
        weft_task *me = weft_task_current();
        wf_store(&t->looked, 1);
        if (me && me != t)
            wf_task_pass_on(me, t);
        return t->code;
    }
    if (value)
        *value = wf_load(&t->value); /* NULL once it was taken */
    return 0;
}

/*
 * Whether the calling thread would wait for a task that only this thread can run. The task may end during the call, and
 * then its executor may be freed: only the executor's address is used. If a newer executor has that address, and the
 * caller is inside the newer one, then the task has ended, and the caller sees that.
 */
static bool needs_this_thread(const weft_task *t)
{
    if (t->serial && !wf_thread_now()->fiber)
        return wf_flow_is_inside(t->work.on) && !wf_task_has_ended(t);
    return wf_needs_this_worker(t->on_sched);
}

bool wf_await_suspends(const struct wf_flow *flow)
{
    return flow && flow->suspends && !flow->blocks;
}

int wf_await_refused(const struct wf_flow *flow, weft_task *t)
{
    weft_task *me = flow ? flow->task : NULL;
    if (t->forks != wf_forks)
        return -ESRCH;
    if (me == t) {
        wf_task_note(me, -EDEADLK, "%s awaits itself", me->name ? me->name : "the task");
        return -EDEADLK;
    }
    return !wf_await_suspends(flow) && needs_this_thread(t) ? -EDEADLK : 0;
}

/* A coroutine's wait for one task. */
struct one {
    struct wf_await await;
    weft_task *task, *me;
};

static bool link_one(struct wf_await *a, struct wf_sleeper *sleeper, weft_task *me)
{
    weft_task *t = ((struct one *)a)->task;
    (void)sleeper;
    wf_lock(&t->lock);
    bool waits = wf_load(&t->state) != WF_TASK_ENDED;
    if (waits) {
        me->coro.node = (struct wf_waiter){.data = me, .index = WF_AWAITS_ONE};
        wf_waiters_add(&t->waiters, &me->coro.node, NULL);
    }
    wf_unlock(&t->lock);
    return waits;
}

static void unlink_one(struct wf_await *a)
{
    struct one *one = (struct one *)a;
    wf_lock(&one->task->lock);
    wf_waiters_remove(&one->task->waiters, &one->me->coro.node);
    wf_unlock(&one->task->lock);
}

static int wait_suspended(weft_task *me, weft_task *t, weft_time deadline)
{
    struct one one = {.await = {link_one, unlink_one}, .task = t, .me = me};
    me->coro.node.prev = &me->coro.node; /* not linked */
    return wf_task_suspend(me, &one.await, deadline);
}

/* A fiber, or a thread. Inline: a return that follows a switch is mispredicted. */
static inline __attribute__((always_inline)) int wait_blocked(weft_task *t, weft_time deadline)
{
    struct wf_sleeper own, *me = wf_sleeper(&own);
    wf_lock(&t->lock);
    if (wf_load(&t->state) == WF_TASK_ENDED) {
        wf_unlock(&t->lock);
        return 0;
    }
    me->node.index = WF_AWAITS_ONE;
    wf_waiters_add(&t->waiters, &me->node, me);
    int rc = wf_wait_unlocking(me, "task", &t->lock, deadline);
    if (rc < 0) {
        wf_lock(&t->lock);
        wf_waiters_remove(&t->waiters, &me->node);
        wf_unlock(&t->lock);
    }
    return rc;
}

/* Waits for the end of a task: 0, or await's own failure. */
static int wait_for(weft_task *t, struct wf_flow *flow, weft_time deadline)
{
    wf_sys_point(WF_SYS_AWAIT);
    int rc = wf_await_refused(flow, t);
    if (rc != 0)
        return rc;
    weft_task *me = weft_task_current();
    if (me && (rc = wf_ring_enter(me, t, NULL)) != 0)
        return rc;
    rc = wf_await_suspends(flow) ? wait_suspended(flow->task, t, deadline) : wait_blocked(t, deadline);
    if (me)
        wf_ring_leave(me);
    if (rc == -ETIMEDOUT && wf_task_has_ended(t))
        rc = 0;
    return rc;
}

/* A fiber that is not inside a task awaits a task that has not ended: most awaits. */
static inline bool is_plain(const struct wf_thread *me, const weft_task *t, weft_time deadline)
{
    const weft_fiber *f = me->fiber;
    return f && me->current == f->coro && !f->coro->user && wf_load(&t->state) < WF_TASK_ENDING &&
           t->forks == wf_forks && !wf_time_is_now(deadline);
}

int weft_task_await(weft_task *t, void **value, weft_time deadline)
{
    if (wf_unlikely(!t))
        return -EINVAL;
    const struct wf_thread *thread = wf_slice_enter_as();
    if (wf_likely(is_plain(thread, t, deadline))) {
        if (wf_cancel_point(thread->fiber, deadline))
            return -ECANCELED;
        int rc = wait_blocked(t, deadline);
        return rc == 0 || (rc == -ETIMEDOUT && wf_task_has_ended(t)) ? wf_await_result(t, value) : rc;
    }
    struct wf_flow *flow = wf_flow_task();
    if (wf_unlikely(wf_load(&t->state) == WF_TASK_ENDING) && wf_task_is_readable(t))
        return wf_await_result(t, value); /* in a callback of the task */
    if (wf_await_is_cancelled(flow, deadline))
        return -ECANCELED;
    if (wf_task_has_ended(t))
        return wf_await_result(t, value);
    if (wf_time_is_now(deadline))
        return -EAGAIN;
    int rc = wait_for(t, flow, deadline);
    return rc == 0 ? wf_await_result(t, value) : rc;
}

/* A task that goes on in the child of a fork. No other thread uses it there, and it is no longer a child of a scope. */
static bool keep(struct wf_flow *flow, const void *arg)
{
    weft_task *t = flow->task;
    (void)arg;
    if (t) {
        flow->lock = (struct wf_lock){0};
        t->lock = (struct wf_lock){0};
        t->waiters = (struct wf_waiters){NULL, NULL};
        t->cancellers = t->in_walk = 0;
        t->child.scope = NULL;
        t->forks = wf_forks;
        flow->blocks = flow->executor && flow->executor->has_threads;
    }
    return false;
}

/* In the child of a fork: the tasks that the forking thread is inside go on. No other thread waits for anything. */
void wf_task_in_child(void)
{
    wf_ring_in_child();
    wf_fork_shared_lock = (struct wf_lock){0};
    wf_flow_find(keep, NULL);
    wf_task_deadline_in_child();
}
