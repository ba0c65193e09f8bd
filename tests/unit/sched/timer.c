/*
 * Timers with callbacks, most of them on a clock of ours and a worker that works when the test says so: when they fire,
 * what changes that, and how they end.
 */
#include "unit/sched/timer_ground.h"

TEST(a_timer_fires_once_at_its_time_and_not_a_nanosecond_before)
{
    struct log l = {0};
    ground_begin();
    weft_timer *t = new_timer(10 * WEFT_MS, false, fires, &l);
    CHECK_INT(next_ms(t), ==, 10);
    CHECK_INT(figures(ground).timers, ==, 1);
    runs();
    clock_forward(10 * WEFT_MS - 1);
    runs();
    CHECK_INT(l.times, ==, 0);
    clock_forward(1);
    runs();
    CHECK_INT(l.times, ==, 1);
    CHECK_INT(figures(ground).timers, ==, 0);
    now_is(1000);
    CHECK_INT(l.times, ==, 1);
    CHECK_INT(next_ms(t), ==, -1);
    CHECK_INT(weft_timer_cancel(t), ==, 0);
    CHECK_INT(weft_timer_refresh(t), ==, -ESRCH);
    CHECK_INT(weft_timer_reset(t, 5, true), ==, -ESRCH);
    CHECK_INT(weft_timer_missed(t), ==, 0);
    CHECK_INT(weft_timer_free(t), ==, 0);
    ground_end();
}

TEST(of_many_each_fires_at_its_time)
{
    enum { MANY = 500 };
    static struct log l[MANY];
    ground_begin();
    memset(l, 0, sizeof l);
    for (int i = 0; i < MANY; i++)
        CHECK_INT(weft_timer_new(NULL, (i * 7 % MANY) * WEFT_MS, false, NULL, fires, &l[i]), ==, 0);
    for (int ms = 0; ms < MANY; ms++)
        now_is(ms);
    for (int i = 0; i < MANY; i++) {
        CHECK_INT(l[i].times, ==, 1);
        CHECK_INT(l[i].at[0], ==, i * 7 % MANY);
    }
    ground_end();
}

TEST(of_those_a_nanosecond_apart_each_fires_at_its_time)
{
    enum { APART = 100 };
    struct log l = {0};
    ground_begin();
    for (int i = 1; i <= APART; i++)
        CHECK_INT(weft_timer_new(NULL, 10 * WEFT_MS + i, false, NULL, fires, &l), ==, 0);
    now_is(10);
    for (int i = 0; i <= APART; i++, clock_forward(1)) {
        runs();
        CHECK_INT(l.times, ==, i);
    }
    ground_end();
}

TEST(a_timer_without_a_span_fires_at_the_next_look)
{
    struct log l = {0};
    ground_begin();
    CHECK_INT(weft_timer_new(NULL, 0, false, NULL, fires, &l), ==, 0);
    CHECK_INT(weft_timer_new(NULL, -WEFT_SEC, false, NULL, fires, &l), ==, 0);
    CHECK_INT(weft_timer_new(NULL, INT64_MIN, false, NULL, fires, &l), ==, 0);
    runs();
    CHECK_INT(l.times, ==, 3);
    ground_end();
}

static void takes_3_ms(void *arg)
{
    notes(arg);
    clock_forward(3 * WEFT_MS);
}

TEST(a_recurring_one_does_not_drift)
{
    struct log l = {0};
    ground_begin();
    weft_timer *t = new_timer(10 * WEFT_MS, true, takes_3_ms, &l);
    for (int i = 1; i <= 10; i++) {
        now_is(10 * i - 1);
        CHECK_INT(l.times, ==, i - 1);
        now_is(10 * i);
        CHECK_INT(l.times, ==, i);
        CHECK_INT(l.at[i - 1], ==, 10 * i);
        CHECK_INT(next_ms(t), ==, 10 * i + 10);
    }
    CHECK_INT(weft_timer_missed(t), ==, 0);
    CHECK_INT(weft_timer_free(t), ==, 1);
    now_is(1000);
    CHECK_INT(l.times, ==, 10);
    ground_end();
}

TEST(times_that_pass_unseen_are_counted_and_left_out)
{
    struct log l = {0};
    ground_begin();
    weft_timer *t = new_timer(10 * WEFT_MS, true, fires, &l);
    now_is(35); /* 10 fires late, 20 and 30 are past */
    CHECK_INT(l.times, ==, 1);
    CHECK_INT(weft_timer_missed(t), ==, 2);
    CHECK_INT(next_ms(t), ==, 40);
    now_is(39);
    CHECK_INT(l.times, ==, 1);
    now_is(40);
    CHECK_INT(l.times, ==, 2);
    now_is(60); /* 50 fires late, 60 is now */
    CHECK_INT(l.times, ==, 4);
    CHECK_INT(weft_timer_missed(t), ==, 2);
    now_is(10075);
    CHECK_INT(l.times, ==, 5);
    CHECK_INT(l.times + (int)weft_timer_missed(t), ==, 1007); /* as many as there were */
    weft_timer_free(t);
    ground_end();
}

TEST(it_never_overlaps_itself_and_holds_up_no_other)
{
    struct log l = {0}, other = {0};
    ground_begin();
    weft_timer *t = new_timer(10 * WEFT_MS, true, parks_in_it, &l);
    weft_timer *t2 = new_timer(10 * WEFT_MS, true, fires, &other);
    for (int i = 1; i <= 5; i++)
        now_is(10 * i);
    CHECK_INT(l.times, ==, 1);
    CHECK_INT(other.times, ==, 5);
    CHECK_INT(weft_timer_missed(t), ==, 0); /* counted when it has returned */
    clock_forward(WEFT_MS);
    weft_unpark(l.parked);
    runs();
    CHECK_INT(l.times, ==, 1);
    CHECK_INT(weft_timer_missed(t), ==, 4); /* 20 30 40 50 */
    CHECK_INT(next_ms(t), ==, 60);
    now_is(60);
    CHECK_INT(l.times, ==, 2);
    CHECK_INT(weft_timer_cancel(t), ==, 0); /* it is running */
    CHECK_INT(next_ms(t), ==, -1);
    weft_unpark(l.parked);
    now_is(100);
    CHECK_INT(l.times, ==, 2);
    CHECK_INT(weft_timer_free(t), ==, 0);
    CHECK_INT(weft_timer_free(t2), ==, 1);
    ground_end();
}

/* ---- cancel ---- */

TEST(a_cancelled_one_never_fires)
{
    struct log l = {0};
    ground_begin();
    for (int recurring = 0; recurring < 2; recurring++) {
        weft_timer *t = new_timer(10 * WEFT_MS, recurring, fires, &l);
        CHECK_INT(weft_timer_cancel(t), ==, 1);
        CHECK_INT(weft_timer_cancel(t), ==, 0);
        CHECK_INT(weft_timer_refresh(t), ==, -ESRCH);
        CHECK_INT(weft_timer_reset(t, WEFT_MS, false), ==, -ESRCH);
        CHECK_INT(figures(ground).timers, ==, 0);
        CHECK_INT(weft_timer_free(t), ==, 0);
    }
    now_is(1000);
    CHECK_INT(l.times, ==, 0);
    ground_end();
}

static void cancels_the_other(void *arg)
{
    struct log *l = arg;
    notes(l);
    l->rc = weft_timer_cancel(l->other);
}

/* Both are due, and the second has a fiber that has not begun. */
TEST(one_whose_time_has_come_can_be_cancelled_until_its_callback_begins)
{
    for (int recurring = 0; recurring < 2; recurring++) {
        struct log first = {0}, second = {0};
        ground_begin();
        weft_timer *t = new_timer(10 * WEFT_MS, false, cancels_the_other, &first);
        first.other = new_timer(10 * WEFT_MS, recurring, fires, &second);
        now_is(10);
        CHECK_INT(first.times, ==, 1);
        CHECK_INT(first.rc, ==, 1);
        now_is(100);
        CHECK_INT(second.times, ==, 0);
        CHECK_INT(figures(ground).timers, ==, 0);
        weft_timer_free(t);
        weft_timer_free(second.timer);
        ground_end();
    }
}

static void cancels_itself(void *arg)
{
    struct log *l = arg;
    notes(l);
    l->rc = weft_timer_cancel(l->timer);
    l->rc2 = weft_timer_refresh(l->timer);
}

static void frees_itself(void *arg)
{
    struct log *l = arg;
    notes(l);
    l->rc = weft_timer_free(l->timer);
}

TEST(a_callback_may_cancel_or_free_its_own_timer)
{
    for (int recurring = 0; recurring < 2; recurring++) {
        struct log l = {.rc = -1}, l2 = {.rc = -1};
        ground_begin();
        weft_timer *t = new_timer(10 * WEFT_MS, recurring, cancels_itself, &l);
        new_timer(10 * WEFT_MS, recurring, frees_itself, &l2);
        for (int ms = 10; ms < 50; ms++)
            now_is(ms);
        CHECK_INT(l.times, ==, 1);
        CHECK_INT(l.rc, ==, 0);
        CHECK_INT(l.rc2, ==, -ESRCH);
        CHECK_INT(l2.times, ==, 1);
        CHECK_INT(l2.rc, ==, 0);
        weft_timer_free(t);
        ground_end();
    }
}

TEST(next_of_nobody_is_the_earliest_of_the_scheduler)
{
    struct log l = {0};
    CHECK_INT(weft_timer_next(NULL).ns, ==, INT64_MAX);
    ground_begin();
    CHECK_INT(next_ms(NULL), ==, -1);
    weft_timer *t = new_timer(30 * WEFT_MS, false, fires, &l);
    CHECK_INT(next_ms(NULL), ==, 30);
    CHECK_INT(weft_timer_new(NULL, 20 * WEFT_MS, false, NULL, fires, &l), ==, 0);
    CHECK_INT(next_ms(NULL), ==, 20);
    now_is(20);
    CHECK_INT(next_ms(NULL), ==, 30);
    CHECK_INT(weft_timer_free(t), ==, 1);
    CHECK_INT(next_ms(NULL), ==, -1);
    ground_end();
}

TEST(what_cannot_be_is_refused)
{
    struct log l = {0};
    weft_timer *t = (weft_timer *)1;
    CHECK_INT(weft_timer_new(&t, WEFT_MS, false, NULL, fires, &l), ==, -ENXIO);
    CHECK_INT(weft_timer_new(&t, WEFT_MS, false, NULL, NULL, &l), ==, -EINVAL);
    ground_begin();
    CHECK_INT(weft_timer_new(&t, 0, true, NULL, fires, &l), ==, -EINVAL);
    CHECK_INT(weft_timer_new(&t, -1, true, NULL, fires, &l), ==, -EINVAL);
    CHECK_INT(weft_timer_new(&t, 1, true, NULL, NULL, &l), ==, -EINVAL);
    CHECK_PTR(t, ==, (weft_timer *)1);
    t = new_timer(WEFT_SEC, true, fires, &l);
    CHECK_INT(weft_timer_reset(t, 0, true), ==, -EINVAL);
    CHECK_INT(weft_timer_free(t), ==, 1);
    CHECK_INT(weft_timer_cancel(NULL), ==, -EINVAL);
    CHECK_INT(weft_timer_refresh(NULL), ==, -EINVAL);
    CHECK_INT(weft_timer_reset(NULL, 1, true), ==, -EINVAL);
    CHECK_INT(weft_timer_missed(NULL), ==, 0);
    CHECK_INT(weft_timer_free(NULL), ==, 0);
    ground_end();
}

/* ---- many at once ---- */

enum { BURST = 5000 };

static int burst_fired, burst_fibers;

static void counts_fibers(void *arg)
{
    (void)arg;
    if (more(&burst_fired) == 1)
        put(&burst_fibers, count_fibers());
}

TEST(many_that_come_due_at_once_all_fire_and_have_few_fibers)
{
    ground_begin();
    put(&burst_fired, 0);
    for (int i = 0; i < BURST; i++)
        CHECK_INT(weft_timer_new(NULL, WEFT_SEC, false, NULL, counts_fibers, NULL), ==, 0);
    CHECK_INT(figures(ground).timers, ==, BURST);
    clock_forward(WEFT_SEC);
    CHECK_INT(weft_sched_run(ground, WEFT_FOREVER), ==, 0);
    CHECK_INT(seen(&burst_fired), ==, BURST);
    CHECK_INT(seen(&burst_fibers), <, BURST / 4);
    ground_end();
}

TEST(every_policy_and_dispatch_runs_them)
{
    const weft_policy *policies[] = {&weft_fifo, &weft_priority, &weft_sjf, &weft_hrrn, &weft_rr, &weft_edf};
    clock_begin();
    for (size_t i = 0; i < 7; i++) {
        struct log l = {0};
        weft_sched_opts o = {.threads = 1, .use_caller = true};
        o.policy = policies[i % 6];
        o.dispatch = i == 6 ? WEFT_DIRECT : WEFT_QUEUE;
        CHECK_INT(weft_sched_new(&ground, &o), ==, 0);
        int64_t begin = clock_passed();
        weft_timer *t = new_timer(WEFT_MS, true, fires, &l);
        for (int n = 1; n <= 3; n++) {
            clock_forward(begin + n * WEFT_MS - clock_passed());
            runs();
            CHECK_INT(l.times, ==, n);
        }
        weft_timer_free(t);
        end_sched(ground);
    }
    clock_end();
}

TESTS(sched_timer, a_timer_fires_once_at_its_time_and_not_a_nanosecond_before, of_many_each_fires_at_its_time,
      of_those_a_nanosecond_apart_each_fires_at_its_time, a_timer_without_a_span_fires_at_the_next_look,
      a_recurring_one_does_not_drift, times_that_pass_unseen_are_counted_and_left_out,
      it_never_overlaps_itself_and_holds_up_no_other, a_cancelled_one_never_fires,
      one_whose_time_has_come_can_be_cancelled_until_its_callback_begins, a_callback_may_cancel_or_free_its_own_timer,
      next_of_nobody_is_the_earliest_of_the_scheduler, what_cannot_be_is_refused,
      many_that_come_due_at_once_all_fire_and_have_few_fibers, every_policy_and_dispatch_runs_them)
