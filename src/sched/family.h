/*
 * sched/family.h: the tree of fibers and scopes, and how a cancel walks down it. task/scope.c has the public calls.
 *
 *      fiber ──open──▶ scope ──outer──▶ scope            what a fiber has opened, innermost first
 *                        │
 *                        └─first─▶ child ─next─▶ child   fibers, or tasks that are not fibers; each may have scopes
 *
 * One lock guards a fiber's scopes and their lists of children: the family's lock, which is in the fiber's extra. A
 * walk takes these locks from the top down, and holds the locks of all fibers above the current place. Nothing else
 * holds two of these locks.
 *
 * A cancel walks twice. The first walk marks every fiber and scope below. Then one barrier makes all marks visible, and
 * the second walk wakes the fibers that wait. A child cannot leave its list during a walk, because it needs the lock
 * for that. The open of a scope, and the start of a child, check under the same lock whether a cancel has come.
 *
 * Lock order: the pool's lock (fiber/pool.h), family locks from the top down, then the lock of a worker's timers, or of
 * a task (to describe it).
 */
#ifndef WF_SCHED_FAMILY_H
#define WF_SCHED_FAMILY_H

#include <weft/scope.h>

#include "fiber/extra.h"
#include "sched/later.h"

#define WF_SCOPE_NOBODY UINT32_MAX /* as wake_at: the owner does not wait */

/* A scope that is open. guarded by: the lock in owner->extra, unless a field says otherwise */
struct wf_scope {
    struct wf_scope *outer;          /* const: the next outer open scope of the owner; NULL: none */
    weft_fiber *owner;               /* const from open to close; NULL: closed. atomic: other threads read it */
    const weft_scope_policy *policy; /* const */
    const char *name, *site;         /* const */
    struct wf_child *first;          /* the children that have not ended, the youngest first */
    uint32_t live, at_once;          /* the number of children in the list; const: the most at a time */
    size_t started, succeeded, failed;
    int error;                    /* the first failure's code; 0: none */
    uint8_t depth;                /* const: how many shields were open when the scope was opened */
    bool stopping;                /* the scope, or a scope around it, is to stop. atomic: the owner reads it */
    bool due_is_grace;            /* `due` is the end of weft_scope_stop's grace, not a deadline */
    bool waited : 1;              /* its owner has seen its result */
    bool heeds : 1;               /* its owner waits in a section that a cancel from outside of the scope ends */
    bool closes : 1;              /* its close has begun: no child can be started */
    int code;                     /* with `text` and `by_and_kind`: the cause of its cancel, as in struct wf_cause */
    uint32_t wake_at;             /* the owner waits until `live` is so low; WF_SCOPE_NOBODY: it does not wait */
    const char *text;             /* see code */
    uint64_t by_and_kind;         /* see code: the fiber's id and, in the highest byte, the kind; 0: not cancelled */
    int64_t due;                  /* when it is to be cancelled; INT64_MAX: never */
    struct wf_failures *failures; /* the first failures; NULL: none, or no memory */
};

_Static_assert(sizeof(struct wf_scope) <= sizeof(weft_scope), "it is in the caller's storage");

enum { WF_SCOPE_KIND_SHIFT = 56 };

static inline int wf_scope_kind(const struct wf_scope *s)
{
    return (int)(s->by_and_kind >> WF_SCOPE_KIND_SHIFT);
}

static inline struct wf_cause wf_scope_cause(const struct wf_scope *s)
{
    uint64_t id = s->by_and_kind & ((UINT64_C(1) << WF_SCOPE_KIND_SHIFT) - 1);
    return (struct wf_cause){.kind = wf_scope_kind(s), .code = s->code, .text = s->text, .fiber = id};
}

/* How its children ended. `less` of the live children count as ended. guarded by: the family's lock */
static inline weft_scope_tally wf_scope_tally(const struct wf_scope *s, uint32_t less)
{
    return (weft_scope_tally){.size = sizeof(weft_scope_tally),
                              .started = s->started,
                              .live = s->live - less,
                              .succeeded = s->succeeded,
                              .failed = s->failed,
                              .error = s->error};
}

/* Whether children may be started. guarded by: the family's lock */
static inline bool wf_scope_takes_children(const struct wf_scope *s)
{
    return s->by_and_kind == 0 && !s->closes;
}

/* The cause of a cancel by the calling fiber or thread. */
struct wf_cause wf_cause_here(int kind, int code, const char *text);

/*
 * Cancels f, and everything below. The caller keeps f's record from being released during the call. Children that are
 * not fibers are only marked, and added to `later`. Any thread.
 */
void wf_family_cancel(weft_fiber *f, const struct wf_cause *why, struct wf_later *later);

/* The same for a scope. The scope must stay open during the call. Any thread. */
void wf_scope_cancel(struct wf_scope *s, const struct wf_cause *why, struct wf_later *later);

/* What a walk calls at each place. The locks of all families above are held. A function that is NULL is not called. */
struct wf_walk {
    bool (*fiber)(struct wf_walk *w, weft_fiber *f);      /* false: skip what is below f */
    bool (*scope)(struct wf_walk *w, struct wf_scope *s); /* false: skip its children */
    void (*other)(struct wf_walk *w, struct wf_child *c); /* a child that is not a fiber */
    const struct wf_cause *why;
    const struct wf_scope *top; /* the scope that the walk begins with; NULL: with a fiber */
    struct wf_later *later;     /* a cancel: children to cancel after the walk */
    struct wf_child *stopped;   /* a stop: tasks to walk on below after the walk */
};

/* Walks through the scopes that f has open, from the innermost to `last` (NULL: all), and everything below them. */
void wf_family_walk(struct wf_walk *w, weft_fiber *f, const struct wf_scope *last);

/*
 * Adds an open scope to the calling fiber, and removes it at its close. After the removal the owner's WF_CANCEL is set
 * only if the owner itself, or another of its open scopes, is cancelled.
 */
void wf_scope_add(struct wf_extra *x, weft_fiber *owner, struct wf_scope *s);
void wf_scope_remove(struct wf_extra *x, weft_fiber *owner, struct wf_scope *s);

/* Whether a cancel from outside (of the owner, or of an outer scope) applies to s. guarded by: the family's lock */
bool wf_scope_is_overruled(const struct wf_scope *s);

/*
 * Makes a fiber of the caller's scheduler, with an extra, which fn gets as its argument. The fiber is in no queue: the
 * caller starts or discards it, once. NULL: no memory. The caller is a fiber.
 */
weft_fiber *wf_child_new(const char *site, weft_fn *fn);
void wf_child_start(weft_fiber *f);
void wf_child_discard(weft_fiber *f);

/* Links a child that has not started, or a task. guarded by: the family's lock */
void wf_child_link(struct wf_scope *s, struct wf_child *c);

/*
 * Takes a child that has ended with `code` out of its scope. `cancelled`: it was cancelled before. No lock is held. If
 * `later` is NULL, the call does what is left to be done, apart.
 */
void wf_child_end(struct wf_child *c, int code, bool cancelled, const weft_failure *who, struct wf_later *later);

/* The extra's part of a fiber's end: leave runs in the fiber, then ended on its worker, before the record's release. */
WF_COLD void wf_family_leave(weft_fiber *f);
void wf_family_ended(weft_fiber *f);

/* In the child of a fork: the fiber that goes on has no children, and is no scope's child. */
void wf_family_forked(weft_fiber *survivor);

/* Arms the fiber's timer for the earliest `due` of its open scopes. guarded by: the family's lock */
void wf_scope_timer_set(struct wf_extra *x, weft_fiber *owner);

/* Called by the fiber: locks its family when no call uses the family and its timer does not fire. May yield. */
void wf_family_lock_quiet(struct wf_extra *x);

/*
 * A call that cancels or stops a fiber or its scopes uses the fiber's family. The fiber, once it is woken, may close
 * its scopes and end. Its close and its end wait until no call uses the family. After wf_family_use_end the call
 * touches neither the fiber nor its scopes.
 */
static inline void wf_family_use_begin(struct wf_extra *x)
{
    wf_lock(&x->lock);
    x->users++;
    wf_unlock(&x->lock);
}

static inline void wf_family_use_end(struct wf_extra *x)
{
    wf_lock(&x->lock);
    x->users--;
    wf_unlock(&x->lock);
}

/* The worker's part: the timer's time has come. No lock is held, and the state is FIRING. */
void wf_scope_timer_fires(struct wf_scope_timer *t);

#endif
