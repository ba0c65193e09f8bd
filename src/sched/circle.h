/*
 * sched/circle.h: finds fibers that wait for each other in a circle. Each fiber waits for a lock that the next fiber
 * holds, or for the end of the next fiber.
 */
#ifndef WF_SCHED_CIRCLE_H
#define WF_SCHED_CIRCLE_H

#include <stdbool.h>

#include "sched/sched.h"

/*
 * Whether parked fibers of `s` wait in a circle (a fiber may also wait for itself). No other thread can end such a
 * wait: only the owner unlocks, and only the end of a fiber ends a join. The answer is exact if nothing wakes these
 * fibers meanwhile. The answer is false if there is no memory for the search.
 */
bool wf_has_circle(const weft_sched *s);

#endif
