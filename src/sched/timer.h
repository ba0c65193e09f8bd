/*
 * sched/timer.h: one timer with a callback, and what changes it; see weft/timer.h.
 *
 *      new ──▶ ARMED ──expire──▶ DUE ──its fiber begins──▶ FIRING ──returned, once──▶ ENDED
 *               ▲  ▲              │                           │                         ▲
 *               │  └ refresh,reset┘                           │                         │
 *               └───────────────── returned, recurring ───────┘      cancel, stop ──────┘ from anywhere
 *
 * NEW      memory without a timer in it
 * ARMED    in the wheel
 * DUE      taken out of it; it can still be cancelled
 * FIRING   its callback runs
 * ENDED    it will not run again
 *
 * All of it is guarded by the lock of the worker's timers. Apart from its state a timer is `carried` from when it comes due
 * to when a fiber has begun for it: it is in the list of those that are due, or the argument of a fiber that is queued.
 * What happens to it meanwhile only changes its state, and the fiber looks at that when it begins. So there is one fiber
 * at most for a timer, and nothing is searched for in a list.
 *
 * A stop waits (`awaited`, `settled`) for those that are to fire once, and for all that are carried: the worker may be
 * about to spawn a fiber for one, and fibers are counted only then.
 */
#ifndef WF_SCHED_TIMER_H
#define WF_SCHED_TIMER_H

#include "base/fork.h"
#include "base/panic.h"
#include "sched/timers.h"

enum wf_timer_state { WF_TIMER_NEW, WF_TIMER_ARMED, WF_TIMER_DUE, WF_TIMER_FIRING, WF_TIMER_ENDED };

/* guarded by: in->lock, all that is not const. What adding and cancelling touch comes first. */
struct weft_timer {
    struct wf_timer
        entry; /* its `when`, armed or not: the next time that it is due. Its `mark`: the wf_forks that it is of */
    struct wf_timers *in; /* const */
    int64_t period;
    int64_t start;      /* of the period under way */
    uint8_t state;      /* enum wf_timer_state */
    bool recurring;     /* const */
    bool held;          /* somebody has a handle */
    bool carried;       /* see above */
    bool runs;          /* its callback has begun and not returned */
    bool awaited;       /* it is counted in in->awaited and not in in->settled */
    bool at_once;       /* FIRING: it was reset to a time that is past */
    weft_alive *cond;   /* const; or NULL */
    void (*fn)(void *); /* const */
    void *arg;          /* const */
    weft_timer *next;   /* in the list of those that are due, or of spares */
    uint64_t missed;
};

_Static_assert(offsetof(weft_timer, cond) <= 64, "one cache line, if it is aligned so");

/* It is one of the parent of a fork: `in` is not to be touched. */
static inline bool wf_timer_is_lost(const weft_timer *t)
{
    return wf_unlikely(t->entry.mark != wf_forks);
}

/* Frees a lost one that nobody has any more. If its callback has begun in a fiber that is lost too, it stays. */
void wf_timer_settle_lost(weft_timer *t);

/* The parts that are rarely needed; under the lock. */
void wf_timers_bring_forward(struct wf_timers *ts, int64_t when);
void wf_timers_tell(const struct wf_timers *ts, const struct wf_worker *me);
void wf_timers_forget(weft_timer *t);

/* Releases the lock; the memory too, if nobody needs it any more. */
void wf_timers_unlock(struct wf_timers *ts);

/* A point in time that is `span` after t, or as near as there is. */
static inline int64_t wf_timer_later(int64_t t, int64_t span)
{
    int64_t sum;
    if (wf_unlikely(__builtin_add_overflow(t, span, &sum)))
        return span < 0 ? 0 : INT64_MAX;
    return sum;
}

static inline bool wf_timer_is_pending(const weft_timer *t)
{
    return t->state == WF_TIMER_ARMED || t->state == WF_TIMER_DUE;
}

/* The one place that changes a state. */
static inline void wf_timer_change(weft_timer *t, enum wf_timer_state to)
{
    static const uint8_t from[] = {
        [WF_TIMER_ARMED] = 1 << WF_TIMER_NEW | 1 << WF_TIMER_ARMED | 1 << WF_TIMER_DUE | 1 << WF_TIMER_FIRING,
        [WF_TIMER_DUE] = 1 << WF_TIMER_ARMED,
        [WF_TIMER_FIRING] = 1 << WF_TIMER_DUE,
        [WF_TIMER_ENDED] = 1 << WF_TIMER_ARMED | 1 << WF_TIMER_DUE | 1 << WF_TIMER_FIRING,
    };
    if (wf_unlikely(!(from[to] >> t->state & 1)))
        wf_panic("weft_timer", "a timer in state %d goes to %d; is it a handle that was freed?", t->state, to);
    bool was = wf_timer_is_pending(t);
    t->state = (uint8_t)to;
    wf_store(&t->in->pending, t->in->pending + wf_timer_is_pending(t) - was);
}

/* It is in the wheel from now on. */
static inline void wf_timer_arm(weft_timer *t, int64_t when)
{
    wf_timer_change(t, WF_TIMER_ARMED);
    wf_wheel_add(&t->in->wheel, &t->entry, when);
    if (wf_unlikely(when < t->in->next))
        wf_timers_bring_forward(t->in, when);
}

/* After any change: whether a stop waits for it. `me`: the caller's worker, or NULL. */
static inline void wf_timer_recount(weft_timer *t, const struct wf_worker *me)
{
    struct wf_timers *ts = t->in;
    bool awaited = t->carried || (!t->recurring && wf_timer_is_pending(t));
    if (awaited == t->awaited)
        return;
    t->awaited = awaited;
    if (awaited) {
        wf_store_release(&ts->awaited, ts->awaited + 1); /* pairs with wf_sched_is_empty */
    } else {
        wf_store_release(&ts->settled, ts->settled + 1); /* pairs with wf_sched_is_empty */
        if (wf_unlikely(me != ts->worker))
            wf_timers_tell(ts, me);
    }
}

/* After any change: counts, and lets a timer go that nobody has any more. */
static inline void wf_timer_settle(weft_timer *t, const struct wf_worker *me)
{
    wf_timer_recount(t, me);
    if (t->state == WF_TIMER_ENDED && !t->held && !t->carried && !t->runs)
        wf_timers_forget(t);
}

#endif
