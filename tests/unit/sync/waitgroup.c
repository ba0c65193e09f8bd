/*
 * The waitgroup: who waits goes on when the count is 0, however it got there.
 */
#include <errno.h>
#include <limits.h>

#include "unit/sync/crew.h"

TEST(the_count_stays_between_zero_and_its_most)
{
    weft_waitgroup g = {0};
    CHECK_INT(sizeof g, <=, 24);
    for (int sealed = 0; sealed < 2; sealed++) {
        CHECK_INT(weft_waitgroup_wait(&g, WEFT_NOW), ==, 0);
        if (sealed)
            g.count |= WF_SEALED; /* as after a wait */
        CHECK_INT(weft_waitgroup_done(&g), ==, -EINVAL);
        CHECK_INT(weft_waitgroup_add(&g, 2), ==, 0);
        CHECK_INT(weft_waitgroup_add(&g, -3), ==, -EINVAL);
        CHECK_INT(weft_waitgroup_add(&g, INT_MIN), ==, -EINVAL);
        CHECK_INT(weft_waitgroup_add(&g, INT_MAX), ==, -EOVERFLOW);
        CHECK_INT(weft_waitgroup_wait(&g, WEFT_NOW), ==, -EAGAIN);
        CHECK_INT(weft_waitgroup_done(&g), ==, 0);
        CHECK_INT(weft_waitgroup_wait(&g, WEFT_NOW), ==, -EAGAIN);
        CHECK_INT(weft_waitgroup_done(&g), ==, 0);
        CHECK_INT(weft_waitgroup_wait(&g, WEFT_NOW), ==, 0);
        CHECK_INT(weft_waitgroup_add(&g, INT_MAX), ==, 0);
        CHECK_INT(weft_waitgroup_add(&g, 1), ==, -EOVERFLOW);
        CHECK_INT(weft_waitgroup_add(&g, -INT_MAX), ==, 0);
    }
    CHECK_INT(weft_waitgroup_wait(&g, WEFT_FOREVER), ==, 0);
    CHECK_INT(g.count, ==, 0);
}

struct work {
    weft_waitgroup group;
    int done; /* atomic */
};

static void *waits_for_all(void *arg)
{
    struct work *w = arg;
    CHECK_INT(weft_waitgroup_wait(&w->group, WEFT_FOREVER), ==, 0);
    return (void *)(intptr_t)__atomic_load_n(&w->done, __ATOMIC_RELAXED);
}

static void *does_one(void *arg)
{
    struct work *w = arg;
    weft_yield();
    __atomic_add_fetch(&w->done, 1, __ATOMIC_RELAXED);
    CHECK_INT(weft_waitgroup_done(&w->group), ==, 0);
    return NULL;
}

/* Three wait, a thread among them, for eight; then all over again. */
static void *waits_for_eight(void *arg)
{
    struct work w = {0};
    for (int round = 1; round <= 3; round++) {
        CHECK_INT(weft_waitgroup_add(&w.group, 8), ==, 0);
        pthread_t thread;
        CHECK_INT(pthread_create(&thread, NULL, waits_for_all, &w), ==, 0);
        weft_fiber *waiter = go(waits_for_all, &w);
        AWAIT_WAITERS(&w.group, 2);
        for (int i = 0; i < 8; i++)
            CHECK_INT(weft_go(does_one, &w), ==, 0);
        CHECK_INT((intptr_t)waits_for_all(&w), ==, 8 * round);
        CHECK_INT((intptr_t)ended(waiter), ==, 8 * round);
        void *value;
        pthread_join(thread, &value);
        CHECK_INT((intptr_t)value, ==, 8 * round);
    }
    return arg;
}

TEST(all_that_wait_go_on_at_zero_and_it_can_be_used_again)
{
    in_a_fiber(1, waits_for_eight, NULL);
    in_a_fiber(4, waits_for_eight, NULL);
}

static void *adds_right_after(void *arg)
{
    struct work w = {0};
    CHECK_INT(weft_waitgroup_add(&w.group, 1), ==, 0);
    weft_fiber *waiter = go(waits_for_all, &w);
    AWAIT_WAITERS(&w.group, 1);
    CHECK_INT(weft_waitgroup_done(&w.group), ==, 0);
    CHECK_INT(weft_waitgroup_add(&w.group, 1), ==, 0); /* before the waiter has run */
    ended(waiter);
    CHECK_INT(weft_waitgroup_wait(&w.group, WEFT_NOW), ==, -EAGAIN);
    return arg;
}

TEST(who_waited_goes_on_although_the_count_rises_again)
{
    in_a_fiber(1, adds_right_after, NULL);
}

/* Hand 0 makes a group for the others and frees it when it is through: done must not touch it after that. */
struct rounds {
    weft_waitgroup *group;
    weft_sem begin[64]; /* a round, for each of the others */
    unsigned others;
};

enum { ROUNDS = 200 };

static void goes_round(struct hand *h)
{
    struct rounds *r = h->arg;
    for (unsigned i = 1; i <= ROUNDS; i++) {
        if (h->index != 0) {
            CHECK_INT(weft_sem_wait(&r->begin[h->index], WEFT_FOREVER), ==, 0);
            CHECK_INT(weft_waitgroup_done(r->group), ==, 0);
            continue;
        }
        weft_waitgroup *g = calloc(1, sizeof *g);
        CHECK_INT(weft_waitgroup_add(g, (int)r->others), ==, 0);
        r->group = g;
        for (unsigned k = 1; k <= r->others; k++)
            CHECK_INT(weft_sem_post(&r->begin[k]), ==, 0);
        while (i % 3 == 0 && weft_waitgroup_wait(g, weft_in(i % 7 * WEFT_US)) != 0)
            weft_yield(); /* gives up in the midst of it, and finds the 0 by another way */
        CHECK_INT(weft_waitgroup_wait(g, WEFT_FOREVER), ==, 0);
        free(g);
    }
}

TEST(done_touches_it_no_more_when_the_waiter_goes_on)
{
    for (int i = 0; i < CREWS; i++) {
        struct rounds r = {.others = crew_size(&crews[i]) - 1};
        crew_work(&crews[i], goes_round, &r);
    }
}

TESTS(sync_waitgroup, the_count_stays_between_zero_and_its_most, all_that_wait_go_on_at_zero_and_it_can_be_used_again,
      who_waited_goes_on_although_the_count_rises_again, done_touches_it_no_more_when_the_waiter_goes_on)
