/*
 * What a handler sees of its request: method, target in each form, version, fields, parameters, cookies, peer.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

#define HOST "HTTP/1.1\r\nHost: a\r\n\r\n"

/* Runs in the middleware: so it sees requests without a route too. */
static void (*look)(weft_exchange *x);

static int looks(weft_exchange *x, void *arg)
{
    (void)arg;
    look(x);
    return weft_http_status(x) == 0 ? weft_http_next(x) : 0;
}

static int params(weft_exchange *x, void *arg)
{
    (void)arg;
    char text[512];
    const char *a = weft_http_param(x, "a"), *b = weft_http_param(x, "b");
    CHECK_PTR(weft_http_param(x, "c"), ==, NULL);
    int n = snprintf(text, sizeof text, "%s|%s", a ? a : "-", b ? b : "-");
    return weft_http_reply(x, 200, NULL, text, (size_t)n);
}

static const struct served_route routes[] = {{"/", says_hello, NULL}, {"GET /p/{a}/{b...}", params, NULL}, {0}};

/* The line that `tells` answers with. */
static void tells(weft_exchange *x)
{
    char text[1024];
    const char *query = weft_http_query_text(x);
    int n = snprintf(text, sizeof text, "%s|%s|%s|%s|%d", weft_http_method(x), weft_http_path(x), query ? query : "-",
                     weft_http_host(x), weft_http_version(x));
    /* Asked again, in another order: the answers stay. */
    CHECK_STR(weft_http_query_text(x) ? weft_http_query_text(x) : "-", query ? query : "-");
    CHECK(strncmp(text, weft_http_method(x), strlen(weft_http_method(x))) == 0);
    CHECK_INT(weft_http_reply(x, 200, NULL, text, (size_t)n), ==, 0);
}

static void begin(struct served *s, void (*fn)(weft_exchange *x))
{
    look = fn;
    served_make(s, NULL, routes);
    CHECK_INT(weft_http_use(s->h, looks, NULL), ==, 0);
    served_start(s, 1);
}

static void check_says(struct served *s, const char *request, const char *text)
{
    struct answer a;
    const char *wrong = ask(s->port, request, &a);
    CHECK_STR(wrong ? wrong : "", "");
    CHECK_STR(a.body ? a.body : "", text);
    answer_free(&a);
}

TEST(the_parts_of_a_target_are_told_in_each_form)
{
    struct served s;
    begin(&s, tells);
    check_says(&s, "GET /a/b%20c?d=e%20f&g " HOST, "GET|/a/b%20c|d=e%20f&g|a|11");
    check_says(&s, "GET /a? " HOST, "GET|/a||a|11");
    check_says(&s, "GET / " HOST, "GET|/|-|a|11");
    check_says(&s, "GET /a?b?c " HOST, "GET|/a|b?c|a|11");
    check_says(&s, "PUT http://Example.org:8080/a?b HTTP/1.1\r\nHost: other\r\n\r\n", "PUT|/a|b|Example.org:8080|11");
    check_says(&s, "GET http://a HTTP/1.1\r\nHost: a\r\n\r\n", "GET|/|-|a|11");
    check_says(&s, "GET http://a?b HTTP/1.1\r\nHost: a\r\n\r\n", "GET|/|b|a|11");
    check_says(&s, "GET http://[::1]:80/x HTTP/1.1\r\nHost: a\r\n\r\n", "GET|/x|-|[::1]:80|11");
    check_says(&s, "OPTIONS * " HOST, "OPTIONS|*|-|a|11");
    check_says(&s, "GET /x HTTP/1.0\r\n\r\n", "GET|/x|-||10");
    check_says(&s, "GET /x HTTP/1.0\r\nHost: b:1\r\n\r\n", "GET|/x|-|b:1|10");
    check_says(&s, "M-SEARCH /x " HOST, "M-SEARCH|/x|-|a|11");
    served_end(&s);
}

static void tells_fields(weft_exchange *x)
{
    char text[2048];
    size_t size = 0;
    const char *name = "untouched", *value = "untouched";
    for (unsigned i = 0; weft_http_header_at(x, i, &name, &value) == 0; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "%s=%s;", name, value);
    CHECK_INT(weft_http_header_at(x, 100, &name, &value), ==, -ENOENT);
    CHECK_INT(weft_http_header_at(x, UINT32_MAX, &name, &value), ==, -ENOENT);
    CHECK_STR(weft_http_header(x, "x-TWICE"), "1");
    CHECK_STR(weft_http_header(x, "X-Empty"), "");
    CHECK_STR(weft_http_header(x, "host"), "a");
    CHECK_PTR(weft_http_header(x, "X-None"), ==, NULL);
    CHECK_PTR(weft_http_header(x, "X-Twic"), ==, NULL);
    CHECK_PTR(weft_http_header(x, ""), ==, NULL);
    weft_http_reply(x, 200, NULL, text, size);
}

TEST(fields_are_told_by_name_in_any_case_and_by_number)
{
    struct served s;
    begin(&s, tells_fields);
    check_says(&s,
               "GET / HTTP/1.1\r\nHost: a\r\nX-Twice: 1\r\nX-Empty:\r\nx-twice:  2 \t\r\nX-Blank: \t \r\nX-High: "
               "\xc3\xa4 b\r\n\r\n",
               "Host=a;X-Twice=1;X-Empty=;x-twice=2;X-Blank=;X-High=\xc3\xa4 b;");
    served_end(&s);
}

static void tells_cookies(weft_exchange *x)
{
    char text[256];
    const char *a = weft_http_cookie(x, "a"), *b = weft_http_cookie(x, "b"), *c = weft_http_cookie(x, "c");
    int n = snprintf(text, sizeof text, "%s|%s|%s", a ? a : "-", b ? b : "-", c ? c : "-");
    weft_http_reply(x, 200, NULL, text, (size_t)n);
}

TEST(cookies_are_told_by_name)
{
    struct served s;
    begin(&s, tells_cookies);
    check_says(&s, "GET / HTTP/1.1\r\nHost: a\r\nCookie: a=1; b=\"2\"; A=3\r\nCookie: c=4; a=5\r\n\r\n", "1|2|4");
    check_says(&s, "GET / HTTP/1.1\r\nHost: a\r\nCookie: aa=1; b=\r\n\r\n", "-||-");
    check_says(&s, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "-|-|-");
    served_end(&s);
}

static void looks_at_nothing(weft_exchange *x)
{
    (void)x;
}

TEST(parameters_are_decoded_once)
{
    struct served s;
    begin(&s, looks_at_nothing);
    check_says(&s, "GET /p/x%41%2541/y/z " HOST, "xA%41|y/z");
    check_says(&s, "GET /p/a%2Fb/ " HOST, "a/b|");
    check_says(&s, "GET /p/a+b/c?d " HOST, "a+b|c");
    served_end(&s);
}

static void tells_query(weft_exchange *x)
{
    char text[256];
    const char *a = weft_http_query(x, "a"), *b = weft_http_query(x, "b c"), *c = weft_http_query(x, "c");
    int n = snprintf(text, sizeof text, "%s|%s|%s", a ? a : "-", b ? b : "-", c ? c : "-");
    weft_http_reply(x, 200, NULL, text, (size_t)n);
}

TEST(the_query_is_told_by_name)
{
    struct served s;
    begin(&s, tells_query);
    check_says(&s, "GET /?a=1+2%2B&b%20c=x&a=3 " HOST, "1 2+|x|-");
    check_says(&s, "GET /?c&a= " HOST, "|-|");
    check_says(&s, "GET / " HOST, "-|-|-");
    served_end(&s);
}

static void tells_peer(weft_exchange *x)
{
    char text[64], ip[INET_ADDRSTRLEN];
    struct sockaddr_in peer;
    socklen_t size = sizeof peer;
    CHECK_INT(weft_http_peer(x, (struct sockaddr *)&peer, &size), ==, 0);
    int n = snprintf(text, sizeof text, "%s %d", inet_ntop(AF_INET, &peer.sin_addr, ip, sizeof ip),
                     ntohs(peer.sin_port));
    CHECK_PTR(weft_http_id(x), ==, NULL);
    weft_http_reply(x, 200, NULL, text, (size_t)n);
}

TEST(the_peer_is_the_address_of_the_client)
{
    struct served s;
    struct client c;
    struct sockaddr_in own;
    socklen_t size = sizeof own;
    char text[64];
    begin(&s, tells_peer);
    client_open(&c, s.port);
    CHECK_INT(getsockname(c.fd, (struct sockaddr *)&own, &size), ==, 0);
    snprintf(text, sizeof text, "127.0.0.1 %d", ntohs(own.sin_port));
    client_say(&c, "GET / " HOST "GET / " HOST);
    client_expect_body(&c, 200, text);
    client_expect_body(&c, 200, text);
    client_close(&c);
    served_end(&s);
}

/* Strings of a request stay as they are while its body is read, whatever buffer that takes. */
static int tells_after_body(weft_exchange *x, void *arg)
{
    (void)arg;
    const char *path = weft_http_path(x), *field = weft_http_header(x, "X-Field"), *body;
    size_t size;
    int rc = weft_http_read_all(x, &body, &size, WEFT_FOREVER);
    CHECK_STR(path, "/after");
    CHECK_STR(field, "value");
    CHECK_STR(weft_http_query_text(x), "q=r");
    CHECK_STR(weft_http_header(x, "X-Last"), "last");
    return rc != 0 ? rc : weft_http_reply(x, 200, NULL, body, size);
}

TEST(strings_of_a_request_live_until_its_handler_returns)
{
    static char body[100000], chunks[130000];
    size_t size = 0;
    struct served s;
    struct client c;
    memset(body, 'b', sizeof body - 1);
    for (size_t at = 0; at < sizeof body - 1; at += 99)
        size += (size_t)sprintf(chunks + size, "%zx\r\n%.*s\r\n", sizeof body - 1 - at < 99 ? sizeof body - 1 - at : 99,
                                99, body + at);
    strcpy(chunks + size, "0\r\n\r\n");
    served_begin(&s, NULL, (struct served_route[]){{"POST /after", tells_after_body, NULL}, {0}});
    client_open(&c, s.port);
    for (int i = 0; i < 2; i++) {
        client_say(&c, "POST /after?q=r HTTP/1.1\r\nHost: a\r\nX-Field: value\r\n");
        client_say(&c, i == 0 ? "Transfer-Encoding: chunked\r\nX-Last: last\r\n\r\n"
                              : "Content-Length: 99999\r\nX-Last: last\r\n\r\n");
        client_say(&c, i == 0 ? chunks : body);
        client_expect_body(&c, 200, body);
    }
    client_close(&c);
    served_end(&s);
}

TESTS(request, the_parts_of_a_target_are_told_in_each_form, fields_are_told_by_name_in_any_case_and_by_number,
      cookies_are_told_by_name, parameters_are_decoded_once, the_query_is_told_by_name,
      the_peer_is_the_address_of_the_client, strings_of_a_request_live_until_its_handler_returns)
