/*
 * http/input.h: the bytes that a connection has read and has not used yet. For the connection's fiber.
 *
 *      in:  | used | head of this request | body, later requests | free |
 *                  in_at                  body_at                in_end  in_size
 *
 * A connection that waits for a request has a small buffer, because most requests fit. It takes a large buffer for a
 * request that does not fit, and gives it back to the worker when it waits again: the next such request of any
 * connection uses it (spare.h). Small buffers are cut from slabs. No two neighbours begin at the same offset in their
 * pages, because such buffers would compete for the same lines of a cache.
 */
#ifndef WH_HTTP_INPUT_H
#define WH_HTTP_INPUT_H

#include <stdbool.h>
#include <stddef.h>

struct wh_connection;
struct wh_worker;

enum {
    WH_IN_SMALL = 2048 - 64,
    WH_IN_SPARE = 4 * 1024, /* room for bytes of the body, behind the largest head in a large buffer */
};

/* Gives the connection a small buffer, empty. False: no memory. */
bool wh_input_begin(struct wh_connection *c);

/* Gives back the connection's buffer. If no connection uses its slab any more, the slab goes back to the system. */
void wh_input_end(struct wh_connection *c);

/* The same between requests: if no connection uses the slab any more, the worker keeps it as a spare one. */
void wh_input_lend(struct wh_connection *c);

/* The connection has used all bytes: empties its buffer, and replaces a large buffer by a small one. */
void wh_input_clear(struct wh_connection *c);

/*
 * Makes room for at least `bytes` (at most WH_IN_SPARE) behind in_end, in a large buffer if necessary. The bytes from
 * in_at on move to the beginning of the buffer. False: no memory.
 */
bool wh_input_reserve(struct wh_connection *c, size_t bytes);

/* Frees the slabs of a worker that are not spare. No connection is left. */
void wh_inputs_free(struct wh_worker *w);

#endif
