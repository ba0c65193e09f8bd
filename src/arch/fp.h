/*
 * arch/fp.h: the floating-point control words (rounding, traps, flush to zero) of a coroutine that keeps its own.
 *
 * wf_fp_read(scratch), then wf_fp_settle(kept, scratch), exchanges the thread's words with *kept and loads only what
 * differs: it is the store of MXCSR that costs, and reading it back at once, so other work belongs between the two. The
 * exception flags belong to the thread and stay as they are.
 */
#ifndef WF_ARCH_FP_H
#define WF_ARCH_FP_H

#include <fenv.h>
#include <stdint.h>

#if defined(__x86_64__)
struct wf_fp {
    uint32_t mxcsr;
    uint16_t x87;
};
/* The control bits of MXCSR; the six below them are the flags. */
#define WF_MXCSR_CONTROL 0xffc0u

static inline void wf_fp_read(struct wf_fp *now)
{
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(now->mxcsr), "=m"(now->x87));
}

/* Each word is read back in the width it was written in: a wider load would wait for the stores. */
static inline void wf_fp_settle(struct wf_fp *kept, struct wf_fp *scratch)
{
    uint32_t mxcsr = scratch->mxcsr;
    uint16_t x87 = scratch->x87;
    if (__builtin_expect(((kept->mxcsr ^ mxcsr) & WF_MXCSR_CONTROL) != 0, 0)) {
        scratch->mxcsr = (kept->mxcsr & WF_MXCSR_CONTROL) | (mxcsr & ~WF_MXCSR_CONTROL);
        __asm__ volatile("ldmxcsr %0" : : "m"(scratch->mxcsr));
        kept->mxcsr = mxcsr;
    }
    if (__builtin_expect(kept->x87 != x87, 0)) {
        __asm__ volatile("fnstsw %0" : "=m"(scratch->x87));
        if (scratch->x87 & ~kept->x87 & 0x3f) /* a flag of the thread's would trap as soon as it is unmasked */
            __asm__ volatile("fnclex");
        __asm__ volatile("fldcw %0" : : "m"(kept->x87));
        kept->x87 = x87;
    }
}
#else
struct wf_fp {
    uint64_t control;
};

#if defined(__aarch64__)
static inline void wf_fp_read(struct wf_fp *now)
{
    __asm__ volatile("mrs %0, fpcr" : "=r"(now->control));
}

static inline void wf_fp_write(const struct wf_fp *want)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(want->control));
}
#elif defined(__riscv)
static inline void wf_fp_read(struct wf_fp *now)
{
    __asm__ volatile("frrm %0" : "=r"(now->control));
}

static inline void wf_fp_write(const struct wf_fp *want)
{
    __asm__ volatile("fsrm %0" : : "r"(want->control));
}
#else
static inline void wf_fp_read(struct wf_fp *now)
{
    now->control = (uint64_t)fegetround();
}

static inline void wf_fp_write(const struct wf_fp *want)
{
    fesetround((int)want->control);
}
#endif

static inline void wf_fp_settle(struct wf_fp *kept, struct wf_fp *scratch)
{
    if (kept->control != scratch->control) {
        wf_fp_write(kept);
        kept->control = scratch->control;
    }
}
#endif

static inline void wf_fp_swap(struct wf_fp *kept, struct wf_fp *scratch)
{
    wf_fp_read(scratch);
    wf_fp_settle(kept, scratch);
}

#endif
