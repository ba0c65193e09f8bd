/*
 * stack/cache.c: the rare half of the threads' stack caches, and the public figures; see cache.h.
 */
#include "stack/cache.h"

#include <errno.h>

#include <weft/stack.h>

#include "base/clock.h"
#include "base/sys.h"

#define FETCH 16                               /* stacks taken from the slabs at once */
#define KEEP_STACKS 131072u                    /* a burst of 100,000 and some */
#define KEEP_BYTES ((size_t)KEEP_STACKS << 18) /* address space: larger stacks are kept in smaller numbers */
#define KEEP_FEWEST 16u
#define LOOK_NS 1000000000 /* how often a cache looks for what it does not need */
#define GIVE_AT_ONCE 128   /* stacks, a system call each: a tenth of a millisecond */

unsigned wf_stack_keep_at_most(unsigned class)
{
    size_t fit = KEEP_BYTES / wf_stack_stride(class);
    return fit > KEEP_STACKS ? KEEP_STACKS : fit < KEEP_FEWEST ? KEEP_FEWEST : (unsigned)fit;
}

/* NULL: no memory, or the thread is not listed and could never give back what it keeps. */
static struct wf_stack_cache *cache_of(struct wf_thread *t)
{
    if (!t->stacks && t->listed) {
        struct wf_stack_cache *cache = wf_sys_malloc(sizeof *cache);
        if (!cache)
            return NULL;
        *cache = (struct wf_stack_cache){.looked = wf_clock_coarse()};
        t->stacks = cache;
    }
    return t->stacks;
}

struct wf_idle *wf_stack_fetch(struct wf_thread *t, unsigned class)
{
    struct wf_stack_cache *cache = cache_of(t);
    unsigned got;
    if (!cache && t->listed)
        return NULL;
    struct wf_idle *s = wf_slab_take(class, cache ? FETCH : 1, &got);
    if (!s && wf_stack_trim(t) > 0) /* what is kept of other sizes may be in the way */
        s = wf_slab_take(class, FETCH, &got);
    if (!s)
        return NULL;
    if (!cache) {
        wf_stack_unpoison(s);
        return s;
    }
    struct wf_stack_bin *bin = &cache->bins[class];
    bin->head = s->next;
    bin->count = got - 1;
    bin->unneeded = 0;
    cache->counted = cache->used - 1;
    wf_stack_unpoison(s);
    for (struct wf_idle *idle = s->next; idle; idle = idle->next)
        wf_stack_poison(idle);
    return s;
}

static void give(struct wf_stack_bin *bin, unsigned n)
{
    if (n == 0)
        return;
    struct wf_idle *list = bin->head, *last = list;
    for (unsigned i = 1; i < n; i++)
        last = last->next;
    bin->head = last->next;
    last->next = NULL;
    bin->count -= n;
    if (bin->unneeded > bin->count)
        bin->unneeded = bin->count;
    wf_slab_give(list);
}

/* Half of what was not needed since the last look, if that is a while ago, is to go. */
static void look(struct wf_stack_cache *cache, int64_t now)
{
    if (now - cache->looked < LOOK_NS)
        return;
    cache->looked = now;
    cache->surplus = 0;
    for (unsigned i = 0; i < WF_STACK_CLASSES; i++) {
        struct wf_stack_bin *bin = &cache->bins[i];
        bin->surplus = bin->unneeded - bin->unneeded / 2;
        bin->unneeded = bin->count;
        cache->surplus += bin->surplus;
    }
}

/* On a worker a few at a time: it takes a system call each, and other fibers want to run. */
static void give_surplus(const struct wf_thread *t)
{
    struct wf_stack_cache *cache = t->stacks;
    unsigned left = t->worker ? GIVE_AT_ONCE : UINT32_MAX;
    for (unsigned i = 0; cache->surplus > 0 && left > 0 && i < WF_STACK_CLASSES; i++) {
        struct wf_stack_bin *bin = &cache->bins[i];
        unsigned n = bin->surplus < left ? bin->surplus : left;
        bin->surplus -= n;
        cache->surplus -= n;
        left -= n;
        give(bin, n < bin->count ? n : bin->count);
    }
}

/* Gives back what was not needed for a while, or is too much. */
static void tidy(struct wf_thread *t, unsigned class)
{
    struct wf_stack_bin *bin = &t->stacks->bins[class];
    unsigned most = t->stacks_kept != 0 ? t->stacks_kept : wf_stack_keep_at_most(class);
    if (bin->count > most)
        give(bin, bin->count - most);
    look(t->stacks, wf_clock_coarse());
    give_surplus(t);
}

/* At all bins. */
WF_COLD static int64_t look_at_all(const struct wf_thread *t, int64_t now)
{
    struct wf_stack_cache *cache = t->stacks;
    look(cache, now);
    give_surplus(t);
    if (cache->surplus > 0)
        return 0;
    unsigned kept = 0;
    for (unsigned i = 0; i < WF_STACK_CLASSES; i++)
        kept += cache->bins[i].count;
    cache->counted = cache->used;
    cache->again = kept > KEEP_FEWEST ? cache->looked + LOOK_NS : INT64_MAX;
    return cache->again;
}

/* Whoever sleeps often asks often, and mostly nothing was kept since. */
int64_t wf_stack_look(struct wf_thread *t, int64_t now)
{
    struct wf_stack_cache *cache = t->stacks;
    if (!cache)
        return INT64_MAX;
    if (cache->counted == cache->used && cache->surplus == 0 && now - cache->looked < LOOK_NS)
        return cache->again;
    return look_at_all(t, now);
}

size_t wf_stack_trim(struct wf_thread *t)
{
    size_t given = 0;
    for (unsigned i = 0; t->stacks && i < WF_STACK_CLASSES; i++) {
        struct wf_stack_bin *bin = &t->stacks->bins[i];
        given += bin->count;
        give(bin, bin->count);
        bin->surplus = 0;
    }
    if (t->stacks)
        t->stacks->surplus = 0;
    return given;
}

void wf_stack_leave(struct wf_thread *t)
{
    wf_stack_trim(t);
    wf_sys_free(t->stacks);
    t->stacks = NULL;
}

void wf_stack_keep(struct wf_thread *t, unsigned class, struct wf_idle *s)
{
    if (!cache_of(t)) { /* no memory for a cache: the stack goes to its slab */
        s->next = NULL;
        wf_slab_give(s);
        return;
    }
    bool quietly = wf_stack_keeps_quietly(t) && t->stacks_kept == 0;
    wf_stack_keep_quietly(t, class, s);
    if (!quietly)
        tidy(t, class);
}

WF_ENTRY int weft_stack_stats(weft_stack_figures *out)
{
    if (!out || (out->size != 0 && out->size != sizeof *out))
        return -EINVAL;
    struct wf_slab_stats now = wf_slab_stats();
    size_t cached = 0;
    struct wf_stack_cache *cache = wf_thread_self.stacks;
    for (unsigned i = 0; cache && i < WF_STACK_CLASSES; i++)
        cached += cache->bins[i].count;
    *out = (weft_stack_figures){
        .size = sizeof *out,
        .slabs = now.slabs,
        .reserved = now.reserved,
        .stacks = now.stacks,
        .cached = cached,
        .guarded = now.guarded,
        .unguarded = now.unguarded,
    };
    return 0;
}

WF_ENTRY size_t weft_stack_trim(void)
{
    return wf_stack_trim(&wf_thread_self);
}
