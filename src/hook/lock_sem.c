/*
 * hook/lock_sem.c: the semaphore; see lock.h. A post in a signal handler, or of another process, is found by the first that
 * waits, when it looks again.
 */
#include <errno.h>
#include <semaphore.h>

#include "hook/lock.h"
#include "hook/wait.h"

static int attempt(void *object)
{
    if (wf_real.sem_trywait(object) == 0)
        return 0;
    return errno == EAGAIN ? EBUSY : errno;
}

static int take(sem_t *s, struct wf_limit limit)
{
    int kept = errno, rc = wf_lot_is_starved(s) ? EBUSY : attempt(s);
    errno = kept;
    if (rc == EBUSY)
        rc = wf_lot_take(s, WF_LOT_COUNTED, attempt, limit, false);
    return rc == 0 ? 0 : wf_fails(rc);
}

HOOK int sem_wait(sem_t *s)
{
    return wf_locks_here() && wf_lock_may_wait(WF_CALLER) ? take(s, WF_NO_LIMIT) : wf_real.sem_wait(s);
}

HOOK int sem_trywait(sem_t *s)
{
    return wf_real.sem_trywait(s);
}

HOOK int sem_timedwait(sem_t *s, const struct timespec *at)
{
    struct wf_limit limit = {CLOCK_REALTIME, at};
    return wf_locks_here() && !wf_limit_is_wrong(limit) && wf_lock_may_wait(WF_CALLER) ? take(s, limit)
                                                                                       : wf_real.sem_timedwait(s, at);
}

HOOK int sem_clockwait(sem_t *s, clockid_t clock, const struct timespec *at)
{
    struct wf_limit limit = {clock, at};
    if (wf_locks_here() && !wf_limit_is_wrong(limit) && !wf_clock_is_wrong(clock) && wf_lock_may_wait(WF_CALLER))
        return take(s, limit);
    return wf_real.sem_clockwait(s, clock, at);
}

HOOK int sem_post(sem_t *s)
{
    int rc = wf_real.sem_post(s);
    if (unlikely(wf_locks_on) && rc == 0)
        wf_lot_wake(s, 1);
    return rc;
}
