/*
 * task/executor_fork.c: executors in the child of a fork.
 *
 * In the child, executors with threads are lost: they count as closed, and no call takes their locks. The other
 * executors go on. Threads that do not exist in the child may have held their locks, so the locks are reset. The works
 * of such threads are forgotten.
 */
#include "base/plain.h"
#include "task/executor.h"
#include "task/task.h"

static struct wf_plain_once once;
static struct wf_plain_mutex lock;
static weft_executor *all; /* guarded by: lock */

static void before(void)
{
    wf_plain_lock(&lock);
    wf_flow_fork_begin();
}

static void after(void)
{
    wf_flow_fork_end();
    wf_plain_unlock(&lock);
}

static bool is_of(struct wf_flow *flow, const void *work)
{
    return (const char *)flow == (const char *)work + ((const struct wf_work *)work)->kind->flow;
}

/* Keeps only the works that the forking thread is inside. */
static void begin_anew(weft_executor *x)
{
    struct wf_work *next, **end = &x->works;
    for (struct wf_work *work = x->works; work; work = next) {
        next = work->next;
        if (!wf_flow_find(is_of, work))
            continue;
        *end = work;
        work->link = end;
        end = &work->next;
    }
    *end = NULL;
    x->lock = (struct wf_lock){0};
    x->joiners = (struct wf_waiters){NULL, NULL};
    x->forks = wf_forks;
}

static void in_child(void)
{
    wf_flow_fork_end();
    for (weft_executor *x = all; x; x = x->next_of_all) {
        if (!x->has_threads)
            begin_anew(x);
    }
    wf_task_in_child();
    wf_plain_unlock(&lock);
}

static void set_up(void)
{
    static const struct wf_fork_steps steps = {before, after, in_child};
    wf_fork_join(WF_FORK_TASKS, &steps);
}

void wf_executor_watch_forks(void)
{
    wf_plain_once(&once, set_up);
}

void wf_executor_list(weft_executor *x)
{
    wf_executor_watch_forks();
    wf_plain_lock(&lock);
    x->next_of_all = all;
    x->link_of_all = &all;
    if (all)
        all->link_of_all = &x->next_of_all;
    all = x;
    wf_plain_unlock(&lock);
}

void wf_executor_unlist(weft_executor *x)
{
    wf_plain_lock(&lock);
    *x->link_of_all = x->next_of_all;
    if (x->next_of_all)
        x->next_of_all->link_of_all = x->link_of_all;
    wf_plain_unlock(&lock);
}
