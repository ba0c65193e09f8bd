/*
 * tests/unit/task/places.h: what the tests of executors and tasks share: one executor of each kind, gates, a log.
 */
#ifndef TESTS_UNIT_TASK_PLACES_H
#define TESTS_UNIT_TASK_PLACES_H

#include <weft/executor.h>
#include <weft/sync.h>
#include <weft/task.h>

#include "base/sys.h"
#include "unit/sched/ground.h"

enum kind { NOOP, THREAD, ASYNC, LOOPER, SCHED, KINDS };

/* An executor, and the scheduler that it may need. */
struct place {
    weft_executor *x;
    weft_sched *sched;
    enum kind kind;
};

static inline struct place place_new(enum kind kind)
{
    struct place p = {.kind = kind};
    int rc = -EINVAL;
    switch (kind) {
    case NOOP:
        rc = weft_executor_noop(&p.x);
        break;
    case THREAD:
        rc = weft_executor_thread(&p.x);
        break;
    case ASYNC:
        rc = weft_executor_async(&p.x, 3);
        break;
    case LOOPER:
        rc = weft_executor_looper(&p.x, NULL, NULL, NULL);
        break;
    default:
        p.sched = running_sched(2);
        rc = weft_executor_sched(&p.x, p.sched, 0);
    }
    CHECK_INT(rc, ==, 0);
    return p;
}

static inline void place_free(struct place *p)
{
    CHECK_INT(weft_executor_free(p->x), ==, 0);
    if (p->sched)
        end_sched(p->sched);
}

/* A task on an executor. */
static inline weft_task *start_on(weft_executor *x, weft_task_fn *fn, void *arg)
{
    weft_task *t = NULL;
    CHECK_INT(weft_task_start(&t, fn, arg, &(weft_task_opts){.on = x}), ==, 0);
    return t;
}

static inline weft_task *start_named(weft_executor *x, const char *name, weft_task_fn *fn, void *arg)
{
    weft_task *t = NULL;
    CHECK_INT(weft_task_start(&t, fn, arg, &(weft_task_opts){.on = x, .name = name}), ==, 0);
    return t;
}

/* Waits for its end: the code. */
static inline int ends(weft_task *t)
{
    return weft_task_await(t, NULL, WEFT_FOREVER);
}

/* Blocks its thread until the flag is set. */
static inline void wait_flag(const int *flag)
{
    struct timespec pause = {.tv_nsec = 20000};
    while (!seen(flag))
        nanosleep(&pause, NULL);
}

/* A function that holds up its thread. */
struct gate {
    int begun, open, ended;
};

static inline void passes(void *arg)
{
    struct gate *g = arg;
    more(&g->begun);
    wait_flag(&g->open);
    more(&g->ended);
}

static inline int passes_as_task(void *arg, void **value)
{
    passes(arg);
    *value = arg;
    return 0;
}

static inline void counts_call(void *arg)
{
    more(arg);
}

static inline int returns_arg(void *arg, void **value)
{
    *value = arg;
    return 0;
}

static inline int awaits_arg(void *arg, void **value)
{
    return weft_task_await(arg, value, WEFT_FOREVER);
}

#endif
