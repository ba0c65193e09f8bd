/*
 * sync/waitgroup.c: the waitgroup. The count is a word that can be sealed (sync/object.h); it is while somebody waits.
 */

#include "base/errno.h"
#include "sync/object.h"

/* The count and n in *sum; or what is wrong with that. */
static int add_up(uint32_t count, int n, uint32_t *sum)
{
    int64_t s = (int64_t)count + n;
    *sum = (uint32_t)s;
    return s < 0 ? -EINVAL : s > INT32_MAX ? -EOVERFLOW : 0;
}

static int add_sealed(weft_waitgroup *g, int n)
{
    struct wf_waiter *won = NULL;
    uint32_t sum;
    wf_lock(wf_lock_of(&g->lock));
    int rc = add_up(wf_seal(&g->count), n, &sum);
    if (rc == 0) {
        if (sum == 0)
            won = wf_waiters_win_all(wf_waiters_of(&g->waiters));
        wf_store(&g->count, sum | WF_SEALED);
    }
    wf_unlock(wf_lock_of(&g->lock));
    wf_ready_all(won);
    return rc;
}

static int add(weft_waitgroup *g, int n)
{
    uint32_t count = wf_load(&g->count), sum;
    while (!(count & WF_SEALED)) {
        int rc = add_up(count, n, &sum);
        if (rc < 0 || wf_cas(&g->count, &count, sum)) /* release: pairs with wait */
            return rc;
    }
    return add_sealed(g, n);
}

int weft_waitgroup_add(weft_waitgroup *g, int n)
{
    if (!g)
        return -EINVAL;
    wf_enter(__func__, g);
    return add(g, n);
}

int weft_waitgroup_done(weft_waitgroup *g)
{
    if (!g)
        return -EINVAL;
    wf_enter(__func__, g);
    return add(g, -1);
}

static int wait_sealed(weft_waitgroup *g, weft_time deadline)
{
    struct wf_waiters *waiters = wf_waiters_of(&g->waiters);
    struct wf_sleeper own, *me = wf_sleeper(&own);
    wf_lock(wf_lock_of(&g->lock));
    uint32_t count = wf_seal(&g->count);
    if (count == 0 || wf_time_is_now(deadline)) {
        if (count == 0)
            wf_unseal(&g->count, 0);
        wf_unlock(wf_lock_of(&g->lock));
        return count == 0 ? 0 : -EAGAIN;
    }
    wf_waiters_join(waiters, me);
    int rc = wf_wait_unlocking(me, "waitgroup", wf_lock_of(&g->lock), deadline);
    if (rc < 0) {
        wf_lock(wf_lock_of(&g->lock));
        wf_waiters_remove(waiters, &me->node);
        wf_unlock(wf_lock_of(&g->lock));
    }
    return rc;
}

int weft_waitgroup_wait(weft_waitgroup *g, weft_time deadline)
{
    if (!g)
        return -EINVAL;
    if (wf_enter_cancelled(__func__, g, deadline))
        return -ECANCELED;
    uint32_t count = wf_load_acquire(&g->count); /* pairs with the last done */
    if (count == 0)
        return 0;
    if (count != WF_SEALED && wf_time_is_now(deadline))
        return -EAGAIN;
    return wait_sealed(g, deadline);
}
