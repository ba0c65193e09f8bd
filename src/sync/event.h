/*
 * sync/event.h: the event from within, for whoever waits for more than one thing (select).
 *
 *      wf_lock(wf_event_lock(e));
 *      if (!wf_event_is_set(e))                    // from here to the unlock it cannot be set
 *          wf_event_add(e, &waiter, me);           // waiter.index is what the wait will return
 *      ... unlock when `me` waits ...
 *      ... afterwards, unless this waiter was the one: lock, wf_event_take_back(e, &waiter), unlock ...
 *
 * The word is a flag that can be sealed (sync/object.h); it is while somebody waits.
 */
#ifndef WF_SYNC_EVENT_H
#define WF_SYNC_EVENT_H

#include "sync/object.h"

enum {
    WF_EVENT_SET = 1, /* in the word */
};

static inline struct wf_lock *wf_event_lock(weft_event *e)
{
    return wf_lock_of(&e->lock);
}

/* As weft_event_set, but never lets others run: for a caller that holds a lock. */
void wf_event_set(weft_event *e);

/* Whether it is set; if not, it stays so until the unlock. guarded by: lock. For who would wait if it is not. */
static inline bool wf_event_is_set(weft_event *e)
{
    bool is_set = wf_seal(&e->word) & WF_EVENT_SET;
    if (is_set)
        wf_unseal(&e->word, WF_EVENT_SET);
    return is_set;
}

/* guarded by: lock, since wf_event_is_set said no. */
static inline void wf_event_add(weft_event *e, struct wf_waiter *w, struct wf_sleeper *who)
{
    wf_waiters_add(wf_waiters_of(&e->waiters), w, who);
}

/* guarded by: lock. Nothing happens if it was taken out before. */
static inline void wf_event_take_back(weft_event *e, struct wf_waiter *w)
{
    wf_waiters_remove(wf_waiters_of(&e->waiters), w);
}

#endif
