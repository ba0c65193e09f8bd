/*
 * What fuzzing (tests/fuzz) has found in the server, each as a test of its own.
 */
#include <errno.h>
#include <string.h>

#include "http/files_condition.h"
#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

/* Fails half-way through a body whose length it has said. */
static int fails_half_way(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_add_header(x, "Content-Length", "10");
    rc = rc != 0 ? rc : weft_http_begin(x, 200);
    rc = rc != 0 ? rc : weft_http_write(x, "half", 4);
    return rc != 0 ? rc : -EIO;
}

/* The same without a length. */
static int fails_without_length(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_begin(x, 200);
    rc = rc != 0 ? rc : weft_http_write(x, "half", 4);
    return rc != 0 ? rc : -EIO;
}

enum { LARGE = 4 << 20 };
static char large_text[LARGE];

static int says_much(weft_exchange *x, void *arg)
{
    (void)arg;
    return weft_http_reply(x, 200, "text/plain", large_text, LARGE);
}

static const struct served_route routes[] = {{"GET /hello", says_hello, NULL},
                                             {"GET /large", says_much, NULL},
                                             {"GET /half", fails_half_way, NULL},
                                             {"GET /open", fails_without_length, NULL},
                                             {0}};

TEST(an_answer_that_is_cut_takes_no_earlier_answer_of_its_batch_with_it)
{
    struct served s;
    struct client c;
    struct answer a;
    served_begin(&s, NULL, routes);
    client_open(&c, s.port);
    CHECK(client_say(&c, GET("/hello") GET("/hello") GET("/half") GET("/hello")));
    client_expect_body(&c, 200, "hello\n");
    client_expect_body(&c, 200, "hello\n");
    CHECK_STR(client_answer(&c, &a, false), "end"); /* of the answer that is cut nothing had gone out */
    answer_free(&a);
    client_close(&c);
    CHECK_INT(served_figures(&s).status[2], ==, 2);
    CHECK_INT(served_figures(&s).cut, ==, 1);
    served_end(&s);
}

/* Its end would look like the end of the body. So nothing of it is sent, or the connection is reset. */
TEST(an_http_1_0_answer_that_is_cut_takes_no_earlier_answer_with_it)
{
    struct served s;
    struct client c;
    served_begin(&s, NULL, routes);
    client_open(&c, s.port);
    CHECK(client_say(&c, "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /open HTTP/1.0\r\n\r\n"));
    client_expect_body(&c, 200, "hello\n");
    CHECK_INT(client_drain(&c), ==, 0);
    CHECK_INT(c.error, ==, ECONNRESET);
    client_close(&c);
    CHECK_INT(served_figures(&s).cut, ==, 1);
    served_end(&s);
}

/* A last byte that did not fit 64 bits counted as less than the largest numbers that fit. */
TEST(a_range_whose_last_byte_does_not_fit_64_bits_is_not_backwards)
{
    struct wh_part part;
    CHECK_INT(wh_range_read("bytes=18446744073709551611-18446744073709551616", 10, &part), ==, 416);
    CHECK_INT(wh_range_read("bytes=18446744073709551615-99999999999999999999999", 10, &part), ==, 416);
    CHECK_INT(wh_range_read("bytes=1-18446744073709551616", 10, &part), ==, 206);
    CHECK_INT(part.count, ==, 9);
    CHECK_INT(wh_range_read("bytes=-18446744073709551616", 10, &part), ==, 206);
    CHECK_INT(part.count, ==, 10);
}

/* The client has asked for the close, and sends more all the same: a reset would take what it has not read yet. */
TEST(bytes_behind_the_last_request_do_not_cut_a_large_answer_to_it)
{
    static const char *const lasts[] = {"GET /large HTTP/1.0\r\nHost: a\r\n\r\n",
                                        "GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"};
    struct served s;
    served_begin(&s, NULL, routes);
    for (size_t i = 0; i < sizeof lasts / sizeof lasts[0]; i++) {
        struct client c;
        struct answer a;
        uint64_t read = served_figures(&s).bytes_in;
        client_open(&c, s.port);
        CHECK(client_say(&c, lasts[i]));
        served_wait_read(&s, read + strlen(lasts[i])); /* so these bytes come behind it, and not with it */
        client_say(&c, GET("/hello"));
        CHECK_PTR(client_answer(&c, &a, false), ==, NULL);
        CHECK_INT(a.size, ==, LARGE);
        answer_free(&a);
        CHECK(client_sees_end(&c));
        client_close(&c);
    }
    served_end(&s);
}

TESTS(found, bytes_behind_the_last_request_do_not_cut_a_large_answer_to_it,
      an_answer_that_is_cut_takes_no_earlier_answer_of_its_batch_with_it,
      an_http_1_0_answer_that_is_cut_takes_no_earlier_answer_with_it,
      a_range_whose_last_byte_does_not_fit_64_bits_is_not_backwards)
