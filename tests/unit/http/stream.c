/*
 * Answers in parts: begin, write, flush, end, in each framing; files; wrong order and wrong length; handlers that fail
 * half-way.
 */
#include <errno.h>
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

static weft_event go_on;

/* Begins an answer, with a length if it is not negative. */
static int begin_with(weft_exchange *x, int length)
{
    char text[16];
    snprintf(text, sizeof text, "%d", length);
    int rc = length >= 0 ? weft_http_add_header(x, "Content-Length", text) : 0;
    return rc != 0 ? rc : weft_http_begin(x, 200);
}

static int number(weft_exchange *x, const char *name)
{
    const char *text = weft_http_query(x, name);
    return text ? atoi(text) : -1;
}

/* `count` parts of `size` bytes: all bytes of part i are 'a' + i % 26. `length`: its Content-Length. `ends`: whether it does. */
static int says_parts(weft_exchange *x, void *arg)
{
    (void)arg;
    int size = number(x, "size"), count = number(x, "count");
    bool is_head = strcmp(weft_http_method(x), "HEAD") == 0;
    char *part = weft_http_alloc(x, (size_t)size + 1);
    int rc = begin_with(x, number(x, "length"));
    for (int i = 0; i < count && rc == 0; i++) {
        memset(part, 'a' + i % 26, (size_t)size);
        rc = weft_http_write(x, part, (size_t)size);
        CHECK_INT(weft_http_sent(x), ==, is_head ? 0 : (rc == 0 ? i + 1 : i) * size);
    }
    return rc != 0 || number(x, "ends") < 0 ? rc : weft_http_end(x);
}

/* A part, a flush and a wait. */
static int says_and_waits(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = begin_with(x, number(x, "length"));
    if (rc == 0)
        rc = weft_http_write(x, "first", 5);
    if (rc == 0)
        rc = weft_http_flush(x);
    if (rc == 0)
        rc = weft_event_wait(&go_on, WEFT_FOREVER);
    return rc != 0 ? rc : weft_http_write(x, " last", 5);
}

/* Its answer is complete, and it goes on. */
static int answers_and_waits(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_reply(x, 200, NULL, "done", 4);
    if (rc == 0)
        rc = weft_http_flush(x);
    return rc != 0 ? rc : weft_event_wait(&go_on, WEFT_FOREVER);
}

/* Each call out of its order. */
static int disorders(weft_exchange *x, void *arg)
{
    (void)arg;
    CHECK_INT(weft_http_write(x, "a", 1), ==, -EINVAL);
    CHECK_INT(weft_http_write_file(x, 0, 0, 1), ==, -EINVAL);
    CHECK_INT(weft_http_flush(x), ==, -EINVAL);
    CHECK_INT(weft_http_end(x), ==, -EINVAL);
    CHECK_INT(weft_http_event(x, NULL, "a"), ==, -EINVAL);
    CHECK_INT(begin_with(x, number(x, "length")), ==, 0);
    CHECK_INT(weft_http_begin(x, 200), ==, -EALREADY);
    CHECK_INT(weft_http_events(x), ==, -EALREADY);
    CHECK_INT(weft_http_reply(x, 200, NULL, "a", 1), ==, -EALREADY);
    CHECK_INT(weft_http_redirect(x, 302, "/"), ==, -EALREADY);
    CHECK_INT(weft_http_add_header(x, "X-Late", "a"), ==, -EALREADY);
    CHECK_INT(weft_http_event(x, NULL, "a"), ==, -EINVAL); /* it is no stream of events */
    CHECK_INT(weft_http_write(x, "", 0), ==, 0);           /* no end of the chunks */
    CHECK_INT(weft_http_write(x, "abc", 3), ==, 0);
    if (number(x, "length") >= 0)
        CHECK_INT(weft_http_write(x, "d", 1), ==, -EFBIG);
    CHECK_INT(weft_http_end(x), ==, 0);
    CHECK_INT(weft_http_end(x), ==, -EINVAL);
    CHECK_INT(weft_http_write(x, "a", 1), ==, -EINVAL);
    CHECK_INT(weft_http_flush(x), ==, 0);
    CHECK_INT(weft_http_reply(x, 200, NULL, "a", 1), ==, -EALREADY);
    return 0;
}

/* Sends `said` of its bytes, if it has as many flushes them, and then fails, or ends too early. */
static int fails_half_way(weft_exchange *x, void *arg)
{
    (void)arg;
    int said = number(x, "said"), rc = begin_with(x, number(x, "length"));
    char *part = weft_http_alloc(x, (size_t)said + 1);
    memset(part, 'p', (size_t)said);
    CHECK_INT(rc, ==, 0);
    CHECK_INT(weft_http_write(x, part, (size_t)said), ==, 0);
    CHECK_INT(weft_http_flush(x), ==, 0);
    if (number(x, "fails") >= 0)
        return -EIO;
    CHECK_INT(weft_http_end(x), ==, -ENODATA);
    CHECK_INT(weft_http_write(x, part, 1), ==, -EPIPE);
    CHECK_INT(weft_http_end(x), ==, -EPIPE);
    return 0;
}

/* `count` bytes of the file from `at` on, and again from its beginning; `length` as above. */
static int says_file(weft_exchange *x, void *arg)
{
    int file = *(int *)arg, rc = begin_with(x, number(x, "length"));
    if (rc == 0)
        rc = weft_http_write_file(x, file, number(x, "at"), (uint64_t)number(x, "count"));
    if (number(x, "rc") >= 0)
        CHECK_INT(rc, ==, -number(x, "rc"));
    if (rc == 0)
        rc = weft_http_write_file(x, file, 0, 3);
    return rc;
}

static int says_empty_file(weft_exchange *x, void *arg)
{
    int rc = begin_with(x, 0);
    return rc != 0 ? rc : weft_http_write_file(x, *(int *)arg, 0, 0);
}

static int file;

static const struct served_route routes[] = {
    {"GET /parts", says_parts, NULL},    {"GET /wait", says_and_waits, NULL},    {"GET /order", disorders, NULL},
    {"GET /half", fails_half_way, NULL}, {"GET /file", says_file, &file},        {"GET /empty", says_empty_file, &file},
    {"GET /hello", says_hello, NULL},    {"GET /done", answers_and_waits, NULL}, {0}};

static void check_parts(struct client *c, int size, int count)
{
    struct answer a;
    size_t wrong = 0;
    const char *said = client_answer(c, &a, false);
    CHECK_STR(said ? said : "", "");
    CHECK_INT(a.size, ==, size * count);
    for (size_t i = 0; i < a.size; i++)
        wrong += a.body[i] != 'a' + (int)(i / (size_t)size) % 26;
    CHECK_INT(wrong, ==, 0);
    answer_free(&a);
}

TEST(parts_arrive_whole_in_each_framing)
{
    static const int sizes[][2] = {{1, 5},    {0, 3},    {5, 0},     {100, 300}, {4096, 9},
                                   {8170, 5}, {8192, 5}, {16383, 5}, {16384, 4}, {70000, 20}};
    struct served s;
    served_begin(&s, NULL, routes);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int size = sizes[i][0], count = sizes[i][1];
        char request[512];
        struct client c;
        client_open(&c, s.port);
        snprintf(request, sizeof request,
                 "GET /parts?size=%d&count=%d&ends=1" HOST "\r\nGET /parts?size=%d&count=%d&length=%d&ends=1" HOST
                 "\r\nGET /parts?size=%d&count=%d" HOST "\r\nGET /parts?size=%d&count=%d HTTP/1.0\r\n\r\n",
                 size, count, size, count, size * count, size, count, size, count);
        client_say(&c, request);
        for (int j = 0; j < 4; j++)
            check_parts(&c, size, count);
        CHECK(client_sees_end(&c));
        client_close(&c);
    }
    CHECK_INT(served_figures(&s).cut, ==, 0);
    served_end(&s);
}

TEST(the_framing_is_chunks_or_the_length_or_the_end_of_the_connection)
{
    struct served s;
    struct answer a;
    served_begin(&s, NULL, routes);
    ask(s.port, "GET /parts?size=2&count=2" HOST "\r\n", &a);
    CHECK(a.is_chunked && !a.ends_with_close);
    CHECK_STR(a.body, "aabb");
    answer_free(&a);
    ask(s.port, "GET /parts?size=2&count=2&length=4" HOST "\r\n", &a);
    CHECK(!a.is_chunked && !a.ends_with_close);
    answer_free(&a);
    ask(s.port, "GET /parts?size=2&count=2 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", &a);
    CHECK(!a.is_chunked && a.ends_with_close);
    CHECK_STR(answer_field(&a, "Connection"), "close");
    CHECK_STR(a.body, "aabb");
    answer_free(&a);
    ask(s.port, "GET /parts?size=2&count=2&length=4 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", &a);
    CHECK(!a.is_chunked && !a.ends_with_close);
    CHECK_STR(answer_field(&a, "Connection"), "keep-alive");
    answer_free(&a);
    ask(s.port, "HEAD /parts?size=2&count=2 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", &a);
    CHECK_INT(a.status, ==, 200);
    answer_free(&a);
    served_end(&s);
}

TEST(a_flush_sends_what_was_collected)
{
    static const char *const requests[] = {"GET /wait" HOST "\r\n", "GET /wait?length=10" HOST "\r\n",
                                           "GET /wait HTTP/1.0\r\n\r\n"};
    struct served s;
    served_begin(&s, NULL, routes);
    for (size_t i = 0; i < 3; i++) {
        char bytes[1024] = "";
        size_t size = 0;
        struct client c;
        weft_event_reset(&go_on);
        client_open(&c, s.port);
        client_say(&c, requests[i]);
        while (!strstr(bytes, "first") && !test_has_failed()) {
            ssize_t n = recv(c.fd, bytes + size, sizeof bytes - 1 - size, 0);
            CHECK_INT(n, >, 0);
            size += n > 0 ? (size_t)n : 0;
            bytes[size] = '\0';
        }
        weft_event_set(&go_on);
        client_close(&c);
        served_wait_connections(&s, 0);
    }
    served_end(&s);
}

TEST(calls_out_of_order_are_refused)
{
    struct served s;
    struct client c;
    served_begin(&s, NULL, routes);
    client_open(&c, s.port);
    client_say(&c, "GET /order" HOST "\r\nGET /order?length=3" HOST "\r\nGET /hello" HOST "\r\n");
    client_expect_body(&c, 200, "abc");
    client_expect_body(&c, 200, "abc");
    client_expect_body(&c, 200, "hello\n");
    client_close(&c);
    served_end(&s);
}

/* The client must see that the answer is not all: chunks without an end, too few bytes, or a reset. */
static void check_cut(struct served *s, const char *request)
{
    struct client c;
    struct answer a;
    char both[512];
    uint64_t before = served_figures(s).cut;
    client_open(&c, s->port);
    snprintf(both, sizeof both, "%sGET /hello" HOST "\r\n", request); /* in one, as a send would take note of a reset */
    client_say(&c, both);
    const char *wrong = client_answer(&c, &a, false);
    CHECK(wrong != NULL);
    client_drain(&c);
    CHECK(c.end == 0 || !memmem(c.bytes, c.end, "hello", 5));
    answer_free(&a);
    client_close(&c);
    served_wait_connections(s, 0);
    CHECK_INT(served_figures(s).cut, ==, before + 1);
}

TEST(a_flush_sends_a_complete_answer_while_its_handler_goes_on)
{
    struct served s;
    struct client c;
    served_begin(&s, NULL, routes);
    weft_event_reset(&go_on);
    client_open(&c, s.port);
    client_say(&c, "GET /done" HOST "\r\n");
    client_expect_body(&c, 200, "done"); /* the handler waits for what follows */
    weft_event_set(&go_on);
    client_say(&c, "GET /hello" HOST "\r\n");
    client_expect_body(&c, 200, "hello\n");
    client_close(&c);
    served_end(&s);
}

TEST(an_answer_that_fails_half_way_never_looks_complete)
{
    struct served s;
    served_begin(&s, NULL, routes);
    check_cut(&s, "GET /half?said=100&fails=1" HOST "\r\n");
    check_cut(&s, "GET /half?said=100&fails=1&length=101" HOST "\r\n");
    check_cut(&s, "GET /half?said=100&fails=1 HTTP/1.0\r\n\r\n");
    check_cut(&s, "GET /half?said=100&fails=1&length=101 HTTP/1.0\r\n\r\n");
    check_cut(&s, "GET /half?said=0&fails=1" HOST "\r\n");
    check_cut(&s, "GET /half?said=100000&fails=1" HOST "\r\n");
    check_cut(&s, "GET /half?said=100000&fails=1 HTTP/1.0\r\n\r\n");
    served_end(&s);
}

TEST(an_answer_of_too_few_bytes_is_cut)
{
    struct served s;
    served_begin(&s, NULL, routes);
    check_cut(&s, "GET /half?said=100&length=101" HOST "\r\n");
    check_cut(&s, "GET /half?said=0&length=1" HOST "\r\n");
    check_cut(&s, "GET /half?said=100&length=101 HTTP/1.0\r\n\r\n");
    check_cut(&s, "GET /parts?size=10&count=1&length=11" HOST "\r\n"); /* which does not end it itself */
    check_cut(&s, "GET /parts?size=10&count=2&length=11" HOST "\r\n"); /* one part too many */
    served_end(&s);
}

TEST(parts_of_files_are_parts_of_the_body)
{
    enum { SIZE = 3 << 20 };
    char *bytes = malloc(SIZE);
    struct served s;
    struct answer a;
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (char)(i * 5 + i / 241);
    memcpy(bytes, "abc", 3);
    file = memfd_create("body", MFD_CLOEXEC);
    CHECK_INT(write(file, bytes, SIZE), ==, SIZE);
    served_begin(&s, NULL, routes);
    ask(s.port, "GET /file?at=3&count=3145725&length=3145728" HOST "\r\n", &a);
    CHECK(a.size == SIZE && !memcmp(a.body, bytes + 3, SIZE - 3) && !memcmp(a.body + SIZE - 3, "abc", 3));
    answer_free(&a);
    ask(s.port, "GET /file?at=1000&count=70000" HOST "\r\n", &a);
    CHECK(a.is_chunked && a.size == 70003 && !memcmp(a.body, bytes + 1000, 70000));
    answer_free(&a);
    ask(s.port, "GET /file?at=1&count=2 HTTP/1.0\r\n\r\n", &a);
    CHECK_STR(a.body ? a.body : "", "bcabc");
    answer_free(&a);
    ask(s.port, "GET /file?at=1&count=0" HOST "\r\n", &a);
    CHECK_STR(a.body ? a.body : "", "abc");
    answer_free(&a);
    CHECK_PTR(ask(s.port, "HEAD /file?at=1&count=4&length=7" HOST "\r\n", &a), ==, NULL);
    CHECK_STR(answer_field(&a, "Content-Length"), "7");
    answer_free(&a);
    served_end(&s);
    close(file);
    free(bytes);
}

TEST(a_file_that_is_shorter_than_it_was_cuts_the_answer)
{
    struct served s;
    file = memfd_create("body", MFD_CLOEXEC);
    CHECK_INT(ftruncate(file, 100000), ==, 0);
    served_begin(&s, NULL, routes);
    check_cut(&s, "GET /file?at=0&count=100001&length=100004&rc=61" HOST "\r\n"); /* ENODATA */
    check_cut(&s, "GET /file?at=100000&count=1&rc=61" HOST "\r\n");
    check_cut(&s, "GET /file?at=99999&count=2&rc=61 HTTP/1.0\r\n\r\n");
    CHECK_INT(ENODATA, ==, 61);
    check_cut(&s, "GET /file?at=0&count=5&length=4&rc=27" HOST "\r\n"); /* EFBIG */
    CHECK_INT(EFBIG, ==, 27);
    served_end(&s);
    close(file);
}

/* The system holds a head back for a fifth of a second if it was told that more follows. */
TEST(an_empty_part_of_a_file_does_not_hold_back_the_head)
{
    enum { COUNT = 20 };
    struct served s;
    struct client c;
    file = memfd_create("body", MFD_CLOEXEC);
    served_begin(&s, NULL, routes);
    client_open(&c, s.port);
    weft_time begin = weft_now();
    for (int i = 0; i < COUNT; i++) {
        client_say(&c, "GET /empty" HOST "\r\n");
        client_expect_body(&c, 200, "");
    }
    CHECK_INT(weft_now().ns - begin.ns, <, COUNT * WEFT_SEC / 10);
    client_close(&c);
    served_end(&s);
    close(file);
}

static int made; /* helpers; -1: the ring reads files */

/* A file that cannot be read without perhaps waiting, as the kernel says. */
static int says_waiting_file(weft_exchange *x, void *arg)
{
    weft_offload_figures before = {.size = sizeof before}, after = before;
    (void)arg;
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC), rc = weft_http_begin(x, 200);
    CHECK_INT(weft_offload_stats(&before), ==, 0);
    if (rc == 0)
        rc = weft_http_write_file(x, fd, 0, 50);
    CHECK_INT(weft_offload_stats(&after), ==, 0);
    weft_close(fd);
    made = strcmp(weft_io_backend(), "epoll") == 0 ? (int)(after.threads - before.threads) : -1;
    return rc;
}

TEST(a_file_that_may_have_to_wait_is_not_read_on_the_worker)
{
    struct served s;
    served_begin(&s, NULL, (struct served_route[]){{"GET /", says_waiting_file, NULL}, {0}});
    CHECK_INT(ask_status(s.port, "GET /" HOST "\r\n"), ==, 200);
    served_end(&s);
    if (made < 0)
        SKIP("with io_uring no helper reads files");
    CHECK_INT(made, ==, 1);
}

static int has_left;

static int writes_for_ever(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_begin(x, 200);
    while (rc == 0)
        rc = weft_http_write(x, "more", 4);
    __atomic_store_n(&has_left, 1, __ATOMIC_RELEASE);
    return rc;
}

TEST(a_head_request_for_a_body_without_an_end_delays_no_other_connection)
{
    struct served s;
    struct client c;
    has_left = 0;
    served_begin(&s, NULL,
                 (struct served_route[]){{"GET /", says_hello, NULL}, {"GET /ever", writes_for_ever, NULL}, {0}});
    client_open(&c, s.port);
    client_say(&c, "HEAD /ever" HOST "\r\n");
    served_wait_read(&s, 1);
    CHECK_INT(ask_status(s.port, "GET /" HOST "\r\n"), ==, 200);
    client_abort(&c);
    wait_for_flag(&has_left, 1);
    served_end(&s);
}

static int writes_nothing(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_begin(x, 200);
    return rc != 0 ? rc : weft_http_write(x, NULL, 0);
}

/* The sanitizer for undefined behaviour sees a copy from no place. */
TEST(a_part_of_no_bytes_may_be_null)
{
    struct served s;
    struct client c;
    served_begin(&s, NULL, (struct served_route[]){{"GET /", writes_nothing, NULL}, {0}});
    client_open(&c, s.port);
    client_say(&c, "GET /" HOST "\r\n");
    client_expect_body(&c, 200, "");
    client_close(&c);
    served_end(&s);
}

TESTS(stream, a_file_that_may_have_to_wait_is_not_read_on_the_worker,
      a_flush_sends_a_complete_answer_while_its_handler_goes_on,
      a_head_request_for_a_body_without_an_end_delays_no_other_connection, a_part_of_no_bytes_may_be_null,
      parts_arrive_whole_in_each_framing, the_framing_is_chunks_or_the_length_or_the_end_of_the_connection,
      a_flush_sends_what_was_collected, calls_out_of_order_are_refused,
      an_answer_that_fails_half_way_never_looks_complete, an_answer_of_too_few_bytes_is_cut,
      parts_of_files_are_parts_of_the_body, a_file_that_is_shorter_than_it_was_cuts_the_answer,
      an_empty_part_of_a_file_does_not_hold_back_the_head)
