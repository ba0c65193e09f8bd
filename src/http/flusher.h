/*
 * http/flusher.h: sends earlier answers of a batch while a later handler of the same connection waits.
 *
 * Answers to pipelined requests are collected and go out in one write. But a handler may wait for long, and the answers
 * before its own must not wait with it. So if answers are collected when a handler is about to run, the connection
 * enters its worker's list, and the worker's flusher, a fiber, becomes ready. If the handler does not wait, the
 * connection leaves the list before the flusher runs. If the handler waits, the flusher runs, and sends the answers as
 * fast as the client reads them. A connection also enters the list when the scope of its exchange waits for children.
 * Then the exchange's own answer is complete, and the flusher sends it too.
 *
 * The flusher also gives back the worker's spare memory: see spare.h.
 */
#ifndef WH_HTTP_FLUSHER_H
#define WH_HTTP_FLUSHER_H

#include "http/connection.h"
#include "http/server.h"

/* Starts a flusher on each worker: 0, or a negative errno. Call it in a fiber that holds the lock `life`. */
int wh_flushers_start(weft_http *h);
/* Ends the flushers, and returns when they have ended. Call it in a fiber that holds the lock `life`. */
void wh_flushers_stop(weft_http *h);

/* Puts a connection into the list. It has collected answers, and its handler is about to run or its scope to wait. Call
 * both in the connection's fiber. */
void wh_flusher_watch(struct wh_connection *c);
/* Takes the connection out of its list, if it is in one. */
void wh_flusher_forget(struct wh_connection *c);

/* Lets the worker's flusher run, if there is one. In a fiber of the worker. */
void wh_flusher_wake(struct wh_worker *w);

#endif
