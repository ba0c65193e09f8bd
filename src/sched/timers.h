/*
 * sched/timers.h: the timers of a worker, which any thread may add to and take from; see weft/timer.h. One of them is
 * described in timer.h.
 *
 * The deadlines of fibers that wait are not here: they are in the worker's own wheel, which needs no lock.
 */
#ifndef WF_SCHED_TIMERS_H
#define WF_SCHED_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/timer.h>

#include "base/lock.h"
#include "time/wheel.h"

struct wf_worker;

/* What a worker's timers are allowed. */
enum wf_timers_life {
    WF_TIMERS_OPEN,
    WF_TIMERS_CLOSING, /* the scheduler stops: recurring ones end */
    WF_TIMERS_CLOSED,  /* past the deadline of that stop: none is left, none is taken */
};

/* What an entry of the wheel is, in its `kind`. */
enum { WF_ENTRY_TIMER, WF_ENTRY_SCOPE };

/* It lives as long as its scheduler or a handle of one of its timers. */
struct wf_timers {
    struct wf_lock lock;       /* held to link, to unlink, and to change the state of a timer; never in a callback */
    enum wf_timers_life life;  /* guarded by: lock */
    int64_t next;              /* when the worker is to look; nothing is due before it. atomic, guarded by: lock */
    uint64_t awaited, settled; /* timers that a stop must wait for, ever; and those of them that it need not any
                                 * more. guarded by: lock. atomic: others look */
    size_t pending;            /* timers that are to fire. guarded by: lock. atomic: others look */
    size_t scopes;             /* timers of scopes that are armed. guarded by: lock. atomic: others look */
    size_t known;              /* timers whose memory is in use, and one for the scheduler. guarded by: lock */
    weft_timer *spares; /* memory of timers that are gone, for the next ones. guarded by: lock. atomic: others look */
    struct wf_worker *worker;   /* NULL: the scheduler is gone. guarded by: lock */
    uint32_t spare_count;       /* guarded by: lock */
    uint32_t queued;            /* fibers that were spawned for callbacks and have not begun. guarded by: lock */
    weft_timer *due, **due_end; /* those whose time has come, that have no fiber yet. guarded by: lock */
    uint32_t forks;             /* const: the wf_forks that all of it is of */
    struct wf_wheel wheel;      /* guarded by: lock */
};

/* NULL: no memory. */
struct wf_timers *wf_timers_new(struct wf_worker *w, int64_t now);

/* The scheduler is freed. Whoever has a handle keeps the rest alive. */
void wf_timers_drop(struct wf_timers *ts);

/* In the child of a fork: there are none; those of before are not there. */
void wf_timers_renew(struct wf_timers *ts);

/* The scheduler starts (OPEN) or stops (CLOSING). */
void wf_timers_allow(struct wf_timers *ts, enum wf_timers_life life);

/* Cancels all that are to fire; CLOSED: for ever. On the worker's thread, or when no worker runs. */
void wf_timers_cancel_all(struct wf_timers *ts, enum wf_timers_life life);

/* Gives each timer whose time has come (by w->now) a fiber. On the worker's thread, in no fiber. */
void wf_timers_fire(struct wf_worker *w);

#endif
