/*
 * base/barrier.c: see barrier.h.
 */
#include "base/barrier.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/plain.h"

bool wf_barrier_is_asymmetric;

static bool announce(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

static void init(void)
{
    int kept = errno;
    long has = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    wf_barrier_is_asymmetric = has > 0 && (has & MEMBARRIER_CMD_PRIVATE_EXPEDITED) && announce();
    errno = kept;
}

void wf_barrier_in_child(void)
{
    int kept = errno;
    wf_barrier_is_asymmetric = wf_barrier_is_asymmetric && announce();
    errno = kept;
}

void wf_barrier_init(void)
{
    static struct wf_plain_once once;
    wf_plain_once(&once, init);
}

void wf_barrier_heavy(void)
{
    wf_fence();
    if (wf_barrier_is_asymmetric) {
        int kept = errno;
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
        errno = kept;
    }
}
