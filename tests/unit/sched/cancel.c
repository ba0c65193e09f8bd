/*
 * Cancellation: it ends the current wait, or the next, and every later one; what was over before keeps its result.
 */
#include "unit/sched/ground.h"

/* Each kind of wait, in a fiber that is cancelled in it, or was before. */
static int waits_in_park(void)
{
    return weft_park(WEFT_FOREVER);
}

static int waits_in_park_with_a_deadline(void)
{
    return weft_park(weft_in(AWAIT_SECONDS * WEFT_SEC));
}

static int waits_in_sleep(void)
{
    return weft_sleep(AWAIT_SECONDS * WEFT_SEC);
}

static int waits_in_sleep_for_ever(void)
{
    return weft_sleep_until(WEFT_FOREVER);
}

static int waits_in_join(void)
{
    weft_fiber *f = go(parks, NULL);
    int rc = weft_join(f, NULL, WEFT_FOREVER);
    weft_unpark(f); /* it is still ours */
    if (rc != 0)
        CHECK_INT(weft_detach(f), ==, 0);
    return rc;
}

static int (*const waits[])(void) = {waits_in_park, waits_in_park_with_a_deadline, waits_in_sleep,
                                     waits_in_sleep_for_ever, waits_in_join};
enum { WAITS = sizeof waits / sizeof waits[0] };

static void *waits_and_says(void *arg)
{
    int (*const *wait)(void) = arg;
    CHECK(!weft_cancelled());
    int rc = (*wait)();
    CHECK(weft_cancelled());
    for (int i = 0; i < WAITS; i++) /* and every later one */
        CHECK_INT(waits[i](), ==, -ECANCELED);
    CHECK_INT(weft_sleep(0), ==, -ECANCELED);
    CHECK(weft_cancelled());
    return ptr(rc);
}

static void *cancels_each(void *arg)
{
    for (int i = 0; i < WAITS; i++) {
        weft_fiber *f = go(waits_and_says, (void *)(uintptr_t)&waits[i]);
        AWAIT(is_parked(f));
        CHECK_INT(weft_cancel(f), ==, 0);
        CHECK_INT((intptr_t)ended(f), ==, -ECANCELED);
        CHECK(!weft_cancelled());
    }
    return arg;
}

TEST(a_cancel_ends_the_current_wait_and_every_later_one)
{
    in_a_fiber(1, cancels_each, NULL);
    in_a_fiber(4, cancels_each, NULL);
}

static void *waits_later(void *arg)
{
    int (*const *wait)(void) = arg;
    while (!weft_cancelled())
        weft_yield();
    return ptr((*wait)());
}

static void *cancels_before(void *arg)
{
    for (int i = 0; i < WAITS; i++) {
        weft_fiber *f = go(waits_later, (void *)(uintptr_t)&waits[i]);
        weft_yield();
        CHECK_INT(weft_cancel(f), ==, 0);
        CHECK_INT(weft_cancel(f), ==, 0);
        CHECK_INT((intptr_t)ended(f), ==, -ECANCELED);
    }
    return arg;
}

TEST(a_cancel_ends_the_next_wait)
{
    in_a_fiber(1, cancels_before, NULL);
    in_a_fiber(4, cancels_before, NULL);
}

static void *cancels_what_has_not_started(void *arg)
{
    weft_fiber *f = go(parks, NULL);
    CHECK_INT(weft_cancel(f), ==, 0);
    CHECK_INT((intptr_t)ended(f), ==, -ECANCELED);
    CHECK_INT(weft_fiber_new(&f, NULL, parks, NULL), ==, 0);
    CHECK_INT(weft_cancel(f), ==, 0);
    CHECK_INT(weft_sched_submit(weft_sched_current(), f, 0), ==, 0);
    CHECK_INT((intptr_t)ended(f), ==, -ECANCELED);
    return arg;
}

TEST(one_that_has_not_started_runs_cancelled)
{
    in_a_fiber(1, cancels_what_has_not_started, NULL);
}

static void *is_refused(void *arg)
{
    reuse_records();
    weft_fiber *f = go(returns_at_once, NULL);
    CHECK_INT(weft_cancel(NULL), ==, -EINVAL);
    AWAIT(weft_fiber_state(f) == WEFT_FIBER_DONE);
    CHECK_INT(weft_cancel(f), ==, -ESRCH);
    ended(f);
    f = go(parks, NULL); /* on the same record, perhaps */
    weft_yield();
    weft_unpark(f);
    CHECK_PTR(ended(f), ==, NULL);
    return arg;
}

TEST(a_cancel_of_one_that_has_ended_is_esrch)
{
    in_a_fiber(1, is_refused, NULL);
}

static void *joins_and_says(void *arg)
{
    return ptr(weft_join(arg, NULL, WEFT_FOREVER));
}

/* On one worker nothing comes between: the wait is over, its fiber is ready, and has not run yet. */
static void *cancels_too_late(void *arg)
{
    weft_fiber *f = go(parks, NULL), *joiner = go(joins_and_says, f);
    AWAIT(is_parked(f) && is_parked(joiner));
    weft_unpark(f);
    CHECK_INT(weft_cancel(f), ==, 0);
    CHECK_INT(weft_fiber_state(f), ==, WEFT_FIBER_READY);
    weft_yield(); /* it ends, and what the joiner waits for is there */
    CHECK_INT(weft_fiber_state(joiner), ==, WEFT_FIBER_READY);
    CHECK_INT(weft_cancel(joiner), ==, 0);
    CHECK_INT((intptr_t)ended(joiner), ==, 0);

    f = go(parks, NULL);
    AWAIT(is_parked(f));
    weft_unpark(f);
    CHECK_INT(weft_cancel(f), ==, 0);
    CHECK_INT((intptr_t)ended(f), ==, 0);
    return arg;
}

TEST(a_wait_that_was_over_keeps_its_result)
{
    in_a_fiber(1, cancels_too_late, NULL);
}

static void *cancels_the_joiner(void *arg)
{
    weft_fiber *f = go(parks, NULL), *joiner = go(joins_and_says, f);
    AWAIT(is_parked(joiner));
    CHECK_INT(weft_cancel(joiner), ==, 0);
    CHECK_INT((intptr_t)ended(joiner), ==, -ECANCELED);
    weft_unpark(f);
    CHECK_PTR(ended(f), ==, NULL); /* it is still joinable */
    return arg;
}

TEST(a_cancelled_join_leaves_the_fiber_joinable)
{
    in_a_fiber(1, cancels_the_joiner, NULL);
    in_a_fiber(4, cancels_the_joiner, NULL);
}

static void *computes_until_cancelled(void *arg)
{
    put(arg, 1);
    while (!weft_cancelled())
        ;
    return arg;
}

TEST(one_that_never_waits_sees_that_it_was_cancelled)
{
    int began = 0;
    weft_sched *s = running_sched(1);
    weft_fiber *f = go_on(s, computes_until_cancelled, &began);
    AWAIT(seen(&began));
    CHECK_INT(weft_cancel(f), ==, 0);
    CHECK_PTR(ended(f), ==, &began);
    end_sched(s);
}

/* From other threads, in every moment of its waits. */
static void *waits_until_cancelled(void *arg)
{
    int rc = 0, n = 0;
    while (rc != -ECANCELED) {
        rc = n % 3 == 0 ? weft_sleep(WEFT_US) : n % 3 == 1 ? weft_park(weft_in(2 * WEFT_US)) : weft_park(WEFT_NOW);
        CHECK(rc == 0 || rc == -ETIMEDOUT || rc == -EAGAIN || rc == -ECANCELED);
        n++;
    }
    CHECK_INT(weft_sleep(WEFT_SEC), ==, -ECANCELED);
    return arg;
}

TEST(a_cancel_from_another_thread_finds_it_in_every_moment)
{
    weft_sched *s = running_sched(2);
    for (int i = 0; i < 300; i++) {
        weft_fiber *f = go_on(s, waits_until_cancelled, NULL);
        for (volatile int spin = 0; spin < i * 30; spin++)
            ;
        CHECK_INT(weft_cancel(f), ==, 0);
        ended(f);
    }
    end_sched(s);
}

TESTS(sched_cancel, a_cancel_ends_the_current_wait_and_every_later_one, a_cancel_ends_the_next_wait,
      one_that_has_not_started_runs_cancelled, a_cancel_of_one_that_has_ended_is_esrch,
      a_wait_that_was_over_keeps_its_result, a_cancelled_join_leaves_the_fiber_joinable,
      one_that_never_waits_sees_that_it_was_cancelled, a_cancel_from_another_thread_finds_it_in_every_moment)
