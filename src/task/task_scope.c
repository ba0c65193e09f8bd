/*
 * task/task_scope.c: a task as the child of a scope (sched/family.h), and the context values that a task inherits.
 *
 * A scope treats every task as a child that is not a fiber, whatever the task runs on. The scope's cancel takes a
 * reference to the task under the family's lock. It cancels the task afterwards, without a lock, because a task on noop
 * continues in that call.
 */
#include <stdio.h>

#include "base/errno.h"
#include "base/thread.h"
#include "coro/coro.h"
#include "sched/dump_scopes.h"
#include "sched/family.h"
#include "task/scope.h"
#include "task/task.h"

static weft_task *task_of(struct wf_child *c)
{
    return (weft_task *)((char *)c - offsetof(weft_task, child));
}

static bool hold(struct wf_child *c, const struct wf_cause *why)
{
    weft_task *t = task_of(c);
    if (wf_exchange(&t->in_walk, 1u) != 0) /* acquire: pairs with cancel's store */
        return false;
    t->scope_why = *why;
    wf_task_hold(t); /* the task is in its scope's list, so it is still alive */
    return true;
}

static void cancel(struct wf_child *c, struct wf_later *later)
{
    weft_task *t = task_of(c);
    struct wf_cause why = t->scope_why;
    wf_store_release(&t->in_walk, 0); /* pairs with hold */
    wf_task_cancel(t, &why, later);
    wf_task_let_go(t);
}

static bool stop(struct wf_child *c)
{
    weft_task *t = task_of(c);
    if (wf_exchange(&t->flow.stopping, 1u) != 0)
        return false;
    wf_task_hold(t); /* it is in its scope's list, so it is there */
    return true;
}

static weft_fiber *stopped_fiber(struct wf_child *c)
{
    return wf_task_keep_fiber(task_of(c));
}

static void let_go(struct wf_child *c, weft_fiber *f)
{
    weft_task *t = task_of(c);
    if (f)
        wf_task_release_fiber(t);
    wf_task_let_go(t);
}

static void describe(struct wf_child *c, struct wf_child_text *to)
{
    weft_task *t = task_of(c);
    to->is_task = true;
    to->begun = wf_load(&t->state) != WF_TASK_QUEUED;
    wf_lock(&t->lock);                                /* the fiber is there as long as it is known */
    const weft_fiber *f = wf_load_acquire(&t->fiber); /* pairs with begin_fiber */
    if (f)
        wf_child_describe_fiber(to, f);
    wf_unlock(&t->lock);
    snprintf(to->name, sizeof to->name, "%s", t->name ? t->name : "");
    if (t->work.on && !t->work.on->sched)
        snprintf(to->on, sizeof to->on, "%s", weft_executor_name(t->work.on));
}

bool wf_task_is_child_of(const struct wf_scope *s)
{
    const weft_task *me = weft_task_current();
    return me && me->child.scope == s;
}

int wf_task_join_scope(weft_task *t, weft_scope *scope)
{
    static const struct wf_child_ops ops = {hold, cancel, stop, stopped_fiber, let_go, describe};
    struct wf_scope *s = wf_scope_of(scope);
    int rc = wf_scope_may_go(s, wf_thread_now()->fiber);
    if (rc != 0)
        return rc;
    struct wf_lock *lock = &wf_extra_of(s->owner)->lock;
    wf_lock(lock);
    if (!wf_scope_takes_children(s))
        rc = -ECANCELED;
    else if (s->live >= s->at_once)
        rc = -EAGAIN;
    if (rc == 0) {
        t->child = (struct wf_child){.ops = &ops};
        t->flow.in_scope = true;
        wf_child_link(s, &t->child);
        t->flow.stopping = s->stopping || wf_load(&s->owner->sleeper.bits) & WF_STOPPING;
    }
    wf_unlock(lock);
    return rc;
}

/* Takes the value of a task whose handle is gone: nobody else can. guarded by: the task's lock */
static void *take_value(weft_task *t)
{
    void *value = t->destroy && t->is_freed ? t->value : NULL;
    if (value)
        wf_store(&t->value, NULL); /* for the release */
    return value;
}

void wf_task_leave_value(weft_task *t)
{
    if (wf_unlikely(t->forks != wf_forks))
        return;
    wf_lock(&t->lock);
    t->is_freed = true;
    void *value = wf_load(&t->state) == WF_TASK_ENDED ? take_value(t) : NULL; /* else the task does it at its end */
    wf_unlock(&t->lock);
    if (value)
        t->destroy(value);
}

static void destroy_value(weft_task *t)
{
    wf_lock(&t->lock);
    void *value = take_value(t);
    wf_unlock(&t->lock);
    if (!value)
        return;
    struct wf_flow flow = {.executor = t->work.on}; /* the destructor may free the executor */
    wf_flow_enter(&flow);
    t->destroy(value);
    wf_flow_leave(&flow);
}

void wf_task_leave_scope(weft_task *t, int code, bool cancelled, struct wf_later *later)
{
    const weft_fiber *f = t->flow.suspends ? NULL
                                           : wf_thread_now()->fiber; /* a fiber that is the task ends in itself */
    weft_failure who = {.code = code, .fiber = f ? f->id : 0, .site = "weft_task_start"};
    if (t->destroy)
        destroy_value(t);
    wf_store(&t->looked, 1); /* the scope has seen the failure */
    wf_child_end(&t->child, code, cancelled, &who, later);
}

int wf_task_move_context(weft_task *t)
{
    struct wf_extra *x = wf_extra(wf_thread_now()->fiber);
    if (!x)
        return -ENOMEM;
    x->context = t->context;
    t->context = NULL;
    return 0;
}
