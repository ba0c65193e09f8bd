/*
 * http/server.h: the server: its routes, limits and workers, and the list of its connections.
 *
 * All connections of a server run on one scheduler. struct wh_worker has what a worker's connections share. Only fibers
 * of that worker touch it (its counts may be read by any thread). None of them moves to another worker, so struct
 * wh_worker needs no lock.
 */
#ifndef WH_HTTP_SERVER_H
#define WH_HTTP_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/fiber.h>
#include <weft/http.h>
#include <weft/net.h>
#include <weft/sync.h>

#include "http/date.h"
#include "http/spare.h"

struct wh_slab;
struct wh_connection;
struct wh_routes;
struct wh_log;

/* A counter that its worker alone increments, and any thread reads. */
typedef _Atomic uint64_t wh_count;

/* Release: a reader that sees the count of an end also sees the count of its beginning. */
static inline void wh_count_add(wh_count *c, uint64_t n)
{
    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n, memory_order_release);
}

static inline uint64_t wh_count_read(const wh_count *c)
{
    return atomic_load_explicit((wh_count *)c, memory_order_acquire); /* pairs with wh_count_add */
}

enum {
    WH_DATE_FIELD = sizeof "Date: \r\n" - 1 + WH_DATE_SIZE,
    WH_TYPE_KEPT = 48,
    /*
     * A call without a deadline never lets other fibers run. So of the writes, and reads of a body, each WH_TRIES-th
     * one has a deadline. The read that waits for a request has a deadline too, and resets the count. So connections
     * with small requests and answers mostly do not get that far.
     */
    WH_TRIES = 16,
};

/* What the connections of one worker share. owner: that worker; any thread reads the counts. */
struct wh_worker {
    struct wh_spares blocks, larges, slabs; /* struct wh_block, large input buffers, and struct wh_slab */
    struct wh_slab *open;                   /* slabs that have free small buffers: input.h */
    weft_time look_at;                      /* when the flusher looks at what is spare; 0: it need not */
    int64_t second;                         /* the time of `date` */
    char ok[17];                            /* "HTTP/1.1 200 OK" and its line end; in a 200, `date` follows */
    char date[WH_DATE_FIELD];               /* the whole field */
    char type[WH_TYPE_KEPT];                /* the last content type that was checked; "": none */
    char type_field[WH_TYPE_KEPT + 16];     /* that type as a whole field */
    uint32_t type_field_size;
    struct wh_connection *unflushed; /* connections with answers for the flusher to send: see flusher.h */
    struct wh_connection *stuck;     /* the same; their clients did not take all at the last try */
    weft_fiber *flusher;             /* sends the answers once a handler waits; NULL: it does not run */
    weft_fiber *flusher_to_join;     /* guarded by: the server's lock `life` */
    bool flusher_is_awake;
    unsigned tries; /* calls without a deadline since the last one with one: see WH_TRIES */
    wh_count connections, ended, idle_begun, idle_ended, streams_begun, streams_ended, refused, requests, status[6],
        cut, bytes_in, bytes_out, latencies[WEFT_HTTP_LATENCIES];
} __attribute__((aligned(128)));

struct wh_layer {
    weft_handler *fn;
    void *arg;
};

/* An object that is freed with the server. */
struct wh_owned {
    struct wh_owned *next;
    void (*destroy)(void *arg);
    void *arg;
};

/*
 * A call of weft_http_serve. It outlives its connections. It lies in the heap: its fiber may be on a shared stack.
 *
 * Stopping. Each call of weft_http_serve (struct wh_serving) stops separately. When its weft_serve accepts no more, it
 * calls weft_serve_opts.ending. That sets is_stopping, then looks at the phase of each of its connections. A connection
 * sets its phase to IDLE, then looks at is_stopping. Both are sequentially consistent, so at least one of them sees the
 * other's store: an idle connection either ends by itself or is woken. Each weft_serve runs in a fiber of its own, and
 * weft_http_stop cancels that fiber: this works before and after it begins to accept, and does not touch the caller's
 * fiber.
 *
 * Starting. Calls of weft_http_serve at the same time share the flushers and the log's writer. Under the lock `life`,
 * the first of these calls starts them and the last ends them. A call that begins while the last one ends them waits
 * for the lock, and then starts them again.
 */
struct wh_serving {
    weft_http *h;            /* const */
    struct wh_serving *next; /* guarded by: h->lock */
    int listener;            /* const: the caller's */
    weft_time deadline;      /* const */
    int rc;                  /* of its weft_serve. owner: its fiber until that has ended */
    weft_fiber *fiber;       /* the fiber that runs weft_serve; NULL: before and after. guarded by: h->lock */
    atomic_bool is_stopping; /* pairs with wh_connection.phase */
};

struct wh_addresses; /* connections of each address: address.h */

struct weft_http {
    weft_http_opts o; /* const: with the defaults in place */
    char *server;     /* const: the field Server, with its line end; NULL: none */
    size_t server_size;
    struct wh_routes *routes; /* const while serving */
    struct wh_layer *layers;  /* const while serving: middleware, the first one first */
    unsigned layer_count;
    struct wh_log *log;     /* const while serving; NULL: none */
    struct wh_owned *owned; /* const while serving */
    size_t in_size;         /* const: bytes of a large buffer: input.h */

    weft_mutex lock;
    struct wh_serving *servings;       /* guarded by: lock */
    struct wh_connection *connections; /* guarded by: lock: all that have begun and not ended */
    bool is_stopped;                   /* weft_http_stop was called. guarded by: lock */
    unsigned serving;                  /* calls of weft_http_serve. guarded by: lock */
    struct wh_addresses *addresses;
    atomic_uint refusals; /* connections above max_per_address whose clients may still read their 503 */

    weft_mutex life;           /* for the beginning and the end of serving; taken before `lock` */
    unsigned users;            /* calls that need the workers. guarded by: life */
    weft_sched *sched;         /* runs the connections. const while there are users */
    struct wh_worker *workers; /* const while there are users; changed under both locks */
    unsigned worker_count;     /* of `workers`; at least `threads`. As `workers` */
    unsigned threads;          /* of the scheduler: workers that are used. const while there are users */
};

/* The server calls destroy(arg) when it is freed. Returns 0, or -ENOMEM. */
int wh_server_own(weft_http *h, void (*destroy)(void *arg), void *arg);

/* Whether a call of weft_http_serve is under way: then routes, middleware and the log must not change. */
bool wh_server_is_serving(weft_http *h);

/* Adds and removes a connection. A stop sees all connections that were added and not removed. */
void wh_server_add(weft_http *h, struct wh_connection *c);
void wh_server_remove(weft_http *h, struct wh_connection *c);

/* Joins a fiber that will end. The call waits even if the calling fiber is cancelled. */
void wh_join(weft_fiber *f);

/* Takes a lock that is only held for moments, also in a cancelled fiber. */
static inline void wh_lock(weft_mutex *m)
{
    while (weft_mutex_lock(m, WEFT_NOW) != 0)
        weft_yield();
}

#endif
