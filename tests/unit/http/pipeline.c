/*
 * Pipelining: several requests before the first answer. Answers come in order, a batch is one write, and a handler that
 * waits does not hold up the answers before its own.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

#define HOST " HTTP/1.1\r\nHost: a\r\n"

enum { OUTPUT = 16 * 1024 }; /* WH_OUT_SIZE: what a connection collects */

static weft_event go_on; /* what the handler `waits` waits for */

static int says_number(weft_exchange *x, void *arg)
{
    (void)arg;
    const char *n = weft_http_param(x, "n");
    return weft_http_reply(x, 200, "text/plain", n, strlen(n));
}

/* A body of n bytes. */
static int says_much(weft_exchange *x, void *arg)
{
    (void)arg;
    size_t size = strtoul(weft_http_param(x, "n"), NULL, 10);
    char *body = weft_http_alloc(x, size + 1);
    memset(body, 'x', size);
    return weft_http_reply(x, 200, NULL, body, size);
}

static int waits(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_event_wait(&go_on, WEFT_FOREVER);
    return rc != 0 ? rc : weft_http_reply(x, 200, NULL, "waited", 6);
}

static int fails_half_way(weft_exchange *x, void *arg)
{
    (void)arg;
    weft_http_begin(x, 200);
    weft_http_write(x, "half", 4);
    return -EIO;
}

/* The same, but what was collected before has gone out by then. */
static int waits_and_fails(weft_exchange *x, void *arg)
{
    weft_event_wait(&go_on, WEFT_FOREVER);
    return fails_half_way(x, arg);
}

/* As many bytes as its Content-Length says, but then it fails: the bytes that were not sent must not be. */
static int fails_at_the_end(weft_exchange *x, void *arg)
{
    (void)arg;
    weft_http_add_header(x, "Content-Length", "4");
    weft_http_begin(x, 200);
    weft_http_write(x, "full", 4);
    return -EIO;
}

static const struct served_route routes[] = {
    {"GET /", says_hello, NULL},           {"/number/{n}", says_number, NULL},
    {"/much/{n}", says_much, NULL},        {"POST /echo", echoes, NULL},
    {"POST /unread", says_hello, NULL},    {"GET /wait", waits, NULL},
    {"GET /half", fails_half_way, NULL},   {"GET /late", waits_and_fails, NULL},
    {"GET /full", fails_at_the_end, NULL}, {0}};

static void begin(struct served *s, struct client *c)
{
    weft_event_reset(&go_on);
    served_begin(s, NULL, routes);
    client_open(c, s->port);
}

static void end(struct served *s, struct client *c)
{
    client_close(c);
    served_end(s);
}

static void expect_number(struct client *c, unsigned n)
{
    char text[16];
    snprintf(text, sizeof text, "%u", n);
    client_expect_body(c, 200, text);
}

static size_t put_numbers(char *to, unsigned count)
{
    size_t size = 0;
    for (unsigned i = 0; i < count; i++)
        size += (size_t)sprintf(to + size, "GET /number/%u" HOST "\r\n", i);
    return size;
}

TEST(pipelined_requests_are_answered_in_their_order)
{
    static char batch[64 * 400];
    struct served s;
    struct client c;
    begin(&s, &c);
    CHECK(client_send(&c, batch, put_numbers(batch, 400)));
    for (unsigned i = 0; i < 400; i++)
        expect_number(&c, i);
    end(&s, &c);
}

/* Sends a batch of 16 requests in one piece, and reads the answers: in how many segments they came. */
static unsigned segments_of(const char *batch, size_t size)
{
    struct served s;
    struct client c;
    begin(&s, &c);
    CHECK(client_send(&c, batch, size));
    for (unsigned i = 0; i < 16; i++)
        expect_number(&c, i);
    unsigned segments = client_segments(&c);
    end(&s, &c);
    return segments;
}

TEST(a_batch_of_16_requests_is_answered_in_one_write)
{
    char batch[64 * 16];
    unsigned segments = segments_of(batch, put_numbers(batch, 16));
    if (segments == 0)
        SKIP("the system does not count segments");
    CHECK_INT(segments, ==, 1);
}

/* The server needs several reads for it: the answers to the first part wait as long as there is more to read. */
TEST(a_batch_that_is_larger_than_the_buffer_is_answered_in_one_write)
{
    char batch[16 * 512];
    size_t size = 0;
    for (unsigned i = 0; i < 16; i++)
        size += (size_t)sprintf(batch + size, "GET /number/%u" HOST "X-Filler: %0300d\r\n\r\n", i, 0);
    unsigned segments = segments_of(batch, size);
    if (segments == 0)
        SKIP("the system does not count segments");
    CHECK_INT(segments, ==, 1);
}

TEST(answers_before_a_head_that_does_not_end_are_sent)
{
    struct served s;
    struct client c;
    begin(&s, &c);
    client_say(&c, "GET /number/1" HOST "\r\nGET /number/2");
    client_end(&c);
    expect_number(&c, 1);
    CHECK(client_sees_end(&c));
    end(&s, &c);
}

/* A batch with a request of each kind. */
static const char mixed[] = "GET /number/1" HOST "\r\n"
                            "POST /echo" HOST "Content-Length: 5\r\n\r\nGET /"
                            "HEAD /number/3" HOST "\r\n"
                            "POST /echo" HOST
                            "Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nfou\r\n1\r\nr\r\n0\r\nT: u\r\n\r\n"
                            "POST /unread" HOST "Content-Length: 3\r\n\r\n\r\n\r"
                            "GET /none" HOST "\r\n"
                            "GET /number/7" HOST "Connection: close\r\n\r\n";

static void expect_mixed(struct client *c)
{
    struct answer a;
    expect_number(c, 1);
    client_expect_body(c, 200, "GET /");
    CHECK_PTR(client_answer(c, &a, true), ==, NULL);
    CHECK_STR(answer_field(&a, "Content-Length"), "1");
    answer_free(&a);
    client_expect_body(c, 200, "four");
    client_expect_body(c, 200, "hello\n");
    client_expect_body(c, 404, "Not Found\n");
    expect_number(c, 7);
    CHECK(client_sees_end(c));
}

TEST(a_batch_gets_the_same_answers_wherever_it_is_split)
{
    struct served s;
    served_begin(&s, NULL, routes);
    for (size_t at = 1; at < sizeof mixed - 1 && !test_has_failed(); at++) {
        struct client c;
        client_open(&c, s.port);
        uint64_t before = served_figures(&s).bytes_in;
        CHECK(client_send(&c, mixed, at));
        served_wait_read(&s, before + at);
        CHECK(client_send(&c, mixed + at, sizeof mixed - 1 - at));
        expect_mixed(&c);
        client_close(&c);
    }
    served_end(&s);
}

TEST(a_batch_gets_the_same_answers_if_it_comes_byte_by_byte)
{
    struct served s;
    struct client c;
    begin(&s, &c);
    for (size_t at = 0; at < sizeof mixed - 1; at++) {
        CHECK(client_send(&c, mixed + at, 1));
        served_wait_read(&s, at + 1);
    }
    expect_mixed(&c);
    end(&s, &c);
}

TEST(nothing_is_answered_behind_a_refused_request)
{
    struct served s;
    struct client c;
    begin(&s, &c);
    client_say(&c, "GET /number/1" HOST "\r\nGET / HTTP/1.1\r\nHost : a\r\n\r\nGET /number/3" HOST "\r\n");
    expect_number(&c, 1);
    client_expect(&c, 400);
    CHECK(client_sees_end(&c));
    CHECK_INT(served_figures(&s).requests, ==, 2);
    end(&s, &c);
}

TEST(nothing_is_answered_behind_connection_close)
{
    struct served s;
    struct client c;
    begin(&s, &c);
    client_say(&c, "GET /number/1" HOST "Connection: close\r\n\r\nGET /number/2" HOST "\r\n");
    expect_number(&c, 1);
    CHECK(client_sees_end(&c));
    CHECK_INT(served_figures(&s).requests, ==, 1);
    end(&s, &c);
}

TEST(answers_go_out_while_a_later_handler_waits)
{
    struct served s;
    struct client c;
    begin(&s, &c);
    client_say(&c, "GET /number/1" HOST "\r\nGET /number/2" HOST "\r\nGET /wait" HOST "\r\nGET /number/4" HOST "\r\n");
    expect_number(&c, 1);
    expect_number(&c, 2);
    weft_event_set(&go_on);
    client_expect_body(&c, 200, "waited");
    expect_number(&c, 4);
    end(&s, &c);
}

/* Bytes of an answer of says_much without its body, for a body of five digits. */
static size_t head_of_much(int port)
{
    struct answer a;
    struct client c;
    client_open(&c, port);
    client_say(&c, "GET /much/10000" HOST "\r\n");
    CHECK_PTR(client_answer(&c, &a, false), ==, NULL);
    size_t size = c.at - a.size;
    answer_free(&a);
    client_close(&c);
    return size;
}

TEST(answers_go_out_while_a_later_handler_waits_even_if_the_buffer_is_nearly_full)
{
    static const unsigned left[] = {0, 1, 100, 200, 511, 512, 513, 1000};
    struct served s;
    served_begin(&s, NULL, routes);
    size_t head = head_of_much(s.port);
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
        char batch[256];
        struct client c;
        weft_event_reset(&go_on);
        client_open(&c, s.port);
        snprintf(batch, sizeof batch, "GET /much/%zu" HOST "\r\nGET /wait" HOST "\r\nGET /number/3" HOST "\r\n",
                 OUTPUT - head - left[i]);
        client_say(&c, batch);
        client_expect(&c, 200);
        weft_event_set(&go_on);
        client_expect_body(&c, 200, "waited");
        expect_number(&c, 3);
        client_close(&c);
    }
    served_end(&s);
}

/* However full its window is when the handler begins to wait: the others are served, and nothing gets lost. */
TEST(a_client_that_does_not_read_delays_no_other_client)
{
    enum { MOST = 16 };
    struct served s;
    served_begin(&s, NULL, routes);
    for (unsigned count = 1; count <= MOST && !test_has_failed(); count++) {
        struct client c;
        weft_event_reset(&go_on);
        client_open_small(&c, s.port, 4096);
        for (unsigned i = 0; i < count; i++)
            client_say(&c, "GET /much/15000" HOST "\r\nGET /much/900" HOST "\r\n");
        client_say(&c, "GET /number/1" HOST "\r\nGET /wait" HOST "\r\n");
        CHECK_INT(ask_status(s.port, "GET /" HOST "\r\n"), ==, 200);
        weft_event_set(&go_on);
        for (unsigned i = 0; i < 2 * count; i++)
            client_expect(&c, 200);
        expect_number(&c, 1);
        client_expect_body(&c, 200, "waited");
        client_close(&c);
    }
    served_end(&s);
}

/* The system takes only a part of the answer when the handler begins to wait: the rest goes out when the client reads. */
TEST(answers_larger_than_the_window_go_out_while_a_later_handler_waits)
{
    int small = 4096;
    struct served s;
    served_begin(&s, NULL, routes);
    CHECK_INT(setsockopt(s.listener, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), ==, 0); /* connections inherit it */
    for (int i = 0; i < 3; i++) {
        struct client c;
        weft_event_reset(&go_on);
        client_open_small(&c, s.port, 4096);
        client_say(&c, "GET /much/15000" HOST "\r\nGET /number/1" HOST "\r\nGET /wait" HOST "\r\nGET /number/3" HOST
                       "\r\n");
        client_expect(&c, 200);
        expect_number(&c, 1);
        weft_event_set(&go_on);
        client_expect_body(&c, 200, "waited");
        expect_number(&c, 3);
        client_close(&c);
    }
    served_end(&s);
}

TEST(answers_before_one_that_is_cut_are_sent)
{
    struct served s;
    struct client c;
    begin(&s, &c);
    client_say(&c, "GET /number/1" HOST "\r\nGET /number/2" HOST "\r\nGET /half" HOST "\r\nGET /number/4" HOST "\r\n");
    expect_number(&c, 1);
    expect_number(&c, 2);
    struct answer a;
    CHECK(client_answer(&c, &a, false) != NULL); /* cut, or nothing at all */
    answer_free(&a);
    end(&s, &c);
}

TEST(a_cut_sends_nothing_behind_answers_that_have_gone_out)
{
    struct served s;
    struct client c;
    begin(&s, &c);
    client_say(&c, "GET /number/1" HOST "\r\nGET /number/2" HOST "\r\nGET /late" HOST "\r\n");
    expect_number(&c, 1);
    expect_number(&c, 2);
    weft_event_set(&go_on);
    CHECK(client_sees_end(&c));
    end(&s, &c);
}

TEST(an_answer_whose_handler_fails_after_the_last_byte_is_not_sent)
{
    struct served s;
    struct client c;
    begin(&s, &c);
    client_say(&c, "GET /number/1" HOST "\r\nGET /full" HOST "\r\nGET /number/3" HOST "\r\n");
    expect_number(&c, 1);
    struct answer a;
    CHECK(client_answer(&c, &a, false) != NULL);
    answer_free(&a);
    CHECK_INT(served_figures(&s).cut, ==, 1);
    end(&s, &c);
}

TESTS(pipeline, pipelined_requests_are_answered_in_their_order, a_batch_of_16_requests_is_answered_in_one_write,
      a_batch_that_is_larger_than_the_buffer_is_answered_in_one_write, answers_before_a_head_that_does_not_end_are_sent,
      a_batch_gets_the_same_answers_wherever_it_is_split, a_batch_gets_the_same_answers_if_it_comes_byte_by_byte,
      nothing_is_answered_behind_a_refused_request, nothing_is_answered_behind_connection_close,
      answers_go_out_while_a_later_handler_waits,
      answers_go_out_while_a_later_handler_waits_even_if_the_buffer_is_nearly_full,
      a_client_that_does_not_read_delays_no_other_client,
      answers_larger_than_the_window_go_out_while_a_later_handler_waits, answers_before_one_that_is_cut_are_sent,
      a_cut_sends_nothing_behind_answers_that_have_gone_out,
      an_answer_whose_handler_fails_after_the_last_byte_is_not_sent)
