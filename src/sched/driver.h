/*
 * sched/driver.h: what a worker sleeps in. At first a futex; once a fiber of it has waited for a descriptor, an epoll set
 * or a ring that watches descriptors as well, which io/ makes and this calls through a table of functions.
 *
 * A worker says that it sleeps (`asleep`), looks once more for work, and only then polls; who brings work writes it and
 * then looks at `asleep`. A barrier stands between the two on either side (idle.c says which), so that one of them sees
 * the other.
 */
#ifndef WF_SCHED_DRIVER_H
#define WF_SCHED_DRIVER_H

#include <stdint.h>

#include "base/atomic.h"
#include "base/futex.h"

struct wf_io;

/* All but `wake` are called by the worker's own thread. */
struct wf_io_ops {
    /* Sleeps until a wake or an event, or for `ns` (0: only looks, -1: no end), and makes ready whom events are for. */
    void (*poll)(struct wf_io *io, int64_t ns);
    /* Any thread: ends a poll that sleeps. Nothing it needs goes away before `drop`. */
    void (*wake)(struct wf_io *io);
    /* The worker's thread ends; another may take over later. */
    void (*leave)(struct wf_io *io);
    /* The scheduler is freed. Any thread. */
    void (*drop)(struct wf_io *io);
    /* In the child of a fork: closes its descriptors, and touches nothing of what the parent goes on using. */
    void (*forget)(struct wf_io *io);
};

/* The first member of what io/ has for a worker. */
struct wf_io {
    const struct wf_io_ops *ops; /* const */
};

/* What `asleep` is. */
enum {
    WF_UP = 0,
    WF_DOWN_ON_FUTEX = 1,
    WF_DOWN_ON_IO = 2,
};

struct wf_driver {
    uint32_t asleep;  /* atomic: the worker sleeps or is about to, and must be woken; as the enum says */
    struct wf_io *io; /* NULL: none so far. owner: the worker; who has read WF_DOWN_ON_IO may look */
};

/* The worker is about to sleep. */
static inline void wf_driver_announce(struct wf_driver *d)
{
    wf_store_release(&d->asleep, d->io ? WF_DOWN_ON_IO : WF_DOWN_ON_FUTEX); /* pairs with wf_driver_wake: of `io` */
}

/* It does not after all, or has woken. */
static inline void wf_driver_awake(struct wf_driver *d)
{
    wf_store(&d->asleep, WF_UP);
}

/* Sleeps until a wake or the deadline. May return for no reason. `now`: the time, if there is a deadline and `io`. */
static inline void wf_driver_poll(struct wf_driver *d, int64_t deadline, int64_t now)
{
    if (d->io)
        d->io->ops->poll(d->io, deadline == INT64_MAX ? -1 : deadline > now ? deadline - now : 0);
    else
        wf_futex_wait(&d->asleep, WF_DOWN_ON_FUTEX, deadline);
}

/* What has happened by now: for a worker that has other things to do. */
static inline void wf_driver_look(struct wf_driver *d)
{
    if (d->io)
        d->io->ops->poll(d->io, 0);
}

/* Any thread. One wake for any number of calls while it sleeps. */
static inline void wf_driver_wake(struct wf_driver *d)
{
    if (wf_load(&d->asleep) == WF_UP)
        return;
    uint32_t how = wf_exchange(&d->asleep, WF_UP);
    if (how == WF_DOWN_ON_FUTEX)
        wf_futex_wake(&d->asleep, 1);
    else if (how == WF_DOWN_ON_IO)
        d->io->ops->wake(d->io);
}

#endif
