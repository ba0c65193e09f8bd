/*
 * base/futex.c: see futex.h.
 */
#include "base/futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int wf_futex_wait(const uint32_t *word, uint32_t value, int64_t deadline)
{
    int kept = errno;
    if (deadline < 0)
        deadline = 0;
    struct timespec at = {.tv_sec = deadline / 1000000000, .tv_nsec = deadline % 1000000000};
    long rc = syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, deadline == INT64_MAX ? NULL : &at, NULL,
                      FUTEX_BITSET_MATCH_ANY);
    int result = rc != 0 && errno == ETIMEDOUT ? -ETIMEDOUT : 0;
    errno = kept;
    return result;
}

void wf_futex_wake(const uint32_t *word, int count)
{
    int kept = errno;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
    errno = kept;
}
