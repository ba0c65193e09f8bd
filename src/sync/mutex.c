/*
 * sync/mutex.c: the mutex and the recursive one.
 *
 * One word says who has it: 0 nobody, else the owner; and in the lowest bits that somebody is in the list (WAITERS), and
 * that one was taken out of it and told to try (WOKEN). Taking and letting go are one compare-and-swap, unless there are
 * WAITERS and none of them is WOKEN: then who unlocks goes to m->lock, and sees to the first in the list.
 *
 * If that one is a fiber of the same worker, or was told to try PATIENCE times in vain, it is handed the mutex: nobody gets
 * in between. Else the mutex is set free, and who comes first takes it: to hand it to somebody on a worker that has to
 * wake up would leave it idle for as long as a thousand locks take. One that tries in vain goes back to the head of the
 * list.
 *
 * WAITERS and WOKEN change under m->lock only, but for the compare-and-swaps of owners, which leave them as they are. Who
 * unlocks touches the mutex last when it sets it free: it may be gone after that.
 */
#include "sync/mutex.h"

#include "base/errno.h"

enum { PATIENCE = 8 };

#define WAITERS ((uintptr_t)WF_MUTEX_WAITERS)
#define WOKEN ((uintptr_t)WF_MUTEX_WOKEN)
#define BITS (WAITERS | WOKEN)

/* What a wait ends with. */
enum { TRY = 0, HANDED = 1 };

/* Without the list: true: it was free, and is ours. */
static inline bool take_free(weft_mutex *m, uintptr_t me, uintptr_t *owner)
{
    do {
        if (wf_cas(&m->owner, owner, me | (*owner & BITS))) /* acquire: pairs with letting go */
            return true;
    } while ((*owner & ~BITS) == 0);
    return false;
}

/* True: the mutex is taken. False: `who` is in the list, and m->lock is held. `again`: it was told to try. */
static bool take_or_join(weft_mutex *m, uintptr_t me, struct wf_sleeper *who, bool again)
{
    struct wf_waiters *waiters = wf_waiters_of(&m->waiters);
    wf_lock(wf_lock_of(&m->lock));
    if (again)
        wf_and(&m->owner, ~WOKEN);
    for (uintptr_t owner = wf_load(&m->owner);;) {
        if ((owner & ~BITS) == 0) {
            if (!take_free(m, me, &owner))
                continue;
            wf_unlock(wf_lock_of(&m->lock));
            return true;
        }
        if (owner & WAITERS || wf_cas(&m->owner, &owner, owner | WAITERS))
            break;
    }
    who->node.data = (void *)me;
    if (again) {
        who->node.index++;
        wf_waiters_add_first(waiters, &who->node, who);
    } else {
        wf_waiters_join(waiters, who);
    }
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
    if ((owner & ~BITS) == me)
        return -EDEADLK;
    if (wf_time_is_now(deadline))
        return -EAGAIN;
    struct wf_sleeper own, *who = wf_sleeper(&own);
    for (bool again = false;; again = true) {
        if (take_or_join(m, me, who, again))
            return 0;
        int rc = wf_wait_unlocking(who, "mutex", wf_lock_of(&m->lock), deadline);
        if (rc == HANDED)
            return 0;
        if (rc < 0) {
            give_up(m, who);
            return rc;
        }
    }
}

/* Whether it gets the mutex without a thread having to wake up. guarded by: m->lock, as it is in the list */
static bool is_near(const struct wf_waiter *w)
{
    const weft_fiber *f = w->who->fiber;
    return f && wf_load(&f->home) == wf_thread_now()->worker;
}

/* Lets go, as its last touch, if that is enough; false: *owner is the word, and the first that waits is to be seen to. */
static inline bool drop(weft_mutex *m, uintptr_t me, uintptr_t *owner)
{
    *owner = me;
    while (!wf_cas(&m->owner, owner, *owner & BITS)) { /* release: pairs with lock */
        if ((*owner & ~BITS) != me || (*owner & BITS) == WAITERS)
            return false;
    }
    return true;
}

/* Under m->lock, which is released: the first is handed the mutex or told to try; NULL: all have given up. */
static struct wf_sleeper *win_first(weft_mutex *m, bool *handed)
{
    struct wf_waiters *waiters = wf_waiters_of(&m->waiters);
    struct wf_sleeper *who = NULL;
    for (struct wf_waiter *w; !who && (w = waiters->first) != NULL;) {
        uintptr_t next = (uintptr_t)w->data;
        *handed = is_near(w) || w->index >= PATIENCE;
        wf_waiters_remove_first(waiters, w);
        if (!wf_settle(w->who, *handed ? HANDED : TRY))
            continue;
        who = w->who;
        if (*handed)
            wf_store(&m->owner, waiters->first ? next | WAITERS : next);
        else
            wf_or(&m->owner, WOKEN); /* the mutex stays ours until after the unlock */
    }
    if (!waiters->first)
        wf_and(&m->owner, ~WAITERS);
    wf_unlock(wf_lock_of(&m->lock));
    return who;
}

/* The owner's, when somebody waits and nobody was told to try. Returns as wf_mutex_release. */
WF_NOINLINE static struct wf_sleeper *see_to_the_first(weft_mutex *m, uintptr_t me)
{
    uintptr_t owner;
    for (;;) {
        bool handed = false;
        wf_lock(wf_lock_of(&m->lock));
        struct wf_sleeper *who = win_first(m, &handed);
        if ((who && handed) || drop(m, me, &owner))
            return who;
        /* all had given up, and then somebody came */
    }
}

struct wf_sleeper *wf_mutex_release(weft_mutex *m, uintptr_t me)
{
    uintptr_t owner;
    return drop(m, me, &owner) ? NULL : see_to_the_first(m, me);
}

void wf_mutex_take(weft_mutex *m)
{
    uintptr_t me = wf_me(), owner = 0;
    if (take_free(m, me, &owner))
        return;
    struct wf_sleeper own, *who = wf_sleeper(&own);
    for (bool again = false; !take_or_join(m, me, who, again); again = true) {
        if (wf_wait_deaf(who, "mutex", wf_lock_of(&m->lock), WEFT_FOREVER) == HANDED)
            return;
    }
}

/* Right after wf_enter_cancelled. */
static inline int take(weft_mutex *m, weft_time deadline)
{
    uintptr_t me = wf_me_here(), owner = 0;
    return wf_likely(take_free(m, me, &owner)) ? 0 : lock_slowly(m, me, owner, deadline);
}

static inline int release(weft_mutex *m)
{
    uintptr_t me = wf_me(), owner;
    if (wf_likely(drop(m, me, &owner)))
        return 0;
    if ((owner & ~BITS) != me)
        return -EPERM;
    struct wf_sleeper *next = see_to_the_first(m, me);
    if (next)
        wf_ready(next);
    return 0;
}

int weft_mutex_lock(weft_mutex *m, weft_time deadline)
{
    if (!m)
        return -EINVAL;
    if (wf_enter_cancelled(__func__, m, deadline))
        return -ECANCELED;
    int rc = take(m, deadline);
    if (rc == 0)
        wf_debug_locked(m, "mutex", WF_CALLER);
    return rc;
}

int weft_mutex_unlock(weft_mutex *m)
{
    if (!m)
        return -EINVAL;
    wf_check_place(__func__, m);
    wf_debug_unlocked(m);
    return release(m);
}

/* `depth` is how many locks there are beside the first. owner: who has the mutex */
int weft_rmutex_lock(weft_rmutex *m, weft_time deadline)
{
    if (!m)
        return -EINVAL;
    if (wf_enter_cancelled(__func__, m, deadline))
        return -ECANCELED;
    int rc = take(&m->mutex, deadline);
    if (rc == 0)
        wf_debug_locked(m, "recursive mutex", WF_CALLER);
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
    if (m->mutex.depth == 0) {
        wf_debug_unlocked(m);
        return release(&m->mutex);
    }
    m->mutex.depth--;
    return 0;
}
