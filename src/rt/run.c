/*
 * rt/run.c: the default runtime: weft_run.
 */
#include <errno.h>

#include "base/fork.h"
#include "base/plain.h"
#include "base/thread.h"
#include "sched/finish.h"
#include "sched/flow.h"
#include "sched/hooked.h"
#include "sched/sched.h"
#include "sched/wait.h"

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

/* What the first fiber runs, with end_with_first. In run_on's frame. */
struct first {
    weft_sched *sched;
    weft_fn *fn;
    void *arg;
};

static void note_end(void *arg)
{
    weft_sched *s = arg;
    s->first_ended = true;
}

/* The fiber is bound to worker 0, whose loop ends when the fiber ends, even if fn does not return (weft_hook_end). */
static void *run_first(void *arg)
{
    const struct first *first = arg;
    struct wf_finish step;
    wf_finish_begin(&step, note_end, first->sched);
    void *value = first->fn(first->arg);
    wf_finish_end(&step);
    return value;
}

/* Waits until every fiber has ended. */
static void end_all(weft_sched *s)
{
    while (weft_sched_stop(s, WEFT_FOREVER) != 0)
        ;
}

static int run_on(weft_sched *s, weft_fn *fn, void *arg, void **value, const weft_sched_opts *o)
{
    weft_fiber *first;
    void *result = NULL;
    struct first begin = {s, fn, arg};
    /* On the calling thread: it stands for that thread, which gets the process's signals if it is the main one. */
    weft_attr attr = {.size = sizeof attr, .worker = WEFT_WORKER(0)};
    int rc = o->end_with_first ? weft_sched_go_at("weft_run", s, &first, &attr, run_first, &begin)
                               : weft_sched_go_at("weft_run", s, &first, &attr, fn, arg);
    if (rc == 0) {
        wf_hook_set_first(weft_fiber_id(first));
        wf_sched_set_default(s); /* before anything runs: fibers may make threads, which may call weft_go */
        rc = weft_sched_start(s);
    }
    if (rc == 0 && o->end_with_first) {
        wf_sched_run_first(s);
        wf_sched_stop_now(s, o->grace);
        end_all(s);
    } else if (rc == 0) {
        weft_sched_run(s, WEFT_FOREVER); /* not stop alone, which takes no work from other threads */
        end_all(s);
    }
    wf_sched_set_default(NULL);
    wf_hook_set_first(0);
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
    if (wf_cancel_point(NULL, WEFT_FOREVER)) /* in a task that is no fiber */
        return -ECANCELED;
    wf_plain_once(&once, set_up);
    uint32_t nobody = 0;
    if (!wf_cas(&under_way, &nobody, 1))
        return -EBUSY;
    weft_sched *s;
    weft_sched_opts plain = o;
    plain.use_caller = true;
    plain.end_with_first = false;
    rc = weft_sched_new(&s, &plain);
    if (rc == 0) {
        struct wf_deaf deaf = wf_deaf_begin(NULL); /* a cancel of the task leaves the runtime alone */
        rc = run_on(s, fn, arg, value, &o);
        wf_deaf_end(&deaf);
    }
    wf_store_release(&under_way, 0);
    return rc;
}
