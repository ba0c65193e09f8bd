/*
 * tests/hook/pieces.c: what SO_SNDTIMEO limits if a call sends more than there is room for, and somebody takes it slowly: all of the
 * call, or each of the pieces that the kernel sends it in. And urgent data.
 */
#include "hook/peer.h"

#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

enum { MIB = 1 << 20, LARGE = 8 * MIB, PIECE = 64 << 10, LIMIT = 150, PAUSE = 30 }; /* the latter in ms */

static unsigned char memory[MIB];

__attribute__((constructor)) static void make_pattern(void)
{
    fill_pattern(memory, MIB);
}

static ssize_t by_send(int fd)
{
    return send(fd, memory, MIB, 0);
}

static ssize_t by_write(int fd)
{
    return write(fd, memory, MIB);
}

static ssize_t by_writev(int fd)
{
    struct iovec parts[2] = {{memory, 1000}, {memory + 1000, MIB - 1000}};
    return writev(fd, parts, 2);
}

static ssize_t by_sendfile(int fd)
{
    int file = memfd_create("file", MFD_CLOEXEC);
    off_t at = 0;
    CHECK_INT(write(file, memory, MIB), ==, MIB);
    ssize_t n = sendfile(fd, file, &at, MIB);
    CHECK_INT(at, ==, n);
    close(file);
    return n;
}

STATEMENT(between_unix_sockets_every_piece_may_wait_for_as_long_as_the_timeout_says)
{
    static ssize_t (*const ways[])(int) = {by_send, by_write, by_writev, by_sendfile};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        int pair[2];
        unix_pair(pair, SOCK_STREAM);
        set_timeout(pair[1], SO_SNDTIMEO, LIMIT);
        struct reader r = {.fd = pair[0], .after_ms = PAUSE, .pause_ms = PAUSE, .chunk = PIECE};
        double start = now_ms();
        struct flow *reads = begin(read_slowly, &r);
        CHECK_INT(ways[i](pair[1]), ==, MIB);
        CHECK(now_ms() - start > LIMIT);
        close(pair[1]);
        end(reads);
        CHECK_INT(r.bytes, ==, MIB);
        CHECK(!r.wrong);
    }
}

/* Of a connection that takes little, slowly. */
static ssize_t send_over_tcp(ssize_t (*by)(int), double *took)
{
    int pair[2], room = 4096;
    tcp_pair(pair);
    CHECK_INT(setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room), ==, 0);
    CHECK_INT(setsockopt(pair[0], SOL_SOCKET, SO_RCVBUF, &room, sizeof room), ==, 0);
    set_timeout(pair[1], SO_SNDTIMEO, LIMIT);
    struct reader r = {.fd = pair[0], .after_ms = PAUSE, .pause_ms = PAUSE, .chunk = 4096};
    double start = now_ms();
    struct flow *reads = begin(read_slowly, &r);
    ssize_t n = by(pair[1]);
    *took = now_ms() - start;
    close(pair[1]);
    end(reads);
    CHECK_INT(r.bytes, ==, n);
    CHECK(!r.wrong);
    return n;
}

STATEMENT(over_tcp_all_of_the_call_may_wait_for_as_long_as_the_timeout_says)
{
    static ssize_t (*const ways[])(int) = {by_send, by_writev};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        double took;
        ssize_t n = send_over_tcp(ways[i], &took);
        CHECK(n > 0 && n < MIB);
        CHECK(took >= LIMIT && took < 2 * LIMIT);
    }
}

STATEMENT(of_a_file_that_goes_over_tcp_every_piece_may_wait_for_as_long_as_the_timeout_says)
{
    int pair[2], file = memfd_create("file", MFD_CLOEXEC);
    off_t at = 0;
    for (int i = 0; i < LARGE / MIB; i++)
        CHECK_INT(write(file, memory, MIB), ==, MIB);
    tcp_pair(pair);
    set_timeout(pair[1], SO_SNDTIMEO, LIMIT);
    struct reader r = {.fd = pair[0], .after_ms = 10, .pause_ms = 5, .chunk = PIECE, .keep = true};
    double start = now_ms();
    struct flow *reads = begin(read_slowly, &r);
    CHECK_INT(sendfile(pair[1], file, &at, LARGE), ==, LARGE);
    CHECK_INT(at, ==, LARGE);
    CHECK(now_ms() - start > 2 * LIMIT);
    shutdown(pair[1], SHUT_WR);
    end(reads);
    CHECK_INT(r.bytes, ==, LARGE);
    close_pair(pair);
    tcp_pair(pair);
    set_timeout(pair[1], SO_SNDTIMEO, LIMIT);
    start = now_ms();
    at = 0;
    ssize_t n = sendfile(pair[1], file, &at, LARGE);
    CHECK(n > 0 && n < LARGE);
    CHECK_INT(at, ==, n);
    CHECK_AFTER(start, LIMIT);
    close_pair(pair);
    close(file);
}

STATEMENT(urgent_data_waits_for_room)
{
    for (int how = 0; how < 4; how++) {
        int pair[2];
        if (how < 2)
            tcp_pair(pair);
        else
            unix_pair(pair, SOCK_STREAM);
        size_t bytes = fill(pair[1]);
        struct msghdr m = {.msg_iov = &(struct iovec){"xyz", 3}, .msg_iovlen = 1};
        set_timeout(pair[1], SO_SNDTIMEO, LIMIT);
        double start = now_ms();
        CHECK_ERRNO(how % 2 ? sendmsg(pair[1], &m, MSG_OOB) : send(pair[1], "xyz", 3, MSG_OOB), EAGAIN);
        CHECK_AFTER(start, LIMIT);
        set_timeout(pair[1], SO_SNDTIMEO, 0);
        struct reader r = {.fd = pair[0], .after_ms = PAUSE, .chunk = PIECE, .most = bytes, .keep = true};
        struct flow *reads = begin(read_slowly, &r);
        CHECK_INT(how % 2 ? sendmsg(pair[1], &m, MSG_OOB) : send(pair[1], "xyz", 3, MSG_OOB), ==, 3);
        end(reads);
        char text[8] = "";
        CHECK_INT(recv(pair[0], text, 2, MSG_WAITALL), ==, 2);
        CHECK_INT(recv(pair[0], text + 2, 1, MSG_OOB), ==, 1);
        CHECK_STR(text, "xyz");
        close_pair(pair);
    }
}

STATEMENTS(pieces, urgent_data_waits_for_room,
           between_unix_sockets_every_piece_may_wait_for_as_long_as_the_timeout_says,
           over_tcp_all_of_the_call_may_wait_for_as_long_as_the_timeout_says,
           of_a_file_that_goes_over_tcp_every_piece_may_wait_for_as_long_as_the_timeout_says)
