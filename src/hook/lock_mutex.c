/*
 * hook/lock_mutex.c: the mutex; see lock.h.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hook/lock.h"

/* Of a mutex's kind. */
enum {
    TYPE = 3,     /* says whether its owner matters */
    ROBUST = 16,  /* the kernel says in it if its owner has died */
    SHARED = 128, /* between processes */
};

/* Who owns a robust one, to the C library, from EOWNERDEAD to pthread_mutex_consistent; with a fiber's mark it is a bit. */
#define INCONSISTENT INT_MAX
#define INCONSISTENT_BIT INT_MIN
#define NOT_RECOVERABLE (INT_MAX - 1) /* ... after an unlock without it, for good */

static __thread int thread_id __attribute__((tls_model("initial-exec"))); /* as the C library has it; 0: not known */

static void forget_id(void)
{
    thread_id = 0;
}

__attribute__((constructor(103))) static void set_up(void)
{
    if (wf_locks_on)
        pthread_atfork(NULL, NULL, forget_id);
}

void wf_claim(int *owner, bool is_shared)
{
    thread_id = __atomic_load_n(owner, __ATOMIC_RELAXED);
    __atomic_store_n(owner, wf_mark(is_shared), __ATOMIC_RELAXED);
}

void wf_disclaim(int *owner)
{
    if (thread_id == 0) /* it was taken on another thread */
        thread_id = (int)syscall(SYS_gettid);
    __atomic_store_n(owner, thread_id, __ATOMIC_RELAXED);
}

static int type_of(const pthread_mutex_t *m)
{
    return __atomic_load_n(&m->__data.__kind, __ATOMIC_RELAXED) & TYPE;
}

static bool is_owned(const pthread_mutex_t *m)
{
    int type = type_of(m);
    return type == PTHREAD_MUTEX_RECURSIVE_NP || type == PTHREAD_MUTEX_ERRORCHECK_NP;
}

static bool is_shared(const pthread_mutex_t *m)
{
    return __atomic_load_n(&m->__data.__kind, __ATOMIC_RELAXED) & SHARED;
}

static int owner_of(const pthread_mutex_t *m)
{
    return __atomic_load_n(&m->__data.__owner, __ATOMIC_RELAXED);
}

static bool is_robust(const pthread_mutex_t *m)
{
    return __atomic_load_n(&m->__data.__kind, __ATOMIC_RELAXED) & ROBUST;
}

static bool has_died(const pthread_mutex_t *m)
{
    return is_robust(m) && __atomic_load_n(&m->__data.__lock, __ATOMIC_RELAXED) & FUTEX_OWNER_DIED;
}

/* The mark of the fiber that has it; 0: none has. What one leaves that has died with its process says nothing. */
static int mark_of(const pthread_mutex_t *m)
{
    int mark = owner_of(m) & ~INCONSISTENT_BIT;
    return is_owned(m) && wf_is_mark(mark) && !has_died(m) ? mark : 0;
}

static bool is_inconsistent(const pthread_mutex_t *m)
{
    return owner_of(m) & INCONSISTENT_BIT;
}

static void claim(pthread_mutex_t *m)
{
    if (!is_owned(m))
        return;
    if (owner_of(m) == INCONSISTENT)
        __atomic_store_n(&m->__data.__owner, wf_mark(is_shared(m)) | INCONSISTENT_BIT, __ATOMIC_RELAXED);
    else
        wf_claim(&m->__data.__owner, is_shared(m));
}

static void disclaim(pthread_mutex_t *m)
{
    if (is_inconsistent(m))
        __atomic_store_n(&m->__data.__owner, INCONSISTENT, __ATOMIC_RELAXED);
    else
        wf_disclaim(&m->__data.__owner);
}

/* The C library has said so when the calling fiber took it. */
static int taken(pthread_mutex_t *m, int rc)
{
    if (rc == 0 || rc == EOWNERDEAD)
        claim(m);
    return rc;
}

/* One that others have is EBUSY, also if it is another fiber of this thread, or something on it that is no fiber. */
static int attempt(void *object)
{
    pthread_mutex_t *m = object;
    if (unlikely(is_robust(m)) && owner_of(m) == NOT_RECOVERABLE)
        return ENOTRECOVERABLE; /* the C library's trylock would say so too, but leave it locked */
    if (!is_owned(m))
        return wf_real.pthread_mutex_trylock(m);
    if (mark_of(m) != 0)
        return EBUSY;
    int rc = wf_real.pthread_mutex_trylock(m);
    if (rc == 0 && type_of(m) == PTHREAD_MUTEX_RECURSIVE_NP && m->__data.__count > 1) {
        wf_real.pthread_mutex_unlock(m);
        return EBUSY;
    }
    return rc == EDEADLK ? EBUSY : taken(m, rc);
}

static bool is_mine(const pthread_mutex_t *m)
{
    return mark_of(m) == wf_mark(is_shared(m));
}

/* Once more by its owner, who gets `otherwise` if that cannot be. */
static int take_again(pthread_mutex_t *m, int otherwise)
{
    if (type_of(m) != PTHREAD_MUTEX_RECURSIVE_NP)
        return otherwise;
    if (m->__data.__count == UINT32_MAX)
        return EAGAIN;
    m->__data.__count++;
    return 0;
}

int wf_mutex_trylock(pthread_mutex_t *m)
{
    return is_mine(m) ? take_again(m, EBUSY) : attempt(m);
}

int wf_mutex_lock(pthread_mutex_t *m, struct wf_limit limit, const void *caller)
{
    if (is_mine(m))
        return take_again(m, EDEADLK);
    int rc = wf_lot_is_starved(m) && wf_lock_may_wait(caller) ? EBUSY : attempt(m);
    if (rc != EBUSY)
        return rc;
    if (wf_limit_is_wrong(limit))
        return EINVAL;
    if (wf_lock_may_wait(caller))
        return wf_lot_take(m, WF_LOT_ALONE, attempt, limit, true);
    rc = limit.at ? wf_real.pthread_mutex_clocklock(m, limit.clock, limit.at) : wf_real.pthread_mutex_lock(m);
    return taken(m, rc);
}

int wf_mutex_as_thread(pthread_mutex_t *m, int (*wait)(void *arg), void *arg)
{
    bool mine = is_mine(m);
    if (mine)
        disclaim(m);
    int rc = wait(arg);
    if (mine && mark_of(m) == 0 && rc != ENOTRECOVERABLE)
        claim(m);
    return rc;
}

int wf_mutex_unlock(pthread_mutex_t *m)
{
    if (mark_of(m) != 0) {
        if (weft_hook_self() == 0 || !is_mine(m))
            return EPERM;
        if (type_of(m) == PTHREAD_MUTEX_RECURSIVE_NP && m->__data.__count > 1) {
            m->__data.__count--;
            return is_inconsistent(m) ? ENOTRECOVERABLE : 0;
        }
        disclaim(m);
    }
    int rc = wf_real.pthread_mutex_unlock(m);
    if (rc == 0)
        wf_lot_wake(m, 1);
    return rc;
}

/* ---- the names. A thread's calls are the C library's; without the option a fiber's mutexes are counted ---- */

static bool is_fiber(void)
{
    return unlikely(weft_hook_self() != 0);
}

/* Without the option: a fiber is about to lock or unlock something (wf_held_look). */
static void look_for_lone_wait(bool locks)
{
    if (unlikely(__atomic_load_n(&wf_held_alone, __ATOMIC_RELAXED)))
        wf_held_look(locks);
}

static int counted(int rc)
{
    if (wf_hooks_on && (rc == 0 || rc == EOWNERDEAD))
        weft_hook_held(1);
    return rc;
}

HOOK int pthread_mutex_lock(pthread_mutex_t *m)
{
    if (!is_fiber())
        return wf_real.pthread_mutex_lock(m);
    if (wf_locks_on)
        return wf_mutex_lock(m, WF_NO_LIMIT, WF_CALLER);
    look_for_lone_wait(true);
    return counted(wf_real.pthread_mutex_lock(m));
}

HOOK int pthread_mutex_trylock(pthread_mutex_t *m)
{
    if (!is_fiber())
        return wf_real.pthread_mutex_trylock(m);
    return wf_locks_on ? wf_mutex_trylock(m) : counted(wf_real.pthread_mutex_trylock(m));
}

HOOK int pthread_mutex_timedlock(pthread_mutex_t *m, const struct timespec *at)
{
    if (!is_fiber())
        return wf_real.pthread_mutex_timedlock(m, at);
    if (wf_locks_on)
        return wf_mutex_lock(m, (struct wf_limit){CLOCK_REALTIME, at}, WF_CALLER);
    look_for_lone_wait(true);
    return counted(wf_real.pthread_mutex_timedlock(m, at));
}

HOOK int pthread_mutex_clocklock(pthread_mutex_t *m, clockid_t clock, const struct timespec *at)
{
    if (!is_fiber() || wf_clock_is_wrong(clock))
        return wf_real.pthread_mutex_clocklock(m, clock, at);
    if (wf_locks_on)
        return wf_mutex_lock(m, (struct wf_limit){clock, at}, WF_CALLER);
    look_for_lone_wait(true);
    return counted(wf_real.pthread_mutex_clocklock(m, clock, at));
}

HOOK int pthread_mutex_unlock(pthread_mutex_t *m)
{
    if (unlikely(wf_locks_on))
        return wf_mutex_unlock(m);
    if (!is_fiber())
        return wf_real.pthread_mutex_unlock(m);
    look_for_lone_wait(false);
    int rc = wf_real.pthread_mutex_unlock(m);
    if (rc == 0)
        weft_hook_held(-1);
    return rc;
}

HOOK int pthread_mutex_consistent(pthread_mutex_t *m)
{
    if (!wf_locks_here() || !is_mine(m))
        return wf_real.pthread_mutex_consistent(m);
    disclaim(m);
    int rc = wf_real.pthread_mutex_consistent(m);
    claim(m);
    return rc;
}

/* ---- threads.h: the same objects ---- */

static int as_thrd(int rc)
{
    return rc == 0           ? thrd_success
           : rc == EBUSY     ? thrd_busy
           : rc == ETIMEDOUT ? thrd_timedout
           : rc == ENOMEM    ? thrd_nomem
                             : thrd_error;
}

HOOK int mtx_lock(mtx_t *m)
{
    return as_thrd(pthread_mutex_lock((pthread_mutex_t *)m));
}

HOOK int mtx_trylock(mtx_t *m)
{
    return as_thrd(pthread_mutex_trylock((pthread_mutex_t *)m));
}

HOOK int mtx_timedlock(mtx_t *restrict m, const struct timespec *restrict at)
{
    return as_thrd(pthread_mutex_timedlock((pthread_mutex_t *)m, at));
}

HOOK int mtx_unlock(mtx_t *m)
{
    return as_thrd(pthread_mutex_unlock((pthread_mutex_t *)m));
}

HOOK int cnd_wait(cnd_t *c, mtx_t *m)
{
    return as_thrd(pthread_cond_wait((pthread_cond_t *)c, (pthread_mutex_t *)m));
}

HOOK int cnd_timedwait(cnd_t *restrict c, mtx_t *restrict m, const struct timespec *restrict at)
{
    return as_thrd(pthread_cond_timedwait((pthread_cond_t *)c, (pthread_mutex_t *)m, at));
}

HOOK int cnd_signal(cnd_t *c)
{
    return as_thrd(pthread_cond_signal((pthread_cond_t *)c));
}

HOOK int cnd_broadcast(cnd_t *c)
{
    return as_thrd(pthread_cond_broadcast((pthread_cond_t *)c));
}
