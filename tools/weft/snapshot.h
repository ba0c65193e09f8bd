/*
 * snapshot.h: figures as JSON. The section "THE STATUS PAGE" of weft(1) lists the fields.
 */
#ifndef TOOL_SNAPSHOT_H
#define TOOL_SNAPSHOT_H

#include "figures.h"

/** One line of JSON: `now`, and what has changed since `before`. Free it by free(3); NULL: no memory. */
char *snapshot_text(const struct figures *before, const struct figures *now);

/** The values of one second that the charts need. */
struct point {
    int64_t clock_ms;
    double requests; /* a second */
    double p50, p99; /* us; negative: there were no requests */
    unsigned connections;
    size_t fibers;
    double memory;  /* bytes */
    double in, out; /* bytes a second */
    float loads[];  /* of each worker, from 0 to 1 */
};

/** Fills a point that has room for the load of each worker. */
void point_take(struct point *p, const struct figures *before, const struct figures *now);

/** Writes a point as a JSON array: its fields in their order, the loads as an array in it. */
void point_print(FILE *to, const struct point *p, size_t workers);

#endif
