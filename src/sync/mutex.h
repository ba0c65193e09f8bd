/*
 * sync/mutex.h: what the condition needs of the mutex. Calls of the owner `me` may come from its worker's stack.
 */
#ifndef WF_SYNC_MUTEX_H
#define WF_SYNC_MUTEX_H

#include "sync/object.h"

enum {
    WF_MUTEX_WAITERS = 1, /* in the owner's word: somebody is in the list */
};

static inline bool wf_mutex_is_of(const weft_mutex *m, uintptr_t me)
{
    return (wf_load(&m->owner) & ~(uintptr_t)WF_MUTEX_WAITERS) == me;
}

/* Gives away the mutex that `me` has. Returns who has it now, and is to be made ready, or NULL: it is free. */
struct wf_sleeper *wf_mutex_release(weft_mutex *m, uintptr_t me);

/* Takes the mutex, however long that takes, cancelled or not. */
void wf_mutex_take(weft_mutex *m);

#endif
