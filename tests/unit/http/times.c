/*
 * Limits of time, each as short as a test likes. A connection that exceeds a limit ends, never before its time, and no
 * other connection does.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
#define SHORT (300 * WEFT_MS)

/* What handlers tell the test. */
static struct {
    int rc, left; /* `left` is a flag */
    weft_time began, ended;
} at;

/* A whole answer, and then nothing for a while. */
static int dawdles(weft_exchange *x, void *arg)
{
    (void)arg;
    weft_http_add_header(x, "Content-Length", "4");
    weft_http_begin(x, 200);
    weft_http_write(x, "done", 4);
    CHECK_INT(weft_http_flush(x), ==, 0);
    CHECK_INT(weft_http_end(x), ==, 0);
    weft_sleep(2 * SHORT);
    return 0;
}

static int reads_body(weft_exchange *x, void *arg)
{
    const char *body;
    size_t size;
    (void)arg;
    int rc = weft_http_read_all(x, &body, &size, WEFT_FOREVER);
    return rc != 0 ? rc : weft_http_reply(x, 200, NULL, body, size);
}

/* Writes until that fails. */
static int floods(weft_exchange *x, void *arg)
{
    static const char bytes[64 * 1024];
    int rc = weft_http_begin(x, 200);
    (void)arg;
    at.began = weft_now();
    for (int i = 0; rc == 0 && i < 1000; i++) {
        weft_time before = weft_now();
        rc = weft_http_write(x, bytes, sizeof bytes);
        if (rc != 0)
            at.began = before;
    }
    at.ended = weft_now();
    at.rc = rc;
    __atomic_store_n(&at.left, 1, __ATOMIC_RELEASE);
    return rc;
}

static char much[16 << 20];

static int says_much(weft_exchange *x, void *arg)
{
    (void)arg;
    return weft_http_reply(x, 200, NULL, much, sizeof much);
}

/* Ten events, and as long as all limits together between them. */
static int streams(weft_exchange *x, void *arg)
{
    int rc = weft_http_events(x);
    (void)arg;
    for (int i = 0; rc == 0 && i < 10; i++) {
        rc = weft_sleep(i == 5 ? 3 * SHORT : SHORT / 4);
        if (rc == 0)
            rc = weft_http_event(x, NULL, "tick");
    }
    return rc;
}

static const struct served_route routes[] = {{"GET /", says_hello, NULL},
                                             {"GET /dawdle", dawdles, NULL},
                                             {"POST /body", reads_body, NULL},
                                             {"GET /flood", floods, NULL},
                                             {"GET /much", says_much, NULL},
                                             {"GET /events", streams, NULL},
                                             {0}};

static void begin(struct served *s, const weft_http_opts *opts)
{
    memset(&at, 0, sizeof at);
    served_begin(s, opts, routes);
}

/* Reads to the end, and says how long that took since `from`. */
static weft_span time_to_end(struct client *c, weft_time from)
{
    client_drain(c);
    CHECK_INT(c->error, ==, 0);
    return weft_now().ns - from.ns;
}

TEST(a_fresh_connection_ends_after_idle_time_and_not_before)
{
    struct served s;
    struct client c;
    begin(&s, &(weft_http_opts){.idle_time = SHORT});
    weft_time from = weft_now();
    client_open(&c, s.port);
    CHECK_INT(time_to_end(&c, from), >=, SHORT);
    client_close(&c);
    served_end(&s);
}

TEST(a_connection_ends_idle_time_after_its_answer_and_not_before)
{
    struct served s;
    struct client c;
    begin(&s, &(weft_http_opts){.idle_time = SHORT});
    client_open(&c, s.port);
    weft_time from = weft_now();
    client_say(&c, GET);
    client_expect(&c, 200);
    CHECK_INT(time_to_end(&c, from), >=, SHORT);
    client_close(&c);
    served_end(&s);
}

/* Longer than a second: the connection has given back its buffer meanwhile. */
TEST(a_connection_without_a_buffer_ends_after_idle_time_and_not_before)
{
    struct served s;
    struct client c;
    begin(&s, &(weft_http_opts){.idle_time = WEFT_SEC + SHORT});
    weft_time from = weft_now();
    client_open(&c, s.port);
    CHECK_INT(time_to_end(&c, from), >=, WEFT_SEC + SHORT);
    client_close(&c);
    served_end(&s);
}

TEST(idle_time_begins_when_the_handler_has_returned)
{
    struct served s;
    struct client c;
    begin(&s, &(weft_http_opts){.idle_time = SHORT});
    client_open(&c, s.port);
    weft_time from = weft_now();
    client_say(&c, "GET /dawdle HTTP/1.1\r\nHost: a\r\n\r\n");
    client_expect_body(&c, 200, "done");
    CHECK_INT(time_to_end(&c, from), >=, 3 * SHORT);
    client_close(&c);
    served_end(&s);
}

/* A byte of a head at a time, until the server answers. */
static void trickle(struct client *c)
{
    char byte;
    for (int i = 0; i < 60000 && recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0; i++) {
        if (send(c->fd, i < 5 ? &"GET /"[i] : "x", 1, MSG_NOSIGNAL) < 0)
            break;
        usleep(5000);
    }
}

TEST(a_head_that_comes_byte_by_byte_is_408_after_head_time_and_not_before)
{
    struct served s;
    struct client c;
    begin(&s, &(weft_http_opts){.head_time = SHORT});
    client_open(&c, s.port);
    weft_time from = weft_now();
    trickle(&c);
    client_expect(&c, 408);
    CHECK_INT(weft_now().ns - from.ns, >=, SHORT);
    client_close(&c);
    served_end(&s);
}

TEST(a_head_behind_a_slow_chunked_body_has_all_of_its_time)
{
    struct served s;
    struct client c;
    begin(&s, &(weft_http_opts){.head_time = SHORT});
    client_open(&c, s.port);
    client_say(&c, "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    usleep(2 * SHORT / 1000);
    weft_time from = weft_now();
    client_say(&c, "3\r\nabc\r\n0\r\n\r\nGET / HT");
    client_expect_body(&c, 200, "abc");
    client_expect(&c, 408);
    CHECK_INT(weft_now().ns - from.ns, >=, SHORT);
    client_close(&c);
    served_end(&s);
}

TEST(a_client_that_does_not_read_is_ended_after_write_time_and_not_before)
{
    struct served s;
    struct client c;
    begin(&s, &(weft_http_opts){.write_time = SHORT});
    client_open_small(&c, s.port, 4096);
    client_say(&c, "GET /flood HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_for_flag(&at.left, 1);
    CHECK_INT(at.rc, ==, -ETIMEDOUT);
    CHECK_INT(at.ended.ns - at.began.ns, >=, SHORT);
    struct answer a;
    CHECK(client_answer(&c, &a, false) != NULL); /* it does not look complete */
    answer_free(&a);
    client_close(&c);
    served_end(&s);
}

/* It takes longer than write_time in all, but a tenth of that for each 64 KiB. */
TEST(a_client_that_reads_slowly_but_steadily_gets_all)
{
    struct served s;
    struct client c;
    struct answer a;
    begin(&s, &(weft_http_opts){.write_time = WEFT_SEC});
    client_open_small(&c, s.port, 65536);
    client_say(&c, "GET /much HTTP/1.1\r\nHost: a\r\n\r\n");
    c.bytes = malloc(c.room = 4 * sizeof much);
    for (weft_time end = weft_in(2 * WEFT_SEC); weft_now().ns < end.ns && c.end < sizeof much / 2;) {
        ssize_t n = recv(c.fd, c.bytes + c.end, 65536, MSG_WAITALL);
        c.end += n > 0 ? (size_t)n : 0;
        usleep(100000);
    }
    CHECK_PTR(client_answer(&c, &a, false), ==, NULL);
    CHECK_INT(a.size, ==, sizeof much);
    answer_free(&a);
    client_close(&c);
    served_end(&s);
}

TEST(an_event_stream_outlives_all_limits)
{
    struct served s;
    struct client c;
    struct answer a;
    begin(&s, &(weft_http_opts){.idle_time = SHORT, .head_time = SHORT, .write_time = SHORT, .body_rate = 1 << 20});
    client_open(&c, s.port);
    client_say(&c, "GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK_PTR(client_answer(&c, &a, false), ==, NULL);
    CHECK_INT(a.size, ==, 10 * strlen("data: tick\n\n"));
    answer_free(&a);
    client_close(&c);
    served_end(&s);
}

static void begin_body(int port, struct client *c, const char *head)
{
    client_open(c, port);
    client_say(c, head);
}

/* The first 5 s are free, so this takes as long. Three clients at a time. */
TEST(a_body_below_body_rate_is_408_after_5_s_and_not_before)
{
    struct served s;
    struct client sized, chunked, fast;
    begin(&s, &(weft_http_opts){.body_rate = 10});
    weft_time from = weft_now();
    begin_body(s.port, &sized, "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n");
    begin_body(s.port, &chunked, "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    begin_body(s.port, &fast, "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 1200\r\n\r\n");
    char part[100], all[1201] = "";
    memset(part, 'p', sizeof part);
    memset(all, 'p', 1200);
    for (int i = 0; i < 11; i++) { /* 5.5 s; the third one earns 10 s by each part */
        usleep(500000);
        client_send(&fast, part, sizeof part);
        if (i == 2) {
            client_say(&sized, "1");
            client_say(&chunked, "1\r\na\r\n");
        }
    }
    client_expect(&sized, 408);
    CHECK_INT(weft_now().ns - from.ns, >=, 5100 * WEFT_MS); /* it has earned 0.1 s */
    client_expect(&chunked, 408);
    CHECK_INT(weft_now().ns - from.ns, >=, 5100 * WEFT_MS);
    client_send(&fast, part, sizeof part);
    client_expect_body(&fast, 200, all);
    client_close(&sized);
    client_close(&chunked);
    client_close(&fast);
    served_end(&s);
}

/* All of the answer is collected when the handler returns, and the system keeps only a part of it. */
static int collects(weft_exchange *x, void *arg)
{
    static const char part[1000];
    (void)arg;
    int rc = weft_http_begin(x, 200);
    for (int i = 0; rc == 0 && i < 15; i++)
        rc = weft_http_write(x, part, sizeof part);
    return rc;
}

/* The client must not take what it has got for the whole answer. */
TEST(an_answer_without_a_length_whose_end_is_not_taken_in_time_ends_with_a_reset)
{
    static const struct served_route collected[] = {{"GET /", collects, NULL}, {0}};
    struct served s;
    struct client c;
    int least = 1; /* the system takes its own least size */
    served_begin(&s, &(weft_http_opts){.write_time = SHORT}, collected);
    CHECK_INT(setsockopt(s.listener, SOL_SOCKET, SO_SNDBUF, &least, sizeof least), ==, 0);
    client_open_small(&c, s.port, least);
    client_say(&c, "GET / HTTP/1.0\r\n\r\n");
    served_wait_read(&s, 1);
    served_wait_connections(&s, 0);
    CHECK_INT(client_drain(&c), <, 15000);
    CHECK_INT(c.error, ==, ECONNRESET);
    client_close(&c);
    served_end(&s);
}

TESTS(times, a_fresh_connection_ends_after_idle_time_and_not_before,
      a_connection_ends_idle_time_after_its_answer_and_not_before,
      a_connection_without_a_buffer_ends_after_idle_time_and_not_before, idle_time_begins_when_the_handler_has_returned,
      a_head_that_comes_byte_by_byte_is_408_after_head_time_and_not_before,
      a_head_behind_a_slow_chunked_body_has_all_of_its_time,
      a_client_that_does_not_read_is_ended_after_write_time_and_not_before,
      a_client_that_reads_slowly_but_steadily_gets_all, an_event_stream_outlives_all_limits,
      a_body_below_body_rate_is_408_after_5_s_and_not_before,
      an_answer_without_a_length_whose_end_is_not_taken_in_time_ends_with_a_reset)
