/*
 * sync/object.h: what the objects of weft/sync.h have in common.
 *
 * Each is a lock, a list of waiters that it guards, and a word for the ways that need no lock. Two rules hold for all:
 *
 * Who brings somebody what it waited for must not touch the object after that one may have gone on, for then it may be
 * gone. So it settles waiters under the lock, unlocks, and makes them ready last; and it never stores to the word what
 * lets somebody pass who takes no lock, and unlocks after that.
 *
 * Counts (semaphore, waitgroup) and the event's flag keep the second half by a seal, the highest bit of the word. While
 * the word is sealed it changes under the lock only, and nobody passes without that. Who is about to wait seals it; it
 * stays sealed until somebody who came to wait finds that it need not. (Owners, in mutex, rwlock and once, have another
 * way: they unlock first and then let go by a compare-and-swap, which fails if a waiter has come.)
 */
#ifndef WF_SYNC_OBJECT_H
#define WF_SYNC_OBJECT_H

#include <weft/sync.h>

#include "base/atomic.h"
#include "base/lock.h"
#include "base/panic.h"
#include "sched/slice.h"
#include "sched/wait.h"

static inline struct wf_lock *wf_lock_of(uint32_t *lock)
{
    _Static_assert(sizeof(struct wf_lock) == sizeof(uint32_t), "the public structs have this field");
    return (struct wf_lock *)lock;
}

static inline struct wf_waiters *wf_waiters_of(weft_waiters *waiters)
{
    _Static_assert(sizeof(struct wf_waiters) == sizeof(weft_waiters), "the public structs have this field");
    return (struct wf_waiters *)waiters;
}

/* The caller as the owner of something. The lowest two bits are 0. */
static inline uintptr_t wf_me(void)
{
    return (uintptr_t)wf_whoami();
}

/* The same right after wf_enter_cancelled. */
static inline uintptr_t wf_me_here(void)
{
    return (uintptr_t)wf_whoami_here();
}

/* Debug builds: every call looks where its object is. */
static inline void wf_check_place(const char *function, const void *object)
{
#if WF_DEBUG
    if (wf_on_copied_stack(object))
        wf_panic(function,
                 "the object is on a shared stack, where others cannot reach it while the fiber waits; make it static, "
                 "allocate it, or give the fiber a stack of its own");
#else
    (void)function, (void)object;
#endif
}

/* Every call that cannot wait begins with this, except calls that let go of a lock: a time slice is spent at calls. */
static inline void wf_enter(const char *function, const void *object)
{
    wf_check_place(function, object);
    wf_slice_enter();
}

/* Every call that can wait begins with this. True: the caller was cancelled, and the call returns -ECANCELED. */
static inline bool wf_enter_cancelled(const char *function, const void *object, weft_time deadline)
{
    wf_check_place(function, object);
    return wf_cancel_point_here(deadline);
}

/* The place of a wait on one object. guarded by: the object's lock. */
static inline void wf_waiters_join(struct wf_waiters *l, struct wf_sleeper *me)
{
    me->node.index = 0;
    wf_waiters_add(l, &me->node, me);
}

/*
 * Takes all out and wins those that have not given up, with their index as the result (0 but for select). Returns them,
 * chained by `next`: for wf_ready_all, after the unlock.
 */
static inline struct wf_waiter *wf_waiters_win_all(struct wf_waiters *l)
{
    struct wf_waiter *won = NULL, **end = &won;
    for (struct wf_waiter *w; (w = l->first) != NULL;) {
        wf_waiters_remove(l, w);
        if (wf_settle(w->who, (int)w->index)) {
            *end = w;
            end = &w->next;
        }
    }
    *end = NULL;
    return won;
}

static inline void wf_ready_all(struct wf_waiter *won)
{
    while (won) {
        struct wf_waiter *next = won->next; /* `won` is gone when its owner goes on */
        wf_ready(won->who);
        won = next;
    }
}

#define WF_SEALED 0x80000000u

/* Seals the word, under the lock, and returns the rest of it. */
static inline uint32_t wf_seal(uint32_t *word)
{
    uint32_t was = wf_load(word); /* if sealed: ordered by the lock */
    if (!(was & WF_SEALED))
        was = wf_or(word, WF_SEALED); /* acquire: pairs with who changed it without the lock */
    return was & ~WF_SEALED;
}

/* Under the lock; only for who came to wait, see above. */
static inline void wf_unseal(uint32_t *word, uint32_t value)
{
    wf_store_release(word, value); /* hands on what others brought: pairs with who takes it without the lock */
}

#endif
