/*
 * latency.c: see latency.h.
 */
#include "latency.h"

/* The time that `part` of the `count` latencies do not exceed. */
static double at(const uint64_t counts[], uint64_t count, double part)
{
    double rank = part * (double)count, below = 0;
    for (unsigned i = 0; i < WEFT_HTTP_LATENCIES; i++) {
        double here = (double)counts[i];
        if (here > 0 && below + here >= rank) {
            double from = i == 0 ? 0 : (double)(UINT64_C(1) << (i - 1)), to = (double)(UINT64_C(1) << i);
            return from + (to - from) * (rank - below) / here;
        }
        below += here;
    }
    return -1;
}

struct latency latency_between(const uint64_t before[WEFT_HTTP_LATENCIES], const uint64_t after[WEFT_HTTP_LATENCIES])
{
    uint64_t counts[WEFT_HTTP_LATENCIES];
    struct latency l = {.count = 0};
    for (unsigned i = 0; i < WEFT_HTTP_LATENCIES; i++) {
        counts[i] = after[i] - (before ? before[i] : 0);
        l.count += counts[i];
    }
    l.p50 = at(counts, l.count, 0.50);
    l.p90 = at(counts, l.count, 0.90);
    l.p99 = at(counts, l.count, 0.99);
    return l;
}
