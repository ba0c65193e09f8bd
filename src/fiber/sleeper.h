/*
 * fiber/sleeper.h: whoever waits: a fiber (the sleeper is in its record) or a plain thread (it is on the thread's stack
 * for the time of one wait). Data only; sched/wait.h has the operations.
 *
 *              commit                  settle (one CAS)             ready
 *      AWAKE ─────────▶ WAITING/PARKED ────────────────▶ SETTLED ─────────▶ AWAKE
 *
 * AWAKE    it runs, or is on its way to: nobody else may touch it
 * WAITING  its waiters are linked; wake, timeout and cancel race to settle it
 * PARKED   the same, in weft_park: weft_unpark settles it too
 * DEAF and DEAF_PARKED are WAITING and PARKED, but a cancel does not settle them: the fiber is in a shield or a
 * section. When the time of the shield is over, the worker turns DEAF into WAITING, and DEAF_PARKED into PARKED.
 * SETTLED  owned by who won: it writes `result` and whatever the wait is to bring, then makes it ready, once
 *
 * A fiber becomes WAITING on its worker's stack, after it was switched away from; its waiters are linked, or the lock
 * they were linked under is released, after that. So nobody can settle one that still runs.
 */
#ifndef WF_FIBER_SLEEPER_H
#define WF_FIBER_SLEEPER_H

#include <stdint.h>

#include <weft/fiber.h>

enum wf_phase {
    WF_AWAKE,
    WF_WAITING,
    WF_DEAF, /* WAITING and not to be cancelled */
    WF_PARKED,
    WF_DEAF_PARKED, /* PARKED and not to be cancelled */
    WF_SETTLED,
};

/* Bits of `bits`. */
enum {
    WF_CANCEL = 1 << 0, /* it is cancelled now: its waits look at this bit alone. Of a thread: the task that it runs */
    WF_TOKEN = 1 << 1,  /* an unpark came while it was not PARKED */
    WF_KNOWN = 1 << 2,  /* others know the fiber by its id, and look under the pool's lock: see wf_be_known */
    WF_CANCEL_SELF =
        1 << 3,           /* for ever: the fiber itself was cancelled. Else WF_CANCEL comes from a scope it has open */
    WF_EXTRA = 1 << 4,    /* it has an extra (fiber/extra.h) */
    WF_STOPPING = 1 << 5, /* for ever: a scope above it is stopping */
    WF_OPENED = 1 << 6,   /* it has opened a scope: weft_dump looks at its extra, under the pool's lock */
    WF_CAUSE_SHIFT = 8,   /* from here on: the enum weft_cause_kind of WF_CANCEL_SELF */
    WF_CAUSE_MASK = 15,
};

/* One place in one object's list. guarded by: that object's lock. */
struct wf_waiter {
    struct wf_waiter *next, *prev; /* prev: itself if not linked */
    struct wf_sleeper *who;
    void *data;     /* the object's: a value's place, a mode */
    uint32_t index; /* select: which case */
    int32_t result; /* a sleeper's own node: what its wait returns; written by the settler, before ready */
};

struct wf_sleeper {
    uint32_t phase;        /* atomic: see the picture */
    uint32_t bits;         /* atomic: any thread sets them, in any phase. A plain thread's: const: wf_thread_bits */
    weft_fiber *fiber;     /* const; NULL: a plain thread, which sleeps on `phase` */
    struct wf_waiter node; /* for a wait on one object, and the wait's result; never on a stack that is copied */
};

#endif
