/*
 * The ways to run a server: private and shared stacks, warm fibers, connections on another scheduler, several listeners, several
 * servers. In each way the same visitors are served, and nothing is left at the end.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

enum { VISITORS = 12, BIG = 200000 };

static char big[BIG];

/* Fills the stack, lets others run, and looks whether its stack is still the same. */
static int waits(weft_exchange *x, void *arg)
{
    char text[2048];
    const char *id = weft_http_param(x, "id");
    (void)arg;
    memset(text, id[0], sizeof text);
    for (int i = 0; i < 3; i++)
        weft_sleep(WEFT_MS / 4);
    for (size_t i = 0; i < sizeof text; i++)
        CHECK_INT(text[i], ==, id[0]);
    return weft_http_reply(x, 200, NULL, id, strlen(id));
}

/* Sends the body back, in parts: a buffer on the stack is read into, and written from, across waits. */
static int echoes_parts(weft_exchange *x, void *arg)
{
    char part[700];
    ptrdiff_t n;
    (void)arg;
    int rc = weft_http_begin(x, 200);
    while (rc == 0 && (n = weft_http_read(x, part, sizeof part, WEFT_FOREVER)) != 0)
        rc = n < 0 ? (int)n : weft_http_write(x, part, (size_t)n);
    return rc;
}

static int says_much(weft_exchange *x, void *arg)
{
    (void)arg;
    return weft_http_reply(x, 200, NULL, big, sizeof big);
}

static int streams(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_events(x);
    for (int i = 0; rc == 0 && i < 3; i++)
        rc = weft_http_event(x, "tick", "tock");
    return rc;
}

static int add_one(void *arg)
{
    weft_sleep(WEFT_MS / 4);
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_ACQ_REL);
    return 0;
}

/* Its children count in memory of the exchange. */
static int has_children(weft_exchange *x, void *arg)
{
    char text[16];
    int *count = weft_http_alloc(x, sizeof *count);
    weft_scope *scope = weft_http_scope(x);
    (void)arg;
    *count = 0;
    for (int i = 0; i < 4; i++)
        CHECK_INT(weft_scope_go(scope, add_one, count), ==, 0);
    CHECK_INT(weft_scope_wait(scope), ==, 0);
    return weft_http_reply(x, 200, NULL, text, (size_t)sprintf(text, "%d", __atomic_load_n(count, __ATOMIC_ACQUIRE)));
}

static const struct served_route routes[] = {{"GET /", says_hello, NULL},
                                             {"GET /wait/{id}", waits, NULL},
                                             {"POST /echo", echoes_parts, NULL},
                                             {"GET /big", says_much, NULL},
                                             {"GET /events", streams, NULL},
                                             {"GET /children", has_children, NULL},
                                             {0}};

/* All ask at once, then all read: handlers of many connections are under way together. */
static void visit(int port)
{
    struct client clients[VISITORS];
    char text[128], id[2] = "a";
    for (int i = 0; i < VISITORS; i++) {
        client_open(&clients[i], port);
        snprintf(text, sizeof text, GET("/wait/%c") GET("/"), 'a' + i);
        CHECK(client_say(&clients[i], text));
    }
    for (int i = 0; i < VISITORS; i++) {
        id[0] = (char)('a' + i);
        client_expect_body(&clients[i], 200, id);
        client_expect_body(&clients[i], 200, "hello\n");
        CHECK(client_say(&clients[i], "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nab"));
    }
    for (int i = 0; i < VISITORS; i++) {
        CHECK(client_say(&clients[i], "cdef" GET("/big") GET("/events") GET("/children")));
    }
    for (int i = 0; i < VISITORS; i++) {
        struct answer a;
        client_expect_body(&clients[i], 200, "abcdef");
        CHECK_PTR(client_answer(&clients[i], &a, false), ==, NULL);
        CHECK_INT(a.size, ==, BIG);
        CHECK(a.size == BIG && !memcmp(a.body, big, BIG));
        answer_free(&a);
        client_expect_body(&clients[i], 200,
                           "event: tick\ndata: tock\n\nevent: tick\ndata: tock\n\nevent: tick\ndata: tock\n\n");
        client_expect_body(&clients[i], 200, "4");
        if (i % 3 == 0)
            client_abort(&clients[i]);
        else
            client_close(&clients[i]);
    }
}

static weft_sched_opts sched_opts(unsigned threads)
{
    return (weft_sched_opts){.size = sizeof(weft_sched_opts), .threads = threads};
}

/* A server on a scheduler with these options; `on_workers`: its connections run on another one with so many workers. */
static void check_way(weft_http_opts opts, const weft_sched_opts *workers, unsigned on_workers, bool is_shared)
{
    struct served s;
    int descriptors = count_descriptors();
    weft_sched_opts on = sched_opts(on_workers);
    memset(big, 'b', sizeof big);
    if (is_shared)
        CHECK_INT(weft_stacks_new(&opts.shared, 8, 0), ==, 0);
    if (on_workers > 0) {
        CHECK_INT(weft_sched_new(&opts.on, &on), ==, 0);
        CHECK_INT(weft_sched_start(opts.on), ==, 0);
    }
    served_make(&s, &opts, routes);
    s.on = opts.on;
    s.descriptors = descriptors;
    served_start_with(&s, NULL, workers);
    visit(s.port);
    visit(s.port);
    served_wait_connections(&s, 0);
    CHECK_INT(served_figures(&s).cut, ==, 0);
    CHECK_INT(served_figures(&s).requests, ==, 2 * VISITORS * 6);
    served_end(&s);
    if (is_shared)
        CHECK_INT(weft_stacks_free(opts.shared), ==, 0);
}

TEST(on_private_stacks)
{
    weft_sched_opts one = sched_opts(1), four = sched_opts(4);
    check_way((weft_http_opts){0}, &one, 0, false);
    check_way((weft_http_opts){.stack = 256 * 1024}, &four, 0, false);
}

TEST(on_shared_stacks)
{
    weft_sched_opts one = sched_opts(1), four = sched_opts(4);
    check_way((weft_http_opts){0}, &one, 0, true);
    check_way((weft_http_opts){0}, &four, 0, true);
}

TEST(on_warm_fibers)
{
    weft_sched_opts warm = sched_opts(2);
    warm.warm = 16;
    check_way((weft_http_opts){0}, &warm, 0, false);
}

TEST(on_another_scheduler)
{
    weft_sched_opts one = sched_opts(1);
    check_way((weft_http_opts){0}, &one, 1, false);
    check_way((weft_http_opts){0}, &one, 4, false);
    check_way((weft_http_opts){0}, &one, 4, true);
}

/* The calls share one server: its routes, figures and stop. */
struct listener {
    struct served *s;
    int fd;
    weft_fiber *fiber;
    int rc;
};

static void *serves(void *arg)
{
    struct listener *l = arg;
    l->rc = weft_http_serve(l->s->h, l->fd, WEFT_FOREVER);
    return NULL;
}

TEST(several_listeners_with_one_server)
{
    struct served s;
    struct listener more[3];
    served_make(&s, NULL, routes);
    served_start(&s, 2);
    for (int i = 0; i < 3; i++) {
        more[i] = (struct listener){.s = &s, .fd = weft_listen("127.0.0.1:0")};
        CHECK_INT(weft_sched_go(s.sched, &more[i].fiber, NULL, serves, &more[i]), ==, 0);
    }
    visit(s.port);
    for (int i = 0; i < 3; i++)
        visit(weft_port(more[i].fd));
    weft_cancel(more[0].fiber); /* one ends: the others go on */
    CHECK_INT(weft_join(more[0].fiber, NULL, weft_in(60 * WEFT_SEC)), ==, 0);
    CHECK_INT(more[0].rc, ==, -ECANCELED);
    visit(weft_port(more[1].fd));
    CHECK_INT(served_figures(&s).requests, ==, 5 * VISITORS * 6);
    CHECK_INT(weft_http_stop(s.h), ==, 0);
    for (int i = 1; i < 3; i++) {
        CHECK_INT(weft_join(more[i].fiber, NULL, weft_in(60 * WEFT_SEC)), ==, 0);
        CHECK_INT(more[i].rc, ==, 0);
    }
    for (int i = 0; i < 3; i++)
        CHECK_INT(weft_close(more[i].fd), ==, 0);
    served_end(&s);
}

TEST(several_servers_in_one_process)
{
    struct served one, two;
    served_begin(&one, &(weft_http_opts){.max_conns = 1}, routes);
    served_make(&two, NULL, routes);
    served_start(&two, 2);
    two.descriptors = one.descriptors;
    struct client c;
    client_open(&c, one.port);
    client_say(&c, GET("/"));
    client_expect(&c, 200);
    visit(two.port);
    CHECK_INT(served_figures(&one).requests, ==, 1);
    CHECK_INT(ask_status(one.port, GET("/")), ==, 503); /* its limits are its own */
    client_close(&c);
    CHECK_INT(weft_http_stop(one.h), ==, 0); /* and so is its end */
    CHECK_INT(weft_join(one.server, NULL, weft_in(60 * WEFT_SEC)), ==, 0);
    visit(two.port);
    CHECK_INT(weft_close(one.listener), ==, 0);
    CHECK_INT(weft_sched_stop(one.sched, weft_in(60 * WEFT_SEC)), ==, 0);
    CHECK_INT(weft_sched_free(one.sched), ==, 0);
    CHECK_INT(weft_http_free(one.h), ==, 0);
    served_end(&two);
}

TESTS(ways, on_private_stacks, on_shared_stacks, on_warm_fibers, on_another_scheduler,
      several_listeners_with_one_server, several_servers_in_one_process)
