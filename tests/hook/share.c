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
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#include <weft/sched.h>

static int pair[2], tube[2], file; /* sockets; a pipe; a byte */

static void make_pair_of(int flags)
{
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0, pair), ==, 0);
    CHECK_INT(pipe2(tube, O_CLOEXEC | (flags & SOCK_NONBLOCK ? O_NONBLOCK : 0)), ==, 0);
    file = memfd_create("share", MFD_CLOEXEC);
    CHECK_INT(syscall(SYS_write, file, "x", 1), ==, 1);
}

static void drop_pair(void)
{
    for (int i = 0; i < 2; i++) {
        close(pair[i]);
        close(tube[i]);
    }
    close(file);
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

/* These two take the byte back without the hooks, so that only the call in question can let others run. */
static void take_byte(int fd)
{
    char byte;
    CHECK_INT(syscall(SYS_read, fd, &byte, 1), ==, 1);
}

static void sends_file(int flags)
{
    off_t at = 0;
    (void)flags;
    CHECK_INT(sendfile(pair[1], file, &at, 1), ==, 1);
    take_byte(pair[0]);
}

static void sends_file_to_pipe(int flags)
{
    off_t at = 0;
    (void)flags;
    CHECK_INT(sendfile(tube[1], file, &at, 1), ==, 1);
    take_byte(tube[0]);
}

static void splices(int flags)
{
    (void)flags;
    CHECK_INT(syscall(SYS_write, tube[1], "x", 1), ==, 1);
    CHECK_INT(splice(tube[0], NULL, pair[1], NULL, 1, 0), ==, 1);
    take_byte(pair[0]);
}

static void polls(int flags)
{
    struct pollfd p = {.fd = pair[0], .events = POLLOUT};
    (void)flags;
    CHECK_INT(poll(&p, 1, 1000), ==, 1);
}

typedef void call_fn(int flags);

static call_fn *const sharing_calls[] = {transfers,  transfers_messages, transfers_parts, polls,
                                         sends_file, sends_file_to_pipe, splices};

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
    if (is_kernel())
        return;
    watch();
    make_pair_of(0);
    for (size_t i = 0; i < sizeof sharing_calls / sizeof *sharing_calls; i++)
        CHECK(lets_others_run(sharing_calls[i]));
    drop_pair();
    unwatch();
}

static void handle_nothing(int number)
{
    (void)number;
}

static void *stands_by(void *arg)
{
    stand_by(NULL);
    return arg;
}

static void *as_first_fiber(void *arg)
{
    is_watched = true;
    CHECK_INT(weft_go(stands_by, NULL), ==, 0);
    for (size_t i = 0; i < sizeof sharing_calls / sizeof *sharing_calls; i++)
        CHECK(lets_others_run(sharing_calls[i]));
    is_watched = false;
    return arg;
}

/* A handler could interrupt it, so that it makes each call in another way. */
TEST(so_does_the_first_fiber_of_a_program_with_a_handler)
{
    struct sigaction action = {.sa_handler = handle_nothing}, before;
    weft_sched_opts opts = {.size = sizeof opts, .threads = 1};
    if (is_kernel())
        return;
    CHECK_INT(sigaction(SIGUSR1, &action, &before), ==, 0);
    make_pair_of(0);
    CHECK_INT(weft_run(as_first_fiber, NULL, NULL, &opts), ==, 0);
    drop_pair();
    CHECK_INT(sigaction(SIGUSR1, &before, NULL), ==, 0);
}

STATEMENT(but_not_under_a_mutex_nor_if_they_were_told_not_to_wait)
{
    call_fn *const calls[] = {transfers, transfers_messages, transfers_parts, sends_file, sends_file_to_pipe, splices};
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
        if (calls[i] == transfers || calls[i] == transfers_messages)
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
           so_does_the_first_fiber_of_a_program_with_a_handler, but_not_under_a_mutex_nor_if_they_were_told_not_to_wait,
           nor_in_a_signal_handler)
