/*
 * base/atomic.h: the atomic operations of the lock-free code, one short name per kind, on integers and pointers of up
 * to 8 bytes.
 *
 * Few orders on purpose: plain loads and stores say if they acquire or release, whatever reads and writes in one step
 * is acq_rel, the fence is seq_cst. Who needs a store to be ordered before a later load (I say that I sleep, then look
 * for work) needs wf_fence: no other operation here gives that.
 *
 * Compiled with WF_EXPLORE every operation is a call to tests/support/explore.c instead, which decides who runs next
 * and which of a location's values are visible: the same source runs through many orders on a weak memory.
 */
#ifndef WF_BASE_ATOMIC_H
#define WF_BASE_ATOMIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef WF_EXPLORE

/* wf_load, wf_store: relaxed. */
#define wf_load(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define wf_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define wf_store(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define wf_store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)

/* These return the old value. acq_rel. */
#define wf_exchange(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)
#define wf_add(p, n) __atomic_fetch_add((p), (n), __ATOMIC_ACQ_REL)
#define wf_or(p, bits) __atomic_fetch_or((p), (bits), __ATOMIC_ACQ_REL)
#define wf_and(p, bits) __atomic_fetch_and((p), (bits), __ATOMIC_ACQ_REL)

/* True: *p was *expected and is now v, acq_rel. False: *expected is what *p was, acquire. Never fails without cause. */
#define wf_cas(p, expected, v)                                                                                         \
    __atomic_compare_exchange_n((p), (expected), (v), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

/* seq_cst. ThreadSanitizer does not know what a fence orders: data must not depend on one alone. */
#define wf_fence() __atomic_thread_fence(__ATOMIC_SEQ_CST)

/* For the body of a loop that waits for another thread. */
static inline void wf_cpu_relax(void)
{
#if defined(__x86_64__)
    __asm__ volatile("pause" : : : "memory");
#elif defined(__aarch64__)
    __asm__ volatile("yield" : : : "memory");
#elif defined(__riscv)
    __asm__ volatile(".4byte 0x0100000f" : : : "memory"); /* pause, which older assemblers do not know */
#else
    __asm__ volatile("" : : : "memory");
#endif
}

#else

uintptr_t wf_explore_load(const void *p, size_t size, bool acquire);
void wf_explore_store(void *p, size_t size, uintptr_t v, bool release);
uintptr_t wf_explore_exchange(void *p, size_t size, uintptr_t v);
uintptr_t wf_explore_add(void *p, size_t size, uintptr_t n);
uintptr_t wf_explore_or(void *p, size_t size, uintptr_t bits);
uintptr_t wf_explore_and(void *p, size_t size, uintptr_t bits);
bool wf_explore_cas(void *p, size_t size, uintptr_t *expected, uintptr_t v);
void wf_explore_fence(void);
void wf_explore_relax(void);

/* The type of what p points to, without its const and volatile; and bits as a value of it, which may go unused. */
#define WF_VALUE_OF_(p) __typeof__(((void)0, *(p)))
#define WF_AS_VALUE_(p, bits) ({ (WF_VALUE_OF_(p))(bits); })

#define wf_load(p) WF_AS_VALUE_(p, wf_explore_load((p), sizeof(WF_VALUE_OF_(p)), false))
#define wf_load_acquire(p) WF_AS_VALUE_(p, wf_explore_load((p), sizeof(WF_VALUE_OF_(p)), true))
#define wf_store(p, v) wf_explore_store((p), sizeof(WF_VALUE_OF_(p)), (uintptr_t)(v), false)
#define wf_store_release(p, v) wf_explore_store((p), sizeof(WF_VALUE_OF_(p)), (uintptr_t)(v), true)
#define wf_exchange(p, v) WF_AS_VALUE_(p, wf_explore_exchange((p), sizeof(WF_VALUE_OF_(p)), (uintptr_t)(v)))
#define wf_add(p, n) WF_AS_VALUE_(p, wf_explore_add((p), sizeof(WF_VALUE_OF_(p)), (uintptr_t)(n)))
#define wf_or(p, bits) WF_AS_VALUE_(p, wf_explore_or((p), sizeof(WF_VALUE_OF_(p)), (uintptr_t)(bits)))
#define wf_and(p, bits) WF_AS_VALUE_(p, wf_explore_and((p), sizeof(WF_VALUE_OF_(p)), (uintptr_t)(bits)))
#define wf_cas(p, expected, v)                                                                                         \
    ({                                                                                                                 \
        uintptr_t wf_cas_was = (uintptr_t) * (expected);                                                               \
        bool wf_cas_done = wf_explore_cas((p), sizeof(WF_VALUE_OF_(p)), &wf_cas_was, (uintptr_t)(v));                  \
        *(expected) = (WF_VALUE_OF_(expected))wf_cas_was;                                                              \
        wf_cas_done;                                                                                                   \
    })
#define wf_fence() wf_explore_fence()
#define wf_cpu_relax() wf_explore_relax()

#endif

#endif
