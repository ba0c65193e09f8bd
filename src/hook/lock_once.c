/*
 * hook/lock_once.c: pthread_once, whose function may let its fiber wait. The state is the C library's, so that threads that
 * come meanwhile wait for it as ever: bit 1 says done, bit 0 that somebody is at it, and the rest how often the process was
 * forked, as what was begun before a fork is begun again. (Its own function keeps a list on the thread, which fibers would
 * mix up.)
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <threads.h>
#include <unistd.h>

#include "hook/lock.h"

enum { BEGUN = 1, DONE = 2 };

#define CLAIMED (-1) /* what is no error number: the caller is to call the function */

static __thread pthread_once_t probe __attribute__((tls_model("initial-exec")));
static __thread pthread_once_t probed __attribute__((tls_model("initial-exec")));

static void look_at_probe(void)
{
    probed = probe;
}

/* What stands in one that is begun now. */
static pthread_once_t begun_now(void)
{
    probe = PTHREAD_ONCE_INIT;
    wf_real.pthread_once(&probe, look_at_probe);
    return probed;
}

static int attempt(void *object)
{
    pthread_once_t *once = object;
    pthread_once_t state = __atomic_load_n(once, __ATOMIC_ACQUIRE), begun = 0;
    for (;;) {
        if (state & DONE)
            return 0;
        if (begun == 0)
            begun = begun_now();
        if (state == begun)
            return EBUSY;
        if (__atomic_compare_exchange_n(once, &state, begun, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return CLAIMED;
    }
}

/* Ends the call: those that wait go on. */
static void settle(pthread_once_t *once, pthread_once_t state)
{
    int kept = errno;
    __atomic_store_n(once, state, __ATOMIC_RELEASE); /* pairs with attempt's load, and with the C library's */
    syscall(SYS_futex, once, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    wf_lot_wake(once, INT_MAX);
    errno = kept;
}

/* An exception has come out of the function: it was not called. */
static void give_back(pthread_once_t **once)
{
    if (*once)
        settle(*once, PTHREAD_ONCE_INIT);
}

static void call(pthread_once_t *once, void (*fn)(void))
{
    __attribute__((cleanup(give_back))) pthread_once_t *under_way = once;
    fn();
    under_way = NULL;
    settle(once, DONE);
}

static int call_in_fiber(pthread_once_t *once, void (*fn)(void), const void *caller)
{
    if (__atomic_load_n(once, __ATOMIC_ACQUIRE) & DONE) /* pairs with settle, and with the C library's */
        return 0;
    if (!wf_lock_may_wait(caller)) {
        int rc = wf_real.pthread_once(once, fn);
        wf_lot_wake(once, INT_MAX);
        return rc;
    }
    int rc = attempt(once);
    if (rc == EBUSY) {
        struct wf_callable c = wf_callable_keep(fn);
        rc = wf_lot_take(once, WF_LOT_SHARED, attempt, WF_NO_LIMIT, true);
        wf_callable_put_back(&c);
    }
    if (rc == CLAIMED)
        call(once, fn);
    return 0;
}

HOOK int pthread_once(pthread_once_t *once, void (*fn)(void))
{
    if (wf_locks_here())
        return call_in_fiber(once, fn, WF_CALLER);
    int rc = wf_real.pthread_once(once, fn);
    if (unlikely(wf_locks_on))
        wf_lot_wake(once, INT_MAX);
    return rc;
}

HOOK void call_once(once_flag *flag, void (*fn)(void))
{
    pthread_once((pthread_once_t *)flag, fn);
}
