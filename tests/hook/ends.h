/*
 * tests/hook/ends.h: what the statements about waiting for descriptors share: two ends of everything, somebody who does
 * something a little later, and how long that was ago.
 */
#ifndef TESTS_HOOK_ENDS_H
#define TESTS_HOOK_ENDS_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "hook/statement.h"

struct ends {
    int a, b;
};

static inline struct ends unix_ends(int type)
{
    int fds[2] = {-1, -1};
    CHECK_INT(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds), ==, 0);
    return (struct ends){fds[0], fds[1]};
}

/* a reads, b writes. */
static inline struct ends pipe_ends(void)
{
    int fds[2] = {-1, -1};
    CHECK_INT(pipe2(fds, O_CLOEXEC), ==, 0);
    return (struct ends){fds[0], fds[1]};
}

/* A socket on some port of 127.0.0.1, which *at then is. */
static inline int bound(int type, struct sockaddr_in *at)
{
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    socklen_t size = sizeof *at;
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)at, sizeof *at) == 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)at, &size), ==, 0);
    return fd;
}

static inline int listener(int backlog, struct sockaddr_in *at)
{
    int fd = bound(SOCK_STREAM, at);
    CHECK_INT(listen(fd, backlog), ==, 0);
    return fd;
}

/* Connects to a listener and closes: one connection for it to accept. */
static inline void connect_briefly(int fd)
{
    struct sockaddr_in at;
    socklen_t size = sizeof at;
    CHECK_INT(getsockname(fd, (struct sockaddr *)&at, &size), ==, 0);
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(connect(s, (struct sockaddr *)&at, sizeof at), ==, 0);
    close(s);
}

static inline struct ends tcp_ends(void)
{
    struct sockaddr_in at;
    int l = listener(8, &at);
    struct ends e = {.a = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    CHECK_INT(connect(e.a, (struct sockaddr *)&at, sizeof at), ==, 0);
    e.b = accept4(l, NULL, NULL, SOCK_CLOEXEC);
    CHECK(e.b >= 0);
    close(l);
    return e;
}

/* a receives what b sends. */
static inline struct ends udp_ends(void)
{
    struct sockaddr_in at;
    struct ends e = {.a = bound(SOCK_DGRAM, &at), .b = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    CHECK_INT(connect(e.b, (struct sockaddr *)&at, sizeof at), ==, 0);
    return e;
}

static inline void close_ends(struct ends e)
{
    CHECK_INT(close(e.a), ==, 0);
    CHECK_INT(close(e.b), ==, 0);
}

/* The flags of the descriptor as the kernel has them, whoever stands before it. */
static inline int raw_flags(int fd)
{
    long flags = syscall(SYS_fcntl, fd, F_GETFL);
    CHECK_INT(flags, >=, 0);
    return (int)flags;
}

/* Writes until there is no room, without waiting; how much that was. */
static inline size_t fill(int fd)
{
    static const char some[16384];
    size_t bytes = 0;
    int flags = raw_flags(fd);
    CHECK_INT(fcntl(fd, F_SETFL, flags | O_NONBLOCK), ==, 0);
    for (ssize_t n; (n = write(fd, some, sizeof some)) > 0 || (n = write(fd, some, 1)) > 0;)
        bytes += (size_t)n;
    CHECK_INT(errno, ==, EAGAIN);
    CHECK_INT(fcntl(fd, F_SETFL, flags), ==, 0);
    return bytes;
}

/* What the process has computed so far, in ms. */
static inline double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/*
 * Something that is done to a descriptor after a while, by a flow of its own. A wait is looked after once in its first
 * 50 ms: later than that, a wake that is lost is lost.
 */
struct later {
    int fd;
    int after;         /* ms */
    void (*what)(int); /* NULL: one byte is written */
    double at;         /* when it was done; atomic */
};

static inline void write_one(int fd)
{
    CHECK_INT(write(fd, "x", 1), ==, 1);
}

static inline void do_later(void *arg)
{
    struct later *l = arg;
    usleep((useconds_t)l->after * 1000);
    double at = now_ms();
    __atomic_store(&l->at, &at, __ATOMIC_RELEASE);
    (l->what ? l->what : write_one)(l->fd);
}

/* It was done, and just now. */
#define CHECK_JUST_AFTER(l) check_just_after(__FILE__, __LINE__, l)
static inline void check_just_after(const char *file, int line, struct later *l)
{
    double at;
    __atomic_load(&l->at, &at, __ATOMIC_ACQUIRE);
    if (at == 0)
        test_failed(file, line, "it has not waited");
    else
        check_time(file, line, at, 0);
}

#endif
