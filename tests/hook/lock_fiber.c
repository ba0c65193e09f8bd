/*
 * tests/hook/lock_fiber.c: locks where being a fiber makes a difference, and how soon one goes on (WEFT_HOOK_LOCKS=1).
 */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <weft/fiber.h>
#include <weft/hook.h>

#include "hook/clock.h"
#include "hook/peer.h"

/* ---- how soon ---- */

enum { ROUNDS = 15, HELD_MS = 45 }; /* one that only looks again does so after 31 ms, and after 63 */

#define AT_ONCE_MS 1.5

struct handover {
    pthread_mutex_t mutex;
    pthread_rwlock_t rwlock;
    sem_t sem;
    pthread_once_t once;
    int ready;     /* atomic */
    double let_go; /* when it became free; published by the object itself */
};

static struct handover handover;

static void hold_mutex(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&handover.mutex);
    __atomic_store_n(&handover.ready, 1, __ATOMIC_RELEASE);
    usleep(HELD_MS * 1000);
    handover.let_go = now_ms();
    pthread_mutex_unlock(&handover.mutex);
}

static void take_mutex(void)
{
    pthread_mutex_lock(&handover.mutex);
    pthread_mutex_unlock(&handover.mutex);
}

static void hold_rwlock(void *arg)
{
    (void)arg;
    pthread_rwlock_wrlock(&handover.rwlock);
    __atomic_store_n(&handover.ready, 1, __ATOMIC_RELEASE);
    usleep(HELD_MS * 1000);
    handover.let_go = now_ms();
    pthread_rwlock_unlock(&handover.rwlock);
}

static void take_rwlock(void)
{
    pthread_rwlock_rdlock(&handover.rwlock);
    pthread_rwlock_unlock(&handover.rwlock);
}

static void hold_sem(void *arg)
{
    (void)arg;
    __atomic_store_n(&handover.ready, 1, __ATOMIC_RELEASE);
    usleep(HELD_MS * 1000);
    handover.let_go = now_ms();
    sem_post(&handover.sem);
}

static void take_sem(void)
{
    sem_wait(&handover.sem);
}

static void be_slow(void)
{
    __atomic_store_n(&handover.ready, 1, __ATOMIC_RELEASE);
    usleep(HELD_MS * 1000);
    handover.let_go = now_ms();
}

static void hold_once(void *arg)
{
    (void)arg;
    pthread_once(&handover.once, be_slow);
}

static void take_once(void)
{
    pthread_once(&handover.once, be_slow);
}

/*
 * Of several, the shortest time that one was late, or the first that was not: a busy machine delays some, one that only looks
 * now and then all.
 */
static double shortest_delay(void (*hold)(void *), void (*take)(void), struct flow *(*start)(void (*)(void *), void *))
{
    double shortest = 1e9;
    static const pthread_once_t fresh = PTHREAD_ONCE_INIT;
    for (int i = 0; i < ROUNDS && shortest >= AT_ONCE_MS; i++) {
        handover.once = fresh;
        __atomic_store_n(&handover.ready, 0, __ATOMIC_RELEASE);
        struct flow *other = start(hold, NULL);
        while (!__atomic_load_n(&handover.ready, __ATOMIC_ACQUIRE))
            usleep(100);
        take();
        double delay = now_ms() - handover.let_go;
        shortest = delay < shortest ? delay : shortest;
        end(other);
    }
    return shortest;
}

STATEMENT(who_waits_goes_on_at_once_when_it_can)
{
    static const struct {
        const char *name;
        void (*hold)(void *);
        void (*take)(void);
    } kinds[] = {{"mutex", hold_mutex, take_mutex},
                 {"rwlock", hold_rwlock, take_rwlock},
                 {"semaphore", hold_sem, take_sem},
                 {"once", hold_once, take_once}};
    pthread_mutex_init(&handover.mutex, NULL);
    pthread_rwlock_init(&handover.rwlock, NULL);
    sem_init(&handover.sem, 0, 0);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        double here = shortest_delay(kinds[i].hold, kinds[i].take, begin);
        double there = shortest_delay(kinds[i].hold, kinds[i].take, begin_elsewhere);
        double thread = shortest_delay(kinds[i].hold, kinds[i].take, begin_thread);
        printf("%s: %.3f, %.3f, %.3f ms late\n", kinds[i].name, here, there, thread);
        CHECK(here < AT_ONCE_MS);
        CHECK(there < AT_ONCE_MS);
        CHECK(thread < AT_ONCE_MS);
    }
}

/* ---- a fiber that is cancelled ---- */

struct cancelled {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    sem_t sem;
    weft_fiber *fiber;
    bool waits, over; /* atomic */
};

static void be_cancelled(void *arg)
{
    struct cancelled *c = arg;
    pthread_t thread;
    c->fiber = weft_fiber_current();
    CHECK_INT(weft_cancel(c->fiber), ==, 0);
    __atomic_store_n(&c->waits, true, __ATOMIC_RELEASE);
    double start = now_ms();
    CHECK_INT(pthread_mutex_lock(&c->mutex), ==, 0); /* cannot fail, so it waits */
    CHECK(now_ms() - start >= 40);
    CHECK_INT(pthread_cond_wait(&c->cond, &c->mutex), ==, ECANCELED);
    CHECK_INT(pthread_mutex_trylock(&c->mutex), ==, EBUSY);
    CHECK_INT(pthread_mutex_unlock(&c->mutex), ==, 0);
    CHECK_ERRNO(sem_wait(&c->sem), ECANCELED);
    CHECK_INT(sem_post(&c->sem), ==, 0);
    CHECK_INT(sem_wait(&c->sem), ==, 0); /* what is there is to be had */
    CHECK_INT(pthread_create(&thread, NULL, (void *(*)(void *))(void *)sem_wait, &c->sem), ==, 0);
    CHECK_INT(pthread_join(thread, NULL), ==, ECANCELED);
    CHECK_INT(sem_post(&c->sem), ==, 0);
    while (pthread_join(thread, NULL) == ECANCELED)
        weft_yield();
    CHECK(weft_cancelled());
}

STATEMENT(a_fiber_that_is_cancelled_still_gets_its_mutexes)
{
    if (is_kernel())
        return;
    struct cancelled c = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    CHECK_INT(sem_init(&c.sem, 0, 0), ==, 0);
    CHECK_INT(pthread_mutex_lock(&c.mutex), ==, 0);
    struct flow *other = begin(be_cancelled, &c);
    while (!__atomic_load_n(&c.waits, __ATOMIC_ACQUIRE))
        usleep(1000);
    usleep(50000);
    CHECK_INT(pthread_mutex_unlock(&c.mutex), ==, 0);
    end(other);
}

static void wait_for_cond(void *arg)
{
    struct cancelled *c = arg;
    CHECK_INT(pthread_mutex_lock(&c->mutex), ==, 0);
    c->fiber = weft_fiber_current();
    __atomic_store_n(&c->waits, true, __ATOMIC_RELEASE);
    CHECK_INT(pthread_cond_wait(&c->cond, &c->mutex), ==, ECANCELED);
    CHECK_INT(pthread_mutex_unlock(&c->mutex), ==, 0);
    CHECK_ERRNO(sem_wait(&c->sem), ECANCELED);
}

STATEMENT(a_cancel_ends_the_wait_for_a_condition)
{
    if (is_kernel())
        return;
    struct cancelled c = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    CHECK_INT(sem_init(&c.sem, 0, 0), ==, 0);
    struct flow *other = begin(wait_for_cond, &c);
    while (!__atomic_load_n(&c.waits, __ATOMIC_ACQUIRE))
        usleep(1000);
    CHECK_INT(pthread_mutex_lock(&c.mutex), ==, 0);
    CHECK_INT(weft_cancel(c.fiber), ==, 0);
    CHECK_INT(pthread_mutex_unlock(&c.mutex), ==, 0);
    end(other);
}

/* ---- a fiber without hooks ---- */

static void relock(void *arg)
{
    pthread_mutex_t *m = arg;
    CHECK_INT(pthread_mutex_trylock(m), ==, EBUSY);
    CHECK_INT(pthread_mutex_unlock(m), ==, EPERM);
    weft_hook_enable(false);
    CHECK_INT(pthread_mutex_trylock(m), ==, EBUSY);
    CHECK_INT(pthread_mutex_unlock(m), ==, EPERM);
}

STATEMENT(what_a_fiber_owns_is_its_own_also_without_hooks)
{
    pthread_mutex_t mutex;
    pthread_mutexattr_t attr;
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&mutex, &attr);
    for (int i = 0; i < 2; i++) {
        weft_hook_enable(i == 0);
        CHECK_INT(pthread_mutex_lock(&mutex), ==, 0);
        weft_hook_enable(i != 0);
        CHECK_INT(pthread_mutex_lock(&mutex), ==, 0);
        end(begin(relock, &mutex));
        CHECK_INT(pthread_mutex_unlock(&mutex), ==, 0);
        end(begin(relock, &mutex));
        weft_hook_enable(false);
        struct timespec at = in_ms(CLOCK_REALTIME, 5);
        CHECK_INT(pthread_cond_timedwait(&cond, &mutex, &at), ==, ETIMEDOUT);
        end(begin(relock, &mutex));
        weft_hook_enable(true);
        CHECK_INT(pthread_mutex_unlock(&mutex), ==, 0);
        CHECK_INT(pthread_mutex_unlock(&mutex), ==, EPERM);
    }
    CHECK_INT(pthread_mutex_destroy(&mutex), ==, 0);
}

/* ---- other processes ---- */

struct shared {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int number; /* guarded by: mutex */
};

STATEMENT(a_condition_that_another_process_signals_is_waited_for)
{
    struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t mutex;
    pthread_condattr_t cond;
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&s->mutex, &mutex);
    pthread_condattr_init(&cond);
    pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&s->cond, &cond);
    pid_t child = fork();
    if (child == 0) {
        usleep(30000);
        pthread_mutex_lock(&s->mutex);
        s->number = 1;
        pthread_cond_signal(&s->cond);
        pthread_mutex_unlock(&s->mutex);
        _exit(0);
    }
    CHECK_INT(pthread_mutex_lock(&s->mutex), ==, 0);
    while (s->number == 0)
        CHECK_INT(pthread_cond_wait(&s->cond, &s->mutex), ==, 0);
    CHECK_INT(pthread_mutex_unlock(&s->mutex), ==, 0);
    int state = -1;
    CHECK_INT(waitpid(child, &state, 0), ==, child);
    CHECK_INT(state, ==, 0);
    munmap(s, sizeof *s);
}

struct apart {
    pthread_mutex_t recursive, checking;
    pthread_rwlock_t rwlock;
    bool taken; /* atomic: the parent has them */
};

static void init_mutex(pthread_mutex_t *m, int type)
{
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_settype(&attr, type);
    CHECK_INT(pthread_mutex_init(m, &attr), ==, 0);
}

static void init_apart(struct apart *a)
{
    pthread_rwlockattr_t attr;
    init_mutex(&a->recursive, PTHREAD_MUTEX_RECURSIVE);
    init_mutex(&a->checking, PTHREAD_MUTEX_ERRORCHECK);
    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    CHECK_INT(pthread_rwlock_init(&a->rwlock, &attr), ==, 0);
}

/* In another process, in a fiber of the same id: which of them it is taken for the owner of. */
static int try_apart(struct apart *a)
{
    struct timespec soon;
    int wrong = pthread_mutex_trylock(&a->recursive) != EBUSY || pthread_mutex_unlock(&a->recursive) != EPERM ? 1 : 0;
    soon = in_ms(CLOCK_REALTIME, 10);
    wrong |= pthread_mutex_timedlock(&a->checking, &soon) != ETIMEDOUT ? 2 : 0;
    soon = in_ms(CLOCK_REALTIME, 10);
    wrong |= pthread_rwlock_timedwrlock(&a->rwlock, &soon) != ETIMEDOUT ? 4 : 0;
    return wrong;
}

STATEMENT(what_a_fiber_owns_no_fiber_of_another_process_is_taken_to_own)
{
    struct apart *a = mmap(NULL, sizeof *a, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(a != MAP_FAILED);
    init_apart(a);
    pid_t child = fork();
    if (child == 0) {
        while (!__atomic_load_n(&a->taken, __ATOMIC_ACQUIRE))
            usleep(1000);
        _exit(try_apart(a));
    }
    CHECK_INT(pthread_mutex_lock(&a->recursive), ==, 0);
    CHECK_INT(pthread_mutex_lock(&a->checking), ==, 0);
    CHECK_INT(pthread_rwlock_wrlock(&a->rwlock), ==, 0);
    __atomic_store_n(&a->taken, true, __ATOMIC_RELEASE);
    int state = -1;
    CHECK_INT(waitpid(child, &state, 0), ==, child);
    CHECK_INT(state, ==, 0);
    CHECK_INT(pthread_mutex_trylock(&a->recursive), ==, 0);
    CHECK_INT(pthread_mutex_unlock(&a->recursive), ==, 0);
    CHECK_INT(pthread_mutex_unlock(&a->recursive), ==, 0);
    CHECK_INT(pthread_mutex_unlock(&a->recursive), ==, EPERM);
    CHECK_INT(pthread_mutex_lock(&a->checking), ==, EDEADLK);
    CHECK_INT(pthread_mutex_unlock(&a->checking), ==, 0);
    CHECK_INT(pthread_rwlock_rdlock(&a->rwlock), ==, EDEADLK);
    CHECK_INT(pthread_rwlock_unlock(&a->rwlock), ==, 0);
    munmap(a, sizeof *a);
}

static void wait_for_sem(void *arg)
{
    CHECK_INT(sem_wait(arg), ==, 0);
}

STATEMENT(the_child_of_a_fork_has_the_locks_of_the_fiber_that_forked)
{
    pthread_mutex_t mutex;
    pthread_mutexattr_t attr;
    sem_t sem;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&mutex, &attr);
    CHECK_INT(sem_init(&sem, 0, 0), ==, 0);
    struct flow *waits = begin(wait_for_sem, &sem);
    usleep(10000);
    CHECK_INT(pthread_mutex_lock(&mutex), ==, 0);
    pid_t child = fork();
    if (child == 0) {
        int wrong = sem_post(&sem) != 0; /* nobody is there that waits */
        wrong |= sem_wait(&sem) != 0 ? 2 : 0;
        if (!is_kernel()) /* to the C library the child is another thread, which does not own it */
            wrong |= pthread_mutex_unlock(&mutex) != 0 || pthread_mutex_trylock(&mutex) != 0 ? 4 : 0;
        _exit(wrong);
    }
    int state = -1;
    CHECK_INT(waitpid(child, &state, 0), ==, child);
    CHECK_INT(state, ==, 0);
    CHECK_INT(pthread_mutex_unlock(&mutex), ==, 0);
    CHECK_INT(sem_post(&sem), ==, 0);
    end(waits);
}

struct signalled {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int waiting;  /* guarded by: mutex */
    bool is_over; /* guarded by: mutex */
};

static void wait_signalled(void *arg)
{
    struct signalled *s = arg;
    CHECK_INT(pthread_mutex_lock(&s->mutex), ==, 0);
    s->waiting++;
    while (!s->is_over)
        CHECK_INT(pthread_cond_wait(&s->cond, &s->mutex), ==, 0);
    CHECK_INT(pthread_mutex_unlock(&s->mutex), ==, 0);
}

static void wait_until_waiting(struct signalled *s, int count)
{
    for (bool is_there = false; !is_there;) {
        CHECK_INT(pthread_mutex_lock(&s->mutex), ==, 0);
        is_there = s->waiting == count;
        CHECK_INT(pthread_mutex_unlock(&s->mutex), ==, 0);
        if (!is_there)
            usleep(1000);
    }
}

/* One signal, for one that waits here. */
static int signal_in_child(struct signalled *s)
{
    struct flow *waits = begin(wait_signalled, s);
    wait_until_waiting(s, 2);
    CHECK_INT(pthread_mutex_lock(&s->mutex), ==, 0);
    s->is_over = true;
    CHECK_INT(pthread_cond_signal(&s->cond), ==, 0);
    CHECK_INT(pthread_mutex_unlock(&s->mutex), ==, 0);
    end(waits);
    return 7;
}

STATEMENT(in_the_child_of_a_fork_nobody_waits_but_who_is_there)
{
    if (is_kernel()) /* there the object itself counts who waited in the parent */
        return;
    struct signalled s = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    struct flow *waits = begin_elsewhere(wait_signalled, &s);
    wait_until_waiting(&s, 1);
    CHECK_INT(pthread_mutex_lock(&s.mutex), ==, 0);
    pid_t child = fork();
    CHECK_INT(pthread_mutex_unlock(&s.mutex), ==, 0);
    if (child == 0) {
        alarm(5);
        _exit(signal_in_child(&s));
    }
    int state = -1;
    CHECK_INT(waitpid(child, &state, 0), ==, child);
    CHECK_INT(state, ==, 7 << 8);
    CHECK_INT(pthread_mutex_lock(&s.mutex), ==, 0);
    s.is_over = true;
    CHECK_INT(pthread_cond_signal(&s.cond), ==, 0);
    CHECK_INT(pthread_mutex_unlock(&s.mutex), ==, 0);
    end(waits);
}

/* ---- a library that forks with its lock ---- */

static pthread_mutex_t of_library = PTHREAD_MUTEX_INITIALIZER;
static bool is_library; /* it locks around a fork */

static void lock_library(void)
{
    if (is_library)
        CHECK_INT(pthread_mutex_lock(&of_library), ==, 0);
}

static void unlock_library(void)
{
    if (is_library)
        CHECK_INT(pthread_mutex_unlock(&of_library), ==, 0);
}

/* Before weft does anything. */
__attribute__((constructor)) static void set_up_library(void)
{
    pthread_atfork(lock_library, unlock_library, unlock_library);
}

static void do_nothing(void *arg)
{
    (void)arg;
}

/* Has the library's lock for a while, and starts others meanwhile. */
static void use_library(void *arg)
{
    bool *has_it = arg;
    CHECK_INT(pthread_mutex_lock(&of_library), ==, 0);
    __atomic_store_n(has_it, true, __ATOMIC_RELEASE);
    for (int i = 0; i < 20; i++) {
        usleep(1000);
        end(begin(do_nothing, NULL));
        end(begin_elsewhere(do_nothing, NULL));
    }
    CHECK_INT(pthread_mutex_unlock(&of_library), ==, 0);
}

STATEMENT(a_fork_waits_for_the_locks_of_a_library)
{
    is_library = true;
    for (int i = 0; i < 3; i++) {
        bool has_it = false;
        struct flow *uses = (i == 0 ? begin : i == 1 ? begin_elsewhere : begin_thread)(use_library, &has_it);
        while (!__atomic_load_n(&has_it, __ATOMIC_ACQUIRE))
            usleep(1000);
        pid_t child = fork();
        if (child == 0)
            _exit(pthread_mutex_lock(&of_library) == 0 ? 5 : 6);
        int state = -1;
        CHECK_INT(waitpid(child, &state, 0), ==, child);
        CHECK_INT(state, ==, 5 << 8);
        end(uses);
    }
    is_library = false;
}

/* ---- signal handlers ---- */

static pthread_mutex_t in_handler = PTHREAD_MUTEX_INITIALIZER;
static int handled; /* atomic */

static void lock_in_handler(int number)
{
    (void)number;
    int rc = pthread_mutex_lock(&in_handler);
    usleep(1000);
    if (rc == 0 && pthread_mutex_unlock(&in_handler) == 0)
        __atomic_add_fetch(&handled, 1, __ATOMIC_RELEASE);
}

STATEMENT(a_handler_locks_as_a_thread)
{
    struct sigaction act = {.sa_handler = lock_in_handler}, before;
    CHECK_INT(sigaction(SIGUSR1, &act, &before), ==, 0);
    CHECK_INT(pthread_kill(pthread_self(), SIGUSR1), ==, 0);
    while (!__atomic_load_n(&handled, __ATOMIC_ACQUIRE))
        usleep(1000);
    CHECK_INT(sigaction(SIGUSR1, &before, NULL), ==, 0);
}

STATEMENTS(lock_fiber, who_waits_goes_on_at_once_when_it_can, a_fiber_that_is_cancelled_still_gets_its_mutexes,
           a_cancel_ends_the_wait_for_a_condition, what_a_fiber_owns_is_its_own_also_without_hooks,
           a_condition_that_another_process_signals_is_waited_for,
           what_a_fiber_owns_no_fiber_of_another_process_is_taken_to_own,
           the_child_of_a_fork_has_the_locks_of_the_fiber_that_forked,
           in_the_child_of_a_fork_nobody_waits_but_who_is_there, a_fork_waits_for_the_locks_of_a_library,
           a_handler_locks_as_a_thread)
