/*
 * combine/kinds.c: makes descriptors of every kind, by system calls, and the bytes that go through them.
 */
#include "stress/combine/combine.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/un.h>

const char *const kind_names[KINDS] = {
    "pipe", "UNIX stream", "UNIX datagram", "UNIX seqpacket", "TCP", "eventfd", "file", "listener", "/dev/null",
};

static void need(struct scene *s, bool holds, const char *what)
{
    if (holds)
        return;
    WRONG(s, "%s: %s", what, strerror(errno));
    abort();
}

/* Each pair has an address of its own, so that ports never run short. */
static struct ends tcp_ends(struct scene *s, int flags, uint64_t *random)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001u + pick(random, 1u << 23))};
    socklen_t size = sizeof at;
    struct ends e = {TCP, -1, -1};
    int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    need(s, l >= 0 && bind(l, (struct sockaddr *)&at, sizeof at) == 0 && listen(l, 1) == 0, "listen");
    need(s, getsockname(l, (struct sockaddr *)&at, &size) == 0, "getsockname");
    e.b = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    need(s, e.b >= 0 && connect(e.b, (struct sockaddr *)&at, sizeof at) == 0, "connect");
    e.a = accept4(l, NULL, NULL, SOCK_CLOEXEC | flags);
    need(s, e.a >= 0, "accept");
    if (flags)
        fcntl(e.b, F_SETFL, O_NONBLOCK);
    weft_close(l); /* whatever is known about the number is wrong from now on */
    return e;
}

static int listening(struct scene *s, int flags)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    need(s, fd >= 0 && bind(fd, (struct sockaddr *)&at, offsetof(struct sockaddr_un, sun_path)) == 0, "bind");
    need(s, listen(fd, 4) == 0, "listen");
    return fd;
}

struct ends make_ends(struct scene *s, enum kind k, uint64_t *random)
{
    int nonblock = chance(random, 2), fds[2] = {-1, -1};
    int flags = SOCK_CLOEXEC | (nonblock ? SOCK_NONBLOCK : 0);
    int few = 4096;
    switch (k) {
    case PIPE:
        need(s, pipe2(fds, O_CLOEXEC | (nonblock ? O_NONBLOCK : 0)) == 0, "pipe2");
        break;
    case UNIX_STREAM:
        need(s, socketpair(AF_UNIX, SOCK_STREAM | flags, 0, fds) == 0, "socketpair");
        break;
    case UNIX_DGRAM:
        need(s, socketpair(AF_UNIX, SOCK_DGRAM | flags, 0, fds) == 0, "socketpair");
        break;
    case UNIX_SEQPACKET:
        need(s, socketpair(AF_UNIX, SOCK_SEQPACKET | flags, 0, fds) == 0, "socketpair");
        break;
    case TCP: {
        struct ends e = tcp_ends(s, nonblock ? SOCK_NONBLOCK : 0, random);
        fds[0] = e.a;
        fds[1] = e.b;
        break;
    }
    case EVENT:
        fds[0] = eventfd(0, EFD_CLOEXEC | (nonblock ? EFD_NONBLOCK : 0));
        need(s, fds[0] >= 0, "eventfd");
        break;
    case REGULAR:
        fds[0] = memfd_create("combine", MFD_CLOEXEC);
        need(s, fds[0] >= 0, "memfd_create");
        break;
    case LISTENER:
        fds[0] = listening(s, flags);
        break;
    default:
        fds[0] = open("/dev/null", O_RDWR | O_CLOEXEC);
        need(s, fds[0] >= 0, "/dev/null");
    }
    if (k < STREAMS_END && k != PIPE &&
        chance(random, k == TCP ? 12 : 3)) { /* so that whoever writes has to wait often */
        setsockopt(fds[0], SOL_SOCKET, SO_RCVBUF, &few, sizeof few);
        setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &few, sizeof few);
    }
    return (struct ends){k, fds[0], fds[1]};
}

void move_to(struct scene *s, int *fd, int number)
{
    need(s, fcntl(number, F_GETFD) < 0, "a number that is free");
    need(s, dup3(*fd, number, O_CLOEXEC) == number, "dup3");
    weft_close(*fd);
    *fd = number;
}

void close_ends(struct scene *s, struct ends *e)
{
    if (e->a >= 0)
        EXPECT_INT(s, weft_close(e->a), ==, 0);
    if (e->b >= 0)
        EXPECT_INT(s, weft_close(e->b), ==, 0);
    e->a = e->b = -1;
}

/* ---- bytes ---- */

static unsigned char byte_at(uint64_t key, uint64_t place)
{
    uint64_t x = key + place / 8 * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    return (unsigned char)((x ^ x >> 27) >> place % 8 * 8);
}

void fill(unsigned char *bytes, size_t n, uint64_t key, uint64_t place)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = byte_at(key, place + i);
}

size_t differs_at(const unsigned char *bytes, size_t n, uint64_t key, uint64_t place)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != byte_at(key, place + i))
            return i;
    }
    return n;
}
