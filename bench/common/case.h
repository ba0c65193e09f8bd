/*
 * case.h: what every case program shares: its command line, the timing loop, the reading of memory, the answer.
 *
 * A case program measures one library. The driver starts it once for every run, as
 *
 *      PROGRAM BENCH LIBRARY MILLISECONDS
 *
 * and reads one line from its standard output: "ok VALUE [KEY=VALUE ...]" or "n/a REASON". An exit status other than 0
 * means that a check failed: that is an error of the bench, not a figure.
 */
#ifndef BENCH_CASE_H
#define BENCH_CASE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One measurement that a case program can make; `run` ends by case_ok, case_na or case_fail. */
struct case_entry {
    const char *bench;
    const char *library;
    void (*run)(double budget_ms);
};

/** Finds the entry that the command line asks for and runs it; the main function of a case program in one call. */
int case_main(int argc, char **argv, const struct case_entry *entries, size_t count);

/** Does the measured operation n times and checks that it was done. */
typedef void case_batch(void *ctx, size_t n);

/**
 * Times an operation: warms up, grows the batch until it is long enough for the clock, then runs batches until the
 * budget is spent, at least one. Returns the median over the batches, in ns, of one operation divided by `per`.
 */
double case_time(double budget_ms, case_batch *batch, void *ctx, double per);

/** Prepares the measured operation, does it once, and returns how long the operation alone took, in ns. */
typedef double case_timed(void *ctx);

/**
 * Times an operation whose preparation must not count: does it once to warm up, then until the budget is spent, at
 * least once. Returns the median, in ns, of one operation divided by `per`. The operation must be long enough for the
 * clock.
 */
double case_time_prepared(double budget_ms, case_timed *once, void *ctx, double per);

/** What a process occupies, in bytes, as its /proc/PID/status has it. */
struct case_memory {
    double rss; /* VmRSS */
    double pte; /* VmPTE: the page tables */
};

struct case_memory case_memory_now(void);

/** The same of another process. */
struct case_memory case_memory_of(pid_t pid);

/**
 * The answer of an rss bench: what `count` coroutines have added to `before`. Figures of `now` are those of the moment
 * when all of them wait in their first yield.
 */
void case_ok_memory(struct case_memory before, struct case_memory now, size_t count);

/** Gives up with "n/a" before the machine runs out of memory; `made` coroutines exist. Cheap enough for every one. */
void case_check_memory(size_t made);

/** Answers with a value; `params` is "" or "KEY=VALUE ...". */
void case_ok(double value, const char *params);

/** Answers that this library cannot do this, and why; does not return. */
__attribute__((noreturn, format(printf, 1, 2))) void case_na(const char *reason, ...);

/** Says on standard error which check failed; does not return. */
__attribute__((noreturn, format(printf, 1, 2))) void case_fail(const char *what, ...);

/** What the coroutines of an rss bench hold on their stacks. */
struct case_locals {
    unsigned char bytes[64];
};

/** Fills the locals of coroutine k. Not inlined, so that they must lie in memory. */
void case_fill(struct case_locals *locals, size_t k);

/** Fails unless the locals are what case_fill(locals, k) left. */
void case_verify(const struct case_locals *locals, size_t k);

/** What a ping-pong of n round trips sums up to: i goes there, i + 1 comes back, for i from 0 to n - 1. */
static inline uint64_t case_pingpong_sum(size_t n)
{
    return (uint64_t)n * (n + 1) / 2;
}

/** Fails unless the two sums agree. */
static inline void case_check_sum(uint64_t got, uint64_t expected)
{
    if (got != expected)
        case_fail("sum is %llu, expected %llu", (unsigned long long)got, (unsigned long long)expected);
}

#ifdef __cplusplus
}
#endif

#endif
