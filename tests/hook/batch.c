/*
 * tests/hook/batch.c: recvmmsg: when it has enough.
 */
#include "hook/peer.h"

#include <time.h>

enum { COUNT = 3 };

static void *volatile nowhere = (void *)(uintptr_t)8; /* the compiler must not know */

struct batch {
    char room[COUNT][16];
    struct iovec parts[COUNT];
    struct mmsghdr messages[COUNT];
};

static struct mmsghdr *set_up(struct batch *b)
{
    memset(b, 0, sizeof *b);
    for (int i = 0; i < COUNT; i++) {
        b->parts[i] = (struct iovec){b->room[i], sizeof b->room[i]};
        b->messages[i].msg_hdr = (struct msghdr){.msg_iov = &b->parts[i], .msg_iovlen = 1};
    }
    return b->messages;
}

static void send_two(int fd)
{
    CHECK_INT(send(fd, "a", 1, 0), ==, 1);
    CHECK_INT(send(fd, "bc", 2, 0), ==, 2);
}

STATEMENT(a_batch_waits_until_it_is_full)
{
    int pair[2];
    struct batch b;
    udp_pair(pair);
    send_two(pair[1]);
    struct writer w = {pair[1], 60, "def", 3};
    double start = now_ms();
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(recvmmsg(pair[0], set_up(&b), COUNT, 0, NULL), ==, COUNT);
    CHECK_AFTER(start, 60);
    end(writes);
    for (unsigned i = 0; i < COUNT; i++)
        CHECK_INT(b.messages[i].msg_len, ==, i + 1);
    CHECK_STR(b.room[2], "def");
    close_pair(pair);
}

STATEMENT(a_batch_ends_with_what_it_has_at_the_sockets_timeout)
{
    int pair[2];
    struct batch b;
    udp_pair(pair);
    set_timeout(pair[0], SO_RCVTIMEO, 80);
    send_two(pair[1]);
    double start = now_ms();
    CHECK_INT(recvmmsg(pair[0], set_up(&b), COUNT, 0, NULL), ==, 2);
    CHECK_AFTER(start, 80);
    start = now_ms();
    CHECK_ERRNO(recvmmsg(pair[0], set_up(&b), COUNT, 0, NULL), EAGAIN);
    CHECK_AFTER(start, 80);
    close_pair(pair);
}

STATEMENT(a_batch_that_waits_for_one_takes_what_is_there)
{
    int pair[2];
    struct batch b;
    udp_pair(pair);
    send_two(pair[1]);
    double start = now_ms();
    CHECK_INT(recvmmsg(pair[0], set_up(&b), COUNT, MSG_WAITFORONE, NULL), ==, 2);
    CHECK_AT_ONCE(start);
    struct writer w = {pair[1], 60, "def", 3};
    start = now_ms();
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(recvmmsg(pair[0], set_up(&b), COUNT, MSG_WAITFORONE, NULL), ==, 1);
    CHECK_AFTER(start, 60);
    end(writes);
    close_pair(pair);
}

STATEMENT(a_batch_that_may_not_wait_does_not)
{
    int pair[2];
    struct batch b;
    udp_pair(pair);
    double start = now_ms();
    CHECK_ERRNO(recvmmsg(pair[0], set_up(&b), COUNT, MSG_DONTWAIT, NULL), EAGAIN);
    send_two(pair[1]);
    CHECK_INT(recvmmsg(pair[0], set_up(&b), COUNT, MSG_DONTWAIT, NULL), ==, 2);
    CHECK_INT(recvmmsg(pair[0], set_up(&b), 0, 0, NULL), ==, 0);
    CHECK_AT_ONCE(start);
    close_pair(pair);
}

STATEMENT(a_batchs_own_timeout_is_looked_at_after_each_datagram_only)
{
    int pair[2];
    struct batch b;
    udp_pair(pair);
    struct timespec limit = {.tv_nsec = 50000000};
    struct writer w = {pair[1], 150, "def", 3};
    double start = now_ms();
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(recvmmsg(pair[0], set_up(&b), COUNT, 0, &limit), ==, 1);
    CHECK_AFTER(start, 150);
    CHECK_INT(limit.tv_sec, ==, 0);
    CHECK_INT(limit.tv_nsec, ==, 0);
    end(writes);
    limit = (struct timespec){.tv_sec = 100};
    send_two(pair[1]);
    CHECK_INT(send(pair[1], "def", 3, 0), ==, 3);
    CHECK_INT(recvmmsg(pair[0], set_up(&b), COUNT, 0, &limit), ==, COUNT);
    CHECK_INT(limit.tv_sec, ==, 99);
    limit = (struct timespec){0, 0};
    send_two(pair[1]);
    CHECK_INT(recvmmsg(pair[0], set_up(&b), COUNT, 0, &limit), ==, 1);
    limit = (struct timespec){0, 1000000000};
    CHECK_ERRNO(recvmmsg(pair[0], set_up(&b), COUNT, 0, &limit), EINVAL);
    close_pair(pair);
}

STATEMENT(an_error_in_the_middle_of_a_batch_is_for_the_next_call)
{
    int pair[2];
    struct batch b;
    char c;
    udp_pair(pair);
    set_timeout(pair[0], SO_RCVTIMEO, 2000);
    send_two(pair[1]);
    close(pair[1]);
    CHECK_INT(recv(pair[0], &c, 1, 0), ==, 1);
    b.messages[0].msg_len = 0;
    CHECK_INT(send(pair[0], "x", 1, 0), ==, 1); /* it is refused: that comes first */
    CHECK_ERRNO(recvmmsg(pair[0], set_up(&b), COUNT, 0, NULL), ECONNREFUSED);
    CHECK_INT(recvmmsg(pair[0], set_up(&b), COUNT, MSG_DONTWAIT, NULL), ==, 1);
    close(pair[0]);
}

static void send_in_vain(int fd)
{
    CHECK_INT(send(fd, "x", 1, 0), ==, 1);
}

STATEMENT(an_error_that_comes_while_a_batch_waits_is_for_the_next_call)
{
    int pair[2];
    struct batch b;
    char c;
    udp_pair(pair);
    set_timeout(pair[0], SO_RCVTIMEO, 2000);
    CHECK_INT(send(pair[1], "a", 1, 0), ==, 1);
    close(pair[1]);
    struct later sends = {.fd = pair[0], .after = 60, .what = send_in_vain};
    double start = now_ms();
    struct flow *flow = begin(do_later, &sends);
    errno = 4321;
    CHECK_INT(recvmmsg(pair[0], set_up(&b), COUNT, 0, NULL), ==, 1);
    CHECK_INT(errno, ==, 4321);
    CHECK_AFTER(start, 60);
    end(flow);
    CHECK_ERRNO(recv(pair[0], &c, 1, MSG_DONTWAIT), ECONNREFUSED);
    CHECK_ERRNO(recv(pair[0], &c, 1, MSG_DONTWAIT), EAGAIN);
    close(pair[0]);
}

STATEMENT(each_message_of_a_batch_has_the_sockets_timeout_for_itself)
{
    int pair[2];
    struct batch b;
    udp_pair(pair);
    set_timeout(pair[0], SO_RCVTIMEO, 800);
    CHECK_INT(send(pair[1], "a", 1, 0), ==, 1);
    struct writer w = {pair[1], 400, "bc", 2};
    double start = now_ms();
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(recvmmsg(pair[0], set_up(&b), COUNT, 0, NULL), ==, 2);
    CHECK_AFTER(start, 1200);
    end(writes);
    close_pair(pair);
}

STATEMENT(the_rest_of_a_batchs_own_timeout_is_told_after_a_wait)
{
    int pair[2];
    struct batch b;
    udp_pair(pair);
    set_timeout(pair[0], SO_RCVTIMEO, 100);
    struct timespec limit = {.tv_sec = 100};
    CHECK_ERRNO(recvmmsg(pair[0], set_up(&b), COUNT, 0, &limit), EAGAIN);
    CHECK_INT(limit.tv_sec, ==, 100);
    struct writer w = {pair[1], 60, "bc", 2};
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(recvmmsg(pair[0], set_up(&b), 1, 0, &limit), ==, 1);
    end(writes);
    CHECK_INT(limit.tv_sec, ==, 99);
    close_pair(pair);
}

STATEMENT(a_batch_of_none_is_refused_where_one_would_be)
{
    struct mmsghdr none = {0};
    int pair[2], pipefd[2];
    unix_pair(pair, SOCK_DGRAM);
    CHECK_INT(pipe2(pipefd, O_CLOEXEC), ==, 0);
    CHECK_ERRNO(recvmmsg(-1, &none, 0, 0, NULL), EBADF);
    CHECK_ERRNO(sendmmsg(-1, &none, 0, 0), EBADF);
    CHECK_ERRNO(recvmmsg(pipefd[0], &none, 0, 0, NULL), ENOTSOCK);
    CHECK_ERRNO(sendmmsg(pipefd[1], &none, 0, 0), ENOTSOCK);
    CHECK_INT(recvmmsg(pair[0], &none, 0, 0, NULL), ==, 0);
    CHECK_INT(sendmmsg(pair[0], &none, 0, 0), ==, 0);
    if (!STATEMENT_ASAN) /* which looks at the memory itself */
        CHECK_ERRNO(recvmmsg(pair[0], &none, 1, 0, nowhere), EFAULT);
    close_pair(pair);
    close_pair(pipefd);
}

STATEMENTS(batch, an_error_that_comes_while_a_batch_waits_is_for_the_next_call,
           each_message_of_a_batch_has_the_sockets_timeout_for_itself,
           the_rest_of_a_batchs_own_timeout_is_told_after_a_wait, a_batch_of_none_is_refused_where_one_would_be,
           a_batch_waits_until_it_is_full, a_batch_ends_with_what_it_has_at_the_sockets_timeout,
           a_batch_that_waits_for_one_takes_what_is_there, a_batch_that_may_not_wait_does_not,
           a_batchs_own_timeout_is_looked_at_after_each_datagram_only,
           an_error_in_the_middle_of_a_batch_is_for_the_next_call)
