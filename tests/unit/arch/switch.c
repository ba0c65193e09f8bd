/*
 * The bare switch: registers that a call must keep, values, the passage. No coroutines: contexts made by hand.
 */
#include <stdlib.h>

#include "arch/arch.h"
#include "base/sanitizer.h"
#include "support/test.h"

#if !WF_ASAN && !WF_TSAN
enum { STACK = 64 * 1024 };

static void *outer_sp, *inner_sp; /* where the two sides wait */

/* Enough values that live across the switch to fill every register that is kept, of both kinds. */
static __attribute__((noinline)) void *with_full_registers(void **save, void **to, uintptr_t seed, void *value)
{
    uintptr_t n[12];
    double x[12];
    for (uintptr_t i = 0; i < 12; i++) {
        n[i] = seed * 1000 + i;
        x[i] = (double)seed / 8 + (double)i;
        __asm__ volatile("" : "+r"(n[i]));
    }
    uintptr_t a = n[0], b = n[1], c = n[2], d = n[3], e = n[4], f = n[5], g = n[6], h = n[7];
    double p = x[0], q = x[1], r = x[2], s = x[3], t = x[4], u = x[5], v = x[6], w = x[7];
    void *back = wf_switch(save, *to, value);
    CHECK(a == seed * 1000 && b == a + 1 && c == a + 2 && d == a + 3 && e == a + 4 && f == a + 5 && g == a + 6 &&
          h == a + 7);
    CHECK(p == (double)seed / 8 && q == p + 1 && r == p + 2 && s == p + 3 && t == p + 4 && u == p + 5 && v == p + 6 &&
          w == p + 7);
    return back;
}

static void *inner(void *arg)
{
    for (uintptr_t i = 0;; i++) {
        void *got = with_full_registers(&inner_sp, &outer_sp, 7 + i, (void *)(i + 100));
        CHECK_INT((uintptr_t)got, ==, i + 1);
    }
    return arg;
}

TEST(every_register_that_a_call_keeps_is_kept)
{
    char *stack = aligned_alloc(16, STACK);
    REQUIRE(stack != NULL);
    inner_sp = wf_frame_make(stack + STACK, inner, NULL, NULL);
    CHECK_PTR(inner_sp, ==, stack + STACK - WF_FRAME_BYTES);
    for (uintptr_t i = 0; i < 1000; i++) {
        void *got = with_full_registers(&outer_sp, &inner_sp, 100000 + i, (void *)i);
        CHECK_INT((uintptr_t)got, ==, i + 100);
    }
    free(stack);
}

static void *landed_with;

static struct wf_landing land(void *arg)
{
    landed_with = arg;
    return (struct wf_landing){outer_sp, (void *)77}; /* back where it came from */
}

TEST(a_switch_through_another_stack_lands_where_that_says)
{
    char *stack = aligned_alloc(16, STACK);
    REQUIRE(stack != NULL);
    void *back = wf_switch_through(&outer_sp, stack + STACK, land, &outer_sp);
    CHECK_PTR(landed_with, ==, &outer_sp);
    CHECK_INT((uintptr_t)back, ==, 77);
    CHECK_INT(wf_switch_through_int(&outer_sp, stack + STACK, land, NULL), ==, 77);
    free(stack);
}

static void *leaves_for_good(void *arg)
{
    return wf_switch_last(outer_sp, arg);
}

TEST(a_last_switch_saves_nothing_and_brings_its_value)
{
    char *stack = aligned_alloc(16, STACK);
    REQUIRE(stack != NULL);
    inner_sp = wf_frame_make(stack + STACK, leaves_for_good, (void *)5, NULL);
    CHECK_INT((uintptr_t)wf_switch(&outer_sp, inner_sp, NULL), ==, 5);
    free(stack);
}
#else
TEST(every_register_that_a_call_keeps_is_kept)
{
    SKIP("sanitizers must be told of a stack before it is switched to");
}

TEST(a_switch_through_another_stack_lands_where_that_says)
{
    SKIP("sanitizers must be told of a stack before it is switched to");
}

TEST(a_last_switch_saves_nothing_and_brings_its_value)
{
    SKIP("sanitizers must be told of a stack before it is switched to");
}
#endif

TESTS(arch_switch, every_register_that_a_call_keeps_is_kept, a_switch_through_another_stack_lands_where_that_says,
      a_last_switch_saves_nothing_and_brings_its_value)
