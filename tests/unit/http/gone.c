/*
 * Clients that go while their handlers run, by every way to go; and children of handlers. On private and on shared stacks.
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

/* Each server begins with zeros. */
static struct {
    int entered, released, left, children; /* flags, counted */
    int rc;
} at;

static void more(int *flag)
{
    __atomic_add_fetch(flag, 1, __ATOMIC_ACQ_REL);
}

static bool is_set(const int *flag)
{
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE) > 0;
}

static int leave(int rc)
{
    at.rc = rc;
    more(&at.left);
    return rc;
}

/* Its local array is on the stack during the wait. */
static int waits(weft_exchange *x, void *arg)
{
    char pattern[512];
    int rc = 0;
    (void)arg;
    memset(pattern, 'p', sizeof pattern);
    more(&at.entered);
    while (rc == 0 && !is_set(&at.released))
        rc = weft_sleep(WEFT_MS);
    for (size_t i = 0; i < sizeof pattern; i++)
        CHECK_INT(pattern[i], ==, 'p');
    return leave(rc != 0 ? rc : weft_http_reply(x, 200, NULL, pattern, 4));
}

/* Sends events until that fails. */
static int streams(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_events(x);
    more(&at.entered);
    while (rc == 0) {
        rc = weft_http_event(x, NULL, "tick");
        if (rc == 0)
            rc = weft_sleep(WEFT_MS);
    }
    return leave(rc);
}

/* Does not look at its cancel. */
static int ignores(weft_exchange *x, void *arg)
{
    (void)arg;
    more(&at.entered);
    while (!is_set(&at.released))
        weft_yield();
    return leave(weft_http_reply(x, 200, NULL, "late", 4));
}

static int child(void *arg)
{
    (void)arg;
    int rc = weft_sleep_until(WEFT_FOREVER);
    CHECK_INT(rc, ==, -ECANCELED);
    more(&at.children);
    return rc;
}

/* Returns, or waits, while its children go on. */
static int has_children(weft_exchange *x, void *arg)
{
    weft_scope *scope = weft_http_scope(x);
    CHECK_PTR(scope, ==, weft_http_scope(x));
    for (int i = 0; i < 3; i++)
        CHECK_INT(weft_scope_go(scope, child, NULL), ==, 0);
    more(&at.entered);
    int rc = arg ? weft_sleep_until(WEFT_FOREVER) : 0;
    return leave(rc != 0 ? rc : weft_http_reply(x, 200, NULL, "children", 8));
}

static const struct served_route routes[] = {{"GET /", says_hello, NULL},
                                             {"GET /waits", waits, NULL},
                                             {"GET /events", streams, NULL},
                                             {"GET /ignores", ignores, NULL},
                                             {"GET /children", has_children, NULL},
                                             {"GET /waiting-children", has_children, &at},
                                             {0}};

/* Runs a test's part on private stacks, and again on shared ones. */
static void on_all_stacks(const char *address, void (*part)(struct served *s))
{
    for (int shared = 0; shared < 2; shared++) {
        struct served s;
        weft_http_opts opts = {0};
        memset(&at, 0, sizeof at);
        if (shared)
            CHECK_INT(weft_stacks_new(&opts.shared, 2, 0), ==, 0);
        served_make(&s, &opts, routes);
        served_start_with(&s, address, &(weft_sched_opts){.size = sizeof(weft_sched_opts), .threads = 1});
        part(&s);
        served_end(&s);
        if (shared)
            CHECK_INT(weft_stacks_free(opts.shared), ==, 0);
    }
}

/* A second connection is served as ever. */
static void check_others(const struct served *s)
{
    CHECK_INT(ask_status(s->port, GET("/")), ==, 200);
}

static void reset_part(struct served *s)
{
    struct client c;
    client_open(&c, s->port);
    client_say(&c, GET("/waits"));
    wait_for_flag(&at.entered, 1);
    check_others(s);
    client_abort(&c);
    wait_for_flag(&at.left, 1);
    CHECK_INT(at.rc, ==, -ECANCELED);
}

TEST(a_reset_cancels_the_handler)
{
    on_all_stacks(NULL, reset_part);
}

static void unix_part(struct served *s)
{
    struct client c;
    char address[64];
    snprintf(address, sizeof address, "unix:@weft-gone-%d", getpid());
    client_open_at(&c, address);
    client_say(&c, GET("/waits"));
    wait_for_flag(&at.entered, 1);
    client_close(&c);
    wait_for_flag(&at.left, 1);
    CHECK_INT(at.rc, ==, -ECANCELED);
    (void)s;
}

TEST(the_close_of_a_unix_client_cancels_the_handler)
{
    char address[64];
    snprintf(address, sizeof address, "unix:@weft-gone-%d", getpid());
    on_all_stacks(address, unix_part);
}

static void half_close_part(struct served *s)
{
    struct client c;
    client_open(&c, s->port);
    client_say(&c, GET("/waits"));
    client_end(&c);
    wait_for_flag(&at.entered, 1);
    check_others(s);
    more(&at.released);
    client_expect_body(&c, 200, "pppp");
    CHECK_INT(at.rc, ==, 0);
    CHECK(client_sees_end(&c));
    client_close(&c);
}

TEST(a_half_close_does_not_cancel_the_handler)
{
    on_all_stacks(NULL, half_close_part);
}

/* An ordinary close of a TCP client shows with the answer to the next write. */
static void close_part(struct served *s)
{
    struct client c;
    client_open(&c, s->port);
    client_say(&c, GET("/events"));
    wait_for_flag(&at.entered, 1);
    check_others(s);
    client_close(&c);
    wait_for_flag(&at.left, 1);
    CHECK(at.rc == -ECANCELED || at.rc == -EPIPE || at.rc == -ECONNRESET);
    served_wait_connections(s, 0);
    CHECK_INT(served_figures(s).cut, ==, 1);
}

TEST(the_close_of_a_client_ends_its_event_stream)
{
    on_all_stacks(NULL, close_part);
}

static void ignore_part(struct served *s)
{
    struct client c;
    client_open(&c, s->port);
    client_say(&c, GET("/ignores") GET("/"));
    wait_for_flag(&at.entered, 1);
    client_abort(&c);
    for (int i = 0; i < 5; i++)
        check_others(s);
    CHECK(!is_set(&at.left));
    more(&at.released);
    wait_for_flag(&at.left, 1);
}

TEST(a_handler_that_ignores_its_cancel_goes_on_and_others_with_it)
{
    on_all_stacks(NULL, ignore_part);
}

static void children_part(struct served *s)
{
    struct client c;
    client_open(&c, s->port);
    for (int i = 1; i <= 3; i++) {
        client_say(&c, GET("/children"));
        client_expect_body(&c, 200, "children");
        wait_for_flag(&at.children, 3 * i);
    }
    client_close(&c);
}

TEST(children_that_are_left_end_with_their_exchange)
{
    on_all_stacks(NULL, children_part);
}

static void waiting_children_part(struct served *s)
{
    struct client c;
    client_open(&c, s->port);
    client_say(&c, GET("/waiting-children"));
    wait_for_flag(&at.entered, 1);
    CHECK(!is_set(&at.children));
    client_abort(&c);
    wait_for_flag(&at.children, 3);
    wait_for_flag(&at.left, 1);
    CHECK_INT(at.rc, ==, -ECANCELED);
}

TEST(the_children_of_a_cancelled_handler_are_cancelled)
{
    on_all_stacks(NULL, waiting_children_part);
}

/* Disconnects at each byte of a pipelined request with a body: nothing is left, and others are served. */
static void every_byte_part(struct served *s)
{
    static const char text[] = GET(
        "/") "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    for (size_t size = 0; size < sizeof text; size++) {
        struct client c;
        client_open(&c, s->port);
        client_send(&c, text, size);
        if (size % 3 == 0) {
            client_end(&c);
            client_drain(&c);
            client_close(&c);
        } else if (size % 3 == 1) {
            client_abort(&c);
        } else {
            client_close(&c);
        }
    }
    check_others(s);
}

TEST(a_client_may_go_at_every_byte)
{
    on_all_stacks(NULL, every_byte_part);
}

TESTS(gone, a_reset_cancels_the_handler, the_close_of_a_unix_client_cancels_the_handler,
      a_half_close_does_not_cancel_the_handler, the_close_of_a_client_ends_its_event_stream,
      a_handler_that_ignores_its_cancel_goes_on_and_others_with_it, children_that_are_left_end_with_their_exchange,
      the_children_of_a_cancelled_handler_are_cancelled, a_client_may_go_at_every_byte)
