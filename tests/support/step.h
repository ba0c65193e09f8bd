/*
 * tests/support/step.h: counts instructions exactly: a child runs the code to be counted and marks its pieces; its parent
 * steps the child's first thread through, instruction by instruction (ptrace), and counts between two marks. x86_64.
 */
#ifndef TESTS_SUPPORT_STEP_H
#define TESTS_SUPPORT_STEP_H

#include <stdbool.h>

#include "base/sanitizer.h"
#include "support/test.h"

#if !defined(__x86_64__) || TEST_EMULATED
#define STEP_NOT_HERE "it counts the instructions of an x86_64 that runs them itself"
#elif WF_ASAN || WF_TSAN
#define STEP_NOT_HERE "a sanitizer's own instructions are in the way"
#elif WF_VALGRIND
#define STEP_NOT_HERE "valgrind's build tells it of every stack"
#elif WF_DEBUG
#define STEP_NOT_HERE "debug builds switch in the call form, and look at more"
#elif defined(WF_UCONTEXT)
#define STEP_NOT_HERE "the portable switch is made of calls"
#endif

/* What is between two marks. */
struct step_piece {
    unsigned long instructions; /* but for the next line's */
    unsigned long in_vdso;      /* the kernel's code in the process: the clock */
    unsigned system_calls;
    unsigned locked; /* with a lock prefix, an xchg with memory, and mfence */
};

/* In the child. */
static inline void step_mark(void)
{
#ifdef __x86_64__
    __asm__ volatile("int3" : : : "memory");
#endif
}

/* Runs fn(arg) in a child, and each(piece, ctx) here after each piece. False: it cannot be done here, and was skipped. */
bool step_through(void (*fn)(void *arg), void *arg, void (*each)(const struct step_piece *p, void *ctx), void *ctx);

#endif
