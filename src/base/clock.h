/*
 * base/clock.h: the one place that asks what time it is.
 */
#ifndef WF_BASE_CLOCK_H
#define WF_BASE_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC in ns, some milliseconds coarse and cheap. */
int64_t wf_clock_coarse(void);

#ifdef WF_SEAM
/* Tests: from now on the clock shows `ns`; 0 gives the real one back. */
void wf_clock_set(int64_t ns);
#endif

#endif
