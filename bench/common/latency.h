/*
 * latency.h: how often which latency came, in buckets that are 1/64 of their power of two wide.
 */
#ifndef BENCH_LATENCY_H
#define BENCH_LATENCY_H

#include <stdint.h>

#define LATENCY_FINE 64
#define LATENCY_BUCKETS (64 * LATENCY_FINE)

struct latency {
    uint64_t count;
    uint64_t buckets[LATENCY_BUCKETS];
};

/** The bucket of a latency: its power of two and the six bits below. */
static inline unsigned latency_bucket(uint64_t ns)
{
    unsigned power = ns < LATENCY_FINE ? 0 : 58 - (unsigned)__builtin_clzll(ns);
    return power * LATENCY_FINE + (unsigned)(ns >> power);
}

static inline void latency_add(struct latency *l, int64_t ns)
{
    l->count++;
    l->buckets[latency_bucket(ns > 0 ? (uint64_t)ns : 0)]++;
}

/** The latency, in us, that this part of all do not exceed. */
static inline double latency_at(const struct latency *l, double part)
{
    uint64_t below = 0;

    for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
        below += l->buckets[i];
        if (below > 0 && (double)below >= part * (double)l->count) {
            unsigned power = i < 2 * LATENCY_FINE ? 0 : i / LATENCY_FINE - 1;
            return (double)((uint64_t)(i - power * LATENCY_FINE) << power) / 1000;
        }
    }
    return 0;
}

#endif
