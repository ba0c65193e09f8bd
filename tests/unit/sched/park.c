/*
 * Parking: the token, deadlines, who may unpark, and many of both between workers.
 */
#include "unit/sched/ground.h"

TEST(park_outside_a_fiber_is_enxio)
{
    CHECK_INT(weft_park(WEFT_FOREVER), ==, -ENXIO);
    CHECK_INT(weft_park(WEFT_NOW), ==, -ENXIO);
    weft_unpark(NULL);
    weft_sched *s = new_sched(1, true);
    CHECK_INT(weft_park(WEFT_FOREVER), ==, -ENXIO);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

static void *has_one_token_at_most(void *arg)
{
    weft_fiber *me = weft_fiber_current();
    CHECK_INT(weft_park(WEFT_NOW), ==, -EAGAIN);
    weft_unpark(me);
    CHECK_INT(weft_park(WEFT_FOREVER), ==, 0); /* at once */
    CHECK_INT(weft_park(WEFT_NOW), ==, -EAGAIN);
    weft_unpark(me);
    weft_unpark(me);
    CHECK_INT(weft_park(WEFT_NOW), ==, 0);
    CHECK_INT(weft_park(WEFT_NOW), ==, -EAGAIN);
    weft_unpark(me);
    CHECK_INT(weft_park((weft_time){1}), ==, 0); /* what is there is had whatever the deadline */
    weft_unpark(me);
    weft_yield(); /* nothing else uses it up */
    CHECK_INT(weft_sleep(WEFT_US), ==, 0);
    CHECK_PTR(ended(go(returns_at_once, me)), ==, me);
    CHECK_INT(weft_park(WEFT_NOW), ==, 0);
    CHECK_INT(weft_park((weft_time){1}), ==, -ETIMEDOUT);
    return arg;
}

TEST(an_unpark_leaves_one_token_at_most)
{
    in_a_fiber(1, has_one_token_at_most, NULL);
    in_a_fiber(2, has_one_token_at_most, NULL);
}

static void *unparks_before_it_begins(void *arg)
{
    weft_fiber *f = go(parks, NULL);
    weft_unpark(f);
    CHECK_PTR(ended(f), ==, NULL);
    CHECK_INT(weft_fiber_new(&f, NULL, parks, NULL), ==, 0);
    weft_unpark(f);
    CHECK_INT(weft_sched_submit(weft_sched_current(), f, 0), ==, 0);
    CHECK_PTR(ended(f), ==, NULL);
    f = go(returns_at_once, NULL);
    AWAIT(weft_fiber_state(f) == WEFT_FIBER_DONE);
    weft_unpark(f); /* left alone */
    reuse_records();
    ended(f);
    f = go(parks, NULL); /* and whoever has its record next has no token of it */
    AWAIT(is_parked(f));
    weft_unpark(f);
    ended(f);
    return arg;
}

TEST(an_unpark_may_come_before_the_first_run)
{
    in_a_fiber(1, unparks_before_it_begins, NULL);
}

static void *parks_with_deadlines(void *arg)
{
    for (weft_span d = WEFT_US; d < 20 * WEFT_MS; d *= 10) {
        weft_time until = weft_in(d);
        CHECK_INT(weft_park(until), ==, -ETIMEDOUT);
        CHECK_INT(weft_now().ns, >=, until.ns);
    }
    CHECK_INT(weft_park(weft_in(-WEFT_SEC)), ==, -ETIMEDOUT);
    CHECK_INT(weft_park((weft_time){0}), ==, -ETIMEDOUT);
    CHECK_INT(weft_park((weft_time){-1}), ==, -ETIMEDOUT);
    return arg;
}

TEST(a_park_with_a_deadline_is_never_early)
{
    in_a_fiber(1, parks_with_deadlines, NULL);
    in_a_fiber(2, parks_with_deadlines, NULL);
}

/* A token that comes after the deadline is for the next park. */
static void *parks_until_then(void *arg)
{
    weft_time until = *(weft_time *)arg;
    CHECK_INT(weft_park(until), ==, -ETIMEDOUT);
    CHECK_INT(weft_park(WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_park(WEFT_NOW), ==, -EAGAIN);
    return NULL;
}

static void *unparks_late(void *arg)
{
    weft_time until = weft_in(WEFT_MS);
    weft_fiber *f = go(parks_until_then, &until);
    CHECK_INT(weft_sleep_until((weft_time){until.ns + WEFT_MS}), ==, 0);
    AWAIT(weft_fiber_waits_for(f, NULL)[0] != '\0');
    weft_time now_until;
    AWAIT(weft_fiber_waits_for(f, &now_until)[0] != '\0' && now_until.ns == INT64_MAX);
    weft_unpark(f);
    ended(f);
    return arg;
}

TEST(a_token_that_comes_late_is_for_the_next_park)
{
    in_a_fiber(1, unparks_late, NULL);
    in_a_fiber(2, unparks_late, NULL);
}

/* On one worker its token comes while it is ready, and not running. */
static void *waits_elsewhere(void *arg)
{
    (void)arg;
    CHECK_INT(weft_sleep(2 * WEFT_MS), ==, 0); /* an unpark does not end it */
    CHECK_INT(weft_park(WEFT_NOW), ==, 0);
    return NULL;
}

static void *unparks_one_that_sleeps(void *arg)
{
    weft_time begin = weft_now();
    weft_fiber *f = go(waits_elsewhere, NULL);
    AWAIT(is_parked(f));
    weft_unpark(f);
    ended(f);
    CHECK_INT(weft_now().ns - begin.ns, >=, 2 * WEFT_MS);
    return arg;
}

TEST(an_unpark_ends_no_other_wait)
{
    in_a_fiber(1, unparks_one_that_sleeps, NULL);
}

/* Passes the ball on, a number of times. */
struct player {
    weft_fiber *fiber;
    struct player *other;
    int *left;
};

static void *plays(void *arg)
{
    struct player *p = arg;
    for (;;) {
        CHECK_INT(weft_park(WEFT_FOREVER), ==, 0);
        int left = __atomic_sub_fetch(p->left, 1, __ATOMIC_ACQ_REL);
        weft_unpark(p->other->fiber);
        if (left <= 0)
            return NULL;
    }
}

static void play(weft_sched *s, int rounds, const int workers[2])
{
    int left = rounds;
    struct player p[2] = {{.other = &p[1], .left = &left}, {.other = &p[0], .left = &left}};
    for (int i = 0; i < 2; i++)
        CHECK_INT(weft_fiber_new(&p[i].fiber, NULL, plays, &p[i]), ==, 0);
    for (int i = 0; i < 2; i++)
        CHECK_INT(weft_sched_submit(s, p[i].fiber, workers[i]), ==, 0);
    weft_unpark(p[0].fiber);
    for (int i = 0; i < 2; i++)
        ended(p[i].fiber);
    CHECK_INT(seen(&left), <=, 0);
}

TEST(a_hundred_thousand_pairs_of_park_and_unpark)
{
    weft_sched *s = running_sched(2);
    play(s, 100000, (const int[]){WEFT_WORKER(0), WEFT_WORKER(0)}); /* on one worker */
    play(s, 20000, (const int[]){WEFT_WORKER(0), WEFT_WORKER(1)});  /* between two */
    end_sched(s);
}

/* Both sides at full speed: what is lost stops it for ever. */
struct burst {
    weft_fiber *fiber;
    int rounds, done;
};

static void *takes_tokens(void *arg)
{
    struct burst *b = arg;
    for (int i = 0; i < b->rounds; i++) {
        CHECK_INT(weft_park(WEFT_FOREVER), ==, 0);
        put(&b->done, i + 1);
    }
    return NULL;
}

static void *gives_tokens(void *arg)
{
    struct burst *b = arg;
    for (int i = 0; i < b->rounds; i++) {
        weft_unpark(b->fiber);
        while (seen(&b->done) <= i) { /* one at a time: every token counts */
            if (weft_fiber_current())
                weft_yield();
        }
    }
    return NULL;
}

TEST(no_token_is_lost_between_workers)
{
    weft_sched *s = running_sched(2);
    struct burst b = {.rounds = 40000};
    CHECK_INT(weft_fiber_new(&b.fiber, NULL, takes_tokens, &b), ==, 0);
    CHECK_INT(weft_sched_submit(s, b.fiber, WEFT_WORKER(0)), ==, 0);
    weft_fiber *giver;
    CHECK_INT(weft_sched_go(s, &giver, &(weft_attr){.worker = WEFT_WORKER(1)}, gives_tokens, &b), ==, 0);
    ended(giver);
    ended(b.fiber);
    end_sched(s);
}

TEST(no_token_of_a_plain_thread_is_lost)
{
    weft_sched *s = running_sched(1);
    struct burst b = {.rounds = 20000};
    CHECK_INT(weft_fiber_new(&b.fiber, NULL, takes_tokens, &b), ==, 0);
    CHECK_INT(weft_sched_submit(s, b.fiber, 0), ==, 0);
    gives_tokens(&b);
    ended(b.fiber);
    end_sched(s);
}

/* Deadline, cancel and token at once: it goes on once, for one of the reasons. */
static void *parks_for_any_reason(void *arg)
{
    int *reasons = arg;
    for (;;) {
        int rc = weft_park(weft_in(3 * WEFT_US));
        CHECK(rc == 0 || rc == -ETIMEDOUT || rc == -ECANCELED);
        more(&reasons[rc == 0 ? 0 : rc == -ETIMEDOUT ? 1 : 2]);
        if (rc == -ECANCELED)
            return NULL;
    }
}

TEST(token_deadline_and_cancel_race)
{
    weft_sched *s = running_sched(2);
    int reasons[3] = {0};
    for (int i = 0; i < 100; i++) {
        weft_fiber *f = go_on(s, parks_for_any_reason, reasons);
        for (int j = 0; j < 50; j++) {
            weft_unpark(f);
            for (volatile int spin = 0; spin < j * 10; spin++)
                ;
        }
        CHECK_INT(weft_cancel(f), ==, 0);
        weft_unpark(f);
        ended(f);
    }
    CHECK_INT(reasons[2], ==, 100);
    end_sched(s);
}

TESTS(sched_park, park_outside_a_fiber_is_enxio, an_unpark_leaves_one_token_at_most,
      an_unpark_may_come_before_the_first_run, a_park_with_a_deadline_is_never_early,
      a_token_that_comes_late_is_for_the_next_park, an_unpark_ends_no_other_wait,
      a_hundred_thousand_pairs_of_park_and_unpark, no_token_is_lost_between_workers, no_token_of_a_plain_thread_is_lost,
      token_deadline_and_cancel_race)
