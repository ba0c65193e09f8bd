/*
 * Clients that go at every byte of a request and of an answer, with a reset, a close or a half-close, from handlers of each
 * kind. Nothing is left, the figures add up, and the others are served.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

#define HOST " HTTP/1.1\r\nHost: a\r\n"

enum { LARGE = 400 * 1024 };

static char large[LARGE];
static int file;
static atomic_int inside; /* handlers that run */

static int answers_in_parts(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_begin(x, 200);
    for (int i = 0; i < 10 && rc == 0; i++) {
        rc = weft_http_write(x, "some of it ", 11);
        if (rc == 0)
            rc = weft_http_flush(x);
        weft_yield();
    }
    return rc;
}

static int answers_large(weft_exchange *x, void *arg)
{
    (void)arg;
    return weft_http_reply(x, 200, NULL, large, LARGE);
}

static int answers_file(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_begin(x, 200);
    return rc != 0 ? rc : weft_http_write_file(x, file, 0, LARGE);
}

/* An endless stream: only its client ends it. */
static int streams(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_events(x);
    while (rc == 0) {
        rc = weft_http_event(x, "tick", "tock");
        weft_yield();
    }
    return rc;
}

static int child_waits(void *arg)
{
    (void)arg;
    return weft_sleep_until(WEFT_FOREVER);
}

/* Waits for a body that does not come, or for ever, beside a child. */
static int waits(weft_exchange *x, void *arg)
{
    (void)arg;
    inside++;
    weft_scope_go(weft_http_scope(x), child_waits, NULL);
    int rc = weft_sleep_until(WEFT_FOREVER);
    inside--;
    return rc;
}

static const struct served_route routes[] = {{"GET /", says_hello, NULL},
                                             {"POST /echo", echoes, NULL},
                                             {"POST /unread", says_hello, NULL},
                                             {"GET /parts", answers_in_parts, NULL},
                                             {"GET /large", answers_large, NULL},
                                             {"GET /file", answers_file, NULL},
                                             {"GET /events", streams, NULL},
                                             {"GET /wait", waits, NULL},
                                             {0}};

enum going { CLOSES, RESETS, HALF_CLOSES, GOINGS };

static void go(struct client *c, enum going how)
{
    if (how == HALF_CLOSES) {
        client_end(c);
        client_drain(c);
    }
    if (how == RESETS)
        client_abort(c);
    else
        client_close(c);
}

static void begin(struct served *s)
{
    file = memfd_create("large", MFD_CLOEXEC);
    CHECK_INT(write(file, large, LARGE), ==, LARGE);
    served_make(s, NULL, routes); /* the file's descriptor is counted as there before */
    served_start(s, 2);
}

/* Everybody has gone: what was counted adds up, and the server serves. */
static void end(struct served *s)
{
    served_wait_connections(s, 0);
    CHECK_INT(inside, ==, 0);
    weft_http_figures f = served_figures(s);
    uint64_t answers = f.cut;
    for (int i = 0; i < 6; i++)
        answers += f.status[i];
    CHECK_INT(answers, ==, f.requests);
    CHECK_INT(f.streams, ==, 0);
    CHECK_INT(f.idle, ==, 0);
    CHECK_INT(f.refused, ==, 0);
    CHECK_INT(ask_status(s->port, "GET /" HOST "\r\n"), ==, 200);
    served_end(s);
    close(file);
}

/* Sends the first bytes of a request, for each number of them, and goes; the server has read them, or perhaps not. */
static void check_request(struct served *s, const char *request)
{
    size_t size = strlen(request);
    for (size_t at = 0; at <= size && !test_has_failed(); at++) {
        for (int how = CLOSES; how < GOINGS; how++) {
            struct client c;
            uint64_t before = served_figures(s).bytes_in;
            client_open(&c, s->port);
            client_send(&c, request, at);
            if (at % 2 == 0)
                served_wait_read(s, before + at);
            go(&c, how);
        }
    }
    served_wait_connections(s, 0);
}

TEST(a_client_may_go_at_every_byte_of_its_request)
{
    struct served s;
    begin(&s);
    check_request(&s, "GET /" HOST "\r\n");
    check_request(&s, "POST /echo" HOST "Content-Length: 10\r\n\r\n0123456789");
    check_request(&s, "POST /echo" HOST "Transfer-Encoding: chunked\r\n\r\n4;a=b\r\nbody\r\n0\r\nA: b\r\n\r\n");
    check_request(&s, "POST /unread" HOST "Content-Length: 10\r\n\r\n0123456789");
    check_request(&s, "POST /echo" HOST "Expect: 100-continue\r\nContent-Length: 10\r\n\r\n");
    check_request(&s, "GET /parts" HOST "\r\nGET /nowhere" HOST "\r\nGET / HTTP/1.0\r\n\r\n");
    end(&s);
}

/* Bytes of the whole answer. */
static size_t answer_size(struct served *s, const char *request)
{
    struct client c;
    struct answer a;
    client_open(&c, s->port);
    client_say(&c, request);
    CHECK_PTR(client_answer(&c, &a, false), ==, NULL);
    size_t size = c.at;
    answer_free(&a);
    client_close(&c);
    return size;
}

/* Reads the first bytes of the answer, for each number of them in steps, and goes. size 0: the answer ends, and that is it. */
static void check_answer(struct served *s, const char *request, size_t size, size_t step)
{
    static char bytes[LARGE + 4096];
    if (size == 0)
        size = answer_size(s, request);
    for (size_t count = 0; count <= size && !test_has_failed(); count += step) {
        for (int how = CLOSES; how <= RESETS; how++) {
            struct client c;
            client_open_small(&c, s->port, 16 * 1024);
            client_say(&c, request);
            size_t at = 0;
            for (ssize_t n = 1; at < count && n > 0; at += (size_t)n) {
                n = recv(c.fd, bytes, count - at, 0);
                CHECK_INT(n, >, 0);
            }
            go(&c, (enum going)how);
        }
    }
    served_wait_connections(s, 0);
}

TEST(a_client_may_go_at_every_byte_of_its_answer)
{
    struct served s;
    begin(&s);
    check_answer(&s, "GET /" HOST "\r\n", 0, 1);
    check_answer(&s, "GET /parts" HOST "\r\n", 0, 1);
    check_answer(&s, "GET /parts HTTP/1.0\r\n\r\n", 0, 1);
    check_answer(&s, "GET /events" HOST "\r\n", 400, 5);
    check_answer(&s, "GET /large" HOST "\r\n", LARGE, 49157);
    check_answer(&s, "GET /file" HOST "\r\n", LARGE, 49157);
    check_answer(&s, "GET /" HOST "\r\nGET /large" HOST "\r\nGET /" HOST "\r\n", LARGE, 98299);
    end(&s);
}

TEST(a_client_that_resets_ends_a_handler_that_waits_and_its_children)
{
    enum { COUNT = 20 };
    struct client c[COUNT];
    struct served s;
    begin(&s);
    for (int i = 0; i < COUNT; i++) {
        client_open(&c[i], s.port);
        client_say(&c[i], i % 2 ? "GET /wait" HOST "\r\n" : "GET /" HOST "\r\nGET /wait" HOST "\r\n");
    }
    while (inside < COUNT)
        usleep(1000);
    for (int i = 0; i < COUNT; i++)
        client_abort(&c[i]);
    end(&s);
}

TESTS(disconnect, a_client_may_go_at_every_byte_of_its_request, a_client_may_go_at_every_byte_of_its_answer,
      a_client_that_resets_ends_a_handler_that_waits_and_its_children)
