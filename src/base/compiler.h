/*
 * base/compiler.h: the few words of the compiler that the sources use.
 */
#ifndef WF_BASE_COMPILER_H
#define WF_BASE_COMPILER_H

#define wf_likely(x) __builtin_expect(!!(x), 1)
#define wf_unlikely(x) __builtin_expect(!!(x), 0)
#define WF_HOT __attribute__((aligned(64)))
#define WF_COLD __attribute__((cold, noinline))
#define WF_NOINLINE __attribute__((noinline))
/*
 * For every function that reads the thread-local variable inline and may switch, or be called by code that switches: were
 * it inlined (link-time optimisation does that to public ones too), its address would be kept across the switch.
 */
#if defined(__clang__)
#define WF_ENTRY __attribute__((noinline))
#else
#define WF_ENTRY __attribute__((noipa))
#endif
#define WF_NORETURN __attribute__((noreturn))
#define WF_HIDDEN __attribute__((visibility("hidden")))
#define WF_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Rounds up to a power of two. */
#define WF_ROUND_UP(n, to) (((n) + ((to)-1)) & ~((to)-1))

#endif
