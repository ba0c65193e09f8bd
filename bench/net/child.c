/*
 * child.c: see child.h.
 */
#include "child.h"

#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/case.h"

#define START_TIMEOUT_MS 10000

static bool go_to_cpu(int cpu)
{
    cpu_set_t only;

    if (cpu < 0)
        return true;
    CPU_ZERO(&only);
    CPU_SET(cpu, &only);
    return sched_setaffinity(0, sizeof(only), &only) == 0;
}

static void become_server(const struct child_order *order, int out)
{
    char bytes[32], workers[32];
    const char *more = order->workers > 0 ? workers : NULL;

    snprintf(bytes, sizeof(bytes), "%zu", order->bytes);
    snprintf(workers, sizeof(workers), "%u", order->workers);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && go_to_cpu(order->cpu) && dup2(out, STDOUT_FILENO) == STDOUT_FILENO)
        execl(order->program, order->program, order->library, bytes, more, order->handler, (char *)NULL);
    _exit(127);
}

static void read_line(int fd, char *line, size_t size)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    size_t got = 0;
    ssize_t n;

    do {
        if (poll(&p, 1, START_TIMEOUT_MS) <= 0)
            case_fail("the server says nothing");
        n = read(fd, line + got, size - 1 - got);
        if (n <= 0)
            case_fail("the server did not start");
        got += (size_t)n;
    } while (line[got - 1] != '\n' && got < size - 1);
    line[got - 1] = '\0';
}

void child_start(struct child *child, const struct child_order *order)
{
    char line[256];
    int ends[2];

    if (pipe(ends) != 0 || (child->pid = fork()) < 0)
        case_fail("cannot start the server: %s", strerror(errno));
    if (child->pid == 0)
        become_server(order, ends[1]);
    close(ends[1]);
    read_line(ends[0], line, sizeof(line));
    close(ends[0]);
    if (!strncmp(line, "n/a ", 4))
        case_na("%s", line + 4);
    if (strncmp(line, "port ", 5) != 0)
        case_fail("the server says '%s'", line);
    child->port = (uint16_t)strtoul(line + 5, NULL, 10);
    child->threads = 0;
    if (clock_getcpuclockid(child->pid, &child->clock) != 0)
        case_fail("the server's CPU time cannot be read");
}

int64_t child_cpu_ns(const struct child *child)
{
    struct timespec t;

    if (clock_gettime(child->clock, &t) != 0)
        case_fail("the server's CPU time cannot be read: %s", strerror(errno));
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

void child_check(const struct child *child)
{
    int status;

    if (waitpid(child->pid, &status, WNOHANG) == 0)
        return;
    if (WIFSIGNALED(status))
        case_fail("the server was killed by signal %d", WTERMSIG(status));
    case_fail("the server ended by itself, with status %d", WEXITSTATUS(status));
}

void child_end(const struct child *child)
{
    kill(child->pid, SIGKILL);
    waitpid(child->pid, NULL, 0);
}

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

static void count_thread(struct child *child, struct perf_event_attr *attr, pid_t thread)
{
    int fd = (int)syscall(SYS_perf_event_open, attr, thread, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd >= 0)
        child->counters[child->threads++] = fd;
}

const char *child_prepare_counting(struct child *child)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_TRACEPOINT, .size = sizeof(attr), .disabled = 1, .inherit = 1};
    long long id = event_id();
    char path[64];
    struct dirent *entry;
    DIR *tasks;

    if (id < 0)
        return "no_trace_points";
    attr.config = (uint64_t)id;
    snprintf(path, sizeof(path), "/proc/%d/task", (int)child->pid);
    tasks = opendir(path);
    if (!tasks)
        case_fail("no %s", path);
    while ((entry = readdir(tasks)) && child->threads < CHILD_THREADS_MAX)
        if (entry->d_name[0] != '.')
            count_thread(child, &attr, (pid_t)strtol(entry->d_name, NULL, 10));
    closedir(tasks);
    if (child->threads == 0)
        return "perf_event_open_fails";
    return NULL;
}

void child_count_calls(const struct child *child)
{
    for (unsigned i = 0; i < child->threads; i++)
        ioctl(child->counters[i], PERF_EVENT_IOC_ENABLE, 0);
}

uint64_t child_calls(struct child *child)
{
    uint64_t sum = 0, count;

    for (unsigned i = 0; i < child->threads; i++) {
        if (read(child->counters[i], &count, sizeof(count)) != (ssize_t)sizeof(count))
            case_fail("the counter of system calls cannot be read");
        sum += count;
        close(child->counters[i]);
    }
    child->threads = 0;
    return sum;
}
