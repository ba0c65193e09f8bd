/*
 * ticker.c: see ticker.h.
 */
#include "ticker.h"

#include <stdio.h>
#include <stdlib.h>

#include "../common/case.h"
#include <weft/fiber.h>
#include <weft/sync.h>

enum { MOST = 100000 };

static const struct ticker *job; /* const while it runs */
static weft_waitgroup left;
static bool over;
static double gaps[MOST];
static size_t ticks;

static void *waits(void *arg)
{
    job->wait();
    weft_waitgroup_done(&left);
    return arg;
}

static void *ticks_on(void *arg)
{
    while (!over && ticks < MOST) {
        int64_t before = weft_now().ns;
        weft_sleep(WEFT_MS);
        gaps[ticks++] = (double)(weft_now().ns - before) / 1e6 - 1;
    }
    return arg;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void *measures(void *arg)
{
    weft_fiber *ticker;
    char params[80];

    if (job->begin)
        job->begin();
    int64_t begun = weft_now().ns;
    if (weft_go_with(&ticker, NULL, ticks_on, NULL) != 0)
        case_fail("weft_go");
    weft_waitgroup_add(&left, TICKER_FIBERS);
    for (int i = 0; i < TICKER_FIBERS; i++)
        if (weft_go(waits, NULL) != 0)
            case_fail("weft_go");
    weft_waitgroup_wait(&left, WEFT_FOREVER);
    double wall = (double)(weft_now().ns - begun) / 1e6;
    over = true;
    weft_join(ticker, NULL, WEFT_FOREVER);
    if (job->end)
        job->end();
    qsort(gaps, ticks, sizeof *gaps, by_size);
    snprintf(params, sizeof params, "longest_ms=%.1f wall_ms=%.0f", gaps[ticks - 1], wall);
    case_ok(gaps[ticks * 99 / 100], params);
    return arg;
}

void ticker_run(const struct ticker *t)
{
    weft_sched_opts opts = {.size = sizeof(opts), .threads = 1, .dispatch = t->dispatch};

    job = t;
    if (weft_run(measures, NULL, NULL, &opts) != 0)
        case_fail("weft_run");
}
