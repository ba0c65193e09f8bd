/*
 * Values of queries, forms and cookies, as a handler gets them through requests. (unit/http/decode tests the functions that
 * find them.)
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/memory.h"
#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

static int reply_text(weft_exchange *x, const char *text)
{
    text = text ? text : "(null)";
    return weft_http_reply(x, 200, NULL, text, strlen(text));
}

/* The field X-Name of each request is the name that its handler asks for. */
static const char *name_of(weft_exchange *x)
{
    return weft_http_header(x, "X-Name");
}

static int tells_query(weft_exchange *x, void *arg)
{
    (void)arg;
    CHECK_PTR(weft_http_form(x, name_of(x)), ==, NULL); /* no form was read */
    return reply_text(x, weft_http_query(x, name_of(x)));
}

static int tells_query_text(weft_exchange *x, void *arg)
{
    (void)arg;
    const char *text = weft_http_query_text(x), *again = weft_http_query_text(x);
    CHECK_PTR(text, ==, again);
    return reply_text(x, text);
}

static int tells_cookie(weft_exchange *x, void *arg)
{
    (void)arg;
    return reply_text(x, weft_http_cookie(x, name_of(x)));
}

/* Fails as weft_http_read_form does. */
static int tells_form(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_read_form(x, WEFT_FOREVER);
    return rc != 0 ? rc : reply_text(x, weft_http_form(x, name_of(x)));
}

/* Several lookups of all kinds in one request leave each other's strings alone. */
static int tells_all(weft_exchange *x, void *arg)
{
    char text[200];
    (void)arg;
    CHECK_INT(weft_http_read_form(x, WEFT_FOREVER), ==, 0);
    const char *a = weft_http_query(x, "a"), *b = weft_http_query(x, "b"), *none = weft_http_query(x, "none");
    const char *form = weft_http_form(x, "a"), *cookie = weft_http_cookie(x, "a"), *raw = weft_http_query_text(x);
    snprintf(text, sizeof text, "%s|%s|%s|%s|%s|%s", a, b, none ? none : "", form, cookie, raw);
    return reply_text(x, text);
}

static const struct served_route routes[] = {
    {"GET /query", tells_query, NULL}, {"GET /text", tells_query_text, NULL}, {"GET /cookie", tells_cookie, NULL},
    {"POST /form", tells_form, NULL},  {"POST /all", tells_all, NULL},        {0},
};

#define FORM "application/x-www-form-urlencoded"

/* Makes a request for the value of a name; the caller frees it. */
static char *request_for(const char *method, const char *target, const char *fields, const char *name, const char *body)
{
    char *request;
    int size = asprintf(&request, "%s %s HTTP/1.1\r\nHost: a\r\n%sX-Name: %s\r\n", method, target, fields, name);
    CHECK_INT(size, >, 0);
    char *whole;
    if (body)
        size = asprintf(&whole, "%sContent-Length: %zu\r\n\r\n%s", request, strlen(body), body);
    else
        size = asprintf(&whole, "%s\r\n", request);
    CHECK_INT(size, >, 0);
    free(request);
    return whole;
}

static void check_value(int port, char *request, int status, const char *value, int line)
{
    struct answer a;
    const char *wrong = ask(port, request, &a);
    if (wrong || a.status != status || (value && strcmp(a.body, value) != 0))
        test_failed(__FILE__, line, "%.200s: %s, %d, \"%.100s\"", request, wrong ? wrong : "", a.status,
                    a.body ? a.body : "");
    answer_free(&a);
    free(request);
}

/* Pairs as queries and forms have them: text, name, value. NULL: there is none. */
static const struct pair {
    const char *text, *name, *value;
} pairs[] = {
    {"a=1", "a", "1"},         {"a=1&b=2", "b", "2"},
    {"a=1&a=2", "a", "1"},     {"a&a=2", "a", ""},
    {"a=", "a", ""},           {"a", "a", ""},
    {"a=b=c", "a", "b=c"},     {"ab=1", "a", NULL},
    {"A=1", "a", NULL},        {"b=a=1", "a", NULL},
    {"", "a", NULL},           {"&&a=1&&", "a", "1"},
    {"a;b=1", "b", NULL},      {"a=1+2", "a", "1 2"},
    {"a=1%2B2", "a", "1+2"},   {"a=%31%20%26%3d%C3%bc", "a", "1 &=\xc3\xbc"},
    {"%61=1", "a", "1"},       {"a%3d=1", "a", NULL},
    {"a+b=1", "a%20b", NULL},  {"a+b=1", "a b", "1"},
    {"a=%", "a", "%"},         {"a=%4", "a", "%4"},
    {"a=%zz+1", "a", "%zz+1"}, {"a=x%00y", "a", "x%00y"},
    {"%=1&%25=2", "%", "1"},   {"a=%2525", "a", "%25"},
};
enum { PAIRS = sizeof pairs / sizeof *pairs };

TEST(the_first_value_of_a_name_in_the_query_is_decoded_once)
{
    struct served s;
    served_begin(&s, NULL, routes);
    for (int i = 0; i < PAIRS; i++) {
        char target[200];
        snprintf(target, sizeof target, "/query?%s", pairs[i].text);
        check_value(s.port, request_for("GET", target, "", pairs[i].name, NULL), 200,
                    pairs[i].value ? pairs[i].value : "(null)", __LINE__);
    }
    check_value(s.port, request_for("GET", "/query", "", "a", NULL), 200, "(null)", __LINE__);
    check_value(s.port, request_for("GET", "/query?=1", "", "", NULL), 200, "1", __LINE__);
    check_value(s.port, request_for("GET", "http://b/query?a=1", "", "a", NULL), 200, "1", __LINE__);
    check_value(s.port, request_for("GET", "/query?a=?/..", "", "a", NULL), 200, "?/..", __LINE__);
    served_end(&s);
}

TEST(the_text_of_the_query_is_as_it_was_sent)
{
    struct served s;
    served_begin(&s, NULL, routes);
    check_value(s.port, request_for("GET", "/text?a=%31+&&", "", "", NULL), 200, "a=%31+&&", __LINE__);
    check_value(s.port, request_for("GET", "/text?", "", "", NULL), 200, "", __LINE__);
    check_value(s.port, request_for("GET", "/text", "", "", NULL), 200, "(null)", __LINE__);
    check_value(s.port, request_for("GET", "/text??", "", "", NULL), 200, "?", __LINE__);
    served_end(&s);
}

/* ---- forms ---- */

TEST(the_first_value_of_a_name_in_a_form_is_decoded_once)
{
    struct served s;
    served_begin(&s, NULL, routes);
    for (int i = 0; i < PAIRS; i++)
        check_value(s.port,
                    request_for("POST", "/form?a=query", "Content-Type: " FORM "\r\n", pairs[i].name, pairs[i].text),
                    200, pairs[i].value ? pairs[i].value : "(null)", __LINE__);
    served_end(&s);
}

TEST(a_form_has_its_type_in_any_case_and_with_parameters)
{
    static const struct {
        const char *fields;
        int status;
    } types[] = {
        {"Content-Type: " FORM "; charset=utf-8\r\n", 200},
        {"Content-Type: " FORM ";charset=utf-8\r\n", 200},
        {"content-type: Application/X-WWW-Form-URLEncoded\r\n", 200},
        {"Content-Type: " FORM "x\r\n", 400},
        {"Content-Type: x" FORM "\r\n", 400},
        {"Content-Type: multipart/form-data\r\n", 400},
        {"Content-Type: \r\n", 400},
        {"", 400},
    };
    struct served s;
    served_begin(&s, NULL, routes);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        check_value(s.port, request_for("POST", "/form", types[i].fields, "a", "a=1"), types[i].status,
                    types[i].status == 200 ? "1" : NULL, __LINE__);
    served_end(&s);
}

TEST(a_form_may_come_in_chunks_and_must_be_complete_and_within_its_limit)
{
    static const char head[] = "POST /form HTTP/1.1\r\nHost: a\r\nX-Name: a\r\nContent-Type: " FORM "\r\n";
    struct served s;
    char request[1000];
    weft_http_opts o = {.size = sizeof o, .body_bytes = 20};
    served_begin(&s, &o, routes);
    snprintf(request, sizeof request,
             "%sTransfer-Encoding: chunked\r\n\r\n3\r\nb=2\r\n1\r\n&\r\n4\r\na=%%3\r\n1\r\n1\r\n0\r\n\r\n", head);
    check_value(s.port, strdup(request), 200, "1", __LINE__);
    snprintf(request, sizeof request, "%sTransfer-Encoding: chunked\r\n\r\nx\r\n", head);
    check_value(s.port, strdup(request), 400, NULL, __LINE__);
    snprintf(request, sizeof request, "%sTransfer-Encoding: chunked\r\n\r\n15\r\na=3456789012345678901\r\n0\r\n\r\n",
             head);
    check_value(s.port, strdup(request), 413, NULL, __LINE__);
    snprintf(request, sizeof request, "%sContent-Length: 21\r\n\r\na=3456789012345678901", head);
    check_value(s.port, strdup(request), 413, NULL, __LINE__);
    snprintf(request, sizeof request, "%sContent-Length: 20\r\n\r\na=345678901234567890", head);
    check_value(s.port, strdup(request), 200, "345678901234567890", __LINE__);
    served_end(&s);
}

/* ---- cookies ---- */

TEST(the_first_cookie_of_a_name_is_as_it_was_sent_but_for_its_quotes)
{
    static const struct {
        const char *fields, *name, *value;
    } cookies[] = {
        {"Cookie: a=1\r\n", "a", "1"},
        {"Cookie: b=2; a=1\r\n", "a", "1"},
        {"Cookie: b=2;a=1;c=3\r\n", "a", "1"},
        {"Cookie: a=1; a=2\r\n", "a", "1"},
        {"Cookie: b=2\r\ncookie: a=1\r\nCookie: a=2\r\n", "a", "1"},
        {"Cookie: a=\"1 2\"\r\n", "a", "1 2"},
        {"Cookie: a=\"\r\n", "a", "\""},
        {"Cookie: a=\"\"\r\n", "a", ""},
        {"Cookie: a=\r\n", "a", ""},
        {"Cookie: a=b=c\r\n", "a", "b=c"},
        {"Cookie: a=1+2%203\r\n", "a", "1+2%203"},
        {"Cookie:  a = 1 ;\r\n", "a", "1"},
        {"Cookie: a\r\n", "a", NULL},
        {"Cookie: A=1\r\n", "a", NULL},
        {"Cookie: ab=1; ba=2\r\n", "a", NULL},
        {"Cookie: b=\"; a=1; \"\r\n", "a", "1"},
        {"Cookie: ; ;; a=1\r\n", "a", "1"},
        {"Cookie: \r\n", "a", NULL},
        {"Set-Cookie: a=1\r\n", "a", NULL},
        {"", "a", NULL},
    };
    struct served s;
    served_begin(&s, NULL, routes);
    for (size_t i = 0; i < sizeof cookies / sizeof *cookies; i++)
        check_value(s.port, request_for("GET", "/cookie", cookies[i].fields, cookies[i].name, NULL), 200,
                    cookies[i].value ? cookies[i].value : "(null)", __LINE__);
    served_end(&s);
}

/* ---- all of them ---- */

TEST(lookups_in_one_request_do_not_overwrite_each_other)
{
    struct served s;
    served_begin(&s, NULL, routes);
    check_value(s.port,
                request_for("POST", "/all?a=%31&b=2+", "Content-Type: " FORM "\r\nCookie: a=4\r\n", "", "a=%33"), 200,
                "1|2 ||3|4|a=%31&b=2+", __LINE__);
    served_end(&s);
}

/* A text of `size` bytes behind `before`. */
static char *long_text(const char *before, char byte, size_t size)
{
    size_t used = strlen(before);
    char *text = malloc(used + size + 1);
    memcpy(text, before, used);
    memset(text + used, byte, size);
    text[used + size] = '\0';
    return text;
}

TEST(values_may_be_as_long_as_the_limits_allow)
{
    enum { HEAD = 15000, BODY = 1000000 };
    struct served s;
    served_begin(&s, NULL, routes);
    char *query = long_text("/query?b=1&a=", 'q', HEAD), *value = long_text("", 'q', HEAD);
    check_value(s.port, request_for("GET", query, "", "a", NULL), 200, value, __LINE__);
    free(query);
    query = long_text("/query?", '&', HEAD);
    check_value(s.port, request_for("GET", query, "", "a", NULL), 200, "(null)", __LINE__);
    char *cookie = long_text("Cookie: a=", 'q', HEAD), *field;
    CHECK_INT(asprintf(&field, "%s\r\n", cookie), >, 0);
    check_value(s.port, request_for("GET", "/cookie", field, "a", NULL), 200, value, __LINE__);
    char *form = long_text("a=", '+', BODY), *spaces = long_text("", ' ', BODY);
    check_value(s.port, request_for("POST", "/form", "Content-Type: " FORM "\r\n", "a", form), 200, spaces, __LINE__);
    free(query);
    free(value);
    free(cookie);
    free(field);
    free(form);
    free(spaces);
    served_end(&s);
}

/* Looks a long value up without memory for it, and then with. */
static int lacks_memory(weft_exchange *x, void *arg)
{
    (void)arg;
    for (int i = 0; i < 100; i++)
        CHECK(weft_http_alloc(x, 16) != NULL); /* the exchange's own memory is used up */
    wh_alloc_fail_at(1);
    CHECK_PTR(weft_http_query(x, "a"), ==, NULL);
    wh_alloc_fail_at(1);
    CHECK_PTR(weft_http_cookie(x, "a"), ==, NULL);
    wh_alloc_fail_at(1);
    CHECK_PTR(weft_http_alloc(x, 1), ==, NULL);
    CHECK_PTR(weft_http_alloc(x, SIZE_MAX), ==, NULL);
    CHECK_PTR(weft_http_alloc(x, SIZE_MAX - 8), ==, NULL);
    CHECK_STR(weft_http_query(x, "a"), "1");
    CHECK_STR(weft_http_cookie(x, "a"), "2");
    wh_alloc_fail_at(1);
    int rc = weft_http_read_form(x, WEFT_FOREVER);
    CHECK_INT(rc, ==, -ENOMEM);
    CHECK_PTR(weft_http_form(x, "a"), ==, NULL);
    return weft_http_reply(x, 200, NULL, NULL, 0);
}

TEST(without_memory_a_lookup_returns_null)
{
    struct served s;
    served_begin(&s, NULL, (struct served_route[]){{"POST /", lacks_memory, NULL}, {0}});
    CHECK_INT(ask_status(s.port, "POST /?a=1 HTTP/1.1\r\nHost: a\r\nCookie: a=2\r\nContent-Type: " FORM
                                 "\r\nContent-Length: 3\r\n\r\na=3"),
              ==, 200);
    served_end(&s);
}

TESTS(request_values, the_first_value_of_a_name_in_the_query_is_decoded_once, the_text_of_the_query_is_as_it_was_sent,
      the_first_value_of_a_name_in_a_form_is_decoded_once, a_form_has_its_type_in_any_case_and_with_parameters,
      a_form_may_come_in_chunks_and_must_be_complete_and_within_its_limit,
      the_first_cookie_of_a_name_is_as_it_was_sent_but_for_its_quotes,
      lookups_in_one_request_do_not_overwrite_each_other, values_may_be_as_long_as_the_limits_allow,
      without_memory_a_lookup_returns_null)
