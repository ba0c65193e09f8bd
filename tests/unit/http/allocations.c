/*
 * The memory that requests take from the system: none, once the server has served some like them. What a burst has
 * needed goes back.
 *
 * What nobody has used for a second goes back, and is taken again when it is needed. So on a machine that stops for so
 * long there are allocations: only rounds that were quick enough count.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/sanitizer.h"
#include "base/sys.h"
#include "http/memory.h"
#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n"
#define HELLO GET("/") "\r\n"

#if TEST_EMULATED || WF_VALGRIND
enum { CROWD = 70, QUICK_ROUNDS = 3 };
#else
enum { CROWD = 150, QUICK_ROUNDS = 10 };
#endif

enum { PATIENCE = 60 /* seconds */, BLOCK_LEAST = 16 * 1024, SLAB = 64 * 1024 };

static weft_event gate; /* handlers of /wait end when it is set */
static int waiting;     /* flag, counted: handlers that have begun to wait */

static int waits(weft_exchange *x, void *arg)
{
    __atomic_add_fetch(&waiting, 1, __ATOMIC_ACQ_REL);
    int rc = weft_event_wait(&gate, WEFT_FOREVER);
    return rc != 0 ? rc : says_hello(x, arg);
}

static int says_params(weft_exchange *x, void *arg)
{
    char text[64];
    (void)arg;
    int size = snprintf(text, sizeof text, "%s %s", weft_http_param(x, "user"), weft_http_param(x, "post"));
    return weft_http_reply(x, 200, "text/plain", text, (size_t)size);
}

static const struct served_route routes[] = {{"GET /", says_hello, NULL},
                                             {"GET /wait", waits, NULL},
                                             {"GET /users/{user}/posts/{post}", says_params, NULL},
                                             {"POST /echo", echoes, NULL},
                                             {"POST /unread", says_hello, NULL},
                                             {0}};

/* A server with everything that is usual: ids, an access log. */
struct site {
    struct served s;
    weft_stacks *shared;
    int log;
};

static void site_begin(struct site *site, bool is_shared)
{
    *site = (struct site){.log = open("/dev/null", O_WRONLY | O_CLOEXEC)};
    CHECK_INT(site->log, >=, 0);
    if (is_shared)
        CHECK_INT(weft_stacks_new(&site->shared, 4, 0), ==, 0);
    served_make(&site->s, &(weft_http_opts){.shared = site->shared}, routes);
    CHECK_INT(weft_http_use(site->s.h, weft_http_give_id, NULL), ==, 0);
    CHECK_INT(weft_http_log(site->s.h, site->log), ==, 0);
    served_start(&site->s, 1);
}

static void site_end(struct site *site)
{
    served_end(&site->s);
    if (site->shared)
        CHECK_INT(weft_stacks_free(site->shared), ==, 0);
    close(site->log);
}

/* A request for a path whose head has about `size` bytes. */
static const char *long_request(const char *path, size_t size)
{
    static char text[16 * 1024];
    int at = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: a\r\nCookie: c=", path);
    memset(text + at, 'c', size);
    memcpy(text + at + size, "\r\n\r\n", 5);
    return text;
}

static weft_span since(weft_time begin)
{
    return weft_now().ns - begin.ns;
}

/*
 * Repeats a round, which uses everything that it needs. Two rounds within a second leave no time in which nothing was
 * used for a second: so the second one must not allocate. On shared stacks, libweft may: for the copy of a fiber that
 * waits.
 */
static void check_rounds(void (*round)(void *arg), void *arg, bool is_shared)
{
    weft_time begin = weft_now(), before = begin;
    int quick = 0;
    round(arg);
    while (quick < QUICK_ROUNDS && since(begin) < PATIENCE * WEFT_SEC && !test_has_failed()) {
        weft_time now = weft_now();
        unsigned count = wh_alloc_count();
        wf_sys_fail(1u << WF_SYS_MALLOC | 1u << WF_SYS_MMAP, 0, 0); /* none fails: it counts */
        round(arg);
        if (since(before) < WEFT_SEC) {
            CHECK_INT(wh_alloc_count() - count, ==, 0);
            if (!is_shared)
                CHECK_INT(wf_sys_calls(), ==, 0);
            quick++;
        }
        before = now;
    }
    CHECK(quick > 0 || test_has_failed());
}

/* ---- one connection ---- */

static void expect(struct client *c, const char *request, const char *body, unsigned times)
{
    client_say(c, request);
    for (unsigned i = 0; i < times; i++)
        client_expect_body(c, 200, body);
}

static void ask_small(void *arg)
{
    struct client *c = arg;
    expect(c, HELLO, "hello\n", 1);
    expect(c, GET("/") "X-Request-Id: mine\r\n\r\n", "hello\n", 1);
    expect(c, GET("/users/weaver/posts/12") "\r\n", "weaver 12", 1);
    expect(c, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nshort", "short", 1);
    expect(c, HELLO HELLO HELLO HELLO HELLO HELLO HELLO HELLO, "hello\n", 8);
    expect(c, GET("/users/b/posts/1") "\r\n" GET("/users/b/posts/1") "\r\n", "b 1", 2);
}

static void ask_unread(void *arg)
{
    struct client *c = arg;
    expect(c, "POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nshort", "hello\n", 1);
    expect(c, "POST /unread HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" HELLO,
           "hello\n", 2);
}

static void ask_long(void *arg)
{
    struct client *c = arg;
    char batch[20 * 1024];
    expect(c, long_request("/", 3 * 1024), "hello\n", 1);
    expect(c, long_request("/", 8 * 1024), "hello\n", 1);
    expect(c, long_request("/users/weaver/posts/12", 3 * 1024), "weaver 12", 1);
    const char *one = long_request("/", 3 * 1024);
    CHECK_INT(snprintf(batch, sizeof batch, "%s%s%s%s", one, one, HELLO, one), <, sizeof batch);
    expect(c, batch, "hello\n", 4);
}

static void check_one(void (*round)(void *arg))
{
    for (int is_shared = 0; is_shared < 2; is_shared++) {
        struct site site;
        struct client c;
        site_begin(&site, is_shared);
        client_open(&c, site.s.port);
        check_rounds(round, &c, is_shared);
        client_close(&c);
        site_end(&site);
    }
}

TEST(further_requests_of_a_connection_allocate_nothing)
{
    check_one(ask_small);
}

TEST(further_requests_whose_body_the_handler_does_not_read_allocate_nothing)
{
    check_one(ask_unread);
}

TEST(further_requests_with_heads_of_3_and_8_kib_allocate_nothing)
{
    check_one(ask_long);
}

/* ---- a crowd ---- */

static struct client clients[CROWD];
static const char *request; /* of the crowd */

static void crowd_open(const struct site *site)
{
    for (int i = 0; i < CROWD; i++)
        client_open(&clients[i], site->s.port);
}

static void crowd_close(void)
{
    for (int i = 0; i < CROWD; i++)
        client_close(&clients[i]);
}

/* All handlers of the crowd wait at the same time, then all answer. */
static void crowd_waits(void *arg)
{
    (void)arg;
    weft_event_reset(&gate);
    __atomic_store_n(&waiting, 0, __ATOMIC_RELEASE);
    for (int i = 0; i < CROWD; i++)
        client_say(&clients[i], request);
    wait_for_flag(&waiting, CROWD);
    weft_event_set(&gate);
    for (int i = 0; i < CROWD; i++)
        client_expect_body(&clients[i], 200, "hello\n");
}

static void check_crowd(const char *text)
{
    request = text;
    for (int is_shared = 0; is_shared < 2; is_shared++) {
        struct site site;
        site_begin(&site, is_shared);
        crowd_open(&site);
        check_rounds(crowd_waits, NULL, is_shared);
        crowd_close();
        site_end(&site);
    }
}

TEST(further_requests_whose_handlers_wait_all_at_once_allocate_nothing)
{
    check_crowd(GET("/wait") "\r\n");
}

TEST(further_long_requests_whose_handlers_wait_all_at_once_allocate_nothing)
{
    check_crowd(long_request("/wait", 3 * 1024));
}

/* Waits until the server holds at most `most` bytes of pages. Meanwhile a client asks. */
static void wait_held(struct client *c, size_t most)
{
    weft_time begin = weft_now();
    while (wh_pages_held() > most && since(begin) < PATIENCE * WEFT_SEC) {
        expect(c, HELLO, "hello\n", 1);
        usleep(1000);
    }
    CHECK_INT(wh_pages_held(), <=, most);
}

/* What stays is a slab, and what one connection uses. */
TEST(the_memory_of_a_burst_goes_back_while_a_client_goes_on)
{
    request = long_request("/wait", 3 * 1024);
    for (int is_shared = 0; is_shared < 2; is_shared++) {
        struct site site;
        struct client c;
        site_begin(&site, is_shared);
        client_open(&c, site.s.port);
        expect(&c, HELLO, "hello\n", 1);
        size_t before = wh_pages_held();
        crowd_open(&site);
        crowd_waits(NULL);
        CHECK_INT(wh_pages_held(), >=, before + (size_t)CROWD * BLOCK_LEAST);
        wait_held(&c, before + SLAB);
        crowd_waits(NULL); /* and it comes again */
        crowd_close();
        wait_held(&c, before + SLAB);
        client_close(&c);
        site_end(&site);
    }
}

/* Without a request that would do it: the flusher looks by itself. */
TEST(the_buffer_of_a_long_request_goes_back_though_nobody_asks)
{
    for (int is_shared = 0; is_shared < 2; is_shared++) {
        struct site site;
        struct client c;
        site_begin(&site, is_shared);
        client_open(&c, site.s.port);
        expect(&c, HELLO, "hello\n", 1);
        size_t before = wh_pages_held();
        expect(&c, long_request("/", 3 * 1024), "hello\n", 1);
        weft_time begin = weft_now();
        while (wh_pages_held() > before && since(begin) < PATIENCE * WEFT_SEC)
            usleep(1000);
        CHECK_INT(wh_pages_held(), <=, before);
        client_close(&c);
        site_end(&site);
    }
}

/* The server keeps nothing for requests that may never come. */
TEST(the_memory_of_a_burst_goes_back_when_serving_ends)
{
    struct site site;
    request = GET("/wait") "\r\n";
    size_t before = wh_pages_held();
    site_begin(&site, false);
    crowd_open(&site);
    crowd_waits(NULL);
    crowd_close();
    void *rc = NULL;
    CHECK_INT(weft_http_stop(site.s.h), ==, 0);
    CHECK_INT(weft_join(site.s.server, &rc, weft_in(PATIENCE * WEFT_SEC)), ==, 0);
    CHECK_INT((intptr_t)rc, ==, 0);
    CHECK_INT(wh_pages_held(), <, before + (size_t)CROWD * BLOCK_LEAST);
    CHECK_INT(weft_close(site.s.listener), ==, 0);
    CHECK_INT(weft_sched_stop(site.s.sched, weft_in(PATIENCE * WEFT_SEC)), ==, 0);
    CHECK_INT(weft_sched_free(site.s.sched), ==, 0);
    CHECK_INT(weft_http_free(site.s.h), ==, 0);
    CHECK_INT(wh_pages_held(), ==, before);
    close(site.log);
}

TESTS(allocations, further_requests_of_a_connection_allocate_nothing,
      further_requests_whose_body_the_handler_does_not_read_allocate_nothing,
      further_requests_with_heads_of_3_and_8_kib_allocate_nothing,
      further_requests_whose_handlers_wait_all_at_once_allocate_nothing,
      further_long_requests_whose_handlers_wait_all_at_once_allocate_nothing,
      the_memory_of_a_burst_goes_back_while_a_client_goes_on, the_buffer_of_a_long_request_goes_back_though_nobody_asks,
      the_memory_of_a_burst_goes_back_when_serving_ends)
