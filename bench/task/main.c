/*
 * main.c: bench-task, what scopes, their cancel and tasks cost: the tables of its benches, libraries and limits.
 */
#include "../common/bench.h"

#define SYNC "golang-golang-x-sync-dev"

/* clang-format off */
static const struct bench_row spawn_rows[] = {
    {.library = "weft", .program = "bench-task-weft"},
    {.library = "go",   .program = "bench-task-go",   .package = "golang-go"},
    {0},
};

/* The yardsticks run in the same rounds as what is compared with them. */
static const struct bench_row scope_rows[] = {
    {.library = "weft",            .program = "bench-task-weft"},
    {.library = "weft-spawn-join", .program = "bench-task-weft"},
    {.library = "weft-join-all",   .program = "bench-task-weft"},
    {.library = "go-errgroup",     .program = "bench-task-go-errgroup", .package = SYNC},
    {.library = "go-waitgroup",    .program = "bench-task-go",          .package = "golang-go"},
    {0},
};

static const struct bench_row scope_2_rows[] = {
    {.library = "weft",          .program = "bench-task-weft"},
    {.library = "weft-join-all", .program = "bench-task-weft"},
    {.library = "go-errgroup",   .program = "bench-task-go-errgroup", .package = SYNC},
    {.library = "go-waitgroup",  .program = "bench-task-go",          .package = "golang-go"},
    {0},
};

static const struct bench_row deadline_rows[] = {
    {.library = "weft",             .program = "bench-task-weft"},
    {.library = "weft-no-deadline", .program = "bench-task-weft"},
    {.library = "go-errgroup",      .program = "bench-task-go-errgroup", .package = SYNC},
    {.library = "go-no-deadline",   .program = "bench-task-go-errgroup", .package = SYNC},
    {0},
};

static const struct bench_row cancel_rows[] = {
    {.library = "weft",       .program = "bench-task-weft"},
    {.library = "weft-event", .program = "bench-task-weft"},
    {.library = "go-context", .program = "bench-task-go",   .package = "golang-go"},
    {0},
};

static const struct bench_row task_rows[] = {
    {.library = "weft",            .program = "bench-task-weft"},
    {.library = "weft-spawn-join", .program = "bench-task-weft"},
    {.library = "go-future",       .program = "bench-task-go",   .package = "golang-go"},
    {0},
};

static const struct bench_row task_2_rows[] = {
    {.library = "weft",      .program = "bench-task-weft"},
    {.library = "go-future", .program = "bench-task-go",   .package = "golang-go"},
    {0},
};

static const struct bench benches[] = {
    {"spawn-join", "spawned and joined, one after another", "ns",
     .full = {7, 300}, .quick = {5, 60}, spawn_rows},
    {"scope-1000", "one child of a scope: opened, 1,000 children started, waited for, closed; one worker", "ns",
     .full = {7, 300}, .quick = {5, 60}, scope_rows},
    {"scope-1000-2", "the same with two workers", "ns",
     .full = {7, 300}, .quick = {5, 60}, scope_2_rows},
    {"scope-deadline", "a scope of one child, with a deadline that is not reached", "ns",
     .full = {7, 300}, .quick = {5, 60}, deadline_rows},
    {"cancel-1000", "one child of a scope of 1,000 that wait: from the cancel until the close has returned", "ns",
     .full = {7, 300}, .quick = {5, 60}, cancel_rows},
    {"task-await", "a task started, awaited, its value taken, freed; one worker", "ns",
     .full = {7, 300}, .quick = {5, 60}, task_rows},
    {"task-await-2", "the same with two workers", "ns",
     .full = {7, 300}, .quick = {5, 60}, task_2_rows},
    {0},
};

static const struct bench_limit limits[] = {
    {"scope-1000", "weft", "weft-spawn-join", .limit = 1.3},
    {"scope-1000", "weft", "go-errgroup",     .limit = 0.5},
    {"task-await", "weft", "weft-spawn-join", .limit = 1.5},
    {"task-await", "weft", "go-future",       .limit = 0.5},
    {0},
};
/* clang-format on */

int main(int argc, char **argv)
{
    static const struct bench_suite suite = {"bench-task", benches, limits};
    return bench_main(argc, argv, &suite);
}
