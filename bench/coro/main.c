/*
 * main.c: bench-coro, what a raw coroutine costs: the tables of its benches, libraries and limits.
 */
#include "../common/bench.h"

#define CONTEXT "libboost-context-dev"
#define FIBER "libboost-fiber-dev"

/* clang-format off */
static const struct bench_row switch_rows[] = {
    {.library = "weft",               .program = "bench-coro-weft"},
    {.library = "weft-static",        .program = "bench-coro-weft-static"},
    {.library = "weft-fpenv",         .program = "bench-coro-weft"},
    {.library = "fcontext",           .program = "bench-coro-boost",        .package = CONTEXT},
    {.library = "boost-pooled-fiber", .program = "bench-coro-boost",        .package = CONTEXT},
    {.library = "boost-coroutine2",   .program = "bench-coro-boost",        .package = CONTEXT},
    {.library = "boost-fiber",        .program = "bench-coro-boost-fiber",  .package = FIBER},
    {.library = "state-threads",      .program = "bench-coro-st",           .package = "libst-dev"},
    {.library = "swapcontext",        .program = "bench-coro-posix"},
    {.library = "go",                 .program = "bench-coro-go",           .package = "golang-go"},
    {.library = "pthread",            .program = "bench-coro-posix"},
    {0},
};

static const struct bench_row spawn_rows[] = {
    {.library = "weft",               .program = "bench-coro-weft"},
    {.library = "fcontext",           .program = "bench-coro-boost",        .package = CONTEXT},
    {.library = "boost-pooled-fiber", .program = "bench-coro-boost",        .package = CONTEXT},
    {.library = "boost-coroutine2",   .program = "bench-coro-boost",        .package = CONTEXT},
    {.library = "boost-fiber",        .program = "bench-coro-boost-fiber",  .package = FIBER},
    {.library = "state-threads",      .program = "bench-coro-st",           .package = "libst-dev"},
    {.library = "swapcontext",        .program = "bench-coro-posix"},
    {.library = "go",                 .program = "bench-coro-go",           .package = "golang-go"},
    {.library = "pthread",            .program = "bench-coro-posix"},
    {0},
};

static const struct bench_row copied_rows[] = {
    {.library = "weft",               .program = "bench-coro-weft"},
    {.library = "weft-1KiB",          .program = "bench-coro-weft"},
    {.library = "fcontext",           .program = "bench-coro-boost",        .package = CONTEXT},
    {0},
};

static const struct bench_row rss_100k_rows[] = {
    {.library = "weft",               .program = "bench-coro-weft"},
    {.library = "weft-shared",        .program = "bench-coro-weft"},
    {.library = "fcontext",           .program = "bench-coro-boost",        .package = CONTEXT},
    {.library = "state-threads",      .program = "bench-coro-st",           .package = "libst-dev"},
    {.library = "go",                 .program = "bench-coro-go",           .package = "golang-go"},
    {0},
};

static const struct bench_row rss_1m_rows[] = {
    {.library = "weft",               .program = "bench-coro-weft"},
    {.library = "weft-shared",        .program = "bench-coro-weft"},
    {.library = "fcontext",           .program = "bench-coro-boost",        .package = CONTEXT, .slow = true},
    {.library = "state-threads",      .program = "bench-coro-st",           .package = "libst-dev", .slow = true},
    {.library = "go",                 .program = "bench-coro-go",           .package = "golang-go", .slow = true},
    {0},
};

static const struct bench_row nested_rows[] = {
    {.library = "weft",               .program = "bench-coro-weft"},
    {.library = "fcontext",           .program = "bench-coro-boost",        .package = CONTEXT},
    {.library = "swapcontext",        .program = "bench-coro-posix"},
    {0},
};

static const struct bench benches[] = {
    {"switch", "one way, half a round trip, a value passed each way", "ns",
     .full = {5, 300}, .quick = {5, 80}, switch_rows},
    {"spawn", "new, run to the end, free, one after another", "ns",
     .full = {5, 300}, .quick = {5, 60}, spawn_rows},
    {"spawn-10k", "10,000 live at once: each made, run to its yield, then to its end, freed", "ns",
     .full = {5, 500}, .quick = {5, 60}, spawn_rows},
    {"switch-copied", "one way, two coroutines in turn on one shared stack; fcontext: its plain switch", "ns",
     .full = {5, 300}, .quick = {5, 100}, copied_rows},
    {"rss-100k", "memory and page tables of each of 100,000 waiting in their first yield", "bytes",
     .full = {5, 0}, .quick = {5, 0}, rss_100k_rows},
    {"rss-1m", "memory and page tables of each of 1,000,000 waiting in their first yield", "bytes",
     .full = {5, 0}, .quick = {5, 0}, rss_1m_rows},
    {"nested", "one level of a chain of 100,000, each resumed by the one before", "ns",
     .full = {5, 500}, .quick = {5, 60}, nested_rows},
    {0},
};

static const struct bench_limit limits[] = {
    {"switch",        "weft",        "fcontext",           .limit = 0.75},
    {"switch",        "weft-static", "fcontext",           .limit = 0.6},
    {"switch",        "weft-fpenv",  "fcontext",           .limit = 1.5},
    {"spawn",         "weft",        "boost-pooled-fiber", .limit = 0.6},
    {"spawn-10k",     "weft",        "boost-pooled-fiber", .limit = 1.1},
    {"switch-copied", "weft",        "fcontext",           .limit = 2.2},
    {"rss-1m",        "weft",        NULL,                 .limit = 4800},
    {"rss-1m",        "weft-shared", NULL,                 .limit = 300},
    {0},
};
/* clang-format on */

int main(int argc, char **argv)
{
    static const struct bench_suite suite = {"bench-coro", benches, limits};
    return bench_main(argc, argv, &suite);
}
