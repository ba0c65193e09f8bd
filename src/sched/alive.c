/*
 * sched/alive.c: whether an owner is still there; see weft/timer.h. Any thread.
 *
 * One word says both whether the owner has dropped it and how many callbacks hold the object, so that a hold and the drop
 * cannot miss each other. Who brings the word to 0 destroys the object. The record outlives that for as long as timers
 * know it.
 */
#include "sched/alive.h"

#include "base/errno.h"
#include "base/atomic.h"
#include "base/panic.h"
#include "base/sys.h"
#include "sched/slice.h"

enum { OWNED = 1, HOLDER = 2 };

struct weft_alive {
    uint32_t
        held; /* atomic: OWNED until it is dropped, and HOLDER for each callback under way; 0: the object is gone */
    uint32_t known;                /* atomic: timers that have it, and one more until the object is gone */
    void *object;                  /* const */
    void (*destroy)(void *object); /* const; or NULL */
};

int weft_alive_new(weft_alive **out, void *object, void (*destroy)(void *object))
{
    wf_slice_here();
    if (!out)
        return -EINVAL;
    weft_alive *a = wf_sys_malloc(sizeof *a);
    if (!a)
        return -ENOMEM;
    *a = (weft_alive){.held = OWNED, .known = 1, .object = object, .destroy = destroy};
    *out = a;
    return 0;
}

void wf_alive_know(weft_alive *a)
{
    wf_add(&a->known, 1);
}

void wf_alive_forget(weft_alive *a)
{
    if (wf_add(&a->known, (uint32_t)-1) == 1) /* acquire: pairs with the release of all others before */
        wf_sys_free(a);
}

bool wf_alive_hold(weft_alive *a)
{
    uint32_t held = wf_load(&a->held);
    do {
        if (!(held & OWNED))
            return false;
    } while (!wf_cas(&a->held, &held, held + HOLDER));
    return true;
}

static void object_is_free(weft_alive *a)
{
    if (a->destroy)
        a->destroy(a->object);
    wf_alive_forget(a);
}

void wf_alive_leave(weft_alive *a)
{
    if (wf_add(&a->held, (uint32_t)-HOLDER) == HOLDER) /* acq_rel: what others did with the object is over */
        object_is_free(a);
}

bool wf_alive_is_dropped(const weft_alive *a)
{
    return !(wf_load(&a->held) & OWNED);
}

void weft_alive_drop(weft_alive *a)
{
    wf_slice_here();
    if (!a)
        return;
    uint32_t was = wf_and(&a->held, ~(uint32_t)OWNED); /* acq_rel: as in wf_alive_leave */
    if (!(was & OWNED))
        wf_panic("weft_alive_drop", "its owner has dropped it before; drop it once");
    if (was == OWNED)
        object_is_free(a);
}
