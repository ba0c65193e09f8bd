/*
 * server.h: what the echo servers of bench-net share: their command line, the listening socket, the word to the load
 * generator (load.c).
 *
 * A server is started as
 *
 *      PROGRAM LIBRARY BYTES
 *
 * and prints one line: "port NUMBER" when it can be connected to, or "n/a REASON". It then sends back whatever comes,
 * until it is killed. Connections that end or break are closed and forgotten.
 */
#ifndef BENCH_SERVER_H
#define BENCH_SERVER_H

#include <stdbool.h>
#include <stddef.h>

/** The room for messages of less than this is SERVER_ROOM_SMALL, so that it may be an array on a stack. */
#define SERVER_SMALL 512
#define SERVER_ROOM_SMALL 1024

struct server {
    const char *library; /* which of the program's libraries, or ways to use it */
    size_t room;         /* what to offer a read: more than a message, so that a short read says that this was all */
    int listener;        /* on a port of the kernel's choice of 127.0.0.1, non-blocking, TCP_NODELAY */
};

/** Reads the command line and makes the listener. */
struct server server_open(int argc, char **argv);

/** Says which port it is. */
void server_announce(const struct server *server);

/** Whether it was asked for this library. */
bool server_is(const struct server *server, const char *library);

/** malloc that cannot fail. */
void *server_alloc(size_t bytes);

#endif
