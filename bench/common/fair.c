/*
 * fair.c: see fair.h.
 */
#include "fair.h"

#include <glob.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "case.h"

static int64_t turn; /* B, in ns */
static int64_t lateness[FAIR_MOST];
static size_t count;
static double kept; /* ns */

void fair_open(int argc, char **argv)
{
    if (argc > 1 && !strncmp(argv[1], "fair-", 5))
        turn = (int64_t)(strtod(argv[1] + 5, NULL) * 1e6);
}

/* How long a thread has waited for a CPU, in ns: the second number of its schedstat. 0 where the kernel has none. */
static double kept_by(const char *path)
{
    double ran, waited = 0;
    FILE *f = fopen(path, "re");

    if (f && fscanf(f, "%lf %lf", &ran, &waited) != 2)
        waited = 0;
    if (f)
        fclose(f);
    return waited;
}

static double kept_so_far(pid_t server)
{
    char pattern[64];
    glob_t threads;
    double sum = kept_by("/proc/thread-self/schedstat");

    snprintf(pattern, sizeof(pattern), "/proc/%d/task/*/schedstat", (int)server);
    if (server != 0 && glob(pattern, 0, NULL, &threads) == 0) {
        for (size_t i = 0; i < threads.gl_pathc; i++)
            sum += kept_by(threads.gl_pathv[i]);
        globfree(&threads);
    }
    return sum;
}

void fair_begin(pid_t server)
{
    kept -= kept_so_far(server);
}

void fair_end(pid_t server)
{
    kept += kept_so_far(server);
}

int64_t fair_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

void fair_compute(void)
{
    for (int64_t until = fair_now() + turn; fair_now() < until;)
        ;
}

/* xorshift64. Any thread may ask; each has its own sequence. */
int64_t fair_span_us(void)
{
    static _Thread_local uint64_t x = 88172645463325252;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return 1000 + (int64_t)(x % (uint64_t)(turn / 1000 + 1));
}

void fair_late(int64_t ns)
{
    if (count < FAIR_MOST)
        lateness[count++] = ns;
}

int64_t fair_worst(void)
{
    int64_t worst = INT64_MIN;

    for (size_t i = 0; i < count; i++)
        worst = lateness[i] > worst ? lateness[i] : worst;
    return worst;
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

void fair_answer(bool early_is_error, const char *more)
{
    char params[160];

    if (count == 0)
        case_fail("nothing was served");
    qsort(lateness, count, sizeof(lateness[0]), by_value);
    if (early_is_error && lateness[0] < 0)
        case_fail("a wait ended %.1f us early", -us(lateness[0]));
    snprintf(params, sizeof(params), "p50=%.1f p99=%.1f waits=%zu kept=%.1f %s", us(lateness[count / 2]),
             us(lateness[count * 99 / 100]), count, kept / 1e6, more);
    case_ok(us(lateness[count - 1]), params);
}
