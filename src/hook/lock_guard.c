/*
 * hook/lock_guard.c: what C++ guards the initialisation of a static variable of a function with, which may let its fiber
 * wait. All of it is done here, as the library it stands in for may not be one that can be found: the first byte of a guard
 * says done, the second that somebody is at it, the third that a thread sleeps for it, as in libstdc++.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hook/lock.h"

#define CLAIMED (-1) /* what is no error number: the caller is to initialise */

HOOK int __cxa_guard_acquire(uint64_t *guard);
HOOK void __cxa_guard_release(uint64_t *guard);
HOOK void __cxa_guard_abort(uint64_t *guard);

union word {
    unsigned char bytes[sizeof(int)];
    int value;
};

static const union word done = {{1, 0, 0}}, begun = {{0, 1, 0}}, slept_for = {{0, 0, 1}};

static int attempt(void *object)
{
    int state = 0;
    if (__atomic_compare_exchange_n((int *)object, &state, begun.value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return CLAIMED;
    return state == done.value ? 0 : EBUSY;
}

/* Lets the thread sleep until something has changed; somebody is at it. */
static void sleep_for(int *word)
{
    int kept = errno, state = begun.value;
    int marked = begun.value | slept_for.value;
    if (__atomic_compare_exchange_n(word, &state, marked, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) || state == marked)
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, marked, NULL, NULL, 0);
    errno = kept;
}

HOOK int __cxa_guard_acquire(uint64_t *guard)
{
    int *word = (int *)guard, rc = attempt(word);
    if (rc == EBUSY && wf_locks_here() && wf_lock_may_wait(WF_CALLER))
        rc = wf_lot_take(word, WF_LOT_SHARED, attempt, WF_NO_LIMIT, true);
    while (rc == EBUSY) {
        sleep_for(word);
        rc = attempt(word);
    }
    return rc == CLAIMED;
}

static void settle(uint64_t *guard, int state)
{
    int *word = (int *)guard, kept = errno;
    if (__atomic_exchange_n(word, state, __ATOMIC_ACQ_REL) & slept_for.value)
        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    if (unlikely(wf_locks_on))
        wf_lot_wake(word, INT_MAX);
    errno = kept;
}

HOOK void __cxa_guard_release(uint64_t *guard)
{
    settle(guard, done.value);
}

HOOK void __cxa_guard_abort(uint64_t *guard)
{
    settle(guard, 0);
}
