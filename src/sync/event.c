/*
 * sync/event.c: the event. See event.h.
 */
#include "sync/event.h"

#include "base/errno.h"

void wf_event_set(weft_event *e)
{
    uint32_t word = wf_load(&e->word);
    while (!(word & WF_SEALED)) {
        if (wf_cas(&e->word, &word, WF_EVENT_SET)) /* release: pairs with wait */
            return;
    }
    wf_lock(wf_event_lock(e));
    wf_seal(&e->word);
    wf_store(&e->word, WF_EVENT_SET | WF_SEALED);
    struct wf_waiter *won = wf_waiters_win_all(wf_waiters_of(&e->waiters));
    wf_unlock(wf_event_lock(e));
    wf_ready_all(won);
}

int weft_event_set(weft_event *e)
{
    if (!e)
        return -EINVAL;
    wf_enter(__func__, e);
    wf_event_set(e);
    return 0;
}

int weft_event_reset(weft_event *e)
{
    if (!e)
        return -EINVAL;
    wf_enter(__func__, e);
    uint32_t word = wf_load(&e->word);
    while (!(word & WF_SEALED)) {
        if (word == 0 || wf_cas(&e->word, &word, 0))
            return 0;
    }
    wf_lock(wf_event_lock(e));
    wf_seal(&e->word);
    wf_unseal(&e->word, wf_waiters_of(&e->waiters)->first ? WF_SEALED : 0); /* a reset lets nobody pass */
    wf_unlock(wf_event_lock(e));
    return 0;
}

/* With the lock if a set may be under way: who is told that the event is set may release it. */
bool weft_event_is_set(weft_event *e)
{
    if (!e)
        return false;
    wf_enter(__func__, e);
    uint32_t word = wf_load_acquire(&e->word); /* pairs with set */
    if (word != (WF_EVENT_SET | WF_SEALED))
        return word & WF_EVENT_SET;
    wf_lock(wf_event_lock(e));
    bool is_set = wf_event_is_set(e);
    wf_unlock(wf_event_lock(e));
    return is_set;
}

int weft_event_wait(weft_event *e, weft_time deadline)
{
    if (!e)
        return -EINVAL;
    if (wf_enter_cancelled(__func__, e, deadline))
        return -ECANCELED;
    if (weft_event_is_set(e))
        return 0;
    if (wf_time_is_now(deadline))
        return -EAGAIN;
    struct wf_sleeper own, *me = wf_sleeper(&own);
    wf_lock(wf_event_lock(e));
    if (wf_event_is_set(e)) {
        wf_unlock(wf_event_lock(e));
        return 0;
    }
    me->node.index = 0;
    wf_event_add(e, &me->node, me);
    int rc = wf_wait_unlocking(me, "event", wf_event_lock(e), deadline);
    if (rc < 0) {
        wf_lock(wf_event_lock(e));
        wf_event_take_back(e, &me->node);
        wf_unlock(wf_event_lock(e));
    }
    return rc;
}
