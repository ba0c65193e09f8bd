/*
 * The recursive mutex: as many unlocks as locks, by the same fiber or thread. The rest is the mutex's.
 */
#include <errno.h>

#include "unit/sync/crew.h"

static void *tries(void *arg)
{
    CHECK_INT(weft_rmutex_lock(arg, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_rmutex_unlock(arg), ==, -EPERM);
    return NULL;
}

static void try_on_a_thread(weft_rmutex *m)
{
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, tries, m), ==, 0);
    pthread_join(thread, NULL);
}

static void *nests(void *arg)
{
    weft_rmutex m = {0};
    CHECK_INT(weft_rmutex_unlock(&m), ==, -EPERM);
    for (int i = 0; i < 5; i++)
        CHECK_INT(weft_rmutex_lock(&m, i % 2 ? WEFT_NOW : WEFT_FOREVER), ==, 0);
    for (int i = 0; i < 5; i++) {
        try_on_a_thread(&m);
        if (weft_fiber_current())
            ended(go(tries, &m));
        CHECK_INT(weft_rmutex_unlock(&m), ==, 0);
    }
    CHECK_INT(weft_rmutex_unlock(&m), ==, -EPERM);
    return arg;
}

TEST(as_many_unlocks_as_locks_by_its_owner_only)
{
    nests(NULL);
    in_a_fiber(1, nests, NULL);
    in_a_fiber(2, nests, NULL);
}

TEST(too_many_locks_are_eoverflow)
{
    weft_rmutex m = {0};
    CHECK_INT(weft_rmutex_lock(&m, WEFT_NOW), ==, 0);
    m.mutex.depth = UINT32_MAX - 1;
    CHECK_INT(weft_rmutex_lock(&m, WEFT_NOW), ==, 0);
    CHECK_INT(weft_rmutex_lock(&m, WEFT_NOW), ==, -EOVERFLOW);
    CHECK_INT(weft_rmutex_unlock(&m), ==, 0);
    CHECK_INT(m.mutex.depth, ==, UINT32_MAX - 1);
}

struct counter {
    weft_rmutex mutex;
    long value; /* guarded by: mutex */
};

enum { ROUNDS = 100, DEPTH = 3 };

static void count(struct counter *c, int depth)
{
    CHECK_INT(weft_rmutex_lock(&c->mutex, WEFT_FOREVER), ==, 0);
    long value = c->value;
    if (depth > 0)
        count(c, depth - 1);
    else
        weft_yield();
    CHECK_INT(c->value, ==, value + depth);
    c->value++;
    CHECK_INT(weft_rmutex_unlock(&c->mutex), ==, 0);
}

static void counts(struct hand *h)
{
    for (int i = 0; i < ROUNDS; i++)
        count(h->arg, DEPTH - 1);
}

TEST(one_at_a_time_is_in_there_however_deep)
{
    for (int i = 0; i < CREWS; i++) {
        struct counter c = {0};
        crew_work(&crews[i], counts, &c);
        CHECK_INT(c.value, ==, (long)ROUNDS * DEPTH * crew_size(&crews[i]));
    }
}

TESTS(sync_rmutex, as_many_unlocks_as_locks_by_its_owner_only, too_many_locks_are_eoverflow,
      one_at_a_time_is_in_there_however_deep)
