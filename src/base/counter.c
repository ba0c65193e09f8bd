/*
 * base/counter.c: see counter.h.
 */
#include "base/counter.h"

#define LEAST_NS ((int64_t)500000) /* a shorter measurement says little */

void wf_span_measure(struct wf_span_counted *s, int64_t span)
{
    uint64_t count = wf_counter();
    int64_t now = wf_clock_real(), passed = now - s->begun;
    if (passed < LEAST_NS)
        return;
    double units = (double)(count - s->begun_count) * (double)span / (double)passed;
    if (count > s->begun_count &&
        units < (double)(UINT64_MAX / 2)) /* else it was set back: a machine that was asleep */
        s->units = units < 1 ? 1 : (uint64_t)units;
    s->begun_count = count;
    s->begun = now;
}
