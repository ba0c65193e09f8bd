/*
 * Alarms by the wall clock: not before their time, also when that clock is set; cancelled, dropped, stopped. That the clock
 * was set is said by the seam: a test must not set it.
 */
#include <weft/alarm.h>

#include "base/sys.h"
#include "unit/io/ground.h"

struct rung {
    int times;
    weft_wall at;
    weft_alarm *alarm;
    int rc;
};

static void rings(void *arg)
{
    struct rung *r = arg;
    r->at = weft_wall_now();
    more(&r->times);
}

static weft_wall wall_in(weft_span d)
{
    return (weft_wall){weft_wall_now().ns + d};
}

IN_FIBER(an_alarm_rings_once_and_not_before_its_time)
{
    struct rung r = {0};
    weft_wall at = wall_in(20 * WEFT_MS);
    CHECK_INT(weft_alarm_new(&r.alarm, at, NULL, rings, &r), ==, 0);
    AWAIT(seen(&r.times) == 1);
    CHECK_INT(r.at.ns, >=, at.ns);
    CHECK_INT(weft_alarm_cancel(r.alarm), ==, 0);
    CHECK_INT(weft_alarm_free(r.alarm), ==, 0);
    return arg;
}

IN_FIBER(one_in_the_past_rings_at_once)
{
    struct rung r = {0}, r2 = {0};
    CHECK_INT(weft_alarm_new(NULL, wall_in(-WEFT_SEC), NULL, rings, &r), ==, 0);
    CHECK_INT(weft_alarm_new(NULL, (weft_wall){0}, NULL, rings, &r2), ==, 0);
    AWAIT(seen(&r.times) == 1 && seen(&r2.times) == 1);
    return arg;
}

IN_FIBER(a_clock_that_is_set_is_noticed)
{
    struct rung r = {0};
    weft_wall at = wall_in(10 * WEFT_MS);
    wf_sys_fail(1u << WF_SYS_TIMERFD_READ, 1, 2);
    CHECK_INT(weft_alarm_new(NULL, at, NULL, rings, &r), ==, 0);
    AWAIT(seen(&r.times) == 1);
    CHECK_INT(wf_sys_calls(), >=, 4); /* three times it was said that the clock was set */
    wf_sys_fail(0, 0, 0);
    CHECK_INT(r.at.ns, >=, at.ns);
    return arg;
}

static void cancels_itself(void *arg)
{
    struct rung *r = arg;
    while (!__atomic_load_n(&r->alarm, __ATOMIC_ACQUIRE))
        weft_yield();
    r->rc = weft_alarm_free(r->alarm);
    more(&r->times);
}

/* Until an alarm that was set for later than `at` has rung. */
static void await_later_than(weft_wall at)
{
    struct rung later = {0};
    CHECK_INT(weft_alarm_new(NULL, (weft_wall){at.ns + WEFT_MS}, NULL, rings, &later), ==, 0);
    AWAIT(seen(&later.times) == 1);
    weft_yield();
}

/*
 * Cancels an alarm, and lets its time pass. On a slow machine that time may come before the cancel. Then the alarm rings
 * once, and this says false.
 */
static bool is_cancelled_in_time(weft_span after)
{
    struct rung r = {0};
    weft_alarm *a = NULL;
    weft_wall at = wall_in(after);
    CHECK_INT(weft_alarm_new(&a, at, NULL, rings, &r), ==, 0);
    int in_time = weft_alarm_cancel(a);
    await_later_than(at);
    if (in_time == 0)
        AWAIT(seen(&r.times) == 1);
    CHECK_INT(seen(&r.times), ==, in_time ? 0 : 1);
    CHECK_INT(weft_alarm_free(a), ==, 0);
    return in_time;
}

IN_FIBER(a_cancelled_one_never_rings)
{
    struct rung r = {0}, own = {.rc = -1};
    weft_alarm *a = NULL;
    CHECK_INT(weft_alarm_new(&a, wall_in(1000 * WEFT_SEC), NULL, rings, &r), ==, 0);
    CHECK_INT(weft_alarm_cancel(a), ==, 1);
    CHECK_INT(weft_alarm_cancel(a), ==, 0);
    CHECK_INT(weft_alarm_free(a), ==, 0);
    CHECK_INT(weft_alarm_new(&a, wall_in(1000 * WEFT_SEC), NULL, rings, &r), ==, 0);
    weft_yield();
    CHECK_INT(weft_alarm_free(a), ==, 1); /* and nobody waits for it at the end of this test */
    weft_span after = WEFT_MS;
    while (!is_cancelled_in_time(after))
        after *= 2;
    CHECK_INT(weft_alarm_new(&a, wall_in(WEFT_MS), NULL, cancels_itself, &own), ==, 0);
    __atomic_store_n(&own.alarm, a, __ATOMIC_RELEASE);
    AWAIT(seen(&own.times) == 1);
    CHECK_INT(own.rc, ==, 0);
    CHECK_INT(seen(&r.times), ==, 0);
    return arg;
}

static void destroys(void *object)
{
    more(object);
}

IN_FIBER(one_whose_owner_is_gone_never_rings)
{
    struct rung r = {0}, after = {0};
    int destroyed = 0;
    weft_alive *owner = NULL;
    CHECK_INT(weft_alive_new(&owner, &destroyed, destroys), ==, 0);
    CHECK_INT(weft_alarm_new(NULL, wall_in(200 * WEFT_MS), owner, rings, &r), ==, 0);
    weft_alive_drop(owner);
    CHECK_INT(destroyed, ==, 1);
    CHECK_INT(weft_alarm_new(NULL, wall_in(210 * WEFT_MS), NULL, rings, &after), ==, 0);
    AWAIT(seen(&after.times) == 1);
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
    CHECK_INT(seen(&r.times), ==, 0);
    return arg;
}

static void *sets_one_far_away(void *arg)
{
    struct rung *r = arg;
    return ptr(weft_alarm_new(&r->alarm, wall_in(1000 * WEFT_SEC), NULL, rings, r));
}

TEST(at_the_deadline_of_a_stop_it_is_cancelled)
{
    struct rung r = {0};
    weft_sched *s = running_sched(1);
    CHECK_INT((intptr_t)ended(go_on(s, sets_one_far_away, &r)), ==, 0);
    CHECK_INT(weft_sched_stop(s, weft_in(3 * WEFT_MS)), ==, 0);
    CHECK_INT(weft_sched_free(s), ==, 0);
    CHECK_INT(weft_alarm_cancel(r.alarm), ==, 0);
    CHECK_INT(weft_alarm_free(r.alarm), ==, 0);
    CHECK_INT(seen(&r.times), ==, 0);
}

TEST(what_cannot_be_is_refused)
{
    struct rung r = {0};
    weft_alarm *a = (weft_alarm *)1;
    CHECK_INT(weft_alarm_new(&a, wall_in(0), NULL, rings, &r), ==, -ENXIO);
    CHECK_INT(weft_alarm_new(&a, wall_in(0), NULL, NULL, &r), ==, -EINVAL);
    CHECK_INT(weft_alarm_new(&a, (weft_wall){-1}, NULL, rings, &r), ==, -EINVAL);
    wf_sys_fail(1u << WF_SYS_TIMERFD, 1, 0);
    CHECK_INT(weft_alarm_new(&a, wall_in(0), NULL, rings, &r), ==, -EMFILE);
    wf_sys_fail(1u << WF_SYS_MALLOC, 1, 0);
    CHECK_INT(weft_alarm_new(&a, wall_in(0), NULL, rings, &r), ==, -ENOMEM);
    wf_sys_fail(0, 0, 0);
    CHECK_PTR(a, ==, (weft_alarm *)1);
    CHECK_INT(weft_alarm_cancel(NULL), ==, -EINVAL);
    CHECK_INT(weft_alarm_free(NULL), ==, 0);
}

TESTS(io_alarm, an_alarm_rings_once_and_not_before_its_time, one_in_the_past_rings_at_once,
      a_clock_that_is_set_is_noticed, a_cancelled_one_never_rings, one_whose_owner_is_gone_never_rings,
      at_the_deadline_of_a_stop_it_is_cancelled, what_cannot_be_is_refused)
