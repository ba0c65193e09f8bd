/*
 * What an attacker's bytes cost: heads that come byte by byte, heads with thousands of fields, chunks of one byte, addresses by the
 * thousand. The cost must be linear: 16 times as many bytes may cost 160 times as much processor time here, and a quadratic cost
 * is 256 times.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "http/address.h"
#include "http/chunk.h"
#include "http/parse.h"
#include "support/test.h"

enum { SMALL = 2000, TIMES = 16, MOST = 10 * TIMES, FIELDS = 10000 };

static int64_t processor_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The least of some measurements of work(size). */
static int64_t cost_of(void (*work)(const void *arg, size_t size), const void *arg, size_t size)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < 7; i++) {
        int64_t begun = processor_time();
        work(arg, size);
        int64_t took = processor_time() - begun;
        least = took < least ? took : least;
    }
    return least;
}

static void check_linear(const char *what, void (*work)(const void *arg, size_t size), const void *arg)
{
    int64_t small = cost_of(work, arg, SMALL), large = cost_of(work, arg, SMALL * TIMES);
    if (large > small * MOST)
        test_failed(__FILE__, __LINE__, "%s: %lld ns, and %lld ns for %d times as many bytes", what, (long long)small,
                    (long long)large, TIMES);
}

/* Where a head is long. */
struct shape {
    const char *name, *begin, *repeated;
};

static size_t build(const struct shape *shape, char *text, size_t size)
{
    size_t at = strlen(shape->begin), part = strlen(shape->repeated);
    memcpy(text, shape->begin, at);
    for (; at + part <= size; at += part)
        memcpy(text + at, shape->repeated, part);
    return at;
}

/* Byte by byte, each with a call of the parser; never complete. */
static void parse_bytes(const void *arg, size_t size)
{
    static struct wh_field fields[FIELDS];
    static char text[SMALL * TIMES];
    struct wh_head head = {.fields = fields, .most_fields = FIELDS, .most_bytes = 1 << 20};
    size_t count = build(arg, text, size);
    int rc = 0;
    wh_head_begin(&head);
    for (size_t n = 1; rc == 0 && n <= count; n++)
        rc = wh_parse_head(&head, text, n);
    if (rc != 0)
        test_failed(__FILE__, __LINE__, "%s: refused by %d", ((const struct shape *)arg)->name, rc);
}

TEST(a_head_that_comes_byte_by_byte_costs_what_its_bytes_cost)
{
    static const struct shape shapes[] = {
        {"a target", "GET /", "a"},
        {"a target with escapes", "GET /", "%41"},
        {"a path of dots", "GET /", "./"},
        {"a query", "GET /?", "a&"},
        {"an absolute target", "GET http://a/", "b"},
        {"a field name", "GET / HTTP/1.1\r\nHost: a\r\n", "n"},
        {"white space", "GET / HTTP/1.1\r\nHost: a\r\nA:", " "},
        {"a value", "GET / HTTP/1.1\r\nHost: a\r\nA: ", "v"},
        {"a value of spaces", "GET / HTTP/1.1\r\nHost: a\r\nA: x", " x"},
        {"a value of bytes above 127", "GET / HTTP/1.1\r\nHost: a\r\nA: ", "\xff"},
        {"a Connection", "GET / HTTP/1.1\r\nHost: a\r\nConnection: ", "a,"},
        {"fields", "GET / HTTP/1.1\r\nHost: a\r\n", "A: b\r\n"},
        {"fields of one prefix", "GET / HTTP/1.1\r\nHost: a\r\n", "Content-Lengti: 1\r\n"},
        {"Connections", "GET / HTTP/1.1\r\nHost: a\r\n", "Connection: a\r\n"},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        check_linear(shapes[i].name, parse_bytes, &shapes[i]);
}

static void take_chunks(const void *arg, size_t size)
{
    static char text[SMALL * TIMES];
    struct wh_chunks chunks = {0};
    size_t count = build(arg, text, size);
    for (size_t at = 0; at < count;) {
        const char *data;
        size_t used = 0;
        ptrdiff_t n = wh_chunks_take(&chunks, text + at, count - at < 7 ? count - at : 7, 1000, &data, &used);
        if (n < 0 || used == 0) {
            test_failed(__FILE__, __LINE__, "%s: %td, %zu used", ((const struct shape *)arg)->name, n, used);
            return;
        }
        at += used;
    }
}

TEST(chunks_of_one_byte_cost_what_their_bytes_cost)
{
    static const struct shape shapes[] = {{"chunks", "1\r\na\r\n", "1\r\nb\r\n"}};
    check_linear(shapes[0].name, take_chunks, &shapes[0]);
}

/* One connection of each address; the addresses differ as an attacker likes, in some bits or others. */
static void enter_addresses(const void *arg, size_t size)
{
    unsigned shift = *(const unsigned *)arg;
    struct wh_addresses *all = wh_addresses_new();
    struct wh_address **entries = calloc(size, sizeof *entries);
    for (size_t i = 0; i < size; i++) {
        struct sockaddr_in from = {.sin_family = AF_INET};
        from.sin_addr.s_addr = (uint32_t)i << shift;
        CHECK_INT(wh_address_enter(all, (struct sockaddr *)&from, sizeof from, 1, &entries[i]), ==, 0);
    }
    for (size_t i = 0; i < size; i++)
        wh_address_leave(all, entries[i]);
    free(entries);
    wh_addresses_free(all);
}

TEST(clients_cannot_choose_addresses_that_share_a_list)
{
    for (unsigned shift = 0; shift <= 16; shift += 8)
        check_linear("addresses", enter_addresses, &shift);
}

TESTS(flood, a_head_that_comes_byte_by_byte_costs_what_its_bytes_cost, chunks_of_one_byte_cost_what_their_bytes_cost,
      clients_cannot_choose_addresses_that_share_a_list)
