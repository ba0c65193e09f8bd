/*
 * listener.c: see listener.h.
 */
#include "listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "case.h"

#define BACKLOG 4096

static int bound_socket(uint16_t port, bool shared)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0 || (shared && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0) ||
        bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        case_fail("no socket with a port: %s", strerror(errno));
    return fd;
}

static int listening(int fd)
{
    int on = 1;

    if (listen(fd, BACKLOG) != 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
        case_fail("no listening socket: %s", strerror(errno));
    return fd;
}

int listener_open(void)
{
    return listening(bound_socket(0, false));
}

int listener_open_shared(uint16_t port)
{
    return listening(bound_socket(port, true));
}

int listener_reserve(void)
{
    return bound_socket(0, true);
}

uint16_t listener_port(int listener)
{
    struct sockaddr_in address;
    socklen_t size = sizeof(address);

    if (getsockname(listener, (struct sockaddr *)&address, &size) != 0)
        case_fail("getsockname: %s", strerror(errno));
    return ntohs(address.sin_port);
}

void listener_announce(uint16_t port, pid_t serving)
{
    if (serving)
        printf("port %u %d\n", port, (int)serving);
    else
        printf("port %u\n", port);
    fflush(stdout);
}
