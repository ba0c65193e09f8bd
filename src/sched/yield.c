/*
 * sched/yield.c: giving way, and the clock that deadlines are on.
 */
#include <sched.h>

#include "base/clock.h"
#include "sched/slice.h"
#include "sched/worker.h"

weft_time weft_now(void)
{
    return (weft_time){wf_clock_now()};
}

weft_time weft_in(weft_span d)
{
    int64_t ns;
    if (__builtin_add_overflow(wf_clock_now(), d, &ns))
        ns = d < 0 ? 0 : INT64_MAX;
    return (weft_time){ns == INT64_MIN ? 0 : ns};
}

WF_ENTRY void weft_yield(void)
{
    struct wf_thread *t = &wf_thread_self;
    if (wf_likely(t->fiber))
        wf_leave(t, WF_LEFT_YIELD);
    else
        sched_yield();
}

void wf_slice_look(struct wf_thread *t)
{
    if (wf_clock_now() >= t->worker->slice_end)
        wf_leave(t, WF_LEFT_SLICE);
}

WF_ENTRY void weft_checkpoint(void)
{
    struct wf_thread *t = &wf_thread_self;
    if (t->fiber)
        wf_slice_spend(t);
}
