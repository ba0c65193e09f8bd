/*
 * tests/unit/io/fired.h: a watch's function that notes how often it was called, and with what.
 */
#ifndef TESTS_UNIT_IO_FIRED_H
#define TESTS_UNIT_IO_FIRED_H

#include <weft/watch.h>

#include "unit/sched/ground.h"

/* Flags, and one more for the test itself. */
struct fired {
    int count, fd, over;
    unsigned events;
};

static inline void notes(int fd, unsigned events, void *arg)
{
    struct fired *f = arg;
    CHECK(weft_fiber_current() != NULL);
    put(&f->fd, fd);
    __atomic_store_n(&f->events, events, __ATOMIC_RELAXED);
    more(&f->count);
}

static inline unsigned seen_events(const struct fired *f)
{
    return __atomic_load_n(&f->events, __ATOMIC_RELAXED);
}

#endif
