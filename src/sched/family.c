/*
 * sched/family.c: see family.h.
 */
#include "sched/family.h"

#include <limits.h>

#include "base/barrier.h"
#include "base/errno.h"
#include "base/sys.h"
#include "base/thread.h"
#include "sched/cancel.h"
#include "base/panic.h"
#include "sched/defer.h"
#include "sched/failures.h"
#include "sched/shield.h"
#include "sched/wait.h"

struct wf_cause wf_cause_here(int kind, int code, const char *text)
{
    const weft_fiber *f = wf_thread_now()->fiber;
    return (struct wf_cause){.kind = kind, .code = code, .text = text, .fiber = f ? wf_load(&f->id) : 0};
}

/* ---- walking ---- */

/* If f has an open scope, locks its family and returns the innermost scope. Else locks nothing and returns NULL. */
static struct wf_scope *enter(weft_fiber *f)
{
    struct wf_extra *x = wf_load_acquire(&f->extra); /* pairs with wf_extra */
    if (!x)
        return NULL;
    wf_lock(&x->lock);
    struct wf_scope *s = x->open;
    if (!s)
        wf_unlock(&x->lock);
    return s;
}

/* Finds the first child, from c on, whose scopes the walk enters. Locks its family and returns its innermost scope. */
static struct wf_scope *enter_next(struct wf_walk *w, struct wf_child *c)
{
    for (; c; c = c->next) {
        if (!c->fiber) {
            if (w->other)
                w->other(w, c);
            continue;
        }
        struct wf_scope *inner = w->fiber(w, c->fiber) ? enter(c->fiber) : NULL;
        if (inner)
            return inner;
    }
    return NULL;
}

/*
 * Without recursion, because a tree may be deep. `s` is the scope to look at next. `below` are the children of s that
 * the walk has not seen. All families on the way from the top to s are locked.
 */
void wf_family_walk(struct wf_walk *w, weft_fiber *f, const struct wf_scope *last)
{
    struct wf_scope *s = enter(f);
    if (!s)
        return;
    struct wf_child *below = w->scope(w, s) ? s->first : NULL;
    for (;;) {
        struct wf_scope *inner = enter_next(w, below);
        if (inner) {
            s = inner;
        } else {
            bool ends = s->owner == f && s == last;
            if (!ends && s->outer) {
                s = s->outer;
            } else {
                weft_fiber *done = s->owner;
                struct wf_child *c = &wf_extra_of(done)->child;
                wf_unlock(&wf_extra_of(done)->lock);
                if (done == f)
                    return;
                s = c->scope; /* its owner's family is locked, so c is still in the list */
                below = c->next;
                continue;
            }
        }
        below = w->scope(w, s) ? s->first : NULL;
    }
}

void wf_family_lock_quiet(struct wf_extra *x)
{
    for (;;) {
        wf_lock(&x->lock);
        if (x->users == 0 &&
            wf_load_acquire(&x->timer.state) != WF_SCOPE_TIMER_FIRING) /* pairs with wf_scope_timer_fires */
            return;
        wf_unlock(&x->lock);
        weft_yield(); /* the user may be a fiber of this worker */
    }
}

/* ---- cancelling ---- */

/* guarded by: the family's lock */
static void note_cause(struct wf_extra *x, const struct wf_cause *why)
{
    if (x->cause.kind == 0)
        x->cause = *why;
}

/* Marks a child as cancelled itself. False: an earlier canceller has done so, and marks everything below the child. */
static bool mark_fiber(struct wf_walk *w, weft_fiber *f)
{
    struct wf_extra *x = wf_extra_of(f); /* a child has one from its start on */
    if (wf_load(&f->sleeper.bits) & WF_CANCEL_SELF)
        return false;
    wf_lock(&x->lock);
    note_cause(x, w->why);
    wf_unlock(&x->lock);
    wf_bits_cancel(f, w->why->kind);
    return true;
}

static void set_cause(struct wf_scope *s, const struct wf_cause *why)
{
    s->code = why->code;
    s->text = why->text;
    s->by_and_kind = why->fiber | (uint64_t)why->kind << WF_SCOPE_KIND_SHIFT;
}

static bool mark_scope(struct wf_walk *w, struct wf_scope *s)
{
    if (s == w->top)
        return true; /* begin_cancel has marked it */
    bool sheltered = s->depth > (w->top && s->owner == w->top->owner ? w->top->depth : 0);
    if (wf_scope_kind(s) != 0 || sheltered)
        return false;
    set_cause(s, w->why);
    return true;
}

static void hold_other(struct wf_walk *w, struct wf_child *c)
{
    if (!c->ops->hold(c, w->why))
        return;
    c->held = w->later->held;
    w->later->held = c;
}

/* Called with the lock that the owner needs to absorb a cancel. So WF_CANCEL cannot be cleared during the call. */
static void wake(weft_fiber *f)
{
    if (wf_load(&f->sleeper.bits) & WF_CANCEL && wf_settle_cancelled(&f->sleeper))
        wf_ready(&f->sleeper);
}

static bool wake_fiber(struct wf_walk *w, weft_fiber *f)
{
    (void)w;
    wake(f);
    return wf_load(&f->sleeper.bits) & WF_CANCEL;
}

/* Ends the owner's wait for the children if a cancel from outside overrules s. False: the scope is not cancelled. */
static bool wake_scope(struct wf_walk *w, struct wf_scope *s)
{
    (void)w;
    if (wf_unlikely(s->heeds) && s->wake_at != WF_SCOPE_NOBODY && wf_scope_is_overruled(s)) {
        s->wake_at = WF_SCOPE_NOBODY;
        if (wf_settle(&s->owner->sleeper, -ECANCELED))
            wf_ready(&s->owner->sleeper);
    }
    return wf_scope_kind(s) != 0;
}

void wf_later_do(struct wf_later *l, bool here)
{
    while (l->held || l->first) {
        for (struct wf_child *c; (c = l->held) != NULL;) {
            l->held = c->held;
            c->ops->cancel(c, l);
        }
        if (l->first)
            l->resume(l, here);
    }
}

static void mark_below(struct wf_walk *w, weft_fiber *f)
{
    w->fiber = mark_fiber;
    w->scope = mark_scope;
    w->other = hold_other;
    wf_family_walk(w, f, w->top);
}

static void wake_below(struct wf_walk *w, weft_fiber *f)
{
    w->fiber = wake_fiber;
    w->scope = wake_scope;
    w->other = NULL;
    wf_family_walk(w, f, w->top);
}

void wf_family_cancel(weft_fiber *f, const struct wf_cause *why, struct wf_later *later)
{
    struct wf_walk walk = {.why = why, .later = later};
    struct wf_extra *x = wf_extra(f); /* without memory the cause is known by its kind alone, and f has no scope */
    if (x) {
        wf_lock(&x->lock);
        x->users++;
        if (!(wf_load(&f->sleeper.bits) & WF_CANCEL_SELF)) /* else the first cause may be known by its kind alone */
            note_cause(x, why);
        wf_unlock(&x->lock);
    }
    wf_bits_cancel(f, why->kind); /* before the walk: a scope that it misses is opened later, and finds the bit */
    if (x)
        mark_below(&walk, f);
    wf_barrier_heavy();                          /* pairs with wf_sleeper_begin's, of every fiber that was marked */
    bool won = wf_settle_cancelled(&f->sleeper); /* f goes on when it is made ready, and not before */
    if (x) {
        wake_below(&walk, f);
        wf_family_use_end(x);
    }
    if (won)
        wf_ready(&f->sleeper); /* the last touch: f may end, and another thread may join it */
}

/*
 * Marks s. The scope stays open until `users` is counted down. False: s was cancelled before, and the earlier canceller
 * wakes everything below it. guarded by: the family's lock
 */
static bool begin_cancel(struct wf_scope *s, struct wf_extra *x, const struct wf_cause *why)
{
    if (wf_scope_kind(s) != 0)
        return false; /* else closing a deep tree would walk down once for each level */
    x->users++;
    set_cause(s, why);
    wf_or(&s->owner->sleeper.bits, WF_CANCEL); /* wf_scope_remove clears it */
    return true;
}

/* The rest of a cancel that has begun. */
static void end_cancel(struct wf_scope *s, weft_fiber *owner, const struct wf_cause *why, struct wf_later *later)
{
    struct wf_extra *x = wf_extra_of(owner);
    struct wf_walk walk = {.why = why, .top = s, .later = later};
    mark_below(&walk, owner);
    wf_barrier_heavy(); /* pairs with wf_sleeper_begin's */
    wf_lock(&x->lock);
    wake(owner);
    wf_unlock(&x->lock);
    wake_below(&walk, owner);
    wf_sys_point(WF_SYS_CANCEL);
    wf_family_use_end(x); /* the last touch: the owner may close the scope */
}

void wf_scope_cancel(struct wf_scope *s, const struct wf_cause *why, struct wf_later *later)
{
    weft_fiber *owner = s->owner;
    struct wf_extra *x = wf_extra_of(owner);
    wf_lock(&x->lock);
    bool first = begin_cancel(s, x, why);
    wf_unlock(&x->lock);
    if (first)
        end_cancel(s, owner, why, later);
}

/* ---- scopes ---- */

/* Why a scope that is being opened is cancelled from its start: the outermost cause that no shield keeps away. */
static struct wf_cause cause_from_above(const struct wf_extra *x, const weft_fiber *owner, const struct wf_scope *s)
{
    uint32_t bits = wf_load(&owner->sleeper.bits);
    if (bits & WF_CANCEL_SELF && s->depth == 0)
        return wf_cause_of(x, bits);
    struct wf_cause why = {0};
    for (const struct wf_scope *o = s->outer; o; o = o->outer) {
        if (wf_scope_kind(o) != 0 && s->depth <= o->depth)
            why = wf_scope_cause(o);
    }
    return why;
}

void wf_scope_add(struct wf_extra *x, weft_fiber *owner, struct wf_scope *s)
{
    wf_lock(&x->lock);
    s->outer = x->open;
    s->stopping = s->outer && s->outer->stopping;
    struct wf_cause why = cause_from_above(x, owner, s);
    set_cause(s, &why);
    x->open = s;
    x->open_site = s->site;
    if (s->due != INT64_MAX)
        wf_scope_timer_set(x, owner);
    wf_unlock(&x->lock);
}

/* Clears WF_CANCEL if neither the owner nor an open scope of it is cancelled. guarded by: the family's lock */
static void absorb(const struct wf_extra *x, weft_fiber *owner)
{
    for (const struct wf_scope *o = x->open; o; o = o->outer) {
        if (wf_scope_kind(o) != 0)
            return;
    }
    uint32_t bits = wf_load(&owner->sleeper.bits);
    while (bits & WF_CANCEL && !(bits & WF_CANCEL_SELF)) { /* weft_cancel sets both bits in one step */
        if (wf_cas(&owner->sleeper.bits, &bits, bits & ~(uint32_t)WF_CANCEL))
            return;
    }
}

void wf_scope_remove(struct wf_extra *x, weft_fiber *owner, struct wf_scope *s)
{
    wf_family_lock_quiet(x);
    x->open = s->outer;
    x->open_site = s->outer ? s->outer->site : NULL;
    absorb(x, owner);
    if (s->due != INT64_MAX)
        wf_scope_timer_set(x, owner);
    wf_store(&s->owner, NULL);
    wf_unlock(&x->lock);
}

bool wf_scope_is_overruled(const struct wf_scope *s)
{
    if (wf_load(&s->owner->sleeper.bits) & WF_CANCEL_SELF && s->depth == 0)
        return true;
    for (const struct wf_scope *o = s->outer; o; o = o->outer) {
        if (wf_scope_kind(o) != 0 && s->depth <= o->depth)
            return true;
    }
    return false;
}

/* ---- children ---- */

void wf_child_link(struct wf_scope *s, struct wf_child *c)
{
    c->scope = s;
    c->next = s->first;
    c->link = &s->first;
    if (c->next)
        c->next->link = &c->next;
    s->first = c;
    s->live++;
    s->started++;
}

/* True: the caller makes the owner ready, after the unlock. guarded by: the family's lock */
static bool unlink_child(struct wf_scope *s, struct wf_child *c)
{
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    c->link = NULL;
    s->live--;
    if (wf_likely(s->wake_at == WF_SCOPE_NOBODY || s->live > s->wake_at))
        return false;
    s->wake_at = WF_SCOPE_NOBODY;
    return wf_settle(&s->owner->sleeper, 0);
}

/* Counts an end. True: the scope has enough. guarded by: the family's lock */
static bool count_end(struct wf_scope *s, int code, bool failed, const weft_failure *who)
{
    if (code >= 0)
        s->succeeded++;
    if (failed) {
        s->failed++;
        s->error = s->error ? s->error : code;
        wf_failures_add(&s->failures, who);
    }
    if (wf_scope_kind(s) != 0 || (code >= 0 && s->policy == &weft_until_failure))
        return false;
    weft_scope_tally tally = wf_scope_tally(s, 1);
    return s->policy->enough(s->policy, &tally);
}

/* The end of a child that cancels its scope; code 0: it has not failed. Releases the family's lock. */
WF_COLD static void end_and_cancel(struct wf_child *c, int code, uint64_t fiber, struct wf_later *later)
{
    struct wf_scope *s = c->scope;
    weft_fiber *owner = s->owner;
    struct wf_extra *x = wf_extra_of(owner);
    struct wf_cause why = {.kind = code != 0 ? WEFT_CAUSE_FAILURE : WEFT_CAUSE_ENOUGH,
                           .code = code != 0 ? code : -ECANCELED,
                           .fiber = fiber};
    bool first = begin_cancel(s, x, &why); /* in one step with the unlinking, so that nobody counts c twice */
    bool woken = unlink_child(s, c);
    wf_unlock(&x->lock);
    struct wf_later own = {0};
    if (first)
        end_cancel(s, owner, &why, later ? later : &own);
    if (woken) /* else the owner may have closed s */
        wf_ready(&owner->sleeper);
    wf_later_apart(&own);
}

void wf_child_end(struct wf_child *c, int code, bool cancelled, const weft_failure *who, struct wf_later *later)
{
    struct wf_scope *s = c->scope;
    weft_fiber *owner = s->owner;
    struct wf_extra *x = wf_extra_of(owner);
    bool failed = code < 0 && !(cancelled && code == -ECANCELED);
    wf_lock(&x->lock);
    if (wf_unlikely(count_end(s, code, failed, who))) {
        end_and_cancel(c, failed ? code : 0, who->fiber, later);
        return;
    }
    bool woken = unlink_child(s, c);
    wf_unlock(&x->lock);
    if (woken)
        wf_ready(&owner->sleeper);
}

/* ---- a fiber's end ---- */

static void check_closed(const weft_fiber *f, const struct wf_extra *x)
{
    if (wf_unlikely(x->open))
        wf_panic("weft_scope_open",
                 "fiber %llu \"%s\" ends, but the scope that was opened at %s is still open: close every scope in the "
                 "function that opened it (WEFT_SCOPE does)",
                 (unsigned long long)f->id, f->name, x->open_site);
}

void wf_family_leave(weft_fiber *f)
{
    struct wf_extra *x = wf_load_acquire(&f->extra); /* pairs with wf_extra: a canceller may have given it just now */
    check_closed(f, x);
    while (x->defers || x->locals) { /* a handler may set values, and a destructor may add handlers */
        if (x->defers) {
            wf_shield_drop(f);
            wf_defers_run(f, NULL);
        }
        if (x->locals)
            wf_locals_destroy(x);
        check_closed(f, x);
    }
    /* A worker may have taken the timer out, and be about to look at the scopes. A canceller may be at work. */
    if (x->timer.in || wf_load(&f->sleeper.bits) & WF_CANCEL_SELF) {
        wf_family_lock_quiet(x);
        wf_unlock(&x->lock);
    }
}

/* What a child has ended with. weft_hook_end may give any pointer: only a negative int counts as a failure. */
static int code_of(const weft_fiber *f)
{
    intptr_t value = (intptr_t)f->value;
    return value < 0 && value >= INT_MIN ? (int)value : 0;
}

void wf_family_ended(weft_fiber *f)
{
    struct wf_extra *x = wf_load_acquire(&f->extra); /* pairs with wf_extra */
    if (x->child.scope) {
        weft_failure who = {.code = code_of(f), .fiber = f->id, .site = f->site};
        wf_child_end(&x->child, who.code, wf_load(&f->sleeper.bits) & WF_CANCEL_SELF, &who, NULL);
    }
}

void wf_family_forked(weft_fiber *survivor)
{
    struct wf_extra *x = wf_extra_of(survivor);
    if (!x)
        return;
    x->lock = (struct wf_lock){0};
    x->users = 0;
    x->child.scope = NULL;
    x->child.link = NULL;
    x->timer = (struct wf_scope_timer){0};
    if (!(wf_load(&survivor->sleeper.bits) & WF_CANCEL_SELF))
        x->cause.kind = 0; /* a canceller may have been about to write the cause */
    if (x->stop_wanted) {
        x->stop.lock = 0;
        x->stop.waiters = (weft_waiters){0};
    }
    for (struct wf_scope *s = x->open; s; s = s->outer) {
        s->first = NULL;
        s->live = 0;
        s->wake_at = WF_SCOPE_NOBODY;
    }
    wf_scope_timer_set(x, survivor);
}
