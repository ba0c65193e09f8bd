/*
 * Timers that are given another time: refresh and reset, before they are due, when they are, and in their callbacks.
 */
#include "unit/sched/timer_ground.h"

TEST(refresh_starts_the_period_anew)
{
    for (int recurring = 0; recurring < 2; recurring++) {
        struct log l = {0};
        ground_begin();
        weft_timer *t = new_timer(10 * WEFT_MS, recurring, fires, &l);
        for (int ms = 6; ms < 60; ms += 6) {
            now_is(ms);
            CHECK_INT(weft_timer_refresh(t), ==, 0);
            CHECK_INT(next_ms(t), ==, ms + 10);
        }
        CHECK_INT(l.times, ==, 0);
        now_is(63);
        CHECK_INT(l.times, ==, 0);
        now_is(64);
        CHECK_INT(l.times, ==, 1);
        CHECK_INT(next_ms(t), ==, recurring ? 74 : -1);
        CHECK_INT(weft_timer_refresh(t), ==, recurring ? 0 : -ESRCH);
        weft_timer_free(t);
        ground_end();
    }
}

static void refreshes_the_other(void *arg)
{
    struct log *l = arg;
    notes(l);
    l->rc = weft_timer_refresh(l->other);
}

TEST(one_whose_time_has_come_can_be_refreshed_until_its_callback_begins)
{
    struct log first = {0}, second = {0};
    ground_begin();
    weft_timer *t = new_timer(10 * WEFT_MS, false, refreshes_the_other, &first);
    first.other = new_timer(10 * WEFT_MS, false, fires, &second);
    now_is(10);
    CHECK_INT(first.rc, ==, 0);
    now_is(19);
    CHECK_INT(second.times, ==, 0);
    now_is(20);
    CHECK_INT(second.times, ==, 1);
    CHECK_INT(second.at[0], ==, 20);
    weft_timer_free(t);
    weft_timer_free(second.timer);
    ground_end();
}

static void refreshes_itself_late(void *arg)
{
    struct log *l = arg;
    notes(l);
    clock_forward(4 * WEFT_MS);
    l->rc = weft_timer_refresh(l->timer);
}

TEST(a_callback_may_refresh_its_own_recurring_timer)
{
    struct log l = {0};
    ground_begin();
    weft_timer *t = new_timer(10 * WEFT_MS, true, refreshes_itself_late, &l);
    for (int ms = 1; ms < 60; ms++)
        now_is(ms);
    CHECK_INT(l.rc, ==, 0);
    CHECK_INT(l.times, ==, 4);
    for (int i = 0; i < 4; i++)
        CHECK_INT(l.at[i], ==, 10 + 14 * i); /* 4 ms later, and 10 from then */
    CHECK_INT(weft_timer_missed(t), ==, 0);
    weft_timer_free(t);
    ground_end();
}

TEST(reset_counts_from_now_or_from_the_start_of_the_period)
{
    static const struct {
        int recurring, at, period, from_now, fires_at, then;
    } cases[] = {
        {0, 4, 20, true, 24, -1},  {0, 4, 20, false, 20, -1}, {0, 4, 6, false, 6, -1},    {0, 7, 6, false, 7, -1},
        {0, 4, 0, false, 4, -1},   {0, 4, 0, true, 4, -1},    {1, 4, 20, true, 24, 44},   {1, 4, 20, false, 20, 40},
        {1, 4, 6, false, 6, 12},   {1, 7, 6, false, 7, 13},   {1, 14, 6, false, 16, 22},  {1, 14, 20, false, 30, 50},
        {1, 17, 6, false, 17, 23}, {1, 14, 3, true, 17, 20},  {1, 14, 30, false, 40, 70}, {1, 9, 9, false, 9, 18},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct log l = {0};
        ground_begin();
        weft_timer *t = new_timer(10 * WEFT_MS, cases[i].recurring, fires, &l);
        for (int ms = 1; ms <= cases[i].at; ms++)
            now_is(ms);
        int before = l.times;
        CHECK_INT(weft_timer_reset(t, cases[i].period * WEFT_MS, cases[i].from_now), ==, 0);
        CHECK_INT(next_ms(t), ==, cases[i].fires_at);
        for (int ms = cases[i].at; ms <= cases[i].fires_at; ms++) {
            CHECK_INT(l.times, ==, before);
            now_is(ms);
        }
        CHECK_INT(l.times, ==, before + 1);
        CHECK_INT(next_ms(t), ==, cases[i].then);
        CHECK_INT(weft_timer_missed(t), ==, 0);
        weft_timer_free(t);
        ground_end();
    }
}

static void resets_itself_to_what_is_past(void *arg)
{
    struct log *l = arg;
    notes(l);
    if (l->times > 1)
        return;
    clock_forward(5 * WEFT_MS);
    l->rc = weft_timer_reset(l->timer, 4 * WEFT_MS, false);
    clock_forward(WEFT_MS);
}

TEST(a_callback_that_resets_its_timer_to_what_is_past_is_called_again_at_once)
{
    struct log l = {0};
    ground_begin();
    weft_timer *t = new_timer(10 * WEFT_MS, true, resets_itself_to_what_is_past, &l);
    now_is(10);
    CHECK_INT(l.rc, ==, 0);
    CHECK_INT(l.times, ==, 2);
    CHECK_INT(l.at[1], ==, 16);
    CHECK_INT(next_ms(t), ==, 20);
    CHECK_INT(weft_timer_missed(t), ==, 0);
    weft_timer_free(t);
    ground_end();
}

TESTS(sched_timer_reset, refresh_starts_the_period_anew,
      one_whose_time_has_come_can_be_refreshed_until_its_callback_begins,
      a_callback_may_refresh_its_own_recurring_timer, reset_counts_from_now_or_from_the_start_of_the_period,
      a_callback_that_resets_its_timer_to_what_is_past_is_called_again_at_once)
