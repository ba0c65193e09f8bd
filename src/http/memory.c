/*
 * http/memory.c: see memory.h.
 */
#include "http/memory.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096

#ifdef WF_SEAM
static atomic_uint fail_at; /* allocations until one fails; 0: none does */

static atomic_uint count;
static atomic_size_t held; /* bytes of pages */

static bool fails_now(void)
{
    unsigned left = atomic_load(&fail_at);
    atomic_fetch_add(&count, 1);
    while (left != 0 && !atomic_compare_exchange_weak(&fail_at, &left, left - 1))
        ;
    return left == 1;
}

void wh_alloc_fail_at(unsigned nth)
{
    atomic_store(&fail_at, nth);
}

unsigned wh_alloc_count(void)
{
    return atomic_load(&count);
}

size_t wh_pages_held(void)
{
    return atomic_load(&held);
}

static void note_pages(size_t taken, size_t given)
{
    atomic_fetch_add(&held, taken - given);
}
#else
static bool fails_now(void)
{
    return false;
}

void wh_alloc_fail_at(unsigned nth)
{
    (void)nth;
}

unsigned wh_alloc_count(void)
{
    return 0;
}

size_t wh_pages_held(void)
{
    return 0;
}

static void note_pages(size_t taken, size_t given)
{
    (void)taken;
    (void)given;
}
#endif

void *wh_alloc(size_t bytes)
{
    return fails_now() ? NULL : malloc(bytes);
}

void *wh_alloc_zero(size_t bytes)
{
    return fails_now() ? NULL : calloc(1, bytes);
}

void wh_free(void *p)
{
    free(p);
}

char *wh_copy_part(const char *text, size_t size)
{
    char *copy = wh_alloc(size + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, size);
    copy[size] = '\0';
    return copy;
}

char *wh_copy(const char *text)
{
    return wh_copy_part(text, strlen(text));
}

static size_t whole_pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

void *wh_pages(size_t bytes)
{
    if (fails_now())
        return NULL;
    void *p = mmap(NULL, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    note_pages(whole_pages(bytes), 0);
    return p;
}

/* munmap splits a mapping if these pages are a part of it, and fails if the process has too many mappings. Then only
 * the memory goes back to the system, and the addresses stay taken. */
void wh_pages_free(void *p, size_t bytes)
{
    if (munmap(p, whole_pages(bytes)) != 0)
        madvise(p, whole_pages(bytes), MADV_DONTNEED);
    note_pages(0, whole_pages(bytes));
}
