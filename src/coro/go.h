/*
 * coro/go.h: the general way from one stack to another: for switch.c and mount.c.
 */
#ifndef WF_CORO_GO_H
#define WF_CORO_GO_H

#include "coro/copied.h"
#include "coro/coro.h"
#include "coro/cxx.h"
#include "coro/notes.h"

/* Exchanges what belongs to one side of a switch to or from `c`: called on both ways. */
static inline void swap_kept(weft_coro *c, uint32_t mode)
{
    if (mode & WF_FP)
        wf_fp_swap(&c->fp, &c->fp_seen);
    if (wf_unlikely(mode & WF_EH))
        wf_eh_swap(&c->eh);
}

/* Which type the caller returns: a tail jump needs it to match. */
enum returns { AN_INT, A_POINTER };

/* A way to go: from a stack (NULL: the thread's own) to another, with a value. */
struct way {
    weft_coro *from, *to;
    bool done;   /* `from` is left for good */
    void **save; /* where the context that is left is kept */
    void *to_sp; /* where `to` goes on */
    void **slot; /* where `to` wants the value, or NULL */
    void *in;    /* the value */
    void *pass;  /* what the switch that `to` waits in returns */
};

/* The last step: saves the calling context and leaves it. Inline, so that no function is half left. */
static inline __attribute__((always_inline)) void *jump(enum returns type, void **save, void *sp, void *pass)
{
    return type == AN_INT ? (void *)(intptr_t)wf_switch_int(save, sp, pass) : wf_switch(save, sp, pass);
}

static inline __attribute__((always_inline)) void *jump_through(enum returns type, struct wf_shared *s)
{
    return type == AN_INT ? (void *)(intptr_t)wf_switch_through_int(&s->trip.left_sp, s->passage, wf_copied_land, s)
                          : wf_switch_through(&s->trip.left_sp, s->passage, wf_copied_land, s);
}

/* The switch itself, in one place: puts `to` on its stack if that is shared, delivers the value, and goes. */
static inline __attribute__((always_inline)) void *go(enum returns type, struct wf_thread *t, const struct way w)
{
    bool replaces_own_stack = w.from && w.to && w.to->shared && w.from->shared == w.to->shared;
    void *sp = w.to_sp;
    if (replaces_own_stack) {
        w.to->shared->trip = (struct wf_trip){
            .save = w.save, .place = w.to, .to_sp = sp, .slot = w.slot, .in = w.in, .pass = w.pass};
    } else {
        if (wf_copied(w.to))
            sp = wf_copied_place(w.to, sp);
        if (w.slot)
            *w.slot = w.in;
    }
#if WF_NOTED
    void *fake_stack = NULL;
    wf_note_leave(t, w.from, w.to, w.done, &fake_stack);
    void *back = replaces_own_stack ? jump_through(type, w.to->shared) : jump(type, w.save, sp, w.pass);
    wf_note_arrive(fake_stack);
    return back;
#else
    (void)t;
    if (wf_unlikely(replaces_own_stack))
        return jump_through(type, w.to->shared);
    return jump(type, w.save, sp, w.pass);
#endif
}

#endif
