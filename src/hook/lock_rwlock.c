/*
 * hook/lock_rwlock.c: the lock of many readers or one writer; see lock.h. A writer's mark is in it as a mutex's owner's;
 * readers are nobody's.
 */
#include <errno.h>
#include <pthread.h>

#include "hook/lock.h"

static int writer_of(const pthread_rwlock_t *l)
{
    return __atomic_load_n(&l->__data.__cur_writer, __ATOMIC_RELAXED);
}

static void claim(pthread_rwlock_t *l)
{
    wf_claim(&l->__data.__cur_writer, l->__data.__shared != 0);
}

static bool is_mine(const pthread_rwlock_t *l)
{
    return writer_of(l) == wf_mark(l->__data.__shared != 0);
}

static int attempt_read(void *object)
{
    return wf_real.pthread_rwlock_tryrdlock(object);
}

static int attempt_write(void *object)
{
    pthread_rwlock_t *l = object;
    int rc = wf_real.pthread_rwlock_trywrlock(l);
    if (rc == 0)
        claim(l);
    return rc;
}

static int take_to_read(pthread_rwlock_t *l, struct wf_limit limit, const void *caller)
{
    if (wf_limit_is_wrong(limit))
        return EINVAL;
    int rc = attempt_read(l);
    if (rc != EBUSY)
        return rc;
    if (is_mine(l))
        return EDEADLK;
    if (wf_lock_may_wait(caller))
        return wf_lot_take(l, WF_LOT_SHARED, attempt_read, limit, true);
    return limit.at ? wf_real.pthread_rwlock_clockrdlock(l, limit.clock, limit.at) : wf_real.pthread_rwlock_rdlock(l);
}

static int take_to_write(pthread_rwlock_t *l, struct wf_limit limit, const void *caller)
{
    if (wf_limit_is_wrong(limit))
        return EINVAL;
    int rc = wf_lot_is_starved(l) && wf_lock_may_wait(caller) ? EBUSY : attempt_write(l);
    if (rc != EBUSY)
        return rc;
    if (is_mine(l))
        return EDEADLK;
    if (wf_lock_may_wait(caller))
        return wf_lot_take(l, WF_LOT_ALONE, attempt_write, limit, true);
    rc = limit.at ? wf_real.pthread_rwlock_clockwrlock(l, limit.clock, limit.at) : wf_real.pthread_rwlock_wrlock(l);
    if (rc == 0)
        claim(l);
    return rc;
}

HOOK int pthread_rwlock_rdlock(pthread_rwlock_t *l)
{
    return wf_locks_here() ? take_to_read(l, WF_NO_LIMIT, WF_CALLER) : wf_real.pthread_rwlock_rdlock(l);
}

HOOK int pthread_rwlock_tryrdlock(pthread_rwlock_t *l)
{
    return wf_real.pthread_rwlock_tryrdlock(l);
}

HOOK int pthread_rwlock_timedrdlock(pthread_rwlock_t *l, const struct timespec *at)
{
    return wf_locks_here() ? take_to_read(l, (struct wf_limit){CLOCK_REALTIME, at}, WF_CALLER)
                           : wf_real.pthread_rwlock_timedrdlock(l, at);
}

HOOK int pthread_rwlock_clockrdlock(pthread_rwlock_t *l, clockid_t clock, const struct timespec *at)
{
    return wf_locks_here() && !wf_clock_is_wrong(clock) ? take_to_read(l, (struct wf_limit){clock, at}, WF_CALLER)
                                                        : wf_real.pthread_rwlock_clockrdlock(l, clock, at);
}

HOOK int pthread_rwlock_wrlock(pthread_rwlock_t *l)
{
    return wf_locks_here() ? take_to_write(l, WF_NO_LIMIT, WF_CALLER) : wf_real.pthread_rwlock_wrlock(l);
}

HOOK int pthread_rwlock_trywrlock(pthread_rwlock_t *l)
{
    return wf_locks_here() ? attempt_write(l) : wf_real.pthread_rwlock_trywrlock(l);
}

HOOK int pthread_rwlock_timedwrlock(pthread_rwlock_t *l, const struct timespec *at)
{
    return wf_locks_here() ? take_to_write(l, (struct wf_limit){CLOCK_REALTIME, at}, WF_CALLER)
                           : wf_real.pthread_rwlock_timedwrlock(l, at);
}

HOOK int pthread_rwlock_clockwrlock(pthread_rwlock_t *l, clockid_t clock, const struct timespec *at)
{
    return wf_locks_here() && !wf_clock_is_wrong(clock) ? take_to_write(l, (struct wf_limit){clock, at}, WF_CALLER)
                                                        : wf_real.pthread_rwlock_clockwrlock(l, clock, at);
}

/* The C library tells by the writer's id what it is that ends. */
HOOK int pthread_rwlock_unlock(pthread_rwlock_t *l)
{
    if (likely(!wf_locks_on))
        return wf_real.pthread_rwlock_unlock(l);
    if (wf_is_mark(writer_of(l)))
        wf_disclaim(&l->__data.__cur_writer);
    int rc = wf_real.pthread_rwlock_unlock(l);
    if (rc == 0)
        wf_lot_wake(l, 1);
    return rc;
}
