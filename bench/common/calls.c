/*
 * calls.c: see calls.h.
 */
#include "calls.h"

#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char no_trace_points[] = "no_trace_points", no_such_process[] = "no_such_process";

/* The kernel's number for the event of any system call's start, or -1. */
static long long event_id(void)
{
    static const char *const places[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
    long long id = -1;

    for (size_t i = 0; id < 0 && i < sizeof(places) / sizeof(places[0]); i++) {
        char path[128];
        FILE *f;
        snprintf(path, sizeof(path), "%s/events/raw_syscalls/sys_enter/id", places[i]);
        f = fopen(path, "re");
        if (!f)
            continue;
        if (fscanf(f, "%lld", &id) != 1)
            id = -1;
        fclose(f);
    }
    return id;
}

/* Also true for a thread that has just ended. */
static bool count_thread(struct calls *calls, struct perf_event_attr *attr, pid_t thread)
{
    int fd = (int)syscall(SYS_perf_event_open, attr, thread, -1, -1, PERF_FLAG_FD_CLOEXEC);

    if (fd < 0)
        return errno == ESRCH;
    if (calls->threads == CALLS_THREADS_MAX) {
        close(fd);
        return false;
    }
    calls->counters[calls->threads++] = fd;
    return true;
}

const char *calls_open(struct calls *calls, pid_t process)
{
    calls->threads = 0;
    return calls_add(calls, process);
}

const char *calls_add(struct calls *calls, pid_t process)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_TRACEPOINT, .size = sizeof(attr), .disabled = 1, .inherit = 1};
    long long id = event_id();
    bool all = true;
    char path[64];
    struct dirent *entry;
    DIR *tasks;

    if (id < 0)
        return no_trace_points;
    attr.config = (uint64_t)id;
    snprintf(path, sizeof(path), "/proc/%d/task", (int)process);
    tasks = opendir(path);
    if (!tasks) {
        calls_close(calls);
        return no_such_process;
    }
    while (all && (entry = readdir(tasks)))
        if (entry->d_name[0] != '.')
            all = count_thread(calls, &attr, (pid_t)strtol(entry->d_name, NULL, 10));
    closedir(tasks);
    if (all && calls->threads > 0)
        return NULL;
    calls_close(calls);
    return "perf_event_open_fails";
}

const char *calls_explain(const char *word)
{
    if (word == no_trace_points)
        return "the kernel has no trace points, or tracefs is not mounted";
    if (word == no_such_process)
        return "the process has ended";
    return "the kernel does not let this user count them (root may, as a rule)";
}

void calls_start(const struct calls *calls)
{
    for (unsigned i = 0; i < calls->threads; i++)
        ioctl(calls->counters[i], PERF_EVENT_IOC_ENABLE, 0);
}

bool calls_read(const struct calls *calls, uint64_t *count)
{
    uint64_t sum = 0, one;

    for (unsigned i = 0; i < calls->threads; i++) {
        if (read(calls->counters[i], &one, sizeof(one)) != (ssize_t)sizeof(one))
            return false;
        sum += one;
    }
    *count = sum;
    return true;
}

void calls_close(struct calls *calls)
{
    for (unsigned i = 0; i < calls->threads; i++)
        close(calls->counters[i]);
    calls->threads = 0;
}
