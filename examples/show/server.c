/*
 * server.c: see server.h.
 */
#include "server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "../support/fail.h"

void server_start(struct server *server, const char *program)
{
    const char *const words[] = {program, "127.0.0.1:0", NULL};
    char line[128];
    int port;
    child_start(&server->child, words, false);
    child_read_line(&server->child, line, sizeof line);
    if (sscanf(line, "serving at 127.0.0.1:0, port %d, by %15s", &port, server->backend) != 2)
        fail(0, "the server says: %s", line);
    snprintf(server->address, sizeof server->address, "127.0.0.1:%d", port);
}

unsigned server_fibers(const struct server *server)
{
    char line[32];
    unsigned fibers;
    if (kill(server->child.pid, SIGUSR1) != 0)
        fail(errno, "cannot reach the server");
    child_read_line(&server->child, line, sizeof line);
    if (sscanf(line, "%u fibers", &fibers) != 1)
        fail(0, "the server says: %s", line);
    return fibers;
}
