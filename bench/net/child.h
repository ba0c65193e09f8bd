/*
 * child.h: a server as the load generator sees it: a child process, on a CPU of its own or on all, and what it uses.
 */
#ifndef BENCH_CHILD_H
#define BENCH_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "../common/calls.h"

struct child {
    pid_t pid;
    uint16_t port;
    clockid_t clock;    /* of its CPU time, all threads: what getrusage says, to the nanosecond */
    struct calls calls; /* while they are counted */
};

/** What to start; see server.h. */
struct child_order {
    const char *program;
    const char *library;
    size_t bytes;
    int cpu;             /* what it may use; -1: all */
    unsigned workers;    /* 0: it is not asked for any, nor for a handler */
    const char *handler; /* or NULL */
};

/** Binds this process to the first CPU that it may use, and returns the second, for the server; n/a if there is none. */
int child_share_cpus(void);

/** Starts a server and waits until it can be connected to; where it says n/a, so does this process, with which it dies. */
void child_start(struct child *child, const struct child_order *order);

/** User and system time so far. */
int64_t child_cpu_ns(const struct child *child);

/** Fails if it has ended by itself. */
void child_check(const struct child *child);

/** Kills it and waits for its end. */
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
