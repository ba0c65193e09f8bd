/*
 * client.h: the connections of the load generator. Each has one batch of requests in flight. Every answer is checked.
 *
 * One thread, one epoll set. A batch is one request, or several that are sent in one piece (pipelined).
 */
#ifndef BENCH_HTTP_CLIENT_H
#define BENCH_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../common/latency.h"

#define CLIENT_DEPTH_MAX 64

struct client_plan {
    uint16_t port;
    const char *path;
    const char *body; /* the body that every answer must have */
    size_t bytes;
    size_t connections;
    unsigned depth;   /* requests of a batch */
    bool closes;      /* a connection for each request: the server closes it */
    const char *flaw; /* of the server: why it may lose an answer, which is n/a then; NULL: that fails the bench */
};

/** Makes the connections, unless each request has its own. */
void client_open(const struct client_plan *plan);

/**
 * Keeps a batch in flight on each connection for this time, or a little longer. It begins and ends with no request in
 * flight, so the figures are the whole cost of these requests. Returns how many requests were answered.
 */
uint64_t client_run(double ms);

/** Sends one batch on each connection and waits for the answers. Returns how many requests were answered. */
uint64_t client_once(void);

/** From now on latencies are counted in `latency`: from before the send of a batch to its last answer. NULL: no
 * more. */
void client_record(struct latency *latency);

/** Closes the connections. */
void client_close(void);

#endif
