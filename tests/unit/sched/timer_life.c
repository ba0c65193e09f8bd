/*
 * Timers and threads: which worker is woken for one, and what becomes of them when their scheduler stops.
 */
#include <weft/timer.h>

#include "base/sanitizer.h"
#include "sched/sched.h"
#include "sched/worker.h"
#include "unit/sched/ground.h"

static void fires(void *arg)
{
    more(arg);
}

static void never_fires(void *arg)
{
    (void)arg;
    CHECK(false);
}

/* ---- weft_run, and threads beside it ---- */

static void *adds_some(void *arg)
{
    for (int i = 1; i <= 10; i++)
        CHECK_INT(weft_timer_new(NULL, i * WEFT_MS, false, NULL, fires, arg), ==, 0);
    CHECK_INT(weft_timer_new(NULL, 1000 * WEFT_SEC, true, NULL, never_fires, NULL), ==, 0);
    return NULL;
}

TEST(run_returns_when_those_that_fire_once_have_and_recurring_ones_end)
{
    for (unsigned workers = 1; workers <= 3; workers++) {
        int fired = 0;
        int64_t begin = real_now();
        in_a_fiber(workers, adds_some, &fired);
        CHECK_INT(seen(&fired), ==, 10);
        CHECK_INT(real_now() - begin, >=, 10 * WEFT_MS);
    }
}

struct early {
    int64_t added, fired;
    int done;
    weft_fiber *sleeper;
};

static void notes_when(void *arg)
{
    struct early *e = arg;
    e->fired = real_now();
    put(&e->done, 1);
}

static void *adds_10_ms(void *arg)
{
    struct early *e = arg;
    AWAIT(figures(weft_sched_current()).sleeping == 1 &&
          figures(weft_sched_current()).idle == figures(weft_sched_current()).workers);
    e->added = real_now();
    CHECK_INT(weft_timer_new(NULL, 10 * WEFT_MS, false, NULL, notes_when, e), ==, 0);
    AWAIT(seen(&e->done));
    CHECK_INT(weft_cancel(e->sleeper), ==, 0);
    return NULL;
}

static void *sleeps_10_s(void *arg)
{
    struct early *e = arg;
    e->sleeper = weft_fiber_current();
    pthread_t other = new_thread(adds_10_ms, arg);
    CHECK_INT(weft_sleep(10 * WEFT_SEC), ==, -ECANCELED);
    pthread_join(other, NULL);
    return NULL;
}

TEST(a_worker_that_sleeps_for_longer_is_woken_for_a_timer)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        struct early e = {0};
        in_a_fiber(workers, sleeps_10_s, &e);
        CHECK_INT(e.fired - e.added, >=, 10 * WEFT_MS);
        CHECK_INT(e.fired - e.added, <, 5 * WEFT_SEC); /* not at the end of the sleep */
    }
}

/* Whether a thread sleeps, and how often it has gone to sleep so far; -1: the system does not say. */
static bool is_asleep(pid_t tid, long *times)
{
    char path[64], line[256], state = 'S';
    snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
    FILE *f = fopen(path, "re");
    *times = -1;
    while (f && fgets(line, sizeof line, f)) {
        sscanf(line, "State: %c", &state);
        sscanf(line, "voluntary_ctxt_switches: %ld", times);
    }
    if (f)
        fclose(f);
    return state == 'S';
}

struct thousand {
    pid_t worker;
    weft_fiber *first;
    int64_t until; /* the worker sleeps until then, for the fiber */
    weft_timer *timers[1000];
    long sleeps;
};

/* It sleeps, until then: what is kept and not needed has been given back. `times`: as is_asleep has it. */
static bool sleeps_until(const struct thousand *t, int64_t from, int64_t to, long *times)
{
    int64_t until = wf_load(&weft_sched_current()->worker[0]->sleeps_until);
    return until >= from && until <= to && is_asleep(t->worker, times);
}

/* It is let fall asleep after each: one that wakes it for nothing is seen. */
static void *adds_a_thousand(void *arg)
{
    struct thousand *t = arg;
    long before = 0, after = 0;
    AWAIT(sleeps_until(t, t->until, t->until, &before));
    int64_t begin = real_now();
    for (int i = 0; i < 1000 && !test_has_failed(); i++) {
        CHECK_INT(weft_timer_new(&t->timers[i], 5 * WEFT_SEC, false, NULL, never_fires, NULL), ==, 0);
        AWAIT(sleeps_until(t, begin + 5 * WEFT_SEC, real_now() + 5 * WEFT_SEC, &after));
    }
    t->sleeps = before < 0 ? -1 : after - before;
    for (int i = 0; i < 1000; i++)
        weft_timer_free(t->timers[i]);
    weft_unpark(t->first);
    return NULL;
}

static void *waits_for_a_thousand(void *arg)
{
    struct thousand *t = arg;
    t->worker = gettid();
    t->first = weft_fiber_current();
    t->until = real_now() + 10 * WEFT_SEC;
    pthread_t other = new_thread(adds_a_thousand, arg);
    CHECK_INT(weft_park((weft_time){t->until}), ==, 0);
    pthread_join(other, NULL);
    return NULL;
}

TEST(a_thousand_timers_wake_a_worker_that_sleeps_for_10_s_once)
{
    static struct thousand t;
    in_a_fiber(1, waits_for_a_thousand, &t);
    if (t.sleeps < 0)
        SKIP("/proc does not say how often a thread has slept");
    if (WF_VALGRIND)
        SKIP("under valgrind threads also sleep for each other");
    CHECK_INT(t.sleeps, ==, 1);
}

/* ---- stopping ---- */

static void *adds_one_for_later(void *arg)
{
    return ptr(weft_timer_new(NULL, 30 * WEFT_MS, false, NULL, fires, arg));
}

TEST(stop_waits_for_one_that_fires_once)
{
    for (unsigned threads = 1; threads <= 2; threads++) {
        int fired = 0;
        weft_sched *s = running_sched(threads);
        CHECK_INT((intptr_t)ended(go_on(s, adds_one_for_later, &fired)), ==, 0);
        CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
        CHECK_INT(seen(&fired), ==, 1);
        CHECK_INT(weft_sched_free(s), ==, 0);
    }
}

static weft_timer *recurring;

static void *adds_recurring(void *arg)
{
    return ptr(weft_timer_new(&recurring, 50 * WEFT_US, true, NULL, fires, arg));
}

TEST(stop_ends_recurring_ones_and_their_handles_outlive_the_scheduler)
{
    for (unsigned threads = 1; threads <= 3; threads++) {
        int fired = 0;
        weft_sched *s = running_sched(threads);
        CHECK_INT((intptr_t)ended(go_on(s, adds_recurring, &fired)), ==, 0);
        AWAIT(seen(&fired) >= 5);
        CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
        int then = seen(&fired);
        CHECK_INT(figures(s).timers, ==, 0);
        CHECK_INT(weft_timer_refresh(recurring), ==, -ESRCH);
        CHECK_INT(weft_sched_free(s), ==, 0);
        CHECK_INT(weft_timer_cancel(recurring), ==, 0);
        CHECK_INT(weft_timer_reset(recurring, 1, true), ==, -ESRCH);
        CHECK_INT(weft_timer_next(recurring).ns, ==, INT64_MAX);
        weft_timer_missed(recurring);
        CHECK_INT(weft_timer_free(recurring), ==, 0);
        CHECK_INT(seen(&fired), ==, then);
    }
}

static weft_timer *pending[2];

static void *adds_for_far_away(void *arg)
{
    CHECK_INT(weft_timer_new(&pending[0], 1000 * WEFT_SEC, false, NULL, never_fires, NULL), ==, 0);
    CHECK_INT(weft_timer_new(&pending[1], 1000 * WEFT_SEC, true, NULL, never_fires, NULL), ==, 0);
    return arg;
}

static void *tries_when_cancelled(void *arg)
{
    weft_timer *t = NULL;
    CHECK_INT(weft_sleep(1000 * WEFT_SEC), ==, -ECANCELED);
    return ptr(weft_timer_new(&t, WEFT_MS, false, NULL, fires, arg));
}

TEST(at_the_deadline_of_a_stop_they_are_cancelled)
{
    for (unsigned threads = 1; threads <= 2; threads++) {
        int fired = 0;
        weft_sched *s = running_sched(threads);
        ended(go_on(s, adds_for_far_away, NULL));
        weft_fiber *f = go_on(s, tries_when_cancelled, &fired);
        CHECK_INT(weft_sched_stop(s, weft_in(3 * WEFT_MS)), ==, 0);
        CHECK_INT((intptr_t)ended(f), ==, -ECANCELED);
        CHECK_INT(figures(s).timers, ==, 0);
        for (int i = 0; i < 2; i++) {
            CHECK_INT(weft_timer_cancel(pending[i]), ==, 0);
            CHECK_INT(weft_timer_free(pending[i]), ==, 0);
        }
        CHECK_INT(weft_sched_start(s), ==, 0); /* and it takes timers again */
        CHECK_INT((intptr_t)ended(go_on(s, adds_one_for_later, &fired)), ==, 0);
        end_sched(s);
        CHECK_INT(seen(&fired), ==, 1);
    }
}

TEST(a_cancel_by_another_thread_lets_a_stop_end)
{
    for (unsigned threads = 1; threads <= 2; threads++) {
        void *rc = ptr(1);
        weft_sched *s = running_sched(threads);
        ended(go_on(s, adds_for_far_away, NULL));
        pthread_t other = new_thread(stops, s);
        await_draining(s);
        AWAIT(figures(s).idle == threads);
        CHECK_INT(weft_timer_free(pending[0]), ==, 1);
        pthread_join(other, &rc);
        CHECK_PTR(rc, ==, NULL);
        CHECK_INT(weft_timer_free(pending[1]), ==, 0);
        CHECK_INT(weft_sched_free(s), ==, 0);
    }
}

/* While it drains: its own callbacks may bring more, others may not. */
struct chain {
    weft_sched *s;
    int left, recurring_rc;
};

static void goes_on(void *arg)
{
    struct chain *c = arg;
    c->recurring_rc = weft_timer_new(NULL, WEFT_MS, true, NULL, never_fires, NULL);
    if (--c->left > 0)
        CHECK_INT(weft_timer_new(NULL, WEFT_MS, false, NULL, goes_on, c), ==, 0);
}

static void *begins_when_it_drains(void *arg)
{
    struct chain *c = arg;
    while (weft_timer_new(NULL, 1000 * WEFT_SEC, true, NULL, never_fires, NULL) == 0)
        weft_yield();
    return ptr(weft_timer_new(NULL, WEFT_MS, false, NULL, goes_on, c));
}

TEST(callbacks_may_add_timers_while_it_drains)
{
    struct chain c = {.left = 5};
    void *rc = ptr(1);
    c.s = running_sched(2);
    weft_fiber *f = go_on(c.s, begins_when_it_drains, &c);
    pthread_t other = new_thread(stops, c.s);
    CHECK_INT((intptr_t)ended(f), ==, 0);
    pthread_join(other, &rc);
    CHECK_PTR(rc, ==, NULL);
    CHECK_INT(c.left, ==, 0);
    CHECK_INT(c.recurring_rc, ==, -ESHUTDOWN);
    CHECK_INT(weft_sched_free(c.s), ==, 0);
}

TEST(a_scheduler_that_never_ran_is_freed_with_its_timers)
{
    weft_timer *t = NULL;
    weft_sched *s = new_sched(1, true);
    CHECK_INT(weft_timer_new(&t, 0, false, NULL, never_fires, NULL), ==, 0);
    CHECK_INT(weft_timer_new(NULL, 0, true, NULL, never_fires, NULL), ==, -EINVAL);
    CHECK_INT(weft_timer_new(NULL, 1, true, NULL, never_fires, NULL), ==, 0);
    CHECK_INT(weft_sched_free(s), ==, 0);
    CHECK_INT(weft_timer_cancel(t), ==, 0);
    CHECK_INT(weft_timer_free(t), ==, 0);
    s = new_sched(1, true);
    CHECK_INT(weft_timer_new(&t, 1, true, NULL, never_fires, NULL), ==, 0);
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0); /* there is nothing to wait for */
    CHECK_INT(weft_timer_free(t), ==, 0);
    CHECK_INT(weft_timer_new(&t, 1, false, NULL, never_fires, NULL), ==, -ESHUTDOWN);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

/* ---- schedulers that are named, and that have not started ---- */

struct timed {
    weft_sched *sched;
    int64_t made, fired;
    int count;
};

static void notes_the_time(void *arg)
{
    struct timed *t = arg;
    t->fired = real_now();
    CHECK_PTR(weft_sched_current(), ==, t->sched);
    more(&t->count);
}

static void *names_it(void *arg)
{
    struct timed *t = arg;
    t->made = real_now();
    CHECK_INT(weft_sched_timer_new(t->sched, NULL, 2 * WEFT_MS, false, NULL, notes_the_time, t), ==, 0);
    return NULL;
}

static void is_on_time(const struct timed *t)
{
    CHECK_INT(seen(&t->count), ==, 1);
    CHECK_INT(t->fired, >=, t->made + 2 * WEFT_MS);
}

TEST(a_timer_made_before_the_start_fires_after_it)
{
    for (unsigned workers = 1; workers <= 3; workers++) {
        for (int use_caller = 0; use_caller <= 1; use_caller++) {
            struct timed once = {.sched = new_sched(workers, use_caller)};
            weft_timer *often = NULL;
            int fired = 0;
            names_it(&once);
            CHECK_INT(weft_sched_timer_new(once.sched, &often, WEFT_MS, true, NULL, fires, &fired), ==, 0);
            while (real_now() < once.made + 3 * WEFT_MS)
                breathe();
            CHECK_INT(seen(&once.count) + seen(&fired), ==, 0);
            CHECK_INT(weft_sched_run(once.sched, weft_in(20 * WEFT_SEC)), ==, 0);
            is_on_time(&once);
            while (seen(&fired) == 0)
                weft_sched_run(once.sched, WEFT_NOW);
            CHECK_INT(weft_timer_free(often), >=, 0);
            end_sched(once.sched);
        }
    }
}

TEST(a_scheduler_may_be_named_for_a_timer_from_anywhere)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        struct timed on_thread = {.sched = running_sched(workers)}, in_fiber = on_thread, inside = on_thread;
        names_it(&on_thread);
        in_a_fiber(workers, names_it, &in_fiber);
        ended(go_on(inside.sched, names_it, &inside));
        CHECK_INT(weft_sched_stop(inside.sched, WEFT_FOREVER), ==, 0);
        is_on_time(&on_thread);
        is_on_time(&in_fiber);
        is_on_time(&inside);
        weft_timer *t = NULL;
        CHECK_INT(weft_sched_timer_new(inside.sched, &t, 1, false, NULL, never_fires, NULL), ==, -ESHUTDOWN);
        CHECK_INT(weft_sched_timer_new(NULL, &t, 1, false, NULL, never_fires, NULL), ==, -EINVAL);
        CHECK_INT(weft_sched_timer_new(inside.sched, &t, 0, true, NULL, never_fires, NULL), ==, -EINVAL);
        CHECK_PTR(t, ==, NULL);
        CHECK_INT(weft_sched_free(inside.sched), ==, 0);
    }
}

TESTS(sched_timer_life, run_returns_when_those_that_fire_once_have_and_recurring_ones_end,
      a_worker_that_sleeps_for_longer_is_woken_for_a_timer, a_thousand_timers_wake_a_worker_that_sleeps_for_10_s_once,
      stop_waits_for_one_that_fires_once, stop_ends_recurring_ones_and_their_handles_outlive_the_scheduler,
      at_the_deadline_of_a_stop_they_are_cancelled, a_cancel_by_another_thread_lets_a_stop_end,
      callbacks_may_add_timers_while_it_drains, a_scheduler_that_never_ran_is_freed_with_its_timers,
      a_timer_made_before_the_start_fires_after_it, a_scheduler_may_be_named_for_a_timer_from_anywhere)
