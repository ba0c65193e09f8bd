/*
 * What an exchange gives its handler: a scope for children, and memory; and what middleware sees behind the handler.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <weft/stack.h>

#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

static atomic_int children;  /* that run */
static atomic_int child_saw; /* what its wait has returned */
static weft_event child_is_there, child_has_ended, may_end;

static int waits_for_ever(void *arg)
{
    (void)arg;
    children++;
    weft_event_set(&child_is_there);
    child_saw = weft_sleep_until(WEFT_FOREVER);
    children--;
    weft_event_set(&child_has_ended);
    return 0;
}

/* Takes its time to end. */
static int ends_late(void *arg)
{
    (void)arg;
    weft_event_set(&child_is_there);
    weft_sleep_until(WEFT_FOREVER);
    weft_shield_begin(weft_in(60 * WEFT_SEC));
    CHECK_INT(weft_event_wait(&may_end, weft_in(30 * WEFT_SEC)), ==, 0);
    weft_shield_end();
    return 0;
}

static int fails(void *arg)
{
    (void)arg;
    return -EIO;
}

static int adds_up(void *arg)
{
    weft_yield();
    (*(int *)arg)++;
    return 0;
}

/* Leaves a child behind. `arg`: the child. */
static int leaves_child(weft_exchange *x, void *arg)
{
    weft_scope *s = weft_http_scope(x);
    CHECK_PTR(weft_http_scope(x), ==, s);
    CHECK_INT(weft_scope_go(s, *(weft_job **)arg, NULL), ==, 0);
    weft_event_wait(&child_is_there, WEFT_FOREVER);
    return weft_http_reply(x, 200, NULL, "left", 4);
}

/* The same, but waits for something else. */
static int waits_beside_child(weft_exchange *x, void *arg)
{
    (void)arg;
    CHECK_INT(weft_scope_go(weft_http_scope(x), waits_for_ever, NULL), ==, 0);
    weft_event_wait(&child_is_there, WEFT_FOREVER);
    int rc = weft_sleep_until(WEFT_FOREVER);
    CHECK_INT(rc, ==, -ECANCELED);
    return rc;
}

/* A child that fails cancels the scope, and with it the handler. */
static int has_failing_child(weft_exchange *x, void *arg)
{
    (void)arg;
    CHECK_INT(weft_scope_go(weft_http_scope(x), fails, NULL), ==, 0);
    return weft_sleep_until(WEFT_FOREVER);
}

static int waits_for_children(weft_exchange *x, void *arg)
{
    (void)arg;
    int *sum = weft_http_alloc(x, sizeof *sum);
    *sum = 0;
    for (int i = 0; i < 10; i++)
        CHECK_INT(weft_scope_go(weft_http_scope(x), adds_up, sum), ==, 0);
    CHECK_INT(weft_scope_wait(weft_http_scope(x)), ==, 0);
    return *sum == 10 ? weft_http_reply(x, 200, NULL, "ten", 3) : -EIO;
}

/* How many children of earlier requests there are. */
static int says_children(weft_exchange *x, void *arg)
{
    (void)arg;
    return children == 0 ? weft_http_reply(x, 200, NULL, "none", 4) : -EIO;
}

static weft_job *for_ever = waits_for_ever, *late = ends_late;

static const struct served_route routes[] = {{"/leave", leaves_child, &for_ever},
                                             {"/late", leaves_child, &late},
                                             {"/beside", waits_beside_child, NULL},
                                             {"/fail", has_failing_child, NULL},
                                             {"/wait", waits_for_children, NULL},
                                             {"/children", says_children, NULL},
                                             {0}};

static void begin(struct served *s, struct client *c, const weft_http_opts *opts)
{
    weft_event_reset(&child_is_there);
    weft_event_reset(&child_has_ended);
    weft_event_reset(&may_end);
    children = child_saw = 0;
    served_begin(s, opts, routes);
    client_open(c, s->port);
}

static void end(struct served *s, struct client *c)
{
    client_close(c);
    served_end(s);
}

/* A connection on a private or a shared stack. */
static void check_scopes(const weft_http_opts *opts)
{
    struct served s;
    struct client c;
    begin(&s, &c, opts);
    client_say(&c, GET("/leave") GET("/children") GET("/wait") GET("/fail") GET("/wait") GET("/children"));
    client_expect_body(&c, 200, "left");
    client_expect_body(&c, 200, "none");
    CHECK_INT(child_saw, ==, -ECANCELED);
    client_expect_body(&c, 200, "ten");
    client_expect(&c, 500);
    client_expect_body(&c, 200, "ten"); /* the cancel of one exchange is not that of the next */
    client_expect_body(&c, 200, "none");
    end(&s, &c);
}

TEST(children_are_cancelled_and_joined_after_their_handler_has_returned)
{
    check_scopes(NULL);
}

TEST(a_handler_on_a_shared_stack_has_a_scope_too)
{
    weft_stacks *stacks = NULL;
    CHECK_INT(weft_stacks_new(&stacks, 4, 64 * 1024), ==, 0);
    check_scopes(&(weft_http_opts){.shared = stacks});
    CHECK_INT(weft_stacks_free(stacks), ==, 0);
}

TEST(a_client_that_is_gone_cancels_the_children_too)
{
    struct served s;
    struct client c;
    begin(&s, &c, NULL);
    client_say(&c, GET("/beside"));
    CHECK_INT(weft_event_wait(&child_is_there, weft_in(60 * WEFT_SEC)), ==, 0);
    client_abort(&c);
    CHECK_INT(weft_event_wait(&child_has_ended, weft_in(60 * WEFT_SEC)), ==, 0);
    CHECK_INT(child_saw, ==, -ECANCELED);
    served_wait_connections(&s, 0);
    served_end(&s);
}

TEST(children_end_before_the_rest_of_the_body_is_drained)
{
    struct served s;
    struct client c;
    begin(&s, &c, NULL);
    client_say(&c, "POST /leave HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n");
    CHECK_INT(weft_event_wait(&child_has_ended, weft_in(60 * WEFT_SEC)), ==, 0);
    client_say(&c, "body" GET("/children"));
    client_expect_body(&c, 200, "left");
    client_expect_body(&c, 200, "none");
    end(&s, &c);
}

TEST(an_answer_does_not_wait_for_children_that_end_late)
{
    struct served s;
    struct client c;
    begin(&s, &c, NULL);
    client_say(&c, GET("/late") GET("/children"));
    client_expect_body(&c, 200, "left");
    weft_event_set(&may_end);
    client_expect_body(&c, 200, "none");
    end(&s, &c);
}

/* Memory */

enum { PIECES = 60 };
static char *pieces[PIECES];

/* Pieces of all sizes, each filled with its own byte. */
static int takes_memory(weft_exchange *x, void *arg)
{
    (void)arg;
    for (size_t i = 0; i < PIECES; i++) {
        size_t size = i < 40 ? i : (i - 39) * 517;
        pieces[i] = weft_http_alloc(x, size);
        CHECK(pieces[i] && (uintptr_t)pieces[i] % _Alignof(max_align_t) == 0);
        memset(pieces[i], (int)i, size);
    }
    CHECK_PTR(weft_http_alloc(x, SIZE_MAX), ==, NULL);
    CHECK_PTR(weft_http_alloc(x, SIZE_MAX - 15), ==, NULL);
    return weft_http_reply(x, 200, NULL, "taken", 5);
}

/* Middleware: the memory is there when the handler has returned. */
static int checks_memory(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_next(x);
    size_t wrong = 0;
    for (size_t i = 0; i < PIECES; i++) {
        size_t size = i < 40 ? i : (i - 39) * 517;
        for (size_t j = 0; j < size; j++)
            wrong += pieces[i][j] != (char)i;
    }
    CHECK_INT(wrong, ==, 0);
    return rc;
}

TEST(memory_of_an_exchange_lives_until_its_middleware_has_returned)
{
    struct served s;
    struct client c;
    served_make(&s, NULL, (struct served_route[]){{"GET /", takes_memory, NULL}, {0}});
    CHECK_INT(weft_http_use(s.h, checks_memory, NULL), ==, 0);
    served_start(&s, 1);
    client_open(&c, s.port);
    client_say(&c, GET("/") GET("/") GET("/"));
    for (int i = 0; i < 3; i++)
        client_expect_body(&c, 200, "taken");
    end(&s, &c);
}

TESTS(exchange, children_are_cancelled_and_joined_after_their_handler_has_returned,
      a_handler_on_a_shared_stack_has_a_scope_too, a_client_that_is_gone_cancels_the_children_too,
      children_end_before_the_rest_of_the_body_is_drained, an_answer_does_not_wait_for_children_that_end_late,
      memory_of_an_exchange_lives_until_its_middleware_has_returned)
