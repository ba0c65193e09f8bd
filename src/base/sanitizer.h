/*
 * base/sanitizer.h: what is built in (ASan, TSan, valgrind) and the notes that each needs about stacks.
 *
 * Every note is an empty function when its tool is not built in. WF_NOTED says that a switch has work to do on both
 * sides of it (fiber notes, debug checks): such builds switch by a call, the others by a tail jump.
 */
#ifndef WF_BASE_SANITIZER_H
#define WF_BASE_SANITIZER_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#if defined(__SANITIZE_ADDRESS__)
#define WF_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WF_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define WF_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WF_TSAN 1
#endif
#endif
#ifndef WF_ASAN
#define WF_ASAN 0
#endif
#ifndef WF_TSAN
#define WF_TSAN 0
#endif
#ifndef WF_VALGRIND
#define WF_VALGRIND 0
#endif
#ifndef WF_DEBUG
#define WF_DEBUG 0
#endif
#define WF_NOTED (WF_ASAN || WF_TSAN || WF_DEBUG)

/* For code that reads or writes stacks other than its own, byte by byte. */
#define WF_RAW_MEMORY __attribute__((no_sanitize("address", "thread", "undefined")))

#if WF_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if WF_TSAN
#include <sanitizer/tsan_interface.h>
#endif
#if WF_VALGRIND
#include <valgrind/memcheck.h>
#include <valgrind/valgrind.h>
#endif

/* ASan: an idle stack must not be touched by anybody. */
static inline void wf_asan_poison(const void *lo, size_t bytes)
{
#if WF_ASAN
    __asan_poison_memory_region(lo, bytes);
#else
    (void)lo, (void)bytes;
#endif
}

/* TSan: what was done before `release` is seen by who comes after `acquire`: for memory that it does not see mapped. */
static inline void wf_tsan_release(void *at)
{
#if WF_TSAN
    __tsan_release(at);
#else
    (void)at;
#endif
}

static inline void wf_tsan_acquire(void *at)
{
#if WF_TSAN
    __tsan_acquire(at);
#else
    (void)at;
#endif
}

/* ASan: a stack that is handed out, or about to be unmapped, has no marks of its past. */
static inline void wf_asan_unpoison(const void *lo, size_t bytes)
{
#if WF_ASAN
    __asan_unpoison_memory_region(lo, bytes);
#else
    (void)lo, (void)bytes;
#endif
}

/* Valgrind: tells that [lo, lo + bytes) is a stack; the result is what wf_valgrind_forget takes. */
static inline unsigned wf_valgrind_stack(const void *lo, size_t bytes)
{
#if WF_VALGRIND
    return VALGRIND_STACK_REGISTER(lo, (const char *)lo + bytes - 1);
#else
    (void)lo, (void)bytes;
    return 0;
#endif
}

static inline void wf_valgrind_forget(unsigned id)
{
#if WF_VALGRIND
    VALGRIND_STACK_DEREGISTER(id);
#endif
    (void)id;
}

/* Valgrind: memory of a stack that is about to be written from elsewhere; what lay below a stack pointer was forbidden. */
static inline void wf_valgrind_writable(const void *lo, size_t bytes)
{
#if WF_VALGRIND
    VALGRIND_MAKE_MEM_UNDEFINED(lo, bytes);
#endif
    (void)lo, (void)bytes;
}

/* Valgrind: memory that is about to be read on purpose although nobody wrote it. */
static inline void wf_valgrind_defined(const void *lo, size_t bytes)
{
#if WF_VALGRIND
    VALGRIND_MAKE_MEM_DEFINED(lo, bytes);
#endif
    (void)lo, (void)bytes;
}

#endif
