/*
 * case_libuv.c: libuv's timers: a binary heap of nodes. They are in the caller's memory, and a start does not read the
 * clock: it counts from when the loop last did, unless the program has it read once more (libuv-exact). A span is of whole
 * ms.
 */
#include <stdlib.h>
#include <uv.h>

#include "../common/case.h"
#include "../common/sleepers.h"
#include "armed.h"

static uv_loop_t *loop;
static uv_timer_t *armed; /* and one more */
static uint64_t next;     /* of the spans and of what is picked */

static inline void must(int rc, const char *what)
{
    if (rc != 0)
        case_fail("%s: %s", what, uv_strerror(rc));
}

static void never(uv_timer_t *t)
{
    (void)t;
    case_fail("a timer fired before its time");
}

/* With a period, as uv_timer_again wants one. */
static void arm_all(void)
{
    loop = uv_default_loop();
    armed = malloc((ARMED + 1) * sizeof(*armed));
    if (!armed)
        case_fail("no memory");
    uv_update_time(loop);
    for (next = 0; next < ARMED; next++) {
        must(uv_timer_init(loop, &armed[next]), "uv_timer_init");
        must(uv_timer_start(&armed[next], never, armed_ms(next), armed_ms(next)), "uv_timer_start");
    }
    must(uv_timer_init(loop, &armed[ARMED]), "uv_timer_init");
}

static void add_cancel(void *ctx, size_t n)
{
    uv_timer_t *t = &armed[ARMED];

    (void)ctx;
    uv_update_time(loop);
    for (size_t i = 0; i < n; i++) {
        must(uv_timer_start(t, never, armed_ms(next++), 0), "uv_timer_start");
        must(uv_timer_stop(t), "uv_timer_stop");
    }
}

static void add_cancel_exact(void *ctx, size_t n)
{
    uv_timer_t *t = &armed[ARMED];

    (void)ctx;
    for (size_t i = 0; i < n; i++) {
        uv_update_time(loop);
        must(uv_timer_start(t, never, armed_ms(next++), 0), "uv_timer_start");
        must(uv_timer_stop(t), "uv_timer_stop");
    }
}

static void add_soon_cancel(void *ctx, size_t n)
{
    uv_timer_t *t = &armed[ARMED];

    (void)ctx;
    uv_update_time(loop);
    for (size_t i = 0; i < n; i++) {
        must(uv_timer_start(t, never, soon_ms(next++), 0), "uv_timer_start");
        must(uv_timer_stop(t), "uv_timer_stop");
    }
}

static void run_add_cancel(double budget_ms)
{
    arm_all();
    case_ok(case_time(budget_ms, add_cancel, NULL, 1), "");
}

static void run_add_exact(double budget_ms)
{
    arm_all();
    case_ok(case_time(budget_ms, add_cancel_exact, NULL, 1), "");
}

static void run_add_soon(double budget_ms)
{
    arm_all();
    case_ok(case_time(budget_ms, add_soon_cancel, NULL, 1), "");
}

static void refresh(void *ctx, size_t n)
{
    (void)ctx;
    uv_update_time(loop);
    for (size_t i = 0; i < n; i++)
        must(uv_timer_again(&armed[armed_pick(next++)]), "uv_timer_again");
}

static void run_refresh(double budget_ms)
{
    arm_all();
    case_ok(case_time(budget_ms, refresh, NULL, 1), "");
}

/* fire */

static uv_timer_t to_fire[SLEEPERS];

static void fires(uv_timer_t *t)
{
    sleeper_woke((size_t)(t - to_fire));
}

static void add_some(uv_idle_t *turn)
{
    static size_t made;

    for (size_t end = made + FIRE_TURN; made < end && made < SLEEPERS; made++) {
        sleeper_start(made);
        must(uv_timer_init(loop, &to_fire[made]), "uv_timer_init");
        must(uv_timer_start(&to_fire[made], fires, (sleeper_us(made) + 999) / 1000, 0), "uv_timer_start");
    }
    if (made == SLEEPERS)
        uv_idle_stop(turn);
}

static void run_fire(double budget_ms)
{
    uv_idle_t turn;

    (void)budget_ms;
    loop = uv_default_loop();
    must(uv_idle_init(loop, &turn), "uv_idle_init");
    must(uv_idle_start(&turn, add_some), "uv_idle_start");
    sleepers_begin();
    uv_run(loop, UV_RUN_DEFAULT);
    sleepers_answer(SLEEPERS_P99, false);
}

int main(int argc, char **argv)
{
    static const struct case_entry entries[] = {
        {"add-cancel", "libuv", run_add_cancel},
        {"add-cancel", "libuv-exact", run_add_exact},
        {"add-cancel-soon", "libuv", run_add_soon},
        {"refresh", "libuv", run_refresh},
        {"fire", "libuv", run_fire},
    };
    return case_main(argc, argv, entries, sizeof(entries) / sizeof(entries[0]));
}
