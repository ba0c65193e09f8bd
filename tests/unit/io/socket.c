/*
 * Sockets: accepting and connecting, datagrams, passed descriptors, out-of-band data.
 */
#include <sys/un.h>

#include "io/fd.h"
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

/* ---- a UNIX listener that lets nobody in, as its backlog is full ---- */

struct full {
    struct sockaddr_un at;
    socklen_t size;
    int listener, inside;
};

static int local_socket(int flags)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    CHECK_INT(fd, >=, 0);
    return fd;
}

static struct full fill(void)
{
    struct full f = {.at.sun_family = AF_UNIX, .listener = local_socket(0), .inside = local_socket(0)};
    f.size = sizeof f.at;
    CHECK_INT(bind(f.listener, (struct sockaddr *)&f.at, sizeof f.at.sun_family), ==, 0); /* the kernel names it */
    CHECK(getsockname(f.listener, (struct sockaddr *)&f.at, &f.size) == 0 && listen(f.listener, 0) == 0);
    CHECK_INT(connect(f.inside, (struct sockaddr *)&f.at, f.size), ==, 0);
    return f;
}

static void let_one_in(const struct full *f)
{
    int fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
    CHECK_INT(fd, >=, 0);
    close(fd);
}

static void empty(struct full f)
{
    close(f.inside);
    close(f.listener);
}

struct newcomer {
    struct full *full;
    int fd;
    weft_time until;
};

static void *comes(void *arg)
{
    struct newcomer *c = arg;
    return ptr(weft_connect(c->fd, (struct sockaddr *)&c->full->at, c->full->size, c->until));
}

IN_FIBER(a_connect_waits_for_room_in_a_full_backlog)
{
    struct full f = fill();
    struct newcomer c = {.full = &f, .fd = local_socket(SOCK_NONBLOCK), .until = WEFT_FOREVER};
    weft_fiber *waits = go(comes, &c);
    AWAIT(is_parked(waits));
    let_one_in(&f);
    CHECK_PTR(ended(waits), ==, ptr(0));
    CHECK_INT(weft_close(c.fd), ==, 0);
    empty(f);
    return arg;
}

IN_FIBER(a_wait_for_room_in_a_full_backlog_ends)
{
    struct full f = fill();
    struct newcomer c = {.full = &f, .fd = local_socket(SOCK_NONBLOCK), .until = WEFT_NOW};
    CHECK_PTR(comes(&c), ==, ptr(-EAGAIN));
    c.until = weft_in(5 * WEFT_MS);
    CHECK_PTR(comes(&c), ==, ptr(-ETIMEDOUT));
    CHECK_INT(weft_now().ns, >=, c.until.ns);
    c.until = WEFT_FOREVER;
    weft_fiber *waits = go(comes, &c);
    AWAIT(is_parked(waits));
    CHECK_INT(weft_cancel(waits), ==, 0);
    CHECK_PTR(ended(waits), ==, ptr(-ECANCELED));
    waits = go(comes, &c);
    AWAIT(is_parked(waits));
    CHECK_INT(weft_close(c.fd), ==, 0);
    CHECK_PTR(ended(waits), ==, ptr(-EBADF));
    c.fd = local_socket(SOCK_NONBLOCK);
    waits = go(comes, &c);
    AWAIT(is_parked(waits));
    empty(f);
    CHECK_PTR(ended(waits), ==, ptr(-ECONNREFUSED));
    CHECK_INT(weft_close(c.fd), ==, 0);
    return arg;
}

TEST(a_thread_waits_for_room_in_a_full_backlog)
{
    struct full f = fill();
    struct newcomer c = {.full = &f, .fd = local_socket(SOCK_NONBLOCK), .until = WEFT_NOW};
    CHECK_PTR(comes(&c), ==, ptr(-EAGAIN));
    c.until = weft_in(5 * WEFT_MS);
    CHECK_PTR(comes(&c), ==, ptr(-ETIMEDOUT));
    CHECK_INT(weft_now().ns, >=, c.until.ns);
    let_one_in(&f);
    CHECK_PTR(comes(&c), ==, ptr(0));
    close(c.fd);
    empty(f);
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

/* There are bytes, and the library has been told so by their event. `look` asks another queue, where nothing is. */
static void expect_bytes_at_once(ptrdiff_t (*look)(int fd, weft_time deadline))
{
    for (int waits = 0; waits < 2; waits++) {
        struct pair p = tcp_pair();
        char bytes[8];
        CHECK_INT(weft_recv(p.a, bytes, sizeof bytes, 0, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
        CHECK_INT(send(p.b, "abcd", 4, 0), ==, 4);
        CHECK_INT(weft_recv(p.a, bytes, 2, 0, weft_in(20 * WEFT_SEC)), ==, 2); /* after the event: no other one comes */
        CHECK_INT(look(p.a, waits ? weft_in(WEFT_MS) : WEFT_NOW), ==, waits ? -ETIMEDOUT : -EAGAIN);
        CHECK_INT(wf_load(&wf_fd_look(p.a)->word) & WF_FD_DRAINED_IN, ==,
                  0); /* else it would wait for an event, 50 ms */
        CHECK_INT(weft_recv(p.a, bytes, sizeof bytes, 0, weft_in(20 * WEFT_SEC)), ==, 2);
        close_pair(p);
    }
}

static ptrdiff_t look_at_errors(int fd, weft_time deadline)
{
    char control[128];
    struct msghdr m = {.msg_control = control, .msg_controllen = sizeof control};
    return weft_recvmsg(fd, &m, MSG_ERRQUEUE, deadline);
}

/* Behind the bytes that are there. */
static ptrdiff_t look_ahead(int fd, weft_time deadline)
{
    int behind = 100;
    char byte;
    CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &behind, sizeof behind), ==, 0);
    return weft_recv(fd, &byte, 1, MSG_PEEK, deadline);
}

static void *looks_at_errors_first(void *arg)
{
    expect_bytes_at_once(look_at_errors);
    return arg;
}

TEST(an_empty_queue_of_errors_says_nothing_about_bytes)
{
    if (TEST_EMULATED)
        SKIP("qemu-user does not say that a queue of errors is empty");
    in_a_fiber(1, looks_at_errors_first, NULL);
    in_a_fiber(2, looks_at_errors_first, NULL);
}

IN_FIBER(a_look_behind_the_bytes_says_nothing_about_them)
{
    struct pair p = tcp_pair();
    int behind = 0;
    bool can = setsockopt(p.a, SOL_SOCKET, SO_PEEK_OFF, &behind, sizeof behind) == 0; /* of TCP from Linux 6.9 on */
    close_pair(p);
    if (can)
        expect_bytes_at_once(look_ahead);
    return arg;
}

struct addressed {
    int from;
    struct sockaddr_un to;
    socklen_t size;
    int done; /* atomic */
};

static void *sends_to(void *arg)
{
    struct addressed *a = arg;
    struct iovec part = {(char[]){"x"}, 1};
    struct msghdr m = {.msg_name = &a->to, .msg_namelen = a->size, .msg_iov = &part, .msg_iovlen = 1};
    CHECK_INT(weft_sendmsg(a->from, &m, 0, WEFT_FOREVER), ==, 1);
    put(&a->done, 1);
    return NULL;
}

static int64_t used_cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Each send that fails is an event that says that it can send. */
IN_FIBER(a_send_to_a_full_receiver_does_not_spin)
{
    int to = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct addressed a = {.from = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), .to.sun_family = AF_UNIX};
    a.size = sizeof a.to;
    CHECK_INT(bind(to, (struct sockaddr *)&a.to, sizeof a.to.sun_family), ==, 0); /* a name of the kernel's choice */
    CHECK_INT(getsockname(to, (struct sockaddr *)&a.to, &a.size), ==, 0);
    int full = 0;
    while (weft_sendto(a.from, "x", 1, 0, (struct sockaddr *)&a.to, a.size, WEFT_NOW) == 1)
        full++;
    int64_t before = used_cpu();
    CHECK_INT(weft_sendto(a.from, "x", 1, 0, (struct sockaddr *)&a.to, a.size, weft_in(WEFT_SEC)), ==, -ETIMEDOUT);
    CHECK_INT(used_cpu() - before, <, 150 * 1000000); /* looking takes a few ms; spinning takes as much as there is */
    weft_fiber *f = go(sends_to, &a);
    weft_yield();
    CHECK_INT(seen(&a.done), ==, 0);
    char byte;
    for (int i = 0; i < full; i++)
        CHECK_INT(recv(to, &byte, 1, 0), ==, 1);
    ended(f);
    CHECK_INT(recv(to, &byte, 1, MSG_DONTWAIT), ==, 1);
    CHECK_INT(weft_close(a.from), ==, 0);
    CHECK_INT(weft_close(to), ==, 0);
    return arg;
}

TESTS(io_socket, connections_are_accepted, who_accepts_is_told_of_a_close, a_refused_connection_is_told,
      a_connect_ends_at_its_deadline, a_blocking_connect_waits_and_ends_at_its_deadline,
      a_connect_waits_for_room_in_a_full_backlog, a_wait_for_room_in_a_full_backlog_ends,
      a_thread_waits_for_room_in_a_full_backlog, a_blocking_connect_is_made_or_refused, datagrams_stay_whole,
      a_datagram_says_where_it_is_from, descriptors_come_through, out_of_band_data_does_not_hide_what_follows,
      what_cannot_accept_says_so, an_empty_queue_of_errors_says_nothing_about_bytes,
      a_look_behind_the_bytes_says_nothing_about_them, a_send_to_a_full_receiver_does_not_spin)
