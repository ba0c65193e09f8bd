/*
 * What debug builds (WEFT_DEBUG) tell of: handles of fibers that are gone, locks of fibers that have ended, objects
 * that go while fibers wait for them, and fibers that keep others waiting. Each test runs in a child, which may abort.
 */
#include <signal.h>
#include <stdlib.h>

#include <weft/chan.h>
#include <weft/io.h>
#include <weft/sync.h>

#include "base/sanitizer.h"
#include "unit/sched/ground.h"
#include "unit/sched/heard.h"

#define ONLY_IN_DEBUG_BUILDS                                                                                           \
    do {                                                                                                               \
        if (!WF_DEBUG)                                                                                                 \
            SKIP("only builds with WEFT_DEBUG tell of it");                                                            \
    } while (0)

static weft_fiber *go_as(const char *name, weft_fn *fn, void *arg)
{
    weft_fiber *f = NULL;
    CHECK_INT(weft_go_with(&f, &(weft_attr){.name = name}, fn, arg), ==, 0);
    return f;
}

/* Runs a fiber as the first of a runtime with one worker. */
static void runs(void *fn)
{
    in_a_fiber(1, *(weft_fn **)fn, NULL);
}

#define CHECK_ABORTS(fn, says) CHECK_CHILD(runs, &(weft_fn *){fn}, SIGABRT, says)
#define CHECK_RUNS(fn) CHECK_CHILD(runs, &(weft_fn *){fn}, 0, NULL)

/* ---- handles ---- */

static weft_fiber *joined(void)
{
    weft_fiber *f = go_as("gone", returns_at_once, NULL);
    ended(f);
    return f;
}

static void *joins_again(void *arg)
{
    weft_join(joined(), NULL, WEFT_FOREVER);
    return arg;
}

static void *detaches_it(void *arg)
{
    weft_detach(joined());
    return arg;
}

static void *cancels_it(void *arg)
{
    weft_cancel(joined());
    return arg;
}

static void *unparks_it(void *arg)
{
    weft_unpark(joined());
    return arg;
}

static void *submits_it(void *arg)
{
    weft_sched_submit(weft_sched_current(), joined(), 0);
    return arg;
}

static void *cancels_it_on_hangup(void *arg)
{
    weft_cancel_on_hangup(0, joined());
    return arg;
}

static void *asks_its_id(void *arg)
{
    weft_fiber_id(joined());
    return arg;
}

static void *asks_its_name(void *arg)
{
    weft_fiber_name(joined());
    return arg;
}

static void *asks_its_state(void *arg)
{
    weft_fiber_state(joined());
    return arg;
}

static void *asks_its_birth(void *arg)
{
    weft_fiber_born(joined());
    return arg;
}

static void *asks_its_site(void *arg)
{
    weft_fiber_site(joined());
    return arg;
}

static void *asks_what_it_waits_for(void *arg)
{
    weft_fiber_waits_for(joined(), NULL);
    return arg;
}

static void *asks_its_worker(void *arg)
{
    weft_fiber_worker(joined());
    return arg;
}

TEST(every_use_of_a_handle_after_its_join_aborts)
{
    ONLY_IN_DEBUG_BUILDS;
    CHECK_ABORTS(joins_again, "weft: weft_join: fiber ");
    CHECK_ABORTS(detaches_it, "weft: weft_detach: fiber ");
    CHECK_ABORTS(cancels_it, "weft: weft_cancel: fiber ");
    CHECK_ABORTS(unparks_it, "weft: weft_unpark: fiber ");
    CHECK_ABORTS(submits_it, "weft: weft_sched_submit: fiber ");
    CHECK_ABORTS(cancels_it_on_hangup, "weft: weft_cancel_on_hangup: fiber ");
    CHECK_ABORTS(asks_its_id, "weft: weft_fiber_id: fiber ");
    CHECK_ABORTS(asks_its_name, "weft: weft_fiber_name: fiber ");
    CHECK_ABORTS(asks_its_state, "weft: weft_fiber_state: fiber ");
    CHECK_ABORTS(asks_its_birth, "weft: weft_fiber_born: fiber ");
    CHECK_ABORTS(asks_its_site, "weft: weft_fiber_site: fiber ");
    CHECK_ABORTS(asks_what_it_waits_for, "weft: weft_fiber_waits_for: fiber ");
    CHECK_ABORTS(asks_its_worker, "weft: weft_fiber_worker: fiber ");
}

TEST(the_line_says_which_fiber_it_was_and_what_to_do)
{
    ONLY_IN_DEBUG_BUILDS;
    CHECK_ABORTS(joins_again, "\"gone\", spawned at " __FILE__ ":");
    CHECK_ABORTS(joins_again, "was joined before, or was detached and has ended");
    CHECK_ABORTS(joins_again, "Do not use a handle after weft_join or weft_detach");
}

static void *cancels_a_detached_one(void *arg)
{
    weft_fiber *f = go_as("gone", returns_at_once, NULL);
    CHECK_INT(weft_detach(f), ==, 0);
    while (count_fibers() > 1)
        weft_yield();
    weft_cancel(f);
    return arg;
}

static void *uses_one_that_was_dropped(void *arg)
{
    weft_fiber *f = NULL;
    CHECK_INT(weft_fiber_new(&f, NULL, returns_at_once, NULL), ==, 0);
    CHECK_INT(weft_detach(f), ==, 0);
    weft_cancel(f);
    return arg;
}

static void *uses_one_that_had_ended(void *arg)
{
    weft_fiber *f = go(returns_at_once, NULL);
    AWAIT(weft_fiber_state(f) == WEFT_FIBER_DONE);
    CHECK_INT(weft_detach(f), ==, 0);
    weft_cancel(f);
    return arg;
}

TEST(so_does_a_use_after_a_detach_once_the_fiber_has_ended)
{
    ONLY_IN_DEBUG_BUILDS;
    CHECK_ABORTS(cancels_a_detached_one, "weft: weft_cancel: fiber ");
    CHECK_ABORTS(uses_one_that_was_dropped, "weft: weft_cancel: fiber ");
    CHECK_ABORTS(uses_one_that_had_ended, "weft: weft_cancel: fiber ");
}

static void *others_come_between(void *arg)
{
    weft_fiber *f = joined();
    for (int i = 0; i < 100; i++)
        ended(go(returns_at_once, NULL));
    weft_cancel(f);
    return arg;
}

TEST(though_other_fibers_have_come_since)
{
    ONLY_IN_DEBUG_BUILDS;
    CHECK_ABORTS(others_come_between, "\"gone\", spawned at ");
}

static void *uses_a_live_one(void *arg)
{
    weft_fiber *f = go(parks, NULL);
    CHECK_INT(weft_detach(f), ==, 0);
    AWAIT(is_parked(f)); /* a detached one may be used until it ends */
    CHECK_INT(weft_detach(f), ==, -EALREADY);
    CHECK_INT(weft_join(f, NULL, WEFT_NOW), ==, -EINVAL);
    weft_unpark(f);
    for (int i = 0; i < 2000; i++) /* more than are kept apart: records come back */
        ended(go(returns_at_once, NULL));
    return arg;
}

TEST(handles_of_live_fibers_may_be_used)
{
    CHECK_RUNS(uses_a_live_one);
}

/* ---- locks ---- */

static weft_mutex mutex, second;
static weft_rmutex rmutex;
static weft_rwlock rwlock;

static void *ends_with_a_mutex(void *arg)
{
    CHECK_INT(weft_mutex_lock(&second, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_mutex_lock(&mutex, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_mutex_unlock(&second), ==, 0);
    return arg;
}

static void *spawns_one_with_a_mutex(void *arg)
{
    ended(go_as("forgetful", ends_with_a_mutex, NULL));
    return arg;
}

static void *ends_with_a_recursive_one(void *arg)
{
    CHECK_INT(weft_rmutex_lock(&rmutex, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_rmutex_lock(&rmutex, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_rmutex_unlock(&rmutex), ==, 0);
    return arg;
}

static void *ends_with_a_rwlock(void *arg)
{
    CHECK_INT(weft_rwlock_write_lock(&rwlock, WEFT_FOREVER), ==, 0);
    return arg;
}

/* It is handed the mutex by the fiber that has it. */
static void *waits_and_ends_with_it(void *arg)
{
    CHECK_INT(weft_mutex_lock(&mutex, WEFT_FOREVER), ==, 0);
    weft_fiber *f = go_as("next", ends_with_a_mutex, NULL);
    AWAIT(is_parked(f));
    CHECK_INT(weft_mutex_unlock(&mutex), ==, 0);
    ended(f);
    return arg;
}

TEST(a_fiber_that_ends_with_a_lock_aborts)
{
    char says[300];
    ONLY_IN_DEBUG_BUILDS;
    CHECK_ABORTS(spawns_one_with_a_mutex, " \"forgetful\", spawned at " __FILE__ ":");
    snprintf(says, sizeof says, "has ended and still holds the mutex %p, which it took at ", (void *)&mutex);
    CHECK_ABORTS(spawns_one_with_a_mutex, says);
    CHECK_ABORTS(spawns_one_with_a_mutex, "test_unit_sched_debug+0x"); /* where, for addr2line */
    CHECK_ABORTS(spawns_one_with_a_mutex, "Release it on every way out");
    CHECK_ABORTS(ends_with_a_recursive_one, "still holds the recursive mutex");
    CHECK_ABORTS(ends_with_a_rwlock, "still holds the rwlock (to write)");
    CHECK_ABORTS(waits_and_ends_with_it, "\"next\", spawned at ");
}

static weft_cond cond;

static void *takes_and_releases(void *arg)
{
    weft_mutex many[20] = {0};
    for (int i = 0; i < 20; i++) /* more than are remembered */
        CHECK_INT(weft_mutex_lock(&many[i], WEFT_FOREVER), ==, 0);
    for (int i = 0; i < 20; i++)
        CHECK_INT(weft_mutex_unlock(&many[i]), ==, 0);
    CHECK_INT(weft_mutex_lock(&mutex, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_mutex_lock(&mutex, WEFT_FOREVER), ==, -EDEADLK);
    CHECK_INT(weft_cond_wait(&cond, &mutex, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(weft_mutex_unlock(&mutex), ==, 0);
    for (int i = 0; i < 3; i++)
        CHECK_INT(weft_rmutex_lock(&rmutex, WEFT_FOREVER), ==, 0);
    for (int i = 0; i < 3; i++)
        CHECK_INT(weft_rmutex_unlock(&rmutex), ==, 0);
    CHECK_INT(weft_rwlock_write_lock(&rwlock, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_rwlock_unlock(&rwlock), ==, 0);
    CHECK_INT(weft_rwlock_read_lock(&rwlock, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_rwlock_unlock(&rwlock), ==, 0);
    return arg;
}

TEST(one_that_has_released_all_does_not)
{
    CHECK_RUNS(takes_and_releases);
}

/* ---- objects ---- */

static weft_sem *on_a_stack;

static void *has_a_semaphore_on_its_stack(void *arg)
{
    weft_sem sem = {0};
    on_a_stack = &sem;
    weft_park(WEFT_FOREVER);
    return arg;
}

static void *waits_for_it(void *arg)
{
    weft_sem_wait(on_a_stack, WEFT_FOREVER);
    return arg;
}

static void *lets_the_owner_end(void *arg)
{
    weft_fiber *owner = go_as("owner", has_a_semaphore_on_its_stack, NULL);
    AWAIT(is_parked(owner));
    weft_fiber *waiter = go_as("waiter", waits_for_it, NULL);
    AWAIT(is_parked(waiter));
    weft_unpark(owner);
    ended(owner);
    return arg;
}

TEST(a_fiber_whose_stack_has_what_others_wait_for_must_not_end)
{
    ONLY_IN_DEBUG_BUILDS;
    CHECK_ABORTS(lets_the_owner_end, "\"owner\", spawned at ");
    CHECK_ABORTS(lets_the_owner_end, "\"waiter\", spawned at ");
    CHECK_ABORTS(lets_the_owner_end, "waits for the semaphore at ");
}

static weft_cond *cond_on_a_stack;

static void *has_a_condition_on_its_stack(void *arg)
{
    weft_cond c = {0};
    cond_on_a_stack = &c;
    weft_park(WEFT_FOREVER);
    return arg;
}

static void *waits_for_that_condition(void *arg)
{
    CHECK_INT(weft_mutex_lock(&mutex, WEFT_FOREVER), ==, 0);
    weft_cond_wait(cond_on_a_stack, &mutex, WEFT_FOREVER);
    return arg;
}

static void *lets_the_owner_of_a_condition_end(void *arg)
{
    weft_fiber *owner = go(has_a_condition_on_its_stack, NULL);
    AWAIT(is_parked(owner));
    weft_fiber *waiter = go(waits_for_that_condition, NULL);
    AWAIT(is_parked(waiter));
    weft_unpark(owner);
    ended(owner);
    return arg;
}

TEST(so_it_is_with_a_condition)
{
    ONLY_IN_DEBUG_BUILDS;
    CHECK_ABORTS(lets_the_owner_of_a_condition_end, "waits for the condition at ");
}

/* It posts as the last thing that it does: the one that waited has been woken, but has not run. */
static void *posts_and_ends(void *arg)
{
    weft_sem sem = {0};
    on_a_stack = &sem;
    weft_fiber *waiter = go(waits_for_it, NULL);
    AWAIT(is_parked(waiter));
    weft_sem_post(&sem);
    return arg;
}

TEST(it_may_if_it_has_woken_them)
{
    CHECK_RUNS(posts_and_ends);
}

static weft_sem overwritten;

static void *waits_a_while(void *arg)
{
    weft_sem_wait(&overwritten, WEFT_FOREVER);
    return arg;
}

static void *overwrites_it(void *arg)
{
    weft_fiber *f = go_as("waiter", waits_a_while, NULL);
    AWAIT(is_parked(f));
    overwritten = (weft_sem){0};
    CHECK_INT(weft_cancel(f), ==, 0);
    ended(f);
    return arg;
}

TEST(an_object_that_was_overwritten_while_one_waited_aborts)
{
    ONLY_IN_DEBUG_BUILDS;
    CHECK_ABORTS(overwrites_it, "it was freed or overwritten while fiber ");
    CHECK_ABORTS(overwrites_it, "\"waiter\", spawned at ");
}

static weft_chan *chan;

static void *receives(void *arg)
{
    char byte;
    CHECK_INT(weft_chan_recv(chan, &byte, WEFT_FOREVER), ==, -EPIPE);
    return arg;
}

static void *frees_a_channel(void *arg)
{
    struct heard h;
    CHECK_INT(weft_chan_new(&chan, 1, 0), ==, 0);
    weft_fiber *f = go(receives, NULL);
    AWAIT(is_parked(f));
    hear(&h);
    CHECK_INT(weft_chan_free(chan), ==, -EBUSY);
    heard(&h);
    CHECK_INT(how_often(h.text, "weft: weft_chan_free: somebody waits for the channel"), ==, WF_DEBUG ? 1 : 0);
    CHECK_INT(how_often(h.text, "close it, join those that use it, then free it"), ==, WF_DEBUG ? 1 : 0);
    CHECK_INT(weft_chan_close(chan), ==, 0);
    ended(f);
    CHECK_INT(weft_chan_free(chan), ==, 0);
    return arg;
}

TEST(a_channel_that_somebody_waits_for_is_not_freed_and_debug_builds_say_so)
{
    CHECK_RUNS(frees_a_channel);
}

/* ---- computing ---- */

static void compute(int64_t ns)
{
    for (int64_t until = real_now() + ns; real_now() < until;)
        ;
}

static void *computes(void *arg)
{
    compute(1100 * WEFT_MS);
    weft_yield();
    compute(1100 * WEFT_MS); /* said once of a fiber */
    return arg;
}

static void *computes_after_waking(void *f)
{
    weft_unpark(f);
    compute(1100 * WEFT_MS);
    return NULL;
}

static void *wakes_after_computing(void *f)
{
    compute(1100 * WEFT_MS);
    weft_unpark(f);
    return NULL;
}

static void *sleeps_shortly(void *arg)
{
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
    return arg;
}

static void check_long(const char *file, int line, const char *text, const char *kept)
{
    if (how_often(text, "without giving way") != (WF_DEBUG ? 1 : 0) ||
        how_often(text, " \"calc\", spawned at " __FILE__ ":") != (WF_DEBUG ? 1 : 0) ||
        how_often(text, " s without giving way, and kept fiber ") != (WF_DEBUG ? 1 : 0) ||
        how_often(text, kept) != (WF_DEBUG ? 1 : 0) || how_often(text, "call weft_yield") != (WF_DEBUG ? 1 : 0))
        test_failed(file, line, "it said: %s", text);
}
#define CHECK_LONG(text, kept) check_long(__FILE__, __LINE__, text, kept)

static void *yields_twice(void *arg)
{
    weft_yield();
    weft_yield();
    return arg;
}

static void *keeps_a_ready_one_waiting(void *arg)
{
    struct heard h;
    hear(&h);
    weft_fiber *calc = go_as("calc", computes, NULL), *f = go_as("ready", yields_twice, NULL);
    ended(calc);
    ended(f);
    heard(&h);
    CHECK_LONG(h.text, " \"ready\", spawned at ");
    return arg;
}

static void *keeps_a_woken_one_waiting(void *arg)
{
    struct heard h;
    weft_fiber *f = go_as("woken", parks, NULL);
    AWAIT(is_parked(f));
    hear(&h);
    ended(go_as("calc", computes_after_waking, f));
    ended(f);
    heard(&h);
    CHECK_LONG(h.text, " \"woken\", spawned at ");
    return arg;
}

static void *keeps_a_sleeper_waiting(void *arg)
{
    struct heard h;
    weft_fiber *f = go_as("sleeper", sleeps_shortly, NULL);
    AWAIT(is_parked(f) || weft_fiber_state(f) == WEFT_FIBER_DONE); /* a slow machine may be too late */
    hear(&h);
    ended(go_as("calc", computes, NULL));
    ended(f);
    heard(&h);
    CHECK_LONG(h.text, " \"sleeper\", spawned at ");
    return arg;
}

TEST(a_fiber_that_computes_for_long_while_another_is_ready_is_told_of)
{
    CHECK_RUNS(keeps_a_ready_one_waiting);
    CHECK_RUNS(keeps_a_woken_one_waiting);
    CHECK_RUNS(keeps_a_sleeper_waiting);
}

static void *keeps_nobody_waiting(void *arg)
{
    struct heard h;
    weft_fiber *f = go_as("parked", parks, NULL), *last = NULL;
    AWAIT(is_parked(f));
    hear(&h);
    ended(go_as("calc", computes, NULL)); /* we wait for its end, and are woken by that */
    last = go_as("calc", computes, NULL);
    CHECK_INT(weft_join(last, NULL, weft_in(100 * WEFT_SEC)), ==, 0);
    ended(go_as("calc", wakes_after_computing, f)); /* f has just become ready */
    ended(f);
    heard(&h);
    CHECK_STR(h.text, "");
    return arg;
}

TEST(one_that_keeps_nobody_waiting_is_not)
{
    CHECK_RUNS(keeps_nobody_waiting);
}

TESTS(sched_debug, every_use_of_a_handle_after_its_join_aborts, the_line_says_which_fiber_it_was_and_what_to_do,
      so_does_a_use_after_a_detach_once_the_fiber_has_ended, though_other_fibers_have_come_since,
      handles_of_live_fibers_may_be_used, a_fiber_that_ends_with_a_lock_aborts, one_that_has_released_all_does_not,
      a_fiber_whose_stack_has_what_others_wait_for_must_not_end, so_it_is_with_a_condition, it_may_if_it_has_woken_them,
      an_object_that_was_overwritten_while_one_waited_aborts,
      a_channel_that_somebody_waits_for_is_not_freed_and_debug_builds_say_so,
      a_fiber_that_computes_for_long_while_another_is_ready_is_told_of, one_that_keeps_nobody_waiting_is_not)
