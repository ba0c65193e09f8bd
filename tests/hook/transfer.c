/*
 * tests/hook/transfer.c: a blocking call that sends does so to the end: all of it, once, or an error, with SIGPIPE where
 * the kernel raises it.
 */
#include "hook/peer.h"

#include <netinet/tcp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

enum { MIB = 1024 * 1024, LARGE = 8 * MIB };

static int pipes_broken; /* SIGPIPE so far; atomic */

static void count_signal(int signal)
{
    (void)signal;
    __atomic_add_fetch(&pipes_broken, 1, __ATOMIC_RELAXED);
}

static void count_broken_pipes(void)
{
    struct sigaction how = {.sa_handler = count_signal, .sa_flags = SA_RESTART};
    CHECK_INT(sigaction(SIGPIPE, &how, NULL), ==, 0);
    __atomic_store_n(&pipes_broken, 0, __ATOMIC_RELAXED);
}

/* Made before anything runs, as that takes a while. */
static unsigned char memory[LARGE];

__attribute__((constructor)) static void make_pattern(void)
{
    fill_pattern(memory, LARGE);
}

static ssize_t by_send(int fd, size_t bytes)
{
    return send(fd, memory, bytes, 0);
}

static ssize_t by_write(int fd, size_t bytes)
{
    return write(fd, memory, bytes);
}

static ssize_t by_writev(int fd, size_t bytes)
{
    struct iovec parts[64];
    for (size_t i = 0; i < 64; i++)
        parts[i] = (struct iovec){memory + i * (bytes / 64), bytes / 64};
    parts[63].iov_len = bytes - 63 * (bytes / 64);
    return writev(fd, parts, 64);
}

static ssize_t by_sendmsg(int fd, size_t bytes)
{
    struct iovec parts[3] = {{memory, 1}, {memory + 1, bytes / 2}, {memory + 1 + bytes / 2, bytes - 1 - bytes / 2}};
    return sendmsg(fd, &(struct msghdr){.msg_iov = parts, .msg_iovlen = 3}, 0);
}

static ssize_t by_pwritev2(int fd, size_t bytes)
{
    struct iovec parts[2] = {{memory, bytes / 2}, {memory + bytes / 2, bytes - bytes / 2}};
    return pwritev2(fd, parts, 2, -1, 0);
}

static ssize_t by_sendfile(int fd, size_t bytes)
{
    int file = memfd_create("large", MFD_CLOEXEC);
    CHECK_INT(write(file, memory, bytes), ==, bytes);
    CHECK_INT(lseek(file, 0, SEEK_SET), ==, 0);
    ssize_t n = sendfile(fd, file, NULL, bytes);
    CHECK_INT(lseek(file, 0, SEEK_CUR), ==, n);
    close(file);
    return n;
}

static ssize_t by_sendfile_at(int fd, size_t bytes)
{
    off_t at = 3;
    int file = memfd_create("large", MFD_CLOEXEC);
    CHECK_INT(write(file, "abc", 3), ==, 3);
    CHECK_INT(write(file, memory, bytes), ==, bytes);
    ssize_t n = sendfile(fd, file, &at, bytes + 1000); /* the file ends before that */
    CHECK_INT(at, ==, 3 + n);
    close(file);
    return n;
}

static void check_all_is_sent(const int pair[2], ssize_t (*by)(int, size_t), size_t bytes)
{
    struct reader r = {.fd = pair[0], .after_ms = 20, .pause_ms = 1, .chunk = 65536};
    struct flow *reads = begin(read_slowly, &r);
    errno = 4321;
    CHECK_INT(by(pair[1], bytes), ==, bytes);
    CHECK_INT(errno, ==, 4321);
    CHECK_INT(close(pair[1]), ==, 0);
    end(reads);
    CHECK_INT(r.bytes, ==, bytes);
    CHECK(!r.wrong);
}

STATEMENT(a_large_transfer_over_tcp_is_made_in_full_by_every_call)
{
    static ssize_t (*const ways[])(int, size_t) = {by_send,     by_write,    by_writev,     by_sendmsg,
                                                   by_pwritev2, by_sendfile, by_sendfile_at};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        int pair[2];
        tcp_pair(pair);
        check_all_is_sent(pair, ways[i], LARGE);
    }
}

STATEMENT(a_large_transfer_between_unix_sockets_is_made_in_full)
{
    static ssize_t (*const ways[])(int, size_t) = {by_send, by_write, by_writev, by_sendmsg, by_sendfile};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        int pair[2];
        unix_pair(pair, SOCK_STREAM);
        check_all_is_sent(pair, ways[i], 2 * MIB);
    }
}

STATEMENT(a_mebibyte_goes_through_a_pipe_in_full)
{
    static ssize_t (*const ways[])(int, size_t) = {by_write, by_writev, by_pwritev2};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        int pair[2];
        CHECK_INT(pipe2(pair, O_CLOEXEC), ==, 0);
        check_all_is_sent(pair, ways[i], MIB);
    }
}

STATEMENT(sendfile_to_a_pipe_waits_for_room_and_then_fills_it)
{
    int pair[2];
    CHECK_INT(pipe2(pair, O_CLOEXEC), ==, 0);
    CHECK_INT(by_sendfile(pair[1], MIB), ==, 65536);
    struct reader r = {.fd = pair[0], .after_ms = 60, .chunk = 65536};
    double start = now_ms();
    struct flow *reads = begin(read_slowly, &r);
    ssize_t n = by_sendfile(pair[1], MIB);
    CHECK_AFTER(start, 60);
    CHECK(n > 0 && n <= 65536);
    close(pair[1]);
    end(reads);
    CHECK_INT(r.bytes, ==, 65536 + n);
}

STATEMENT(a_send_with_a_timeout_says_what_was_queued)
{
    int pair[2];
    tcp_pair(pair);
    set_timeout(pair[1], SO_SNDTIMEO, 200);
    double start = now_ms();
    ssize_t n = send(pair[1], memory, LARGE, 0);
    CHECK_AFTER(start, 200);
    CHECK_INT(n, >, 0);
    CHECK_INT(n, <, LARGE);
    start = now_ms();
    ssize_t more = send(pair[1], memory + n, (size_t)(LARGE - n), 0);
    CHECK_AFTER(start, 200);
    if (more > 0) { /* the kernel may have made a little room meanwhile */
        n += more;
        more = send(pair[1], memory + n, (size_t)(LARGE - n), 0);
    }
    CHECK_INT(more, ==, -1);
    CHECK_INT(errno, ==, EAGAIN);
    struct reader r = {.fd = pair[0], .chunk = 65536};
    struct flow *reads = begin(read_slowly, &r);
    close(pair[1]);
    end(reads);
    CHECK_INT(r.bytes, ==, n);
    CHECK(!r.wrong);
}

static void check_timeout(ssize_t (*by)(int, size_t))
{
    int pair[2];
    unix_pair(pair, SOCK_STREAM);
    set_timeout(pair[1], SO_SNDTIMEO, 100);
    double start = now_ms();
    CHECK_INT(by(pair[1], LARGE), <, LARGE);
    CHECK_AFTER(start, 100);
    start = now_ms();
    CHECK_ERRNO(by(pair[1], 65536), EAGAIN);
    CHECK_AFTER(start, 100);
    close_pair(pair);
}

STATEMENT(every_call_that_sends_keeps_to_the_timeout)
{
    check_timeout(by_send);
    check_timeout(by_write);
    check_timeout(by_writev);
    check_timeout(by_sendmsg);
    check_timeout(by_pwritev2);
}

STATEMENT(a_send_that_may_not_wait_does_not)
{
    int pair[2];
    tcp_pair(pair);
    double start = now_ms();
    ssize_t n = send(pair[1], memory, LARGE, MSG_DONTWAIT);
    CHECK_INT(n, >, 0);
    CHECK_INT(n, <, LARGE);
    while (send(pair[1], memory, LARGE, MSG_DONTWAIT) > 0)
        ;
    CHECK_INT(errno, ==, EAGAIN);
    struct msghdr m = {.msg_iov = &(struct iovec){memory, LARGE}, .msg_iovlen = 1};
    CHECK_ERRNO(sendmsg(pair[1], &m, MSG_DONTWAIT), EAGAIN);
    CHECK_AT_ONCE(start);
    CHECK_BLOCKING(pair[1]);
    close_pair(pair);
}

STATEMENT(a_datagram_waits_for_room_and_is_sent_once_and_whole)
{
    int pair[2];
    size_t seen = 0;
    char packet[4096] = {0};
    unix_pair(pair, SOCK_DGRAM);
    while (send(pair[1], packet, sizeof packet, MSG_DONTWAIT) > 0)
        seen++;
    CHECK_INT(errno, ==, EAGAIN);
    packet[0] = 'l';
    struct reader r = {.fd = dup(pair[0]), .after_ms = 60, .chunk = sizeof packet, .most = seen * sizeof packet};
    double start = now_ms();
    struct flow *reads = begin(read_slowly, &r);
    CHECK_INT(send(pair[1], packet, sizeof packet, 0), ==, sizeof packet);
    CHECK_AFTER(start, 60);
    end(reads);
    packet[0] = 0;
    CHECK_INT(recv(pair[0], packet, sizeof packet, MSG_DONTWAIT), ==, sizeof packet);
    CHECK_INT(packet[0], ==, 'l');
    CHECK_ERRNO(recv(pair[0], packet, sizeof packet, MSG_DONTWAIT), EAGAIN);
    close_pair(pair);
}

STATEMENT(a_datagram_larger_than_the_buffer_is_never_split)
{
    int pair[2], small = 4608;
    static char packet[66000];
    udp_pair(pair);
    CHECK_INT(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), ==, 0);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(send(pair[0], packet, 60000, 0), ==, 60000);
        CHECK_INT(recv(pair[1], packet, sizeof packet, 0), ==, 60000);
    }
    CHECK_ERRNO(recv(pair[1], packet, sizeof packet, MSG_DONTWAIT), EAGAIN);
    CHECK_ERRNO(send(pair[0], packet, 65508, 0), EMSGSIZE);
    close_pair(pair);
    unix_pair(pair, SOCK_SEQPACKET);
    CHECK_INT(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), ==, 0);
    CHECK_ERRNO(write(pair[0], packet, sizeof packet), EMSGSIZE);
    close_pair(pair);
}

STATEMENT(packets_in_order_are_each_sent_and_read_whole)
{
    int pair[2];
    char packet[4000];
    unix_pair(pair, SOCK_SEQPACKET);
    struct writer w = {pair[1], 40, "packet", 6};
    double start = now_ms();
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(read(pair[0], packet, sizeof packet), ==, 6);
    CHECK_AFTER(start, 40);
    end(writes);
    CHECK_INT(send(pair[1], "abcdef", 6, 0), ==, 6);
    CHECK_INT(send(pair[1], "gh", 2, 0), ==, 2);
    CHECK_INT(recv(pair[0], packet, 4, MSG_WAITALL), ==, 4);
    CHECK_INT(recv(pair[0], packet, 4, MSG_WAITALL), ==, 2);
    CHECK_INT(close(pair[1]), ==, 0);
    CHECK_INT(recv(pair[0], packet, 4, 0), ==, 0);
    close(pair[0]);
}

STATEMENT(a_send_to_a_peer_that_is_gone_is_epipe_with_a_signal_unless_that_is_declined)
{
    int pair[2];
    char c = 'x';
    struct iovec part = {&c, 1};
    count_broken_pipes();
    unix_pair(pair, SOCK_STREAM);
    close(pair[1]);
    CHECK_ERRNO(send(pair[0], &c, 1, MSG_NOSIGNAL), EPIPE);
    CHECK_ERRNO(sendmsg(pair[0], &(struct msghdr){.msg_iov = &part, .msg_iovlen = 1}, MSG_NOSIGNAL), EPIPE);
    CHECK_ERRNO(sendto(pair[0], &c, 1, MSG_NOSIGNAL | MSG_DONTWAIT, NULL, 0), EPIPE);
    CHECK_INT(pipes_broken, ==, 0);
    CHECK_ERRNO(send(pair[0], &c, 1, 0), EPIPE);
    CHECK_INT(pipes_broken, ==, 1);
    CHECK_ERRNO(write(pair[0], &c, 1), EPIPE);
    CHECK_INT(pipes_broken, ==, 2);
    CHECK_ERRNO(writev(pair[0], &part, 1), EPIPE);
    CHECK_INT(pipes_broken, ==, 3);
    CHECK_ERRNO(sendmsg(pair[0], &(struct msghdr){.msg_iov = &part, .msg_iovlen = 1}, 0), EPIPE);
    CHECK_INT(pipes_broken, ==, 4);
    CHECK_ERRNO(send(pair[0], &c, 1, MSG_DONTWAIT), EPIPE);
    CHECK_INT(pipes_broken, ==, 5);
    int file = memfd_create("file", MFD_CLOEXEC);
    CHECK_INT(pwrite(file, &c, 1, 0), ==, 1);
    CHECK_ERRNO(sendfile(pair[0], file, NULL, 1), EPIPE);
    CHECK_INT(pipes_broken, ==, 6);
    close(file);
    close(pair[0]);
    CHECK_INT(pipe(pair), ==, 0);
    close(pair[0]);
    CHECK_ERRNO(write(pair[1], &c, 1), EPIPE);
    CHECK_INT(pipes_broken, ==, 7);
    close(pair[1]);
}

STATEMENT(a_send_after_a_reset_is_econnreset_and_then_epipe)
{
    int pair[2];
    char c = 'x';
    count_broken_pipes();
    tcp_pair(pair);
    reset(pair[1]);
    CHECK_ERRNO(send(pair[0], &c, 1, 0), ECONNRESET);
    CHECK_INT(pipes_broken, ==, 0);
    CHECK_ERRNO(send(pair[0], &c, 1, 0), EPIPE);
    CHECK_INT(pipes_broken, ==, 1);
    CHECK_INT(recv(pair[0], &c, 1, 0), ==, 0);
    close(pair[0]);
    tcp_pair(pair);
    CHECK_INT(shutdown(pair[0], SHUT_WR), ==, 0);
    CHECK_ERRNO(write(pair[0], &c, 1), EPIPE);
    CHECK_INT(pipes_broken, ==, 2);
    close_pair(pair);
}

STATEMENT(a_send_that_waits_is_told_of_a_reset)
{
    int pair[2];
    char c = 'x';
    count_broken_pipes();
    tcp_pair(pair);
    fill(pair[0]);
    usleep(50000);
    fill(pair[0]);
    struct later closes = {.fd = pair[1], .after = 60, .what = reset};
    double start = now_ms();
    struct flow *resets = begin(do_later, &closes);
    ssize_t n = send(pair[0], &c, 1, 0);
    CHECK_AFTER(start, 60);
    CHECK_INT(n, ==, -1);
    CHECK_INT(errno, ==, ECONNRESET);
    CHECK_INT(pipes_broken, ==, 0);
    end(resets);
    close(pair[0]);

    unix_pair(pair, SOCK_STREAM);
    fill(pair[0]);
    closes = (struct later){.fd = pair[1], .after = 60, .what = just_close};
    resets = begin(do_later, &closes);
    CHECK_ERRNO(send(pair[0], &c, 1, 0), ECONNRESET); /* what was sent was not read */
    CHECK_INT(pipes_broken, ==, 0);
    CHECK_ERRNO(send(pair[0], &c, 1, 0), EPIPE);
    CHECK_INT(pipes_broken, ==, 1);
    end(resets);
    close(pair[0]);

    CHECK_INT(pipe(pair), ==, 0);
    fill(pair[1]);
    closes = (struct later){.fd = pair[0], .after = 60, .what = just_close};
    resets = begin(do_later, &closes);
    CHECK_ERRNO(write(pair[1], &c, 1), EPIPE);
    CHECK_INT(pipes_broken, ==, 2);
    end(resets);
    close(pair[1]);
}

STATEMENT(a_send_cut_off_by_a_reset_says_what_was_sent_and_the_next_one_why)
{
    int pair[2];
    count_broken_pipes();
    tcp_pair(pair);
    struct later closes = {.fd = pair[1], .after = 60, .what = reset};
    struct flow *resets = begin(do_later, &closes);
    ssize_t n = send(pair[0], memory, LARGE, 0);
    CHECK_INT(n, >, 0);
    CHECK_INT(n, <, LARGE);
    CHECK_INT(pipes_broken, ==, 0);
    CHECK_ERRNO(send(pair[0], memory, LARGE, 0), ECONNRESET);
    CHECK_INT(pipes_broken, ==, 0);
    CHECK_ERRNO(send(pair[0], memory, LARGE, 0), EPIPE);
    CHECK_INT(pipes_broken, ==, 1);
    end(resets);
    close(pair[0]);

    count_broken_pipes();
    unix_pair(pair, SOCK_STREAM);
    closes = (struct later){.fd = pair[1], .after = 60, .what = just_close};
    resets = begin(do_later, &closes);
    n = write(pair[0], memory, LARGE);
    CHECK_INT(n, >, 0);
    CHECK_INT(n, <, LARGE);
    CHECK_INT(pipes_broken, ==, 0);
    end(resets);
    close(pair[0]);
}

STATEMENT(a_write_to_a_pipe_whose_reader_leaves_says_what_was_written_and_raises_the_signal)
{
    int pair[2];
    count_broken_pipes();
    CHECK_INT(pipe2(pair, O_CLOEXEC), ==, 0);
    struct reader r = {.fd = pair[0], .after_ms = 40, .chunk = 4096, .most = 100 * 4096};
    struct flow *reads = begin(read_slowly, &r);
    ssize_t n = write(pair[1], memory, MIB);
    CHECK_INT(n, >=, 100 * 4096);
    CHECK_INT(n, <, MIB);
    CHECK_INT(pipes_broken, ==, 1);
    end(reads);
    CHECK_INT(r.bytes, ==, 100 * 4096);
    CHECK(!r.wrong);
    close(pair[1]);
}

static void take_no_more(int fd)
{
    CHECK_INT(shutdown(fd, SHUT_RD), ==, 0);
}

STATEMENT(a_send_that_waits_for_who_takes_no_more_is_epipe)
{
    int pair[2];
    char c = 'x';
    count_broken_pipes();
    unix_pair(pair, SOCK_STREAM);
    fill(pair[0]);
    struct later stops = {.fd = pair[1], .after = 60, .what = take_no_more};
    double start = now_ms();
    struct flow *stopping = begin(do_later, &stops);
    CHECK_ERRNO(send(pair[0], &c, 1, 0), EPIPE);
    CHECK_AFTER(start, 60);
    CHECK_INT(pipes_broken, <=, 1); /* the kernel raises none for who waited; that may be tried again is the hooks' */
    end(stopping);
    close_pair(pair);
}

static int descriptors_in(struct msghdr *m)
{
    int n = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        int fd;
        CHECK(c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS);
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
        close(fd);
        n++;
    }
    return n;
}

struct message_reader {
    int fd;
    size_t bytes;
    int descriptors;
};

static void read_messages(void *arg)
{
    struct message_reader *r = arg;
    static char packet[65536];
    usleep(40000);
    for (;;) {
        union {
            struct cmsghdr header;
            char room[CMSG_SPACE(4 * sizeof(int))];
        } control;
        struct msghdr m = {.msg_iov = &(struct iovec){packet, sizeof packet}, .msg_iovlen = 1};
        m.msg_control = &control;
        m.msg_controllen = sizeof control;
        ssize_t n = recvmsg(r->fd, &m, 0);
        if (n <= 0)
            break;
        r->bytes += (size_t)n;
        r->descriptors += descriptors_in(&m);
    }
}

STATEMENT(a_descriptor_in_a_message_that_is_sent_in_pieces_arrives_once)
{
    int pair[2];
    unix_pair(pair, SOCK_STREAM);
    struct message_reader r = {.fd = pair[0]};
    struct flow *reads = begin(read_messages, &r);
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct msghdr m = {.msg_iov = &(struct iovec){memory, 2 * MIB}, .msg_iovlen = 1};
    memcpy(CMSG_DATA(&control.header), &pair[0], sizeof(int));
    m.msg_control = &control;
    m.msg_controllen = sizeof control;
    CHECK_INT(sendmsg(pair[1], &m, 0), ==, 2 * MIB);
    close(pair[1]);
    end(reads);
    CHECK_INT(r.bytes, ==, 2 * MIB);
    CHECK_INT(r.descriptors, ==, 1);
    close(pair[0]);
}

static void read_word_later(void *arg)
{
    uint64_t word;
    usleep(50000);
    CHECK_INT(read(*(int *)arg, &word, sizeof word), ==, sizeof word);
}

STATEMENT(a_write_to_an_event_descriptor_waits_for_room)
{
    uint64_t most = UINT64_MAX - 1, one = 1;
    int fd = (int)syscall(SYS_eventfd2, 0, 0);
    CHECK_INT(write(fd, &most, sizeof most), ==, sizeof most);
    double start = now_ms();
    struct flow *reads = begin(read_word_later, &fd);
    CHECK_INT(write(fd, &one, sizeof one), ==, sizeof one);
    CHECK_AFTER(start, 50);
    end(reads);
    CHECK_INT(read(fd, &most, sizeof most), ==, sizeof most);
    CHECK_INT(most, ==, 1);
    CHECK_ERRNO(write(fd, &one, 4), EINVAL);
    close(fd);
}

STATEMENT(messages_in_a_batch_wait_for_room_one_by_one)
{
    int pair[2];
    size_t before = 0;
    char packet[4096] = {0};
    struct iovec part = {packet, sizeof packet};
    struct mmsghdr batch[3];
    unix_pair(pair, SOCK_DGRAM);
    while (send(pair[1], packet, sizeof packet, MSG_DONTWAIT) > 0)
        before++;
    CHECK_INT(recv(pair[0], packet, sizeof packet, 0), ==, sizeof packet);
    for (int i = 0; i < 3; i++)
        batch[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
    struct reader r = {.fd = dup(pair[0]), .after_ms = 60, .chunk = sizeof packet, .most = before * sizeof packet};
    double start = now_ms();
    struct flow *reads = begin(read_slowly, &r);
    CHECK_INT(sendmmsg(pair[1], batch, 3, 0), ==, 3);
    CHECK_AFTER(start, 60);
    end(reads);
    for (int i = 0; i < 3; i++)
        CHECK_INT(batch[i].msg_len, ==, sizeof packet);
    while (send(pair[1], packet, sizeof packet, MSG_DONTWAIT) > 0)
        ;
    set_timeout(pair[1], SO_SNDTIMEO, 60);
    start = now_ms();
    CHECK_ERRNO(sendmmsg(pair[1], batch, 3, 0), EAGAIN);
    CHECK_AFTER(start, 60);
    close_pair(pair);
}

struct drain {
    int fd, ms;
};

static void take_one_later(void *arg)
{
    struct drain *d = arg;
    char c;
    usleep((useconds_t)d->ms * 1000);
    CHECK_INT(recv(d->fd, &c, 1, 0), ==, 1);
}

/* poll(2) says of one that is not connected that there is room. */
STATEMENT(a_datagram_to_a_full_unix_socket_waits_for_room_also_if_that_is_not_connected_to)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    socklen_t size = sizeof at;
    char all[64];
    int to = socket(AF_UNIX, SOCK_DGRAM, 0), from = socket(AF_UNIX, SOCK_DGRAM, 0);
    CHECK_INT(bind(to, AS_ADDRESS(at), sizeof(sa_family_t)), ==, 0); /* the kernel finds a name */
    CHECK_INT(getsockname(to, AS_ADDRESS(at), &size), ==, 0);
    while (sendto(from, "a", 1, MSG_DONTWAIT, AS_ADDRESS(at), size) == 1)
        ;
    set_timeout(from, SO_SNDTIMEO, 100);
    double start = now_ms();
    CHECK_ERRNO(sendto(from, "b", 1, 0, AS_ADDRESS(at), size), EAGAIN);
    CHECK_AFTER(start, 100);
    struct msghdr m = {&at, size, &(struct iovec){"c", 1}, 1, NULL, 0, 0};
    start = now_ms();
    CHECK_ERRNO(sendmsg(from, &m, 0), EAGAIN);
    CHECK_AFTER(start, 100);

    set_timeout(from, SO_SNDTIMEO, 0);
    struct drain d = {to, 100};
    start = now_ms();
    struct flow *reads = begin(take_one_later, &d);
    CHECK_INT(sendto(from, "d", 1, 0, AS_ADDRESS(at), size), ==, 1);
    CHECK_AFTER(start, 100);
    end(reads);
    char last = 0;
    while (recv(to, all, sizeof all, MSG_DONTWAIT) == 1)
        last = all[0];
    CHECK_INT(last, ==, 'd');
    close(to);
    close(from);
}

static void accept_and_read(void *arg)
{
    int fd = accept(*(int *)arg, NULL, NULL);
    char text[32];
    CHECK_INT(recv(fd, text, 10, MSG_WAITALL), ==, 10);
    CHECK(memcmp(text, "hellothere", 10) == 0);
    close(fd);
}

STATEMENT(a_send_that_connects_waits_for_the_connection)
{
    struct sockaddr_in at, nobody;
    int server = listener(8, &at), queue = 8;
    CHECK_INT(setsockopt(server, IPPROTO_TCP, TCP_FASTOPEN, &queue, sizeof queue), ==, 0);
    for (int how = 0; how < 2; how++) {
        struct flow *reads = begin(accept_and_read, &server);
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        struct msghdr m = {&at, sizeof at, &(struct iovec){"hello", 5}, 1, NULL, 0, 0};
        CHECK_INT(how == 0 ? sendto(fd, "hello", 5, MSG_FASTOPEN, AS_ADDRESS(at), sizeof at)
                           : sendmsg(fd, &m, MSG_FASTOPEN),
                  ==, 5);
        CHECK_INT(write(fd, "there", 5), ==, 5);
        end(reads);
        close(fd);
    }
    close(bound(SOCK_STREAM, &nobody));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_ERRNO(sendto(fd, "hello", 5, MSG_FASTOPEN | MSG_NOSIGNAL, AS_ADDRESS(nobody), sizeof nobody), ECONNREFUSED);
    close(fd);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK_ERRNO(sendto(fd, "hello", 5, MSG_FASTOPEN | MSG_NOSIGNAL, AS_ADDRESS(at), sizeof at), EINPROGRESS);
    close(fd);
    close(server);
}

STATEMENTS(transfer, a_large_transfer_over_tcp_is_made_in_full_by_every_call,
           a_large_transfer_between_unix_sockets_is_made_in_full, a_mebibyte_goes_through_a_pipe_in_full,
           a_send_with_a_timeout_says_what_was_queued, every_call_that_sends_keeps_to_the_timeout,
           a_send_that_may_not_wait_does_not, a_datagram_waits_for_room_and_is_sent_once_and_whole,
           a_datagram_larger_than_the_buffer_is_never_split, packets_in_order_are_each_sent_and_read_whole,
           a_send_to_a_peer_that_is_gone_is_epipe_with_a_signal_unless_that_is_declined,
           a_send_after_a_reset_is_econnreset_and_then_epipe, a_send_that_waits_is_told_of_a_reset,
           a_send_cut_off_by_a_reset_says_what_was_sent_and_the_next_one_why,
           a_write_to_a_pipe_whose_reader_leaves_says_what_was_written_and_raises_the_signal,
           a_send_that_waits_for_who_takes_no_more_is_epipe,
           a_descriptor_in_a_message_that_is_sent_in_pieces_arrives_once, a_write_to_an_event_descriptor_waits_for_room,
           messages_in_a_batch_wait_for_room_one_by_one, sendfile_to_a_pipe_waits_for_room_and_then_fills_it,
           a_datagram_to_a_full_unix_socket_waits_for_room_also_if_that_is_not_connected_to,
           a_send_that_connects_waits_for_the_connection)
