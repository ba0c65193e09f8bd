/*
 * rt/run.c: the default runtime: weft_run.
 */
#include <errno.h>

#include "base/fork.h"
#include "base/plain.h"
#include "base/thread.h"
#include "sched/sched.h"

static uint32_t under_way; /* atomic: one weft_run at a time */

static struct wf_plain_once once;

/* Whoever was in weft_run may not be here. */
static void in_child(void)
{
    if (!wf_load(&wf_sched_default))
        under_way = 0;
}

static void set_up(void)
{
    static const struct wf_fork_steps steps = {.in_child = in_child};
    wf_fork_join(WF_FORK_RUNTIME, &steps);
}

static int run_on(weft_sched *s, weft_fn *fn, void *arg, void **value)
{
    weft_fiber *first;
    void *result = NULL;
    int rc = weft_sched_go_at("weft_run", s, &first, NULL, fn, arg);
    if (rc == 0) {
        wf_sched_set_default(s); /* before anything runs: fibers may make threads, which may call weft_go */
        rc = weft_sched_start(s);
    }
    if (rc == 0) {
        weft_sched_run(s, WEFT_FOREVER); /* not stop alone, which takes no work from other threads */
        while (weft_sched_stop(s, WEFT_FOREVER) != 0)
            ;
    }
    wf_sched_set_default(NULL);
    if (rc == 0)
        rc = weft_join(first, &result, WEFT_NOW);
    if (rc == 0 && value)
        *value = result;
    weft_sched_free(s); /* with the first fiber, if it never ran */
    return rc;
}

int weft_run(weft_fn *fn, void *arg, void **value, const weft_sched_opts *opts)
{
    struct wf_thread *t = wf_thread_now();
    if (!fn)
        return -EINVAL;
    if (t->fiber)
        return -EDEADLK;
    if (t->worker)
        return -EBUSY;
    weft_sched_opts o = {0};
    int rc = wf_sched_read_opts(&o, opts);
    if (rc != 0)
        return rc;
    wf_plain_once(&once, set_up);
    uint32_t nobody = 0;
    if (!wf_cas(&under_way, &nobody, 1))
        return -EBUSY;
    weft_sched *s;
    o.use_caller = true;
    rc = weft_sched_new(&s, &o);
    if (rc == 0)
        rc = run_on(s, fn, arg, value);
    wf_store_release(&under_way, 0);
    return rc;
}
