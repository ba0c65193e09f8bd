/*
 * tests/unit/task/ground.h: what the tests of scopes share: jobs, and a body that runs as a fiber on one and on two
 * workers.
 */
#ifndef TESTS_UNIT_TASK_GROUND_H
#define TESTS_UNIT_TASK_GROUND_H

#include <weft/chan.h>
#include <weft/context.h>
#include <weft/offload.h>
#include <weft/scope.h>
#include <weft/stack.h>
#include <weft/sync.h>

#include "base/sys.h"
#include "unit/sched/ground.h"

#define LONG (AWAIT_SECONDS * WEFT_SEC)

/* Runs a test's body as the first fiber of a runtime: with one worker, and with two. */
#define IN_A_SCOPE_FIBER(name)                                                                                         \
    static void *name##_body(void *arg);                                                                               \
    TEST(name)                                                                                                         \
    {                                                                                                                  \
        for (unsigned workers = 1; workers <= 2; workers++)                                                            \
            in_a_fiber(workers, name##_body, NULL);                                                                    \
    }                                                                                                                  \
    static void *name##_body(void *arg)

static inline int code_of(void *arg)
{
    return (int)(intptr_t)arg;
}

#define AS_ARG(n) ((void *)(intptr_t)(n))

/* Returns its argument. */
static inline int returns(void *arg)
{
    return code_of(arg);
}

/* Waits until it is cancelled: what its wait returns. */
static inline int waits(void *arg)
{
    (void)arg;
    return weft_sleep_until(WEFT_FOREVER);
}

/* The same, and counts at its end. */
static inline int waits_and_counts(void *arg)
{
    int rc = weft_sleep_until(WEFT_FOREVER);
    more(arg);
    return rc;
}

static inline int kind_now(void)
{
    weft_cause why = {.size = sizeof why};
    return weft_cancel_cause(&why) == 0 ? why.kind : 0;
}

#endif
