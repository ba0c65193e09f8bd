/*
 * stack/cache.h: the stacks that a thread keeps for its next coroutines. Only its own thread touches a cache.
 *
 * Taking and keeping are a few instructions. A cache holds enough for a burst of 100,000, and gives back by itself, as
 * it is used, half of what it has not needed for a quarter of a second, over and over.
 */
#ifndef WF_STACK_CACHE_H
#define WF_STACK_CACHE_H

#include "base/sanitizer.h"
#include "base/thread.h"
#include "stack/slab.h"

/* Idle stacks of one class, the last one kept first. */
struct wf_stack_bin {
    struct wf_stack *head;
    uint32_t count;
    uint32_t unneeded; /* the least `count` since the last look: so many were never asked for */
};

struct wf_stack_cache {
    uint32_t used; /* times a stack was kept; every 256th looks at the clock */
    int64_t looked; /* when the last look was */
    struct wf_stack_bin bins[WF_STACK_CLASSES];
};

/* The bin is empty: fetches some. NULL: no memory. */
WF_COLD struct wf_stack *wf_stack_fetch(struct wf_thread *t, unsigned class);
/* Gives back what was not needed for a while, or is too much. */
WF_COLD void wf_stack_tidy(struct wf_stack_cache *cache, unsigned class);
/* Gives everything back; the number of stacks. */
WF_COLD size_t wf_stack_trim(struct wf_thread *t);
/* The thread ends. */
WF_COLD void wf_stack_leave(struct wf_thread *t);

/* The most stacks of a class that a thread keeps. */
unsigned wf_stack_keep_at_most(unsigned class);

static inline struct wf_stack *wf_stack_take(struct wf_thread *t, unsigned class)
{
    struct wf_stack_cache *cache = t->stacks;
    if (wf_unlikely(!cache || !cache->bins[class].head))
        return wf_stack_fetch(t, class);
    struct wf_stack_bin *bin = &cache->bins[class];
    struct wf_stack *s = bin->head;
    wf_asan_unpoison(s->low, (size_t)((char *)s - s->low));
    bin->head = s->next;
    if (--bin->count < bin->unneeded)
        bin->unneeded = bin->count;
    return s;
}

/* The cache exists: a thread that frees has either made one or calls wf_stack_keep_first. */
static inline void wf_stack_keep(struct wf_stack_cache *cache, unsigned class, struct wf_stack *s)
{
    struct wf_stack_bin *bin = &cache->bins[class];
    s->next = bin->head;
    bin->head = s;
    bin->count++;
    wf_asan_poison(s->low, (size_t)((char *)s - s->low));
    if (wf_unlikely((++cache->used & 255) == 0))
        wf_stack_tidy(cache, class);
}

/* As wf_stack_keep, on a thread that may have no cache yet; without memory for one the stack goes to its slab. */
WF_COLD void wf_stack_keep_first(struct wf_thread *t, unsigned class, struct wf_stack *s);

#endif
