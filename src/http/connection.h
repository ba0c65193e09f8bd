/*
 * http/connection.h: one connection, from its accept to its close. Its phases are below.
 *
 * Only wh_enter changes the phase. owner of all fields: the connection's fiber, unless a field says otherwise.
 */
#ifndef WH_HTTP_CONNECTION_H
#define WH_HTTP_CONNECTION_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/http.h>
#include <weft/net.h>
#include <weft/scope.h>

#include "http/server.h"

struct wh_worker;
struct wh_block;
struct wh_address;

/*
 * The phases of a connection.
 *
 *      IDLE ──first byte──▶ HEAD ──complete──▶ HANDLE ──returned──▶ FINISH ──▶ IDLE, or HEAD: the next request has come
 *       │                     │ refused                                │ last one
 *       │ closed, too long    └──────────▶ LINGER ◀────────────────────┤
 *       └─────────────────────────────────▶ CLOSED ◀── linger's end ───┴── cut
 *
 * IDLE     no byte of a request is there. After a second (on a shared stack at once) the connection gives back its
 *          buffer; after a second also the pages of its private stack.
 * HEAD     reads a head; head_time counts.
 * HANDLE   middleware and handler run. Reading the body and writing the answer have their own limits.
 * FINISH   ends the answer, drains the body, logs.
 * LINGER   the last answer was sent. Reads and discards what still comes, for a while: a close with bytes unread would
 *          reset the connection, and the client might lose the answer.
 * CLOSED   nothing more is read or written.
 */
enum wh_phase {
    WH_IDLE,
    WH_HEAD_PHASE,
    WH_HANDLE,
    WH_FINISH,
    WH_LINGER,
    WH_CLOSED,
};

enum { WH_NO_LAST = UINT32_MAX };

#define WH_LINGER_TIME (2 * WEFT_SEC) /* for the client to read its last answer */

/* An idle connection has only this struct, and no block or buffer. So it should be small. */
struct wh_connection {
    weft_http *h;
    struct wh_serving *serving;
    struct wh_worker *w;
    struct wh_block *block; /* NULL: it has none */
    char *in;               /* the bytes that were read: see input.h. NULL: it has no buffer */
    uint32_t in_size, in_at, in_end, body_at;
    uint32_t last_at; /* where the previous head is in the buffer; WH_NO_LAST: it is no longer there */
    int fd;
    atomic_uchar phase;                /* enum wh_phase; a stop, on another thread, reads it: see server.h */
    atomic_bool is_shut;               /* a stop has shut its reading half, because it was idle */
    bool is_sending;                   /* its fiber is in a write, so the flusher must not write */
    bool is_unflushed;                 /* in the worker's list `unflushed` or `stuck` */
    bool has_failed;                   /* a read or write has failed: nothing more is sent */
    bool has_ended;                    /* the client has ended its sending half */
    bool resets;                       /* the close resets the connection */
    bool is_listed;                    /* in h->connections, and counted */
    struct wh_address *address;        /* the address that counts this connection; NULL: none */
    weft_scope *scope;                 /* of the running handler, for a stop. guarded by: h->lock */
    struct wh_connection *next, *prev; /* guarded by: h->lock */
    union {
        struct wh_connection *unflushed_next; /* the links of the list `unflushed` or `stuck` */
        char first[8];                        /* without a buffer: the first bytes of the next request */
    };
    struct wh_connection **unflushed_at;
};

_Static_assert(sizeof(struct wh_connection) <= 120, "with malloc's own 8 bytes it takes two cache lines");

static inline enum wh_phase wh_phase(const struct wh_connection *c)
{
    return (enum wh_phase)atomic_load_explicit(&c->phase, memory_order_relaxed);
}

/* Changes the phase. IDLE pairs with is_stopping (server.h). Only the connection's own fiber reads the other phases. */
static inline void wh_enter(struct wh_connection *c, enum wh_phase from, enum wh_phase to)
{
    assert(wh_phase(c) == from);
    (void)from;
    atomic_store_explicit(&c->phase, (unsigned char)to, to == WH_IDLE ? memory_order_seq_cst : memory_order_relaxed);
}

/* The handler of weft_serve: serves a connection until it ends. `arg` is a struct wh_serving. */
weft_serve_fn wh_serve_connection;

/* Whether the connection's call of weft_http_serve is ending. */
static inline bool wh_is_stopping(const struct wh_connection *c)
{
    return atomic_load_explicit(&c->serving->is_stopping, memory_order_relaxed);
}

#endif
