/*
 * The option `on` of weft_serve: handlers run on another scheduler than the caller's. And `ending`, which is called when
 * nothing more is accepted.
 */
#include <weft/net.h>
#include <weft/sync.h>

#include "unit/net/serving.h"

static weft_sched *other;           /* where handlers run */
static int elsewhere, here;         /* handlers, by where they ran. flags */
static int endings, live_at_ending; /* flags */

static void notes_its_scheduler(int fd, void *arg)
{
    more(weft_sched_current() == other ? &elsewhere : &here);
    echoes(fd, arg);
}

static void *serves_elsewhere(void *arg)
{
    enum { CLIENTS = 8 };
    weft_fiber *clients[CLIENTS];
    struct serving s = {.listener = weft_listen("127.0.0.1:0"),
                        .handler = notes_its_scheduler,
                        .opts = {.size = sizeof s.opts, .on = other},
                        .until = WEFT_FOREVER};
    const char *address = address_of(s.listener);
    weft_fiber *server = go(serves, &s);
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = go(talks, (void *)address);
    for (int i = 0; i < CLIENTS; i++)
        CHECK_PTR(ended(clients[i]), ==, NULL);
    CHECK_INT(seen(&elsewhere), ==, CLIENTS);
    CHECK_INT(seen(&here), ==, 0);
    CHECK_INT(weft_close(s.listener), ==, 0);
    CHECK_PTR(ended(server), ==, ptr(0));
    return arg;
}

TEST(handlers_run_on_the_scheduler_that_the_option_names)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        other = running_sched(workers);
        put(&elsewhere, 0);
        put(&here, 0);
        in_a_fiber(1, serves_elsewhere, NULL);
        end_sched(other);
    }
}

/* max_conns counts connections of the other scheduler, whose end lets the next one in. */
static void *waits_for_room(void *arg)
{
    struct serving s = {.listener = weft_listen("127.0.0.1:0"),
                        .handler = notes_its_scheduler,
                        .opts = {.size = sizeof s.opts, .on = other, .max_conns = 1},
                        .until = WEFT_FOREVER};
    const char *address = address_of(s.listener);
    weft_fiber *server = go(serves, &s), *clients[4];
    for (int i = 0; i < 4; i++)
        clients[i] = go(talks, (void *)address);
    for (int i = 0; i < 4; i++)
        CHECK_PTR(ended(clients[i]), ==, NULL);
    CHECK_INT(weft_close(s.listener), ==, 0);
    CHECK_PTR(ended(server), ==, ptr(0));
    return arg;
}

TEST(a_connection_that_ends_elsewhere_makes_room_for_the_next_one)
{
    other = running_sched(1);
    in_a_fiber(1, waits_for_room, NULL);
    end_sched(other);
}

/* A handler that waits for ever is cancelled on its scheduler when the grace is over. */
static void *cancels_elsewhere(void *arg)
{
    struct serving s = {.listener = weft_listen("127.0.0.1:0"),
                        .handler = notes_its_scheduler,
                        .opts = {.size = sizeof s.opts, .on = other, .grace = -1},
                        .until = WEFT_FOREVER};
    put(&elsewhere, 0);
    weft_fiber *server = go(serves, &s);
    int fd = weft_dial(address_of(s.listener), weft_in(20 * WEFT_SEC));
    AWAIT(seen(&elsewhere) == 1);
    CHECK_INT(weft_close(s.listener), ==, 0);
    CHECK_PTR(ended(server), ==, ptr(0));
    CHECK_INT(weft_close(fd), ==, 0);
    return arg;
}

TEST(the_end_of_serving_cancels_handlers_on_the_other_scheduler)
{
    other = running_sched(1);
    in_a_fiber(1, cancels_elsewhere, NULL);
    end_sched(other);
}

static void *serves_on_a_stopped_one(void *arg)
{
    struct serving s = {.listener = weft_listen("127.0.0.1:0"),
                        .handler = notes_its_scheduler,
                        .opts = {.size = sizeof s.opts, .on = other},
                        .until = WEFT_FOREVER};
    weft_fiber *server = go(serves, &s);
    int fd = weft_dial(address_of(s.listener), weft_in(20 * WEFT_SEC));
    char byte;
    CHECK_PTR(ended(server), ==, ptr(-ESHUTDOWN));
    CHECK_INT(weft_read(fd, &byte, 1, weft_in(20 * WEFT_SEC)), <=, 0); /* closed, or reset */
    CHECK_INT(weft_close(fd), ==, 0);
    CHECK_INT(weft_close(s.listener), ==, 0);
    return arg;
}

TEST(a_scheduler_that_has_stopped_ends_the_serving)
{
    other = running_sched(1);
    CHECK_INT(weft_sched_stop(other, WEFT_FOREVER), ==, 0);
    in_a_fiber(1, serves_on_a_stopped_one, NULL);
    CHECK_INT(weft_sched_free(other), ==, 0);
}

/* ---- ending ---- */

static weft_event handler_may_end;
static int handlers; /* that run. a flag */

static void waits_for_the_event(int fd, void *arg)
{
    (void)fd, (void)arg;
    more(&handlers);
    CHECK_INT(weft_event_wait(&handler_may_end, WEFT_FOREVER), ==, 0);
    __atomic_fetch_sub(&handlers, 1, __ATOMIC_SEQ_CST);
}

static void notes_the_ending(void *arg)
{
    CHECK_PTR(arg, ==, &endings);
    CHECK(weft_fiber_current() != NULL);
    put(&live_at_ending, seen(&handlers));
    more(&endings);
    weft_event_set(&handler_may_end);
}

static void *ends_gracefully(void *arg)
{
    struct serving s = {.listener = weft_listen("127.0.0.1:0"),
                        .handler = waits_for_the_event,
                        .arg = &endings,
                        .opts = {.size = sizeof s.opts, .ending = notes_the_ending, .grace = 60 * WEFT_SEC},
                        .until = WEFT_FOREVER};
    weft_fiber *server = go(serves, &s);
    int fd = weft_dial(address_of(s.listener), weft_in(20 * WEFT_SEC));
    AWAIT(seen(&handlers) == 1);
    CHECK_INT(seen(&endings), ==, 0);
    CHECK_INT(weft_close(s.listener), ==, 0);
    CHECK_PTR(ended(server), ==, ptr(0));
    CHECK_INT(seen(&endings), ==, 1);
    CHECK_INT(seen(&live_at_ending), ==, 1);
    CHECK_INT(weft_close(fd), ==, 0);
    s.opts.refuse = weft_refuse; /* without max_conns */
    CHECK_INT(weft_serve(s.listener, s.handler, s.arg, &s.opts, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(seen(&endings), ==, 1); /* serving did not begin */
    return arg;
}

TEST(ending_is_called_once_while_handlers_still_run)
{
    in_a_fiber(1, ends_gracefully, NULL);
}

TESTS(net_serve_on, handlers_run_on_the_scheduler_that_the_option_names,
      a_connection_that_ends_elsewhere_makes_room_for_the_next_one,
      the_end_of_serving_cancels_handlers_on_the_other_scheduler, a_scheduler_that_has_stopped_ends_the_serving,
      ending_is_called_once_while_handlers_still_run)
