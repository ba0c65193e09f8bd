/*
 * Expect: 100-continue. The server says 100 when the handler first reads, and only if the client waits for it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

#define EXPECT "HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
#define NEXT "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nnext"

static weft_event may_read;

/* Reads when it is told to. */
static int reads_later(weft_exchange *x, void *arg)
{
    weft_event_wait(&may_read, WEFT_FOREVER);
    return echoes(x, arg);
}

/* Reads the body in parts of one byte: 100 comes once. */
static int reads_bytes(weft_exchange *x, void *arg)
{
    char text[64];
    size_t size = 0;
    (void)arg;
    while (weft_http_read(x, text + size, 1, WEFT_FOREVER) == 1)
        size++;
    return weft_http_reply(x, 200, NULL, text, size);
}

/* Reads once without waiting, and answers without the body. */
static int tries(weft_exchange *x, void *arg)
{
    char byte;
    (void)arg;
    CHECK_INT(weft_http_read(x, &byte, 1, WEFT_NOW), ==, -EAGAIN);
    return weft_http_reply(x, 200, NULL, "tried", 5);
}

static int refuses(weft_exchange *x, void *arg)
{
    (void)x;
    (void)arg;
    return -EACCES;
}

static const struct served_route routes[] = {{"GET /", says_hello, NULL},        {"POST /unread", says_hello, NULL},
                                             {"POST /echo", echoes, NULL},       {"POST /later", reads_later, NULL},
                                             {"POST /bytes", reads_bytes, NULL}, {"POST /try", tries, NULL},
                                             {"POST /refuse", refuses, NULL},    {0}};

static void begin(struct served *s, struct client *c)
{
    weft_event_reset(&may_read);
    served_begin(s, &(weft_http_opts){.body_bytes = 100}, routes);
    client_open(c, s->port);
}

static void end(struct served *s, struct client *c)
{
    client_close(c);
    served_end(s);
}

static void expect_continue(struct client *c)
{
    struct answer a;
    CHECK_PTR(client_answer(c, &a, false), ==, NULL);
    CHECK_INT(a.status, ==, 100);
    CHECK_INT(a.count, ==, 0);
    answer_free(&a);
}

TEST(the_first_read_says_100)
{
    struct served s;
    struct client c;
    begin(&s, &c);
    client_say(&c, "POST /bytes " EXPECT "Content-Length: 4\r\n\r\n");
    expect_continue(&c);
    client_say(&c, "body");
    client_expect_body(&c, 200, "body");
    client_say(&c, "POST /bytes " EXPECT "Transfer-Encoding: chunked\r\n\r\n");
    expect_continue(&c);
    client_say(&c, "4\r\nmore\r\n0\r\n\r\n" NEXT);
    client_expect_body(&c, 200, "more");
    client_expect_body(&c, 200, "next");
    client_say(&c, "POST /bytes HTTP/1.1\r\nHost: a\r\nexpect: 100-Continue\r\nContent-Length: 1\r\n\r\n");
    expect_continue(&c);
    client_say(&c, "x");
    client_expect_body(&c, 200, "x");
    end(&s, &c);
}

/* Until the handler reads, the client gets nothing but the answer to its earlier request. */
TEST(nothing_says_100_before_the_first_read)
{
    struct served s;
    struct client c;
    begin(&s, &c);
    client_say(&c, "GET / HTTP/1.1\r\nHost: a\r\n\r\nPOST /later " EXPECT "Content-Length: 4\r\n\r\n");
    client_expect_body(&c, 200, "hello\n"); /* the handler waits by now */
    CHECK_INT(c.end, ==, c.at);
    char byte;
    CHECK_INT(recv(c.fd, &byte, 1, MSG_DONTWAIT), ==, -1);
    weft_event_set(&may_read);
    expect_continue(&c);
    client_say(&c, "body");
    client_expect_body(&c, 200, "body");
    end(&s, &c);
}

TEST(answers_to_earlier_requests_come_before_100)
{
    struct served s;
    struct client c;
    begin(&s, &c);
    client_say(&c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n" NEXT "POST /echo " EXPECT "Content-Length: 4\r\n\r\n");
    client_expect_body(&c, 200, "hello\n");
    client_expect_body(&c, 200, "next");
    expect_continue(&c);
    client_say(&c, "body" NEXT);
    client_expect_body(&c, 200, "body");
    client_expect_body(&c, 200, "next");
    end(&s, &c);
}

TEST(a_body_that_has_come_needs_no_100)
{
    struct served s;
    struct client c;
    begin(&s, &c);
    client_say(&c, "POST /echo " EXPECT "Content-Length: 4\r\n\r\nbody");
    client_expect_body(&c, 200, "body");
    client_say(&c, "POST /bytes " EXPECT "Content-Length: 4\r\n\r\nbo"); /* it has begun */
    client_say(&c, "dy");
    client_expect_body(&c, 200, "body");
    client_say(&c, "POST /echo " EXPECT "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n" NEXT);
    client_expect_body(&c, 200, "body");
    client_expect_body(&c, 200, "next");
    end(&s, &c);
}

TEST(a_request_without_a_body_gets_no_100)
{
    struct served s;
    struct client c;
    begin(&s, &c);
    client_say(&c, "GET / " EXPECT "\r\n");
    client_expect_body(&c, 200, "hello\n");
    client_say(&c, "POST /echo " EXPECT "Content-Length: 0\r\n\r\n");
    client_expect_body(&c, 200, "");
    client_say(&c, NEXT);
    client_expect_body(&c, 200, "next");
    end(&s, &c);
}

/* The client may send the body or leave it out: so nothing that follows can be trusted. */
static void check_without_read(struct served *s, const char *request, int status)
{
    struct client c;
    struct answer a;
    client_open(&c, s->port);
    client_say(&c, request);
    CHECK_PTR(client_answer(&c, &a, false), ==, NULL);
    CHECK_INT(a.status, ==, status);
    CHECK_STR(answer_field(&a, "Connection") ? answer_field(&a, "Connection") : "", "close");
    answer_free(&a);
    client_say(&c, NEXT);
    CHECK(client_sees_end(&c));
    client_close(&c);
}

TEST(an_answer_without_a_read_says_no_100_and_closes)
{
    struct served s;
    struct client c;
    begin(&s, &c);
    check_without_read(&s, "POST /unread " EXPECT "Content-Length: 4\r\n\r\n", 200);
    check_without_read(&s, "POST /unread " EXPECT "Transfer-Encoding: chunked\r\n\r\n", 200);
    check_without_read(&s, "POST /refuse " EXPECT "Content-Length: 4\r\n\r\n", 403);
    check_without_read(&s, "POST /nowhere " EXPECT "Content-Length: 4\r\n\r\n", 404);
    check_without_read(&s, "POST /unread " EXPECT "Content-Length: 4\r\n\r\nbody", 200);
    end(&s, &c);
}

TEST(a_body_that_is_too_long_gets_413_instead_of_100)
{
    struct served s;
    struct client c;
    begin(&s, &c);
    check_without_read(&s, "POST /echo " EXPECT "Content-Length: 101\r\n\r\n", 413);
    end(&s, &c);
}

TEST(an_http_1_0_client_gets_no_100)
{
    struct served s;
    struct client c;
    begin(&s, &c);
    client_say(&c, "POST /try HTTP/1.0\r\nConnection: keep-alive\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    client_expect_body(&c, 200, "tried"); /* a 100 would have come before it */
    client_say(&c, "body" NEXT);
    client_expect_body(&c, 200, "next");
    end(&s, &c);
}

TEST(another_expectation_is_417)
{
    struct served s;
    struct client c;
    begin(&s, &c);
    client_say(&c, "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\nContent-Length: 4\r\n\r\nbody");
    client_expect(&c, 417);
    CHECK(client_sees_end(&c));
    end(&s, &c);
}

TESTS(expect, the_first_read_says_100, nothing_says_100_before_the_first_read,
      answers_to_earlier_requests_come_before_100, a_body_that_has_come_needs_no_100,
      a_request_without_a_body_gets_no_100, an_answer_without_a_read_says_no_100_and_closes,
      a_body_that_is_too_long_gets_413_instead_of_100, an_http_1_0_client_gets_no_100, another_expectation_is_417)
