/*
 * sched/wait.c: see wait.h and the picture in fiber/sleeper.h.
 *
 * Why nobody is woken twice. Among wake, timeout and cancel exactly one turns WAITING, PARKED or their deaf kinds into
 * SETTLED, by a compare-and-swap, and only that one makes the sleeper ready. It writes the result in between; the run queue
 * hands it on.
 *
 * Why nobody is forgotten. A cancel, or a token, that comes before the sleeper waits leaves its bit. It sets the bit and
 * then looks at the phase; the sleeper's worker sets the phase and then looks at the bits. One of them sees the other's
 * write: for a cancel, which is rare, the canceller pays for that (wf_barrier_heavy against wf_barrier_light); for a
 * token both have a fence. If both see it, settling decides. When a shield ends during a wait, the worker does the same
 * again: it changes the phase and then looks at the bits.
 *
 * Why nobody takes a fiber from a worker that still needs it. A waker on another thread takes a fiber elsewhere only if it
 * sees WF_WAKE_ANYWHERE. The fiber's worker stores that as the last act of the commit step, and stores WF_WAKE_HOME before
 * it publishes the fiber: so a waker that has settled the fiber never sees the mark of an earlier wait. A fiber with a
 * timer in its worker's wheel never gets the mark.
 *
 * Why no token is used twice. Who clears the bit has the token, and nobody else: it settles a PARKED one with it, or goes
 * on with it, or puts it back. Nobody settles on behalf of a token that is still in the bits.
 */
#include "sched/wait.h"

#include "base/errno.h"
#include "base/barrier.h"
#include "base/clock.h"
#include "base/futex.h"
#include "base/thread.h"
#include "coro/coro.h"
#include "sched/budget.h"
#include "sched/cancel.h"
#include "sched/flow.h"
#include "sched/pending.h"
#include "sched/sched.h"
#include "sched/slice.h"
#include "sched/timers.h"
#include "sched/worker.h"

/* How often a waker looks whether the commit step of a fiber that may move is over. Tests that explore make it small. */
#ifndef COMMIT_LOOKS
#define COMMIT_LOOKS 64
#endif

/* Whether the caller, a plain thread inside a coroutine, runs a task that is cancelled. */
static bool flow_is_cancelled(void)
{
    const struct wf_flow *flow = wf_flow_cancellable();
    return flow && wf_flow_is_cancelled(flow);
}

struct wf_sleeper *wf_sleeper_other(struct wf_thread *t, struct wf_sleeper *own)
{
    if (wf_likely(t->fiber)) {
        wf_slice_spend(t);
        return &wf_thread_now()->fiber->sleeper;
    }
    own->phase = WF_AWAKE;
    own->bits = wf_thread_bits() | (t->current && flow_is_cancelled() ? WF_CANCEL : 0);
    own->fiber = NULL;
    return own;
}

const void *wf_whoami(void)
{
    struct wf_thread *t = wf_thread_now();
    return t->fiber ? (const void *)t->fiber : t;
}

bool wf_cancel_point_slow(const weft_fiber *f, weft_time deadline)
{
    if (wf_time_is_now(deadline))
        return false;
    if (!f)
        return flow_is_cancelled();
    if (!wf_cancel_is_heeded(f))
        return false;
    wf_budget_spend_anywhere(WF_COST_IO, true);
    return true;
}

bool wf_cancel_point_here_slow(struct wf_thread *t, weft_time deadline)
{
    const weft_fiber *f = t->fiber;
    wf_slice_spend(t);
    return wf_load(&f->sleeper.bits) & WF_CANCEL && wf_cancel_point_slow(f, deadline);
}

bool wf_settle_cancelled(struct wf_sleeper *who)
{
    if (wf_unlikely(wf_forks != 0) && wf_fork_lost(who))
        return false;
    uint32_t phase = wf_load(&who->phase);
    do {
        if (phase != WF_WAITING && phase != WF_PARKED)
            return false;
    } while (!wf_cas(&who->phase, &phase, WF_SETTLED)); /* as in wf_settle */
    wf_debug_ready(who->fiber);
    who->node.result = -ECANCELED;
    return true;
}

bool wf_sleeper_listens(struct wf_sleeper *me)
{
    uint32_t phase = wf_load(&me->phase);
    do {
        if (phase != WF_DEAF && phase != WF_DEAF_PARKED)
            return false;
    } while (!wf_cas(&me->phase, &phase, phase == WF_DEAF ? WF_WAITING : WF_PARKED));
    wf_barrier_light(); /* pairs with wf_cancel_alone's */
    return wf_load(&me->bits) & WF_CANCEL && wf_settle_cancelled(me);
}

void wf_commit_done_moving(weft_fiber *f)
{
    bool timed = f->until != INT64_MAX || f->deaf || f->timed;
    if (!timed && !f->bound && !wf_load(&f->home)->solo)
        wf_store_release(&f->wake, WF_WAKE_ANYWHERE); /* pairs with may_take */
}

/*
 * Whether the caller, who has settled f and is not its home, may take f to another worker. The home may be about to
 * finish its commit step: it has released the object's lock, which the caller has taken since. So this looks more than
 * once.
 */
static bool may_take(const weft_fiber *f)
{
    if (wf_likely(!(wf_load(&f->flags) & WEFT_MIGRATE)) || f->bound || f->named || wf_load(&f->until) != INT64_MAX)
        return false;
    for (int looks = 0; looks < COMMIT_LOOKS; looks++) {
        if (wf_load_acquire(&f->wake) == WF_WAKE_ANYWHERE) /* pairs with wf_commit_done_moving */
            return true;
        wf_cpu_relax();
    }
    return false;
}

void wf_ready_other(struct wf_sleeper *who)
{
    if (!who->fiber) {
        wf_store_release(&who->phase, WF_AWAKE); /* pairs with wf_wait_thread; its stack may be gone from here on */
        wf_futex_wake(&who->phase, 1);
        return;
    }
    struct wf_worker *home = wf_load(&who->fiber->home);
    if (wf_thread_now()->worker == home)
        wf_worker_woken(home, who->fiber);
    else if (wf_unlikely(may_take(who->fiber)))
        wf_worker_take(home, who->fiber);
    else
        wf_worker_send(home, who->fiber);
}

/* A plain thread may be settled while it still runs: it is only told to go on. */
static int wait_published(struct wf_sleeper *me, int64_t deadline)
{
    for (;;) {
        uint32_t phase = wf_load_acquire(&me->phase); /* pairs with wf_ready */
        if (phase == WF_AWAKE)
            return me->node.result;
        int64_t until = phase == WF_WAITING ? deadline : INT64_MAX; /* settled: it comes at once */
        if (wf_futex_wait(&me->phase, phase, until) == -ETIMEDOUT && wf_settle(me, -ETIMEDOUT))
            return -ETIMEDOUT;
    }
}

/* The same in a task that is no fiber: a cancel of the task ends the wait. */
WF_COLD static int wait_in_flow(struct wf_sleeper *me, struct wf_flow *flow, int64_t deadline)
{
    bool begun = wf_flow_wait_begin(flow, me);
    if (!begun && wf_settle(me, -ECANCELED))
        return -ECANCELED;
    int rc = wait_published(me, deadline);
    if (begun)
        wf_flow_wait_end(flow);
    return rc;
}

int wf_wait_thread(struct wf_sleeper *me, wf_commit *commit, void *arg, int64_t deadline)
{
    me->node.result = 0;
    wf_store(&me->phase, WF_WAITING);
    if (!commit(me, arg) && wf_settle(me, 0))
        return 0;
    struct wf_flow *flow = wf_flow_cancellable();
    return wf_unlikely(flow) ? wait_in_flow(me, flow, deadline) : wait_published(me, deadline);
}

bool wf_commit_unlock(struct wf_sleeper *me, void *arg)
{
    wf_unlock(arg);
    wf_commit_done(me);
    return true;
}

int wf_wait_deaf(struct wf_sleeper *me, const char *what, struct wf_lock *held, weft_time deadline)
{
    struct wf_deaf deaf = wf_deaf_begin(me->fiber);
    int rc = wf_wait_unlocking(me, what, held, deadline);
    wf_deaf_end(&deaf);
    return rc;
}

bool wf_on_copied_stack_other(const struct wf_thread *t, const void *p)
{
    for (const weft_coro *c = t->fiber ? t->current : NULL; c; c = c->resumer) {
        if (c->shared && (const char *)p >= c->shared->low && (const char *)p < c->shared->high)
            return true;
    }
    return false;
}

/* Whether the caller has got the token that was there. */
static bool take_token(struct wf_sleeper *who)
{
    return wf_load(&who->bits) & WF_TOKEN && wf_and(&who->bits, ~(uint32_t)WF_TOKEN) & WF_TOKEN;
}

/* A token is eaten here, after the fiber was left: one that comes later finds it PARKED. */
bool wf_commit_park(struct wf_sleeper *me, void *arg)
{
    (void)arg;
    if (!take_token(me)) { /* who brings one from now on finds it PARKED */
        wf_commit_done(me);
        return true;
    }
    if (!wf_settle(me, 0)) {
        wf_or(&me->bits, WF_TOKEN); /* it goes on by itself: for the next time */
        return true;
    }
    wf_worker_woken(wf_load(&me->fiber->home), me->fiber);
    return true;
}

int weft_park(weft_time deadline)
{
    struct wf_sleeper own, *me = wf_sleeper(&own);
    if (!me->fiber)
        return -ENXIO;
    if (wf_cancel_point_of(me, deadline))
        return -ECANCELED;
    if (take_token(me))
        return 0;
    if (wf_time_is_now(deadline))
        return -EAGAIN;
    return wf_wait(me, "unpark", wf_commit_park, NULL, deadline);
}

/* True: it was parked, and the caller must make it ready. False: it has a token, if `leave` says so. */
static bool give_token(struct wf_sleeper *who, bool leave)
{
    for (;;) {
        uint32_t phase = WF_PARKED;
        do {
            if (wf_cas(&who->phase, &phase, WF_SETTLED)) {
                wf_debug_ready(who->fiber);
                return true;
            }
        } while (wf_is_parked(phase)); /* in a shield, or its shield has just ended */
        if (!leave || wf_or(&who->bits, WF_TOKEN) & WF_TOKEN)
            return false;
        wf_fence(); /* pairs with wf_sleeper_begin's */
        if (!wf_is_parked(wf_load(&who->phase)) || !take_token(who))
            return false;
    }
}

static void unpark(weft_fiber *f)
{
    f->sleeper.node.result = 0;
    wf_ready(&f->sleeper);
}

void weft_unpark(weft_fiber *f)
{
    wf_slice_here();
    wf_debug_handle(__func__, f);
    wf_fork_look();
    if (f && give_token(&f->sleeper, true))
        unpark(f);
}

static void unpark_if_it_is(weft_fiber *f, void *arg)
{
    uint32_t state = wf_load(&f->state);
    if (wf_load(&f->id) == *(const uint64_t *)arg && state != 0 && state != WEFT_FIBER_DONE &&
        give_token(&f->sleeper, true))
        unpark(f);
}

void wf_unpark_if_alive(weft_fiber *f, uint64_t id)
{
    wf_fork_look();
    wf_pool_look_at(f, unpark_if_it_is, &id);
}

bool wf_unpark_on(weft_fiber *f, struct wf_worker *on)
{
    if (!give_token(&f->sleeper, false))
        return false;
    if (on) /* only now: of several that submit it, the one that settled it says where */
        f->named = (uint16_t)(on->index + 1);
    unpark(f);
    return true;
}

void wf_cancel_alone(weft_fiber *f, int kind)
{
    wf_bits_cancel(f, kind);
    wf_barrier_heavy(); /* pairs with wf_sleeper_begin's */
    if (wf_settle_cancelled(&f->sleeper))
        wf_ready(&f->sleeper);
}

bool wf_be_known(weft_fiber *f)
{
    wf_fork_look();
    wf_or(&f->sleeper.bits, WF_KNOWN);
    if (f == wf_thread_now()->fiber)
        return true;
    wf_barrier_heavy(); /* pairs with finish()'s: it sees the bit, or we see that f has ended */
    if (wf_load(&f->state) != WEFT_FIBER_DONE)
        return true;
    wf_pool_forget(f);
    return false;
}

bool weft_cancelled(void)
{
    wf_slice_here();
    weft_fiber *f = wf_thread_now()->fiber;
    const struct wf_flow *flow = wf_flow_task();
    return (f && wf_load(&f->sleeper.bits) & WF_CANCEL) || (flow && wf_flow_is_cancelled(flow));
}

/* Ours to end, so it is there while we look. */
static void cancel_if_ours(weft_fiber *f, void *arg)
{
    const struct wf_worker *w = arg;
    uint32_t state = wf_load_acquire(&f->state); /* pairs with bind_pending */
    if (wf_load(&f->home) != w)
        return;
    if (state == WEFT_FIBER_PARKED || state == WEFT_FIBER_READY)
        wf_cancel_alone(f, WEFT_CAUSE_SHUTDOWN); /* what is below it is cancelled in its turn */
    else if (state == WEFT_FIBER_NEW && wf_load(&f->sched) == w->sched && wf_load(&wf_pending_ops))
        wf_load(&wf_pending_ops)->cancel(f);
}

void wf_cancel_all_of(struct wf_worker *w)
{
    w->cancelled_to = wf_load_acquire(&w->sched->cancels); /* pairs with cancel_all: all that was brought before it */
    wf_timers_cancel_all(w->timers, WF_TIMERS_CLOSED);
    wf_fork_look();
    wf_pool_walk(cancel_if_ours, w);
}

const char wf_what_sleep[] = "sleep";

static bool sleeps(struct wf_sleeper *me, void *arg)
{
    (void)me, (void)arg;
    return true;
}

int weft_sleep_until(weft_time until)
{
    struct wf_sleeper own, *me = wf_sleeper(&own);
    if (wf_cancel_point_of(me, until)) {
        weft_yield(); /* a loop that ignores the cancel may wait for what another fiber does */
        return -ECANCELED;
    }
    if (wf_time_is_now(until) || until.ns <= wf_clock_now()) {
        weft_yield();
        return 0;
    }
    int rc = wf_wait(me, wf_what_sleep, sleeps, NULL, until);
    return rc == -ETIMEDOUT ? 0 : rc;
}

int weft_sleep(weft_span d)
{
    return weft_sleep_until(weft_in(d));
}
