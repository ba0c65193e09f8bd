/*
 * main.c: bench-timer, what timers cost when there are many: the tables of its benches, libraries and limits.
 */
#include "../common/bench.h"

/* clang-format off */
static const struct bench_row rows[] = {
    {.library = "weft",     .program = "bench-timer-weft"},
    {.library = "libuv",    .program = "bench-timer-libuv",    .package = "libuv1-dev"},
    {.library = "libevent", .program = "bench-timer-libevent", .package = "libevent-dev"},
    {.library = "libev",    .program = "bench-timer-libev",    .package = "libev-dev"},
    {0},
};

static const struct bench_row add_rows[] = {
    {.library = "weft",           .program = "bench-timer-weft"},
    {.library = "weft-cancelled", .program = "bench-timer-weft"},
    {.library = "libuv",          .program = "bench-timer-libuv",    .package = "libuv1-dev"},
    {.library = "libuv-exact",    .program = "bench-timer-libuv",    .package = "libuv1-dev"},
    {.library = "libevent",       .program = "bench-timer-libevent", .package = "libevent-dev"},
    {.library = "libevent-exact", .program = "bench-timer-libevent", .package = "libevent-dev"},
    {.library = "libev",          .program = "bench-timer-libev",    .package = "libev-dev"},
    {0},
};

static const struct bench_figure fire_figures[] = {
    {"p50_us",      "p50 us",      1},
    {"earliest_us", "earliest us", 1},
    {"cpu_ms",      "CPU ms",      1},
    {0},
};

static const struct bench benches[] = {
    {"add-cancel", "one more added and cancelled, with 1,000,000 armed", "ns",
     .full = {7, 300}, .quick = {3, 30}, add_rows},
    {"add-cancel-soon", "one more added and cancelled, which is due before 1,000,000 that are armed", "ns",
     .full = {7, 300}, .quick = {3, 30}, rows},
    {"refresh", "one of 1,000,000 armed anew, at random", "ns",
     .full = {7, 300}, .quick = {3, 30}, rows},
    {"fire", "100,000 of 1 to 1000 ms: how late the latest 1 % fire, at least", "us",
     .full = {5, 0}, .quick = {1, 0}, rows, fire_figures},
    {0},
};

/* The last is about the library: nothing fires early. */
static const struct bench_limit limits[] = {
    {"add-cancel",      "weft", "libuv",    .limit = 0.5},
    {"add-cancel",      "weft", "libevent", .limit = 0.5},
    {"add-cancel-soon", "weft", "libuv",    .limit = 0.5},
    {"add-cancel-soon", "weft", "libevent", .limit = 0.5},
    {"fire",            "weft", NULL,       .limit = 0, .figure = "earliest_us", .at_least = true, .must = true},
    {0},
};
/* clang-format on */

int main(int argc, char **argv)
{
    static const struct bench_suite suite = {"bench-timer", benches, limits};
    return bench_main(argc, argv, &suite);
}
