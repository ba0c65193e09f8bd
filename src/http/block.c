/*
 * http/block.c: see block.h.
 */
#include "http/block.h"

#include <stddef.h>

#include "http/server.h"

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

__attribute__((noinline)) static struct wh_block *make(const weft_http *h, struct wh_worker *w)
{
    struct wh_block *b = wh_spares_make(&w->blocks, block_size(h)); /* all zero */
    if (!b)
        return NULL;
    b->out = (char *)b + head_size(h);
    b->x.head.fields = b->x.fields;
    b->x.head.most_fields = h->o.head_fields;
    b->x.head.most_bytes = (uint32_t)h->o.head_bytes;
    if (w->blocks.count > WH_BLOCKS_KEPT)
        wh_spares_look_later(w);
    return b;
}

struct wh_block *wh_block_take(weft_http *h, struct wh_worker *w)
{
    struct wh_block *b = wh_spares_take(&w->blocks);
    return b ? b : make(h, w);
}

void wh_block_give(struct wh_worker *w, struct wh_block *b)
{
    b->out_end = b->whole = b->answers = 0;
    b->spare.used = b->sent;
    wh_spares_put(&w->blocks, &b->spare);
}
