/*
 * Timers with a condition: whether their owner is still there, and who destroys what it owned.
 */
#include "unit/sched/timer_ground.h"

static void destroys(void *object)
{
    more(object);
}

static weft_alive *new_alive(int *destroyed)
{
    weft_alive *a = NULL;
    CHECK_INT(weft_alive_new(&a, destroyed, destroys), ==, 0);
    return a;
}

TEST(a_timer_whose_owner_is_gone_never_runs)
{
    for (int recurring = 0; recurring < 2; recurring++) {
        struct log l = {0};
        int destroyed = 0;
        weft_timer *t = NULL;
        ground_begin();
        weft_alive *a = new_alive(&destroyed);
        CHECK_INT(weft_timer_new(&t, 10 * WEFT_MS, recurring, a, fires, &l), ==, 0);
        if (recurring)
            now_is(10);
        CHECK_INT(destroyed, ==, 0);
        weft_alive_drop(a);
        CHECK_INT(destroyed, ==, 1);
        now_is(25);
        CHECK_INT(l.times, ==, recurring);
        CHECK_INT(next_ms(t), ==, -1);
        CHECK_INT(figures(ground).timers, ==, 0);
        CHECK_INT(weft_timer_cancel(t), ==, 0);
        CHECK_INT(weft_timer_refresh(t), ==, -ESRCH);
        weft_timer_free(t);
        ground_end();
        CHECK_INT(destroyed, ==, 1);
    }
}

TEST(a_callback_under_way_keeps_the_object_and_no_other_begins)
{
    struct log l = {0}, other = {0};
    int destroyed = 0;
    weft_timer *t = NULL, *t2 = NULL, *t3 = (weft_timer *)1;
    ground_begin();
    weft_alive *a = new_alive(&destroyed);
    CHECK_INT(weft_timer_new(&t, 10 * WEFT_MS, true, a, parks_in_it, &l), ==, 0);
    CHECK_INT(weft_timer_new(&t2, 20 * WEFT_MS, true, a, fires, &other), ==, 0);
    now_is(10);
    CHECK_INT(l.times, ==, 1);
    weft_alive_drop(a);
    CHECK_INT(weft_timer_new(&t3, WEFT_MS, false, a, fires, &other), ==, -ESRCH);
    CHECK_PTR(t3, ==, (weft_timer *)1);
    now_is(30);
    CHECK_INT(destroyed, ==, 0);
    CHECK_INT(other.times, ==, 0);
    weft_unpark(l.parked);
    runs();
    CHECK_INT(destroyed, ==, 1);
    CHECK_INT(next_ms(t), ==, -1); /* and it has ended */
    now_is(100);
    CHECK_INT(l.times, ==, 1);
    weft_timer_free(t);
    weft_timer_free(t2);
    ground_end();
}

static void drops_its_owner(void *arg)
{
    struct log *l = arg;
    notes(l);
    weft_alive_drop(l->alive);
    CHECK_INT(seen(l->destroyed), ==, 0);
}

TEST(a_callback_may_drop_its_own_owner)
{
    int destroyed = 0;
    ground_begin();
    struct log l = {.alive = new_alive(&destroyed), .destroyed = &destroyed};
    CHECK_INT(weft_timer_new(NULL, 10 * WEFT_MS, true, l.alive, drops_its_owner, &l), ==, 0);
    now_is(50);
    now_is(60);
    CHECK_INT(l.times, ==, 1);
    CHECK_INT(destroyed, ==, 1);
    ground_end();
}

TEST(an_owner_may_go_without_a_destructor)
{
    weft_alive *a = NULL;
    CHECK_INT(weft_alive_new(&a, NULL, NULL), ==, 0);
    weft_alive_drop(a);
    CHECK_INT(weft_alive_new(NULL, NULL, NULL), ==, -EINVAL);
    weft_alive_drop(NULL);
}

TESTS(sched_alive, a_timer_whose_owner_is_gone_never_runs, a_callback_under_way_keeps_the_object_and_no_other_begins,
      a_callback_may_drop_its_own_owner, an_owner_may_go_without_a_destructor)
