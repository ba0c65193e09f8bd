/*
 * case_libev.c: libev's timers: a heap of four children a node, with the times in it. They are in the caller's memory, and
 * a start does not read the clock: it counts from when the loop last did.
 */
#include <ev.h>
#include <stdlib.h>

#include "../common/case.h"
#include "../common/sleepers.h"
#include "armed.h"

static struct ev_loop *loop;
static ev_timer *armed; /* and one more */
static uint64_t next;   /* of the spans and of what is picked */

static double seconds(uint32_t ms)
{
    return ms / 1e3;
}

static void make_loop(void)
{
    loop = ev_default_loop(EVBACKEND_EPOLL);
    if (!loop)
        case_fail("no event loop");
}

static void never(struct ev_loop *of, ev_timer *t, int events)
{
    (void)of, (void)t, (void)events;
    case_fail("a timer fired before its time");
}

/* With a period, as ev_timer_again wants one. */
static void arm_all(void)
{
    make_loop();
    armed = malloc((ARMED + 1) * sizeof(*armed));
    if (!armed)
        case_fail("no memory");
    ev_now_update(loop);
    for (next = 0; next < ARMED; next++) {
        ev_timer_init(&armed[next], never, seconds(armed_ms(next)), seconds(armed_ms(next)));
        ev_timer_start(loop, &armed[next]);
    }
}

static void add_cancel(void *ctx, size_t n)
{
    ev_timer *t = &armed[ARMED];

    (void)ctx;
    ev_now_update(loop);
    for (size_t i = 0; i < n; i++) {
        ev_timer_init(t, never, seconds(armed_ms(next++)), 0);
        ev_timer_start(loop, t);
        ev_timer_stop(loop, t);
    }
}

static void add_soon_cancel(void *ctx, size_t n)
{
    ev_timer *t = &armed[ARMED];

    (void)ctx;
    ev_now_update(loop);
    for (size_t i = 0; i < n; i++) {
        ev_timer_init(t, never, seconds(soon_ms(next++)), 0);
        ev_timer_start(loop, t);
        ev_timer_stop(loop, t);
    }
}

static void run_add_cancel(double budget_ms)
{
    arm_all();
    case_ok(case_time(budget_ms, add_cancel, NULL, 1), "");
}

static void run_add_soon(double budget_ms)
{
    arm_all();
    case_ok(case_time(budget_ms, add_soon_cancel, NULL, 1), "");
}

static void refresh(void *ctx, size_t n)
{
    (void)ctx;
    ev_now_update(loop);
    for (size_t i = 0; i < n; i++)
        ev_timer_again(loop, &armed[armed_pick(next++)]);
}

static void run_refresh(double budget_ms)
{
    arm_all();
    case_ok(case_time(budget_ms, refresh, NULL, 1), "");
}

/* fire */

static ev_timer to_fire[SLEEPERS];

static void fires(struct ev_loop *of, ev_timer *t, int events)
{
    (void)of, (void)events;
    sleeper_woke((size_t)(t - to_fire));
}

static void add_some(struct ev_loop *of, ev_idle *turn, int events)
{
    static size_t made;

    (void)events;
    for (size_t end = made + FIRE_TURN; made < end && made < SLEEPERS; made++) {
        sleeper_start(made);
        ev_timer_init(&to_fire[made], fires, (double)sleeper_us(made) / 1e6, 0);
        ev_timer_start(of, &to_fire[made]);
    }
    if (made == SLEEPERS)
        ev_idle_stop(of, turn);
}

static void run_fire(double budget_ms)
{
    ev_idle turn;

    (void)budget_ms;
    make_loop();
    ev_idle_init(&turn, add_some);
    ev_idle_start(loop, &turn);
    sleepers_begin();
    ev_run(loop, 0);
    sleepers_answer(SLEEPERS_P99, false);
}

int main(int argc, char **argv)
{
    static const struct case_entry entries[] = {
        {"add-cancel", "libev", run_add_cancel},
        {"add-cancel-soon", "libev", run_add_soon},
        {"refresh", "libev", run_refresh},
        {"fire", "libev", run_fire},
    };
    return case_main(argc, argv, entries, sizeof(entries) / sizeof(entries[0]));
}
