/*
 * tests/hook/lock_cond.c: conditions, that fibers and threads share (WEFT_HOOK_LOCKS=1).
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <threads.h>

#include "hook/clock.h"
#include "hook/peer.h"

typedef struct flow *start_fn(void (*fn)(void *arg), void *arg);

static start_fn *const starts[] = {begin, begin_elsewhere, begin_thread};

enum { STARTS = 3 };

/* One place in which a number may be. */
struct box {
    pthread_mutex_t mutex;
    pthread_cond_t filled, emptied;
    int number; /* 0: none. guarded by: mutex */
    int waiting;
};

static void init(struct box *b, int type, clockid_t clock)
{
    pthread_mutexattr_t mutex;
    pthread_condattr_t cond;
    *b = (struct box){0};
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_settype(&mutex, type);
    pthread_mutex_init(&b->mutex, &mutex);
    pthread_condattr_init(&cond);
    pthread_condattr_setclock(&cond, clock);
    pthread_cond_init(&b->filled, &cond);
    pthread_cond_init(&b->emptied, &cond);
}

static void destroy(struct box *b)
{
    CHECK_INT(pthread_cond_destroy(&b->filled), ==, 0);
    CHECK_INT(pthread_cond_destroy(&b->emptied), ==, 0);
    CHECK_INT(pthread_mutex_destroy(&b->mutex), ==, 0);
}

enum { NUMBERS = 50 };

static void put_numbers(void *arg)
{
    struct box *b = arg;
    for (int i = 1; i <= NUMBERS; i++) {
        CHECK_INT(pthread_mutex_lock(&b->mutex), ==, 0);
        while (b->number != 0)
            CHECK_INT(pthread_cond_wait(&b->emptied, &b->mutex), ==, 0);
        b->number = i;
        CHECK_INT(pthread_cond_signal(&b->filled), ==, 0);
        CHECK_INT(pthread_mutex_unlock(&b->mutex), ==, 0);
    }
}

static void take_numbers(struct box *b)
{
    for (int i = 1; i <= NUMBERS; i++) {
        CHECK_INT(pthread_mutex_lock(&b->mutex), ==, 0);
        while (b->number == 0)
            CHECK_INT(pthread_cond_wait(&b->filled, &b->mutex), ==, 0);
        CHECK_INT(b->number, ==, i);
        b->number = 0;
        CHECK_INT(pthread_cond_signal(&b->emptied), ==, 0);
        CHECK_INT(pthread_mutex_unlock(&b->mutex), ==, 0);
    }
}

STATEMENT(a_wait_ends_by_a_signal_of_another_flow)
{
    static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK};
    for (int i = 0; i < STARTS * 3; i++) {
        struct box box;
        init(&box, types[i / STARTS], CLOCK_REALTIME);
        struct flow *filler = starts[i % STARTS](put_numbers, &box);
        take_numbers(&box);
        end(filler);
        destroy(&box);
    }
}

static void wait_for_number(void *arg)
{
    struct box *b = arg;
    pthread_mutex_lock(&b->mutex);
    b->waiting++;
    while (b->number == 0)
        CHECK_INT(pthread_cond_wait(&b->filled, &b->mutex), ==, 0);
    b->waiting--;
    pthread_mutex_unlock(&b->mutex);
}

STATEMENT(a_broadcast_wakes_all)
{
    enum { FLOWS = 12 };
    struct box box;
    struct flow *flows[FLOWS];
    int waiting = 0;
    init(&box, PTHREAD_MUTEX_NORMAL, CLOCK_REALTIME);
    for (int i = 0; i < FLOWS; i++)
        flows[i] = starts[i % STARTS](wait_for_number, &box);
    while (waiting < FLOWS) {
        usleep(1000);
        pthread_mutex_lock(&box.mutex);
        waiting = box.waiting;
        pthread_mutex_unlock(&box.mutex);
    }
    pthread_mutex_lock(&box.mutex);
    box.number = 1;
    CHECK_INT(pthread_cond_broadcast(&box.filled), ==, 0);
    pthread_mutex_unlock(&box.mutex);
    for (int i = 0; i < FLOWS; i++)
        end(flows[i]);
    CHECK_INT(box.waiting, ==, 0);
    destroy(&box);
}

enum how { TIMED_REALTIME, TIMED_MONOTONIC, CLOCK_OF_OTHER, HOWS };

static int wait_until(struct box *b, enum how how, long ms)
{
    struct timespec at = in_ms(how == TIMED_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC, ms);
    return how == CLOCK_OF_OTHER ? pthread_cond_clockwait(&b->filled, &b->mutex, CLOCK_MONOTONIC, &at)
                                 : pthread_cond_timedwait(&b->filled, &b->mutex, &at);
}

STATEMENT(a_timed_wait_ends_at_its_time_on_its_clock)
{
    for (enum how how = 0; how < HOWS; how++) {
        struct box box;
        init(&box, PTHREAD_MUTEX_ERRORCHECK, how == TIMED_MONOTONIC ? CLOCK_MONOTONIC : CLOCK_REALTIME);
        CHECK_INT(pthread_mutex_lock(&box.mutex), ==, 0);
        double start = now_ms();
        int rc;
        errno = 77;
        while ((rc = wait_until(&box, how, 40)) == 0)
            start = now_ms();
        CHECK_INT(rc, ==, ETIMEDOUT);
        CHECK_AFTER(start, 39.99);
        CHECK_INT(errno, ==, 77);
        start = now_ms();
        CHECK_INT(wait_until(&box, how, -1000), ==, ETIMEDOUT);
        CHECK_AT_ONCE(start);
        CHECK_INT(pthread_mutex_trylock(&box.mutex), ==, EBUSY); /* it is ours again */
        CHECK_INT(pthread_mutex_unlock(&box.mutex), ==, 0);
        destroy(&box);
    }
}

static void put_number_later(void *arg)
{
    struct box *b = arg;
    usleep(30000);
    pthread_mutex_lock(&b->mutex);
    b->number = 1;
    pthread_cond_signal(&b->filled);
    pthread_mutex_unlock(&b->mutex);
}

STATEMENT(a_timed_wait_ends_by_a_signal)
{
    for (int i = 0; i < HOWS * STARTS; i++) {
        enum how how = (enum how)(i / STARTS);
        struct box box;
        init(&box, PTHREAD_MUTEX_NORMAL, how == TIMED_MONOTONIC ? CLOCK_MONOTONIC : CLOCK_REALTIME);
        double start = now_ms();
        struct flow *other = starts[i % STARTS](put_number_later, &box);
        pthread_mutex_lock(&box.mutex);
        while (box.number == 0)
            CHECK_INT(wait_until(&box, how, 20000), ==, 0);
        pthread_mutex_unlock(&box.mutex);
        CHECK_AFTER(start, 30);
        end(other);
        destroy(&box);
    }
}

STATEMENT(what_is_wrong_is_told)
{
    struct box box;
    init(&box, PTHREAD_MUTEX_ERRORCHECK, CLOCK_REALTIME);
    struct timespec wrong = {0, -1}, at = in_ms(CLOCK_REALTIME, 10);
    CHECK_INT(pthread_cond_wait(&box.filled, &box.mutex), ==, EPERM);
    CHECK_INT(pthread_mutex_lock(&box.mutex), ==, 0);
    CHECK_INT(pthread_cond_timedwait(&box.filled, &box.mutex, &wrong), ==, EINVAL);
    CHECK_INT(pthread_cond_clockwait(&box.filled, &box.mutex, CLOCK_BOOTTIME, &at), ==, EINVAL);
    CHECK_INT(pthread_mutex_unlock(&box.mutex), ==, 0);
    destroy(&box);
}

/* ---- threads.h ---- */

struct cell {
    mtx_t mutex;
    cnd_t changed;
    int number; /* guarded by: mutex */
};

static void change_later(void *arg)
{
    struct cell *c = arg;
    usleep(30000);
    CHECK_INT(mtx_lock(&c->mutex), ==, thrd_success);
    c->number++;
    CHECK_INT(c->number == 1 ? cnd_signal(&c->changed) : cnd_broadcast(&c->changed), ==, thrd_success);
    CHECK_INT(mtx_unlock(&c->mutex), ==, thrd_success);
}

STATEMENT(the_conditions_of_threads_h_are_waited_for)
{
    struct cell cell = {0};
    CHECK_INT(mtx_init(&cell.mutex, mtx_plain), ==, thrd_success);
    CHECK_INT(cnd_init(&cell.changed), ==, thrd_success);
    CHECK_INT(mtx_lock(&cell.mutex), ==, thrd_success);
    for (int i = 0; i < STARTS; i++) {
        struct flow *other = starts[i](change_later, &cell);
        while (cell.number == i)
            CHECK_INT(cnd_wait(&cell.changed, &cell.mutex), ==, thrd_success);
        end(other);
    }
    struct timespec at = in_ms(CLOCK_REALTIME, 30);
    double start = now_ms();
    CHECK_INT(cnd_timedwait(&cell.changed, &cell.mutex, &at), ==, thrd_timedout);
    CHECK_AFTER(start, 29.99);
    CHECK_INT(mtx_unlock(&cell.mutex), ==, thrd_success);
    cnd_destroy(&cell.changed);
    mtx_destroy(&cell.mutex);
}

/* ---- what comes of the object ---- */

struct page {
    pthread_mutex_t mutex;
    pthread_cond_t *cond;
    bool waits;   /* atomic */
    bool is_over; /* guarded by: mutex */
};

static pthread_cond_t *map_cond(void)
{
    pthread_cond_t *c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(c != MAP_FAILED);
    CHECK_INT(pthread_cond_init(c, NULL), ==, 0);
    return c;
}

/* A thread that is there the moment the mutex is free. */
static void wake_and_unmap(void *arg)
{
    struct page *p = arg;
    while (!__atomic_load_n(&p->waits, __ATOMIC_ACQUIRE))
        sched_yield();
    while (pthread_mutex_trylock(&p->mutex) != 0)
        ;
    p->is_over = true;
    CHECK_INT(pthread_cond_broadcast(p->cond), ==, 0);
    CHECK_INT(pthread_mutex_unlock(&p->mutex), ==, 0);
    CHECK_INT(pthread_cond_destroy(p->cond), ==, 0);
    CHECK_INT(munmap(p->cond, sizeof *p->cond), ==, 0);
}

static void lock_once_more(void *arg)
{
    struct page *p = arg;
    CHECK_INT(pthread_mutex_lock(&p->mutex), ==, 0);
    CHECK_INT(pthread_mutex_unlock(&p->mutex), ==, 0);
}

STATEMENT(a_condition_may_be_freed_as_soon_as_those_that_wait_are_woken)
{
    for (int i = 0; i < 200; i++) {
        struct page p = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = map_cond()};
        CHECK_INT(pthread_mutex_lock(&p.mutex), ==, 0);
        struct flow *wakes = begin_thread(wake_and_unmap, &p), *locks = begin_elsewhere(lock_once_more, &p);
        usleep(200); /* that one waits, so that the unlock has somebody to wake */
        __atomic_store_n(&p.waits, true, __ATOMIC_RELEASE);
        while (!p.is_over)
            CHECK_INT(pthread_cond_wait(p.cond, &p.mutex), ==, 0);
        CHECK_INT(pthread_mutex_unlock(&p.mutex), ==, 0);
        end(wakes);
        end(locks);
    }
}

/* ---- a wait that fails ---- */

struct failing {
    pthread_mutex_t mutex; /* that checks for errors */
    pthread_cond_t cond;
    int turn;    /* guarded by: mutex */
    bool over;   /* atomic */
    int waiting; /* guarded by: mutex */
};

enum { TURNS = 3000 };

static void wait_as_thread(void *arg)
{
    struct failing *f = arg;
    CHECK_INT(pthread_mutex_lock(&f->mutex), ==, 0);
    for (int i = 1; i <= TURNS; i++) {
        struct timespec at = in_ms(CLOCK_REALTIME, 2000);
        f->waiting = i;
        while (f->turn < i)
            CHECK_INT(pthread_cond_timedwait(&f->cond, &f->mutex, &at), ==, 0);
    }
    CHECK_INT(pthread_mutex_unlock(&f->mutex), ==, 0);
    __atomic_store_n(&f->over, true, __ATOMIC_RELEASE);
}

static void signal_thread(void *arg)
{
    struct failing *f = arg;
    for (int i = 1; i <= TURNS && !__atomic_load_n(&f->over, __ATOMIC_ACQUIRE);) {
        CHECK_INT(pthread_mutex_lock(&f->mutex), ==, 0);
        bool is_ready = f->waiting == i;
        if (is_ready)
            f->turn = i++;
        CHECK_INT(pthread_mutex_unlock(&f->mutex), ==, 0);
        if (is_ready)
            CHECK_INT(pthread_cond_signal(&f->cond), ==, 0);
    }
}

STATEMENT(a_signal_is_not_lost_to_a_wait_that_fails)
{
    struct failing f = {.mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP, .cond = PTHREAD_COND_INITIALIZER};
    struct flow *waits = begin_thread(wait_as_thread, &f), *signals = begin_thread(signal_thread, &f);
    while (!__atomic_load_n(&f.over, __ATOMIC_ACQUIRE)) {
        for (int i = 0; i < 100; i++)
            CHECK_INT(pthread_cond_wait(&f.cond, &f.mutex), ==, EPERM);
        usleep(0);
    }
    end(waits);
    end(signals);
}

STATEMENTS(lock_cond, a_wait_ends_by_a_signal_of_another_flow, a_broadcast_wakes_all,
           a_timed_wait_ends_at_its_time_on_its_clock, a_timed_wait_ends_by_a_signal, what_is_wrong_is_told,
           the_conditions_of_threads_h_are_waited_for, a_condition_may_be_freed_as_soon_as_those_that_wait_are_woken,
           a_signal_is_not_lost_to_a_wait_that_fails)
