/*
 * case_weft.c: weft's timers, by plain calls of the public API, on libweft.so, in the first fiber of a weft_run with one
 * worker.
 */
#include <string.h>

#include "../common/case.h"
#include "../common/sleepers.h"
#include "armed.h"
#include <weft/fiber.h>
#include <weft/sched.h>
#include <weft/sync.h>
#include <weft/timer.h>

static weft_timer *armed[ARMED];
static uint64_t next; /* of the spans and of what is picked */

static inline void must(int rc, const char *what)
{
    if (rc != 0)
        case_fail("%s: %s", what, strerror(-rc));
}

static void run_first(weft_fn *first, void *what)
{
    weft_sched_opts opts = {.size = sizeof(opts), .threads = 1};
    must(weft_run(first, what, NULL, &opts), "weft_run");
}

static void never(void *arg)
{
    (void)arg;
    case_fail("a timer fired before its time");
}

static void arm_all(void)
{
    for (next = 0; next < ARMED; next++)
        must(weft_timer_new(&armed[next], armed_ms(next) * WEFT_MS, false, NULL, never, NULL), "weft_timer_new");
}

static void free_all(void)
{
    for (size_t i = 0; i < ARMED; i++)
        case_check_sum((uint64_t)weft_timer_free(armed[i]), 1);
}

/* add-cancel: weft_timer_free cancels; in weft-cancelled by a call of its own. */

static void add_and_free(void *ctx, size_t n)
{
    uint64_t in_time = 0;

    (void)ctx;
    for (size_t i = 0; i < n; i++) {
        weft_timer *t;
        must(weft_timer_new(&t, armed_ms(next++) * WEFT_MS, false, NULL, never, NULL), "weft_timer_new");
        in_time += (uint64_t)weft_timer_free(t);
    }
    case_check_sum(in_time, n);
}

static void add_soon_and_free(void *ctx, size_t n)
{
    uint64_t in_time = 0;

    (void)ctx;
    for (size_t i = 0; i < n; i++) {
        weft_timer *t;
        must(weft_timer_new(&t, soon_ms(next++) * WEFT_MS, false, NULL, never, NULL), "weft_timer_new");
        in_time += (uint64_t)weft_timer_free(t);
    }
    case_check_sum(in_time, n);
}

static void add_cancel_and_free(void *ctx, size_t n)
{
    uint64_t in_time = 0;

    (void)ctx;
    for (size_t i = 0; i < n; i++) {
        weft_timer *t;
        must(weft_timer_new(&t, armed_ms(next++) * WEFT_MS, false, NULL, never, NULL), "weft_timer_new");
        in_time += (uint64_t)weft_timer_cancel(t);
        weft_timer_free(t);
    }
    case_check_sum(in_time, n);
}

static void refresh(void *ctx, size_t n)
{
    (void)ctx;
    for (size_t i = 0; i < n; i++)
        must(weft_timer_refresh(armed[armed_pick(next++)]), "weft_timer_refresh");
}

struct timed {
    case_batch *batch;
    double budget_ms;
};

static void *time_with_all(void *arg)
{
    const struct timed *timed = arg;

    arm_all();
    case_ok(case_time(timed->budget_ms, timed->batch, NULL, 1), "");
    free_all();
    return NULL;
}

static void run_add_cancel(double budget_ms)
{
    run_first(time_with_all, &(struct timed){add_and_free, budget_ms});
}

static void run_add_cancelled(double budget_ms)
{
    run_first(time_with_all, &(struct timed){add_cancel_and_free, budget_ms});
}

static void run_add_soon(double budget_ms)
{
    run_first(time_with_all, &(struct timed){add_soon_and_free, budget_ms});
}

static void run_refresh(double budget_ms)
{
    run_first(time_with_all, &(struct timed){refresh, budget_ms});
}

/* fire */

static weft_waitgroup to_fire;

static void fires(void *arg)
{
    sleeper_woke((uintptr_t)arg);
    weft_waitgroup_done(&to_fire);
}

static void *first_of_fire(void *arg)
{
    weft_waitgroup_add(&to_fire, SLEEPERS);
    sleepers_begin();
    for (size_t i = 0; i < SLEEPERS; i++) {
        sleeper_start(i);
        must(weft_timer_new(NULL, (weft_span)sleeper_us(i) * WEFT_US, false, NULL, fires, (void *)i), "weft_timer_new");
        weft_yield();
    }
    must(weft_waitgroup_wait(&to_fire, WEFT_FOREVER), "weft_waitgroup_wait");
    sleepers_answer(SLEEPERS_P99, true);
    return arg;
}

static void run_fire(double budget_ms)
{
    (void)budget_ms;
    run_first(first_of_fire, NULL);
}

int main(int argc, char **argv)
{
    static const struct case_entry entries[] = {
        {"add-cancel", "weft", run_add_cancel},
        {"add-cancel", "weft-cancelled", run_add_cancelled},
        {"add-cancel-soon", "weft", run_add_soon},
        {"refresh", "weft", run_refresh},
        {"fire", "weft", run_fire},
    };
    return case_main(argc, argv, entries, sizeof(entries) / sizeof(entries[0]));
}
