/*
 * result.h: what the driver keeps of a row, how a run adds to it, how it is reported. Internal to bench/common.
 */
#ifndef BENCH_RESULT_H
#define BENCH_RESULT_H

#include "bench.h"

#include <stdio.h>

enum result_state {
    RESULT_OK,
    RESULT_NA,    /* the library cannot do it, or is not here: `text` says why */
    RESULT_FAILED /* a check failed, or the case program broke: `text` says how */
};

/** The runs of one library in one bench. */
struct result {
    enum result_state state;
    double values[BENCH_RUNS_MAX]; /* one a run; sorted by result_sort */
    unsigned runs;
    double seconds; /* that the runs took */
    char text[256]; /* the reason; while RESULT_OK, the parameters of the last run as "KEY=VALUE ..." */
};

/** Starts the row's case program once and adds what it answers. */
void result_run(struct result *r, const struct bench *bench, const struct bench_row *row, double budget_ms);

void result_sort(struct result *r);
double result_median(const struct result *r); /* of a sorted result with at least one run */
double result_min(const struct result *r);

/** The result of a library of the bench, or NULL if there is no such row or it has no figure. */
const struct result *result_find(const struct bench *bench, const struct result *results, const char *library);

/** Prints the bench's table. */
void report_table(const struct bench *bench, const struct result *results);

/** Writes a line of JSON for each row. */
void report_json(FILE *f, const struct bench *bench, const struct result *results);

/** Prints a line for a limit and how it was met; of what it compares, `r` or `reference` is NULL if it has no figure. */
void report_limit(const struct bench_limit *limit, const char *unit, const struct result *r,
                  const struct result *reference);

#endif
