/*
 * stack/guard.h: pages below a stack that nobody can touch, so that an overflow is a fault at once.
 *
 * Two ways. MADV_GUARD_INSTALL (Linux 6.13) needs no mapping of its own, and is trusted only after a probe has shown
 * that it guards: emulators answer 0 and do nothing. mprotect works everywhere and costs two mappings a guard, so only
 * part of the process's mappings is spent on it; what gets no guard is counted.
 *
 * guarded by: the caller's lock (the slab lock), all of it.
 */
#ifndef WF_STACK_GUARD_H
#define WF_STACK_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

enum wf_guard {
    WF_GUARD_NONE,
    WF_GUARD_ADVICE, /* MADV_GUARD_INSTALL */
    WF_GUARD_MAPPING /* mprotect */
};

/* Bytes of a guard: wider than a page, as one large frame may step over a page. */
size_t wf_guard_bytes(void);

/* Guards all ranges at once by advice; false if that cannot be done here, and then none of them counts as guarded. */
bool wf_guard_advise(const struct iovec *ranges, size_t count);

/* Guards one range by a mapping, if any is left to be spent. */
bool wf_guard_map(void *base);

/* Guards one range in whichever way there is. */
enum wf_guard wf_guard_any(void *base);

/* The guard made by wf_guard_map is gone with its memory. */
void wf_guard_unmapped(size_t count);

#ifdef WF_SEAM
/* Tests: probe again, and take this many mappings as the process's limit (0: ask the system). */
void wf_guard_forget(size_t mapping_limit);
#endif

#endif
