/*
 * coro/switch.c: resume, yield, transfer and the end of a coroutine.
 *
 * Each has a plain way, taken when one comparison says that nothing is special: bookkeeping, then a tail jump into the
 * switch, which returns straight to the user's call. The general way does the rest: errors, floating-point words, C++
 * globals, shared stacks. Both read the thread-local inline, before the switch, and nothing after it; builds with notes
 * (sanitizers, debug) always take the general way and go through wf_thread_now() on arrival.
 *
 * Values are delivered before the switch, by the side that leaves: into the other side's slot, once that side's stack is
 * in place.
 */
#include <errno.h>

#include "base/panic.h"
#include "coro/copied.h"
#include "coro/coro.h"
#include "coro/go.h"
#include "coro/notes.h"

#define YIELDED ((void *)1)
#define ENDED ((void *)0)

#if WF_NOTED
void *wf_noted_begin(void *coroutine)
{
    weft_coro *c = coroutine;
    wf_note_arrive(NULL);
    return c->fn(c->arg);
}
#endif

static bool waits_for_me(const struct wf_thread *t, const weft_coro *c)
{
    for (const weft_coro *up = t->current; up; up = up->resumer) {
        if (up == c)
            return true;
    }
    return false;
}

WF_COLD static int refuse(const struct wf_thread *t, const weft_coro *c, const char *function)
{
    switch (wf_mode(c) & WF_STATE) {
    case 0:
        wf_panic(function, "the coroutine at %p was freed before; keep no pointer to one after weft_coro_free",
                 (void *)c);
    case WEFT_CORO_DONE:
        return -ESRCH;
    default:
        return waits_for_me(t, c) ? -EDEADLK : -EBUSY;
    }
}

/* Takes a READY coroutine for this thread and makes sure that the switch to it cannot fail. */
static inline int take(struct wf_thread *t, weft_coro *c, bool leaves, const char *function)
{
    if (!wf_claim(t, c))
        return refuse(t, c, function);
    int rc = 0;
    if (wf_unlikely((wf_mode(c) & WF_STATE) != WEFT_CORO_READY))
        rc = refuse(t, c, function);
    else if (c->shared)
        rc = wf_copied_prepare(t, c, leaves);
    if (wf_unlikely(rc != 0))
        wf_unclaim(c);
    return rc;
}

WF_ENTRY static int resume_general(struct wf_thread *t, weft_coro *c, void *in, void **value)
{
    if (!c)
        return -EINVAL;
    if (wf_unlikely(!t->entered))
        wf_coro_enter_thread(t);
    int rc = take(t, c, false, "weft_coro_resume");
    if (wf_unlikely(rc != 0))
        return rc;

    weft_coro *from = t->current;
    uint32_t mode = wf_mode(c);
    bool waits_in_transfer = mode & WF_TRANSFERRED;
    void **slot = waits_in_transfer ? c->value : NULL;
    c->resumer = from;
    c->value = value;
    if (wf_copied(from))
        from->waits_for = c;
    if (c->shared)
        wf_copied_runs(t, c);
    wf_set_mode(c, WEFT_CORO_RUNNING | (mode & WF_FOR_LIFE) | (wf_copied(from) ? WF_OVER_COPIED : 0));
    t->current = c;
    t->expect = wf_expect(c);
    swap_kept(c, mode);
    return (int)(intptr_t)go(AN_INT, t,
                             (struct way){.from = from,
                                          .to = c,
                                          .save = &c->sp,
                                          .to_sp = c->sp,
                                          .slot = slot,
                                          .in = in,
                                          .pass = waits_in_transfer ? YIELDED : in});
}

/* The common way onto a shared stack: from a plain one, with nobody waiting below. */
WF_HOT WF_ENTRY static int resume_copied(struct wf_thread *t, weft_coro *c, void *in, void **value)
{
    if (wf_unlikely(!wf_copied_place_quickly(c)))
        return resume_general(t, c, in, value);
    wf_set_mode(c, WF_PLAIN_RUNNING | WF_COPIED);
    wf_copied_runs(t, c);
    c->resumer = t->current;
    c->value = value;
    t->current = c;
    t->expect = WF_NEVER;
    return wf_switch_int(&c->sp, c->sp, in);
}

/* Not plain: the two kinds that are used a lot have short ways of their own. */
WF_HOT WF_ENTRY static int resume_other(struct wf_thread *t, weft_coro *c, void *in, void **value)
{
    if (!c || t->expect != WF_PLAIN_READY) /* if it is, the current one is not on a shared stack */
        return resume_general(t, c, in, value);
    uint32_t mode = wf_mode(c);
    if (mode == (WF_PLAIN_READY | WF_COPIED))
        return resume_copied(t, c, in, value);
    if (mode != (WF_PLAIN_READY | WF_FP))
        return resume_general(t, c, in, value);
    wf_fp_read(&c->fp_seen);
    wf_set_mode(c, WF_PLAIN_RUNNING | WF_FP);
    c->resumer = t->current;
    c->value = value;
    t->current = c;
    wf_fp_settle(&c->fp, &c->fp_seen);
    return wf_switch_int(&c->sp, c->sp, in);
}

WF_HOT WF_ENTRY int weft_coro_resume(weft_coro *c, void *in, void **value)
{
    struct wf_thread *t = &wf_thread_self;
    /*
     * One that was resumed lately costs nothing here; one that was not has its context in the lines below its record,
     * and they come at the same time as the record, instead of after it.
     */
    __builtin_prefetch((void *)((uintptr_t)c - 64));
    __builtin_prefetch((void *)((uintptr_t)c - 128));
    if (wf_unlikely(!c || wf_mode(c) != t->expect))
        return resume_other(t, c, in, value);
    c->resumer = t->current;
    c->value = value;
    wf_set_mode(c, WF_PLAIN_RUNNING);
    t->current = c;
    return wf_switch_int(&c->sp, c->sp, in);
}

/* Control goes from `c` to its resumer. */
static inline __attribute__((always_inline)) void *leave(struct wf_thread *t, weft_coro *c, void *out, bool done)
{
    weft_coro *resumer = c->resumer;
    uint32_t mode = wf_mode(c);
    swap_kept(c, mode);
    if (c->shared)
        wf_copied_rests(c, done);
    wf_set_mode(c, (done ? WEFT_CORO_DONE : WEFT_CORO_READY) | (mode & WF_FOR_LIFE));
    t->current = resumer;
    t->expect = wf_expect(resumer);
    wf_note_left(t, c);
    return go(A_POINTER, t,
              (struct way){.from = c,
                           .to = resumer,
                           .done = done,
                           .save = &c->sp,
                           .to_sp = c->sp,
                           .slot = c->value,
                           .in = out,
                           .pass = done ? ENDED : YIELDED});
}

WF_ENTRY static void *yield_general(struct wf_thread *t, weft_coro *c, void *out)
{
    return leave(t, c, out, false);
}

WF_COLD WF_NORETURN static void yield_outside(void)
{
    wf_panic("weft_coro_yield", "called outside any coroutine: there is no resumer to give control to; call it only in "
                                "code that weft_coro_resume runs");
}

/* The common way off a shared stack, which stays as it is: to a plain one. */
WF_HOT WF_ENTRY static void *yield_copied(struct wf_thread *t, weft_coro *c, void *out)
{
    wf_set_mode(c, WF_PLAIN_READY | WF_COPIED);
    wf_copied_rests(c, false);
    t->expect = WF_PLAIN_READY;
    t->current = c->resumer;
    if (c->value)
        *c->value = out;
    return wf_switch(&c->sp, c->sp, YIELDED);
}

/* Not plain: see resume_other. */
WF_HOT WF_ENTRY static void *yield_other(struct wf_thread *t, weft_coro *c, void *out)
{
    if (!c || (wf_mode(c) & WF_BASE))
        yield_outside();
    uint32_t mode = wf_mode(c);
    if (!WF_NOTED && mode == (WF_PLAIN_RUNNING | WF_COPIED))
        return yield_copied(t, c, out);
    if (WF_NOTED || mode != (WF_PLAIN_RUNNING | WF_FP))
        return yield_general(t, c, out);
    wf_fp_read(&c->fp_seen);
    wf_set_mode(c, WF_PLAIN_READY | WF_FP);
    t->current = c->resumer;
    if (c->value)
        *c->value = out;
    wf_fp_settle(&c->fp, &c->fp_seen);
    return wf_switch(&c->sp, c->sp, YIELDED);
}

WF_HOT WF_ENTRY void *weft_coro_yield(void *out)
{
    struct wf_thread *t = &wf_thread_self;
    weft_coro *c = t->current;
    if (wf_unlikely(WF_NOTED || !c || wf_mode(c) != WF_PLAIN_RUNNING))
        return yield_other(t, c, out);
    t->current = c->resumer;
    wf_set_mode(c, WF_PLAIN_READY);
    if (c->value)
        *c->value = out;
    return wf_switch(&c->sp, c->sp, YIELDED);
}

WF_ENTRY static void *end_general(struct wf_thread *t, weft_coro *c, void *out)
{
    return leave(t, c, out, true);
}

/* Called by the first frame of every stack when the coroutine's function has returned; nobody comes back to it. */
WF_ENTRY void *wf_coro_end(void *coroutine, void *out)
{
    weft_coro *c = coroutine;
    struct wf_thread *t = &wf_thread_self;
    if (wf_unlikely(WF_NOTED || wf_mode(c) != WF_PLAIN_RUNNING))
        return end_general(t, c, out);
    t->current = c->resumer;
    wf_set_mode(c, WEFT_CORO_DONE);
    if (c->value)
        *c->value = out;
    return wf_switch_last(c->sp, ENDED);
}

WF_ENTRY int weft_coro_transfer(weft_coro *to, void *in, void **value)
{
    struct wf_thread *t = &wf_thread_self;
    weft_coro *from = t->current;
    if (!from || (wf_mode(from) & WF_BASE))
        return weft_coro_resume(to, in, value);
    if (!to)
        return -EINVAL;
    int rc = take(t, to, true, "weft_coro_transfer");
    if (wf_unlikely(rc != 0))
        return rc;

    weft_coro *resumer = from->resumer;
    uint32_t from_mode = wf_mode(from), to_mode = wf_mode(to);
    bool waits_in_transfer = to_mode & WF_TRANSFERRED;
    void **slot = waits_in_transfer ? to->value : NULL;
    void *to_sp = to->sp;

    swap_kept(from, from_mode);
    if (from->shared)
        wf_copied_rests(from, false);
    to->sp = from->sp; /* the resumer's */
    to->resumer = resumer;
    to->value = from->value;
    from->value = value;
    if (wf_copied(resumer))
        resumer->waits_for = to;
    wf_set_mode(from, WEFT_CORO_READY | WF_TRANSFERRED | (from_mode & WF_FOR_LIFE));
    if (to->shared)
        wf_copied_runs(t, to);
    wf_set_mode(to, WEFT_CORO_RUNNING | (to_mode & WF_FOR_LIFE) | (wf_copied(resumer) ? WF_OVER_COPIED : 0));
    t->current = to;
    t->expect = wf_expect(to);
    wf_note_left(t, from);
    swap_kept(to, to_mode);
    return (int)(intptr_t)go(AN_INT, t,
                             (struct way){.from = from,
                                          .to = to,
                                          .save = &from->sp,
                                          .to_sp = to_sp,
                                          .slot = slot,
                                          .in = in,
                                          .pass = waits_in_transfer ? YIELDED : in});
}
