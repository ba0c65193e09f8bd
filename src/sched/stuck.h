/*
 * sched/stuck.h: prints, once for each run of a scheduler, a list of fibers that hold up its end and that nothing can
 * wake (docs/decisions/0028).
 *
 * Two parties look. The thread that stops a scheduler looks every second. The scheduler takes no more work then, so the
 * list has the parked fibers that nothing in the scheduler can wake. While weft_run or weft_sched_run waits without a
 * deadline, a worker that has had nothing to do for a second looks. There a plain thread, a descriptor or a timer may
 * bring work at any time, so the list is printed only if nothing in the process can wake these fibers.
 */
#ifndef WF_SCHED_STUCK_H
#define WF_SCHED_STUCK_H

#include <stdint.h>

#include "base/compiler.h"
#include "sched/sched.h"

#define WF_STUCK_AFTER WEFT_SEC

/* For the thread that stops `s`: prints the list if nothing in the scheduler can wake the fibers that are left. */
WF_COLD void wf_stuck_look_stopping(weft_sched *s);

/* A thread begins, or ends, a wait for the last fiber's end without a deadline. */
void wf_stuck_wait_begin(weft_sched *s);
void wf_stuck_wait_end(weft_sched *s);

/*
 * For worker `w`, which the caller is and which has announced its sleep, while a thread waits without a deadline:
 * looks, if the worker has had nothing to do for long enough. Returns when the worker is to wake up for the next look,
 * or `next` if that is earlier.
 */
WF_COLD int64_t wf_stuck_look_idle(struct wf_worker *w, int64_t next);

/* Whether worker `w` has to call wf_stuck_look_idle. An only worker knows by itself that descriptors may wake fibers. */
static inline bool wf_stuck_is_wanted(const struct wf_worker *w)
{
    const weft_sched *s = w->sched;
    return wf_unlikely(wf_load(&s->endless) != 0) && !(w->solo && w->counts.watches > 0) && !wf_load(&s->told);
}

#endif
