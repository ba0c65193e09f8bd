/*
 * case.c: the part of a case program that is the same for every library. See case.h.
 */
#include "case.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A batch is at least this long, so that reading the clock does not show, and short enough that most batches are not
 * hit by another process taking the CPU. */
#define BATCH_MIN_NS 200e3
#define BATCHES_MAX 8192
/* Below this much free memory a case gives up. */
#define MEMORY_FLOOR_KIB (512.0 * 1024)
#define MEMORY_CHECK_EVERY 4096

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double timed(case_batch *batch, void *ctx, size_t n)
{
    double start = now_ns();
    batch(ctx, n);
    return now_ns() - start;
}

/* The better of two, so that a hiccup does not make a short batch look long; one that is very long is not repeated. */
static double settled(case_batch *batch, void *ctx, size_t n)
{
    double first = timed(batch, ctx, n), second;

    if (first > 100 * BATCH_MIN_NS)
        return first;
    second = timed(batch, ctx, n);
    return first < second ? first : second;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *samples, size_t count)
{
    qsort(samples, count, sizeof(samples[0]), by_value);
    return samples[count / 2];
}

double case_time(double budget_ms, case_batch *batch, void *ctx, double per)
{
    static double samples[BATCHES_MAX];
    double end = now_ns() + budget_ms * 1e6;
    size_t n = 1, count = 0;
    double took;

    batch(ctx, 1);
    while ((took = settled(batch, ctx, n)) < BATCH_MIN_NS)
        n *= 2;
    samples[count++] = took / (double)n / per;
    while (now_ns() < end && count < BATCHES_MAX)
        samples[count++] = timed(batch, ctx, n) / (double)n / per;
    return median(samples, count);
}

double case_time_prepared(double budget_ms, case_timed *once, void *ctx, double per)
{
    static double samples[BATCHES_MAX];
    double end = now_ns() + budget_ms * 1e6;
    size_t count = 0;

    once(ctx);
    do
        samples[count++] = once(ctx) / per;
    while (now_ns() < end && count < BATCHES_MAX);
    return median(samples, count);
}

/* The value of a "Name:   123 kB" line, in KiB. */
static double proc_kib(const char *path, const char *name)
{
    char line[256];
    double kib = -1;
    size_t length = strlen(name);
    FILE *f = fopen(path, "r");

    if (!f)
        case_fail("cannot read %s", path);
    while (kib < 0 && fgets(line, sizeof(line), f))
        if (!strncmp(line, name, length) && line[length] == ':')
            kib = strtod(line + length + 1, NULL);
    fclose(f);
    if (kib < 0)
        case_fail("no %s in %s", name, path);
    return kib;
}

static struct case_memory memory(const char *status)
{
    struct case_memory m;
    m.rss = proc_kib(status, "VmRSS") * 1024;
    m.pte = proc_kib(status, "VmPTE") * 1024;
    return m;
}

struct case_memory case_memory_now(void)
{
    return memory("/proc/self/status");
}

struct case_memory case_memory_of(pid_t pid)
{
    char status[64];
    snprintf(status, sizeof(status), "/proc/%d/status", (int)pid);
    return memory(status);
}

void case_ok_memory(struct case_memory before, struct case_memory now, size_t count)
{
    char params[128];
    double rss = (now.rss - before.rss) / (double)count, pte = (now.pte - before.pte) / (double)count;

    snprintf(params, sizeof(params), "count=%zu rss=%.1f pte=%.1f", count, rss, pte);
    case_ok(rss + pte, params);
}

void case_check_memory(size_t made)
{
    if (made % MEMORY_CHECK_EVERY == 0 && proc_kib("/proc/meminfo", "MemAvailable") < MEMORY_FLOOR_KIB)
        case_na("memory runs out at %zu coroutines, %.0f bytes each", made,
                made ? case_memory_now().rss / (double)made : 0.0);
}

void case_ok(double value, const char *params)
{
    printf("ok %.4f %s\n", value, params);
}

void case_na(const char *reason, ...)
{
    va_list args;
    va_start(args, reason);
    printf("n/a ");
    vprintf(reason, args);
    printf("\n");
    va_end(args);
    fflush(stdout);
    _Exit(0);
}

void case_fail(const char *what, ...)
{
    va_list args;
    va_start(args, what);
    fprintf(stderr, "check failed: ");
    vfprintf(stderr, what, args);
    fprintf(stderr, "\n");
    va_end(args);
    _Exit(1);
}

void case_fill(struct case_locals *locals, size_t k)
{
    memset(locals->bytes, (int)(k % 251), sizeof(locals->bytes));
}

void case_verify(const struct case_locals *locals, size_t k)
{
    for (size_t i = 0; i < sizeof(locals->bytes); i++)
        if (locals->bytes[i] != k % 251)
            case_fail("byte %zu of the locals of coroutine %zu is %u, expected %zu", i, k, locals->bytes[i], k % 251);
}

int case_main(int argc, char **argv, const struct case_entry *entries, size_t count)
{
    if (argc == 4)
        for (size_t i = 0; i < count; i++)
            if (!strcmp(entries[i].bench, argv[1]) && !strcmp(entries[i].library, argv[2])) {
                entries[i].run(strtod(argv[3], NULL));
                return 0;
            }
    fprintf(stderr, "usage: %s BENCH LIBRARY MILLISECONDS, with BENCH LIBRARY one of\n", argv[0]);
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, "  %s %s\n", entries[i].bench, entries[i].library);
    return 2;
}
