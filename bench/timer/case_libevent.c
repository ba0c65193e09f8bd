/*
 * case_libevent.c: libevent's timers in its default, a binary heap in an array. They are in the caller's memory. All is
 * measured in a callback of the loop, where adding does not read the clock: it counts from when the loop last did, unless
 * the base is told not to keep the time (libevent-exact).
 */
#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdlib.h>

#include "../common/case.h"
#include "../common/sleepers.h"
#include "armed.h"

static struct event_base *base;
static struct event *armed; /* and one more */
static uint64_t next;       /* of the spans and of what is picked */

static inline void must(int rc, const char *what)
{
    if (rc != 0)
        case_fail("%s", what);
}

static inline struct timeval of_us(uint64_t us)
{
    return (struct timeval){.tv_sec = (time_t)(us / 1000000), .tv_usec = (suseconds_t)(us % 1000000)};
}

static inline void add(struct event *e, uint32_t ms)
{
    struct timeval span = of_us((uint64_t)ms * 1000);
    must(event_add(e, &span), "event_add");
}

/* One thread, so no locks; the finer clock only matters to `fire`. */
static void make_base(int flags)
{
    struct event_config *config = event_config_new();

    if (!config || event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_PRECISE_TIMER | flags) != 0 ||
        !(base = event_base_new_with_config(config)))
        case_fail("no event base");
}

static void never(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what, (void)arg;
    case_fail("a timer fired before its time");
}

static void arm_all(void)
{
    armed = malloc((ARMED + 1) * sizeof(*armed));
    if (!armed)
        case_fail("no memory");
    for (next = 0; next < ARMED; next++) {
        must(event_assign(&armed[next], base, -1, 0, never, NULL), "event_assign");
        add(&armed[next], armed_ms(next));
    }
}

static void add_cancel(void *ctx, size_t n)
{
    struct event *e = &armed[ARMED];

    (void)ctx;
    for (size_t i = 0; i < n; i++) {
        must(event_assign(e, base, -1, 0, never, NULL), "event_assign");
        add(e, armed_ms(next++));
        must(event_del(e), "event_del");
    }
}

static void add_soon_cancel(void *ctx, size_t n)
{
    struct event *e = &armed[ARMED];

    (void)ctx;
    for (size_t i = 0; i < n; i++) {
        must(event_assign(e, base, -1, 0, never, NULL), "event_assign");
        add(e, soon_ms(next++));
        must(event_del(e), "event_del");
    }
}

static void refresh(void *ctx, size_t n)
{
    (void)ctx;
    for (size_t i = 0; i < n; i++, next++) {
        size_t which = armed_pick(next);
        add(&armed[which], armed_ms(which));
    }
}

struct timed {
    case_batch *batch;
    double budget_ms;
};

static void in_the_loop(evutil_socket_t fd, short what, void *arg)
{
    const struct timed *timed = arg;

    (void)fd, (void)what;
    arm_all();
    case_ok(case_time(timed->budget_ms, timed->batch, NULL, 1), "");
    event_base_loopbreak(base);
}

static void time_with_all(case_batch *batch, double budget_ms, int flags)
{
    struct timed timed = {batch, budget_ms};

    make_base(flags);
    must(event_base_once(base, -1, EV_TIMEOUT, in_the_loop, &timed, NULL), "event_base_once");
    event_base_dispatch(base);
}

static void run_add_cancel(double budget_ms)
{
    time_with_all(add_cancel, budget_ms, 0);
}

static void run_add_exact(double budget_ms)
{
    time_with_all(add_cancel, budget_ms, EVENT_BASE_FLAG_NO_CACHE_TIME);
}

static void run_add_soon(double budget_ms)
{
    time_with_all(add_soon_cancel, budget_ms, 0);
}

static void run_refresh(double budget_ms)
{
    time_with_all(refresh, budget_ms, 0);
}

/* fire */

static struct event to_fire[SLEEPERS];
static struct event turn;

static void fires(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    sleeper_woke((uintptr_t)arg);
}

static void add_some(evutil_socket_t fd, short what, void *arg)
{
    static size_t made;
    struct timeval at_once = {0};

    (void)fd, (void)what, (void)arg;
    for (size_t end = made + FIRE_TURN; made < end && made < SLEEPERS; made++) {
        struct timeval span = of_us(sleeper_us(made));
        sleeper_start(made);
        must(event_assign(&to_fire[made], base, -1, 0, fires, (void *)made), "event_assign");
        must(event_add(&to_fire[made], &span), "event_add");
    }
    if (made < SLEEPERS)
        must(event_add(&turn, &at_once), "event_add");
}

static void run_fire(double budget_ms)
{
    (void)budget_ms;
    make_base(0);
    sleepers_begin();
    must(event_assign(&turn, base, -1, 0, add_some, NULL), "event_assign");
    event_active(&turn, 0, 0);
    event_base_dispatch(base);
    sleepers_answer(SLEEPERS_P99, false);
}

int main(int argc, char **argv)
{
    static const struct case_entry entries[] = {
        {"add-cancel", "libevent", run_add_cancel},
        {"add-cancel", "libevent-exact", run_add_exact},
        {"add-cancel-soon", "libevent", run_add_soon},
        {"refresh", "libevent", run_refresh},
        {"fire", "libevent", run_fire},
    };
    return case_main(argc, argv, entries, sizeof(entries) / sizeof(entries[0]));
}
