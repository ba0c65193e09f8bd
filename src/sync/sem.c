/*
 * sync/sem.c: the semaphore.
 *
 * The count is a word that can be sealed (sync/object.h). While it is not, post and wait are one compare-and-swap. While
 * somebody waits it is sealed and 0. Two that take turns by two semaphores leave them sealed: each hop is then lock,
 * settle and unlock in post, lock and unlock in wait.
 */

#include "base/errno.h"
#include "sync/object.h"

static int post_sealed(weft_sem *s)
{
    int rc = 0;
    wf_lock(wf_lock_of(&s->lock));
    uint32_t count = wf_seal(&s->count);
    struct wf_waiter *w = wf_waiters_win_first(wf_waiters_of(&s->waiters), 0);
    struct wf_sleeper *who = w ? w->who : NULL;
    if (!who && count == WEFT_SEM_MAX)
        rc = -EOVERFLOW;
    else if (!who)
        wf_store(&s->count, (count + 1) | WF_SEALED);
    wf_unlock(wf_lock_of(&s->lock));
    if (who)
        wf_ready(who);
    return rc;
}

/* Not inline: to take a permit that is there needs no frame. */
WF_NOINLINE static int wait_sealed(weft_sem *s, weft_time deadline)
{
    struct wf_waiters *waiters = wf_waiters_of(&s->waiters);
    struct wf_sleeper own, *me = wf_sleeper(&own);
    wf_lock(wf_lock_of(&s->lock));
    uint32_t count = wf_seal(&s->count);
    if (count > 0 || wf_time_is_now(deadline)) {
        if (count > 0)
            wf_unseal(&s->count, count - 1); /* none in the list but such as gave up, or it had got this permit */
        wf_unlock(wf_lock_of(&s->lock));
        return count > 0 ? 0 : -EAGAIN;
    }
    wf_waiters_join(waiters, me);
    int rc = wf_wait_unlocking(me, "semaphore", wf_lock_of(&s->lock), deadline);
    if (rc < 0) {
        wf_lock(wf_lock_of(&s->lock));
        wf_waiters_remove(waiters, &me->node);
        wf_unlock(wf_lock_of(&s->lock));
    }
    return rc;
}

WF_HOT int weft_sem_wait(weft_sem *s, weft_time deadline)
{
    if (!s)
        return -EINVAL;
    if (wf_enter_cancelled(__func__, s, deadline))
        return -ECANCELED;
    uint32_t count = wf_load(&s->count);
    while (count != 0 && !(count & WF_SEALED)) {
        if (wf_cas(&s->count, &count, count - 1)) /* acquire: pairs with post */
            return 0;
    }
    if ((count & ~WF_SEALED) == 0 && wf_time_is_now(deadline))
        return -EAGAIN;
    return wait_sealed(s, deadline);
}

WF_HOT int weft_sem_post(weft_sem *s)
{
    if (!s)
        return -EINVAL;
    wf_enter(__func__, s);
    uint32_t count = wf_load(&s->count);
    while (!(count & WF_SEALED)) {
        if (count == WEFT_SEM_MAX)
            return -EOVERFLOW;
        if (wf_cas(&s->count, &count, count + 1)) /* release: pairs with wait */
            return 0;
    }
    return post_sealed(s);
}
