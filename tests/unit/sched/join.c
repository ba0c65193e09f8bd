/*
 * Joining and detaching: the value, who may, deadlines, and ends that come at the same moment.
 */
#include "unit/sched/ground.h"

static void *joins_and_gets_values(void *arg)
{
    for (intptr_t i = 0; i < 20; i++) {
        weft_fiber *f = go(returns_at_once, ptr(i));
        if (i % 2)
            weft_yield(); /* it may have ended before */
        CHECK_INT((intptr_t)ended(f), ==, i);
    }
    weft_fiber *f = go(returns_at_once, ptr(1));
    CHECK_INT(weft_join(f, NULL, WEFT_FOREVER), ==, 0);
    return arg;
}

TEST(join_takes_the_value)
{
    in_a_fiber(1, joins_and_gets_values, NULL);
    in_a_fiber(4, joins_and_gets_values, NULL);
    weft_sched *s = running_sched(2); /* and on a plain thread */
    for (intptr_t i = 0; i < 20; i++)
        CHECK_INT((intptr_t)ended(go_on(s, returns_at_once, ptr(i))), ==, i);
    end_sched(s);
}

static void *is_refused(void *arg)
{
    void *value = ptr(1);
    weft_fiber *me = weft_fiber_current(), *detached = go(parks, NULL);
    CHECK_INT(weft_join(NULL, &value, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_join(me, &value, WEFT_FOREVER), ==, -EDEADLK);
    CHECK_INT(weft_detach(detached), ==, 0);
    CHECK_INT(weft_join(detached, &value, WEFT_FOREVER), ==, -EINVAL);
    CHECK_PTR(value, ==, ptr(1));
    weft_unpark(detached);
    return arg;
}

TEST(join_of_oneself_is_edeadlk_and_of_a_detached_one_einval)
{
    in_a_fiber(1, is_refused, NULL);
}

struct joint {
    weft_fiber *f;
    int rc, waits;
    void *value;
};

static void *joins(void *arg)
{
    struct joint *j = arg;
    j->rc = weft_join(j->f, &j->value, WEFT_FOREVER);
    return NULL;
}

static void *joins_what_another_joins(void *arg)
{
    struct joint j = {.f = go(parks, NULL)};
    weft_fiber *first = go(joins, &j);
    AWAIT(is_parked(first));
    CHECK_INT(weft_join(j.f, NULL, WEFT_FOREVER), ==, -EALREADY);
    CHECK_INT(weft_join(j.f, NULL, WEFT_NOW), ==, -EALREADY);
    CHECK_INT(weft_detach(j.f), ==, -EALREADY);
    weft_unpark(j.f);
    ended(first);
    CHECK_INT(j.rc, ==, 0);
    return arg;
}

TEST(join_of_one_that_another_joins_is_ealready)
{
    in_a_fiber(1, joins_what_another_joins, NULL);
    in_a_fiber(4, joins_what_another_joins, NULL);
}

/* Many at once: one gets it, the others are told. */
static void *tries_to_join(void *arg)
{
    struct joint *j = arg;
    void *value = NULL;
    more(&j->waits);
    int rc = weft_join(j->f, &value, WEFT_FOREVER);
    CHECK(rc == 0 || rc == -EALREADY);
    if (rc == 0)
        CHECK_INT((intptr_t)value, ==, 0);
    return ptr(rc == 0);
}

static void *many_join(void *arg)
{
    for (int round = 0; round < 50; round++) {
        enum { MANY = 6 };
        struct joint j = {.f = go(parks, NULL)};
        weft_fiber *all[MANY];
        intptr_t won = 0;
        for (int i = 0; i < MANY; i++)
            all[i] = go(tries_to_join, &j);
        AWAIT(seen(&j.waits) == MANY);
        int still = MANY;
        AWAIT((still = (int)figures(weft_sched_current()).parked) == 2); /* the one it is about, and who joins it */
        weft_unpark(j.f);
        for (int i = 0; i < MANY; i++)
            won += (intptr_t)ended(all[i]);
        CHECK_INT(won, ==, 1);
    }
    return arg;
}

TEST(of_many_who_join_one_gets_it)
{
    in_a_fiber(1, many_join, NULL);
    in_a_fiber(4, many_join, NULL);
}

static void join_with_deadlines(weft_fiber *f)
{
    void *value = ptr(1);
    for (weft_span d = 10 * WEFT_US; d < 20 * WEFT_MS; d *= 10) {
        weft_time until = weft_in(d);
        CHECK_INT(weft_join(f, &value, until), ==, -ETIMEDOUT);
        CHECK_INT(weft_now().ns, >=, until.ns);
    }
    CHECK_INT(weft_join(f, &value, (weft_time){1}), ==, -ETIMEDOUT);
    CHECK_INT(weft_join(f, &value, (weft_time){0}), ==, -ETIMEDOUT);
    CHECK_INT(weft_join(f, &value, (weft_time){-5}), ==, -ETIMEDOUT);
    CHECK_INT(weft_join(f, &value, WEFT_NOW), ==, -EAGAIN);
    CHECK_PTR(value, ==, ptr(1));
    weft_unpark(f);
    CHECK_INT(weft_join(f, &value, weft_in(AWAIT_SECONDS * WEFT_SEC)), ==, 0);
    CHECK_PTR(value, ==, NULL);
}

static void *joins_with_deadlines(void *arg)
{
    join_with_deadlines(go(parks, NULL));
    weft_fiber *f = go(returns_at_once, ptr(7)); /* what is there is had whatever the deadline */
    AWAIT(weft_fiber_state(f) == WEFT_FIBER_DONE);
    void *value = NULL;
    CHECK_INT(weft_join(f, &value, WEFT_NOW), ==, 0);
    CHECK_PTR(value, ==, ptr(7));
    f = go(returns_at_once, ptr(8));
    AWAIT(weft_fiber_state(f) == WEFT_FIBER_DONE);
    CHECK_INT(weft_join(f, &value, (weft_time){1}), ==, 0);
    CHECK_PTR(value, ==, ptr(8));
    return arg;
}

TEST(join_with_a_deadline_is_never_early)
{
    in_a_fiber(1, joins_with_deadlines, NULL);
    in_a_fiber(2, joins_with_deadlines, NULL);
    weft_sched *s = running_sched(1);
    join_with_deadlines(go_on(s, parks, NULL));
    end_sched(s);
}

/*
 * The end and the joiner's deadline come at the same moment. Whatever the join says, nothing of it may reach the waits
 * that follow.
 */
struct brink {
    weft_sched *other;
    int64_t at;
};

static void *ends_at(void *arg)
{
    const struct brink *b = arg;
    while (real_now() < b->at)
        ;
    return arg;
}

static void *joins_on_the_brink(void *arg)
{
    struct brink *b = arg;
    for (int round = 0; round < 1500; round++) {
        void *value = NULL;
        b->at = real_now() + 60000;
        weft_fiber *f = go_on(b->other, ends_at, b);
        int rc = weft_join(f, &value, (weft_time){b->at});
        CHECK(rc == 0 || rc == -ETIMEDOUT);
        weft_time until = weft_in(20 * WEFT_US);
        if (weft_fiber_current()) /* it has left the join behind: only the time ends this */
            CHECK_INT(weft_park(until), ==, -ETIMEDOUT);
        else
            CHECK_INT(weft_sleep_until(until), ==, 0);
        CHECK_INT(weft_now().ns, >=, until.ns);
        if (rc != 0)
            value = ended(f);
        CHECK_PTR(value, ==, b);
    }
    return NULL;
}

TEST(an_end_at_the_deadline_of_a_join_is_felt_in_no_later_wait)
{
    struct brink b = {.other = running_sched(1)};
    in_a_fiber(1, joins_on_the_brink, &b);
    joins_on_the_brink(&b);
    end_sched(b.other);
}

static void *detaches(void *arg)
{
    int ran = 0;
    CHECK_INT(weft_detach(NULL), ==, -EINVAL);
    weft_fiber *f = go(parks, NULL);
    CHECK_INT(weft_detach(f), ==, 0);
    CHECK_INT(weft_detach(f), ==, -EALREADY);
    AWAIT(is_parked(f));
    CHECK_INT(weft_detach(f), ==, -EALREADY);
    CHECK_INT(count_fibers(), ==, 2);
    weft_unpark(f);
    AWAIT(count_fibers() == 1); /* it has ended, and is released */

    f = go(counts, &ran);
    AWAIT(weft_fiber_state(f) == WEFT_FIBER_DONE);
    CHECK_INT(count_fibers(), ==, 2);
    CHECK_INT(weft_detach(f), ==, 0);
    CHECK_INT(count_fibers(), ==, 1);

    CHECK_INT(weft_fiber_new(&f, NULL, counts, &ran), ==, 0);
    CHECK_INT(count_fibers(), ==, 2);
    CHECK_INT(weft_detach(f), ==, 0);
    CHECK_INT(count_fibers(), ==, 1);
    CHECK_INT(ran, ==, 1);
    return arg;
}

TEST(a_detached_one_is_released_when_it_ends_or_at_once_if_it_has)
{
    in_a_fiber(1, detaches, NULL);
    in_a_fiber(4, detaches, NULL);
}

static void *detaches_on_the_brink(void *arg)
{
    for (int i = 0; i < 2000; i++) {
        weft_fiber *f = go(returns_at_once, NULL);
        for (int turn = 0; turn < i % 3; turn++)
            weft_yield();
        CHECK_INT(weft_detach(f), ==, 0);
    }
    AWAIT(count_fibers() == 1);
    return arg;
}

TEST(an_end_and_a_detach_at_the_same_moment_release_it_once)
{
    in_a_fiber(1, detaches_on_the_brink, NULL);
    in_a_fiber(4, detaches_on_the_brink, NULL);
}

static void *spawns_and_joins_many(void *arg)
{
    enum { MANY = 3000 };
    static weft_fiber *all[MANY];
    for (intptr_t i = 0; i < MANY; i++)
        all[i] = go(returns_at_once, ptr(i));
    for (intptr_t i = 0; i < MANY; i++)
        CHECK_INT((intptr_t)ended(all[MANY - 1 - i]), ==, MANY - 1 - i);
    CHECK_INT(count_fibers(), ==, 1);
    return arg;
}

TEST(a_join_releases_the_record)
{
    in_a_fiber(1, spawns_and_joins_many, NULL);
    in_a_fiber(2, spawns_and_joins_many, NULL);
    CHECK_INT(count_fibers(), ==, 0);
}

TESTS(sched_join, join_takes_the_value, join_of_oneself_is_edeadlk_and_of_a_detached_one_einval,
      join_of_one_that_another_joins_is_ealready, of_many_who_join_one_gets_it, join_with_a_deadline_is_never_early,
      an_end_at_the_deadline_of_a_join_is_felt_in_no_later_wait,
      a_detached_one_is_released_when_it_ends_or_at_once_if_it_has,
      an_end_and_a_detach_at_the_same_moment_release_it_once, a_join_releases_the_record)
