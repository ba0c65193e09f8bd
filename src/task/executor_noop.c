/*
 * task/executor_noop.c: the executor that has no thread: the caller of execute runs the function.
 */
#include "base/errno.h"
#include "sched/slice.h"
#include "task/executor.h"

static int execute(void *self, void (*fn)(void *), void *arg)
{
    (void)self;
    fn(arg);
    return 0;
}

int weft_executor_noop(weft_executor **out)
{
    static const weft_executor_ops ops = {.size = sizeof ops, .name = "noop", .execute = execute};
    wf_slice_here();
    if (!out)
        return -EINVAL;
    weft_executor *x;
    int rc = wf_executor_make(&x, &ops, NULL, false);
    if (rc == 0) {
        x->is_noop = true;
        *out = x;
    }
    return rc;
}
