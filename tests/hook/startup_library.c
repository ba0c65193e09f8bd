/*
 * tests/hook/startup_library.c: a library that knows nothing of weft, with a constructor and a destructor that make calls
 * which have hooks.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hook/startup.h"

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return #condition;                                                                                         \
    } while (0)

static const char *pass_bytes(const int *pair)
{
    char text[8] = "";
    struct iovec part = {text, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    EXPECT(write(pair[1], "a", 1) == 1 && read(pair[0], text, 8) == 1 && text[0] == 'a');
    EXPECT(send(pair[1], "b", 1, 0) == 1 && recv(pair[0], text, 8, 0) == 1 && text[0] == 'b');
    EXPECT(writev(pair[1], &part, 1) == 1 && readv(pair[0], &part, 1) == 1);
    EXPECT(sendmsg(pair[1], &message, 0) == 1 && recvmsg(pair[0], &message, 0) == 1);
    EXPECT(sendto(pair[1], "c", 1, 0, NULL, 0) == 1 && recvfrom(pair[0], text, 1, 0, NULL, NULL) == 1);
    EXPECT(recv(pair[0], text, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    return "";
}

static const char *wait_for_them(const int *pair)
{
    struct pollfd p = {pair[0], POLLIN | POLLOUT, 0};
    struct timeval t = {0, 1000};
    struct timespec n = {0, 1000000};
    struct epoll_event e = {.events = EPOLLOUT};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(pair[0], &set);
    EXPECT(poll(&p, 1, 10) == 1 && p.revents == POLLOUT);
    EXPECT(ppoll(&p, 1, &n, NULL) == 1);
    EXPECT(select(pair[0] + 1, &set, NULL, NULL, &t) == 0 && t.tv_usec == 0);
    EXPECT(pselect(0, NULL, NULL, NULL, &n, NULL) == 0);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    EXPECT(epoll >= 0 && epoll_wait(epoll, &e, 1, 1) == 0);
    EXPECT(epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &e) == 0 && epoll_wait(epoll, &e, 1, -1) == 1);
    EXPECT(close(epoll) == 0);
    return "";
}

static const char *sleep_and_start(void)
{
    int state = -1;
    struct timespec n = {0, 1000000};
    struct sigaction before, act = {.sa_handler = SIG_IGN};
    EXPECT(usleep(1000) == 0 && nanosleep(&n, NULL) == 0 && sleep(0) == 0);
    EXPECT(clock_nanosleep(CLOCK_MONOTONIC, 0, &n, NULL) == 0);
    EXPECT(sigaction(SIGUSR2, &act, &before) == 0 && signal(SIGUSR2, SIG_DFL) == SIG_IGN);
    EXPECT(sigaction(SIGUSR2, &before, NULL) == 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(usleep(1000) == 0 ? 9 : 8);
    EXPECT(waitpid(pid, &state, 0) == pid && WIFEXITED(state) && WEXITSTATUS(state) == 9);
    EXPECT(waitpid(-1, &state, 0) == -1 && errno == ECHILD);
    EXPECT(system("exit 3") == 3 << 8);
    return "";
}

static const char *find(void)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *found = NULL;
    EXPECT(getaddrinfo("127.0.0.1", "80", &hints, &found) == 0 && found);
    freeaddrinfo(found);
    return "";
}

static const char *replace(const int *pair)
{
    char byte;
    int copy = dup(pair[0]);
    EXPECT(dup2(pair[1], copy) == copy && dup3(pair[1], copy, 0) == copy);
    EXPECT(shutdown(pair[1], SHUT_WR) == 0 && read(pair[0], &byte, 1) == 0);
    EXPECT(close_range((unsigned)copy, (unsigned)copy, 0) == 0 && close(copy) == -1 && errno == EBADF);
    return "";
}

const char *startup_calls(void)
{
    int pair[2];
    const char *wrong;
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    wrong = pass_bytes(pair);
    wrong = *wrong ? wrong : wait_for_them(pair);
    wrong = *wrong ? wrong : sleep_and_start();
    wrong = *wrong ? wrong : find();
    wrong = *wrong ? wrong : replace(pair);
    EXPECT(close(pair[0]) == 0 && close(pair[1]) == 0);
    return wrong;
}

static const char *said = "it has not run";
static bool is_to_end;

__attribute__((constructor)) static void set_up(void)
{
    said = startup_calls();
}

const char *startup_library_said(void)
{
    return said;
}

static void say(const char *when)
{
    dprintf(STDERR_FILENO, "startup: %s: %s\n", when, startup_calls());
}

static void at_exit(void)
{
    say("at exit");
}

void startup_library_is_to_end(void)
{
    is_to_end = true;
    atexit(at_exit);
}

__attribute__((destructor)) static void tear_down(void)
{
    if (is_to_end)
        say("destructor");
}
