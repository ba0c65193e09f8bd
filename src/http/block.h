/*
 * http/block.h: what a connection has while it is not idle: its exchange, the bytes that were read and not used, and the
 * bytes of answers that were not sent. Blocks are cut from whole pages and recycled by their worker.
 *
 *      in:   | used | head of this request | body and later requests | free |
 *                   in_at                  body_at                   in_end  in_size
 *      out:  | answers that were not sent | free |
 *                                         out_end                  WH_OUT_SIZE
 */
#ifndef WH_HTTP_BLOCK_H
#define WH_HTTP_BLOCK_H

#include <stdint.h>

#include "http/exchange.h"

struct wh_worker;

enum {
    WH_OUT_SIZE = 16 * 1024,
    WH_IN_SPARE = 4 * 1024, /* room behind the largest head: for a body's bytes */
};

struct wh_block {
    struct wh_block *next; /* spare blocks */
    uint32_t in_at, in_end, body_at;
    uint32_t out_end;
    weft_time came;         /* when the last bytes came */
    weft_time sent;         /* when the last bytes were sent */
    uint32_t answers;       /* in `out`, for the latencies: answers whose requests came at `came` */
    char *in, *out;
    struct weft_exchange x; /* includes the room for fields at its end */
};

/* A block of this worker's; NULL: no memory. */
struct wh_block *wh_block_take(weft_http *h, struct wh_worker *w);
void wh_block_give(weft_http *h, struct wh_worker *w, struct wh_block *b);
/* Frees all spare ones. */
void wh_blocks_free(weft_http *h, struct wh_worker *w);

#endif
