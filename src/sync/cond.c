/*
 * sync/cond.c: the condition.
 *
 * Who waits is in the list before it lets go of the mutex, and c->lock is held from then until it is parked: a signal
 * that comes after the mutex is free waits for that lock, and finds it.
 *
 * `waiting` spares a signal that finds nobody the lock. It is stored under the lock; a wait that happened before the
 * signal is seen, as what is read is never older.
 */

#include "base/errno.h"
#include "sync/mutex.h"

struct wait {
    weft_cond *cond;
    weft_mutex *mutex;
    uintptr_t me; /* who has the mutex */
};

/* On the worker's stack, when the caller is parked. The mutex goes first: after the unlock the caller may be running. */
static bool let_go(struct wf_sleeper *me, void *arg)
{
    struct wait *w = arg;
    weft_cond *c = w->cond;
    struct wf_sleeper *next = wf_mutex_release(w->mutex, w->me);
    wf_unlock(wf_lock_of(&c->lock));
    wf_commit_done(me);
    if (next)
        wf_ready(next);
    return true;
}

static void give_up(weft_cond *c, struct wf_sleeper *who)
{
    struct wf_waiters *waiters = wf_waiters_of(&c->waiters);
    wf_lock(wf_lock_of(&c->lock));
    wf_waiters_remove(waiters, &who->node);
    wf_store(&c->waiting, waiters->first != NULL);
    wf_unlock(wf_lock_of(&c->lock));
}

int weft_cond_wait(weft_cond *c, weft_mutex *m, weft_time deadline)
{
    if (!c || !m)
        return -EINVAL;
    wf_check_place(__func__, c);
    struct wait w = {c, m, wf_me()};
    if (!wf_mutex_is_of(m, w.me))
        return -EPERM;
    if (wf_cancel_point_here(deadline))
        return -ECANCELED;
    if (wf_time_is_now(deadline))
        return -EAGAIN;
    struct wf_sleeper own, *who = wf_sleeper(&own);
    wf_lock(wf_lock_of(&c->lock));
    wf_store(&who->node.data, (void *)c); /* for dumps */
    wf_waiters_join(wf_waiters_of(&c->waiters), who);
    wf_store(&c->waiting, 1);
    wf_debug_wait_begin(who->fiber, c);
    int rc = wf_wait(who, "condition", let_go, &w, deadline);
    wf_debug_wait_end(who->fiber);
    if (rc < 0)
        give_up(c, who);
    wf_mutex_take(m);
    return rc;
}

int weft_cond_signal(weft_cond *c)
{
    if (!c)
        return -EINVAL;
    wf_enter(__func__, c);
    if (!wf_load(&c->waiting))
        return 0;
    struct wf_waiters *waiters = wf_waiters_of(&c->waiters);
    wf_lock(wf_lock_of(&c->lock));
    struct wf_waiter *w = wf_waiters_win_first(waiters, 0);
    struct wf_sleeper *who = w ? w->who : NULL;
    wf_store(&c->waiting, waiters->first != NULL);
    wf_unlock(wf_lock_of(&c->lock));
    if (who)
        wf_ready(who);
    return 0;
}

int weft_cond_broadcast(weft_cond *c)
{
    if (!c)
        return -EINVAL;
    wf_enter(__func__, c);
    if (!wf_load(&c->waiting))
        return 0;
    wf_lock(wf_lock_of(&c->lock));
    struct wf_waiter *won = wf_waiters_win_all(wf_waiters_of(&c->waiters));
    wf_store(&c->waiting, 0);
    wf_unlock(wf_lock_of(&c->lock));
    wf_ready_all(won);
    return 0;
}
