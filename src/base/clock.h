/*
 * base/clock.h: the one place that asks what time it is.
 */
#ifndef WF_BASE_CLOCK_H
#define WF_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* CLOCK_MONOTONIC in ns, some milliseconds coarse and cheap. */
int64_t wf_clock_coarse(void);

/* CLOCK_MONOTONIC in ns. */
int64_t wf_clock_now(void);

/* The same, whatever a test has set: for waiting in the kernel. */
int64_t wf_clock_real(void);

#ifdef WF_SEAM
/* Whether a test has set the clock: it stands still, and nothing comes by waiting. */
bool wf_clock_is_set(void);

/* Tests: from now on the clock shows `ns`; 0 gives the real one back. */
void wf_clock_set(int64_t ns);
#endif

#endif
