/*
 * server_st.c: State Threads, one of its threads for each connection. It waits by poll: Debian's is built without epoll, and
 * by select it has 1024 descriptors at most.
 */
#include <st.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../common/case.h"
#include "server.h"

static struct server server;

static void serve(st_netfd_t peer, char *room)
{
    ssize_t n;

    while ((n = st_read(peer, room, server.room, ST_UTIME_NO_TIMEOUT)) > 0)
        if (st_write(peer, room, (size_t)n, ST_UTIME_NO_TIMEOUT) != n)
            break;
}

static void serve_small(st_netfd_t peer)
{
    char room[SERVER_ROOM_SMALL];
    serve(peer, room);
}

static void serve_big(st_netfd_t peer)
{
    char *room = server_alloc(server.room);
    serve(peer, room);
    free(room);
}

static void *connection(void *arg)
{
    st_netfd_t peer = arg;

    if (server.room == SERVER_ROOM_SMALL)
        serve_small(peer);
    else
        serve_big(peer);
    st_netfd_close(peer);
    return NULL;
}

int main(int argc, char **argv)
{
    st_netfd_t listener, peer;

    server = server_open(argc, argv);
    if (st_set_eventsys(ST_EVENTSYS_POLL) != 0 || st_init() != 0)
        case_na("st_init: %s", strerror(errno));
    listener = st_netfd_open_socket(server.listener);
    if (!listener)
        case_fail("st_netfd_open_socket: %s", strerror(errno));
    server_announce(&server);
    while ((peer = st_accept(listener, NULL, NULL, ST_UTIME_NO_TIMEOUT)))
        if (!st_thread_create(connection, peer, 0, 0))
            case_na("st_thread_create: %s", strerror(errno));
    case_fail("st_accept: %s", strerror(errno));
}
