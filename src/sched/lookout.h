/*
 * sched/lookout.h: the idle worker that looks after what busy workers have offered.
 *
 * A fiber that wakes another one often waits soon after. Its worker then runs the woken fiber, whose data are in the
 * caches. So other workers do not take a woken fiber that may move at once: it lies in its worker's `offered`, and they
 * leave it alone while that worker goes from fiber to fiber. If the waker goes on computing instead, another worker
 * must run the woken fiber.
 *
 * One idle worker of the scheduler is the lookout: it naps, and looks at the offers after each nap. It takes an offer
 * that it has seen at two looks if the offering worker has not switched in between. The lookout gives up its post when
 * it finds something to run, or after some looks without news. `idle.c` says why no offer is forgotten.
 *
 * All functions are called on the worker's own thread.
 */
#ifndef WF_SCHED_LOOKOUT_H
#define WF_SCHED_LOOKOUT_H

#include "sched/worker.h"

/* What a look at the offers of the others shows. */
enum wf_sight {
    WF_SIGHT_NOTHING, /* no worker offers anything, or has since the last look */
    WF_SIGHT_NEWS,
    WF_SIGHT_RIPE, /* an offer that wf_lookout_take may take */
};

/* Whether another worker's offer is there at this moment. */
bool wf_lookout_sees_offer(const struct wf_worker *w);

/* The worker stays the lookout, or becomes it if there is news. False: there is no news, or another is the lookout. */
bool wf_lookout_begin(struct wf_worker *w);

/* The lookout gives up its post. The caller then looks for offers once more, after a heavy barrier. */
void wf_lookout_end(struct wf_worker *w);

/* The lookout looks at all offers, and remembers them for the next look. */
enum wf_sight wf_lookout_look(struct wf_worker *w);

/* The fiber of the offer that the last look found ripe, if that is still so; NULL: there is none. */
weft_fiber *wf_lookout_take(struct wf_worker *w);

#endif
