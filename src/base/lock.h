/*
 * base/lock.h: the lock of objects whose critical sections are a few instructions. Taken by fibers and plain threads
 * alike, never held while a fiber waits: who must wait hands it to its worker, which releases it (sched/wait.h).
 *
 * A word: 0 free, 1 held, 2 held and somebody may sleep on it. Zeroed memory is a free lock.
 */
#ifndef WF_BASE_LOCK_H
#define WF_BASE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"

struct wf_lock {
    uint32_t word; /* atomic */
};

WF_COLD void wf_lock_slowly(struct wf_lock *l);
WF_COLD void wf_lock_wake(struct wf_lock *l);

static inline bool wf_lock_try(struct wf_lock *l)
{
    uint32_t is_free = 0;
    return wf_cas(&l->word, &is_free, 1); /* acquire: pairs with wf_unlock */
}

static inline void wf_lock(struct wf_lock *l)
{
    if (wf_unlikely(!wf_lock_try(l)))
        wf_lock_slowly(l);
}

/* Touches nothing of the lock once others may have it, but for its address: the memory may be gone. */
static inline void wf_unlock(struct wf_lock *l)
{
    if (wf_unlikely(wf_exchange(&l->word, 0) == 2)) /* release: pairs with wf_lock */
        wf_lock_wake(l);
}

#endif
