/*
 * stack/cache.h: the stacks that a thread keeps for its next coroutines. Only its own thread touches a cache.
 *
 * Taking and keeping are a few instructions. A cache holds enough for a burst of 100,000, and gives back by itself, as
 * it is used, half of what it has not needed for a second, over and over.
 */
#ifndef WF_STACK_CACHE_H
#define WF_STACK_CACHE_H

#include "base/sanitizer.h"
#include "base/thread.h"
#include "stack/slab.h"

/* Idle stacks of one class, the last one kept first. */
struct wf_stack_bin {
    struct wf_idle *head;
    uint32_t count;
    uint32_t unneeded; /* the least `count` since the last look: so many were never asked for */
    uint32_t surplus;  /* so many are to be given back, a few at a time */
};

enum { WF_STACK_LOOK_EVERY = 256 };

struct wf_stack_cache {
    uint32_t used;    /* times a stack was kept; every so often it looks at the clock */
    int64_t looked;   /* when the last look was */
    uint32_t surplus; /* of all bins */
    uint32_t
        counted;   /* what `used` was when all bins were last looked at; another value: the next line is out of date */
    int64_t again; /* when wf_stack_look is to be called again, as of then */
    struct wf_stack_bin bins[WF_STACK_CLASSES];
};

/* The bin is empty: fetches some. NULL: no memory. */
WF_COLD struct wf_idle *wf_stack_fetch(struct wf_thread *t, unsigned class);
/* Keeps a stack, and now and then gives back what was not needed for a while, or is too much. */
void wf_stack_keep(struct wf_thread *t, unsigned class, struct wf_idle *s);
/* The same look when nothing is kept or taken: for a thread that is about to sleep. When to look again: 0 is at once.
 * `now` need not be exact. */
int64_t wf_stack_look(struct wf_thread *t, int64_t now);
/* Gives everything back; the number of stacks. */
WF_COLD size_t wf_stack_trim(struct wf_thread *t);
/* The thread ends. */
WF_COLD void wf_stack_leave(struct wf_thread *t);

/* The most stacks of a class that a thread keeps. */
unsigned wf_stack_keep_at_most(unsigned class);

/* Whether a stack can be had without a call. */
static inline bool wf_stack_at_hand(const struct wf_thread *t, unsigned class)
{
    return t->stacks && t->stacks->bins[class].head;
}

static inline struct wf_idle *wf_stack_take_at_hand(struct wf_thread *t, unsigned class)
{
    struct wf_stack_bin *bin = &t->stacks->bins[class];
    struct wf_idle *s = bin->head;
    wf_stack_unpoison(s);
    bin->head = s->next;
    __builtin_prefetch(s->next, 1); /* it will be the next one's record: a page and a line that nobody touched lately */
    if (--bin->count < bin->unneeded)
        bin->unneeded = bin->count;
    return s;
}

static inline struct wf_idle *wf_stack_take(struct wf_thread *t, unsigned class)
{
    return wf_stack_at_hand(t, class) ? wf_stack_take_at_hand(t, class) : wf_stack_fetch(t, class);
}

/* Whether a stack can be kept without a call: there is a cache, and it is not time to look at it. */
static inline bool wf_stack_keeps_quietly(const struct wf_thread *t)
{
    return t->stacks && (t->stacks->used + 1) % WF_STACK_LOOK_EVERY != 0;
}

static inline void wf_stack_keep_quietly(struct wf_thread *t, unsigned class, struct wf_idle *s)
{
    struct wf_stack_bin *bin = &t->stacks->bins[class];
    s->next = bin->head;
    bin->head = s;
    bin->count++;
    t->stacks->used++;
    wf_stack_poison(s);
}

#endif
