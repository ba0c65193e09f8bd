/*
 * arch/frame.c: the first context of a stack, for the switches written in assembly: the registers as NAME.S lays them
 * out, with wf_begin as the place to go on.
 */
#include "arch/arch.h"

void wf_begin(void); /* in NAME.S: calls fn(arg), then wf_coro_end(end_arg, value) */

void *wf_frame_make(void *top, weft_fn *fn, void *arg, void *end_arg)
{
    uintptr_t *frame = (uintptr_t *)((char *)top - WF_FRAME_BYTES);
#if defined(__x86_64__)
    frame[2] = (uintptr_t)arg;     /* r13 */
    frame[3] = (uintptr_t)fn;      /* r12 */
    frame[4] = (uintptr_t)end_arg; /* rbx */
    frame[5] = 0;                  /* rbp: no frame beyond this one */
    frame[6] = (uintptr_t)wf_begin;
#elif defined(__aarch64__)
    frame[0] = (uintptr_t)fn;      /* x19 */
    frame[1] = (uintptr_t)arg;     /* x20 */
    frame[2] = (uintptr_t)end_arg; /* x21 */
    frame[10] = 0;                 /* x29: no frame beyond this one */
    frame[11] = (uintptr_t)wf_begin;
#elif defined(__riscv)
    frame[0] = (uintptr_t)wf_begin;
    frame[1] = (uintptr_t)fn;      /* s0 */
    frame[2] = (uintptr_t)arg;     /* s1 */
    frame[3] = (uintptr_t)end_arg; /* s2 */
#endif
    return frame;
}
