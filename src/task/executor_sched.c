/*
 * task/executor_sched.c: the executor whose works are fibers of a scheduler.
 */
#include "base/errno.h"
#include "base/sys.h"
#include "sched/sched.h"
#include "sched/slice.h"
#include "task/executor.h"

struct fibers {
    weft_sched *sched; /* const */
    int worker;        /* const: 0, or WEFT_WORKER(n) */
};

static void *run(void *arg)
{
    struct wf_work *work = arg;
    work->turn(work);
    return NULL;
}

static int execute(void *self, void (*fn)(void *), void *arg)
{
    const struct fibers *to = self;
    struct wf_work *work = arg; /* the library's tables are given nothing else */
    weft_attr attr = {.size = sizeof attr};
    if (work->attr)
        attr = *work->attr;
    if (to->worker)
        attr.worker = to->worker;
    bool plain = !work->attr && !to->worker;
    work->turn = fn;
    return weft_sched_go_at("weft_executor_sched", to->sched, NULL, plain ? NULL : &attr, run, work);
}

static void release(void *self)
{
    wf_sys_free(self);
}

int weft_executor_sched(weft_executor **out, weft_sched *s, int worker)
{
    static const weft_executor_ops ops = {.size = sizeof ops, .name = "sched", .execute = execute, .free = release};
    wf_slice_here();
    if (!out || !s || worker < 0 || worker > (int)s->workers)
        return -EINVAL;
    struct fibers *to = wf_sys_malloc(sizeof *to);
    if (!to)
        return -ENOMEM;
    *to = (struct fibers){s, worker};
    weft_executor *x;
    int rc = wf_executor_make(&x, &ops, to, false);
    if (rc == 0) {
        x->sched = s;
        *out = x;
    }
    return rc;
}
