/*
 * Limits of size: heads, fields, bodies, what is drained; each to the byte, as set and by default.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/server.h"
#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

/* Reads the body, and answers with its length. */
static int counts(weft_exchange *x, void *arg)
{
    const char *body;
    char text[32];
    size_t size;
    if (arg)
        weft_http_allow_body(x, *(uint64_t *)arg);
    int rc = weft_http_read_all(x, &body, &size, WEFT_FOREVER);
    return rc != 0 ? rc : weft_http_reply(x, 200, NULL, text, (size_t)sprintf(text, "%zu", size));
}

static uint64_t more = 200;

static const struct served_route routes[] = {{"GET /", says_hello, NULL},        {"GET /{rest...}", says_hello, NULL},
                                             {"POST /count", counts, NULL},      {"POST /more", counts, &more},
                                             {"POST /ignore", says_hello, NULL}, {0}};

/* A head of exactly `size` bytes, in one long field. */
static char *head_of(size_t size)
{
    static const char begin[] = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
    char *head = malloc(size + 1);
    memset(head, 'x', size);
    memcpy(head, begin, sizeof begin - 1);
    memcpy(head + size - 4, "\r\n\r\n", 5);
    return head;
}

static int status_of_head(int port, size_t size)
{
    char *head = head_of(size);
    int status = ask_status(port, head);
    free(head);
    return status;
}

/* A head whose target has `size` bytes. */
static int status_of_target(int port, size_t size)
{
    char *head = malloc(size + 64);
    strcpy(head, "GET /");
    memset(head + 5, 'x', size - 1);
    strcpy(head + 4 + size, " HTTP/1.1\r\nHost: a\r\n\r\n");
    int status = ask_status(port, head);
    free(head);
    return status;
}

static int status_of_fields(int port, unsigned count)
{
    char *head = malloc(64 + count * 16), *to = head + sprintf(head, "GET / HTTP/1.1\r\nHost: a\r\n");
    for (unsigned i = 1; i < count; i++)
        to += sprintf(to, "X%u: y\r\n", i);
    strcpy(to, "\r\n");
    int status = ask_status(port, head);
    free(head);
    return status;
}

TEST(a_head_above_head_bytes_is_431)
{
    struct served s;
    served_begin(&s, &(weft_http_opts){.head_bytes = 512}, routes);
    CHECK_INT(status_of_head(s.port, 511), ==, 200);
    CHECK_INT(status_of_head(s.port, 512), ==, 200);
    CHECK_INT(status_of_head(s.port, 513), ==, 431);
    CHECK_INT(status_of_head(s.port, 100000), ==, 431);
    served_end(&s);
}

TEST(a_target_above_head_bytes_is_414)
{
    struct served s;
    served_begin(&s, &(weft_http_opts){.head_bytes = 512}, routes);
    CHECK_INT(status_of_target(s.port, 400), ==, 200);
    CHECK_INT(status_of_target(s.port, 513), ==, 414);
    CHECK_INT(status_of_target(s.port, 100000), ==, 414);
    served_end(&s);
}

TEST(more_fields_than_head_fields_are_431)
{
    struct served s;
    served_begin(&s, &(weft_http_opts){.head_fields = 7}, routes);
    CHECK_INT(status_of_fields(s.port, 7), ==, 200);
    CHECK_INT(status_of_fields(s.port, 8), ==, 431);
    served_end(&s);
}

/* Asks to send a body of `size` bytes, and sends none of it. */
static void offer(struct client *c, int port, const char *path, size_t size)
{
    char head[128];
    snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", path, size);
    client_open(c, port);
    CHECK(client_say(c, head));
}

/* The status for a body of `size` bytes; *is_kept: the connection serves another request. */
static int status_of_body(int port, const char *path, size_t size, bool *is_kept)
{
    struct client c;
    struct answer a;
    char *body = calloc(1, size + 1);
    offer(&c, port, path, size);
    client_send(&c, body, size);
    const char *wrong = client_answer(&c, &a, false);
    int status = wrong ? 0 : a.status;
    const char *connection = answer_field(&a, "Connection");
    bool says_close = connection && !strcmp(connection, "close");
    answer_free(&a);
    *is_kept = client_say(&c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n") && client_answer(&c, &a, false) == NULL;
    CHECK(!(*is_kept && says_close));
    answer_free(&a);
    client_close(&c);
    free(body);
    return status;
}

TEST(a_sized_body_above_body_bytes_is_413_before_it_is_sent)
{
    struct served s;
    struct client c;
    struct answer a;
    bool is_kept;
    served_begin(&s, &(weft_http_opts){.body_bytes = 100}, routes);
    CHECK_INT(status_of_body(s.port, "/count", 100, &is_kept), ==, 200);
    CHECK(is_kept);
    offer(&c, s.port, "/count", 101);
    CHECK_PTR(client_answer(&c, &a, false), ==, NULL);
    CHECK_INT(a.status, ==, 413);
    CHECK_STR(answer_field(&a, "Connection"), "close");
    answer_free(&a);
    CHECK(client_sees_end(&c));
    client_close(&c);
    served_end(&s);
}

TEST(a_chunked_body_above_body_bytes_is_413)
{
    struct served s;
    struct client c;
    served_begin(&s, &(weft_http_opts){.body_bytes = 10}, routes);
    client_open(&c, s.port);
    client_say(&c, "POST /count HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                   "5\r\naaaaa\r\n5\r\nbbbbb\r\n0\r\n\r\n");
    client_expect_body(&c, 200, "10");
    client_say(&c, "POST /count HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                   "5\r\naaaaa\r\n5\r\nbbbbb\r\n1\r\nc"); /* it does not wait for the rest */
    client_expect(&c, 413);
    CHECK(client_sees_end(&c));
    client_close(&c);
    served_end(&s);
}

TEST(a_handler_may_allow_another_size)
{
    struct served s;
    struct client c;
    bool is_kept;
    served_begin(&s, &(weft_http_opts){.body_bytes = 100}, routes);
    CHECK_INT(status_of_body(s.port, "/more", 200, &is_kept), ==, 200);
    CHECK(is_kept);
    offer(&c, s.port, "/more", 201);
    client_expect(&c, 413);
    client_close(&c);
    served_end(&s);
}

TEST(a_body_that_was_not_read_is_drained_up_to_drain_bytes)
{
    struct served s;
    bool is_kept;
    served_begin(&s, &(weft_http_opts){.drain_bytes = 5000, .body_bytes = 10}, routes);
    CHECK_INT(status_of_body(s.port, "/ignore", 5000, &is_kept), ==, 200);
    CHECK(is_kept);
    CHECK_INT(status_of_body(s.port, "/ignore", 5001, &is_kept), ==, 200);
    CHECK(!is_kept);
    served_end(&s);
}

TEST(a_chunked_body_that_was_not_read_is_drained_up_to_drain_bytes)
{
    struct served s;
    struct client c;
    char body[2048];
    memset(body, 'x', sizeof body);
    served_begin(&s, &(weft_http_opts){.drain_bytes = 2048}, routes);
    for (int too_much = 0; too_much < 2; too_much++) {
        client_open(&c, s.port);
        client_say(&c, "POST /ignore HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n800\r\n");
        client_send(&c, body, sizeof body);
        client_say(&c, too_much ? "\r\n1\r\ny\r\n0\r\n\r\n" : "\r\n0\r\n\r\n");
        client_say(&c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client_expect(&c, 200);
        if (too_much)
            CHECK(client_sees_end(&c));
        else
            client_expect(&c, 200);
        client_close(&c);
    }
    served_end(&s);
}

TEST(limits_are_finite_by_default)
{
    struct served s;
    struct client c;
    bool is_kept;
    served_begin(&s, NULL, routes);
    CHECK_INT(status_of_head(s.port, 16 * 1024), ==, 200);
    CHECK_INT(status_of_head(s.port, 16 * 1024 + 1), ==, 431);
    CHECK_INT(status_of_fields(s.port, 100), ==, 200);
    CHECK_INT(status_of_fields(s.port, 101), ==, 431);
    CHECK_INT(status_of_body(s.port, "/count", 1 << 20, &is_kept), ==, 200);
    CHECK(is_kept);
    offer(&c, s.port, "/count", (1 << 20) + 1);
    client_expect(&c, 413);
    client_close(&c);
    CHECK_INT(status_of_body(s.port, "/ignore", 256 << 10, &is_kept), ==, 200);
    CHECK(is_kept);
    const weft_http_opts *o = &s.h->o; /* these would take a minute to see */
    CHECK_INT(o->idle_time, ==, 60 * WEFT_SEC);
    CHECK_INT(o->head_time, ==, 10 * WEFT_SEC);
    CHECK_INT(o->write_time, ==, 30 * WEFT_SEC);
    CHECK_INT(o->grace, ==, 10 * WEFT_SEC);
    CHECK_INT(o->body_rate, ==, 256);
    CHECK_INT(o->max_conns, ==, 16384);
    CHECK_INT(o->max_per_address, ==, 4096);
    served_end(&s);
}

TESTS(limits, a_head_above_head_bytes_is_431, a_target_above_head_bytes_is_414, more_fields_than_head_fields_are_431,
      a_sized_body_above_body_bytes_is_413_before_it_is_sent, a_chunked_body_above_body_bytes_is_413,
      a_handler_may_allow_another_size, a_body_that_was_not_read_is_drained_up_to_drain_bytes,
      a_chunked_body_that_was_not_read_is_drained_up_to_drain_bytes, limits_are_finite_by_default)
