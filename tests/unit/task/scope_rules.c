/*
 * Rules of scopes and clean-up handlers, one test each, that do not belong to one of the other files.
 */
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weft/executor.h>
#include <weft/io.h>
#include <weft/task.h>
#include <weft/timer.h>
#include <weft/watch.h>

#include "unit/task/ground.h"

/* ---- a go that races a cancel ---- */

enum { RACES = WF_VALGRIND || TEST_EMULATED ? 50 : 500, MOST = 100 };

struct race {
    weft_scope *scope; /* NULL: not open yet */
    int started, refused, ended;
};

/* Would wait for ever if its cancel were lost. */
static int waits_until_cancelled(void *arg)
{
    struct race *r = arg;
    CHECK_INT(weft_sleep_until(WEFT_FOREVER), ==, -ECANCELED);
    more(&r->ended);
    return -ECANCELED;
}

static void *cancels(void *arg)
{
    struct race *r = arg;
    weft_scope *s;
    AWAIT((s = __atomic_load_n(&r->scope, __ATOMIC_ACQUIRE)) != NULL);
    CHECK_INT(weft_scope_cancel(s, 0, NULL), ==, 0);
    return NULL;
}

static void *goes_until_refused(void *arg)
{
    struct race *r = arg;
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    __atomic_store_n(&r->scope, &s, __ATOMIC_RELEASE);
    int rc;
    while ((rc = weft_scope_go(&s, waits_until_cancelled, r)) == 0) {
        if (++r->started == MOST)
            AWAIT(weft_cancelled()); /* the thread is late */
    }
    CHECK_INT(rc, ==, -ECANCELED);
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    CHECK_INT(seen(&r->ended), ==, r->started);
    return NULL;
}

IN_A_SCOPE_FIBER(a_go_that_races_a_cancel_is_refused_or_its_child_is_cancelled)
{
    for (int i = 0; i < RACES && !test_has_failed(); i++) {
        struct race r = {0};
        pthread_t t = new_thread(cancels, &r);
        ended(go(goes_until_refused, &r));
        CHECK_INT(pthread_join(t, NULL), ==, 0);
    }
    return arg;
}

/* ---- close ---- */

static int ignores_until(void *arg)
{
    AWAIT(seen(arg));
    return 0;
}

struct closing {
    int step, open;
};

static void *closes(void *arg)
{
    struct closing *c = arg;
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, ignores_until, &c->open), ==, 0);
    put(&c->step, 1);
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    put(&c->step, 2);
    return NULL;
}

IN_A_SCOPE_FIBER(no_cancel_ends_a_close)
{
    struct closing c = {0};
    weft_fiber *f = go(closes, &c);
    AWAIT(seen(&c.step) == 1 && is_parked(f));
    for (int i = 0; i < 3; i++) {
        CHECK_INT(weft_cancel(f), ==, 0);
        for (int k = 0; k < 10; k++)
            weft_yield();
        CHECK_INT(seen(&c.step), ==, 1);
    }
    put(&c.open, 1);
    ended(f);
    CHECK_INT(c.step, ==, 2);
    return arg;
}

static int is_no_owner(void *arg)
{
    CHECK_INT(weft_scope_wait(arg), ==, -EPERM);
    CHECK_INT(weft_scope_close(arg), ==, -EPERM);
    return weft_scope_go(arg, returns, NULL); /* that it may */
}

IN_A_SCOPE_FIBER(a_child_may_go_but_neither_wait_nor_close)
{
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, is_no_owner, &s), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, 0);
    CHECK_INT(weft_scope_close(&s), ==, 0);
    return arg;
}

/* ---- wait ---- */

static int fails_at_once(void *arg)
{
    (void)arg;
    return -EIO;
}

/* A shield that ends during the wait uncovers a cancel that has come before. */
static void *waits_with_a_shield(void *arg)
{
    struct closing *c = arg;
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, ignores_until, &c->open), ==, 0);
    CHECK_INT(weft_scope_go(&s, fails_at_once, NULL), ==, 0);
    CHECK_INT(weft_sleep_until(WEFT_FOREVER), ==, -ECANCELED); /* the failure */
    weft_time until = weft_in(20 * WEFT_MS);
    CHECK_INT(weft_shield_begin(until), ==, 0);
    put(&c->step, 1);
    CHECK_INT(weft_scope_wait(&s), ==, -ECANCELED);
    CHECK_INT(weft_now().ns, >=, until.ns);
    put(&c->step, 2);
    weft_shield_end();
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    return NULL;
}

IN_A_SCOPE_FIBER(the_end_of_a_shield_ends_a_wait_that_began_after_the_cancel_of_the_scope)
{
    struct closing c = {0};
    weft_fiber *f = go(waits_with_a_shield, &c);
    AWAIT(seen(&c.step) == 1);
    CHECK_INT(weft_cancel(f), ==, 0);
    AWAIT(seen(&c.step) == 2); /* although its child goes on */
    put(&c.open, 1);
    ended(f);
    return arg;
}

/* ---- counting ---- */

enum { LOOKS = WF_VALGRIND || TEST_EMULATED ? 100 : 3000, SLEEPERS = 20 };

static void *counts_at_a_failure(void *arg)
{
    for (int i = 0; i < LOOKS && !test_has_failed(); i++) {
        weft_scope_tally n = {.size = sizeof n};
        weft_scope s;
        CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
        for (int k = 0; k < SLEEPERS; k++)
            weft_scope_go(&s, waits, NULL);
        CHECK_INT(weft_scope_go(&s, fails_at_once, NULL), ==, 0);
        while (n.failed == 0) {
            CHECK_INT(weft_scope_counts(&s, &n), ==, 0);
            CHECK_INT(n.live + n.succeeded + n.failed, <=, n.started);
            if (weft_now().ns % 8 == 0)
                weft_yield();
        }
        CHECK_INT(weft_scope_close(&s), ==, -EIO);
    }
    return arg;
}

TEST(no_child_is_counted_twice)
{
    in_a_fiber(3, counts_at_a_failure, NULL);
}

IN_A_SCOPE_FIBER(a_size_that_no_struct_has_is_refused)
{
    weft_scope s;
    weft_scope_tally tally = {.size = SIZE_MAX};
    weft_cause why = {.size = SIZE_MAX};
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_counts(&s, &tally), ==, -EINVAL);
    CHECK_INT(weft_scope_cancel(&s, 0, NULL), ==, 0);
    CHECK_INT(weft_cancel_cause(&why), ==, -EINVAL);
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    return arg;
}

/* ---- who inherits nothing ---- */

struct heirs {
    int fired, readable, slept, fds[2];
};

/* Not cancelled with the scope that was open where it came from, and not below its deadline. */
static bool is_nobodys(void)
{
    return !weft_cancelled() && weft_sleep(2 * WEFT_MS) == 0 && !weft_stopping();
}

static void fires(void *arg)
{
    CHECK(is_nobodys());
    put(&((struct heirs *)arg)->fired, 1);
}

static void is_readable(int fd, unsigned events, void *arg)
{
    char byte;
    (void)events;
    CHECK_INT(weft_read(fd, &byte, 1, WEFT_FOREVER), ==, 1);
    CHECK(is_nobodys());
    put(&((struct heirs *)arg)->readable, 1);
}

static void *sleeps(void *arg)
{
    CHECK(is_nobodys());
    put(&((struct heirs *)arg)->slept, 1);
    return NULL;
}

IN_A_SCOPE_FIBER(fibers_of_weft_go_timers_and_watches_inherit_nothing)
{
    struct heirs h = {0};
    weft_timer *t = NULL;
    weft_scope_tally tally = {.size = sizeof tally};
    weft_scope s;
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, h.fds), ==, 0);
    CHECK_INT(weft_scope_open(&s, &(weft_scope_opts){.deadline = weft_in(WEFT_MS)}), ==, 0);
    CHECK_INT(weft_timer_new(&t, WEFT_MS, false, NULL, fires, &h), ==, 0);
    CHECK_INT(weft_watch_add(h.fds[0], WEFT_READ, is_readable, &h), ==, 0);
    CHECK_INT(weft_go(sleeps, &h), ==, 0);
    CHECK_INT(weft_scope_counts(&s, &tally), ==, 0);
    CHECK_INT(tally.started, ==, 0);
    CHECK_INT(weft_sleep_until(WEFT_FOREVER), ==, -ECANCELED); /* the deadline */
    CHECK_INT(weft_scope_close(&s), ==, -ETIMEDOUT);
    CHECK_INT(weft_write(h.fds[1], "x", 1, WEFT_FOREVER), ==, 1);
    AWAIT(seen(&h.fired) && seen(&h.slept) && seen(&h.readable));
    weft_timer_free(t);
    CHECK_INT(weft_close(h.fds[0]), ==, 0);
    CHECK_INT(weft_close(h.fds[1]), ==, 0);
    return arg;
}

/* ---- a scope that is left open ---- */

static __attribute__((noinline)) void opens_in_a_frame(void)
{
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
}

static __attribute__((noinline)) void smashes_the_frame(void)
{
    volatile char bytes[2048];
    memset((char *)bytes, 0xa5, sizeof bytes);
}

static void *leaves_a_dead_scope(void *arg)
{
    opens_in_a_frame();
    smashes_the_frame();
    return arg;
}

static void run_leaves_a_dead_scope(void *arg)
{
    in_a_fiber(1, leaves_a_dead_scope, arg);
}

TEST(a_scope_left_open_is_told_from_the_fibers_record_alone)
{
    CHECK_CHILD(run_leaves_a_dead_scope, NULL, SIGABRT, "scope_rules.c:");
}

/* ---- the time of clean-up handlers ---- */

struct cleaning {
    int step, rc;
};

static void waits_for_ever(void *arg)
{
    struct cleaning *c = arg;
    put(&c->step, 1);
    c->rc = weft_sleep_until(WEFT_FOREVER);
}

static void *cleans_up_for_ever(void *arg)
{
    CHECK_INT(weft_defer(waits_for_ever, arg), ==, 0);
    CHECK_INT(weft_cancel(weft_fiber_current()), ==, 0);
    return NULL;
}

static void *looks_at_the_time_of_handlers(void *arg)
{
    struct cleaning c = {0};
    weft_fiber *f = go(cleans_up_for_ever, &c);
    AWAIT(seen(&c.step) == 1 && is_parked(f));
    clock_forward(WEFT_DEFER_TIME - 1);
    for (int i = 0; i < 1000; i++)
        weft_yield();
    CHECK(is_parked(f));
    clock_forward(1);
    ended(f);
    CHECK_INT(c.rc, ==, -ECANCELED);
    return arg;
}

TEST(the_shield_of_handlers_has_an_end)
{
    clock_begin();
    in_a_fiber(1, looks_at_the_time_of_handlers, NULL);
    clock_end();
}

static void sleeps_a_little(void *arg)
{
    *(int *)arg = weft_sleep(WEFT_MS);
}

static void *closes_after_its_shield(void *arg)
{
    int rc[2] = {-1, -1};
    CHECK_INT(weft_cancel(weft_fiber_current()), ==, 0);
    CHECK_INT(weft_shield_begin(weft_in(LONG)), ==, 0);
    for (int i = 0; i < 2; i++) { /* as the second shield, and as the third */
        CHECK_INT(weft_shield_begin(weft_in(-WEFT_MS)), ==, 0);
        WEFT_SCOPE (s, NULL)
            CHECK_INT(weft_defer(sleeps_a_little, &rc[i]), ==, 0);
        CHECK_INT(rc[i], ==, 0);
        CHECK_INT(weft_sleep(WEFT_MS), ==, -ECANCELED); /* this shield is over, as before */
    }
    weft_shield_end();
    weft_shield_end();
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0); /* and the outer one goes on */
    weft_shield_end();
    CHECK_INT(weft_sleep(WEFT_MS), ==, -ECANCELED);
    return arg;
}

static void *closes_after_its_only_shield(void *arg)
{
    int rc = -1;
    CHECK_INT(weft_cancel(weft_fiber_current()), ==, 0);
    CHECK_INT(weft_shield_begin(weft_in(-WEFT_MS)), ==, 0);
    WEFT_SCOPE (s, NULL)
        CHECK_INT(weft_defer(sleeps_a_little, &rc), ==, 0);
    CHECK_INT(rc, ==, 0);
    CHECK_INT(weft_sleep(WEFT_MS), ==, -ECANCELED);
    weft_shield_end();
    return arg;
}

IN_A_SCOPE_FIBER(handlers_have_their_time_in_a_shield_that_is_over)
{
    ended(go(closes_after_its_shield, NULL));
    ended(go(closes_after_its_only_shield, NULL));
    return arg;
}

static void never_runs(void *arg)
{
    (void)arg;
    CHECK(false);
}

/* The task may leave the fiber at an await, so it must not get what belongs to the fiber. */
static int has_nothing_of_the_fiber(void *arg, void **value)
{
    weft_scope s;
    (void)arg, (void)value;
    CHECK(weft_fiber_current() != NULL);
    CHECK_INT(weft_scope_open(&s, NULL), ==, -ENXIO);
    CHECK_INT(weft_shield_begin(weft_in(LONG)), ==, -ENXIO);
    CHECK_INT(weft_defer(never_runs, NULL), ==, -ENXIO);
    return 0;
}

IN_A_SCOPE_FIBER(a_task_on_noop_has_no_scope_shield_or_handler_of_the_fiber_that_runs_it)
{
    weft_executor *x = NULL;
    weft_task *t = NULL;
    CHECK_INT(weft_executor_noop(&x), ==, 0);
    CHECK_INT(weft_task_start(&t, has_nothing_of_the_fiber, NULL, &(weft_task_opts){.on = x}), ==, 0);
    CHECK_INT(weft_task_await(t, NULL, WEFT_NOW), ==, 0);
    weft_task_free(t);
    CHECK_INT(weft_executor_free(x), ==, 0);
    return arg;
}

TESTS(scope_rules, the_end_of_a_shield_ends_a_wait_that_began_after_the_cancel_of_the_scope, no_child_is_counted_twice,
      a_size_that_no_struct_has_is_refused, a_go_that_races_a_cancel_is_refused_or_its_child_is_cancelled,
      no_cancel_ends_a_close, a_child_may_go_but_neither_wait_nor_close,
      fibers_of_weft_go_timers_and_watches_inherit_nothing, a_scope_left_open_is_told_from_the_fibers_record_alone,
      the_shield_of_handlers_has_an_end, handlers_have_their_time_in_a_shield_that_is_over,
      a_task_on_noop_has_no_scope_shield_or_handler_of_the_fiber_that_runs_it)
