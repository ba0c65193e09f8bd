/*
 * sched/pending.h: fibers that are made and bound to a worker, and start when something happens that their maker waits for.
 * The scheduler counts them among those that have not ended.
 *
 *      new ──▶ bind, bring ──▶ start, once ──▶ it runs on its worker
 *       └─▶ discard                     (a scheduler that is freed before it ever ran: cancel, start, dropped)
 */
#ifndef WF_SCHED_PENDING_H
#define WF_SCHED_PENDING_H

#include "sched/worker.h"

/* Makes one, which is nobody's so far. 0 or -ENOMEM. `site` must live for ever. Any thread. */
int wf_pending_new(weft_fiber **out, const char *site, weft_fn *fn, void *arg);

/* Releases one that is nobody's. Any thread. */
void wf_pending_discard(weft_fiber *f);

/* It is worker `w`'s from now on, whose fiber the caller is. */
void wf_pending_bind(weft_fiber *f, struct wf_worker *w);

/* The same by any thread. guarded by: w->sched->lock, and the scheduler takes work */
void wf_pending_bring(weft_fiber *f, struct wf_worker *w);

/* Starts it, once. Any thread. After it `f` is not the caller's to touch. */
void wf_pending_start(weft_fiber *f);

/* What their makers do. Each is called for any pending fiber, and looks whether it is its own. */
struct wf_pending_ops {
    /* The scheduler cancels all, or is freed: starts it, if nobody else does. On its worker, or when no worker runs. */
    void (*cancel)(weft_fiber *f);
    /* It was started and will not run: releases what its argument is. */
    void (*drop)(weft_fiber *f);
};

/* NULL: nobody has made any. atomic */
extern WF_HIDDEN const struct wf_pending_ops *wf_pending_ops;

/* Cancels those of a scheduler, which does not run. */
void wf_pending_cancel_all(weft_sched *s);

#endif
