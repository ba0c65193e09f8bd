/*
 * weft_coro_stack_used: with WEFT_MEASURE the coroutine's own mark, whatever the stack went through before; without it
 * an upper bound. On shared stacks it is copied_rules.c's.
 */
#include <alloca.h>
#include <string.h>

#include <weft/weft.h>

#include "base/sanitizer.h"
#include "support/test.h"

/* The loader binds a function when it is first called, and saves all vector registers on the stack that this is on. */
enum { SLACK = WF_ASAN || WF_TSAN ? 16384 : 8192 };

__attribute__((noinline)) static void touch(size_t bytes)
{
    char *mine = alloca(bytes);
    memset(mine, 0xff, bytes);
    __asm__ volatile("" : : "r"(mine) : "memory");
}

/* Goes down by the bytes that it is passed, again and again, and comes back up each time. */
static void *touches(void *arg)
{
    size_t bytes = (size_t)(uintptr_t)arg;
    while (bytes != 0) {
        touch(bytes);
        bytes = (size_t)(uintptr_t)weft_coro_yield(NULL);
    }
    return NULL;
}

static void go_down(weft_coro *c, size_t bytes)
{
    CHECK_INT(weft_coro_resume(c, (void *)(uintptr_t)bytes, NULL), ==, 1);
}

static void check_used(const weft_coro *c, size_t bytes)
{
    CHECK_INT(weft_coro_stack_used(c), >=, bytes);
    CHECK_INT(weft_coro_stack_used(c), <=, bytes + SLACK);
}

static int measured_new(weft_coro **out, size_t first)
{
    return weft_coro_new(out, touches, (void *)(uintptr_t)first, &(weft_coro_opts){.flags = WEFT_MEASURE});
}

TEST(used_is_what_it_touched_at_its_deepest)
{
    static const size_t depths[] = {1, 1000, 5000, 20000, 100000, 200000};
    for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++) {
        weft_coro *c;
        REQUIRE(measured_new(&c, depths[i]) == 0);
        CHECK_INT(weft_coro_stack_used(c), <=, SLACK); /* never resumed */
        go_down(c, 0);
        check_used(c, depths[i]);
        CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0);
        check_used(c, depths[i]); /* ended */
        CHECK_INT(weft_coro_free(c), ==, 0);
    }
}

TEST(used_grows_and_never_shrinks)
{
    weft_coro *c;
    REQUIRE(measured_new(&c, 1000) == 0);
    go_down(c, 0);
    check_used(c, 1000);
    go_down(c, 30000);
    check_used(c, 30000);
    go_down(c, 2000);
    check_used(c, 30000);
    go_down(c, 60000);
    check_used(c, 60000);
    CHECK_INT(weft_coro_free(c), ==, 0);
}

TEST(a_stack_that_others_used_before_does_not_disturb_it)
{
    weft_coro *before, *c;
    for (int i = 0; i < 50; i++) {
        REQUIRE(weft_coro_new(&before, touches, (void *)(uintptr_t)200000, NULL) == 0);
        go_down(before, 0);
        CHECK_INT(weft_coro_free(before), ==, 0);
        REQUIRE(measured_new(&c, 5000) == 0);
        CHECK_PTR(c, ==, before); /* the same stack */
        go_down(c, 0);
        check_used(c, 5000);
        CHECK_INT(weft_coro_free(c), ==, 0);
    }
}

TEST(without_the_flag_it_is_an_upper_bound)
{
    weft_coro *c;
    for (size_t depth = 200000; depth >= 1000; depth /= 2) {
        REQUIRE(weft_coro_new(&c, touches, (void *)(uintptr_t)depth, NULL) == 0);
        go_down(c, 0);
        CHECK_INT(weft_coro_stack_used(c), >=, depth);
        CHECK_INT(weft_coro_free(c), ==, 0);
    }
}

static void *asks_inside(void *arg)
{
    touch(10000);
    *(size_t *)arg = weft_coro_stack_used(weft_coro_current());
    return NULL;
}

TEST(a_coroutine_may_ask_for_its_own)
{
    weft_coro *c;
    size_t used = 0;
    REQUIRE(weft_coro_new(&c, asks_inside, &used, &(weft_coro_opts){.flags = WEFT_MEASURE}) == 0);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0);
    CHECK_INT(used, >=, 10000);
    CHECK_INT(used, <=, 10000 + SLACK);
    CHECK_INT(weft_coro_free(c), ==, 0);
}

TEST(measuring_costs_no_memory)
{
    enum { MANY = 500 };
    weft_coro *all[MANY];
    for (int i = 0; i < MANY; i++) {
        REQUIRE(measured_new(&all[i], 1000) == 0);
        go_down(all[i], 0);
    }
    size_t before = test_memory();
    for (int i = 0; i < MANY; i++)
        check_used(all[i], 1000);
#if !WF_ASAN && !WF_TSAN && !WF_VALGRIND && !TEST_EMULATED /* which keep memory of their own */
    CHECK_INT(test_memory(), <=, before + (size_t)MANY * 4096);
#endif
    (void)before;
    for (int i = 0; i < MANY; i++)
        CHECK_INT(weft_coro_free(all[i]), ==, 0);
}

TESTS(coro_measure, used_is_what_it_touched_at_its_deepest, used_grows_and_never_shrinks,
      a_stack_that_others_used_before_does_not_disturb_it, without_the_flag_it_is_an_upper_bound,
      a_coroutine_may_ask_for_its_own, measuring_costs_no_memory)
