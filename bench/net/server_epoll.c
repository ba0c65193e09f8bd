/*
 * server_epoll.c: the least that an echo server on epoll can do, in two ways. Level-triggered: one read for each event.
 * Edge-triggered: reads until one is short. A descriptor is registered once; epoll_ctl comes again only for an answer
 * that did not fit into its socket, level-triggered.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/case.h"
#include "server.h"

#define EVENTS 512
#define DESCRIPTORS 65536

/* The rest of an answer that did not fit. */
struct rest {
    size_t from, to;
    char bytes[];
};

static struct server server;
static struct rest *rests[DESCRIPTORS]; /* by descriptor; NULL: all is sent */
static char *room;
static bool edge;
static int set;

static void control(int operation, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events | (edge ? EPOLLET : 0), .data.fd = fd};
    if (epoll_ctl(set, operation, fd, &event) != 0)
        case_fail("epoll_ctl: %s", strerror(errno));
}

static void end(int fd)
{
    close(fd);
    free(rests[fd]);
    rests[fd] = NULL;
}

static void accept_all(void)
{
    int fd;

    while ((fd = accept4(server.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        if (fd >= DESCRIPTORS)
            case_fail("descriptor %d is too big", fd);
        control(EPOLL_CTL_ADD, fd, edge ? EPOLLIN | EPOLLOUT : EPOLLIN);
    }
    if (errno != EAGAIN && errno != ECONNABORTED)
        case_fail("accept4: %s", strerror(errno));
}

/* Bytes sent, or -1: the connection broke. */
static ssize_t send_some(int fd, const char *bytes, size_t count)
{
    ssize_t n = send(fd, bytes, count, MSG_NOSIGNAL);
    return n < 0 && errno == EAGAIN ? 0 : n;
}

static void keep_rest(int fd, size_t from, size_t to)
{
    rests[fd] = server_alloc(sizeof(struct rest) + to);
    rests[fd]->from = from;
    rests[fd]->to = to;
    memcpy(rests[fd]->bytes, room, to);
    if (!edge)
        control(EPOLL_CTL_MOD, fd, EPOLLOUT);
}

/* Whether all of it is gone. */
static bool send_rest(int fd)
{
    struct rest *rest = rests[fd];
    ssize_t n = send_some(fd, rest->bytes + rest->from, rest->to - rest->from);

    if (n < 0) {
        end(fd);
        return false;
    }
    rest->from += (size_t)n;
    if (rest->from < rest->to)
        return false;
    free(rest);
    rests[fd] = NULL;
    if (!edge)
        control(EPOLL_CTL_MOD, fd, EPOLLIN);
    return true;
}

static void echo(int fd)
{
    ssize_t n, sent;

    do {
        n = recv(fd, room, server.room, 0);
        if (n < 0 && errno == EAGAIN)
            return;
        sent = n > 0 ? send_some(fd, room, (size_t)n) : -1;
        if (sent < 0) {
            end(fd);
            return;
        }
        if (sent < n) {
            keep_rest(fd, (size_t)sent, (size_t)n);
            return;
        }
    } while (edge && (size_t)n == server.room);
}

static void handle(const struct epoll_event *event)
{
    int fd = event->data.fd;

    if (fd == server.listener)
        accept_all();
    else if (rests[fd]) {
        if (send_rest(fd) && edge)
            echo(fd);
    } else if (event->events & ~(uint32_t)EPOLLOUT)
        echo(fd);
}

int main(int argc, char **argv)
{
    static struct epoll_event events[EVENTS];

    server = server_open(argc, argv);
    edge = server_is(&server, "raw-epoll-edge");
    room = server_alloc(server.room);
    set = epoll_create1(EPOLL_CLOEXEC);
    if (set < 0)
        case_fail("epoll_create1: %s", strerror(errno));
    control(EPOLL_CTL_ADD, server.listener, EPOLLIN);
    server_announce(&server);
    for (;;) {
        int n = epoll_wait(set, events, EVENTS, -1);
        for (int i = 0; i < n; i++)
            handle(&events[i]);
    }
}
