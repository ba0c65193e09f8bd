/*
 * The end of serving: what is told, what is answered, what is cancelled, and that it ends.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

/* What handlers and the test tell each other. Each test begins with zeros. */
static struct {
    int entered, released, left; /* flags, counted */
    int rc;                      /* of the wait in the handler */
    weft_http *h;
    weft_time begun, cancelled;
} at;

static void more(int *flag)
{
    __atomic_add_fetch(flag, 1, __ATOMIC_ACQ_REL);
}

static bool is_set(const int *flag)
{
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE) > 0;
}

/* Waits until the test releases it. */
static int waits(weft_exchange *x, void *arg)
{
    (void)arg;
    more(&at.entered);
    while (!is_set(&at.released) && at.rc == 0)
        at.rc = weft_sleep(WEFT_MS);
    at.cancelled = weft_now();
    more(&at.left);
    return at.rc != 0 ? at.rc : weft_http_reply(x, 200, NULL, "done", 4);
}

/* Waits until serving ends. */
static int finishes(weft_exchange *x, void *arg)
{
    (void)arg;
    CHECK(weft_http_scope(x) != NULL);
    more(&at.entered);
    CHECK_INT(weft_event_wait(weft_stop_event(), WEFT_FOREVER), ==, 0);
    return weft_http_reply(x, 200, NULL, "done", 4);
}

/* Ends its stream when it is told to. */
static int streams(weft_exchange *x, void *arg)
{
    (void)arg;
    CHECK_INT(weft_http_events(x), ==, 0);
    CHECK_INT(weft_http_event(x, NULL, "begun"), ==, 0);
    CHECK(!weft_stopping());
    more(&at.entered);
    CHECK_INT(weft_event_wait(weft_stop_event(), WEFT_FOREVER), ==, 0);
    CHECK(weft_stopping());
    return weft_http_event(x, NULL, "bye");
}

/* It is cancelled, and goes on until it is released: it computes. */
static int ignores(weft_exchange *x, void *arg)
{
    (void)x, (void)arg;
    more(&at.entered);
    while (!is_set(&at.released) || !weft_cancelled())
        weft_yield();
    more(&at.left);
    return -EIO;
}

static int stops(weft_exchange *x, void *arg)
{
    (void)arg;
    CHECK_INT(weft_http_stop(at.h), ==, 0);
    CHECK_INT(weft_http_stop(at.h), ==, 0);
    weft_yield(); /* the serving fiber tells the connections */
    weft_sleep(WEFT_MS);
    return weft_http_reply(x, 200, NULL, "stopped", 7);
}

static const struct served_route routes[] = {{"GET /", says_hello, NULL},
                                             {"GET /waits", waits, NULL},
                                             {"GET /finishes", finishes, NULL},
                                             {"GET /events", streams, NULL},
                                             {"GET /ignores", ignores, NULL},
                                             {"GET /stops", stops, NULL},
                                             {0}};

static void begin(struct served *s, weft_span grace)
{
    memset(&at, 0, sizeof at);
    served_begin(s, &(weft_http_opts){.grace = grace}, routes);
    at.h = s->h;
}

static void client_ask(struct client *c, int port, const char *request)
{
    client_open(c, port);
    CHECK(client_say(c, request));
}

TEST(idle_connections_are_closed_at_once)
{
    struct served s;
    struct client idle, fresh;
    begin(&s, 60 * WEFT_SEC);
    client_ask(&idle, s.port, GET("/"));
    client_expect(&idle, 200);
    client_open(&fresh, s.port);
    served_wait_connections(&s, 2);
    CHECK_INT(weft_http_stop(s.h), ==, 0);
    CHECK(client_sees_end(&idle));
    CHECK(client_sees_end(&fresh));
    client_close(&idle);
    client_close(&fresh);
    served_end(&s);
}

TEST(a_running_answer_says_close_and_is_complete)
{
    struct served s;
    struct client c;
    struct answer a;
    begin(&s, 60 * WEFT_SEC);
    client_ask(&c, s.port, GET("/finishes"));
    wait_for_flag(&at.entered, 1);
    CHECK_INT(weft_http_stop(s.h), ==, 0);
    struct client refused; /* nobody accepts any more: it stays in the listener's queue */
    client_open(&refused, s.port);
    CHECK_PTR(client_answer(&c, &a, false), ==, NULL);
    CHECK_STR(a.body, "done");
    CHECK_STR(answer_field(&a, "Connection"), "close");
    answer_free(&a);
    CHECK(client_sees_end(&c));
    client_close(&c);
    client_close(&refused);
    served_end(&s);
}

TEST(pipelined_requests_behind_the_last_answer_are_not_answered)
{
    struct served s;
    struct client c;
    begin(&s, 60 * WEFT_SEC);
    client_ask(&c, s.port, GET("/") GET("/finishes") GET("/") GET("/"));
    client_expect_body(&c, 200, "hello\n");
    wait_for_flag(&at.entered, 1);
    CHECK_INT(weft_http_stop(s.h), ==, 0);
    client_expect_body(&c, 200, "done");
    CHECK(client_sees_end(&c));
    client_close(&c);
    served_end(&s);
}

TEST(a_request_that_has_half_come_is_answered_if_its_rest_comes)
{
    struct served s;
    struct client c, busy;
    begin(&s, 60 * WEFT_SEC);
    client_ask(&c, s.port, "GET / HTTP/1.1\r\nHo");
    while (served_figures(&s).bytes_in < 18)
        usleep(200);
    client_ask(&busy, s.port, GET("/waits"));
    wait_for_flag(&at.entered, 1); /* later than the first connection's read */
    CHECK_INT(weft_http_stop(s.h), ==, 0);
    CHECK(client_say(&c, "st: a\r\n\r\n"));
    client_expect_body(&c, 200, "hello\n");
    CHECK(client_sees_end(&c));
    more(&at.released);
    client_expect_body(&busy, 200, "done");
    client_close(&c);
    client_close(&busy);
    served_end(&s);
}

TEST(a_request_whose_rest_does_not_come_ends_with_the_grace)
{
    struct served s;
    struct client c;
    begin(&s, 50 * WEFT_MS);
    client_ask(&c, s.port, "GET / HTTP/1.1\r\nHo");
    while (served_figures(&s).bytes_in < 18)
        usleep(200);
    CHECK_INT(weft_http_stop(s.h), ==, 0);
    client_drain(&c);
    CHECK(c.has_ended);
    client_close(&c);
    served_end(&s);
}

TEST(the_end_of_serving_is_told_to_event_streams)
{
    struct served s;
    struct client c;
    begin(&s, 60 * WEFT_SEC);
    client_ask(&c, s.port, GET("/events"));
    wait_for_flag(&at.entered, 1);
    CHECK_INT(served_figures(&s).streams, ==, 1);
    CHECK_INT(weft_http_stop(s.h), ==, 0);
    struct answer a;
    CHECK_PTR(client_answer(&c, &a, false), ==, NULL);
    CHECK_STR(a.body, "data: begun\n\ndata: bye\n\n");
    answer_free(&a);
    client_close(&c);
    served_end(&s);
}

/* Stops while a handler waits. Returns how long it took until the wait was cancelled. */
static weft_span time_to_cancel(weft_span grace)
{
    struct served s;
    struct client c;
    begin(&s, grace);
    client_ask(&c, s.port, GET("/waits"));
    wait_for_flag(&at.entered, 1);
    weft_time stop = weft_now();
    CHECK_INT(weft_http_stop(s.h), ==, 0);
    client_drain(&c);
    client_close(&c);
    CHECK_INT(at.rc, ==, -ECANCELED);
    served_end(&s);
    return at.cancelled.ns - stop.ns;
}

TEST(handlers_are_cancelled_when_the_grace_is_over_and_not_before)
{
    CHECK_INT(time_to_cancel(150 * WEFT_MS), >=, 150 * WEFT_MS);
}

TEST(a_negative_grace_cancels_at_once)
{
    CHECK_INT(time_to_cancel(-1), <, 30 * WEFT_SEC);
}

TEST(the_end_waits_for_a_handler_that_ignores_its_cancel)
{
    struct served s;
    struct client c;
    begin(&s, -1);
    client_ask(&c, s.port, GET("/ignores"));
    wait_for_flag(&at.entered, 1);
    CHECK_INT(weft_http_stop(s.h), ==, 0);
    CHECK_INT(weft_join(s.server, NULL, weft_in(50 * WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(weft_http_free(s.h), ==, -EBUSY);
    CHECK(!is_set(&at.left));
    more(&at.released);
    client_drain(&c);
    client_close(&c);
    served_end(&s);
    CHECK_INT(at.left, ==, 1);
}

TEST(a_handler_may_stop_its_server)
{
    struct served s;
    struct client c;
    struct answer a;
    begin(&s, 60 * WEFT_SEC);
    client_ask(&c, s.port, GET("/stops"));
    CHECK_PTR(client_answer(&c, &a, false), ==, NULL);
    CHECK_STR(a.body, "stopped");
    CHECK_STR(answer_field(&a, "Connection"), "close");
    answer_free(&a);
    client_close(&c);
    served_end(&s);
}

TEST(thousands_of_idle_connections_are_closed)
{
    enum { COUNT = TEST_EMULATED ? 200 : 2000 };
    static struct client clients[COUNT];
    struct served s;
    begin(&s, 60 * WEFT_SEC);
    for (int i = 0; i < COUNT; i++)
        client_open(&clients[i], s.port);
    served_wait_connections(&s, COUNT);
    CHECK_INT(weft_http_stop(s.h), ==, 0);
    for (int i = 0; i < COUNT; i++) {
        CHECK(client_sees_end(&clients[i]));
        client_close(&clients[i]);
    }
    served_end(&s);
}

static weft_task *sleeping, *looking;

static int sleeps(void *arg, void **value)
{
    (void)arg, (void)value;
    return weft_sleep_until(WEFT_FOREVER);
}

/* It is cancelled in its await, and then asks the server for its figures. */
static int looks(void *arg, void **value)
{
    weft_http_figures f = {.size = sizeof f};
    (void)arg, (void)value;
    CHECK_INT(weft_task_await(sleeping, NULL, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_http_stats(at.h, &f), ==, 0);
    more(&at.left);
    return 0;
}

static int has_task_that_looks(weft_exchange *x, void *arg)
{
    weft_scope *scope = weft_http_scope(x);
    CHECK_INT(weft_task_start(&sleeping, sleeps, NULL, &(weft_task_opts){.scope = scope}), ==, 0);
    CHECK_INT(weft_task_start(&looking, looks, NULL, &(weft_task_opts){.on = arg, .scope = scope}), ==, 0);
    more(&at.entered);
    return weft_sleep_until(WEFT_FOREVER);
}

/* A task on noop goes on in the call that cancels it. No lock of the server is held then. */
TEST(a_task_that_the_end_cancels_may_ask_for_figures)
{
    weft_executor *noop;
    struct served s;
    struct client c;
    CHECK_INT(weft_executor_noop(&noop), ==, 0);
    memset(&at, 0, sizeof at);
    served_begin(&s, &(weft_http_opts){.grace = -1},
                 (struct served_route[]){{"GET /", has_task_that_looks, noop}, {0}});
    at.h = s.h;
    client_open(&c, s.port);
    client_say(&c, GET("/"));
    wait_for_flag(&at.entered, 1);
    weft_http_stop(s.h);
    wait_for_flag(&at.left, 1);
    client_drain(&c);
    client_close(&c);
    served_end(&s);
    weft_task_free(looking);
    weft_task_free(sleeping);
    weft_executor_free(noop);
}

/* Stops the server while the worker is busy: it has not noticed what has come to the other connection. */
static int stops_when_released(weft_exchange *x, void *arg)
{
    (void)arg;
    more(&at.entered);
    while (!is_set(&at.released)) /* it computes, and does not let others run */
        ;
    CHECK_INT(weft_http_stop(at.h), ==, 0);
    return weft_http_reply(x, 200, NULL, "done", 4);
}

/* A stop shuts the reading half of an idle connection. A body whose first part has come then is not the client's fault. */
TEST(a_body_that_a_stop_has_cut_off_is_503)
{
    struct served s;
    struct client idle, other;
    memset(&at, 0, sizeof at);
    served_begin(
        &s, NULL,
        (struct served_route[]){
            {"GET /", says_hello, NULL}, {"GET /stop", stops_when_released, NULL}, {"POST /", echoes, NULL}, {0}});
    at.h = s.h;
    client_open(&idle, s.port);
    client_say(&idle, GET("/"));
    client_expect(&idle, 200);
    client_open(&other, s.port);
    client_say(&other, GET("/stop"));
    wait_for_flag(&at.entered, 1);
    client_say(&idle, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nfirst");
    more(&at.released);
    client_expect(&other, 200);
    client_expect(&idle, 503);
    client_drain(&idle);
    client_close(&idle);
    client_close(&other);
    served_end(&s);
}

TESTS(stop, idle_connections_are_closed_at_once, a_running_answer_says_close_and_is_complete,
      pipelined_requests_behind_the_last_answer_are_not_answered,
      a_request_that_has_half_come_is_answered_if_its_rest_comes,
      a_request_whose_rest_does_not_come_ends_with_the_grace, the_end_of_serving_is_told_to_event_streams,
      handlers_are_cancelled_when_the_grace_is_over_and_not_before, a_negative_grace_cancels_at_once,
      the_end_waits_for_a_handler_that_ignores_its_cancel, a_handler_may_stop_its_server,
      thousands_of_idle_connections_are_closed, a_task_that_the_end_cancels_may_ask_for_figures,
      a_body_that_a_stop_has_cut_off_is_503)
