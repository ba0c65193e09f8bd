/*
 * tests/unit/offload/ground.h: what the tests of helpers share: calls that a test holds up, and what the pool is doing.
 */
#ifndef TESTS_UNIT_OFFLOAD_GROUND_H
#define TESTS_UNIT_OFFLOAD_GROUND_H

#include <weft/offload.h>
#include <weft/sync.h>

#include "base/sys.h"
#include "unit/sched/ground.h"

/* A call that blocks its thread until the test opens it. */
struct gate {
    int begun, open, ended, dropped;
};

static inline void *passes(void *arg)
{
    struct gate *g = arg;
    more(&g->begun);
    struct timespec pause = {.tv_nsec = 20000};
    while (!seen(&g->open))
        nanosleep(&pause, NULL);
    more(&g->ended);
    return arg;
}

static inline void drops(void *arg, void *value)
{
    struct gate *g = arg;
    CHECK(value == NULL || value == arg);
    more(&g->dropped);
}

static inline weft_offload_figures helpers(void)
{
    weft_offload_figures f = {.size = sizeof f};
    CHECK_INT(weft_offload_stats(&f), ==, 0);
    return f;
}

static inline void default_limits(void)
{
    for (int kind = 0; kind <= WEFT_OFFLOAD_ALL; kind++)
        CHECK_INT(weft_offload_limit(kind, 0), ==, 0);
}

/* No helper is left: to them the time that they stay has passed. While no scheduler runs. */
static inline void end_helpers(void)
{
    AWAIT(helpers().busy == 0 && helpers().queued == 0);
    wf_clock_set(real_now() + 10 * WEFT_SEC);
    AWAIT((clock_forward(WEFT_SEC), helpers().threads == 0)); /* one may look at the clock only now */
    clock_end();
}

#endif
