/*
 * base/barrier.h: a fence of which one side costs nothing.
 *
 * Two threads each write one thing and then read the other's ("there is work", "I sleep"): at least one must see the
 * other's write. Both would need a fence; here the side that runs often has wf_barrier_light(), which only keeps the
 * compiler in order, and the side that runs seldom has wf_barrier_heavy(), which makes every other thread of the process
 * pass a fence (membarrier). Where the kernel has no membarrier both are fences.
 */
#ifndef WF_BASE_BARRIER_H
#define WF_BASE_BARRIER_H

#include <stdbool.h>

#include "base/atomic.h"
#include "base/compiler.h"

extern WF_HIDDEN bool wf_barrier_is_asymmetric; /* const after wf_barrier_init, but for a child that is alone */

/* Before the first use of the others; any number of times. */
void wf_barrier_init(void);

void wf_barrier_heavy(void);

/* In the child of a fork: what the kernel was told of the parent it is told again. */
void wf_barrier_in_child(void);

static inline void wf_barrier_light(void)
{
    __asm__ volatile("" : : : "memory");
    if (wf_unlikely(!wf_barrier_is_asymmetric))
        wf_fence();
}

#endif
