/*
 * sched/join.c: the end of a fiber, for those who wait for it.
 *
 * fiber->join is a word that three parties change by compare-and-swap or exchange:
 *
 *      OPEN ──join──▶ its sleeper ──end──▶ DONE ──join──▶ GONE
 *        │  ◀─gave up──┘                    ▲
 *        ├──────────────end─────────────────┘
 *        └─detach──▶ DETACHED ──end──▶ GONE
 *
 * Who makes it GONE releases the record.
 */
#include <errno.h>

#include "sched/wait.h"
#include "sched/worker.h"

static void release(weft_fiber *f)
{
    wf_fiber_release(wf_thread_now()->worker, f);
}

/* The commit step: publishes the joiner, unless it has ended meanwhile. */
static bool publish(struct wf_sleeper *me, void *arg)
{
    weft_fiber *f = arg;
    uintptr_t open = WF_JOIN_OPEN;
    return wf_cas(&f->join, &open, (uintptr_t)me); /* pairs with finish() in worker.c */
}

static int join_refused(uintptr_t join)
{
    switch (join) {
    case WF_JOIN_OPEN:
    case WF_JOIN_DONE:
        return 0;
    case WF_JOIN_DETACHED:
        return -EINVAL;
    default: /* somebody joins it, or has */
        return -EALREADY;
    }
}

int weft_join(weft_fiber *f, void **value, weft_time deadline)
{
    struct wf_sleeper own, *me = wf_sleeper(&own);
    if (!f)
        return -EINVAL;
    if (f == me->fiber)
        return -EDEADLK;
    uintptr_t join = wf_load_acquire(&f->join); /* pairs with finish(): value is there */
    int rc = join_refused(join);
    if (rc != 0)
        return rc;
    if (join == WF_JOIN_OPEN) {
        if (wf_time_is_now(deadline))
            return -EAGAIN;
        rc = wf_wait(me, "join", publish, f, deadline);
        uintptr_t mine = (uintptr_t)me;
        if (rc < 0 && wf_cas(&f->join, &mine, WF_JOIN_OPEN))
            return rc;
        join = wf_load_acquire(&f->join); /* as above */
        if (join != WF_JOIN_DONE)
            return rc < 0 ? rc : join_refused(join); /* not published: cancelled before, or somebody else was quicker */
    }
    void *result = f->value;
    uintptr_t done = WF_JOIN_DONE;
    if (!wf_cas(&f->join, &done, WF_JOIN_GONE))
        return -EALREADY;
    if (value)
        *value = result;
    release(f);
    return 0;
}

int weft_detach(weft_fiber *f)
{
    if (!f)
        return -EINVAL;
    uintptr_t join = WF_JOIN_OPEN;
    if (wf_load(&f->state) == WEFT_FIBER_NEW) { /* no scheduler has it, nor will */
        if (!wf_cas(&f->join, &join, WF_JOIN_GONE))
            return -EALREADY;
        wf_fiber_drop(f);
        return 0;
    }
    if (wf_cas(&f->join, &join, WF_JOIN_DETACHED)) /* pairs with finish() */
        return 0;
    if (join != WF_JOIN_DONE || !wf_cas(&f->join, &join, WF_JOIN_GONE))
        return -EALREADY;
    release(f);
    return 0;
}
