/*
 * Handlers that do what few handlers do: they call weft_http_next again, have scopes of their own around that of the exchange,
 * or end their fiber.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

#include <weft/hook.h>

#include "base/sanitizer.h"
#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

static atomic_int result; /* of what the handler tried */
static atomic_int runs;   /* of the handler */

/* ---- weft_http_next ---- */

static int goes_on(weft_exchange *x, void *arg)
{
    (void)arg;
    result = weft_http_next(x);
    return weft_http_reply(x, 200, NULL, "once\n", 5);
}

TEST(a_handler_does_not_run_itself)
{
    struct served s;
    struct client c;
    served_begin(&s, NULL, (struct served_route[]){{"GET /", goes_on, NULL}, {0}});
    client_open(&c, s.port);
    client_say(&c, GET("/"));
    client_expect_body(&c, 200, "once\n");
    CHECK_INT(result, ==, -EALREADY);
    client_close(&c);
    served_end(&s);
}

static int counts(weft_exchange *x, void *arg)
{
    runs++;
    return says_hello(x, arg);
}

static int goes_on_twice(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_next(x);
    result = weft_http_next(x);
    return rc;
}

TEST(a_handler_runs_once)
{
    struct served s;
    struct client c;
    runs = 0;
    served_make(&s, NULL, (struct served_route[]){{"GET /", counts, NULL}, {0}});
    CHECK_INT(weft_http_use(s.h, goes_on_twice, NULL), ==, 0);
    served_start(&s, 1);
    client_open(&c, s.port);
    for (int i = 1; i <= 2; i++) {
        client_say(&c, GET("/"));
        client_expect_body(&c, 200, "hello\n");
        CHECK_INT(result, ==, -EALREADY);
        CHECK_INT(runs, ==, i);
    }
    client_close(&c);
    served_end(&s);
}

/* ---- scopes ---- */

static int has_scope(weft_exchange *x, void *arg)
{
    (void)arg;
    CHECK_PTR(weft_http_scope(x), !=, NULL);
    return weft_http_reply(x, 200, NULL, "hello\n", 6);
}

/* Middleware with a scope of its own around the handler. The scope is in the frame of the middleware. */
static int has_scope_around(weft_exchange *x, void *arg)
{
    weft_scope scope;
    (void)arg;
    CHECK_INT(weft_scope_open(&scope, NULL), ==, 0);
    int rc = weft_http_next(x);
    result = weft_scope_close(&scope);
    return rc;
}

TEST(middleware_closes_its_own_scope_around_that_of_the_handler)
{
    struct served s;
    struct client c;
    served_make(&s, NULL, (struct served_route[]){{"GET /", has_scope, NULL}, {0}});
    CHECK_INT(weft_http_use(s.h, has_scope_around, NULL), ==, 0);
    served_start(&s, 1);
    client_open(&c, s.port);
    for (int i = 0; i < 3; i++) {
        result = 1;
        client_say(&c, GET("/"));
        client_expect_body(&c, 200, "hello\n");
    }
    client_close(&c);
    served_end(&s);
    CHECK_INT(result, ==, 0);
}

static int leaves_scope_open(weft_exchange *x, void *arg)
{
    static weft_scope left;
    (void)arg;
    weft_http_scope(x);
    weft_scope_open(&left, NULL);
    return 0;
}

static void serve_scope_left_open(void *arg)
{
    struct served s;
    struct client c;
    (void)arg;
    served_begin(&s, NULL, (struct served_route[]){{"GET /", leaves_scope_open, NULL}, {0}});
    client_open(&c, s.port);
    client_say(&c, GET("/"));
    client_drain(&c);
}

TEST(a_scope_that_a_handler_leaves_open_ends_the_program)
{
    CHECK_CHILD(serve_scope_left_open, NULL, SIGABRT, "a scope that it has opened is still open");
}

/* ---- the end of the fiber ---- */

static _Unwind_Reason_Code stop(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                struct _Unwind_Exception *e, struct _Unwind_Context *context, void *arg)
{
    (void)version, (void)class, (void)e, (void)context, (void)arg;
    if (actions & _UA_END_OF_STACK)
        weft_hook_end(NULL);
    return _URC_NO_REASON;
}

/* As pthread_exit under libweft-hook. */
static int end_fiber(void)
{
    static struct _Unwind_Exception e;
    memset(&e, 0, sizeof e);
    e.exception_class = 1; /* 0 is that of the C library, which would end the thread */
    _Unwind_ForcedUnwind(&e, stop, NULL);
    abort();
}

static int ends_its_fiber(weft_exchange *x, void *arg)
{
    (void)arg;
    weft_http_scope(x);
    weft_http_alloc(x, 100000);
    return end_fiber();
}

static int ends_in_its_answer(weft_exchange *x, void *arg)
{
    (void)arg;
    weft_http_begin(x, 200);
    weft_http_write(x, "part", 4);
    weft_http_flush(x);
    return end_fiber();
}

TEST(a_handler_may_end_its_fiber)
{
    struct served s;
    struct client c;
    if (WF_TSAN)
        SKIP("the sanitizer has cleanups of its own below the fiber's first frame");
    served_begin(&s, NULL,
                 (struct served_route[]){{"GET /", says_hello, NULL}, {"GET /end", ends_its_fiber, NULL}, {0}});
    for (int i = 0; i < 3; i++) {
        client_open(&c, s.port);
        client_say(&c, GET("/") GET("/end") GET("/"));
        client_expect_body(&c, 200, "hello\n");
        CHECK_INT(client_drain(&c), ==, 0);
        client_close(&c);
    }
    served_wait_connections(&s, 0);
    CHECK_INT(served_figures(&s).cut, ==, 3);
    CHECK_INT(ask_status(s.port, GET("/")), ==, 200);
    served_end(&s);
}

TEST(a_request_whose_handler_ends_its_fiber_without_an_answer_is_logged_as_500)
{
    struct served s;
    char line[400] = "";
    if (WF_TSAN)
        SKIP("the sanitizer has cleanups of its own below the fiber's first frame");
    int log = memfd_create("log", MFD_CLOEXEC);
    served_make(&s, NULL, (struct served_route[]){{"GET /end", ends_its_fiber, NULL}, {0}});
    CHECK_INT(weft_http_log(s.h, log), ==, 0);
    served_start(&s, 1);
    CHECK_INT(ask_status(s.port, GET("/end")), ==, 0);
    served_end(&s);
    CHECK_INT(pread(log, line, sizeof line - 1, 0), >, 0);
    const char *request = strchr(line, '"');
    CHECK_STR(request ? request : line, "\"GET /end HTTP/1.1\" 500 -\n");
    close(log);
}

TEST(an_answer_without_a_length_whose_fiber_ends_is_cut_by_a_reset)
{
    struct served s;
    struct client c;
    if (WF_TSAN)
        SKIP("the sanitizer has cleanups of its own below the fiber's first frame");
    served_begin(&s, NULL, (struct served_route[]){{"GET /", ends_in_its_answer, NULL}, {0}});
    client_open(&c, s.port);
    client_say(&c, "GET / HTTP/1.0\r\n\r\n");
    client_drain(&c);
    CHECK_INT(c.error, ==, ECONNRESET);
    client_close(&c);
    served_end(&s);
}

TESTS(nested, a_handler_does_not_run_itself, a_handler_runs_once,
      middleware_closes_its_own_scope_around_that_of_the_handler, a_scope_that_a_handler_leaves_open_ends_the_program,
      a_handler_may_end_its_fiber, a_request_whose_handler_ends_its_fiber_without_an_answer_is_logged_as_500,
      an_answer_without_a_length_whose_fiber_ends_is_cut_by_a_reset)
