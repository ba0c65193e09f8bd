/*
 * sync/barrier.c: the barrier. `arrived` is how many are in the list; both guarded by: lock. `count` is const after init.
 *
 * The last to come takes all out, those included that have run out of time but have not yet said so: they were counted,
 * so they pass.
 */

#include "base/errno.h"
#include "sync/object.h"

int weft_barrier_init(weft_barrier *b, unsigned count)
{
    if (!b || count == 0)
        return -EINVAL;
    wf_check_place(__func__, b);
    *b = (weft_barrier){.count = count};
    return 0;
}

/* The caller came last: b->lock is held. */
static int let_all_pass(weft_barrier *b)
{
    struct wf_waiter *won = wf_waiters_win_all(wf_waiters_of(&b->waiters));
    b->arrived = 0;
    wf_unlock(wf_lock_of(&b->lock));
    wf_ready_all(won);
    return 1;
}

/* 0: too late, the caller was counted. */
static int give_up(weft_barrier *b, struct wf_sleeper *me, int why)
{
    wf_lock(wf_lock_of(&b->lock));
    bool counted = !wf_waiter_linked(&me->node);
    if (!counted) {
        wf_waiters_remove(wf_waiters_of(&b->waiters), &me->node);
        b->arrived--;
    }
    wf_unlock(wf_lock_of(&b->lock));
    return counted ? 0 : why;
}

int weft_barrier_wait(weft_barrier *b, weft_time deadline)
{
    if (!b || b->count == 0)
        return -EINVAL;
    if (wf_enter_cancelled(__func__, b, deadline))
        return -ECANCELED;
    struct wf_sleeper own, *me = wf_sleeper(&own);
    wf_lock(wf_lock_of(&b->lock));
    if (b->arrived + 1 == b->count)
        return let_all_pass(b);
    if (wf_time_is_now(deadline)) {
        wf_unlock(wf_lock_of(&b->lock));
        return -EAGAIN;
    }
    b->arrived++;
    wf_waiters_join(wf_waiters_of(&b->waiters), me);
    int rc = wf_wait_unlocking(me, "barrier", wf_lock_of(&b->lock), deadline);
    return rc < 0 ? give_up(b, me, rc) : 0;
}
