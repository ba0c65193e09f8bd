/*
 * tests/hook/receive.c: what a blocking call that receives returns, and when: with its flags, at the end of a stream, after
 * errors, and with nothing to receive into.
 */
#include "hook/peer.h"

#include <stdio.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

/* Two writes, the second of them `second_ms` after the first. */
struct two_writes {
    int fd, first_ms, second_ms;
};

static void write_twice(void *arg)
{
    const struct two_writes *w = arg;
    usleep((useconds_t)w->first_ms * 1000);
    CHECK_INT(write(w->fd, "abcd", 4), ==, 4);
    if (w->second_ms == 0)
        return;
    usleep((useconds_t)w->second_ms * 1000);
    CHECK_INT(write(w->fd, "efgh", 4), ==, 4);
}

static void check_waitall(void make(int[2]))
{
    int pair[2];
    char text[9] = "";
    make(pair);
    struct two_writes w = {pair[1], 0, 200};
    double start = now_ms();
    struct flow *writes = begin(write_twice, &w);
    CHECK_INT(recv(pair[0], text, 8, MSG_WAITALL), ==, 8);
    CHECK_AFTER(start, 200);
    CHECK_STR(text, "abcdefgh");
    end(writes);
    struct iovec parts[3] = {{text, 1}, {text + 1, 0}, {text + 1, 7}};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = 3};
    memset(text, 0, sizeof text);
    writes = begin(write_twice, &w);
    CHECK_INT(recvmsg(pair[0], &m, MSG_WAITALL), ==, 8);
    CHECK_STR(text, "abcdefgh");
    end(writes);
    close_pair(pair);
}

static void a_unix_pair(int pair[2])
{
    unix_pair(pair, SOCK_STREAM);
}

STATEMENT(waitall_waits_for_all)
{
    check_waitall(tcp_pair);
    check_waitall(a_unix_pair);
}

STATEMENT(waitall_with_a_timeout_returns_what_came)
{
    int pair[2];
    char text[8];
    tcp_pair(pair);
    set_timeout(pair[0], SO_RCVTIMEO, 200);
    struct two_writes w = {pair[1], 100, 0};
    struct flow *writes = begin(write_twice, &w);
    double start = now_ms();
    CHECK_INT(recv(pair[0], text, 8, MSG_WAITALL), ==, 4);
    CHECK_AFTER(start, 200);
    CHECK_WITHIN(start, 1500);
    end(writes);
    start = now_ms();
    CHECK_ERRNO(recv(pair[0], text, 8, MSG_WAITALL), EAGAIN);
    CHECK_AFTER(start, 200);
    close_pair(pair);
}

STATEMENT(waitall_at_the_end_of_the_stream_returns_what_came)
{
    int pair[2];
    char text[8];
    tcp_pair(pair);
    struct two_writes w = {pair[1], 0, 0};
    struct later closes = {.fd = pair[1], .after = 80, .what = just_close};
    struct flow *flows[] = {begin(write_twice, &w), begin(do_later, &closes)};
    CHECK_INT(recv(pair[0], text, 8, MSG_WAITALL), ==, 4);
    CHECK_INT(recv(pair[0], text, 8, MSG_WAITALL), ==, 0);
    end(flows[0]);
    end(flows[1]);
    close(pair[0]);
}

STATEMENT(waitall_cut_off_by_a_reset_returns_what_came_and_the_next_call_says_why)
{
    int pair[2];
    char text[8];
    tcp_pair(pair);
    struct two_writes w = {pair[1], 0, 0};
    struct later closes = {.fd = pair[1], .after = 80, .what = reset};
    struct flow *flows[] = {begin(write_twice, &w), begin(do_later, &closes)};
    CHECK_INT(recv(pair[0], text, 8, MSG_WAITALL), ==, 4);
    CHECK_ERRNO(recv(pair[0], text, 8, 0), ECONNRESET);
    CHECK_INT(recv(pair[0], text, 8, 0), ==, 0);
    end(flows[0]);
    end(flows[1]);
    close(pair[0]);
}

STATEMENT(a_receive_that_may_not_wait_does_not)
{
    int pair[2];
    char text[8];
    tcp_pair(pair);
    double start = now_ms();
    CHECK_ERRNO(recv(pair[0], text, 8, MSG_DONTWAIT), EAGAIN);
    CHECK_ERRNO(recv(pair[0], text, 8, MSG_DONTWAIT | MSG_WAITALL), EAGAIN);
    CHECK_ERRNO(recv(pair[0], text, 8, MSG_DONTWAIT | MSG_PEEK), EAGAIN);
    struct msghdr m = {.msg_iov = &(struct iovec){text, 8}, .msg_iovlen = 1};
    CHECK_ERRNO(recvmsg(pair[0], &m, MSG_DONTWAIT), EAGAIN);
    CHECK_INT(write(pair[1], "abcd", 4), ==, 4);
    CHECK_INT(recv(pair[0], text, 8, MSG_WAITALL | MSG_DONTWAIT), ==, 4);
    CHECK_ERRNO(recv(pair[0], text, 8, MSG_ERRQUEUE), EAGAIN);
    CHECK_ERRNO(recv(pair[0], text, 1, MSG_OOB), EINVAL);
    struct iovec part = {text, 8};
    CHECK_ERRNO(preadv2(pair[0], &part, 1, -1, RWF_NOWAIT), EAGAIN);
    CHECK_AT_ONCE(start);
    CHECK_BLOCKING(pair[0]);
    close_pair(pair);
}

STATEMENT(a_peek_waits_and_leaves_what_it_has_seen)
{
    for (int tcp = 0; tcp < 2; tcp++) {
        int pair[2];
        char text[8];
        (tcp ? tcp_pair : a_unix_pair)(pair);
        struct writer w = {pair[1], 60, "abcd", 4};
        double start = now_ms();
        struct flow *writes = begin(write_later, &w);
        CHECK_INT(recv(pair[0], text, 8, MSG_PEEK), ==, 4);
        CHECK_AFTER(start, 60);
        end(writes);
        CHECK_INT(recv(pair[0], text, 2, MSG_PEEK), ==, 2);
        CHECK_INT(recv(pair[0], text, 8, MSG_DONTWAIT), ==, 4);
        close_pair(pair);
    }
}

STATEMENT(a_peek_for_all_waits_for_all_on_tcp)
{
    int pair[2];
    char text[9] = "";
    tcp_pair(pair);
    struct two_writes w = {pair[1], 0, 100};
    double start = now_ms();
    struct flow *writes = begin(write_twice, &w);
    CHECK_INT(recv(pair[0], text, 8, MSG_PEEK | MSG_WAITALL), ==, 8);
    CHECK_AFTER(start, 100);
    CHECK_STR(text, "abcdefgh");
    end(writes);
    CHECK_INT(recv(pair[0], text, 8, MSG_DONTWAIT), ==, 8);
    close_pair(pair);
}

/* The second part is as long as the mark: the kernel wakes nobody for less on TCP, whatever was received before. */
static int peek_offset(int fd)
{
    int value = -1;
    CHECK_INT(getsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &value, &(socklen_t){sizeof value}), ==, 0);
    return value;
}

STATEMENT(a_peek_begins_where_the_last_has_ended_if_it_is_told_to)
{
    int pair[2], zero = 0;
    char text[9] = "";
    tcp_pair(pair);
    if (setsockopt(pair[0], SOL_SOCKET, SO_PEEK_OFF, &zero, sizeof zero) != 0)
        SKIP("this kernel has no SO_PEEK_OFF for TCP");
    struct two_writes w = {pair[1], 30, 60};
    double start = now_ms();
    struct flow *writes = begin(write_twice, &w);
    CHECK_INT(recv(pair[0], text, 8, MSG_PEEK | MSG_WAITALL), ==, 8);
    CHECK_AFTER(start, 90);
    CHECK_STR(text, "abcdefgh");
    CHECK_INT(peek_offset(pair[0]), ==, 8);
    end(writes);
    w.second_ms = 0;
    w.first_ms = 60;
    for (int i = 0; i < 2; i++) {
        double used = cpu_ms();
        struct msghdr m = {.msg_iov = &(struct iovec){text, 8}, .msg_iovlen = 1};
        start = now_ms();
        writes = begin(write_twice, &w);
        CHECK_INT(i ? recvmsg(pair[0], &m, MSG_PEEK) : recv(pair[0], text, 8, MSG_PEEK), ==, 4);
        CHECK_AFTER(start, 60);
        CHECK(cpu_ms() - used < 40); /* it does not look all the time */
        end(writes);
    }
    set_timeout(pair[0], SO_RCVTIMEO, 60);
    start = now_ms();
    CHECK_ERRNO(recv(pair[0], text, 8, MSG_PEEK), EAGAIN);
    CHECK_AFTER(start, 60);
    CHECK_INT(peek_offset(pair[0]), ==, 16);
    close_pair(pair);
}

static void *volatile nowhere = (void *)(uintptr_t)8; /* the compiler must not know */

STATEMENT(a_message_that_is_no_memory_is_efault_also_if_all_of_it_is_waited_for)
{
    if (STATEMENT_ASAN)
        SKIP("a sanitizer looks at the memory before the kernel does");
    int pair[2];
    unix_pair(pair, SOCK_STREAM);
    CHECK_ERRNO(recvmsg(pair[0], nowhere, MSG_WAITALL), EFAULT);
    CHECK_INT(write(pair[1], "abc", 3), ==, 3);
    CHECK_ERRNO(recvmsg(pair[0], nowhere, MSG_WAITALL), EFAULT);
    close_pair(pair);
}

STATEMENT(a_receive_waits_for_as_much_as_the_low_water_mark_says)
{
    for (int tcp = 0; tcp < 2; tcp++) {
        int pair[2], mark = 8;
        char text[16];
        (tcp ? tcp_pair : a_unix_pair)(pair);
        CHECK_INT(setsockopt(pair[0], SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark), ==, 0);
        CHECK_INT(write(pair[1], "abcd", 4), ==, 4);
        struct writer w = {pair[1], 100, "efghijkl", 8};
        double start = now_ms();
        struct flow *writes = begin(write_later, &w);
        CHECK_INT(recv(pair[0], text, 16, 0), ==, 12);
        CHECK_AFTER(start, 100);
        end(writes);
        CHECK_INT(write(pair[1], "abcd", 4), ==, 4);
        CHECK_INT(recv(pair[0], text, 4, 0), ==, 4);
        close_pair(pair);
    }
}

static void receive_nothing(void *arg)
{
    char c;
    CHECK_INT(recv(*(int *)arg, &c, 0, 0), ==, 0);
}

STATEMENT(a_read_of_nothing_returns_at_once_and_a_recv_of_nothing_waits_for_data)
{
    int pair[2];
    char c;
    tcp_pair(pair);
    double start = now_ms();
    CHECK_INT(read(pair[0], &c, 0), ==, 0);
    CHECK_INT(readv(pair[0], &(struct iovec){&c, 0}, 1), ==, 0);
    CHECK_INT(write(pair[0], &c, 0), ==, 0);
    CHECK_AT_ONCE(start);
    struct flow *receives = begin(receive_nothing, &pair[0]);
    usleep(80000);
    CHECK_INT(write(pair[1], "x", 1), ==, 1);
    end(receives);
    CHECK_AFTER(start, 80);
    CHECK_INT(recv(pair[0], &c, 1, 0), ==, 1);
    close_pair(pair);
    CHECK_INT(pipe(pair), ==, 0);
    CHECK_INT(read(pair[0], &c, 0), ==, 0);
    CHECK_INT(write(pair[1], &c, 0), ==, 0);
    close_pair(pair);
}

STATEMENT(an_empty_datagram_is_not_the_end)
{
    int pair[2];
    char text[8];
    udp_pair(pair);
    struct iovec parts[2] = {{text, 0}, {text, 0}};
    CHECK_INT(send(pair[1], text, 0, 0), ==, 0);
    CHECK_INT(write(pair[1], "abc", 3), ==, 3);
    CHECK_INT(write(pair[1], text, 0), ==, 0);
    CHECK_INT(writev(pair[1], parts, 2), ==, 0); /* sends nothing, unlike the others */
    CHECK_INT(recv(pair[0], text, 8, 0), ==, 0);
    CHECK_INT(read(pair[0], text, 8), ==, 3);
    CHECK_INT(read(pair[0], text, 8), ==, 0);
    CHECK_ERRNO(recv(pair[0], text, 8, MSG_DONTWAIT), EAGAIN);
    double start = now_ms();
    struct writer w = {pair[1], 50, "x", 0};
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(recv(pair[0], text, 8, 0), ==, 0);
    CHECK_AFTER(start, 50);
    end(writes);
    close_pair(pair);
}

STATEMENT(a_read_into_no_room_leaves_a_datagram_where_it_is)
{
    int pair[2];
    char text[8];
    struct iovec parts[2] = {{text, 0}, {text, 0}};
    udp_pair(pair);
    CHECK_INT(write(pair[1], "abc", 3), ==, 3);
    CHECK_INT(readv(pair[0], parts, 2), ==, 0);
    CHECK_INT(readv(pair[0], parts, 0), ==, 0);
    CHECK_INT(read(pair[0], text, 0), ==, 0);
    CHECK_INT(recv(pair[0], text, 8, MSG_DONTWAIT), ==, 3);
    close_pair(pair);
}

STATEMENT(a_reset_is_told_once_by_every_call_that_reads)
{
    for (int way = 0; way < 5; way++) {
        int pair[2];
        char c;
        struct iovec part = {&c, 1};
        struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
        for (int waits = 0; waits < 2; waits++) {
            tcp_pair(pair);
            struct later closes = {.fd = pair[1], .after = waits ? 40 : 0, .what = reset};
            struct flow *resets = NULL;
            if (waits)
                resets = begin(do_later, &closes);
            else
                reset(pair[1]);
            errno = 0;
            ssize_t n = way == 0   ? recv(pair[0], &c, 1, 0)
                        : way == 1 ? read(pair[0], &c, 1)
                        : way == 2 ? readv(pair[0], &part, 1)
                        : way == 3 ? recvmsg(pair[0], &m, 0)
                                   : preadv2(pair[0], &part, 1, -1, 0);
            CHECK_INT(n, ==, -1);
            CHECK_INT(errno, ==, ECONNRESET);
            if (n != -1 || errno != ECONNRESET)
                printf("way %d\n", way);
            CHECK_INT(read(pair[0], &c, 1), ==, 0);
            if (waits)
                end(resets);
            close(pair[0]);
        }
    }
}

STATEMENT(a_refused_datagram_is_told_once_by_every_call_that_reads)
{
    for (int way = 0; way < 3; way++) {
        int pair[2];
        char c;
        struct iovec part = {&c, 1};
        udp_pair(pair);
        close(pair[1]);
        set_timeout(pair[0], SO_RCVTIMEO, 300);
        CHECK_INT(send(pair[0], "x", 1, 0), ==, 1);
        double start = now_ms();
        CHECK_ERRNO(way == 0   ? recv(pair[0], &c, 1, 0)
                    : way == 1 ? read(pair[0], &c, 1)
                               : readv(pair[0], &part, 1),
                    ECONNREFUSED);
        CHECK_AT_ONCE(start);
        CHECK_ERRNO(recv(pair[0], &c, 1, MSG_DONTWAIT), EAGAIN);
        close(pair[0]);
    }
}

STATEMENT(the_sender_of_a_datagram_that_was_waited_for_is_told)
{
    struct sockaddr_in at, from, self;
    socklen_t size = sizeof from;
    int in = bound(SOCK_DGRAM, &at), out = bound(SOCK_DGRAM, &self);
    char text[4];
    CHECK_INT(connect(out, AS_ADDRESS(at), sizeof at), ==, 0);
    struct writer w = {out, 40, "abcdef", 6};
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(recvfrom(in, text, 4, MSG_TRUNC, AS_ADDRESS(from), &size), ==, 6);
    end(writes);
    CHECK_INT(size, ==, sizeof from);
    CHECK_INT(from.sin_port, ==, self.sin_port);
    struct msghdr m = {.msg_iov = &(struct iovec){text, 4}, .msg_iovlen = 1};
    m.msg_name = &from;
    m.msg_namelen = sizeof from;
    memset(&from, 0, sizeof from);
    writes = begin(write_later, &w);
    CHECK_INT(recvmsg(in, &m, 0), ==, 4);
    end(writes);
    CHECK_INT(m.msg_flags, ==, MSG_TRUNC);
    CHECK_INT(m.msg_namelen, ==, sizeof from);
    CHECK_INT(from.sin_port, ==, self.sin_port);
    close(in);
    close(out);
}

STATEMENT(a_read_of_a_pipe_or_a_timer_waits)
{
    int pair[2];
    char text[8];
    uint64_t times;
    CHECK_INT(pipe(pair), ==, 0);
    struct writer w = {pair[1], 40, "abc", 3};
    double start = now_ms();
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(readv(pair[0], &(struct iovec){text, 8}, 1), ==, 3);
    CHECK_AFTER(start, 40);
    end(writes);
    struct later closes = {.fd = pair[1], .after = 40, .what = just_close};
    writes = begin(do_later, &closes);
    CHECK_INT(read(pair[0], text, 8), ==, 0);
    end(writes);
    close(pair[0]);
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    start = now_ms();
    CHECK_INT(timerfd_settime(fd, 0, &(struct itimerspec){.it_value.tv_nsec = 60000000}, NULL), ==, 0);
    CHECK_INT(read(fd, &times, sizeof times), ==, sizeof times);
    CHECK_INT(times, ==, 1);
    CHECK_AFTER(start, 60);
    CHECK_ERRNO(read(fd, &times, 4), EINVAL);
    close(fd);
}

/* It has POLLERR until that is read, and there is nothing to be received. */
STATEMENT(what_is_in_the_error_queue_ends_no_wait)
{
    struct sockaddr_in nobody;
    char c;
    close(bound(SOCK_DGRAM, &nobody));
    int fd = socket(AF_INET, SOCK_DGRAM, 0), on = 1;
    CHECK_INT(setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof on), ==, 0);
    CHECK_INT(sendto(fd, "x", 1, 0, AS_ADDRESS(nobody), sizeof nobody), ==, 1);
    CHECK_ERRNO(recv(fd, &c, 1, 0), ECONNREFUSED);
    set_timeout(fd, SO_RCVTIMEO, 100);
    double start = now_ms();
    CHECK_ERRNO(recv(fd, &c, 1, 0), EAGAIN);
    CHECK_AFTER(start, 100);
    struct msghdr m = {.msg_iov = &(struct iovec){&c, 1}, .msg_iovlen = 1};
    start = now_ms();
    CHECK_ERRNO(recvmsg(fd, &m, 0), EAGAIN);
    CHECK_AFTER(start, 100);
    start = now_ms();
    CHECK_ERRNO(readv(fd, &(struct iovec){&c, 1}, 1), EAGAIN);
    CHECK_AFTER(start, 100);
    CHECK(recvmsg(fd, &m, MSG_ERRQUEUE) >= 0); /* it is still there */
    close(fd);
}

struct pass {
    int fd, ms, with; /* -1: no descriptor */
};

static void pass(void *arg)
{
    struct pass *p = arg;
    char control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))) = {0};
    struct msghdr m = {.msg_iov = &(struct iovec){"abcd", 4}, .msg_iovlen = 1};
    if (p->with >= 0) {
        m.msg_control = control;
        m.msg_controllen = sizeof control;
        *CMSG_FIRSTHDR(&m) = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &p->with, sizeof(int));
    }
    usleep((useconds_t)p->ms * 1000);
    CHECK_INT(sendmsg(p->fd, &m, 0), ==, 4);
}

STATEMENT(waitall_takes_descriptors_with_the_bytes_that_they_came_with_and_ends_there)
{
    int pair[2], got = -1;
    char text[16], control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
    unix_pair(pair, SOCK_STREAM);
    pass(&(struct pass){pair[1], 0, -1});
    struct pass later = {pair[1], 50, pair[1]};
    double start = now_ms();
    struct flow *passes = begin(pass, &later);
    struct msghdr m = {.msg_iov = &(struct iovec){text, 12},
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = sizeof control};
    CHECK_INT(recvmsg(pair[0], &m, MSG_WAITALL), ==, 8);
    CHECK_AFTER(start, 50);
    end(passes);
    const struct cmsghdr *with = CMSG_FIRSTHDR(&m);
    if (with)
        memcpy(&got, CMSG_DATA(with), sizeof got);
    CHECK(got >= 0 && close(got) == 0);

    pass(&(struct pass){pair[1], 0, pair[1]});
    start = now_ms();
    CHECK_INT(recv(pair[0], text, 8, MSG_WAITALL), ==, 4);
    CHECK_AT_ONCE(start);
    close_pair(pair);
}

STATEMENTS(receive, a_peek_begins_where_the_last_has_ended_if_it_is_told_to,
           a_message_that_is_no_memory_is_efault_also_if_all_of_it_is_waited_for, waitall_waits_for_all,
           waitall_with_a_timeout_returns_what_came, waitall_at_the_end_of_the_stream_returns_what_came,
           waitall_cut_off_by_a_reset_returns_what_came_and_the_next_call_says_why,
           a_receive_that_may_not_wait_does_not, a_peek_waits_and_leaves_what_it_has_seen,
           a_peek_for_all_waits_for_all_on_tcp, a_receive_waits_for_as_much_as_the_low_water_mark_says,
           a_read_of_nothing_returns_at_once_and_a_recv_of_nothing_waits_for_data, an_empty_datagram_is_not_the_end,
           a_read_into_no_room_leaves_a_datagram_where_it_is, a_reset_is_told_once_by_every_call_that_reads,
           a_refused_datagram_is_told_once_by_every_call_that_reads,
           the_sender_of_a_datagram_that_was_waited_for_is_told, a_read_of_a_pipe_or_a_timer_waits,
           what_is_in_the_error_queue_ends_no_wait,
           waitall_takes_descriptors_with_the_bytes_that_they_came_with_and_ends_there)
