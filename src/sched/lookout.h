/*
 * sched/lookout.h: the idle worker that watches the fibers that busy workers offer.
 *
 * A fiber that wakes another one often waits soon after. Its worker then runs the woken fiber, whose data are in the
 * caches. So if a woken fiber may move, other workers do not take it at once. It lies in its worker's `offered`, and
 * the others leave it there while that worker switches from fiber to fiber. If the waker goes on computing instead,
 * another worker must run the woken fiber.
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

/* The result of a look at the offers of the other workers. */
enum wf_sight {
    WF_SIGHT_NOTHING, /* no other worker offers a fiber, or has offered one since the last look */
    WF_SIGHT_NEWS,
    WF_SIGHT_RIPE, /* an offer that wf_lookout_take may take */
};

/* Whether another worker offers a fiber at this moment. */
bool wf_lookout_sees_offer(const struct wf_worker *w);

/* The worker stays the lookout, or becomes it if there is news. False: no news, or another worker is the lookout. */
bool wf_lookout_begin(struct wf_worker *w);

/* The lookout gives up its post. The caller then looks for offers once more, after a heavy barrier. */
void wf_lookout_end(struct wf_worker *w);

/* The lookout looks at all offers, and remembers them for the next look. */
enum wf_sight wf_lookout_look(struct wf_worker *w);

/* Takes the fiber of the offer that the last look found ripe. NULL: there is none, or it is no longer ripe. */
weft_fiber *wf_lookout_take(struct wf_worker *w);

#endif
