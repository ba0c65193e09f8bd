/*
 * tests/hook/lock_workers.c: fibers that move between workers while they own locks, on 1, 2, 8 and 64 of them
 * (WEFT_HOOK_LOCKS=1). What they own has the id of a thread in it, and that thread changes.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

#include <weft/weft.h>

#include "hook/statement.h"

enum { FIBERS = 96, ROUNDS = STATEMENT_ASAN ? 20 : 60, PERMITS = 3 };

struct locks {
    pthread_mutex_t recursive, checking, plain;
    pthread_rwlock_t rwlock;
    pthread_cond_t changed;
    sem_t permits;
    long depth, checked, written; /* guarded by: recursive, checking, rwlock to write */
    int has_turn;                 /* guarded by: plain: whose turn it is to take the box, 0: nobody's */
    long turns;                   /* guarded by: plain */
    int inside;                   /* atomic: with a permit */
    int numbers, moved, ended;    /* atomic */
};

/* Gives others the time to take it to another worker; counts if they have. */
static void let_move(struct locks *l, int round)
{
    pid_t before = gettid();
    if (round % 4 == 0)
        usleep(20);
    else
        weft_yield();
    for (double start = now_ms(); now_ms() - start < 0.01;) /* others find something to take */
        ;
    __atomic_add_fetch(&l->moved, gettid() != before, __ATOMIC_RELAXED);
}

static void lock_twice(struct locks *l, int round)
{
    CHECK_INT(pthread_mutex_lock(&l->recursive), ==, 0);
    long depth = ++l->depth;
    let_move(l, round);
    CHECK_INT(round % 2 ? pthread_mutex_lock(&l->recursive) : pthread_mutex_trylock(&l->recursive), ==, 0);
    let_move(l, round);
    CHECK_INT(pthread_mutex_unlock(&l->recursive), ==, 0);
    let_move(l, round);
    CHECK_INT(l->depth, ==, depth); /* it is still ours */
    CHECK_INT(pthread_mutex_unlock(&l->recursive), ==, 0);
    CHECK_INT(pthread_mutex_unlock(&l->recursive), ==, EPERM);
}

static void lock_checking(struct locks *l, int round)
{
    CHECK_INT(pthread_mutex_lock(&l->checking), ==, 0);
    long checked = ++l->checked;
    let_move(l, round);
    CHECK_INT(pthread_mutex_lock(&l->checking), ==, EDEADLK);
    CHECK_INT(pthread_mutex_trylock(&l->checking), ==, EBUSY);
    CHECK_INT(l->checked, ==, checked);
    CHECK_INT(pthread_mutex_unlock(&l->checking), ==, 0);
    CHECK_INT(pthread_mutex_unlock(&l->checking), ==, EPERM);
}

static void read_or_write(struct locks *l, int round)
{
    bool writes = round % 3 == 0;
    CHECK_INT(writes ? pthread_rwlock_wrlock(&l->rwlock) : pthread_rwlock_rdlock(&l->rwlock), ==, 0);
    long written = writes ? ++l->written : l->written;
    let_move(l, round);
    if (writes)
        CHECK_INT(pthread_rwlock_rdlock(&l->rwlock), ==, EDEADLK);
    CHECK_INT(l->written, ==, written);
    CHECK_INT(pthread_rwlock_unlock(&l->rwlock), ==, 0);
}

static void enter(struct locks *l, int round)
{
    CHECK_INT(sem_wait(&l->permits), ==, 0);
    CHECK_INT(__atomic_add_fetch(&l->inside, 1, __ATOMIC_ACQ_REL), <=, PERMITS);
    let_move(l, round);
    __atomic_sub_fetch(&l->inside, 1, __ATOMIC_ACQ_REL);
    CHECK_INT(sem_post(&l->permits), ==, 0);
}

static void take_turn(struct locks *l, int round, int number)
{
    CHECK_INT(pthread_mutex_lock(&l->plain), ==, 0);
    while (l->has_turn != 0)
        CHECK_INT(pthread_cond_wait(&l->changed, &l->plain), ==, 0);
    l->has_turn = number;
    CHECK_INT(pthread_mutex_unlock(&l->plain), ==, 0);
    let_move(l, round);
    CHECK_INT(pthread_mutex_lock(&l->plain), ==, 0);
    CHECK_INT(l->has_turn, ==, number);
    l->has_turn = 0;
    l->turns++;
    CHECK_INT(pthread_cond_signal(&l->changed), ==, 0);
    CHECK_INT(pthread_mutex_unlock(&l->plain), ==, 0);
}

static void *lock_all(void *arg)
{
    struct locks *l = arg;
    int number = __atomic_add_fetch(&l->numbers, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < ROUNDS; i++) {
        switch ((number + i) % 5) {
        case 0:
            lock_twice(l, i);
            break;
        case 1:
            lock_checking(l, i);
            break;
        case 2:
            read_or_write(l, i);
            break;
        case 3:
            enter(l, i);
            break;
        default:
            take_turn(l, i, number);
        }
    }
    __atomic_add_fetch(&l->ended, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void *start(void *arg)
{
    weft_attr attr = {.size = sizeof attr, .flags = WEFT_MIGRATE};
    for (int i = 0; i < FIBERS; i++)
        CHECK_INT(weft_go_with(NULL, &attr, lock_all, arg), ==, 0);
    return NULL;
}

static void run_with(unsigned workers)
{
    struct locks l = {.recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
                      .checking = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP,
                      .plain = PTHREAD_MUTEX_INITIALIZER,
                      .rwlock = PTHREAD_RWLOCK_INITIALIZER,
                      .changed = PTHREAD_COND_INITIALIZER};
    weft_sched_opts opts = {.size = sizeof opts, .threads = workers};
    if (is_kernel())
        SKIP("there are no workers");
    CHECK_INT(sem_init(&l.permits, 0, PERMITS), ==, 0);
    double start_ms = now_ms();
    CHECK_INT(weft_run(start, &l, NULL, &opts), ==, 0);
    printf("%u workers: %.0f ms; %d times another one\n", workers, now_ms() - start_ms, l.moved);
    CHECK_INT(l.ended, ==, FIBERS);
    CHECK_INT(l.turns, ==, (long)FIBERS * ROUNDS / 5);
    CHECK_INT(pthread_mutex_destroy(&l.recursive), ==, 0);
    CHECK_INT(pthread_mutex_destroy(&l.checking), ==, 0);
    CHECK_INT(pthread_rwlock_destroy(&l.rwlock), ==, 0);
}

TEST(what_a_fiber_owns_stays_its_own_on_one_worker)
{
    run_with(1);
}

TEST(what_a_fiber_owns_goes_with_it_among_2_workers)
{
    run_with(2);
}

TEST(what_a_fiber_owns_goes_with_it_among_8_workers)
{
    run_with(8);
}

TEST(what_a_fiber_owns_goes_with_it_among_64_workers)
{
    run_with(64);
}

STATEMENTS(lock_workers, what_a_fiber_owns_stays_its_own_on_one_worker, what_a_fiber_owns_goes_with_it_among_2_workers,
           what_a_fiber_owns_goes_with_it_among_8_workers, what_a_fiber_owns_goes_with_it_among_64_workers)
