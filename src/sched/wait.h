/*
 * sched/wait.h: the one way to block, for fibers and plain threads alike; everything that waits goes through wf_wait.
 *
 *      struct wf_sleeper own, *me = wf_sleeper(&own);
 *      wf_lock(&o->lock);
 *      ... if what we want is there, take it, unlock, done; if wf_time_is_now(deadline), unlock, -EAGAIN ...
 *      wf_waiters_add(&o->waiters, &me->node, me);
 *      int rc = wf_wait_unlocking(me, "semaphore", &o->lock, deadline);
 *      if (rc < 0)                                                  // timed out or cancelled: nobody gave us anything
 *          lock, wf_waiters_remove(&o->waiters, &me->node), unlock;
 *      return rc;
 *
 * and who wakes:
 *
 *      wf_lock(&o->lock);
 *      struct wf_waiter *w = wf_waiters_win_first(&o->waiters, 0);  // takes out those that gave up
 *      struct wf_sleeper *who = w ? w->who : NULL;
 *      ... bring it what it waits for ...
 *      wf_unlock(&o->lock);
 *      if (who)
 *          wf_ready(who);                                           // touches the object no more
 */
#ifndef WF_SCHED_WAIT_H
#define WF_SCHED_WAIT_H

#include <stdbool.h>

#include <weft/fiber.h>
#include <weft/time.h>

#include "base/barrier.h"
#include "base/lock.h"
#include "base/thread.h"
#include "fiber/fiber.h"
#include "sched/debug.h"
#include "sched/fork.h"
#include "sched/later.h"
#include "sched/seam.h"
#include "sched/shield.h"
#include "sched/slice.h"
#include "sched/worker.h"

/* The caller: its fiber's sleeper, or `own`, made for a plain thread. Counts as a checkpoint of the time slice. */
static inline struct wf_sleeper *wf_sleeper(struct wf_sleeper *own);

/* A pointer that tells fibers and plain threads apart from each other: for owners. Never NULL. */
const void *wf_whoami(void);

/*
 * The same right after wf_cancel_point_here, without a call: the caller is still on its thread. (A time slice may have
 * made it yield, but only under a policy, and there fibers do not move.)
 */
static inline const void *wf_whoami_here(void)
{
    const struct wf_thread *t = &wf_thread_self;
    return t->fiber ? (const void *)t->fiber : t;
}

static inline bool wf_time_is_now(weft_time t)
{
    return t.ns == INT64_MIN;
}

/* Publishes that `me` waits. false: it need not; `me` has settled itself or nobody can. Runs on no fiber's stack. */
typedef bool wf_commit(struct wf_sleeper *me, void *arg);

/*
 * Waits until somebody settles `me`, the deadline passes or the fiber is cancelled: the result that was settled (>= 0),
 * -ETIMEDOUT or -ECANCELED. commit(me, arg) runs once in any case, when nobody can take the caller for running. Where it
 * returns false the result is 0. `what` is for dumps and must live for ever.
 */
static inline int wf_wait(struct wf_sleeper *me, const char *what, wf_commit *commit, void *arg, weft_time deadline);

/*
 * For a commit step, as its last act: the worker does not touch the fiber again. If the fiber may move, and has no
 * timer in the worker's wheel, a waker on another thread need not send it back to this worker.
 */
static inline void wf_commit_done(struct wf_sleeper *me);

/* The same when the waiters are linked and the commit is to release the lock they are guarded by. */
static inline int wf_wait_unlocking(struct wf_sleeper *me, const char *what, struct wf_lock *held, weft_time deadline);

/* The same, but no cancel ends the wait. */
int wf_wait_deaf(struct wf_sleeper *me, const char *what, struct wf_lock *held, weft_time deadline);

/* The worker's part: `me` has been left and is WAITING or PARKED from now on. False: it is cancelled (SETTLED). */
static inline bool wf_sleeper_begin(struct wf_sleeper *me, enum wf_phase phase);

/* What one in weft_sleep waits for. */
extern WF_HIDDEN const char wf_what_sleep[];

/* The commit step of weft_park: if there is a token it eats that, and the fiber goes on. */
wf_commit wf_commit_park;

/*
 * weft_unpark of the fiber that has this id, if it has not ended: `f` is where its record was, which may be another
 * fiber's by now, or gone. Exact where that fiber cannot end meanwhile: on its own worker, or if it stays alive anyway.
 */
void wf_unpark_if_alive(weft_fiber *f, uint64_t id);

/*
 * Makes `f`, of which the caller has a handle, known by its id, for wf_cancel_if_alive. False: f has ended.
 *
 * When a known fiber ends, its worker clears WF_KNOWN under the pool's lock, before the record can be another fiber's.
 * wf_cancel_if_alive holds that lock. So it finds that fiber or none.
 */
bool wf_be_known(weft_fiber *f);

/*
 * Cancels the fiber that has this id, if it has not ended, and everything below it. `f` is where its record was; it was
 * known. `kind` is the cause's. Children that are not fibers are added to `later`: the pool is locked. Any thread.
 */
void wf_cancel_if_alive(weft_fiber *f, uint64_t id, int kind, struct wf_later *later);

/* Cancels f, and not what is below it: marks it, and wakes it if it waits. Any thread. */
void wf_cancel_alone(weft_fiber *f, int kind);

/*
 * Like weft_unpark, but returns false and leaves no token if f is not parked. f runs next on worker `on`, to which its home
 * sends it (NULL: by the ordinary rule).
 */
bool wf_unpark_on(weft_fiber *f, struct wf_worker *on);

/* Races for `who`, who waits: true: won, and the caller must call wf_ready(who), once; bring it its things before. */
static inline bool wf_settle(struct wf_sleeper *who, int result);

/* Makes one that the caller settled go on. Any thread. After it `who` is not the caller's to touch. */
static inline void wf_ready(struct wf_sleeper *who);

static inline bool wf_waits(uint32_t phase)
{
    return phase >= WF_WAITING && phase <= WF_DEAF_PARKED;
}

/* Whether a sleeper in this phase is in weft_park. */
static inline bool wf_is_parked(uint32_t phase)
{
    return phase == WF_PARKED || phase == WF_DEAF_PARKED;
}

static inline bool wf_settle(struct wf_sleeper *who, int result)
{
    if (wf_unlikely(wf_forks != 0) && wf_fork_lost(who))
        return false;
    uint32_t phase = wf_load(&who->phase);
    do {
        if (!wf_waits(phase))
            return false;
    } while (!wf_cas(&who->phase, &phase, WF_SETTLED)); /* acquire: pairs with wf_sleeper_begin */
    wf_debug_ready(who->fiber);
    who->node.result = result;
    return true;
}

/* Whether the fiber was cancelled and is not deaf: a call that has not had to wait ends with -ECANCELED. */
static inline bool wf_cancel_is_heeded(const weft_fiber *f)
{
    return f && wf_load(&f->sleeper.bits) & WF_CANCEL && !(f->deaf && wf_is_deaf(f));
}

/* The rest of a cancellation point. f NULL: a plain thread; a task that it runs may be cancelled (sched/flow.h). */
WF_COLD bool wf_cancel_point_slow(const weft_fiber *f, weft_time deadline);

/*
 * A cancellation point: every call that can wait passes one before it does anything, even if it would not have to wait.
 * True: the caller returns -ECANCELED and has done nothing. A call with WEFT_NOW is not a cancellation point.
 * f NULL: a plain thread. Only a task that it runs can be cancelled, and such a task is inside a coroutine.
 *
 * A point that returns true may let other fibers run (sched/budget.h), so that a fiber that ignores its cancel does not
 * keep its worker for itself. So the caller holds no lock, and reads nothing thread-local after it.
 */
static inline bool wf_cancel_point(const weft_fiber *f, weft_time deadline)
{
    wf_seam_point(f, deadline);
    if (wf_unlikely(!f))
        return wf_thread_self.current && wf_cancel_point_slow(NULL, deadline);
    return wf_unlikely(wf_load(&f->sleeper.bits) & WF_CANCEL) && wf_cancel_point_slow(f, deadline);
}

/* The same for a caller that has its sleeper. */
static inline bool wf_cancel_point_of(const struct wf_sleeper *me, weft_time deadline)
{
    wf_seam_point(me->fiber, deadline);
    return wf_unlikely(wf_load(&me->bits) & WF_CANCEL) && wf_cancel_point_slow(me->fiber, deadline);
}

WF_COLD bool wf_cancel_point_here_slow(struct wf_thread *t, weft_time deadline);

/*
 * The beginning of a call that can wait: wf_slice_enter, and then a cancellation point of the caller. One branch for
 * both, and one call for what is rare, so that the caller need not keep anything for it.
 */
static inline bool wf_cancel_point_here(weft_time deadline)
{
    wf_seam_point(wf_thread_self.fiber, deadline);
    struct wf_thread *t = &wf_thread_self;
    const weft_fiber *f = t->fiber;
    if (wf_unlikely(!f))
        return t->current && wf_cancel_point_slow(NULL, deadline);
    if (wf_likely(((int64_t)(wf_load(&f->sleeper.bits) & WF_CANCEL) | t->worker->slice) == 0))
        return false;
    return wf_cancel_point_here_slow(t, deadline);
}

/* As wf_settle with -ECANCELED, but not one that is deaf. */
bool wf_settle_cancelled(struct wf_sleeper *who);

/* Called by its worker: a sleeper that was deaf heeds cancels again. True: it was cancelled, and is SETTLED. */
bool wf_sleeper_listens(struct wf_sleeper *me);

static inline bool wf_sleeper_begin(struct wf_sleeper *me, enum wf_phase phase)
{
    wf_store_release(&me->phase, phase); /* pairs with whoever settles */
    if (phase >= WF_PARKED)
        wf_fence(); /* pairs with give_token's */
    else
        wf_barrier_light(); /* pairs with wf_cancel_alone's */
    return wf_likely(!(wf_load(&me->bits) & WF_CANCEL)) || !wf_settle_cancelled(me);
}

/* FIFO lists of waiters; zeroed memory is an empty one. guarded by: the object's lock */
struct wf_waiters {
    struct wf_waiter *first, *last;
};

static inline bool wf_waiter_linked(const struct wf_waiter *w)
{
    return w->prev != w; /* see wf_waiters_remove */
}

static inline void wf_waiters_add(struct wf_waiters *l, struct wf_waiter *w, struct wf_sleeper *who)
{
    w->who = who;
    w->next = NULL;
    w->prev = l->last;
    if (l->last)
        l->last->next = w;
    else
        l->first = w;
    l->last = w;
}

/* At the head: for who has waited before. */
static inline void wf_waiters_add_first(struct wf_waiters *l, struct wf_waiter *w, struct wf_sleeper *who)
{
    w->who = who;
    w->prev = NULL;
    w->next = l->first;
    if (l->first)
        l->first->prev = w;
    else
        l->last = w;
    l->first = w;
}

/* Nothing happens if it was taken out before. */
static inline void wf_waiters_remove(struct wf_waiters *l, struct wf_waiter *w)
{
    if (!wf_waiter_linked(w))
        return;
    wf_debug_linked(w, w->prev ? w->prev->next : l->first, w->next ? w->next->prev : l->last);
    if (w->prev)
        w->prev->next = w->next;
    else
        l->first = w->next;
    if (w->next)
        w->next->prev = w->prev;
    else
        l->last = w->prev;
    w->prev = w; /* not linked */
}

/* The same for the first one. */
static inline void wf_waiters_remove_first(struct wf_waiters *l, struct wf_waiter *w)
{
    l->first = w->next;
    if (w->next)
        w->next->prev = NULL;
    else
        l->last = NULL;
    w->prev = w; /* not linked */
}

/* Takes waiters out, first come first, until one is won; NULL: there is none. */
static inline struct wf_waiter *wf_waiters_win_first(struct wf_waiters *l, int result)
{
    for (struct wf_waiter *w; (w = l->first) != NULL;) {
        wf_waiters_remove_first(l, w);
        if (wf_settle(w->who, result))
            return w;
    }
    return NULL;
}

/* The parts of wf_wait: a plain thread's, and what a fiber does before it leaves. */
int wf_wait_thread(struct wf_sleeper *me, wf_commit *commit, void *arg, int64_t deadline);
wf_commit wf_commit_unlock;

/*
 * Inline: a return that follows a switch is mispredicted, as the processor remembers the calls of whoever ran meanwhile;
 * so there should be few.
 */
static inline __attribute__((always_inline)) int wf_wait(struct wf_sleeper *me, const char *what, wf_commit *commit,
                                                         void *arg, weft_time deadline)
{
    weft_fiber *f = me->fiber;
    if (wf_unlikely(!f))
        return wf_wait_thread(me, commit, arg, deadline.ns);
    wf_store(&f->what, what);
    wf_store(&f->until, deadline.ns);
    f->commit = (struct wf_commit_step){commit, arg};
    me->node.result = 0;
    wf_leave_waiting(f);
    wf_arrived();
    return me->node.result;
}

static inline __attribute__((always_inline)) int wf_wait_unlocking(struct wf_sleeper *me, const char *what,
                                                                   struct wf_lock *held, weft_time deadline)
{
    wf_debug_wait_begin(me->fiber, held);
    int rc = wf_wait(me, what, wf_commit_unlock, held, deadline);
    wf_debug_wait_end(me->fiber);
    return rc;
}

/* Whether `p` lies on the shared stack of the calling fiber, where others must not touch it while the fiber waits. */
static inline bool wf_on_copied_stack(const void *p);

WF_COLD void wf_commit_done_moving(weft_fiber *f);

static inline void wf_commit_done(struct wf_sleeper *me)
{
    if (wf_unlikely(me->fiber && me->fiber->flags & WEFT_MIGRATE))
        wf_commit_done_moving(me->fiber);
}

struct wf_sleeper *wf_sleeper_other(struct wf_thread *t, struct wf_sleeper *own);
void wf_ready_other(struct wf_sleeper *who);
bool wf_on_copied_stack_other(const struct wf_thread *t, const void *p);

static inline struct wf_sleeper *wf_sleeper(struct wf_sleeper *own)
{
    struct wf_thread *t = wf_thread_now();
    return wf_likely(t->fiber && t->worker->slice == 0) ? &t->fiber->sleeper : wf_sleeper_other(t, own);
}

/* Inline: a fiber that a fiber of the same worker wakes, with nothing special about either. See wf_worker_woken. */
static inline void wf_ready(struct wf_sleeper *who)
{
    weft_fiber *f = who->fiber;
    struct wf_thread *t = wf_thread_now();
    if (wf_likely(f && t->fiber && wf_load(&f->home) == t->worker && f->wake == WF_WAKE_SLOT && !t->worker->slot)) {
        wf_store(&f->state, WEFT_FIBER_READY);
        wf_store(&t->worker->slot, f);
    } else {
        wf_ready_other(who);
    }
}

static inline bool wf_on_copied_stack(const void *p)
{
    const struct wf_thread *t = wf_thread_now();
    bool private = !t->fiber || (!t->fiber->shared && t->current == t->fiber->coro);
    return wf_unlikely(!private) && wf_on_copied_stack_other(t, p);
}

#endif
