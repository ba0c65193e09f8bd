/*
 * A fiber whose calls never have to wait lets others run now and then, at the end of a call. It does not while it holds a
 * pthread mutex, on a descriptor with O_NONBLOCK, with MSG_DONTWAIT, or in a signal handler.
 */
#include "hook/bystander.h"
#include "hook/peer.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/uio.h>

static int pair[2];

static void make_pair_of(int flags)
{
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0, pair), ==, 0);
}

static void drop_pair(void)
{
    close(pair[0]);
    close(pair[1]);
}

/* Each finds something at once: a byte, or room for one. */
static void transfers(int flags)
{
    char byte = 'x';
    CHECK_INT(send(pair[1], &byte, 1, flags), ==, 1);
    CHECK_INT(recv(pair[0], &byte, 1, flags), ==, 1);
}

static void transfers_messages(int flags)
{
    char byte = 'x';
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    CHECK_INT(sendmsg(pair[1], &message, flags), ==, 1);
    CHECK_INT(recvmsg(pair[0], &message, flags), ==, 1);
}

static void transfers_parts(int flags)
{
    char byte = 'x';
    struct iovec part = {&byte, 1};
    (void)flags;
    CHECK_INT(writev(pair[1], &part, 1), ==, 1);
    CHECK_INT(readv(pair[0], &part, 1), ==, 1);
}

static void polls(int flags)
{
    struct pollfd p = {.fd = pair[0], .events = POLLOUT};
    (void)flags;
    CHECK_INT(poll(&p, 1, 1000), ==, 1);
}

typedef void call_fn(int flags);

/* Whether the bystander has had a few turns; a time limit, for one that gets none. */
static bool lets_others_run(call_fn *call)
{
    int before = turns_now();
    for (double start = now_ms(); now_ms() - start < 10000 && turns_now() < before + 3;)
        call(0);
    return turns_now() >= before + 3;
}

/* How many turns it has while such calls are made. */
static int turns_during(call_fn *call, int flags)
{
    int before = turns_now();
    for (double start = now_ms(); now_ms() - start < 10;)
        call(flags);
    return turns_now() - before;
}

STATEMENT(calls_that_need_not_wait_let_others_run_in_the_end)
{
    call_fn *const calls[] = {transfers, transfers_messages, transfers_parts, polls};
    if (is_kernel())
        return;
    watch();
    make_pair_of(0);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        CHECK(lets_others_run(calls[i]));
    drop_pair();
    unwatch();
}

STATEMENT(but_not_under_a_mutex_nor_if_they_were_told_not_to_wait)
{
    call_fn *const calls[] = {transfers, transfers_messages, transfers_parts};
    static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
    if (is_kernel())
        return;
    watch();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        make_pair_of(0);
        usleep(2000); /* the ticker's turn */
        pthread_mutex_lock(&held);
        int under_lock = turns_during(calls[i], 0);
        pthread_mutex_unlock(&held);
        CHECK_INT(under_lock, ==, 0);
        usleep(2000);
        if (calls[i] != transfers_parts)
            CHECK_INT(turns_during(calls[i], MSG_DONTWAIT), ==, 0);
        drop_pair();
        make_pair_of(SOCK_NONBLOCK);
        usleep(2000);
        CHECK_INT(turns_during(calls[i], 0), ==, 0);
        drop_pair();
    }
    unwatch();
}

/* Volatile, as the compiler assumes that raise() changes nothing in this file. */
static volatile sig_atomic_t turns_in_handler;

static void handle(int number)
{
    (void)number;
    turns_in_handler = turns_during(transfers, 0);
}

STATEMENT(nor_in_a_signal_handler)
{
    if (is_kernel())
        return;
    struct sigaction action = {.sa_handler = handle}, before;
    watch();
    make_pair_of(0);
    CHECK_INT(sigaction(SIGUSR1, &action, &before), ==, 0);
    turns_in_handler = -1;
    CHECK_INT(raise(SIGUSR1), ==, 0);
    CHECK_INT(turns_in_handler, ==, 0);
    CHECK_INT(sigaction(SIGUSR1, &before, NULL), ==, 0);
    drop_pair();
    unwatch();
}

STATEMENTS(share, calls_that_need_not_wait_let_others_run_in_the_end,
           but_not_under_a_mutex_nor_if_they_were_told_not_to_wait, nor_in_a_signal_handler)
