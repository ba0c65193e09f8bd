/*
 * coro/copied.h: coroutines on shared stacks: copied out when another one needs the stack, and only then; copied back
 * before they run. Everything that can fail happens in wf_copied_prepare, before a switch changes anything.
 */
#ifndef WF_CORO_COPIED_H
#define WF_CORO_COPIED_H

#include "coro/coro.h"

/*
 * Makes sure that switching to `c` (on a shared stack, READY) cannot fail: memory to save whoever is on its stack, and
 * to save `c` itself when it gives way to one that waits below it. `leaves`: the calling coroutine is transferring.
 * 0, -EBUSY (another thread uses the stack), -ENOMEM.
 */
int wf_copied_prepare(struct wf_thread *t, weft_coro *c, bool leaves);

/* `c` becomes RUNNING. */
static inline void wf_copied_runs(struct wf_thread *t, weft_coro *c)
{
    struct wf_shared *s = c->shared;
    s->running++;
    __atomic_store_n(&s->thread, t, __ATOMIC_RELAXED);
}

/* `c` is no longer RUNNING. */
static inline void wf_copied_rests(weft_coro *c, bool done)
{
    struct wf_shared *s = c->shared;
    if (--s->running == 0)
        __atomic_store_n(&s->thread, NULL, __ATOMIC_RELAXED);
    if (done)
        s->occupant = NULL;
}

/* Puts `c` on its stack if it is not there; the caller stands elsewhere. Returns where it goes on: sp, or its start. */
void *wf_copied_place(weft_coro *c, void *sp);

/* The same from the very stack that is replaced: for wf_switch_through, with the struct wf_shared whose trip says how. */
struct wf_landing wf_copied_land(void *shared);

/* Made or reset: what to begin with. */
void wf_copied_start(weft_coro *c, weft_fn *fn, void *arg);

/* Freed while suspended: leaves its stack. */
void wf_copied_free(weft_coro *c);

#endif
