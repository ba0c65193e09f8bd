/*
 * result.h: what the driver keeps of a row, how a run adds to it, how it is reported. Internal to bench/common.
 */
#ifndef BENCH_RESULT_H
#define BENCH_RESULT_H

#include "bench.h"

#include <stdio.h>

enum result_state {
    RESULT_OK,
    RESULT_UNASKED, /* the command line leaves it out: it is not shown */
    RESULT_NA,      /* the library cannot do it, or is not here: `text` says why */
    RESULT_FAILED   /* a check failed, or the case program broke: `text` says how */
};

/** One figure over the runs. */
struct series {
    double values[BENCH_RUNS_MAX]; /* one a run that has it; sorted by result_sort */
    unsigned count;
};

/** The runs of one library in one bench. */
struct result {
    enum result_state state;
    struct series
        series[1 + BENCH_FIGURES_MAX]; /* the figure of the bench, which every run has; then the further ones */
    double seconds;                    /* that the runs took */
    char text[256]; /* the reason; while RESULT_OK, the parameters of the last run as "KEY=VALUE ..." */
};

/** Starts the row's case program once and adds what it answers. */
void result_run(struct result *r, const struct bench *bench, const struct bench_row *row, double budget_ms);

void result_sort(struct result *r);
double series_median(const struct series *s); /* of a sorted series that is not empty */
double series_min(const struct series *s);

/**
 * A figure (NULL: that of the bench) of a library of the bench, or of the faster of two ("ONE|OTHER"). NULL if there is
 * no such row or it has no such figure.
 */
const struct series *result_find(const struct bench *bench, const struct result *results, const char *library,
                                 const char *figure);

/** Prints the bench's table. */
void report_table(const struct bench *bench, const struct result *results);

/** Writes a line of JSON for each row. */
void report_json(FILE *f, const struct bench *bench, const struct result *results);

/**
 * Prints a line for a limit of this bench and how it was met; of what it compares, `s` or `reference` is NULL if it has no
 * figure. Returns false if it was missed.
 */
bool report_limit(const struct bench_limit *limit, const struct bench *bench, const struct series *s,
                  const struct series *reference);

#endif
