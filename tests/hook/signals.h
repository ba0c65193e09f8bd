/*
 * tests/hook/signals.h: a handler of SIGUSR1 that counts, and calls that wait for something to read while signals come.
 */
#ifndef TESTS_HOOK_SIGNALS_H
#define TESTS_HOOK_SIGNALS_H

#include "hook/ends.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>

static int handled; /* atomic */

static inline void count_it(int number)
{
    (void)number;
    __atomic_add_fetch(&handled, 1, __ATOMIC_RELAXED);
}

static inline int count(void)
{
    return __atomic_load_n(&handled, __ATOMIC_RELAXED);
}

/* The handler for SIGUSR1, until `restore`. */
static inline struct sigaction handle(int flags)
{
    struct sigaction act = {.sa_handler = count_it, .sa_flags = flags}, before;
    __atomic_store_n(&handled, 0, __ATOMIC_RELAXED);
    CHECK_INT(sigaction(SIGUSR1, &act, &before), ==, 0);
    return before;
}

static inline void restore(struct sigaction before)
{
    CHECK_INT(sigaction(SIGUSR1, &before, NULL), ==, 0);
}

static inline long in_recv(int fd)
{
    char byte;
    return recv(fd, &byte, 1, 0);
}

static inline long in_read(int fd)
{
    char byte;
    return read(fd, &byte, 1);
}

static inline long in_limited_recv(int fd)
{
    struct timeval t = {20, 0};
    CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t), ==, 0);
    return in_recv(fd);
}

static inline long in_poll(int fd)
{
    struct pollfd p = {fd, POLLIN, 0};
    return poll(&p, 1, -1);
}

static inline long in_select(int fd)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    return select(fd + 1, &set, NULL, NULL, NULL);
}

static inline long in_epoll_wait(int fd)
{
    struct epoll_event e = {.events = EPOLLIN};
    int set = epoll_create1(EPOLL_CLOEXEC);
    CHECK_INT(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e), ==, 0);
    int n = epoll_wait(set, &e, 1, -1), error = errno;
    close(set);
    errno = error;
    return n;
}

#endif
