/*
 * task/scope_control.c: what any thread may do with a scope that is open: cancel it, ask it to stop, count its
 * children. See weft/scope.h.
 */
#include <string.h>

#include "base/clock.h"
#include "base/errno.h"
#include "base/options.h"
#include "base/sys.h"
#include "base/thread.h"
#include "sched/failures.h"
#include "sched/flow.h"
#include "sched/fork.h"
#include "sched/slice.h"
#include "sched/timer.h"
#include "sync/event.h"
#include "task/scope.h"

/*
 * The scope's owner; NULL: the scope is not open here. In the child of a fork the owner may be lost. Then a thread of
 * the parent may hold the lock of the owner's family for ever, and everything below the owner is lost too.
 */
static weft_fiber *owner_of(weft_scope *s)
{
    weft_fiber *owner = wf_load(&wf_scope_of(s)->owner);
    return wf_unlikely(wf_forks != 0) && owner && wf_fork_has_lost(owner) ? NULL : owner;
}

int weft_scope_cancel(weft_scope *s, int code, const char *text)
{
    wf_slice_here();
    if (!s || code > 0)
        return -EINVAL;
    if (!owner_of(s))
        return -ESRCH;
    struct wf_cause why = wf_cause_here(WEFT_CAUSE_CALL, code == 0 ? -ECANCELED : code, text);
    struct wf_later later = {0};
    wf_scope_cancel(wf_scope_of(s), &why, &later);
    wf_later_here(&later);
    return 0;
}

/* ---- stopping ---- */

/* Sets f's stop event, if it has one. The caller may hold locks of families: nothing in here lets other fibers run. */
static void tell(weft_fiber *f)
{
    struct wf_extra *x = wf_load_acquire(&f->extra); /* pairs with wf_extra */
    wf_fence();                                      /* pairs with weft_stop_event's */
    if (x && wf_load_acquire(&x->stop_wanted))       /* pairs with weft_stop_event */
        wf_event_set(&x->stop);
}

static bool stop_fiber(struct wf_walk *w, weft_fiber *f)
{
    (void)w;
    if (wf_or(&f->sleeper.bits, WF_STOPPING) & WF_STOPPING)
        return false;
    tell(f);
    return true;
}

static bool stop_scope(struct wf_walk *w, struct wf_scope *s)
{
    (void)w;
    wf_store(&s->stopping, true);
    return true;
}

/* A task. What is below it is walked later, as the task may be waiting for our locks. */
static void stop_other(struct wf_walk *w, struct wf_child *c)
{
    if (!c->ops->stop(c))
        return;
    c->stopped = w->stopped;
    w->stopped = c;
}

/* Tells everything below the tasks that a walk has found, without recursion. No lock is held. */
static void stop_below_tasks(struct wf_walk *w)
{
    for (struct wf_child *c; (c = w->stopped) != NULL;) {
        w->stopped = c->stopped;
        weft_fiber *f = c->ops->stopped_fiber(c);
        if (f && stop_fiber(w, f))
            wf_family_walk(w, f, NULL);
        c->ops->let_go(c, f);
    }
}

/* The scope is cancelled at the end of its grace, or earlier. */
static void set_grace(struct wf_scope *s, weft_span grace)
{
    struct wf_extra *x = wf_extra_of(s->owner);
    int64_t ends = wf_timer_later(wf_clock_now(), grace);
    wf_lock(&x->lock);
    if (ends < s->due) {
        s->due = ends;
        s->due_is_grace = true;
        wf_scope_timer_set(x, s->owner);
    }
    wf_unlock(&x->lock);
}

int weft_scope_stop(weft_scope *scope, weft_span grace)
{
    struct wf_scope *s = wf_scope_of(scope);
    wf_slice_here();
    if (!s)
        return -EINVAL;
    weft_fiber *owner = owner_of(scope);
    if (!owner)
        return -ESRCH;
    struct wf_extra *x = wf_extra_of(owner);
    struct wf_walk walk = {.fiber = stop_fiber, .scope = stop_scope, .other = stop_other, .top = s};
    struct wf_cause why = wf_cause_here(WEFT_CAUSE_CALL, -ECANCELED, "weft_scope_stop without a grace");
    struct wf_later later = {0};
    wf_family_use_begin(x);
    wf_family_walk(&walk, owner, s);
    tell(owner);
    if (grace <= 0)
        wf_scope_cancel(s, &why, &later);
    else
        set_grace(s, grace);
    wf_sys_point(WF_SYS_CANCEL);
    wf_family_use_end(x); /* the last touch: the owner may close the scope */
    stop_below_tasks(&walk);
    wf_later_here(&later);
    return 0;
}

bool weft_stopping(void)
{
    wf_slice_here();
    weft_fiber *f = wf_thread_now()->fiber;
    const struct wf_flow *flow = wf_flow_task();
    if (flow && wf_load(&flow->stopping))
        return true;
    if (!f)
        return false;
    if (wf_load(&f->sleeper.bits) & WF_STOPPING)
        return true;
    const struct wf_extra *x = wf_load_acquire(&f->extra);                 /* pairs with wf_extra */
    for (const struct wf_scope *s = x ? x->open : NULL; s; s = s->outer) { /* only the caller changes this list */
        if (wf_load(&s->stopping))
            return true;
    }
    return false;
}

weft_event *weft_stop_event(void)
{
    wf_slice_here();
    weft_fiber *f = wf_thread_now()->fiber;
    struct wf_extra *x = f ? wf_extra(f) : NULL;
    if (!x)
        return NULL;
    if (!wf_load(&x->stop_wanted)) {
        x->stop = (weft_event){0};
        wf_store_release(&x->stop_wanted, 1); /* pairs with tell's load: the event is there */
    }
    wf_fence(); /* pairs with tell's: it sees that the event is wanted, or we that the fiber is to stop */
    if (weft_stopping())
        weft_event_set(&x->stop);
    return &x->stop;
}

/* ---- counting ---- */

int weft_scope_counts(weft_scope *scope, weft_scope_tally *out)
{
    struct wf_scope *s = wf_scope_of(scope);
    wf_slice_here();
    if (!s || !out || (out->size != 0 && out->size < sizeof *out) || out->size > WF_OPTIONS_MOST)
        return -EINVAL;
    weft_fiber *owner = owner_of(scope);
    if (!owner)
        return -ESRCH;
    size_t size = out->size == 0 ? sizeof *out : out->size;
    wf_lock(&wf_extra_of(owner)->lock);
    *out = wf_scope_tally(s, 0);
    wf_unlock(&wf_extra_of(owner)->lock);
    memset((char *)out + sizeof *out, 0, size - sizeof *out); /* fields of a later version */
    out->size = size;
    return 0;
}

ptrdiff_t weft_scope_failures(weft_scope *scope, weft_failure *out, size_t room)
{
    struct wf_scope *s = wf_scope_of(scope);
    wf_slice_here();
    if (!s || (!out && room > 0))
        return -EINVAL;
    weft_fiber *owner = owner_of(scope);
    if (!owner)
        return -ESRCH;
    wf_lock(&wf_extra_of(owner)->lock);
    size_t n = s->failures ? s->failures->count : 0;
    n = n < room ? n : room;
    if (n > 0)
        memcpy(out, s->failures->list, n * sizeof *out);
    wf_unlock(&wf_extra_of(owner)->lock);
    return (ptrdiff_t)n;
}
