/*
 * hook/lock.h: the locks of pthread.h, semaphore.h and threads.h for fibers (WEFT_HOOK_LOCKS=1).
 *
 * The object itself stays the lock, so threads and fibers share it, and what the C library does with it inside is right. A
 * fiber tries to take it, as one does that does not want to wait. If it cannot it waits in the lot: a table of ours, by the
 * object's address. Who unlocks does so, and then wakes the first fiber that waits at that address. An unlock that is not
 * seen (in a pthread_cond_wait of a thread, in another process, in a signal handler) is found by the first fiber of those
 * that wait: it looks again every so often.
 *
 * Ownership: a recursive or error-checking mutex, and a rwlock held to write, has its owner's thread id in it. While a
 * fiber owns it there is the fiber's mark instead, which is no thread's id, and so no other fiber of that worker is taken
 * for the owner; it is the thread's id again when the C library's unlock looks at it.
 */
#ifndef WF_HOOK_LOCK_H
#define WF_HOOK_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <weft/time.h>

#include "hook/real.h"
#include "hook/wait.h"

extern bool wf_locks_on __attribute__((visibility("hidden"))); /* const after the constructor: WEFT_HOOK_LOCKS is set */

/* Until when a call may wait, on its clock: CLOCK_REALTIME or CLOCK_MONOTONIC; at NULL: for ever. */
struct wf_limit {
    clockid_t clock;
    const struct timespec *at;
};

#define WF_NO_LIMIT ((struct wf_limit){CLOCK_REALTIME, NULL})

static inline bool wf_limit_is_wrong(struct wf_limit limit)
{
    return limit.at && (limit.at->tv_nsec < 0 || limit.at->tv_nsec >= WEFT_SEC);
}

static inline bool wf_clock_is_wrong(clockid_t clock)
{
    return clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC;
}

/* ---- who owns it ---- */

/* No id of a thread has this bit, and no other sign of the C library has only this one of the top. */
#define WF_MARK 0x40000000
#define WF_MARK_BITS 0x60000000

/*
 * The calling fiber's mark. In an object that processes share it is another in each of them, where fibers have the same ids; in
 * one that is not, the child of a fork has what its fiber had.
 */
static inline int wf_mark(bool is_shared)
{
    uint64_t salt = is_shared ? (uint64_t)wf_process() * 0x9e3779b1 : 0;
    return WF_MARK | (int)((weft_hook_self() + salt) & 0x1fffffff);
}

static inline bool wf_is_mark(int owner)
{
    return (owner & WF_MARK_BITS) == WF_MARK && owner > 0;
}

/* What the C library has as the thread's becomes the calling fiber's. */
void wf_claim(int *owner, bool is_shared);

/* And the other way round: just before the C library lets go of it. */
void wf_disclaim(int *owner);

/* ---- the lot ---- */

/* How one waits. */
enum wf_lot_kind {
    WF_LOT_ALONE,   /* who has it lets go of it in a call that is seen, and wakes the next */
    WF_LOT_COUNTED, /* there may be more of it for the next */
    WF_LOT_SHARED,  /* the same, and those that come one after another are woken together */
};

struct wf_lot_waiter; /* a fiber's place in the lot */

/* The calling fiber's. NULL: no memory. */
struct wf_lot_waiter *wf_lot_place(void);

/* From now on a wake at `key` may be for us. `first`: before all others. */
void wf_lot_join(struct wf_lot_waiter *me, const void *key, enum wf_lot_kind kind, bool first);

/* 0, -ETIMEDOUT or -ECANCELED. */
int wf_lot_wait(struct wf_lot_waiter *me, weft_time until, bool deaf);

/* True: somebody has woken us, whatever the wait has said. */
bool wf_lot_leave(struct wf_lot_waiter *me);

/* The point in time that a limit is, or an earlier one if its clock can be set: then look again. */
weft_time wf_limit_time(struct wf_limit limit);
bool wf_limit_is_over(struct wf_limit limit);

/*
 * Waits until attempt(object) says another thing than EBUSY, and returns that; or ETIMEDOUT, or, if it is not to be deaf
 * to it, ECANCELED. errno is as it was.
 */
int wf_lot_take(void *object, enum wf_lot_kind kind, int (*attempt)(void *object), struct wf_limit limit, bool deaf);

/* Wakes up to `most` of the fibers that wait at `key`; one that shares takes those behind it that share with it. */
int wf_lot_wake_some(const void *key, int most);

struct wf_lot_row {
    uint32_t lock;    /* atomic */
    uint32_t waiting; /* atomic; written under the lock */
    struct wf_lot_waiter *first, *last;
    const void *starved; /* atomic; written under the lock: at this object somebody goes before all that come now */
} __attribute__((aligned(64)));

enum { WF_LOT_ROWS = 256 };

extern struct wf_lot_row wf_lot[WF_LOT_ROWS] __attribute__((visibility("hidden")));

static inline struct wf_lot_row *wf_lot_row(const void *key)
{
    return &wf_lot[(uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15 >> 56];
}

/*
 * Whether a fiber waits there that was told again and again that the object is free, and found it taken: others that may
 * wait do not try then, but queue behind it by wf_lot_take.
 */
static inline bool wf_lot_is_starved(const void *key)
{
    return unlikely(__atomic_load_n(&wf_lot_row(key)->starved, __ATOMIC_RELAXED) == key);
}

/* The same: how many. It is the caller's that the object is as it should be by now. */
static inline int wf_lot_wake(const void *key, int most)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with wf_lot_join's */
    if (likely(__atomic_load_n(&wf_lot_row(key)->waiting, __ATOMIC_RELAXED) == 0))
        return 0;
    return wf_lot_wake_some(key, most);
}

/* ---- what std::call_once is to call ---- */

enum { WF_CALLABLES = 2 };

/* Variables of the thread: where they are in each, and what was in them. */
struct wf_callable {
    size_t module; /* 0: there are none */
    size_t offsets[WF_CALLABLES];
    void *values[WF_CALLABLES];
};

/* `fn` is what pthread_once is to call. */
struct wf_callable wf_callable_keep(void (*fn)(void));
void wf_callable_put_back(const struct wf_callable *c);

/* ---- where a fiber may wait ---- */

/* Whether the code at `caller` may be left in the middle by its fiber: an allocator may not. */
bool wf_lock_may_wait(const void *caller);

#define WF_CALLER __builtin_extract_return_addr(__builtin_return_address(0))

/* Whether the call is a fiber's, which owns what it takes. */
static inline bool wf_locks_here(void)
{
    return unlikely(wf_locks_on) && weft_hook_self() != 0;
}

/* ---- without WEFT_HOOK_LOCKS: waits with a mutex ---- */

extern bool wf_held_alone __attribute__((visibility("hidden"))); /* atomic: a fiber that was alone waits with a mutex */

/* Whether that fiber is the caller, and has gone on; else, if the caller is about to lock something, tells of it. */
void wf_held_look(bool locks);

/* ---- the mutex, also for conditions. They return error numbers, and are for where wf_locks_here() ---- */

int wf_mutex_lock(pthread_mutex_t *m, struct wf_limit limit, const void *caller);
int wf_mutex_trylock(pthread_mutex_t *m);
int wf_mutex_unlock(pthread_mutex_t *m); /* also a thread's */
/* wait(arg), which lets go of the calling fiber's mutex and takes it back as the thread's. */
int wf_mutex_as_thread(pthread_mutex_t *m, int (*wait)(void *arg), void *arg);

#endif
