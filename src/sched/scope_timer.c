/*
 * sched/scope_timer.c: the deadlines of scopes. A fiber has one timer, for the earliest deadline of the scopes that it
 * has open. The timer is in the wheel of a worker's timers (sched/timers.h), which any thread may change under its
 * lock.
 *
 *      IDLE ──set──▶ ARMED ──its time has come──▶ FIRING ──▶ ARMED or IDLE
 *        ▲             │
 *        └────set──────┘
 *
 * The worker makes the timer FIRING under the lock of its timers, and then cancels the scopes without that lock. The
 * owner closes no scope while the timer is FIRING (wf_family_lock_quiet).
 */
#include "base/clock.h"
#include "base/errno.h"
#include "base/thread.h"
#include "sched/family.h"
#include "sched/timer.h"
#include "sched/worker.h"

static struct wf_extra *extra_of(struct wf_scope_timer *t)
{
    return (struct wf_extra *)((char *)t - offsetof(struct wf_extra, timer));
}

/* The earliest time at which an open scope, not yet cancelled, is to be cancelled. */
static int64_t next_due(const struct wf_extra *x)
{
    int64_t next = INT64_MAX;
    for (const struct wf_scope *s = x->open; s; s = s->outer) {
        if (wf_scope_kind(s) == 0 && s->due < next)
            next = s->due;
    }
    return next;
}

/* Takes the timer out of the wheel. False: it is FIRING. */
static bool take_out(struct wf_scope_timer *t)
{
    struct wf_timers *ts = t->in;
    if (!ts)
        return true;
    wf_lock(&ts->lock);
    uint32_t state = t->state;
    if (state == WF_SCOPE_TIMER_ARMED) {
        wf_wheel_del(&ts->wheel, &t->entry);
        wf_store(&ts->scopes, ts->scopes - 1);
        wf_store(&t->state, WF_SCOPE_TIMER_IDLE);
    }
    wf_unlock(&ts->lock);
    return state != WF_SCOPE_TIMER_FIRING;
}

static void put_in(struct wf_scope_timer *t, struct wf_timers *ts, int64_t when)
{
    wf_lock(&ts->lock);
    if (ts->life != WF_TIMERS_CLOSED) { /* else every fiber was cancelled */
        t->in = ts;
        t->entry.kind = WF_ENTRY_SCOPE;
        wf_store(&ts->scopes, ts->scopes + 1);
        wf_wheel_add(&ts->wheel, &t->entry, when);
        if (when < ts->next)
            wf_timers_bring_forward(ts, when);
        wf_store(&t->state, WF_SCOPE_TIMER_ARMED);
    }
    wf_unlock(&ts->lock);
}

void wf_scope_timer_set(struct wf_extra *x, weft_fiber *owner)
{
    struct wf_scope_timer *t = &x->timer;
    int64_t when = next_due(x);
    if (wf_load(&t->state) == WF_SCOPE_TIMER_ARMED && t->entry.when == when)
        return;
    if (!take_out(t)) /* the firing timer looks at the scopes again before it is done */
        return;
    if (when != INT64_MAX)
        put_in(t, wf_load(&owner->home)->timers, when);
}

/* The outermost scope that is due, and why it is cancelled; NULL: none. */
static struct wf_scope *due_scope(const struct wf_extra *x, int64_t now, struct wf_cause *why)
{
    struct wf_scope *due = NULL;
    for (struct wf_scope *s = x->open; s; s = s->outer) {
        if (wf_scope_kind(s) == 0 && s->due <= now)
            due = s;
    }
    if (due && due->due_is_grace)
        *why = (struct wf_cause){WEFT_CAUSE_CALL, -ECANCELED, "the grace of weft_scope_stop is over", 0};
    else
        *why = (struct wf_cause){.kind = WEFT_CAUSE_DEADLINE, .code = -ETIMEDOUT};
    return due;
}

void wf_scope_timer_fires(struct wf_scope_timer *t)
{
    struct wf_extra *x = extra_of(t);
    struct wf_timers *ts = t->in;
    struct wf_cause why;
    struct wf_later later = {0};
    wf_lock(&x->lock);
    for (struct wf_scope *s; (s = due_scope(x, wf_clock_now(), &why)) != NULL;) {
        wf_unlock(&x->lock); /* FIRING keeps s open */
        wf_scope_cancel(s, &why, &later);
        wf_lock(&x->lock);
    }
    int64_t when = next_due(x);
    if (when != INT64_MAX)
        put_in(t, ts, when);
    if (when == INT64_MAX || wf_load(&t->state) != WF_SCOPE_TIMER_ARMED)
        wf_store_release(&t->state, WF_SCOPE_TIMER_IDLE); /* pairs with wf_family_lock_quiet */
    wf_unlock(&x->lock);
    wf_later_apart(&later); /* after FIRING: the owner may close its scopes. This is the worker's stack */
}
