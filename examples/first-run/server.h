/*
 * server.h: `weft serve --status` as its first user sees it: a child process (support/child.h) that has a status page.
 */
#ifndef FIRST_RUN_SERVER_H
#define FIRST_RUN_SERVER_H

#include <stdint.h>

#include "../support/child.h"

struct server {
    struct child child;
    unsigned port;
    unsigned workers;
    char backend[16]; /* epoll or io_uring */
    char address[32]; /* "127.0.0.1:8080" */
    char url[64];     /* "http://127.0.0.1:8080/" */
    int status;       /* a connection for the status page; -1: there is none */
    int64_t seen;     /* the time of the figures that were read last; 0: none */
};

/**
 * Starts the program on the folder, at this port of 127.0.0.1 or the next free port (0: any port), and waits until it
 * serves. It has a process group of its own. A failure ends this program.
 */
void server_start(struct server *server, const char *program, const char *folder, unsigned port);

/**
 * How many fibers the server has, from its status page. Waits for newer figures than those of the last call. 0: the
 * server does not answer. Call it in a fiber.
 */
unsigned server_fibers(struct server *server);

/** Closes the connection for the status page. Call it in a fiber. */
void server_hang_up(struct server *server);

#endif
