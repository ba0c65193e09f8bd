/*
 * Sockets: accepting and connecting, datagrams, passed descriptors, out-of-band data.
 */
#include <sys/un.h>

#include "unit/io/ground.h"

struct served {
    int fd, count;
};

static void *accepts_and_greets(void *arg)
{
    struct served *s = arg;
    for (int i = 0; i < s->count; i++) {
        struct sockaddr_in from;
        socklen_t size = sizeof from;
        int c = weft_accept(s->fd, (struct sockaddr *)&from, &size, SOCK_CLOEXEC, WEFT_FOREVER);
        CHECK_INT(c, >=, 0);
        CHECK_INT(size, ==, sizeof from);
        CHECK_INT(from.sin_family, ==, AF_INET);
        CHECK_INT(weft_write(c, "hi", 2, WEFT_FOREVER), ==, 2);
        CHECK_INT(weft_close(c), ==, 0);
    }
    return NULL;
}

IN_FIBER(connections_are_accepted)
{
    for (int blocking = 0; blocking < 2; blocking++) {
        struct sockaddr_in at;
        struct served s = {.fd = listener(&at), .count = 20};
        if (!blocking)
            fcntl(s.fd, F_SETFL, O_NONBLOCK);
        weft_fiber *one = go(accepts_and_greets, &s), *two = go(accepts_and_greets, &s);
        for (int i = 0; i < 2 * s.count; i++) {
            char buffer[8];
            int c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
            CHECK_INT(weft_connect(c, (struct sockaddr *)&at, sizeof at, weft_in(10 * WEFT_SEC)), ==, 0);
            CHECK_INT(weft_read(c, buffer, sizeof buffer, WEFT_FOREVER), ==, 2);
            CHECK_INT(weft_read(c, buffer, sizeof buffer, WEFT_FOREVER), ==, 0);
            CHECK_INT(weft_close(c), ==, 0);
        }
        ended(one);
        ended(two);
        CHECK_INT(weft_accept(s.fd, NULL, NULL, 0, WEFT_NOW), ==, -EAGAIN);
        CHECK_INT(weft_accept(s.fd, NULL, NULL, 0, weft_in(2 * WEFT_MS)), ==, -ETIMEDOUT);
        CHECK_INT(weft_close(s.fd), ==, 0);
    }
    return arg;
}

static void *accepts(void *arg)
{
    return ptr(weft_accept(*(int *)arg, NULL, NULL, 0, WEFT_FOREVER));
}

IN_FIBER(who_accepts_is_told_of_a_close)
{
    struct sockaddr_in at;
    int fd = listener(&at);
    weft_fiber *f = go(accepts, &fd);
    AWAIT(is_parked(f));
    CHECK_INT(weft_close(fd), ==, 0);
    CHECK_PTR(ended(f), ==, ptr(-EBADF));
    return arg;
}

IN_FIBER(a_refused_connection_is_told)
{
    struct sockaddr_in at;
    int l = listener(&at), error = -1;
    socklen_t size = sizeof error;
    CHECK_INT(weft_close(l), ==, 0); /* nobody listens there now */
    int c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    CHECK_INT(weft_connect(c, (struct sockaddr *)&at, sizeof at, weft_in(10 * WEFT_SEC)), ==, -ECONNREFUSED);
    CHECK_INT(getsockopt(c, SOL_SOCKET, SO_ERROR, &error, &size), ==, 0);
    CHECK_INT(error, ==, 0);
    CHECK_INT(weft_close(c), ==, 0);
    return arg;
}

/* With its backlog full, a listener lets nobody in. */
IN_FIBER(a_connect_ends_at_its_deadline)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), c[8], n = 0, rc = 0;
    CHECK(bind(l, (struct sockaddr *)&at, sizeof at) == 0 && listen(l, 0) == 0);
    CHECK_INT(getsockname(l, (struct sockaddr *)&at, &size), ==, 0);
    while (n < 8 && rc == 0) {
        weft_time until = weft_in(30 * WEFT_MS);
        c[n] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        rc = weft_connect(c[n++], (struct sockaddr *)&at, sizeof at, until);
        if (rc != 0)
            CHECK_INT(weft_now().ns, >=, until.ns);
    }
    CHECK_INT(rc, ==, -ETIMEDOUT);
    while (n > 0)
        CHECK_INT(weft_close(c[--n]), ==, 0);
    CHECK_INT(weft_close(l), ==, 0);
    return arg;
}

/* On descriptors without O_NONBLOCK, which they never get. */
IN_FIBER(a_blocking_connect_waits_and_ends_at_its_deadline)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "weft-test-%d", (int)getpid());
    int l = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), c[8], n = 0, rc = 0;
    CHECK(bind(l, (struct sockaddr *)&at, sizeof at) == 0 && listen(l, 1) == 0);
    while (n < 8 && rc == 0) {
        weft_time until = weft_in(n == 0 ? 10 * WEFT_SEC : 30 * WEFT_MS);
        c[n] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        rc = weft_connect(c[n++], (struct sockaddr *)&at, sizeof at, until);
        CHECK(rc == 0 || weft_now().ns >= until.ns);
        CHECK_INT(fcntl(c[n - 1], F_GETFL) & O_NONBLOCK, ==, 0);
    }
    CHECK_INT(rc, ==, -ETIMEDOUT);
    CHECK_INT(n, >, 1);
    CHECK_INT(weft_close(l), ==, 0); /* who still connects is refused */
    while (n > 0)
        CHECK_INT(weft_close(c[--n]), ==, 0);
    return arg;
}

static void *connects_blocking(void *arg)
{
    int c = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc = weft_connect(c, arg, sizeof(struct sockaddr_in), WEFT_FOREVER);
    CHECK_INT(weft_close(c), ==, 0);
    return ptr(rc);
}

IN_FIBER(a_blocking_connect_is_made_or_refused)
{
    struct sockaddr_in at;
    int l = listener(&at);
    weft_fiber *f = go(connects_blocking, &at);
    CHECK_PTR(ended(f), ==, ptr(0));
    CHECK_INT(weft_close(l), ==, 0);
    CHECK_PTR(connects_blocking(&at), ==, ptr(-ECONNREFUSED));
    int c = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(weft_connect(c, (struct sockaddr *)&at, 1, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_close(c), ==, 0);
    return arg;
}

static void *sends_three(void *arg)
{
    int fd = *(int *)arg;
    weft_sleep(3 * WEFT_MS);
    CHECK_INT(weft_send(fd, "one", 3, 0, WEFT_FOREVER), ==, 3);
    CHECK_INT(weft_send(fd, "", 0, 0, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_send(fd, "three", 5, 0, WEFT_FOREVER), ==, 5);
    return NULL;
}

/* Each datagram is one, also one of no bytes; several may be there, and a short read says nothing. */
IN_FIBER(datagrams_stay_whole)
{
    const int types[] = {SOCK_DGRAM, SOCK_SEQPACKET};
    for (int i = 0; i < 2; i++) {
        struct pair p = unix_pair(types[i]);
        char buffer[64];
        for (int round = 0; round < 3; round++) {
            weft_fiber *f = go(sends_three, &p.b);
            CHECK_INT(weft_recv(p.a, buffer, sizeof buffer, 0, WEFT_FOREVER), ==, 3);
            CHECK_INT(weft_recv(p.a, buffer, sizeof buffer, 0, WEFT_FOREVER), ==, 0);
            CHECK_INT(weft_recv(p.a, buffer, sizeof buffer, MSG_PEEK, WEFT_FOREVER), ==, 5);
            CHECK_INT(weft_recv(p.a, buffer, 2, 0, WEFT_FOREVER), ==, 2); /* the rest of it is gone */
            CHECK_INT(weft_recv(p.a, buffer, sizeof buffer, MSG_DONTWAIT, WEFT_FOREVER), ==, -EAGAIN);
            ended(f);
        }
        close_pair(p);
    }
    return arg;
}

IN_FIBER(a_datagram_says_where_it_is_from)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, from, me;
    socklen_t size = sizeof at, from_size = sizeof from, me_size = sizeof me;
    int a = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), b = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    char buffer[16];
    CHECK(bind(a, (struct sockaddr *)&at, sizeof at) == 0 && getsockname(a, (struct sockaddr *)&at, &size) == 0);
    CHECK_INT(weft_sendto(b, "x", 1, 0, (struct sockaddr *)&at, sizeof at, WEFT_FOREVER), ==, 1);
    CHECK_INT(weft_recvfrom(a, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &from_size, WEFT_FOREVER), ==, 1);
    CHECK_INT(getsockname(b, (struct sockaddr *)&me, &me_size), ==, 0);
    CHECK_INT(from.sin_port, ==, me.sin_port);
    CHECK_INT(weft_close(a), ==, 0);
    CHECK_INT(weft_close(b), ==, 0);
    return arg;
}

static void *passes_descriptors(void *arg)
{
    int fd = *(int *)arg;
    for (int i = 0; i < 3; i++) {
        struct pair p = pipe_pair(0);
        char room[CMSG_SPACE(sizeof(int))] = {0};
        struct iovec part = {"d", 1};
        struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(c), &p.a, sizeof(int));
        CHECK_INT(weft_sendmsg(fd, &m, 0, WEFT_FOREVER), ==, 1);
        CHECK_INT(weft_write(p.b, "through", 7, WEFT_FOREVER), ==, 7);
        close_pair(p);
    }
    return NULL;
}

/* Bytes with descriptors do not merge: a short read of such a stream says nothing. */
IN_FIBER(descriptors_come_through)
{
    struct pair p = unix_pair(SOCK_STREAM);
    weft_fiber *f = go(passes_descriptors, &p.b);
    for (int i = 0; i < 3; i++) {
        char room[CMSG_SPACE(sizeof(int))], text[64];
        struct iovec part = {text, sizeof text};
        struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
        int got = -1;
        CHECK_INT(weft_recvmsg(p.a, &m, MSG_CMSG_CLOEXEC, WEFT_FOREVER), ==, 1);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        CHECK(c && c->cmsg_type == SCM_RIGHTS);
        if (c)
            memcpy(&got, CMSG_DATA(c), sizeof(int));
        CHECK_INT(weft_read(got, text, sizeof text, WEFT_FOREVER), ==, 7);
        CHECK_INT(weft_close(got), ==, 0);
    }
    ended(f);
    close_pair(p);
    return arg;
}

/* A mark in the stream ends a read before it; what is behind it must not be forgotten. */
IN_FIBER(out_of_band_data_does_not_hide_what_follows)
{
    struct pair p = tcp_pair();
    char buffer[64];
    CHECK_INT(weft_send(p.b, "before", 6, 0, WEFT_FOREVER), ==, 6);
    CHECK_INT(weft_recv(p.a, buffer, sizeof buffer, 0, WEFT_FOREVER), ==, 6);
    CHECK_INT(weft_send(p.b, "ab!", 3, MSG_OOB, WEFT_FOREVER), ==, 3);
    CHECK_INT(weft_send(p.b, "after", 5, 0, WEFT_FOREVER), ==, 5);
    CHECK_INT(weft_wait_fd(p.a, POLLPRI, weft_in(10 * WEFT_SEC)), ==, POLLPRI);
    CHECK_INT(weft_recv(p.a, buffer, 1, MSG_OOB, WEFT_NOW), ==, 1);
    CHECK_INT(buffer[0], ==, '!');
    CHECK_INT(weft_read_full(p.a, buffer, 7, NULL, weft_in(10 * WEFT_SEC)), ==, 7);
    CHECK(memcmp(buffer, "abafter", 7) == 0);
    close_pair(p);
    return arg;
}

IN_FIBER(what_cannot_accept_says_so)
{
    struct pair p = pipe_pair(0), q = tcp_pair();
    fcntl(q.a, F_SETFL, 0);
    CHECK_INT(weft_accept(p.a, NULL, NULL, 0, weft_in(10 * WEFT_SEC)), ==, -ENOTSOCK);
    CHECK_INT(weft_accept(q.a, NULL, NULL, 0, weft_in(10 * WEFT_SEC)), ==, -EINVAL);
    char byte;
    CHECK_INT(weft_read(INT32_MAX, &byte, 1, weft_in(10 * WEFT_SEC)), ==, -EBADF);
    CHECK_INT(weft_accept(1 << 30, NULL, NULL, 0, weft_in(10 * WEFT_SEC)), ==, -EBADF);
    close_pair(p);
    close_pair(q);
    return arg;
}

TESTS(io_socket, connections_are_accepted, who_accepts_is_told_of_a_close, a_refused_connection_is_told,
      a_connect_ends_at_its_deadline, a_blocking_connect_waits_and_ends_at_its_deadline,
      a_blocking_connect_is_made_or_refused, datagrams_stay_whole, a_datagram_says_where_it_is_from,
      descriptors_come_through, out_of_band_data_does_not_hide_what_follows, what_cannot_accept_says_so)
