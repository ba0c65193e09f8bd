/*
 * combine/servers.c: weft_listen, weft_dial and weft_serve. Servers send back the bytes that they get. Some handlers
 * close their descriptor themselves, and serving ends in each of its ways. A client gets back the bytes that it sent,
 * or its connection ends.
 */
#include "stress/combine/combine.h"

#include <stdio.h>
#include <sys/un.h>

enum { MOST_CLIENTS = 5, MOST_TALK = 3000 };

/* What a handler does is in the first byte that its client sends. */
enum { ECHO, ECHO_AND_CLOSE, CLOSE_AT_ONCE, WAYS };

struct service {
    struct scene *scene;
    int listener;
    char address[64];
    weft_serve_opts opts;
    weft_time deadline;
    bool is_deaf; /* the server is in a section that must not be cancelled */
    int handlers; /* that are inside. flag, counted */
    int most;     /* const: opts.max_conns, or no limit */
};

struct client {
    struct service *service;
    uint64_t random;
    bool ended_early; /* its connection was closed before its time: the server was going */
};

/* ---- the server ---- */

/* Until its client ends, with deadlines that do not matter. */
static void echo(struct scene *s, int fd)
{
    unsigned char *bytes = malloc(MOST_TALK);
    for (;;) {
        ptrdiff_t n = weft_read(fd, bytes, MOST_TALK, WEFT_FOREVER);
        if (n > 0)
            n = weft_write_all(fd, bytes, (size_t)n, NULL, WEFT_FOREVER);
        if (n == -ECANCELED)
            EXPECT(s, weft_cancelled());
        else if (n < 0 && n != -ECONNRESET && n != -EPIPE)
            WRONG(s, "a handler: %td (%s)", n, strerror((int)-n));
        if (n <= 0)
            break;
        did(s);
    }
    free(bytes);
}

static void handle(int fd, void *arg)
{
    struct service *v = arg;
    struct scene *s = v->scene;
    unsigned char way = 0;
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    EXPECT_INT(s, more(&v->handlers), <=, v->most);
    if (v->opts.peers)
        EXPECT_INT(s, weft_peer((struct sockaddr *)&peer, &size), ==, 0);
    ptrdiff_t n = weft_read(fd, &way, 1, WEFT_FOREVER);
    if (n < 0 && n != -ECANCELED && n != -ECONNRESET)
        WRONG(s, "a handler's first read: %td (%s)", n, strerror((int)-n));
    if (n == 1 && way != CLOSE_AT_ONCE)
        echo(s, fd);
    __atomic_sub_fetch(&v->handlers, 1, __ATOMIC_ACQ_REL);
    if (n == 1 && way != ECHO) {
        EXPECT_INT(s, weft_close(fd), ==, 0);
        if (!weft_cancelled()) /* others may get the number before the server goes on */
            weft_sleep(200 * WEFT_US);
    }
    did(s);
}

static void *serves(void *arg)
{
    struct service *v = arg;
    if (weft_hook_deaf(v->is_deaf))
        WRONG(v->scene, "a new fiber begins in a section that must not be cancelled");
    int rc = weft_serve(v->listener, handle, v, &v->opts, v->deadline);
    if (rc == 0 && v->deadline.ns != INT64_MAX) /* else its listener was closed */
        EXPECT_INT(v->scene, weft_now().ns, >=, v->deadline.ns);
    if (rc == -ECANCELED)
        EXPECT(v->scene, weft_cancelled() && !v->is_deaf);
    EXPECT_INT(v->scene, seen(&v->handlers), ==, 0);
    if (weft_hook_deaf(v->is_deaf) != v->is_deaf)
        WRONG(v->scene, "weft_serve has ended a section of its caller that must not be cancelled");
    did(v->scene);
    return ptr(rc);
}

/* ---- clients ---- */

static int connect_to(struct client *c)
{
    struct service *v = c->service;
    weft_time deadline = chance(&c->random, 4) ? weft_in(WEFT_SEC * 20) : WEFT_FOREVER;
    struct sockaddr_storage *to;
    socklen_t size = sizeof *to;
    if (weft_fiber_current() && chance(&c->random, 2))
        return weft_dial(v->address, deadline);
    to = malloc(sizeof *to);
    int fd = -EBADF;
    if (getsockname(v->listener, (struct sockaddr *)to, &size) == 0) {
        fd = socket(to->ss_family, SOCK_STREAM | SOCK_CLOEXEC | (chance(&c->random, 2) ? SOCK_NONBLOCK : 0), 0);
        int rc = weft_connect(fd, (struct sockaddr *)to, size, deadline);
        for (; rc == -EAGAIN; rc = weft_connect(fd, (struct sockaddr *)to, size, deadline))
            breathe(); /* a full backlog of a UNIX socket */
        if (rc != 0) {
            weft_close(fd);
            fd = rc;
        }
    }
    free(to);
    return fd;
}

/* Sends, and compares what comes back. */
static void talk(struct client *c, int fd)
{
    struct scene *s = c->service->scene;
    unsigned char *bytes = malloc(2 * (size_t)MOST_TALK), *back = bytes + MOST_TALK;
    for (unsigned n = pick(&c->random, 4); n > 0; n--) {
        size_t size = 1 + pick(&c->random, MOST_TALK), got = 0;
        fill(bytes, size, c->random, 0);
        ptrdiff_t rc = weft_write_all(fd, bytes, size, NULL, WEFT_FOREVER);
        if (rc == (ptrdiff_t)size)
            rc = weft_read_full(fd, back, size, &got, WEFT_FOREVER);
        did(s);
        if (memcmp(bytes, back, got) != 0 && got > 0)
            WRONG(s, "what came back is not what was sent");
        if (rc == (ptrdiff_t)size)
            continue;
        if (rc < 0 && rc != -ECONNRESET && rc != -EPIPE)
            WRONG(s, "a client: %td (%s)", rc, strerror((int)-rc));
        c->ended_early = true;
        break;
    }
    free(bytes);
}

static void *visits(void *arg)
{
    struct client *c = arg;
    struct scene *s = c->service->scene;
    for (unsigned n = 1 + pick(&c->random, 4); n > 0 && !c->ended_early; n--) {
        unsigned char way = (unsigned char)pick(&c->random, WAYS);
        int fd = connect_to(c);
        if (fd < 0) {
            WRONG(s, "a client cannot connect: %d (%s)", fd, strerror(-fd));
            break;
        }
        ptrdiff_t rc = weft_write(fd, &way, 1, WEFT_FOREVER);
        EXPECT(s, rc == 1 || rc == -EPIPE || rc == -ECONNRESET);
        if (way == CLOSE_AT_ONCE) {
            unsigned char byte;
            rc = weft_read(fd, &byte, 1, WEFT_FOREVER);
            EXPECT(s, rc == 0 || rc == -ECONNRESET);
        } else {
            talk(c, fd);
            if (c->ended_early && c->service->deadline.ns == WEFT_FOREVER.ns)
                WRONG(s, "a connection has ended that nobody ended");
        }
        EXPECT_INT(s, weft_close(fd), ==, 0);
    }
    return NULL;
}

/* ---- the step ---- */

static bool open_service(struct scene *s, struct service *v)
{
    static unsigned number; /* atomic */
    if (chance(&s->random, 2)) {
        snprintf(v->address, sizeof v->address, "unix:@weft-combine-%d-%u", getpid(),
                 __atomic_add_fetch(&number, 1, __ATOMIC_RELAXED));
        v->listener = weft_listen(v->address);
    } else {
        v->listener = weft_listen("127.0.0.1:0");
        snprintf(v->address, sizeof v->address, "127.0.0.1:%d", v->listener >= 0 ? weft_port(v->listener) : 0);
    }
    if (v->listener < 0)
        WRONG(s, "weft_listen: %d", v->listener);
    return v->listener >= 0;
}

void step_service(struct scene *s)
{
    struct service *v = calloc(1, sizeof *v);
    struct client *clients = calloc(MOST_CLIENTS, sizeof *clients);
    weft_fiber *server = NULL, *fibers[MOST_CLIENTS];
    unsigned n = pick(&s->random, MOST_CLIENTS + 1), end = pick(&s->random, 3);
    v->scene = s;
    v->is_deaf = end != 1 && chance(&s->random, 2);
    v->opts = (weft_serve_opts){.size = sizeof v->opts,
                                .max_conns = chance(&s->random, 3) ? 1 + pick(&s->random, 3) : 0,
                                .peers = chance(&s->random, 2)};
    v->opts.grace = chance(&s->random, 2) ? -1 : 20 * WEFT_MS;
    v->most = v->opts.max_conns ? (int)v->opts.max_conns : INT32_MAX;
    /* Clients that are cut off are right only in a service that ends by its deadline: those have none that wait. */
    v->deadline = end == 0 ? weft_in((weft_span)pick(&s->random, 5000) * WEFT_US) : WEFT_FOREVER;
    if (!open_service(s, v))
        goto out;
    start(s, &server, &s->random, serves, v);
    for (unsigned i = 0; end != 0 && i < n; i++) {
        clients[i] = (struct client){.service = v, .random = new_random(&s->random)};
        start(s, &fibers[i], &s->random, visits, &clients[i]);
    }
    for (unsigned i = 0; end != 0 && i < n; i++)
        ended(s, fibers[i]);
    if (end == 1)
        weft_cancel(server);
    if (end == 2) {
        AWAIT(is_parked(server)); /* before that it has not looked which descriptor the number is */
        EXPECT_INT(s, weft_close(v->listener), ==, 0);
    }
    intptr_t rc = (intptr_t)ended(s, server);
    static const int results[] = {0, -ECANCELED, 0};
    EXPECT_INT(s, rc, ==, results[end]);
    if (end != 2)
        EXPECT_INT(s, weft_close(v->listener), ==, 0);
out:
    free(clients);
    free(v);
}
