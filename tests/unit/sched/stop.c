/*
 * Stopping: every fiber ends first; what holds it up is told after a second, and cancelled at the deadline.
 */
#include <fcntl.h>
#include <stdlib.h>

#include "unit/sched/ground.h"
#include "unit/sched/heard.h"

TEST(stop_waits_for_one_that_never_yields)
{
    int over = 0;
    void *rc = ptr(1);
    weft_sched *s = running_sched(2);
    weft_fiber *f = go_on(s, spins, &over);
    pthread_t other = new_thread(stops, s);
    await_draining(s);
    CHECK_INT(weft_join(f, NULL, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    put(&over, 1);
    pthread_join(other, &rc);
    CHECK_PTR(rc, ==, NULL);
    ended(f);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

static void *sleeps_again_and_again(void *arg)
{
    for (int i = 0; i < 20; i++) {
        CHECK_INT(weft_sleep(100 * WEFT_US), ==, 0);
        more(arg);
    }
    return NULL;
}

TEST(stop_waits_for_those_that_sleep_again_and_again)
{
    int slept = 0;
    for (unsigned use_caller = 0; use_caller < 2; use_caller++) {
        weft_sched *s = new_sched(2, use_caller);
        for (int i = 0; i < 5; i++)
            CHECK_INT(weft_sched_go(s, NULL, NULL, sleeps_again_and_again, &slept), ==, 0);
        CHECK_INT(weft_sched_start(s), ==, 0);
        end_sched(s);
    }
    CHECK_INT(slept, ==, 200);
}

static void *has_children(void *arg)
{
    int *left = arg;
    weft_yield();
    for (int i = 0; i < 2 && __atomic_sub_fetch(left, 1, __ATOMIC_ACQ_REL) >= 0; i++)
        CHECK_INT(weft_go_with(NULL, &(weft_attr){.worker = i}, has_children, left), ==, 0);
    return NULL;
}

TEST(fibers_bring_more_fibers_while_it_drains)
{
    int left = 3000, over = 0;
    weft_sched *s = running_sched(3);
    CHECK_INT(weft_sched_go(s, NULL, NULL, spins, &over), ==, 0);
    pthread_t other = new_thread(stops, s);
    await_draining(s);
    put(&over, 1);
    pthread_join(other, NULL);
    CHECK_INT(weft_sched_free(s), ==, 0);

    s = new_sched(2, true);
    CHECK_INT(weft_sched_go(s, NULL, NULL, has_children, &left), ==, 0);
    end_sched(s);
    CHECK_INT(seen(&left), <, 0);
    CHECK_INT(count_fibers(), ==, 0);
}

/* A thread that moves the injected clock until it is told to end. */
struct ticker {
    pthread_t thread;
    int over;
};

static void *ticks(void *arg)
{
    struct ticker *t = arg;
    while (!seen(&t->over)) {
        clock_forward(20 * WEFT_MS);
        breathe();
    }
    return NULL;
}

static void ticker_start(struct ticker *t)
{
    clock_begin();
    t->over = 0;
    t->thread = new_thread(ticks, t);
}

static void ticker_end(struct ticker *t)
{
    put(&t->over, 1);
    pthread_join(t->thread, NULL);
    clock_end();
}

static void *unparks_after_5_s(void *f)
{
    AWAIT(clock_passed() >= 5 * WEFT_SEC);
    weft_unpark(f);
    return NULL;
}

TEST(after_a_second_it_says_once_who_is_parked_and_where_it_comes_from)
{
    struct ticker t;
    struct heard h;
    weft_fiber *f, *second;
    char line[300];
    ticker_start(&t);
    weft_sched *s = NULL;
    CHECK_INT(weft_sched_new(&s, &(weft_sched_opts){.threads = 1, .use_caller = true, .name = "loom"}), ==, 0);
    CHECK_INT(weft_sched_go(s, &f, &(weft_attr){.name = "forgotten"}, parks, NULL), ==, 0);
    snprintf(line, sizeof line, "spawned at %s:%d\n", __FILE__, __LINE__ - 1);
    CHECK_INT(weft_sched_go(s, &second, &(weft_attr){.name = "joins it"}, (weft_fn *)ended, f), ==, 0);
    pthread_t other = new_thread(unparks_after_5_s, f);
    hear(&h);
    int rc = weft_sched_stop(s, WEFT_FOREVER);
    heard(&h);
    ticker_end(&t);
    pthread_join(other, NULL);
    CHECK_INT(rc, ==, 0);
    CHECK_INT(how_often(h.text, "weft_sched_stop of \"loom\" waits for fibers that nothing in it can wake"), ==, 1);
    CHECK_INT(how_often(h.text, "\"forgotten\" parked, waits for unpark"), ==, 1);
    CHECK_INT(how_often(h.text, "\"joins it\" parked, waits for join"), ==, 1);
    CHECK_INT(how_often(h.text, line), ==, 1);
    if (test_has_failed())
        fputs(h.text, stderr);
    ended(second);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

static void *sleeps_4_s_and_unparks(void *f)
{
    CHECK_INT(weft_sleep(4 * WEFT_SEC), ==, 0);
    weft_unpark(f);
    return NULL;
}

TEST(nothing_is_said_while_a_sleeper_may_still_wake_them)
{
    struct ticker t;
    struct heard h;
    ticker_start(&t);
    weft_sched *s = new_sched(1, true);
    weft_fiber *f = go_on(s, parks, NULL);
    CHECK_INT(weft_sched_go(s, NULL, NULL, sleeps_4_s_and_unparks, f), ==, 0);
    hear(&h);
    int rc = weft_sched_stop(s, WEFT_FOREVER);
    heard(&h);
    CHECK_INT(clock_passed(), >=, 4 * WEFT_SEC);
    ticker_end(&t);
    CHECK_INT(rc, ==, 0);
    CHECK_STR(h.text, "");
    ended(f);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

static void *says_that_it_was_cancelled(void *arg)
{
    CHECK_INT(weft_park(WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_sleep(WEFT_SEC), ==, -ECANCELED);
    more(arg);
    return NULL;
}

static void *brings_more_when_cancelled(void *arg)
{
    CHECK_INT(weft_sleep(100 * WEFT_SEC), ==, -ECANCELED);
    for (int i = 0; i < 3; i++)
        CHECK_INT(weft_go_with(NULL, &(weft_attr){.worker = i}, says_that_it_was_cancelled, arg), ==, 0);
    return NULL;
}

TEST(at_the_deadline_it_cancels_what_is_left)
{
    for (unsigned use_caller = 0; use_caller < 2; use_caller++) {
        int cancelled = 0;
        weft_sched *s = new_sched(2, use_caller);
        for (int i = 0; i < 9; i++)
            CHECK_INT(weft_sched_go(s, NULL, &(weft_attr){.worker = i % 3}, says_that_it_was_cancelled, &cancelled), ==,
                      0);
        CHECK_INT(weft_sched_go(s, NULL, NULL, brings_more_when_cancelled, &cancelled), ==, 0);
        weft_time until = weft_in(3 * WEFT_MS);
        CHECK_INT(weft_sched_stop(s, until), ==, 0);
        CHECK_INT(weft_now().ns, >=, until.ns);
        CHECK_INT(seen(&cancelled), ==, 12);
        CHECK_INT(weft_sched_free(s), ==, 0);
    }
}

static void *moves_until_cancelled(void *arg)
{
    while (!weft_cancelled())
        weft_yield();
    more(arg);
    return NULL;
}

TEST(it_cancels_those_that_move_too)
{
    int cancelled = 0;
    weft_sched *s = running_sched(4);
    for (int i = 0; i < 20; i++)
        CHECK_INT(weft_sched_go(s, NULL, &(weft_attr){.flags = WEFT_MIGRATE}, moves_until_cancelled, &cancelled), ==,
                  0);
    CHECK_INT(weft_sched_stop(s, weft_in(WEFT_MS)), ==, 0);
    CHECK_INT(seen(&cancelled), ==, 20);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

static void *ignores_cancellation(void *arg)
{
    while (!seen(arg))
        weft_yield();
    CHECK(weft_cancelled());
    return NULL;
}

TEST(one_that_ignores_it_is_etimedout_and_may_be_stopped_again)
{
    struct ticker t;
    int over = 0;
    ticker_start(&t);
    weft_sched *s = new_sched(1, true);
    CHECK_INT(weft_sched_go(s, NULL, NULL, ignores_cancellation, &over), ==, 0);
    weft_time until = weft_in(100 * WEFT_MS);
    CHECK_INT(weft_sched_stop(s, until), ==, -ETIMEDOUT);
    CHECK_INT(weft_now().ns, >=, until.ns + WEFT_SEC);
    CHECK_INT(weft_sched_go(s, NULL, NULL, returns_at_once, NULL), ==, -ESHUTDOWN);
    CHECK_INT(weft_sched_start(s), ==, -EALREADY);
    CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, -ESHUTDOWN);
    CHECK_INT(weft_sched_free(s), ==, -EBUSY);
    CHECK_INT(weft_sched_stop(s, weft_in(100 * WEFT_MS)), ==, -ETIMEDOUT);
    put(&over, 1);
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_sched_free(s), ==, 0);
    ticker_end(&t);
}

TEST(so_it_is_with_workers_of_its_own)
{
    int over = 0;
    weft_sched *s = running_sched(2);
    CHECK_INT(weft_sched_go(s, NULL, NULL, spins, &over), ==, 0);
    int64_t begin = real_now();
    CHECK_INT(weft_sched_stop(s, WEFT_NOW), ==, -ETIMEDOUT);
    CHECK_INT(real_now() - begin, >=, WEFT_SEC);
    put(&over, 1);
    CHECK_INT(weft_sched_stop(s, WEFT_NOW), ==, 0);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

/* By a fiber of another scheduler, whose worker is needed meanwhile. */
struct neighbour {
    weft_sched *other;
    weft_fiber *parked;
};

static void *unparks_later(void *arg)
{
    struct neighbour *n = arg;
    weft_yield();
    CHECK_INT(weft_sched_go(n->other, NULL, NULL, returns_at_once, NULL), ==, -ESHUTDOWN);
    weft_unpark(n->parked);
    return NULL;
}

static void *stops_another(void *arg)
{
    struct neighbour *n = arg;
    n->parked = go_on(n->other, parks, NULL);
    AWAIT(is_parked(n->parked));
    weft_fiber *helper = go(unparks_later, n);
    CHECK_INT(weft_sched_stop(n->other, WEFT_FOREVER), ==, 0);
    ended(helper);
    ended(n->parked);
    CHECK_INT(weft_sched_free(n->other), ==, 0);
    return NULL;
}

TEST(a_fiber_that_stops_another_scheduler_does_not_hold_up_its_worker)
{
    struct neighbour n = {.other = running_sched(1)};
    in_a_fiber(1, stops_another, &n);
}

static void *stops_and_is_cancelled(void *arg)
{
    struct neighbour *n = arg;
    return ptr(weft_sched_stop(n->other, WEFT_FOREVER));
}

TEST(a_fiber_that_is_cancelled_gives_up_stopping)
{
    struct neighbour n = {.other = running_sched(1)};
    weft_sched *s = running_sched(1);
    n.parked = go_on(n.other, parks, NULL);
    AWAIT(is_parked(n.parked));
    weft_fiber *f = go_on(s, stops_and_is_cancelled, &n);
    await_draining(n.other);
    CHECK_INT(weft_cancel(f), ==, 0);
    CHECK_INT((intptr_t)ended(f), ==, -ECANCELED);
    CHECK(is_parked(n.parked)); /* which is not cancelled for that */
    weft_unpark(n.parked);
    ended(n.parked);
    end_sched(n.other);
    end_sched(s);
}

TESTS(sched_stop, stop_waits_for_one_that_never_yields, stop_waits_for_those_that_sleep_again_and_again,
      fibers_bring_more_fibers_while_it_drains, after_a_second_it_says_once_who_is_parked_and_where_it_comes_from,
      nothing_is_said_while_a_sleeper_may_still_wake_them, at_the_deadline_it_cancels_what_is_left,
      it_cancels_those_that_move_too, one_that_ignores_it_is_etimedout_and_may_be_stopped_again,
      so_it_is_with_workers_of_its_own, a_fiber_that_stops_another_scheduler_does_not_hold_up_its_worker,
      a_fiber_that_is_cancelled_gives_up_stopping)
