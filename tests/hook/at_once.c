/*
 * What the kernel answers at once is answered at once: while a fiber holds a pthread mutex, such a call does not let other
 * fibers run. So code that never waits in the kernel may hold a lock around the call (SQLite reads /dev/urandom under its
 * mutex). Without a lock a fiber that has run for long lets others run (tests/hook/share.c).
 *
 * A bystander sees whether a call lets others run (hook/bystander.h).
 */
#include "hook/bystander.h"
#include "hook/peer.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <weft/fiber.h>

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

/* The call brings this, and no other fiber runs meanwhile. */
#define AT_ONCE(call, wanted)                                                                                          \
    do {                                                                                                               \
        pthread_mutex_lock(&held);                                                                                     \
        int at_once_before = turns_now();                                                                              \
        long long at_once_rc = (long long)(call);                                                                      \
        int at_once_error = errno, at_once_turns = turns_now() - at_once_before;                                       \
        pthread_mutex_unlock(&held);                                                                                   \
        if (at_once_rc != (long long)(wanted))                                                                         \
            test_failed(__FILE__, __LINE__, "%s: %lld, errno %s", #call, at_once_rc, strerrorname_np(at_once_error));  \
        if (at_once_turns != 0)                                                                                        \
            test_failed(__FILE__, __LINE__, "%s: it has waited: another fiber ran", #call);                            \
    } while (0)

/* Until it is ready: what was sent may take a moment. Others may run. */
static void until_ready(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};
    CHECK_INT(poll(&p, 1, 20000), ==, 1);
}

static char room[4096];

static struct iovec two_parts[2] = {{room, 2}, {room + 2, 2}};

/* Four bytes are there each time. */
static void check_reads(int from, int to)
{
    for (int i = 0; i < 3; i++) {
        CHECK_INT(write(to, "abcd", 4), ==, 4);
        until_ready(from, POLLIN);
        if (i == 0)
            AT_ONCE(read(from, room, sizeof room), 4);
        else if (i == 1)
            AT_ONCE(readv(from, two_parts, 2), 4);
        else
            AT_ONCE(preadv2(from, two_parts, 2, -1, 0), 4);
    }
}

static void check_receives(int from, int to)
{
    struct msghdr message = {.msg_iov = two_parts, .msg_iovlen = 2};
    struct mmsghdr messages[1] = {{.msg_hdr = message}};
    struct sockaddr_storage at;
    socklen_t size = sizeof at;
    for (int i = 0; i < 6; i++) {
        CHECK_INT(send(to, "abcd", 4, 0), ==, 4);
        until_ready(from, POLLIN);
        switch (i) {
        case 0:
            AT_ONCE(recv(from, room, sizeof room, 0), 4);
            break;
        case 1:
            AT_ONCE(recv(from, room, 2, MSG_PEEK), 2);
            AT_ONCE(recvfrom(from, room, sizeof room, 0, (struct sockaddr *)&at, &size), 4);
            break;
        case 2:
            AT_ONCE(recvmsg(from, &message, 0), 4);
            break;
        case 3:
            AT_ONCE(recvmmsg(from, messages, 1, 0, NULL), 1);
            break;
        case 4:
            AT_ONCE(recv(from, room, 4, MSG_WAITALL), 4);
            break;
        default:
            AT_ONCE(read(from, room, sizeof room), 4);
            break;
        }
    }
}

/* After a wait that the driver knows of: then it may think that there is nothing. */
static void wait_once(int from, int to)
{
    struct later l = {.fd = to, .after = 5};
    struct flow *f = begin(do_later, &l);
    CHECK_INT(read(from, room, 1), ==, 1);
    end(f);
}

STATEMENT(what_a_socket_has_is_read_at_once)
{
    struct ends all[] = {tcp_ends(), unix_ends(SOCK_STREAM), unix_ends(SOCK_DGRAM), udp_ends()};
    watch();
    for (int i = 0; i < 4; i++) {
        check_reads(all[i].a, all[i].b);
        check_receives(all[i].a, all[i].b);
        wait_once(all[i].a, all[i].b);
        check_reads(all[i].a, all[i].b);
        check_receives(all[i].a, all[i].b);
    }
    CHECK_INT(shutdown(all[0].b, SHUT_WR), ==, 0);
    until_ready(all[0].a, POLLIN);
    AT_ONCE(read(all[0].a, room, sizeof room), 0);
    AT_ONCE(recv(all[0].a, room, sizeof room, 0), 0);
    for (int i = 0; i < 4; i++) {
        AT_ONCE(close(all[i].a), 0);
        AT_ONCE(close(all[i].b), 0);
    }
    unwatch();
}

static int fifo(int *to)
{
    char name[] = "/tmp/weft-at-once-XXXXXX", path[64];
    CHECK(mkdtemp(name) != NULL);
    snprintf(path, sizeof path, "%s/fifo", name);
    CHECK_INT(mkfifo(path, 0600), ==, 0);
    int both = open(path, O_RDWR | O_CLOEXEC), from = open(path, O_RDONLY | O_CLOEXEC);
    *to = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(both >= 0 && from >= 0 && *to >= 0);
    close(both);
    unlink(path);
    rmdir(name);
    return from;
}

STATEMENT(what_a_pipe_has_is_read_at_once)
{
    struct ends e = pipe_ends(), named;
    named.a = fifo(&named.b);
    watch();
    check_reads(e.a, e.b);
    wait_once(e.a, e.b);
    check_reads(e.a, e.b);
    check_reads(named.a, named.b);
    close(e.b);
    AT_ONCE(read(e.a, room, 1), 0);
    unwatch();
    close(e.a);
    close_ends(named);
}

STATEMENT(files_and_devices_that_are_always_ready_are_read_and_written_at_once)
{
    static const char *const sources[] = {"/dev/zero", "/dev/urandom", "/dev/random", "/proc/self/exe"};
    char name[] = "/tmp/weft-at-once-XXXXXX";
    int file = mkstemp(name);
    CHECK(file >= 0);
    unlink(name);
    watch();
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        int fd = open(sources[i], O_RDONLY | O_CLOEXEC);
        CHECK(fd >= 0);
        for (int again = 0; again < 2; again++) {
            AT_ONCE(read(fd, room, 64), 64);
            AT_ONCE(readv(fd, two_parts, 2), 4);
        }
        close(fd);
    }
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    AT_ONCE(read(null, room, 1), 0);
    AT_ONCE(write(null, room, 64), 64);
    AT_ONCE(writev(null, two_parts, 2), 4);
    AT_ONCE(write(file, room, 64), 64);
    AT_ONCE(writev(file, two_parts, 2), 4);
    CHECK_INT(lseek(file, 0, SEEK_SET), ==, 0);
    AT_ONCE(read(file, room, 128), 68);
    AT_ONCE(read(file, room, 128), 0);
    unwatch();
    close(null);
    close(file);
}

STATEMENT(other_descriptors_that_have_something_are_read_at_once)
{
    int event = eventfd(1, EFD_CLOEXEC), timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    struct itimerspec soon = {.it_value.tv_nsec = 1};
    eventfd_t value;
    sigset_t usr2, before;
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    CHECK_INT(pthread_sigmask(SIG_BLOCK, &usr2, &before), ==, 0);
    int signals = signalfd(-1, &usr2, SFD_CLOEXEC);
    watch();
    AT_ONCE(read(event, &value, sizeof value), 8);
    AT_ONCE(eventfd_write(event, 7), 0);
    AT_ONCE(eventfd_read(event, &value), 0);
    CHECK_INT(value, ==, 7);
    CHECK_INT(timerfd_settime(timer, 0, &soon, NULL), ==, 0);
    until_ready(timer, POLLIN);
    AT_ONCE(read(timer, &value, sizeof value), 8);
    CHECK_INT(pthread_kill(pthread_self(), SIGUSR2), ==, 0);
    AT_ONCE(read(signals, room, sizeof(struct signalfd_siginfo)), sizeof(struct signalfd_siginfo));
    unwatch();
    CHECK_INT(pthread_sigmask(SIG_SETMASK, &before, NULL), ==, 0);
    close(event);
    close(timer);
    close(signals);
}

STATEMENT(a_terminal_that_has_a_line_is_read_at_once)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(slave >= 0);
    CHECK_INT(write(master, "abc\n", 4), ==, 4);
    until_ready(slave, POLLIN);
    until_ready(master, POLLIN); /* what it echoes */
    watch();
    AT_ONCE(read(slave, room, sizeof room), 4);
    AT_ONCE(read(master, room, sizeof room) > 0, true);
    AT_ONCE(write(slave, "abc\n", 4), 4);
    unwatch();
    close(slave);
    close(master);
}

STATEMENT(what_there_is_room_for_is_written_at_once)
{
    struct ends all[] = {tcp_ends(), unix_ends(SOCK_STREAM), unix_ends(SOCK_DGRAM), udp_ends(), pipe_ends()};
    struct ends named;
    named.a = fifo(&named.b);
    watch();
    for (int i = 0; i < 5; i++) {
        struct msghdr message = {.msg_iov = two_parts, .msg_iovlen = 2};
        AT_ONCE(write(all[i].b, "abcd", 4), 4);
        AT_ONCE(writev(all[i].b, two_parts, 2), 4);
        if (i == 4)
            continue;
        AT_ONCE(send(all[i].b, "abcd", 4, 0), 4);
        AT_ONCE(sendto(all[i].b, "abcd", 4, 0, NULL, 0), 4);
        AT_ONCE(sendmsg(all[i].b, &message, 0), 4);
        AT_ONCE(sendmmsg(all[i].b, &(struct mmsghdr){.msg_hdr = message}, 1, 0), 1);
    }
    AT_ONCE(write(named.b, "abcd", 4), 4);
    AT_ONCE(writev(named.b, two_parts, 2), 4);
    unwatch();
    for (int i = 0; i < 5; i++)
        close_ends(all[i]);
    close_ends(named);
}

STATEMENT(a_connection_that_has_come_is_accepted_at_once)
{
    struct sockaddr_in at;
    int l = listener(8, &at), one;
    watch();
    for (int i = 0; i < 4; i++) {
        int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK_INT(connect(s, (struct sockaddr *)&at, sizeof at), ==, 0);
        until_ready(l, POLLIN);
        if (i % 2)
            AT_ONCE((one = accept(l, NULL, NULL)) >= 0, true);
        else
            AT_ONCE((one = accept4(l, (struct sockaddr *)&at, &(socklen_t){sizeof at}, SOCK_CLOEXEC)) >= 0, true);
        close(one);
        close(s);
        CHECK_INT(getsockname(l, (struct sockaddr *)&at, &(socklen_t){sizeof at}), ==, 0);
        if (i == 1) { /* one is waited for */
            struct later later = {.fd = l, .after = 5, .what = connect_briefly};
            struct flow *f = begin(do_later, &later);
            one = accept(l, NULL, NULL);
            CHECK(one >= 0);
            close(one);
            end(f);
        }
    }
    unwatch();
    close(l);
}

STATEMENT(a_connection_that_the_kernel_makes_at_once_is_made_at_once)
{
    struct sockaddr_in at, nobody;
    int l = listener(8, &at), u = bound(SOCK_STREAM, &nobody); /* nobody listens there */
    watch();
    for (int i = 0; i < 3; i++) {
        int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), d = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        AT_ONCE(connect(s, (struct sockaddr *)&at, sizeof at), 0);
        CHECK_ERRNO(connect(s, (struct sockaddr *)&at, sizeof at), EISCONN);
        AT_ONCE(connect(d, (struct sockaddr *)&at, sizeof at), 0);
        close(s);
        close(d);
        s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        AT_ONCE(connect(s, (struct sockaddr *)&nobody, sizeof nobody), -1);
        CHECK_INT(errno, ==, ECONNREFUSED);
        close(s);
    }
    unwatch();
    close(u);
    close(l);
}

STATEMENT(what_there_is_and_has_room_is_moved_at_once)
{
    struct ends tcp = tcp_ends(), a = pipe_ends(), b = pipe_ends();
    char name[] = "/tmp/weft-at-once-XXXXXX";
    int file = mkstemp(name);
    CHECK(file >= 0);
    unlink(name);
    CHECK_INT(write(file, room, 2000), ==, 2000);
    watch();
    AT_ONCE(sendfile(tcp.b, file, &(off_t){0}, 1000), 1000);
    AT_ONCE(sendfile(a.b, file, &(off_t){0}, 1000), 1000);
    AT_ONCE(splice(a.a, NULL, b.b, NULL, 1000, 0), 1000);
    AT_ONCE(splice(b.a, NULL, tcp.b, NULL, 1000, 0), 1000);
    until_ready(tcp.a, POLLIN);
    AT_ONCE(splice(tcp.a, NULL, a.b, NULL, 500, 0), 500);
    AT_ONCE(splice(tcp.a, NULL, a.b, NULL, 500, SPLICE_F_NONBLOCK), 500);
    unwatch();
    close_ends(tcp);
    close_ends(a);
    close_ends(b);
    close(file);
}

STATEMENT(what_is_so_is_told_at_once)
{
    struct ends e = pipe_ends();
    struct pollfd p = {.fd = e.a, .events = POLLIN};
    struct epoll_event event = {.events = EPOLLIN};
    int set = epoll_create1(EPOLL_CLOEXEC), state;
    CHECK_INT(epoll_ctl(set, EPOLL_CTL_ADD, e.a, &event), ==, 0);
    write_one(e.b);
    fd_set fds;
    FD_ZERO(&fds);
    FD_SET(e.a, &fds);
    pid_t child = fork();
    if (child == 0)
        _exit(3);
    CHECK_INT(waitid(P_PID, (id_t)child, &(siginfo_t){0}, WEXITED | WNOWAIT), ==, 0);
    watch();
    AT_ONCE(poll(&p, 1, -1), 1);
    AT_ONCE(ppoll(&p, 1, NULL, NULL), 1);
    AT_ONCE(select(e.a + 1, &fds, NULL, NULL, NULL), 1);
    AT_ONCE(epoll_wait(set, &event, 1, -1), 1);
    AT_ONCE(waitpid(child, &state, 0), child);
    unwatch();
    close(set);
    close_ends(e);
}

STATEMENTS(at_once, what_a_socket_has_is_read_at_once, what_a_pipe_has_is_read_at_once,
           files_and_devices_that_are_always_ready_are_read_and_written_at_once,
           other_descriptors_that_have_something_are_read_at_once, a_terminal_that_has_a_line_is_read_at_once,
           what_there_is_room_for_is_written_at_once, a_connection_that_has_come_is_accepted_at_once,
           a_connection_that_the_kernel_makes_at_once_is_made_at_once, what_there_is_and_has_room_is_moved_at_once,
           what_is_so_is_told_at_once)
