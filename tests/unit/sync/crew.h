/*
 * tests/unit/sync/crew.h: the same work by many at once: fibers of one or more schedulers, and plain threads.
 */
#ifndef TESTS_UNIT_SYNC_CREW_H
#define TESTS_UNIT_SYNC_CREW_H

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <weft/fiber.h>
#include <weft/sched.h>
#include <weft/sync.h>

#include "base/lock.h"
#include "sync/object.h"
#include "support/test.h"

struct crew {
    const char *name;
    unsigned schedulers, workers; /* workers of each */
    unsigned fibers, threads;     /* fibers of each */
};

enum { CREWS = 4 };

static const struct crew crews[CREWS] = {
    {"fibers of one worker", 1, 1, 8, 0},
    {"fibers of four workers", 1, 4, 8, 0},
    {"fibers of two schedulers, and threads", 2, 2, 3, 3},
    {"threads", 0, 0, 0, 4},
};

/* One of a crew. */
struct hand {
    unsigned index; /* from 0, in the crew */
    void *arg;
    void (*work)(struct hand *);
};

static inline unsigned crew_size(const struct crew *c)
{
    return c->schedulers * c->fibers + c->threads;
}

static inline void *crew_hand(void *arg)
{
    struct hand *h = arg;
    h->work(h);
    return NULL;
}

/* Lets all of the crew do work(hand) and waits until they have. */
static inline void crew_work(const struct crew *c, void (*work)(struct hand *), void *arg)
{
    enum { MOST = 64 };
    weft_sched *scheds[2] = {NULL, NULL};
    weft_fiber *fibers[MOST];
    pthread_t threads[MOST];
    struct hand hands[MOST];
    unsigned n = 0, size = crew_size(c), of_fibers = size - c->threads;
    for (; n < size; n++)
        hands[n] = (struct hand){n, arg, work};
    for (unsigned i = 0; i < c->schedulers; i++) {
        REQUIRE(weft_sched_new(&scheds[i], &(weft_sched_opts){.threads = c->workers}) == 0);
        REQUIRE(weft_sched_start(scheds[i]) == 0);
    }
    for (n = 0; n < of_fibers; n++)
        REQUIRE(weft_sched_go(scheds[n % c->schedulers], &fibers[n], NULL, crew_hand, &hands[n]) == 0);
    for (; n < size; n++)
        REQUIRE(pthread_create(&threads[n], NULL, crew_hand, &hands[n]) == 0);
    for (n = 0; n < of_fibers; n++)
        CHECK_INT(weft_join(fibers[n], NULL, WEFT_FOREVER), ==, 0);
    for (; n < size; n++)
        pthread_join(threads[n], NULL);
    for (unsigned i = 0; i < c->schedulers; i++) {
        CHECK_INT(weft_sched_stop(scheds[i], WEFT_FOREVER), ==, 0);
        CHECK_INT(weft_sched_free(scheds[i]), ==, 0);
    }
}

/* Runs fn(arg) as the first fiber of a runtime with so many workers. */
static inline void in_a_fiber(unsigned workers, weft_fn *fn, void *arg)
{
    CHECK_INT(weft_run(fn, arg, NULL, &(weft_sched_opts){.threads = workers}), ==, 0);
}

static inline weft_fiber *go(weft_fn *fn, void *arg)
{
    weft_fiber *f = NULL;
    CHECK_INT(weft_go_with(&f, NULL, fn, arg), ==, 0);
    return f;
}

static inline void *ended(weft_fiber *f)
{
    void *value = NULL;
    CHECK_INT(weft_join(f, &value, WEFT_FOREVER), ==, 0);
    return value;
}

/* For the body of a loop that looks for something: the thread that is to bring it may need this processor. */
static inline void linger(void)
{
    if (test_has_failed()) /* it may never come */
        _exit(1);
    weft_sleep(10 * WEFT_US);
}

/* How many wait for an object now. */
static inline size_t waiting(uint32_t *lock, weft_waiters *waiters)
{
    size_t n = 0;
    wf_lock(wf_lock_of(lock));
    for (struct wf_waiter *w = wf_waiters_of(waiters)->first; w; w = w->next)
        n++;
    wf_unlock(wf_lock_of(lock));
    return n;
}

/* Goes on when n wait for an object that has the usual fields. */
#define AWAIT_WAITERS(object, n)                                                                                       \
    do {                                                                                                               \
        while (waiting(&(object)->lock, &(object)->waiters) != (size_t)(n))                                            \
            linger();                                                                                                  \
    } while (0)

#endif
