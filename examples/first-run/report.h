/*
 * report.h: the output of the first run: a line for each second, and a summary.
 */
#ifndef FIRST_RUN_REPORT_H
#define FIRST_RUN_REPORT_H

#include <stdint.h>

#include <weft/time.h>

#include "../../bench/common/latency.h"
#include "server.h"

/* The figures of one moment. Counts are from the beginning. */
struct sample {
    weft_time at;
    uint64_t answers;
    uint64_t calls; /* system calls of the server; UINT64_MAX: not known */
    unsigned fibers;
    double memory;
    struct latency latencies;
};

/** Prints the names of the columns. */
void report_names(void);

/** Prints the line of a second: the change between two samples. */
void report_second(unsigned second, const struct sample *before, const struct sample *now);

/** Prints the summary. `no_calls`: why system calls were not counted, a word of calls_open; or NULL. */
void report_summary(const struct sample *first, const struct sample *last, unsigned connections,
                    const struct server *server, const char *no_calls);

#endif
