/*
 * The part of a body that its handler has not read is drained up to drain_bytes, and the connection is kept. If more is
 * left, the connection ends after the answer, in a way that lets the client read the answer.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

#define POST(path) "POST " path " HTTP/1.1\r\nHost: a\r\n"
#define NEXT POST("/echo") "Content-Length: 4\r\n\r\nnext"

enum { DRAIN = 1000 };

/* Reads {bytes} of the body, and then answers. */
static int reads_some(weft_exchange *x, void *arg)
{
    char part[DRAIN];
    (void)arg;
    for (size_t left = strtoul(weft_http_param(x, "bytes"), NULL, 10); left > 0;) {
        ptrdiff_t n = weft_http_read(x, part, left < sizeof part ? left : sizeof part, WEFT_FOREVER);
        if (n < 0)
            return (int)n;
        left -= (size_t)n;
    }
    return weft_http_reply(x, 200, NULL, "some", 4);
}

/* Fails without a look at the body. */
static int fails(weft_exchange *x, void *arg)
{
    (void)x;
    (void)arg;
    return -EACCES;
}

/* A large answer without a look at the body. */
static int says_much(weft_exchange *x, void *arg)
{
    enum { SIZE = 1 << 20 };
    (void)arg;
    char *body = weft_http_alloc(x, SIZE);
    memset(body, 'y', SIZE);
    return weft_http_reply(x, 200, NULL, body, SIZE);
}

/* Answers in parts, the first of them before it reads. */
static int answers_first(weft_exchange *x, void *arg)
{
    char part[16];
    ptrdiff_t n;
    (void)arg;
    weft_http_begin(x, 200);
    while ((n = weft_http_read(x, part, sizeof part, WEFT_FOREVER)) > 0)
        weft_http_write(x, part, (size_t)n);
    return (int)n;
}

static const struct served_route routes[] = {
    {"POST /some/{bytes}", reads_some, NULL}, {"POST /fail", fails, NULL},          {"POST /echo", echoes, NULL},
    {"POST /much", says_much, NULL},          {"POST /first", answers_first, NULL}, {0}};

static void begin(struct served *s)
{
    served_begin(s, &(weft_http_opts){.drain_bytes = DRAIN}, routes);
}

/* Sends a request with a body of `size` bytes, chunked or not, to a handler that reads `reads` of them. */
static void say(struct client *c, size_t reads, size_t size, bool is_chunked)
{
    char head[256], body[4 * DRAIN];
    memset(body, 'z', size);
    if (is_chunked)
        snprintf(head, sizeof head, POST("/some/%zu") "Transfer-Encoding: chunked\r\n\r\n%zx\r\n", reads, size);
    else
        snprintf(head, sizeof head, POST("/some/%zu") "Content-Length: %zu\r\n\r\n", reads, size);
    client_say(c, head);
    client_send(c, body, size);
    if (is_chunked)
        client_say(c, "\r\n0\r\n\r\n");
}

static void check_rest(struct served *s, size_t reads, size_t size, bool is_chunked, bool is_kept)
{
    struct client c;
    client_open(&c, s->port);
    say(&c, reads, size, is_chunked);
    client_say(&c, NEXT);
    client_expect_body(&c, 200, "some");
    if (is_kept)
        client_expect_body(&c, 200, "next");
    else
        CHECK(client_sees_end(&c));
    client_close(&c);
}

TEST(the_rest_of_a_body_is_drained_up_to_drain_bytes)
{
    struct served s;
    begin(&s);
    for (int is_chunked = 0; is_chunked < 2; is_chunked++) {
        check_rest(&s, 0, 1, is_chunked, true);
        check_rest(&s, 0, DRAIN, is_chunked, true);
        check_rest(&s, 1, DRAIN + 1, is_chunked, true);
        check_rest(&s, DRAIN, 2 * DRAIN, is_chunked, true);
        check_rest(&s, 0, DRAIN + 1, is_chunked, false);
        check_rest(&s, 7, DRAIN + 8, is_chunked, false);
        check_rest(&s, 0, 4 * DRAIN, is_chunked, false);
        check_rest(&s, DRAIN, 2 * DRAIN + 1, is_chunked, false);
    }
    served_end(&s);
}

TEST(the_answer_to_a_body_that_is_too_long_to_drain_says_close)
{
    struct served s;
    struct answer a;
    struct client c;
    begin(&s);
    client_open(&c, s.port);
    say(&c, 0, DRAIN + 1, false);
    CHECK_PTR(client_answer(&c, &a, false), ==, NULL);
    CHECK_STR(answer_field(&a, "Connection"), "close");
    answer_free(&a);
    client_close(&c);
    served_end(&s);
}

TEST(the_rest_of_a_body_is_drained_if_the_handler_fails_too)
{
    struct served s;
    struct client c;
    begin(&s);
    client_open(&c, s.port);
    client_say(&c, POST("/fail") "Content-Length: 5\r\n\r\nGET /" NEXT);
    client_expect(&c, 403);
    client_expect_body(&c, 200, "next");
    client_say(&c, POST("/nowhere") "Transfer-Encoding: chunked\r\n\r\n5\r\nGET /\r\n0\r\n\r\n" NEXT);
    client_expect(&c, 404);
    client_expect_body(&c, 200, "next");
    client_close(&c);
    served_end(&s);
}

TEST(if_the_rest_of_a_body_is_malformed_the_connection_ends_after_the_answer)
{
    struct served s;
    struct client c;
    begin(&s);
    client_open(&c, s.port);
    client_say(&c, POST("/some/0") "Transfer-Encoding: chunked\r\n\r\nno size\r\n" NEXT);
    client_expect_body(&c, 200, "some");
    CHECK(client_sees_end(&c));
    client_close(&c);
    served_end(&s);
}

/* The client waits with its body for the answer: the server must not wait for the body first. */
TEST(an_answer_does_not_wait_for_the_body_to_be_drained)
{
    struct served s;
    struct client c;
    begin(&s);
    client_open(&c, s.port);
    client_say(&c, POST("/some/0") "Content-Length: 5\r\n\r\n");
    client_expect_body(&c, 200, "some");
    client_say(&c, "GET /" NEXT);
    client_expect_body(&c, 200, "next");
    client_say(&c, POST("/some/0") "Transfer-Encoding: chunked\r\n\r\n");
    client_expect_body(&c, 200, "some");
    client_say(&c, "5\r\nGET /\r\n0\r\n\r\n" NEXT);
    client_expect_body(&c, 200, "next");
    client_close(&c);
    served_end(&s);
}

TEST(a_handler_may_read_after_its_answer_has_begun)
{
    struct served s;
    struct client c;
    begin(&s);
    client_open(&c, s.port);
    client_say(&c, POST("/first") "Content-Length: 5\r\n\r\n");
    char byte;
    CHECK_INT(recv(c.fd, &byte, 1, MSG_PEEK), ==, 1); /* the head has gone out before the wait */
    client_say(&c, "01234" NEXT);
    client_expect_body(&c, 200, "01234");
    client_expect_body(&c, 200, "next");
    client_close(&c);
    served_end(&s);
}

enum { MEGABYTES = 8 << 20 };

/* Sends megabytes, whatever happens. */
static void *sends_megabytes(void *arg)
{
    char *bytes = calloc(1, MEGABYTES);
    client_send(arg, bytes, MEGABYTES);
    free(bytes);
    return NULL;
}

static void check_readable(struct served *s, const char *head, int status)
{
    struct client c;
    struct answer a;
    pthread_t sender;
    client_open(&c, s->port);
    client_say(&c, head);
    pthread_create(&sender, NULL, sends_megabytes, &c);
    const char *wrong = client_answer(&c, &a, false);
    CHECK_STR(wrong ? wrong : "", "");
    CHECK_INT(a.status, ==, status);
    CHECK(client_sees_end(&c));
    answer_free(&a);
    pthread_join(sender, NULL);
    client_close(&c);
}

TEST(a_client_can_read_its_answer_though_it_still_sends_megabytes)
{
    struct served s;
    begin(&s);
    check_readable(&s, POST("/some/0") "Content-Length: 8388608\r\n\r\n", 200);
    check_readable(&s, POST("/much") "Content-Length: 8388608\r\n\r\n", 200);
    check_readable(&s, POST("/echo") "Content-Length: 8388608\r\n\r\n", 413);
    check_readable(&s, POST("/echo") "Transfer-Encoding: chunked\r\n\r\n800000\r\n", 413);
    check_readable(&s, POST("/some/0") "Transfer-Encoding: chunked\r\n\r\n800000\r\n", 200);
    check_readable(&s, POST("/echo") "Content-Length: 8388608\r\nContent-Length: 1\r\n\r\n", 400);
    served_end(&s);
}

TESTS(body_rest, the_rest_of_a_body_is_drained_up_to_drain_bytes,
      the_answer_to_a_body_that_is_too_long_to_drain_says_close, the_rest_of_a_body_is_drained_if_the_handler_fails_too,
      if_the_rest_of_a_body_is_malformed_the_connection_ends_after_the_answer,
      an_answer_does_not_wait_for_the_body_to_be_drained, a_handler_may_read_after_its_answer_has_begun,
      a_client_can_read_its_answer_though_it_still_sends_megabytes)
