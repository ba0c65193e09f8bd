/*
 * Crowds of clients that mean no good, or nothing: slow ones, ones that never read, idle ones, ones that come while serving
 * ends. Others are served meanwhile, and memory stays small.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sanitizer.h"
#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

#if TEST_EMULATED || WF_VALGRIND
enum { SLOW = 30, DEAF = 20, IDLE = 100 };
#else
enum { SLOW = 300, DEAF = 100, IDLE = 1000 };
#endif

/* Resident memory says nothing where a sanitizer or an emulator has its own beside ours. */
#define MEMORY_COUNTS (!WF_ASAN && !WF_TSAN && !WF_VALGRIND && !TEST_EMULATED)

static int timeouts; /* flag, counted: handlers whose clients have not read */

static int floods(weft_exchange *x, void *arg)
{
    static const char bytes[64 * 1024];
    (void)arg;
    int rc = weft_http_begin(x, 200);
    while (rc == 0)
        rc = weft_http_write(x, bytes, sizeof bytes);
    CHECK_INT(rc, ==, -ETIMEDOUT);
    __atomic_add_fetch(&timeouts, 1, __ATOMIC_ACQ_REL);
    return rc;
}

/* Uses some pages of its stack. */
static int digs(weft_exchange *x, void *arg)
{
    volatile char deep[12 * 1024];
    for (size_t i = 0; i < sizeof deep; i += 512)
        deep[i] = 1;
    return says_hello(x, arg);
}

static const struct served_route routes[] = {
    {"GET /", says_hello, NULL}, {"GET /dig", digs, NULL}, {"GET /flood", floods, NULL}, {0}};

static struct client clients[IDLE];

static void check_healthy(const struct served *s)
{
    CHECK_INT(ask_status(s->port, GET("/")), ==, 200);
}

TEST(clients_that_send_byte_by_byte_are_ended_and_others_are_served)
{
    struct served s;
    bool is_over[SLOW] = {false};
    int over = 0;
    served_begin(&s, &(weft_http_opts){.head_time = 500 * WEFT_MS}, routes);
    for (int i = 0; i < SLOW; i++) {
        client_open(&clients[i], s.port);
        client_say(&clients[i], "GET /");
    }
    for (int round = 0; over < SLOW && round < 6000; round++) {
        for (int i = 0; i < SLOW; i++) {
            char byte;
            bool is_answered = recv(clients[i].fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
            if (!is_over[i] && (is_answered || send(clients[i].fd, "x", 1, MSG_NOSIGNAL) != 1)) {
                client_expect(&clients[i], 408);
                is_over[i] = true;
                over++;
            }
        }
        check_healthy(&s);
        usleep(10000);
    }
    CHECK_INT(over, ==, SLOW);
    for (int i = 0; i < SLOW; i++)
        client_close(&clients[i]);
    served_end(&s);
}

TEST(clients_that_never_read_are_ended_and_cost_little)
{
    struct served s;
    timeouts = 0;
    served_begin(&s, &(weft_http_opts){.write_time = 500 * WEFT_MS}, routes);
    check_healthy(&s);
    size_t before = test_memory();
    for (int i = 0; i < DEAF; i++) {
        client_open_small(&clients[i], s.port, 4096);
        client_say(&clients[i], GET("/flood"));
    }
    while (served_figures(&s).accepted < DEAF + 1) /* the first ones may have ended */
        usleep(200);
    check_healthy(&s);
    size_t more = test_memory() - before;
    if (MEMORY_COUNTS)
        CHECK_INT(more, <, DEAF * (size_t)64 * 1024);
    wait_for_flag(&timeouts, DEAF);
    served_wait_connections(&s, 0);
    CHECK_INT(served_figures(&s).cut, ==, DEAF);
    for (int i = 0; i < DEAF; i++)
        client_close(&clients[i]);
    served_end(&s);
}

static void wait_idle(const struct served *s, unsigned count)
{
    for (int i = 0; i < 60000 && served_figures(s).idle != count; i++)
        usleep(1000);
    CHECK_INT(served_figures(s).idle, ==, count);
}

/* Their buffers and the pages of their stacks go back; when a request comes, they are there again. */
TEST(idle_connections_give_back_their_memory)
{
    struct served s;
    served_begin(&s, NULL, routes);
    check_healthy(&s);
    size_t before = test_memory();
    for (int i = 0; i < IDLE; i++) {
        client_open(&clients[i], s.port);
        client_say(&clients[i], GET("/dig"));
        client_expect(&clients[i], 200);
        free(clients[i].bytes); /* the client's own memory does not count */
        clients[i] = (struct client){.fd = clients[i].fd};
    }
    wait_idle(&s, IDLE);
    size_t each = (test_memory() - before) / IDLE;
    printf("%zu bytes for each idle connection\n", each);
    if (MEMORY_COUNTS)
        CHECK_INT(each, <, 6500);
    for (int i = 0; i < IDLE; i++)
        client_say(&clients[i], GET("/"));
    for (int i = 0; i < IDLE; i++)
        client_expect_body(&clients[i], 200, "hello\n");
    CHECK_INT(served_figures(&s).idle, ==, 0);
    for (int i = 0; i < IDLE; i++)
        client_close(&clients[i]);
    served_end(&s);
}

/* ---- an end in the midst of a crowd ---- */

struct comer {
    int port;
    int *over; /* flag */
    unsigned answered, ended;
};

/* Connects and asks, until it is told to end. Each connection gets its answer, or an end. */
static void *comes(void *arg)
{
    struct comer *me = arg;
    while (!__atomic_load_n(me->over, __ATOMIC_ACQUIRE)) {
        struct client c;
        struct answer a;
        if (!client_try_open(&c, me->port)) {
            CHECK(__atomic_load_n(me->over, __ATOMIC_ACQUIRE)); /* the listener is closed after that */
            break;
        }
        client_say(&c, GET("/") GET("/"));
        const char *wrong = client_answer(&c, &a, false);
        CHECK(!wrong || !strcmp(wrong, "end") || !strcmp(wrong, "error"));
        CHECK(wrong || a.status == 200);
        wrong ? me->ended++ : me->answered++;
        answer_free(&a);
        client_close(&c);
    }
    return NULL;
}

TEST(serving_ends_while_clients_come_in_a_loop)
{
    enum { COMERS = 4 };
    struct comer comers[COMERS];
    pthread_t threads[COMERS];
    struct served s;
    int over = 0;
    served_make(&s, NULL, routes);
    served_start(&s, 2);
    for (int i = 0; i < COMERS; i++) {
        comers[i] = (struct comer){.port = s.port, .over = &over};
        CHECK_INT(pthread_create(&threads[i], NULL, comes, &comers[i]), ==, 0);
    }
    while (served_figures(&s).requests < 200)
        usleep(1000);
    void *rc = NULL;
    CHECK_INT(weft_http_stop(s.h), ==, 0);
    CHECK_INT(weft_join(s.server, &rc, weft_in(60 * WEFT_SEC)), ==, 0);
    CHECK_INT((intptr_t)rc, ==, 0);
    CHECK_INT(served_figures(&s).connections, ==, 0);
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    CHECK_INT(weft_close(s.listener), ==, 0); /* what waits in its queue is reset */
    unsigned answered = 0;
    for (int i = 0; i < COMERS; i++) {
        pthread_join(threads[i], NULL);
        answered += comers[i].answered;
    }
    CHECK_INT(answered, >, 0);
    CHECK_INT(weft_sched_stop(s.sched, weft_in(60 * WEFT_SEC)), ==, 0);
    CHECK_INT(weft_sched_free(s.sched), ==, 0);
    CHECK_INT(weft_http_free(s.h), ==, 0);
    CHECK_INT(count_descriptors(), ==, s.descriptors);
}

/* Another scheduler has accepted it, and its fiber begins after serving has ended. */
static int hogs_until_the_end(weft_exchange *x, void *arg)
{
    (void)arg;
    CHECK(weft_http_scope(x) != NULL);
    __atomic_add_fetch(&timeouts, 1, __ATOMIC_ACQ_REL);
    while (!weft_stopping())
        ;
    return weft_http_reply(x, 200, NULL, "hog", 3);
}

TEST(a_request_that_came_before_the_end_is_answered_though_its_fiber_begins_later)
{
    static const struct served_route its_routes[] = {
        {"GET /", says_hello, NULL}, {"GET /hog", hogs_until_the_end, NULL}, {0}};
    struct served s;
    struct client hog, c;
    struct answer a;
    weft_http_opts opts = {0};
    weft_sched_figures f = {.size = sizeof f};
    int descriptors = count_descriptors();
    timeouts = 0;
    CHECK_INT(weft_sched_new(&opts.on, &(weft_sched_opts){.size = sizeof(weft_sched_opts), .threads = 1}), ==, 0);
    CHECK_INT(weft_sched_start(opts.on), ==, 0);
    served_make(&s, &opts, its_routes);
    s.on = opts.on;
    s.descriptors = descriptors;
    served_start(&s, 1);
    client_open(&hog, s.port);
    client_say(&hog, GET("/hog"));
    wait_for_flag(&timeouts, 1);
    CHECK_INT(weft_sched_stats(s.on, &f), ==, 0);
    uint64_t spawned = f.spawned;
    client_open(&c, s.port);
    client_say(&c, GET("/"));
    while (f.spawned == spawned) {
        usleep(200);
        CHECK_INT(weft_sched_stats(s.on, &f), ==, 0);
    }
    CHECK_INT(weft_http_stop(s.h), ==, 0);
    client_expect_body(&hog, 200, "hog");
    CHECK_PTR(client_answer(&c, &a, false), ==, NULL);
    CHECK_INT(a.status, ==, 200);
    const char *said = answer_field(&a, "Connection");
    CHECK_STR(said ? said : "", "close");
    answer_free(&a);
    client_close(&hog);
    client_close(&c);
    served_end(&s);
}

TESTS(crowd, clients_that_send_byte_by_byte_are_ended_and_others_are_served,
      clients_that_never_read_are_ended_and_cost_little, idle_connections_give_back_their_memory,
      serving_ends_while_clients_come_in_a_loop,
      a_request_that_came_before_the_end_is_answered_though_its_fiber_begins_later)
