/*
 * sync/once.c: something that happens once.
 *
 *      NEW ──▶ its caller's identity ──▶ the same and WAITERS ──▶ DONE
 *                      └──────────────────────────────────────────▲
 *
 * With WAITERS the word changes under o->lock only.
 */

#include "base/errno.h"
#include "sched/object.h"
#include "sync/object.h"

#define NEW ((uintptr_t)0)
#define WAITERS ((uintptr_t)1) /* beside an identity: somebody is in the list */
#define DONE ((uintptr_t)2)    /* nobody's identity */
_Static_assert((WAITERS | DONE) == WF_OWNER_BITS, "dumps look for the owner");

/* fn has returned. Who waits is made ready last, when `o` is not touched any more. */
static void finish(weft_once *o, uintptr_t me)
{
    struct wf_waiter *won = NULL, **end = &won;
    uintptr_t state = me;
    while (!wf_cas(&o->state, &state, DONE)) { /* release: pairs with weft_once_do and wait_for */
        wf_lock(wf_lock_of(&o->lock));
        *end = wf_waiters_win_all(wf_waiters_of(&o->waiters));
        while (*end)
            end = &(*end)->next;
        wf_store(&o->state, me);
        wf_unlock(wf_lock_of(&o->lock));
        state = me;
    }
    wf_ready_all(won);
}

/* Waits until another's call has returned. */
static int wait_for(weft_once *o, weft_time deadline)
{
    struct wf_waiters *waiters = wf_waiters_of(&o->waiters);
    struct wf_sleeper own, *me = wf_sleeper(&own);
    wf_lock(wf_lock_of(&o->lock));
    for (uintptr_t state = wf_load_acquire(&o->state); !(state & WAITERS);) {
        if (state == DONE) {
            wf_unlock(wf_lock_of(&o->lock));
            return 0;
        }
        if (wf_cas(&o->state, &state, state | WAITERS))
            break;
    }
    wf_waiters_join(waiters, me);
    int rc = wf_wait_unlocking(me, "once", wf_lock_of(&o->lock), deadline);
    if (rc < 0) {
        wf_lock(wf_lock_of(&o->lock));
        wf_waiters_remove(waiters, &me->node);
        wf_unlock(wf_lock_of(&o->lock));
    }
    return rc;
}

int weft_once_do(weft_once *o, void (*fn)(void *arg), void *arg, weft_time deadline)
{
    if (!o || !fn)
        return -EINVAL;
    wf_enter(__func__, o);
    if (wf_load_acquire(&o->state) == DONE) /* pairs with finish */
        return 0;
    if (wf_cancel_point(wf_thread_now()->fiber, deadline)) /* a once that is DONE never makes anybody wait */
        return -ECANCELED;
    uintptr_t me = wf_me(), state = NEW;
    if (wf_cas(&o->state, &state, me)) {
        fn(arg);
        finish(o, me);
        return 0;
    }
    if (state == DONE)
        return 0;
    if ((state & ~WAITERS) == me)
        return -EDEADLK;
    return wf_time_is_now(deadline) ? -EAGAIN : wait_for(o, deadline);
}
