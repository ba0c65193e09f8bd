/*
 * base/clock.c: the real clock, and the injected one in builds with the test seam.
 */
#include "base/clock.h"

#include <time.h>

#ifdef WF_SEAM
static int64_t injected; /* atomic: tests set it while other threads read */

void wf_clock_set(int64_t ns)
{
    __atomic_store_n(&injected, ns, __ATOMIC_RELAXED);
}

bool wf_clock_is_set(void)
{
    return __atomic_load_n(&injected, __ATOMIC_RELAXED) != 0;
}
#endif

static inline int64_t read_real(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static inline int64_t read_clock(clockid_t clock)
{
#ifdef WF_SEAM
    int64_t shown = __atomic_load_n(&injected, __ATOMIC_RELAXED);
    if (shown != 0)
        return shown;
#endif
    return read_real(clock);
}

int64_t wf_clock_real(void)
{
    return read_real(CLOCK_MONOTONIC);
}

int64_t wf_clock_coarse(void)
{
    return read_clock(CLOCK_MONOTONIC_COARSE);
}

int64_t wf_clock_now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}
