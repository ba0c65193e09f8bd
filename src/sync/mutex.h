/*
 * sync/mutex.h: what the condition needs of the mutex. Calls of the owner `me` may come from its worker's stack.
 */
#ifndef WF_SYNC_MUTEX_H
#define WF_SYNC_MUTEX_H

#include "sched/object.h"
#include "sync/object.h"

enum {
    /* In the owner's word. */
    WF_MUTEX_WAITERS = 1, /* somebody is in the list */
    WF_MUTEX_WOKEN = 2,   /* one was taken out of it, and will try to take the mutex */
};
_Static_assert((WF_MUTEX_WAITERS | WF_MUTEX_WOKEN) == WF_OWNER_BITS, "dumps look for the owner");

static inline bool wf_mutex_is_of(const weft_mutex *m, uintptr_t me)
{
    return (wf_load(&m->owner) & ~(uintptr_t)(WF_MUTEX_WAITERS | WF_MUTEX_WOKEN)) == me;
}

/* Gives away the mutex that `me` has. Returns who has it now or is to try, and is to be made ready; or NULL. */
struct wf_sleeper *wf_mutex_release(weft_mutex *m, uintptr_t me);

/* Takes the mutex, however long that takes, cancelled or not. */
void wf_mutex_take(weft_mutex *m);

#endif
