/*
 * server_weft.c: weft, one fiber for each connection, by plain calls of the public API: weft_read and weft_write_all;
 * where there may be several workers, weft_serve spreads the connections. weft-epoll and weft-uring are its two
 * drivers; those with -shared run what weft_serve starts on a few shared stacks.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "../common/case.h"
#include "server.h"
#include <weft/fiber.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/sched.h>

#define SHARED_STACKS 4

static struct server server;
static weft_stacks *shared; /* weft-...-shared: what connections run on */

static void serve(int fd, char *room)
{
    ptrdiff_t n;

    while ((n = weft_read(fd, room, server.room, WEFT_FOREVER)) > 0) {
        if (server.work_us > 0)
            server_work(server.work_us);
        else if (server.sleeps)
            weft_sleep(SERVER_SLEEP_MS * WEFT_MS);
        if (weft_write_all(fd, room, (size_t)n, NULL, WEFT_FOREVER) < 0)
            break;
    }
}

static void serve_small(int fd)
{
    char room[SERVER_ROOM_SMALL];
    serve(fd, room);
}

static void serve_big(int fd)
{
    char *room = server_alloc(server.room);
    serve(fd, room);
    free(room);
}

static void handle(int fd, void *arg)
{
    (void)arg;
    if (server.room == SERVER_ROOM_SMALL)
        serve_small(fd);
    else
        serve_big(fd);
}

/* Its room is there only while it answers: what is on the stack is copied while others run. False: it has ended. */
__attribute__((noinline)) static bool answer(int fd)
{
    char room[SERVER_ROOM_SMALL];
    ptrdiff_t n = weft_read(fd, room, sizeof(room), WEFT_NOW);

    return n > 0 ? weft_write_all(fd, room, (size_t)n, NULL, WEFT_FOREVER) == n : n == -EAGAIN;
}

static void handle_on_shared(int fd, void *arg)
{
    (void)arg;
    while (weft_wait_fd(fd, POLLIN, WEFT_FOREVER) > 0 && answer(fd))
        ;
}

static void *connection(void *arg)
{
    int fd = (int)(intptr_t)arg;

    handle(fd, NULL);
    weft_close(fd);
    return NULL;
}

static void *accept_all(void *arg)
{
    const char *backend = arg;
    weft_serve_opts opts = {.size = sizeof(opts), .shared = shared};
    int fd, rc;

    if (strcmp(weft_io_backend(), backend) != 0)
        case_na("the driver is %s", weft_io_backend());
    server_announce(&server);
    if (shared || server.spread)
        case_fail("weft_serve: %s", strerror(-weft_serve(server.listener, shared ? handle_on_shared : handle, NULL,
                                                         &opts, WEFT_FOREVER)));
    while ((fd = weft_accept(server.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC, WEFT_FOREVER)) >= 0)
        if ((rc = weft_go(connection, (void *)(intptr_t)fd)) != 0)
            case_fail("weft_go: %s", strerror(-rc));
    case_fail("weft_accept: %s", strerror(-fd));
}

int main(int argc, char **argv)
{
    weft_sched_opts opts = {.size = sizeof(opts)};
    bool uring;

    server = server_open(argc, argv);
    uring = strstr(server.library, "uring") != NULL;
    if (strstr(server.library, "-shared") && weft_stacks_new(&shared, SHARED_STACKS, 0) != 0)
        case_fail("weft_stacks_new");
    opts.threads = server.workers;
    opts.io = uring ? WEFT_IO_URING : WEFT_IO_EPOLL;
    case_fail("weft_run: %s", strerror(-weft_run(accept_all, uring ? "io_uring" : "epoll", NULL, &opts)));
}
