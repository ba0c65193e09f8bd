/*
 * sched/later.h: what a cancel, or the end of a task, leaves to be done when the caller holds no lock, and has nothing
 * half done: to cancel children of scopes that are not fibers, and to continue tasks on the calling thread (tasks on
 * noop, and tasks for which no thread could be had). Such a task may do anything, wait for the caller's scope to close
 * for instance. So nothing may be waiting for the caller meanwhile.
 *
 * {0} is an empty list. src/task fills it: this layer does not know tasks.
 */
#ifndef WF_SCHED_LATER_H
#define WF_SCHED_LATER_H

#include <stdbool.h>

#include "base/compiler.h"

struct weft_task;
struct wf_child;

struct wf_later {
    struct wf_child *held;          /* children that a cancel holds, linked by `held` */
    struct weft_task *first, *last; /* tasks that are to continue, linked by coro.next */
    /* Continues the tasks, as wf_later_do says. Set if there is a task. */
    void (*resume)(struct wf_later *l, bool here);
};

/* Cancels the children, then continues the tasks: `here` on the calling thread, else on threads of their own. */
WF_COLD void wf_later_do(struct wf_later *l, bool here);

/* Does all of it on the calling thread. */
static inline void wf_later_here(struct wf_later *l)
{
    if (wf_unlikely(l->held || l->first))
        wf_later_do(l, true);
}

/* The same where tasks must not continue: on a worker's own stack, or before a call returns that must not wait. */
static inline void wf_later_apart(struct wf_later *l)
{
    if (wf_unlikely(l->held || l->first))
        wf_later_do(l, false);
}

#endif
