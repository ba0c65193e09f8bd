/*
 * sched/cancel.h: the cancel of one fiber, and its cause.
 *
 * WF_CANCEL is the bit that a fiber's waits look at. It is set for two reasons. Either the fiber itself was cancelled:
 * then WF_CANCEL_SELF is set too, and both stay. Or a scope that the fiber has open was cancelled: then WF_CANCEL stays
 * until that scope is closed (wf_scope_remove). The kind of the first cause is in the bits beside WF_CANCEL_SELF. The
 * rest of the cause is in the fiber's extra.
 */
#ifndef WF_SCHED_CANCEL_H
#define WF_SCHED_CANCEL_H

#include "base/errno.h"
#include "fiber/extra.h"

/* Sets the bits of a cancel of the fiber itself, in one step; the first kind stays. */
static inline void wf_bits_cancel(weft_fiber *f, int kind)
{
    uint32_t bits = wf_load(&f->sleeper.bits), now;
    do {
        now = bits | WF_CANCEL | WF_CANCEL_SELF;
        if (!(bits & WF_CANCEL_SELF))
            now |= (uint32_t)kind << WF_CAUSE_SHIFT;
    } while (!wf_cas(&f->sleeper.bits, &bits, now));
}

/* The cause of a cancel of the fiber itself. x may be NULL. guarded by: x->lock */
static inline struct wf_cause wf_cause_of(const struct wf_extra *x, uint32_t bits)
{
    if (x && x->cause.kind != 0)
        return x->cause;
    return (struct wf_cause){.kind = (int)(bits >> WF_CAUSE_SHIFT & WF_CAUSE_MASK), .code = -ECANCELED};
}

/* The cause's text, or a description of its kind if it has none. */
const char *wf_cause_text(const struct wf_cause *why);

#endif
