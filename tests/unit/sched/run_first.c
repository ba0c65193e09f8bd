/*
 * weft_run with end_with_first: when the first fiber has ended the others are cancelled, given a grace, and named if they
 * ignore it; weft_run returns when they have ended.
 */
#include <weft/hook.h>
#include <weft/timer.h>
#include <weft/watch.h>

#include "unit/sched/ground.h"
#include "unit/sched/heard.h"

#define LONG (AWAIT_SECONDS * WEFT_SEC)

/* Runs fn(arg) so, with so many workers; returns its value. */
static void *in_a_first_fiber(unsigned workers, weft_span grace, weft_fn *fn, void *arg)
{
    void *value = ptr(-1);
    weft_sched_opts o = {.size = sizeof o, .threads = workers, .name = "loom", .end_with_first = true, .grace = grace};
    CHECK_INT(weft_run(fn, arg, &value, &o), ==, 0);
    CHECK_INT(weft_go(returns_at_once, NULL), ==, -ENXIO);
    return value;
}

static int begun, ended_cancelled;

static void note_cancel(int rc)
{
    CHECK_INT(rc, ==, -ECANCELED);
    CHECK(weft_cancelled());
    more(&ended_cancelled);
}

static void *waits_for_ever(void *arg)
{
    more(&begun);
    note_cancel(weft_park(WEFT_FOREVER));
    return arg;
}

static void *sleeps_long(void *arg)
{
    more(&begun);
    note_cancel(weft_sleep(LONG));
    return arg;
}

static void *yields_until_cancelled(void *arg)
{
    more(&begun);
    while (!weft_cancelled())
        weft_yield();
    note_cancel(weft_sleep(WEFT_MS));
    return arg;
}

static void *starts_others_when_cancelled(void *arg)
{
    more(&begun);
    note_cancel(weft_park(WEFT_FOREVER));
    for (int i = 0; i < 10; i++)
        CHECK_INT(weft_go(sleeps_long, NULL), ==, 0);
    return arg;
}

static weft_fn *const others[] = {waits_for_ever, sleeps_long, yields_until_cancelled, starts_others_when_cancelled};

static void *leaves_others_behind(void *arg)
{
    for (int i = 0; i < 40; i++)
        CHECK_INT(weft_go(others[i % 4], NULL), ==, 0);
    AWAIT(seen(&begun) == 40);
    for (int i = 0; i < 10; i++) /* these are cancelled before they begin */
        CHECK_INT(weft_go(sleeps_long, NULL), ==, 0);
    return arg;
}

TEST(when_the_first_fiber_ends_the_others_are_cancelled)
{
    static const unsigned workers[] = {1, 2, 4};
    for (int i = 0; i < 3; i++) {
        begun = ended_cancelled = 0;
        CHECK_PTR(in_a_first_fiber(workers[i], LONG, leaves_others_behind, ptr(7)), ==, ptr(7));
        CHECK_INT(ended_cancelled, ==, 40 + 10 + 10 * 10);
    }
}

static void *ends_without_returning(void *arg)
{
    CHECK_INT(weft_go(waits_for_ever, NULL), ==, 0);
    AWAIT(seen(&begun) == 1);
    weft_hook_end(arg);
}

TEST(a_first_fiber_that_does_not_return_ends_the_runtime_too)
{
    begun = ended_cancelled = 0;
    CHECK_PTR(in_a_first_fiber(1, 0, ends_without_returning, ptr(7)), ==, ptr(7));
    CHECK_INT(ended_cancelled, ==, 1);
}

TEST(a_first_fiber_that_is_alone_ends_the_runtime)
{
    CHECK_PTR(in_a_first_fiber(1, 0, returns_at_once, ptr(7)), ==, ptr(7));
    CHECK_PTR(in_a_first_fiber(3, 0, returns_at_once, ptr(7)), ==, ptr(7));
}

static void rings(void *arg)
{
    (void)arg;
    CHECK(!"a timer of a runtime that is over has fired");
}

static void *leaves_a_timer(void *arg)
{
    CHECK_INT(weft_timer_new(NULL, LONG, false, NULL, rings, NULL), ==, 0);
    CHECK_INT(weft_timer_new(NULL, LONG, true, NULL, rings, NULL), ==, 0);
    return arg;
}

TEST(timers_do_not_hold_it_up)
{
    int64_t start = real_now();
    in_a_first_fiber(1, LONG, leaves_a_timer, NULL);
    CHECK_INT(real_now() - start, <, LONG);
}

/* ---- what comes after the cancel ---- */

static int pipe_ends[2];

static void is_never_called(int fd, unsigned events, void *arg)
{
    (void)fd, (void)events, (void)arg;
    CHECK(!"a watch of a runtime that is over was called");
}

static void *adds_a_watch_when_cancelled(void *arg)
{
    more(&begun);
    CHECK_INT(weft_park(WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_watch_add(pipe_ends[0], WEFT_READ, is_never_called, NULL), ==, -ECANCELED);
    more(&ended_cancelled);
    return arg;
}

static void *leaves_one_that_adds_a_watch(void *arg)
{
    CHECK_INT(weft_go(adds_a_watch_when_cancelled, NULL), ==, 0);
    AWAIT(seen(&begun) == 1);
    return arg;
}

TEST(a_watch_that_comes_after_the_cancel_is_refused)
{
    CHECK_INT(pipe(pipe_ends), ==, 0);
    for (unsigned workers = 1; workers <= 2; workers++) {
        begun = ended_cancelled = 0;
        in_a_first_fiber(workers, LONG, leaves_one_that_adds_a_watch, NULL);
        CHECK_INT(ended_cancelled, ==, 1);
    }
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

static weft_timer *due;

static void counts_its_times(void *arg)
{
    more(arg);
}

/*
 * Worker 1 has queued the timer's fiber, and has not yet cancelled its fibers. Worker 0 has. Then worker 1 cancels its
 * fibers and runs the one that was woken last, before the timer's fiber. Worker 0 stays busy and steals nothing.
 */
static int is_queued, is_cancelled, was_set;

/* Keeps the worker, and not the processor: valgrind runs one thread at a time, and not in turn. */
static void keep_worker(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

static void keep_worker_until(const int *flag)
{
    for (int64_t limit = real_now() + LONG; !seen(flag) && real_now() < limit;)
        keep_worker();
    CHECK(seen(flag));
}

static void *keeps_worker_0_busy(void *arg)
{
    while (!weft_cancelled()) {
        keep_worker();
        weft_yield();
    }
    put(&is_cancelled, 1);
    keep_worker_until(&was_set);
    return arg;
}

static void *sets_it_again(void *arg)
{
    CHECK_INT(weft_park(WEFT_FOREVER), ==, 0);
    CHECK(weft_cancelled());
    CHECK_INT(weft_timer_reset(due, LONG, true), ==, -ESRCH);
    CHECK_INT(weft_timer_refresh(due), ==, -ESRCH);
    weft_timer_free(due);
    put(&was_set, 1);
    return arg;
}

struct due_scene {
    weft_fiber *setter;
    int *fired;
};

static void *lets_a_timer_become_due(void *arg)
{
    const struct due_scene *d = arg;
    CHECK_INT(weft_timer_new(&due, WEFT_MS, false, NULL, counts_its_times, d->fired), ==, 0);
    for (int64_t until = real_now() + 20 * WEFT_MS; real_now() < until;)
        ;
    weft_yield(); /* the worker looks at its timers */
    put(&is_queued, 1);
    keep_worker_until(&is_cancelled);
    weft_unpark(d->setter);
    return NULL;
}

static void *leaves_a_timer_that_is_due(void *arg)
{
    static struct due_scene d;
    const weft_attr zero = {.worker = WEFT_WORKER(0)}, one = {.worker = WEFT_WORKER(1)};
    d = (struct due_scene){.fired = arg};
    CHECK_INT(weft_go_with(&d.setter, &one, sets_it_again, NULL), ==, 0);
    AWAIT(is_parked(d.setter));
    CHECK_INT(weft_go_with(NULL, &zero, keeps_worker_0_busy, NULL), ==, 0);
    CHECK_INT(weft_go_with(NULL, &one, lets_a_timer_become_due, &d), ==, 0);
    keep_worker_until(&is_queued);
    CHECK_INT(weft_detach(d.setter), ==, 0);
    return arg;
}

TEST(a_timer_that_was_due_at_the_cancel_cannot_be_set_again)
{
    int fired = 0;
    int64_t start = real_now();
    in_a_first_fiber(2, LONG, leaves_a_timer_that_is_due, &fired);
    CHECK_INT(fired, <=, 1);
    CHECK_INT(real_now() - start, <, LONG);
}

/*
 * Worker 2 has cancelled its fibers. Then a fiber of worker 1, which has not, gives worker 2 a fiber that waited on worker
 * 1. Worker 2 hops to it, as other fibers of worker 2 yield.
 */
static weft_fiber *given;
static int is_given, has_ended;

static void *is_given_to_worker_2(void *arg)
{
    more(&begun);
    CHECK_INT(weft_park(WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_fiber_worker(weft_fiber_current()), ==, 2);
    note_cancel(weft_park(weft_in(LONG)));
    put(&has_ended, 1);
    return arg;
}

static void *yields_on_worker_2(void *arg)
{
    int64_t limit = real_now() + 2 * LONG;
    more(&begun);
    while (!seen(&has_ended) && real_now() < limit) {
        if (weft_cancelled())
            put(&is_given, 1);
        keep_worker();
        weft_yield();
    }
    return arg;
}

static void *computes_on_worker_1(void *arg)
{
    more(&begun);
    keep_worker_until(&is_given);
    CHECK_INT(weft_sched_submit(weft_sched_current(), given, WEFT_WORKER(2)), ==, 0);
    return arg;
}

static void *leaves_one_to_be_given(void *arg)
{
    CHECK_INT(weft_fiber_new(&given, &(weft_attr){.flags = WEFT_MIGRATE}, is_given_to_worker_2, NULL), ==, 0);
    CHECK_INT(weft_sched_submit(weft_sched_current(), given, WEFT_WORKER(1)), ==, 0);
    AWAIT(is_parked(given));
    for (int i = 0; i < 3; i++)
        CHECK_INT(weft_go_with(NULL, &(weft_attr){.worker = WEFT_WORKER(2)}, yields_on_worker_2, NULL), ==, 0);
    CHECK_INT(weft_go_with(NULL, &(weft_attr){.worker = WEFT_WORKER(1)}, computes_on_worker_1, NULL), ==, 0);
    AWAIT(seen(&begun) == 5);
    CHECK_INT(weft_detach(given), ==, 0);
    return arg;
}

TEST(a_fiber_that_changes_its_worker_during_the_cancel_is_cancelled_too)
{
    begun = ended_cancelled = 0;
    in_a_first_fiber(3, LONG, leaves_one_to_be_given, NULL);
    CHECK_INT(ended_cancelled, ==, 1);
}

/* ---- those who ignore it ---- */

static struct heard h;

/* Whether the list is written to its end: both of them are there. */
static bool is_named(void)
{
    char text[sizeof h.text];
    ssize_t n = pread(h.file, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return strstr(text, "\"stubborn\"") && strstr(text, "\"deaf\"");
}

/* Until it is named. */
static void *ignores_its_cancel(void *arg)
{
    more(&begun);
    CHECK_INT(weft_shield_begin(weft_in(LONG)), ==, 0);
    AWAIT(is_named());
    CHECK(weft_cancelled());
    weft_shield_end();
    return arg;
}

static void *ignores_its_cancel_and_waits(void *arg)
{
    more(&begun);
    CHECK_INT(weft_shield_begin(weft_in(LONG)), ==, 0);
    while (!is_named())
        CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
    weft_shield_end();
    return arg;
}

static int line; /* where the first of them is spawned */

static void *leaves_stubborn_ones_behind(void *arg)
{
    CHECK_INT(weft_go_with(NULL, &(weft_attr){.name = "stubborn"}, ignores_its_cancel, NULL), ==, 0);
    line = __LINE__ - 1;
    CHECK_INT(weft_go_with(NULL, &(weft_attr){.name = "deaf"}, ignores_its_cancel_and_waits, NULL), ==, 0);
    CHECK_INT(weft_go_with(NULL, &(weft_attr){.name = "obedient"}, waits_for_ever, NULL), ==, 0);
    AWAIT(seen(&begun) == 3);
    return arg;
}

static void name_stubborn_ones(unsigned workers, weft_span grace, bool obedient_ends)
{
    char site[300];
    begun = ended_cancelled = 0;
    int64_t start = real_now();
    hear(&h);
    void *value = in_a_first_fiber(workers, grace, leaves_stubborn_ones_behind, ptr(7));
    heard(&h);
    CHECK_PTR(value, ==, ptr(7));
    CHECK_INT(real_now() - start, >=, grace);
    snprintf(site, sizeof site, "spawned at %s:%d\n", __FILE__, line);
    CHECK_INT(how_often(h.text, "weft_run of \"loom\" waits for fibers that have ignored their cancel"), ==, 1);
    CHECK_INT(how_often(h.text, "\"stubborn\""), ==, 1);
    CHECK_INT(how_often(h.text, "\"deaf\""), ==, 1);
    CHECK_INT(how_often(h.text, site), ==, 1);
    if (obedient_ends)
        CHECK_INT(how_often(h.text, "\"obedient\""), ==, 0);
    CHECK_INT(ended_cancelled, ==, 1);
    if (test_has_failed())
        fputs(h.text, stderr);
}

TEST(those_who_ignore_their_cancel_are_named_after_the_grace_and_waited_for)
{
    name_stubborn_ones(1, WEFT_SEC, true);
    name_stubborn_ones(3, WEFT_SEC, true);
    name_stubborn_ones(1, -1, false);
}

TEST(those_who_end_in_their_grace_are_not_named)
{
    begun = ended_cancelled = 0;
    hear(&h);
    in_a_first_fiber(2, LONG, leaves_others_behind, NULL);
    heard(&h);
    CHECK_INT(how_often(h.text, "ignored their cancel"), ==, 0);
}

/* ---- work from outside ---- */

static void *brings_work(void *arg)
{
    int rc;
    while ((rc = weft_go(yields_until_cancelled, NULL)) == 0 && seen(&begun) < 10000)
        breathe();
    (void)arg;
    return ptr(rc);
}

static pthread_t bringer;

static void *has_others_bring_work(void *arg)
{
    bringer = new_thread(brings_work, NULL);
    AWAIT(seen(&begun) > 3);
    return arg;
}

TEST(work_from_threads_is_refused_from_then_on)
{
    void *rc = NULL;
    begun = ended_cancelled = 0;
    in_a_first_fiber(2, LONG, has_others_bring_work, NULL);
    pthread_join(bringer, &rc);
    CHECK(rc == ptr(-ESHUTDOWN) || rc == ptr(-ENXIO));
    CHECK_INT(begun, ==, ended_cancelled);
}

TEST(a_scheduler_made_by_hand_has_no_first_fiber)
{
    weft_sched *s = ptr(1);
    weft_sched_opts o = {.size = sizeof o, .end_with_first = true};
    CHECK_INT(weft_sched_new(&s, &o), ==, -EINVAL);
    CHECK_PTR(s, ==, ptr(1));
}

TESTS(sched_run_first, when_the_first_fiber_ends_the_others_are_cancelled,
      a_first_fiber_that_does_not_return_ends_the_runtime_too, a_first_fiber_that_is_alone_ends_the_runtime,
      timers_do_not_hold_it_up, a_watch_that_comes_after_the_cancel_is_refused,
      a_timer_that_was_due_at_the_cancel_cannot_be_set_again,
      a_fiber_that_changes_its_worker_during_the_cancel_is_cancelled_too,
      those_who_ignore_their_cancel_are_named_after_the_grace_and_waited_for,
      those_who_end_in_their_grace_are_not_named, work_from_threads_is_refused_from_then_on,
      a_scheduler_made_by_hand_has_no_first_fiber)
