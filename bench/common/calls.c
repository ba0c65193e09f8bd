/*
 * calls.c: see calls.h.
 */
#include "calls.h"

#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char no_trace_points[] = "no_trace_points", no_such_process[] = "no_such_process";

#define TRACEFS "/sys/kernel/tracing"

/* The kernel's number for the event of any system call's start, or -1. */
static long long event_id_in(const char *tracefs)
{
    char path[128];
    long long id = -1;
    FILE *f;

    snprintf(path, sizeof(path), "%s/events/raw_syscalls/sys_enter/id", tracefs);
    f = fopen(path, "re");
    if (!f)
        return -1;
    if (fscanf(f, "%lld", &id) != 1)
        id = -1;
    fclose(f);
    return id;
}

/* A thread with mounts of its own, which end with it: nobody else sees that tracefs is mounted. */
static void *ask_in_private(void *arg)
{
    long long *id = arg;

    if (unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        mount("tracefs", TRACEFS, "tracefs", 0, NULL) == 0)
        *id = event_id_in(TRACEFS);
    return NULL;
}

/* Where tracefs is not mounted, root can still ask. */
static long long event_id(void)
{
    long long id = event_id_in(TRACEFS);
    pthread_t thread;

    if (id < 0)
        id = event_id_in("/sys/kernel/debug/tracing");
    if (id < 0 && geteuid() == 0 && pthread_create(&thread, NULL, ask_in_private, &id) == 0)
        pthread_join(thread, NULL);
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
        return "the kernel has no trace points, or this user may not look at them";
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
