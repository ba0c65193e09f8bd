/*
 * fair.h: what the fair benches share in every library: the clock, the neighbour's computing, the spans, the lateness
 * and the answer.
 *
 * In fair-B a neighbour computes for B milliseconds and yields, again and again, while others wait on the same worker.
 * Each wait tells fair_late how late it was served. One system thread at a time may call fair_late. case_go/fair.go
 * has the same in Go.
 */
#ifndef BENCH_FAIR_H
#define BENCH_FAIR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Waits of a run; what comes after so many is not recorded. */
#define FAIR_MOST 100000

/** Takes B from the bench's name, "fair-B"; any other name leaves it at 0. Call it before case_main. */
void fair_open(int argc, char **argv);

/**
 * The time that is measured begins, and ends. Meanwhile `kept` counts the ms for which the kernel kept the calling
 * thread, and all threads of process `server` if that is not 0, waiting for a CPU. If they are many the machine was not
 * quiet, and some of the lateness is the machine's. The same thread calls both; several such times add up.
 */
void fair_begin(pid_t server);
void fair_end(pid_t server);

/** CLOCK_MONOTONIC, in ns. */
int64_t fair_now(void);

/** One turn of the neighbour: computes for B. */
void fair_compute(void);

/** The next span to wait for, in us: 1 ms and up to B, so that waits end in every part of a turn. */
int64_t fair_span_us(void);

/** Records that a wait was served `ns` after its time. */
void fair_late(int64_t ns);

/** The worst lateness so far, in ns. */
int64_t fair_worst(void);

/**
 * Answers with the worst lateness in us; p50, p99, the number of waits and `kept` are parameters. Fails if nothing was
 * recorded, or if something was early and `early_is_error`. `more` is "" or further parameters, "KEY=VALUE ...".
 */
void fair_answer(bool early_is_error, const char *more);

#ifdef __cplusplus
}
#endif

#endif
