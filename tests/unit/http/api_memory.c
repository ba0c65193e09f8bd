/*
 * The calls that set a server up, without memory: at each of their allocations they fail with -ENOMEM, leave everything as
 * it was, and succeed the next time. Then requests without memory: each fails alone.
 */
#include <errno.h>

#include <weft/weft.h>

#include "http/memory.h"
#include "unit/http/client.h"
#include "unit/http/files_ground.h"
#include "unit/http/served.h"

enum { MOST_ALLOCATIONS = 100 };

static int make_server(weft_http **h, void *arg)
{
    weft_http *none = (weft_http *)&none;
    (void)arg;
    *h = none;
    int rc = weft_http_new(h, &(weft_http_opts){.size = sizeof(weft_http_opts), .server = "weft"});
    CHECK((rc == 0) == (*h != none));
    return rc;
}

static int add_route(weft_http **h, void *arg)
{
    (void)arg;
    return weft_http_route(*h, "COPY /a/{b}/c/{d...}", says_hello, NULL);
}

static int add_layer(weft_http **h, void *arg)
{
    (void)arg;
    return weft_http_use(*h, weft_http_give_id, NULL);
}

static int add_log(weft_http **h, void *arg)
{
    (void)arg;
    return weft_http_log(*h, STDERR_FILENO);
}

static int add_files(weft_http **h, void *arg)
{
    const struct ground *g = arg;
    int before = descriptors();
    int rc = weft_http_files(*h, "/files/", absolute(g, "site"), NULL);
    CHECK_INT(descriptors(), ==, before + (rc == 0));
    return rc;
}

/* Makes each allocation of a call fail in turn, until it has succeeded without one. Returns how many failed. */
static unsigned starve(int (*call)(weft_http **, void *), weft_http **h, void *arg)
{
    for (unsigned nth = 1; nth < MOST_ALLOCATIONS; nth++) {
        wh_alloc_fail_at(nth);
        int rc = call(h, arg);
        wh_alloc_fail_at(0);
        if (rc == 0)
            return nth - 1;
        CHECK_INT(rc, ==, -ENOMEM);
    }
    return 0;
}

TEST(without_memory_each_call_is_enomem_and_can_be_made_again)
{
    weft_http *h;
    struct ground g;
    ground_begin(&g);
    CHECK_INT(starve(make_server, &h, NULL), >=, 4);
    CHECK_INT(starve(add_route, &h, NULL), >=, 4);
    CHECK_INT(add_route(&h, NULL), ==, -EEXIST);
    CHECK_INT(starve(add_layer, &h, NULL), >=, 1);
    CHECK_INT(starve(add_layer, &h, NULL), >=, 1);
    CHECK_INT(starve(add_log, &h, NULL), >=, 2);
    CHECK_INT(add_log(&h, NULL), ==, -EALREADY);
    CHECK_INT(starve(add_files, &h, &g), >=, 5);
    CHECK_INT(weft_http_files(h, "/files/", absolute(&g, "site"), NULL), ==, -EEXIST);
    CHECK_INT(weft_http_free(h), ==, 0);
    ground_end(&g);
}

static void *serves_without_memory(void *arg)
{
    weft_http *h = arg;
    int listener = weft_listen("127.0.0.1:0");
    CHECK_INT(listener, >=, 0);
    unsigned nth = 1;
    for (; nth < MOST_ALLOCATIONS; nth++) {
        wh_alloc_fail_at(nth);
        int rc = weft_http_serve(h, listener, weft_in(0));
        wh_alloc_fail_at(0);
        if (rc == 0)
            break;
        CHECK_INT(rc, ==, -ENOMEM);
    }
    CHECK_INT(nth, >, 1);
    CHECK_INT(weft_close(listener), ==, 0);
    return NULL;
}

TEST(without_memory_serving_is_enomem_and_can_be_tried_again)
{
    weft_http *h;
    void *value;
    CHECK_INT(weft_http_new(&h, NULL), ==, 0);
    CHECK_INT(weft_run(serves_without_memory, h, &value, NULL), ==, 0);
    CHECK_INT(weft_http_free(h), ==, 0);
}

/* Uses what allocates: a long value of the query, many fields, and the id. */
static int uses_memory(weft_exchange *x, void *arg)
{
    char value[600];
    (void)arg;
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    if (!weft_http_query(x, "long") || !weft_http_alloc(x, 3000))
        return -EAGAIN;
    for (int i = 0; i < 5; i++) {
        int rc = weft_http_add_header(x, "X-Value", value);
        if (rc != 0)
            return rc;
    }
    return weft_http_reply(x, 200, NULL, "fine", 4);
}

static const struct served_route routes[] = {{"GET /", uses_memory, NULL}, {0}};

/* What fails alone is the request, by 500 or 503, or its connection. */
TEST(without_memory_one_request_fails_and_the_next_one_is_served)
{
    enum { LONG = 2000, ALLOCATIONS = 16 };
    struct served s;
    char request[LONG + 100], *at = stpcpy(request, "GET /?long=");
    unsigned failed = 0;
    memset(at, 'x', LONG);
    strcpy(at + LONG, " HTTP/1.1\r\nHost: a\r\n\r\n");
    served_make(&s, NULL, routes);
    CHECK_INT(weft_http_use(s.h, weft_http_give_id, NULL), ==, 0);
    served_start(&s, 1);
    CHECK_INT(ask_status(s.port, request), ==, 200);
    for (unsigned nth = 1; nth <= ALLOCATIONS; nth++) {
        wh_alloc_fail_at(nth);
        int status = ask_status(s.port, request);
        wh_alloc_fail_at(0);
        CHECK(status == 0 || status == 200 || status == 500 || status == 503);
        failed += status != 200;
        CHECK_INT(ask_status(s.port, request), ==, 200);
    }
    CHECK_INT(failed, >=, 4);
    CHECK_INT(failed, <, ALLOCATIONS);
    served_end(&s);
}

TESTS(api_memory, without_memory_each_call_is_enomem_and_can_be_made_again,
      without_memory_serving_is_enomem_and_can_be_tried_again,
      without_memory_one_request_fails_and_the_next_one_is_served)
