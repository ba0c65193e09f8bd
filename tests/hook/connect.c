/*
 * tests/hook/connect.c: connections: to somebody, to nobody, and to those who do not answer.
 */
#include "hook/peer.h"

#include <linux/io_uring.h>
#include <linux/vm_sockets.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>

/* A listener that takes no more connections, and says nothing to who asks for one. */
struct hole {
    struct sockaddr_in at;
    int listener, held[2];
};

static struct hole dig(void)
{
    struct hole h;
    h.listener = listener(0, &h.at);
    for (int i = 0; i < 2; i++) {
        h.held[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        CHECK_ERRNO(connect(h.held[i], AS_ADDRESS(h.at), sizeof h.at), EINPROGRESS);
    }
    return h;
}

static void fill_in(struct hole *h)
{
    close_pair(h->held);
    CHECK_INT(close(h->listener), ==, 0);
}

static int so_error(int fd)
{
    int error = -1;
    socklen_t size = sizeof error;
    CHECK_INT(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size), ==, 0);
    return error;
}

static void reach_hole_in_time(void *arg)
{
    struct hole *h = arg;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    set_timeout(fd, SO_SNDTIMEO, 250);
    double start = now_ms();
    CHECK_ERRNO(connect(fd, AS_ADDRESS(h->at), sizeof h->at), EINPROGRESS);
    CHECK_AFTER(start, 250);
    CHECK_BLOCKING(fd);
    start = now_ms();
    CHECK_ERRNO(connect(fd, AS_ADDRESS(h->at), sizeof h->at), EALREADY); /* it waits for the one that is under way */
    CHECK_AFTER(start, 250);
    CHECK_INT(close(fd), ==, 0);
}

static void reach_hole_for_long(void *arg)
{
    struct hole *h = arg;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), once = 1;
    CHECK_INT(setsockopt(fd, IPPROTO_TCP, TCP_SYNCNT, &once, sizeof once), ==, 0);
    double start = now_ms();
    CHECK_ERRNO(connect(fd, AS_ADDRESS(h->at), sizeof h->at), ETIMEDOUT);
    CHECK_AFTER(start, 1000);
    CHECK_INT(so_error(fd), ==, 0);
    CHECK_INT(close(fd), ==, 0);
}

static void reach_hole_without_waiting(void *arg)
{
    struct hole *h = arg;
    struct timeval never = {-1, 0};
    for (int i = 0; i < 2; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (i ? SOCK_NONBLOCK : 0), 0);
        if (!i)
            CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &never, sizeof never), ==, 0);
        double start = now_ms();
        CHECK_ERRNO(connect(fd, AS_ADDRESS(h->at), sizeof h->at), EINPROGRESS);
        CHECK_ERRNO(connect(fd, AS_ADDRESS(h->at), sizeof h->at), EALREADY);
        CHECK_AT_ONCE(start);
        CHECK_INT(close(fd), ==, 0);
    }
}

STATEMENT(a_connect_that_is_not_answered_ends_at_the_sockets_timeout_or_the_kernels)
{
    struct hole h = dig();
    struct flow *flows[] = {begin(reach_hole_in_time, &h), begin(reach_hole_for_long, &h),
                            begin(reach_hole_without_waiting, &h)};
    for (int i = 0; i < 3; i++)
        end(flows[i]);
    fill_in(&h);
}

static void reach_hole_in_vain(void *arg)
{
    struct hole *h = arg;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){1, 0}, sizeof(struct timeval)), ==, 0);
    double start = now_ms();
    CHECK_ERRNO(connect(fd, AS_ADDRESS(h->at), sizeof h->at), EINPROGRESS);
    CHECK_AFTER(start, 1000);
    CHECK_INT(close(fd), ==, 0);
}

/* Where io_uring cannot be had helpers connect, and those are not many. */
static bool has_uring(void)
{
    struct io_uring_params params = {0};
    int fd = (int)syscall(SYS_io_uring_setup, 4, &params);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

STATEMENT(connects_that_are_not_answered_hold_up_no_other)
{
    enum { MANY = 100 };
    struct sockaddr_in at;
    struct flow *flows[MANY];
    if (!is_kernel() && !has_uring())
        SKIP("there is no io_uring here");
    struct hole h = dig();
    int l = listener(16, &at), fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (int i = 0; i < MANY; i++)
        flows[i] = begin(reach_hole_in_vain, &h);
    usleep(20000);
    double start = now_ms();
    CHECK_INT(connect(fd, AS_ADDRESS(at), sizeof at), ==, 0);
    CHECK_AT_ONCE(start);
    for (int i = 0; i < MANY; i++)
        end(flows[i]);
    close(fd);
    close(l);
    fill_in(&h);
}

static void accept_two(void *arg)
{
    int l = *(int *)arg;
    usleep(200000);
    for (int i = 0; i < 2; i++) {
        int fd = accept(l, NULL, NULL);
        CHECK_INT(fd, >=, 0);
        close(fd);
    }
}

STATEMENT(a_connect_that_waits_succeeds_when_there_is_room)
{
    struct hole h = dig();
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(dup2(fd, h.held[1]), ==, h.held[1]); /* who waits already does so no more */
    double start = now_ms();
    struct flow *accepts = begin(accept_two, &h.listener);
    errno = 4321;
    CHECK_INT(connect(fd, AS_ADDRESS(h.at), sizeof h.at), ==, 0);
    CHECK_INT(errno, ==, 4321);
    CHECK_AFTER(start, 200);
    CHECK_ERRNO(connect(fd, AS_ADDRESS(h.at), sizeof h.at), EISCONN);
    end(accepts);
    close(fd);
    fill_in(&h);
}

STATEMENT(a_refused_connect_says_so_once_and_the_socket_can_try_again)
{
    struct sockaddr_in at;
    int gone = bound(SOCK_STREAM, &at), fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    double start = now_ms();
    CHECK_ERRNO(connect(fd, AS_ADDRESS(at), sizeof at), ECONNREFUSED);
    CHECK_INT(so_error(fd), ==, 0);
    CHECK_ERRNO(connect(fd, AS_ADDRESS(at), sizeof at), ECONNREFUSED);
    CHECK_INT(so_error(fd), ==, 0);
    CHECK_AT_ONCE(start);
    CHECK_BLOCKING(fd);
    CHECK_INT(listen(gone, 1), ==, 0);
    CHECK_INT(connect(fd, AS_ADDRESS(at), sizeof at), ==, 0);
    close(fd);
    close(gone);
}

STATEMENT(a_connect_to_an_address_that_cannot_be_fails_at_once)
{
    struct sockaddr_in at;
    int l = listener(1, &at), fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un nowhere = {.sun_family = AF_UNIX, .sun_path = "/nowhere/at/all"};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    double start = now_ms();
    CHECK_ERRNO(connect(fd, AS_ADDRESS(at), 4), EINVAL);
    CHECK_ERRNO(connect(fd, AS_ADDRESS(at), 0), EINVAL);
    CHECK_ERRNO(connect(fd, AS_ADDRESS(at), 1000), EINVAL);
    CHECK_ERRNO(connect(fd, AS_ADDRESS(six), sizeof six), EAFNOSUPPORT);
    CHECK_ERRNO(connect(-1, AS_ADDRESS(at), sizeof at), EBADF);
    CHECK_ERRNO(connect(l, AS_ADDRESS(at), sizeof at), EISCONN);
    close(fd);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_ERRNO(connect(fd, AS_ADDRESS(nowhere), sizeof nowhere), ENOENT);
    CHECK_ERRNO(connect(fd, AS_ADDRESS(at), sizeof at), EINVAL);
    CHECK_AT_ONCE(start);
    close(fd);
    close(l);
}

/* A listener without a name in the file system, whose queue is full. */
static int full_unix_listener(int type, struct sockaddr_un *at, socklen_t *size, int *held)
{
    int l = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    *at = (struct sockaddr_un){.sun_family = AF_UNIX};
    CHECK_INT(bind(l, (struct sockaddr *)at, sizeof at->sun_family), ==, 0);
    *size = sizeof *at;
    CHECK_INT(getsockname(l, (struct sockaddr *)at, size), ==, 0);
    CHECK_INT(listen(l, 0), ==, 0);
    *held = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    CHECK_INT(connect(*held, (struct sockaddr *)at, *size), ==, 0);
    return l;
}

static void check_unix_connect(int type)
{
    struct sockaddr_un at;
    socklen_t size;
    int held, l = full_unix_listener(type, &at, &size, &held), fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    set_timeout(fd, SO_SNDTIMEO, 100);
    double start = now_ms();
    CHECK_ERRNO(connect(fd, AS_ADDRESS(at), size), EAGAIN);
    CHECK_AFTER(start, 100);
    CHECK_BLOCKING(fd);
    CHECK_INT(fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK), ==, 0);
    start = now_ms();
    CHECK_ERRNO(connect(fd, AS_ADDRESS(at), size), EAGAIN);
    CHECK_AT_ONCE(start);
    CHECK_INT(fcntl(fd, F_SETFL, O_RDWR), ==, 0);
    set_timeout(fd, SO_SNDTIMEO, 0);
    start = now_ms();
    struct flow *accepts = begin(accept_two, &l);
    CHECK_INT(connect(fd, AS_ADDRESS(at), size), ==, 0);
    CHECK_AFTER(start, 200);
    end(accepts);
    CHECK_ERRNO(connect(fd, AS_ADDRESS(at), size), EISCONN);
    close(fd);
    close(held);
    close(l);
}

STATEMENT(a_connect_to_a_full_unix_socket_waits_for_its_turn)
{
    check_unix_connect(SOCK_STREAM);
    check_unix_connect(SOCK_SEQPACKET);
}

STATEMENT(a_connect_that_waits_for_a_unix_socket_is_refused_when_that_closes)
{
    struct sockaddr_un at;
    socklen_t size;
    int held, l = full_unix_listener(SOCK_STREAM, &at, &size, &held), fd = socket(AF_UNIX, SOCK_STREAM, 0);
    struct later closes = {.fd = l, .after = 80, .what = just_close};
    double start = now_ms();
    struct flow *closing = begin(do_later, &closes);
    CHECK_ERRNO(connect(fd, AS_ADDRESS(at), size), ECONNREFUSED);
    CHECK_AFTER(start, 80);
    end(closing);
    close(fd);
    close(held);
}

STATEMENT(a_connect_to_a_virtual_machine_waits)
{
    int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        SKIP("the kernel has no AF_VSOCK");
    struct sockaddr_vm nowhere = {.svm_family = AF_VSOCK, .svm_cid = 424242, .svm_port = 4242};
    struct timeval limit = {0, 300000};
    CHECK_INT(setsockopt(fd, AF_VSOCK, SO_VM_SOCKETS_CONNECT_TIMEOUT, &limit, sizeof limit), ==, 0);
    double start = now_ms();
    int rc = connect(fd, AS_ADDRESS(nowhere), sizeof nowhere), error = errno;
    CHECK_INT(rc, ==, -1);
    printf("AF_VSOCK: errno %d after %.0f ms\n", error, now_ms() - start);
    if (error == ETIMEDOUT)
        CHECK_AFTER(start, 300);
    else
        CHECK_AT_ONCE(start);
    close(fd);
}

STATEMENT(a_datagram_socket_connects_at_once_and_can_be_disconnected)
{
    struct sockaddr_in at, other, peer;
    socklen_t size = sizeof peer;
    int in = bound(SOCK_DGRAM, &at), third = bound(SOCK_DGRAM, &other);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    char text[8];
    double start = now_ms();
    CHECK_INT(connect(fd, AS_ADDRESS(at), sizeof at), ==, 0);
    CHECK_INT(getpeername(fd, AS_ADDRESS(peer), &size), ==, 0);
    CHECK_INT(peer.sin_port, ==, at.sin_port);
    CHECK_INT(send(fd, "abc", 3, 0), ==, 3);
    CHECK_INT(recv(in, text, 8, 0), ==, 3);
    CHECK_INT(connect(fd, AS_ADDRESS(other), sizeof other), ==, 0);
    CHECK_INT(send(fd, "ab", 2, 0), ==, 2);
    CHECK_INT(recv(third, text, 8, 0), ==, 2);
    CHECK_INT(connect(fd, &(struct sockaddr){.sa_family = AF_UNSPEC}, sizeof(struct sockaddr)), ==, 0);
    size = sizeof peer;
    CHECK_ERRNO(getpeername(fd, AS_ADDRESS(peer), &size), ENOTCONN);
    CHECK_ERRNO(send(fd, "abc", 3, 0), EDESTADDRREQ);
    CHECK_INT(sendto(fd, "abcd", 4, 0, AS_ADDRESS(at), sizeof at), ==, 4);
    CHECK_INT(recv(in, text, 8, 0), ==, 4);
    CHECK_AT_ONCE(start);
    close(fd);
    close(in);
    close(third);
}

STATEMENT(a_stream_can_be_disconnected_and_connected_again)
{
    struct sockaddr_in at;
    int l = listener(8, &at), fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(connect(fd, AS_ADDRESS(at), sizeof at), ==, 0);
        int other = accept(l, NULL, NULL);
        CHECK_INT(other, >=, 0);
        CHECK_INT(connect(fd, &(struct sockaddr){.sa_family = AF_UNSPEC}, sizeof(struct sockaddr)), ==, 0);
        close(other);
    }
    close(fd);
    close(l);
}

static void connect_many(void *arg)
{
    for (int i = 0; i < 20; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        char c;
        CHECK_INT(connect(fd, arg, sizeof(struct sockaddr_in)), ==, 0);
        CHECK_INT(send(fd, "x", 1, 0), ==, 1);
        CHECK_INT(recv(fd, &c, 1, 0), ==, 1);
        CHECK_INT(close(fd), ==, 0);
    }
}

static void answer_many(void *arg)
{
    for (int i = 0; i < 100; i++) {
        int fd = accept(*(int *)arg, NULL, NULL);
        char c;
        CHECK_INT(fd, >=, 0);
        CHECK_INT(read(fd, &c, 1), ==, 1);
        CHECK_INT(write(fd, &c, 1), ==, 1);
        CHECK_INT(read(fd, &c, 1), ==, 0);
        CHECK_INT(close(fd), ==, 0);
    }
}

STATEMENT(many_connect_to_one_who_answers_in_turn)
{
    struct sockaddr_in at;
    int l = listener(100, &at);
    struct flow *flows[6] = {begin(answer_many, &l)};
    for (int i = 1; i < 6; i++)
        flows[i] = i % 2 ? begin(connect_many, &at) : begin_elsewhere(connect_many, &at);
    for (int i = 0; i < 6; i++)
        end(flows[i]);
    close(l);
}

STATEMENTS(connect, a_connect_that_is_not_answered_ends_at_the_sockets_timeout_or_the_kernels,
           connects_that_are_not_answered_hold_up_no_other, a_connect_that_waits_succeeds_when_there_is_room,
           a_refused_connect_says_so_once_and_the_socket_can_try_again,
           a_connect_to_an_address_that_cannot_be_fails_at_once, a_connect_to_a_full_unix_socket_waits_for_its_turn,
           a_connect_that_waits_for_a_unix_socket_is_refused_when_that_closes, a_connect_to_a_virtual_machine_waits,
           a_datagram_socket_connects_at_once_and_can_be_disconnected, a_stream_can_be_disconnected_and_connected_again,
           many_connect_to_one_who_answers_in_turn)
