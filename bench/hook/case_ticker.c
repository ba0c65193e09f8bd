/*
 * case_ticker.c: 1,000 fibers each look up a name that /etc/hosts has, by getaddrinfo, on one worker, beside a ticker that
 * sleeps 1 ms again and again. The answer is by how much its gaps are over that, at the 99th hundredth, in ms.
 */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/case.h"
#include <weft/fiber.h>
#include <weft/sched.h>
#include <weft/sync.h>

enum { LOOKUPS = 1000, MOST = 100000 };

static weft_waitgroup left;
static bool over;
static double gaps[MOST];
static size_t ticks;

static void *looks_up(void *arg)
{
    struct addrinfo *found = NULL, hints = {.ai_socktype = SOCK_STREAM};
    int rc = getaddrinfo("localhost", "80", &hints, &found);

    if (rc != 0)
        case_fail("getaddrinfo: %s", gai_strerror(rc));
    freeaddrinfo(found);
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
    int64_t begun = weft_now().ns;
    weft_fiber *ticker;
    char params[80];

    if (weft_go_with(&ticker, NULL, ticks_on, NULL) != 0)
        case_fail("weft_go");
    weft_waitgroup_add(&left, LOOKUPS);
    for (int i = 0; i < LOOKUPS; i++)
        if (weft_go(looks_up, NULL) != 0)
            case_fail("weft_go");
    weft_waitgroup_wait(&left, WEFT_FOREVER);
    over = true;
    weft_join(ticker, NULL, WEFT_FOREVER);
    qsort(gaps, ticks, sizeof *gaps, by_size);
    snprintf(params, sizeof params, "longest_ms=%.1f wall_ms=%.0f", gaps[ticks - 1],
             (double)(weft_now().ns - begun) / 1e6);
    case_ok(gaps[ticks * 99 / 100], params);
    return arg;
}

static void run_lookups(double budget_ms)
{
    weft_sched_opts opts = {.size = sizeof(opts), .threads = 1};

    (void)budget_ms;
    if (weft_run(measures, NULL, NULL, &opts) != 0)
        case_fail("weft_run");
}

int main(int argc, char **argv)
{
    static const struct case_entry entries[] = {{"ticker", "getaddrinfo", run_lookups}};

    return case_main(argc, argv, entries, 1);
}
