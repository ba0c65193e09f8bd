/*
 * child.c: see child.h.
 */
#include "child.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
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

int child_share_cpus(void)
{
    cpu_set_t all, only;
    int first = -1;

    sched_getaffinity(0, sizeof(all), &all);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all))
            continue;
        if (first < 0) {
            first = cpu;
            continue;
        }
        CPU_ZERO(&only);
        CPU_SET(first, &only);
        if (sched_setaffinity(0, sizeof(only), &only) != 0)
            case_fail("sched_setaffinity: %s", strerror(errno));
        return cpu;
    }
    case_na("the server and the load need a CPU each");
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
    child->calls.threads = 0;
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

const char *child_prepare_counting(struct child *child)
{
    return calls_open(&child->calls, child->pid);
}

void child_count_calls(const struct child *child)
{
    calls_start(&child->calls);
}

uint64_t child_calls(struct child *child)
{
    uint64_t count;

    if (!calls_read(&child->calls, &count))
        case_fail("the counter of system calls cannot be read");
    calls_close(&child->calls);
    return count;
}
