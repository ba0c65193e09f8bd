/*
 * task/executor_fork.c: executors in the child of a fork.
 *
 * In the child, executors with threads are lost: they count as closed, and no call takes their locks. The other
 * executors go on. Threads that do not exist in the child may have held their locks, so the locks are reset. The works
 * of such threads are forgotten. A closed executor that has no other works is then over; settle_closed says who closes
 * its table.
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

/*
 * A program's own table may still call the work in the child. Its end then changes no list of the executor. Fibers of a
 * scheduler never do, and there may be many: writing to each would copy their memory for the child.
 */
static void forget(struct wf_work *work)
{
    work->next = NULL;
    work->link = &work->next;
}

/*
 * A closed executor has no work left, and the thread that would have closed its table is not here. If that thread had
 * begun, the table is not closed twice. A table without `close` is closed as it is. Every other table is closed by the
 * next join, free, or close without drain: `close` is a function of the program, so a fork must not call it, and the
 * program's `join` and `free` rely on it.
 */
static void settle_closed(weft_executor *x)
{
    if (x->table_closed || !x->ops.close)
        x->table_closed = x->over = true;
    else
        x->dropped = false; /* else those two calls would find that there is nothing to do */
}

/* Keeps only the works that the forking thread is inside. */
static void begin_anew(weft_executor *x)
{
    struct wf_work *next, **end = &x->works;
    for (struct wf_work *work = x->works; work; work = next) {
        next = work->next;
        if (!wf_flow_find(is_of, work)) {
            if (!x->sched)
                forget(work);
            continue;
        }
        *end = work;
        work->link = end;
        end = &work->next;
    }
    *end = NULL;
    x->lock = (struct wf_lock){0};
    x->joiners = (struct wf_waiters){NULL, NULL};
    x->forks = wf_forks;
    if (x->closed && !x->works)
        settle_closed(x);
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
