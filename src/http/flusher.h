/*
 * http/flusher.h: sends earlier answers of a batch while a later handler of the same connection waits.
 *
 * Answers to pipelined requests are collected and go out in one write. But a handler may wait for long, and the answers
 * before its own must not wait with it. So before a handler runs while answers are collected, its connection goes into
 * its worker's list, and the worker's flusher, a fiber, is made ready. If the handler returns without a wait, the connection
 * leaves the list, and the flusher finds nothing. If the handler waits, the flusher runs and sends the answers, now and as
 * the client reads them. A scope whose children end late counts as such a handler: the exchange's own answer is complete then.
 */
#ifndef WH_HTTP_FLUSHER_H
#define WH_HTTP_FLUSHER_H

#include "http/connection.h"
#include "http/server.h"

/* Starts a flusher on each worker: 0, or a negative errno. */
int wh_flushers_start(weft_http *h);
/* Ends them, and returns when they have ended. */
void wh_flushers_stop(weft_http *h);

/* The connection has answers collected, and its next handler is about to run. */
void wh_flusher_watch(struct wh_connection *c);
void wh_flusher_forget(struct wh_connection *c);

#endif
