/*
 * http/exchange.h: weft_exchange, one request and its answer. It lies in its connection's block. The next request uses
 * it again: wh_exchange_begin sets only the fields that a request needs, because clearing all of it would cost more.
 * Only the fiber of the connection uses it.
 */
#ifndef WH_HTTP_EXCHANGE_H
#define WH_HTTP_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/http.h>

#include "http/chunk.h"
#include "http/parse.h"
#include "http/route.h"

enum { WH_ARENA = 1024 }; /* bytes of the arena that need no allocation */

/* The state of the answer. */
enum wh_answer {
    WH_NO_ANSWER, /* it has not begun; fields may have been added */
    WH_BEGUN,     /* the head was written */
    WH_ENDED,     /* complete */
    WH_CUT,       /* it will not be completed: the connection ends */
};

/* The state of the request's body. */
enum wh_body {
    WH_NO_BODY, /* there is none, or all of it was read */
    WH_SIZED,   /* body_left bytes are to come */
    WH_CHUNKED,
    WH_BAD_BODY, /* reading it has failed with body_error */
};

/* Memory that did not fit into the arena. */
struct wh_extra {
    struct wh_extra *next;
    _Alignas(16) char bytes[];
};

struct weft_exchange {
    struct wh_connection *c;
    char *bytes;        /* where the head begins: slices count from here */
    uint32_t head_size; /* bytes of the head: the body lies behind it */
    bool is_head;       /* HEAD: no body is sent */
    bool keeps;         /* the connection is kept, unless something fails */

    /* The request's body. */
    uint8_t body;        /* enum wh_body */
    bool wants_continue; /* the client waits for 100 Continue */
    uint64_t body_left;  /* bytes to come, if WH_SIZED */
    uint64_t body_allowed;

    unsigned layer; /* the middleware that weft_http_next runs next */
    int body_error;
    uint64_t body_read;    /* bytes of data so far */
    weft_span body_waited; /* how long reads have waited for the client */
    struct wh_chunks chunks;

    /* The answer. */
    uint8_t answer;       /* enum wh_answer */
    bool sends_chunks;    /* the body goes out in chunks */
    bool sends_nothing;   /* no body goes out: HEAD, 204, 205, 304 */
    bool ends_with_close; /* the close ends the body: HTTP/1.0, no length */
    bool has_length;      /* `length_left` counts */
    bool has_own_length;  /* the handler has added Content-Length */
    bool is_stream;       /* server-sent events */
    bool has_scope;
    int status;
    uint32_t arena_used;
    uint64_t length;      /* Content-Length that was added */
    uint64_t length_left; /* bytes that weft_http_write must still get */
    uint64_t sent;
    char *added; /* fields that were added, each with its line end; in the arena */
    uint32_t added_size, added_room;
    const char *id;   /* of weft_http_give_id */
    const char *form; /* of weft_http_read_form */
    size_t form_size;
    struct wh_extra *extra;
    struct wh_match match;

    _Alignas(16) char arena[WH_ARENA];
    weft_scope scope;
    struct wh_head head;
    struct wh_field fields[]; /* head_fields of them */
};

void wh_exchange_set_id(weft_exchange *x, const char *id);

/* Makes the exchange ready for a request whose head was parsed. */
void wh_exchange_begin(weft_exchange *x, struct wh_connection *c);

/* Finds the route, and runs middleware and handler. Answers for handlers that fail. Then closes the exchange's scope.
 * Returns what the first middleware (or else the handler) has returned. */
int wh_exchange_run(weft_exchange *x);

/* After a handler has ended its fiber: cuts the answer if it is not complete, and closes the exchange's scope. */
void wh_exchange_abandon(weft_exchange *x);

/* Answers with a status and its reason as the body, if no answer has begun. */
void wh_exchange_answer(weft_exchange *x, int status);

/* Frees the memory that did not fit into the arena. */
void wh_exchange_end(weft_exchange *x);

/* The string of a slice of the head: puts a zero byte behind it. */
const char *wh_text(weft_exchange *x, struct wh_slice s);

#endif
