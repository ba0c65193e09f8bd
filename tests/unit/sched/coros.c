/*
 * Raw coroutines inside fibers. If the innermost waits the whole fiber does, with its chain intact, and goes on in the
 * innermost.
 */
#include <signal.h>

#include "base/sys.h"
#include "support/locals.h"
#include "unit/sched/ground.h"

static void *generates(void *arg)
{
    for (intptr_t i = 0; i < (intptr_t)arg; i++) {
        if (i % 3 == 0)
            weft_yield();
        else if (i % 3 == 1)
            CHECK_INT(weft_sleep(WEFT_US), ==, 0);
        weft_coro_yield(ptr(i));
    }
    return ptr(-1);
}

static void *uses_a_generator(void *arg)
{
    weft_coro *c;
    void *value = NULL;
    intptr_t n = 0;
    (void)arg;
    CHECK_INT(weft_coro_new(&c, generates, ptr(30), NULL), ==, 0);
    while (weft_coro_resume(c, NULL, &value) == 1) {
        CHECK_INT((intptr_t)value, ==, n);
        CHECK_PTR(weft_coro_current(), ==, NULL);
        n++;
    }
    CHECK_INT((intptr_t)value, ==, -1);
    CHECK_INT(n, ==, 30);
    CHECK_INT(weft_coro_free(c), ==, 0);
    return NULL;
}

static void *many_use_generators(void *arg)
{
    weft_fiber *f[10];
    for (int i = 0; i < 10; i++)
        f[i] = go(uses_a_generator, NULL);
    for (int i = 0; i < 10; i++)
        ended(f[i]);
    return arg;
}

TEST(a_generator_may_wait)
{
    in_a_fiber(1, many_use_generators, NULL);
    in_a_fiber(4, many_use_generators, NULL);
}

static void *counts_coroutines(void *arg)
{
    size_t before = weft_coro_count();
    weft_coro *c;
    weft_fiber *f = go(uses_a_generator, NULL);
    CHECK_INT(weft_coro_count(), ==, before); /* fibers are none */
    ended(f);
    CHECK_INT(weft_coro_new(&c, generates, ptr(1), NULL), ==, 0);
    CHECK_INT(weft_coro_count(), ==, before + 1);
    CHECK_INT(weft_coro_free(c), ==, 0);
    CHECK_INT(weft_coro_count(), ==, before);
    CHECK_INT(before, ==, 0);
    return arg;
}

TEST(coroutines_in_fibers_are_counted_and_fibers_are_not)
{
    in_a_fiber(1, counts_coroutines, NULL);
}

/* A chain of three, each with locals of its own; the innermost does what it is told. */
enum { DEPTH = 3 };

struct chain {
    weft_stacks *pool; /* of some of its coroutines; NULL: none */
    weft_fiber *fiber;
    weft_coro *level[DEPTH + 1];
    int rc, depth, is_deep;
};

static void *innermost(struct chain *c)
{
    CHECK_PTR(weft_fiber_current(), ==, c->fiber);
    put(&c->is_deep, 1);
    c->rc = weft_park(WEFT_FOREVER);
    CHECK_PTR(weft_fiber_current(), ==, c->fiber);
    CHECK_INT(weft_sleep(50 * WEFT_US), ==, 0);
    weft_yield();
    CHECK_PTR(ended(go(returns_at_once, c)), ==, c);
    return c;
}

static void *goes_deeper(void *arg)
{
    struct chain *c = arg;
    struct locals mine;
    int depth = c->depth++;
    weft_coro *me = weft_coro_current();
    CHECK_PTR(me, ==, c->level[depth]);
    locals_fill(&mine, (uint64_t)depth + (uintptr_t)c);
    void *value = NULL;
    if (depth == DEPTH) {
        value = innermost(c);
    } else {
        weft_coro **next = &c->level[depth + 1];
        weft_coro_opts opts = {.shared = depth % 2 == 0 ? c->pool : NULL};
        CHECK_INT(weft_coro_new(next, goes_deeper, c, &opts), ==, 0);
        CHECK_INT(weft_coro_resume(*next, NULL, &value), ==, 0);
        CHECK_INT(weft_coro_free(*next), ==, 0);
    }
    CHECK_PTR(value, ==, c);
    CHECK_PTR(weft_coro_current(), ==, me);
    CHECK(locals_intact(&mine, (uint64_t)depth + (uintptr_t)c));
    return c;
}

static void *runs_a_chain(void *arg)
{
    struct chain *c = arg;
    c->fiber = weft_fiber_current();
    return goes_deeper(c);
}

static unsigned without; /* which of the allocations of the way back fails first; 0: none */

static void *parks_chains(void *arg)
{
    enum { MANY = 6 };
    struct chain chains[MANY];
    weft_fiber *f[MANY];
    for (int i = 0; i < MANY; i++) {
        chains[i] = (struct chain){.rc = 1, .pool = arg};
        CHECK_INT(weft_go_with(&f[i], &(weft_attr){.worker = WEFT_WORKER(0)}, runs_a_chain, &chains[i]), ==, 0);
    }
    for (int i = 0; i < MANY; i++) {
        AWAIT(seen(&chains[i].is_deep) && is_parked(f[i]));
        CHECK_STR(weft_fiber_waits_for(f[i], NULL), "unpark");
        CHECK_INT(weft_coro_state(chains[i].level[1]), ==, WEFT_CORO_RUNNING);
        CHECK_INT(weft_coro_state(chains[i].level[DEPTH]), ==, WEFT_CORO_RUNNING);
        CHECK_INT(weft_coro_resume(chains[i].level[DEPTH], NULL, NULL), ==, -EBUSY); /* it waits elsewhere */
        CHECK_INT(weft_coro_free(chains[i].level[DEPTH]), ==, -EBUSY);
    }
    if (without != 0)
        wf_sys_fail(1u << WF_SYS_MALLOC, without, 3);
    for (int i = MANY - 1; i >= 0; i--)
        weft_unpark(f[i]);
    for (int i = 0; i < MANY; i++) {
        CHECK_PTR(ended(f[i]), ==, &chains[i]);
        CHECK_INT(chains[i].rc, ==, 0);
    }
    wf_sys_fail(0, 0, 0);
    return NULL;
}

TEST(a_fiber_whose_innermost_coroutine_waits_goes_on_there)
{
    in_a_fiber(1, parks_chains, NULL);
    in_a_fiber(3, parks_chains, NULL);
}

TEST(so_does_one_whose_coroutines_are_on_shared_stacks)
{
    weft_stacks *pool;
    for (size_t stacks = 1; stacks <= 3; stacks++) {
        REQUIRE(weft_stacks_new(&pool, stacks, 0) == 0);
        in_a_fiber(1, parks_chains, pool);
        CHECK_INT(weft_stacks_free(pool), ==, 0);
    }
}

TEST(one_without_memory_for_its_stacks_goes_on_later)
{
    weft_stacks *pool;
    REQUIRE(weft_stacks_new(&pool, 2, 0) == 0);
    for (without = 1; without <= 12; without++)
        in_a_fiber(1, parks_chains, pool);
    without = 0;
    CHECK_INT(weft_stacks_free(pool), ==, 0);
}

static void *is_cancelled_inside(void *arg)
{
    (void)arg;
    return ptr(weft_sleep_until(WEFT_FOREVER));
}

static void *runs_one_to_be_cancelled(void *arg)
{
    weft_coro *c;
    void *value = NULL;
    (void)arg;
    CHECK_INT(weft_coro_new(&c, is_cancelled_inside, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_resume(c, NULL, &value), ==, 0);
    CHECK_INT(weft_coro_free(c), ==, 0);
    return value;
}

static void *cancels_a_chain(void *arg)
{
    weft_fiber *f = go(runs_one_to_be_cancelled, NULL);
    AWAIT(is_parked(f));
    CHECK_INT(weft_cancel(f), ==, 0);
    CHECK_INT((intptr_t)ended(f), ==, -ECANCELED);
    return arg;
}

TEST(a_cancel_reaches_the_innermost)
{
    in_a_fiber(1, cancels_a_chain, NULL);
    in_a_fiber(2, cancels_a_chain, NULL);
}

/* One that is suspended while its fiber waits; another fiber goes on with it: nothing binds it to the first. */
static void *yields_twice(void *arg)
{
    CHECK_PTR(weft_fiber_current(), ==, ((weft_fiber **)arg)[0]);
    weft_coro_yield(NULL);
    CHECK_PTR(weft_fiber_current(), ==, ((weft_fiber **)arg)[1]);
    weft_yield();
    return NULL;
}

static void *goes_on_with_it(void *arg)
{
    weft_coro *c = arg;
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0);
    return NULL;
}

static void *passes_one_on(void *arg)
{
    weft_coro *c;
    weft_fiber *who[2] = {weft_fiber_current(), NULL};
    CHECK_INT(weft_coro_new(&c, yields_twice, who, NULL), ==, 0);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 1);
    CHECK_INT(weft_fiber_new(&who[1], NULL, goes_on_with_it, c), ==, 0);
    CHECK_INT(weft_sched_submit(weft_sched_current(), who[1], 0), ==, 0);
    ended(who[1]);
    CHECK_INT(weft_coro_free(c), ==, 0);
    return arg;
}

TEST(another_fiber_may_resume_it)
{
    in_a_fiber(1, passes_one_on, NULL);
    in_a_fiber(4, passes_one_on, NULL);
}

static void *yields_at_the_base(void *arg)
{
    CHECK_PTR(weft_coro_current(), ==, NULL);
    weft_coro_yield(arg);
    return arg;
}

static void run_it(void *fn)
{
    weft_run((weft_fn *)fn, NULL, NULL, &(weft_sched_opts){.threads = 1});
}

TEST(a_coroutine_yield_at_the_base_panics)
{
    CHECK_CHILD(run_it, (void *)yields_at_the_base, SIGABRT,
                "weft_coro_yield: called outside any coroutine: there is no resumer");
}

static void *yields_once(void *arg)
{
    weft_yield();
    CHECK_PTR(weft_coro_yield(ptr(1)), ==, ptr(2));
    return arg;
}

static void *transfers_from_the_base(void *arg)
{
    weft_coro *c;
    void *value = NULL;
    CHECK_INT(weft_coro_new(&c, yields_once, ptr(3), NULL), ==, 0);
    CHECK_INT(weft_coro_transfer(c, NULL, &value), ==, 1); /* a resume: it comes back here */
    CHECK_PTR(value, ==, ptr(1));
    CHECK_INT(weft_coro_transfer(c, ptr(2), &value), ==, 0);
    CHECK_PTR(value, ==, ptr(3));
    CHECK_INT(weft_coro_free(c), ==, 0);
    return arg;
}

TEST(a_transfer_from_the_base_is_a_resume)
{
    in_a_fiber(1, transfers_from_the_base, NULL);
}

/* Two that transfer to each other inside a fiber, and give way in between. */
static void *transfers_and_gives_way(void *arg)
{
    weft_coro **pair = arg;
    int me = weft_coro_current() == pair[1];
    for (int i = 0; i < 5; i++) {
        weft_yield();
        CHECK_INT(weft_coro_transfer(pair[1 - me], NULL, NULL), ==, 1);
        CHECK_INT(weft_sleep(WEFT_US), ==, 0);
    }
    return ptr(me);
}

static void *has_a_pair(void *arg)
{
    weft_coro *pair[2];
    (void)arg;
    for (int i = 0; i < 2; i++)
        CHECK_INT(weft_coro_new(&pair[i], transfers_and_gives_way, pair, NULL), ==, 0);
    CHECK_INT(weft_coro_resume(pair[0], NULL, NULL), ==, 0);
    for (int i = 0; i < 2; i++) {
        if (weft_coro_state(pair[i]) != WEFT_CORO_DONE)
            CHECK_INT(weft_coro_resume(pair[i], NULL, NULL), ==, 0);
        CHECK_INT(weft_coro_free(pair[i]), ==, 0);
    }
    return NULL;
}

static void *several_have_pairs(void *arg)
{
    weft_fiber *f[4];
    for (int i = 0; i < 4; i++)
        f[i] = go(has_a_pair, NULL);
    for (int i = 0; i < 4; i++)
        ended(f[i]);
    return arg;
}

TEST(coroutines_transfer_inside_a_fiber_that_gives_way)
{
    in_a_fiber(1, several_have_pairs, NULL);
    in_a_fiber(2, several_have_pairs, NULL);
}

TESTS(sched_coros, a_generator_may_wait, coroutines_in_fibers_are_counted_and_fibers_are_not,
      a_fiber_whose_innermost_coroutine_waits_goes_on_there, so_does_one_whose_coroutines_are_on_shared_stacks,
      one_without_memory_for_its_stacks_goes_on_later, a_cancel_reaches_the_innermost, another_fiber_may_resume_it,
      a_coroutine_yield_at_the_base_panics, a_transfer_from_the_base_is_a_resume,
      coroutines_transfer_inside_a_fiber_that_gives_way)
