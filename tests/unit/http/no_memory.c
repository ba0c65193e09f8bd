/*
 * Without memory: each allocation of an exchange fails once. The client gets the right answer, 5xx, or the end of the
 * connection, never a wrong answer; and the next connection is served.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/memory.h"
#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

enum {
    MOST = 30, /* allocations that an exchange here may take */
    FEW = 12,  /* the same, of an exchange with a plain handler */
    HELD = 62, /* two slabs of buffers */
};

/* Makes each call that takes memory. Returns -ENOMEM as soon as one has got none. */
static int takes_all(weft_exchange *x, void *arg)
{
    static const char value[] =
        "a value that is long enough for the arena to be full soon, and so on, and so on, and so on";
    const char *body;
    size_t size;
    char name[16];
    (void)arg;
    if (!weft_http_scope(x) || !weft_http_alloc(x, 5000) || !weft_http_query(x, "q") || !weft_http_cookie(x, "c"))
        return -ENOMEM;
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "X-%d", i);
        int rc = weft_http_add_header(x, name, value);
        if (rc != 0)
            return rc;
    }
    int rc = weft_http_read_all(x, &body, &size, WEFT_FOREVER);
    return rc != 0 ? rc : weft_http_reply(x, 200, NULL, body, size);
}

static int reads_form(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_read_form(x, WEFT_FOREVER);
    const char *a = rc == 0 ? weft_http_form(x, "a") : NULL;
    if (!a)
        return rc != 0 ? rc : -ENOMEM;
    return weft_http_reply(x, 200, NULL, a, strlen(a));
}

static int streams(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_events(x);
    return rc != 0 ? rc : weft_http_event(x, NULL, "event");
}

static const struct served_route routes[] = {{"GET /", says_hello, NULL},      {"POST /all/{id}", takes_all, NULL},
                                             {"POST /form", reads_form, NULL}, {"POST /unread", says_hello, NULL},
                                             {"GET /events", streams, NULL},   {0}};

/* How the exchange went: true if it was whole, false if it failed as it may. */
static bool is_whole(struct client *c, const char *body)
{
    struct answer a;
    const char *wrong = client_answer(c, &a, false);
    bool whole = !wrong && a.status == 200;
    if (whole)
        CHECK_STR(a.body, body);
    else if (!wrong)
        CHECK(a.status == 500 || a.status == 503);
    else
        CHECK(!strcmp(wrong, "end") || !strcmp(wrong, "error") || !strncmp(wrong, "end inside", 10));
    answer_free(&a);
    return whole;
}

/* Connections that have begun a request: they use what the server keeps, so the next one needs memory of its own. */
static void hold_all(struct served *s, struct client *held)
{
    uint64_t before = served_figures(s).bytes_in;
    for (unsigned i = 0; i < HELD; i++) {
        client_open(&held[i], s->port);
        client_say(&held[i], "GET");
    }
    served_wait_read(s, before + 3 * HELD);
}

/* Allocation number n of the exchange fails. True: the answer was whole. */
static bool ask_without(unsigned n, const char *request, const char *body, bool is_warm)
{
    struct client held[HELD], c;
    struct served s;
    served_begin(&s, NULL, routes);
    CHECK_INT(ask_status(s.port, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"), ==, 200); /* it has begun to serve */
    served_wait_connections(&s, 0);
    if (!is_warm)
        hold_all(&s, held);
    wh_alloc_fail_at(n);
    client_open(&c, s.port);
    client_say(&c, request);
    bool whole = is_whole(&c, body);
    wh_alloc_fail_at(0);
    client_close(&c);
    for (unsigned i = 0; i < HELD && !is_warm; i++)
        client_close(&held[i]);
    CHECK_INT(ask_status(s.port, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"), ==, 200);
    served_end(&s);
    return whole;
}

static void check_each(const char *request, const char *body, bool is_warm)
{
    unsigned whole = 0, most = is_warm ? MOST : FEW;
    for (unsigned n = 1; n <= most && !test_has_failed(); n++)
        whole += ask_without(n, request, body, is_warm);
    CHECK_INT(whole, <, most); /* the seam is there */
    CHECK_INT(whole, >, 0);    /* and there are enough */
}

#define POST(target) "POST " target " HTTP/1.1\r\nHost: a\r\n"

TEST(a_plain_request_without_memory_gets_the_answer_or_none)
{
    check_each("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "hello\n", false);
    check_each("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "hello\n", true);
}

TEST(a_handler_that_takes_much_memory_gets_the_answer_or_5xx)
{
    char chunked[1024];
    snprintf(chunked, sizeof chunked,
             POST("/all/1?q=r") "Cookie: c=d\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n\n\r\n0\r\n\r\n");
    check_each(chunked, "hello\n", true);
    check_each(POST("/all/1?q=r") "Cookie: c=d\r\nContent-Length: 6\r\n\r\nhello\n", "hello\n", true);
    check_each(POST("/form") "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 5\r\n\r\nb&a=c", "c",
               true);
    check_each("GET /events HTTP/1.1\r\nHost: a\r\n\r\n", "data: event\n\n", true);
}

TEST(a_large_body_in_chunks_without_memory_gets_the_answer_or_5xx)
{
    enum { SIZE = 200000 };
    char *body = malloc(SIZE + 1), *request = malloc(2 * SIZE);
    memset(body, 'b', SIZE);
    body[SIZE] = '\0';
    sprintf(request, POST("/all/1?q=r") "Cookie: c=d\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", SIZE,
            body);
    check_each(request, body, true);
    free(request);
    free(body);
}

TEST(a_head_that_needs_a_large_buffer_gets_the_answer_or_none)
{
    char request[10000], *to = request;
    to += sprintf(to, "GET /");
    to += sprintf(to, "?");
    memset(to, 'q', 3000);
    to += 3000;
    to += sprintf(to, " HTTP/1.1\r\nHost: a\r\nX-Long: ");
    memset(to, 'v', 4000);
    to += 4000;
    sprintf(to, "\r\n\r\n");
    check_each(request, "hello\n", false);
    check_each(request, "hello\n", true);
}

/* Answers before the one that fails arrive, and none comes out of its turn. */
TEST(a_batch_without_memory_gets_its_first_answers_in_order)
{
    static const char batch[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n" POST("/unread") "Content-Length: 6000\r\n\r\n";
    static char rest[6001];
    memset(rest, 'r', 6000);
    for (unsigned n = 1; n <= MOST && !test_has_failed(); n++) {
        struct served s;
        struct client c;
        served_begin(&s, NULL, routes);
        CHECK_INT(ask_status(s.port, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"), ==, 200);
        wh_alloc_fail_at(n);
        client_open(&c, s.port);
        client_say(&c, batch);
        client_say(&c, rest);
        client_say(&c, POST("/all/2?q=r") "Cookie: c=d\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nall\r\n0\r\n\r\n");
        if (is_whole(&c, "hello\n") && is_whole(&c, "hello\n"))
            is_whole(&c, "all");
        wh_alloc_fail_at(0);
        client_close(&c);
        served_wait_connections(&s, 0);
        served_end(&s);
    }
}

/* Making a server: what has failed leaves nothing, and can be done again. */
TEST(a_server_that_cannot_be_made_says_enomem)
{
    bool is_made = false;
    for (unsigned n = 1; n <= MOST && !is_made; n++) {
        weft_http *h = NULL;
        wh_alloc_fail_at(n);
        int rc = weft_http_new(&h, &(weft_http_opts){.server = "x"});
        if (rc == 0)
            rc = weft_http_route(h, "GET /a/{b}/c", says_hello, NULL);
        if (rc == 0)
            rc = weft_http_use(h, weft_http_give_id, NULL);
        wh_alloc_fail_at(0);
        is_made = rc == 0;
        if (!is_made)
            CHECK_INT(rc, ==, -ENOMEM);
        if (h) {
            rc = weft_http_route(h, "GET /a/{b}/c", says_hello, NULL);
            CHECK(rc == 0 || rc == -EEXIST);
            CHECK_INT(weft_http_use(h, weft_http_give_id, NULL), ==, 0);
        }
        CHECK_INT(weft_http_free(h), ==, 0);
    }
    CHECK(is_made);
}

TESTS(no_memory, a_plain_request_without_memory_gets_the_answer_or_none,
      a_handler_that_takes_much_memory_gets_the_answer_or_5xx,
      a_large_body_in_chunks_without_memory_gets_the_answer_or_5xx,
      a_head_that_needs_a_large_buffer_gets_the_answer_or_none, a_batch_without_memory_gets_its_first_answers_in_order,
      a_server_that_cannot_be_made_says_enomem)
