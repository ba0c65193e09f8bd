/*
 * http/memory.h: memory of libweft-http, and the seam through which tests make allocations fail.
 */
#ifndef WH_HTTP_MEMORY_H
#define WH_HTTP_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* NULL: there is none. Any thread. */
void *wh_alloc(size_t bytes);
/* The same, filled with zeros. */
void *wh_alloc_zero(size_t bytes);
/* A copy of a string, or of its first `size` bytes with a zero byte behind them. */
char *wh_copy(const char *text);
char *wh_copy_part(const char *text, size_t size);
void wh_free(void *p);

/* Whole pages, for buffers. wh_pages_free gives them back to the system. Both round `bytes` up. */
void *wh_pages(size_t bytes);
void wh_pages_free(void *p, size_t bytes);

/*
 * For tests, in builds with WF_SEAM: the nth allocation from now on fails, in any thread (1: the next allocation; 0:
 * none). In other builds it does nothing.
 */
void wh_alloc_fail_at(unsigned nth);

/* For tests, in builds with WF_SEAM: allocations so far, and the bytes of pages that are not given back. Else 0. */
unsigned wh_alloc_count(void);
size_t wh_pages_held(void);

#endif
