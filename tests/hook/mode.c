/*
 * tests/hook/mode.c: blocking mode and O_NONBLOCK: they belong to the file, are the caller's own, and nobody else changes
 * them.
 */
#include "hook/peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

static void look_for_nonblock(void *arg)
{
    int fd = *(int *)arg;
    CHECK_INT(fcntl(fd, F_GETFL) & O_NONBLOCK, ==, 0);
    CHECK_BLOCKING(fd);
}

STATEMENT(a_socket_that_was_waited_on_is_still_in_blocking_mode)
{
    int pair[2];
    char c;
    tcp_pair(pair);
    for (int i = 0; i < 2; i++) {
        struct writer w = {pair[1], 30, "x", 1};
        struct flow *writes = begin(write_later, &w);
        CHECK_INT(i ? read(pair[0], &c, 1) : recv(pair[0], &c, 1, 0), ==, 1);
        end(writes);
        for (int j = 0; j < 2; j++) {
            look_for_nonblock(&pair[j]);
            end(begin_thread(look_for_nonblock, &pair[j]));
        }
    }
    close_pair(pair);
}

static void look_for_nonblock_soon(void *arg)
{
    usleep(50000);
    look_for_nonblock(arg);
}

STATEMENT(a_socket_that_is_waited_on_is_in_blocking_mode)
{
    int pair[2];
    char c;
    unix_pair(pair, SOCK_STREAM);
    struct writer w = {pair[1], 150, "x", 1};
    struct flow *flows[] = {begin(write_later, &w), begin(look_for_nonblock_soon, &pair[0]),
                            begin_thread(look_for_nonblock_soon, &pair[0])};
    CHECK_INT(recv(pair[0], &c, 1, 0), ==, 1);
    for (int i = 0; i < 3; i++)
        end(flows[i]);
    close_pair(pair);
}

/* recv on it waits. */
static void check_waits(int fd, int other)
{
    char c;
    struct writer w = {other, 50, "x", 1};
    double start = now_ms();
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(recv(fd, &c, 1, 0), ==, 1);
    CHECK_AFTER(start, 50);
    end(writes);
}

/* recv, or read of what is no socket, says EAGAIN at once. */
static void check_does_not_wait(int fd)
{
    uint64_t word;
    double start = now_ms();
    errno = 0;
    ssize_t n = read(fd, &word, sizeof word);
    CHECK_INT(n, ==, -1);
    CHECK_INT(errno, ==, EAGAIN);
    CHECK_INT(raw_flags(fd) & O_NONBLOCK, ==, O_NONBLOCK);
    int type;
    socklen_t size = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0) {
        CHECK_ERRNO(recv(fd, &word, sizeof word, 0), EAGAIN);
        CHECK_ERRNO(recvfrom(fd, &word, sizeof word, 0, NULL, NULL), EAGAIN);
        struct iovec part = {&word, sizeof word};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        CHECK_ERRNO(recvmsg(fd, &message, 0), EAGAIN);
        CHECK_ERRNO(readv(fd, &part, 1), EAGAIN);
    }
    CHECK_AT_ONCE(start);
}

STATEMENT(nonblock_set_for_connect_and_cleared_again_ends_in_a_socket_that_waits)
{
    struct sockaddr_in at;
    int l = listener(8, &at), fd = socket(AF_INET, SOCK_STREAM, 0);
    int flags = fcntl(fd, F_GETFL);
    CHECK_INT(fcntl(fd, F_SETFL, flags | O_NONBLOCK), ==, 0);
    if (connect(fd, AS_ADDRESS(at), sizeof at) != 0)
        CHECK_INT(errno, ==, EINPROGRESS);
    int other = accept(l, NULL, NULL);
    check_does_not_wait(fd);
    CHECK_INT(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK), ==, 0);
    CHECK_BLOCKING(fd);
    check_waits(fd, other);
    close(fd);
    close(other);
    close(l);
}

STATEMENT(setting_the_flags_that_are_set_changes_nothing)
{
    int pair[2];
    unix_pair(pair, SOCK_STREAM);
    check_waits(pair[0], pair[1]);
    CHECK_INT(fcntl(pair[0], F_SETFL, fcntl(pair[0], F_GETFL)), ==, 0);
    CHECK_BLOCKING(pair[0]);
    check_waits(pair[0], pair[1]);
    close_pair(pair);
}

STATEMENT(nonblock_by_fcntl_or_ioctl_is_honoured_at_once)
{
    int pair[2], on = 1, off = 0;
    unix_pair(pair, SOCK_STREAM);
    CHECK_INT(fcntl(pair[0], F_SETFL, O_RDWR | O_NONBLOCK), ==, 0);
    check_does_not_wait(pair[0]);
    CHECK_INT(fcntl(pair[0], F_SETFL, O_RDWR), ==, 0);
    check_waits(pair[0], pair[1]);
    CHECK_INT(fcntl64(pair[0], F_SETFL, O_RDWR | O_NONBLOCK), ==, 0);
    check_does_not_wait(pair[0]);
    CHECK_INT(fcntl64(pair[0], F_SETFL, O_RDWR), ==, 0);
    check_waits(pair[0], pair[1]);
    CHECK_INT(ioctl(pair[0], FIONBIO, &on), ==, 0);
    check_does_not_wait(pair[0]);
    CHECK_INT(ioctl(pair[0], FIONBIO, &off), ==, 0);
    check_waits(pair[0], pair[1]);
    CHECK_INT(syscall(SYS_fcntl, pair[0], F_SETFL, O_RDWR | O_NONBLOCK), ==, 0);
    check_does_not_wait(pair[0]);
    close_pair(pair);
}

STATEMENT(nonblock_from_the_start_is_honoured)
{
    struct sockaddr_in at;
    int pair[2], l = listener(8, &at), fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_INT(connect(fd, AS_ADDRESS(at), sizeof at), ==, 0);
    int other = accept4(l, NULL, NULL, SOCK_NONBLOCK);
    check_does_not_wait(other);
    CHECK_BLOCKING(fd);
    close(fd);
    close(other);
    CHECK_INT(fcntl(l, F_SETFL, O_RDWR | O_NONBLOCK), ==, 0);
    CHECK_ERRNO(accept(l, NULL, NULL), EAGAIN);
    CHECK_ERRNO(accept4(l, NULL, NULL, 0), EAGAIN);
    close(l);

    fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    check_does_not_wait(fd);
    close(fd);
    unix_pair(pair, SOCK_STREAM | SOCK_NONBLOCK);
    check_does_not_wait(pair[0]);
    close_pair(pair);
    CHECK_INT(pipe2(pair, O_NONBLOCK), ==, 0);
    check_does_not_wait(pair[0]);
    close_pair(pair);
    fd = eventfd(0, EFD_NONBLOCK);
    check_does_not_wait(fd);
    close(fd);
    fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    CHECK_INT(timerfd_settime(fd, 0, &(struct itimerspec){.it_value.tv_sec = 100}, NULL), ==, 0);
    check_does_not_wait(fd);
    close(fd);
}

STATEMENT(a_full_one_that_may_not_wait_says_eagain_at_once)
{
    int pair[2];
    unix_pair(pair, SOCK_STREAM | SOCK_NONBLOCK);
    fill(pair[0]);
    double start = now_ms();
    CHECK_ERRNO(write(pair[0], "x", 1), EAGAIN);
    CHECK_ERRNO(send(pair[0], "x", 1, 0), EAGAIN);
    CHECK_AT_ONCE(start);
    close_pair(pair);
    CHECK_INT(pipe2(pair, O_NONBLOCK), ==, 0);
    fill(pair[1]);
    start = now_ms();
    CHECK_ERRNO(write(pair[1], "x", 1), EAGAIN);
    CHECK_AT_ONCE(start);
    close_pair(pair);
    uint64_t most = UINT64_MAX - 1;
    int fd = eventfd(0, EFD_NONBLOCK);
    CHECK_INT(write(fd, &most, sizeof most), ==, sizeof most);
    CHECK_ERRNO(write(fd, &most, sizeof most), EAGAIN);
    close(fd);
}

STATEMENT(nonblock_set_on_a_duplicate_is_honoured_on_the_original)
{
    for (int way = 0; way < 5; way++) {
        int pair[2], copy = -1, number = 700;
        unix_pair(pair, SOCK_STREAM);
        check_waits(pair[0], pair[1]);
        switch (way) {
        case 0:
            copy = dup(pair[0]);
            break;
        case 1:
            copy = dup2(pair[0], number);
            break;
        case 2:
            copy = dup3(pair[0], number, O_CLOEXEC);
            break;
        case 3:
            copy = fcntl(pair[0], F_DUPFD, number);
            break;
        default:
            copy = fcntl(pair[0], F_DUPFD_CLOEXEC, number);
        }
        CHECK_INT(copy, >=, 0);
        CHECK_INT(fcntl(copy, F_SETFL, O_RDWR | O_NONBLOCK), ==, 0);
        check_does_not_wait(pair[0]);
        check_does_not_wait(copy);
        CHECK_INT(fcntl(pair[0], F_SETFL, O_RDWR), ==, 0);
        check_waits(copy, pair[1]);
        CHECK_INT(close(copy), ==, 0);
        check_waits(pair[0], pair[1]);
        close_pair(pair);
    }
}

STATEMENT(a_duplicate_of_a_socket_that_was_waited_on_waits)
{
    int pair[2];
    tcp_pair(pair);
    check_waits(pair[0], pair[1]);
    int copy = dup(pair[0]);
    check_waits(copy, pair[1]);
    close(pair[0]);
    check_waits(copy, pair[1]);
    close(copy);
    close(pair[1]);
}

static void set_nonblock(int fd)
{
    CHECK_INT(fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK), ==, 0);
}

STATEMENT(a_wait_that_has_begun_goes_on_when_nonblock_is_set)
{
    int pair[2];
    char c;
    unix_pair(pair, SOCK_STREAM);
    struct writer w = {pair[1], 150, "x", 1};
    double start = now_ms();
    struct flow *writes = begin(write_later, &w);
    struct later sets = {.fd = pair[0], .after = 50, .what = set_nonblock};
    struct flow *changes = begin(do_later, &sets);
    CHECK_INT(recv(pair[0], &c, 1, 0), ==, 1);
    CHECK_AFTER(start, 150);
    end(writes);
    end(changes);
    check_does_not_wait(pair[0]);
    close_pair(pair);
}

/* A FIFO that is opened by name. */
STATEMENT(a_fifo_waits_until_it_may_not)
{
    char path[] = "/dev/shm/weft-hook-XXXXXX";
    char c;
    CHECK(mkdtemp(path) != NULL);
    char name[64];
    snprintf(name, sizeof name, "%s/fifo", path);
    CHECK_INT(mkfifo(name, 0600), ==, 0);
    int in = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC), out = open(name, O_WRONLY | O_CLOEXEC);
    CHECK(in >= 0 && out >= 0);
    check_does_not_wait(in);
    CHECK_INT(fcntl(in, F_SETFL, O_RDONLY), ==, 0);
    struct writer w = {out, 50, "x", 1};
    double start = now_ms();
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(read(in, &c, 1), ==, 1);
    CHECK_AFTER(start, 50);
    end(writes);
    CHECK_BLOCKING(in);
    size_t bytes = fill(out);
    struct reader r = {.fd = in, .after_ms = 50, .chunk = 65536};
    start = now_ms();
    struct flow *reads = begin(read_slowly, &r);
    CHECK_INT(write(out, "x", 1), ==, 1);
    CHECK_AFTER(start, 50);
    close(out);
    end(reads);
    CHECK_INT(r.bytes, ==, bytes + 1);
    unlink(name);
    rmdir(path);
}

STATEMENTS(mode, a_socket_that_was_waited_on_is_still_in_blocking_mode, a_socket_that_is_waited_on_is_in_blocking_mode,
           nonblock_set_for_connect_and_cleared_again_ends_in_a_socket_that_waits,
           setting_the_flags_that_are_set_changes_nothing, nonblock_by_fcntl_or_ioctl_is_honoured_at_once,
           nonblock_from_the_start_is_honoured, a_full_one_that_may_not_wait_says_eagain_at_once,
           nonblock_set_on_a_duplicate_is_honoured_on_the_original, a_duplicate_of_a_socket_that_was_waited_on_waits,
           a_wait_that_has_begun_goes_on_when_nonblock_is_set, a_fifo_waits_until_it_may_not)
