/*
 * coro/mount.h: what a scheduler needs of coroutines. A fiber's *base* is a coroutine that users never see: it has no
 * yield, and raw coroutines may run on top of it. A worker mounts it, with whatever runs on top; the fiber unmounts
 * itself from whichever of its coroutines is the innermost, and goes on there when it is mounted again.
 *
 *      worker's stack ◀──unmount── innermost
 *                     ──mount────▶    ⋮      (each resumed by the one below)
 *                                   base
 *
 * While mounted, base->sp holds the worker's stack pointer; unmounted, the innermost one's. One thread at a time has a
 * base; who mounts it orders that.
 */
#ifndef WF_CORO_MOUNT_H
#define WF_CORO_MOUNT_H

#include "coro/coro.h"

/* How to make a base. Zero fields are the defaults. */
struct wf_base_opts {
    unsigned class;           /* of its private stack */
    unsigned flags;           /* WEFT_FPENV, WEFT_MEASURE */
    struct wf_shared *shared; /* or its shared stack */
    uint64_t id;              /* for messages: the fiber's */
    char *name;               /* for messages; must outlive it; NULL: none */
};

/* A base that will run fn(arg), which must end by wf_unmount_last; NULL: no memory. */
WF_ENTRY weft_coro *wf_base_new(struct wf_thread *t, const struct wf_base_opts *o, weft_fn *fn, void *arg);

/* One that has ended and is plain, for another run of fn(arg). Builds with notes make a new one instead. */
static inline bool wf_base_may_rerun(const weft_coro *base)
{
    return !WF_NOTED && wf_mode(base) == (WEFT_CORO_DONE | WF_BASE);
}

static inline void wf_base_rerun(weft_coro *base, uint64_t id, char *name, weft_fn *fn, void *arg)
{
    base->id = id;
    base->name = name;
    base->user = NULL;
    base->eh = (struct wf_eh_globals){0};
    base->sp = wf_coro_frame(base, base, fn, arg);
    wf_set_mode(base, WEFT_CORO_READY | WF_BASE);
}

/* One that has ended, or was never mounted. */
void wf_base_free(struct wf_thread *t, weft_coro *base);

/*
 * Runs it, from where it unmounted itself: `inner` is what t->current was then (at first: base). Returns 0 when it
 * unmounts itself; or, without having run it, -ENOMEM: no memory to save what is on a shared stack, -EBUSY: another
 * thread uses that.
 */
WF_ENTRY int wf_mount(struct wf_thread *t, weft_coro *base, weft_coro *inner);

/* Called on it, or on a coroutine that runs on top: leaves, and returns when it is mounted again. */
WF_ENTRY void *wf_unmount(struct wf_thread *t, weft_coro *base);

/* Whether wf_hop may go to it: unmounted, private, nothing kept, nothing on top. */
static inline bool wf_may_hop(const weft_coro *base)
{
    return !WF_NOTED && wf_mode(base) == (WEFT_CORO_READY | WF_BASE);
}

/* Straight from one base, on which nothing runs, to another: as an unmount and a mount. Both must be plain. */
WF_ENTRY void *wf_hop(struct wf_thread *t, weft_coro *from, weft_coro *to);

/* Leaves for good; nothing runs on top. */
WF_ENTRY WF_NORETURN void wf_unmount_last(struct wf_thread *t, weft_coro *base);

#endif
