/*
 * fiber/extra.h: what only some fibers have: fiber-local values, open scopes, a place among the children of a scope,
 * clean-up handlers, context values, and the cause of their cancel. Passive data; sched/family.h has the operations on
 * scopes and children.
 *
 * A fiber gets its extra when it first needs it. Mostly the fiber itself makes it. A canceller may make it too, to
 * store the cause there. The extra is released with the fiber's record. The bit WF_EXTRA of the sleeper says that the
 * fiber has an extra.
 */
#ifndef WF_FIBER_EXTRA_H
#define WF_FIBER_EXTRA_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/scope.h>

#include "base/lock.h"
#include "fiber/fiber.h"
#include "time/wheel.h"

struct wf_child_text;
struct wf_context;
struct wf_defer;
struct wf_extras;
struct wf_later;
struct wf_scope;
struct wf_timers;

/* Why a fiber or scope was cancelled, as in weft_cause. kind 0: it was not cancelled. */
struct wf_cause {
    int kind, code;
    const char *text; /* NULL: the canceller gave none */
    uint64_t fiber;
};

/* A child that its scope does not know as a fiber: a task. */
struct wf_child_ops {
    /* Under the lock of the scope's owner: keeps the child alive until `cancel`. False: another cancel holds it. */
    bool (*hold)(struct wf_child *c, const struct wf_cause *why);
    /* Without a lock: cancels the child, and lets it go. Adds to `later`. */
    void (*cancel)(struct wf_child *c, struct wf_later *later);
    /* Under the same lock: tells the child to stop, and keeps it until `let_go`. False: it was told before. */
    bool (*stop)(struct wf_child *c);
    /* Without a lock: the fiber that the child is, which then stays until `let_go`; NULL: it is none now. */
    weft_fiber *(*stopped_fiber)(struct wf_child *c);
    void (*let_go)(struct wf_child *c, weft_fiber *f);
    /* Under the same lock: what dumps and messages say about it (sched/dump_scopes.h). */
    void (*describe)(struct wf_child *c, struct wf_child_text *to);
};

/* A place in a scope's list of children. guarded by: the lock of the scope's owner, except const fields */
struct wf_child {
    struct wf_child *next, **link; /* link: the pointer that points here; NULL: in no list */
    struct wf_scope *scope;        /* const: the scope that it is a child of; NULL: none */
    weft_fiber *fiber;             /* const; NULL: it is not a fiber, and `ops` is set */
    const struct wf_child_ops *ops;
    struct wf_child *held;    /* the next one that a cancel holds. owner: the canceller that holds it */
    struct wf_child *stopped; /* the next one that a stop keeps. owner: the thread that told it to stop */
};

enum wf_scope_timer_state { WF_SCOPE_TIMER_IDLE, WF_SCOPE_TIMER_ARMED, WF_SCOPE_TIMER_FIRING };

/* The timer for the earliest deadline of a fiber's open scopes. guarded by: in->lock, except `in` */
struct wf_scope_timer {
    struct wf_timer entry;
    struct wf_timers *in; /* where it was last armed: a worker's timers; NULL: never. guarded by: the extra's lock */
    uint32_t state;       /* enum wf_scope_timer_state. atomic: the owner waits for the end of FIRING */
};

struct wf_extra {
    /* The first two cache lines are what the start and the end of a child touch. */
    struct wf_lock lock;  /* the family's lock: guards the fiber's open scopes, and their lists of children */
    uint32_t stop_wanted; /* atomic: a caller may wait for `stop` */
    uint32_t users;       /* calls that cancel or stop the fiber or its scopes, on any thread. guarded by: lock */
    union {
        struct wf_scope *open;      /* the innermost open scope. guarded by: lock; only the fiber changes it */
        struct wf_extra *next_kept; /* links memory that a worker keeps */
    };
    const char *open_site;      /* where `open` was opened, for the panic if the fiber ends now. owner: the fiber */
    struct wf_child child;      /* its place in a scope */
    weft_job *job;              /* a child's function. const */
    void *arg;                  /* const */
    struct wf_context *context; /* NULL: no values. owner: the fiber */
    struct wf_defer *defers;    /* the latest first. owner: the fiber */
    void **locals;              /* NULL: none was set. owner: the fiber */
    struct wf_cause cause;      /* of the cancel of the fiber itself. guarded by: lock */
    struct wf_scope_timer timer;
    weft_event stop; /* set when the fiber is to stop. Valid if stop_wanted is set */
};

/*
 * The extra of a fiber that the caller knows to have an extra. The load is atomic although the pointer does not change
 * any more: a canceller that came too late to give the fiber an extra still compares the pointer in wf_extra.
 */
static inline struct wf_extra *wf_extra_of(const weft_fiber *f)
{
    return wf_load(&f->extra);
}

/* The extra of f, which need not be the calling fiber. Makes it if there is none. NULL: no memory. Any thread. */
struct wf_extra *wf_extra(weft_fiber *f);

/* Makes the extra of a new fiber that no other thread knows. False: no memory. `kept`: the worker's, or NULL. */
bool wf_extra_begin(struct wf_extras *kept, weft_fiber *f);

/* The record is released: frees its extra, or keeps the memory. `kept`: the worker's, or NULL. */
void wf_extra_drop(struct wf_extras *kept, weft_fiber *f);

/* Destroys the fiber-local values. Called in the fiber when its function has returned; x->locals is not NULL. */
void wf_locals_destroy(struct wf_extra *x);

/* Memory that a worker keeps for the extras of its next fibers: a list. owner: the worker */
struct wf_extras {
    struct wf_extra *first;
    uint32_t count;
    uint32_t unneeded; /* the least `count` since the last wf_extras_settle */
};

/* Settle, called now and then, frees half of what was not needed since its last call. Drop, at the end, frees all. */
void wf_extras_settle(struct wf_extras *x);
void wf_extras_drop(struct wf_extras *x);

/* The values of a context. Fibers and tasks share it, so it is never changed while it has two holders. */
struct wf_context {
    uint32_t holders; /* atomic */
    void *value[];    /* WF_CONTEXT_KEYS of them. const while there are two holders */
};

enum { WF_CONTEXT_KEYS = 64 };

/* Add and remove a holder. The last holder frees the context. c may be NULL. */
static inline struct wf_context *wf_context_hold(struct wf_context *c)
{
    if (c)
        wf_add(&c->holders, 1);
    return c;
}

void wf_context_let_go(struct wf_context *c);

#endif
