/*
 * The policies of scopes, the list of failures, and stopping in two steps.
 */
#include "unit/task/ground.h"

IN_A_SCOPE_FIBER(until_success_returns_0_at_the_first_success_and_cancels_the_rest)
{
    int ended = 0;
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, &(weft_scope_opts){.policy = &weft_until_success}), ==, 0);
    CHECK_INT(weft_scope_go(&s, waits_and_counts, &ended), ==, 0);
    CHECK_INT(weft_scope_go(&s, returns, AS_ARG(-EIO)), ==, 0);
    CHECK_INT(weft_scope_go(&s, returns, AS_ARG(0)), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, 0);
    CHECK_INT(seen(&ended), ==, 1);
    CHECK_INT(kind_now(), ==, WEFT_CAUSE_ENOUGH);
    CHECK_INT(weft_scope_close(&s), ==, 0);
    return arg;
}

IN_A_SCOPE_FIBER(until_success_without_a_success_returns_the_first_failure)
{
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, &(weft_scope_opts){.policy = &weft_until_success}), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, -ENOENT);
    CHECK_INT(weft_scope_go(&s, returns, AS_ARG(-EIO)), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, -EIO);
    CHECK_INT(weft_scope_go(&s, returns, AS_ARG(-EPIPE)), ==, 0);
    CHECK_INT(weft_scope_close(&s), ==, -EIO);
    return arg;
}

IN_A_SCOPE_FIBER(until_all_collects_failures_and_cancels_nothing)
{
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, &(weft_scope_opts){.policy = &weft_until_all}), ==, 0);
    for (int i = 1; i <= 100; i++)
        CHECK_INT(weft_scope_go(&s, returns, AS_ARG(i % 2 ? -EIO : 0)), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, 0);
    CHECK(!weft_cancelled());
    weft_failure list[70];
    CHECK_INT(weft_scope_failures(&s, list, 70), ==, 50);
    for (int i = 0; i < 50; i++) {
        CHECK_INT(list[i].code, ==, -EIO);
        CHECK_INT(list[i].fiber, !=, 0);
        CHECK(strstr(list[i].site, "scope_policy.c") != NULL);
    }
    for (int i = 0; i < 30; i++)
        CHECK_INT(weft_scope_go(&s, returns, AS_ARG(-EIO)), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, 0);
    CHECK_INT(weft_scope_failures(&s, list, 70), ==, 64); /* the first ones; the rest are counted */
    weft_scope_tally tally = {.size = sizeof tally};
    CHECK_INT(weft_scope_counts(&s, &tally), ==, 0);
    CHECK_INT(tally.failed, ==, 80);
    CHECK_INT(weft_scope_failures(&s, NULL, 1), ==, -EINVAL);
    CHECK_INT(weft_scope_close(&s), ==, 0);
    return arg;
}

IN_A_SCOPE_FIBER(until_all_tells_at_a_deadline_what_has_ended)
{
    weft_scope s;
    weft_scope_opts opts = {.policy = &weft_until_all, .deadline = weft_in(20 * WEFT_MS)};
    CHECK_INT(weft_scope_open(&s, &opts), ==, 0);
    CHECK_INT(weft_scope_go(&s, waits, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, returns, AS_ARG(0)), ==, 0);
    CHECK_INT(weft_scope_go(&s, returns, AS_ARG(-EIO)), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, -ETIMEDOUT);
    weft_scope_tally tally = {.size = sizeof tally};
    CHECK_INT(weft_scope_counts(&s, &tally), ==, 0);
    CHECK_INT(tally.started, ==, 3);
    CHECK_INT(tally.succeeded, ==, 1);
    CHECK_INT(tally.failed, ==, 1);
    CHECK_INT(weft_scope_close(&s), ==, -ETIMEDOUT);
    return arg;
}

/* A user's policy: so many successes. */
struct quorum {
    weft_scope_policy policy;
    size_t wanted;
};

static bool has_quorum(const weft_scope_policy *self, const weft_scope_tally *so_far)
{
    return so_far->succeeded >= ((const struct quorum *)self)->wanted;
}

static int quorum_result(const weft_scope_policy *self, const weft_scope_tally *all)
{
    return has_quorum(self, all) ? 0 : -EAGAIN;
}

IN_A_SCOPE_FIBER(a_policy_of_the_user_decides)
{
    struct quorum two = {{sizeof two.policy, "quorum", has_quorum, quorum_result}, 2};
    int ended = 0;
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, &(weft_scope_opts){.policy = &two.policy}), ==, 0);
    CHECK_INT(weft_scope_go(&s, waits_and_counts, &ended), ==, 0);
    CHECK_INT(weft_scope_go(&s, returns, AS_ARG(0)), ==, 0);
    CHECK_INT(weft_scope_go(&s, returns, AS_ARG(-EIO)), ==, 0);
    CHECK_INT(weft_scope_go(&s, returns, AS_ARG(0)), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, 0);
    CHECK_INT(seen(&ended), ==, 1);
    CHECK_INT(weft_scope_close(&s), ==, 0);
    return arg;
}

/* ---- stopping ---- */

static int works_until_it_is_to_stop(void *arg)
{
    weft_case stop = {.op = WEFT_EVENT, .event = weft_stop_event()};
    CHECK_PTR(stop.event, !=, NULL);
    more(arg);
    int rc = weft_select(&stop, 1, WEFT_FOREVER);
    CHECK_INT(rc, ==, 0);
    CHECK(weft_stopping());
    return weft_cancelled() ? -EBADE : 0;
}

static int works_below(void *arg)
{
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, works_until_it_is_to_stop, arg), ==, 0);
    int rc = weft_scope_wait(&s);
    CHECK(weft_stopping());
    CHECK_INT(weft_scope_go(&s, works_until_it_is_to_stop, arg), ==, 0); /* begins stopping */
    CHECK_INT(weft_scope_wait(&s), ==, 0);
    CHECK_INT(weft_scope_close(&s), ==, rc);
    return rc;
}

IN_A_SCOPE_FIBER(stop_tells_everything_below_and_cancels_nothing_within_the_grace)
{
    int ready = 0;
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    weft_event *mine = weft_stop_event();
    CHECK_INT(weft_scope_go(&s, works_until_it_is_to_stop, &ready), ==, 0);
    CHECK_INT(weft_scope_go(&s, works_below, &ready), ==, 0);
    AWAIT(seen(&ready) == 2);
    CHECK(!weft_stopping());
    CHECK_INT(weft_scope_stop(&s, LONG), ==, 0);
    CHECK(weft_stopping());
    CHECK(weft_event_is_set(mine));
    CHECK_INT(weft_scope_wait(&s), ==, 0);
    CHECK_INT(weft_scope_close(&s), ==, 0);
    CHECK(!weft_stopping());
    CHECK(!weft_event_is_set(mine));
    return arg;
}

IN_A_SCOPE_FIBER(stop_cancels_after_the_grace)
{
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, &(weft_scope_opts){.deadline = weft_in(LONG)}), ==, 0);
    CHECK_INT(weft_scope_go(&s, waits, NULL), ==, 0);
    int64_t began = weft_now().ns;
    CHECK_INT(weft_scope_stop(&s, 20 * WEFT_MS), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, -ECANCELED);
    CHECK_INT(weft_now().ns - began, >=, 20 * WEFT_MS);
    CHECK_INT(kind_now(), ==, WEFT_CAUSE_CALL);
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    return arg;
}

static void *stops_from_a_thread(void *arg)
{
    CHECK_INT(weft_scope_stop(arg, 10 * WEFT_MS), ==, 0);
    return NULL;
}

IN_A_SCOPE_FIBER(any_thread_may_stop_a_scope)
{
    weft_scope s;
    pthread_t thread;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, waits, NULL), ==, 0);
    CHECK_INT(pthread_create(&thread, NULL, stops_from_a_thread, &s), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, -ECANCELED);
    CHECK_INT(pthread_join(thread, NULL), ==, 0);
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    return arg;
}

IN_A_SCOPE_FIBER(stop_without_a_grace_cancels_at_once)
{
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_stop(&s, 0), ==, 0);
    CHECK_INT(weft_sleep(LONG), ==, -ECANCELED);
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    CHECK_INT(weft_scope_stop(&s, 0), ==, -ESRCH);
    CHECK_INT(weft_scope_stop(NULL, 0), ==, -EINVAL);
    return arg;
}

TESTS(scope_policy, until_success_returns_0_at_the_first_success_and_cancels_the_rest,
      until_success_without_a_success_returns_the_first_failure, until_all_collects_failures_and_cancels_nothing,
      until_all_tells_at_a_deadline_what_has_ended, a_policy_of_the_user_decides,
      stop_tells_everything_below_and_cancels_nothing_within_the_grace, stop_cancels_after_the_grace,
      any_thread_may_stop_a_scope, stop_without_a_grace_cancels_at_once)
