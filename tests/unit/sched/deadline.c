/*
 * Deadlines of waits that end before them. What such a wait leaves in its worker's wheel is put right later, and nobody is
 * to see it: not the fiber's next wait, not who has its record next, not who asks for figures. On a clock of ours.
 */
#include "sched/sched.h"
#include "sched/worker.h"
#include "unit/sched/timer_ground.h"

enum { WAITS = 4 };

/* A fiber that parks again and again, each time until its next deadline: ms after the beginning, 0: for ever. */
struct waits {
    int until[WAITS];
    int rc[WAITS], at[WAITS]; /* what it got, and when */
    int ended;                /* so many waits */
    weft_fiber *fiber;
};

static weft_time at_ms(int ms)
{
    return ms == 0 ? WEFT_FOREVER : (weft_time){1000 * WEFT_SEC + ms * WEFT_MS};
}

static void *parks_until(void *arg)
{
    struct waits *w = arg;
    for (int i = 0; i < WAITS; i++) {
        w->rc[i] = weft_park(at_ms(w->until[i]));
        w->at[i] = (int)(clock_passed() / WEFT_MS);
        w->ended++;
    }
    return NULL;
}

static void begin_waits(struct waits *w)
{
    ground_begin();
    w->fiber = go_on(ground, parks_until, w);
    runs();
}

static void end_waits(struct waits *w)
{
    ended(w->fiber);
    ground_end();
}

static void unpark_at(struct waits *w, int ms)
{
    now_is(ms);
    weft_unpark(w->fiber);
    runs();
}

/* How many entries there are in the wheel. */
static size_t armed(void)
{
    return wf_wheel_count(&ground->worker[0]->wheel);
}

TEST(a_later_deadline_is_not_that_of_the_wait_before)
{
    struct waits w = {.until = {10, 30, 40, 40}};
    begin_waits(&w);
    unpark_at(&w, 5);
    CHECK_INT(w.ended, ==, 1);
    CHECK_INT(figures(ground).timers, ==, 1);
    for (int ms = 6; ms < 30; ms++)
        now_is(ms);
    clock_forward(WEFT_MS - 1);
    runs();
    CHECK_INT(w.ended, ==, 1);
    clock_forward(1);
    runs();
    CHECK_INT(w.ended, ==, 2);
    CHECK_INT(w.rc[1], ==, -ETIMEDOUT);
    CHECK_INT(w.at[1], ==, 30);
    now_is(40);
    end_waits(&w);
}

TEST(an_earlier_one_comes_first)
{
    struct waits w = {.until = {30, 10, 30, 20}};
    begin_waits(&w);
    unpark_at(&w, 5);
    now_is(9);
    CHECK_INT(w.ended, ==, 1);
    now_is(10);
    CHECK_INT(w.ended, ==, 2);
    CHECK_INT(w.at[1], ==, 10);
    unpark_at(&w, 15);
    now_is(20);
    CHECK_INT(w.ended, ==, 4);
    CHECK_INT(w.at[3], ==, 20);
    CHECK_INT(w.rc[3], ==, -ETIMEDOUT);
    end_waits(&w);
}

TEST(a_wait_without_one_has_none)
{
    struct waits w = {.until = {10, 0, 50, 0}};
    begin_waits(&w);
    CHECK_INT(figures(ground).timers, ==, 1);
    unpark_at(&w, 5);
    CHECK_INT(figures(ground).timers, ==, 0);
    for (int ms = 6; ms < 20; ms++)
        now_is(ms);
    CHECK_INT(w.ended, ==, 1);
    CHECK_INT(armed(), ==, 0); /* its time has come, and it was nobody's */
    unpark_at(&w, 20);
    CHECK_INT(w.ended, ==, 2);
    CHECK_INT(w.rc[1], ==, 0);
    CHECK_INT(figures(ground).timers, ==, 1);
    now_is(50);
    CHECK_INT(w.ended, ==, 3);
    unpark_at(&w, 60);
    end_waits(&w);
}

TEST(a_fiber_that_ends_leaves_none)
{
    struct waits w = {.until = {100, 100, 100, 100}};
    reuse_records();
    begin_waits(&w);
    for (int i = 1; i <= WAITS; i++) {
        CHECK_INT(armed(), ==, 1); /* one for all of its waits */
        unpark_at(&w, i);
    }
    CHECK_INT(armed(), ==, 0);
    CHECK_INT(ground->worker[0]->first_due, ==, INT64_MAX);
    ended(w.fiber);
    struct waits next = {.until = {0, 200, 0, 0}};
    next.fiber = go_on(ground, parks_until, &next); /* it has the record */
    now_is(150);
    CHECK_INT(next.ended, ==, 0);
    unpark_at(&next, 160);
    now_is(200);
    CHECK_INT(next.ended, ==, 2);
    CHECK_INT(next.rc[1], ==, -ETIMEDOUT);
    unpark_at(&next, 201);
    unpark_at(&next, 202);
    end_waits(&next);
}

/* ---- a fiber that may move takes its deadline with it ---- */

enum { TURNS = 100 };

static void *waits_here_and_there(void *arg)
{
    for (int i = 0; i < TURNS; i++) {
        bool first = weft_fiber_worker(weft_fiber_current()) ==
                     0; /* one leaves with a deadline, and comes back without */
        CHECK_INT(weft_park(first ? weft_in(1000 * WEFT_SEC) : WEFT_FOREVER), ==,
                  0); /* it is sent to the other worker */
        weft_time until = weft_in(50 * WEFT_US);
        CHECK_INT(weft_sleep_until(until), ==, 0);
        CHECK_INT(weft_now().ns, >=, until.ns);
        more(arg);
    }
    return NULL;
}

TEST(one_that_moves_takes_its_deadline_along)
{
    int turns = 0;
    weft_fiber *f = NULL;
    weft_sched *s = running_sched(2);
    CHECK_INT(weft_sched_go(s, &f, &(weft_attr){.flags = WEFT_MIGRATE}, waits_here_and_there, &turns), ==, 0);
    for (int i = 0; i < TURNS && !test_has_failed(); i++) {
        AWAIT(weft_sched_submit(s, f, WEFT_WORKER(i % 2)) == 0);
        AWAIT(seen(&turns) == i + 1);
    }
    ended(f);
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    for (unsigned i = 0; i < 2; i++)
        CHECK_INT(wf_wheel_count(&s->worker[i]->wheel), ==, 0);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

TESTS(sched_deadline, a_later_deadline_is_not_that_of_the_wait_before, an_earlier_one_comes_first,
      a_wait_without_one_has_none, a_fiber_that_ends_leaves_none, one_that_moves_takes_its_deadline_along)
