/*
 * Floating-point control words: the worker's, unless a fiber was made with WEFT_FPENV and keeps its own.
 */
#include <fenv.h>

#include "unit/sched/ground.h"

static void *keeps_its_rounding(void *arg)
{
    int mine = (int)(intptr_t)arg;
    CHECK_INT(fegetround(), ==, FE_TONEAREST);
    CHECK_INT(fesetround(mine), ==, 0);
    for (int i = 0; i < 20; i++) {
        if (i % 2)
            weft_yield();
        else
            CHECK_INT(weft_sleep(WEFT_US), ==, 0);
        CHECK_INT(fegetround(), ==, mine);
    }
    return NULL;
}

static void *rounds_in_many_ways(void *arg)
{
    const int ways[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST};
    weft_fiber *f[4];
    for (int i = 0; i < 4; i++)
        CHECK_INT(weft_go_with(&f[i], &(weft_attr){.flags = WEFT_FPENV}, keeps_its_rounding, ptr(ways[i])), ==, 0);
    for (int i = 0; i < 4; i++) {
        ended(f[i]);
        CHECK_INT(fegetround(), ==, FE_TONEAREST);
    }
    return arg;
}

TEST(one_with_fpenv_keeps_its_floating_point_words)
{
    in_a_fiber(1, rounds_in_many_ways, NULL);
    in_a_fiber(2, rounds_in_many_ways, NULL);
    CHECK_INT(fegetround(), ==, FE_TONEAREST);
}

/* A raw coroutine inside keeps its own too, on top of its fiber's; the fiber leaves from there and comes back. */
static void *rounds_inside(void *arg)
{
    CHECK_INT(fesetround(FE_DOWNWARD), ==, 0);
    for (int i = 0; i < 5; i++) {
        weft_yield();
        CHECK_INT(fegetround(), ==, FE_DOWNWARD);
        weft_coro_yield(NULL);
        CHECK_INT(fegetround(), ==, FE_DOWNWARD);
    }
    return arg;
}

static void *rounds_outside(void *arg)
{
    weft_coro *c;
    (void)arg;
    CHECK_INT(weft_coro_new(&c, rounds_inside, NULL, &(weft_coro_opts){.flags = WEFT_FPENV}), ==, 0);
    CHECK_INT(fesetround(FE_UPWARD), ==, 0);
    while (weft_coro_resume(c, NULL, NULL) == 1) {
        CHECK_INT(fegetround(), ==, FE_UPWARD);
        weft_yield();
        CHECK_INT(fegetround(), ==, FE_UPWARD);
    }
    CHECK_INT(fegetround(), ==, FE_UPWARD);
    CHECK_INT(weft_coro_free(c), ==, 0);
    return NULL;
}

static void *rounds_at_two_levels(void *arg)
{
    weft_fiber *f[3];
    for (int i = 0; i < 3; i++)
        CHECK_INT(weft_go_with(&f[i], &(weft_attr){.flags = WEFT_FPENV}, rounds_outside, NULL), ==, 0);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(fegetround(), ==, FE_TONEAREST);
        ended(f[i]);
    }
    return arg;
}

TEST(so_does_a_coroutine_inside_it)
{
    in_a_fiber(1, rounds_at_two_levels, NULL);
    in_a_fiber(2, rounds_at_two_levels, NULL);
}

TESTS(sched_fpenv, one_with_fpenv_keeps_its_floating_point_words, so_does_a_coroutine_inside_it)
