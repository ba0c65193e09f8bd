/*
 * The barrier: groups of so many, one after the other; one of each is told.
 */
#include <errno.h>

#include "unit/sync/crew.h"

TEST(it_needs_a_count)
{
    weft_barrier b = {0};
    CHECK_INT(sizeof b, <=, 32);
    CHECK_INT(weft_barrier_wait(&b, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(weft_barrier_init(&b, 0), ==, -EINVAL);
    CHECK_INT(weft_barrier_wait(&b, WEFT_FOREVER), ==, -EINVAL);
}

TEST(a_group_of_one_never_waits)
{
    weft_barrier b;
    CHECK_INT(weft_barrier_init(&b, 1), ==, 0);
    CHECK_INT(weft_barrier_wait(&b, WEFT_NOW), ==, 1);
    CHECK_INT(weft_barrier_wait(&b, WEFT_FOREVER), ==, 1);
}

struct rounds {
    weft_barrier barrier;
    unsigned size;
    unsigned here[64]; /* the round each one is in. atomic */
    unsigned leaders;  /* atomic */
};

enum { ROUNDS = 60 };

/* Nobody is a round ahead of, or behind, what the barrier allows. */
static void goes_round(struct hand *h)
{
    struct rounds *r = h->arg;
    for (unsigned i = 1; i <= ROUNDS; i++) {
        __atomic_store_n(&r->here[h->index], i, __ATOMIC_RELAXED);
        int rc = weft_barrier_wait(&r->barrier, WEFT_FOREVER);
        CHECK(rc == 0 || rc == 1);
        if (rc == 1)
            __atomic_add_fetch(&r->leaders, 1, __ATOMIC_RELAXED);
        for (unsigned k = 0; k < r->size; k++) {
            unsigned round = __atomic_load_n(&r->here[k], __ATOMIC_RELAXED);
            CHECK(round == i || round == i + 1);
        }
    }
}

TEST(all_meet_in_every_round_and_one_is_told)
{
    for (int i = 0; i < CREWS; i++) {
        struct rounds r = {.size = crew_size(&crews[i])};
        CHECK_INT(weft_barrier_init(&r.barrier, r.size), ==, 0);
        crew_work(&crews[i], goes_round, &r);
        CHECK_INT(r.leaders, ==, ROUNDS);
    }
}

static void *waits(void *arg)
{
    return (void *)(intptr_t)weft_barrier_wait(arg, WEFT_FOREVER);
}

static void *gives_up(void *arg)
{
    weft_barrier b;
    CHECK_INT(weft_barrier_init(&b, 3), ==, 0);
    weft_fiber *first = go(waits, &b);
    AWAIT_WAITERS(&b, 1);
    CHECK_INT(weft_barrier_wait(&b, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_barrier_wait(&b, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(weft_barrier_wait(&b, weft_in(-WEFT_MS)), ==, -ETIMEDOUT);
    weft_fiber *cancelled = go(waits, &b);
    AWAIT_WAITERS(&b, 2);
    CHECK_INT(weft_cancel(cancelled), ==, 0);
    CHECK_INT((intptr_t)ended(cancelled), ==, -ECANCELED);
    CHECK_INT(waiting(&b.lock, &b.waiters), ==, 1); /* the first is still alone */
    weft_fiber *second = go(waits, &b);
    AWAIT_WAITERS(&b, 2);
    CHECK_INT(weft_barrier_wait(&b, WEFT_NOW), ==, 1);
    CHECK_INT((intptr_t)ended(first), ==, 0);
    CHECK_INT((intptr_t)ended(second), ==, 0);
    return arg;
}

TEST(who_gives_up_is_not_counted)
{
    in_a_fiber(1, gives_up, NULL);
    in_a_fiber(2, gives_up, NULL);
}

/* Pairs, with deadlines that race: every pass is one of two, and one of the two is told. */
struct passes {
    weft_barrier barrier;
    int leaders, followers; /* atomic */
};

static void passes(struct hand *h)
{
    struct passes *p = h->arg;
    for (int i = 0; i < 300; i++) {
        int rc = weft_barrier_wait(&p->barrier, weft_in((i * 7 + (int)h->index) % 60 * WEFT_US));
        CHECK(rc == 0 || rc == 1 || rc == -ETIMEDOUT);
        if (rc >= 0)
            __atomic_add_fetch(rc ? &p->leaders : &p->followers, 1, __ATOMIC_RELAXED);
    }
}

TEST(a_timeout_that_races_with_the_last_to_come_is_counted_or_not)
{
    for (int i = 0; i < CREWS; i++) {
        struct passes p = {0};
        CHECK_INT(weft_barrier_init(&p.barrier, 2), ==, 0);
        crew_work(&crews[i], passes, &p);
        CHECK_INT(p.leaders, ==, p.followers);
        CHECK_INT(p.barrier.arrived, ==, 0);
        CHECK_INT(waiting(&p.barrier.lock, &p.barrier.waiters), ==, 0);
    }
}

TESTS(sync_barrier, it_needs_a_count, a_group_of_one_never_waits, all_meet_in_every_round_and_one_is_told,
      who_gives_up_is_not_counted, a_timeout_that_races_with_the_last_to_come_is_counted_or_not)
