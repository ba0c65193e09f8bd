/*
 * sleepers.c: see sleepers.h.
 */
#include "sleepers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "case.h"

#define NOT_WOKEN INT64_MIN

static int64_t started[SLEEPERS];  /* ns */
static int64_t lateness[SLEEPERS]; /* ns: slept longer than asked; negative: woke early */
static int64_t wall_begin;         /* ns */
static double cpu_begin;           /* ms */

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static double cpu_ms(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

void sleepers_begin(void)
{
    memset(started, 1, sizeof(started)); /* in memory before the clocks start */
    for (size_t i = 0; i < SLEEPERS; i++)
        lateness[i] = NOT_WOKEN;
    cpu_begin = cpu_ms();
    wall_begin = now_ns();
}

/* The i-th number of splitmix64. */
uint64_t sleeper_us(size_t i)
{
    uint64_t z = ((uint64_t)i + 1) * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return 1000 + (z ^ z >> 31) % 999001;
}

void sleeper_start(size_t i)
{
    started[i] = now_ns();
}

void sleeper_woke(size_t i)
{
    if (lateness[i] != NOT_WOKEN)
        case_fail("sleeper %zu woke twice", i);
    lateness[i] = now_ns() - started[i] - (int64_t)sleeper_us(i) * 1000;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double us(int64_t ns)
{
    return (double)ns / 1e3;
}

void sleepers_answer(enum sleepers_figure figure, bool early_is_error)
{
    double wall = us(now_ns() - wall_begin) / 1e3, cpu = cpu_ms() - cpu_begin, p99;
    char params[160];

    qsort(lateness, SLEEPERS, sizeof(lateness[0]), by_value);
    if (lateness[0] == NOT_WOKEN)
        case_fail("a sleeper did not wake");
    if (early_is_error && lateness[0] < 0)
        case_fail("a sleeper woke %.1f us early", -us(lateness[0]));
    p99 = us(lateness[(size_t)SLEEPERS * 99 / 100]);
    snprintf(params, sizeof(params), "wall_ms=%.1f cpu_ms=%.1f p50_us=%.1f p99_us=%.1f earliest_us=%.1f", wall, cpu,
             us(lateness[SLEEPERS / 2]), p99, us(lateness[0]));
    case_ok(figure == SLEEPERS_P99 ? p99 : cpu, params);
}
