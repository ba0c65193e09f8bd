/*
 * child.c: see child.h.
 */
#include "child.h"

#include <dirent.h>
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

#define START_TIMEOUT_MS 10000
#define END_TIMEOUT_MS 5000
#define ARGS_MAX 8

static bool go_to_cpu(int cpu)
{
    cpu_set_t only;

    if (cpu < 0)
        return true;
    CPU_ZERO(&only);
    CPU_SET(cpu, &only);
    return sched_setaffinity(0, sizeof(only), &only) == 0;
}

/* Server programs end by SIGTERM: one that has started others ends those first. */
static void become_server(const struct child_order *order, int out)
{
    char *argv[ARGS_MAX + 2] = {(char *)order->program};

    for (size_t i = 0; i < ARGS_MAX && order->args[i]; i++)
        argv[1 + i] = (char *)order->args[i];
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && go_to_cpu(order->cpu) && dup2(out, STDOUT_FILENO) == STDOUT_FILENO)
        execv(order->program, argv);
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

/* The parent of a process; 0 if it has ended. */
static pid_t parent_of(pid_t process)
{
    char path[64], line[256];
    const char *end;
    int parent = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)process);
    f = fopen(path, "re");
    if (!f)
        return 0;
    /* "PID (NAME) STATE PARENT ...", and the name may have parentheses. */
    if (fgets(line, sizeof(line), f) && (end = strrchr(line, ')')))
        sscanf(end + 1, " %*c %d", &parent);
    fclose(f);
    return parent;
}

static bool is_among(pid_t process, const pid_t *pids, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (pids[i] == process)
            return true;
    return false;
}

/* Adds those whose parent is among them already. Returns the new count. */
static unsigned add_children(pid_t *pids, unsigned count, unsigned max)
{
    DIR *all = opendir("/proc");
    struct dirent *entry;

    if (!all)
        case_fail("/proc: %s", strerror(errno));
    while (count < max && (entry = readdir(all))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0 && !is_among(pid, pids, count) && is_among(parent_of(pid), pids, count))
            pids[count++] = pid;
    }
    closedir(all);
    return count;
}

unsigned child_family(pid_t process, pid_t *pids, unsigned max)
{
    unsigned count = 1, before;

    pids[0] = process;
    do {
        before = count;
        count = add_children(pids, count, max);
    } while (count > before && count < max);
    return count;
}

static void find_processes(struct child *child, pid_t first)
{
    child->processes = child_family(first, child->pids, CHILD_PROCESSES_MAX);
    if (child->processes == CHILD_PROCESSES_MAX)
        case_fail("the server has too many processes");
    for (unsigned i = 0; i < child->processes; i++)
        if (clock_getcpuclockid(child->pids[i], &child->clocks[i]) != 0)
            case_fail("the server's CPU time cannot be read");
}

void child_start(struct child *child, const struct child_order *order)
{
    char line[256], *rest;
    pid_t serving;
    int ends[2];

    if (pipe(ends) != 0 || (child->pid = fork()) < 0)
        case_fail("cannot start the server: %s", strerror(errno));
    if (child->pid == 0) {
        close(ends[0]);
        become_server(order, ends[1]);
    }
    close(ends[1]);
    read_line(ends[0], line, sizeof(line));
    close(ends[0]);
    if (!strncmp(line, "n/a ", 4))
        case_na("%s", line + 4);
    if (strncmp(line, "port ", 5) != 0)
        case_fail("the server says '%s'", line);
    child->port = (uint16_t)strtoul(line + 5, &rest, 10);
    serving = (pid_t)strtol(rest, NULL, 10);
    child->calls.threads = 0;
    find_processes(child, serving > 0 ? serving : child->pid);
}

int64_t child_cpu_ns(const struct child *child)
{
    int64_t sum = 0;

    for (unsigned i = 0; i < child->processes; i++) {
        struct timespec t;
        if (clock_gettime(child->clocks[i], &t) != 0)
            case_fail("the server's CPU time cannot be read: %s", strerror(errno));
        sum += t.tv_sec * 1000000000LL + t.tv_nsec;
    }
    return sum;
}

struct case_memory child_memory(const struct child *child)
{
    struct case_memory sum = {0};

    for (unsigned i = 0; i < child->processes; i++) {
        struct case_memory one = case_memory_of(child->pids[i]);
        sum.rss += one.rss;
        sum.pte += one.pte;
    }
    return sum;
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
    struct timespec moment = {.tv_nsec = 1000000};

    kill(child->pid, SIGTERM);
    for (int ms = 0; ms < END_TIMEOUT_MS; ms++) {
        if (waitpid(child->pid, NULL, WNOHANG) != 0)
            return;
        nanosleep(&moment, NULL);
    }
    kill(child->pid, SIGKILL);
    waitpid(child->pid, NULL, 0);
}

const char *child_prepare_counting(struct child *child)
{
    const char *why = calls_open(&child->calls, child->pids[0]);

    for (unsigned i = 1; !why && i < child->processes; i++)
        why = calls_add(&child->calls, child->pids[i]);
    return why;
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
