/*
 * sched/starved.h: fibers that are ready to run and have no stack, because there is no memory.
 *
 * A worker keeps these fibers apart from the ready fibers, so that other fibers run meanwhile. It tries again every
 * millisecond, and when a fiber of its own gives a stack back.
 *
 * Fibers of one stack size start in order: only the first fiber tries, a newcomer waits behind it, and each fiber that
 * starts lets the next fiber try. Each size has a list of its own, because there may be memory for a small stack when
 * there is none for a large one. Fibers that may move and fibers that may not have separate lists.
 *
 * `others` has the remaining fibers. Under a policy these are all fibers, as the policy chooses among them. Without a
 * policy they are of two kinds: fibers whose shared stack could not be put in place (their own, or that of a coroutine
 * in them), and fibers that found all eight lists in use. At each try some of them try, and a fiber that fails goes
 * behind the rest.
 *
 * Idle workers take fibers that may move, because they may have stacks at hand; not if they lack memory themselves.
 *
 * All functions are called on the thread of the worker `w`. Only wf_starved_steal and wf_starved_elsewhere look at
 * other workers.
 */
#ifndef WF_SCHED_STARVED_H
#define WF_SCHED_STARVED_H

#include "sched/worker.h"

/* Whether fibers of this worker wait for memory. */
static inline bool wf_starves(const struct wf_worker *w)
{
    return wf_load(&w->starved.active) != 0;
}

/* Call before f starts if wf_starves() is true. True: it is not f's turn to try; f waits, and must not run. */
WF_COLD bool wf_starved_waits(struct wf_worker *w, weft_fiber *f);

/* There was no memory for f's stack, or none to put the stack in place: f tries again later. */
WF_COLD void wf_starved_failed(struct wf_worker *w, weft_fiber *f);

/* Call when f is about to get a stack, if wf_starves() is true: the next fiber may try. */
WF_COLD void wf_starved_started(struct wf_worker *w, const weft_fiber *f);

/* Call when a stack of this size was given back, if wf_starves() is true: the first fiber that waits for it may try. */
WF_COLD void wf_starved_given(struct wf_worker *w, unsigned class);

/* If the pause is over by w->now, the first fiber of each list may try. */
WF_COLD void wf_starved_look(struct wf_worker *w);

/* How many fibers wait for memory. */
WF_COLD size_t wf_starved_count(struct wf_worker *w);

/* How many of these fibers the worker has made ready since the last such call. */
WF_COLD size_t wf_starved_freed(struct wf_worker *w);

/* Takes fibers that may move from another worker. Returns one to run, and makes the rest ready on w. NULL: none. */
WF_COLD weft_fiber *wf_starved_steal(struct wf_worker *w);

/* Whether wf_starved_steal would find a fiber. */
WF_COLD bool wf_starved_elsewhere(const struct wf_worker *w);

/* In the child of a fork: forgets all fibers that wait for memory. */
void wf_starved_forget(struct wf_worker *w);

#endif
