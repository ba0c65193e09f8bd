/*
 * base/fork.h: what is done around fork(2), part by part.
 *
 * The child has one thread. What the others were doing at that moment stays half done there, and the locks that they held
 * stay held. So each part of the library has steps: `before` takes the locks of what the child goes on using, so that it is
 * whole; `after` releases them in the parent; `in_child` does so in the child, and forgets there whatever belonged to other
 * threads and fibers. What a child forgets as a whole needs no lock before: its lock is made anew with it.
 *
 * The order of the locks is the order of the parts below, from the last to the first; `in_child` goes from the first to the
 * last. Elsewhere nobody takes one of these locks while it has another (but for those of WF_FORK_SCHEDS, see
 * sched/fork.c), and no code of the user runs under any: so `before` cannot wait for somebody who waits for it. (But for
 * what a library does before a fork that was registered before us; we are as early as can be.)
 */
#ifndef WF_BASE_FORK_H
#define WF_BASE_FORK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

enum wf_fork_part {
    WF_FORK_THREADS, /* the list of threads, and ids */
    WF_FORK_SLABS,   /* private stacks */
    WF_FORK_SHARED,  /* shared stacks */
    WF_FORK_FIBERS,  /* the pool of records */
    WF_FORK_EXTRAS,  /* memory of extras that workers hand on */
    WF_FORK_SCHEDS,  /* schedulers, their workers, timers and drivers */
    WF_FORK_OFFLOAD, /* helpers */
    WF_FORK_IO,      /* the table of descriptors */
    WF_FORK_ATTEMPT, /* the ring for calls that are not to wait */
    WF_FORK_TASKS,   /* executors and tasks */
    WF_FORK_RUNTIME, /* weft_run */
    WF_FORK_PARTS,
};

/* Each may be NULL. `in_child` runs on the only thread. */
struct wf_fork_steps {
    void (*before)(void);
    void (*after)(void);
    void (*in_child)(void);
};

/* From now on these are the steps of a part; by its first lock, so that no fork can miss it. Any number of times. */
void wf_fork_join(enum wf_fork_part part, const struct wf_fork_steps *steps);

/* Whether this is a child of vfork(2): it has the memory of its parent, and nothing here is its own. Asks the kernel. */
bool wf_fork_is_guest(void);

/* How many forks this process is away from the first. What has kept another number is of before, and of nobody here. */
extern WF_HIDDEN uint32_t wf_forks; /* const, but for a child that is alone */

#endif
