/*
 * Whether a connection is kept: HTTP/1.1 and 1.0, with and without Connection.
 */
#include <string.h>

#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

static const struct served_route routes[] = {{"GET /", says_hello, NULL}, {0}};

#define TEN "GET / HTTP/1.0\r\n"
#define ELEVEN "GET / HTTP/1.1\r\nHost: a\r\n"

/* Asks `request` and checks what the answer's Connection says; then that the connection is kept, or ends. */
static void check_kept(int port, const char *request, const char *connection, bool is_kept)
{
    struct client c;
    struct answer a;
    client_open(&c, port);
    CHECK(client_say(&c, request));
    CHECK_PTR(client_answer(&c, &a, false), ==, NULL);
    CHECK_INT(a.status, ==, 200);
    CHECK_STR(a.body, "hello\n");
    const char *said = answer_field(&a, "Connection");
    CHECK_STR(said ? said : "", connection);
    answer_free(&a);
    if (is_kept) {
        client_say(&c, ELEVEN "\r\n");
        client_expect_body(&c, 200, "hello\n");
    } else {
        CHECK(client_sees_end(&c));
    }
    client_close(&c);
}

TEST(an_http_1_1_connection_is_kept_unless_it_says_close)
{
    struct served s;
    served_begin(&s, NULL, routes);
    check_kept(s.port, ELEVEN "\r\n", "", true);
    check_kept(s.port, ELEVEN "Connection: keep-alive\r\n\r\n", "", true);
    check_kept(s.port, ELEVEN "Connection: close\r\n\r\n", "close", false);
    check_kept(s.port, ELEVEN "Connection: Close\r\n\r\n", "close", false);
    check_kept(s.port, ELEVEN "Connection: keep-alive\r\nConnection: x, close\r\n\r\n", "close", false);
    served_end(&s);
}

TEST(an_http_1_0_connection_is_closed_unless_it_says_keep_alive)
{
    struct served s;
    served_begin(&s, NULL, routes);
    check_kept(s.port, TEN "\r\n", "close", false);
    check_kept(s.port, TEN "Host: a\r\n\r\n", "close", false);
    check_kept(s.port, TEN "Connection: keep-alive\r\n\r\n", "keep-alive", true);
    check_kept(s.port, TEN "Connection: Keep-Alive, x\r\n\r\n", "keep-alive", true);
    check_kept(s.port, TEN "Connection: keep-alive, close\r\n\r\n", "close", false);
    served_end(&s);
}

TESTS(keep, an_http_1_1_connection_is_kept_unless_it_says_close,
      an_http_1_0_connection_is_closed_unless_it_says_keep_alive)
