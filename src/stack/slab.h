/*
 * stack/slab.h: private stacks, cut from large mappings. Any thread; one lock; the threads' caches keep it rare.
 *
 * A slab holds up to 64 stacks of one class:
 *
 *      base                                                        base + stride
 *      | guard | lowest byte ............ grows down ....... | top |  | guard | ...
 *
 * At the top are the owner's record and a struct wf_stack. Tops are moved down by a few cache lines, differently from
 * stack to stack ("colour"): stacks are whole pages apart, and their hottest lines would share one cache set.
 *
 * A slab with no stack handed out is unmapped at once: guards and touched pages keep half a KiB of page table per stack
 * alive. A stack that comes back to a slab that stays loses its pages, not its guard.
 */
#ifndef WF_STACK_SLAB_H
#define WF_STACK_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sanitizer.h"

struct wf_slab;

/* The end of every private stack that is handed out. const while it is. */
struct wf_stack {
    struct wf_slab *slab;
    char *low; /* the lowest usable byte; below it lies the guard */
    uint32_t class;
    uint16_t index;   /* which of the slab's stacks */
    uint16_t guarded; /* whether there is a guard */
};

/* A stack is known by its owner's record, which is where the stack begins to grow. An idle one is in a list. */
struct wf_idle {
    struct wf_idle *next; /* the first word of the record */
};

/* Bytes from a stack's record to its end: the record, and struct wf_stack, which comes last. */
#if WF_NOTED
#define WF_STACK_TOP_BYTES ((size_t)256)
#else
#define WF_STACK_TOP_BYTES ((size_t)192)
#endif

static inline struct wf_stack *wf_stack_of(const void *record)
{
    return (struct wf_stack *)((char *)(uintptr_t)record + WF_STACK_TOP_BYTES - sizeof(struct wf_stack));
}

/* ASan: an idle stack must not be touched; only its link may be. */
static inline void wf_stack_poison(struct wf_idle *s)
{
    wf_asan_poison(wf_stack_of(s)->low, (size_t)((char *)s - wf_stack_of(s)->low));
    wf_asan_poison(s + 1, WF_STACK_TOP_BYTES - sizeof *s - sizeof(struct wf_stack));
}

static inline void wf_stack_unpoison(struct wf_idle *s)
{
    wf_asan_unpoison(wf_stack_of(s)->low, (size_t)((char *)wf_stack_of(s) - wf_stack_of(s)->low));
}

/*
 * Stacks come in classes: by what they take of address space, four classes to a doubling, so that odd sizes are
 * recycled too. Class 0 is the default size.
 */
enum { WF_STACK_CLASSES = 1 + 4 * 34 };

/* The class for `usable` bytes; negative if no address space holds it. */
int wf_stack_class(size_t usable);

/*
 * Address space that a stack of this class takes: an odd number of pages. Were it a power of two, the pages in use of
 * all stacks would share a few sets of the TLB, and their page table entries a few sets of the caches.
 */
size_t wf_stack_stride(unsigned class);

/* The lowest byte of the mapping that a stack was cut from. */
const void *wf_stack_mapping(const void *record);

/* Takes up to `want` stacks of a class as a list; NULL: no memory. *got says how many. */
struct wf_idle *wf_slab_take(unsigned class, unsigned want, unsigned *got);

/* Gives a list of stacks back; their memory goes to the system. */
void wf_slab_give(struct wf_idle *list);

struct wf_slab_stats {
    size_t slabs, reserved, stacks, guarded, unguarded;
};
struct wf_slab_stats wf_slab_stats(void);

/* The lock of the slabs and guards, for whoever guards memory of its own. */
void wf_slab_lock(void);
void wf_slab_unlock(void);

#endif
