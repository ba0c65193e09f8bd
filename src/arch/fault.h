/*
 * arch/fault.h: what a signal handler asks of the code that it interrupted.
 */
#ifndef WF_ARCH_FAULT_H
#define WF_ARCH_FAULT_H

#include <stdint.h>
#include <ucontext.h>

/* The stack pointer of the interrupted code; 0: unknown on this processor. `context` is a handler's third argument. */
static inline uintptr_t wf_fault_sp(const void *context)
{
    const ucontext_t *uc = context;
#if defined(__x86_64__)
    return (uintptr_t)uc->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
    return (uintptr_t)uc->uc_mcontext.sp;
#elif defined(__riscv)
    return (uintptr_t)uc->uc_mcontext.__gregs[REG_SP];
#else
    (void)uc;
    return 0;
#endif
}

#endif
