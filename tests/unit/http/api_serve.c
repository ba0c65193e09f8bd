/*
 * weft_http_serve, weft_http_stop, weft_http_free and weft_http_stats: their errors, several listeners, and the ends of several
 * calls at a time.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weft/weft.h>

#include "http/server.h"
#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

#define REQUEST "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

static const struct served_route routes[] = {{"GET /", says_hello, NULL}, {0}};

static void in_fiber(void *(*fn)(void *), void *arg)
{
    void *value;
    CHECK_INT(weft_run(fn, arg, &value, NULL), ==, 0);
}

/* ---- one call ---- */

static void *fails_to_serve(void *arg)
{
    weft_http *h = arg;
    int ends[2], listener = weft_listen("127.0.0.1:0"), alone = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(pipe(ends), ==, 0);
    CHECK_INT(weft_http_serve(NULL, listener, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_http_serve(h, -1, WEFT_FOREVER), ==, -EBADF);
    CHECK_INT(weft_http_serve(h, 9999, WEFT_FOREVER), ==, -EBADF);
    CHECK_INT(weft_http_serve(h, ends[0], WEFT_FOREVER), ==, -ENOTSOCK);
    CHECK_INT(weft_http_serve(h, alone, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_http_serve(h, listener, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_http_serve(h, listener, weft_in(WEFT_MS)), ==, 0);
    weft_close(ends[0]);
    weft_close(ends[1]);
    CHECK_INT(weft_http_stop(h), ==, 0);
    CHECK_INT(weft_http_stop(h), ==, 0);
    CHECK_INT(weft_http_serve(h, listener, WEFT_FOREVER), ==, -ESHUTDOWN);
    weft_close(listener);
    weft_close(alone);
    return NULL;
}

TEST(serving_says_why_it_fails_and_can_be_tried_again)
{
    weft_http *h;
    CHECK_INT(weft_http_new(&h, NULL), ==, 0);
    in_fiber(fails_to_serve, h);
    CHECK_INT(weft_http_stop(NULL), ==, -EINVAL);
    CHECK_INT(weft_http_free(h), ==, 0);
}

TEST(a_plain_thread_cannot_serve)
{
    weft_http *h;
    int listener = weft_listen("127.0.0.1:0");
    CHECK_INT(weft_http_new(&h, NULL), ==, 0);
    CHECK_INT(weft_http_serve(h, listener, WEFT_FOREVER), ==, -ENXIO);
    CHECK_INT(weft_http_free(h), ==, 0);
    CHECK_INT(weft_close(listener), ==, 0);
}

static void *serves_for_a_moment(void *arg)
{
    int listener = weft_listen("127.0.0.1:0");
    int rc = weft_http_serve(arg, listener, weft_in(WEFT_MS));
    weft_close(listener);
    return (void *)(intptr_t)rc;
}

TEST(one_scheduler_after_another_may_serve)
{
    weft_http *h;
    void *value;
    CHECK_INT(weft_http_new(&h, NULL), ==, 0);
    weft_sched *scheds[2];
    for (int i = 0; i < 2; i++) {
        weft_fiber *f;
        weft_sched_opts o = {.size = sizeof o, .threads = 1};
        CHECK_INT(weft_sched_new(&scheds[i], &o), ==, 0);
        CHECK_INT(weft_sched_start(scheds[i]), ==, 0);
        for (int again = 0; again < 2; again++) {
            CHECK_INT(weft_sched_go(scheds[i], &f, NULL, serves_for_a_moment, h), ==, 0);
            CHECK_INT(weft_join(f, &value, WEFT_FOREVER), ==, 0);
            CHECK_INT((intptr_t)value, ==, 0);
        }
    }
    CHECK_INT(weft_http_free(h), ==, 0);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(weft_sched_stop(scheds[i], WEFT_FOREVER), ==, 0);
        CHECK_INT(weft_sched_free(scheds[i]), ==, 0);
    }
}

TEST(a_scheduler_that_has_stopped_is_eshutdown)
{
    weft_http *h;
    weft_sched *other;
    void *value;
    weft_sched_opts o = {.size = sizeof o, .threads = 1};
    CHECK_INT(weft_sched_new(&other, &o), ==, 0);
    CHECK_INT(weft_sched_start(other), ==, 0);
    CHECK_INT(weft_sched_stop(other, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_http_new(&h, &(weft_http_opts){.size = sizeof(weft_http_opts), .on = other}), ==, 0);
    CHECK_INT(weft_run(serves_for_a_moment, h, &value, NULL), ==, 0);
    CHECK_INT((intptr_t)value, ==, -ESHUTDOWN);
    CHECK_INT(weft_http_free(h), ==, 0);
    CHECK_INT(weft_sched_free(other), ==, 0);
}

static void *serves_cancelled(void *arg)
{
    int listener = weft_listen("127.0.0.1:0");
    weft_cancel(weft_fiber_current());
    int rc = weft_http_serve(arg, listener, WEFT_FOREVER);
    weft_close(listener);
    return (void *)(intptr_t)rc;
}

TEST(a_fiber_that_was_cancelled_does_not_serve)
{
    for (int has_log = 0; has_log < 2; has_log++) {
        weft_http *h;
        void *value;
        CHECK_INT(weft_http_new(&h, NULL), ==, 0);
        if (has_log)
            CHECK_INT(weft_http_log(h, STDERR_FILENO), ==, 0);
        CHECK_INT(weft_run(serves_cancelled, h, &value, NULL), ==, 0);
        CHECK_INT((intptr_t)value, ==, -ECANCELED);
        CHECK_INT(weft_http_free(h), ==, 0);
    }
}

static void *serves_again(void *arg)
{
    struct served *s = arg;
    return (void *)(intptr_t)weft_http_serve(s->h, s->listener, WEFT_FOREVER);
}

TEST(a_cancelled_call_ends_and_the_server_serves_again)
{
    struct served s;
    void *rc;
    served_begin(&s, NULL, routes);
    CHECK_INT(ask_status(s.port, REQUEST), ==, 200);
    CHECK_INT(weft_cancel(s.server), ==, 0);
    CHECK_INT(weft_join(s.server, &rc, WEFT_FOREVER), ==, 0);
    CHECK_INT((intptr_t)rc, ==, -ECANCELED);
    CHECK_INT(weft_http_route(s.h, "GET /more", says_hello, NULL), ==, 0);
    weft_close(s.listener);
    s.listener = weft_listen("127.0.0.1:0");
    s.port = weft_port(s.listener);
    CHECK_INT(weft_sched_go(s.sched, &s.server, NULL, serves_again, &s), ==, 0);
    CHECK_INT(ask_status(s.port, "GET /more HTTP/1.1\r\nHost: a\r\n\r\n"), ==, 200);
    served_end(&s);
}

/* ---- several calls ---- */

static int stops(weft_exchange *x, void *arg)
{
    struct served *s = arg;
    CHECK_INT(weft_http_stop(s->h), ==, 0);
    return weft_http_reply(x, 200, NULL, "bye", 3);
}

TEST(a_handler_may_stop_the_server_and_its_answer_still_comes)
{
    struct served s;
    served_begin(&s, NULL, (struct served_route[]){{"GET /", stops, &s}, {0}});
    struct client c;
    client_open(&c, s.port);
    client_say(&c, REQUEST);
    client_expect_body(&c, 200, "bye");
    CHECK(client_sees_end(&c));
    client_close(&c);
    served_end(&s);
}

enum { LISTENERS = 4 };

struct several {
    weft_http *h;
    int listeners[LISTENERS];
};

struct one_of {
    struct several *all;
    int i;
};

static void *serves_one(void *arg)
{
    struct one_of *one = arg;
    return (void *)(intptr_t)weft_http_serve(one->all->h, one->all->listeners[one->i], WEFT_FOREVER);
}

static void begin_several(struct several *all, weft_sched *sched, weft_fiber **fibers, struct one_of *ones)
{
    CHECK_INT(weft_http_new(&all->h, NULL), ==, 0);
    CHECK_INT(weft_http_route(all->h, "GET /", says_hello, NULL), ==, 0);
    for (int i = 0; i < LISTENERS; i++) {
        weft_attr attr = {.size = sizeof attr, .worker = WEFT_WORKER(i % 2)};
        all->listeners[i] = weft_listen("127.0.0.1:0");
        ones[i] = (struct one_of){all, i};
        CHECK_INT(weft_sched_go(sched, &fibers[i], &attr, serves_one, &ones[i]), ==, 0);
    }
    for (int i = 0; i < LISTENERS; i++)
        CHECK_INT(ask_status(weft_port(all->listeners[i]), REQUEST), ==, 200);
}

/* All calls end at once: exactly one of them, the last, ends what all of them have used. */
static void serve_several(weft_sched *sched)
{
    struct several all;
    struct one_of ones[LISTENERS];
    weft_fiber *fibers[LISTENERS];
    begin_several(&all, sched, fibers, ones);
    CHECK_INT(weft_http_stop(all.h), ==, 0);
    for (int i = 0; i < LISTENERS; i++) {
        void *rc;
        CHECK_INT(weft_join(fibers[i], &rc, WEFT_FOREVER), ==, 0);
        CHECK_INT((intptr_t)rc, ==, 0);
        CHECK_INT(weft_close(all.listeners[i]), ==, 0);
    }
    for (unsigned i = 0; i < all.h->worker_count; i++)
        CHECK_PTR(all.h->workers[i].flusher, ==, NULL);
    CHECK_INT(weft_http_free(all.h), ==, 0);
}

TEST(several_listeners_are_served_and_end_together)
{
    weft_sched *sched;
    weft_sched_opts o = {.size = sizeof o, .threads = 2};
    CHECK_INT(weft_sched_new(&sched, &o), ==, 0);
    CHECK_INT(weft_sched_start(sched), ==, 0);
    for (int i = 0; i < 10 && !test_has_failed(); i++)
        serve_several(sched);
    CHECK_INT(weft_sched_stop(sched, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_sched_free(sched), ==, 0);
}

/* Waits until the first call has left the list, and so ends what it has used. */
static void wait_ending(weft_http *h)
{
    for (bool is_listed = true; is_listed;) {
        wh_lock(&h->lock);
        is_listed = h->servings != NULL;
        weft_mutex_unlock(&h->lock);
    }
}

/* Fills a pipe, so that the writer of a log waits. Returns how many bytes it has. */
static size_t fill(int fd)
{
    static const char bytes[4096];
    size_t size = 0;
    int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    for (ssize_t n; (n = write(fd, bytes, sizeof bytes)) > 0;)
        size += (size_t)n;
    fcntl(fd, F_SETFL, flags);
    return size;
}

static void empty(int fd, size_t size)
{
    char bytes[4096];
    while (size > 0) {
        ssize_t n = read(fd, bytes, size < sizeof bytes ? size : sizeof bytes);
        CHECK_INT(n, >, 0);
        size -= (size_t)n;
    }
}

/* Reads until a line has ended. */
static void wait_line(int fd)
{
    char byte = 0;
    while (byte != '\n' && poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 15000) == 1)
        CHECK_INT(read(fd, &byte, 1), ==, 1);
    CHECK_INT(byte, ==, '\n');
}

/* The end of the first call waits for its log. */
TEST(a_call_that_begins_while_the_last_one_waits_for_its_log_has_a_log_too)
{
    struct served s;
    int ends[2];
    void *rc;
    weft_fiber *first;
    CHECK_INT(pipe2(ends, O_CLOEXEC), ==, 0);
    served_make(&s, NULL, routes);
    CHECK_INT(weft_http_log(s.h, ends[1]), ==, 0);
    served_start(&s, 1);
    size_t size = fill(ends[1]);
    CHECK_INT(ask_status(s.port, REQUEST), ==, 200);
    first = s.server;
    CHECK_INT(weft_cancel(first), ==, 0);
    wait_ending(s.h);
    CHECK_INT(weft_sched_go(s.sched, &s.server, NULL, serves_again, &s), ==, 0);
    empty(ends[0], size);
    CHECK_INT(weft_join(first, &rc, WEFT_FOREVER), ==, 0);
    CHECK_INT((intptr_t)rc, ==, -ECANCELED);
    wait_line(ends[0]);
    CHECK_INT(ask_status(s.port, REQUEST), ==, 200);
    wait_line(ends[0]); /* of the second call, while it serves */
    CHECK(s.h->workers[0].flusher != NULL);
    served_end(&s);
    close(ends[0]);
    close(ends[1]);
}

/* ---- figures ---- */

TEST(figures_are_written_up_to_the_size_that_the_caller_knows)
{
    union {
        weft_http_figures f;
        unsigned char bytes[sizeof(weft_http_figures) + 64];
    } u;
    struct served s;
    served_begin(&s, NULL, routes);
    CHECK_INT(ask_status(s.port, REQUEST), ==, 200);
    CHECK_INT(weft_http_stats(NULL, &u.f), ==, -EINVAL);
    CHECK_INT(weft_http_stats(s.h, NULL), ==, -EINVAL);
    for (size_t size = 0; size <= sizeof u.f + 64; size += 8) {
        size_t known = size < sizeof u.f ? size : sizeof u.f;
        memset(&u, 0xaa, sizeof u);
        u.f.size = size;
        CHECK_INT(weft_http_stats(s.h, &u.f), ==, size == 0 ? -EINVAL : 0);
        CHECK_INT(u.f.size, ==, (long long)known);
        for (size_t i = known > sizeof size ? known : sizeof size; i < sizeof u; i++)
            CHECK_INT(u.bytes[i], ==, 0xaa);
        if (size >= offsetof(weft_http_figures, status))
            CHECK_INT(u.f.requests, ==, 1);
    }
    served_end(&s);
}

TEST(figures_count_what_has_happened)
{
    struct served s;
    served_begin(&s, NULL, routes);
    CHECK_INT(ask_status(s.port, REQUEST), ==, 200);
    CHECK_INT(ask_status(s.port, "GET /none HTTP/1.1\r\nHost: a\r\n\r\n"), ==, 404);
    CHECK_INT(ask_status(s.port, "GET /\r\n\r\n"), ==, 400);
    served_wait_connections(&s, 0);
    weft_http_figures f = served_figures(&s);
    CHECK_INT(f.accepted, ==, 3);
    CHECK_INT(f.refused, ==, 0);
    CHECK_INT(f.requests, ==, 3);
    CHECK_INT(f.status[2], ==, 1);
    CHECK_INT(f.status[4], ==, 2);
    CHECK_INT(f.cut, ==, 0);
    CHECK_INT(f.bytes_in, ==, (long long)(strlen(REQUEST) + strlen("GET /none HTTP/1.1\r\nHost: a\r\n\r\n") + 9));
    CHECK_INT(f.bytes_out, >, 100);
    uint64_t answers = 0;
    for (int i = 0; i < WEFT_HTTP_LATENCIES; i++)
        answers += f.latencies[i];
    CHECK_INT(answers, ==, 3);
    served_end(&s);
}

TESTS(api_serve, serving_says_why_it_fails_and_can_be_tried_again, a_plain_thread_cannot_serve,
      one_scheduler_after_another_may_serve, a_scheduler_that_has_stopped_is_eshutdown,
      a_fiber_that_was_cancelled_does_not_serve, a_cancelled_call_ends_and_the_server_serves_again,
      a_handler_may_stop_the_server_and_its_answer_still_comes, several_listeners_are_served_and_end_together,
      a_call_that_begins_while_the_last_one_waits_for_its_log_has_a_log_too,
      figures_are_written_up_to_the_size_that_the_caller_knows, figures_count_what_has_happened)
