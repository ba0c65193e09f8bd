/*
 * stack/slab.h: private stacks, cut from large mappings. Any thread; one lock; the threads' caches keep it rare.
 *
 * A slab holds up to 64 stacks of one class:
 *
 *      base                                                        base + stride
 *      | guard | lowest byte ............ grows down ....... | top |  | guard | ...
 *
 * The top holds the owner's record and a struct wf_stack. Tops are moved down by a few cache lines, differently from
 * stack to stack ("colour"): stacks are a power of two apart, and their hottest lines would share one cache set.
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

/* Sits at the top of every private stack that is handed out. owner: whoever has the stack. */
struct wf_stack {
    struct wf_stack *next; /* in a cache: the next idle stack */
    struct wf_slab *slab;  /* const */
    char *low;             /* const: the lowest usable byte; below it lies the guard */
    uint32_t index;        /* const: which of the slab's stacks */
    uint32_t guarded;      /* const: whether there is a guard */
};

/* Bytes at the top of a stack for the owner's record and struct wf_stack, which comes last. */
#if WF_NOTED
#define WF_STACK_TOP_BYTES ((size_t)256)
#else
#define WF_STACK_TOP_BYTES ((size_t)192)
#endif

/* The owner's record: the lowest byte of the top, aligned to a cache line. */
static inline void *wf_stack_record(struct wf_stack *s)
{
    return (char *)s + sizeof *s - WF_STACK_TOP_BYTES;
}

static inline struct wf_stack *wf_stack_of_record(const void *record)
{
    return (struct wf_stack *)((char *)(uintptr_t)record + WF_STACK_TOP_BYTES - sizeof(struct wf_stack));
}

/*
 * Stacks come in classes: by what they take of address space, four classes to a doubling, so that odd sizes are
 * recycled too. Class 0 is the default size.
 */
enum { WF_STACK_CLASSES = 1 + 4 * 34 };

/* The class for `usable` bytes; negative if no address space holds it. */
int wf_stack_class(size_t usable);

/* Usable bytes of a stack, record and top aside. */
size_t wf_stack_bytes(const struct wf_stack *s);
unsigned wf_stack_class_of(const struct wf_stack *s);
/* Address space that a stack of this class takes. */
size_t wf_stack_stride(unsigned class);

/* Takes up to `want` stacks of a class as a list; NULL: no memory. *got says how many. */
struct wf_stack *wf_slab_take(unsigned class, unsigned want, unsigned *got);

/* Gives a list of stacks back; their memory goes to the system. */
void wf_slab_give(struct wf_stack *list);

struct wf_slab_stats {
    size_t slabs, reserved, stacks, guarded, unguarded;
};
struct wf_slab_stats wf_slab_stats(void);

/* The lock of the slabs and guards, for whoever guards memory of its own. */
void wf_slab_lock(void);
void wf_slab_unlock(void);

#endif
