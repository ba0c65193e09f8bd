/*
 * sched/budget.h: how much a fiber whose calls never have to wait may do before it lets others run.
 *
 * Each call takes units from the thread's budget at its end, when the caller has its result. (If a call yielded at its
 * beginning, another fiber could close the descriptor that the caller has just found open.) When the budget is used up,
 * a new budget begins, and the fiber reads the counter. If more than the scheduler's look_every has passed since the
 * worker last looked around, the fiber yields. So a fiber whose calls all succeed at once runs on for about that long.
 * A fiber whose calls do wait yields needlessly once in a while. The budget belongs to the thread, so that no switch
 * has to fill it.
 */
#ifndef WF_SCHED_BUDGET_H
#define WF_SCHED_BUDGET_H

#include <stddef.h>

#include "base/compiler.h"
#include "base/thread.h"

enum {
    WF_BUDGET = 128,
    WF_COST_CHAN = 1,   /* of an operation on a channel */
    WF_COST_IO = 8,     /* of a call on a descriptor, */
    WF_COST_SHIFT = 13, /* and one more for each 8 KB */
};

/* The budget is used up: begins a new one. True: the calling fiber must yield now (weft_yield). */
WF_COLD bool wf_budget_ends(void);

/* The same, and yields if it must. */
WF_COLD void wf_budget_share(void);

/* The cost of a call on a descriptor. n is its result: the bytes that it has moved, or an error. */
static inline uint32_t wf_cost_io(ptrdiff_t n)
{
    return (uint32_t)(WF_COST_IO + (n >> WF_COST_SHIFT));
}

/*
 * True: the budget is used up. If the caller does not begin a new budget, this one becomes more negative with each
 * call. After 2 billion units it wraps around and is positive again.
 */
static inline bool wf_budget_take(struct wf_thread *t, uint32_t cost)
{
    t->budget -= cost;
    return wf_unlikely((int32_t)t->budget < 0);
}

/*
 * For the end of a call that did not have to wait. It must be the call's last step: after it the fiber may resume on
 * another thread. `may`: the call was allowed to wait. The whole call has run on this thread: a time slice may have
 * made the fiber yield, but only under a policy, and there fibers do not move.
 */
static inline void wf_budget_spend(uint32_t cost, bool may)
{
    if (wf_budget_take(&wf_thread_self, cost) && may)
        wf_budget_share();
}

/* The same for a call that may have waited. */
static inline void wf_budget_spend_anywhere(uint32_t cost, bool may)
{
    if (wf_budget_take(wf_thread_now(), cost) && may)
        wf_budget_share();
}

#endif
