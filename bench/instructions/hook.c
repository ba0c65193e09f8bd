/*
 * hook.c: operations of the C library, in fibers under the hooks of libweft-hook.so.
 */
#include <sys/socket.h>

#include "operation.h"

struct rally {
    int ends[2];
    int turns;
};

static void send_byte(int fd)
{
    must(send(fd, "", 1, 0) == 1, "send");
}

static void receive_byte(int fd)
{
    char byte;
    must(recv(fd, &byte, 1, 0) == 1, "recv");
}

static void *answers(void *arg)
{
    const struct rally *rally = arg;
    for (int i = 0; i < rally->turns; i++) {
        receive_byte(rally->ends[1]);
        send_byte(rally->ends[1]);
    }
    return NULL;
}

static void run_recv(int turns)
{
    struct rally rally = {.turns = turns};
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, rally.ends) == 0, "socketpair");
    weft_fiber *other = spawn(answers, &rally);
    for (int i = 0; i < turns; i++) {
        send_byte(rally.ends[0]);
        receive_byte(rally.ends[0]);
    }
    join(other);
}

static void run_recv_free(int turns)
{
    int ends[2];
    char bytes[BYTES_AT_ONCE] = {0};
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    for (int i = 0; i < turns; i++) {
        if (i % BYTES_AT_ONCE == 0)
            must(send(ends[1], bytes, BYTES_AT_ONCE, 0) == BYTES_AT_ONCE, "send");
        receive_byte(ends[0]);
    }
}

const struct operation operations[] = {
    {"hook-recv", 2, "recv that waits, and the send that wakes it, hooked", run_recv},
    {"hook-recv-free", 1, "recv of a byte that is there, hooked", run_recv_free},
    {0},
};
