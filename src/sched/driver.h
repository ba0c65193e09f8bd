/*
 * sched/driver.h: what a worker sleeps in. The scheduler owns the interface; this is its plain form, a futex, and io/ has
 * those that watch descriptors as well.
 *
 * A worker says that it sleeps (`asleep`), looks once more for work, and only then polls; who brings work writes it and
 * then looks at `asleep`. wf_barrier_heavy and wf_barrier_light stand between the two, so that one of them sees the
 * other.
 */
#ifndef WF_SCHED_DRIVER_H
#define WF_SCHED_DRIVER_H

#include <stdint.h>

#include "base/atomic.h"
#include "base/futex.h"

struct wf_driver {
    uint32_t asleep; /* atomic: 1: the worker sleeps or is about to, and must be woken */
};

/* The worker is about to sleep. */
static inline void wf_driver_announce(struct wf_driver *d)
{
    wf_store(&d->asleep, 1);
}

/* It does not after all, or has woken. */
static inline void wf_driver_awake(struct wf_driver *d)
{
    wf_store(&d->asleep, 0);
}

/* Sleeps until a wake or the deadline. May return for no reason. */
static inline void wf_driver_poll(struct wf_driver *d, int64_t deadline)
{
    wf_futex_wait(&d->asleep, 1, deadline);
}

/* Any thread. One wake for any number of calls while it sleeps. */
static inline void wf_driver_wake(struct wf_driver *d)
{
    if (wf_load(&d->asleep) && wf_exchange(&d->asleep, 0) == 1)
        wf_futex_wake(&d->asleep, 1);
}

#endif
