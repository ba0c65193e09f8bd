/*
 * stack/slab.c: mappings that stacks are cut from; see slab.h for the layout and the rules.
 */
#include "stack/slab.h"

#include <weft/stack.h>

#include "base/fork.h"
#include "base/plain.h"
#include "base/sys.h"
#include "stack/guard.h"

#define LINE ((size_t)64)
#define COLOURS 16
#define SLAB_BYTES ((size_t)16 * 1024 * 1024) /* a slab of small stacks */
#define SLAB_STACKS 64                        /* at most: one bit each */
#define SMALLEST_SHIFT 14

/* Sanitizers make frames larger. */
#if WF_ASAN || WF_TSAN
#define EXTRA ((size_t)64 * 1024)
#else
#define EXTRA ((size_t)0)
#endif

/* guarded by: lock, all of it, except what is const */
struct wf_slab {
    char *base;                   /* const */
    unsigned class;               /* const */
    unsigned count;               /* const: stacks in it */
    uint64_t idle;                /* bit i: stack i is here, not handed out */
    uint64_t returned;            /* wf_slab_give: came back in this call */
    uint64_t guards;              /* bit i: stack i has a guard */
    enum wf_guard kind;           /* const: advice covers all; mapping is made one by one as stacks are first taken */
    struct wf_slab *next, **link; /* in its class's list while idle != 0 */
    struct wf_slab *next_returned;
    struct wf_slab *next_of_all, **link_of_all; /* in the list of all slabs, where leak checkers find them */
    unsigned valgrind[];                        /* one per stack, with valgrind only */
};

static struct wf_plain_mutex lock;
static struct wf_slab *with_idle[WF_STACK_CLASSES]; /* guarded by: lock */
static struct wf_slab *all;                         /* guarded by: lock */
static struct wf_slab_stats stats;                  /* guarded by: lock */
static struct wf_plain_once once;

static void set_up(void)
{
    static const struct wf_fork_steps steps = {wf_slab_lock, wf_slab_unlock, wf_slab_unlock};
    wf_fork_join(WF_FORK_SLABS, &steps);
}

void wf_slab_lock(void)
{
    wf_plain_once(&once, set_up);
    wf_plain_lock(&lock);
}

void wf_slab_unlock(void)
{
    wf_plain_unlock(&lock);
}

static unsigned log2_of(size_t n)
{
    return (unsigned)(63 - __builtin_clzll(n));
}

/* The address space of the smallest class whose stacks have `usable` bytes. */
static size_t ladder(size_t usable)
{
    size_t n = usable + EXTRA + wf_guard_bytes() + WF_STACK_TOP_BYTES + COLOURS * LINE;
    size_t page = wf_sys_page(), step = (size_t)1 << (log2_of(n) - 2);
    if (step < page)
        step = page;
    return WF_ROUND_UP(n, step);
}

int wf_stack_class(size_t usable)
{
    if (usable == WEFT_STACK_DEFAULT)
        return 0;
    if (usable > (size_t)1 << 46)
        return -1;
    size_t stride = ladder(usable);
    unsigned shift = log2_of(stride);
    unsigned class = 1 + (shift - SMALLEST_SHIFT) * 4 + (unsigned)((stride >> (shift - 2)) & 3);
    return class < WF_STACK_CLASSES ? (int)class : -1;
}

size_t wf_stack_stride(unsigned class)
{
    size_t page = wf_sys_page(), stride;
    if (class == 0) {
        stride = ladder(WEFT_STACK_DEFAULT);
    } else {
        unsigned shift = SMALLEST_SHIFT + (class - 1) / 4;
        stride = ((size_t)1 << shift) + ((size_t)((class - 1) % 4) << (shift - 2));
    }
    return stride | page; /* a multiple of pages becomes an odd one */
}

const void *wf_stack_mapping(const void *record)
{
    return wf_stack_of(record)->slab->base;
}

static char *stack_base(const struct wf_slab *slab, unsigned i)
{
    return slab->base + i * wf_stack_stride(slab->class);
}

static struct wf_idle *stack_record(const struct wf_slab *slab, unsigned i)
{
    char *end = stack_base(slab, i) + wf_stack_stride(slab->class);
    return (struct wf_idle *)(end - (i % COLOURS) * LINE - WF_STACK_TOP_BYTES);
}

static uint64_t all_of(const struct wf_slab *slab)
{
    return slab->count == 64 ? ~(uint64_t)0 : ((uint64_t)1 << slab->count) - 1;
}

static void link_idle(struct wf_slab *slab)
{
    struct wf_slab **head = &with_idle[slab->class];
    slab->next = *head;
    slab->link = head;
    if (*head)
        (*head)->link = &slab->next;
    *head = slab;
}

static void unlink_idle(struct wf_slab *slab)
{
    *slab->link = slab->next;
    if (slab->next)
        slab->next->link = slab->link;
}

/* Guards every stack by advice, in one call; else leaves it to guard_one. */
static void guard_all(struct wf_slab *slab)
{
    struct iovec ranges[SLAB_STACKS];
    for (unsigned i = 0; i < slab->count; i++)
        ranges[i] = (struct iovec){stack_base(slab, i), wf_guard_bytes()};
    if (wf_guard_advise(ranges, slab->count)) {
        slab->kind = WF_GUARD_ADVICE;
        slab->guards = all_of(slab);
    } else {
        slab->kind = WF_GUARD_MAPPING;
    }
}

static bool guard_one(struct wf_slab *slab, unsigned i)
{
    uint64_t bit = (uint64_t)1 << i;
    if (!(slab->guards & bit) && wf_guard_map(stack_base(slab, i)))
        slab->guards |= bit;
    return (slab->guards & bit) != 0;
}

static size_t stacks_in_slab(unsigned class)
{
    size_t count = SLAB_BYTES / wf_stack_stride(class);
    return count > SLAB_STACKS ? SLAB_STACKS : count < 1 ? 1 : count;
}

static struct wf_slab *slab_new(unsigned class, size_t count)
{
    size_t stride = wf_stack_stride(class);
    struct wf_slab *slab = wf_sys_malloc(sizeof *slab + (WF_VALGRIND ? count * sizeof slab->valgrind[0] : 0));
    if (!slab)
        return NULL;
    *slab = (struct wf_slab){.base = wf_sys_map(count * stride), .class = class, .count = (unsigned)count};
    if (!slab->base) {
        wf_sys_free(slab);
        return NULL;
    }
    slab->idle = all_of(slab);
    guard_all(slab);
    for (unsigned i = 0; WF_VALGRIND && i < count; i++)
        slab->valgrind[i] = wf_valgrind_stack(stack_base(slab, i), stride);
    link_idle(slab);
    slab->next_of_all = all;
    slab->link_of_all = &all;
    if (all)
        all->link_of_all = &slab->next_of_all;
    all = slab;
    stats.slabs++;
    stats.reserved += count * stride;
    return slab;
}

static void slab_free(struct wf_slab *slab)
{
    size_t bytes = slab->count * wf_stack_stride(slab->class);
    unlink_idle(slab);
    *slab->link_of_all = slab->next_of_all;
    if (slab->next_of_all)
        slab->next_of_all->link_of_all = slab->link_of_all;
    for (unsigned i = 0; WF_VALGRIND && i < slab->count; i++)
        wf_valgrind_forget(slab->valgrind[i]);
    if (slab->kind == WF_GUARD_MAPPING)
        wf_guard_unmapped((size_t)__builtin_popcountll(slab->guards));
    wf_asan_unpoison(slab->base, bytes);
    wf_sys_unmap(slab->base, bytes);
    stats.slabs--;
    stats.reserved -= bytes;
    wf_sys_free(slab);
}

static struct wf_idle *hand_out(struct wf_slab *slab)
{
    unsigned i = (unsigned)__builtin_ctzll(slab->idle);
    struct wf_idle *s = stack_record(slab, i);
    slab->idle &= slab->idle - 1;
    if (slab->idle == 0)
        unlink_idle(slab);
    bool guarded = guard_one(slab, i);
    wf_asan_unpoison(s, WF_STACK_TOP_BYTES);
    *wf_stack_of(s) = (struct wf_stack){.slab = slab,
                                        .low = stack_base(slab, i) + wf_guard_bytes(),
                                        .class = slab->class,
                                        .index = (uint16_t)i,
                                        .guarded = guarded};
    stats.stacks++;
    *(guarded ? &stats.guarded : &stats.unguarded) += 1;
    return s;
}

struct wf_idle *wf_slab_take(unsigned class, unsigned want, unsigned *got)
{
    struct wf_idle *list = NULL, **tail = &list;
    wf_slab_lock();
    for (*got = 0; *got < want; ++*got) {
        struct wf_slab *slab = with_idle[class];
        if (!slab && *got > 0)
            break; /* a new mapping only for what is needed now */
        if (!slab && !(slab = slab_new(class, stacks_in_slab(class))) && !(slab = slab_new(class, 1)))
            break;
        *tail = hand_out(slab);
        tail = &(*tail)->next;
    }
    *tail = NULL;
    wf_slab_unlock();
    return list;
}

/* Lets the pages of the stacks that came back go, run by run: guards survive that, whichever kind. */
static void discard_returned(struct wf_slab *slab)
{
    size_t stride = wf_stack_stride(slab->class);
    while (slab->returned) {
        unsigned first = (unsigned)__builtin_ctzll(slab->returned);
        uint64_t gap = ~(slab->returned >> first);
        unsigned run = gap ? (unsigned)__builtin_ctzll(gap) : 64;
        wf_sys_discard(stack_base(slab, first), run * stride);
        slab->returned = first + run >= 64 ? 0 : slab->returned & ~(uint64_t)0 << (first + run);
    }
}

void wf_slab_give(struct wf_idle *list)
{
    struct wf_slab *touched = NULL;
    wf_slab_lock();
    for (struct wf_idle *idle = list, *next; idle; idle = next) {
        struct wf_stack *s = wf_stack_of(idle);
        struct wf_slab *slab = s->slab;
        next = idle->next;
        if (!slab->returned) {
            slab->next_returned = touched;
            touched = slab;
        }
        slab->returned |= (uint64_t)1 << s->index;
        stats.stacks--;
        *(s->guarded ? &stats.guarded : &stats.unguarded) -= 1;
    }
    for (struct wf_slab *slab = touched, *next; slab; slab = next) {
        next = slab->next_returned;
        if (slab->idle == 0)
            link_idle(slab);
        slab->idle |= slab->returned;
        if (slab->idle == all_of(slab))
            slab_free(slab);
        else
            discard_returned(slab);
    }
    wf_slab_unlock();
}

struct wf_slab_stats wf_slab_stats(void)
{
    wf_slab_lock();
    struct wf_slab_stats now = stats;
    wf_slab_unlock();
    return now;
}
