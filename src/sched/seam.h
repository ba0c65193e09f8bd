/*
 * sched/seam.h: cancels a fiber at a chosen cancellation point, for tests. Only builds with WF_SEAM have it.
 *
 * Each fiber counts the cancellation points that it passes, from 1. A point with WEFT_NOW, or inside a shield or an
 * uncancellable section, does not count. A call of several steps may pass a point at each step.
 *
 * The environment variable WEFT_SEAM=cancel:N cancels every fiber at its Nth point, and WEFT_SEAM=cancel:N:NAME the
 * fibers of that name only. wf_seam_cancel_at does the same for the calling fiber. The fiber passes that point as a
 * cancelled fiber: the call returns -ECANCELED.
 *
 * The counts are fiber-local values, so the fiber's record is the same in all builds.
 */
#ifndef WF_SCHED_SEAM_H
#define WF_SCHED_SEAM_H

#include <stdint.h>

#include <weft/fiber.h>
#include <weft/time.h>

#include "base/atomic.h"
#include "base/compiler.h"

#ifdef WF_SEAM
extern WF_HIDDEN uint32_t wf_seam_on; /* atomic: fibers count their points; never 0 again */

/* The calling fiber is cancelled at its nth point from now (n from 1); 0: at none. Returns what weft_local_set does. */
int wf_seam_cancel_at(unsigned n);

/* How many cancellation points the calling fiber has passed since wf_seam_on was set. */
unsigned wf_seam_points(void);

/* The calling fiber f passes a point. */
WF_COLD void wf_seam_pass(const weft_fiber *f, weft_time deadline);
#endif

static inline void wf_seam_point(const weft_fiber *f, weft_time deadline)
{
#ifdef WF_SEAM
    if (wf_unlikely(wf_load(&wf_seam_on)) && f)
        wf_seam_pass(f, deadline);
#else
    (void)f, (void)deadline;
#endif
}

#endif
