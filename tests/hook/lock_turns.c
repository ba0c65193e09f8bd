/*
 * tests/hook/lock_turns.c: one that takes a lock again and again, and another that wants it once (WEFT_HOOK_LOCKS=1).
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

#include "hook/clock.h"
#include "hook/peer.h"

enum { ENOUGH = 100, MOST = 400, KINDS = 4 };

struct greed {
    int kind;
    pthread_mutex_t mutex, recursive;
    pthread_rwlock_t rwlock;
    sem_t sem;
    int rounds, wants; /* atomic */
    bool got;          /* atomic */
};

static void take(struct greed *g)
{
    CHECK_INT(g->kind == 0   ? pthread_mutex_lock(&g->mutex)
              : g->kind == 1 ? pthread_mutex_lock(&g->recursive)
              : g->kind == 2 ? pthread_rwlock_wrlock(&g->rwlock)
                             : sem_wait(&g->sem),
              ==, 0);
}

static void let_go(struct greed *g)
{
    CHECK_INT(g->kind == 0   ? pthread_mutex_unlock(&g->mutex)
              : g->kind == 1 ? pthread_mutex_unlock(&g->recursive)
              : g->kind == 2 ? pthread_rwlock_unlock(&g->rwlock)
                             : sem_post(&g->sem),
              ==, 0);
}

/* Of threads the C library lets the one go on that comes first: they need a while to come. */
static void pause_for_threads(void)
{
    for (double start = now_ms(); is_kernel() && now_ms() - start < 0.5;)
        ;
}

static void take_again_and_again(void *arg)
{
    struct greed *g = arg;
    while (!__atomic_load_n(&g->got, __ATOMIC_ACQUIRE) && __atomic_load_n(&g->rounds, __ATOMIC_ACQUIRE) < MOST) {
        take(g);
        usleep(1000);
        __atomic_add_fetch(&g->rounds, __atomic_load_n(&g->wants, __ATOMIC_ACQUIRE), __ATOMIC_ACQ_REL);
        let_go(g);
        pause_for_threads();
    }
}

static void check_turns(struct flow *(*start)(void (*fn)(void *), void *arg), int greedy)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct greed g = {.kind = kind,
                          .mutex = PTHREAD_MUTEX_INITIALIZER,
                          .recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
                          .rwlock = PTHREAD_RWLOCK_INITIALIZER};
        struct flow *flows[4];
        CHECK_INT(sem_init(&g.sem, 0, 1), ==, 0);
        for (int i = 0; i < greedy; i++)
            flows[i] = start(take_again_and_again, &g);
        usleep(5000);
        __atomic_store_n(&g.wants, 1, __ATOMIC_RELEASE);
        take(&g);
        __atomic_store_n(&g.got, true, __ATOMIC_RELEASE);
        printf("kind %d: after %d rounds\n", kind, __atomic_load_n(&g.rounds, __ATOMIC_ACQUIRE));
        CHECK_INT(__atomic_load_n(&g.rounds, __ATOMIC_ACQUIRE), <=, ENOUGH);
        let_go(&g);
        for (int i = 0; i < greedy; i++)
            end(flows[i]);
        CHECK_INT(pthread_mutex_destroy(&g.mutex), ==, 0);
        CHECK_INT(pthread_mutex_destroy(&g.recursive), ==, 0);
        CHECK_INT(pthread_rwlock_destroy(&g.rwlock), ==, 0);
        CHECK_INT(sem_destroy(&g.sem), ==, 0);
    }
}

STATEMENT(who_takes_it_again_and_again_lets_another_have_it)
{
    check_turns(begin, 1);
}

STATEMENT(who_takes_it_again_and_again_elsewhere_lets_another_have_it)
{
    check_turns(begin_elsewhere, 1);
}

STATEMENT(several_that_take_it_again_and_again_let_another_have_it)
{
    check_turns(begin, 3);
    check_turns(begin_elsewhere, 3);
}

static pthread_mutex_t wanted = PTHREAD_MUTEX_INITIALIZER;

static void want(void *arg)
{
    (void)arg;
    CHECK_INT(pthread_mutex_lock(&wanted), ==, 0);
    CHECK_INT(pthread_mutex_unlock(&wanted), ==, 0);
}

/* Nobody else of this worker runs between the two calls; a thread might. */
STATEMENT(what_is_free_is_had_also_by_who_has_no_time_left)
{
    struct timespec past = {1, 0};
    CHECK_INT(pthread_mutex_lock(&wanted), ==, 0);
    struct flow *other = begin(want, NULL);
    bool has = true;
    for (int i = 0; i < 8 && has; i++) {
        usleep(2000);
        CHECK_INT(pthread_mutex_unlock(&wanted), ==, 0);
        has = pthread_mutex_timedlock(&wanted, &past) == 0;
        CHECK(has || is_kernel());
    }
    if (has)
        CHECK_INT(pthread_mutex_unlock(&wanted), ==, 0);
    end(other);
}

STATEMENTS(lock_turns, who_takes_it_again_and_again_lets_another_have_it,
           what_is_free_is_had_also_by_who_has_no_time_left,
           who_takes_it_again_and_again_elsewhere_lets_another_have_it,
           several_that_take_it_again_and_again_let_another_have_it)
