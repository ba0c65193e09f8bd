/*
 * sched/worker.c: running fibers; see worker.h. What is run next and where it comes from is in pick.c, sleeping and
 * waking in idle.c. Everything here runs on the worker's own thread.
 */
#include "sched/worker.h"

#include <unistd.h>

#include "base/errno.h"
#include "base/clock.h"
#include "coro/cxx.h"
#include "coro/mount.h"
#include "sched/cancel.h"
#include "sched/debug.h"
#include "sched/family.h"
#include "sched/finish.h"
#include "sched/idle.h"
#include "sched/pick.h"
#include "sched/sched.h"
#include "sched/starved.h"
#include "sched/timers.h"
#include "sched/wait.h"
#include "stack/cache.h"
#include "stack/shared.h"

#define MEASURE_SOON WEFT_MS
#define SETTLE_NS ((int64_t)250000000) /* between two looks at what is kept and not needed */

static inline WF_NORETURN void end(weft_fiber *f, void *value)
{
    if (wf_unlikely(wf_load(&f->extra) != NULL))
        wf_family_leave(f);
    if (wf_unlikely(f->deaf))
        wf_shield_drop(f);
    wf_debug_end(f);
    f->value = value;
    struct wf_thread *t = wf_thread_now();
    t->worker->left = WF_LEFT_END;
    wf_unmount_last(t, f->coro);
}

static void *fiber_main(void *arg)
{
    weft_fiber *f = arg;
    wf_arrived();
    end(f, f->fn(f->arg));
}

void wf_fiber_end(weft_fiber *f, void *value)
{
    for (struct wf_finish *step; (step = wf_finish_first(f)) != NULL;)
        wf_finish_end(step);
    end(f, value);
}

bool wf_worker_start_on_spare(struct wf_worker *w, weft_fiber *f)
{
    weft_coro *base = w->spare;
    if (!base || base->class != f->class || f->flags & ~(WEFT_MIGRATE | WEFT_CXX) || f->shared)
        return false;
    w->spare = NULL;
    wf_base_rerun(base, f->id, f->name, fiber_main, f);
    f->coro = f->inner = base;
    wf_store(&w->counts.warm_hits, w->counts.warm_hits + 1);
    return true;
}

/* Gives a fiber that is to run for the first time its stack. False: there is no memory now, and the fiber waits. */
WF_NOINLINE static bool start(struct wf_worker *w, weft_fiber *f)
{
    if (wf_unlikely(wf_starves(w)) && wf_starved_waits(w, f))
        return false;
    struct wf_base_opts o = {.class = f->class,
                             .flags = f->flags & (WEFT_FPENV | WEFT_MEASURE),
                             .shared = f->shared,
                             .id = f->id,
                             .name = f->name};
    bool warm = !f->shared && wf_stack_at_hand(w->thread, f->class);
    weft_coro *base = wf_base_new(w->thread, &o, fiber_main, f);
    if (wf_unlikely(!base)) {
        wf_starved_failed(w, f);
        return false;
    }
    if (wf_unlikely(wf_starves(w)))
        wf_starved_started(w, f);
    f->coro = f->inner = base;
    if (warm)
        wf_store(&w->counts.warm_hits, w->counts.warm_hits + 1);
    else
        wf_store(&w->counts.warm_misses, w->counts.warm_misses + 1);
    return true;
}

/* Nobody has a handle of it any more. */
void wf_fiber_release(struct wf_worker *w, weft_fiber *f)
{
    if (wf_unlikely(wf_load(&f->sleeper.bits) & WF_EXTRA))
        wf_extra_drop(w ? &w->extras : NULL, f);
    wf_store(&f->join, WF_JOIN_GONE);
    wf_store(&f->state, 0);
    if (wf_debug_keeps(&f))
        return;
    if (wf_unlikely(f->special))
        wf_record_clean(f);
    if (w)
        wf_records_give(&w->records, f);
    else
        wf_pool_give(f);
}

/* Other fibers wait for memory: the worker keeps no stack. */
WF_COLD static void finish_starved(struct wf_worker *w, const weft_fiber *f)
{
    wf_base_free(w->thread, f->coro);
    wf_starved_given(w, f->class);
}

static void finish(struct wf_worker *w, weft_fiber *f)
{
    if (wf_unlikely(wf_starves(w)))
        finish_starved(w, f);
    else if (!w->spare && wf_base_may_rerun(f->coro))
        w->spare = f->coro;
    else
        wf_base_free(w->thread, f->coro);
    f->coro = NULL;
    if (f->shared)
        wf_shared_unbind(f->shared);
    if (wf_unlikely(f->timed))
        wf_deadline_drop(w, f);
    wf_store(&f->state, WEFT_FIBER_DONE);
    wf_barrier_light();                                /* pairs with wf_be_known's */
    uint32_t bits = wf_load_acquire(&f->sleeper.bits); /* pairs with wf_extra: with WF_EXTRA the extra is there */
    if (wf_unlikely(bits & (WF_KNOWN | WF_OPENED)))
        wf_pool_forget(f);
    wf_store_release(&w->counts.ended, w->counts.ended + 1); /* pairs with wf_sched_is_empty: all that it did */
    if (wf_unlikely(bits & WF_EXTRA))
        wf_family_ended(f);
    if (wf_load(&f->join) == WF_JOIN_DETACHED || !wf_join_ended(f))
        wf_fiber_release(w, f);
}

void wf_deadline_add(struct wf_worker *w, weft_fiber *f, int64_t when)
{
    if (f->timed)
        wf_wheel_del(&w->wheel, &f->timer);
    f->timed = true;
    w->round |= WF_ROUND_TIMED;
    wf_wheel_add(&w->wheel, &f->timer, when);
    if (when < w->first_due)
        w->first_due = when;
}

void wf_deadline_drop(struct wf_worker *w, weft_fiber *f)
{
    f->timed = false;
    wf_wheel_del(&w->wheel, &f->timer);
    w->first_due = wf_wheel_next(&w->wheel);
}

/* Whether a fiber that is about to wait, and has f->deaf set, is deaf: not if the time of its shield is over. */
WF_COLD static bool begins_deaf(struct wf_worker *w, weft_fiber *f)
{
    int64_t until = wf_deaf_until(f);
    if (until == INT64_MAX)
        return true;
    if (until <= wf_clock_now())
        return false;
    if (until < f->until && (!f->timed || f->timer.when > until))
        wf_deadline_add(w, f, until);
    return true;
}

static void commit_other(struct wf_worker *w, weft_fiber *f)
{
    struct wf_sleeper *me = &f->sleeper;
    struct wf_commit_step step = f->commit;
    if (f->until != INT64_MAX)
        wf_deadline_begin(w, f);
    enum wf_phase phase = step.fn == wf_commit_park ? WF_PARKED : WF_WAITING;
    if (wf_unlikely(f->deaf) && begins_deaf(w, f))
        phase = phase == WF_PARKED ? WF_DEAF_PARKED : WF_DEAF;
    bool waits = wf_sleeper_begin(me, phase);
    bool published = step.fn(me, step.arg);
    if (!waits || (!published && wf_settle(me, 0)))
        wf_worker_woken(w, f);
}

/*
 * The commit step of a fiber that waits: it has been left, so it may be seen. From the moment it is WAITING and the step
 * has published it, others may settle it; it then comes to our inbox or queue, and is not ours to touch before. The
 * exception is a fiber that may move: after wf_commit_done it is not ours at all, until it comes back.
 */
WF_HOT void wf_worker_commit(struct wf_worker *w, weft_fiber *f)
{
    struct wf_sleeper *me = &f->sleeper;
    struct wf_commit_step step = f->commit;
    wf_store_release(&f->state, WEFT_FIBER_PARKED); /* pairs with weft_fiber_state: it sees no earlier wait's phase */
    wf_store(&f->wake, WF_WAKE_HOME);
    if (wf_likely(step.fn == wf_commit_unlock && !(f->deaf | (f->flags & WEFT_MIGRATE)))) { /* most waits */
        if (f->until != INT64_MAX)
            wf_deadline_begin(w, f);
        else if (!(w->round & (WF_ROUND_ALWAYS | WF_ROUND_COUNTED)))
            wf_store(&f->wake, WF_WAKE_SLOT);
        bool goes_on = !wf_sleeper_begin(me, WF_WAITING);
        wf_unlock(step.arg);
        if (wf_unlikely(goes_on))
            wf_worker_woken(w, f);
        return;
    }
    commit_other(w, f);
}

static void settle_accounts(struct wf_worker *w)
{
    w->settled = w->now;
    wf_records_settle(&w->records);
    wf_extras_settle(&w->extras);
    wf_pool_settle();
    wf_ring_shrink(&w->ring);
}

/* Whether it waits, and has a deadline. */
static bool has_deadline(const weft_fiber *f)
{
    return f->until != INT64_MAX && wf_waits(wf_load(&f->sleeper.phase));
}

/*
 * The timer of a fiber that waits in a shield has fired. True: there is nothing more to do. If the shield's time is
 * before the wait's own deadline, the fiber wakes up cancelled if it was cancelled, or goes on waiting without the
 * shield.
 */
WF_COLD static bool expires_in_shield(struct wf_worker *w, weft_fiber *f)
{
    uint32_t phase = wf_load(&f->sleeper.phase);
    int64_t until = wf_deaf_until(f);
    if ((phase != WF_DEAF && phase != WF_DEAF_PARKED) || until >= f->until)
        return false;
    if (until > w->now) { /* it was the timer of an earlier wait */
        f->timed = true;
        wf_wheel_add(&w->wheel, &f->timer, until);
        return true;
    }
    if (!wf_sleeper_listens(&f->sleeper))
        return false;
    f->timed = false;
    wf_worker_woken(w, f);
    return true;
}

/* The sleepers whose time has come. */
static void expire(struct wf_worker *w)
{
    struct wf_timer *next = wf_wheel_expire(&w->wheel, w->now);
    for (struct wf_timer *timer = next; timer; timer = next) {
        next = timer->next;
        weft_fiber *f = WF_FIBER_OF(timer, timer);
        if (wf_unlikely(f->deaf) && expires_in_shield(w, f))
            continue;
        f->timed = f->until > w->now && has_deadline(f);
        if (f->timed) /* of a wait that ended before it; the present one's is later */
            wf_wheel_add(&w->wheel, timer, f->until);
        else if (f->until <= w->now && wf_settle(&f->sleeper, -ETIMEDOUT))
            wf_worker_woken(w, f);
    }
    w->first_due = wf_wheel_next(&w->wheel);
}

/* Who waits for a descriptor that is ready by now. */
static void look_at_io(struct wf_worker *w)
{
    w->polls = true;
    wf_driver_look(&w->driver);
    w->polls = false;
}

/* Whether anything may become due or ready while fibers of the worker run, without a message to its inbox. */
static bool is_timed(const struct wf_worker *w)
{
    return w->first_due != INT64_MAX || w->driver.io || wf_load(&w->timers->next) != INT64_MAX ||
           w->loop_ends != INT64_MAX || wf_starves(w);
}

/* Whose time has come, by w->now. */
static void look(struct wf_worker *w)
{
    w->looked = w->tick;
    w->counted = wf_counter();
    if (wf_unlikely(!w->eh))
        w->eh = wf_eh_here();
    if (w->first_due <= w->now)
        expire(w);
    if (wf_load(&w->timers->next) <= w->now)
        wf_timers_fire(w);
    if (wf_unlikely(wf_starves(w)))
        wf_starved_look(w);
    if (wf_unlikely(w->now - w->settled > SETTLE_NS))
        settle_accounts(w);
    w->round = (uint8_t)((w->round & ~WF_ROUND_TIMED) | (is_timed(w) ? WF_ROUND_TIMED : 0));
}

WF_COLD static void measure(struct wf_worker *w)
{
    w->measure_at = w->now + SETTLE_NS;
    wf_span_measure(&w->look_span, w->look_ns);
}

static void look_at_clock(struct wf_worker *w)
{
    w->now = wf_clock_now();
    if (wf_unlikely(w->now >= w->measure_at))
        measure(w);
    look(w);
}

/* Looks at everything that brings work. The clock was read just now. */
static void look_around(struct wf_worker *w)
{
    w->around = w->now;
    w->inject_at = w->tick;
    look_at_io(w);
}

static inline __attribute__((always_inline)) void run(struct wf_worker *w, weft_fiber *f)
{
    struct wf_thread *t = w->thread;
    if (!f->coro && !wf_worker_start_on_spare(w, f) && !start(w, f))
        return;
    if (wf_unlikely(w->cancelled_to != 0))
        wf_bits_cancel(f, WEFT_CAUSE_SHUTDOWN); /* it may not have been there when all were cancelled */
    wf_store(&f->home, w);
    wf_store(&f->state, WEFT_FIBER_RUNNING);
    t->fiber = f;
    *w->errno_at = f->kept_errno;
    if (w->slice)
        w->slice_end = wf_clock_now() + w->slice;
    wf_store(&w->counts.switches, w->counts.switches + 1);
    struct wf_eh_globals own;
    if (wf_unlikely(w->eh))
        wf_eh_change(w->eh, &own, &f->coro->eh);
    wf_debug_runs(w, f);
    int rc = wf_mount(t, f->coro, f->inner);
    f = t->fiber; /* it may have hopped to others */
    wf_debug_ran(w, f);
    t->fiber = NULL;
    if (wf_unlikely(w->eh))
        wf_eh_change(w->eh, &f->coro->eh, &own);
    if (wf_unlikely(rc != 0)) {
        wf_starved_failed(w, f);
        return;
    }
    f->kept_errno = *w->errno_at;
    switch (w->left) {
    case WF_LEFT_YIELD:
        wf_worker_push(w, f, WEFT_WHY_YIELD);
        break;
    case WF_LEFT_SLICE:
        wf_worker_push(w, f, WEFT_WHY_SLICE);
        break;
    case WF_LEFT_WAIT:
        wf_worker_commit(w, f);
        break;
    case WF_LEFT_END:
        finish(w, f);
        break;
    }
}

void *wf_leave(struct wf_thread *t, enum wf_left why)
{
    weft_fiber *f = t->fiber;
    t->worker->left = why;
    f->inner = t->current;
    return wf_unmount(t, f->coro);
}

/* Whether the loop is to end though there may be work. */
static bool is_over(struct wf_worker *w, enum wf_until until)
{
    if (until == WF_UNTIL_EMPTY)
        return false;
    return until == WF_UNTIL_FIRST ? w->sched->first_ended
                                   : wf_load_acquire(&w->sched->over); /* pairs with who stops */
}

static bool is_done(struct wf_worker *w, enum wf_until until)
{
    return (until == WF_UNTIL_EMPTY || until == WF_UNTIL_FIRST) && wf_sched_is_empty(w->sched);
}

/* Fibers that waited for memory when the pass began, and can have it now, get a turn in this pass: how many. */
static size_t turns_of_starved(struct wf_worker *w, size_t *starved)
{
    size_t freed = wf_starved_freed(w);
    freed = freed < *starved ? freed : *starved;
    *starved -= freed;
    return freed;
}

WF_COLD static int work_once(struct wf_worker *w)
{
    w->loop_ends = INT64_MAX;
    look_at_clock(w);
    look_around(w);
    wf_pick_gather(w);
    wf_starved_freed(w); /* these count among the ready ones */
    size_t starved = wf_starved_count(w);
    size_t turns = wf_pick_here(w) + wf_load(&w->sched->injected.count);
    const weft_fiber *woken = NULL; /* by the one before it, and goes first: that is nobody's turn */
    w->round |= WF_ROUND_COUNTED;   /* each comes back here */
    for (weft_fiber *f; turns > 0 && (f = wf_pick(w)) != NULL; woken = wf_worker_next_woken(w)) {
        turns -= f != woken;
        run(w, f);
        turns += turns_of_starved(w, &starved);
    }
    w->round &= (uint8_t)~WF_ROUND_COUNTED;
    return 0;
}

/* WEFT_DIRECT: each time round what was ready. */
static bool pass_begins(struct wf_worker *w)
{
    if (w->pass_left > 0) {
        w->pass_left--;
        return false;
    }
    w->pass_left = wf_pick_here(w);
    return true;
}

/* Nothing is left to run: sleepers whose time has come are before what the driver finds. */
static inline bool finds_sleepers(struct wf_worker *w)
{
    w->now = wf_clock_now();
    w->looked = w->tick;
    if (wf_likely(w->first_due > w->now))
        return false;
    look(w);
    return wf_pick_here(w) > 0;
}

static int work(struct wf_worker *w, enum wf_until until, int64_t deadline)
{
    w->loop_ends = deadline;
    look_at_clock(w);
    look_around(w);
    bool direct = w->sched->dispatch == WEFT_DIRECT;
    bool always = direct || w->set; /* a policy reads the clock anyway, and slices are long */
    while (!is_over(w, until)) {
        bool due = w->tick % WF_LOOK_EVERY == 0 || (!always && wf_look_is_due(w));
        if (wf_unlikely(due || always)) {
            look_at_clock(w);
            if (due || w->now - w->around >= w->look_ns)
                look_around(w);
            if (direct && pass_begins(w))
                look_at_io(w);
            if (w->now >= deadline)
                return is_done(w, until) ? 0 : -ETIMEDOUT;
        }
        if (wf_unlikely(wf_load(&w->sched->cancels) != w->cancelled_to))
            wf_cancel_all_of(w);
        weft_fiber *f = wf_pick(w);
        if (wf_likely(f)) {
            run(w, f);
            continue;
        }
        if (is_done(w, until))
            return 0;
        if (w->first_due != INT64_MAX && finds_sleepers(w))
            continue;
        wf_idle(w, deadline);
        look(w);
        if (w->now >= deadline)
            return is_done(w, until) ? 0 : -ETIMEDOUT;
    }
    return 0;
}

int wf_worker_loop(struct wf_worker *w, enum wf_until until, int64_t deadline)
{
    wf_store(&w->works, true);
    int rc = until == WF_UNTIL_ONCE ? work_once(w) : work(w, until, deadline);
    wf_store(&w->works, false);
    if (w->searching) /* others rely on us to look for work */
        wf_idle_found(w);
    return rc;
}

void wf_worker_drop_spare(struct wf_worker *w)
{
    if (w->spare)
        wf_base_free(w->thread, w->spare);
    w->spare = NULL;
}

void wf_worker_enter(struct wf_worker *w)
{
    struct wf_thread *t = wf_thread_now();
    if (!t->entered)
        wf_coro_enter_thread(t);
    t->worker = w;
    t->stacks_kept = w->sched->warm_max;
    w->thread = t;
    w->errno_at = &errno;
    w->now = wf_clock_now();
    w->settled = w->now;
    w->measure_at = w->now + MEASURE_SOON;
    w->loop_ends = INT64_MAX;
    wf_span_begin(&w->look_span, w->look_ns);
    wf_store(&w->tid, gettid());
}

void wf_worker_leave(struct wf_worker *w)
{
    wf_worker_drop_spare(w);
    wf_records_trim(&w->records, 0);
    wf_extras_drop(&w->extras);
    if (w->driver.io)
        w->driver.io->ops->leave(w->driver.io);
    w->thread->stacks_kept = 0;
    w->thread->worker = NULL;
    w->thread = NULL;
    wf_store(&w->tid, 0);
}
