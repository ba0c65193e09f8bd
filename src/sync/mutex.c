/*
 * sync/mutex.c: the mutex and the recursive one.
 *
 * One word says who has it: 0 nobody, else the owner, and in the lowest bit that somebody waits. Without that bit lock
 * and unlock are one compare-and-swap. With it the word changes under m->lock only, so the owner's unlock fails and goes
 * there too, and passes the mutex to the first in the list: it is never free while somebody waits, so nobody who comes
 * later can get it before.
 */
#include "sync/mutex.h"

#include <errno.h>

#define WAITERS ((uintptr_t)WF_MUTEX_WAITERS)

/* True: the mutex is taken. False: `who` is in the list, and m->lock is held. */
static bool take_or_join(weft_mutex *m, uintptr_t me, struct wf_sleeper *who)
{
    wf_lock(wf_lock_of(&m->lock));
    for (uintptr_t owner = wf_load(&m->owner); !(owner & WAITERS);) {
        if (owner == 0 && wf_cas(&m->owner, &owner, me)) { /* acquire: pairs with the owner's letting go */
            wf_unlock(wf_lock_of(&m->lock));
            return true;
        }
        if (owner != 0 && wf_cas(&m->owner, &owner, owner | WAITERS))
            break;
    }
    who->node.data = (void *)me;
    wf_waiters_join(wf_waiters_of(&m->waiters), who);
    return false;
}

static void give_up(weft_mutex *m, struct wf_sleeper *who)
{
    struct wf_waiters *waiters = wf_waiters_of(&m->waiters);
    wf_lock(wf_lock_of(&m->lock));
    wf_waiters_remove(waiters, &who->node);
    if (!waiters->first)
        wf_and(&m->owner, ~WAITERS);
    wf_unlock(wf_lock_of(&m->lock));
}

WF_NOINLINE static int lock_slowly(weft_mutex *m, uintptr_t me, uintptr_t owner, weft_time deadline)
{
    if ((owner & ~WAITERS) == me)
        return -EDEADLK;
    if (wf_time_is_now(deadline))
        return -EAGAIN;
    struct wf_sleeper own, *who = wf_sleeper(&own);
    if (take_or_join(m, me, who))
        return 0;
    int rc = wf_wait_unlocking(who, "mutex", wf_lock_of(&m->lock), deadline);
    if (rc < 0)
        give_up(m, who);
    return rc;
}

/* The owner's, when somebody waits. Returns as wf_mutex_release. */
WF_NOINLINE static struct wf_sleeper *hand_over(weft_mutex *m, uintptr_t me)
{
    struct wf_waiters *waiters = wf_waiters_of(&m->waiters);
    uintptr_t owner;
    do {
        wf_lock(wf_lock_of(&m->lock));
        struct wf_waiter *next = wf_waiters_win_first(waiters, 0);
        struct wf_sleeper *who = next ? next->who : NULL;
        owner = next ? (uintptr_t)next->data : me; /* all gave up: it stays ours until after the unlock */
        wf_store(&m->owner, waiters->first ? owner | WAITERS : owner);
        wf_unlock(wf_lock_of(&m->lock));
        if (who)
            return who;
    } while (!wf_cas(&m->owner, &owner, 0)); /* release: pairs with lock */
    return NULL;
}

struct wf_sleeper *wf_mutex_release(weft_mutex *m, uintptr_t me)
{
    uintptr_t owner = me;
    return wf_cas(&m->owner, &owner, 0) ? NULL : hand_over(m, me); /* release: pairs with lock */
}

void wf_mutex_take(weft_mutex *m)
{
    uintptr_t me = wf_me(), owner = 0;
    if (wf_cas(&m->owner, &owner, me)) /* acquire: pairs with unlock */
        return;
    struct wf_sleeper own, *who = wf_sleeper(&own);
    if (!take_or_join(m, me, who))
        wf_wait_deaf(who, "mutex", wf_lock_of(&m->lock));
}

static inline int take(weft_mutex *m, weft_time deadline)
{
    uintptr_t me = wf_me(), owner = 0;
    if (wf_likely(wf_cas(&m->owner, &owner, me))) /* acquire: pairs with unlock */
        return 0;
    return lock_slowly(m, me, owner, deadline);
}

static inline int release(weft_mutex *m)
{
    uintptr_t me = wf_me(), owner = me;
    if (wf_likely(wf_cas(&m->owner, &owner, 0))) /* release: pairs with lock */
        return 0;
    if ((owner & ~WAITERS) != me)
        return -EPERM;
    struct wf_sleeper *next = hand_over(m, me);
    if (next)
        wf_ready(next);
    return 0;
}

int weft_mutex_lock(weft_mutex *m, weft_time deadline)
{
    if (!m)
        return -EINVAL;
    wf_enter(__func__, m);
    return take(m, deadline);
}

int weft_mutex_unlock(weft_mutex *m)
{
    if (!m)
        return -EINVAL;
    wf_check_place(__func__, m);
    return release(m);
}

/* `depth` is how many locks there are beside the first. owner: who has the mutex */
int weft_rmutex_lock(weft_rmutex *m, weft_time deadline)
{
    if (!m)
        return -EINVAL;
    wf_enter(__func__, m);
    int rc = take(&m->mutex, deadline);
    if (rc != -EDEADLK)
        return rc;
    if (m->mutex.depth == UINT32_MAX)
        return -EOVERFLOW;
    m->mutex.depth++;
    return 0;
}

int weft_rmutex_unlock(weft_rmutex *m)
{
    if (!m)
        return -EINVAL;
    wf_check_place(__func__, m);
    if (!wf_mutex_is_of(&m->mutex, wf_me()))
        return -EPERM;
    if (m->mutex.depth == 0)
        return release(&m->mutex);
    m->mutex.depth--;
    return 0;
}
