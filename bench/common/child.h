/*
 * child.h: a server as its load generator sees it: a child process, on a CPU of its own or on all, and what it uses.
 *
 * A server prints one line when it can be connected to: "port NUMBER [PID]", or "n/a REASON" if it cannot run here. PID
 * is the process that serves, if that is not the child itself but a program that the child has started. What is read of
 * a server is the sum over the process that serves and all its descendants.
 */
#ifndef BENCH_CHILD_H
#define BENCH_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "calls.h"
#include "case.h"

#define CHILD_PROCESSES_MAX 16

struct child {
    pid_t pid; /* what child_start has started */
    uint16_t port;
    unsigned processes; /* that serve */
    pid_t pids[CHILD_PROCESSES_MAX];
    clockid_t clocks[CHILD_PROCESSES_MAX]; /* of their CPU time, all threads: what getrusage says, to the nanosecond */
    struct calls calls;                    /* while they are counted */
};

/** What to start. */
struct child_order {
    const char *program;
    const char *const *args; /* after the program's name; ends with NULL */
    int cpu;                 /* what it may use; -1: all */
};

/** Binds this process to the first CPU that it may use, and returns the second, for the server; n/a if there is none. */
int child_share_cpus(void);

/** Starts a server and waits until it can be connected to; where it says n/a, so does this process, with which it dies. */
void child_start(struct child *child, const struct child_order *order);

/** Writes a process and its descendants, at most `max`, into `pids`. Returns how many there are now. */
unsigned child_family(pid_t process, pid_t *pids, unsigned max);

/** User and system time so far. */
int64_t child_cpu_ns(const struct child *child);

/** What it occupies. Pages that its processes share are counted in each of them. */
struct case_memory child_memory(const struct child *child);

/** Fails if it has ended by itself. */
void child_check(const struct child *child);

/** Ends it by SIGTERM, or by SIGKILL if that does not help, and waits for its end. */
void child_end(const struct child *child);

/**
 * Prepares to count its system calls, which takes a while. All of the machine's become slower by that, so from now on is no
 * time to measure time. Returns NULL, or why it cannot be done.
 */
const char *child_prepare_counting(struct child *child);

/** Counts from now on. */
void child_count_calls(const struct child *child);

/** How many there were. Ends the counting. */
uint64_t child_calls(struct child *child);

#endif
