/*
 * Sleeping: never early, in order, beside others that never sleep; on plain threads; on the injected clock.
 */
#include <stdlib.h>

#include "unit/sched/ground.h"

static void sleep_for_all_lengths(void)
{
    static const weft_span lengths[] = {WEFT_US, 3 * WEFT_US, 10 * WEFT_US, 65 * WEFT_US, 66 * WEFT_US, 131 * WEFT_US,
                                        WEFT_MS, 4 * WEFT_MS, 5 * WEFT_MS,  17 * WEFT_MS, 50 * WEFT_MS, 1};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        int64_t begin = real_now();
        CHECK_INT(weft_sleep(lengths[i]), ==, 0);
        CHECK_INT(real_now() - begin, >=, lengths[i]);
        weft_time until = weft_in(lengths[i]);
        CHECK_INT(weft_sleep_until(until), ==, 0);
        CHECK_INT(real_now(), >=, until.ns);
    }
}

static void *sleeps_for_all_lengths(void *arg)
{
    sleep_for_all_lengths();
    return arg;
}

TEST(a_sleep_is_never_early)
{
    in_a_fiber(1, sleeps_for_all_lengths, NULL);
}

TEST(nor_is_that_of_a_plain_thread)
{
    sleep_for_all_lengths();
    weft_sched *s = new_sched(1, true);
    int64_t begin = real_now();
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0); /* outside run worker 0 is a plain thread */
    CHECK_INT(real_now() - begin, >=, WEFT_MS);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

/* Many at once, each with a time of its own. */
enum { SLEEPERS = 500 };

struct sleeper {
    weft_time until;
    int woke; /* as the nth */
    int64_t at;
};

static int woken;
static struct sleeper sleepers[SLEEPERS];

static void *sleeps_until_its_time(void *arg)
{
    struct sleeper *s = arg;
    CHECK_INT(weft_sleep_until(s->until), ==, 0);
    s->at = wf_clock_now();
    s->woke = more(&woken);
    return NULL;
}

static void *starts_sleepers(void *arg)
{
    uint64_t random = 4711;
    weft_time begin = weft_now();
    for (int i = 0; i < SLEEPERS; i++) {
        sleepers[i] = (struct sleeper){
            .until = {begin.ns + 5 * WEFT_MS + (int64_t)(test_random(&random) % 100) * WEFT_MS}};
        CHECK_INT(weft_go(sleeps_until_its_time, &sleepers[i]), ==, 0);
    }
    return arg;
}

static void check_sleepers(bool in_order)
{
    for (int i = 0; i < SLEEPERS; i++) {
        CHECK(sleepers[i].woke > 0);
        CHECK_INT(sleepers[i].at, >=, sleepers[i].until.ns);
        for (int j = 0; in_order && j < i; j++) {
            if (sleepers[i].until.ns != sleepers[j].until.ns)
                CHECK_INT(sleepers[i].until.ns < sleepers[j].until.ns, ==, sleepers[i].woke < sleepers[j].woke);
        }
    }
}

TEST(many_sleepers_wake_and_none_early)
{
    put(&woken, 0);
    in_a_fiber(1, starts_sleepers, NULL);
    check_sleepers(false);
    put(&woken, 0);
    in_a_fiber(4, starts_sleepers, NULL);
    check_sleepers(false);
}

/* The same on a clock that stands still until the test moves it: nobody wakes before, all do at once, and in order. */
TEST(on_a_clock_of_ours_they_wake_when_it_says_so_and_in_order)
{
    put(&woken, 0);
    clock_begin();
    weft_sched *s = new_sched(1, true);
    CHECK_INT(weft_sched_go(s, NULL, NULL, starts_sleepers, NULL), ==, 0);
    CHECK_INT(weft_sched_run(s, WEFT_NOW), ==, -EAGAIN);
    while (weft_sched_run(s, WEFT_NOW) == -EAGAIN) {
        int due = 0;
        for (int i = 0; i < SLEEPERS; i++)
            due += sleepers[i].until.ns != 0 && sleepers[i].until.ns <= weft_now().ns;
        CHECK_INT(seen(&woken), ==, due);
        clock_forward(7 * WEFT_MS); /* the times of several come at once */
    }
    check_sleepers(true);
    end_sched(s);
    clock_end();
}

static void *sleeps_not_at_all(void *arg)
{
    int ran = 0;
    CHECK_INT(weft_go(counts, &ran), ==, 0);
    CHECK_INT(weft_sleep(0), ==, 0); /* a yield */
    CHECK_INT(ran, ==, 1);
    CHECK_INT(weft_go(counts, &ran), ==, 0);
    CHECK_INT(weft_sleep(-WEFT_SEC), ==, 0);
    CHECK_INT(ran, ==, 2);
    CHECK_INT(weft_go(counts, &ran), ==, 0);
    CHECK_INT(weft_sleep_until((weft_time){5}), ==, 0);
    CHECK_INT(ran, ==, 3);
    CHECK_INT(weft_go(counts, &ran), ==, 0);
    CHECK_INT(weft_sleep_until(WEFT_NOW), ==, 0);
    CHECK_INT(ran, ==, 4);
    CHECK_INT(weft_sleep(INT64_MIN), ==, 0);
    return arg;
}

TEST(a_sleep_that_is_not_positive_is_a_yield)
{
    in_a_fiber(1, sleeps_not_at_all, NULL);
    CHECK_INT(weft_sleep(0), ==, 0);
    CHECK_INT(weft_sleep(-1), ==, 0);
    CHECK_INT(weft_sleep(INT64_MIN), ==, 0);
    CHECK_INT(weft_sleep_until(WEFT_NOW), ==, 0);
}

static void *sleeps_for_ever(void *arg)
{
    return ptr(arg ? weft_sleep(INT64_MAX) : weft_sleep_until(WEFT_FOREVER));
}

static void *cancels_sleepers(void *arg)
{
    for (intptr_t i = 0; i < 2; i++) {
        weft_time until = {1};
        weft_fiber *f = go(sleeps_for_ever, ptr(i));
        AWAIT(is_parked(f));
        CHECK_STR(weft_fiber_waits_for(f, &until), "sleep");
        CHECK_INT(until.ns, ==, WEFT_FOREVER.ns);
        CHECK_INT(weft_cancel(f), ==, 0);
        CHECK_INT((intptr_t)ended(f), ==, -ECANCELED);
    }
    return arg;
}

TEST(a_cancel_ends_a_sleep)
{
    in_a_fiber(1, cancels_sleepers, NULL);
    in_a_fiber(2, cancels_sleepers, NULL);
}

TEST(in_does_not_overflow)
{
    CHECK_INT(weft_in(INT64_MAX).ns, ==, INT64_MAX);
    CHECK_INT(weft_in(INT64_MIN).ns, !=, WEFT_NOW.ns);
    CHECK_INT(weft_in(INT64_MIN).ns, <, weft_now().ns);
    CHECK_INT(weft_in(0).ns, <=, weft_now().ns);
    clock_begin();
    CHECK_INT(weft_in(5).ns, ==, weft_now().ns + 5);
    CHECK_INT(weft_in(-5).ns, ==, weft_now().ns - 5);
    clock_end();
}

/* Those that never wait must not keep the clock from being looked at. */
struct crowd {
    int over, slept;
};

static void *only_yields(void *arg)
{
    struct crowd *c = arg;
    while (!seen(&c->over))
        weft_yield();
    return NULL;
}

static void *sleeps_beside_them(void *arg)
{
    struct crowd *c = arg;
    for (int i = 0; i < 20; i++) {
        CHECK_INT(weft_sleep(100 * WEFT_US), ==, 0);
        more(&c->slept);
    }
    put(&c->over, 1);
    return NULL;
}

static void sleep_in_a_crowd(unsigned workers, int yielders, int dispatch)
{
    struct crowd c = {0};
    weft_sched *s;
    REQUIRE(weft_sched_new(&s, &(weft_sched_opts){.threads = workers, .dispatch = dispatch}) == 0);
    CHECK_INT(weft_sched_start(s), ==, 0);
    for (int i = 0; i < yielders; i++)
        CHECK_INT(weft_sched_go(s, NULL, NULL, only_yields, &c), ==, 0);
    CHECK_INT(weft_sched_go(s, NULL, NULL, sleeps_beside_them, &c), ==, 0);
    AWAIT(seen(&c.slept) == 20);
    put(&c.over, 1);
    end_sched(s);
}

TEST(sleepers_wake_beside_fibers_that_only_yield)
{
    for (int yielders = 1; yielders <= 70 && !test_has_failed(); yielders += 23) {
        sleep_in_a_crowd(1, yielders, WEFT_QUEUE);
        sleep_in_a_crowd(1, yielders, WEFT_DIRECT);
        sleep_in_a_crowd(2, yielders, WEFT_QUEUE);
    }
    sleep_in_a_crowd(1, 2, WEFT_QUEUE);
}

/* A thousand that are ready take 20 us each, and count. */
static void *takes_20_us(void *arg)
{
    struct crowd *c = arg;
    for (int64_t begun = real_now(); real_now() - begun < 20000;)
        ;
    more(&c->over);
    return NULL;
}

static void *sleeps_1_ms(void *arg)
{
    struct crowd *c = arg;
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
    put(&c->slept, seen(&c->over));
    return NULL;
}

static void *sleeps_before_a_crowd(void *arg)
{
    struct crowd c = {0};
    weft_fiber *sleeper = go(sleeps_1_ms, &c);
    for (int i = 0; i < 1000; i++)
        CHECK_INT(weft_go(takes_20_us, &c), ==, 0);
    ended(sleeper);
    CHECK_INT(c.slept, <, 500);
    while (seen(&c.over) < 1000)
        weft_yield();
    return arg;
}

TEST(a_sleeper_is_not_held_up_by_a_crowd)
{
    in_a_fiber(1, sleeps_before_a_crowd, NULL);
}

/* Those whose time has come again and again leave every other turn to the rest. */
static void *sleeps_all_the_time(void *arg)
{
    struct crowd *c = arg;
    while (!seen(&c->over)) {
        weft_sleep(1);
        for (int64_t begun = real_now(); real_now() - begun < 2000;)
            ;
    }
    return NULL;
}

static void *yields_beside_sleepers(void *arg)
{
    struct crowd c = {0};
    weft_fiber *f[200];
    for (int i = 0; i < 200; i++)
        f[i] = go(i < 100 ? sleeps_all_the_time : only_yields, &c);
    for (int i = 0; i < 100; i++)
        weft_yield();
    put(&c.over, 1);
    for (int i = 0; i < 200; i++)
        ended(f[i]);
    return arg;
}

TEST(sleepers_hold_up_nobody)
{
    in_a_fiber(1, yields_beside_sleepers, NULL);
}

TEST(a_run_ends_at_its_deadline_beside_fibers_that_only_yield)
{
    for (int yielders = 1; yielders <= 3; yielders++) {
        struct crowd c = {0};
        weft_sched *s = new_sched(1, true);
        for (int i = 0; i < yielders; i++)
            CHECK_INT(weft_sched_go(s, NULL, NULL, only_yields, &c), ==, 0);
        weft_time until = weft_in(2 * WEFT_MS);
        CHECK_INT(weft_sched_run(s, until), ==, -ETIMEDOUT);
        CHECK_INT(weft_now().ns, >=, until.ns);
        put(&c.over, 1);
        end_sched(s);
    }
}

TESTS(sched_sleep, a_sleep_is_never_early, nor_is_that_of_a_plain_thread, many_sleepers_wake_and_none_early,
      on_a_clock_of_ours_they_wake_when_it_says_so_and_in_order, a_sleep_that_is_not_positive_is_a_yield,
      a_cancel_ends_a_sleep, in_does_not_overflow, sleepers_wake_beside_fibers_that_only_yield,
      a_sleeper_is_not_held_up_by_a_crowd, sleepers_hold_up_nobody,
      a_run_ends_at_its_deadline_beside_fibers_that_only_yield)
