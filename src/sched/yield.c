/*
 * sched/yield.c: giving way, and the clock that deadlines are on.
 */
#include <sched.h>

#include "base/clock.h"
#include "coro/cxx.h"
#include "coro/mount.h"
#include "sched/budget.h"
#include "sched/debug.h"
#include "sched/hooked.h"
#include "sched/queue.h"
#include "sched/slice.h"
#include "sched/worker.h"

weft_time weft_now(void)
{
    wf_slice_enter();
    return (weft_time){wf_clock_now()};
}

weft_time weft_in(weft_span d)
{
    int64_t ns;
    wf_slice_enter();
    if (__builtin_add_overflow(wf_clock_now(), d, &ns))
        ns = d < 0 ? 0 : INT64_MAX;
    return (weft_time){ns == INT64_MIN ? 0 : ns};
}

/* Whether the worker would go on with the next of its queue, and f can be left from where it is. */
static inline bool may_leave(const struct wf_thread *t, struct wf_worker *w, const weft_fiber *f)
{
    unsigned special = w->round | f->flags >> WF_HELD_SHIFT;
    return (wf_likely(special == 0) || (special == WF_ROUND_TIMED && !wf_look_is_due(w))) &&
           w->tick % WF_LOOK_EVERY != 0 && wf_inbox_is_empty(&w->inbox) && t->current == f->coro &&
           wf_mode(f->coro) == (WEFT_CORO_RUNNING | WF_BASE);
}

/* Whether the way from f straight to `next`, of the same worker, is as good as that through the worker. */
static inline bool may_hop(const struct wf_thread *t, struct wf_worker *w, const weft_fiber *f, const weft_fiber *next)
{
    return may_leave(t, w, f) && next->coro && wf_may_hop(next->coro);
}

/* What run() in worker.c does before and after. */
static inline void *hop(struct wf_thread *t, struct wf_worker *w, weft_fiber *f, weft_fiber *next)
{
    w->tick++;
    f->inner = f->coro;
    f->kept_errno = *w->errno_at;
    *w->errno_at = next->kept_errno;
    if (wf_unlikely(w->eh))
        wf_eh_change(w->eh, &f->coro->eh, &next->coro->eh);
    wf_debug_ran(w, f);
    wf_debug_runs(w, next);
    wf_store(&next->state, WEFT_FIBER_RUNNING);
    t->fiber = next;
    wf_store(&w->counts.switches, w->counts.switches + 1);
    return wf_hop(t, f->coro, next->coro);
}

/* f to the end of the queue, its first to run. */
static inline void *hop_in_turn(struct wf_thread *t, struct wf_worker *w, weft_fiber *f, weft_fiber *next)
{
    w->slot_streak = 0;
    w->queue.first = next->next;
    wf_fifo_append(&w->queue, f);
    f->turn = w->turn++;
    wf_store(&f->state, WEFT_FIBER_READY);
    weft_fiber *second = w->queue.first; /* its record came one hop ago: get the lines that it will switch to */
    __builtin_prefetch(second->next);
    __builtin_prefetch(second->coro);
    __builtin_prefetch((char *)second->coro - 64);
    __builtin_prefetch((char *)second->coro - 128);
    return hop(t, w, f, next);
}

static WF_NOINLINE void yield_to_worker(struct wf_thread *t, const weft_fiber *f)
{
    if (wf_unlikely(f->flags >> WF_HELD_SHIFT))
        wf_hook_waits(f, "yield");
    wf_leave(t, WF_LEFT_YIELD);
}

WF_HOT WF_ENTRY void weft_yield(void)
{
    struct wf_thread *t = &wf_thread_self;
    weft_fiber *f = t->fiber;
    if (wf_unlikely(!f)) {
        sched_yield();
        return;
    }
    struct wf_worker *w = t->worker;
    weft_fiber *next = w->queue.first;
    if (wf_likely(next && !((uintptr_t)w->slot | (uintptr_t)wf_load(&w->offered)) &&
                  wf_load(&w->ring.head) == wf_load(&w->ring.tail) && may_hop(t, w, f, next)))
        hop_in_turn(t, w, f, next);
    else
        yield_to_worker(t, f);
}

/* The same for one that has not started: it gets a stack if it can have one quickly. */
static inline bool may_start(const struct wf_thread *t, struct wf_worker *w, const weft_fiber *f, weft_fiber *next)
{
    return !WF_NOTED && !next->coro && w->cancelled_to == 0 && may_leave(t, w, f) && wf_worker_start_on_spare(w, next);
}

/* Takes the offered fiber, if a hop to it is possible. Only after it has taken the fiber can the worker look at it. */
static inline weft_fiber *take_offered(struct wf_worker *w)
{
    bool may = !WF_NOTED && w->slot_streak + 1 < WF_SLOT_STREAK;
    weft_fiber *next = may ? wf_worker_take_offered(w) : NULL;
    if (!next)
        return NULL;
    if (wf_unlikely(!wf_may_hop(next->coro))) {
        wf_store(&w->slot, next); /* the caller leaves now, and next runs next */
        return NULL;
    }
    w->slot_streak++;
    return next;
}

WF_HOT void *wf_leave_waiting(weft_fiber *f)
{
    if (wf_unlikely(f->flags >> WF_HELD_SHIFT))
        wf_hook_waits(f, wf_load(&f->what));
    struct wf_thread *t = &wf_thread_self;
    struct wf_worker *w = t->worker;
    weft_fiber *next = w->slot; /* it was woken, so it is in a wait, and will do our commit step */
    if (next && w->slot_streak + 1 < WF_SLOT_STREAK && may_hop(t, w, f, next)) {
        w->slot_streak++;
        wf_store(&w->slot, NULL);
    } else if (!next && w->solo && (next = w->queue.first) != NULL && may_start(t, w, f, next)) {
        w->slot_streak = 0;
        wf_fifo_pop(&w->queue);
        wf_store(&next->home, w);
    } else if (next || !may_leave(t, w, f) || (next = take_offered(w)) == NULL) {
        return wf_leave(t, WF_LEFT_WAIT);
    }
    w->left_behind = f;
    return hop(t, w, f, next);
}

bool wf_budget_ends(void)
{
    struct wf_thread *t = wf_thread_now();
    t->budget = WF_BUDGET;
    if (!t->fiber || t->fiber->flags >> WF_HELD_SHIFT)
        return false;
    struct wf_worker *w = t->worker;
    uint64_t count = wf_counter();
    if (count - w->counted < w->look_span.units)
        return false;
    if (!(w->round & WF_ROUND_TIMED)) /* else the worker sets it when it looks around */
        w->counted = count;
    return true;
}

void wf_budget_share(void)
{
    if (wf_budget_ends())
        weft_yield();
}

void wf_slice_look(struct wf_thread *t)
{
    if (wf_clock_now() < t->worker->slice_end)
        return;
    if (wf_unlikely(t->fiber->flags >> WF_HELD_SHIFT))
        wf_hook_waits(t->fiber, "its next slice");
    wf_leave(t, WF_LEFT_SLICE);
}

WF_ENTRY void weft_checkpoint(void)
{
    struct wf_thread *t = &wf_thread_self;
    if (t->fiber)
        wf_slice_spend(t);
}
