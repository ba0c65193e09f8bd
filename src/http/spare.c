/*
 * http/spare.c: see spare.h.
 */
#include "http/spare.h"

#include <stdbool.h>

#include <weft/fiber.h>

#include "http/flusher.h"
#include "http/memory.h"
#include "http/server.h"

#define UNUSED_TIME WEFT_SEC /* what was not used for so long goes back; also the time between two looks */

enum { PORTION = 64 }; /* pieces that go back before other fibers run: the system needs microseconds for each */

void *wh_spares_make(struct wh_spares *s, size_t bytes)
{
    void *piece = wh_pages(bytes);
    if (piece) {
        s->bytes = bytes;
        s->count++;
    }
    return piece;
}

void wh_spares_drop(struct wh_spares *s, void *piece)
{
    wh_pages_free(piece, s->bytes);
    s->count--;
}

void wh_spares_give(struct wh_worker *w, struct wh_spares *s, void *piece)
{
    struct wh_spare *p = piece;
    p->used = weft_now();
    wh_spares_put(s, p);
    wh_spares_look_later(w);
}

void wh_spares_look_later(struct wh_worker *w)
{
    if (w->look_at.ns != 0)
        return;
    w->look_at = weft_in(UNUSED_TIME);
    wh_flusher_wake(w); /* it does not know the time yet */
}

/* Gives back the end of the list: what was not used after `since`. */
static void trim(struct wh_spares *s, weft_time since)
{
    struct wh_spare **at = &s->first;
    while (*at && (*at)->used.ns > since.ns)
        at = &(*at)->next;
    struct wh_spare *p = *at;
    *at = NULL;
    for (unsigned n = 1; p; n++) {
        struct wh_spare *next = p->next;
        wh_spares_drop(s, p);
        p = next;
        if (n % PORTION == 0)
            weft_yield();
    }
}

static bool has_many_blocks(const struct wh_worker *w)
{
    return w->blocks.count > WH_BLOCKS_KEPT;
}

void wh_spares_look(struct wh_worker *w)
{
    weft_time now = weft_now();
    if (now.ns < w->look_at.ns)
        return;
    weft_time since = {now.ns - UNUSED_TIME};
    if (has_many_blocks(w))
        trim(&w->blocks, since);
    trim(&w->larges, since);
    trim(&w->slabs, since);
    bool again = has_many_blocks(w) || w->larges.first || w->slabs.first;
    w->look_at = again ? weft_in(UNUSED_TIME) : (weft_time){0};
}

static void free_all(struct wh_spares *s)
{
    void *piece;
    while ((piece = wh_spares_take(s)))
        wh_spares_drop(s, piece);
}

void wh_spares_free(struct wh_worker *w)
{
    free_all(&w->blocks);
    free_all(&w->larges);
    free_all(&w->slabs);
    w->look_at = (weft_time){0};
}
