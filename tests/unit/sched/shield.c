/*
 * Shields: a cancelled fiber's waits work until the shield's deadline, and no longer; shields nest, and end with their
 * fiber. unit/io/shield has the waits of all kinds.
 */
#include <weft/hook.h>
#include <weft/stack.h>
#include <weft/sync.h>

#include "base/sys.h"
#include "unit/sched/ground.h"
#include "unit/sched/heard.h"

#define LONG (AWAIT_SECONDS * WEFT_SEC)

/* Cancels the calling fiber. */
static void cancel_me(void)
{
    CHECK_INT(weft_cancel(weft_fiber_current()), ==, 0);
    CHECK(weft_cancelled());
}

/* Runs a test's body as a fiber: alone, beside others, with a deadline's wheel of another worker, on a shared stack. */
static void in_each_fiber(weft_fn *fn)
{
    static const unsigned workers[] = {1, 2};
    for (int i = 0; i < 2; i++) {
        weft_sched *s = running_sched(workers[i]);
        weft_stacks *pool = NULL;
        CHECK_INT(weft_stacks_new(&pool, 1, 0), ==, 0);
        weft_attr attrs[] = {{0}, {.flags = WEFT_MIGRATE}, {.shared = pool}};
        for (int k = 0; k < 3; k++) {
            weft_fiber *f = NULL;
            CHECK_INT(weft_sched_go(s, &f, &attrs[k], fn, NULL), ==, 0);
            ended(f);
        }
        end_sched(s);
        weft_stacks_free(pool);
    }
}

#define IN_EACH_FIBER(name)                                                                                            \
    static void *name##_body(void *arg);                                                                               \
    TEST(name)                                                                                                         \
    {                                                                                                                  \
        in_each_fiber(name##_body);                                                                                    \
    }                                                                                                                  \
    static void *name##_body(void *arg)

static void *returns_after_20_ms(void *arg)
{
    weft_sleep(20 * WEFT_MS);
    return arg;
}

IN_EACH_FIBER(a_cancelled_fiber_joins_its_child_in_a_shield)
{
    weft_fiber *child = go(returns_after_20_ms, ptr(7));
    void *value = NULL;
    cancel_me();
    CHECK_INT(weft_join(child, NULL, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_shield_begin(weft_in(LONG)), ==, 0);
    CHECK(weft_cancelled()); /* it hides nothing */
    CHECK_INT(weft_join(child, &value, WEFT_FOREVER), ==, 0);
    CHECK_PTR(value, ==, ptr(7));
    weft_shield_end();
    CHECK_INT(weft_sleep(WEFT_MS), ==, -ECANCELED);
    CHECK_INT(weft_park(WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_sleep(0), ==, -ECANCELED);
    return arg;
}

static void *waits_shielded(void *arg)
{
    int *stage = arg;
    CHECK_INT(weft_shield_begin(weft_in(LONG)), ==, 0);
    put(stage, 1);
    int rc = weft_park(WEFT_FOREVER);
    CHECK(weft_cancelled());
    weft_shield_end();
    CHECK_INT(weft_park(weft_in(LONG)), ==, -ECANCELED);
    return ptr(rc);
}

IN_EACH_FIBER(a_cancel_leaves_a_wait_in_a_shield_alone)
{
    static int stage; /* not on a shared stack */
    put(&stage, 0);
    weft_fiber *f = go(waits_shielded, &stage);
    AWAIT(seen(&stage) == 1 && is_parked(f));
    CHECK_INT(weft_cancel(f), ==, 0);
    CHECK_INT(weft_sleep(10 * WEFT_MS), ==, 0);
    CHECK(is_parked(f));
    weft_unpark(f);
    CHECK_INT((intptr_t)ended(f), ==, 0);
    return arg;
}

/* Each returns -ECANCELED at a shield's deadline. */
static int waits_in_park(void)
{
    return weft_park(WEFT_FOREVER);
}

static int waits_in_park_with_a_deadline(void)
{
    return weft_park(weft_in(LONG));
}

static int waits_in_sleep(void)
{
    return weft_sleep(LONG);
}

static int waits_in_join(void)
{
    weft_fiber *f = go(parks, NULL);
    int rc = weft_join(f, NULL, WEFT_FOREVER);
    weft_unpark(f);
    CHECK_INT(weft_detach(f), ==, 0);
    return rc;
}

static int (*const waits[])(void) = {waits_in_park, waits_in_park_with_a_deadline, waits_in_sleep, waits_in_join};
enum { WAITS = sizeof waits / sizeof waits[0] };

IN_EACH_FIBER(a_wait_ends_at_the_shields_deadline_and_so_do_later_ones)
{
    cancel_me();
    for (int i = 0; i < WAITS; i++) {
        weft_time until = weft_in(20 * WEFT_MS);
        CHECK_INT(weft_shield_begin(until), ==, 0);
        CHECK(weft_sleep(WEFT_MS) == 0 || weft_now().ns >= until.ns);
        CHECK_INT(waits[i](), ==, -ECANCELED);
        CHECK_INT(weft_now().ns, >=, until.ns);
        CHECK_INT(waits[i](), ==, -ECANCELED);
        CHECK_INT(weft_sleep(0), ==, -ECANCELED);
        weft_shield_end();
        CHECK_INT(waits[i](), ==, -ECANCELED);
    }
    return arg;
}

static weft_sem sem; /* not on a shared stack */

static void *posts(void *arg)
{
    CHECK_INT(weft_sem_post(&sem), ==, 0);
    return arg;
}

IN_EACH_FIBER(a_timer_that_an_earlier_wait_left_does_not_hide_the_shields)
{
    cancel_me();
    for (int i = 0; i < 5; i++) {
        weft_time until = weft_in(20 * WEFT_MS);
        CHECK_INT(weft_shield_begin(until), ==, 0);
        weft_fiber *f = go(posts, NULL);
        bool left = weft_sem_wait(&sem, weft_in(10 * WEFT_MS)) == 0; /* its timer in the wheel, if it was in time */
        if (left)
            CHECK_INT(weft_sem_wait(&sem, WEFT_FOREVER), ==, -ECANCELED);
        CHECK(!left || weft_now().ns >= until.ns);
        weft_shield_end();
        CHECK_INT(weft_shield_begin(weft_in(LONG)), ==, 0);
        ended(f);
        CHECK_INT(weft_sem_wait(&sem, WEFT_NOW), ==, left ? -EAGAIN : 0);
        weft_shield_end();
    }
    return arg;
}

static void *waits_in_shields_that_are_over(void *arg)
{
    cancel_me();
    for (int i = 0; i < 200; i++) { /* the other fiber runs before the worker looks at its clock */
        CHECK_INT(weft_shield_begin(weft_in(-WEFT_MS)), ==, 0);
        weft_fiber *f = go(posts, NULL);
        CHECK_INT(weft_sem_wait(&sem, WEFT_FOREVER), ==, -ECANCELED);
        weft_shield_end();
        CHECK_INT(weft_shield_begin(weft_in(LONG)), ==, 0);
        CHECK_INT(weft_sem_wait(&sem, WEFT_FOREVER), ==, 0);
        ended(f);
        weft_shield_end();
    }
    return arg;
}

TEST(a_wait_that_begins_after_the_shields_deadline_is_cancelled_at_once)
{
    in_a_fiber(1, waits_in_shields_that_are_over, NULL);
}

static void *is_cancelled_late(void *arg)
{
    int *stage = arg;
    CHECK_INT(weft_shield_begin(weft_in(WEFT_MS)), ==, 0);
    put(stage, 1);
    return ptr(weft_park(WEFT_FOREVER)); /* and ends in its shield */
}

IN_EACH_FIBER(a_cancel_after_the_shields_deadline_ends_the_wait)
{
    static int stage; /* not on a shared stack */
    put(&stage, 0);
    weft_fiber *f = go(is_cancelled_late, &stage);
    AWAIT(seen(&stage) == 1 && is_parked(f));
    CHECK_INT(weft_sleep(20 * WEFT_MS), ==, 0); /* mostly it waits without its shield by then */
    CHECK(is_parked(f));
    CHECK_INT(weft_cancel(f), ==, 0);
    CHECK_INT((intptr_t)ended(f), ==, -ECANCELED);
    return arg;
}

IN_EACH_FIBER(a_shield_changes_nothing_for_a_fiber_that_is_not_cancelled)
{
    weft_time until = weft_in(30 * WEFT_MS);
    CHECK_INT(weft_shield_begin(weft_in(WEFT_MS)), ==, 0);
    CHECK_INT(weft_park(until), ==, -ETIMEDOUT); /* past the shield's end */
    CHECK_INT(weft_now().ns, >=, until.ns);
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
    weft_shield_end();
    return arg;
}

IN_EACH_FIBER(a_wait_with_an_earlier_deadline_times_out)
{
    weft_fiber *child = go(parks, NULL);
    cancel_me();
    weft_time shield = weft_in(LONG), until = weft_in(5 * WEFT_MS);
    CHECK_INT(weft_shield_begin(shield), ==, 0);
    CHECK_INT(weft_park(until), ==, -ETIMEDOUT);
    CHECK_INT(weft_now().ns, >=, until.ns);
    CHECK_INT(weft_join(child, NULL, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
    CHECK_INT(weft_sleep(0), ==, 0);
    weft_shield_end();
    until = weft_in(5 * WEFT_MS);
    CHECK_INT(weft_shield_begin(until), ==, 0);
    CHECK_INT(weft_park(until), ==, -ETIMEDOUT); /* also if it is the same */
    weft_shield_end();
    weft_unpark(child);
    CHECK_INT(weft_detach(child), ==, 0);
    return arg;
}

IN_EACH_FIBER(a_shield_whose_time_has_passed_covers_nothing)
{
    cancel_me();
    const weft_time past[] = {WEFT_NOW, {0}, weft_in(-WEFT_MS)};
    for (int i = 0; i < 3; i++) {
        CHECK_INT(weft_shield_begin(past[i]), ==, 0);
        CHECK_INT(weft_park(WEFT_FOREVER), ==, -ECANCELED);
        CHECK_INT(weft_sleep(0), ==, -ECANCELED);
        weft_shield_end();
    }
    return arg;
}

IN_EACH_FIBER(an_inner_shield_cannot_outlast_the_outer_one)
{
    cancel_me();
    weft_time until = weft_in(20 * WEFT_MS);
    CHECK_INT(weft_shield_begin(until), ==, 0);
    for (int i = 0; i < 20; i++)
        CHECK_INT(weft_shield_begin(weft_in(LONG)), ==, 0);
    CHECK(weft_sleep(WEFT_MS) == 0 || weft_now().ns >= until.ns);
    CHECK_INT(weft_sleep(LONG), ==, -ECANCELED);
    CHECK_INT(weft_now().ns, >=, until.ns);
    for (int i = 0; i < 21; i++) {
        CHECK_INT(weft_sleep(WEFT_MS), ==, -ECANCELED);
        weft_shield_end();
    }
    return arg;
}

IN_EACH_FIBER(after_an_inner_shield_the_outer_ones_deadline_counts)
{
    cancel_me();
    CHECK_INT(weft_shield_begin(weft_in(LONG)), ==, 0);
    CHECK_INT(weft_shield_begin(weft_in(WEFT_MS)), ==, 0);
    CHECK_INT(weft_sleep(LONG), ==, -ECANCELED);
    weft_shield_end();
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
    for (int i = 0; i < 40; i++) { /* more than there is room for at first */
        CHECK_INT(weft_shield_begin(weft_in(LONG - i * WEFT_MS)), ==, 0);
        CHECK_INT(weft_sleep(0), ==, 0);
    }
    CHECK_INT(weft_shield_begin(weft_in(WEFT_MS)), ==, 0);
    CHECK_INT(weft_sleep(LONG), ==, -ECANCELED);
    weft_shield_end();
    for (int i = 0; i < 40; i++) {
        CHECK_INT(weft_sleep(0), ==, 0);
        weft_shield_end();
    }
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
    weft_shield_end();
    CHECK_INT(weft_sleep(WEFT_MS), ==, -ECANCELED);
    return arg;
}

IN_EACH_FIBER(a_section_of_a_hook_and_a_shield_do_not_end_each_other)
{
    cancel_me();
    CHECK_INT(weft_shield_begin(weft_in(LONG)), ==, 0);
    CHECK(!weft_hook_deaf(true));
    weft_shield_end();
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
    CHECK_INT(weft_park(weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(weft_shield_begin(WEFT_NOW), ==, 0);
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0); /* the shield is over, the section is not */
    weft_shield_end();
    CHECK_INT(weft_shield_begin(weft_in(LONG)), ==, 0);
    CHECK(weft_hook_deaf(false));
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
    weft_shield_end();
    CHECK_INT(weft_sleep(WEFT_MS), ==, -ECANCELED);
    return arg;
}

static void *ends_in_shields(void *arg)
{
    for (intptr_t i = 0; i < (intptr_t)arg; i++)
        CHECK_INT(weft_shield_begin(weft_in(LONG)), ==, 0);
    return NULL;
}

static void *is_cancelled_at_once(void *arg)
{
    cancel_me();
    CHECK_INT(weft_sleep(WEFT_MS), ==, -ECANCELED);
    return arg;
}

static void *begins_after_such_fibers(void *arg)
{
    struct wf_sys_held before = wf_sys_held();
    for (int i = 0; i < 100; i++) { /* some of them have the record of one that has ended */
        ended(go(ends_in_shields, ptr(i % 4)));
        ended(go(is_cancelled_at_once, NULL));
    }
    CHECK_INT(wf_sys_held().n, <=, before.n + 8); /* a stack and records are kept, and no shields */
    return arg;
}

TEST(a_fiber_may_end_in_shields)
{
    in_a_fiber(1, begins_after_such_fibers, NULL);
}

static void *is_refused(void *arg)
{
    CHECK_INT(weft_shield_begin(WEFT_FOREVER), ==, -EINVAL);
    cancel_me();
    CHECK_INT(weft_sleep(WEFT_MS), ==, -ECANCELED);
    return arg;
}

TEST(a_shield_for_ever_or_outside_of_a_fiber_is_refused)
{
    CHECK_INT(weft_shield_begin(weft_in(WEFT_SEC)), ==, -ENXIO);
    CHECK_INT(weft_shield_begin(WEFT_FOREVER), ==, -ENXIO);
    in_a_fiber(1, is_refused, NULL);
}

static void *has_no_memory(void *arg)
{
    cancel_me();
    wf_sys_fail(1u << WF_SYS_MALLOC, 1, 1000);
    int rc = weft_shield_begin(weft_in(LONG)), inner = weft_shield_begin(weft_in(LONG));
    wf_sys_fail(0, 0, 0);
    CHECK_INT(rc, ==, 0);
    CHECK_INT(inner, ==, -ENOMEM);
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
    for (int i = 0; i < 7; i++)
        CHECK_INT(weft_shield_begin(weft_in(LONG)), ==, 0);
    wf_sys_fail(1u << WF_SYS_MALLOC, 1, 1000);
    inner = weft_shield_begin(weft_in(LONG)); /* the array is full */
    wf_sys_fail(0, 0, 0);
    CHECK_INT(inner, ==, -ENOMEM);
    for (int i = 0; i < 8; i++) {
        CHECK_INT(weft_sleep(0), ==, 0);
        weft_shield_end();
    }
    CHECK_INT(weft_sleep(WEFT_MS), ==, -ECANCELED);
    return arg;
}

TEST(without_memory_one_shield_works_and_a_second_is_refused)
{
    in_a_fiber(1, has_no_memory, NULL);
}

static void *ends_without_a_beginning(void *arg)
{
    weft_shield_end();
    CHECK_INT(weft_shield_begin(weft_in(LONG)), ==, 0);
    weft_shield_end();
    weft_shield_end();
    cancel_me();
    CHECK_INT(weft_sleep(WEFT_MS), ==, -ECANCELED);
    return arg;
}

TEST(an_end_without_a_beginning_does_nothing_and_a_debug_build_says_so)
{
    struct heard h;
    hear(&h);
    weft_shield_end(); /* nor on a thread */
    in_a_fiber(1, ends_without_a_beginning, NULL);
    heard(&h);
    CHECK_INT(how_often(h.text, "weft: weft_shield_end: no shield is open"), ==, WF_DEBUG ? 3 : 0);
}

static void *may_move_in_a_shield(void *arg)
{
    for (int i = 0; i < 50; i++) { /* no timer is left in the wheel of the worker that it leaves */
        CHECK_INT(weft_shield_begin(weft_in(WEFT_MS / 2)), ==, 0);
        weft_mutex *m = arg;
        if (weft_mutex_lock(m, WEFT_FOREVER) == 0) {
            weft_sleep(100 * WEFT_US);
            weft_mutex_unlock(m);
        }
        weft_shield_end();
    }
    return NULL;
}

static void *cancels_some(void *arg)
{
    weft_mutex m = {0};
    weft_fiber *fibers[16];
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 16; i++)
            CHECK_INT(weft_go_with(&fibers[i], &(weft_attr){.flags = WEFT_MIGRATE}, may_move_in_a_shield, &m), ==, 0);
        for (int i = 0; i < 16; i += 2)
            weft_cancel(fibers[i]);
        for (int i = 0; i < 16; i++)
            ended(fibers[i]);
    }
    return arg;
}

TEST(fibers_that_move_leave_no_timer_of_a_shield_behind)
{
    in_a_fiber(4, cancels_some, NULL);
}

TESTS(sched_shield, a_cancelled_fiber_joins_its_child_in_a_shield, a_cancel_leaves_a_wait_in_a_shield_alone,
      a_wait_ends_at_the_shields_deadline_and_so_do_later_ones,
      a_timer_that_an_earlier_wait_left_does_not_hide_the_shields,
      a_wait_that_begins_after_the_shields_deadline_is_cancelled_at_once,
      a_cancel_after_the_shields_deadline_ends_the_wait, a_shield_changes_nothing_for_a_fiber_that_is_not_cancelled,
      a_wait_with_an_earlier_deadline_times_out, a_shield_whose_time_has_passed_covers_nothing,
      an_inner_shield_cannot_outlast_the_outer_one, after_an_inner_shield_the_outer_ones_deadline_counts,
      a_section_of_a_hook_and_a_shield_do_not_end_each_other, a_fiber_may_end_in_shields,
      a_shield_for_ever_or_outside_of_a_fiber_is_refused, without_memory_one_shield_works_and_a_second_is_refused,
      an_end_without_a_beginning_does_nothing_and_a_debug_build_says_so,
      fibers_that_move_leave_no_timer_of_a_shield_behind)
