/*
 * Corners: no descriptor is left; sets within sets; an end that takes its time; numbers and memory that are not there.
 */
#include "hook/peer.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <time.h>

/* From now on there is no number left; what the limit was before. */
static struct rlimit take_all_numbers(void)
{
    struct rlimit before, none;
    int next = dup(0);
    CHECK_INT(close(next), ==, 0);
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &before), ==, 0);
    none = before;
    none.rlim_cur = (rlim_t)next;
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &none), ==, 0);
    return before;
}

STATEMENT(a_call_waits_also_if_there_is_no_number_left_for_a_descriptor)
{
    int pair[2], pipefd[2];
    char c;
    unix_pair(pair, SOCK_STREAM);
    CHECK_INT(pipe2(pipefd, O_CLOEXEC), ==, 0);
    struct rlimit before = take_all_numbers();
    struct writer w = {pair[1], 60, "x", 1}, v = {pipefd[1], 60, "y", 1};
    double start = now_ms();
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(recv(pair[0], &c, 1, 0), ==, 1);
    CHECK_AFTER(start, 60);
    end(writes);
    start = now_ms();
    writes = begin(write_later, &v);
    CHECK_INT(read(pipefd[0], &c, 1), ==, 1);
    CHECK_AFTER(start, 60);
    end(writes);
    start = now_ms();
    CHECK_INT(poll(&(struct pollfd){.fd = pair[0], .events = POLLIN}, 1, 50), ==, 0);
    CHECK_AFTER(start, 50);
    start = now_ms();
    writes = begin(write_later, &w);
    CHECK_INT(poll(&(struct pollfd){.fd = pair[0], .events = POLLIN}, 1, 5000), ==, 1);
    CHECK_AFTER(start, 60);
    end(writes);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &before), ==, 0);
    close_pair(pair);
    close_pair(pipefd);
}

static pid_t child_for_60_ms(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = 60000000}, NULL);
        _exit(7);
    }
    CHECK_INT(pid, >, 0);
    return pid;
}

struct call {
    struct sockaddr_in at;
    int fd;
};

static void connect_later(void *arg)
{
    struct call *c = arg;
    usleep(60000);
    CHECK_INT(connect(c->fd, AS_ADDRESS(c->at), sizeof c->at), ==, 0);
}

/* One number is left: the call itself may need it. */
STATEMENT(children_and_connections_are_waited_for_with_one_number_left)
{
    struct call c = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    int status = -1, l = listener(8, &c.at);
    struct rlimit before = take_all_numbers(), one = before;
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &one), ==, 0);
    one.rlim_cur++;
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &one), ==, 0);
    double start = now_ms();
    pid_t pid = child_for_60_ms();
    CHECK_INT(waitpid(pid, &status, 0), ==, pid);
    CHECK_AFTER(start, 60);
    CHECK_INT(WEXITSTATUS(status), ==, 7);
    start = now_ms();
    struct flow *calls = begin_thread(connect_later, &c); /* takes no number */
    int made = accept(l, NULL, NULL);
    CHECK_INT(made, >=, 0);
    CHECK_AFTER(start, 60);
    end(calls);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &before), ==, 0);
    close(made);
    close(c.fd);
    close(l);
}

STATEMENT(what_cannot_be_sent_to_a_pipe_is_refused_at_once)
{
    static char much[1 << 20];
    int pair[2], other[2], file = memfd_create("file", MFD_CLOEXEC);
    off_t at = 0, negative = -1;
    CHECK_INT(pipe2(pair, O_CLOEXEC | O_NONBLOCK), ==, 0);
    CHECK_INT(pipe2(other, O_CLOEXEC), ==, 0);
    CHECK_INT(write(file, much, 4096), ==, 4096);
    CHECK_INT(write(pair[1], much, sizeof much), >, 0); /* it is full */
    CHECK_INT(fcntl(pair[1], F_SETFL, O_WRONLY), ==, 0);
    double start = now_ms();
    CHECK_ERRNO(sendfile(pair[0], file, &at, 10), EBADF);
    CHECK_ERRNO(sendfile(pair[1], -1, NULL, 10), EBADF);
    CHECK_ERRNO(sendfile(pair[1], other[1], NULL, 10), EBADF);
    CHECK_ERRNO(sendfile(pair[1], file, (off_t *)8, 10), EFAULT);
    CHECK_ERRNO(sendfile(pair[1], file, &negative, 10), EINVAL);
    CHECK_ERRNO(sendfile(pair[1], other[0], &at, 10), ESPIPE);
    CHECK_AT_ONCE(start);
    close_pair(pair);
    close_pair(other);
    close(file);
}

STATEMENT(an_accept_without_a_number_for_the_connection_fails_at_once)
{
    struct sockaddr_in at;
    int l = listener(8, &at);
    CHECK_INT(poll(&(struct pollfd){.fd = l, .events = POLLIN}, 1, 10), ==, 0);
    struct rlimit before = take_all_numbers();
    double start = now_ms();
    CHECK_ERRNO(accept(l, NULL, NULL), EMFILE);
    CHECK_AT_ONCE(start);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &before), ==, 0);
    close(l);
}

struct count {
    int fd, after_ms;
};

static void count_later(void *arg)
{
    const struct count *c = arg;
    usleep((useconds_t)c->after_ms * 1000);
    CHECK_INT(eventfd_write(c->fd, 1), ==, 0);
}

STATEMENT(as_many_sets_within_sets_as_the_kernel_allows_are_waited_for)
{
    enum { MOST = 8 };
    int sets[MOST], depth = 0, event = eventfd(0, EFD_CLOEXEC), inner = event;
    for (; depth < MOST; depth++) {
        struct epoll_event e = {.events = EPOLLIN};
        sets[depth] = epoll_create1(EPOLL_CLOEXEC);
        if (epoll_ctl(sets[depth], EPOLL_CTL_ADD, inner, &e) != 0) {
            CHECK_INT(close(sets[depth]), ==, 0);
            break;
        }
        inner = sets[depth];
    }
    CHECK_INT(depth, >=, 4);
    for (int i = 0; i < depth; i++) {
        struct epoll_event e;
        struct pollfd p = {.fd = sets[i], .events = POLLIN};
        double start = now_ms();
        CHECK_INT(epoll_wait(sets[i], &e, 1, 30), ==, 0);
        CHECK_AFTER(start, 30);
        struct count c = {event, 30};
        start = now_ms();
        struct flow *counts = begin(count_later, &c);
        CHECK_INT(poll(&p, 1, 5000), ==, 1);
        CHECK_AFTER(start, 30);
        CHECK_INT(epoll_wait(sets[i], &e, 1, 5000), ==, 1);
        end(counts);
        eventfd_t value;
        CHECK_INT(eventfd_read(event, &value), ==, 0);
    }
    while (depth > 0)
        CHECK_INT(close(sets[--depth]), ==, 0);
    close(event);
}

static void fill_and_linger(int fd)
{
    static char much[65536];
    struct linger l = {.l_onoff = 1, .l_linger = 1};
    while (send(fd, much, sizeof much, MSG_DONTWAIT) > 0)
        ;
    CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l), ==, 0);
}

STATEMENT(a_close_that_lingers_takes_its_time)
{
    for (int how = 0; how < 3; how++) {
        int pair[2], other = open("/dev/null", O_RDONLY | O_CLOEXEC);
        tcp_pair(pair);
        fill_and_linger(pair[0]);
        double start = now_ms();
        CHECK_INT(how == 0   ? close(pair[0])
                  : how == 1 ? dup2(other, pair[0]) - pair[0]
                             : dup3(other, pair[0], O_CLOEXEC) - pair[0],
                  ==, 0);
        CHECK_AFTER(start, 990);
        if (how == 0)
            CHECK_ERRNO(fcntl(pair[0], F_GETFD), EBADF);
        else
            CHECK_INT(close(pair[0]), ==, 0);
        close(pair[1]);
        close(other);
    }
}

/* In a process whose table is small: what has no place in it is not looked at, and is no mistake. */
static int select_far(void)
{
    fd_set reads;
    int pipefd[2];
    struct timeval limit = {0, 30000};
    if (pipe2(pipefd, O_CLOEXEC) != 0)
        return 1;
    FD_ZERO(&reads);
    FD_SET(pipefd[0], &reads);
    FD_SET(FD_SETSIZE - 1, &reads);
    double start = now_ms();
    return select(FD_SETSIZE, &reads, NULL, NULL, &limit) == 0 && now_ms() - start >= 30 ? 0 : 2;
}

/* A child's table is as large as its parent's open descriptors need. */
static int select_far_in_child(void)
{
    int status = -1;
    if (syscall(SYS_close_range, 32u, ~0u, 0) != 0)
        return 3;
    pid_t child = fork();
    if (child == 0)
        _exit(select_far());
    return waitpid(child, &status, 0) == child ? status : 4;
}

STATEMENT(select_does_not_look_at_numbers_that_the_table_has_no_room_for)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0)
        _exit(select_far_in_child());
    CHECK_INT(waitpid(child, &status, 0), ==, child);
    CHECK_INT(status, ==, 0);
}

STATEMENT(an_option_that_lies_nowhere_is_efault)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_ERRNO(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, (void *)8, sizeof(struct timeval)), EFAULT);
    CHECK_ERRNO(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, (void *)8, sizeof(struct timeval)), EFAULT);
    close(fd);
}

/* --- handlers that close --- */

static volatile int to_close; /* what the handler closes; -1: it has */

static void close_it(int number)
{
    int kept = errno;
    (void)number;
    if (to_close >= 0)
        close(to_close);
    to_close = -1;
    errno = kept;
}

STATEMENT(a_close_in_a_handler_returns_whatever_it_has_interrupted)
{
    struct sigaction act = {.sa_handler = close_it, .sa_flags = SA_RESTART}, before;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    timer_t timer;
    event._sigev_un._tid = gettid();
    CHECK_INT(sigaction(SIGUSR1, &act, &before), ==, 0);
    CHECK_INT(timer_create(CLOCK_MONOTONIC, &event, &timer), ==, 0);
    for (int i = 0; i < 1000; i++) {
        int pair[2];
        unix_pair(pair, SOCK_STREAM);
        to_close = pair[0];
        struct itimerspec soon = {.it_value.tv_nsec = 1000 + i * 7919 % 60000};
        CHECK_INT(timer_settime(timer, 0, &soon, NULL), ==, 0);
        while (to_close >= 0)
            poll(&(struct pollfd){.fd = pair[0], .events = POLLIN}, 1, 1);
        struct pollfd other = {.fd = pair[1], .events = POLLIN};
        CHECK_INT(poll(&other, 1, 5000), ==, 1);
        CHECK(other.revents & POLLHUP);
        CHECK_INT(close(pair[1]), ==, 0);
    }
    timer_delete(timer);
    CHECK_INT(sigaction(SIGUSR1, &before, NULL), ==, 0);
}

STATEMENTS(corners, a_call_waits_also_if_there_is_no_number_left_for_a_descriptor,
           children_and_connections_are_waited_for_with_one_number_left,
           what_cannot_be_sent_to_a_pipe_is_refused_at_once,
           an_accept_without_a_number_for_the_connection_fails_at_once,
           as_many_sets_within_sets_as_the_kernel_allows_are_waited_for, a_close_that_lingers_takes_its_time,
           select_does_not_look_at_numbers_that_the_table_has_no_room_for, an_option_that_lies_nowhere_is_efault,
           a_close_in_a_handler_returns_whatever_it_has_interrupted)
