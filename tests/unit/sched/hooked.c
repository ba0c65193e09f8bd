/*
 * Whether blocking calls are to let a fiber wait: a flag of each fiber, which those it starts inherit. What else a
 * fiber can say of itself for whoever wraps such calls: which locks it has, and that it does not hear a cancel.
 */
#include <weft/hook.h>
#include <weft/offload.h>

#include "unit/sched/ground.h"

static void *is_hooked(void *arg)
{
    (void)arg;
    return ptr(weft_hooked());
}

static void *value_of(weft_fiber *f)
{
    return ended(f);
}

static weft_fiber *go_flagged(unsigned flags, weft_fn *fn)
{
    weft_fiber *f = NULL;
    weft_attr attr = {.size = sizeof attr, .flags = flags};
    CHECK_INT(weft_go_with(&f, &attr, fn, NULL), ==, 0);
    return f;
}

static void *starts_others(void *arg)
{
    CHECK(weft_hooked());
    CHECK_PTR(value_of(go_flagged(0, is_hooked)), ==, ptr(1));
    CHECK_PTR(value_of(go_flagged(WEFT_NO_HOOK, is_hooked)), ==, ptr(0));
    CHECK_INT(weft_hook_enable(false), ==, true);
    CHECK(!weft_hooked());
    CHECK_PTR(value_of(go_flagged(0, is_hooked)), ==, ptr(0));
    CHECK_INT(weft_hook_enable(true), ==, false);
    CHECK_INT(weft_hook_enable(true), ==, true);
    CHECK_PTR(value_of(go_flagged(0, is_hooked)), ==, ptr(1));
    return arg;
}

TEST(a_fiber_has_it_and_those_it_starts_inherit_it)
{
    CHECK(!weft_hooked()); /* a plain thread is no fiber */
    in_a_fiber(1, starts_others, NULL);
    in_a_fiber(2, starts_others, NULL);
}

static void *takes_turns(void *arg)
{
    weft_hook_enable(arg != NULL);
    for (int i = 0; i < 100; i++) {
        CHECK_INT(weft_hooked(), ==, arg != NULL);
        weft_yield();
    }
    return NULL;
}

static void *two_take_turns(void *arg)
{
    weft_fiber *a = go(takes_turns, NULL), *b = go(takes_turns, ptr(1));
    ended(a);
    ended(b);
    return arg;
}

TEST(one_fiber_does_not_set_it_for_another)
{
    in_a_fiber(1, two_take_turns, NULL);
}

TEST(a_plain_thread_sets_it_for_the_fibers_it_starts)
{
    weft_sched *s = NULL;
    weft_sched_opts opts = {.size = sizeof opts, .threads = 1};
    CHECK_INT(weft_sched_new(&s, &opts), ==, 0);
    CHECK_INT(weft_sched_start(s), ==, 0);
    for (int on = 0; on <= 1; on++) {
        weft_fiber *f = NULL;
        void *value = NULL;
        CHECK_INT(weft_hook_enable(on), ==, !on);
        CHECK(!weft_hooked());
        CHECK_INT(weft_sched_go(s, &f, NULL, is_hooked, NULL), ==, 0);
        CHECK_INT(weft_join(f, &value, WEFT_FOREVER), ==, 0);
        CHECK_PTR(value, ==, ptr(on));
    }
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

static weft_hook_wait last; /* of what the fiber was told; its strings are the fiber's */
static int waits;

static void note(const weft_hook_wait *wait)
{
    last = *wait;
    waits++;
}

static void *is_held(void *arg)
{
    (void)arg;
    return ptr(weft_hook_held(0));
}

static void *holds_a_moment(void *arg)
{
    CHECK_INT(weft_hook_held(1), ==, 1);
    CHECK_INT(weft_hook_held(-1), ==, 0);
    return arg;
}

static void *holds(void *arg)
{
    CHECK_INT(weft_hook_self(), ==, weft_fiber_id(weft_fiber_current()));
    CHECK_INT(weft_hook_held(-1), ==, 0); /* never less than none */
    CHECK_INT(weft_hook_held(1), ==, 1);
    CHECK_INT(weft_hook_held(1), ==, 2);
    waits = 0;
    CHECK_INT(weft_sleep(20 * WEFT_MS), ==, 0);
    CHECK_INT(waits, ==, 1);
    CHECK_INT(last.id, ==, weft_hook_self());
    CHECK_INT(last.held, ==, 2);
    CHECK_STR(last.name, weft_fiber_name(weft_fiber_current()));
    CHECK_STR(last.site, weft_fiber_site(weft_fiber_current()));
    CHECK_STR(last.what, "sleep");
    CHECK(last.alone);
    weft_yield(); /* lets others run just as well */
    CHECK_INT(waits, ==, 2);
    CHECK_STR(last.what, "yield");
    weft_fiber *other = go(holds_a_moment, NULL); /* what another does with its own changes nothing */
    weft_yield();
    CHECK(!last.alone);
    while (weft_fiber_state(other) != WEFT_FIBER_DONE)
        weft_yield();
    ended(other);
    waits = 1;
    weft_yield();
    CHECK_INT(waits, ==, 2);
    CHECK_INT(weft_hook_held(100), ==, 63);
    CHECK(weft_hooked());
    weft_fiber *f = go_flagged(WEFT_MIGRATE, is_held); /* its own are none */
    CHECK_PTR(ended(f), ==, ptr(0));
    CHECK_INT(waits, ==, 3);
    CHECK_INT(weft_hook_held(-63), ==, 0);
    CHECK_INT(weft_sleep(20 * WEFT_MS), ==, 0);
    weft_yield();
    CHECK_INT(waits, ==, 3);
    return arg;
}

TEST(who_waits_with_locks_is_told_of)
{
    CHECK_INT(weft_hook_self(), ==, 0);
    CHECK_INT(weft_hook_held(1), ==, 0); /* a thread has none that are counted */
    CHECK_PTR(weft_hook_on_wait(note), ==, NULL);
    in_a_fiber(1, holds, NULL);
    CHECK(weft_hook_on_wait(NULL) == note);
}

static void *passes_on(void *arg)
{
    return arg;
}

static void *is_deaf(void *arg)
{
    void *value = NULL;
    (void)arg;
    CHECK(!weft_hook_deaf(true));
    weft_sleep(10 * WEFT_MS);
    weft_time begun = weft_now();
    CHECK_INT(weft_sleep(20 * WEFT_MS), ==, 0); /* it is cancelled by now, and does not hear it */
    CHECK(weft_now().ns - begun.ns >= 20 * WEFT_MS);
    CHECK_INT(weft_sleep(0), ==, 0); /* nor where it does not come to a wait */
    CHECK_INT(weft_sleep_until(WEFT_NOW), ==, 0);
    CHECK_INT(weft_offload(passes_on, ptr(7), &value, WEFT_FOREVER), ==, 0);
    CHECK_PTR(value, ==, ptr(7));
    CHECK(weft_cancelled());
    CHECK(weft_hook_deaf(false));
    CHECK_INT(weft_sleep(0), ==, -ECANCELED);
    return ptr(weft_sleep(WEFT_SEC));
}

static void *cancels(void *arg)
{
    weft_fiber *f = go_flagged(0, is_deaf);
    weft_yield();
    weft_cancel(f);
    CHECK_PTR(ended(f), ==, ptr(-ECANCELED));
    return arg;
}

TEST(who_is_deaf_is_not_cancelled_until_it_listens)
{
    CHECK(!weft_hook_deaf(true)); /* a thread is not */
    in_a_fiber(1, cancels, NULL);
}

static void *ends_in_a_section(void *arg)
{
    weft_hook_deaf(true);
    return arg;
}

static void *says_whether_in_a_section(void *arg)
{
    (void)arg;
    return ptr(weft_hook_deaf(false));
}

static void *begins_after_such_fibers(void *arg)
{
    reuse_records();
    for (int i = 0; i < 100; i++) { /* some of them have the record of one that has ended */
        ended(go(ends_in_a_section, NULL));
        CHECK_PTR(ended(go(says_whether_in_a_section, NULL)), ==, ptr(0));
    }
    return arg;
}

TEST(no_fiber_begins_in_an_uncancellable_section)
{
    in_a_fiber(1, begins_after_such_fibers, NULL);
    in_a_fiber(2, begins_after_such_fibers, NULL);
}

static void *asks_whether_it_is_cancelled(void *arg)
{
    CHECK(!weft_hook_cancelled());
    CHECK_INT(weft_cancel(weft_fiber_current()), ==, 0);
    CHECK(weft_hook_cancelled());
    CHECK(!weft_hook_deaf(true));
    CHECK(!weft_hook_cancelled());
    CHECK(weft_hook_deaf(false));
    CHECK_INT(weft_shield_begin(weft_in(AWAIT_SECONDS * WEFT_SEC)), ==, 0);
    CHECK(!weft_hook_cancelled());
    weft_shield_end();
    CHECK(weft_hook_cancelled());
    return arg;
}

TEST(a_wrapper_is_told_of_a_cancel_that_nothing_covers)
{
    CHECK(!weft_hook_cancelled()); /* a thread has none */
    in_a_fiber(1, asks_whether_it_is_cancelled, NULL);
}

TESTS(sched_hooked, a_fiber_has_it_and_those_it_starts_inherit_it, one_fiber_does_not_set_it_for_another,
      a_plain_thread_sets_it_for_the_fibers_it_starts, who_waits_with_locks_is_told_of,
      who_is_deaf_is_not_cancelled_until_it_listens, no_fiber_begins_in_an_uncancellable_section,
      a_wrapper_is_told_of_a_cancel_that_nothing_covers)
