/*
 * hook/lock_cond.c: the condition; see lock.h.
 *
 * Fibers that wait for one are in the lot, threads are in the condition itself. A signal goes to a fiber if one waits, else
 * to a thread. Who waits is in the lot before it lets go of the mutex, so a signal given under the mutex finds it.
 *
 * Signals of other processes are not seen: a fiber that waits for a condition that is shared with them returns every so
 * often, as a wait may without a cause.
 */
#include <errno.h>
#include <limits.h>

#include <weft/fiber.h>

#include "hook/lock.h"

enum { SHARED = 1, MONOTONIC = 2 }; /* bits of __wrefs that never change */

#define LOOK (5 * WEFT_MS)

static unsigned bits_of(const pthread_cond_t *c)
{
    return __atomic_load_n(&c->__data.__wrefs, __ATOMIC_RELAXED);
}

/* 0, ETIMEDOUT or ECANCELED. */
static int wait_in_lot(struct wf_lot_waiter *me, struct wf_limit limit, bool is_shared)
{
    for (;;) {
        weft_time until = wf_limit_time(limit), look = weft_in(LOOK);
        int rc = wf_lot_wait(me, is_shared && look.ns < until.ns ? look : until, false);
        if (wf_limit_is_over(limit))
            rc = rc == 0 ? 0 : -ETIMEDOUT;
        else if (rc == -ETIMEDOUT && !is_shared)
            continue;
        else if (rc == -ETIMEDOUT)
            rc = 0;
        return -rc;
    }
}

/* Without memory for a place: it returns without a cause, after a while. */
static int wait_without_place(pthread_mutex_t *m, struct wf_limit limit)
{
    int rc = wf_mutex_unlock(m);
    if (rc != 0)
        return rc;
    weft_sleep(WEFT_MS); /* a cancelled fiber only lets others run */
    rc = wf_limit_is_over(limit) ? ETIMEDOUT : 0;
    int locked = wf_mutex_lock(m, WF_NO_LIMIT, NULL);
    return locked != 0 ? locked : rc;
}

static int wait_as_fiber(pthread_cond_t *c, pthread_mutex_t *m, struct wf_limit limit, const void *caller)
{
    struct wf_lot_waiter *me = wf_lot_place();
    int kept = errno;
    bool is_shared = bits_of(c) & SHARED; /* once the mutex is free, who wakes us may free the condition */
    if (!me)
        return wait_without_place(m, limit);
    wf_lot_join(me, c, WF_LOT_ALONE, false);
    int rc = wf_mutex_unlock(m);
    if (rc != 0) {
        if (wf_lot_leave(me))
            pthread_cond_signal(c); /* it was meant for another, fiber or thread */
        return rc;
    }
    rc = wait_in_lot(me, limit, is_shared);
    if (wf_lot_leave(me))
        rc = 0;
    if (rc == ECANCELED)
        weft_yield(); /* a loop around the wait goes on for ever: not alone */
    int locked = wf_mutex_lock(m, WF_NO_LIMIT, caller);
    errno = kept;
    return locked != 0 ? locked : rc;
}

/* A wait of the C library, by one that is no fiber, or may not wait as one. */
struct wait {
    pthread_cond_t *cond;
    pthread_mutex_t *mutex;
    struct wf_limit limit;
    enum { WAIT, TIMEDWAIT, CLOCKWAIT } which;
};

static int wait_really(void *arg)
{
    struct wait *w = arg;
    return w->which == WAIT        ? wf_real.pthread_cond_wait(w->cond, w->mutex)
           : w->which == TIMEDWAIT ? wf_real.pthread_cond_timedwait(w->cond, w->mutex, w->limit.at)
                                   : wf_real.pthread_cond_clockwait(w->cond, w->mutex, w->limit.clock, w->limit.at);
}

static int wait_here(struct wait w, const void *caller)
{
    if (wf_limit_is_wrong(w.limit) || wf_clock_is_wrong(w.limit.clock))
        return wait_really(&w);
    if (!wf_lock_may_wait(caller))
        return wf_mutex_as_thread(w.mutex, wait_really, &w);
    return wait_as_fiber(w.cond, w.mutex, w.limit, caller);
}

HOOK int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
    if (wf_locks_here())
        return wait_here((struct wait){c, m, WF_NO_LIMIT, WAIT}, WF_CALLER);
    return wf_real.pthread_cond_wait(c, m);
}

HOOK int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *at)
{
    if (!wf_locks_here())
        return wf_real.pthread_cond_timedwait(c, m, at);
    clockid_t clock = bits_of(c) & MONOTONIC ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    return wait_here((struct wait){c, m, {clock, at}, TIMEDWAIT}, WF_CALLER);
}

HOOK int pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock, const struct timespec *at)
{
    if (wf_locks_here())
        return wait_here((struct wait){c, m, {clock, at}, CLOCKWAIT}, WF_CALLER);
    return wf_real.pthread_cond_clockwait(c, m, clock, at);
}

HOOK int pthread_cond_signal(pthread_cond_t *c)
{
    if (likely(!wf_locks_on))
        return wf_real.pthread_cond_signal(c);
    bool is_shared = bits_of(c) & SHARED;
    return wf_lot_wake(c, 1) > 0 && !is_shared ? 0 : wf_real.pthread_cond_signal(c);
}

HOOK int pthread_cond_broadcast(pthread_cond_t *c)
{
    if (unlikely(wf_locks_on))
        wf_lot_wake(c, INT_MAX);
    return wf_real.pthread_cond_broadcast(c);
}
