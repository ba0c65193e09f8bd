/*
 * tests/unit/io/kind_swap.h: descriptors of every kind for the tests in which one number changes its kind, and a count of the
 * SIGPIPEs that came.
 */
#ifndef TESTS_UNIT_IO_KIND_SWAP_H
#define TESTS_UNIT_IO_KIND_SWAP_H

#include <pty.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/sys.h"
#include "unit/io/ground.h"

#ifdef KIND_SWAP_LOUD
/* The program is built a second time like this: it runs as on a kernel without RWF_NOSIGNAL, which is one before 6.18. */
__attribute__((constructor)) static void be_loud(void)
{
    wf_sys_fail(1u << WF_SYS_NOSIGNAL, 1, INT32_MAX);
}
#endif

enum swap_kind {
    PIPE_IN,  /* the end that reads */
    PIPE_OUT, /* the end that writes */
    FIFO_OUT, /* the same of a FIFO that was opened by its name: RWF_NOWAIT fails on it */
    UNIX_STREAM,
    UNIX_DATAGRAM,
    UNIX_PACKETS, /* SOCK_SEQPACKET */
    TCP,
    EVENT,
    TERMINAL,
    REGULAR,
    SWAP_KINDS,
};

/* Whether a message that the other end sends can be read from it. */
static inline bool brings_messages(enum swap_kind kind)
{
    return kind == PIPE_IN || (kind >= UNIX_STREAM && kind <= TCP);
}

static inline bool is_socket(enum swap_kind kind)
{
    return kind >= UNIX_STREAM && kind <= TCP;
}

static inline struct pair fifo_pair(void)
{
    char path[64];
    struct pair p = {-1, -1};
    static int count; /* atomic */
    snprintf(path, sizeof path, "/tmp/weft-swap-%d-%d", (int)getpid(), more(&count));
    CHECK_INT(mkfifo(path, 0600), ==, 0);
    p.b = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    p.a = open(path, O_WRONLY | O_CLOEXEC);
    CHECK_INT(unlink(path), ==, 0);
    return p;
}

static inline struct pair terminal_pair(void)
{
    struct pair p = {-1, -1};
    CHECK_INT(openpty(&p.b, &p.a, NULL, NULL, NULL), ==, 0);
    return p;
}

/* `a` is of the kind; `b` is its other end, or -1. */
static inline struct pair swap_pair(enum swap_kind kind)
{
    struct pair p = {-1, -1};
    switch (kind) {
    case PIPE_IN:
        return pipe_pair(0);
    case PIPE_OUT:
        p = pipe_pair(0);
        return (struct pair){p.b, p.a};
    case FIFO_OUT:
        return fifo_pair();
    case UNIX_STREAM:
        return unix_pair(SOCK_STREAM);
    case UNIX_DATAGRAM:
        return unix_pair(SOCK_DGRAM);
    case UNIX_PACKETS:
        return unix_pair(SOCK_SEQPACKET);
    case TCP:
        return tcp_pair();
    case EVENT:
        p.a = eventfd(1 << 30, EFD_CLOEXEC | EFD_SEMAPHORE); /* it can always be read */
        break;
    case TERMINAL:
        return terminal_pair();
    default:
        p.a = memfd_create("swap", MFD_CLOEXEC);
        break;
    }
    CHECK(p.a >= 0);
    return p;
}

static int sigpipes; /* that came; atomic */

static void count_sigpipe(int signal)
{
    (void)signal;
    more(&sigpipes);
}

/* Before anything is written. */
static inline void count_sigpipes(void)
{
    struct sigaction how = {.sa_handler = count_sigpipe};
    CHECK_INT(sigaction(SIGPIPE, &how, NULL), ==, 0);
    put(&sigpipes, 0);
}

#endif
