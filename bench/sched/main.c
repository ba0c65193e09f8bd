/*
 * main.c: bench-sched, what fibers, their channels and locks, and sleep cost: the tables of its benches, libraries and
 * limits.
 */
#include "../common/bench.h"

#define FIBER "libboost-fiber-dev"
#define PING .through = "bench-sched-ping"

/* clang-format off */
static const struct bench_row rows[] = {
    {.library = "weft",          .program = "bench-sched-weft"},
    {.library = "go",            .program = "bench-sched-go",          .package = "golang-go"},
    {.library = "boost-fiber",   .program = "bench-sched-boost-fiber", .package = FIBER},
    {.library = "state-threads", .program = "bench-sched-st",          .package = "libst-dev"},
    {.library = "pthread",       .program = "bench-sched-posix"},
    {0},
};

static const struct bench_row fixed_work_rows[] = {
    {.library = "weft",          .program = "bench-sched-weft"},
    {.library = "go",            .program = "bench-sched-go",          .package = "golang-go"},
    {.library = "boost-fiber",   .program = "bench-sched-boost-fiber", .package = FIBER,       .slow = true},
    {.library = "state-threads", .program = "bench-sched-st",          .package = "libst-dev", .slow = true},
    {.library = "pthread",       .program = "bench-sched-posix"},
    {0},
};

static const struct bench_row wake_rows[] = {
    {.library = "weft",          .program = "bench-sched-weft"},
    {.library = "go",            .program = "bench-sched-go",          .package = "golang-go"},
    {.library = "go-unlocked",   .program = "bench-sched-go",          .package = "golang-go"},
    {.library = "boost-fiber",   .program = "bench-sched-boost-fiber", .package = FIBER},
    {.library = "state-threads", .program = "bench-sched-st",          .package = "libst-dev"},
    {.library = "pthread",       .program = "bench-sched-posix"},
    {.library = "pthread-apart", .program = "bench-sched-posix"},
    {0},
};

static const struct bench_row own_rows[] = {
    {.library = "weft",          .program = "bench-sched-weft"},
    {0},
};

static const struct bench_row fair_rows[] = {
    {.library = "weft-sleep",    .program = "bench-sched-weft-fair"},
    {.library = "weft-timer",    .program = "bench-sched-weft-fair"},
    {.library = "weft-socket",   .program = "bench-sched-weft-fair"},
    {.library = "weft-thread",   .program = "bench-sched-weft-fair"},
    {.library = "weft-policies", .program = "bench-sched-weft-fair"},
    {.library = "go-sleep",      .program = "bench-sched-go",          .package = "golang-go"},
    {.library = "go-timer",      .program = "bench-sched-go",          .package = "golang-go"},
    {.library = "go-socket",     .program = "bench-sched-go",          .package = "golang-go"},
    {.library = "boost-sleep",   .program = "bench-sched-boost-fiber", .package = FIBER},
    {.library = "st-sleep",      .program = "bench-sched-st",          .package = "libst-dev"},
    {0},
};

/* The servers of bench-net. */
static const struct bench_row ping_rows[] = {
    {.library = "weft-epoll", .program = "bench-net-weft", PING},
    {.library = "weft-uring", .program = "bench-net-weft", PING},
    {.library = "go",         .program = "bench-net-go",   PING, .package = "golang-go"},
    {0},
};

static const struct bench_row move_rows[] = {
    {.library = "weft", .program = "bench-sched-weft-fair"},
    {.library = "go",   .program = "bench-sched-go",       .package = "golang-go"},
    {0},
};

static const struct bench_figure late_figures[] = {
    {"p50",   "p50 us",  0},
    {"p99",   "p99 us",  0},
    {"waits", "waits",   0},
    {"kept",  "kept ms", 0},
    {0},
};

static const struct bench_figure ping_figures[] = {
    {"p50",   "p50 us",     0},
    {"p99",   "p99 us",     0},
    {"waits", "pings",      0},
    {"kept",  "kept ms",    0},
    {"flood", "flood MB/s", 0},
    {0},
};

static const struct bench benches[] = {
    {"yield-2", "one yield of two that take turns", "ns",
     .full = {5, 300}, .quick = {5, 60}, rows},
    {"yield-1000", "one yield of a thousand that take turns", "ns",
     .full = {5, 300}, .quick = {5, 60}, rows},
    {"spawn-join", "spawned and joined, one after another", "ns",
     .full = {5, 300}, .quick = {5, 60}, rows},
    {"spawn-join-10k", "10,000 spawned, then all joined; each", "ns",
     .full = {5, 500}, .quick = {3, 200}, rows},
    {"chan", "one message through an unbuffered channel, there and back", "ns",
     .full = {5, 300}, .quick = {5, 60}, rows},
    {"sem", "one post and one wait, of two that wake each other", "ns",
     .full = {5, 300}, .quick = {5, 60}, rows},
    {"skynet-1", "one leaf of a tree of channels, 10 children each, 1,000,000 leaves; one worker", "ns",
     .full = {5, 1000}, .quick = {3, 0}, fixed_work_rows},
    {"skynet-2", "the same with two workers", "ns",
     .full = {5, 1000}, .quick = {3, 0}, fixed_work_rows},
    {"wake", "one way, two that wake each other, each on its own worker", "ns",
     .full = {5, 300}, .quick = {5, 60}, wake_rows},
    {"sleepers-p99", "100,000 sleep 1 to 1000 ms: how late the latest 1 % wake, at least", "us",
     .full = {5, 0}, .quick = {1, 0}, fixed_work_rows},
    {"sleepers-cpu", "100,000 made, asleep for 1 to 1000 ms, ended: user and system time of all", "ms",
     .full = {5, 0}, .quick = {1, 0}, fixed_work_rows},
    {"starved", "50 times 1 ms asleep beside 12,000 for which there is no stack: the latest wakes late by", "us",
     .full = {5, 0}, .quick = {1, 0}, own_rows},
    {"fair-0.1", "beside one that computes 0.1 ms and yields: how late the latest of a run is served", "us",
     .full = {5, 200}, .quick = {3, 30}, fair_rows, late_figures},
    {"fair-0.5", "the same, beside 0.5 ms", "us",
     .full = {5, 200}, .quick = {3, 30}, fair_rows, late_figures},
    {"fair-5", "the same, beside 5 ms", "us",
     .full = {5, 250}, .quick = {3, 40}, fair_rows, late_figures},
    {"fair-ping", "a ping there and back beside two connections that flood the server: the worst of a run", "us",
     .full = {7, 500}, .quick = {3, 100}, ping_rows, ping_figures},
    {"fair-move", "woken by one that goes on computing, with an idle worker: how late the latest of a run runs", "us",
     .full = {5, 200}, .quick = {1, 30}, move_rows, late_figures},
    {"mutex-1", "lock, add 1, unlock; one, of two workers", "ns",
     .full = {5, 300}, .quick = {3, 60}, rows},
    {"mutex-4", "lock, add 1, unlock; 4 on two workers", "ns",
     .full = {5, 300}, .quick = {3, 60}, rows},
    {"mutex-16", "lock, add 1, unlock; 16 on two workers", "ns",
     .full = {5, 300}, .quick = {3, 60}, rows},
    {"mutex-64", "lock, add 1, unlock; 64 on two workers", "ns",
     .full = {5, 300}, .quick = {3, 60}, rows},
    {0},
};

/* 2 B and 1 ms. */
#define FAIR_LIMITS(bench, us) \
    {bench, "weft-sleep",    NULL, .limit = us}, \
    {bench, "weft-timer",    NULL, .limit = us}, \
    {bench, "weft-socket",   NULL, .limit = us}, \
    {bench, "weft-thread",   NULL, .limit = us}, \
    {bench, "weft-policies", NULL, .limit = us}

static const struct bench_limit limits[] = {
    {"yield-2",        "weft", "go",             .limit = 0.33},
    {"yield-1000",     "weft", "go",             .limit = 0.25},
    {"spawn-join",     "weft", "go",             .limit = 0.2},
    {"spawn-join-10k", "weft", "go",             .limit = 0.2},
    {"chan",           "weft", "go",             .limit = 0.35},
    {"sem",            "weft", "state-threads",  .limit = 1.6},
    {"skynet-1",       "weft", "go",             .limit = 0.35},
    {"skynet-2",       "weft", "skynet-1: weft", .limit = 0.9},
    {"sleepers-p99",   "weft", "go",             .limit = 0.5},
    {"sleepers-cpu",   "weft", "go",             .limit = 0.5},
    FAIR_LIMITS("fair-0.1", 1200),
    FAIR_LIMITS("fair-0.5", 2000),
    FAIR_LIMITS("fair-5", 11000),
    {"fair-ping", "weft-epoll", NULL, .limit = 2000, .figure = "p99"},
    {"fair-ping", "weft-uring", NULL, .limit = 2000, .figure = "p99"},
    {"fair-ping", "weft-epoll", NULL, .limit = 20000},
    {"fair-ping", "weft-uring", NULL, .limit = 20000},
    {"fair-move", "weft",       NULL, .limit = 5000},
    {0},
};
/* clang-format on */

int main(int argc, char **argv)
{
    static const struct bench_suite suite = {"bench-sched", benches, limits};
    return bench_main(argc, argv, &suite);
}
