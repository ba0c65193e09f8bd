/*
 * Back-pressure: a client that does not read holds up its own handler, and costs no memory but what the system keeps.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

enum { PART = 64 * 1024, READ = 1 << 20, OWN = 1 << 20 };

static uint64_t most;  /* bytes that may be on their way */
static uint64_t total; /* bytes of a whole answer, or of all answers: some times more */
static int file;

/* The most bytes that the system keeps of a connection on its sending side, and some more. */
static uint64_t most_in_flight(void)
{
    long buffer = 4 << 20;
    FILE *f = fopen("/proc/sys/net/ipv4/tcp_wmem", "r");
    if (f && fscanf(f, "%*d %*d %ld", &buffer) != 1)
        buffer = 4 << 20;
    if (f)
        fclose(f);
    return (uint64_t)buffer * 2 + OWN;
}

static int writes_parts(weft_exchange *x, void *arg)
{
    (void)arg;
    char *part = weft_http_alloc(x, PART);
    memset(part, 'z', PART);
    int rc = weft_http_begin(x, 200);
    for (uint64_t written = 0; rc == 0 && written < total; written += PART)
        rc = weft_http_write(x, part, PART);
    return rc;
}

static int writes_small_parts(weft_exchange *x, void *arg)
{
    static const char part[1000];
    (void)arg;
    int rc = weft_http_begin(x, 200);
    for (uint64_t written = 0; rc == 0 && written < total; written += sizeof part)
        rc = weft_http_write(x, part, sizeof part);
    return rc;
}

static int writes_file(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_begin(x, 200);
    return rc != 0 ? rc : weft_http_write_file(x, file, 0, total);
}

static int sends_events(weft_exchange *x, void *arg)
{
    static char data[PART];
    (void)arg;
    memset(data, 'e', sizeof data - 1);
    int rc = weft_http_events(x);
    for (uint64_t written = 0; rc == 0 && written < total; written += PART)
        rc = weft_http_event(x, NULL, data);
    return rc;
}

static int replies(weft_exchange *x, void *arg)
{
    static const char body[PART];
    (void)arg;
    return weft_http_reply(x, 200, NULL, body, sizeof body);
}

static const struct served_route routes[] = {
    {"GET /parts", writes_parts, NULL}, {"GET /small", writes_small_parts, NULL},
    {"GET /file", writes_file, NULL},   {"GET /events", sends_events, NULL},
    {"GET /reply", replies, NULL},      {0}};

/* Reads to the end; the server has never written much more than was read. */
static void check_reads(struct served *s, struct client *c)
{
    static char part[READ];
    uint64_t consumed = 0;
    size_t memory = test_memory();
    for (ssize_t n; (n = recv(c->fd, part, sizeof part, 0)) > 0;) {
        uint64_t written = served_figures(s).bytes_out;
        consumed += (uint64_t)n;
        CHECK_INT(written, <=, consumed + most);
        if (test_has_failed())
            break;
    }
    CHECK_INT(consumed, >=, total);
    CHECK_INT(test_memory(), <=, memory + most);
}

static void begin(struct served *s, struct client *c)
{
    most = most_in_flight();
    total = most * 2;
    served_begin(s, NULL, routes);
    client_open_small(c, s->port, 64 * 1024);
}

static void check_answer(const char *path)
{
    char request[64];
    struct served s;
    struct client c;
    begin(&s, &c);
    snprintf(request, sizeof request, "GET %s HTTP/1.0\r\n\r\n", path);
    client_say(&c, request);
    check_reads(&s, &c);
    client_close(&c);
    served_end(&s);
}

TEST(a_handler_that_writes_waits_for_its_client)
{
    check_answer("/parts");
    check_answer("/small");
}

TEST(a_file_waits_for_its_client)
{
    file = memfd_create("large", MFD_CLOEXEC);
    CHECK_INT(ftruncate(file, (off_t)(2 * most_in_flight())), ==, 0);
    check_answer("/file");
    close(file);
}

TEST(a_stream_of_events_waits_for_its_client)
{
    check_answer("/events");
}

/* Sends requests enough for `total` bytes of answers, the last of which closes. */
static void *sends_requests(void *arg)
{
    static const char request[] = "GET /reply HTTP/1.1\r\nHost: a\r\n\r\n";
    for (uint64_t i = 0; i < total / PART; i++)
        client_say(arg, request);
    client_say(arg, "GET /reply HTTP/1.0\r\n\r\n");
    return NULL;
}

TEST(a_client_that_pipelines_without_reading_is_held_up)
{
    struct served s;
    struct client c;
    pthread_t sender;
    begin(&s, &c);
    pthread_create(&sender, NULL, sends_requests, &c);
    check_reads(&s, &c);
    pthread_join(sender, NULL);
    client_close(&c);
    served_end(&s);
}

enum { SHORT = 1000 };

static unsigned short_requests; /* whose answers are more than the system keeps */

static int replies_in_short(weft_exchange *x, void *arg)
{
    static const char body[SHORT];
    (void)arg;
    return weft_http_reply(x, 200, "text/plain", body, sizeof body);
}

static int replies_in_another_type(weft_exchange *x, void *arg)
{
    (void)arg;
    return weft_http_reply(x, 200, "application/a-longer-type", "other", 5);
}

static void *sends_short_requests(void *arg)
{
    static const char request[] = "GET /short HTTP/1.1\r\nHost: a\r\n\r\n";
    for (unsigned i = 0; i < short_requests; i++)
        client_say(arg, request);
    return NULL;
}

/* Waits until the server writes no more to the client, which does not read. */
static void wait_until_held_up(const struct served *s)
{
    for (uint64_t before = 0, now = 1; before != now; now = served_figures(s).bytes_out) {
        before = served_figures(s).bytes_out;
        usleep(100000);
    }
}

/* The worker keeps the last content type that it has checked: another handler changes it while this one waits. */
TEST(a_head_that_waits_for_its_client_keeps_its_content_type)
{
    static const struct served_route types[] = {
        {"GET /short", replies_in_short, NULL}, {"GET /other", replies_in_another_type, NULL}, {0}};
    struct served s;
    struct client c;
    struct answer a;
    pthread_t sender;
    short_requests = (unsigned)(2 * most_in_flight() / SHORT);
    served_begin(&s, NULL, types);
    client_open_small(&c, s.port, 64 * 1024);
    pthread_create(&sender, NULL, sends_short_requests, &c);
    wait_until_held_up(&s);
    CHECK_INT(ask_status(s.port, "GET /other HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), ==, 200);
    for (unsigned i = 0; i < short_requests && !test_has_failed(); i++) {
        CHECK_PTR(client_answer(&c, &a, false), ==, NULL);
        const char *type = answer_field(&a, "Content-Type");
        CHECK_STR(type ? type : "(none)", "text/plain");
        answer_free(&a);
    }
    shutdown(c.fd, SHUT_RDWR); /* if it has failed, the sender ends too */
    pthread_join(sender, NULL);
    client_close(&c);
    served_end(&s);
}

TESTS(slow_reader, a_handler_that_writes_waits_for_its_client, a_file_waits_for_its_client,
      a_stream_of_events_waits_for_its_client, a_client_that_pipelines_without_reading_is_held_up,
      a_head_that_waits_for_its_client_keeps_its_content_type)
