/*
 * sched/defer.c: see defer.h.
 */
#include "sched/defer.h"

#include "base/errno.h"
#include "base/sys.h"
#include "base/thread.h"
#include "sched/flow.h"
#include "sched/shield.h"
#include "sched/slice.h"

struct wf_defer {
    struct wf_defer *next;
    const struct wf_scope *scope; /* NULL: it belongs to the fiber */
    void (*fn)(void *arg);
    void *arg;
};

int weft_defer(void (*fn)(void *arg), void *arg)
{
    wf_slice_here();
    weft_fiber *f = wf_flow_fiber();
    if (!fn)
        return -EINVAL;
    if (!f)
        return -ENXIO;
    struct wf_extra *x = wf_extra(f);
    struct wf_defer *d = x ? wf_sys_malloc(sizeof *d) : NULL;
    if (!d)
        return -ENOMEM;
    *d = (struct wf_defer){.next = x->defers, .scope = x->open, .fn = fn, .arg = arg};
    x->defers = d;
    return 0;
}

bool wf_defers_has(const struct wf_extra *x, const struct wf_scope *s)
{
    return x->defers && x->defers->scope == s;
}

void wf_defers_run(weft_fiber *f, const struct wf_scope *s)
{
    struct wf_extra *x = wf_extra_of(f);
    struct wf_shield_time was = wf_shield_at_least(f, WEFT_DEFER_TIME);
    while (x->defers && (!s || x->defers->scope == s)) {
        struct wf_defer *d = x->defers;
        void (*fn)(void *) = d->fn;
        void *arg = d->arg;
        x->defers = d->next; /* before the call: fn may end the fiber, or add others */
        wf_sys_free(d);
        fn(arg);
    }
    wf_shield_restore(f, was);
}
