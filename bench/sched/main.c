/*
 * main.c: bench-sched, what fibers, their channels and locks, and sleep cost: the tables of its benches, libraries and
 * limits.
 */
#include "../common/bench.h"

#define FIBER "libboost-fiber-dev"

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
    {0},
};
/* clang-format on */

int main(int argc, char **argv)
{
    static const struct bench_suite suite = {"bench-sched", benches, limits};
    return bench_main(argc, argv, &suite);
}
