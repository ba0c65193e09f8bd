/*
 * Fiber-local values: keys for the process, values for each fiber, destructors at its end.
 */
#include <stdlib.h>

#include "base/sys.h"
#include "unit/sched/ground.h"

static int destroyed;

static void destroys(void *value)
{
    CHECK(weft_fiber_current() != NULL);
    __atomic_add_fetch(&destroyed, (int)(intptr_t)value, __ATOMIC_RELAXED);
}

static weft_local key, plain; /* with a destructor, and without */

static void make_keys(void)
{
    if (key.index == 0) {
        CHECK_INT(weft_local_new(&key, destroys), ==, 0);
        CHECK_INT(weft_local_new(&plain, NULL), ==, 0);
    }
}

static void *has_its_own(void *arg)
{
    CHECK_PTR(weft_local_get(key), ==, NULL);
    CHECK_PTR(weft_local_get(plain), ==, NULL);
    CHECK_INT(weft_local_set(key, arg), ==, 0);
    CHECK_INT(weft_local_set(plain, &arg), ==, 0);
    for (int i = 0; i < 10; i++) {
        weft_yield();
        CHECK_INT(weft_sleep(WEFT_US), ==, 0);
        CHECK_PTR(weft_local_get(key), ==, arg);
        CHECK_PTR(weft_local_get(plain), ==, &arg);
    }
    return NULL;
}

static void *many_have_their_own(void *arg)
{
    weft_fiber *f[20];
    for (int i = 0; i < 20; i++)
        f[i] = go(has_its_own, ptr(i + 1));
    for (int i = 0; i < 20; i++)
        ended(f[i]);
    return arg;
}

TEST(each_fiber_has_a_value_of_its_own)
{
    make_keys();
    for (unsigned workers = 1; workers <= 4; workers += 3) {
        destroyed = 0;
        in_a_fiber(workers, many_have_their_own, NULL);
        CHECK_INT(destroyed, ==, 210);
    }
}

static void *is_in_a_coroutine(void *arg)
{
    CHECK_PTR(weft_local_get(key), ==, ptr(5)); /* the fiber's */
    CHECK_INT(weft_local_set(key, ptr(6)), ==, 0);
    return arg;
}

static void *has_a_coroutine(void *arg)
{
    weft_coro *c;
    CHECK_INT(weft_local_set(key, ptr(5)), ==, 0);
    CHECK_INT(weft_coro_new(&c, is_in_a_coroutine, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_free(c), ==, 0);
    CHECK_PTR(weft_local_get(key), ==, ptr(6));
    return arg;
}

TEST(the_coroutines_of_a_fiber_share_it)
{
    make_keys();
    in_a_fiber(1, has_a_coroutine, NULL);
}

static void *sets_null(void *arg)
{
    CHECK_INT(weft_local_set(key, NULL), ==, 0); /* needs no memory */
    CHECK_INT(weft_local_set(key, ptr(1000)), ==, 0);
    CHECK_INT(weft_local_set(key, NULL), ==, 0);
    CHECK_PTR(weft_local_get(key), ==, NULL);
    return arg;
}

TEST(there_is_no_destructor_call_for_null)
{
    make_keys();
    destroyed = 0;
    in_a_fiber(1, sets_null, NULL);
    CHECK_INT(destroyed, ==, 0);
}

TEST(outside_a_fiber_there_is_none)
{
    make_keys();
    CHECK_PTR(weft_local_get(key), ==, NULL);
    CHECK_INT(weft_local_set(key, ptr(1)), ==, -ENXIO);
    weft_local nothing = {0}, unknown = {129};
    CHECK_INT(weft_local_set(nothing, ptr(1)), ==, -EINVAL);
    CHECK_INT(weft_local_set(unknown, ptr(1)), ==, -EINVAL);
    CHECK_PTR(weft_local_get(nothing), ==, NULL);
    CHECK_PTR(weft_local_get(unknown), ==, NULL);
    CHECK_INT(weft_local_new(NULL, NULL), ==, -EINVAL);
}

/* A destructor that sets it again is called again, four times over. */
static weft_local stubborn;
static int rounds;

static void sets_it_again(void *value)
{
    rounds++;
    CHECK_PTR(weft_local_get(stubborn), ==, NULL);
    CHECK_INT(weft_local_set(stubborn, value), ==, 0);
    CHECK_INT(weft_sleep(WEFT_US), ==, 0); /* it is a fiber's code: it may wait */
    CHECK_INT(weft_go(returns_at_once, NULL), ==, 0);
}

static void *sets_the_stubborn(void *arg)
{
    CHECK_INT(weft_local_set(stubborn, ptr(1)), ==, 0);
    return arg;
}

static void *runs_the_stubborn(void *arg)
{
    struct wf_sys_held before = wf_sys_held();
    CHECK_PTR(ended(go(sets_the_stubborn, arg)), ==, arg);
    CHECK_INT(wf_sys_held().n, ==, before.n);
    return arg;
}

TEST(a_destructor_that_sets_it_again_is_called_four_times)
{
    if (stubborn.index == 0)
        REQUIRE(weft_local_new(&stubborn, sets_it_again) == 0);
    rounds = 0;
    in_a_fiber(1, runs_the_stubborn, ptr(7));
    CHECK_INT(rounds, ==, 4);
}

static void *has_no_memory(void *arg)
{
    wf_sys_fail(1u << WF_SYS_MALLOC, 1, 0);
    CHECK_INT(weft_local_set(key, ptr(1)), ==, -ENOMEM);
    CHECK_PTR(weft_local_get(key), ==, NULL);
    CHECK_INT(weft_local_set(key, ptr(1)), ==, 0);
    wf_sys_fail(0, 0, 0);
    return arg;
}

TEST(without_memory_it_is_enomem)
{
    make_keys();
    in_a_fiber(1, has_no_memory, NULL);
}

/* The last test: what it takes, it keeps. */
TEST(there_are_128_keys)
{
    weft_local made = {0}, last = {0};
    int rc, more_keys = 0;
    while ((rc = weft_local_new(&made, NULL)) == 0) {
        last = made;
        more_keys++;
    }
    CHECK_INT(rc, ==, -EAGAIN);
    CHECK_INT(last.index, ==, made.index); /* untouched */
    CHECK_INT(more_keys, ==, 128 - 3);
}

TESTS(fiber_local, each_fiber_has_a_value_of_its_own, the_coroutines_of_a_fiber_share_it,
      there_is_no_destructor_call_for_null, outside_a_fiber_there_is_none,
      a_destructor_that_sets_it_again_is_called_four_times, without_memory_it_is_enomem, there_are_128_keys)
