/*
 * server_hook.c: a fiber for each connection, as server_weft.c of bench-net, but by the C library's accept, read and write on
 * blocking sockets, under libweft-hook. hook-epoll and hook-uring are the two drivers.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/case.h"
#include "../net/server.h"
#include <weft/fiber.h>
#include <weft/io.h>
#include <weft/sched.h>

static struct server server;

static void *connection(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char room[SERVER_ROOM_SMALL];
    ssize_t n;

    while ((n = read(fd, room, sizeof room)) > 0)
        if (write(fd, room, (size_t)n) != n)
            break;
    close(fd);
    return NULL;
}

/* The listener is as the frame made it; what it accepts waits. */
static void *accept_all(void *arg)
{
    const char *backend = arg;
    int fd, rc;

    if (strcmp(weft_io_backend(), backend) != 0)
        case_na("the driver is %s", weft_io_backend());
    server_announce(&server);
    while ((fd = weft_accept(server.listener, NULL, NULL, SOCK_CLOEXEC, WEFT_FOREVER)) >= 0)
        if ((rc = weft_go(connection, (void *)(intptr_t)fd)) != 0)
            case_fail("weft_go: %s", strerror(-rc));
    case_fail("accept: %s", strerror(-fd));
}

int main(int argc, char **argv)
{
    weft_sched_opts opts = {.size = sizeof(opts)};
    bool uring;

    server = server_open(argc, argv);
    uring = server_is(&server, "hook-uring");
    opts.threads = server.workers;
    opts.io = uring ? WEFT_IO_URING : WEFT_IO_EPOLL;
    case_fail("weft_run: %s", strerror(-weft_run(accept_all, uring ? "io_uring" : "epoll", NULL, &opts)));
}
