/*
 * sched/alive.h: what a timer does with its condition; see weft/timer.h. Any thread.
 */
#ifndef WF_SCHED_ALIVE_H
#define WF_SCHED_ALIVE_H

#include <stdbool.h>

#include <weft/timer.h>

/* A timer has this condition: the record stays until wf_alive_forget, the object does not. */
void wf_alive_know(weft_alive *a);
void wf_alive_forget(weft_alive *a);

/* Keeps the object until wf_alive_leave. False: the owner has dropped it. By one who knows it. */
bool wf_alive_hold(weft_alive *a);
/* The last one to leave runs the destructor. */
void wf_alive_leave(weft_alive *a);

bool wf_alive_is_dropped(const weft_alive *a);

#endif
