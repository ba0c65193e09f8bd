/*
 * http/block.h: the memory that a connection has from the first bytes of a request until its answers are sent. It holds
 * the exchange, and the bytes of unsent answers. A connection that waits for a request has no block. So as long as
 * handlers do not wait, all connections of a worker use the same block in turn, and it stays in the cache. Only fibers
 * of the worker take and give its blocks. A worker keeps spare blocks as long as it needs them: see spare.h.
 *
 *      out:  | answers that were not sent | free |
 *                                         out_end  WH_OUT_SIZE
 */
#ifndef WH_HTTP_BLOCK_H
#define WH_HTTP_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "http/exchange.h"
#include "http/spare.h"

struct wh_worker;

enum {
    WH_OUT_SIZE = 16 * 1024,
};

struct wh_block {
    struct wh_spare spare; /* is set while no connection has the block */
    uint32_t out_end;
    uint32_t whole;   /* bytes at the beginning of `out` that belong to complete answers */
    uint32_t answers; /* in `out`: the latency of each counts from `came` */
    weft_time came;   /* when the last bytes of heads came */
    weft_time sent;   /* when the last bytes were sent */
    char *out;
    struct weft_exchange x; /* includes the room for fields at its end */
};

_Static_assert(offsetof(struct wh_block, spare) == 0, "a spare page begins with it");

/* Takes a block of this worker. NULL: no memory. */
struct wh_block *wh_block_take(weft_http *h, struct wh_worker *w);
void wh_block_give(struct wh_worker *w, struct wh_block *b);

#endif
