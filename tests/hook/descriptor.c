/*
 * tests/hook/descriptor.c: descriptors from anywhere, of any number, are the same to the hooks; other processes and plain
 * threads see them as they are; and what is none of the hooks' business goes to the kernel as it is.
 */
#include "hook/peer.h"

#include <time.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

static int inherited[3]; /* a listener on 127.0.0.1, and a pair; const after the start */

/* The program begins anew once, with descriptors that nothing of this process has made. */
__attribute__((constructor)) static void begin_anew(void)
{
    const char *given = getenv("HOOK_TEST_INHERITED");
    if (given) {
        if (sscanf(given, "%d %d %d", &inherited[0], &inherited[1], &inherited[2]) != 3)
            abort();
        return;
    }
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int pair[2], l = socket(AF_INET, SOCK_STREAM, 0);
    char text[64], *const arguments[] = {(char *)"descriptor", NULL};
    if (l < 0 || bind(l, AS_ADDRESS(at), sizeof at) != 0 || listen(l, 8) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        abort();
    snprintf(text, sizeof text, "%d %d %d", l, pair[0], pair[1]);
    setenv("HOOK_TEST_INHERITED", text, 1);
    execv("/proc/self/exe", arguments);
    abort();
}

/* recv, poll and O_NONBLOCK on a socket: it waits for data, or does not. */
static void check_waits(int fd, int other)
{
    char c;
    for (int polls = 0; polls < 2; polls++) {
        struct writer w = {other, 40, "x", 1};
        struct pollfd p = {fd, POLLIN, 0};
        double start = now_ms();
        struct flow *writes = begin(write_later, &w);
        if (polls) {
            CHECK_INT(poll(&p, 1, -1), ==, 1);
            CHECK_INT(p.revents, ==, POLLIN);
            CHECK_AFTER(start, 40);
        }
        CHECK_INT(recv(fd, &c, 1, 0), ==, 1);
        CHECK_AFTER(start, 40);
        end(writes);
    }
    int flags = fcntl(fd, F_GETFL);
    CHECK_INT(fcntl(fd, F_SETFL, flags | O_NONBLOCK), ==, 0);
    CHECK_ERRNO(recv(fd, &c, 1, 0), EAGAIN);
    CHECK_INT(fcntl(fd, F_SETFL, flags), ==, 0);
}

static void connect_later(void *arg)
{
    struct sockaddr_in at;
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_INT(getsockname(*(int *)arg, AS_ADDRESS(at), &size), ==, 0);
    usleep(40000);
    CHECK_INT(connect(fd, AS_ADDRESS(at), sizeof at), ==, 0);
    close(fd);
}

static void check_accept_waits(int l)
{
    double start = now_ms();
    struct flow *connects = begin(connect_later, &l);
    int fd = accept(l, NULL, NULL);
    CHECK_INT(fd, >=, 0);
    CHECK_AFTER(start, 40);
    end(connects);
    close(fd);
}

STATEMENT(a_descriptor_inherited_over_exec_is_like_any_other)
{
    check_waits(inherited[1], inherited[2]);
    check_accept_waits(inherited[0]);
}

STATEMENT(a_descriptor_made_past_the_hooks_is_like_any_other)
{
    int pair[2];
    CHECK_INT(syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, pair), ==, 0);
    check_waits(pair[0], pair[1]);
    CHECK_INT(syscall(SYS_close, pair[0]), ==, 0);
    CHECK_INT(syscall(SYS_close, pair[1]), ==, 0);
    unix_pair(pair, SOCK_STREAM);
    check_waits(pair[1], pair[0]);
    close_pair(pair);
}

static void send_descriptor(int through, int fd)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.header = {CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS}};
    struct msghdr m = {.msg_iov = &(struct iovec){(char *)"d", 1}, .msg_iovlen = 1};
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    m.msg_control = &control;
    m.msg_controllen = sizeof control;
    CHECK_INT(sendmsg(through, &m, 0), ==, 1);
}

static int receive_descriptor(int through)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    char c;
    int fd = -1;
    struct msghdr m = {.msg_iov = &(struct iovec){&c, 1}, .msg_iovlen = 1};
    m.msg_control = &control;
    m.msg_controllen = sizeof control;
    CHECK_INT(recvmsg(through, &m, MSG_CMSG_CLOEXEC), ==, 1);
    CHECK_INT(m.msg_controllen, ==, sizeof control);
    memcpy(&fd, CMSG_DATA(&control.header), sizeof fd);
    return fd;
}

static void send_both(void *arg)
{
    struct sockaddr_in at;
    int l = listener(8, &at), pair[2], through = *(int *)arg;
    usleep(30000);
    unix_pair(pair, SOCK_STREAM);
    send_descriptor(through, l);
    send_descriptor(through, pair[0]);
    send_descriptor(through, pair[1]);
    close_pair(pair);
    close(l);
}

STATEMENT(a_descriptor_received_in_a_message_is_like_any_other)
{
    int through[2], received[3];
    unix_pair(through, SOCK_STREAM);
    struct flow *sends = begin(send_both, &through[1]);
    for (int i = 0; i < 3; i++)
        received[i] = receive_descriptor(through[0]);
    end(sends);
    check_accept_waits(received[0]);
    check_waits(received[1], received[2]);
    for (int i = 0; i < 3; i++)
        close(received[i]);
    close_pair(through);
}

/* In another process, past the hooks: the socket is blocking, and a read of it waits. */
static void check_in_child(int fd)
{
    char c;
    double start = now_ms();
    CHECK_BLOCKING(fd);
    CHECK_INT(syscall(SYS_read, fd, &c, 1), ==, 1);
    CHECK(now_ms() - start >= 80);
    _exit(0);
}

STATEMENT(another_process_that_gets_our_socket_sees_it_blocking)
{
    for (int sent = 0; sent < 2; sent++) {
        int pair[2], through[2], status;
        char c;
        tcp_pair(pair);
        unix_pair(through, SOCK_STREAM);
        CHECK_INT(write(pair[1], "x", 1), ==, 1);
        CHECK_INT(read(pair[0], &c, 1), ==, 1);
        struct writer w = {pair[1], 20, "x", 1};
        struct flow *writes = begin(write_later, &w);
        CHECK_INT(recv(pair[0], &c, 1, 0), ==, 1);
        end(writes);
        pid_t child = fork();
        if (child == 0)
            check_in_child(sent ? receive_descriptor(through[0]) : pair[0]);
        CHECK_INT(child, >, 0);
        if (sent)
            send_descriptor(through[1], pair[0]);
        usleep(200000); /* the child waits for at least 80 ms of these */
        CHECK_INT(write(pair[1], "x", 1), ==, 1);
        CHECK_INT(waitpid(child, &status, 0), ==, child);
        CHECK_INT(status, ==, 0);
        close_pair(pair);
        close_pair(through);
    }
}

static void read_plainly(void *arg)
{
    char c;
    CHECK_INT(read(*(int *)arg, &c, 1), ==, 1);
}

STATEMENT(a_plain_thread_waits_in_read_on_what_a_fiber_reads_too)
{
    int pair[2];
    char c;
    tcp_pair(pair);
    double start = now_ms();
    struct writer w = {pair[1], 80, "xy", 2};
    struct flow *flows[] = {begin_thread(read_plainly, &pair[0]), begin(write_later, &w)};
    CHECK_INT(read(pair[0], &c, 1), ==, 1);
    CHECK_AFTER(start, 80);
    end(flows[0]);
    CHECK_AFTER(start, 80);
    end(flows[1]);
    close_pair(pair);
}

struct acceptor {
    int listener;
    double start; /* who comes does so 100 ms later */
};

static void accept_plainly(void *arg)
{
    const struct acceptor *a = arg;
    int fd = accept(a->listener, NULL, NULL);
    CHECK_AFTER(a->start, 100);
    CHECK_INT(fd, >=, 0);
    close(fd);
}

static void connect_plainly(void *arg)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_INT(connect(fd, arg, sizeof(struct sockaddr_in)), ==, 0);
    CHECK_BLOCKING(fd);
    close(fd);
}

STATEMENT(a_plain_thread_waits_in_accept_and_connect)
{
    struct sockaddr_in at;
    int l = listener(8, &at);
    struct acceptor a = {l, now_ms()};
    struct flow *accepts = begin_thread(accept_plainly, &a);
    usleep(100000);
    end(begin_thread(connect_plainly, &at));
    end(accepts);
    close(l);
}

STATEMENT(accept_sets_no_option_and_fills_in_the_address)
{
    struct sockaddr_in at, from = {0}, self;
    socklen_t size = sizeof from, self_size = sizeof self;
    int l = listener(8, &at), fd = socket(AF_INET, SOCK_STREAM, 0), value = -1;
    CHECK_INT(connect(fd, AS_ADDRESS(at), sizeof at), ==, 0);
    CHECK_INT(getsockname(fd, AS_ADDRESS(self), &self_size), ==, 0);
    int other = accept(l, AS_ADDRESS(from), &size);
    CHECK_INT(size, ==, sizeof from);
    CHECK_INT(from.sin_family, ==, AF_INET);
    CHECK_INT(from.sin_port, ==, self.sin_port);
    CHECK_INT(from.sin_addr.s_addr, ==, htonl(INADDR_LOOPBACK));
    size = sizeof value;
    CHECK_INT(getsockopt(other, IPPROTO_TCP, TCP_NODELAY, &value, &size), ==, 0);
    CHECK_INT(value, ==, 0);
    CHECK_INT(getsockopt(other, SOL_SOCKET, SO_REUSEADDR, &value, &size), ==, 0);
    CHECK_INT(value, ==, 0);
    CHECK_INT(getsockopt(other, SOL_SOCKET, SO_KEEPALIVE, &value, &size), ==, 0);
    CHECK_INT(value, ==, 0);
    CHECK_BLOCKING(other);
    CHECK_INT(fcntl(other, F_GETFD), ==, 0);
    close(fd);
    close(other);
    close(l);
}

STATEMENT(accept4_gives_the_flags_it_is_asked_for_and_cuts_an_address_that_has_no_room)
{
    struct sockaddr_in at;
    int l = listener(8, &at);
    char room[4] = {1, 1, 7, 7};
    socklen_t size = 2;
    struct flow *connects = begin(connect_later, &l);
    int other = accept4(l, (struct sockaddr *)room, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    end(connects);
    CHECK_INT(size, ==, sizeof at);
    CHECK_INT(room[0], ==, AF_INET);
    CHECK_INT(room[2], ==, 7);
    CHECK_INT(fcntl(other, F_GETFD), ==, FD_CLOEXEC);
    CHECK_INT(raw_flags(other) & O_NONBLOCK, ==, O_NONBLOCK);
    close(other);
    close(l);
}

static void refuse_flags(void *arg)
{
    CHECK_ERRNO(accept4(*(int *)arg, NULL, NULL, 1), EINVAL);
}

static void refuse_state(void *arg)
{
    CHECK_ERRNO(accept(*(int *)arg, NULL, NULL), EINVAL);
}

static void refuse_kind(void *arg)
{
    CHECK_ERRNO(accept(*(int *)arg, NULL, NULL), ENOTSOCK);
}

static void refuse_protocol(void *arg)
{
    CHECK_ERRNO(accept(*(int *)arg, NULL, NULL), EOPNOTSUPP);
}

STATEMENT(an_accept_that_cannot_be_fails_at_once)
{
    struct sockaddr_in at;
    int l = listener(8, &at), pair[2], pipefd[2], udp = socket(AF_INET, SOCK_DGRAM, 0);
    tcp_pair(pair);
    CHECK_INT(pipe(pipefd), ==, 0);
    double start = now_ms();
    CHECK_ERRNO(accept(-1, NULL, NULL), EBADF);
    struct flow *flows[] = {begin(refuse_flags, &l), begin(refuse_state, &pair[0]), begin(refuse_kind, &pipefd[0]),
                            begin(refuse_protocol, &udp)};
    for (int i = 0; i < 4; i++) {
        end(flows[i]);
        CHECK_AT_ONCE(start);
    }
    close_pair(pair);
    close_pair(pipefd);
    close(udp);
    close(l);
}

STATEMENT(commands_of_fcntl_that_are_not_about_blocking_go_to_the_kernel)
{
    int fd = memfd_create("seals", MFD_CLOEXEC | MFD_ALLOW_SEALING), pair[2];
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    CHECK_INT(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), ==, 0);
    CHECK_INT(fcntl(fd, F_GET_SEALS), ==, F_SEAL_GROW);
    CHECK_INT(fcntl(fd, F_OFD_SETLK, &lock), ==, 0);
    CHECK_INT(fcntl(fd, F_OFD_GETLK, &lock), ==, 0);
    CHECK_INT(lock.l_type, ==, F_UNLCK);
    CHECK_INT(fcntl(fd, F_GETFD), ==, FD_CLOEXEC);
    CHECK_INT(fcntl(fd, F_SETFD, 0), ==, 0);
    CHECK_INT(fcntl(fd, F_GETFD), ==, 0);
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 300);
    CHECK_INT(copy, >=, 300);
    CHECK_INT(fcntl(copy, F_GETFD), ==, FD_CLOEXEC);
    CHECK_INT(pipe(pair), ==, 0);
    CHECK_INT(fcntl(pair[0], F_SETPIPE_SZ, 131072), ==, 131072);
    CHECK_INT(fcntl(pair[1], F_GETPIPE_SZ), ==, 131072);
    CHECK_INT(fcntl(pair[0], F_SETOWN, getpid()), ==, 0);
    CHECK_INT(fcntl(pair[0], F_GETOWN), ==, getpid());
    CHECK_ERRNO(fcntl(fd, 12345, 1), EINVAL);
    CHECK_ERRNO(fcntl64(fd, -3), EINVAL);
    CHECK_ERRNO(fcntl(-1, F_GETFL), EBADF);
    CHECK_ERRNO(fcntl(-1, F_SETFL, O_NONBLOCK), EBADF);
    close_pair(pair);
    close(copy);
    close(fd);
}

/* The kernel's table grows once all CPUs know, which takes long on a busy machine: no worker is to wait for that. */
static void make_room(void *arg)
{
    int high = *(const int *)arg;
    CHECK_INT(dup2(0, high), ==, high);
    CHECK_INT(close(high), ==, 0);
}

STATEMENT(descriptors_with_high_numbers_are_like_any_other)
{
    struct rlimit before, more;
    int pair[2], pipefd[2];
    char c;
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &before), ==, 0);
    more = before;
    if (more.rlim_max < 100100)
        printf("at most %llu descriptors are allowed here\n", (unsigned long long)more.rlim_max);
    more.rlim_cur = more.rlim_max < 100100 ? more.rlim_max : 100100;
    const int high = (int)more.rlim_cur - 90;
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &more), ==, 0);
    end(begin_thread(make_room, &(int){high + 1}));
    tcp_pair(pair);
    CHECK_INT(dup2(pair[0], high), ==, high);
    CHECK_INT(dup3(pair[1], high + 1, O_CLOEXEC), ==, high + 1);
    close_pair(pair);
    check_waits(high, high + 1);
    check_waits(high + 1, high);
    reset(high);
    CHECK_ERRNO(read(high + 1, &c, 1), ECONNRESET);
    CHECK_INT(close(high + 1), ==, 0);

    struct sockaddr_in at;
    int l = listener(8, &at), fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_INT(dup2(l, high), ==, high);
    CHECK_INT(dup2(fd, high + 1), ==, high + 1);
    close(l);
    close(fd);
    check_accept_waits(high);
    CHECK_INT(connect(high + 1, AS_ADDRESS(at), sizeof at), ==, 0);
    set_timeout(high + 1, SO_RCVTIMEO, 50);
    double start = now_ms();
    CHECK_ERRNO(recv(high + 1, &c, 1, 0), EAGAIN);
    CHECK_AFTER(start, 50);
    CHECK_INT(close_range(high, high + 1, 0), ==, 0);

    CHECK_INT(pipe(pipefd), ==, 0);
    CHECK_INT(dup2(pipefd[0], high), ==, high);
    struct writer w = {pipefd[1], 40, "x", 1};
    start = now_ms();
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(read(high, &c, 1), ==, 1);
    CHECK_AFTER(start, 40);
    end(writes);
    CHECK_INT(close(high), ==, 0);
    CHECK_ERRNO(recv(high, &c, 1, 0), EBADF);
    CHECK_ERRNO(close(high), EBADF);
    close_pair(pipefd);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &before), ==, 0);
}

STATEMENT(what_is_no_descriptor_or_of_another_kind_fails_at_once)
{
    int pair[2];
    char c = 'x';
    double start = now_ms();
    CHECK_INT(pipe(pair), ==, 0);
    CHECK_ERRNO(read(-1, &c, 1), EBADF);
    CHECK_ERRNO(write(-1, &c, 1), EBADF);
    CHECK_ERRNO(recv(-1, &c, 1, 0), EBADF);
    CHECK_ERRNO(read(1 << 30, &c, 1), EBADF);
    CHECK_ERRNO(send(1 << 30, &c, 1, 0), EBADF);
    CHECK_ERRNO(recv(pair[0], &c, 1, 0), ENOTSOCK);
    CHECK_ERRNO(send(pair[1], &c, 1, 0), ENOTSOCK);
    CHECK_ERRNO(connect(pair[1], &(struct sockaddr){.sa_family = AF_INET}, 16), ENOTSOCK);
    CHECK_ERRNO(read(pair[1], &c, 1), EBADF);
    CHECK_ERRNO(write(pair[0], &c, 1), EBADF);
    int folder = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_ERRNO(read(folder, &c, 1), EISDIR);
    close(folder);
    int path = open("/", O_PATH | O_CLOEXEC);
    CHECK_ERRNO(read(path, &c, 1), EBADF);
    close(path);
    close_pair(pair);
    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_ERRNO(recv(pair[0], &c, 1, 0), ENOTCONN);
    CHECK_ERRNO(read(pair[0], &c, 1), ENOTCONN);
    CHECK_ERRNO(send(pair[0], &c, 1, MSG_NOSIGNAL), EPIPE);
    close(pair[0]);
    CHECK_AT_ONCE(start);
}

/* Calls that make no descriptor do not need one. */
STATEMENT(without_a_free_descriptor_calls_that_make_none_work)
{
    struct sockaddr_in at;
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t size = sizeof name;
    int server = listener(8, &at), tcp = socket(AF_INET, SOCK_STREAM, 0);
    int there = socket(AF_UNIX, SOCK_STREAM, 0), local = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK_INT(bind(there, AS_ADDRESS(name), sizeof(sa_family_t)), ==, 0);
    CHECK_INT(getsockname(there, AS_ADDRESS(name), &size), ==, 0);
    CHECK_INT(listen(there, 8), ==, 0);
    pid_t child = fork();
    if (child == 0) {
        usleep(50000);
        _exit(3);
    }
    struct rlimit before, none;
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &before), ==, 0);
    int next = dup(0);
    close(next);
    none = (struct rlimit){(rlim_t)next, before.rlim_max};
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &none), ==, 0);
    CHECK_ERRNO(dup(0), EMFILE);
    CHECK_INT(connect(tcp, AS_ADDRESS(at), sizeof at), ==, 0);
    CHECK_INT(connect(local, AS_ADDRESS(name), size), ==, 0);
    struct timespec now, then;
    clock_gettime(CLOCK_REALTIME, &now);
    then = (struct timespec){now.tv_sec + (now.tv_nsec + 20000000) / 1000000000, (now.tv_nsec + 20000000) % 1000000000};
    double start = now_ms();
    CHECK_INT(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &then, NULL), ==, 0);
    CHECK_AFTER(start, 15);
    int state = 0;
    CHECK_INT(waitpid(child, &state, 0), ==, child);
    CHECK(WIFEXITED(state) && WEXITSTATUS(state) == 3);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &before), ==, 0);
    close(server);
    close(tcp);
    close(there);
    close(local);
}

STATEMENTS(descriptor, a_descriptor_inherited_over_exec_is_like_any_other,
           a_descriptor_made_past_the_hooks_is_like_any_other, a_descriptor_received_in_a_message_is_like_any_other,
           another_process_that_gets_our_socket_sees_it_blocking,
           a_plain_thread_waits_in_read_on_what_a_fiber_reads_too, a_plain_thread_waits_in_accept_and_connect,
           accept_sets_no_option_and_fills_in_the_address,
           accept4_gives_the_flags_it_is_asked_for_and_cuts_an_address_that_has_no_room,
           an_accept_that_cannot_be_fails_at_once, commands_of_fcntl_that_are_not_about_blocking_go_to_the_kernel,
           descriptors_with_high_numbers_are_like_any_other, what_is_no_descriptor_or_of_another_kind_fails_at_once,
           without_a_free_descriptor_calls_that_make_none_work)
