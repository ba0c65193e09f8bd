/*
 * sched/timer.c: timers with callbacks; see weft/timer.h and timer.h. The public calls are for any thread.
 *
 *      new ──▶ ARMED ──expire──▶ DUE ──its fiber begins──▶ FIRING ──returned, once──▶ ENDED
 *               ▲  ▲              │                           │                         ▲
 *               │  └ refresh,reset┘                           │                         │
 *               └───────────────── returned, recurring ───────┘      cancel, stop ──────┘ from anywhere
 *
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
#include "sched/timer.h"

#include <errno.h>

#include "base/clock.h"
#include "base/panic.h"
#include "base/sys.h"
#include "sched/alive.h"
#include "sched/idle.h"
#include "sched/sched.h"
#include "sched/slice.h"
#include "sched/worker.h"

#define QUEUED_MOST                                                                                                    \
    256 /* fibers for callbacks that have not begun: a million that come due at once are not a million */
#define NO_MEMORY_NS ((int64_t)1000000)

enum state { NEW, ARMED, DUE, FIRING, ENDED };

/* guarded by: in->lock, all that is not const */
struct weft_timer {
    struct wf_timer entry;
    struct wf_timers *in; /* const */
    weft_timer *next;     /* in the list of those that are due */
    void (*fn)(void *);   /* const */
    void *arg;            /* const */
    weft_alive *cond;     /* const; or NULL */
    int64_t period;
    int64_t start; /* of the period under way */
    int64_t when;  /* its end: the next time that it is due */
    uint64_t missed;
    uint8_t state;  /* enum state */
    bool recurring; /* const */
    bool held;      /* somebody has a handle */
    bool carried;   /* see above */
    bool runs;      /* its callback has begun and not returned */
    bool awaited;   /* it is counted in in->awaited and not in in->settled */
    bool at_once;   /* FIRING: it was reset to a time that is past */
    uint32_t forks; /* const: the wf_forks that it is of; else it is lost, and `in` is not to be touched */
};

/* It is one of the parent of a fork. */
static bool is_lost(const weft_timer *t)
{
    return wf_unlikely(t->forks != wf_forks);
}

/* Frees a lost one that nobody has any more. If its callback has begun in a fiber that is lost too, it stays. */
static void settle_lost(weft_timer *t)
{
    if (t->held || t->runs)
        return;
    if (t->cond)
        wf_alive_forget(t->cond);
    wf_sys_free(t);
}

static int64_t later(int64_t t, int64_t span)
{
    int64_t sum;
    if (__builtin_add_overflow(t, span, &sum))
        return span < 0 ? 0 : INT64_MAX;
    return sum;
}

static bool is_pending(const weft_timer *t)
{
    return t->state == ARMED || t->state == DUE;
}

/* The one place that changes a state. */
static void change(weft_timer *t, enum state to)
{
    static const uint8_t from[] = {
        [ARMED] = 1 << NEW | 1 << ARMED | 1 << DUE | 1 << FIRING,
        [DUE] = 1 << ARMED,
        [FIRING] = 1 << DUE,
        [ENDED] = 1 << ARMED | 1 << DUE | 1 << FIRING,
    };
    if (wf_unlikely(!(from[to] >> t->state & 1)))
        wf_panic("weft_timer", "a timer in state %d goes to %d; is it a handle that was freed?", t->state, to);
    bool was = is_pending(t);
    t->state = (uint8_t)to;
    wf_store(&t->in->pending, t->in->pending + is_pending(t) - was);
}

/* Whoever waits for the last fiber and timer is told. Workers tell when they become idle. */
static void tell(const struct wf_timers *ts)
{
    if (!ts->worker)
        return;
    weft_sched *s = ts->worker->sched;
    const struct wf_worker *me = wf_thread_now()->worker;
    if (me && me->sched == s)
        return;
    wf_fence(); /* pairs with await_empty's and wf_idle's */
    wf_idle_tell_if_empty(s);
}

/* After any change: whether a stop waits for it. */
static void recount(weft_timer *t)
{
    struct wf_timers *ts = t->in;
    bool awaited = t->carried || (!t->recurring && is_pending(t));
    if (awaited == t->awaited)
        return;
    t->awaited = awaited;
    if (awaited) {
        wf_store_release(&ts->awaited, ts->awaited + 1); /* pairs with wf_sched_is_empty */
    } else {
        wf_store_release(&ts->settled, ts->settled + 1); /* pairs with wf_sched_is_empty */
        tell(ts);
    }
}

/* After any change: counts, and frees a timer that nobody has any more. */
static void settle(weft_timer *t)
{
    recount(t);
    if (t->held || t->carried || t->runs || t->state != ENDED)
        return;
    t->in->known--;
    if (t->cond)
        wf_alive_forget(t->cond);
    wf_sys_free(t);
}

static void unlock(struct wf_timers *ts)
{
    bool last = ts->known == 0;
    wf_unlock(&ts->lock);
    if (last)
        wf_sys_free(ts);
}

/* It has become the earliest. The worker is woken if it sleeps past that; under the lock, as then it is still there. */
static void bring_forward(struct wf_timers *ts, int64_t when)
{
    struct wf_worker *w = ts->worker;
    wf_store(&ts->next, when);
    if (!w || wf_thread_now()->worker == w)
        return;
    wf_fence(); /* pairs with wf_idle's */
    if (wf_load(&w->sleeps_until) > when)
        wf_driver_wake(&w->driver);
}

static void arm(weft_timer *t)
{
    change(t, ARMED);
    wf_wheel_add(&t->in->wheel, &t->entry, t->when);
    if (t->when < t->in->next)
        bring_forward(t->in, t->when);
}

/* ---- the worker's part ---- */

static weft_timer *timer_of(struct wf_timer *entry)
{
    return (weft_timer *)((char *)entry - offsetof(weft_timer, entry));
}

static void append_due(struct wf_timers *ts, weft_timer *t)
{
    t->next = NULL;
    *ts->due_end = t;
    ts->due_end = &t->next;
}

static void expire(struct wf_timers *ts, int64_t now)
{
    struct wf_timer *next = wf_wheel_expire(&ts->wheel, now);
    for (struct wf_timer *entry = next; entry; entry = next) {
        weft_timer *t = timer_of(entry);
        next = entry->next;
        if (t->recurring && ts->life != WF_TIMERS_OPEN) {
            change(t, ENDED);
        } else {
            change(t, DUE);
            if (!t->carried)
                append_due(ts, t);
            t->carried = true;
        }
        settle(t);
    }
}

/* The first of those that are due and still to fire; NULL: none. Those that were cancelled meanwhile go. */
static weft_timer *first_due(struct wf_timers *ts)
{
    for (weft_timer *t; (t = ts->due) != NULL;) {
        ts->due = t->next;
        if (!ts->due)
            ts->due_end = &ts->due;
        if (t->state == DUE)
            return t;
        t->carried = false;
        settle(t);
    }
    return NULL;
}

/* A list, by `next`, of timers that are to have a fiber now. */
static weft_timer *take_due(struct wf_timers *ts, int64_t now)
{
    weft_timer *list = NULL, **end = &list;
    expire(ts, now);
    while (ts->queued < QUEUED_MOST && (*end = first_due(ts)) != NULL) {
        end = &(*end)->next;
        *end = NULL;
        ts->queued++;
    }
    wf_store(&ts->next, ts->due ? INT64_MIN : wf_wheel_next(&ts->wheel));
    return list;
}

/* There is no memory for their fibers: they are tried again. */
WF_COLD static void put_back(struct wf_timers *ts, weft_timer *list, int64_t now)
{
    weft_timer **end = &list;
    wf_lock(&ts->lock);
    for (; *end; end = &(*end)->next)
        ts->queued--;
    *end = ts->due;
    if (!ts->due)
        ts->due_end = end;
    ts->due = list;
    int64_t next = wf_wheel_next(&ts->wheel), again = later(now, NO_MEMORY_NS);
    wf_store(&ts->next, next < again ? next : again);
    wf_unlock(&ts->lock);
}

/* Its fiber begins: whether its callback is to run. */
static bool begins(weft_timer *t)
{
    struct wf_timers *ts = t->in;
    wf_lock(&ts->lock);
    ts->queued--;
    t->carried = false;
    if (t->state == DUE) {
        bool ends = (t->recurring && ts->life != WF_TIMERS_OPEN) || (t->cond && !wf_alive_hold(t->cond));
        change(t, ends ? ENDED : FIRING);
    }
    t->runs = t->state == FIRING;
    t->at_once = false;
    if (t->runs) {
        t->start = t->when;
        t->when = later(t->when, t->period);
    }
    bool runs = t->runs;
    settle(t);
    unlock(ts);
    return runs;
}

/* The first time that is not past; those between are missed. */
static void skip_missed(weft_timer *t)
{
    int64_t now = wf_clock_now();
    if (t->when >= now)
        return;
    if (t->at_once) {
        t->when = now;
        return;
    }
    int64_t n = (now - t->when - 1) / t->period + 1;
    t->missed += (uint64_t)n;
    t->when = later(t->when, n * t->period);
    t->start = t->when - t->period;
}

static void has_returned(weft_timer *t)
{
    struct wf_timers *ts = t->in;
    if (is_lost(t)) { /* the callback has forked, and this is the child */
        t->runs = false;
        settle_lost(t);
        return;
    }
    wf_lock(&ts->lock);
    t->runs = false;
    if (t->state == FIRING) { /* else it was cancelled meanwhile */
        if (!t->recurring || ts->life != WF_TIMERS_OPEN || (t->cond && wf_alive_is_dropped(t->cond))) {
            change(t, ENDED);
        } else {
            skip_missed(t);
            arm(t);
        }
    }
    settle(t);
    unlock(ts);
}

static void *timer_fiber(void *arg)
{
    weft_timer *t = arg;
    if (begins(t)) {
        t->fn(t->arg);
        if (t->cond)
            wf_alive_leave(t->cond);
        has_returned(t);
    }
    return NULL;
}

void wf_timers_fire(struct wf_worker *w)
{
    struct wf_timers *ts = w->timers;
    wf_lock(&ts->lock);
    weft_timer *list = take_due(ts, w->now);
    wf_unlock(&ts->lock);
    while (list) {
        weft_timer *next = list->next; /* it is its fiber's from then on */
        if (wf_unlikely(!wf_spawn_on(w, "weft_timer", timer_fiber, list))) {
            put_back(ts, list, w->now);
            return;
        }
        list = next;
    }
}

/* ---- the scheduler's part ---- */

static void begin(struct wf_timers *ts, struct wf_worker *w, enum wf_timers_life life, int64_t now)
{
    *ts = (struct wf_timers){
        .next = INT64_MAX, .known = 1, .worker = w, .due_end = &ts->due, .life = life, .forks = wf_forks};
    wf_wheel_init(&ts->wheel, now);
}

struct wf_timers *wf_timers_new(struct wf_worker *w, int64_t now)
{
    struct wf_timers *ts = wf_sys_malloc(sizeof *ts);
    if (ts)
        begin(ts, w, WF_TIMERS_OPEN, now);
    return ts;
}

void wf_timers_renew(struct wf_timers *ts)
{
    begin(ts, ts->worker, ts->life, wf_clock_now());
}

void wf_timers_allow(struct wf_timers *ts, enum wf_timers_life life)
{
    wf_lock(&ts->lock);
    if (life == WF_TIMERS_OPEN || ts->life < life)
        ts->life = life;
    wf_unlock(&ts->lock);
}

static void cancel_all(struct wf_timers *ts)
{
    struct wf_timer *next = wf_wheel_expire(&ts->wheel, INT64_MAX);
    wf_wheel_init(&ts->wheel, wf_clock_now()); /* all of it is taken out, and time goes on from now */
    for (struct wf_timer *entry = next; entry; entry = next) {
        weft_timer *t = timer_of(entry);
        next = entry->next;
        change(t, ENDED);
        settle(t);
    }
    for (weft_timer *t; (t = first_due(ts)) != NULL;) {
        change(t, ENDED);
        t->carried = false;
        settle(t);
    }
    wf_store(&ts->next, INT64_MAX);
}

void wf_timers_cancel_all(struct wf_timers *ts, enum wf_timers_life life)
{
    wf_lock(&ts->lock);
    ts->life = life;
    cancel_all(ts);
    wf_unlock(&ts->lock);
}

void wf_timers_drop(struct wf_timers *ts)
{
    if (ts->forks != wf_forks) { /* nobody looks into it */
        wf_sys_free(ts);
        return;
    }
    wf_lock(&ts->lock);
    ts->worker = NULL;
    cancel_all(ts);
    ts->known--;
    unlock(ts);
}

/* ---- the public calls ---- */

/* Adds a new timer. `out` is written before the callback can begin. */
static int add(weft_timer *t, struct wf_timers *ts, weft_timer **out)
{
    int rc = 0;
    wf_lock(&ts->lock);
    if (ts->life == WF_TIMERS_CLOSED)
        rc = -ECANCELED;
    else if (ts->life == WF_TIMERS_CLOSING && t->recurring)
        rc = -ESHUTDOWN;
    if (rc == 0) {
        t->in = ts;
        ts->known++;
        if (out)
            *out = t;
        arm(t);
        recount(t);
    }
    wf_unlock(&ts->lock);
    return rc;
}

/* By one who is no fiber of it. Worker 0 of use_caller may be away for long. */
static int add_from_outside(weft_timer *t, weft_sched *s, weft_timer **out)
{
    unsigned first = s->use_caller && s->workers > 1;
    unsigned turn = wf_add(&s->next_worker, 1);
    int rc = -ESHUTDOWN;
    wf_lock(&s->lock); /* of `life` */
    if (s->life != WF_DRAINING && s->life != WF_STOPPED)
        rc = add(t, s->worker[first + turn % (s->workers - first)]->timers, out);
    wf_unlock(&s->lock);
    return rc;
}

static int add_here(weft_timer *t, weft_timer **out)
{
    struct wf_thread *me = wf_thread_now();
    if (me->fiber)
        return add(t, me->worker->timers, out);
    if (me->worker)
        return add_from_outside(t, me->worker->sched, out);
    weft_sched *s = wf_sched_hold_default();
    int rc = s ? add_from_outside(t, s, out) : -ENXIO;
    wf_sched_let_default_go();
    return rc;
}

int weft_timer_new(weft_timer **out, weft_span period, bool recurring, weft_alive *cond, void (*fn)(void *arg),
                   void *arg)
{
    wf_slice_here();
    if (!fn || (recurring && period <= 0))
        return -EINVAL;
    if (cond && wf_alive_is_dropped(cond))
        return -ESRCH;
    weft_timer *t = wf_sys_malloc(sizeof *t);
    if (!t)
        return -ENOMEM;
    int64_t now = wf_clock_now();
    *t = (weft_timer){.fn = fn,
                      .arg = arg,
                      .cond = cond,
                      .period = period,
                      .start = now,
                      .when = later(now, period),
                      .recurring = recurring,
                      .held = out != NULL,
                      .forks = wf_forks};
    if (cond)
        wf_alive_know(cond);
    int rc = add_here(t, out);
    if (rc != 0) {
        if (cond)
            wf_alive_forget(cond);
        wf_sys_free(t);
    }
    return rc;
}

static int cancel(weft_timer *t)
{
    if (t->state == ENDED)
        return 0;
    wf_wheel_del(&t->in->wheel, &t->entry);
    int in_time = is_pending(t);
    change(t, ENDED);
    return in_time;
}

int weft_timer_cancel(weft_timer *t)
{
    wf_slice_here();
    if (!t)
        return -EINVAL;
    if (is_lost(t))
        return 0;
    wf_lock(&t->in->lock);
    int in_time = cancel(t);
    settle(t);
    wf_unlock(&t->in->lock);
    return in_time;
}

int weft_timer_free(weft_timer *t)
{
    wf_slice_here();
    if (!t)
        return 0;
    if (is_lost(t)) {
        t->held = false;
        settle_lost(t);
        return 0;
    }
    struct wf_timers *ts = t->in;
    wf_lock(&ts->lock);
    int in_time = cancel(t);
    t->held = false;
    settle(t);
    unlock(ts);
    return in_time;
}

static bool may_fire_again(const weft_timer *t)
{
    return is_pending(t) || (t->state == FIRING && t->recurring);
}

/* It is due at another time. One whose callback runs is armed when that has returned. */
static void set_next(weft_timer *t, int64_t when)
{
    t->when = when;
    if (t->state == FIRING)
        return;
    wf_wheel_del(&t->in->wheel, &t->entry);
    arm(t);
}

int weft_timer_refresh(weft_timer *t)
{
    wf_slice_here();
    if (!t)
        return -EINVAL;
    if (is_lost(t))
        return -ESRCH;
    wf_lock(&t->in->lock);
    int rc = may_fire_again(t) ? 0 : -ESRCH;
    if (rc == 0) {
        t->start = wf_clock_now();
        t->at_once = false;
        set_next(t, later(t->start, t->period));
    }
    wf_unlock(&t->in->lock);
    return rc;
}

int weft_timer_reset(weft_timer *t, weft_span period, bool from_now)
{
    wf_slice_here();
    if (!t || (t->recurring && period <= 0))
        return -EINVAL;
    if (is_lost(t))
        return -ESRCH;
    wf_lock(&t->in->lock);
    int rc = may_fire_again(t) ? 0 : -ESRCH;
    if (rc == 0) {
        int64_t now = wf_clock_now();
        if (from_now)
            t->start = now;
        t->period = period;
        int64_t when = later(t->start, period);
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
    while (due && due->state != DUE)
        due = due->next;
    if (due && due->when < next)
        next = due->when;
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

weft_time weft_timer_next(weft_timer *t)
{
    wf_slice_here();
    const struct wf_worker *w = wf_thread_now()->worker;
    int64_t next = INT64_MAX;
    if (t && is_lost(t))
        return WEFT_FOREVER;
    if (t) {
        wf_lock(&t->in->lock);
        next = may_fire_again(t) ? t->when : INT64_MAX;
        wf_unlock(&t->in->lock);
    } else if (w) {
        next = next_of_all(w->sched);
    } else {
        next = next_of_all(wf_sched_hold_default());
        wf_sched_let_default_go();
    }
    return (weft_time){next};
}

uint64_t weft_timer_missed(weft_timer *t)
{
    wf_slice_here();
    if (!t)
        return 0;
    if (is_lost(t))
        return t->missed;
    wf_lock(&t->in->lock);
    uint64_t missed = t->missed;
    wf_unlock(&t->in->lock);
    return missed;
}
