/*
 * Connections in all and for each address: those above the limits are refused, and places come back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
#define GET_LAST "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

static const struct served_route routes[] = {{"GET /", says_hello, NULL}, {0}};

/* It is served, and stays. */
static void stay(struct client *c)
{
    client_say(c, GET);
    client_expect_body(c, 200, "hello\n");
}

static void check_refused(struct client *c, bool says_why)
{
    struct answer a;
    if (says_why) {
        CHECK_PTR(client_answer(c, &a, false), ==, NULL);
        CHECK_INT(a.status, ==, 503);
        CHECK(answer_field(&a, "Retry-After"));
        CHECK_STR(answer_field(&a, "Connection"), "close");
        answer_free(&a);
    }
    CHECK_INT(client_drain(c), ==, 0);
    client_close(c);
}

/* Until a place is free: the server learns of a close a moment later. */
static void get_in(struct client *c, int port, const char *from)
{
    for (int tries = 0; tries < 60000; tries++) {
        struct answer a;
        client_open_from(c, port, from);
        client_say(c, GET);
        const char *wrong = client_answer(c, &a, false);
        int status = wrong ? 0 : a.status;
        answer_free(&a);
        if (status == 200)
            return;
        client_close(c);
        usleep(1000);
    }
    CHECK(!"a place");
    client_open_from(c, port, from);
}

static void check_max_conns(int busy)
{
    struct served s;
    struct client in[3], out;
    served_begin(&s, &(weft_http_opts){.max_conns = 3, .busy = busy}, routes);
    for (int i = 0; i < 3; i++) {
        client_open(&in[i], s.port);
        stay(&in[i]);
    }
    for (int i = 0; i < 5; i++) {
        client_open(&out, s.port);
        check_refused(&out, busy == WEFT_HTTP_BUSY_503);
    }
    CHECK_INT(served_figures(&s).refused, ==, 5);
    CHECK_INT(served_figures(&s).accepted, ==, 8);
    CHECK_INT(served_figures(&s).connections, ==, 3);
    stay(&in[1]);
    client_close(&in[1]);
    get_in(&in[1], s.port, "127.0.0.1");
    for (int i = 0; i < 3; i++)
        client_close(&in[i]);
    served_end(&s);
}

TEST(connections_above_max_conns_get_503_and_retry_after)
{
    check_max_conns(WEFT_HTTP_BUSY_503);
}

TEST(connections_above_max_conns_are_closed_if_so_configured)
{
    check_max_conns(WEFT_HTTP_BUSY_CLOSE);
}

TEST(an_address_that_is_full_leaves_places_to_others)
{
    for (int busy = WEFT_HTTP_BUSY_503; busy <= WEFT_HTTP_BUSY_CLOSE; busy++) {
        struct served s;
        struct client one[2], other, out;
        served_begin(&s, &(weft_http_opts){.max_per_address = 2, .busy = busy}, routes);
        for (int i = 0; i < 2; i++) {
            client_open(&one[i], s.port);
            stay(&one[i]);
        }
        client_open(&out, s.port);
        check_refused(&out, busy == WEFT_HTTP_BUSY_503);
        client_open_from(&other, s.port, "127.0.0.2");
        stay(&other);
        CHECK_INT(served_figures(&s).refused, ==, 1);
        client_abort(&one[0]);
        get_in(&one[0], s.port, "127.0.0.1");
        stay(&one[1]);
        client_close(&one[0]);
        client_close(&one[1]);
        client_close(&other);
        served_end(&s);
    }
}

/* A client that was refused and neither reads nor closes has its connection for a while. */
TEST(refused_clients_of_one_address_do_not_hold_the_places_of_others)
{
    enum { PLACES = 40, FLOOD = 120 };
    struct served s;
    struct client in, other, flood[FLOOD];
    served_begin(&s, &(weft_http_opts){.max_conns = PLACES, .max_per_address = 1}, routes);
    client_open(&in, s.port);
    stay(&in);
    for (int i = 0; i < FLOOD; i++)
        client_open(&flood[i], s.port);
    while (served_figures(&s).refused < FLOOD)
        usleep(200);
    client_open_from(&other, s.port, "127.0.0.2");
    stay(&other);
    CHECK_INT(served_figures(&s).refused, ==, FLOOD);
    for (int i = 0; i < FLOOD; i++)
        client_close(&flood[i]);
    client_close(&in);
    client_close(&other);
    served_end(&s);
}

TEST(places_are_given_back_under_churn)
{
    enum { ROUNDS = TEST_EMULATED ? 50 : 500 };
    struct served s;
    struct client c;
    served_make(&s, &(weft_http_opts){.max_conns = 8, .max_per_address = 4}, routes);
    served_start(&s, 2);
    uint64_t random = test_seed();
    for (int i = 0; i < ROUNDS; i++) {
        client_open(&c, s.port);
        switch (test_random(&random) % 4) {
        case 0:
            client_abort(&c);
            break;
        case 1:
            client_say(&c, GET);
            client_abort(&c);
            break;
        case 2:
            client_say(&c, "GET / HT");
            client_end(&c);
            client_drain(&c);
            client_close(&c);
            break;
        default:
            client_say(&c, GET_LAST);
            client_drain(&c);
            client_close(&c);
        }
    }
    served_wait_connections(&s, 0);
    struct client all[4];
    for (int i = 0; i < 4; i++)
        get_in(&all[i], s.port, "127.0.0.1");
    client_open(&c, s.port);
    check_refused(&c, true);
    for (int i = 0; i < 4; i++)
        client_close(&all[i]);
    served_end(&s);
}

/* One address for the machine's own connections; another family is another address. */
TEST(ipv6_connections_count_by_their_network)
{
    struct served s;
    struct client one, two;
    char address[32];
    int probe = weft_listen("[::1]:0");
    if (probe < 0)
        SKIP("no ::1");
    weft_close(probe);
    served_make(&s, &(weft_http_opts){.max_per_address = 1}, routes);
    served_start_with(&s, "[::1]:0", &(weft_sched_opts){.size = sizeof(weft_sched_opts), .threads = 1});
    snprintf(address, sizeof address, "[::1]:%d", s.port);
    client_open_at(&one, address);
    stay(&one);
    client_open_at(&two, address);
    check_refused(&two, true);
    client_close(&one);
    served_end(&s);
}

TEST(unix_connections_do_not_count_by_address)
{
    struct served s;
    struct client in[5], out;
    char address[64];
    snprintf(address, sizeof address, "unix:@weft-places-%d", getpid());
    served_make(&s, &(weft_http_opts){.max_per_address = 1, .max_conns = 5}, routes);
    served_start_with(&s, address, &(weft_sched_opts){.size = sizeof(weft_sched_opts), .threads = 1});
    for (int i = 0; i < 5; i++) {
        client_open_at(&in[i], address);
        stay(&in[i]);
    }
    client_open_at(&out, address);
    check_refused(&out, true);
    for (int i = 0; i < 5; i++)
        client_close(&in[i]);
    served_end(&s);
}

TESTS(places, connections_above_max_conns_get_503_and_retry_after,
      connections_above_max_conns_are_closed_if_so_configured, an_address_that_is_full_leaves_places_to_others,
      refused_clients_of_one_address_do_not_hold_the_places_of_others, places_are_given_back_under_churn,
      ipv6_connections_count_by_their_network, unix_connections_do_not_count_by_address)
