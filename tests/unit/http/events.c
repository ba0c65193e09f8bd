/*
 * Server-sent events: the format, a client that goes, one that half-closes, and the end of serving.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

#define GET "GET /events HTTP/1.1\r\nHost: a\r\n\r\n"

static weft_event go_on, has_ended;
static atomic_int result; /* of the handler's wait */
static atomic_bool was_stopping;

/* Runs in the handler behind weft_http_events. */
static void (*say)(weft_exchange *x);

static int says(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_events(x);
    CHECK_INT(weft_http_status(x), ==, 200);
    CHECK_INT(weft_http_events(x), ==, -EALREADY);
    if (rc == 0)
        say(x);
    return rc;
}

/* An event, and then nothing until `go_on`, or until it is cancelled. */
static int waits(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_events(x);
    if (rc == 0)
        rc = weft_http_event(x, NULL, "first");
    if (rc == 0)
        rc = weft_event_wait(&go_on, WEFT_FOREVER);
    if (rc == 0)
        rc = weft_http_event(x, NULL, "last");
    result = rc;
    weft_event_set(&has_ended);
    return rc;
}

/* Waits for the end of serving, and says so. */
static int waits_for_the_end(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_events(x);
    was_stopping = weft_stopping();
    if (rc == 0)
        rc = weft_http_event(x, NULL, "first");
    if (rc == 0)
        rc = weft_event_wait(weft_stop_event(), WEFT_FOREVER);
    result = rc;
    CHECK(weft_stopping());
    return rc != 0 ? rc : weft_http_event(x, "end", "of serving");
}

/* Sends events for as long as that works. */
static int sends_for_ever(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_events(x);
    while (rc == 0) {
        rc = weft_http_event(x, NULL, "more");
        weft_yield();
    }
    result = rc;
    weft_event_set(&has_ended);
    return rc;
}

static const struct served_route routes[] = {{"GET /events", says, NULL},           {"GET /wait", waits, NULL},
                                             {"GET /end", waits_for_the_end, NULL}, {"GET /ever", sends_for_ever, NULL},
                                             {"GET /", says_hello, NULL},           {0}};

static void begin(struct served *s, const weft_http_opts *opts)
{
    weft_event_reset(&go_on);
    weft_event_reset(&has_ended);
    result = 1;
    served_begin(s, opts, routes);
}

/* Reads until `text` has come. */
static bool reads_to(struct client *c, const char *text)
{
    static char bytes[4096];
    for (size_t size = 0; size < sizeof bytes; size++) {
        if (recv(c->fd, bytes + size, 1, 0) != 1)
            return false;
        if (memmem(bytes, size + 1, text, strlen(text)))
            return true;
    }
    return false;
}

static void check_stream(void (*fn)(weft_exchange *x), const char *text)
{
    struct served s;
    struct answer a;
    say = fn;
    begin(&s, NULL);
    for (int i = 0; i < 2; i++) {
        const char *wrong = ask(s.port, i == 0 ? GET : "GET /events HTTP/1.0\r\n\r\n", &a);
        CHECK_STR(wrong ? wrong : "", "");
        CHECK_STR(a.body ? a.body : "", text);
        CHECK_STR(answer_field(&a, "Content-Type"), "text/event-stream");
        CHECK_STR(answer_field(&a, "Cache-Control"), "no-store");
        CHECK(i == 0 ? a.is_chunked : a.ends_with_close);
        answer_free(&a);
    }
    served_end(&s);
}

static void say_each(weft_exchange *x)
{
    CHECK_INT(weft_http_event(x, NULL, "plain"), ==, 0);
    CHECK_INT(weft_http_event(x, "name", "data"), ==, 0);
    CHECK_INT(weft_http_event(x, NULL, NULL), ==, 0);
    CHECK_INT(weft_http_event(x, NULL, ""), ==, 0);
    CHECK_INT(weft_http_event(x, "name", NULL), ==, 0);
    CHECK_INT(weft_http_event(x, NULL, " a: b"), ==, 0);
}

TEST(events_comments_and_names_have_the_format_of_the_standard)
{
    check_stream(say_each,
                 "data: plain\n\nevent: name\ndata: data\n\n:\n\ndata: \n\nevent: name\ndata: \n\ndata:  a: b\n\n");
}

static void say_lines(weft_exchange *x)
{
    CHECK_INT(weft_http_event(x, NULL, "a\nb"), ==, 0);
    CHECK_INT(weft_http_event(x, NULL, "a\rb\r\nc"), ==, 0);
    CHECK_INT(weft_http_event(x, NULL, "\n"), ==, 0);
    CHECK_INT(weft_http_event(x, NULL, "a\n\nid: 1\n"), ==, 0);
    CHECK_INT(weft_http_event(x, NULL, "\r\r\n\n"), ==, 0);
}

TEST(each_line_of_data_is_a_line_of_the_event)
{
    check_stream(say_lines, "data: a\ndata: b\n\n"
                            "data: a\ndata: b\ndata: c\n\n"
                            "data: \ndata: \n\n"
                            "data: a\ndata: \ndata: id: 1\ndata: \n\n"
                            "data: \ndata: \ndata: \ndata: \n\n");
}

static void say_bad_names(weft_exchange *x)
{
    CHECK_INT(weft_http_event(x, "a\nb", "c"), ==, -EINVAL);
    CHECK_INT(weft_http_event(x, "a\r", "c"), ==, -EINVAL);
    CHECK_INT(weft_http_event(x, "\n", NULL), ==, -EINVAL);
    CHECK_INT(weft_http_event(x, NULL, "good"), ==, 0);
}

TEST(a_name_with_a_line_break_is_refused)
{
    check_stream(say_bad_names, "data: good\n\n");
}

enum { LARGE = 100000 };
static char large[LARGE + 1], large_event[LARGE + 16];

static void say_large(weft_exchange *x)
{
    CHECK_INT(weft_http_event(x, NULL, large), ==, 0);
}

TEST(an_event_may_be_larger_than_the_output)
{
    memset(large, 'l', LARGE);
    snprintf(large_event, sizeof large_event, "data: %s\n\n", large);
    check_stream(say_large, large_event);
}

TEST(each_event_goes_out_at_once)
{
    struct served s;
    struct client c;
    begin(&s, NULL);
    client_open(&c, s.port);
    client_say(&c, "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(reads_to(&c, "data: first\n\n"));
    CHECK_INT(served_figures(&s).streams, ==, 1);
    weft_event_set(&go_on);
    CHECK(reads_to(&c, "data: last\n\n"));
    CHECK(reads_to(&c, "0\r\n\r\n"));
    client_say(&c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); /* the connection goes on */
    client_expect_body(&c, 200, "hello\n");
    CHECK_INT(served_figures(&s).streams, ==, 0);
    client_close(&c);
    served_end(&s);
}

/* The limits of time are short: the stream must outlive them. A client that was too slow to ask asks again. */
TEST(no_limit_ends_a_stream_that_waits)
{
    weft_http_opts opts = {
        .idle_time = 20 * WEFT_MS, .head_time = WEFT_MS, .write_time = WEFT_MS, .body_rate = 1 << 30};
    struct served s;
    struct client c, idle;
    begin(&s, &opts);
    client_open(&c, s.port);
    while (!client_say(&c, "GET /wait HTTP/1.0\r\n\r\n") || !reads_to(&c, "data: first\n\n")) {
        client_close(&c);
        client_open(&c, s.port);
    }
    for (int i = 0; i < 3; i++) { /* each of these meets its own limit meanwhile */
        client_open(&idle, s.port);
        CHECK(client_sees_end(&idle));
        client_close(&idle);
    }
    CHECK_INT(served_figures(&s).streams, ==, 1);
    weft_event_set(&go_on);
    CHECK(reads_to(&c, "data: last\n\n"));
    CHECK(client_sees_end(&c));
    client_close(&c);
    served_end(&s);
}

TEST(a_client_that_is_gone_cancels_the_handler)
{
    for (int is_reset = 0; is_reset < 2; is_reset++) {
        struct served s;
        struct client c;
        begin(&s, NULL);
        client_open(&c, s.port);
        client_say(&c, "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
        CHECK(reads_to(&c, "data: first"));
        if (is_reset)
            client_abort(&c);
        else
            client_close(&c); /* with a byte unread: a reset too */
        CHECK_INT(weft_event_wait(&has_ended, weft_in(60 * WEFT_SEC)), ==, 0);
        CHECK_INT(result, ==, -ECANCELED);
        served_wait_connections(&s, 0);
        CHECK_INT(served_figures(&s).streams, ==, 0);
        CHECK_INT(served_figures(&s).cut, ==, 1);
        served_end(&s);
    }
}

/* It has read all, so its close looks like a half-close until an event is answered by a reset. */
TEST(a_client_that_closes_orderly_is_noticed_by_an_event)
{
    struct served s;
    struct client c;
    begin(&s, NULL);
    client_open(&c, s.port);
    client_say(&c, "GET /ever HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(reads_to(&c, "data: more\n\n"));
    client_close(&c);
    CHECK_INT(weft_event_wait(&has_ended, weft_in(60 * WEFT_SEC)), ==, 0);
    int rc = result;
    CHECK(rc == -EPIPE || rc == -ECONNRESET || rc == -ECANCELED);
    served_wait_connections(&s, 0);
    CHECK_INT(served_figures(&s).streams, ==, 0);
    served_end(&s);
}

TEST(a_half_close_ends_no_stream)
{
    struct served s;
    struct client c;
    begin(&s, NULL);
    client_open(&c, s.port);
    client_say(&c, "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(reads_to(&c, "data: first\n\n"));
    client_end(&c);
    for (int i = 0; i < 10; i++) /* the server has gone around since */
        CHECK_INT(ask_status(s.port, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"), ==, 200);
    CHECK(!weft_event_is_set(&has_ended));
    weft_event_set(&go_on);
    CHECK(reads_to(&c, "data: last\n\n"));
    CHECK(reads_to(&c, "0\r\n\r\n"));
    CHECK(client_sees_end(&c));
    CHECK_INT(result, ==, 0);
    client_close(&c);
    served_end(&s);
}

TEST(the_end_of_serving_is_told_to_streams)
{
    struct served s;
    struct client c;
    begin(&s, &(weft_http_opts){.grace = 60 * WEFT_SEC});
    client_open(&c, s.port);
    client_say(&c, "GET /end HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(reads_to(&c, "data: first\n\n"));
    CHECK(!was_stopping);
    CHECK_INT(weft_http_stop(s.h), ==, 0);
    CHECK(reads_to(&c, "event: end\ndata: of serving\n\n"));
    CHECK(reads_to(&c, "0\r\n\r\n"));
    CHECK(client_sees_end(&c));
    CHECK_INT(result, ==, 0);
    client_close(&c);
    served_end(&s);
}

static void say_nothing(weft_exchange *x)
{
    CHECK_INT(weft_http_event(x, NULL, "plain"), ==, -ECANCELED);
    CHECK_INT(weft_sleep_until(WEFT_FOREVER), ==, -ECANCELED);
}

static int asks_for_head(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_next(x);
    CHECK(!weft_cancelled());
    return rc;
}

TEST(head_of_a_stream_gets_its_head_and_the_connection_goes_on)
{
    static const char *const paths[] = {"/events", "/wait", "/ever"};
    struct served s;
    struct client c;
    say = say_nothing;
    weft_event_reset(&go_on);
    served_make(&s, NULL, routes);
    CHECK_INT(weft_http_use(s.h, asks_for_head, NULL), ==, 0);
    served_start(&s, 1);
    client_open(&c, s.port);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct answer a;
        char request[200];
        snprintf(request, sizeof request, "HEAD %s HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
                 paths[i]);
        client_say(&c, request);
        CHECK_PTR(client_answer(&c, &a, true), ==, NULL);
        CHECK_STR(answer_field(&a, "Content-Type"), "text/event-stream");
        answer_free(&a);
        client_expect_body(&c, 200, "hello\n");
    }
    CHECK_INT(served_figures(&s).cut, ==, 0);
    client_close(&c);
    served_end(&s);
}

TESTS(events, events_comments_and_names_have_the_format_of_the_standard, each_line_of_data_is_a_line_of_the_event,
      a_name_with_a_line_break_is_refused, an_event_may_be_larger_than_the_output, each_event_goes_out_at_once,
      no_limit_ends_a_stream_that_waits, a_client_that_is_gone_cancels_the_handler,
      a_client_that_closes_orderly_is_noticed_by_an_event, a_half_close_ends_no_stream,
      the_end_of_serving_is_told_to_streams, head_of_a_stream_gets_its_head_and_the_connection_goes_on)
