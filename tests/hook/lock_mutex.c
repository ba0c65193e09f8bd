/*
 * tests/hook/lock_mutex.c: mutexes, that fibers and threads share (WEFT_HOOK_LOCKS=1).
 */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <threads.h>

#include "hook/clock.h"
#include "hook/peer.h"

static void init(pthread_mutex_t *m, int type)
{
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, type);
    CHECK_INT(pthread_mutex_init(m, &attr), ==, 0);
    pthread_mutexattr_destroy(&attr);
}

/* ---- one that holds it and waits ---- */

struct holding {
    pthread_mutex_t *mutex;
    int fd;
    bool has_it; /* atomic */
    int order;   /* atomic: counts up as things happen */
};

static void lock_and_receive(void *arg)
{
    struct holding *h = arg;
    char c;
    CHECK_INT(pthread_mutex_lock(h->mutex), ==, 0);
    __atomic_store_n(&h->has_it, true, __ATOMIC_RELEASE);
    CHECK_INT(recv(h->fd, &c, 1, 0), ==, 1);
    CHECK_INT(__atomic_add_fetch(&h->order, 1, __ATOMIC_ACQ_REL), ==, 1);
    CHECK_INT(pthread_mutex_unlock(h->mutex), ==, 0);
}

static void wait_until_held(struct holding *h)
{
    while (!__atomic_load_n(&h->has_it, __ATOMIC_ACQUIRE))
        usleep(1000);
}

static void check_holder_in_recv(int type, struct flow *(*start)(void (*fn)(void *), void *arg))
{
    pthread_mutex_t mutex;
    int pair[2];
    unix_pair(pair, SOCK_STREAM);
    init(&mutex, type);
    struct holding h = {.mutex = &mutex, .fd = pair[0]};
    struct writer w = {pair[1], 50, "x", 1};
    double began = now_ms();
    struct flow *holder = start(lock_and_receive, &h);
    wait_until_held(&h);
    CHECK_INT(pthread_mutex_trylock(&mutex), ==, EBUSY);
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(pthread_mutex_lock(&mutex), ==, 0);
    CHECK_INT(__atomic_add_fetch(&h.order, 1, __ATOMIC_ACQ_REL), ==, 2);
    CHECK_AFTER(began, 50);
    CHECK_INT(pthread_mutex_unlock(&mutex), ==, 0);
    end(holder);
    end(writes);
    CHECK_INT(pthread_mutex_destroy(&mutex), ==, 0);
    close_pair(pair);
}

STATEMENT(who_locks_what_another_holds_in_recv_waits_for_it)
{
    static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK,
                                PTHREAD_MUTEX_ADAPTIVE_NP};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        check_holder_in_recv(types[i], begin);
        check_holder_in_recv(types[i], begin_elsewhere);
        check_holder_in_recv(types[i], begin_thread);
    }
}

/* A thread waits for what a flow holds. */
static void lock_it(void *arg)
{
    struct holding *h = arg;
    CHECK_INT(pthread_mutex_lock(h->mutex), ==, 0);
    CHECK_INT(__atomic_add_fetch(&h->order, 1, __ATOMIC_ACQ_REL), ==, 2);
    CHECK_INT(pthread_mutex_unlock(h->mutex), ==, 0);
}

STATEMENT(a_thread_waits_for_what_a_flow_holds)
{
    static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK};
    for (size_t i = 0; i < 3; i++) {
        pthread_mutex_t mutex;
        init(&mutex, types[i]);
        struct holding h = {.mutex = &mutex};
        CHECK_INT(pthread_mutex_lock(&mutex), ==, 0);
        struct flow *waits = begin_thread(lock_it, &h);
        usleep(30000);
        CHECK_INT(__atomic_add_fetch(&h.order, 1, __ATOMIC_ACQ_REL), ==, 1);
        CHECK_INT(pthread_mutex_unlock(&mutex), ==, 0);
        end(waits);
        CHECK_INT(pthread_mutex_destroy(&mutex), ==, 0);
    }
}

/* ---- owners ---- */

struct stranger {
    pthread_mutex_t *mutex;
    int unlocked, tried;
};

static void meddle(void *arg)
{
    struct stranger *s = arg;
    s->unlocked = pthread_mutex_unlock(s->mutex);
    s->tried = pthread_mutex_trylock(s->mutex);
}

static void check_strangers(pthread_mutex_t *mutex)
{
    struct flow *(*const starts[])(void (*)(void *), void *) = {begin, begin_elsewhere, begin_thread};
    for (int i = 0; i < 3; i++) {
        struct stranger s = {mutex, -1, -1};
        end(starts[i](meddle, &s));
        CHECK_INT(s.unlocked, ==, EPERM);
        CHECK_INT(s.tried, ==, EBUSY);
    }
}

STATEMENT(a_recursive_mutex_is_free_after_as_many_unlocks)
{
    pthread_mutex_t mutex;
    init(&mutex, PTHREAD_MUTEX_RECURSIVE);
    for (int i = 0; i < 3; i++)
        CHECK_INT(i == 1 ? pthread_mutex_trylock(&mutex) : pthread_mutex_lock(&mutex), ==, 0);
    for (int i = 0; i < 3; i++) {
        check_strangers(&mutex);
        usleep(1000);
        CHECK_INT(pthread_mutex_unlock(&mutex), ==, 0);
    }
    CHECK_INT(pthread_mutex_unlock(&mutex), ==, EPERM);
    struct stranger s = {&mutex, -1, -1};
    end(begin_thread(meddle, &s));
    CHECK_INT(s.tried, ==, 0);
}

STATEMENT(an_error_checking_mutex_knows_its_owner)
{
    pthread_mutex_t mutex;
    init(&mutex, PTHREAD_MUTEX_ERRORCHECK);
    CHECK_INT(pthread_mutex_unlock(&mutex), ==, EPERM);
    CHECK_INT(pthread_mutex_lock(&mutex), ==, 0);
    CHECK_INT(pthread_mutex_lock(&mutex), ==, EDEADLK);
    struct timespec at = in_ms(CLOCK_REALTIME, 20);
    CHECK_INT(pthread_mutex_timedlock(&mutex, &at), ==, EDEADLK);
    CHECK_INT(pthread_mutex_trylock(&mutex), ==, EBUSY);
    check_strangers(&mutex);
    CHECK_INT(pthread_mutex_unlock(&mutex), ==, 0);
    CHECK_INT(pthread_mutex_unlock(&mutex), ==, EPERM);
    CHECK_INT(pthread_mutex_destroy(&mutex), ==, 0);
}

static void die_with_it(void *arg)
{
    CHECK_INT(pthread_mutex_lock(arg), ==, 0);
}

static void hold_robust(void *arg)
{
    CHECK_INT(pthread_mutex_lock(arg), ==, 0);
    usleep(30000);
    CHECK_INT(pthread_mutex_unlock(arg), ==, 0);
}

static const int robust_types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK};

static void init_robust(pthread_mutex_t *m, int type, int shared)
{
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, type);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setpshared(&attr, shared);
    CHECK_INT(pthread_mutex_init(m, &attr), ==, 0);
    pthread_mutexattr_destroy(&attr);
}

STATEMENT(a_robust_mutex_tells_that_its_owner_has_died)
{
    for (int i = 0; i < 3; i++) {
        pthread_mutex_t mutex;
        init_robust(&mutex, robust_types[i], PTHREAD_PROCESS_PRIVATE);
        end(begin_thread(die_with_it, &mutex));
        CHECK_INT(pthread_mutex_lock(&mutex), ==, EOWNERDEAD);
        CHECK_INT(pthread_mutex_consistent(&mutex), ==, 0);
        CHECK_INT(pthread_mutex_unlock(&mutex), ==, 0);
        struct flow *other = begin(hold_robust, &mutex);
        usleep(10000);
        CHECK_INT(pthread_mutex_lock(&mutex), ==, 0);
        CHECK_INT(pthread_mutex_unlock(&mutex), ==, 0);
        end(other);
        CHECK_INT(pthread_mutex_destroy(&mutex), ==, 0);
    }
}

static void lock_and_exit(pthread_mutex_t *m)
{
    pid_t child = fork();
    if (child == 0)
        _exit(pthread_mutex_lock(m));
    int state = -1;
    CHECK_INT(waitpid(child, &state, 0), ==, child);
    CHECK_INT(state, ==, 0);
}

STATEMENT(a_robust_mutex_tells_that_its_owners_process_has_died)
{
    for (int i = 0; i < 9; i++) {
        pthread_mutex_t *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        struct timespec at = in_ms(CLOCK_REALTIME, 1000);
        init_robust(m, robust_types[i % 3], PTHREAD_PROCESS_SHARED);
        lock_and_exit(m);
        CHECK_INT(i < 3   ? pthread_mutex_trylock(m)
                  : i < 6 ? pthread_mutex_timedlock(m, &at)
                          : pthread_mutex_lock(m),
                  ==, EOWNERDEAD);
        CHECK_INT(pthread_mutex_consistent(m), ==, 0);
        CHECK_INT(pthread_mutex_unlock(m), ==, 0);
        CHECK_INT(pthread_mutex_destroy(m), ==, 0);
        munmap(m, sizeof *m);
    }
}

STATEMENT(a_robust_mutex_whose_owner_has_died_is_the_next_ones)
{
    for (int i = 1; i < 3; i++) {
        bool is_recursive = robust_types[i] == PTHREAD_MUTEX_RECURSIVE;
        pthread_mutex_t mutex;
        init_robust(&mutex, robust_types[i], PTHREAD_PROCESS_PRIVATE);
        end(begin_thread(die_with_it, &mutex));
        CHECK_INT(pthread_mutex_lock(&mutex), ==, EOWNERDEAD);
        for (int consistent = 0; consistent < 2; consistent++) {
            check_strangers(&mutex);
            CHECK_INT(pthread_mutex_lock(&mutex), ==, is_recursive ? 0 : EDEADLK);
            check_strangers(&mutex);
            if (is_recursive)
                CHECK_INT(pthread_mutex_unlock(&mutex), ==, consistent ? 0 : ENOTRECOVERABLE);
            check_strangers(&mutex);
            CHECK_INT(pthread_mutex_consistent(&mutex), ==, consistent ? EINVAL : 0);
        }
        check_strangers(&mutex);
        CHECK_INT(pthread_mutex_unlock(&mutex), ==, 0);
        struct stranger s = {&mutex, -1, -1};
        end(begin(meddle, &s));
        CHECK_INT(s.unlocked, ==, EPERM);
        CHECK_INT(s.tried, ==, 0);
    }
}

static void lock_what_is_lost(void *arg)
{
    CHECK_INT(pthread_mutex_lock(arg), ==, ENOTRECOVERABLE);
}

STATEMENT(a_robust_mutex_that_is_not_made_consistent_is_lost)
{
    for (int i = 0; i < 3; i++) {
        pthread_mutex_t mutex;
        init_robust(&mutex, robust_types[i], PTHREAD_PROCESS_PRIVATE);
        end(begin_thread(die_with_it, &mutex));
        CHECK_INT(pthread_mutex_lock(&mutex), ==, EOWNERDEAD);
        CHECK_INT(pthread_mutex_unlock(&mutex), ==, 0);
        for (int j = 0; j < 3; j++) {
            end(begin(lock_what_is_lost, &mutex));
            end(begin_thread(lock_what_is_lost, &mutex));
        }
        CHECK_INT(pthread_mutex_lock(&mutex), ==, ENOTRECOVERABLE);
        CHECK_INT(pthread_mutex_consistent(&mutex), ==, EINVAL);
        CHECK_INT(pthread_mutex_destroy(&mutex), ==, 0);
    }
}

/* ---- limits ---- */

/* Until order is not 0, and a while longer. */
static void hold_for_a_while(void *arg)
{
    struct holding *h = arg;
    CHECK_INT(pthread_mutex_lock(h->mutex), ==, 0);
    __atomic_store_n(&h->has_it, true, __ATOMIC_RELEASE);
    while (__atomic_load_n(&h->order, __ATOMIC_ACQUIRE) == 0)
        usleep(1000);
    usleep(50000);
    CHECK_INT(pthread_mutex_unlock(h->mutex), ==, 0);
}

static int lock_until(pthread_mutex_t *m, int how, long ms)
{
    struct timespec at = in_ms(how == 1 ? CLOCK_MONOTONIC : CLOCK_REALTIME, ms);
    return how == 0   ? pthread_mutex_timedlock(m, &at)
           : how == 1 ? pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &at)
                      : pthread_mutex_clocklock(m, CLOCK_REALTIME, &at);
}

STATEMENT(a_timed_lock_ends_at_its_time_on_its_clock)
{
    for (int how = 0; how < 3; how++) {
        pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
        struct holding h = {.mutex = &mutex};
        struct flow *holder = begin(hold_for_a_while, &h);
        wait_until_held(&h);
        double start = now_ms();
        errno = 77;
        CHECK_INT(lock_until(&mutex, how, 40), ==, ETIMEDOUT);
        CHECK_AFTER(start, 39.99);
        start = now_ms();
        CHECK_INT(lock_until(&mutex, how, -1000), ==, ETIMEDOUT);
        CHECK_AT_ONCE(start);
        __atomic_store_n(&h.order, 1, __ATOMIC_RELEASE);
        CHECK_INT(lock_until(&mutex, how, 20000), ==, 0);
        CHECK_INT(errno, ==, 77);
        CHECK_INT(pthread_mutex_unlock(&mutex), ==, 0);
        end(holder);
    }
}

STATEMENT(a_limit_that_is_wrong_is_told_where_one_would_wait)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    struct timespec wrong = {0, 1000000000}, at = in_ms(CLOCK_REALTIME, 10);
    CHECK_INT(pthread_mutex_timedlock(&mutex, &wrong), ==, 0);
    CHECK_INT(pthread_mutex_timedlock(&mutex, &wrong), ==, EINVAL);
    CHECK_INT(pthread_mutex_clocklock(&mutex, CLOCK_PROCESS_CPUTIME_ID, &at), ==, EINVAL);
    CHECK_INT(pthread_mutex_unlock(&mutex), ==, 0);
}

/* ---- threads.h ---- */

static void hold_mtx(void *arg)
{
    mtx_t *m = arg;
    struct timespec time = {0, 60000000};
    CHECK_INT(mtx_lock(m), ==, thrd_success);
    CHECK_INT(thrd_sleep(&time, NULL), ==, 0);
    CHECK_INT(mtx_unlock(m), ==, thrd_success);
}

STATEMENT(the_mutexes_of_threads_h_are_waited_for)
{
    for (int kind = 0; kind < 2; kind++) {
        mtx_t m;
        CHECK_INT(mtx_init(&m, mtx_timed | (kind ? mtx_recursive : 0)), ==, thrd_success);
        struct flow *holder = begin(hold_mtx, &m);
        int rc;
        while ((rc = mtx_trylock(&m)) == thrd_success) {
            mtx_unlock(&m);
            usleep(1000);
        }
        CHECK_INT(rc, ==, thrd_busy);
        struct timespec at = in_ms(CLOCK_REALTIME, 10);
        CHECK_INT(mtx_timedlock(&m, &at), ==, thrd_timedout);
        CHECK_INT(mtx_lock(&m), ==, thrd_success);
        if (kind)
            CHECK_INT(mtx_lock(&m), ==, thrd_success);
        for (int i = 0; i <= kind; i++)
            CHECK_INT(mtx_unlock(&m), ==, thrd_success);
        end(holder);
        mtx_destroy(&m);
    }
}

STATEMENTS(lock_mutex, who_locks_what_another_holds_in_recv_waits_for_it, a_thread_waits_for_what_a_flow_holds,
           a_recursive_mutex_is_free_after_as_many_unlocks, an_error_checking_mutex_knows_its_owner,
           a_robust_mutex_tells_that_its_owner_has_died, a_robust_mutex_tells_that_its_owners_process_has_died,
           a_robust_mutex_whose_owner_has_died_is_the_next_ones, a_robust_mutex_that_is_not_made_consistent_is_lost,
           a_timed_lock_ends_at_its_time_on_its_clock, a_limit_that_is_wrong_is_told_where_one_would_wait,
           the_mutexes_of_threads_h_are_waited_for)
