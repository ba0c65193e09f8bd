/*
 * sched/fork.h: fibers in the child of a fork. The one that forked goes on; the others are lost: none of them runs, and
 * nobody gives them anything. See fork.c.
 */
#ifndef WF_SCHED_FORK_H
#define WF_SCHED_FORK_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/fork.h"
#include "base/lock.h"
#include "fiber/sleeper.h"

struct weft_fiber;
struct weft_sched;

/* Schedulers that a fork has to see to: from weft_sched_new to weft_sched_free. */
void wf_fork_list(struct weft_sched *s);
void wf_fork_unlist(struct weft_sched *s);

/* The records of lost fibers say so when it returns. */
WF_COLD void wf_fork_bury(void);

/* Before anybody looks at what a fiber's record says of its life. */
static inline void wf_fork_look(void)
{
    if (wf_unlikely(wf_forks != 0))
        wf_fork_bury();
}

/* The bits of a plain thread's sleeper: they count forks, above WF_CANCEL. */
static inline uint32_t wf_thread_bits(void)
{
    return wf_forks << 1;
}

/* In the child of a fork: whether it is a thread that does not exist here. A lost fiber waits for nothing when it returns. */
WF_COLD bool wf_fork_lost(const struct wf_sleeper *who);

/* In the child of a fork: whether f, which has not ended, is lost. Its locks are then not to be taken. */
WF_COLD bool wf_fork_has_lost(const struct weft_fiber *f);

extern WF_HIDDEN struct wf_lock wf_fork_shared_lock; /* see wf_fork_lock. wf_task_in_child frees it */

/*
 * The lock to take for an object that was made when wf_forks was `forks`. In the child of a fork, a thread of the
 * parent may hold the object's own lock for ever. So there all objects of the parent share one lock. Nobody holds two
 * locks that this function returns.
 */

static inline struct wf_lock *wf_fork_lock(struct wf_lock *own, uint32_t forks)
{
    return wf_likely(forks == wf_forks) ? own : &wf_fork_shared_lock;
}

#endif
