/*
 * sched/wait.c: see wait.h and the picture in fiber/sleeper.h.
 *
 * Why nobody is woken twice. Among wake, timeout and cancel exactly one turns WAITING, DEAF or PARKED into SETTLED, by a
 * compare-and-swap, and only that one makes the sleeper ready. It writes the result in between; the run queue hands it on.
 *
 * Why nobody is forgotten. A cancel, or a token, that comes before the sleeper waits leaves its bit. It sets the bit and
 * then looks at the phase; the sleeper's worker sets the phase and then looks at the bits. One of them sees the other's
 * write: for a cancel, which is rare, the canceller pays for that (wf_barrier_heavy against wf_barrier_light); for a
 * token both have a fence. If both see it, settling decides.
 *
 * Why no token is used twice. Who clears the bit has the token, and nobody else: it settles a PARKED one with it, or goes
 * on with it, or puts it back. Nobody settles on behalf of a token that is still in the bits.
 */
#include "sched/wait.h"

#include <errno.h>

#include "base/barrier.h"
#include "base/clock.h"
#include "base/futex.h"
#include "base/thread.h"
#include "coro/coro.h"
#include "sched/pending.h"
#include "sched/sched.h"
#include "sched/slice.h"
#include "sched/timers.h"
#include "sched/worker.h"

struct wf_sleeper *wf_sleeper_other(struct wf_thread *t, struct wf_sleeper *own)
{
    if (wf_likely(t->fiber)) {
        wf_slice_spend(t);
        return &wf_thread_now()->fiber->sleeper;
    }
    own->phase = WF_AWAKE;
    own->bits = wf_forks;
    own->fiber = NULL;
    return own;
}

const void *wf_whoami(void)
{
    struct wf_thread *t = wf_thread_now();
    return t->fiber ? (const void *)t->fiber : t;
}

bool wf_settle_cancelled(struct wf_sleeper *who)
{
    uint32_t phase = wf_load(&who->phase);
    do {
        if (!wf_waits(phase) || phase == WF_DEAF)
            return false;
    } while (!wf_cas(&who->phase, &phase, WF_SETTLED)); /* as in wf_settle */
    who->result = -ECANCELED;
    return true;
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
    else
        wf_worker_send(home, who->fiber);
}

/* A plain thread may be settled while it still runs: it is only told to go on. */
int wf_wait_thread(struct wf_sleeper *me, wf_commit *commit, void *arg, int64_t deadline)
{
    me->result = 0;
    wf_store(&me->phase, WF_WAITING);
    if (!commit(me, arg) && wf_settle(me, 0))
        return 0;
    for (;;) {
        uint32_t phase = wf_load_acquire(&me->phase); /* pairs with wf_ready */
        if (phase == WF_AWAKE)
            return me->result;
        int64_t until = phase == WF_WAITING ? deadline : INT64_MAX; /* settled: it comes at once */
        if (wf_futex_wait(&me->phase, phase, until) == -ETIMEDOUT && wf_settle(me, -ETIMEDOUT))
            return -ETIMEDOUT;
    }
}

bool wf_commit_unlock(struct wf_sleeper *me, void *arg)
{
    (void)me;
    wf_unlock(arg);
    return true;
}

int wf_wait_deaf(struct wf_sleeper *me, const char *what, struct wf_lock *held)
{
    bool was = me->fiber && me->fiber->deaf; /* it may be in a longer time of not listening */
    if (me->fiber)
        me->fiber->deaf = true;
    int rc = wf_wait(me, what, wf_commit_unlock, held, WEFT_FOREVER);
    if (me->fiber)
        me->fiber->deaf = was;
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
    if (!take_token(me))
        return true; /* who brings one from now on finds it PARKED */
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
        uint32_t parked = WF_PARKED;
        if (wf_cas(&who->phase, &parked, WF_SETTLED))
            return true;
        if (!leave || wf_or(&who->bits, WF_TOKEN) & WF_TOKEN)
            return false;
        wf_fence(); /* pairs with wf_sleeper_begin's */
        if (wf_load(&who->phase) != WF_PARKED || !take_token(who))
            return false;
    }
}

static bool unpark(weft_fiber *f, bool leave_token)
{
    if (!give_token(&f->sleeper, leave_token))
        return false;
    f->sleeper.result = 0;
    wf_ready(&f->sleeper);
    return true;
}

void weft_unpark(weft_fiber *f)
{
    wf_slice_here();
    wf_fork_look();
    if (f)
        unpark(f, true);
}

bool wf_unpark_on(weft_fiber *f, struct wf_worker *on)
{
    bool elsewhere = on != wf_load(&f->home);
    if (elsewhere)
        wf_store(&f->forward, (uint16_t)(on->index + 1));
    if (unpark(f, false))
        return true;
    if (elsewhere)
        wf_store(&f->forward, 0);
    return false;
}

static void cancel(weft_fiber *f)
{
    wf_or(&f->sleeper.bits, WF_CANCEL);
    wf_barrier_heavy(); /* pairs with wf_sleeper_begin's */
    if (wf_settle_cancelled(&f->sleeper))
        wf_ready(&f->sleeper);
}

int weft_cancel(weft_fiber *f)
{
    wf_slice_here();
    if (!f)
        return -EINVAL;
    wf_fork_look();
    if (wf_load(&f->state) == WEFT_FIBER_DONE)
        return -ESRCH;
    cancel(f);
    return 0;
}

bool weft_cancelled(void)
{
    wf_slice_here();
    weft_fiber *f = wf_thread_now()->fiber;
    return f && wf_load(&f->sleeper.bits) & WF_CANCEL;
}

/* Ours to end, so it is there while we look. */
static void cancel_if_ours(weft_fiber *f, void *arg)
{
    const struct wf_worker *w = arg;
    uint32_t state = wf_load(&f->state);
    if (wf_load(&f->home) != w)
        return;
    if (state == WEFT_FIBER_PARKED || state == WEFT_FIBER_READY)
        cancel(f);
    else if (state == WEFT_FIBER_NEW && wf_load(&f->sched) == w->sched && wf_load(&wf_pending_cancel))
        wf_load (&wf_pending_cancel)(f);
}

void wf_cancel_all_of(struct wf_worker *w)
{
    w->cancelled_to = wf_load(&w->sched->cancels);
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
    if (wf_time_is_now(until) || until.ns <= wf_clock_now()) {
        weft_yield();
        return weft_cancelled() ? -ECANCELED : 0;
    }
    int rc = wf_wait(me, wf_what_sleep, sleeps, NULL, until);
    return rc == -ETIMEDOUT ? 0 : rc;
}

int weft_sleep(weft_span d)
{
    return weft_sleep_until(weft_in(d));
}
