/*
 * main.c: bench-net, what it costs to serve connections: the tables of its benches, servers and limits.
 */
#include "../common/bench.h"

#define LOAD .through = "bench-net-load"
#define EPOLL "raw-epoll-level|raw-epoll-edge"

/* clang-format off */
#define ROWS \
    {.library = "weft-epoll",      .program = "bench-net-weft",     LOAD}, \
    {.library = "weft-uring",      .program = "bench-net-weft",     LOAD}, \
    {.library = "raw-epoll-level", .program = "bench-net-epoll",    LOAD}, \
    {.library = "raw-epoll-edge",  .program = "bench-net-epoll",    LOAD}, \
    {.library = "raw-uring",       .program = "bench-net-uring",    LOAD, .package = "liburing-dev"}, \
    {.library = "raw-uring-multi", .program = "bench-net-uring",    LOAD, .package = "liburing-dev"}, \
    {.library = "libevent",        .program = "bench-net-libevent", LOAD, .package = "libevent-dev"}, \
    {.library = "libuv",           .program = "bench-net-libuv",    LOAD, .package = "libuv1-dev"}, \
    {.library = "libev",           .program = "bench-net-libev",    LOAD, .package = "libev-dev"}, \
    {.library = "state-threads",   .program = "bench-net-st",       LOAD, .package = "libst-dev"}, \
    {.library = "go",              .program = "bench-net-go",       LOAD, .package = "golang-go"},

static const struct bench_row rows[] = {
    ROWS
    {0},
};

static const struct bench_row many_rows[] = {
    ROWS
    {.library = "weft-epoll-shared", .program = "bench-net-weft",   LOAD},
    {.library = "weft-uring-shared", .program = "bench-net-weft",   LOAD},
    {0},
};

/* The number is that of workers. */
static const struct bench_row serve_rows[] = {
    {.library = "weft-epoll-1", .program = "bench-net-weft",    LOAD},
    {.library = "weft-epoll-2", .program = "bench-net-weft",    LOAD},
    {.library = "weft-uring-1", .program = "bench-net-weft",    LOAD},
    {.library = "weft-uring-2", .program = "bench-net-weft",    LOAD},
    {.library = "go-1",         .program = "bench-net-go",      LOAD, .package = "golang-go"},
    {.library = "go-2",         .program = "bench-net-go",      LOAD, .package = "golang-go"},
    {.library = "libuv-1",      .program = "bench-net-libuv",   LOAD, .package = "libuv1-dev"},
    {.library = "libuv-2",      .program = "bench-net-libuv",   LOAD, .package = "libuv1-dev"},
    {.library = "threads-1",    .program = "bench-net-threads", LOAD},
    {.library = "threads-2",    .program = "bench-net-threads", LOAD},
    {0},
};

static const struct bench_figure serve_figures[] = {
    {"busy",  "server CPUs", 2},
    {"load",  "load CPUs",   2},
    {"cpu",   "us/msg",      1},
    {"least", "least us",    0},
    {"p50",   "p50 us",      0},
    {"p99",   "p99 us",      0},
    {0},
};

static const struct bench_figure figures[] = {
    {"calls", "calls/msg", 2},
    {"rate",  "msg/s",     0},
    {"MB",    "MB",        1},
    {"p50",   "p50 us",    0},
    {"p99",   "p99 us",    0},
    {"p99.9", "p99.9 us",  0},
    {0},
};

static const struct bench benches[] = {
    {"echo-1", "CPU time of the server for one message of 64 bytes, one connection", "ns",
     .full = {7, 500}, .quick = {2, 50}, rows, figures},
    {"echo-100", "CPU time of the server for one message of 64 bytes, 100 connections", "ns",
     .full = {9, 500}, .quick = {3, 50}, rows, figures},
    {"echo-1000", "CPU time of the server for one message of 64 bytes, 1,000 connections", "ns",
     .full = {9, 500}, .quick = {3, 50}, rows, figures},
    {"echo-10000", "CPU time of the server for one message of 64 bytes, 10,000 connections", "ns",
     .full = {7, 1000}, .quick = {1, 100}, many_rows, figures},
    {"echo-100-16k", "CPU time of the server for one message of 16 KiB, 100 connections", "ns",
     .full = {7, 500}, .quick = {2, 50}, rows, figures},
    {"serve-echo", "messages of 64 connections, sent back; server and generator share all CPUs", "msg/s",
     .full = {7, 400}, .quick = {1, 80}, serve_rows, serve_figures},
    {"serve-cpu20", "messages of 64 connections, 20 us of work for each", "msg/s",
     .full = {7, 400}, .quick = {1, 80}, serve_rows, serve_figures},
    {"serve-cpu50", "messages of 64 connections, 50 us of work for each", "msg/s",
     .full = {7, 400}, .quick = {1, 80}, serve_rows, serve_figures},
    {"serve-sleep", "messages of 64 connections, 1 ms of sleep for each", "msg/s",
     .full = {7, 400}, .quick = {1, 80}, serve_rows, serve_figures},
    {0},
};

/* What is judged with 100 and with 1,000 connections. The first is about the bench: more calls would mean that the server is
 * not kept busy, and that what is compared is how processes fall asleep. */
#define SMALL_LIMITS(bench) \
    {bench, EPOLL,        NULL,             .limit = 2.3,  .figure = "calls", .must = true}, \
    {bench, "weft-epoll", EPOLL,            .limit = 1.10}, \
    {bench, "weft-epoll", "raw-epoll-edge", .limit = 1.05, .figure = "calls"}, \
    {bench, "weft-epoll", "state-threads",  .limit = 1}, \
    {bench, "weft-epoll", "go",             .limit = 1}, \
    {bench, "weft-epoll", "libevent",       .limit = 1}, \
    {bench, "weft-uring", NULL,             .limit = 0.4,  .figure = "calls"}, \
    {bench, "weft-uring", "raw-uring",      .limit = 1.10}, \
    {bench, "weft-uring", "state-threads",  .limit = 1}, \
    {bench, "weft-uring", "go",             .limit = 1}, \
    {bench, "weft-uring", "libevent",       .limit = 1}

static const struct bench_limit limits[] = {
    SMALL_LIMITS("echo-100"),
    SMALL_LIMITS("echo-1000"),
    {"echo-10000", "weft-epoll", NULL,  .limit = 53,   .figure = "MB"},
    {"echo-10000", "weft-uring", NULL,  .limit = 53,   .figure = "MB"},
    {"echo-10000", "weft-epoll-shared", NULL, .limit = 10, .figure = "MB"},
    {"echo-10000", "weft-uring-shared", NULL, .limit = 10, .figure = "MB"},
    {"echo-10000", "weft-epoll", EPOLL, .limit = 0.95, .figure = "rate", .at_least = true},
    {"echo-10000", "weft-uring", EPOLL, .limit = 0.95, .figure = "rate", .at_least = true},
    {"serve-cpu50", "weft-epoll-2", "weft-epoll-1", .limit = 1.6, .at_least = true},
    {"serve-cpu50", "weft-uring-2", "weft-uring-1", .limit = 1.6, .at_least = true},
    {0},
};
/* clang-format on */

int main(int argc, char **argv)
{
    static const struct bench_suite suite = {"bench-net", benches, limits};
    return bench_main(argc, argv, &suite);
}
