/*
 * sched/timer.c: the calls of weft/timer.h, for any thread; see timer.h.
 */
#include "sched/timer.h"

#include "base/errno.h"
#include "base/clock.h"
#include "base/sys.h"
#include "sched/alive.h"
#include "sched/sched.h"
#include "sched/slice.h"
#include "sched/worker.h"

/* What a new timer is to be. */
struct order {
    void (*fn)(void *);
    void *arg;
    weft_alive *cond;
    int64_t period, now;
    bool recurring;
};

/* Adds it, in memory that stays the caller's unless this returns 0. `out` is written before the callback can begin. */
static inline __attribute__((always_inline)) int add(weft_timer *t, struct wf_timers *ts, struct order o,
                                                     weft_timer **out)
{
    if (wf_unlikely(ts->life != WF_TIMERS_OPEN)) {
        if (ts->life == WF_TIMERS_CLOSED)
            return -ECANCELED;
        if (o.recurring)
            return -ESHUTDOWN;
    }
    t->entry.mark = wf_forks;
    t->entry.kind = WF_ENTRY_TIMER;
    t->entry.link = NULL; /* not armed. Field by field: gcc fills a whole record byte by byte */
    t->in = ts;
    t->period = o.period;
    t->start = o.now;
    t->state = WF_TIMER_NEW;
    t->recurring = o.recurring;
    t->held = out != NULL;
    t->carried = t->runs = t->awaited = t->at_once = false;
    t->cond = o.cond;
    t->fn = o.fn;
    t->arg = o.arg;
    t->missed = 0;
    ts->known++;
    if (out)
        *out = t;
    wf_timer_arm(t, wf_timer_later(o.now, o.period));
    wf_timer_recount(t, NULL); /* nobody is told of one that comes */
    return 0;
}

/* Takes the lock, and memory for a timer. NULL: there is none, and the lock is not held. */
static inline weft_timer *lock_with_memory(struct wf_timers *ts)
{
    weft_timer *t = NULL;
    for (;;) {
        if (wf_unlikely(!wf_load(&ts->spares)) && !(t = wf_sys_malloc(sizeof *t)))
            return NULL;
        wf_lock(&ts->lock);
        if (wf_unlikely(t))
            return t;
        t = ts->spares;
        if (wf_likely(t))
            break;
        wf_unlock(&ts->lock); /* others took what there was */
    }
    wf_store(&ts->spares, t->next);
    ts->spare_count--;
    return t;
}

/* By who is no fiber of it. */
static int add_to(weft_timer *t, weft_sched *s, struct order o, weft_timer **out)
{
    int rc = -ESHUTDOWN;
    wf_lock(&s->lock); /* of `life` */
    if (wf_sched_takes_work(s)) {
        struct wf_timers *ts = wf_sched_next_worker(s)->timers;
        wf_lock(&ts->lock);
        rc = add(t, ts, o, out);
        wf_unlock(&ts->lock);
    }
    wf_unlock(&s->lock);
    return rc;
}

/* By who is no fiber of `to`; NULL: that is the one that weft_run started. */
WF_NOINLINE static int add_from_outside(weft_sched *to, struct order o, weft_timer **out)
{
    weft_timer *t = wf_sys_malloc(sizeof *t);
    int rc = -ENOMEM;
    if (t && to) {
        rc = add_to(t, to, o, out);
    } else if (t) {
        weft_sched *s = wf_sched_hold_default();
        rc = s ? add_to(t, s, o, out) : -ENXIO;
        wf_sched_let_default_go();
    }
    if (rc != 0)
        wf_sys_free(t);
    if (rc != 0 && o.cond)
        wf_alive_forget(o.cond);
    return rc;
}

WF_COLD static int could_not(int rc, weft_timer *t, weft_alive *cond)
{
    wf_sys_free(t);
    if (cond)
        wf_alive_forget(cond);
    return rc;
}

/* Whether it can be done at all: 0, and the condition is known to one more; or a negative errno. */
static inline __attribute__((always_inline)) int begin_order(struct order *o)
{
    if (!o->fn || (o->recurring && o->period <= 0))
        return -EINVAL;
    if (o->cond && wf_alive_is_dropped(o->cond))
        return -ESRCH;
    if (o->cond)
        wf_alive_know(o->cond);
    o->now = wf_clock_now();
    return 0;
}

WF_ENTRY int weft_timer_new(weft_timer **out, weft_span period, bool recurring, weft_alive *cond, void (*fn)(void *arg),
                            void *arg)
{
    const struct wf_thread *me = wf_slice_enter_as();
    struct order o = {.fn = fn, .arg = arg, .cond = cond, .period = period, .recurring = recurring};
    int rc = begin_order(&o);
    if (wf_unlikely(rc != 0))
        return rc;
    if (!me->fiber)
        return add_from_outside(me->worker ? me->worker->sched : NULL, o, out);
    struct wf_timers *ts = me->worker->timers;
    weft_timer *t = lock_with_memory(ts);
    if (wf_unlikely(!t))
        return could_not(-ENOMEM, NULL, cond);
    rc = add(t, ts, o, out);
    wf_unlock(&ts->lock);
    return wf_likely(rc == 0) ? 0 : could_not(rc, t, cond);
}

WF_ENTRY int weft_sched_timer_new(weft_sched *s, weft_timer **out, weft_span period, bool recurring, weft_alive *cond,
                                  void (*fn)(void *arg), void *arg)
{
    const struct wf_thread *me = wf_thread_now();
    if (!s)
        return -EINVAL;
    if (me->fiber && me->worker->sched == s)
        return weft_timer_new(out, period, recurring, cond, fn, arg);
    wf_slice_enter();
    struct order o = {.fn = fn, .arg = arg, .cond = cond, .period = period, .recurring = recurring};
    int rc = begin_order(&o);
    return rc != 0 ? rc : add_from_outside(s, o, out);
}

static int cancel(weft_timer *t)
{
    if (t->state == WF_TIMER_ENDED)
        return 0;
    wf_wheel_del(&t->in->wheel, &t->entry);
    int in_time = wf_timer_is_pending(t);
    wf_timer_change(t, WF_TIMER_ENDED);
    return in_time;
}

WF_ENTRY int weft_timer_cancel(weft_timer *t)
{
    const struct wf_thread *me = wf_slice_enter_as();
    if (!t)
        return -EINVAL;
    if (wf_timer_is_lost(t))
        return 0;
    wf_lock(&t->in->lock);
    int in_time = cancel(t);
    wf_timer_settle(t, me->worker);
    wf_unlock(&t->in->lock);
    return in_time;
}

WF_ENTRY int weft_timer_free(weft_timer *t)
{
    const struct wf_thread *me = wf_slice_enter_as();
    if (!t)
        return 0;
    if (wf_timer_is_lost(t)) {
        t->held = false;
        wf_timer_settle_lost(t);
        return 0;
    }
    struct wf_timers *ts = t->in;
    wf_lock(&ts->lock);
    int in_time = cancel(t);
    t->held = false;
    wf_timer_settle(t, me->worker);
    wf_timers_unlock(ts);
    return in_time;
}

static bool may_fire_again(const weft_timer *t)
{
    return t->in->life != WF_TIMERS_CLOSED && /* else all were cancelled, and this one fires for the last time */
           (wf_timer_is_pending(t) || (t->state == WF_TIMER_FIRING && t->recurring));
}

/* It is due at another time. One whose callback runs is armed when that has returned. */
static void set_next(weft_timer *t, int64_t when)
{
    if (t->state == WF_TIMER_FIRING) {
        t->entry.when = when;
        return;
    }
    wf_wheel_del(&t->in->wheel, &t->entry);
    wf_timer_arm(t, when);
}

WF_ENTRY int weft_timer_refresh(weft_timer *t)
{
    wf_slice_enter();
    if (!t)
        return -EINVAL;
    if (wf_timer_is_lost(t))
        return -ESRCH;
    __builtin_prefetch(t); /* of many it is cold, and the clock takes as long */
    int64_t now = wf_clock_now();
    wf_lock(&t->in->lock);
    int rc = may_fire_again(t) ? 0 : -ESRCH;
    if (rc == 0) {
        t->start = now;
        t->at_once = false;
        set_next(t, wf_timer_later(now, t->period));
    }
    wf_unlock(&t->in->lock);
    return rc;
}

WF_ENTRY int weft_timer_reset(weft_timer *t, weft_span period, bool from_now)
{
    wf_slice_enter();
    if (!t || (t->recurring && period <= 0))
        return -EINVAL;
    if (wf_timer_is_lost(t))
        return -ESRCH;
    int64_t now = wf_clock_now();
    wf_lock(&t->in->lock);
    int rc = may_fire_again(t) ? 0 : -ESRCH;
    if (rc == 0) {
        if (from_now)
            t->start = now;
        t->period = period;
        int64_t when = wf_timer_later(t->start, period);
        t->at_once = when <= now;
        set_next(t, t->at_once ? now : when);
    }
    wf_unlock(&t->in->lock);
    return rc;
}

static int64_t next_of(struct wf_timers *ts)
{
    wf_lock(&ts->lock);
    int64_t next = wf_wheel_next(&ts->wheel);
    const weft_timer *due = ts->due;
    while (due && due->state != WF_TIMER_DUE)
        due = due->next;
    if (due && due->entry.when < next)
        next = due->entry.when;
    wf_unlock(&ts->lock);
    return next;
}

static int64_t next_of_all(const weft_sched *s)
{
    int64_t next = INT64_MAX;
    for (unsigned i = 0; s && i < s->workers; i++) {
        int64_t of_one = next_of(s->worker[i]->timers);
        next = of_one < next ? of_one : next;
    }
    return next;
}

WF_ENTRY weft_time weft_timer_next(weft_timer *t)
{
    wf_slice_enter();
    const struct wf_worker *w = wf_thread_now()->worker;
    int64_t next = INT64_MAX;
    if (t && wf_timer_is_lost(t))
        return WEFT_FOREVER;
    if (t) {
        wf_lock(&t->in->lock);
        next = may_fire_again(t) ? t->entry.when : INT64_MAX;
        wf_unlock(&t->in->lock);
    } else if (w) {
        next = next_of_all(w->sched);
    } else {
        next = next_of_all(wf_sched_hold_default());
        wf_sched_let_default_go();
    }
    return (weft_time){next};
}

WF_ENTRY uint64_t weft_timer_missed(weft_timer *t)
{
    wf_slice_enter();
    if (!t)
        return 0;
    if (wf_timer_is_lost(t))
        return t->missed;
    wf_lock(&t->in->lock);
    uint64_t missed = t->missed;
    wf_unlock(&t->in->lock);
    return missed;
}
