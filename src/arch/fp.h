/*
 * arch/fp.h: the floating-point control words (rounding, traps, flush to zero) of a coroutine that keeps its own.
 */
#ifndef WF_ARCH_FP_H
#define WF_ARCH_FP_H

#include <fenv.h>
#include <stdint.h>

#if defined(__x86_64__)
struct wf_fp {
    uint32_t mxcsr;
    uint16_t x87;
    uint16_t unused;
};
/* The control bits of MXCSR; the six below them are flags that belong to the thread. */
#define WF_MXCSR_CONTROL 0xffc0u

static inline void wf_fp_read(struct wf_fp *now)
{
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(now->mxcsr), "=m"(now->x87));
}

/* Loads `want` where it differs from `now`, what the thread has; *want keeps the flags of `now`. */
static inline void wf_fp_load(struct wf_fp *want, const struct wf_fp *now)
{
    if ((want->mxcsr ^ now->mxcsr) & WF_MXCSR_CONTROL) {
        want->mxcsr = (want->mxcsr & WF_MXCSR_CONTROL) | (now->mxcsr & ~WF_MXCSR_CONTROL);
        __asm__ volatile("ldmxcsr %0" : : "m"(want->mxcsr));
    }
    if (want->x87 != now->x87)
        __asm__ volatile("fldcw %0" : : "m"(want->x87));
}
#elif defined(__aarch64__)
struct wf_fp {
    uint64_t fpcr;
};

static inline void wf_fp_read(struct wf_fp *now)
{
    __asm__ volatile("mrs %0, fpcr" : "=r"(now->fpcr));
}

static inline void wf_fp_load(struct wf_fp *want, const struct wf_fp *now)
{
    if (want->fpcr != now->fpcr)
        __asm__ volatile("msr fpcr, %0" : : "r"(want->fpcr));
}
#elif defined(__riscv)
struct wf_fp {
    uint64_t rounding;
};

static inline void wf_fp_read(struct wf_fp *now)
{
    __asm__ volatile("frrm %0" : "=r"(now->rounding));
}

static inline void wf_fp_load(struct wf_fp *want, const struct wf_fp *now)
{
    if (want->rounding != now->rounding)
        __asm__ volatile("fsrm %0" : : "r"(want->rounding));
}
#else
struct wf_fp {
    uint64_t rounding;
};

static inline void wf_fp_read(struct wf_fp *now)
{
    now->rounding = (uint64_t)fegetround();
}

static inline void wf_fp_load(struct wf_fp *want, const struct wf_fp *now)
{
    if (want->rounding != now->rounding)
        fesetround((int)want->rounding);
}
#endif

#endif
