/*
 * tests/unit/sync/flows.h: the same scenario among fibers of one worker, of four, plain threads, and both mixed.
 *
 *      static void scenario(void) { ... flow_start(&f, fn, arg); ... flow_end(&f); ... }
 *      TEST(...) { everywhere(scenario); }
 *
 * The scenario itself runs in a fiber too, or on the test's thread. Where it has to know that somebody waits it asks
 * the channel (waits_on), never the clock.
 */
#ifndef TESTS_UNIT_SYNC_FLOWS_H
#define TESTS_UNIT_SYNC_FLOWS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include <weft/chan.h>
#include <weft/fiber.h>
#include <weft/sched.h>

#include "support/test.h"
#include "sync/chan.h"

enum flow_kind { FLOW_FIBERS, FLOW_THREADS, FLOW_MIXED };

static enum flow_kind flow_kind;
static unsigned flow_count; /* atomic; mixed: every second one is a thread */

struct flow {
    weft_fiber *fiber; /* NULL: a thread */
    pthread_t thread;
    weft_fn *fn;
    void *arg, *value;
    bool ended; /* atomic: the thread's last word */
};

static inline void *flow_on_a_thread(void *arg)
{
    struct flow *f = arg;
    f->value = f->fn(f->arg);
    __atomic_store_n(&f->ended, true, __ATOMIC_RELEASE);
    return NULL;
}

static inline void flow_start(struct flow *f, weft_fn *fn, void *arg)
{
    unsigned number = __atomic_fetch_add(&flow_count, 1, __ATOMIC_RELAXED);
    *f = (struct flow){.fn = fn, .arg = arg};
    if (flow_kind == FLOW_THREADS || (flow_kind == FLOW_MIXED && number % 2))
        CHECK_INT(pthread_create(&f->thread, NULL, flow_on_a_thread, f), ==, 0);
    else
        CHECK_INT(weft_go_with(&f->fiber, NULL, fn, arg), ==, 0);
}

static inline void *flow_end(struct flow *f)
{
    if (f->fiber) {
        CHECK_INT(weft_join(f->fiber, &f->value, WEFT_FOREVER), ==, 0);
        return f->value;
    }
    while (!__atomic_load_n(&f->ended, __ATOMIC_ACQUIRE)) /* it may need fibers of this worker */
        weft_yield();
    pthread_join(f->thread, NULL);
    return f->value;
}

static inline void *flow_scenario(void *scenario)
{
    ((void (*)(void))scenario)();
    return NULL;
}

/* In a fiber of a scheduler with so many workers. */
static inline void in_fibers(void (*scenario)(void), unsigned workers)
{
    weft_sched_opts opts = {.size = sizeof opts, .threads = workers};
    CHECK_INT(weft_run(flow_scenario, (void *)scenario, NULL, &opts), ==, 0);
}

static inline void everywhere(void (*scenario)(void))
{
    static const struct {
        enum flow_kind kind;
        unsigned workers; /* 0: on the test's thread */
    } places[] = {{FLOW_FIBERS, 1}, {FLOW_FIBERS, 4}, {FLOW_MIXED, 2}, {FLOW_THREADS, 0}};
    for (size_t i = 0; i < sizeof places / sizeof places[0] && !test_has_failed(); i++) {
        flow_kind = places[i].kind;
        if (places[i].workers > 0)
            in_fibers(scenario, places[i].workers);
        else
            scenario();
    }
    flow_kind = FLOW_FIBERS;
}

/* Returns when so many waiters are on the channel. That they never are is a failure, after ten seconds. */
static inline void waits_on(weft_chan *c, size_t waiters)
{
    size_t now = waiters + 1;
    for (weft_time end = weft_in(10 * WEFT_SEC); now != waiters && weft_now().ns < end.ns;) {
        weft_yield();
        wf_lock(&c->lock);
        now = c->waiting;
        wf_unlock(&c->lock);
    }
    CHECK_INT(now, ==, waiters);
}

static inline weft_chan *new_chan(size_t elem, size_t capacity)
{
    weft_chan *c = NULL;
    CHECK_INT(weft_chan_new(&c, elem, capacity), ==, 0);
    return c;
}

#endif
