/*
 * What AddressSanitizer must know of our stacks: it stays silent when all is right, and sees what is wrong.
 */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "support/test.h"

static char *leaked;

static void *leaks_the_address_of_a_local(void *arg)
{
    char local[64];
    memset(local, 1, sizeof local);
    __asm__ volatile("" : "=r"(leaked) : "0"(local));
    return arg;
}

static void read_what_was_recycled(void *arg)
{
    weft_coro *c;
    (void)arg;
    if (weft_coro_new(&c, leaks_the_address_of_a_local, NULL, NULL) != 0)
        return;
    weft_coro_resume(c, NULL, NULL);
    weft_coro_free(c);
    if (*(volatile char *)leaked == 1) /* nobody may look at an idle stack */
        weft_version();
}

TEST(a_recycled_stack_is_poisoned_while_idle)
{
    CHECK_CHILD(read_what_was_recycled, NULL, TEST_EXITS, "use-after-poison");
}

/* Leaves frames full of redzones behind, by a jump over them. */
static __attribute__((noinline)) void dig(jmp_buf back, int depth)
{
    char frame[200];
    memset(frame, depth, sizeof frame);
    __asm__ volatile("" : : "r"(frame) : "memory");
    if (depth == 0)
        longjmp(back, 1);
    if (depth > 0)
        dig(back, depth - 1);
}

static __attribute__((noinline)) void use_the_stack(void)
{
    char frame[8192];
    for (size_t i = 0; i < sizeof frame; i++)
        ((volatile char *)frame)[i] = (char)i;
}

static void *jumps(void *arg)
{
    jmp_buf back;
    for (volatile int i = 0; i < 10; i++) {
        if (setjmp(back) == 0)
            dig(back, 20);
        use_the_stack();
        weft_coro_yield(NULL);
    }
    return arg;
}

static void jump_in_coroutines(void *shared)
{
    weft_coro *c[3];
    for (int i = 0; i < 3; i++) {
        if (weft_coro_new(&c[i], jumps, NULL, &(weft_coro_opts){.shared = shared}) != 0)
            abort();
    }
    for (int round = 0; round < 11; round++) {
        for (int i = 0; i < 3; i++)
            weft_coro_resume(c[i], NULL, NULL);
    }
    for (int i = 0; i < 3; i++)
        weft_coro_free(c[i]);
}

/* ASan clears the redzones of the frames that a longjmp skips, if it knows whose stack they are on. */
TEST(longjmp_in_a_coroutine_is_no_false_alarm)
{
    weft_stacks *s;
    CHECK_CHILD(jump_in_coroutines, NULL, 0, NULL);
    REQUIRE(weft_stacks_new(&s, 1, 0) == 0);
    CHECK_CHILD(jump_in_coroutines, s, 0, NULL);
    weft_stacks_free(s);
}

static void *writes_past_its_array(void *arg)
{
    char array[40];
    memset(array, 0, sizeof array);
    weft_coro_yield(NULL); /* on a shared stack: copied out, and in again */
    char *past = array + sizeof array;
    __asm__ volatile("" : "+r"(past) : : "memory"); /* UBSan does not know whose end this is; ASan does */
    *past = 1;
    return arg;
}

static void overflow_an_array(void *shared)
{
    weft_coro *c, *other;
    weft_coro_opts opts = {.shared = shared};
    if (weft_coro_new(&c, writes_past_its_array, NULL, &opts) != 0 || weft_coro_new(&other, jumps, NULL, &opts) != 0)
        return;
    weft_coro_resume(c, NULL, NULL);
    weft_coro_resume(other, NULL, NULL);
    weft_coro_resume(c, NULL, NULL);
}

TEST(an_overflow_of_a_local_array_is_seen)
{
    weft_stacks *s;
    CHECK_CHILD(overflow_an_array, NULL, TEST_EXITS, "stack-buffer-overflow");
    REQUIRE(weft_stacks_new(&s, 1, 0) == 0);
    CHECK_CHILD(overflow_an_array, s, TEST_EXITS, "stack-buffer-overflow");
    weft_stacks_free(s);
}

TESTS(sanitizers_asan, a_recycled_stack_is_poisoned_while_idle, longjmp_in_a_coroutine_is_no_false_alarm,
      an_overflow_of_a_local_array_is_seen)
