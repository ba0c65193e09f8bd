/*
 * server.h: the echo server of examples/echo-server.c as the show sees it (support/child.h).
 */
#ifndef SHOW_SERVER_H
#define SHOW_SERVER_H

#include "../support/child.h"

struct server {
    struct child child;
    char address[32]; /* where it serves */
    char backend[16]; /* epoll or io_uring */
};

/** Starts the program at a port of the system's choice and waits until it serves. */
void server_start(struct server *server, const char *program);

/** How many fibers it has, by its own word. */
unsigned server_fibers(const struct server *server);

#endif
