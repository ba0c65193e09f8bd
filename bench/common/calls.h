/*
 * calls.h: counts the system calls of other processes, by the kernel's own event of every call's start.
 *
 * Root may do that where the kernel has trace points; others may not, as a rule. While anybody counts, every system call of
 * the machine is a little slower.
 */
#ifndef BENCH_CALLS_H
#define BENCH_CALLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CALLS_THREADS_MAX 1024

struct calls {
    int counters[CALLS_THREADS_MAX]; /* one for each thread that the processes had, and those that it starts */
    unsigned threads;
};

/** Prepares to count, which takes a while. Returns NULL, or why it cannot be done: a word, for programs. */
const char *calls_open(struct calls *calls, pid_t process);

/** Prepares to count those of a further process with them. Where that fails nothing is counted any more. */
const char *calls_add(struct calls *calls, pid_t process);

/** What a word of calls_open means, in a sentence. */
const char *calls_explain(const char *word);

/** Counts from now on. */
void calls_start(const struct calls *calls);

/** *count is how many there were so far. Returns false if that cannot be read. */
bool calls_read(const struct calls *calls, uint64_t *count);

/** Ends the counting. */
void calls_close(struct calls *calls);

#endif
