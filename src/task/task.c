/*
 * task/task.c: a task's end, and the calls that never wait; see task.h. Any thread.
 */
#include "task/task.h"

#include "base/barrier.h"
#include "base/errno.h"
#include "base/sys.h"
#include "sched/family.h"
#include "sched/fork.h"
#include "sched/slice.h"

static void release(weft_task *t)
{
    if (t->code == 0 && t->value && !t->taken && t->destroy)
        t->destroy(t->value);
    if (WF_DEBUG)
        wf_task_report(t);
    if (t->context)
        wf_context_let_go(t->context);
    if (t->note)
        wf_sys_free(t->note);
    if (t->message)
        wf_sys_free(t->message);
    if (t->name)
        wf_sys_free(t->name);
    struct wf_thread *me = wf_thread_now();
    if (me->listed && !me->spare_task && !WF_DEBUG) /* debug builds free it, so that sanitizers see later uses */
        me->spare_task = t;
    else
        wf_sys_free(t);
}

void wf_task_let_go(weft_task *t)
{
    /* Acquire: pairs with the others that let go. The holder of the only reference need not count. */
    if (wf_load_acquire(&t->refs) == 1 || wf_add(&t->refs, (uint32_t)-1) == 1)
        release(t);
}

/* Settles all waiters, and returns those that it won. Called with the lock. */
static struct wf_waiter *win_all(weft_task *t)
{
    struct wf_waiter *won = NULL, **end = &won;
    for (struct wf_waiter *w; (w = t->waiters.first) != NULL;) {
        wf_waiters_remove(&t->waiters, w);
        bool is_won = w->index == WF_AWAITS_GROUP ? wf_group_note(w, t)
                      : w->who                    ? wf_settle(w->who, 0)
                                                  : wf_task_settle(w->data, 0);
        if (is_won) {
            *end = w;
            end = &w->next;
        }
    }
    *end = NULL;
    return won;
}

/* Takes out the first callback. With the lock. */
static struct wf_callback *next_callback(weft_task *t)
{
    struct wf_callback *c = t->first;
    if (c) {
        t->first = c->next;
        if (!t->first)
            t->end = &t->first;
    }
    return c;
}

static bool is_own(const weft_task *t, const struct wf_callback *c)
{
    return c >= t->own && c < t->own + WF_OWN_CALLBACKS;
}

void wf_task_finish(weft_task *t, int code, void *value)
{
    t->code = code > 0 ? -EINVAL : code;
    if (wf_unlikely(t->code != 0))
        wf_task_make_message(t);
    wf_lock(&t->lock);
    wf_store(&t->fiber, NULL);               /* from here on it cannot be cancelled */
    while (wf_unlikely(t->cancellers > 0)) { /* they use the fiber */
        wf_unlock(&t->lock);
        weft_yield();
        wf_lock(&t->lock);
    }
    t->value = t->code == 0 ? value : NULL;
    t->finisher = t->first ? wf_flow_identity() : NULL;
    wf_store(&t->state, WF_TASK_ENDING);
    for (struct wf_callback *c; (c = next_callback(t)) != NULL;) {
        wf_unlock(&t->lock);
        wf_callback_call(t, c);
        if (!is_own(t, c))
            wf_sys_free(c);
        wf_lock(&t->lock);
    }
    wf_store_release(&t->state, WF_TASK_ENDED); /* pairs with wf_task_has_ended */
    t->won = win_all(t);
    wf_unlock(&t->lock);
}

void wf_task_tell(weft_task *t, struct wf_later *later)
{
    struct wf_waiter *won = t->won;
    if (!won)
        return;
    if (wf_likely(!won->next && won->who)) { /* one fiber or thread, as in most cases */
        wf_ready(won->who);
        return;
    }
    while (won) {
        struct wf_waiter *next = won->next; /* `won` is gone when its owner goes on */
        if (won->index == WF_AWAITS_GROUP)
            wf_group_ready(won, later);
        else if (won->who)
            wf_ready(won->who);
        else
            wf_task_resume(won->data, later, false);
        won = next;
    }
}

/* The executor that a task owns, if the caller must free it. `freed`: the task's handle is being freed. */
static weft_executor *take_owned(weft_task *t, bool freed)
{
    if (wf_likely(!t->owns))
        return NULL;
    struct wf_lock *lock = wf_fork_lock(&t->lock, t->forks);
    wf_lock(lock);
    t->is_freed |= freed;
    bool is_mine = t->is_freed && wf_load(&t->state) == WF_TASK_ENDED; /* before the end its finisher takes it */
    weft_executor *owned = is_mine ? t->owned : NULL;
    if (is_mine)
        t->owned = NULL;
    wf_unlock(lock);
    return owned;
}

weft_executor *wf_task_leave(weft_task *t, struct wf_later *later)
{
    weft_executor *owned = take_owned(t, false);
    if (wf_unlikely(t->child.scope))
        wf_task_leave_scope(t, t->code, wf_flow_is_cancelled(&t->flow), later);
    return owned;
}

void wf_task_over(weft_task *t, struct wf_later *later)
{
    weft_executor *owned = wf_task_leave(t, later);
    if (t->work.on)
        wf_executor_over(&t->work);
    else
        wf_task_let_go(t);
    if (owned)
        wf_executor_abandon(owned, later);
}

void wf_task_end_unrun(weft_task *t, int code, struct wf_later *later)
{
    struct wf_flow flow = {.executor = t->work.on, .task = t, .unrun = true};
    wf_flow_enter(&flow);
    wf_task_finish(t, code, NULL);
    wf_flow_leave(&flow);
    wf_task_tell(t, later);
}

weft_task *weft_task_current(void)
{
    return wf_flow_current();
}

/* Whether the caller may read the task's result. Called with the lock. */
static bool is_readable(const weft_task *t)
{
    return wf_load(&t->state) == WF_TASK_ENDED ||
           (wf_load(&t->state) == WF_TASK_ENDING && t->finisher == wf_flow_identity());
}

bool wf_task_is_readable(weft_task *t)
{
    if (wf_likely(wf_task_has_ended(t)))
        return true;
    if (t->forks != wf_forks)
        return false; /* its lock may be held by a thread that is in the parent of a fork */
    wf_lock(&t->lock);
    bool is = is_readable(t);
    wf_unlock(&t->lock);
    return is;
}

int weft_task_take(weft_task *t, void **value)
{
    wf_slice_enter();
    if (!t || !value)
        return -EINVAL;
    if (!wf_task_is_readable(t))
        return -EAGAIN;
    if (t->code != 0)
        return t->code;
    if (wf_exchange(&t->taken, 1u) != 0)
        return -EALREADY;
    *value = t->value;
    wf_store(&t->value, NULL); /* for awaits */
    return 0;
}

weft_fiber *wf_task_keep_fiber(weft_task *t)
{
    wf_barrier_heavy();                         /* pairs with begin_fiber's: it sees the mark, or we see the fiber */
    wf_lock(&t->lock);                          /* the fiber is there as long as it is known */
    weft_fiber *f = wf_load_acquire(&t->fiber); /* pairs with begin_fiber */
    t->cancellers += f != NULL;
    wf_unlock(&t->lock);
    return f;
}

void wf_task_release_fiber(weft_task *t)
{
    wf_lock(&t->lock);
    t->cancellers -= t->cancellers > 0; /* 0 in the child of a fork that a task made while the caller cancelled it */
    wf_unlock(&t->lock);
}

int wf_task_cancel(weft_task *t, const struct wf_cause *why, struct wf_later *later)
{
    if (wf_load(&t->state) >= WF_TASK_ENDING || wf_unlikely(t->forks != wf_forks))
        return -ESRCH;
    wf_flow_cancel(&t->flow, why);
    if (t->flow.suspends) {
        wf_fence(); /* pairs with publish in task_coro.c */
        if (wf_task_settle(t, -ECANCELED))
            wf_task_resume(t, later, true);
        return 0;
    }
    weft_fiber *f = wf_task_keep_fiber(t);
    if (!f)
        return 0;
    wf_family_cancel(f, why, later);
    wf_task_release_fiber(t);
    return 0;
}

int weft_task_cancel(weft_task *t)
{
    wf_slice_here();
    if (!t)
        return -EINVAL;
    wf_fork_look();
    struct wf_cause why = wf_cause_here(WEFT_CAUSE_CALL, -ECANCELED, NULL);
    struct wf_later later = {0};
    int rc = wf_task_cancel(t, &why, &later);
    wf_later_here(&later);
    return rc;
}

void weft_task_free(weft_task *t)
{
    wf_slice_enter();
    if (!t)
        return;
    if (wf_unlikely(t->child.scope))
        wf_task_leave_value(t);
    weft_executor *owned = take_owned(t, true);
    wf_task_let_go(t);
    if (wf_unlikely(owned))
        weft_executor_free(owned);
}
