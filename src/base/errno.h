/*
 * base/errno.h: errno for code that may go on on another thread after a wait (a fiber with WEFT_MIGRATE does).
 *
 * The C library declares the address of errno as one that never changes, so a compiler may keep it in a register across a wait,
 * and then reads and writes the errno of the thread that the fiber has left. Here every use asks for the address anew. Layers
 * that can wait, and headers that they inline, include this instead of <errno.h>.
 */
#ifndef WF_BASE_ERRNO_H
#define WF_BASE_ERRNO_H

#include <errno.h>

static inline int *wf_errno_here(void)
{
    int *(*ask)(void) = __errno_location;
    __asm__ volatile("" : "+r"(ask)); /* the compiler does not know what is called, nor that it may be called once */
    return ask();
}

#undef errno
#define errno (*wf_errno_here())

#endif
