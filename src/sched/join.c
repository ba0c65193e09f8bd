/*
 * sched/join.c: the end of a fiber, for those who wait for it.
 *
 * fiber->join is a word that three parties change by compare-and-swap:
 *
 *      OPEN ──join──▶ its sleeper ──end──▶ ENDING ──▶ DONE ──join──▶ GONE
 *        │  ◀─gave up──┘                               ▲
 *        ├─────────────────────end─────────────────────┘
 *        └─detach──▶ DETACHED ──end──▶ GONE
 *
 * ENDING is short: the end races for the joiner with its deadline and its cancellation. A joiner that they won does not
 * go on before DONE, as its sleeper is still looked at: it may be on a thread's stack, or in its next wait by then.
 *
 * Who makes it GONE releases the record.
 */
#include <sched.h>

#include "base/errno.h"
#include "sched/slice.h"
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
    if (!wf_cas(&f->join, &open, (uintptr_t)me)) /* pairs with wf_join_ended */
        return false;
    wf_commit_done(me);
    return true;
}

bool wf_join_ended(weft_fiber *f)
{
    uintptr_t was = wf_load(&f->join);
    do {
        if (was == WF_JOIN_DETACHED)
            return false;
    } while (!wf_cas(&f->join, &was, was == WF_JOIN_OPEN ? WF_JOIN_DONE : WF_JOIN_ENDING)); /* release: the value */
    if (was == WF_JOIN_OPEN)
        return true;
    struct wf_sleeper *joiner = (struct wf_sleeper *)was;
    bool won = wf_settle(joiner, 0);
    wf_store_release(&f->join, WF_JOIN_DONE); /* pairs with weft_join: the value, and a joiner that gave up may go */
    if (won)
        wf_ready(joiner);
    return true;
}

/* One that gave up: waits until the end of f has done with it, if that is under way. What f->join is then. */
static uintptr_t let_go(weft_fiber *f)
{
    uintptr_t join;
    while ((join = wf_load_acquire(&f->join)) == WF_JOIN_ENDING) { /* pairs with wf_join_ended */
        wf_cpu_relax();
        sched_yield(); /* a few instructions, unless its thread was interrupted */
    }
    return join;
}

static int join_refused(uintptr_t join)
{
    switch (join) {
    case WF_JOIN_OPEN:
    case WF_JOIN_DONE:
        return 0;
    case WF_JOIN_DETACHED:
        return -EINVAL;
    case WF_JOIN_LOST:
        return -ESRCH;
    default: /* somebody joins it, or has */
        return -EALREADY;
    }
}

/*
 * Whether nobody but the calling thread could run `f` to its end: the thread is a worker, but in no fiber, so it runs none
 * while it waits. One that is ready and may move can be stolen; every other one needs its home.
 */
static bool waits_for_us(const weft_fiber *f)
{
    const struct wf_thread *t = wf_thread_now();
    const struct wf_worker *w = t->worker;
    if (!w || wf_load(&f->sched) != w->sched)
        return false;
    uint32_t state = wf_load_acquire(&f->state); /* pairs with wf_worker_commit: the home that it is parked on */
    if (state == WEFT_FIBER_NEW || state == WEFT_FIBER_DONE)
        return false;
    if (w->solo)
        return true;
    return wf_load_acquire(&f->home) == w && /* pairs with bind(): `bound` */
           (state == WEFT_FIBER_PARKED || f->bound || !(wf_load(&f->flags) & WEFT_MIGRATE));
}

int weft_join(weft_fiber *f, void **value, weft_time deadline)
{
    struct wf_sleeper own, *me = wf_sleeper(&own);
    if (!f)
        return -EINVAL;
    if (f == me->fiber)
        return -EDEADLK;
    wf_debug_handle(__func__, f);
    wf_fork_look();
    uintptr_t join = wf_load_acquire(&f->join); /* pairs with wf_join_ended: the value is there */
    int rc = join_refused(join);
    if (rc != 0)
        return rc;
    if (wf_cancel_point_of(me, deadline))
        return -ECANCELED;
    if (join == WF_JOIN_OPEN) {
        if (wf_time_is_now(deadline))
            return -EAGAIN;
        if (wf_unlikely(!me->fiber) && waits_for_us(f))
            return -EDEADLK;
        rc = wf_wait(me, "join", publish, f, deadline);
        uintptr_t mine = (uintptr_t)me;
        if (rc < 0 && wf_cas(&f->join, &mine, WF_JOIN_OPEN))
            return rc;
        join = let_go(f);
        if (join !=
            WF_JOIN_DONE) /* not published: cancelled before, or somebody else was quicker and may have given up */
            return rc < 0 ? rc : join == WF_JOIN_OPEN ? -EALREADY : join_refused(join);
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
    wf_slice_here();
    if (!f)
        return -EINVAL;
    wf_debug_handle(__func__, f);
    wf_fork_look();
    uintptr_t join = WF_JOIN_OPEN;
    if (wf_load(&f->state) == WEFT_FIBER_NEW) { /* no scheduler has it, nor will */
        if (!wf_cas(&f->join, &join, WF_JOIN_GONE))
            return -EALREADY;
        wf_fiber_drop(f);
        return 0;
    }
    if (wf_cas(&f->join, &join, WF_JOIN_DETACHED)) /* pairs with wf_join_ended */
        return 0;
    if (join == WF_JOIN_LOST)
        return -ESRCH;
    if (join != WF_JOIN_DONE || !wf_cas(&f->join, &join, WF_JOIN_GONE))
        return -EALREADY;
    release(f);
    return 0;
}
