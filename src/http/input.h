/*
 * http/input.h: the bytes that a connection has read and not used.
 *
 *      in:  | used | head of this request | body, later requests | free |
 *                  in_at                  body_at                in_end  in_size
 *
 * A connection that waits for a request has a small buffer: most requests fit. It takes a large one when they do not,
 * and gives that back when it waits again. Small buffers are cut from slabs, each at another distance from the beginning of
 * a page than its neighbours, as buffers at the same distance would compete for the same lines of a cache. A slab goes back
 * to the system when no connection uses it.
 */
#ifndef WH_HTTP_INPUT_H
#define WH_HTTP_INPUT_H

#include <stdbool.h>
#include <stddef.h>

struct wh_connection;
struct wh_worker;

enum {
    WH_IN_SMALL = 2048 - 64,
    WH_IN_SPARE = 4 * 1024, /* room that a large buffer has behind the largest head: for a body's bytes */
};

/* Gives the connection a small buffer, empty. False: no memory. */
bool wh_input_begin(struct wh_connection *c);

/* Gives back the connection's buffer; it has none then. */
void wh_input_end(struct wh_connection *c);

/* The connection has used all bytes: its buffer is empty, and small. */
void wh_input_clear(struct wh_connection *c);

/*
 * Makes room for at least `bytes` (at most WH_IN_SPARE) behind in_end, in a large buffer if need be. The bytes from in_at on move
 * to its beginning. False: no memory.
 */
bool wh_input_reserve(struct wh_connection *c, size_t bytes);

/* Frees what a worker keeps. */
void wh_inputs_free(struct wh_worker *w);

#endif
