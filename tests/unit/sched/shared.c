/*
 * Fibers on shared stacks: many on one stack, each with its own bytes whenever it runs.
 */
#include <stdlib.h>

#include "support/locals.h"
#include "unit/sched/ground.h"

static weft_stacks *new_pool(size_t count)
{
    weft_stacks *pool = NULL;
    CHECK_INT(weft_stacks_new(&pool, count, 0), ==, 0);
    return pool;
}

static weft_fiber *go_shared(weft_sched *s, weft_stacks *pool, weft_fn *fn, void *arg)
{
    weft_fiber *f = NULL;
    CHECK_INT(weft_sched_go(s, &f, &(weft_attr){.shared = pool}, fn, arg), ==, 0);
    return f;
}

/* Runs body on pools of one and three stacks, by one and three workers. */
static void with_pools(void (*body)(weft_sched *, weft_stacks *))
{
    for (unsigned workers = 1; workers <= 3; workers += 2) {
        for (size_t stacks = 1; stacks <= 3; stacks += 2) {
            weft_stacks *pool = new_pool(stacks);
            weft_sched *s = running_sched(workers);
            body(s, pool);
            end_sched(s);
            CHECK_INT(weft_stacks_free(pool), ==, 0);
        }
    }
}

enum { MANY = 30 };

/* Its locals are its own, whatever it waits for and whoever uses the stack meanwhile. */
static void *keeps_its_locals(void *arg)
{
    struct locals mine;
    intptr_t self = (intptr_t)arg;
    locals_fill(&mine, (uint64_t)self);
    errno = (int)self;
    for (int i = 0; i < 20; i++) {
        switch ((i + self) % 4) {
        case 0:
            weft_yield();
            break;
        case 1:
            CHECK_INT(weft_sleep(2 * WEFT_US), ==, 0);
            break;
        case 2:
            CHECK_INT(weft_park(weft_in(WEFT_US)), ==, -ETIMEDOUT);
            break;
        default:
            CHECK_PTR(ended(go(returns_at_once, arg)), ==, arg);
        }
        CHECK(locals_intact(&mine, (uint64_t)self));
        CHECK_INT(errno, ==, self);
    }
    return ptr(self * 7);
}

static void keep_their_locals(weft_sched *s, weft_stacks *pool)
{
    weft_fiber *f[MANY];
    for (intptr_t i = 0; i < MANY; i++)
        f[i] = go_shared(s, pool, keeps_its_locals, ptr(i));
    for (intptr_t i = 0; i < MANY; i++)
        CHECK_INT((intptr_t)ended(f[i]), ==, i * 7);
}

TEST(locals_are_intact_while_others_use_the_stack)
{
    with_pools(keep_their_locals);
}

/* Each joins the one before it: the value comes to a local of one that was off its stack. */
static void *joins_the_one_before(void *arg)
{
    struct locals mine;
    void *value = NULL;
    locals_fill(&mine, (uintptr_t)arg);
    if (arg)
        CHECK_INT(weft_join(arg, &value, WEFT_FOREVER), ==, 0);
    CHECK(locals_intact(&mine, (uintptr_t)arg));
    return ptr((intptr_t)value + 1);
}

static void join_in_a_row(weft_sched *s, weft_stacks *pool)
{
    weft_fiber *f = NULL;
    for (int i = 0; i < MANY; i++)
        f = go_shared(s, pool, joins_the_one_before, f);
    CHECK_INT((intptr_t)ended(f), ==, MANY);
}

TEST(a_joined_value_comes_to_one_that_was_off_its_stack)
{
    with_pools(join_in_a_row);
}

static void *parks_with_locals(void *arg)
{
    struct locals mine;
    locals_fill(&mine, 3);
    for (int i = 0; i < 3; i++)
        CHECK_INT(weft_park(WEFT_FOREVER), ==, 0);
    CHECK(locals_intact(&mine, 3));
    return arg;
}

static void park_and_unpark(weft_sched *s, weft_stacks *pool)
{
    weft_fiber *f[MANY];
    for (intptr_t i = 0; i < MANY; i++)
        f[i] = go_shared(s, pool, parks_with_locals, ptr(i));
    for (int left = MANY; left > 0; breathe()) {
        left = MANY;
        for (int i = MANY - 1; i >= 0; i--) {
            if (weft_fiber_state(f[i]) == WEFT_FIBER_DONE)
                left--;
            else
                weft_unpark(f[i]);
        }
    }
    for (intptr_t i = 0; i < MANY; i++)
        CHECK_INT((intptr_t)ended(f[i]), ==, i);
}

TEST(they_are_parked_and_unparked_from_other_threads)
{
    with_pools(park_and_unpark);
}

static void *is_cancelled(void *arg)
{
    struct locals mine;
    locals_fill(&mine, (uintptr_t)arg);
    int rc = weft_sleep(AWAIT_SECONDS * WEFT_SEC);
    CHECK(locals_intact(&mine, (uintptr_t)arg));
    return ptr(rc);
}

static void cancel_them(weft_sched *s, weft_stacks *pool)
{
    weft_fiber *f[MANY];
    for (intptr_t i = 0; i < MANY; i++)
        f[i] = go_shared(s, pool, is_cancelled, ptr(i));
    for (int i = 0; i < MANY; i++)
        CHECK_INT(weft_cancel(f[i]), ==, 0);
    for (int i = 0; i < MANY; i++)
        CHECK_INT((intptr_t)ended(f[i]), ==, -ECANCELED);
}

TEST(they_are_cancelled)
{
    with_pools(cancel_them);
}

TEST(a_stack_is_one_workers_at_a_time)
{
    weft_stacks *pool = new_pool(1);
    weft_sched *s = running_sched(2), *other = running_sched(1);
    weft_fiber *first, *f = ptr(1);
    CHECK_INT(weft_sched_go(s, &first, (&(weft_attr){.shared = pool, .worker = WEFT_WORKER(0)}), parks, NULL), ==, 0);
    CHECK_INT(weft_sched_go(s, &f, (&(weft_attr){.shared = pool, .worker = WEFT_WORKER(1)}), parks, NULL), ==, -EBUSY);
    CHECK_INT(weft_sched_go(other, &f, &(weft_attr){.shared = pool}, parks, NULL), ==, -EBUSY);
    CHECK_PTR(f, ==, ptr(1));
    CHECK_INT(weft_stacks_free(pool), ==, -EBUSY);
    CHECK_INT(weft_fiber_new(&f, &(weft_attr){.shared = pool}, returns_at_once, ptr(5)), ==, 0);
    CHECK_INT(weft_sched_submit(s, f, WEFT_WORKER(1)), ==, -EBUSY);
    CHECK_INT(weft_fiber_state(f), ==, WEFT_FIBER_NEW);
    CHECK_INT(weft_sched_submit(s, f, 0), ==, 0); /* on the worker that has the stack */
    CHECK_PTR(ended(f), ==, ptr(5));
    weft_unpark(first);
    ended(first);
    ended(go_shared(other, pool, returns_at_once, NULL)); /* nobody has it any more */
    CHECK_INT(weft_sched_go(s, &f, (&(weft_attr){.shared = pool, .worker = WEFT_WORKER(1)}), returns_at_once, NULL), ==,
              0);
    ended(f);
    end_sched(s);
    end_sched(other);
    CHECK_INT(weft_stacks_free(pool), ==, 0);
}

/* Beside fibers with stacks of their own, in the same chain of joins, under every policy. */
static void *has_both_kinds(void *pool)
{
    weft_fiber *f[MANY];
    for (intptr_t i = 0; i < MANY; i++) {
        weft_attr attr = {.shared = i % 2 ? pool : NULL, .priority = (int)i % 8, .cost = 1 + i};
        CHECK_INT(weft_go_with(&f[i], &attr, keeps_its_locals, ptr(i)), ==, 0);
    }
    for (intptr_t i = 0; i < MANY; i++)
        CHECK_INT((intptr_t)ended(f[i]), ==, i * 7);
    return NULL;
}

TEST(they_run_beside_others_under_every_policy)
{
    static const weft_policy *const policies[] = {&weft_fifo, &weft_priority, &weft_sjf,
                                                  &weft_hrrn, &weft_rr,       &weft_edf};
    weft_stacks *pool = new_pool(2);
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        for (unsigned workers = 1; workers <= 2; workers++)
            CHECK_INT(
                weft_run(has_both_kinds, pool, NULL, &(weft_sched_opts){.threads = workers, .policy = policies[i]}), ==,
                0);
    }
    CHECK_INT(weft_stacks_free(pool), ==, 0);
}

/* Raw coroutines on the same pool, inside of fibers on it. */
static void *yields_numbers(void *arg)
{
    struct locals mine;
    locals_fill(&mine, (uintptr_t)arg);
    for (intptr_t i = 0; i < 5; i++) {
        weft_yield();
        CHECK(locals_intact(&mine, (uintptr_t)arg));
        weft_coro_yield(ptr(i));
        CHECK(locals_intact(&mine, (uintptr_t)arg));
    }
    return arg;
}

static void *has_a_generator_on(void *pool)
{
    struct locals mine;
    weft_coro *c;
    void *value = NULL;
    locals_fill(&mine, 9);
    CHECK_INT(weft_coro_new(&c, yields_numbers, &c, &(weft_coro_opts){.shared = pool}), ==, 0);
    for (intptr_t i = 0; weft_coro_resume(c, NULL, &value) == 1; i++) {
        CHECK_INT((intptr_t)value, ==, i);
        CHECK(locals_intact(&mine, 9));
        weft_yield();
    }
    CHECK_PTR(value, ==, &c);
    CHECK_INT(weft_coro_free(c), ==, 0);
    return NULL;
}

TEST(coroutines_inside_may_use_the_same_stacks)
{
    for (size_t stacks = 1; stacks <= 3; stacks++) {
        weft_stacks *pool = new_pool(stacks);
        weft_sched *s = running_sched(1); /* raw ones are on no worker's stack in particular */
        weft_fiber *f[6];
        for (int i = 0; i < 6; i++)
            f[i] = go_shared(s, pool, has_a_generator_on, pool);
        for (int i = 0; i < 6; i++)
            ended(f[i]);
        end_sched(s);
        CHECK_INT(weft_stacks_free(pool), ==, 0);
    }
}

static __attribute__((noinline)) void yields_from_a_deep_frame(int round)
{
    enum { DEEP = 24 * 1024 };
    volatile char deep[DEEP];
    for (int at = 0; at < DEEP; at++)
        deep[at] = (char)(at + round);
    weft_coro_yield(NULL);
    for (int at = 0; at < DEEP; at++)
        CHECK_INT(deep[at], ==, (char)(at + round));
}

/* Shallow when its fiber waits, deep when it yields itself. */
static void *goes_deep_after_a_wait(void *arg)
{
    for (int i = 0; i < 3; i++) {
        weft_yield();
        yields_from_a_deep_frame(i);
    }
    return arg;
}

static void *has_a_deep_generator_on(void *pool)
{
    struct locals mine;
    weft_coro *c;
    locals_fill(&mine, 4);
    CHECK_INT(weft_coro_new(&c, goes_deep_after_a_wait, NULL, &(weft_coro_opts){.shared = pool}), ==, 0);
    while (weft_coro_resume(c, NULL, NULL) == 1)
        CHECK(locals_intact(&mine, 4));
    CHECK_INT(weft_coro_free(c), ==, 0);
    return NULL;
}

TEST(one_inside_may_go_deeper_after_its_fiber_waited)
{
    weft_stacks *pool = new_pool(1);
    weft_sched *s = running_sched(1);
    ended(go_shared(s, pool, has_a_deep_generator_on, pool));
    end_sched(s);
    CHECK_INT(weft_stacks_free(pool), ==, 0);
}

TESTS(sched_shared, locals_are_intact_while_others_use_the_stack, a_joined_value_comes_to_one_that_was_off_its_stack,
      they_are_parked_and_unparked_from_other_threads, they_are_cancelled, a_stack_is_one_workers_at_a_time,
      they_run_beside_others_under_every_policy, coroutines_inside_may_use_the_same_stacks,
      one_inside_may_go_deeper_after_its_fiber_waited)
