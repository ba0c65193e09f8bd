/*
 * Reads and writes of no bytes. They are as the system calls: a packet of no bytes is sent, nothing is taken, and a descriptor
 * that is no good is told of. No write of nothing raises SIGPIPE, and none of them blocks the worker.
 */
#include <sys/inotify.h>

#include "unit/io/kind_swap.h"

IN_FIBER(a_write_of_nothing_raises_no_sigpipe)
{
    for (enum swap_kind kind = PIPE_OUT; kind <= TCP; kind++) {
        if (kind == UNIX_DATAGRAM)
            continue;
        struct pair p = swap_pair(kind);
        struct iovec none = {(char[]){""}, 0};
        count_sigpipes();
        if (kind == TCP)
            shutdown(p.a, SHUT_WR);
        close(p.b);
        int expected = is_socket(kind) ? -EPIPE : 0; /* of a pipe write(2) says so too */
        CHECK_INT(weft_write(p.a, "", 0, WEFT_FOREVER), ==, expected);
        CHECK_INT(weft_write(p.a, "", 0, WEFT_NOW), ==, expected);
        CHECK_INT(weft_write_all(p.a, "", 0, NULL, WEFT_FOREVER), ==, expected);
        CHECK_INT(weft_writev(p.a, &none, 1, WEFT_FOREVER), ==, 0);
        CHECK_INT(seen(&sigpipes), ==, 0);
        CHECK_INT(weft_close(p.a), ==, 0);
    }
    return arg;
}

struct writer {
    int fd;
    ptrdiff_t wrote;
    int done; /* atomic */
};

static void *writes_nothing(void *arg)
{
    struct writer *w = arg;
    w->wrote = weft_write(w->fd, "", 0, WEFT_FOREVER);
    put(&w->done, 1);
    return NULL;
}

/* A packet of no bytes takes a place in the queue like any other. */
IN_FIBER(a_write_of_nothing_waits_for_room)
{
    for (enum swap_kind kind = UNIX_DATAGRAM; kind <= UNIX_PACKETS; kind++) {
        struct pair p = swap_pair(kind);
        char byte = 'x';
        int full = 0;
        while (send(p.a, &byte, 1, MSG_DONTWAIT) == 1)
            full++;
        CHECK_INT(weft_write(p.a, "", 0, WEFT_NOW), ==, -EAGAIN);
        CHECK_INT(weft_write(p.a, "", 0, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
        struct writer w = {.fd = p.a};
        weft_fiber *f = go(writes_nothing, &w);
        weft_yield();
        CHECK_INT(seen(&w.done), ==, 0);
        for (int i = 0; i < full; i++)
            CHECK_INT(recv(p.b, &byte, 1, 0), ==, 1);
        ended(f);
        CHECK_INT(w.wrote, ==, 0);
        CHECK_INT(recv(p.b, &byte, 1, MSG_DONTWAIT), ==, 0); /* the empty packet */
        close_pair(p);
    }
    return arg;
}

IN_FIBER(a_writev_of_nothing_sends_no_packet)
{
    struct pair p = unix_pair(SOCK_SEQPACKET);
    struct iovec none = {(char[]){""}, 0};
    char byte;
    CHECK_INT(weft_writev(p.a, &none, 1, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_writev(p.a, &none, 0, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_recv(p.b, &byte, 1, 0, WEFT_NOW), ==, -EAGAIN);
    close_pair(p);
    return arg;
}

IN_FIBER(a_read_of_nothing_takes_no_packet)
{
    struct pair p = unix_pair(SOCK_SEQPACKET);
    char byte = 0;
    CHECK_INT(weft_read(p.b, &byte, 0, WEFT_FOREVER), ==, 0);
    CHECK_INT(send(p.a, "x", 1, 0), ==, 1);
    CHECK_INT(weft_read(p.b, &byte, 0, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_readv(p.b, &(struct iovec){&byte, 0}, 1, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_read(p.b, &byte, 1, WEFT_FOREVER), ==, 1);
    CHECK_INT(byte, ==, 'x');
    close_pair(p);
    return arg;
}

/* The system's read would wait for an event. */
IN_FIBER(a_read_of_nothing_does_not_block_the_worker)
{
    int fd = inotify_init1(IN_CLOEXEC);
    char byte;
    CHECK(fd >= 0);
    CHECK_INT(weft_read(fd, &byte, 0, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_close(fd), ==, 0);
    return arg;
}

IN_FIBER(reads_and_writes_of_nothing_tell_of_bad_descriptors)
{
    struct pair p = pipe_pair(0);
    int event = eventfd(1, EFD_CLOEXEC);
    char byte;
    CHECK_INT(weft_read(9999, &byte, 0, WEFT_FOREVER), ==, -EBADF);
    CHECK_INT(weft_write(9999, &byte, 0, WEFT_FOREVER), ==, -EBADF);
    CHECK_INT(weft_write(-1, &byte, 0, WEFT_FOREVER), ==, -EBADF);
    CHECK_INT(weft_read(p.b, &byte, 0, WEFT_FOREVER), ==, -EBADF);
    CHECK_INT(weft_write(p.a, &byte, 0, WEFT_FOREVER), ==, -EBADF);
    CHECK_INT(weft_writev(p.a, NULL, 0, WEFT_FOREVER), ==, -EBADF);
    CHECK_INT(weft_write(event, &byte, 0, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_read(event, &byte, 0, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_close(event), ==, 0);
    close_pair(p);
    return arg;
}

TESTS(io_nothing, a_write_of_nothing_raises_no_sigpipe, a_write_of_nothing_waits_for_room,
      a_writev_of_nothing_sends_no_packet, a_read_of_nothing_takes_no_packet,
      a_read_of_nothing_does_not_block_the_worker, reads_and_writes_of_nothing_tell_of_bad_descriptors)
