/*
 * bench.h: the driver that every bench-NAME program is made of. Its main file holds tables and calls bench_main.
 *
 * A measurement is one short run of a case program (see case.h), which lies beside the bench program. The driver runs
 * the libraries of a bench in turn, round after round, so that whatever else the machine does meets all of them; it
 * reports the median and the least of the rounds, and of further figures of the same runs the median.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>

/** How big the tables may be. */
#define BENCH_BENCHES_MAX 32
#define BENCH_ROWS_MAX 16
#define BENCH_RUNS_MAX 32
#define BENCH_FIGURES_MAX 8

/** One library in a bench: a row of its table. The others are compared with the first. */
struct bench_row {
    const char *library;
    const char *program; /* the case program's file name */
    const char *through; /* a program that is started instead, with the case program's path as its fourth argument */
    const char *package; /* Debian package that it needs; NULL: it must be there */
    bool slow;           /* left out of --quick */
};

/** How long a bench takes. */
struct bench_effort {
    unsigned runs;    /* at most: a library that is slow is not run again when it has had its share of time */
    double budget_ms; /* of one run; a bench that does a fixed amount of work takes no notice of it */
};

/** What a run measures beside its one figure: a parameter of its answer, of which a median is shown as well. */
struct bench_figure {
    const char *key;
    const char *unit;
    int decimals;
};

struct bench {
    const char *name;
    const char *title; /* what one figure is */
    const char *unit;
    struct bench_effort full, quick;
    const struct bench_row *rows;       /* ends with a row without a library */
    const struct bench_figure *figures; /* further ones; ends with one without a key; NULL: none */
};

/**
 * A promise: the median of `library` in `bench`, divided by that of `reference` if it has one, is at most `limit`.
 * Either may be "ONE|OTHER": the library whose median in the bench is the lower.
 */
struct bench_limit {
    const char *bench;
    const char *library;
    const char *reference; /* a library of the same bench, or "BENCH: LIBRARY"; NULL: the figure itself is judged */
    double limit;
    const char *figure; /* the key of a further figure; NULL: the one figure of the bench */
    bool at_least;      /* the limit is a lower one */
    bool must;          /* it says whether the bench measures what it should: one that is missed fails the bench */
};

struct bench_suite {
    const char *name;                 /* of the program */
    const struct bench *benches;      /* ends with one without a name */
    const struct bench_limit *limits; /* ends with one without a bench */
};

/**
 * Runs what the command line asks for. Returns the exit status: 0; 1 a check failed or a file could not be written;
 * 2 the command line was wrong. A limit that is missed is reported and does not count, unless it says `must`.
 */
int bench_main(int argc, char **argv, const struct bench_suite *suite);

#endif
