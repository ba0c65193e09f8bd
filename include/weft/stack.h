/*
 * weft/stack.h: the stacks that coroutines run on.
 *
 * A private stack is big in address space and small in memory: pages are committed as they are touched, and a stack that
 * is freed is kept for the next coroutine of this thread. A small idle coroutine costs one page.
 *
 * Below every private and shared stack lies a guard of 16 KiB. A coroutine that runs into it ends the program with a
 * line that names it (see Signals in weft/coro.h). A single function with more than 16 KiB of locals can step over the
 * guard. If it lands in another coroutine's stack, nothing faults, and that stack is silently overwritten. So compile
 * your code with -fstack-clash-protection (gcc, clang), which touches every page on the way. weft.pc and the CMake
 * targets pass this option if the compiler has it.
 *
 * A shared stack is used by many coroutines in turn. When another one needs it, what is live on it is copied out, and
 * copied back before its owner runs again. A small idle coroutine costs a few hundred bytes, a switch costs the copy,
 * and one rule comes with it: A POINTER TO A LOCAL OF A COROUTINE ON A SHARED STACK IS VALID ONLY WHILE THAT COROUTINE
 * RUNS. While it waits, other bytes may lie there (debug builds, WEFT_DEBUG, overwrite what was copied out). Pass heap
 * memory instead.
 */
#ifndef WEFT_STACK_H
#define WEFT_STACK_H

#include <weft/api.h>

WEFT_BEGIN_DECLS

/** Bytes of stack, at least, that a coroutine gets when none are asked for; with its guard it takes 260 KiB of addresses. */
#define WEFT_STACK_DEFAULT ((size_t)236 * 1024)
/** The least that may be asked for. */
#define WEFT_STACK_MIN ((size_t)8 * 1024)

/** A pool of shared stacks. */
typedef struct weft_stacks weft_stacks;

/**
 * Makes a pool of `count` shared stacks of `size` bytes each (0: WEFT_STACK_DEFAULT).
 *
 * Coroutines are given a stack of the pool round robin, for life. Those of one stack must not be used (resumed, freed,
 * asked for stack_used) by two threads at once: give each thread its own pool, or use them under a lock.
 *
 * Returns: 0, -EINVAL (no out, count 0, size below WEFT_STACK_MIN), -ENOMEM
 * Context: any thread
 * Blocks:  never
 * Owns:    the caller owns *out and releases it by weft_stacks_free, after every coroutine that uses it
 */
WEFT_API int weft_stacks_new(weft_stacks **out, size_t count, size_t size);

/**
 * Releases a pool of shared stacks. NULL is allowed and does nothing.
 *
 * Returns: 0, -EBUSY a coroutine still uses it
 * Context: any thread
 * Blocks:  never
 * Owns:    takes `s` on 0
 */
WEFT_API int weft_stacks_free(weft_stacks *s);

/** What the private stacks of this process amount to. */
typedef struct weft_stack_figures {
    size_t size;      /* in: sizeof(weft_stack_figures), or 0 for the first release's size */
    size_t slabs;     /* mappings that stacks are cut from */
    size_t reserved;  /* bytes of address space in them */
    size_t stacks;    /* stacks handed out: in use, or kept by a thread for its next coroutine */
    size_t cached;    /* of these, kept by the calling thread */
    size_t guarded;   /* stacks whose overflow is caught, of those handed out */
    size_t unguarded; /* stacks that could get no guard: the kernel has no MADV_GUARD_INSTALL and mappings ran short */
} weft_stack_figures;

/**
 * Reads the figures of the private stacks.
 *
 * Returns: 0, -EINVAL out is NULL or its size is not one this library knows
 * Context: any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_stack_stats(weft_stack_figures *out);

/**
 * Gives back to the system every stack that the calling thread keeps for its next coroutines.
 *
 * Not needed for a busy program, which gives back by itself what it has not used for a while; for one that goes idle
 * after a burst, as nothing runs in the background.
 *
 * Returns: the number of stacks given back
 * Context: any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API size_t weft_stack_trim(void);

/**
 * Gives the pages of the caller's stack that lie wholly below its frame back to the system. It is for a fiber or
 * coroutine that has made deep calls and is about to wait for long, such as a connection after its handshake. Live data
 * stays as it is. When the stack grows over a page that was given back, the page is there again, full of zeros.
 *
 * The call costs a system call, whether there is much to give back or nothing (to find out would cost another system
 * call). Each page that is used again costs a page fault. So call this before waits of seconds, not for every message.
 *
 * In a raw coroutine that runs in a fiber the call affects the coroutine's stack alone. On a shared stack it frees the
 * memory for copies of the caller, and makes no system call: the next copy takes only as much as is live then. While
 * other coroutines of the same shared stack wait for the caller, their return needs that memory, and the call does
 * nothing. On a private stack weft_coro_stack_used counts from this call on.
 *
 * Returns: 0, -ENXIO on a thread's own stack, -EOPNOTSUPP on a stack that is not the caller's own (a signal handler's
 *          alternate stack), -EINVAL the stack is locked in memory (mlockall)
 * Context: fiber | coroutine
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_stack_release(void);

WEFT_END_DECLS

#endif
