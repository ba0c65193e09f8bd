/*
 * main.c: bench-http, the cost of serving HTTP: the tables of its benches, servers and limits.
 */
#include "../common/bench.h"

#define LOAD .through = "bench-http-load"
#define PEER LOAD, .package

/* clang-format off */
#define SERVERS \
    {.library = "weft-epoll", .program = "bench-http-weft",   LOAD}, \
    {.library = "weft-uring", .program = "bench-http-weft",   LOAD}, \
    {.library = "raw-epoll",  .program = "bench-http-epoll",  LOAD}, \
    {.library = "epoll-pool", .program = "bench-http-pool",   LOAD}, \
    {.library = "nginx",      .program = "bench-http-nginx",  PEER = "nginx"}, \
    {.library = "h2o",        .program = "bench-http-h2o",    PEER = "libh2o-evloop-dev"}, \
    {.library = "evhttp",     .program = "bench-http-evhttp", PEER = "libevent-dev"}, \
    {.library = "mhd",        .program = "bench-http-mhd",    PEER = "libmicrohttpd-dev"}, \
    {.library = "go",         .program = "bench-http-go",     PEER = "golang-go"},

#define WAYS \
    {.library = "weft-epoll-shared",   .program = "bench-http-weft", LOAD}, \
    {.library = "weft-uring-shared",   .program = "bench-http-weft", LOAD}, \
    {.library = "weft-epoll-warm",     .program = "bench-http-weft", LOAD}, \
    {.library = "weft-uring-warm",     .program = "bench-http-weft", LOAD}, \
    {.library = "weft-epoll-acceptor", .program = "bench-http-weft", LOAD}, \
    {.library = "weft-uring-acceptor", .program = "bench-http-weft", LOAD},

static const struct bench_row rows[] = {
    SERVERS
    {0},
};

static const struct bench_row all_rows[] = {
    SERVERS
    WAYS
    {0},
};

#define NGINX_CACHED {.library = "nginx-cached", .program = "bench-http-nginx", PEER = "nginx"},

static const struct bench_row file_rows[] = {
    SERVERS
    NGINX_CACHED
    {0},
};

static const struct bench_row all_file_rows[] = {
    SERVERS
    WAYS
    NGINX_CACHED
    {0},
};

static const struct bench_figure figures[] = {
    {"calls", "calls/req", 2},
    {"rate",  "req/s",     0},
    {"MB",    "MB",        1},
    {"p50",   "p50 us",    0},
    {"p99",   "p99 us",    0},
    {"busy",  "busy",      2},
    {"load",  "load",      2},
    {0},
};

static const struct bench_figure two_figures[] = {
    {"cpu",  "us/req",      2},
    {"busy", "server CPUs", 2},
    {"load", "load CPUs",   2},
    {"MB",   "MB",          1},
    {"p50",  "p50 us",      0},
    {"p99",  "p99 us",      0},
    {0},
};

static const struct bench_figure idle_figures[] = {
    {"connected", "connected", 1},
    {"active",    "active",    1},
    {"idle_ms",   "CPU ms",    1},
    {0},
};

static const struct bench_figure tools_figures[] = {
    {"rate",     "req/s",     0},
    {"wrk",      "wrk us",    2},
    {"wrk_rate", "wrk req/s", 0},
    {"ab",       "ab us",     2},
    {"ab_rate",  "ab req/s",  0},
    {0},
};

static const struct bench benches[] = {
    {"hello-1", "CPU time of the server for one small answer, one connection that is kept", "us",
     .full = {5, 300}, .quick = {1, 50}, all_rows, figures},
    {"hello-100", "CPU time of the server for one small answer, 100 connections that are kept", "us",
     .full = {7, 500}, .quick = {2, 80}, all_rows, figures},
    {"hello-1000", "CPU time of the server for one small answer, 1,000 connections that are kept", "us",
     .full = {7, 500}, .quick = {2, 80}, all_rows, figures},
    {"hello-10000", "CPU time of the server for one small answer, 10,000 connections that are kept", "us",
     .full = {3, 800}, .quick = {1, 100}, all_rows, figures},
    {"pipe-100", "CPU time of the server for one small answer, 16 requests in one piece, 100 connections", "us",
     .full = {7, 500}, .quick = {2, 80}, all_rows, figures},
    {"close-1", "CPU time of the server for one connection with one request, one at a time", "us",
     .full = {3, 300}, .quick = {1, 50}, rows, figures},
    {"close-100", "CPU time of the server for one connection with one request, 100 at a time", "us",
     .full = {5, 400}, .quick = {1, 80}, all_rows, figures},
    {"close-1000", "CPU time of the server for one connection with one request, 1,000 at a time", "us",
     .full = {3, 400}, .quick = {1, 80}, all_rows, figures},
    {"file-1", "CPU time of the server for one file of 16 KiB, one connection", "us",
     .full = {3, 300}, .quick = {1, 50}, file_rows, figures},
    {"file-100", "CPU time of the server for one file of 16 KiB, 100 connections", "us",
     .full = {3, 400}, .quick = {1, 80}, all_file_rows, figures},
    {"file-1000", "CPU time of the server for one file of 16 KiB, 1,000 connections", "us",
     .full = {3, 400}, .quick = {1, 80}, file_rows, figures},
    {"file-10000", "CPU time of the server for one file of 16 KiB, 10,000 connections", "us",
     .full = {3, 800}, .quick = {1, 100}, file_rows, figures},
    {"file-close-100", "CPU time of the server for one connection with one file of 16 KiB, 100 at a time", "us",
     .full = {3, 400}, .quick = {1, 80}, all_file_rows, figures},
    {"file-close-1000", "CPU time of the server for one connection with one file of 16 KiB, 1,000 at a time", "us",
     .full = {3, 400}, .quick = {1, 80}, file_rows, figures},
    {"hello-100-2", "small answers of two workers, 100 connections; server and generator share all CPUs", "req/s",
     .full = {7, 500}, .quick = {1, 80}, rows, two_figures},
    {"hello-1000-2", "small answers of two workers, 1,000 connections; server and generator share all CPUs", "req/s",
     .full = {7, 500}, .quick = {1, 80}, all_rows, two_figures},
    {"pipe-100-2", "small answers of two workers, 16 requests in one piece, 100 connections; all CPUs are shared", "req/s",
     .full = {3, 400}, .quick = {1, 80}, all_rows, two_figures},
    {"close-100-2", "connections with one request, two workers, 100 at a time; all CPUs are shared", "req/s",
     .full = {3, 400}, .quick = {1, 80}, all_rows, two_figures},
    {"file-100-2", "files of 16 KiB from two workers, 100 connections; all CPUs are shared", "req/s",
     .full = {3, 400}, .quick = {1, 80}, file_rows, two_figures},
    {"idle-10000", "memory of the server with 10,000 connections that have been idle for 2.5 s", "MB",
     .full = {3, 100}, .quick = {1, 100}, all_rows, idle_figures},
    {"tools-100", "CPU time of the server for one small answer, 100 connections, by three generators", "us",
     .full = {2, 1000}, .quick = {1, 100}, rows, tools_figures},
    {"tools-1000", "CPU time of the server for one small answer, 1,000 connections, by three generators", "us",
     .full = {2, 1000}, .quick = {1, 100}, rows, tools_figures},
    {0},
};

/* The limits with 100 and with 1,000 connections. The first is about the bench itself: with more system calls the raw
 * server is not kept busy, and the bench would compare how processes fall asleep. */
#define BELOW(bench, other) \
    {bench, "weft-epoll", other, .limit = 1}, \
    {bench, "weft-uring", other, .limit = 1}

#define HELLO_LIMITS(bench) \
    {bench, "raw-epoll",  NULL,        .limit = 2.3, .figure = "calls", .must = true}, \
    {bench, "weft-epoll", "raw-epoll", .limit = 1.10}, \
    {bench, "weft-uring", "raw-epoll", .limit = 1.10}, \
    BELOW(bench, "nginx"), \
    BELOW(bench, "h2o"), \
    BELOW(bench, "evhttp"), \
    BELOW(bench, "go")

static const struct bench_limit limits[] = {
    HELLO_LIMITS("hello-100"),
    HELLO_LIMITS("hello-1000"),
    {"pipe-100", "weft-epoll", "raw-epoll", .limit = 0.95, .figure = "rate", .at_least = true},
    {"pipe-100", "weft-uring", "raw-epoll", .limit = 0.95, .figure = "rate", .at_least = true},
    {"hello-100-2",  "weft-epoll", "nginx", .limit = 1, .at_least = true},
    {"hello-100-2",  "weft-uring", "nginx", .limit = 1, .at_least = true},
    {"hello-1000-2", "weft-epoll", "nginx", .limit = 1, .at_least = true},
    {"hello-1000-2", "weft-uring", "nginx", .limit = 1, .at_least = true},
    {"idle-10000", "weft-epoll",        NULL, .limit = 60},
    {"idle-10000", "weft-uring",        NULL, .limit = 60},
    {"idle-10000", "weft-epoll-shared", NULL, .limit = 12},
    {"idle-10000", "weft-uring-shared", NULL, .limit = 12},
    {0},
};
/* clang-format on */

int main(int argc, char **argv)
{
    static const struct bench_suite suite = {"bench-http", benches, limits};
    return bench_main(argc, argv, &suite);
}
