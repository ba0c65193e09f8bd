/*
 * Reading the bodies of requests: sized and chunked, in parts of every size, however they come.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

#define POST(path) "POST " path " HTTP/1.1\r\nHost: a\r\n"

/* Reads the body in parts of at most {size} bytes, and answers with it. */
static int reads_parts(weft_exchange *x, void *arg)
{
    (void)arg;
    size_t part = strtoul(weft_http_param(x, "size"), NULL, 10), size = 0, room = 4 << 20;
    char *body = malloc(room);
    ptrdiff_t n;
    while ((n = weft_http_read(x, body + size, part < room - size ? part : room - size, WEFT_FOREVER)) > 0) {
        CHECK_INT(n, <=, part);
        size += (size_t)n;
    }
    CHECK_INT(weft_http_read(x, body, 1, WEFT_FOREVER), ==, n); /* the end, and a failure, stay */
    int rc = n < 0 ? (int)n : weft_http_reply(x, 200, NULL, body, size);
    free(body);
    return rc;
}

/* What the calls about a body say of it before it is read, and after. */
static int describes(weft_exchange *x, void *arg)
{
    (void)arg;
    char text[128];
    const char *body;
    size_t size = 0;
    long before = (long)weft_http_body_length(x);
    int rc = weft_http_read_all(x, &body, &size, WEFT_FOREVER);
    if (rc != 0)
        return rc;
    CHECK_INT(body[size], ==, 0);
    CHECK_INT(weft_http_body_length(x), ==, before);
    int n = snprintf(text, sizeof text, "%ld %zu %s", before, size, body);
    return weft_http_reply(x, 200, NULL, text, (size_t)n);
}

static int tells_form(weft_exchange *x, void *arg)
{
    (void)arg;
    char text[128];
    CHECK_PTR(weft_http_form(x, "a"), ==, NULL); /* it was not read */
    int rc = weft_http_read_form(x, WEFT_FOREVER);
    if (rc != 0)
        return rc;
    const char *a = weft_http_form(x, "a"), *b = weft_http_form(x, "b b"), *c = weft_http_form(x, "c");
    int n = snprintf(text, sizeof text, "%s|%s|%s", a ? a : "-", b ? b : "-", c ? c : "-");
    return weft_http_reply(x, 200, NULL, text, (size_t)n);
}

static const struct served_route routes[] = {
    {"POST /parts/{size}", reads_parts, NULL}, {"POST /tell", describes, NULL}, {"POST /echo", echoes, NULL},
    {"POST /form", tells_form, NULL},          {"GET /tell", describes, NULL},  {0}};

/* Bytes of every value, which repeat nowhere near the sizes of buffers. */
static void fill(char *body, size_t size)
{
    for (size_t i = 0; i < size; i++)
        body[i] = (char)(i * 7 + i / 251 + i / 65521);
}

/* The body in chunks of `part` bytes, with some extensions and a trailer. The caller frees it. */
static char *in_chunks(const char *body, size_t size, size_t part, size_t *out)
{
    char *text = malloc(size + (size / part + 2) * 32 + 64), *to = text;
    for (size_t at = 0; at < size; at += part) {
        size_t n = part < size - at ? part : size - at;
        to += sprintf(to, at % 2 || at > 500 ? "%zx\r\n" : "%zX;name=\"v;\\\"\";n\r\n", n);
        memcpy(to, body + at, n);
        to += n;
        to += sprintf(to, "\r\n");
    }
    to += sprintf(to, "0\r\nTrailer-Field: x\r\n\r\n");
    *out = (size_t)(to - text);
    return text;
}

static void expect_bytes(struct client *c, const char *body, size_t size)
{
    struct answer a;
    CHECK_PTR(client_answer(c, &a, false), ==, NULL);
    CHECK_INT(a.status, ==, 200);
    CHECK_INT(a.size, ==, size);
    CHECK(a.size == size && memcmp(a.body, body, size) == 0);
    answer_free(&a);
}

static void say_head(struct client *c, const char *path, const char *frame)
{
    char head[256];
    snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n", path, frame);
    client_say(c, head);
}

/* A sized body, a chunked one and a sized one in one piece: a read must not take bytes of the next request. */
static void check_together(struct client *c, const char *path, const char *body, size_t size, const char *chunks,
                           size_t coded)
{
    char all[4096], *to = all;
    for (int i = 0; i < 3; i++) {
        const char *bytes = i == 1 ? chunks : body;
        size_t count = i == 1 ? coded : size;
        to += sprintf(to, POST("%s"), path);
        to += i == 1 ? sprintf(to, "Transfer-Encoding: chunked\r\n\r\n")
                     : sprintf(to, "Content-Length: %zu\r\n\r\n", size);
        memcpy(to, bytes, count);
        to += count;
    }
    client_send(c, all, (size_t)(to - all));
    for (int i = 0; i < 3; i++)
        expect_bytes(c, body, size);
}

TEST(a_body_is_read_in_parts_of_every_size)
{
    enum { SIZE = 100 };
    char body[SIZE], path[32];
    size_t coded;
    struct served s;
    struct client c;
    fill(body, SIZE);
    char *chunks = in_chunks(body, SIZE, 33, &coded);
    served_begin(&s, NULL, routes);
    client_open(&c, s.port);
    for (size_t part = 1; part <= SIZE + 1 && !test_has_failed(); part++) {
        snprintf(path, sizeof path, "/parts/%zu", part);
        say_head(&c, path, "Content-Length: 100");
        client_send(&c, body, SIZE);
        expect_bytes(&c, body, SIZE);
        say_head(&c, path, "Transfer-Encoding: chunked");
        client_send(&c, chunks, coded);
        expect_bytes(&c, body, SIZE);
        check_together(&c, path, body, SIZE, chunks, coded);
    }
    client_close(&c);
    served_end(&s);
    free(chunks);
}

/* The server has read the first part when the second one is sent. */
static void check_split(struct served *s, const char *request, size_t size, const char *body)
{
    for (size_t at = 1; at < size && !test_has_failed(); at++) {
        struct client c;
        uint64_t before = served_figures(s).bytes_in;
        client_open(&c, s->port);
        CHECK(client_send(&c, request, at));
        served_wait_read(s, before + at);
        CHECK(client_send(&c, request + at, size - at));
        client_expect_body(&c, 200, body);
        client_close(&c);
    }
}

TEST(a_body_is_the_same_wherever_it_is_split)
{
    static const char sized[] = POST("/echo") "Content-Length: 10\r\n\r\n0123456789";
    static const char chunked[] = POST("/parts/3") "Transfer-Encoding: chunked\r\n\r\n"
                                                   "5;a=b;c=\"d\"\r\n01234\r\n0004\r\n5678\r\n1\r\n9\r\n"
                                                   "00\r\nA: b\r\nC: d\r\n\r\n";
    struct served s;
    served_begin(&s, NULL, routes);
    check_split(&s, sized, sizeof sized - 1, "0123456789");
    check_split(&s, chunked, sizeof chunked - 1, "0123456789");
    served_end(&s);
}

static void check_large(struct served *s, size_t size, size_t part, const char *path)
{
    char *body = malloc(size), frame[64];
    size_t coded;
    struct client c;
    fill(body, size);
    char *chunks = in_chunks(body, size, part, &coded);
    client_open(&c, s->port);
    snprintf(frame, sizeof frame, "Content-Length: %zu", size);
    say_head(&c, path, frame);
    CHECK(client_send(&c, body, size));
    expect_bytes(&c, body, size);
    say_head(&c, path, "Transfer-Encoding: chunked");
    CHECK(client_send(&c, chunks, coded));
    expect_bytes(&c, body, size);
    client_close(&c);
    free(chunks);
    free(body);
}

TEST(bodies_larger_than_the_buffer_are_read_whole)
{
    struct served s;
    served_begin(&s, NULL, routes);
    for (size_t size = 1984 - 300; size < 1984 + 100; size += 7) /* about WH_IN_SMALL */
        check_large(&s, size, size / 2, "/echo");
    check_large(&s, 20000, 1, "/echo");
    check_large(&s, 20 * 1024, 20 * 1024, "/parts/20480");
    check_large(&s, 1 << 20, 1 << 20, "/echo");
    check_large(&s, 1 << 20, 1000, "/parts/4096");
    check_large(&s, 1 << 20, 65536, "/parts/100000");
    served_end(&s);
}

TEST(the_length_of_a_body_is_told_and_a_zero_byte_follows_it)
{
    struct served s;
    struct client c;
    served_begin(&s, NULL, routes);
    client_open(&c, s.port);
    client_say(&c, "GET /tell HTTP/1.1\r\nHost: a\r\n\r\n");
    client_expect_body(&c, 200, "0 0 ");
    client_say(&c, POST("/tell") "Content-Length: 0\r\n\r\n");
    client_expect_body(&c, 200, "0 0 ");
    client_say(&c, POST("/tell") "Content-Length: 3\r\n\r\nabc");
    client_expect_body(&c, 200, "3 3 abc");
    client_say(&c, POST("/tell") "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    client_expect_body(&c, 200, "-1 0 ");
    client_say(&c, POST("/tell") "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n");
    client_expect_body(&c, 200, "-1 3 abc");
    client_close(&c);
    served_end(&s);
}

#define FORM POST("/form") "Content-Type: application/x-www-form-urlencoded"

TEST(a_form_is_read_by_its_type)
{
    struct served s;
    struct client c;
    served_begin(&s, NULL, routes);
    client_open(&c, s.port);
    client_say(&c, FORM "\r\nContent-Length: 17\r\n\r\na=1+2&b%20b=%3D&a");
    client_expect_body(&c, 200, "1 2|=|-");
    client_say(&c, FORM "; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na=x\r\n3\r\n&c=\r\n0\r\n\r\n");
    client_expect_body(&c, 200, "x|-|");
    client_say(&c, FORM "\r\nContent-Length: 0\r\n\r\n");
    client_expect_body(&c, 200, "-|-|-");
    client_say(&c, POST("/form") "Content-Type: Application/X-WWW-Form-URLEncoded\r\nContent-Length: 3\r\n\r\na=1");
    client_expect_body(&c, 200, "1|-|-");
    client_say(&c, FORM "x\r\nContent-Length: 3\r\n\r\na=1");
    client_expect(&c, 400); /* another type: -EINVAL */
    client_say(&c, POST("/form") "Content-Type: multipart/form-data\r\nContent-Length: 3\r\n\r\na=1");
    client_expect(&c, 400);
    client_say(&c, POST("/form") "Content-Length: 3\r\n\r\na=1");
    client_expect(&c, 400);
    client_close(&c);
    served_end(&s);
}

TESTS(body, a_body_is_read_in_parts_of_every_size, a_body_is_the_same_wherever_it_is_split,
      bodies_larger_than_the_buffer_are_read_whole, the_length_of_a_body_is_told_and_a_zero_byte_follows_it,
      a_form_is_read_by_its_type)
