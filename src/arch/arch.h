/*
 * arch/arch.h: the context switch, one implementation per instruction set (NAME.S), and one in portable C on ucontext.
 *
 * A suspended context is a stack pointer: below it nothing is live, at and above it lie the registers that a call must
 * keep and the address to go on at. The switch saves no floating-point control word and no signal mask.
 */
#ifndef WF_ARCH_ARCH_H
#define WF_ARCH_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/api.h>

#include "base/compiler.h"

/*
 * Saves the calling context, stores its stack pointer in *save, and goes on in context `to`, whose own call of a switch
 * returns `value` there. x86_64: called by a tail jump, it returns straight to the caller's caller.
 */
WF_HIDDEN void *wf_switch(void **save, void *to, void *value);

/* The same, for a context that is never gone back to: nothing is saved. */
WF_HIDDEN void *wf_switch_last(void *to, void *value);

/* Where to go on, and with what value. */
struct wf_landing {
    void *sp;
    void *value;
};

/*
 * Saves the calling context as wf_switch does, calls land(arg) on the stack that ends at `top`, and goes on where that
 * says. For replacing what is on the stack one stands on: nothing of the calling stack is touched after the save.
 */
WF_HIDDEN void *wf_switch_through(void **save, void *top, struct wf_landing (*land)(void *), void *arg);

/* The same two for callers that return an int, as a tail jump needs the type to match. */
#if defined(WF_UCONTEXT)
static inline int wf_switch_int(void **save, void *to, void *value)
{
    return (int)(intptr_t)wf_switch(save, to, value);
}

static inline int wf_switch_through_int(void **save, void *top, struct wf_landing (*land)(void *), void *arg)
{
    return (int)(intptr_t)wf_switch_through(save, top, land, arg);
}
#else
WF_HIDDEN int wf_switch_int(void **save, void *to, void *value) __asm__("wf_switch");
WF_HIDDEN int wf_switch_through_int(void **save, void *top, struct wf_landing (*land)(void *),
                                    void *arg) __asm__("wf_switch_through");
#endif

/*
 * Makes a context on the stack that ends at `top` (aligned to 16): the first switch to it calls fn(arg) and, when that
 * returns, wf_coro_end(end_arg, value), which goes elsewhere for good. The context is always at top - WF_FRAME_BYTES.
 */
static inline void *wf_frame_make(void *top, weft_fn *fn, void *arg, void *end_arg);

/* Implemented by coro/: what follows the function of every context that wf_frame_make made. */
WF_HIDDEN void *wf_coro_end(void *end_arg, void *value);

#if defined(WF_UCONTEXT)
#include <ucontext.h>

#include "arch/fp.h"

struct wf_frame {
    ucontext_t context;
    void *value;        /* what the switch that saved this returns */
    void *low;          /* nothing below is live */
    struct wf_fp words; /* the thread's, handed over by whoever switches here: ucontext would bring back old ones */
    weft_fn *fn;        /* made and never switched to: what to begin with */
    void *arg, *end_arg;
};
#define WF_FRAME_BYTES WF_ROUND_UP(sizeof(struct wf_frame), (size_t)16)

static inline char *wf_live_low(void *sp)
{
    return (char *)((uintptr_t)((struct wf_frame *)sp)->low & ~(uintptr_t)15);
}

/* Whether a context at its top is as wf_frame_make made it. */
static inline bool wf_frame_is_fresh(const void *sp)
{
    (void)sp;
    return true; /* whatever ran is below */
}

WF_HIDDEN void *wf_frame_make_slowly(void *top, weft_fn *fn, void *arg, void *end_arg);

static inline void *wf_frame_make(void *top, weft_fn *fn, void *arg, void *end_arg)
{
    return wf_frame_make_slowly(top, fn, arg, end_arg);
}
#else
#if defined(__x86_64__)
#define WF_FRAME_BYTES ((size_t)56)
#elif defined(__aarch64__)
#define WF_FRAME_BYTES ((size_t)160)
#elif defined(__riscv)
#define WF_FRAME_BYTES ((size_t)208)
#else
#error "no switch for this instruction set: configure with -DWEFT_ARCH=ucontext"
#endif

/* The lowest byte that a suspended context needs, rounded down to 16. */
static inline char *wf_live_low(void *sp)
{
    return (char *)((uintptr_t)sp & ~(uintptr_t)15);
}

WF_HIDDEN void wf_begin(void); /* in NAME.S */
#if defined(__x86_64__)
#define WF_BEGIN_NOP 1 /* bytes of the nop that it begins with */
#else
#define WF_BEGIN_NOP 4
#endif

/* Where in a context the address to go on at is. */
#if defined(__x86_64__)
#define WF_FRAME_NEXT 6
#elif defined(__aarch64__)
#define WF_FRAME_NEXT 11
#else
#define WF_FRAME_NEXT 0
#endif

/* Whether a context at its top is as wf_frame_make made it: a function that ends in a yield may wait in the same place. */
static inline bool wf_frame_is_fresh(const void *sp)
{
    return ((const uintptr_t *)sp)[WF_FRAME_NEXT] == (uintptr_t)wf_begin + WF_BEGIN_NOP;
}

static inline void *wf_frame_make(void *top, weft_fn *fn, void *arg, void *end_arg)
{
    uintptr_t *frame = (uintptr_t *)((char *)top - WF_FRAME_BYTES);
#if defined(__x86_64__)
    frame[2] = (uintptr_t)arg;     /* r13 */
    frame[3] = (uintptr_t)fn;      /* r12 */
    frame[4] = (uintptr_t)end_arg; /* rbx */
    frame[5] = 0;                  /* rbp: no frame beyond this one */
#elif defined(__aarch64__)
    frame[0] = (uintptr_t)fn;      /* x19 */
    frame[1] = (uintptr_t)arg;     /* x20 */
    frame[2] = (uintptr_t)end_arg; /* x21 */
    frame[10] = 0;                 /* x29: no frame beyond this one */
#elif defined(__riscv)
    frame[1] = (uintptr_t)fn;      /* s0 */
    frame[2] = (uintptr_t)arg;     /* s1 */
    frame[3] = (uintptr_t)end_arg; /* s2 */
#endif
    frame[WF_FRAME_NEXT] = (uintptr_t)wf_begin + WF_BEGIN_NOP;
    return frame;
}
#endif

#endif
