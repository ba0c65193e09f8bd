/*
 * http/block.c: see block.h.
 */
#include "http/block.h"

#include <stddef.h>

#include "http/memory.h"
#include "http/server.h"

enum { MOST_SPARE = 64 }; /* blocks that a worker keeps */

/* Bytes of the struct and its fields, rounded up: the output begins behind them. */
static size_t head_size(const weft_http *h)
{
    size_t size = sizeof(struct wh_block) + h->o.head_fields * sizeof(struct wh_field);
    return (size + 63) / 64 * 64;
}

static size_t block_size(const weft_http *h)
{
    return head_size(h) + WH_OUT_SIZE;
}

static struct wh_block *make(const weft_http *h)
{
    struct wh_block *b = wh_pages(block_size(h)); /* all zero */
    if (!b)
        return NULL;
    b->out = (char *)b + head_size(h);
    b->x.head.fields = b->x.fields;
    b->x.head.most_fields = h->o.head_fields;
    b->x.head.most_bytes = (uint32_t)h->o.head_bytes;
    return b;
}

struct wh_block *wh_block_take(weft_http *h, struct wh_worker *w)
{
    struct wh_block *b = w->spare;
    if (!b)
        return make(h);
    w->spare = b->next;
    w->spares--;
    return b;
}

void wh_block_give(weft_http *h, struct wh_worker *w, struct wh_block *b)
{
    if (w->spares >= MOST_SPARE) {
        wh_pages_free(b, block_size(h));
        return;
    }
    b->out_end = b->whole = b->answers = 0;
    b->next = w->spare;
    w->spare = b;
    w->spares++;
}

void wh_blocks_free(weft_http *h, struct wh_worker *w)
{
    while (w->spare) {
        struct wh_block *b = w->spare;
        w->spare = b->next;
        wh_pages_free(b, block_size(h));
    }
    w->spares = 0;
}
