/*
 * coro/coro.h: a raw coroutine's record and the rules of its fields.
 *
 * With a private stack the record sits at the top of that stack and the stack begins right below it; with a shared one
 * it is allocated, and as small as can be. Nothing here is locked: a coroutine belongs to whoever runs it or, suspended,
 * to whoever may resume it, and the caller orders the two (see include/weft/coro.h).
 *
 * The stack pointers. A suspended coroutine's is in its `sp`. A running one's `sp` holds its resumer's, so that resume
 * and yield are the same exchange, and the thread's own stack needs no record.
 */
#ifndef WF_CORO_CORO_H
#define WF_CORO_CORO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/coro.h>

#include "arch/arch.h"
#include "arch/fp.h"
#include "base/sanitizer.h"
#include "base/thread.h"
#include "stack/shared.h"
#include "stack/slab.h"

/*
 * The mode of a coroutine: its state (the lowest two bits, as in enum weft_coro_state) and what makes a switch
 * to or from it more than plain. A plain READY one is exactly WF_PLAIN_READY, so that resume needs one comparison.
 */
enum {
    WF_STATE = 3,
    WF_PLAIN_READY = WEFT_CORO_READY,
    WF_PLAIN_RUNNING = WEFT_CORO_RUNNING,

    WF_FP = 1 << 2,     /* keeps its own floating-point control words */
    WF_EH = 1 << 3,     /* keeps its own C++ exception globals */
    WF_COPIED = 1 << 4, /* lives on a shared stack */
    WF_FOR_LIFE = WF_FP | WF_EH | WF_COPIED | 1 << 8 /* WF_BASE */,

    WF_TRANSFERRED = 1 << 5, /* READY: waits in transfer, so a value goes to its `value` and 1 is returned */
    WF_OVER_COPIED = 1 << 6, /* RUNNING: its resumer lives on a shared stack and may have to be put back first */
    WF_FREED = 1 << 7,       /* no state: its memory waits for the next coroutine */
    WF_BASE = 1 << 8,        /* a fiber's: it has no resumer; see mount.h */
};

struct wf_eh_globals {
    void *caught;
    uintptr_t uncaught;
};

struct weft_coro {
    void *sp;      /* suspended: its own stack pointer; RUNNING: its resumer's */
    uint32_t mode; /* atomic, relaxed: other threads look */
    union {
        uint32_t class;   /* const: of its private stack */
        uint32_t deepest; /* WF_COPIED: the most bytes that were live at a switch */
    };
    union {
        struct {
            weft_coro *resumer; /* RUNNING: who gets control back, NULL: a thread's own stack */
            void **value;       /* RUNNING: where its resumer wants the value; WF_TRANSFERRED: where it wants its own */
        };
        struct {
            weft_fn *fn; /* WF_COPIED and never resumed: what to begin with */
            void *arg;
        } start;
    };
    uint64_t id;              /* const until reset */
    char *name;               /* const; owned (not a base's); NULL: none */
    void *user;               /* const; a base's: its struct wf_flow, or NULL. owner: the base */
    struct wf_shared *shared; /* const; NULL: a private stack */

    void *saved; /* WF_COPIED: room for what is live, `room` bytes; owned */
    union {
        weft_coro *waits_for;   /* WF_COPIED and RUNNING: the one it resumed, whose sp is then its own */
        struct wf_image *image; /* packed: the image that its copy differs from */
    };
    uint32_t room, saved_bytes; /* the highest bit of `room`: its copy is packed (packed.h); clear while on its stack */

#if WF_NOTED
    weft_fn *fn; /* what to run: the begin note comes before it */
    void *arg;
    struct wf_thread *runner; /* debug: who has claimed it. atomic: claim pairs with release on arrival */
    void *fiber;              /* TSan's context */
#endif

    /* A shared-stack coroutine without WF_FP and WF_EH ends here. */
    struct wf_eh_globals eh; /* WF_EH: the other side's globals; a base's: its own while it does not run */
    /* A shared-stack base without WF_FP ends here. */
    struct wf_fp fp, fp_seen; /* WF_FP: the other side's words; scratch */
};

_Static_assert(sizeof(weft_coro) + sizeof(struct wf_stack) <= WF_STACK_TOP_BYTES, "the top has room for the record");
_Static_assert(offsetof(weft_coro, saved) == 64, "what a plain switch needs is one cache line");

static inline uint32_t wf_mode(const weft_coro *c)
{
    return __atomic_load_n(&c->mode, __ATOMIC_RELAXED);
}

static inline void wf_set_mode(weft_coro *c, uint32_t mode)
{
    __atomic_store_n(&c->mode, mode, __ATOMIC_RELAXED);
}

static inline bool wf_copied(const weft_coro *c)
{
    return c && c->shared;
}

/* Never resumed since it was made or reset. */
static inline bool wf_fresh(const weft_coro *c)
{
    return c->shared ? c->sp == NULL : c->sp == (const char *)c - WF_FRAME_BYTES && wf_frame_is_fresh(c->sp);
}

/* The lowest and highest byte of the stack it runs on. */
static inline char *wf_coro_low(const weft_coro *c)
{
    return c->shared ? c->shared->low : wf_stack_of(c)->low;
}

static inline char *wf_coro_high(const weft_coro *c)
{
    return c->shared ? c->shared->high : (char *)(uintptr_t)c;
}

/* Set up for this thread: exit handler, alternate signal stack, the plain switch allowed. */
WF_COLD void wf_coro_enter_thread(struct wf_thread *t);

/* Its name in quotes with a space before, or nothing: for messages. */
const char *wf_coro_quoted(const weft_coro *c, char *text, size_t room);

/* Zeros a stack that nobody runs on, without touching what is zero. */
WF_COLD void wf_coro_clean_stack(weft_coro *c);

/* A mode that no READY coroutine has: every resume takes the general way. */
#define WF_NEVER UINT32_MAX

/* What t->expect is while `current` runs. */
static inline uint32_t wf_expect(const weft_coro *current)
{
    return WF_NOTED || wf_copied(current) ? WF_NEVER : WF_PLAIN_READY;
}

#if WF_NOTED
/* The first function on every stack: notes the arrival, then runs c->fn(c->arg). */
weft_fn wf_noted_begin;
#endif

/* The context that begins at fn(arg) at the top of c's stack, which is wf_coro_high(c). */
static inline void *wf_coro_frame(weft_coro *c, void *top, weft_fn *fn, void *arg)
{
    wf_valgrind_writable((char *)top - WF_FRAME_BYTES, WF_FRAME_BYTES);
#if WF_NOTED
    c->fn = fn;
    c->arg = arg;
    return wf_frame_make(top, wf_noted_begin, c, c);
#else
    return wf_frame_make(top, fn, arg, c);
#endif
}

#endif
