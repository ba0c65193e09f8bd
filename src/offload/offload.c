/*
 * offload/offload.c: the caller's side of weft/offload.h: who waits for a job, and who gives up. Fibers and any thread.
 */
#include "offload/offload.h"

#include <string.h>

#include "base/errno.h"
#include "base/clock.h"
#include "base/options.h"
#include "base/panic.h"
#include "base/sys.h"
#include "offload/pool.h"
#include "sched/flow.h"
#include "sched/slice.h"
#include "sched/wait.h"

#define FIRST_SIZE sizeof(weft_offload_opts)
#define SPINS 100 /* who has woken us is about to be done with that */

/* A fiber here is woken from outside of its scheduler: it is not one that nothing can wake. */
static void count_watch(int change)
{
    struct wf_worker *w = wf_thread_now()->worker;
    if (w)
        wf_store(&w->counts.watches, w->counts.watches + (size_t)change);
}

struct waiting {
    struct wf_errand_end *end;
    bool came; /* it had come before we slept */
};

/* The commit step where something else may end the wait. */
static bool link_and_unlock(struct wf_sleeper *me, void *arg)
{
    struct waiting *w = arg;
    w->came = !w->end->link(w->end, me);
    wf_unlock(&wf_pool_lock);
    return !w->came;
}

/* As wf_wait_unlocking. */
static int wait_for_either(struct wf_errand_end *end, struct wf_sleeper *me, weft_time deadline)
{
    if (!end)
        return wf_wait_unlocking(me, "helper", &wf_pool_lock, deadline);
    struct waiting w = {.end = end};
    int rc = wf_wait(me, "helper", link_and_unlock, &w, deadline);
    if (!w.came)
        end->unlink(end);
    return w.came ? end->why : rc;
}

/* 0, -ETIMEDOUT, -ECANCELED or what else has ended it; *state is what the job was in when nobody waited for it any more. */
static int wait_for(struct wf_job *j, struct wf_sleeper *me, weft_time deadline, enum wf_job_state *state)
{
    int rc = 0;
    bool woken = false;
    wf_lock(&wf_pool_lock);
    if (j->state == WF_JOB_QUEUED || j->state == WF_JOB_RUNNING) {
        j->who = me;
        rc = wait_for_either(j->errand.end, me, deadline);
        woken = rc == 0;
        wf_lock(&wf_pool_lock);
    }
    if (j->state == WF_JOB_RUNNING && j->errand.stays) {
        wf_wait_deaf(me, "helper", &wf_pool_lock, WEFT_FOREVER);
        woken = true;
        wf_lock(&wf_pool_lock);
    } else if (j->state == WF_JOB_RUNNING && rc == -ECANCELED && j->errand.outlasts_cancel) {
        rc = wf_wait_deaf(me, "helper", &wf_pool_lock, deadline);
        woken = rc == 0;
        wf_lock(&wf_pool_lock);
    }
    *state = wf_pool_give_up(j);
    wf_unlock(&wf_pool_lock);
    for (int i = 0; woken && !wf_load_acquire(&j->told); i++) { /* pairs with tell */
        if (i < SPINS)
            wf_cpu_relax();
        else
            weft_yield();
    }
    return rc;
}

/* Whether there is any use in beginning: 0, or why not. */
static int check_begin(const struct wf_sleeper *me, weft_time deadline)
{
    if (wf_time_is_now(deadline))
        return -EAGAIN;
    if (wf_cancel_point_of(me, deadline))
        return -ECANCELED;
    return deadline.ns != INT64_MAX && wf_clock_now() >= deadline.ns ? -ETIMEDOUT : 0;
}

static int never_begins(const struct wf_errand *errand, int why)
{
    if (errand->drop && (why == -ETIMEDOUT || why == -ECANCELED || (errand->end && why == errand->end->why)))
        errand->drop(errand->arg, NULL);
    return why;
}

int wf_offload(const struct wf_errand *errand, void **value, weft_time deadline)
{
    struct wf_sleeper own, *me = wf_sleeper(&own);
    int rc = check_begin(me, deadline);
    if (rc != 0)
        return never_begins(errand, rc);
    struct wf_job *j = wf_sys_malloc(sizeof *j);
    if (!j)
        return -ENOMEM;
    *j = (struct wf_job){.errand = *errand, .state = WF_JOB_QUEUED};
    wf_pool_put(j);
    enum wf_job_state state;
    count_watch(1);
    rc = wait_for(j, me, deadline, &state);
    count_watch(-1);
    if (state == WF_JOB_RUNNING)
        return rc; /* the helper frees it */
    if (state == WF_JOB_DONE) {
        rc = 0; /* also if it ended while we gave up */
        if (value)
            *value = j->value;
    } else {
        rc = never_begins(errand, state == WF_JOB_REFUSED ? -EAGAIN : rc);
    }
    wf_sys_free(j);
    return rc;
}

static int read_opts(weft_offload_opts *mine, const weft_offload_opts *theirs)
{
    *mine = (weft_offload_opts){.size = sizeof *mine};
    int rc = theirs ? wf_options_read(mine, sizeof *mine, theirs, FIRST_SIZE) : 0;
    if (rc != 0)
        return rc;
    return mine->kind < WEFT_OFFLOAD_CALL || mine->kind >= WEFT_OFFLOAD_ALL ? -EINVAL : 0;
}

/* Whether the caller is a child of a scope, or has a scope open: then a call must not outlive the close. */
static bool is_in_a_scope(void)
{
    const weft_fiber *f = wf_thread_now()->fiber;
    const struct wf_flow *flow = wf_flow_task();
    if (flow && flow->in_scope)
        return true;
    const struct wf_extra *x = f ? wf_load_acquire(&f->extra) : NULL; /* pairs with wf_extra */
    return x && (x->open || x->child.scope);
}

int weft_offload_with(const weft_offload_opts *opts, weft_fn *fn, void *arg, void **value, weft_time deadline)
{
    wf_slice_here();
    weft_offload_opts o;
    int rc = fn ? read_opts(&o, opts) : -EINVAL;
    if (rc != 0)
        return rc;
#if WF_DEBUG
    if (wf_on_copied_stack(arg))
        wf_panic(__func__, "the argument is on a shared stack, where the helper cannot reach it while the fiber waits; "
                           "allocate it, or give the fiber a stack of its own");
#endif
    struct wf_errand errand = {.fn = fn,
                               .arg = arg,
                               .drop = o.drop,
                               .kind = o.kind,
                               .stays = o.stays,
                               .outlasts_cancel = !o.drop && is_in_a_scope()};
    if (deadline.ns == INT64_MAX && !wf_thread_now()->fiber) {
        if (wf_cancel_point(NULL, deadline)) /* in a task that is cancelled */
            return never_begins(&errand, -ECANCELED);
        void *result = fn(arg);
        if (value)
            *value = result;
        return 0;
    }
    return wf_offload(&errand, value, deadline);
}

int weft_offload(weft_fn *fn, void *arg, void **value, weft_time deadline)
{
    return weft_offload_with(NULL, fn, arg, value, deadline);
}
