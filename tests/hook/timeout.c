/*
 * tests/hook/timeout.c: how long a call waits: as long as the socket's options say, and never less than it was asked to.
 */
#include "hook/peer.h"

#include <poll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#ifndef SO_RCVTIMEO_NEW
#define SO_RCVTIMEO_NEW 66
#define SO_SNDTIMEO_NEW 67
#endif

STATEMENT(without_a_timeout_a_receive_waits_for_five_seconds_and_more)
{
    int pair[2];
    char c;
    tcp_pair(pair);
    struct writer w = {pair[1], 5000, "x", 1};
    double start = now_ms();
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(recv(pair[0], &c, 1, 0), ==, 1);
    CHECK_AFTER(start, 5000);
    end(writes);
    close_pair(pair);
}

static ssize_t by_recv(int fd)
{
    char c;
    return recv(fd, &c, 1, 0);
}

static ssize_t by_read(int fd)
{
    char c;
    return read(fd, &c, 1);
}

static ssize_t by_readv(int fd)
{
    char c;
    return readv(fd, &(struct iovec){&c, 1}, 1);
}

static ssize_t by_recvmsg(int fd)
{
    char c;
    return recvmsg(fd, &(struct msghdr){.msg_iov = &(struct iovec){&c, 1}, .msg_iovlen = 1}, 0);
}

static ssize_t by_recvfrom(int fd)
{
    char c;
    struct sockaddr_in from;
    return recvfrom(fd, &c, 1, 0, AS_ADDRESS(from), &(socklen_t){sizeof from});
}

static ssize_t by_recvmmsg(int fd)
{
    char c;
    struct mmsghdr m = {.msg_hdr = {.msg_iov = &(struct iovec){&c, 1}, .msg_iovlen = 1}};
    return recvmmsg(fd, &m, 1, 0, NULL);
}

static ssize_t by_accept(int fd)
{
    return accept(fd, NULL, NULL);
}

static ssize_t by_accept4(int fd)
{
    struct sockaddr_in from;
    return accept4(fd, AS_ADDRESS(from), &(socklen_t){sizeof from}, SOCK_CLOEXEC);
}

struct attempt {
    ssize_t (*by)(int fd);
    int fd;
};

static void time_out(void *arg)
{
    const struct attempt *a = arg;
    for (int i = 0; i < 3; i++) {
        double start = now_ms();
        CHECK_ERRNO(a->by(a->fd), EAGAIN);
        CHECK_AFTER(start, 150);
    }
}

STATEMENT(every_call_that_receives_keeps_to_the_timeout)
{
    static ssize_t (*const ways[])(int) = {by_recv,     by_read,     by_readv,  by_recvmsg,
                                           by_recvfrom, by_recvmmsg, by_accept, by_accept4};
    enum { WAYS = sizeof ways / sizeof ways[0] };
    int pairs[WAYS][2];
    struct attempt attempts[WAYS];
    struct flow *flows[WAYS];
    for (int i = 0; i < WAYS; i++) {
        struct sockaddr_in at;
        if (ways[i] == by_accept || ways[i] == by_accept4)
            pairs[i][0] = listener(1, &at), pairs[i][1] = dup(pairs[i][0]);
        else
            tcp_pair(pairs[i]);
        set_timeout(pairs[i][0], SO_RCVTIMEO, 150);
        attempts[i] = (struct attempt){ways[i], pairs[i][0]};
        flows[i] = begin(time_out, &attempts[i]);
    }
    for (int i = 0; i < WAYS; i++) {
        end(flows[i]);
        close_pair(pairs[i]);
    }
}

STATEMENT(a_timeout_of_zero_is_for_ever_again)
{
    int pair[2];
    char c;
    unix_pair(pair, SOCK_STREAM);
    set_timeout(pair[0], SO_RCVTIMEO, 50);
    CHECK_ERRNO(recv(pair[0], &c, 1, 0), EAGAIN);
    set_timeout(pair[0], SO_RCVTIMEO, 0);
    struct writer w = {pair[1], 400, "x", 1};
    double start = now_ms();
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(recv(pair[0], &c, 1, 0), ==, 1);
    CHECK_AFTER(start, 400);
    end(writes);
    close_pair(pair);
}

STATEMENT(a_timeout_does_not_shorten_a_wait_that_is_shorter_nor_the_next_one)
{
    int pair[2];
    char c;
    tcp_pair(pair);
    set_timeout(pair[0], SO_RCVTIMEO, 3000);
    for (int i = 0; i < 3; i++) {
        struct writer w = {pair[1], 150, "x", 1};
        double start = now_ms();
        struct flow *writes = begin(write_later, &w);
        CHECK_INT(recv(pair[0], &c, 1, 0), ==, 1);
        CHECK_AFTER(start, 150);
        end(writes);
    }
    close_pair(pair);
}

static void set_short_timeout(int fd)
{
    set_timeout(fd, SO_RCVTIMEO, 10);
}

STATEMENT(a_timeout_that_is_set_while_a_call_waits_is_for_the_next_one)
{
    int pair[2];
    char c;
    tcp_pair(pair);
    struct later sets = {.fd = pair[0], .after = 30, .what = set_short_timeout};
    struct writer w = {pair[1], 200, "x", 1};
    double start = now_ms();
    struct flow *flows[] = {begin(do_later, &sets), begin(write_later, &w)};
    CHECK_INT(recv(pair[0], &c, 1, 0), ==, 1);
    CHECK_AFTER(start, 200);
    start = now_ms();
    CHECK_ERRNO(recv(pair[0], &c, 1, 0), EAGAIN);
    CHECK_AFTER(start, 10);
    end(flows[0]);
    end(flows[1]);
    close_pair(pair);
}

static struct timeval timeout_of(int fd, int option)
{
    struct timeval t = {-1, -1};
    socklen_t size = sizeof t;
    CHECK_INT(getsockopt(fd, SOL_SOCKET, option, &t, &size), ==, 0);
    CHECK_INT(size, ==, sizeof t);
    return t;
}

STATEMENT(a_timeout_that_cannot_be_is_refused_and_changes_nothing)
{
    int pair[2], whole = 1;
    char c;
    tcp_pair(pair);
    set_timeout(pair[0], SO_RCVTIMEO, 100);
    for (int option = 0; option < 2; option++) {
        int name = option ? SO_SNDTIMEO : SO_RCVTIMEO;
        struct timeval wrong = {0, 1000000}, negative = {5, -1};
        CHECK_ERRNO(setsockopt(pair[0], SOL_SOCKET, name, &wrong, sizeof wrong), EDOM);
        CHECK_ERRNO(setsockopt(pair[0], SOL_SOCKET, name, &negative, sizeof negative), EDOM);
        CHECK_ERRNO(setsockopt(pair[0], SOL_SOCKET, name, &whole, sizeof whole), EINVAL);
        CHECK_ERRNO(setsockopt(pair[0], SOL_SOCKET, name, NULL, sizeof wrong), EFAULT);
        CHECK_ERRNO(setsockopt(-1, SOL_SOCKET, name, &wrong, sizeof wrong), EBADF);
    }
    CHECK_INT(timeout_of(pair[0], SO_RCVTIMEO).tv_usec, ==, 100000);
    double start = now_ms();
    CHECK_ERRNO(recv(pair[0], &c, 1, 0), EAGAIN);
    CHECK_AFTER(start, 100);
    close_pair(pair);
}

static void set_never(int fd, int option)
{
    CHECK_INT(setsockopt(fd, SOL_SOCKET, option, &(struct timeval){-1, 0}, sizeof(struct timeval)), ==, 0);
}

STATEMENT(a_negative_timeout_means_never_to_wait)
{
    int pair[2];
    char c;
    tcp_pair(pair);
    set_never(pair[0], SO_RCVTIMEO);
    CHECK_INT(timeout_of(pair[0], SO_RCVTIMEO).tv_sec, ==, 0);
    CHECK_INT(timeout_of(pair[0], SO_RCVTIMEO).tv_usec, ==, 0);
    double start = now_ms();
    for (int i = 0; i < 200; i++) { /* not even for a tick each */
        CHECK_ERRNO(recv(pair[0], &c, 1, 0), EAGAIN);
        CHECK_ERRNO(read(pair[0], &c, 1), EAGAIN);
    }
    int copy = dup(pair[0]); /* it is the socket's, not the number's */
    CHECK_ERRNO(recv(copy, &c, 1, 0), EAGAIN);
    close(copy);
    set_never(pair[0], SO_SNDTIMEO_NEW);
    fill(pair[0]);
    CHECK_ERRNO(send(pair[0], &c, 1, 0), EAGAIN);
    CHECK_AT_ONCE(start);
    CHECK_INT(send(pair[1], "xy", 2, 0), ==, 2);
    CHECK_INT(poll(&(struct pollfd){.fd = pair[0], .events = POLLIN}, 1, 5000), ==, 1);
    CHECK_INT(recv(pair[0], &c, 1, 0), ==, 1);
    CHECK_INT(read(pair[0], &c, 1), ==, 1);
    CHECK_BLOCKING(pair[0]);
    close_pair(pair);
}

STATEMENT(a_negative_timeout_ends_with_the_next_one)
{
    int pair[2];
    char c;
    for (int i = 0; i < 2; i++) {
        tcp_pair(pair);
        set_never(pair[0], SO_RCVTIMEO);
        set_timeout(pair[0], i ? SO_RCVTIMEO_NEW : SO_RCVTIMEO, 60);
        double start = now_ms();
        CHECK_ERRNO(recv(pair[0], &c, 1, 0), EAGAIN);
        CHECK_AFTER(start, 60);
        set_never(pair[0], SO_RCVTIMEO);
        set_timeout(pair[0], SO_RCVTIMEO, 0); /* for ever again */
        struct writer w = {pair[1], 60, "x", 1};
        start = now_ms();
        struct flow *writes = begin(write_later, &w);
        CHECK_INT(recv(pair[0], &c, 1, 0), ==, 1);
        CHECK_AFTER(start, 60);
        end(writes);
        close_pair(pair);
    }
}

STATEMENT(any_number_of_sockets_may_be_told_never_to_wait)
{
    char c;
    for (int i = 0; i < 6000; i++) {
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        set_never(fd, SO_RCVTIMEO);
        if (i % 500 == 499) {
            double start = now_ms();
            CHECK_ERRNO(recv(fd, &c, 1, 0), EAGAIN);
            CHECK_AT_ONCE(start);
        }
        close(fd);
    }
}

/* A difference: nobody can ask the kernel for it, so who sets it past the hooks is not heard. */
STATEMENT(a_negative_timeout_that_was_set_past_the_hooks_is_not_known)
{
    int pair[2];
    char c;
    struct timeval never = {-1, 0};
    tcp_pair(pair);
    CHECK_INT(syscall(SYS_setsockopt, pair[0], SOL_SOCKET, SO_RCVTIMEO, &never, sizeof never), ==, 0);
    struct writer w = {pair[1], 100, "x", 1};
    double start = now_ms();
    struct flow *writes = begin(write_later, &w);
    if (is_kernel()) {
        CHECK_ERRNO(recv(pair[0], &c, 1, 0), EAGAIN);
        CHECK_AT_ONCE(start);
    } else {
        CHECK_INT(recv(pair[0], &c, 1, 0), ==, 1);
        CHECK_AFTER(start, 100);
    }
    end(writes);
    close_pair(pair);
}

/* The same of SO_RCVLOWAT: it would have to be asked for before every call. (Nobody else here sets one.) */
STATEMENT(a_low_mark_that_was_set_past_the_hooks_is_not_known)
{
    int pair[2], mark = 4;
    char some[8];
    unix_pair(pair, SOCK_STREAM);
    CHECK_INT(syscall(SYS_setsockopt, pair[0], SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark), ==, 0);
    CHECK_INT(send(pair[1], "x", 1, 0), ==, 1);
    struct writer w = {pair[1], 60, "yyy", 3};
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(recv(pair[0], some, sizeof some, 0), ==, is_kernel() ? 4 : 1);
    end(writes);
    close_pair(pair);
}

STATEMENT(timeouts_by_their_new_names_are_the_same)
{
    int pair[2];
    char c;
    struct timeval t = {0, 100000};
    tcp_pair(pair);
    CHECK_INT(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO_NEW, &t, sizeof t), ==, 0);
    CHECK_INT(setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO_NEW, &t, sizeof t), ==, 0);
    CHECK_INT(timeout_of(pair[0], SO_RCVTIMEO_NEW).tv_usec, ==, 100000);
    CHECK_INT(timeout_of(pair[0], SO_RCVTIMEO).tv_usec, ==, 100000);
    CHECK_INT(timeout_of(pair[0], SO_SNDTIMEO).tv_usec, ==, 100000);
    double start = now_ms();
    CHECK_ERRNO(recv(pair[0], &c, 1, 0), EAGAIN);
    CHECK_AFTER(start, 100);
    fill(pair[0]);
    usleep(50000);
    fill(pair[0]);
    start = now_ms();
    CHECK_ERRNO(send(pair[0], &c, 1, 0), EAGAIN);
    CHECK_AFTER(start, 100);
    close_pair(pair);
}

STATEMENT(each_direction_has_a_timeout_of_its_own)
{
    int pair[2];
    char c;
    unix_pair(pair, SOCK_STREAM);
    set_timeout(pair[0], SO_SNDTIMEO, 20);
    struct writer w = {pair[1], 150, "x", 1};
    double start = now_ms();
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(recv(pair[0], &c, 1, 0), ==, 1);
    CHECK_AFTER(start, 150);
    end(writes);
    set_timeout(pair[0], SO_SNDTIMEO, 0);
    set_timeout(pair[0], SO_RCVTIMEO, 20);
    size_t bytes = fill(pair[0]);
    struct reader r = {.fd = pair[1], .after_ms = 150, .chunk = 65536, .most = bytes, .keep = true};
    start = now_ms();
    struct flow *reads = begin(read_slowly, &r);
    CHECK_INT(send(pair[0], &c, 1, 0), ==, 1);
    CHECK_AFTER(start, 150);
    end(reads);
    close_pair(pair);
}

STATEMENT(a_timeout_on_a_duplicate_is_one_on_the_original)
{
    int pair[2];
    char c;
    tcp_pair(pair);
    int copy = dup(pair[0]);
    set_timeout(copy, SO_RCVTIMEO, 60);
    double start = now_ms();
    CHECK_ERRNO(read(pair[0], &c, 1), EAGAIN);
    CHECK_AFTER(start, 60);
    close(copy);
    close_pair(pair);
}

STATEMENT(poll_and_select_know_of_no_timeout_but_their_own)
{
    int pair[2];
    tcp_pair(pair);
    set_timeout(pair[0], SO_RCVTIMEO, 50);
    double start = now_ms();
    struct pollfd p = {pair[0], POLLIN, 0};
    CHECK_INT(poll(&p, 1, 250), ==, 0);
    CHECK_AFTER(start, 250);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(pair[0], &set);
    start = now_ms();
    CHECK_INT(select(pair[0] + 1, &set, NULL, NULL, &(struct timeval){0, 250000}), ==, 0);
    CHECK_AFTER(start, 250);
    struct writer w = {pair[1], 150, "x", 1};
    start = now_ms();
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(poll(&p, 1, -1), ==, 1);
    CHECK_AFTER(start, 150);
    end(writes);
    close_pair(pair);
}

static void never_early(void *arg)
{
    unsigned us = *(unsigned *)arg;
    struct timespec t = {us / 1000000, us % 1000000 * 1000L};
    for (int i = 0; i < 20; i++) {
        double start = now_ms();
        CHECK_INT(nanosleep(&t, NULL), ==, 0);
        CHECK_AFTER(start, us / 1e3);
        start = now_ms();
        CHECK_INT(clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL), ==, 0);
        CHECK_AFTER(start, us / 1e3);
        start = now_ms();
        CHECK_INT(usleep(us), ==, 0);
        CHECK_AFTER(start, us / 1e3);
        start = now_ms();
        struct timeval limit = {0, us};
        CHECK_INT(select(0, NULL, NULL, NULL, &limit), ==, 0);
        CHECK_AFTER(start, us / 1e3);
        start = now_ms();
        CHECK_INT(ppoll(NULL, 0, &t, NULL), ==, 0);
        CHECK_AFTER(start, us / 1e3);
        start = now_ms();
        CHECK_INT(pselect(0, NULL, NULL, NULL, &t, NULL), ==, 0);
        CHECK_AFTER(start, us / 1e3);
        int ms = (int)(us + 999) / 1000;
        start = now_ms();
        CHECK_INT(poll(NULL, 0, ms), ==, 0);
        CHECK_AFTER(start, ms);
    }
}

STATEMENT(a_timed_wait_never_ends_early)
{
    static unsigned times[] = {1, 300, 999, 1000, 1001, 3700, 10000};
    enum { TIMES = sizeof times / sizeof times[0] };
    struct flow *flows[TIMES];
    for (int i = 0; i < TIMES; i++)
        flows[i] = begin(never_early, &times[i]);
    for (int i = 0; i < TIMES; i++)
        end(flows[i]);
}

STATEMENTS(timeout, without_a_timeout_a_receive_waits_for_five_seconds_and_more,
           every_call_that_receives_keeps_to_the_timeout, a_timeout_of_zero_is_for_ever_again,
           a_timeout_does_not_shorten_a_wait_that_is_shorter_nor_the_next_one,
           a_timeout_that_is_set_while_a_call_waits_is_for_the_next_one,
           a_timeout_that_cannot_be_is_refused_and_changes_nothing, a_negative_timeout_means_never_to_wait,
           a_negative_timeout_ends_with_the_next_one, any_number_of_sockets_may_be_told_never_to_wait,
           a_negative_timeout_that_was_set_past_the_hooks_is_not_known,
           a_low_mark_that_was_set_past_the_hooks_is_not_known, timeouts_by_their_new_names_are_the_same,
           each_direction_has_a_timeout_of_its_own, a_timeout_on_a_duplicate_is_one_on_the_original,
           poll_and_select_know_of_no_timeout_but_their_own, a_timed_wait_never_ends_early)
