/*
 * base/cpus.c: see cpus.h. What cannot be read does not limit.
 */
#include "base/cpus.h"
#include "base/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 65536 /* CPUs that a mask is made for */

static unsigned by_affinity(void)
{
    for (int most = 1024; most <= MOST; most *= 2) {
        cpu_set_t *set = CPU_ALLOC(most);
        size_t size = CPU_ALLOC_SIZE(most);
        if (!set)
            break;
        int rc = sched_getaffinity(0, size, set);
        int count = rc == 0 ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (count > 0)
            return (unsigned)count;
    }
    return 1;
}

static int read_text(const char *path, char *text, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = wf_raw_read(fd, text, room - 1);
    wf_raw_close(fd);
    if (n < 0)
        return -1;
    text[n] = '\0';
    return 0;
}

static unsigned of_quota(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return UINT_MAX;
    return (unsigned)((quota + period - 1) / period);
}

/* "max 100000" or "150000 100000", in every folder from ours up to the root. */
static unsigned by_quota_2(char *path)
{
    unsigned least = UINT_MAX;
    for (;;) {
        char file[600], text[64];
        long long quota, period;
        snprintf(file, sizeof file, "/sys/fs/cgroup%s/cpu.max", path);
        if (read_text(file, text, sizeof text) == 0 && sscanf(text, "%lld %lld", &quota, &period) == 2) {
            unsigned here = of_quota(quota, period);
            least = here < least ? here : least;
        }
        char *slash = strrchr(path, '/');
        if (!slash || path[0] == '\0')
            return least;
        *slash = '\0';
    }
}

static unsigned by_quota_1(void)
{
    char quota[64], period[64];
    if (read_text("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota, sizeof quota) != 0 ||
        read_text("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof period) != 0)
        return UINT_MAX;
    return of_quota(atoll(quota), atoll(period));
}

static unsigned by_quota(void)
{
    char text[4096], path[512] = "";
    if (read_text("/proc/self/cgroup", text, sizeof text) == 0) {
        char *line = strstr(text, "0::");
        if (line && (line == text || line[-1] == '\n'))
            sscanf(line, "0::%511[^\n]", path);
    }
    unsigned two = by_quota_2(path), one = by_quota_1();
    return two < one ? two : one;
}

unsigned wf_cpus(void)
{
    int kept = errno;
    unsigned cpus = by_affinity(), quota = by_quota();
    errno = kept;
    return quota < cpus ? quota : cpus;
}
