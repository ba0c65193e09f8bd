/*
 * figures.h: what the server, its scheduler and its process are doing at one moment.
 */
#ifndef TOOL_FIGURES_H
#define TOOL_FIGURES_H

#include <weft/http.h>
#include <weft/offload.h>
#include <weft/sched.h>
#include <weft/stack.h>

#include "latency.h"

struct worker_figures {
    int thread; /* its id; negative if there is none */
    double cpu; /* seconds of CPU time so far */
};

struct figures {
    weft_time at;
    int64_t clock_ms; /* the time of day, as JavaScript counts it */
    weft_http_figures http;
    weft_sched_figures sched;
    weft_stack_figures stacks;
    weft_offload_figures helpers;
    uint64_t resident, page_tables; /* bytes */
    size_t worker_count;
    struct worker_figures workers[];
};

/** Memory for the figures of the calling fiber's scheduler, all zero. NULL: no memory. Free it by free(3). */
struct figures *figures_new(void);

/** Takes the figures. Call it in a fiber. */
void figures_take(struct figures *f, const weft_http *h);

/** The CPU time of a worker between two figures, as a part of the time between them: from 0 to 1. */
double figures_load(const struct figures *before, const struct figures *now, size_t worker);

/** The change per second of a count that is `before` in `f` and `now` in `g`. */
double figures_rate(const struct figures *f, uint64_t before, const struct figures *g, uint64_t now);

#endif
