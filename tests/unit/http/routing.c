/*
 * Routes through the server: which handler a request gets, the values of parameters, and the answers of the server itself:
 * 400, 404, 405, 501, HEAD and OPTIONS. (unit/http/route tests the table.)
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

/* Answers with the name that the route was added with, and its parameters. */
static int tells(weft_exchange *x, void *arg)
{
    static const char *const names[] = {"id", "rest", "part"};
    char text[2000];
    int size = snprintf(text, sizeof text, "%s", (const char *)arg);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = weft_http_param(x, names[i]);
        if (value)
            size += snprintf(text + size, sizeof text - (size_t)size, " %s=%.900s", names[i], value);
    }
    CHECK_PTR(weft_http_param(x, "other"), ==, NULL);
    return weft_http_reply(x, 200, NULL, text, (size_t)size);
}

static const struct served_route routes[] = {
    {"GET /", tells, "root"},
    {"GET /notes", tells, "list"},
    {"POST /notes", tells, "add"},
    {"GET /notes/{id}", tells, "one"},
    {"DELETE /notes/{id}", tells, "remove"},
    {"GET /notes/new", tells, "new"},
    {"GET /notes/{id}/{part}", tells, "part"},
    {"GET /notes/{id}/text", tells, "text"},
    {"GET /notes/{rest...}", tells, "rest"},
    {"GET /files/{rest...}", tells, "files"},
    {"GET /a b", tells, "space"},
    {"/any", tells, "any"},
    {"PURGE /cache", tells, "purge"},
    {"OPTIONS /own", tells, "own"},
    {"HEAD /head", tells, "head"},
    {0},
};

static void check_asked(int port, const char *line, int status, const char *body, int at)
{
    char request[1000];
    struct answer a;
    snprintf(request, sizeof request, "%s HTTP/1.1\r\nHost: a\r\n\r\n", line);
    const char *wrong = ask(port, request, &a);
    if (wrong || a.status != status || (body && strcmp(a.body, body) != 0))
        test_failed(__FILE__, at, "%s: %s, %d, \"%s\"", line, wrong ? wrong : "", a.status, a.body ? a.body : "");
    answer_free(&a);
}
#define ASKED(line, status, body) check_asked(s.port, line, status, body, __LINE__)

static void check_allow(int port, const char *line, int status, const char *allow, int at)
{
    char request[1000];
    struct answer a;
    snprintf(request, sizeof request, "%s HTTP/1.1\r\nHost: a\r\n\r\n", line);
    const char *wrong = ask(port, request, &a), *said = wrong ? wrong : answer_field(&a, "Allow");
    if (a.status != status || !said || strcmp(said, allow) != 0)
        test_failed(__FILE__, at, "%s: %d, %s", line, a.status, said ? said : "(none)");
    answer_free(&a);
}
#define ALLOWS(line, status, allow) check_allow(s.port, line, status, allow, __LINE__)

TEST(the_more_specific_route_answers_whatever_the_order)
{
    struct served s;
    served_begin(&s, NULL, routes);
    ASKED("GET /", 200, "root");
    ASKED("GET /?a=b", 200, "root");
    ASKED("GET http://a", 200, "root");
    ASKED("GET http://a?b", 200, "root");
    ASKED("GET http://a/notes", 200, "list");
    ASKED("POST /notes", 200, "add");
    ASKED("GET /notes/new", 200, "new");
    ASKED("GET /notes/newer", 200, "one id=newer");
    ASKED("DELETE /notes/new", 200, "remove id=new");
    ASKED("GET /notes/7/text", 200, "text id=7");
    ASKED("GET /notes/7/date", 200, "part id=7 part=date");
    ASKED("GET /notes/7/date/x", 200, "rest rest=7/date/x");
    ASKED("GET /notes/", 200, "rest rest=");
    ASKED("GET /notes//x", 200, "rest rest=/x");
    ASKED("GET /files/", 200, "files rest=");
    ASKED("GET /files/a//b/", 200, "files rest=a//b/");
    ASKED("PUT /any", 200, "any");
    ASKED("PURGE /cache", 200, "purge");
    served_end(&s);
}

TEST(values_are_decoded_once_and_an_encoded_slash_stays_in_its_segment)
{
    struct served s;
    served_begin(&s, NULL, routes);
    ASKED("GET /notes/a%2Fb", 200, "one id=a/b");
    ASKED("GET /notes/a%2fb/c", 200, "part id=a/b part=c");
    ASKED("GET /notes/%252F", 200, "one id=%2F");
    ASKED("GET /notes/a+b%20c", 200, "one id=a+b c");
    ASKED("GET /%6eotes/%6E%65%77", 200, "new");
    ASKED("GET /notes%2Fnew", 404, NULL);
    ASKED("GET /a%20b", 200, "space");
    ASKED("GET /notes/%C3%BC", 200, "one id=\xc3\xbc");
    ASKED("GET /files/a%2Fb", 400, NULL);
    ASKED("GET /notes/..", 400, NULL);
    ASKED("GET /notes/%2e%2E", 400, NULL);
    ASKED("GET /notes/.", 400, NULL);
    ASKED("GET /notes/...", 200, "one id=...");
    ASKED("GET /notes/a%00", 400, NULL);
    ASKED("GET /notes/%4", 400, NULL);
    ASKED("GET /nothing/../notes", 400, NULL);
    served_end(&s);
}

TEST(a_path_without_a_route_is_404)
{
    static const char *const lines[] = {"GET /nothing", "GET /Notes", "GET /notesx",  "GET /any/",       "GET //notes",
                                        "GET //",       "GET /files", "PUT /nothing", "DELETE /nothing", "GET /an"};
    struct served s;
    served_begin(&s, NULL, routes);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        ASKED(lines[i], 404, "Not Found\n");
    ASKED("OPTIONS /nothing", 404, NULL);
    served_end(&s);
}

TEST(another_method_is_405_with_the_methods_of_all_routes_of_the_path)
{
    struct served s;
    served_begin(&s, NULL, routes);
    ALLOWS("PUT /notes", 405, "GET, HEAD, OPTIONS, POST");
    ALLOWS("PUT /notes/7", 405, "GET, HEAD, OPTIONS, DELETE");
    ALLOWS("POST /notes/new", 405, "GET, HEAD, OPTIONS, DELETE");
    ALLOWS("POST /notes/7/text", 405, "GET, HEAD, OPTIONS");
    ALLOWS("GET /cache", 405, "OPTIONS, PURGE");
    ALLOWS("GET /head", 405, "HEAD, OPTIONS");
    ALLOWS("PURGE /", 405, "GET, HEAD, OPTIONS");
    ASKED("PUT /notes", 405, "Method Not Allowed\n");
    served_end(&s);
}

TEST(methods_that_no_route_can_have_are_501)
{
    struct served s;
    served_make(&s, NULL, (struct served_route[]){{"GET /", tells, "root"}, {0}});
    served_start(&s, 1);
    ASKED("BREW /", 501, "Not Implemented\n");
    ASKED("get /", 501, NULL);
    ASKED("CONNECT a:80", 501, NULL);
    ASKED("TRACE /", 405, NULL);
    served_end(&s);
}

TEST(get_answers_head_and_the_server_answers_options)
{
    struct served s;
    served_begin(&s, NULL, routes);
    struct answer a;
    CHECK_PTR(ask(s.port, "HEAD /notes HTTP/1.1\r\nHost: a\r\n\r\n", &a), ==, NULL);
    CHECK_INT(a.status, ==, 200);
    CHECK_STR(answer_field(&a, "Content-Length"), "4");
    answer_free(&a);
    ALLOWS("OPTIONS /notes", 204, "GET, HEAD, OPTIONS, POST");
    ALLOWS("OPTIONS /notes/7", 204, "GET, HEAD, OPTIONS, DELETE");
    ALLOWS("OPTIONS /cache", 204, "OPTIONS, PURGE");
    ASKED("OPTIONS /own", 200, "own");
    ASKED("OPTIONS /any", 200, "any");
    served_end(&s);
}

TEST(options_of_the_asterisk_allows_the_methods_of_all_routes)
{
    struct served s;
    served_begin(&s, NULL, routes);
    ALLOWS("OPTIONS *", 204, "GET, HEAD, OPTIONS, POST, DELETE, PURGE");
    ASKED("GET *", 400, NULL);
    served_end(&s);
    served_begin(&s, NULL, NULL);
    ALLOWS("OPTIONS *", 204, "OPTIONS");
    served_end(&s);
}

TEST(hundreds_of_routes_are_all_found)
{
    enum { COUNT = 500 };
    static char patterns[COUNT][32];
    struct served s;
    served_make(&s, NULL, NULL);
    for (int i = 0; i < COUNT; i++) {
        snprintf(patterns[i], sizeof patterns[i], "GET /r%d/{id}", i * 7919 % COUNT);
        CHECK_INT(weft_http_route(s.h, patterns[i], tells, patterns[i] + 5), ==, 0);
    }
    served_start(&s, 1);
    struct client c;
    client_open(&c, s.port);
    for (int i = 0; i < COUNT; i++) {
        char request[100], body[64];
        snprintf(request, sizeof request, "GET /r%d/x HTTP/1.1\r\nHost: a\r\n\r\n", i);
        snprintf(body, sizeof body, "r%d/{id} id=x", i);
        client_say(&c, request);
        client_expect_body(&c, 200, body);
    }
    client_close(&c);
    ASKED("GET /r500/x", 404, NULL);
    served_end(&s);
}

TESTS(routing, the_more_specific_route_answers_whatever_the_order,
      values_are_decoded_once_and_an_encoded_slash_stays_in_its_segment, a_path_without_a_route_is_404,
      another_method_is_405_with_the_methods_of_all_routes_of_the_path, methods_that_no_route_can_have_are_501,
      get_answers_head_and_the_server_answers_options, options_of_the_asterisk_allows_the_methods_of_all_routes,
      hundreds_of_routes_are_all_found)
