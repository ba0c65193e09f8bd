/*
 * latency.h: percentiles of the latencies that a server has counted (weft_http_figures.latencies).
 */
#ifndef TOOL_LATENCY_H
#define TOOL_LATENCY_H

#include <weft/http.h>

/** The percentiles of a histogram, in us; negative if nothing was counted. */
struct latency {
    uint64_t count;
    double p50, p90, p99;
};

/**
 * The latencies that were counted after `before` (NULL: all of them). The server counts by powers of two. This call
 * assumes that the latencies within a power are spread evenly, so a percentile may be off by up to a factor of two.
 */
struct latency latency_between(const uint64_t before[WEFT_HTTP_LATENCIES], const uint64_t after[WEFT_HTTP_LATENCIES]);

#endif
