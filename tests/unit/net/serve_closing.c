/*
 * A handler of weft_serve may close its connection: whatever has the number after that is left alone.
 */
#include <sys/stat.h>

#include <weft/net.h>

#include "io/fd.h"
#include "support/sandbox.h"
#include "unit/io/ground.h"

enum how { BY_WEFT_CLOSE, BY_HOOKS, BY_CLOSE, BY_DUP2, BY_FCLOSE, WAYS };

struct closing {
    enum how how;
    int pipe;   /* const: what gets the number */
    int number; /* flag: that it has got, when the handler is about to return */
};

static void close_by(enum how how, int fd)
{
    FILE *stream;
    switch (how) {
    case BY_WEFT_CLOSE:
        CHECK_INT(weft_close(fd), ==, 0);
        break;
    case BY_HOOKS: /* as close(2) does where they are on */
        CHECK(weft_closing((unsigned)fd, (unsigned)fd));
        CHECK_INT(close(fd), ==, 0);
        weft_closed((unsigned)fd, (unsigned)fd);
        break;
    case BY_FCLOSE:
        stream = fdopen(fd, "r+");
        CHECK(stream && fclose(stream) == 0);
        break;
    default:
        CHECK_INT(close(fd), ==, 0);
    }
}

static void closes_it(int fd, void *arg)
{
    struct closing *c = arg;
    char byte;
    CHECK_INT(weft_read(fd, &byte, 1, WEFT_FOREVER), ==, 1);
    if (c->how == BY_DUP2) {
        CHECK_INT(dup2(c->pipe, fd), ==, fd);
    } else {
        close_by(c->how, fd);
        CHECK_INT(fcntl(c->pipe, F_DUPFD, fd), ==, fd);
    }
    put(&c->number, fd);
}

static bool is_same_file(int fd, int as)
{
    struct stat a, b;
    return fstat(fd, &a) == 0 && fstat(as, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static int dial_it(int listener)
{
    char to[32];
    snprintf(to, sizeof to, "127.0.0.1:%d", weft_port(listener));
    int fd = weft_dial(to, weft_in(20 * WEFT_SEC));
    CHECK_INT(fd, >=, 0);
    return fd;
}

struct serving {
    int listener;
    weft_serve_fn *handler;
    void *arg;
};

static void *serves(void *arg)
{
    struct serving *s = arg;
    return ptr(weft_serve(s->listener, s->handler, s->arg, NULL, WEFT_FOREVER));
}

static void end_serving(weft_fiber *server, int listener)
{
    CHECK_INT(weft_close(listener), ==, 0);
    CHECK_PTR(ended(server), ==, ptr(0)); /* every handler has returned */
}

/* One connection for a handler, until serving has ended. */
static void serve_one(weft_serve_fn *handler, void *arg, const int *begun)
{
    struct serving s = {.listener = weft_listen("127.0.0.1:0"), .handler = handler, .arg = arg};
    weft_fiber *server = go(serves, &s);
    int fd = dial_it(s.listener);
    CHECK_INT(weft_write(fd, "x", 1, WEFT_FOREVER), ==, 1);
    AWAIT(seen(begun) >= 0);
    end_serving(server, s.listener);
    CHECK_INT(weft_close(fd), ==, 0);
}

static void *closes_in_each_way(void *arg)
{
    for (enum how how = 0; how < WAYS; how++) {
        struct pair p = pipe_pair(0);
        struct closing c = {.how = how, .pipe = p.a, .number = -1};
        serve_one(closes_it, &c, &c.number);
        CHECK(is_same_file(c.number, p.a));
        close(c.number);
        close_pair(p);
    }
    return arg;
}

/* With one worker: a second one may take the number while it is free, for what it waits with. */
TEST(a_number_that_the_handler_has_closed_is_left_alone)
{
    in_a_fiber(1, closes_in_each_way, NULL);
}

/* The number is another generation's, though it is the same connection. */
static void closes_it_and_has_a_copy_take_the_number(int fd, void *arg)
{
    struct closing *c = arg;
    int copy = fcntl(fd, F_DUPFD, fd + 1);
    close_by(c->how, fd);
    CHECK_INT(fcntl(copy, F_DUPFD, fd), ==, fd);
    close(copy);
    put(&c->number, fd);
}

static void *makes_copies(void *arg)
{
    for (enum how how = BY_WEFT_CLOSE; how <= BY_HOOKS; how++) {
        struct closing c = {.how = how, .number = -1};
        serve_one(closes_it_and_has_a_copy_take_the_number, &c, &c.number);
        CHECK_INT(fcntl(c.number, F_GETFD), >=, 0);
        close(c.number);
    }
    return arg;
}

TEST(a_copy_that_the_handler_makes_is_its_own)
{
    in_a_fiber(1, makes_copies, NULL);
}

/* ---- and many at a time, on several workers ---- */

enum { CLIENTS = 40, CALLS = 15 };

struct crowd {
    int listener;
    enum how how;
    int broken; /* flag */
};

static void answers_and_closes(int fd, void *arg)
{
    const struct crowd *c = arg;
    char byte;
    while (weft_read(fd, &byte, 1, WEFT_FOREVER) == 1 && weft_write(fd, &byte, 1, WEFT_FOREVER) == 1 && byte != '.')
        ;
    close_by(c->how, fd);
}

static void *calls(void *arg)
{
    struct crowd *c = arg;
    for (int i = 0; i < CALLS; i++) {
        int fd = dial_it(c->listener);
        for (int n = 0; n < 5; n++) {
            char byte = n < 4 ? 'a' : '.';
            if (weft_write(fd, &byte, 1, WEFT_FOREVER) != 1 || weft_read(fd, &byte, 1, weft_in(20 * WEFT_SEC)) != 1) {
                more(&c->broken);
                break;
            }
        }
        weft_close(fd);
    }
    return NULL;
}

static void *serves_a_crowd(void *arg)
{
    struct crowd *c = arg;
    weft_fiber *clients[CLIENTS];
    c->listener = weft_listen("127.0.0.1:0");
    struct serving s = {.listener = c->listener, .handler = answers_and_closes, .arg = c};
    weft_fiber *server = go(serves, &s);
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = go(calls, c);
    for (int i = 0; i < CLIENTS; i++)
        ended(clients[i]);
    end_serving(server, c->listener);
    CHECK_INT(seen(&c->broken), ==, 0);
    return NULL;
}

TEST(handlers_that_close_their_connections_break_no_others)
{
    for (enum how how = BY_WEFT_CLOSE; how <= BY_CLOSE; how++)
        in_a_fiber(4, serves_a_crowd, &(struct crowd){.how = how});
}

static void reads_one(int fd, void *arg)
{
    char byte;
    CHECK_INT(weft_read(fd, &byte, 1, WEFT_FOREVER), ==, 1);
    put(arg, 0);
}

/* One that the handler leaves open the server closes. */
static void *is_closed_by_the_server(void *arg)
{
    int begun = -1;
    char byte;
    struct serving s = {.listener = weft_listen("127.0.0.1:0"), .handler = reads_one, .arg = &begun};
    weft_fiber *server = go(serves, &s);
    int fd = dial_it(s.listener);
    CHECK_INT(weft_write(fd, "x", 1, WEFT_FOREVER), ==, 1);
    CHECK_INT(weft_read(fd, &byte, 1, weft_in(20 * WEFT_SEC)), ==, 0);
    end_serving(server, s.listener);
    CHECK_INT(weft_close(fd), ==, 0);
    return arg;
}

/* ---- one whose hangup was to cancel the handler: a ring has a poll for that, which holds the connection ---- */

struct hanging {
    enum how how;
    bool is_taken_back; /* const: the handler has ended the subscription */
    int pipe;           /* const: what gets the number with BY_DUP2 */
    int number;         /* flag: the handler's descriptor */
    weft_fiber *other;  /* const: the fiber that subscribes to the number's next descriptor, or NULL */
};

static void subscribes_and_closes(int fd, void *arg)
{
    struct hanging *h = arg;
    char byte;
    CHECK_INT(weft_cancel_on_hangup(fd, weft_fiber_current()), ==, 0);
    CHECK_INT(weft_read(fd, &byte, 1, WEFT_FOREVER), ==, 1);
    CHECK_INT(weft_write(fd, &byte, 1, WEFT_FOREVER), ==, 1);
    CHECK_INT(weft_read(fd, &byte, 1, WEFT_FOREVER), ==, 1); /* by now the poll is in the ring */
    if (h->is_taken_back)
        CHECK_INT(weft_cancel_on_hangup(fd, NULL), ==, 0);
    if (h->how == BY_DUP2)
        CHECK_INT(dup2(h->pipe, fd), ==, fd);
    else
        close_by(h->how, fd);
    if (h->other)
        CHECK_INT(weft_cancel_on_hangup(fd, h->other), ==, 0);
    put(&h->number, fd);
}

static void *sees_the_end(void *arg)
{
    struct serving s = {.listener = weft_listen("127.0.0.1:0"), .handler = subscribes_and_closes};
    for (int i = 0; i < 2 * WAYS; i++) {
        struct pair p = pipe_pair(0);
        struct hanging h = {.how = (enum how)(i % WAYS), .is_taken_back = i >= WAYS, .pipe = p.a, .number = -1};
        char byte;
        s.arg = &h;
        weft_fiber *server = go(serves, &s);
        int fd = dial_it(s.listener);
        CHECK_INT(weft_write(fd, "x", 1, WEFT_FOREVER), ==, 1);
        CHECK_INT(weft_read(fd, &byte, 1, WEFT_FOREVER), ==, 1);
        CHECK_INT(weft_write(fd, "x", 1, WEFT_FOREVER), ==, 1);
        CHECK_INT(weft_read(fd, &byte, 1, weft_in(5 * WEFT_SEC)), ==, 0);
        weft_cancel(server);
        ended(server);
        CHECK_INT(weft_close(fd), ==, 0);
        if (h.how == BY_DUP2)
            CHECK_INT(weft_close(h.number), ==, 0);
        close_pair(p);
    }
    CHECK_INT(weft_close(s.listener), ==, 0);
    return arg;
}

TEST(a_client_sees_the_end_however_a_subscribed_handler_closes)
{
    in_a_fiber(1, sees_the_end, NULL);
    in_a_fiber(2, sees_the_end, NULL);
}

static void *subscribes_another(void *arg)
{
    struct pair p = pipe_pair(0);
    struct hanging h = {.how = BY_DUP2, .pipe = p.a, .number = -1, .other = go(parks, NULL)};
    struct serving s = {.listener = weft_listen("127.0.0.1:0"), .handler = subscribes_and_closes, .arg = &h};
    weft_fiber *server = go(serves, &s);
    int fd = dial_it(s.listener);
    CHECK_INT(weft_write(fd, "xx", 2, WEFT_FOREVER), ==, 2);
    AWAIT(seen(&h.number) >= 0);
    end_serving(server, s.listener);
    CHECK_INT(weft_close(fd), ==, 0);
    CHECK(wf_load(&wf_fd_look(h.number)->hangup));
    weft_unpark(h.other);
    CHECK_INT((intptr_t)ended(h.other), ==, 0);
    CHECK_INT(weft_close(h.number), ==, 0);
    close_pair(p);
    return arg;
}

TEST(the_server_leaves_the_subscription_of_another_fiber_alone)
{
    in_a_fiber(1, subscribes_another, NULL);
}

/* The last one: the filter stays. */
TEST(in_a_sandbox_without_statx_the_server_closes_its_own_alone)
{
    if (TEST_EMULATED || !refuse(SYS_statx, SYS_statx, EPERM))
        SKIP("no filter of system calls is to be had");
    in_a_fiber(1, closes_in_each_way, NULL);
    in_a_fiber(1, is_closed_by_the_server, NULL);
}

TESTS(net_serve_closing, a_number_that_the_handler_has_closed_is_left_alone, a_copy_that_the_handler_makes_is_its_own,
      handlers_that_close_their_connections_break_no_others, a_client_sees_the_end_however_a_subscribed_handler_closes,
      the_server_leaves_the_subscription_of_another_fiber_alone,
      in_a_sandbox_without_statx_the_server_closes_its_own_alone)
