/*
 * Neighbours on one worker: a connection that always has bytes, or whose client always reads, lets others have their turns.
 * Measured in calls of the busy handler, not in time: before it begins, the neighbour's request has come.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

enum { MOST = 5000, CROWD = 20 };

/* Each test begins with zeros. */
static struct {
    int entered, sent, hellos; /* flags, counted */
    int calls;                 /* of the busy handler so far. flag, counted */
    int calls_at_turn;         /* when the neighbour had its turn. flag */
    int file;
} at;

static int calls(void)
{
    return __atomic_load_n(&at.calls, __ATOMIC_ACQUIRE);
}

static void count_call(void)
{
    __atomic_add_fetch(&at.calls, 1, __ATOMIC_ACQ_REL);
}

/* Computes until the neighbour's request is there. */
static void hog(void)
{
    __atomic_add_fetch(&at.entered, 1, __ATOMIC_ACQ_REL);
    while (!__atomic_load_n(&at.sent, __ATOMIC_ACQUIRE))
        ;
}

static int hogs(weft_exchange *x, void *arg)
{
    (void)arg;
    hog();
    return weft_http_reply(x, 204, NULL, NULL, 0);
}

static int counts(weft_exchange *x, void *arg)
{
    (void)arg;
    count_call();
    return weft_http_reply(x, 204, NULL, NULL, 0);
}

static int reads(weft_exchange *x, void *arg)
{
    char byte;
    (void)arg;
    hog();
    while (weft_http_read(x, &byte, 1, WEFT_FOREVER) == 1)
        count_call();
    return weft_http_reply(x, 200, NULL, NULL, 0);
}

static int writes(weft_exchange *x, void *arg)
{
    (void)arg;
    hog();
    int rc = weft_http_begin(x, 200);
    for (; rc == 0 && calls() < MOST; count_call()) {
        rc = weft_http_write(x, "x", 1);
        if (rc == 0)
            rc = weft_http_flush(x);
    }
    return rc;
}

static int writes_file(weft_exchange *x, void *arg)
{
    (void)arg;
    hog();
    weft_http_add_header(x, "Content-Length", "5000");
    int rc = weft_http_begin(x, 200);
    for (; rc == 0 && calls() < MOST; count_call())
        rc = weft_http_write_file(x, at.file, 0, 1);
    return rc;
}

static int has_turn(weft_exchange *x, void *arg)
{
    (void)arg;
    __atomic_store_n(&at.calls_at_turn, calls(), __ATOMIC_RELEASE);
    return weft_http_reply(x, 200, NULL, "turn", 4);
}

static int says_counted_hello(weft_exchange *x, void *arg)
{
    __atomic_add_fetch(&at.hellos, 1, __ATOMIC_ACQ_REL);
    return says_hello(x, arg);
}

static const struct served_route routes[] = {{"GET /", says_counted_hello, NULL}, {"GET /hog", hogs, NULL},
                                             {"GET /count", counts, NULL},        {"POST /read", reads, NULL},
                                             {"GET /write", writes, NULL},        {"GET /file", writes_file, NULL},
                                             {"GET /turn", has_turn, NULL},       {0}};

/* A busy connection says `busy`; its neighbour has its turn before all calls have been made. Then `answers` come. */
static void check_turn(const char *busy, size_t size, unsigned answers)
{
    struct served s;
    struct client c, neighbour;
    memset(&at, 0, sizeof at);
    at.file = memfd_create("fair", MFD_CLOEXEC);
    CHECK_INT(write(at.file, "x", 1), ==, 1);
    served_begin(&s, NULL, routes);
    client_open_small(&c, s.port, 1 << 20);
    client_open(&neighbour, s.port);
    served_wait_connections(&s, 2);
    CHECK(client_send(&c, busy, size));
    wait_for_flag(&at.entered, 1);
    CHECK(client_say(&neighbour, GET("/turn")));
    __atomic_store_n(&at.sent, 1, __ATOMIC_RELEASE);
    client_expect_body(&neighbour, 200, "turn");
    CHECK_INT(__atomic_load_n(&at.calls_at_turn, __ATOMIC_ACQUIRE), <, MOST / 2);
    for (unsigned i = 0; i < answers; i++) {
        struct answer a;
        const char *wrong = client_answer(&c, &a, false);
        CHECK_STR(wrong ? wrong : "", "");
        answer_free(&a);
        if (wrong)
            break;
    }
    client_close(&c);
    client_close(&neighbour);
    served_end(&s);
    close(at.file);
}

TEST(a_body_that_is_all_there_does_not_starve_a_neighbour)
{
    static char text[256 + MOST];
    int size = sprintf(text, "POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", MOST);
    memset(text + size, 'x', MOST);
    check_turn(text, (size_t)size + MOST, 1);
}

TEST(a_client_that_reads_all_at_once_does_not_starve_a_neighbour)
{
    check_turn(GET("/write"), strlen(GET("/write")), 1);
}

TEST(a_file_that_goes_out_at_once_does_not_starve_a_neighbour)
{
    check_turn(GET("/file"), strlen(GET("/file")), 1);
}

TEST(pipelined_requests_without_end_do_not_starve_a_neighbour)
{
    static const char one[] = "GET /count HTTP/1.1\r\nHost: a\r\n\r\n";
    static char text[64 + MOST * sizeof one];
    char *to = text + sprintf(text, GET("/hog"));
    for (int i = 0; i < MOST; i++)
        to = mempcpy(to, one, sizeof one - 1);
    check_turn(text, (size_t)(to - text), MOST + 1);
}

/* A worker that a handler hogs delays its own connections alone, and these lose nothing. Another scheduler accepts. */
TEST(a_handler_that_computes_delays_the_connections_of_its_worker_alone)
{
    struct served s;
    struct client hogger, crowd[CROWD];
    weft_http_opts opts = {0};
    int descriptors = count_descriptors();
    memset(&at, 0, sizeof at);
    CHECK_INT(weft_sched_new(&opts.on, &(weft_sched_opts){.size = sizeof(weft_sched_opts), .threads = 2}), ==, 0);
    CHECK_INT(weft_sched_start(opts.on), ==, 0);
    served_make(&s, &opts, routes);
    s.on = opts.on;
    s.descriptors = descriptors;
    served_start(&s, 1);
    client_open(&hogger, s.port);
    client_say(&hogger, GET("/hog"));
    wait_for_flag(&at.entered, 1);
    for (int i = 0; i < CROWD; i++) {
        client_open(&crowd[i], s.port);
        client_say(&crowd[i], GET("/"));
    }
    wait_for_flag(&at.hellos, CROWD / 2 - 1);
    __atomic_store_n(&at.sent, 1, __ATOMIC_RELEASE);
    client_expect(&hogger, 204);
    client_close(&hogger);
    for (int i = 0; i < CROWD; i++) {
        client_expect_body(&crowd[i], 200, "hello\n");
        client_close(&crowd[i]);
    }
    served_end(&s);
}

TESTS(fair, a_body_that_is_all_there_does_not_starve_a_neighbour,
      a_client_that_reads_all_at_once_does_not_starve_a_neighbour,
      a_file_that_goes_out_at_once_does_not_starve_a_neighbour,
      pipelined_requests_without_end_do_not_starve_a_neighbour,
      a_handler_that_computes_delays_the_connections_of_its_worker_alone)
