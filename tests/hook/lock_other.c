/*
 * tests/hook/lock_other.c: rwlocks, semaphores, pthread_once and pthread_join, that fibers and threads share
 * (WEFT_HOOK_LOCKS=1).
 */
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <threads.h>

#include "hook/clock.h"
#include "hook/peer.h"

typedef struct flow *start_fn(void (*fn)(void *arg), void *arg);

static start_fn *const starts[] = {begin, begin_elsewhere, begin_thread};

enum { STARTS = 3 };

/* ---- rwlocks ---- */

struct book {
    pthread_rwlock_t lock;
    int held;    /* atomic: how many have it as they should */
    bool enough; /* atomic: the writer may let go of it soon */
    int written; /* guarded by: lock */
};

static void wait_until_held(struct book *b, int by)
{
    while (__atomic_load_n(&b->held, __ATOMIC_ACQUIRE) < by)
        usleep(1000);
}

/* Has it until it is enough, and a while longer. */
static void write_a_while(void *arg)
{
    struct book *b = arg;
    CHECK_INT(pthread_rwlock_wrlock(&b->lock), ==, 0);
    __atomic_add_fetch(&b->held, 1, __ATOMIC_ACQ_REL);
    while (!__atomic_load_n(&b->enough, __ATOMIC_ACQUIRE))
        usleep(1000);
    usleep(50000);
    b->written++;
    CHECK_INT(pthread_rwlock_unlock(&b->lock), ==, 0);
}

STATEMENT(readers_and_writers_wait_for_a_writer)
{
    for (int i = 0; i < STARTS * 2; i++) {
        struct book book = {.lock = PTHREAD_RWLOCK_INITIALIZER};
        struct flow *writer = starts[i % STARTS](write_a_while, &book);
        wait_until_held(&book, 1);
        CHECK_INT(pthread_rwlock_tryrdlock(&book.lock), ==, EBUSY);
        CHECK_INT(pthread_rwlock_trywrlock(&book.lock), ==, EBUSY);
        __atomic_store_n(&book.enough, true, __ATOMIC_RELEASE);
        CHECK_INT(i < STARTS ? pthread_rwlock_rdlock(&book.lock) : pthread_rwlock_wrlock(&book.lock), ==, 0);
        CHECK_INT(book.written, ==, 1);
        CHECK_INT(pthread_rwlock_unlock(&book.lock), ==, 0);
        end(writer);
        CHECK_INT(pthread_rwlock_trywrlock(&book.lock), ==, 0);
        CHECK_INT(pthread_rwlock_unlock(&book.lock), ==, 0);
        CHECK_INT(pthread_rwlock_destroy(&book.lock), ==, 0);
    }
}

static void read_a_while(void *arg)
{
    struct book *b = arg;
    CHECK_INT(pthread_rwlock_rdlock(&b->lock), ==, 0);
    __atomic_add_fetch(&b->held, 1, __ATOMIC_ACQ_REL);
    wait_until_held(b, STARTS); /* all of them have it at once */
    usleep(50000);
    CHECK_INT(b->written, ==, 0);
    CHECK_INT(pthread_rwlock_unlock(&b->lock), ==, 0);
}

STATEMENT(a_writer_waits_for_all_readers)
{
    struct book book = {.lock = PTHREAD_RWLOCK_INITIALIZER};
    struct flow *readers[STARTS];
    for (int i = 0; i < STARTS; i++)
        readers[i] = starts[i](read_a_while, &book);
    wait_until_held(&book, STARTS);
    CHECK_INT(pthread_rwlock_wrlock(&book.lock), ==, 0);
    book.written = 1;
    CHECK_INT(pthread_rwlock_unlock(&book.lock), ==, 0);
    for (int i = 0; i < STARTS; i++)
        end(readers[i]);
    CHECK_INT(pthread_rwlock_destroy(&book.lock), ==, 0);
}

static void write_soon(void *arg)
{
    struct book *b = arg;
    __atomic_add_fetch(&b->held, 1, __ATOMIC_ACQ_REL);
    CHECK_INT(pthread_rwlock_wrlock(&b->lock), ==, 0);
    CHECK_INT(pthread_rwlock_unlock(&b->lock), ==, 0);
}

/* A difference: the C library knows of its own writers that wait, and not of ours. */
STATEMENT(a_rwlock_that_prefers_writers_does_not_know_of_fibers)
{
    struct book book = {.held = 0};
    pthread_rwlockattr_t attr;
    pthread_rwlockattr_init(&attr);
    CHECK_INT(pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP), ==, 0);
    CHECK_INT(pthread_rwlock_init(&book.lock, &attr), ==, 0);
    CHECK_INT(pthread_rwlock_rdlock(&book.lock), ==, 0);
    struct flow *writer = begin(write_soon, &book);
    wait_until_held(&book, 1);
    int rc = 0;
    for (int i = 0; i < (is_kernel() ? 5000 : 20) && rc == 0; i++) { /* it does wait by now */
        usleep(1000);
        rc = pthread_rwlock_tryrdlock(&book.lock);
        if (rc == 0)
            CHECK_INT(pthread_rwlock_unlock(&book.lock), ==, 0);
    }
    CHECK_INT(rc, ==, is_kernel() ? EBUSY : 0);
    CHECK_INT(pthread_rwlock_unlock(&book.lock), ==, 0);
    end(writer);
    CHECK_INT(pthread_rwlock_destroy(&book.lock), ==, 0);
}

STATEMENT(a_writer_that_locks_again_is_told)
{
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    CHECK_INT(pthread_rwlock_wrlock(&lock), ==, 0);
    CHECK_INT(pthread_rwlock_wrlock(&lock), ==, EDEADLK);
    CHECK_INT(pthread_rwlock_rdlock(&lock), ==, EDEADLK);
    usleep(1000);
    CHECK_INT(pthread_rwlock_unlock(&lock), ==, 0);
    CHECK_INT(pthread_rwlock_rdlock(&lock), ==, 0);
    CHECK_INT(pthread_rwlock_tryrdlock(&lock), ==, 0);
    CHECK_INT(pthread_rwlock_unlock(&lock), ==, 0);
    CHECK_INT(pthread_rwlock_unlock(&lock), ==, 0);
}

static int lock_until(pthread_rwlock_t *l, int how, long ms)
{
    struct timespec at = in_ms(how < 2 ? CLOCK_REALTIME : CLOCK_MONOTONIC, ms);
    return how == 0   ? pthread_rwlock_timedrdlock(l, &at)
           : how == 1 ? pthread_rwlock_timedwrlock(l, &at)
           : how == 2 ? pthread_rwlock_clockrdlock(l, CLOCK_MONOTONIC, &at)
                      : pthread_rwlock_clockwrlock(l, CLOCK_MONOTONIC, &at);
}

STATEMENT(a_timed_rwlock_ends_at_its_time)
{
    struct timespec wrong = {0, 1000000000};
    for (int how = 0; how < 4; how++) {
        struct book book = {.lock = PTHREAD_RWLOCK_INITIALIZER};
        struct flow *writer = begin(write_a_while, &book);
        wait_until_held(&book, 1);
        double start = now_ms();
        CHECK_INT(lock_until(&book.lock, how, 30), ==, ETIMEDOUT);
        CHECK_AFTER(start, 29.99);
        CHECK_INT(pthread_rwlock_timedrdlock(&book.lock, &wrong), ==, EINVAL);
        __atomic_store_n(&book.enough, true, __ATOMIC_RELEASE);
        CHECK_INT(lock_until(&book.lock, how, 20000), ==, 0);
        CHECK_INT(pthread_rwlock_unlock(&book.lock), ==, 0);
        end(writer);
    }
}

/* ---- semaphores ---- */

static void post_later(void *arg)
{
    usleep(30000);
    CHECK_INT(sem_post(arg), ==, 0);
}

STATEMENT(a_semaphore_is_waited_for)
{
    sem_t sem;
    CHECK_INT(sem_init(&sem, 0, 0), ==, 0);
    for (int i = 0; i < STARTS * 3; i++) {
        double start = now_ms();
        struct timespec real = in_ms(CLOCK_REALTIME, 20000), mono = in_ms(CLOCK_MONOTONIC, 20000);
        struct flow *other = starts[i % STARTS](post_later, &sem);
        CHECK_ERRNO(sem_trywait(&sem), EAGAIN);
        errno = 77;
        CHECK_INT(i / STARTS == 0   ? sem_wait(&sem)
                  : i / STARTS == 1 ? sem_timedwait(&sem, &real)
                                    : sem_clockwait(&sem, CLOCK_MONOTONIC, &mono),
                  ==, 0);
        CHECK_INT(errno, ==, 77);
        CHECK_AFTER(start, 30);
        end(other);
    }
    CHECK_ERRNO(sem_trywait(&sem), EAGAIN);
    CHECK_INT(sem_destroy(&sem), ==, 0);
}

STATEMENT(a_timed_wait_for_a_semaphore_ends_at_its_time)
{
    sem_t sem;
    CHECK_INT(sem_init(&sem, 0, 0), ==, 0);
    struct timespec real = in_ms(CLOCK_REALTIME, 30), wrong = {0, -1};
    double start = now_ms();
    CHECK_ERRNO(sem_timedwait(&sem, &real), ETIMEDOUT);
    CHECK_AFTER(start, 29.9);
    struct timespec mono = in_ms(CLOCK_MONOTONIC, 30);
    start = now_ms();
    CHECK_ERRNO(sem_clockwait(&sem, CLOCK_MONOTONIC, &mono), ETIMEDOUT);
    CHECK_AFTER(start, 29.9);
    CHECK_ERRNO(sem_timedwait(&sem, &wrong), EINVAL);
    CHECK_ERRNO(sem_clockwait(&sem, CLOCK_BOOTTIME, &mono), EINVAL);
    CHECK_INT(sem_post(&sem), ==, 0);
    CHECK_INT(sem_timedwait(&sem, &real), ==, 0); /* what is there is taken, also when it is late */
    CHECK_INT(sem_destroy(&sem), ==, 0);
}

static void wait_once(void *arg)
{
    CHECK_INT(sem_wait(arg), ==, 0);
}

STATEMENT(as_many_posts_let_as_many_flows_go_on)
{
    enum { FLOWS = 12 };
    sem_t sem;
    struct flow *flows[FLOWS];
    CHECK_INT(sem_init(&sem, 0, 0), ==, 0);
    for (int i = 0; i < FLOWS; i++)
        flows[i] = starts[i % STARTS](wait_once, &sem);
    usleep(20000);
    for (int i = 0; i < FLOWS; i++)
        CHECK_INT(sem_post(&sem), ==, 0);
    for (int i = 0; i < FLOWS; i++)
        end(flows[i]);
    CHECK_ERRNO(sem_trywait(&sem), EAGAIN);
}

static sem_t signalled;

static void post_from_handler(int number)
{
    (void)number;
    sem_post(&signalled);
}

static void raise_soon(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) {
        usleep(10000);
        kill(getpid(), SIGUSR1);
    }
}

STATEMENT(a_post_in_a_signal_handler_is_found)
{
    struct sigaction act = {.sa_handler = post_from_handler, .sa_flags = SA_RESTART}, before;
    CHECK_INT(sem_init(&signalled, 0, 0), ==, 0);
    CHECK_INT(sigaction(SIGUSR1, &act, &before), ==, 0);
    double start = now_ms();
    struct flow *other = begin(raise_soon, NULL), *second = begin(wait_once, &signalled);
    for (int i = 0; i < 2; i++) {
        while (sem_wait(&signalled) != 0)
            CHECK_INT(errno, ==, EINTR);
    }
    end(second);
    CHECK_AFTER(start, 20);
    end(other);
    CHECK_INT(sigaction(SIGUSR1, &before, NULL), ==, 0);
}

STATEMENT(a_post_of_another_process_is_found)
{
    sem_t *sem = mmap(NULL, sizeof *sem, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK_INT(sem_init(sem, 1, 0), ==, 0);
    pid_t child = fork();
    if (child == 0) {
        usleep(50000);
        _exit(sem_post(sem));
    }
    int state = -1;
    CHECK_INT(sem_wait(sem), ==, 0);
    CHECK_INT(waitpid(child, &state, 0), ==, child);
    CHECK_INT(state, ==, 0);
    munmap(sem, sizeof *sem);
}

/* ---- pthread_once ---- */

static pthread_once_t onces[STARTS + 1];
static once_flag flag = ONCE_FLAG_INIT;
static int calls;  /* atomic */
static bool over;  /* atomic: the call has returned */
static bool begun; /* atomic */

static void slow(void)
{
    __atomic_add_fetch(&calls, 1, __ATOMIC_ACQ_REL);
    __atomic_store_n(&begun, true, __ATOMIC_RELEASE);
    usleep(50000);
    __atomic_store_n(&over, true, __ATOMIC_RELEASE);
}

static void call_slow(void *arg)
{
    CHECK_INT(pthread_once(arg, slow), ==, 0);
    CHECK(__atomic_load_n(&over, __ATOMIC_ACQUIRE));
}

static void call_slow_c11(void *arg)
{
    call_once(arg, slow);
    CHECK(__atomic_load_n(&over, __ATOMIC_ACQUIRE));
}

static void check_once(void (*call)(void *arg), void *once, start_fn *start)
{
    struct flow *others[STARTS];
    __atomic_store_n(&calls, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&over, false, __ATOMIC_RELEASE);
    __atomic_store_n(&begun, false, __ATOMIC_RELEASE);
    struct flow *first = start(call, once);
    while (!__atomic_load_n(&begun, __ATOMIC_ACQUIRE))
        usleep(1000);
    for (int i = 0; i < STARTS; i++)
        others[i] = starts[i](call, once);
    call(once);
    end(first);
    for (int i = 0; i < STARTS; i++)
        end(others[i]);
    CHECK_INT(__atomic_load_n(&calls, __ATOMIC_ACQUIRE), ==, 1);
}

STATEMENT(those_that_come_while_a_once_waits_wait_for_it)
{
    static const pthread_once_t fresh = PTHREAD_ONCE_INIT;
    static const once_flag fresh_flag = ONCE_FLAG_INIT;
    for (int i = 0; i < STARTS; i++) {
        onces[i] = fresh;
        check_once(call_slow, &onces[i], starts[i]);
        flag = fresh_flag;
        check_once(call_slow_c11, &flag, starts[i]);
    }
}

/* ---- pthread_join ---- */

static void *sleep_and_tell(void *arg)
{
    usleep(50000);
    return arg;
}

static int sleep_and_tell_c11(void *arg)
{
    usleep(50000);
    return (int)(intptr_t)arg;
}

STATEMENT(the_end_of_a_thread_is_waited_for)
{
    pthread_t thread;
    void *value = NULL;
    double start = now_ms();
    CHECK_INT(pthread_create(&thread, NULL, sleep_and_tell, &calls), ==, 0);
    errno = 77;
    CHECK_INT(pthread_join(thread, &value), ==, 0);
    CHECK_INT(errno, ==, 77);
    CHECK(value == &calls);
    CHECK_AFTER(start, 50);
    CHECK_INT(pthread_join(pthread_self(), NULL), ==, EDEADLK);
    CHECK_INT(pthread_create(&thread, NULL, sleep_and_tell, NULL), ==, 0);
    CHECK_INT(pthread_detach(thread), ==, 0);
    CHECK_INT(pthread_join(thread, NULL), ==, EINVAL);
    thrd_t thrd;
    int result = 0;
    CHECK_INT(thrd_create(&thrd, sleep_and_tell_c11, (void *)(intptr_t)7), ==, thrd_success);
    CHECK_INT(thrd_join(thrd, &result), ==, thrd_success);
    CHECK_INT(result, ==, 7);
    usleep(60000); /* the detached one is over */
}

STATEMENT(thrd_sleep_waits)
{
    struct timespec time = {0, 30000000}, wrong = {0, -1};
    double start = now_ms();
    CHECK_INT(thrd_sleep(&time, NULL), ==, 0);
    CHECK_AFTER(start, 30);
    CHECK_INT(thrd_sleep(&wrong, NULL), <, -1);
}

STATEMENTS(lock_other, readers_and_writers_wait_for_a_writer, a_writer_waits_for_all_readers,
           a_rwlock_that_prefers_writers_does_not_know_of_fibers, a_writer_that_locks_again_is_told,
           a_timed_rwlock_ends_at_its_time, a_semaphore_is_waited_for, a_timed_wait_for_a_semaphore_ends_at_its_time,
           as_many_posts_let_as_many_flows_go_on, a_post_in_a_signal_handler_is_found,
           a_post_of_another_process_is_found, those_that_come_while_a_once_waits_wait_for_it,
           the_end_of_a_thread_is_waited_for, thrd_sleep_waits)
