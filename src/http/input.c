/*
 * http/input.c: see input.h.
 */
#include "http/input.h"

#include <stdint.h>
#include <string.h>

#include "http/connection.h"
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

/* owner: the worker. A slab with free buffers is in its worker's list `open`, or is spare: then no buffer is used. */
struct wh_slab {
    union {
        struct {
            struct wh_slab *next, *prev;
        };
        struct wh_spare spare;
    };
    struct small *free;
    unsigned used;    /* buffers that connections have */
    unsigned touched; /* the first so many buffers have been used at least once */
    char padding[24];
    struct small smalls[];
};

enum { PER_SLAB = (SLAB - sizeof(struct wh_slab)) / sizeof(struct small) };

static void link_slab(struct wh_worker *w, struct wh_slab *s)
{
    s->next = w->open;
    s->prev = NULL;
    if (s->next)
        s->next->prev = s;
    w->open = s;
}

static void unlink_slab(struct wh_worker *w, struct wh_slab *s)
{
    if (s->prev)
        s->prev->next = s->next;
    else
        w->open = s->next;
    if (s->next)
        s->next->prev = s->prev;
}

/* A slab is all zero when it is made. */
static struct wh_slab *take_slab(struct wh_worker *w)
{
    struct wh_slab *s = wh_spares_take(&w->slabs);
    return s ? s : wh_spares_make(&w->slabs, SLAB);
}

static struct small *take(struct wh_worker *w)
{
    struct wh_slab *s = w->open;
    if (!s) {
        s = take_slab(w);
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

/* Returns the slab if none of its buffers is used any more: then it is in no list. Else NULL. */
static struct wh_slab *give(struct wh_worker *w, struct small *one)
{
    struct wh_slab *s = one->slab;
    if (s->used-- == PER_SLAB)
        link_slab(w, s);
    one->next = s->free;
    s->free = one;
    if (s->used > 0 || (w->open == s && !s->next)) /* the last slab of the list stays */
        return NULL;
    unlink_slab(w, s);
    return s;
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

static void give_large(struct wh_worker *w, char *large)
{
    wh_spares_give(w, &w->larges, large);
}

/* Gives back the small buffer. If its slab is then not used, that is spare. */
static void lend_small(struct wh_connection *c)
{
    struct wh_slab *s = give(c->w, small_of(c));
    if (s)
        wh_spares_give(c->w, &c->w->slabs, s);
}

void wh_input_lend(struct wh_connection *c)
{
    if (!c->in)
        return;
    if (is_small(c))
        lend_small(c);
    else
        give_large(c->w, c->in);
    place(c, NULL, 0);
}

void wh_input_end(struct wh_connection *c)
{
    if (c->in && is_small(c)) {
        struct wh_slab *s = give(c->w, small_of(c));
        if (s)
            wh_spares_drop(&c->w->slabs, s);
        place(c, NULL, 0);
    }
    wh_input_lend(c);
}

/* If there is no memory for a small buffer, the large one stays. */
void wh_input_clear(struct wh_connection *c)
{
    if (!is_small(c)) {
        char *large = c->in;
        if (wh_input_begin(c))
            give_large(c->w, large);
    }
    c->in_at = c->in_end = c->body_at = 0;
    c->last_at = WH_NO_LAST;
}

static bool grow(struct wh_connection *c)
{
    char *large = wh_spares_take(&c->w->larges);
    size_t count = c->in_end - c->in_at;
    if (!large)
        large = wh_spares_make(&c->w->larges, c->h->in_size);
    if (!large)
        return false;
    memcpy(large, c->in + c->in_at, count);
    lend_small(c);
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
    while (w->open) {
        struct wh_slab *s = w->open;
        unlink_slab(w, s);
        wh_spares_drop(&w->slabs, s);
    }
}
