/*
 * Scopes: children, failures, deadlines, absorbing, places, and who may call what.
 */
#include "unit/task/ground.h"

IN_A_SCOPE_FIBER(wait_returns_0_when_all_children_have_succeeded)
{
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    for (int i = 0; i < 10; i++)
        CHECK_INT(weft_scope_go(&s, returns, AS_ARG(0)), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, 0);
    weft_scope_tally tally = {.size = sizeof tally};
    CHECK_INT(weft_scope_counts(&s, &tally), ==, 0);
    CHECK_INT(tally.started, ==, 10);
    CHECK_INT(tally.succeeded, ==, 10);
    CHECK_INT(tally.live + tally.failed, ==, 0);
    CHECK_INT(weft_scope_close(&s), ==, 0);
    return arg;
}

IN_A_SCOPE_FIBER(the_first_failure_cancels_the_other_children_and_wait_returns_it)
{
    int ended = 0;
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    for (int i = 0; i < 5; i++)
        CHECK_INT(weft_scope_go(&s, waits_and_counts, &ended), ==, 0);
    CHECK_INT(weft_scope_go(&s, returns, AS_ARG(-EIO)), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, -EIO);
    CHECK_INT(seen(&ended), ==, 5);
    CHECK_INT(weft_scope_close(&s), ==, -EIO);
    CHECK(!weft_cancelled());
    return arg;
}

static int fails_when_told(void *arg)
{
    weft_event_wait(arg, WEFT_FOREVER);
    return -ENOLINK;
}

IN_A_SCOPE_FIBER(a_failure_cancels_the_waits_of_the_body_until_the_close)
{
    weft_event now = {0};
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, fails_when_told, &now), ==, 0);
    weft_event_set(&now);
    CHECK_INT(weft_sleep(LONG), ==, -ECANCELED);
    CHECK_INT(kind_now(), ==, WEFT_CAUSE_FAILURE);
    weft_cause why = {.size = sizeof why};
    CHECK_INT(weft_cancel_cause(&why), ==, 0);
    CHECK_INT(why.code, ==, -ENOLINK);
    CHECK_INT(why.fiber, !=, 0);
    CHECK_INT(weft_sleep(WEFT_MS), ==, -ECANCELED); /* it stays */
    CHECK_INT(weft_scope_go(&s, returns, NULL), ==, -ECANCELED);
    CHECK_INT(weft_scope_close(&s), ==, -ENOLINK);
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
    CHECK_INT(kind_now(), ==, 0);
    return arg;
}

static int notes_its_cause(void *arg)
{
    int rc = weft_sleep_until(WEFT_FOREVER);
    put(arg, kind_now());
    return rc;
}

IN_A_SCOPE_FIBER(close_cancels_and_joins_the_children_that_are_left)
{
    int kind = 0;
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, notes_its_cause, &kind), ==, 0);
    CHECK_INT(weft_scope_close(&s), ==, 0);
    CHECK_INT(seen(&kind), ==, WEFT_CAUSE_ENOUGH);
    return arg;
}

IN_A_SCOPE_FIBER(a_deadline_cancels_the_children_and_the_body_and_is_etimedout_at_the_boundary)
{
    int kind = 0;
    weft_scope s;
    weft_time deadline = weft_in(20 * WEFT_MS);
    CHECK_INT(weft_scope_open(&s, &(weft_scope_opts){.deadline = deadline}), ==, 0);
    CHECK_INT(weft_scope_go(&s, notes_its_cause, &kind), ==, 0);
    CHECK_INT(weft_sleep(LONG), ==, -ECANCELED);
    CHECK_INT(weft_now().ns, >=, deadline.ns);
    CHECK_INT(kind_now(), ==, WEFT_CAUSE_DEADLINE);
    CHECK_INT(weft_scope_wait(&s), ==, -ETIMEDOUT);
    CHECK_INT(weft_scope_close(&s), ==, -ETIMEDOUT);
    CHECK_INT(seen(&kind), ==, WEFT_CAUSE_DEADLINE);
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
    return arg;
}

IN_A_SCOPE_FIBER(a_scope_whose_deadline_has_passed_is_cancelled_from_its_start)
{
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, &(weft_scope_opts){.deadline = {1}}), ==, 0);
    CHECK_INT(weft_scope_go(&s, returns, NULL), ==, -ECANCELED);
    CHECK_INT(weft_scope_wait(&s), ==, -ETIMEDOUT);
    CHECK_INT(weft_scope_close(&s), ==, -ETIMEDOUT);
    CHECK(!weft_cancelled());
    return arg;
}

IN_A_SCOPE_FIBER(a_deadline_that_is_not_reached_leaves_no_timer)
{
    weft_sched_figures had = {.size = sizeof had}, has = {.size = sizeof has};
    CHECK_INT(weft_sched_stats(weft_sched_current(), &had), ==, 0);
    for (int i = 0; i < 3; i++) {
        weft_scope s;
        CHECK_INT(weft_scope_open(&s, &(weft_scope_opts){.deadline = weft_in(LONG)}), ==, 0);
        CHECK_INT(weft_scope_go(&s, returns, NULL), ==, 0);
        CHECK_INT(weft_scope_wait(&s), ==, 0);
        CHECK_INT(weft_scope_close(&s), ==, 0);
    }
    CHECK_INT(weft_sched_stats(weft_sched_current(), &has), ==, 0);
    CHECK_INT(has.timers, ==, had.timers);
    return arg;
}

/* Opens a scope of its own, with a child that waits. */
static int has_a_child(void *arg)
{
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, waits_and_counts, arg), ==, 0);
    int rc = weft_scope_wait(&s);
    CHECK_INT(rc, ==, -ECANCELED);
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    CHECK_INT(kind_now(), ==, WEFT_CAUSE_DEADLINE);
    return rc;
}

IN_A_SCOPE_FIBER(a_deadline_holds_for_everything_below)
{
    int ended = 0;
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, &(weft_scope_opts){.deadline = weft_in(20 * WEFT_MS)}), ==, 0);
    for (int i = 0; i < 3; i++)
        CHECK_INT(weft_scope_go(&s, has_a_child, &ended), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, -ETIMEDOUT);
    CHECK_INT(seen(&ended), ==, 3);
    CHECK_INT(weft_scope_close(&s), ==, -ETIMEDOUT);
    return arg;
}

/* Has a child, and waits for nothing that a cancel could end. */
static int has_a_child_and_computes(void *arg)
{
    int *ended_ones = arg;
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, waits_and_counts, ended_ones), ==, 0);
    more(&ended_ones[1]);
    AWAIT(seen(ended_ones) == 1);
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    return 0;
}

IN_A_SCOPE_FIBER(a_cancel_reaches_the_children_of_a_fiber_that_does_not_wait)
{
    int ended_ones[2] = {0};
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, has_a_child_and_computes, ended_ones), ==, 0);
    AWAIT(seen(&ended_ones[1]) == 1);
    CHECK_INT(weft_scope_cancel(&s, 0, NULL), ==, 0);
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    CHECK_INT(seen(ended_ones), ==, 1);
    return arg;
}

enum { DEPTH = 1000 };

/* Each opens a scope with one child, down to the last one, which waits. */
static int digs(void *arg)
{
    int *left = arg; /* levels, then those that have ended */
    if (__atomic_sub_fetch(&left[0], 1, __ATOMIC_ACQ_REL) <= 0)
        return waits_and_counts(&left[1]);
    WEFT_SCOPE (s, NULL) {
        CHECK_INT(weft_scope_go(&s, digs, left), ==, 0);
        CHECK_INT(weft_scope_wait(&s), ==, -ECANCELED);
    }
    more(&left[1]);
    return -ECANCELED;
}

IN_A_SCOPE_FIBER(a_cancel_walks_down_a_deep_tree)
{
    int left[2] = {DEPTH, 0};
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, digs, left), ==, 0);
    AWAIT(seen(&left[0]) <= 0);
    CHECK_INT(weft_scope_cancel(&s, 0, NULL), ==, 0);
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    CHECK_INT(seen(&left[1]), ==, DEPTH);
    return arg;
}

IN_A_SCOPE_FIBER(only_the_scope_that_was_cancelled_absorbs_its_cancel)
{
    weft_scope outer, inner;
    CHECK_INT(weft_scope_open(&outer, NULL), ==, 0);
    CHECK_INT(weft_scope_open(&inner, NULL), ==, 0);
    CHECK_INT(weft_scope_cancel(&inner, 0, NULL), ==, 0);
    CHECK_INT(weft_sleep(WEFT_MS), ==, -ECANCELED);
    CHECK_INT(weft_scope_close(&inner), ==, -ECANCELED);
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
    CHECK_INT(weft_scope_open(&inner, NULL), ==, 0);
    CHECK_INT(weft_scope_cancel(&outer, -EIO, "by the test"), ==, 0);
    CHECK_INT(weft_scope_close(&inner), ==, -ECANCELED);
    CHECK_INT(weft_sleep(WEFT_MS), ==, -ECANCELED);
    weft_cause why = {.size = sizeof why};
    CHECK_INT(weft_cancel_cause(&why), ==, 0);
    CHECK_INT(why.code, ==, -EIO);
    CHECK_STR(why.text, "by the test");
    CHECK_INT(why.fiber, ==, weft_fiber_id(weft_fiber_current()));
    CHECK_INT(weft_scope_close(&outer), ==, -ECANCELED);
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
    return arg;
}

IN_A_SCOPE_FIBER(if_both_are_cancelled_the_outer_cancel_wins)
{
    weft_scope outer, inner;
    CHECK_INT(weft_scope_open(&outer, NULL), ==, 0);
    CHECK_INT(weft_scope_open(&inner, &(weft_scope_opts){.deadline = {1}}), ==, 0);
    CHECK_INT(weft_scope_wait(&inner), ==, -ETIMEDOUT);
    CHECK_INT(weft_scope_cancel(&outer, 0, NULL), ==, 0);
    CHECK_INT(weft_scope_wait(&inner), ==, -ECANCELED);
    CHECK_INT(weft_scope_close(&inner), ==, -ECANCELED);
    CHECK_INT(weft_scope_close(&outer), ==, -ECANCELED);
    return arg;
}

static int cancels_itself(void *arg)
{
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, waits_and_counts, arg), ==, 0);
    CHECK_INT(weft_cancel(weft_fiber_current()), ==, 0);
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    CHECK_INT(weft_sleep(WEFT_MS), ==, -ECANCELED);
    CHECK_INT(kind_now(), ==, WEFT_CAUSE_CALL);
    return -ECANCELED;
}

IN_A_SCOPE_FIBER(a_cancel_of_the_fiber_stays_after_its_scopes_are_closed)
{
    int ended = 0;
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, &(weft_scope_opts){.policy = &weft_until_all}), ==, 0);
    CHECK_INT(weft_scope_go(&s, cancels_itself, &ended), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, 0);
    CHECK_INT(seen(&ended), ==, 1);
    weft_scope_tally tally = {.size = sizeof tally};
    CHECK_INT(weft_scope_counts(&s, &tally), ==, 0);
    CHECK_INT(tally.failed + tally.succeeded, ==, 0); /* it was cancelled, and said so */
    CHECK_INT(weft_scope_close(&s), ==, 0);
    return arg;
}

static int64_t fibers_left(void)
{
    weft_sched_figures all = {.size = sizeof all};
    CHECK_INT(weft_sched_stats(weft_sched_current(), &all), ==, 0);
    return (int64_t)(all.spawned - all.ended);
}

IN_A_SCOPE_FIBER(no_child_is_left_after_the_close)
{
    int64_t had = fibers_left();
    for (int i = 0; i < 50; i++) {
        weft_scope s;
        CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
        for (int k = 0; k < 20; k++)
            CHECK_INT(weft_scope_go(&s, waits, NULL), ==, 0);
        CHECK_INT(weft_scope_close(&s), ==, 0);
        CHECK_INT(fibers_left(), ==, had);
    }
    return arg;
}

static int counts_the_peak(void *arg)
{
    int *counts = arg; /* now, most */
    int now = more(&counts[0]);
    if (now > seen(&counts[1]))
        put(&counts[1], now);
    weft_yield();
    __atomic_sub_fetch(&counts[0], 1, __ATOMIC_ACQ_REL);
    return 0;
}

IN_A_SCOPE_FIBER(at_once_limits_the_children_at_a_time)
{
    int counts[2] = {0};
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, &(weft_scope_opts){.at_once = 3}), ==, 0);
    for (int i = 0; i < 100; i++)
        CHECK_INT(weft_scope_go(&s, counts_the_peak, counts), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, 0);
    CHECK_INT(seen(&counts[1]), <=, 3);
    CHECK_INT(weft_scope_close(&s), ==, 0);
    return arg;
}

IN_A_SCOPE_FIBER(try_go_is_eagain_without_a_place)
{
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, &(weft_scope_opts){.at_once = 1}), ==, 0);
    CHECK_INT(weft_scope_try_go(&s, waits, NULL), ==, 0);
    CHECK_INT(weft_scope_try_go(&s, waits, NULL), ==, -EAGAIN);
    CHECK_INT(weft_scope_close(&s), ==, 0);
    return arg;
}

static int goes_itself(void *arg)
{
    int rc = weft_scope_go(arg, returns, NULL);
    return rc == -EDEADLK ? 0 : rc == 0 ? -EBADE : rc;
}

IN_A_SCOPE_FIBER(a_child_that_finds_no_place_gets_edeadlk)
{
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, &(weft_scope_opts){.at_once = 1}), ==, 0);
    CHECK_INT(weft_scope_go(&s, goes_itself, &s), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, 0);
    CHECK_INT(weft_scope_close(&s), ==, 0);
    return arg;
}

static int cancels_its_scope(void *arg)
{
    return weft_scope_cancel(arg, 0, NULL);
}

IN_A_SCOPE_FIBER(the_wait_for_a_place_can_be_cancelled)
{
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, &(weft_scope_opts){.at_once = 2}), ==, 0);
    CHECK_INT(weft_scope_go(&s, waits, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, cancels_its_scope, &s), ==, 0);
    int rc = 0;
    while (rc == 0)
        rc = weft_scope_go(&s, waits, NULL);
    CHECK_INT(rc, ==, -ECANCELED);
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    return arg;
}

/* A child may start children, which the close waits for too. */
static int goes_on(void *arg)
{
    int *left = ((void **)arg)[1];
    if (__atomic_sub_fetch(left, 1, __ATOMIC_ACQ_REL) <= 0)
        return 0;
    return weft_scope_go(((void **)arg)[0], goes_on, arg);
}

IN_A_SCOPE_FIBER(children_may_start_children)
{
    int left = 100;
    weft_scope s;
    void *args[2] = {&s, &left};
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, goes_on, args), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, 0);
    CHECK_INT(seen(&left), ==, 0);
    CHECK_INT(weft_scope_close(&s), ==, 0);
    return arg;
}

static void *is_a_stranger(void *arg)
{
    CHECK_INT(weft_scope_go(arg, returns, NULL), ==, -EPERM);
    CHECK_INT(weft_scope_wait(arg), ==, -EPERM);
    CHECK_INT(weft_scope_close(arg), ==, -EPERM);
    CHECK_INT(weft_scope_cancel(arg, 0, NULL), ==, 0);
    CHECK_INT(weft_scope_cancel(arg, 0, NULL), ==, 0);
    return NULL;
}

IN_A_SCOPE_FIBER(strangers_may_cancel_and_nothing_else)
{
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_shield_begin(weft_in(LONG)), ==, 0); /* the cancel is for our join too */
    ended(go(is_a_stranger, &s));
    weft_shield_end();
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, is_a_stranger, &s), ==, 0);
    CHECK_INT(pthread_join(thread, NULL), ==, 0);
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    return arg;
}

IN_A_SCOPE_FIBER(misuse_is_refused_and_changes_nothing)
{
    weft_scope s, inner;
    CHECK_INT(weft_scope_open(NULL, NULL), ==, -EINVAL);
    CHECK_INT(weft_scope_open(&s, &(weft_scope_opts){.size = 1}), ==, -EINVAL);
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_open(&s, NULL), ==, -EBUSY);
    CHECK_INT(weft_scope_open(&inner, NULL), ==, 0);
    CHECK_INT(weft_scope_close(&s), ==, -EBUSY);
    CHECK_INT(weft_scope_close(&inner), ==, 0);
    CHECK_INT(weft_scope_close(&inner), ==, -EINVAL);
    CHECK_INT(weft_scope_wait(&inner), ==, -EINVAL);
    CHECK_INT(weft_scope_cancel(&inner, 0, NULL), ==, -ESRCH);
    CHECK_INT(weft_scope_cancel(&s, 1, NULL), ==, -EINVAL);
    CHECK_INT(weft_scope_cancel(NULL, 0, NULL), ==, -EINVAL);
    CHECK_INT(weft_scope_go(&s, NULL, NULL), ==, -EINVAL);
    CHECK_INT(weft_scope_go(NULL, returns, NULL), ==, -EINVAL);
    CHECK_INT(weft_scope_wait(NULL), ==, -EINVAL);
    CHECK_INT(weft_scope_close(NULL), ==, -EINVAL);
    CHECK_INT(weft_scope_close(&s), ==, 0);
    CHECK_INT(weft_scope_free(NULL), ==, 0);
    return arg;
}

TEST(a_plain_thread_cannot_open_a_scope)
{
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, -ENXIO);
    weft_scope *made = NULL;
    CHECK_INT(weft_scope_new(&made, NULL), ==, -ENXIO);
    CHECK_PTR(made, ==, NULL);
    CHECK(!weft_stopping());
    CHECK_PTR(weft_stop_event(), ==, NULL);
}

TESTS(scope, wait_returns_0_when_all_children_have_succeeded,
      the_first_failure_cancels_the_other_children_and_wait_returns_it,
      a_failure_cancels_the_waits_of_the_body_until_the_close, close_cancels_and_joins_the_children_that_are_left,
      a_deadline_cancels_the_children_and_the_body_and_is_etimedout_at_the_boundary,
      a_scope_whose_deadline_has_passed_is_cancelled_from_its_start, a_deadline_that_is_not_reached_leaves_no_timer,
      a_deadline_holds_for_everything_below, a_cancel_walks_down_a_deep_tree,
      a_cancel_reaches_the_children_of_a_fiber_that_does_not_wait, only_the_scope_that_was_cancelled_absorbs_its_cancel,
      if_both_are_cancelled_the_outer_cancel_wins, a_cancel_of_the_fiber_stays_after_its_scopes_are_closed,
      no_child_is_left_after_the_close, at_once_limits_the_children_at_a_time, try_go_is_eagain_without_a_place,
      a_child_that_finds_no_place_gets_edeadlk, the_wait_for_a_place_can_be_cancelled, children_may_start_children,
      strangers_may_cancel_and_nothing_else, misuse_is_refused_and_changes_nothing, a_plain_thread_cannot_open_a_scope)
