/*
 * Latencies: each answer that goes out whole is counted once, whichever way its bytes go.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

enum { LARGE = 300000 };
static char large[LARGE];

static int says_large(weft_exchange *x, void *arg)
{
    (void)arg;
    return weft_http_reply(x, 200, "text/plain", large, sizeof large);
}

/* With a length, so that nothing is left to send when the answer ends. */
static int says_parts(weft_exchange *x, void *arg)
{
    (void)arg;
    weft_http_add_header(x, "Content-Length", "300000");
    int rc = weft_http_begin(x, 200);
    if (rc == 0)
        rc = weft_http_write(x, large, sizeof large);
    return rc == 0 ? weft_http_flush(x) : rc;
}

static int says_file(weft_exchange *x, void *arg)
{
    weft_http_add_header(x, "Content-Length", "300000");
    int rc = weft_http_begin(x, 200);
    return rc == 0 ? weft_http_write_file(x, *(int *)arg, 0, LARGE) : rc;
}

static uint64_t counted(const struct served *s)
{
    weft_http_figures f = served_figures(s);
    uint64_t count = 0;
    for (int i = 0; i < WEFT_HTTP_LATENCIES; i++)
        count += f.latencies[i];
    return count;
}

/* The connection ends after the answer: its latency does not come with the next one. */
static void check_counted(weft_handler *fn, void *arg)
{
    struct served s;
    struct answer a;
    served_begin(&s, NULL, (struct served_route[]){{"GET /", fn, arg}, {0}});
    for (uint64_t i = 1; i <= 3; i++) {
        CHECK_PTR(ask(s.port, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", &a), ==, NULL);
        CHECK_INT(a.status, ==, 200);
        answer_free(&a);
        served_wait_connections(&s, 0);
        CHECK_INT(counted(&s), ==, i);
    }
    served_end(&s);
}

TEST(a_small_answer_is_counted)
{
    check_counted(says_hello, NULL);
}

TEST(a_large_answer_is_counted)
{
    check_counted(says_large, NULL);
}

TEST(an_answer_that_was_sent_before_its_end_is_counted)
{
    check_counted(says_parts, NULL);
}

TEST(an_answer_from_a_file_is_counted)
{
    char path[] = "/tmp/weft-latencies-XXXXXX";
    int file = mkstemp(path);
    REQUIRE(file >= 0);
    unlink(path);
    CHECK_INT(write(file, large, sizeof large), ==, LARGE);
    check_counted(says_file, &file);
    close(file);
}

TESTS(http_latencies, a_small_answer_is_counted, a_large_answer_is_counted,
      an_answer_that_was_sent_before_its_end_is_counted, an_answer_from_a_file_is_counted)
