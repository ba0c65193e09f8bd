/*
 * weft/sync.h: locks and signals between fibers, of one worker, of several, of several schedulers, and plain threads. A
 * fiber that has to wait parks; a thread blocks.
 *
 * Storage: an object is the caller's, on the heap, in a struct or on a private stack; its fields are not to be touched.
 * All zero is a valid one, nothing is allocated, and nothing is to be destroyed. It may be released when no call on it
 * can be under way any more; who brings somebody what it waited for (unlock, post, set, the last done) does not touch the
 * object after that one can go on, so a semaphore or an event on the waiter's stack is safe. It must not be copied or
 * moved while in use, and must not lie on a shared stack (weft/stack.h): debug builds (WEFT_DEBUG) abort then. They
 * also abort when a fiber ends while it holds a mutex, or a rwlock to write, or while another fiber waits for an object
 * on its stack. They abort when a wait ends and its object was overwritten meanwhile.
 *
 * Deadlines: WEFT_NOW never waits: -EAGAIN. A deadline in the past tries once, then -ETIMEDOUT. A fiber that was
 * cancelled gets -ECANCELED, also where it would not have to wait (weft_cancel says which calls go on). A call that
 * fails has taken nothing.
 *
 * Order: first come, first served. Who comes later never passes one that waits: with n ahead of it, a waiter gets its turn
 * after n others had theirs. The mutex alone may be taken by others before the first that waits has woken up, and says
 * for how long.
 *
 * Memory: what happened before an unlock, post, set, signal or done is seen by whoever that lets go on.
 *
 * Failure: a negative errno is returned, and errno is never set. Every function returns -EINVAL for NULL.
 */
#ifndef WEFT_SYNC_H
#define WEFT_SYNC_H

#include <weft/api.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

struct wf_waiter;

/** Those who wait for an object, in their order. */
typedef struct weft_waiters {
    struct wf_waiter *first, *last;
} weft_waiters;

/** One at a time. The owner is a fiber or a plain thread, and only it unlocks. */
typedef struct weft_mutex {
    uintptr_t owner;
    uint32_t lock, depth;
    weft_waiters waiters;
} weft_mutex;

/**
 * Takes the mutex. Without contention this is one atomic operation. Of those who wait the first is always next: it is
 * handed the mutex if it is on the worker of the one that unlocks, else it is told to try. Others may take the mutex
 * before it comes to that, but not for ever: the ninth time it is handed the mutex.
 *
 * Returns: 0, -EDEADLK the caller has it, -EAGAIN, -ETIMEDOUT, -ECANCELED
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    the caller has the mutex on 0
 */
WEFT_API int weft_mutex_lock(weft_mutex *m, weft_time deadline);

/**
 * Sets the mutex free, or gives it to the first that waits.
 *
 * Returns: 0, -EPERM the caller does not have it
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    the caller has it no more
 */
WEFT_API int weft_mutex_unlock(weft_mutex *m);

/** A mutex that its owner may lock again; it is free after as many unlocks. */
typedef struct weft_rmutex {
    weft_mutex mutex;
} weft_rmutex;

/**
 * Takes the mutex, or takes it once more.
 *
 * Returns: 0, -EOVERFLOW the caller has it 2^32 times, -EAGAIN, -ETIMEDOUT, -ECANCELED
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    the caller has the mutex on 0
 */
WEFT_API int weft_rmutex_lock(weft_rmutex *m, weft_time deadline);

/**
 * Takes one lock back; the last gives the mutex away, as weft_mutex_unlock.
 *
 * Returns: 0, -EPERM the caller does not have it
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    the caller has it once less
 */
WEFT_API int weft_rmutex_unlock(weft_rmutex *m);

/**
 * Many readers or one writer. Readers that come after a waiting writer wait behind it, so neither side starves: who
 * leaves lets in the first that waits and, if that is a reader, the readers right behind it up to the next writer. So a
 * reader must not lock again while it reads: a writer may have come between.
 */
typedef struct weft_rwlock {
    uintptr_t word;
    uint32_t lock, spare;
    weft_waiters waiters;
} weft_rwlock;

/**
 * Takes the lock to read. Without contention this is one atomic operation.
 *
 * Returns: 0, -EDEADLK the caller has it to write, -EAGAIN, -ETIMEDOUT, -ECANCELED
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    the caller shares the lock on 0
 */
WEFT_API int weft_rwlock_read_lock(weft_rwlock *l, weft_time deadline);

/**
 * Takes the lock to write. There is no way up: one that reads waits for itself.
 *
 * Returns: 0, -EDEADLK the caller has it to write, -EAGAIN, -ETIMEDOUT, -ECANCELED
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    the caller has the lock on 0
 */
WEFT_API int weft_rwlock_write_lock(weft_rwlock *l, weft_time deadline);

/**
 * Ends reading or writing.
 *
 * Returns: 0, -EPERM nobody has the lock, or another writes. Readers are counted, not known: while somebody reads, an
 *          unlock too many is taken for that one's.
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    the caller has it no more
 */
WEFT_API int weft_rwlock_unlock(weft_rwlock *l);

/** Waits until something under a mutex has changed. */
typedef struct weft_cond {
    uint32_t lock, waiting;
    weft_waiters waiters;
} weft_cond;

/**
 * Releases `m`, waits for a signal and takes m again; no signal given after the release is missed. The mutex is held
 * on every return, and taking it back has no deadline. A 0 says that a signal or broadcast was meant for the caller; that
 * the condition still holds when it has the mutex again is to be looked at, in a loop.
 *
 * Returns: 0, -EPERM the caller does not have m, -EAGAIN for WEFT_NOW, always, and m was not released; -ETIMEDOUT,
 *          -ECANCELED
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    the caller has m before and after
 */
WEFT_API int weft_cond_wait(weft_cond *c, weft_mutex *m, weft_time deadline);

/**
 * Wakes the first of those that wait now. Who comes later cannot take its place. The mutex need not be held.
 *
 * Returns: 0
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_cond_signal(weft_cond *c);

/**
 * Wakes all that wait now. The mutex need not be held.
 *
 * Returns: 0
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_cond_broadcast(weft_cond *c);

/** A count of permits: weft_sem s = WEFT_SEM(3); all zero is one without permits. */
typedef struct weft_sem {
    uint32_t count, lock;
    weft_waiters waiters;
} weft_sem;

#define WEFT_SEM_MAX 0x7fffffffu
/* clang-format off */
#define WEFT_SEM(permits) {(permits), 0, {NULL, NULL}}
/* clang-format on */

/**
 * Takes a permit. While there are any this is one atomic operation.
 *
 * Returns: 0, -EAGAIN, -ETIMEDOUT, -ECANCELED
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API int weft_sem_wait(weft_sem *s, weft_time deadline);

/**
 * Gives a permit to the first that waits, or adds it to the count: one atomic operation, if nobody has waited of late.
 *
 * Returns: 0, -EOVERFLOW there are WEFT_SEM_MAX
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_sem_post(weft_sem *s);

/** Counts work that is under way and waits until there is none: add before starting it, done at its end. */
typedef struct weft_waitgroup {
    uint32_t count, lock;
    weft_waiters waiters;
} weft_waitgroup;

/**
 * Adds `n`, which may be negative, to the count. When that brings it to 0, all that wait go on.
 *
 * Returns: 0; -EINVAL the count would be below 0, -EOVERFLOW above 2^31 - 1: it is then as before
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_waitgroup_add(weft_waitgroup *g, int n);

/**
 * weft_waitgroup_add(g, -1).
 *
 * Returns: 0, -EINVAL the count is 0
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_waitgroup_done(weft_waitgroup *g);

/**
 * Waits until the count is 0. It may rise again at once: who waited for this 0 goes on all the same.
 *
 * Returns: 0, -EAGAIN, -ETIMEDOUT, -ECANCELED
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API int weft_waitgroup_wait(weft_waitgroup *g, weft_time deadline);

/** Something that happens once. */
typedef struct weft_once {
    uintptr_t state;
    uint32_t lock, spare;
    weft_waiters waiters;
} weft_once;

/**
 * Calls fn(arg) if no call was made before; else waits until that one has returned. After the first 0 this is one load.
 * fn runs in the caller, may wait, and must return.
 *
 * Returns: 0 fn has returned, here or elsewhere; -EINVAL no fn, -EDEADLK called from within fn, -EAGAIN and -ETIMEDOUT
 *          while another calls it, -ECANCELED the caller was cancelled: fn has not run here. The deadline is for
 *          waiting, not for fn
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API int weft_once_do(weft_once *o, void (*fn)(void *arg), void *arg, weft_time deadline);

/** Set or not; stays so until told otherwise. */
typedef struct weft_event {
    uint32_t word, lock;
    weft_waiters waiters;
} weft_event;

/**
 * Sets the event: all that wait go on, and so does who comes, until a reset. To set it again does nothing.
 *
 * Returns: 0
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_event_set(weft_event *e);

/**
 * Takes the set back. Those that it let go on still do.
 *
 * Returns: 0
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_event_reset(weft_event *e);

/**
 * Whether the event is set.
 *
 * Returns: true if so; false for NULL
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API bool weft_event_is_set(weft_event *e);

/**
 * Waits until the event is set.
 *
 * Returns: 0, -EAGAIN, -ETIMEDOUT, -ECANCELED
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API int weft_event_wait(weft_event *e, weft_time deadline);

/** Lets nobody pass before `count` have come; then all of them, and is at once ready for the next `count`. */
typedef struct weft_barrier {
    uint32_t count, arrived, lock, spare;
    weft_waiters waiters;
} weft_barrier;

/**
 * Makes a barrier for groups of `count`. One that is all zero has no count, and cannot be waited at.
 *
 * Returns: 0, -EINVAL the count is 0
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_barrier_init(weft_barrier *b, unsigned count);

/**
 * Waits until as many as the barrier is for have come. Who gives up is not counted; the others wait for another. One that
 * is late in giving up, when the group is complete, passes with it.
 *
 * Returns: 1 to one of the group (the last that came), 0 to the others; -EINVAL no count was set, -EAGAIN the group is
 *          not complete, -ETIMEDOUT, -ECANCELED
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API int weft_barrier_wait(weft_barrier *b, weft_time deadline);

WEFT_END_DECLS

#endif
