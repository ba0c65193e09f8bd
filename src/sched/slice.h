/*
 * sched/slice.h: the time slice of a policy that has one. Nothing can interrupt C code safely, so a fiber spends it at
 * every call of this library.
 */
#ifndef WF_SCHED_SLICE_H
#define WF_SCHED_SLICE_H

#include "base/thread.h"
#include "sched/worker.h"

/* Looks at the clock, and puts the fiber back if its slice is used up. */
WF_COLD void wf_slice_look(struct wf_thread *t);

/* The same at a call that has not asked who calls. */
static inline void wf_slice_here(void)
{
    struct wf_thread *t = wf_thread_now();
    if (t->fiber && wf_unlikely(t->worker->slice != 0))
        wf_slice_look(t);
}

/* The same, inline, at the beginning of a function that does not read wf_thread_self itself. */
static inline void wf_slice_enter(void)
{
    struct wf_thread *t = &wf_thread_self;
    if (t->fiber && wf_unlikely(t->worker->slice != 0))
        wf_slice_look(t);
}

/* The same, and who calls: for a function that does not switch after it. */
static inline struct wf_thread *wf_slice_enter_as(void)
{
    struct wf_thread *t = &wf_thread_self;
    if (t->fiber && wf_unlikely(t->worker->slice != 0)) {
        wf_slice_look(t);
        t = wf_thread_now();
    }
    return t;
}

/* The calling fiber makes a call. After it the thread may be another: ask wf_thread_now(). */
static inline void wf_slice_spend(struct wf_thread *t)
{
    if (wf_unlikely(t->worker->slice != 0))
        wf_slice_look(t);
}

#endif
