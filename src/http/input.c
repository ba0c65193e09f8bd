/*
 * http/input.c: see input.h.
 */
#include "http/input.h"

#include <stdint.h>
#include <string.h>

#include "http/connection.h"
#include "http/memory.h"
#include "http/server.h"

enum { SLAB = 64 * 1024 };

/* A small buffer. It has 2112 bytes, so that each begins one cache line further in its page than the one before. */
struct small {
    struct wh_slab *slab;
    struct small *next; /* while it is free */
    char padding[48];
    char bytes[WH_IN_SMALL + 64];
};

_Static_assert(sizeof(struct small) == 33 * 64, "an odd number of cache lines");

/* owner: the worker. A slab with free buffers is in its worker's list. */
struct wh_slab {
    struct wh_slab *next, *prev;
    struct small *free;
    unsigned used;    /* buffers that connections have */
    unsigned touched; /* the first so many buffers have been used at least once */
    char padding[24];
    struct small smalls[];
};

enum { PER_SLAB = (SLAB - sizeof(struct wh_slab)) / sizeof(struct small) };

static void link_slab(struct wh_worker *w, struct wh_slab *s)
{
    s->next = w->slabs;
    s->prev = NULL;
    if (s->next)
        s->next->prev = s;
    w->slabs = s;
}

static void unlink_slab(struct wh_worker *w, struct wh_slab *s)
{
    if (s->prev)
        s->prev->next = s->next;
    else
        w->slabs = s->next;
    if (s->next)
        s->next->prev = s->prev;
}

static struct small *take(struct wh_worker *w)
{
    struct wh_slab *s = w->slabs;
    if (!s) {
        s = wh_pages(SLAB); /* all zero */
        if (!s)
            return NULL;
        link_slab(w, s);
    }
    struct small *one = s->free;
    if (one)
        s->free = one->next;
    else
        one = &s->smalls[s->touched++];
    one->slab = s;
    if (++s->used == PER_SLAB)
        unlink_slab(w, s);
    return one;
}

static void give(struct wh_worker *w, struct small *one)
{
    struct wh_slab *s = one->slab;
    if (s->used-- == PER_SLAB)
        link_slab(w, s);
    one->next = s->free;
    s->free = one;
    if (s->used > 0 || (w->slabs == s && !s->next)) /* the last slab of the list stays */
        return;
    unlink_slab(w, s);
    wh_pages_free(s, SLAB);
}

static struct small *small_of(const struct wh_connection *c)
{
    return (struct small *)(c->in - offsetof(struct small, bytes));
}

static bool is_small(const struct wh_connection *c)
{
    return c->in_size == WH_IN_SMALL;
}

static void place(struct wh_connection *c, char *bytes, size_t size)
{
    c->in = bytes;
    c->in_size = (uint32_t)size;
    c->in_at = c->in_end = c->body_at = 0;
    c->last_at = WH_NO_LAST;
}

bool wh_input_begin(struct wh_connection *c)
{
    struct small *one = take(c->w);
    if (one)
        place(c, one->bytes, WH_IN_SMALL);
    return one != NULL;
}

void wh_input_end(struct wh_connection *c)
{
    if (!c->in)
        return;
    if (is_small(c))
        give(c->w, small_of(c));
    else
        wh_pages_free(c->in, c->in_size);
    place(c, NULL, 0);
}

/* If there is no memory for a small buffer, the large one stays. */
void wh_input_clear(struct wh_connection *c)
{
    if (!is_small(c)) {
        char *large = c->in;
        size_t size = c->in_size;
        if (wh_input_begin(c))
            wh_pages_free(large, size);
    }
    c->in_at = c->in_end = c->body_at = 0;
    c->last_at = WH_NO_LAST;
}

static bool grow(struct wh_connection *c)
{
    char *large = wh_pages(c->h->in_size);
    size_t count = c->in_end - c->in_at;
    if (!large)
        return false;
    memcpy(large, c->in + c->in_at, count);
    give(c->w, small_of(c));
    place(c, large, c->h->in_size);
    c->in_end = (uint32_t)count;
    return true;
}

bool wh_input_reserve(struct wh_connection *c, size_t bytes)
{
    if (c->in_size - c->in_end >= bytes)
        return true;
    if (is_small(c) && c->in_size - (c->in_end - c->in_at) < bytes)
        return grow(c);
    c->in_end -= c->in_at;
    memmove(c->in, c->in + c->in_at, c->in_end);
    c->in_at = 0;
    c->last_at = WH_NO_LAST;
    return true;
}

void wh_inputs_free(struct wh_worker *w)
{
    while (w->slabs) {
        struct wh_slab *s = w->slabs;
        unlink_slab(w, s);
        wh_pages_free(s, SLAB);
    }
}
