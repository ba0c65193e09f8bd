/*
 * server_libev.c: libev, whose loop says when a descriptor is ready: one buffer for all reads, an answer goes out at once; for
 * the rest of one that does not fit the watcher waits to write instead.
 */
#include <errno.h>
#include <ev.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/case.h"
#include "server.h"

struct connection {
    ev_io io; /* the first member: watchers are cast to connections */
    char *rest;
    size_t from, to;
};

static struct server server;
static char *room;

static void end(struct ev_loop *loop, struct connection *c)
{
    ev_io_stop(loop, &c->io);
    close(c->io.fd);
    free(c->rest);
    free(c);
}

static void wait_for(struct ev_loop *loop, struct connection *c, int events)
{
    ev_io_stop(loop, &c->io);
    ev_io_set(&c->io, c->io.fd, events);
    ev_io_start(loop, &c->io);
}

/* Bytes sent, or -1: the connection broke. */
static ssize_t send_some(int fd, const char *bytes, size_t count)
{
    ssize_t n = send(fd, bytes, count, MSG_NOSIGNAL);
    return n < 0 && errno == EAGAIN ? 0 : n;
}

static void keep_rest(struct ev_loop *loop, struct connection *c, size_t from, size_t to)
{
    c->rest = server_alloc(to);
    memcpy(c->rest, room, to);
    c->from = from;
    c->to = to;
    wait_for(loop, c, EV_WRITE);
}

static void send_rest(struct ev_loop *loop, struct connection *c)
{
    ssize_t n = send_some(c->io.fd, c->rest + c->from, c->to - c->from);

    if (n < 0) {
        end(loop, c);
        return;
    }
    c->from += (size_t)n;
    if (c->from < c->to)
        return;
    free(c->rest);
    c->rest = NULL;
    wait_for(loop, c, EV_READ);
}

static void on_ready(struct ev_loop *loop, ev_io *io, int events)
{
    struct connection *c = (struct connection *)io;
    ssize_t n, sent;

    (void)events;
    if (c->rest) {
        send_rest(loop, c);
        return;
    }
    n = recv(io->fd, room, server.room, 0);
    if (n < 0 && errno == EAGAIN)
        return;
    sent = n > 0 ? send_some(io->fd, room, (size_t)n) : -1;
    if (sent < 0)
        end(loop, c);
    else if (sent < n)
        keep_rest(loop, c, (size_t)sent, (size_t)n);
}

static void on_connection(struct ev_loop *loop, ev_io *listener, int events)
{
    int fd;

    (void)events;
    while ((fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct connection *c = server_alloc(sizeof(*c));
        c->rest = NULL;
        ev_io_init(&c->io, on_ready, fd, EV_READ);
        ev_io_start(loop, &c->io);
    }
}

int main(int argc, char **argv)
{
    struct ev_loop *loop = ev_default_loop(EVBACKEND_EPOLL);
    ev_io listener;

    server = server_open(argc, argv);
    room = server_alloc(server.room);
    if (!loop)
        case_fail("no event loop");
    ev_io_init(&listener, on_connection, server.listener, EV_READ);
    ev_io_start(loop, &listener);
    server_announce(&server);
    ev_run(loop, 0);
    case_fail("the event loop ended");
}
