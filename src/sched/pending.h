/*
 * sched/pending.h: fibers that are made and bound to a worker, and start when something happens that their maker waits for.
 * The scheduler counts them among those that have not ended.
 */
#ifndef WF_SCHED_PENDING_H
#define WF_SCHED_PENDING_H

#include "sched/worker.h"

/* Makes one for worker `w`, whose fiber the caller is. 0 or -ENOMEM. `site` must live for ever. */
int wf_pending_new(weft_fiber **out, const char *site, struct wf_worker *w, weft_fn *fn, void *arg);

/* Starts it, once. Any thread. After it `f` is not the caller's to touch. */
void wf_pending_start(weft_fiber *f);

/* What wf_cancel_all_of calls, on its worker, for each that has not started, if somebody has set it. atomic */
extern WF_HIDDEN void (*wf_pending_cancel)(weft_fiber *f);

#endif
