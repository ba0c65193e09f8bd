/*
 * server.h: the echo server of examples/echo-server.c as the show sees it: a child process that is told by signals and
 * speaks through a pipe.
 *
 * What can go wrong ends the program with a line on standard error and status 1. All of it is for fibers, but for
 * server_start, which comes before there are any.
 */
#ifndef SHOW_SERVER_H
#define SHOW_SERVER_H

#include <stddef.h>
#include <sys/types.h>

struct server {
    pid_t pid;
    int words;        /* its standard output */
    char address[32]; /* where it serves */
    char backend[16]; /* epoll or io_uring */
};

/** Starts the program at a port of the system's choice and waits until it serves. It dies with this process. */
void server_start(struct server *server, const char *program);

/** How many fibers it has. */
unsigned server_fibers(const struct server *server);

/** Bytes of its memory, page tables included. */
double server_memory(const struct server *server);

/** Ends it as a user would, by SIGTERM, and fails if it does not end well. */
void server_end(const struct server *server);

#endif
