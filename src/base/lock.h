/*
 * base/lock.h: the lock of objects whose critical sections are a few instructions. Taken by fibers and plain threads
 * alike, never held while a fiber waits: who must wait hands it to its worker, which releases it (sched/wait.h).
 *
 * A word: 0 free, 1 held. Zeroed memory is a free lock. Releasing is one plain store, which is why nobody is told that
 * others wait: they spin for about as long as a critical section takes, then let others run, then sleep a little at a
 * time. That only happens when the holder was interrupted (docs/decisions/0009).
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

/* Touches nothing of the lock afterwards: the memory may be gone. */
static inline void wf_unlock(struct wf_lock *l)
{
    wf_store_release(&l->word, 0); /* pairs with wf_lock_try */
}

#endif
