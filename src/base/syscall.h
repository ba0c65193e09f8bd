/*
 * base/syscall.h: system calls that come often. wf_syscall returns a negative errno, and leaves errno alone.
 *
 * On x86_64 the call is in line. The C library's syscall() costs a jump through a table, moves all arguments, and returns
 * once more, and in profiles returns right behind a system call take long.
 */
#ifndef WF_BASE_SYSCALL_H
#define WF_BASE_SYSCALL_H

#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/errno.h"

/* The result of a call that sets errno: itself, or a negative errno, with errno as it was `kept` before the call. */
static inline ptrdiff_t wf_negative_errno(ptrdiff_t n, int kept)
{
    if (n >= 0)
        return n;
    n = -errno;
    errno = kept;
    return n;
}

/* Calls with fewer arguments pass 0 for the rest. */
static inline long wf_syscall(long number, long a, long b, long c, long d, long e, long f)
{
#if defined __x86_64__ && !defined __ILP32__
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long n;
    __asm__ volatile("syscall"
                     : "=a"(n)
                     : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return n;
#else
    int before = errno;
    long n = syscall(number, a, b, c, d, e, f);
    return wf_negative_errno(n, before);
#endif
}

#endif
