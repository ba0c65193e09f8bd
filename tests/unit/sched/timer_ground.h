/*
 * tests/unit/sched/timer_ground.h: what the tests of timers share: a worker that works when the test says so, on a clock of
 * ours, and callbacks that note when they were called.
 */
#ifndef TESTS_UNIT_SCHED_TIMER_GROUND_H
#define TESTS_UNIT_SCHED_TIMER_GROUND_H

#include <weft/timer.h>

#include "unit/sched/ground.h"

static weft_sched *ground;

static inline void ground_begin(void)
{
    clock_begin();
    ground = new_sched(1, true);
}

static inline void ground_end(void)
{
    end_sched(ground);
    clock_end();
}

static inline void runs(void)
{
    for (int i = 0; i < 3; i++)
        weft_sched_run(ground, WEFT_NOW);
}

/* It is so many ms after the beginning. */
static inline void now_is(int ms)
{
    if (ms * WEFT_MS > clock_passed()) /* a callback may have moved it */
        clock_forward(ms * WEFT_MS - clock_passed());
    runs();
}

/* What a callback leaves behind. */
struct log {
    int times;
    int at[40]; /* ms after the beginning */
    weft_timer *timer, *other;
    int rc, rc2;
    weft_fiber *parked;
    weft_alive *alive;
    int *destroyed;
};

static inline void notes(struct log *l)
{
    if (l->times < 40)
        l->at[l->times] = (int)(clock_passed() / WEFT_MS);
    put(&l->times, l->times + 1);
}

static inline void fires(void *arg)
{
    notes(arg);
}

static inline weft_timer *new_timer(weft_span period, bool recurring, void (*fn)(void *), struct log *l)
{
    weft_timer *t = NULL;
    CHECK_INT(weft_timer_new(&t, period, recurring, NULL, fn, l), ==, 0);
    l->timer = t;
    return t;
}

static inline int next_ms(weft_timer *t)
{
    int64_t next = weft_timer_next(t).ns;
    return next == INT64_MAX ? -1 : (int)((next - 1000 * WEFT_SEC) / WEFT_MS);
}

static inline void parks_in_it(void *arg)
{
    struct log *l = arg;
    CHECK_PTR(l->parked, ==, NULL); /* it does not overlap itself */
    notes(l);
    l->parked = weft_fiber_current();
    CHECK_INT(weft_park(WEFT_FOREVER), ==, 0);
    l->parked = NULL;
}

#endif
