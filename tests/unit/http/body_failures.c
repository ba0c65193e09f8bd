/*
 * Bodies that are too long, malformed, or that stop: what the handler sees, what the client gets, and that the connection
 * is not used again.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

#define POST(path) "POST " path " HTTP/1.1\r\nHost: a\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n\r\n"
#define NEXT POST("/echo") "Content-Length: 1\r\n\r\nx"

static _Atomic int result;    /* of the last read */
static weft_event has_result; /* there is one */

/* Reads the body to its end or failure, and tells how that was. */
static int reads(weft_exchange *x, void *arg)
{
    char part[16];
    ptrdiff_t n;
    (void)arg;
    while ((n = weft_http_read(x, part, sizeof part, WEFT_FOREVER)) > 0)
        ;
    CHECK_INT(weft_http_read(x, part, sizeof part, WEFT_FOREVER), ==, n);
    result = (int)n;
    weft_event_set(&has_result);
    return n < 0 ? (int)n : weft_http_reply(x, 200, NULL, "read", 4);
}

/* The same, but answers 200 whatever happens. */
static int reads_whatever(weft_exchange *x, void *arg)
{
    char part[16];
    (void)arg;
    while (weft_http_read(x, part, sizeof part, WEFT_FOREVER) > 0)
        ;
    return weft_http_reply(x, 200, NULL, "whatever", 8);
}

/* Allows a body of {bytes}. */
static int allows(weft_exchange *x, void *arg)
{
    weft_http_allow_body(x, strtoull(weft_http_param(x, "bytes"), NULL, 10));
    return reads(x, arg);
}

/* Tries to read before there is something, then waits for it. */
static int tries(weft_exchange *x, void *arg)
{
    char part[16];
    (void)arg;
    ptrdiff_t n = weft_http_read(x, part, sizeof part, WEFT_NOW);
    CHECK_INT(n, ==, -EAGAIN);
    weft_event_set(&has_result);
    n = weft_http_read(x, part, sizeof part, WEFT_FOREVER);
    return n < 0 ? (int)n : weft_http_reply(x, 200, NULL, part, (size_t)n);
}

static int reads_for_a_moment(weft_exchange *x, void *arg)
{
    char part[16];
    (void)arg;
    ptrdiff_t n = weft_http_read(x, part, sizeof part, weft_in(WEFT_MS));
    return n < 0 ? (int)n : weft_http_reply(x, 200, NULL, "read", 4);
}

static const struct served_route routes[] = {{"POST /read", reads, NULL},
                                             {"POST /echo", echoes, NULL},
                                             {"POST /whatever", reads_whatever, NULL},
                                             {"POST /allow/{bytes}", allows, NULL},
                                             {"POST /try", tries, NULL},
                                             {"POST /moment", reads_for_a_moment, NULL},
                                             {0}};

static void begin(struct served *s, uint64_t body_bytes)
{
    weft_event_reset(&has_result);
    result = 1;
    served_begin(s, &(weft_http_opts){.body_bytes = body_bytes}, routes);
}

/* The answer to a request, and that the next one on its connection gets none. */
static void check_last(struct served *s, const char *request, int status)
{
    struct client c;
    struct answer a;
    client_open(&c, s->port);
    client_say(&c, request);
    client_say(&c, NEXT);
    CHECK_PTR(client_answer(&c, &a, false), ==, NULL);
    CHECK_INT(a.status, ==, status);
    const char *connection = answer_field(&a, "Connection");
    CHECK_STR(connection ? connection : "", "close");
    answer_free(&a);
    CHECK(client_sees_end(&c));
    client_close(&c);
}

static void check_kept(struct served *s, const char *request, int status)
{
    struct client c;
    client_open(&c, s->port);
    client_say(&c, request);
    client_say(&c, NEXT);
    client_expect(&c, status);
    client_expect_body(&c, 200, "x");
    client_close(&c);
}

TEST(a_body_longer_than_allowed_is_413)
{
    struct served s;
    begin(&s, 10);
    check_kept(&s, POST("/echo") "Content-Length: 10\r\n\r\n0123456789", 200);
    check_kept(&s, POST("/echo") CHUNKED "5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n", 200);
    check_last(&s, POST("/echo") "Content-Length: 11\r\n\r\n0123456789a", 413);
    check_last(&s, POST("/echo") CHUNKED "5\r\n01234\r\n6\r\n56789a\r\n0\r\n\r\n", 413);
    check_last(&s, POST("/read") CHUNKED "b\r\n0123456789a\r\n0\r\n\r\n", 413);
    CHECK_INT(result, ==, -EFBIG);
    check_last(&s, POST("/read") "Content-Length: 9223372036854775807\r\n\r\nxx", 413);
    CHECK_INT(result, ==, -EFBIG);
    check_last(&s, POST("/whatever") "Content-Length: 11\r\n\r\n0123456789a", 200);
    served_end(&s);
}

TEST(allow_body_sets_another_limit_for_one_request)
{
    struct served s;
    begin(&s, 10);
    check_kept(&s, POST("/allow/11") "Content-Length: 11\r\n\r\n0123456789a", 200);
    check_kept(&s, POST("/allow/11") CHUNKED "b\r\n0123456789a\r\n0\r\n\r\n", 200);
    check_last(&s, POST("/allow/11") "Content-Length: 12\r\n\r\n0123456789ab", 413);
    check_last(&s, POST("/allow/3") "Content-Length: 4\r\n\r\nabcd", 413);
    check_last(&s, POST("/allow/0") CHUNKED "1\r\na\r\n0\r\n\r\n", 413);
    check_kept(&s, POST("/allow/0") CHUNKED "0\r\n\r\n", 200);
    served_end(&s);
}

TEST(malformed_chunks_are_400)
{
    static const char *const bodies[] = {"x\r\n",
                                         "-1\r\na\r\n0\r\n\r\n",
                                         "0x1\r\na\r\n0\r\n\r\n",
                                         "1\na\n0\n\n",
                                         "1\r\nab\r\n0\r\n\r\n",
                                         "\r\n",
                                         "1 \r\na\r\n0\r\n\r\n",
                                         " 1\r\na\r\n0\r\n\r\n",
                                         "1\r\na\r\n0\r\n: x\r\n\r\n",
                                         "0\r\n\n",
                                         "1;\x01\r\na\r\n",
                                         "fffffffffffffffff\r\na\r\n",
                                         "1\r\na0\r\n\r\n",
                                         "0\r\nHost: b\r\n\r\n",
                                         "0\r\n a: b\r\n\r\n"};
    char request[256];
    struct served s;
    begin(&s, 0);
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        result = 1;
        snprintf(request, sizeof request, POST("/read") CHUNKED "%s", bodies[i]);
        check_last(&s, request, 400);
        CHECK_INT(result, ==, -EBADMSG);
    }
    check_last(&s, POST("/whatever") CHUNKED "x\r\n", 200);
    served_end(&s);
}

/* A client that ends its sending half still gets an answer: the handler decides. */
TEST(a_client_that_ends_inside_a_body_gives_econnreset)
{
    static const char *const requests[] = {POST("/read") "Content-Length: 10\r\n\r\n",
                                           POST("/read") "Content-Length: 10\r\n\r\n012345678",
                                           POST("/read") CHUNKED,
                                           POST("/read") CHUNKED "5\r\n0123",
                                           POST("/read") CHUNKED "5\r\n01234\r\n0\r\n",
                                           POST("/read") CHUNKED "5\r\n01234\r\n",
                                           POST("/read") CHUNKED "5\r\n01234\r\n0\r\nA: b\r\n"};
    struct served s;
    begin(&s, 0);
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        struct client c;
        result = 1;
        client_open(&c, s.port);
        client_say(&c, requests[i]);
        client_end(&c);
        client_expect(&c, 400);
        CHECK(client_sees_end(&c));
        CHECK_INT(result, ==, -ECONNRESET);
        client_close(&c);
    }
    served_end(&s);
}

TEST(a_client_that_resets_inside_a_body_ends_the_read)
{
    struct served s;
    struct client c;
    begin(&s, 0);
    client_open(&c, s.port);
    client_say(&c, POST("/read") "Content-Length: 10\r\n\r\n01234");
    served_wait_read(&s, strlen(POST("/read") "Content-Length: 10\r\n\r\n01234"));
    client_abort(&c);
    CHECK_INT(weft_event_wait(&has_result, weft_in(60 * WEFT_SEC)), ==, 0);
    int rc = result;
    CHECK(rc == -ECONNRESET || rc == -ECANCELED); /* its hangup cancels the handler */
    served_wait_connections(&s, 0);
    served_end(&s);
}

TEST(a_read_with_weft_now_that_finds_nothing_is_no_failure)
{
    struct served s;
    struct client c;
    begin(&s, 0);
    client_open(&c, s.port);
    client_say(&c, POST("/try") "Content-Length: 3\r\n\r\n");
    CHECK_INT(weft_event_wait(&has_result, weft_in(60 * WEFT_SEC)), ==, 0);
    client_say(&c, "abc" NEXT);
    client_expect_body(&c, 200, "abc");
    client_expect_body(&c, 200, "x");
    client_close(&c);
    served_end(&s);
}

TEST(a_read_whose_deadline_passes_gives_408_and_ends_the_connection)
{
    struct served s;
    struct client c;
    begin(&s, 0);
    client_open(&c, s.port);
    client_say(&c, POST("/moment") "Content-Length: 3\r\n\r\n");
    client_expect(&c, 408);
    client_say(&c, "abc" NEXT);
    CHECK(client_sees_end(&c));
    client_close(&c);
    served_end(&s);
}

static int has_tried, all_rc; /* `has_tried` is a flag */

/* Tries until there is something else than "nothing has come". */
static int tries_all(weft_exchange *x, void *arg)
{
    const char *body;
    size_t size;
    int rc;
    (void)arg;
    while ((rc = weft_http_read_all(x, &body, &size, WEFT_NOW)) == -EAGAIN) {
        __atomic_store_n(&has_tried, 1, __ATOMIC_RELEASE);
        weft_sleep(WEFT_MS);
    }
    __atomic_store_n(&all_rc, rc, __ATOMIC_RELEASE);
    return rc != 0 ? rc : weft_http_reply(x, 200, "text/plain", body, size);
}

TEST(a_try_for_the_whole_body_loses_no_part_of_it_in_silence)
{
    static const char *const heads[] = {"Content-Length: 10\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"};
    static const char *const parts[] = {"first", "5\r\nfirst\r\n"};
    static const char *const rests[] = {" part", "5\r\n part\r\n0\r\n\r\n"};
    static const char *const wholes[] = {"first part", "5\r\nfirst\r\n5\r\n part\r\n0\r\n\r\n"};
    struct served s;
    served_begin(&s, NULL, (struct served_route[]){{"POST /", tries_all, NULL}, {0}});
    for (int i = 0; i < 2; i++) {
        struct client c;
        __atomic_store_n(&has_tried, 0, __ATOMIC_RELEASE);
        client_open(&c, s.port);
        client_say(&c, "POST / HTTP/1.1\r\nHost: a\r\n");
        client_say(&c, heads[i]);
        wait_for_flag(&has_tried, 1);
        client_say(&c, wholes[i]); /* in one piece: it is there or not */
        client_expect_body(&c, 200, "first part");
        client_say(&c, "POST / HTTP/1.1\r\nHost: a\r\n");
        client_say(&c, heads[i]);
        client_say(&c, parts[i]);
        client_expect(&c, 408);
        CHECK_INT(__atomic_load_n(&all_rc, __ATOMIC_ACQUIRE), ==, -ETIMEDOUT);
        client_say(&c, rests[i]);
        client_close(&c);
    }
    served_end(&s);
}

TESTS(body_failures, a_body_longer_than_allowed_is_413, allow_body_sets_another_limit_for_one_request,
      malformed_chunks_are_400, a_client_that_ends_inside_a_body_gives_econnreset,
      a_client_that_resets_inside_a_body_ends_the_read, a_read_with_weft_now_that_finds_nothing_is_no_failure,
      a_read_whose_deadline_passes_gives_408_and_ends_the_connection,
      a_try_for_the_whole_body_loses_no_part_of_it_in_silence)
