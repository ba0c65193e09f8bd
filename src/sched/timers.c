/*
 * sched/timers.c: what a worker does with its timers; see timers.h and timer.h.
 *
 * Memory of timers that are gone is kept for the next ones, some of it: the lock is held anyway when a timer is made and
 * when it goes, so that this costs two stores, and malloc more than all the rest of both.
 */
#include "sched/timers.h"

#include "base/clock.h"
#include "base/sanitizer.h"
#include "base/sys.h"
#include "sched/alive.h"
#include "sched/family.h"
#include "sched/finish.h"
#include "sched/idle.h"
#include "sched/sched.h"
#include "sched/timer.h"
#include "sched/worker.h"

/* Fibers for callbacks that have not begun: a million that come due at once are not a million. */
#define QUEUED_MOST 256
/* None where a tool is to see who uses a handle that was freed. */
#define SPARES_MOST (WF_ASAN || WF_VALGRIND ? 0 : 256)
#define NO_MEMORY_NS ((int64_t)1000000)

/* Whoever waits for the last fiber and timer is told. Workers tell when they become idle. */
void wf_timers_tell(const struct wf_timers *ts, const struct wf_worker *me)
{
    if (!ts->worker)
        return;
    weft_sched *s = ts->worker->sched;
    if (me && me->sched == s)
        return;
    wf_fence(); /* pairs with await_empty's and wf_idle's */
    wf_idle_tell_if_empty(s);
}

void wf_timers_forget(weft_timer *t)
{
    struct wf_timers *ts = t->in;
    ts->known--;
    if (t->cond)
        wf_alive_forget(t->cond);
    if (ts->spare_count == SPARES_MOST) {
        wf_sys_free(t);
        return;
    }
    t->state = WF_TIMER_NEW; /* who still uses the handle is told so */
    t->next = ts->spares;
    wf_store(&ts->spares, t);
    ts->spare_count++;
}

void wf_timer_settle_lost(weft_timer *t)
{
    if (t->held || t->runs)
        return;
    if (t->cond)
        wf_alive_forget(t->cond);
    wf_sys_free(t);
}

WF_COLD static void free_timers(struct wf_timers *ts)
{
    for (weft_timer *t = ts->spares, *next; t; t = next) {
        next = t->next;
        wf_sys_free(t);
    }
    wf_sys_free(ts);
}

void wf_timers_unlock(struct wf_timers *ts)
{
    bool last = ts->known == 0;
    wf_unlock(&ts->lock);
    if (wf_unlikely(last))
        free_timers(ts);
}

/* It has become the earliest. The worker is woken if it sleeps past that; under the lock, as then it is still there. */
void wf_timers_bring_forward(struct wf_timers *ts, int64_t when)
{
    struct wf_worker *w = ts->worker;
    wf_store(&ts->next, when);
    if (!w)
        return;
    if (wf_thread_now()->worker == w) {
        w->round |= WF_ROUND_TIMED;
        return;
    }
    wf_fence(); /* pairs with wf_idle's and take_nudge's */
    wf_worker_nudge(w);
    if (wf_load(&w->sleeps_until) > when)
        wf_driver_wake(&w->driver);
}

static void settle(weft_timer *t)
{
    wf_timer_settle(t, wf_thread_now()->worker);
}

/* ---- coming due ---- */

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

static struct wf_scope_timer *scope_timer_of(struct wf_timer *entry)
{
    return (struct wf_scope_timer *)((char *)entry - offsetof(struct wf_scope_timer, entry));
}

static void leaves_wheel(struct wf_timers *ts, struct wf_timer *entry, enum wf_scope_timer_state to)
{
    wf_store(&ts->scopes, ts->scopes - 1);
    wf_store(&scope_timer_of(entry)->state, to);
}

/* Takes out what is due. Timers of scopes that are to fire are pushed onto the list *scopes, linked by `next`. */
static void expire(struct wf_timers *ts, int64_t now, struct wf_timer **scopes)
{
    struct wf_timer *next = wf_wheel_expire(&ts->wheel, now);
    for (struct wf_timer *entry = next; entry; entry = next) {
        next = entry->next;
        if (entry->kind == WF_ENTRY_SCOPE) {
            leaves_wheel(ts, entry, WF_SCOPE_TIMER_FIRING);
            entry->next = *scopes;
            *scopes = entry;
            continue;
        }
        weft_timer *t = timer_of(entry);
        if (t->recurring && ts->life != WF_TIMERS_OPEN) {
            wf_timer_change(t, WF_TIMER_ENDED);
        } else {
            wf_timer_change(t, WF_TIMER_DUE);
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
        if (t->state == WF_TIMER_DUE)
            return t;
        t->carried = false;
        settle(t);
    }
    return NULL;
}

/* A list, by `next`, of timers that are to have a fiber now. */
static weft_timer *take_due(struct wf_timers *ts, int64_t now, struct wf_timer **scopes)
{
    weft_timer *list = NULL, **end = &list;
    expire(ts, now, scopes);
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
    int64_t next = wf_wheel_next(&ts->wheel), again = wf_timer_later(now, NO_MEMORY_NS);
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
    if (t->state == WF_TIMER_DUE) {
        bool ends = (t->recurring && ts->life != WF_TIMERS_OPEN) || (t->cond && !wf_alive_hold(t->cond));
        wf_timer_change(t, ends ? WF_TIMER_ENDED : WF_TIMER_FIRING);
    }
    t->runs = t->state == WF_TIMER_FIRING;
    t->at_once = false;
    if (t->runs) {
        t->start = t->entry.when;
        t->entry.when = wf_timer_later(t->entry.when, t->period);
    }
    bool runs = t->runs;
    settle(t);
    wf_timers_unlock(ts);
    return runs;
}

/* The first time that is not past; those between are missed. */
static void skip_missed(weft_timer *t)
{
    int64_t now = wf_clock_now();
    if (t->entry.when >= now)
        return;
    if (t->at_once) {
        t->entry.when = now;
        return;
    }
    int64_t n = (now - t->entry.when - 1) / t->period + 1;
    t->missed += (uint64_t)n;
    t->entry.when = wf_timer_later(t->entry.when, n * t->period);
    t->start = t->entry.when - t->period;
}

/* The callback has returned, or ended its fiber. */
static void is_over(void *arg)
{
    weft_timer *t = arg;
    struct wf_timers *ts = t->in;
    if (t->cond)
        wf_alive_leave(t->cond);
    if (wf_timer_is_lost(t)) { /* the callback has forked, and this is the child */
        t->runs = false;
        wf_timer_settle_lost(t);
        return;
    }
    wf_lock(&ts->lock);
    t->runs = false;
    if (t->state == WF_TIMER_FIRING) { /* else it was cancelled meanwhile */
        if (!t->recurring || ts->life != WF_TIMERS_OPEN || (t->cond && wf_alive_is_dropped(t->cond))) {
            wf_timer_change(t, WF_TIMER_ENDED);
        } else {
            skip_missed(t);
            wf_timer_arm(t, t->entry.when);
        }
    }
    settle(t);
    wf_timers_unlock(ts);
}

static void *timer_fiber(void *arg)
{
    weft_timer *t = arg;
    if (begins(t)) {
        struct wf_finish step;
        wf_finish_begin(&step, is_over, t);
        t->fn(t->arg);
        wf_finish_end(&step);
    }
    return NULL;
}

void wf_timers_fire(struct wf_worker *w)
{
    struct wf_timers *ts = w->timers;
    struct wf_timer *scopes = NULL;
    wf_lock(&ts->lock);
    weft_timer *list = take_due(ts, w->now, &scopes);
    wf_unlock(&ts->lock);
    for (struct wf_timer *entry = scopes; entry; entry = scopes) {
        scopes = entry->next; /* it is its owner's from then on */
        wf_scope_timer_fires(scope_timer_of(entry));
    }
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
        next = entry->next;
        if (entry->kind == WF_ENTRY_SCOPE) {
            leaves_wheel(ts, entry, WF_SCOPE_TIMER_IDLE);
            continue;
        }
        weft_timer *t = timer_of(entry);
        wf_timer_change(t, WF_TIMER_ENDED);
        settle(t);
    }
    for (weft_timer *t; (t = first_due(ts)) != NULL;) {
        wf_timer_change(t, WF_TIMER_ENDED);
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
    wf_timers_unlock(ts);
}
