/*
 * Middleware: its order, what it may do before and after weft_http_next, and weft_http_give_id.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

/* What ran, in order. Only the server's worker writes it, and the test reads it once the answer is there. */
static char trace[200];
static atomic_int seen_result, seen_status; /* of the last request */
static _Atomic uint64_t seen_sent;

static void note(const char *text)
{
    strncat(trace, text, sizeof trace - strlen(trace) - 1);
}

static int surrounds(weft_exchange *x, void *arg)
{
    char text[3] = {*(const char *)arg, '(', '\0'};
    note(text);
    int rc = weft_http_next(x);
    note(")");
    return rc;
}

static int handles(weft_exchange *x, void *arg)
{
    (void)arg;
    note("h");
    return weft_http_reply(x, 201, "text/plain", "made\n", 5);
}

/* Fails with `arg`, after it has added a field. */
static int fails(weft_exchange *x, void *arg)
{
    CHECK_INT(weft_http_add_header(x, "X-Handler", "h"), ==, 0);
    CHECK_INT(weft_http_add_header(x, "Content-Length", "7"), ==, 0);
    return (int)(intptr_t)arg;
}

static int fails_late(weft_exchange *x, void *arg)
{
    (void)arg;
    CHECK_INT(weft_http_begin(x, 200), ==, 0);
    CHECK_INT(weft_http_write(x, "part", 4), ==, 0);
    CHECK_INT(weft_http_flush(x), ==, 0);
    return -EIO;
}

static int answers_nothing(weft_exchange *x, void *arg)
{
    (void)arg;
    return weft_http_add_header(x, "X-Handler", "h");
}

/* Keeps what it sees after the rest has run. */
static int watches(weft_exchange *x, void *arg)
{
    (void)arg;
    CHECK_INT(weft_http_status(x), ==, 0);
    CHECK_INT(weft_http_add_header(x, "X-Layer", "w"), ==, 0);
    seen_result = weft_http_next(x);
    seen_status = weft_http_status(x);
    seen_sent = weft_http_sent(x);
    return seen_result;
}

static const struct served_route routes[] = {
    {"GET /", handles, NULL},
    {"GET /gone", fails, (void *)(intptr_t)-ENOENT},
    {"GET /broken", fails, (void *)(intptr_t)-EIO},
    {"GET /late", fails_late, NULL},
    {"GET /nothing", answers_nothing, NULL},
    {"GET /positive", fails, (void *)(intptr_t)404},
    {"GET /length", fails, NULL}, /* it returns 0, and has added a Content-Length */
    {0},
};

static void begin_with(struct served *s, weft_handler *first, void *arg, weft_handler *second, void *other)
{
    trace[0] = '\0';
    served_make(s, NULL, routes);
    CHECK_INT(weft_http_use(s->h, first, arg), ==, 0);
    if (second)
        CHECK_INT(weft_http_use(s->h, second, other), ==, 0);
    served_start(s, 1);
}

TEST(middleware_runs_around_the_handler_in_the_order_in_which_it_was_added)
{
    struct served s;
    begin_with(&s, surrounds, "1", surrounds, "2");
    CHECK_INT(ask_status(s.port, GET("/")), ==, 201);
    served_end(&s);
    CHECK_STR(trace, "1(2(h))");
}

TEST(middleware_runs_for_requests_that_the_server_answers_itself)
{
    static const struct {
        const char *request;
        int status;
    } requests[] = {
        {GET("/none"), 404},
        {"POST / HTTP/1.1\r\nHost: a\r\n\r\n", 405},
        {"OPTIONS / HTTP/1.1\r\nHost: a\r\n\r\n", 204},
        {"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 204},
        {"BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 501},
        {GET("/%2e%2e"), 400},
    };
    struct served s;
    begin_with(&s, watches, NULL, NULL, NULL);
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        struct answer a;
        CHECK_PTR(ask(s.port, requests[i].request, &a), ==, NULL);
        CHECK_INT(a.status, ==, requests[i].status);
        CHECK_INT(seen_status, ==, a.status);
        CHECK_INT(seen_sent, ==, (long long)a.size);
        const char *layer = answer_field(&a, "X-Layer");
        CHECK_STR(layer ? layer : "(none)", "w");
        answer_free(&a);
    }
    served_end(&s);
}

static int answers(weft_exchange *x, void *arg)
{
    (void)arg;
    return weft_http_reply(x, 401, NULL, "who?", 4);
}

static int does_nothing(weft_exchange *x, void *arg)
{
    (void)x, (void)arg;
    return 0;
}

static int refuses(weft_exchange *x, void *arg)
{
    (void)x, (void)arg;
    return -EACCES;
}

TEST(middleware_that_does_not_go_on_keeps_the_handler_from_running)
{
    static const struct {
        weft_handler *fn;
        int status;
    } cases[] = {{answers, 401}, {does_nothing, 204}, {refuses, 403}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct served s;
        begin_with(&s, surrounds, "1", cases[i].fn, NULL);
        CHECK_INT(ask_status(s.port, GET("/")), ==, cases[i].status);
        CHECK_INT(ask_status(s.port, GET("/none")), ==, cases[i].status);
        served_end(&s);
        CHECK_STR(trace, "1()1()");
    }
}

/* Answers, and goes on nevertheless. */
static int answers_first(weft_exchange *x, void *arg)
{
    (void)arg;
    CHECK_INT(weft_http_reply(x, 202, NULL, "first", 5), ==, 0);
    seen_result = weft_http_next(x);
    seen_status = weft_http_status(x);
    return 0;
}

static int goes_on_twice(weft_exchange *x, void *arg)
{
    (void)arg;
    weft_http_next(x);
    seen_result = weft_http_next(x);
    seen_status = weft_http_status(x);
    return 0;
}

TEST(if_middleware_has_answered_the_handler_cannot_change_the_answer)
{
    static const char *const requests[] = {GET("/"), GET("/none"), "POST / HTTP/1.1\r\nHost: a\r\n\r\n",
                                           "OPTIONS / HTTP/1.1\r\nHost: a\r\n\r\n"};
    struct served s;
    begin_with(&s, answers_first, NULL, NULL, NULL);
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        struct answer a;
        CHECK_PTR(ask(s.port, requests[i], &a), ==, NULL);
        CHECK_INT(a.status, ==, 202);
        CHECK_STR(a.body, "first");
        CHECK_INT(seen_status, ==, 202);
        CHECK_INT(seen_result, ==, -EALREADY);
        answer_free(&a);
    }
    served_end(&s);
}

TEST(calling_next_twice_gives_one_answer)
{
    struct served s;
    struct client c;
    begin_with(&s, goes_on_twice, NULL, NULL, NULL);
    client_open(&c, s.port);
    client_say(&c, GET("/") GET("/none") GET("/"));
    client_expect_body(&c, 201, "made\n");
    client_expect_body(&c, 404, "Not Found\n");
    client_expect_body(&c, 201, "made\n");
    CHECK_INT(seen_result, ==, -EALREADY);
    CHECK_INT(seen_status, ==, 201);
    CHECK_INT(ask_status(s.port, GET("/none")), ==, 404);
    CHECK_INT(seen_status, ==, 404);
    client_close(&c);
    served_end(&s);
}

TEST(calling_next_twice_does_not_pass_by_middleware_that_has_refused)
{
    struct served s;
    begin_with(&s, goes_on_twice, NULL, refuses, NULL);
    CHECK_INT(ask_status(s.port, GET("/")), ==, 403);
    CHECK_INT(seen_result, ==, -EALREADY);
    CHECK_INT(seen_status, ==, 403);
    CHECK_INT(ask_status(s.port, GET("/none")), ==, 403);
    CHECK_INT(seen_result, ==, -EALREADY);
    served_end(&s);
    CHECK_STR(trace, "");
}

TEST(after_next_the_status_and_the_result_are_those_of_the_handler)
{
    struct served s;
    begin_with(&s, surrounds, "1", watches, NULL);
    CHECK_INT(ask_status(s.port, GET("/")), ==, 201);
    CHECK(seen_result == 0 && seen_status == 201 && seen_sent == 5);
    CHECK_INT(ask_status(s.port, GET("/gone")), ==, 404);
    CHECK(seen_result == -ENOENT && seen_status == 404 && seen_sent == 10);
    CHECK_INT(ask_status(s.port, GET("/broken")), ==, 500);
    CHECK(seen_result == -EIO && seen_status == 500);
    CHECK_INT(ask_status(s.port, GET("/nothing")), ==, 204);
    CHECK(seen_result == 0 && seen_status == 204 && seen_sent == 0);
    CHECK_INT(ask_status(s.port, GET("/length")), ==, 204);
    CHECK_INT(ask_status(s.port, GET("/positive")), ==, 500);
    CHECK(seen_result == -ERANGE && seen_status == 500);
    CHECK_INT(ask_status(s.port, GET("/late")), ==, 0); /* cut */
    CHECK(seen_result == -EIO && seen_status == 200 && seen_sent == 4);
    CHECK_INT(ask_status(s.port, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"), ==, 201);
    CHECK(seen_result == 0 && seen_status == 201 && seen_sent == 0);
    served_end(&s);
}

/* A request id, or a policy of a browser, is needed most where something went wrong. */
TEST(when_a_handler_fails_its_fields_are_dropped_and_those_of_middleware_stay)
{
    static const char *const requests[] = {GET("/gone"), GET("/broken")};
    struct served s;
    begin_with(&s, surrounds, "1", watches, NULL);
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        struct answer a;
        CHECK_PTR(ask(s.port, requests[i], &a), ==, NULL);
        CHECK_INT(a.status, >=, 400);
        CHECK_INT(answer_field_count(&a, "X-Layer"), ==, 1);
        CHECK_INT(answer_field_count(&a, "X-Handler"), ==, 0);
        CHECK_INT(answer_field_count(&a, "Content-Length"), ==, 1);
        answer_free(&a);
    }
    served_end(&s);
}

/* ---- ids ---- */

static int tells_id(weft_exchange *x, void *arg)
{
    const char *id = weft_http_id(x);
    return arg ? -EIO : weft_http_reply(x, 200, NULL, id ? id : "(none)", strlen(id ? id : "(none)"));
}

static const struct served_route id_routes[] = {{"GET /", tells_id, NULL}, {"GET /broken", tells_id, ""}, {0}};

/* Asks with an id (NULL: none), and checks that the answer has it, or one of its own in its place. */
static void check_id(const struct served *s, const char *sent, bool is_taken, char made[40])
{
    struct answer a;
    char request[400];
    snprintf(request, sizeof request, "GET / HTTP/1.1\r\nHost: a\r\n%s%s%s\r\n", sent ? "x-request-id: " : "",
             sent ? sent : "", sent ? "\r\n" : "");
    CHECK_PTR(ask(s->port, request, &a), ==, NULL);
    const char *id = answer_field(&a, "X-Request-Id");
    CHECK_INT(answer_field_count(&a, "X-Request-Id"), ==, 1);
    CHECK_STR(a.body, id ? id : "");
    if (is_taken)
        CHECK_STR(id, sent);
    else
        CHECK(id && strlen(id) == 32 && strspn(id, "0123456789abcdef") == 32);
    snprintf(made, 40, "%.39s", id ? id : "");
    answer_free(&a);
}

TEST(each_request_gets_an_id_of_its_own_or_keeps_a_good_one)
{
    static const char longest[] = "0123456789abcdef0123456789ABCDEF0123456789_-_-_-0123456789......";
    static const char *const bad[] = {"", "a b", "a/b", "\"a\"", "a,b", "\xc3\xbc", "a;b", "<a>"};
    struct served s;
    char first[40], second[40], too_long[sizeof longest + 1];
    served_make(&s, NULL, id_routes);
    CHECK_INT(weft_http_use(s.h, weft_http_give_id, NULL), ==, 0);
    served_start(&s, 1);
    check_id(&s, NULL, false, first);
    check_id(&s, NULL, false, second);
    CHECK(strcmp(first, second) != 0);
    check_id(&s, "a", true, first);
    check_id(&s, longest, true, first);
    snprintf(too_long, sizeof too_long, "%sx", longest);
    check_id(&s, too_long, false, first);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_id(&s, bad[i], false, first);
    served_end(&s);
}

TEST(refusals_and_failures_have_the_id_too)
{
    static const char *const requests[] = {
        "GET /none HTTP/1.1\r\nHost: a\r\nX-Request-Id: seven\r\n\r\n",
        "GET /broken HTTP/1.1\r\nHost: a\r\nX-Request-Id: seven\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: a\r\nX-Request-Id: seven\r\n\r\n",
    };
    struct served s;
    served_make(&s, NULL, id_routes);
    CHECK_INT(weft_http_use(s.h, weft_http_give_id, NULL), ==, 0);
    served_start(&s, 1);
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        struct answer a;
        CHECK_PTR(ask(s.port, requests[i], &a), ==, NULL);
        CHECK_INT(a.status, >=, 400);
        const char *id = answer_field(&a, "X-Request-Id");
        CHECK_STR(id ? id : "(none)", "seven");
        answer_free(&a);
    }
    served_end(&s);
}

TEST(without_the_middleware_there_is_no_id)
{
    struct served s;
    struct answer a;
    served_begin(&s, NULL, id_routes);
    CHECK_PTR(ask(s.port, "GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: a\r\n\r\n", &a), ==, NULL);
    CHECK_STR(a.body, "(none)");
    CHECK_PTR(answer_field(&a, "X-Request-Id"), ==, NULL);
    answer_free(&a);
    served_end(&s);
}

TESTS(middleware, middleware_runs_around_the_handler_in_the_order_in_which_it_was_added,
      middleware_runs_for_requests_that_the_server_answers_itself,
      middleware_that_does_not_go_on_keeps_the_handler_from_running,
      if_middleware_has_answered_the_handler_cannot_change_the_answer, calling_next_twice_gives_one_answer,
      calling_next_twice_does_not_pass_by_middleware_that_has_refused,
      after_next_the_status_and_the_result_are_those_of_the_handler,
      when_a_handler_fails_its_fields_are_dropped_and_those_of_middleware_stay,
      each_request_gets_an_id_of_its_own_or_keeps_a_good_one, refusals_and_failures_have_the_id_too,
      without_the_middleware_there_is_no_id)
