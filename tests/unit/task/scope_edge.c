/*
 * Scopes at their edges: time slices, ends of fibers that are not a return, handlers that misuse a scope, cancels that
 * race with an open and with an end, forks in the middle, and trees so deep that a walk per level would show.
 */
#include <sys/wait.h>

#include <weft/hook.h>

#include "fiber/extra.h"
#include "unit/sched/heard.h"
#include "unit/task/ground.h"

/* ---- time slices ---- */

enum { STOPPED_CHILDREN = 50 };

static int waits_for_its_stop(void *arg)
{
    int rc = weft_event_wait(weft_stop_event(), WEFT_FOREVER);
    more(arg);
    return rc;
}

static void *stops_its_scope(void *arg)
{
    weft_scope s;
    int told = 0;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    for (int i = 0; i < STOPPED_CHILDREN; i++)
        CHECK_INT(weft_scope_go(&s, waits_for_its_stop, &told), ==, 0);
    weft_yield();
    CHECK_INT(weft_scope_stop(&s, LONG), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, 0);
    CHECK_INT(seen(&told), ==, STOPPED_CHILDREN);
    CHECK_INT(weft_scope_close(&s), ==, 0);
    return arg;
}

/* Each call of the library uses up a slice of a nanosecond. A fiber that gave way with a lock would stop its worker. */
static void in_slices(weft_fn *fn)
{
    const weft_span slice = 1;
    weft_sched *s = NULL;
    CHECK_INT(weft_sched_new(&s, &(weft_sched_opts){.threads = 1, .policy = &weft_rr, .policy_arg = &slice}), ==, 0);
    CHECK_INT(weft_sched_start(s), ==, 0);
    ended(go_on(s, fn, NULL));
    end_sched(s);
}

TEST(a_stop_keeps_no_lock_while_a_time_slice_lets_others_run)
{
    in_slices(stops_its_scope);
}

static void *waits_for_its_scope(void *arg)
{
    for (int i = 0; i < 10; i++) {
        weft_scope s;
        CHECK_INT(weft_scope_open(&s, &(weft_scope_opts){.at_once = 2}), ==, 0);
        for (int k = 0; k < 5; k++)
            CHECK_INT(weft_scope_go(&s, returns, NULL), ==, 0);
        CHECK_INT(weft_scope_wait(&s), ==, 0);
        CHECK_INT(weft_scope_go(&s, waits, NULL), ==, 0);
        CHECK_INT(weft_scope_close(&s), ==, 0);
    }
    return arg;
}

TEST(a_wait_keeps_no_lock_while_a_time_slice_lets_others_run)
{
    in_slices(waits_for_its_scope);
}

/* ---- ends that are not a return ---- */

static int ends_with(void *arg)
{
    weft_hook_end(arg);
}

IN_A_SCOPE_FIBER(a_child_that_ends_by_a_call_fails_only_with_a_negative_errno)
{
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, ends_with, (void *)(uintptr_t)0x7f0080001000), ==, 0); /* an address, as int negative */
    CHECK_INT(weft_scope_go(&s, ends_with, NULL), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, 0);
    CHECK_INT(weft_scope_go(&s, ends_with, AS_ARG(-EIO)), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, -EIO);
    CHECK_INT(weft_scope_close(&s), ==, -EIO);
    return arg;
}

/* ---- handlers ---- */

static weft_local key;
static int handled;

static void handles(void *arg)
{
    (void)arg;
    more(&handled);
}

static void destroys(void *value)
{
    (void)value;
    CHECK_INT(weft_defer(handles, NULL), ==, 0);
}

static void *has_a_local(void *arg)
{
    CHECK_INT(weft_local_set(key, arg), ==, 0);
    return NULL;
}

TEST(a_handler_that_a_destructor_adds_runs_too)
{
    handled = 0;
    CHECK_INT(weft_local_new(&key, destroys), ==, 0);
    in_a_fiber(1, has_a_local, &handled);
    CHECK_INT(seen(&handled), ==, 1);
}

static weft_scope forgotten;

static void opens_and_forgets(void *arg)
{
    (void)arg;
    CHECK_INT(weft_scope_open(&forgotten, NULL), ==, 0);
}

static void *forgets_in_a_handler(void *arg)
{
    CHECK_INT(weft_defer(opens_and_forgets, NULL), ==, 0);
    return arg;
}

static void run_forgets_in_a_handler(void *arg)
{
    in_a_fiber(1, forgets_in_a_handler, arg);
}

static void *forgets_in_a_handler_of_a_scope(void *arg)
{
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_defer(opens_and_forgets, NULL), ==, 0);
    weft_scope_close(&s);
    return arg;
}

static void run_forgets_in_a_handler_of_a_scope(void *arg)
{
    in_a_fiber(1, forgets_in_a_handler_of_a_scope, arg);
}

static void closes_its_scope(void *arg)
{
    CHECK_INT(weft_scope_close(arg), ==, -EALREADY);
    CHECK_INT(weft_scope_go(arg, returns, NULL), ==, -ECANCELED);
}

IN_A_SCOPE_FIBER(a_handler_cannot_close_its_scope_or_start_children_in_it)
{
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_defer(closes_its_scope, &s), ==, 0);
    CHECK_INT(weft_scope_close(&s), ==, 0);
    return arg;
}

TEST(a_handler_that_leaves_a_scope_open_panics)
{
    CHECK_CHILD(run_forgets_in_a_handler, NULL, SIGABRT, "ends, but the scope that was opened at");
    CHECK_CHILD(run_forgets_in_a_handler_of_a_scope, NULL, SIGABRT, "a handler closes what it opens");
}

/* ---- causes ---- */

static void *cancels_itself_again(void *arg)
{
    put(arg, 1);
    CHECK_INT(weft_sleep_until(WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(kind_now(), ==, WEFT_CAUSE_SHUTDOWN);
    CHECK_INT(weft_cancel(weft_fiber_current()), ==, 0);
    CHECK_INT(kind_now(), ==, WEFT_CAUSE_SHUTDOWN);
    return NULL;
}

TEST(the_first_cause_stays_after_a_shutdown)
{
    int there = 0;
    weft_sched *s = running_sched(1);
    CHECK_INT(weft_sched_go(s, NULL, NULL, cancels_itself_again, &there), ==, 0);
    AWAIT(seen(&there));
    CHECK_INT(weft_sched_stop(s, WEFT_NOW), ==, 0);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

/* ---- waits ---- */

static int gate;

static int ignores_until_the_gate(void *arg)
{
    while (!seen(&gate))
        weft_yield();
    return code_of(arg);
}

static void *waits_for_a_cancelled_scope(void *arg)
{
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, ignores_until_the_gate, NULL), ==, 0);
    CHECK_INT(weft_scope_cancel(&s, 0, NULL), ==, 0);
    put(arg, 1);
    CHECK_INT(weft_scope_wait(&s), ==, -ECANCELED);
    put(arg, 2);
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    return NULL;
}

/* Runs fn, which waits at step 1; cancels it there. */
static weft_fiber *cancelled_at_1(weft_fn *fn, int *step)
{
    put(step, 0);
    put(&gate, 0);
    weft_fiber *f = go(fn, step);
    AWAIT(seen(step) == 1 && is_parked(f));
    CHECK_INT(weft_cancel(f), ==, 0);
    return f;
}

static int waits_for_an_inner_scope(void *arg)
{
    waits_for_a_cancelled_scope(arg);
    return 0;
}

static void *has_an_outer_scope(void *arg)
{
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, waits_for_an_inner_scope, arg), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, -ECANCELED);
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    return NULL;
}

static void *cancels_from_outside(void *arg)
{
    weft_fn *const fns[] = {waits_for_a_cancelled_scope, has_an_outer_scope};
    for (int i = 0; i < 2; i++) {
        int step = 0;
        weft_fiber *f = cancelled_at_1(fns[i], &step);
        AWAIT(seen(&step) == 2);
        put(&gate, 1);
        ended(f);
    }
    return arg;
}

TEST(a_cancel_from_outside_ends_the_wait_for_a_scope_that_is_cancelled)
{
    clock_begin(); /* it stands still: the wait does not wake up to name the children */
    in_a_fiber(1, cancels_from_outside, NULL);
    clock_end();
}

static void *waits_in_a_shield(void *arg)
{
    weft_scope s;
    weft_scope_tally tally = {.size = sizeof tally};
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, ignores_until_the_gate, NULL), ==, 0);
    put(arg, 1);
    CHECK_INT(weft_sleep_until(WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_shield_begin(weft_in(LONG)), ==, 0);
    put(arg, 2);
    CHECK_INT(weft_scope_wait(&s), ==, -ECANCELED);
    CHECK_INT(weft_scope_counts(&s, &tally), ==, 0);
    CHECK_INT(tally.live, ==, 0);
    weft_shield_end();
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    return NULL;
}

IN_A_SCOPE_FIBER(in_a_shield_a_wait_for_a_scope_goes_on_after_a_cancel_from_outside)
{
    int step = 0;
    weft_fiber *f = cancelled_at_1(waits_in_a_shield, &step);
    AWAIT(seen(&step) == 2);
    for (int i = 0; i < 10; i++)
        weft_yield();
    put(&gate, 1);
    ended(f);
    return arg;
}

static void *waits_in_a_short_shield(void *arg)
{
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, ignores_until_the_gate, NULL), ==, 0);
    put(arg, 1);
    CHECK_INT(weft_sleep_until(WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_shield_begin(weft_in(WEFT_MS)), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, -ECANCELED);
    put(arg, 2);
    weft_shield_end();
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    return NULL;
}

IN_A_SCOPE_FIBER(the_end_of_a_shield_ends_the_wait_for_a_cancelled_scope)
{
    int step = 0;
    weft_fiber *f = cancelled_at_1(waits_in_a_short_shield, &step);
    AWAIT(seen(&step) == 2);
    put(&gate, 1);
    ended(f);
    return arg;
}

/* ---- cancel against open ---- */

enum { RACES = WF_VALGRIND || TEST_EMULATED ? 1000 : 15000, NESTED = 20 };

static int race_step; /* 1: the fiber is there, 2: it is being cancelled, 3: it has been */

/* Opens one scope in another until the cancel is over, and counts the scopes that it has missed. */
static void *opens_while_it_is_cancelled(void *arg)
{
    static weft_scope nested[NESTED];
    int count = 0;
    put(&race_step, 1);
    while (seen(&race_step) < 2)
        ;
    for (; count < NESTED && seen(&race_step) < 3; count++)
        CHECK_INT(weft_scope_open(&nested[count], NULL), ==, 0);
    while (seen(&race_step) < 3)
        sched_yield();
    CHECK_INT(weft_shield_begin(weft_in(LONG)), ==, 0); /* so that only the scope's own cancel counts */
    for (int i = 0; i < count; i++) {
        if (weft_scope_try_go(&nested[i], returns, NULL) != -ECANCELED)
            more(arg);
    }
    weft_shield_end();
    while (count-- > 0)
        CHECK_INT(weft_scope_close(&nested[count]), ==, -ECANCELED);
    return NULL;
}

TEST(a_scope_that_is_opened_during_a_cancel_is_cancelled)
{
    int missed = 0;
    weft_sched *s = running_sched(1);
    for (int i = 0; i < RACES; i++) {
        put(&race_step, 0);
        weft_fiber *f = go_on(s, opens_while_it_is_cancelled, &missed);
        AWAIT(seen(&race_step) == 1);
        put(&race_step, 2);
        CHECK_INT(weft_cancel(f), ==, 0);
        put(&race_step, 3);
        ended(f);
    }
    CHECK_INT(seen(&missed), ==, 0);
    end_sched(s);
}

/* ---- cancel against an end ---- */

static void *ends_while_it_is_cancelled(void *arg)
{
    put(&race_step, 1);
    while (seen(&race_step) < 2)
        ;
    return arg;
}

/* The canceller gives the fiber an extra, and the fiber finds it at its end. ThreadSanitizer sees a wrong order. */
TEST(a_fiber_that_ends_while_it_is_cancelled_sees_its_extra_whole)
{
    weft_sched *s = running_sched(1);
    for (int i = 0; i < RACES; i++) {
        put(&race_step, 0);
        weft_fiber *f = go_on(s, ends_while_it_is_cancelled, NULL);
        AWAIT(seen(&race_step) == 1);
        put(&race_step, 2);
        int rc = weft_cancel(f);
        CHECK(rc == 0 || rc == -ESRCH);
        ended(f);
    }
    end_sched(s);
}

/* ---- forks ---- */

enum { EXTRAS = 400, FORKS = 100 };

static int over;

/* Takes and gives back so many extras at once that each round goes through what workers share. */
static void move_extras(weft_fiber *f)
{
    struct wf_extras from = {0}, to = {0};
    for (int i = 0; i < EXTRAS; i++) {
        CHECK(wf_extra_begin(&from, &f[i]));
        f[i].extra->child.fiber = &f[i];
    }
    for (int i = 0; i < EXTRAS; i++)
        wf_extra_drop(&to, &f[i]);
    wf_extras_drop(&from);
    wf_extras_drop(&to);
}

static void *moves_extras(void *arg)
{
    while (!seen(&over))
        move_extras(arg);
    return NULL;
}

TEST(a_fork_leaves_the_memory_of_extras_whole)
{
    static weft_fiber fibers[2][EXTRAS];
    if (WF_ASAN || WF_TSAN || TEST_EMULATED)
        SKIP("a lock of the sanitizer, or of the emulator, may be held for ever in the child of a fork");
    if (WF_VALGRIND)
        SKIP("in the child, what the parent's other thread has in its hands is lost, which valgrind takes for a leak");
    put(&over, 0);
    pthread_t t = new_thread(moves_extras, fibers[0]);
    for (int i = 0; i < FORKS && !test_has_failed(); i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(AWAIT_SECONDS);
            move_extras(fibers[1]);
            _exit(0);
        }
        int status = -1;
        CHECK_INT(waitpid(child, &status, 0), ==, child);
        CHECK_INT(status, ==, 0);
    }
    put(&over, 1);
    CHECK_INT(pthread_join(t, NULL), ==, 0);
}

/* ---- deep trees ---- */

enum { LEVELS = WF_TSAN || WF_VALGRIND || TEST_EMULATED ? 1000 : 16000 };

static int reached; /* the last level is open */

static int goes_deeper(void *arg)
{
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    if (code_of(arg) > 0)
        CHECK_INT(weft_scope_go(&s, goes_deeper, AS_ARG(code_of(arg) - 1)), ==, 0);
    else
        put(&reached, 1);
    int rc = weft_sleep_until(WEFT_FOREVER);
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    return rc;
}

/* Every level closes its scope. If each close walked through all levels below, that alone would take many seconds. */
static void *ends_a_deep_tree(void *arg)
{
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, goes_deeper, AS_ARG(LEVELS)), ==, 0);
    AWAIT(seen(&reached));
    int64_t began = real_now();
    CHECK_INT(weft_scope_cancel(&s, 0, NULL), ==, 0);
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    CHECK_INT(real_now() - began, <, 2 * WEFT_SEC);
    return arg;
}

TEST(a_deep_tree_ends_in_one_walk)
{
    in_a_fiber(1, ends_a_deep_tree, NULL);
}

TESTS(scope_edge, a_stop_keeps_no_lock_while_a_time_slice_lets_others_run,
      a_wait_keeps_no_lock_while_a_time_slice_lets_others_run,
      a_child_that_ends_by_a_call_fails_only_with_a_negative_errno, a_handler_that_a_destructor_adds_runs_too,
      a_handler_that_leaves_a_scope_open_panics, a_handler_cannot_close_its_scope_or_start_children_in_it,
      the_first_cause_stays_after_a_shutdown, a_cancel_from_outside_ends_the_wait_for_a_scope_that_is_cancelled,
      in_a_shield_a_wait_for_a_scope_goes_on_after_a_cancel_from_outside,
      the_end_of_a_shield_ends_the_wait_for_a_cancelled_scope, a_scope_that_is_opened_during_a_cancel_is_cancelled,
      a_fiber_that_ends_while_it_is_cancelled_sees_its_extra_whole, a_fork_leaves_the_memory_of_extras_whole,
      a_deep_tree_ends_in_one_walk)
