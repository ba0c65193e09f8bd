/*
 * sched/idle.h: workers without work: how they sleep and who wakes them.
 */
#ifndef WF_SCHED_IDLE_H
#define WF_SCHED_IDLE_H

#include "sched/worker.h"

/* Sleeps until there is work, a sleeper's time has come or the deadline; may return for no reason. */
void wf_idle(struct wf_worker *w, int64_t deadline);

/* Tells who waits for the last fiber's end if that has come. Any thread, after a fence. */
void wf_idle_tell_if_empty(weft_sched *s);

/* The worker has found something to run, and no longer searches. */
void wf_idle_found(struct wf_worker *w);

#endif
