/*
 * sched/wait.c: see wait.h and the picture in fiber/sleeper.h.
 *
 * Why nobody is woken twice or forgotten. Every change of the phase is a compare-and-swap of the whole word, so among
 * wake, timeout and cancel exactly one turns WAITING (or PARKED) into SETTLED, and only that one makes it ready. A cancel
 * or a token that comes before the sleeper waits leaves its bit in the same word, where the step to WAITING finds it: it
 * is one compare-and-swap too, so it happens before the bit is set, and then the other side sees WAITING, or after.
 * The result is written between settling and making ready, by who won; the ready queue hands it on.
 */
#include "sched/wait.h"

#include <errno.h>

#include "base/futex.h"
#include "base/thread.h"
#include "coro/coro.h"
#include "sched/sched.h"
#include "sched/slice.h"
#include "sched/worker.h"

static inline bool waits(uint32_t word)
{
    uint32_t phase = word & WF_PHASE;
    return phase == WF_WAITING || phase == WF_PARKED;
}

struct wf_sleeper *wf_sleeper(struct wf_sleeper *own)
{
    struct wf_thread *t = wf_thread_now();
    if (wf_likely(t->fiber)) {
        wf_slice_spend(t);
        return &wf_thread_now()->fiber->sleeper;
    }
    own->word = WF_AWAKE;
    own->fiber = NULL;
    return own;
}

const void *wf_whoami(void)
{
    struct wf_thread *t = wf_thread_now();
    return t->fiber ? (const void *)t->fiber : t;
}

bool wf_sleeper_begin(struct wf_sleeper *me, uint32_t phase)
{
    uint32_t word = wf_load(&me->word), next;
    bool cancelled;
    do {
        cancelled = (word & (WF_CANCEL | WF_DEAF)) == WF_CANCEL;
        next = (word & ~(uint32_t)WF_PHASE) | (cancelled ? WF_SETTLED : phase);
    } while (!wf_cas(&me->word, &word, next)); /* pairs with weft_cancel and weft_unpark */
    if (cancelled)
        me->result = -ECANCELED;
    return !cancelled;
}

static bool settle(struct wf_sleeper *who, int result, uint32_t unless)
{
    uint32_t word = wf_load(&who->word);
    do {
        if (!waits(word) || word & unless)
            return false;
    } while (!wf_cas(&who->word, &word, word | WF_SETTLED)); /* acquire: pairs with wf_sleeper_begin */
    who->result = result;
    return true;
}

bool wf_settle(struct wf_sleeper *who, int result)
{
    return settle(who, result, 0);
}

void wf_ready(struct wf_sleeper *who)
{
    if (!who->fiber) {
        wf_store_release(&who->word, WF_AWAKE); /* pairs with thread_wait; its stack may be gone from here on */
        wf_futex_wake(&who->word, 1);
        return;
    }
    struct wf_worker *home = wf_load(&who->fiber->home);
    if (wf_thread_now()->worker == home)
        wf_worker_woken(home, who->fiber);
    else
        wf_worker_send(home, who->fiber);
}

/* A plain thread may be settled while it still runs: it is only told to go on. */
static int thread_wait(struct wf_sleeper *me, wf_commit *commit, void *arg, int64_t deadline)
{
    me->result = 0;
    wf_store(&me->word, WF_WAITING);
    if (!commit(me, arg) && wf_settle(me, 0))
        return 0;
    for (;;) {
        uint32_t word = wf_load_acquire(&me->word); /* pairs with wf_ready */
        if (word == WF_AWAKE)
            return me->result;
        int64_t until = word == WF_WAITING ? deadline : INT64_MAX; /* settled: it comes at once */
        if (wf_futex_wait(&me->word, word, until) == -ETIMEDOUT && wf_settle(me, -ETIMEDOUT))
            return -ETIMEDOUT;
    }
}

int wf_wait(struct wf_sleeper *me, const char *what, wf_commit *commit, void *arg, weft_time deadline)
{
    weft_fiber *f = me->fiber;
    if (!f)
        return thread_wait(me, commit, arg, deadline.ns);
    wf_store(&f->what, what);
    wf_store(&f->until, deadline.ns);
    f->commit = (struct wf_commit_step){commit, arg};
    me->result = 0;
    wf_leave(wf_thread_now(), WF_LEFT_WAIT);
    return me->result;
}

static bool unlock(struct wf_sleeper *me, void *arg)
{
    (void)me;
    wf_unlock(arg);
    return true;
}

int wf_wait_unlocking(struct wf_sleeper *me, const char *what, struct wf_lock *held, weft_time deadline)
{
    return wf_wait(me, what, unlock, held, deadline);
}

void wf_wait_deaf(struct wf_sleeper *me, const char *what, struct wf_lock *held)
{
    if (me->fiber)
        wf_or(&me->word, WF_DEAF);
    wf_wait(me, what, unlock, held, WEFT_FOREVER);
    if (me->fiber)
        wf_and(&me->word, ~(uint32_t)WF_DEAF);
}

bool wf_on_copied_stack(const void *p)
{
    struct wf_thread *t = wf_thread_now();
    for (const weft_coro *c = t->fiber ? t->current : NULL; c; c = c->resumer) {
        if (c->shared && (const char *)p >= c->shared->low && (const char *)p < c->shared->high)
            return true;
    }
    return false;
}

/* A token is eaten here, after the fiber was left: one that comes later finds it PARKED. */
bool wf_commit_park(struct wf_sleeper *me, void *arg)
{
    (void)arg;
    uint32_t word = wf_load(&me->word);
    do {
        if (!(word & WF_TOKEN))
            return true;
    } while (!wf_cas(&me->word, &word, word & ~(uint32_t)WF_TOKEN));
    return false;
}

int weft_park(weft_time deadline)
{
    struct wf_sleeper own, *me = wf_sleeper(&own);
    if (!me->fiber)
        return -ENXIO;
    if (wf_load(&me->word) & WF_TOKEN) {
        wf_and(&me->word, ~(uint32_t)WF_TOKEN);
        return 0;
    }
    if (wf_time_is_now(deadline))
        return -EAGAIN;
    return wf_wait(me, "unpark", wf_commit_park, NULL, deadline);
}

/* True: it was parked, and the caller must make it ready. False: it has a token, if `leave` says so. */
static bool give_token(struct wf_sleeper *who, bool leave)
{
    uint32_t word = wf_load(&who->word), next;
    bool parked;
    do {
        parked = (word & WF_PHASE) == WF_PARKED;
        if (!parked && (word & WF_TOKEN || !leave))
            return false;
        next = parked ? word | WF_SETTLED : word | WF_TOKEN;
    } while (!wf_cas(&who->word, &word, next)); /* pairs with wf_sleeper_begin and wf_commit_park */
    return parked;
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
    if (f)
        unpark(f, true);
}

bool wf_unpark_on(weft_fiber *f, struct wf_worker *on)
{
    bool elsewhere = on != wf_load(&f->home);
    if (elsewhere)
        wf_store(&f->forward, on);
    if (unpark(f, false))
        return true;
    if (elsewhere)
        wf_store(&f->forward, NULL);
    return false;
}

static void cancel(weft_fiber *f)
{
    wf_or(&f->sleeper.word, WF_CANCEL); /* pairs with wf_sleeper_begin */
    if (settle(&f->sleeper, -ECANCELED, WF_DEAF))
        wf_ready(&f->sleeper);
}

int weft_cancel(weft_fiber *f)
{
    if (!f)
        return -EINVAL;
    if (wf_load(&f->state) == WEFT_FIBER_DONE)
        return -ESRCH;
    cancel(f);
    return 0;
}

bool weft_cancelled(void)
{
    weft_fiber *f = wf_thread_now()->fiber;
    return f && wf_load(&f->sleeper.word) & WF_CANCEL;
}

/* Ours to end, so it is there while we look. */
static void cancel_if_ours(weft_fiber *f, void *arg)
{
    uint8_t state = wf_load(&f->state);
    if (wf_load(&f->home) == arg && (state == WEFT_FIBER_PARKED || state == WEFT_FIBER_READY))
        cancel(f);
}

void wf_cancel_all_of(struct wf_worker *w)
{
    w->cancelled_to = wf_load(&w->sched->cancels);
    wf_pool_walk(cancel_if_ours, w);
}

static bool sleeps(struct wf_sleeper *me, void *arg)
{
    (void)me, (void)arg;
    return true;
}

int weft_sleep_until(weft_time until)
{
    struct wf_sleeper own, *me = wf_sleeper(&own);
    if (wf_time_is_now(until) || until.ns <= weft_now().ns) {
        weft_yield();
        return weft_cancelled() ? -ECANCELED : 0;
    }
    if (me->fiber)
        wf_store(&me->fiber->sleeps, true);
    int rc = wf_wait(me, "sleep", sleeps, NULL, until);
    if (me->fiber)
        wf_store(&me->fiber->sleeps, false);
    return rc == -ETIMEDOUT ? 0 : rc;
}

int weft_sleep(weft_span d)
{
    return weft_sleep_until(weft_in(d));
}
