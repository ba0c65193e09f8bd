/*
 * coro/mount.c: see mount.h. As in switch.c there is a plain way, decided by one comparison, and a general one.
 */
#include "coro/mount.h"

#include <errno.h>
#include <string.h>

#include "base/sys.h"
#include "coro/copied.h"
#include "coro/cxx.h"
#include "coro/go.h"
#include "coro/notes.h"
#include "stack/cache.h"

#define PLAIN_READY_BASE (WEFT_CORO_READY | WF_BASE)
#define PLAIN_RUNNING_BASE (WEFT_CORO_RUNNING | WF_BASE)

static weft_coro *record_of(struct wf_thread *t, const struct wf_base_opts *o)
{
    if (!o->shared) {
        weft_coro *c = (weft_coro *)wf_stack_take(t, o->class);
        if (c) {
            c->class = o->class;
            c->shared = NULL;
        }
        return c;
    }
    size_t bytes = o->flags != 0 ? sizeof(weft_coro) : offsetof(weft_coro, fp);
    weft_coro *c = wf_sys_malloc(bytes);
    if (c) {
        memset(c, 0, bytes);
        c->shared = o->shared;
    }
    return c;
}

weft_coro *wf_base_new(struct wf_thread *t, const struct wf_base_opts *o, weft_fn *fn, void *arg)
{
    weft_coro *c = record_of(t, o);
    if (wf_unlikely(!c))
        return NULL;
    uint32_t mode = PLAIN_READY_BASE | (o->shared ? WF_COPIED : 0);
    c->id = o->id;
    c->name = o->name;
    c->user = NULL; /* a base's is its flow: sched/flow.h */
    c->eh = (struct wf_eh_globals){0};
    wf_note_new(c);
    if (wf_unlikely(o->flags != 0)) {
        mode |= o->flags & WEFT_FPENV ? WF_FP : 0;
        wf_fp_read(&c->fp);
        if (o->flags & WEFT_MEASURE && !o->shared)
            wf_coro_clean_stack(c);
    }
    if (o->shared)
        wf_copied_start(c, fn, arg);
    else
        c->sp = wf_coro_frame(c, c, fn, arg);
    wf_set_mode(c, mode);
    return c;
}

void wf_base_free(struct wf_thread *t, weft_coro *base)
{
    wf_note_free(base);
    wf_set_mode(base, WF_FREED);
    if (base->shared) {
        wf_copied_free(base);
        wf_sys_free(base);
    } else {
        wf_stack_keep(t, base->class, (struct wf_idle *)base);
    }
}

/* Those that keep words of their own exchange them, from the innermost to the base. */
static void leave_kept(weft_coro *base, weft_coro *inner)
{
    for (weft_coro *c = inner;; c = c->resumer) {
        swap_kept(c, wf_mode(c));
        if (c == base)
            return;
    }
}

/* And from the base to the innermost: the way is turned round, walked, and turned back. */
static void enter_kept(weft_coro *base, weft_coro *inner)
{
    weft_coro *outer = base->resumer, *last = NULL;
    for (weft_coro *c = inner, *next; last != base; c = next) {
        next = c->resumer;
        c->resumer = last;
        last = c;
    }
    for (weft_coro *c = base, *next, *before = outer; c; c = next) {
        next = c->resumer;
        c->resumer = before;
        before = c;
        swap_kept(c, wf_mode(c));
    }
}

/* The shared stacks of those below `inner` are in use from now on, or (`in_use` false) no longer. */
static void use_stacks_below(struct wf_thread *t, weft_coro *base, weft_coro *inner, bool in_use)
{
    for (weft_coro *c = inner; c != base;) {
        c = c->resumer;
        if (!c->shared)
            continue;
        if (in_use) {
            wf_copied_runs(t, c);
        } else {
            wf_copied_rests(c, false);
            if (c->shared != inner->shared)
                wf_copied_unclaim(c->shared); /* that of `inner` is given up once we are off it */
        }
    }
}

static int take_stacks(struct wf_thread *t, weft_coro *base, weft_coro *inner)
{
    for (weft_coro *c = inner;; c = c->resumer) {
        if (c->shared && !wf_copied_claim(t, c->shared))
            return -EBUSY; /* what was claimed before is given up by the next unmount from it */
        if (c == base)
            break;
    }
    use_stacks_below(t, base, inner, true);
    int rc = inner->shared ? wf_copied_prepare(t, inner, false) : 0;
    for (weft_coro *c = inner; rc == 0 && c != base;) { /* they may be on other stacks, where somebody else is now */
        c = c->resumer;
        rc = c->shared ? wf_copied_prepare_return(t, c) : 0;
    }
    if (rc != 0) {
        use_stacks_below(t, base, inner, false);
        if (inner->shared)
            wf_copied_unclaim(inner->shared);
    } else if (inner->shared) {
        wf_copied_runs(t, inner);
    }
    return rc;
}

WF_ENTRY static int mount_general(struct wf_thread *t, weft_coro *base, weft_coro *inner)
{
    weft_coro *outer = t->current;
    int rc = take_stacks(t, base, inner);
    if (wf_unlikely(rc != 0))
        return rc;
    uint32_t mode = wf_mode(base);
    base->resumer = outer;
    if (wf_copied(outer))
        outer->waits_for = base;
    wf_set_mode(base, WEFT_CORO_RUNNING | (mode & WF_FOR_LIFE) | (wf_copied(outer) ? WF_OVER_COPIED : 0));
    t->current = inner;
    t->expect = wf_expect(inner);
    enter_kept(base, inner);
    return (int)(intptr_t)go(AN_INT, t, (struct way){.from = outer, .to = inner, .save = &base->sp, .to_sp = base->sp});
}

WF_HOT WF_ENTRY int wf_mount(struct wf_thread *t, weft_coro *base, weft_coro *inner)
{
    if (wf_unlikely(WF_NOTED || wf_mode(base) != PLAIN_READY_BASE || t->expect != WF_PLAIN_READY))
        return mount_general(t, base, inner);
    base->resumer = t->current;
    wf_set_mode(base, PLAIN_RUNNING_BASE);
    t->current = base;
    return wf_switch_int(&base->sp, base->sp, NULL);
}

static inline __attribute__((always_inline)) void *unmount_general(struct wf_thread *t, weft_coro *base, bool done)
{
    weft_coro *inner = t->current, *outer = base->resumer;
    leave_kept(base, inner);
    use_stacks_below(t, base, inner, false);
    if (inner->shared) {
        wf_copied_rests(inner, done);
        inner->waits_for = base; /* while it is RUNNING: its stack pointer will be there */
    }
    if (inner == base) /* else it stays RUNNING: it waits for the one on top */
        wf_set_mode(base, (done ? WEFT_CORO_DONE : WEFT_CORO_READY) | (wf_mode(base) & WF_FOR_LIFE));
    t->current = outer;
    t->expect = wf_expect(outer);
    wf_note_left(t, inner);
    return go(A_POINTER, t,
              (struct way){.from = inner, .to = outer, .done = done, .save = &base->sp, .to_sp = base->sp});
}

WF_ENTRY static void *unmount_other(struct wf_thread *t, weft_coro *base)
{
    return unmount_general(t, base, false);
}

WF_HOT WF_ENTRY void *wf_unmount(struct wf_thread *t, weft_coro *base)
{
    if (wf_unlikely(WF_NOTED || wf_mode(base) != PLAIN_RUNNING_BASE || t->current != base))
        return unmount_other(t, base);
    t->current = base->resumer;
    wf_set_mode(base, PLAIN_READY_BASE);
    return wf_switch(&base->sp, base->sp, NULL);
}

WF_HOT WF_ENTRY void *wf_hop(struct wf_thread *t, weft_coro *from, weft_coro *to)
{
    void *to_sp = to->sp;
    to->sp = from->sp; /* the worker's */
    to->resumer = from->resumer;
    wf_set_mode(from, PLAIN_READY_BASE);
    wf_set_mode(to, PLAIN_RUNNING_BASE);
    t->current = to;
    return wf_switch(&from->sp, to_sp, NULL);
}

void wf_unmount_last(struct wf_thread *t, weft_coro *base)
{
    if (wf_unlikely(WF_NOTED || wf_mode(base) != PLAIN_RUNNING_BASE)) {
        unmount_general(t, base, true);
    } else {
        t->current = base->resumer;
        wf_set_mode(base, WEFT_CORO_DONE | WF_BASE);
        wf_switch_last(base->sp, NULL);
    }
    __builtin_unreachable();
}
