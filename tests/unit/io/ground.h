/*
 * tests/unit/io/ground.h: what the tests of I/O share: pairs of descriptors, and bodies that run as fibers.
 */
#ifndef TESTS_UNIT_IO_GROUND_H
#define TESTS_UNIT_IO_GROUND_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <weft/io.h>

#include "unit/sched/ground.h"

/* Runs a test's body as a fiber, with one worker and with two. */
#define IN_FIBER(name)                                                                                                 \
    static void *name##_body(void *arg);                                                                               \
    TEST(name)                                                                                                         \
    {                                                                                                                  \
        in_a_fiber(1, name##_body, NULL);                                                                              \
        in_a_fiber(2, name##_body, NULL);                                                                              \
    }                                                                                                                  \
    static void *name##_body(void *arg)

struct pair {
    int a, b;
};

static inline int listener(struct sockaddr_in *at)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = sizeof *at;
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)at, sizeof *at) == 0 && listen(fd, 128) == 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)at, &size), ==, 0);
    return fd;
}

/* Two ends of a TCP connection, made without the library; both blocking. */
static inline struct pair tcp_pair(void)
{
    struct sockaddr_in at;
    int l = listener(&at);
    struct pair p = {.a = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    CHECK_INT(connect(p.a, (struct sockaddr *)&at, sizeof at), ==, 0);
    p.b = accept4(l, NULL, NULL, SOCK_CLOEXEC);
    CHECK(p.b >= 0);
    close(l);
    return p;
}

static inline struct pair unix_pair(int type)
{
    int fds[2] = {-1, -1};
    CHECK_INT(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds), ==, 0);
    return (struct pair){fds[0], fds[1]};
}

/* a reads, b writes. */
static inline struct pair pipe_pair(int flags)
{
    int fds[2] = {-1, -1};
    CHECK_INT(pipe2(fds, flags | O_CLOEXEC), ==, 0);
    return (struct pair){fds[0], fds[1]};
}

static inline void close_pair(struct pair p)
{
    CHECK_INT(weft_close(p.a), ==, 0);
    CHECK_INT(weft_close(p.b), ==, 0);
}

enum { KINDS = 6 };

/* A pair of each kind; a reads, b writes. */
static inline struct pair make_pair(int kind)
{
    struct pair p;
    switch (kind) {
    case 0:
        return tcp_pair();
    case 1:
        p = tcp_pair();
        fcntl(p.a, F_SETFL, O_NONBLOCK);
        fcntl(p.b, F_SETFL, O_NONBLOCK);
        return p;
    case 2:
        return unix_pair(SOCK_STREAM);
    case 3:
        return unix_pair(SOCK_STREAM | SOCK_NONBLOCK);
    case 4:
        return pipe_pair(0);
    default:
        return pipe_pair(O_NONBLOCK);
    }
}

#endif
