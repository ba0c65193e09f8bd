/*
 * sched/pick.h: what a worker runs next. On the worker's own thread.
 */
#ifndef WF_SCHED_PICK_H
#define WF_SCHED_PICK_H

#include "sched/worker.h"

/* The next fiber to run, taken out of wherever it was; NULL: there is none here or elsewhere. */
weft_fiber *wf_pick(struct wf_worker *w);

/* Puts what came to the inbox where it belongs, so that it counts as ready. */
void wf_pick_gather(struct wf_worker *w);

/* How many are ready on this worker. Any thread: what was true a moment ago. */
size_t wf_pick_here(const struct wf_worker *w);

/* Whether somebody else has something that this worker could run. */
bool wf_pick_elsewhere(struct wf_worker *w);

#endif
