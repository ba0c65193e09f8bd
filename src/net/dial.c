/*
 * net/dial.c: weft_listen, weft_port and weft_dial.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weft/fiber.h>
#include <weft/io.h>
#include <weft/net.h>

#include "base/errno.h"
#include "base/raw.h"
#include "base/thread.h"
#include "io/fd.h"
#include "net/address.h"
#include "sched/budget.h"
#include "sched/wait.h"

enum { BACKLOG = 4096, MOST_ADDRESSES = 16 };

#define STAGGER (250 * WEFT_MS)

static int new_socket(int family, int type)
{
    int kept = errno, fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int rc = fd < 0 ? -errno : fd;
    errno = kept;
    if (fd >= 0)
        wf_fd_fresh(fd);
    return rc;
}

static int bind_and_listen(int fd, const struct sockaddr *at, socklen_t size)
{
    int kept = errno;
    int rc = bind(fd, at, size) == 0 && listen(fd, BACKLOG) == 0 ? 0 : -errno;
    errno = kept;
    return rc;
}

/* Whether nobody listens at the other end of this socket file. */
static bool is_left_over(const struct wf_address *a)
{
    int kept = errno, fd = new_socket(AF_UNIX, SOCK_STREAM);
    bool refused = fd >= 0 && wf_raw_connect(fd, (const struct sockaddr *)&a->un, a->un_size) != 0 &&
                   errno == ECONNREFUSED;
    if (fd >= 0)
        wf_raw_close(fd);
    errno = kept;
    return refused;
}

static int listen_local(const struct wf_address *a)
{
    int fd = new_socket(AF_UNIX, SOCK_STREAM);
    if (fd < 0)
        return fd;
    int rc = bind_and_listen(fd, (const struct sockaddr *)&a->un, a->un_size);
    if (rc == -EADDRINUSE && a->un.sun_path[0] && is_left_over(a) && unlink(a->un.sun_path) == 0)
        rc = bind_and_listen(fd, (const struct sockaddr *)&a->un, a->un_size);
    if (rc != 0)
        wf_raw_close(fd);
    return rc == 0 ? fd : rc;
}

static int listen_at(const struct addrinfo *at)
{
    int fd = new_socket(at->ai_family, SOCK_STREAM), one = 1;
    if (fd < 0)
        return fd;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    int rc = bind_and_listen(fd, at->ai_addr, at->ai_addrlen);
    if (rc != 0)
        wf_raw_close(fd);
    return rc == 0 ? fd : rc;
}

/* The addresses that an address means, for freeaddrinfo. */
static int resolve(const struct wf_address *a, int flags, struct addrinfo **out, weft_time deadline)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_ADDRCONFIG};
    return weft_resolve(a->host[0] ? a->host : NULL, a->port, &hints, out, deadline);
}

/* At the first address that works. */
static int listen_inet(const struct wf_address *a)
{
    struct addrinfo *all;
    int rc = resolve(a, AI_PASSIVE, &all, WEFT_FOREVER);
    if (rc != 0)
        return rc;
    rc = -ENOENT;
    for (const struct addrinfo *at = all; at && rc < 0; at = at->ai_next)
        rc = listen_at(at);
    freeaddrinfo(all);
    return rc;
}

int weft_listen(const char *address)
{
    struct wf_address a;
    int rc = wf_address_read(&a, address);
    if (rc != 0)
        return rc;
    if (wf_cancel_point(wf_thread_now()->fiber, WEFT_FOREVER))
        return -ECANCELED;
    rc = a.local ? listen_local(&a) : listen_inet(&a);
    wf_budget_spend_anywhere(WF_COST_IO, true);
    return rc;
}

int weft_port(int fd)
{
    struct sockaddr_storage at;
    socklen_t size = sizeof at;
    int kept = errno, rc = getsockname(fd, (struct sockaddr *)&at, &size) == 0 ? 0 : -errno;
    errno = kept;
    if (rc != 0)
        return rc;
    switch (at.ss_family) {
    case AF_INET:
        return ntohs(((struct sockaddr_in *)&at)->sin_port);
    case AF_INET6:
        return ntohs(((struct sockaddr_in6 *)&at)->sin6_port);
    default:
        return -EINVAL;
    }
}

static int dial_local(const struct wf_address *a, weft_time deadline)
{
    int fd = new_socket(AF_UNIX, SOCK_STREAM);
    if (fd < 0)
        return fd;
    int rc = weft_connect(fd, (const struct sockaddr *)&a->un, a->un_size, deadline);
    if (rc != 0)
        weft_close(fd);
    return rc == 0 ? fd : rc;
}

/* The addresses in the order to try: as the resolver says, but of two kinds alternating. */
static size_t in_turn(const struct addrinfo *all, const struct addrinfo **order)
{
    const struct addrinfo *same = all, *other = all;
    size_t n = 0;
    for (bool first = true; n < MOST_ADDRESSES && (same || other); first = !first) {
        const struct addrinfo **next = first ? &same : &other;
        while (*next && ((*next)->ai_family == all->ai_family) != first)
            *next = (*next)->ai_next;
        if (*next) {
            order[n++] = *next;
            *next = (*next)->ai_next;
        }
    }
    return n;
}

/* A connection that is being made; its descriptor, or why there is none. */
static int begin(const struct addrinfo *at, bool *connected)
{
    int fd = new_socket(at->ai_family, SOCK_STREAM), kept = errno, one = 1;
    if (fd < 0)
        return fd;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    int rc = wf_raw_connect(fd, at->ai_addr, at->ai_addrlen) == 0 ? 0 : -errno;
    errno = kept;
    *connected = rc == 0;
    if (rc == 0 || rc == -EINPROGRESS)
        return fd;
    wf_raw_close(fd);
    return rc;
}

static int error_of(int fd)
{
    int kept = errno, error = 0;
    socklen_t size = sizeof error;
    int rc = getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? -error : -errno;
    errno = kept;
    return rc;
}

struct race {
    const struct addrinfo *order[MOST_ADDRESSES];
    size_t count, begun;
    struct pollfd fds[MOST_ADDRESSES];
    size_t open;
    int last; /* why the last one failed */
};

/* Starts the next one: its descriptor if it has connected at once, else -1. */
static int begin_next(struct race *r)
{
    bool connected = false;
    int fd = begin(r->order[r->begun++], &connected);
    if (connected)
        return fd;
    if (fd < 0)
        r->last = fd;
    else
        r->fds[r->open++] = (struct pollfd){.fd = fd, .events = POLLOUT};
    return -1;
}

/* Of those that poll has said something about: one that has connected, taken out; -1: none has. */
static int winner(struct race *r)
{
    int won = -1;
    for (size_t i = 0; won < 0 && i < r->open;) {
        if (r->fds[i].revents == 0) {
            i++;
            continue;
        }
        int fd = r->fds[i].fd, rc = error_of(fd);
        r->fds[i] = r->fds[--r->open];
        if (rc == 0) {
            won = fd;
        } else {
            r->last = rc;
            weft_close(fd);
        }
    }
    return won;
}

static int run_race(struct race *r, weft_time deadline)
{
    while (r->begun < r->count || r->open > 0) {
        if (r->begun < r->count) {
            int fd = begin_next(r);
            if (fd >= 0)
                return fd;
        }
        weft_time until = r->begun < r->count ? weft_in(r->open > 0 ? STAGGER : 0) : WEFT_FOREVER;
        int n = weft_poll(r->fds, r->open, until.ns < deadline.ns ? until : deadline);
        if (n < 0)
            return n;
        if (n == 0 && weft_now().ns >= deadline.ns)
            return wf_time_is_now(deadline) ? -EAGAIN : -ETIMEDOUT;
        int won = n > 0 ? winner(r) : -1;
        if (won >= 0)
            return won;
    }
    return r->last;
}

int weft_dial(const char *address, weft_time deadline)
{
    struct wf_address a;
    struct addrinfo *all;
    struct race r = {.last = -ENOENT};
    int rc = weft_fiber_current() ? wf_address_read(&a, address) : -ENXIO;
    if (rc != 0)
        return rc;
    if (wf_cancel_point(wf_thread_now()->fiber, deadline))
        return -ECANCELED;
    if (a.local)
        return dial_local(&a, deadline);
    rc = resolve(&a, 0, &all, deadline);
    if (rc != 0)
        return rc;
    r.count = in_turn(all, r.order);
    rc = run_race(&r, deadline);
    for (size_t i = 0; i < r.open; i++)
        weft_close(r.fds[i].fd);
    freeaddrinfo(all);
    return rc;
}
