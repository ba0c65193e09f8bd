/*
 * Stops, deadlines and cancels that meet the beginning of weft_http_serve; and servers that serve again.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

enum { ROUNDS = TEST_EMULATED ? 50 : 1000 };

struct call {
    weft_http *h;
    int listener, rc;
    weft_time deadline;
    weft_fiber *fiber;
};

static void *serves(void *arg)
{
    struct call *call = arg;
    call->rc = weft_http_serve(call->h, call->listener, call->deadline);
    return NULL;
}

static weft_http *new_server(const weft_http_opts *opts)
{
    weft_http *h = NULL;
    CHECK_INT(weft_http_new(&h, opts), ==, 0);
    CHECK_INT(weft_http_route(h, "GET /", says_hello, NULL), ==, 0);
    return h;
}

static weft_sched *new_sched(unsigned workers)
{
    weft_sched *sched = NULL;
    CHECK_INT(weft_sched_new(&sched, &(weft_sched_opts){.size = sizeof(weft_sched_opts), .threads = workers}), ==, 0);
    CHECK_INT(weft_sched_start(sched), ==, 0);
    return sched;
}

static void end_sched(weft_sched *sched)
{
    CHECK_INT(weft_sched_stop(sched, weft_in(60 * WEFT_SEC)), ==, 0);
    CHECK_INT(weft_sched_free(sched), ==, 0);
}

static void start(weft_sched *sched, struct call *call)
{
    CHECK_INT(weft_sched_go(sched, &call->fiber, NULL, serves, call), ==, 0);
}

/* Waits until it has returned: what it has returned. */
static int end(struct call *call)
{
    CHECK_INT(weft_join(call->fiber, NULL, weft_in(60 * WEFT_SEC)), ==, 0);
    return call->rc;
}

static bool is_served(int listener)
{
    return ask_status(weft_port(listener), GET) == 200;
}

TEST(a_stop_before_serve_makes_it_eshutdown)
{
    weft_sched *sched = new_sched(1);
    struct call call = {.h = new_server(NULL), .listener = weft_listen("127.0.0.1:0"), .deadline = WEFT_FOREVER};
    CHECK_INT(weft_http_stop(call.h), ==, 0);
    CHECK_INT(weft_http_stop(call.h), ==, 0);
    start(sched, &call);
    CHECK_INT(end(&call), ==, -ESHUTDOWN);
    CHECK_INT(weft_http_free(call.h), ==, 0);
    weft_close(call.listener);
    end_sched(sched);
}

/* Meanwhile the descriptors of this thread come and go: no other file is taken for the listener. */
TEST(a_stop_at_the_start_of_serve_is_not_lost)
{
    weft_sched *sched = new_sched(2);
    uint64_t random = test_seed();
    int listener = weft_listen("127.0.0.1:0");
    for (int i = 0; i < ROUNDS; i++) {
        struct call call = {.h = new_server(NULL), .listener = listener, .deadline = WEFT_FOREVER};
        start(sched, &call);
        for (uint64_t n = test_random(&random) % (1u << (10 + i % 9)); n > 0; n--)
            __asm__ volatile("" ::: "memory"); /* at any moment of its start */
        CHECK_INT(weft_http_stop(call.h), ==, 0);
        int other = weft_listen("127.0.0.1:0");
        int rc = end(&call);
        CHECK(rc == 0 || rc == -ESHUTDOWN);
        weft_close(other);
        CHECK_INT(weft_http_free(call.h), ==, 0);
        if (test_has_failed())
            break;
    }
    weft_close(listener);
    end_sched(sched);
}

TEST(a_deadline_that_has_passed_ends_serving)
{
    weft_sched *sched = new_sched(1);
    struct call call = {.h = new_server(NULL), .listener = weft_listen("127.0.0.1:0"), .deadline = weft_in(-WEFT_SEC)};
    start(sched, &call);
    CHECK_INT(end(&call), ==, 0);
    call.deadline = WEFT_NOW;
    start(sched, &call);
    CHECK_INT(end(&call), ==, -EAGAIN);
    CHECK_INT(weft_http_free(call.h), ==, 0);
    weft_close(call.listener);
    end_sched(sched);
}

TEST(a_server_serves_again_after_its_deadline)
{
    weft_sched *sched = new_sched(1);
    struct call call = {.h = new_server(NULL), .listener = weft_listen("127.0.0.1:0")};
    for (int i = 0; i < 5; i++) {
        call.deadline = weft_in(20 * WEFT_MS);
        start(sched, &call);
        CHECK_INT(end(&call), ==, 0);
        CHECK(weft_now().ns >= call.deadline.ns);
    }
    call.deadline = WEFT_FOREVER;
    start(sched, &call);
    CHECK(is_served(call.listener));
    weft_http_stop(call.h);
    CHECK_INT(end(&call), ==, 0);
    CHECK_INT(weft_http_free(call.h), ==, 0);
    weft_close(call.listener);
    end_sched(sched);
}

TEST(a_cancel_of_the_serving_fiber_ends_it)
{
    weft_sched *sched = new_sched(1);
    struct call call = {.h = new_server(NULL), .listener = weft_listen("127.0.0.1:0"), .deadline = WEFT_FOREVER};
    start(sched, &call);
    CHECK(is_served(call.listener));
    weft_cancel(call.fiber);
    CHECK_INT(end(&call), ==, -ECANCELED);
    start(sched, &call); /* and it serves again */
    CHECK(is_served(call.listener));
    weft_cancel(call.fiber);
    CHECK_INT(end(&call), ==, -ECANCELED);
    start(sched, &call);
    weft_cancel(call.fiber); /* at any moment of its start */
    CHECK_INT(end(&call), ==, -ECANCELED);
    CHECK_INT(weft_http_free(call.h), ==, 0);
    weft_close(call.listener);
    end_sched(sched);
}

/* Schedulers of several sizes after each other: each worker has its share of the server. */
TEST(a_server_serves_on_one_scheduler_after_another)
{
    static const unsigned workers[] = {1, 4, 2, 3};
    int listener = weft_listen("127.0.0.1:0");
    weft_http *h = new_server(NULL);
    weft_http_figures f = {.size = sizeof f};
    for (unsigned i = 0; i < sizeof workers / sizeof workers[0]; i++) {
        weft_sched *sched = new_sched(workers[i]);
        struct call call = {.h = h, .listener = listener, .deadline = WEFT_FOREVER};
        struct client clients[8];
        start(sched, &call);
        for (int k = 0; k < 8; k++) {
            client_open(&clients[k], weft_port(listener));
            client_say(&clients[k], GET);
        }
        for (int k = 0; k < 8; k++) {
            client_expect(&clients[k], 200);
            client_close(&clients[k]);
        }
        weft_cancel(call.fiber);
        CHECK_INT(end(&call), ==, -ECANCELED);
        end_sched(sched);
        CHECK_INT(weft_http_stats(h, &f), ==, 0);
        CHECK_INT(f.requests, ==, 8 * (i + 1));
        CHECK_INT(f.connections, ==, 0);
    }
    CHECK_INT(weft_http_free(h), ==, 0);
    weft_close(listener);
}

TEST(a_second_scheduler_at_the_same_time_is_ebusy)
{
    weft_sched *one = new_sched(1), *two = new_sched(1);
    weft_http *h = new_server(NULL);
    struct call first = {.h = h, .listener = weft_listen("127.0.0.1:0"), .deadline = WEFT_FOREVER}, second = first;
    start(one, &first);
    CHECK(is_served(first.listener));
    start(two, &second);
    CHECK_INT(end(&second), ==, -EBUSY);
    CHECK(is_served(first.listener));
    weft_http_stop(h);
    CHECK_INT(end(&first), ==, 0);
    CHECK_INT(weft_http_free(h), ==, 0);
    weft_close(first.listener);
    end_sched(one);
    end_sched(two);
}

/* The last call ends what all calls need while another one begins: that one has it too. The log shows whether. */
TEST(a_call_that_begins_while_the_last_one_ends_has_a_log)
{
    weft_sched *sched = new_sched(2);
    int log[2], first = weft_listen("127.0.0.1:0"), second = weft_listen("127.0.0.1:0");
    char line[4096];
    CHECK_INT(pipe(log), ==, 0);
    weft_http *h = new_server(NULL);
    CHECK_INT(weft_http_log(h, log[1]), ==, 0);
    struct call calls[2] = {{.h = h, .listener = first}, {.h = h, .listener = second}};
    calls[1].deadline = WEFT_FOREVER;
    uint64_t random = test_seed();
    for (int i = 0; i < ROUNDS / 25; i++) {
        calls[0].deadline = weft_in((weft_span)(test_random(&random) % 300) * WEFT_US);
        start(sched, &calls[0]);
        weft_sleep_until(calls[0].deadline);
        for (uint64_t n = test_random(&random) % 20000; n > 0; n--)
            __asm__ volatile("" ::: "memory");
        start(sched, &calls[1]);
        CHECK_INT(end(&calls[0]), ==, 0);
        CHECK(is_served(second));
        weft_cancel(calls[1].fiber);
        CHECK_INT(end(&calls[1]), ==, -ECANCELED);
        CHECK_INT(read(log[0], line, sizeof line), >, 0); /* it was written at the end at the latest */
    }
    CHECK_INT(weft_http_free(h), ==, 0);
    weft_close(first);
    weft_close(second);
    close(log[0]);
    close(log[1]);
    end_sched(sched);
}

/* As clean-up does whose time is over: it cannot wait any more. */
static void *serves_in_a_shield_that_is_over(void *arg)
{
    CHECK_INT(weft_shield_begin(WEFT_NOW), ==, 0);
    serves(arg);
    weft_shield_end();
    return NULL;
}

static void check_ends(weft_http *h, int listener)
{
    weft_sched *sched = new_sched(1);
    struct call call = {.h = h, .listener = listener, .deadline = WEFT_FOREVER};
    CHECK_INT(weft_sched_go(sched, &call.fiber, NULL, serves_in_a_shield_that_is_over, &call), ==, 0);
    CHECK(is_served(listener));
    weft_cancel(call.fiber);
    CHECK_INT(end(&call), ==, -ECANCELED);
    end_sched(sched);
}

TEST(a_cancelled_call_that_cannot_wait_ends_too)
{
    int log[2], listener = weft_listen("127.0.0.1:0");
    char line[4096];
    CHECK_INT(pipe(log), ==, 0);
    weft_http *h = new_server(NULL);
    check_ends(h, listener);
    CHECK_INT(weft_http_log(h, log[1]), ==, 0);
    check_ends(h, listener);
    CHECK_INT(read(log[0], line, sizeof line), >, 0);
    CHECK_INT(weft_http_free(h), ==, 0);
    weft_close(listener);
    close(log[0]);
    close(log[1]);
}

/* With `on`, calls on several schedulers may serve at a time. What they share must not run on one of these. */
TEST(the_scheduler_of_a_call_can_end_while_another_call_serves)
{
    weft_sched *on = new_sched(1), *one = new_sched(1), *two = new_sched(1);
    int log[2];
    CHECK_INT(pipe(log), ==, 0);
    weft_http *h = new_server(&(weft_http_opts){.on = on});
    CHECK_INT(weft_http_log(h, log[1]), ==, 0);
    struct call first = {.h = h, .listener = weft_listen("127.0.0.1:0"), .deadline = WEFT_FOREVER}, second = first;
    second.listener = weft_listen("127.0.0.1:0");
    start(one, &first);
    CHECK(is_served(first.listener));
    start(two, &second);
    CHECK(is_served(second.listener));
    weft_cancel(first.fiber);
    CHECK_INT(end(&first), ==, -ECANCELED);
    weft_time before = weft_now();
    end_sched(one);
    CHECK_INT(weft_now().ns - before.ns, <, 30 * WEFT_SEC);
    CHECK(is_served(second.listener));
    weft_http_stop(h);
    CHECK_INT(end(&second), ==, 0);
    end_sched(two);
    end_sched(on);
    CHECK_INT(weft_http_free(h), ==, 0);
    weft_close(first.listener);
    weft_close(second.listener);
    close(log[0]);
    close(log[1]);
}

TESTS(stop_race, a_stop_before_serve_makes_it_eshutdown, a_stop_at_the_start_of_serve_is_not_lost,
      a_deadline_that_has_passed_ends_serving, a_server_serves_again_after_its_deadline,
      a_cancel_of_the_serving_fiber_ends_it, a_server_serves_on_one_scheduler_after_another,
      a_second_scheduler_at_the_same_time_is_ebusy, a_call_that_begins_while_the_last_one_ends_has_a_log,
      a_cancelled_call_that_cannot_wait_ends_too, the_scheduler_of_a_call_can_end_while_another_call_serves)
