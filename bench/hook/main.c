/*
 * main.c: bench-hook, what the hooks cost: the tables of its benches, servers and limits.
 */
#include "../common/bench.h"

#define LOAD .through = "bench-net-load"

/* clang-format off */
static const struct bench_row rows[] = {
    {.library = "hook-epoll",      .program = "bench-hook-server", LOAD},
    {.library = "hook-uring",      .program = "bench-hook-server", LOAD},
    {.library = "weft-epoll",      .program = "bench-net-weft",    LOAD},
    {.library = "weft-uring",      .program = "bench-net-weft",    LOAD},
    {.library = "raw-epoll-level", .program = "bench-net-epoll",   LOAD},
    {.library = "raw-epoll-edge",  .program = "bench-net-epoll",   LOAD},
    {0},
};

static const struct bench_row outside_rows[] = {
    {.library = "read",  .program = "bench-hook-outside"},
    {.library = "recv",  .program = "bench-hook-outside"},
    {.library = "poll",  .program = "bench-hook-outside"},
    {.library = "close", .program = "bench-hook-outside"},
    {0},
};

static const struct bench_row ticker_rows[] = {
    {.library = "lookup",           .program = "bench-hook-lookup"},
    {.library = "lookup-direct",    .program = "bench-hook-lookup"},
    {.library = "lookup-20",        .program = "bench-hook-lookup"},
    {.library = "lookup-20-direct", .program = "bench-hook-lookup"},
    {.library = "pg_sleep",         .program = "bench-hook-pool", .package = "libpq-dev", .slow = true},
    {0},
};

static const struct bench_figure figures[] = {
    {"calls", "calls/msg", 2},
    {"rate",  "msg/s",     0},
    {"MB",    "MB",        1},
    {"p50",   "p50 us",    0},
    {"p99",   "p99 us",    0},
    {0},
};

static const struct bench_figure outside_figures[] = {
    {"hooked", "hooked ns", 1},
    {"plain",  "plain ns",  1},
    {0},
};

static const struct bench_figure ticker_figures[] = {
    {"longest_ms", "longest ms", 1},
    {"wall_ms",    "all ms",     0},
    {0},
};

static const struct bench benches[] = {
    {"echo-100", "CPU time of the server for one message of 64 bytes, 100 connections", "ns",
     .full = {9, 500}, .quick = {3, 50}, rows, figures},
    {"echo-1000", "CPU time of the server for one message of 64 bytes, 1,000 connections", "ns",
     .full = {9, 500}, .quick = {3, 50}, rows, figures},
    {"outside", "what a hooked call takes more than the plain one, on a thread that is no fiber", "ns",
     .full = {7, 200}, .quick = {3, 30}, outside_rows, outside_figures},
    {"ticker", "1,000 fibers that wait by libraries beside a ticker of 1 ms on the same worker: its gap over that, p99", "ms",
     .full = {7, 0}, .quick = {1, 0}, ticker_rows, ticker_figures},
    {0},
};

static const struct bench_limit limits[] = {
    {"echo-100",  "hook-epoll", "weft-epoll", .limit = 1.45},
    {"echo-100",  "hook-uring", "weft-uring", .limit = 1.30},
    {"echo-1000", "hook-epoll", "weft-epoll", .limit = 1.45},
    {"echo-1000", "hook-uring", "weft-uring", .limit = 1.30},
    {"outside",   "read",       NULL,         .limit = 5},
    {"outside",   "recv",       NULL,         .limit = 5},
    {"outside",   "poll",       NULL,         .limit = 5},
    {"outside",   "close",      NULL,         .limit = 5},
    {"ticker",    "lookup",     NULL,         .limit = 5},
    {"ticker",    "lookup-direct", NULL,      .limit = 5},
    {"ticker",    "lookup-20-direct", NULL,   .limit = 5},
    {"ticker",    "pg_sleep",   NULL,         .limit = 5},
    {"ticker",    "pg_sleep",   NULL,         .limit = 6000, .figure = "wall_ms"},
    {0},
};
/* clang-format on */

int main(int argc, char **argv)
{
    static const struct bench_suite suite = {"bench-hook", benches, limits};
    return bench_main(argc, argv, &suite);
}
