/*
 * base/counter.h: the processor's time counter. It is cheaper to read than the clock, and has a rate of its own. It
 * tells only roughly how much time has passed. A caller reads the clock once the counter says that enough has passed.
 */
#ifndef WF_BASE_COUNTER_H
#define WF_BASE_COUNTER_H

#include <stdint.h>

#include "base/clock.h"

static inline uint64_t wf_counter(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t count;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
    return count;
#elif defined(__riscv) && __riscv_xlen == 64
    uint64_t count;
    __asm__ volatile("rdtime %0" : "=r"(count));
    return count;
#else
    return (uint64_t)wf_clock_real();
#endif
}

/* The length of a time span in units of the counter, measured again and again. owner: the worker that uses it */
struct wf_span_counted {
    uint64_t units;       /* the length of the span */
    uint64_t begun_count; /* the counter and the clock when the measurement began */
    int64_t begun;
};

/* No counter has fewer units in a millisecond: until the first measurement the span is too short, not too long. */
#if defined(__x86_64__)
#define WF_COUNTER_LEAST_PER_MS 1000000
#else
#define WF_COUNTER_LEAST_PER_MS 1000
#endif

static inline void wf_span_begin(struct wf_span_counted *s, int64_t span)
{
    *s = (struct wf_span_counted){.units = (uint64_t)((double)span * WF_COUNTER_LEAST_PER_MS / 1e6),
                                  .begun_count = wf_counter(),
                                  .begun = wf_clock_real()};
}

/* Measures the span, and begins the next measurement. Call it now and then, milliseconds apart. */
void wf_span_measure(struct wf_span_counted *s, int64_t span);

#endif
