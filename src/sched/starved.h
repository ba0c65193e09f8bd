/*
 * sched/starved.h: fibers that are ready to run and have no stack, because there is no memory.
 *
 * A worker keeps these fibers apart from the ready ones, so that others run meanwhile. It tries again every
 * millisecond, and when a fiber of its own gives a stack back.
 *
 * Fibers of one stack size start in order: only the first one tries, a newcomer waits behind it, and each fiber that
 * starts lets the next one try. Each size has a list of its own, because a small stack may be there when a large one is
 * not. Fibers that may move have lists apart from those that may not.
 *
 * `others` has the remaining fibers. Under a policy these are all fibers, as the policy chooses among them. Else they
 * are the fibers whose shared stack could not be put in place (their own, or that of a coroutine in them), and those
 * for which all eight lists are in use. Some of them try each time, and a fiber that fails goes behind the rest.
 *
 * Idle workers take fibers that may move, unless they lack memory themselves: they may have stacks at hand.
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

/* f is to start, and wf_starves() is true. True: it is not f's turn to try; f waits, and must not run. */
WF_COLD bool wf_starved_waits(struct wf_worker *w, weft_fiber *f);

/* There was no memory for f's stack, or to put the stack in place: f tries again later. */
WF_COLD void wf_starved_failed(struct wf_worker *w, weft_fiber *f);

/* f is about to get a stack, and wf_starves() is true: the next fiber may try. */
WF_COLD void wf_starved_started(struct wf_worker *w, const weft_fiber *f);

/* A stack of this size was given back, and wf_starves() is true: the first fiber that waits for one may try. */
WF_COLD void wf_starved_given(struct wf_worker *w, unsigned class);

/* The first of each list may try if the pause is over, by w->now. */
WF_COLD void wf_starved_look(struct wf_worker *w);

/* How many wait for memory. */
WF_COLD size_t wf_starved_count(struct wf_worker *w);

/* How many of them the worker has made ready since the last such call. */
WF_COLD size_t wf_starved_freed(struct wf_worker *w);

/* Takes some that may move from another worker. Returns one to run, and makes the rest ready on w. NULL: none. */
WF_COLD weft_fiber *wf_starved_steal(struct wf_worker *w);

/* Whether wf_starved_steal would find some. */
WF_COLD bool wf_starved_elsewhere(const struct wf_worker *w);

/* In the child of a fork: forgets them all. */
void wf_starved_forget(struct wf_worker *w);

#endif
