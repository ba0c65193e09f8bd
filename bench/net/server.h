/*
 * server.h: what the servers of bench-net share: their command line, the listening socket, the word to the load generator
 * (load.c), and the work that a message may take.
 *
 * A server is started as
 *
 *      PROGRAM LIBRARY BYTES [WORKERS HANDLER]
 *
 * and prints one line: "port NUMBER" when it can be connected to, or "n/a REASON". It then sends back whatever comes,
 * until it is killed. Connections that end or break are closed and forgotten. WORKERS is how many messages may be worked on at
 * a time (1, if it is not there), HANDLER what is done with one before it is sent back: "echo" nothing, "cpuN" N us of
 * work, "sleep" 1 ms of sleep. All of a message comes at once.
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
    bool spread; /* it was told how many workers: it serves in the library's own way for several, if it has one */
    unsigned workers;
    unsigned work_us; /* of each message; 0: none */
    bool sleeps;      /* SERVER_SLEEP_MS for each message */
};

#define SERVER_SLEEP_MS 1

/** Reads the command line and makes the listener. */
struct server server_open(int argc, char **argv);

/** Says which port it is. */
void server_announce(const struct server *server);

/** Whether it was asked for this library. */
bool server_is(const struct server *server, const char *library);

/**
 * So many us of work on a core of 3 GHz: a fixed number of rounds, each of which needs the one before, in every language the
 * same. Not until a clock says so: who shares the core with others is to need longer for it, and asking a clock of CPU
 * time is a system call. Not calibrated for each run either: then what is compared would not be the same work.
 */
void server_work(unsigned us);

/** malloc that cannot fail. */
void *server_alloc(size_t bytes);

#endif
