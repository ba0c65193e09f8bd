/*
 * base/futex.h: sleeping on a word. errno is left as it was.
 */
#ifndef WF_BASE_FUTEX_H
#define WF_BASE_FUTEX_H

#include <stdint.h>

/*
 * Sleeps while *word is `value`, until a wake, a signal or `deadline` (ns of CLOCK_MONOTONIC, INT64_MAX: never). Returns
 * 0 or -ETIMEDOUT; 0 promises nothing, look again.
 */
int wf_futex_wait(const uint32_t *word, uint32_t value, int64_t deadline);

/* Wakes up to `count` sleepers. The word's memory need not be there any more. */
void wf_futex_wake(const uint32_t *word, int count);

#endif
