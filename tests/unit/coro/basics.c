/*
 * What a raw coroutine does when everything is right: values, states, nesting, reset, transfer, and what one may ask.
 */
#include <errno.h>
#include <string.h>

#include <weft/weft.h>

#include "support/test.h"

static void *as_ptr(intptr_t n)
{
    return (void *)n;
}

static intptr_t as_int(void *p)
{
    return (intptr_t)p;
}

static void *echo_three(void *arg)
{
    intptr_t sum = as_int(arg);
    for (int i = 0; i < 3; i++)
        sum += as_int(weft_coro_yield(as_ptr(sum)));
    return as_ptr(sum);
}

TEST(values_pass_both_ways)
{
    weft_coro *c;
    void *v = as_ptr(-1);
    REQUIRE(weft_coro_new(&c, echo_three, as_ptr(100), NULL) == 0);
    CHECK_INT(weft_coro_resume(c, as_ptr(7), &v), ==, 1); /* the first value has no yield to go to */
    CHECK_INT(as_int(v), ==, 100);
    CHECK_INT(weft_coro_resume(c, as_ptr(1), &v), ==, 1);
    CHECK_INT(as_int(v), ==, 101);
    CHECK_INT(weft_coro_resume(c, as_ptr(2), NULL), ==, 1);
    CHECK_INT(as_int(v), ==, 101);
    CHECK_INT(weft_coro_resume(c, as_ptr(4), &v), ==, 0);
    CHECK_INT(as_int(v), ==, 107);
    CHECK_INT(weft_coro_free(c), ==, 0);
}

static void *state_from_inside(void *arg)
{
    weft_coro *self = *(weft_coro **)arg;
    CHECK_INT(weft_coro_state(self), ==, WEFT_CORO_RUNNING);
    CHECK_PTR(weft_coro_current(), ==, self);
    weft_coro_yield(NULL);
    return NULL;
}

TEST(states_follow_its_life)
{
    weft_coro *c;
    REQUIRE(weft_coro_new(&c, state_from_inside, &c, NULL) == 0);
    CHECK_INT(weft_coro_state(c), ==, WEFT_CORO_READY);
    CHECK_PTR(weft_coro_current(), ==, NULL);
    weft_coro_resume(c, NULL, NULL);
    CHECK_INT(weft_coro_state(c), ==, WEFT_CORO_READY);
    CHECK_PTR(weft_coro_current(), ==, NULL);
    weft_coro_resume(c, NULL, NULL);
    CHECK_INT(weft_coro_state(c), ==, WEFT_CORO_DONE);
    weft_coro_free(c);
}

struct outer {
    weft_coro *inner, *self;
};

static void *inner(void *arg)
{
    struct outer *o = arg;
    CHECK_INT(weft_coro_state(o->self), ==, WEFT_CORO_RUNNING); /* it waits for us */
    CHECK_PTR(weft_coro_current(), ==, o->inner);
    weft_coro_yield(as_ptr(1));
    return as_ptr(2);
}

static void *outer(void *arg)
{
    struct outer *o = arg;
    void *v;
    CHECK_INT(weft_coro_resume(o->inner, NULL, &v), ==, 1);
    CHECK_INT(as_int(v), ==, 1);
    CHECK_PTR(weft_coro_current(), ==, o->self);
    weft_coro_yield(as_ptr(10)); /* goes to the thread, not to inner */
    CHECK_INT(weft_coro_resume(o->inner, NULL, &v), ==, 0);
    CHECK_INT(as_int(v), ==, 2);
    return as_ptr(20);
}

TEST(one_that_waits_for_another_is_running)
{
    struct outer o;
    void *v;
    REQUIRE(weft_coro_new(&o.inner, inner, &o, NULL) == 0);
    REQUIRE(weft_coro_new(&o.self, outer, &o, NULL) == 0);
    CHECK_INT(weft_coro_resume(o.self, NULL, &v), ==, 1);
    CHECK_INT(as_int(v), ==, 10);
    CHECK_INT(weft_coro_state(o.inner), ==, WEFT_CORO_READY);
    CHECK_INT(weft_coro_resume(o.self, NULL, &v), ==, 0);
    CHECK_INT(as_int(v), ==, 20);
    weft_coro_free(o.inner);
    weft_coro_free(o.self);
}

TEST(reset_runs_again_on_the_same_stack_under_a_new_id)
{
    weft_coro *c;
    void *v;
    weft_coro_opts opts = {.size = sizeof opts, .name = "again", .user = &opts};
    REQUIRE(weft_coro_new(&c, echo_three, as_ptr(1), &opts) == 0);
    uint64_t first = weft_coro_id(c);
    CHECK_INT(weft_coro_reset(c, echo_three, as_ptr(5)), ==, 0); /* never resumed */
    uint64_t second = weft_coro_id(c);
    CHECK(second != first && second != 0);
    weft_coro_resume(c, NULL, &v);
    CHECK_INT(as_int(v), ==, 5);
    CHECK_INT(weft_coro_reset(c, echo_three, NULL), ==, -EBUSY);
    while (weft_coro_resume(c, NULL, &v) == 1)
        ;
    CHECK_INT(weft_coro_reset(c, echo_three, as_ptr(6)), ==, 0); /* done */
    CHECK(weft_coro_id(c) != second);
    CHECK_STR(weft_coro_name(c), "again");
    CHECK_PTR(weft_coro_user(c), ==, &opts);
    CHECK_INT(weft_coro_resume(c, NULL, &v), ==, 1);
    CHECK_INT(as_int(v), ==, 6);
    CHECK_INT(weft_coro_free(c), ==, 0); /* in the middle */
}

TEST(name_is_copied_and_count_is_exact)
{
    char name[] = "changes later";
    size_t before = weft_coro_count();
    weft_coro *c, *d;
    REQUIRE(weft_coro_new(&c, echo_three, NULL, &(weft_coro_opts){.name = name}) == 0); /* size 0 is allowed */
    memset(name, 'x', sizeof name - 1);
    CHECK_STR(weft_coro_name(c), "changes later");
    REQUIRE(weft_coro_new(&d, echo_three, NULL, NULL) == 0);
    CHECK_STR(weft_coro_name(d), "");
    CHECK_PTR(weft_coro_user(d), ==, NULL);
    CHECK(weft_coro_id(c) != weft_coro_id(d));
    CHECK_INT(weft_coro_count(), ==, before + 2);
    weft_coro_free(c);
    weft_coro_free(d);
    CHECK_INT(weft_coro_count(), ==, before);
}

TEST(null_may_be_asked_as_well)
{
    CHECK_INT(weft_coro_id(weft_coro_current()), ==, 0); /* on a thread's own stack */
    CHECK_INT(weft_coro_state(NULL), ==, WEFT_CORO_NONE);
    CHECK_INT(WEFT_CORO_NONE, ==, -1);
    CHECK_STR(weft_coro_name(NULL), "");
    CHECK_PTR(weft_coro_user(NULL), ==, NULL);
    CHECK_INT(weft_coro_stack_used(NULL), ==, 0);
}

/* transfer: main resumes a; a transfers to b; b inherits main as its resumer. */
struct pair {
    weft_coro *a, *b;
    int trace;
};

static void *transfer_a(void *arg)
{
    struct pair *p = arg;
    void *got = NULL;
    CHECK_INT(weft_coro_transfer(p->b, as_ptr(5), &got), ==, 1);
    CHECK_INT(as_int(got), ==, 77); /* what main passed when it resumed a again */
    CHECK_INT(weft_coro_state(p->b), ==, WEFT_CORO_READY);
    p->trace = p->trace * 10 + 3;
    CHECK_INT(weft_coro_transfer(p->b, as_ptr(6), NULL), ==, 1); /* b waits in a yield */
    return as_ptr(99);
}

static void *transfer_b(void *arg)
{
    struct pair *p = arg;
    p->trace = p->trace * 10 + 1;
    CHECK_INT(weft_coro_state(p->a), ==, WEFT_CORO_READY);
    CHECK_PTR(weft_coro_current(), ==, p->b);
    void *in = weft_coro_yield(as_ptr(42)); /* to main, who resumed a */
    CHECK_INT(as_int(in), ==, 6);
    p->trace = p->trace * 10 + 4;
    return as_ptr(43); /* to main again */
}

TEST(transfer_hands_over_the_resumer)
{
    struct pair p = {.trace = 0};
    void *v;
    REQUIRE(weft_coro_new(&p.a, transfer_a, &p, NULL) == 0);
    REQUIRE(weft_coro_new(&p.b, transfer_b, &p, NULL) == 0);
    CHECK_INT(weft_coro_resume(p.a, NULL, &v), ==, 1);
    CHECK_INT(as_int(v), ==, 42);
    CHECK_INT(p.trace, ==, 1);
    CHECK_INT(weft_coro_state(p.a), ==, WEFT_CORO_READY);
    CHECK_INT(weft_coro_resume(p.a, as_ptr(77), &v), ==, 0); /* b ended: a's resume sees the end of b */
    CHECK_INT(as_int(v), ==, 43);
    CHECK_INT(p.trace, ==, 134);
    CHECK_INT(weft_coro_state(p.b), ==, WEFT_CORO_DONE);
    CHECK_INT(weft_coro_state(p.a), ==, WEFT_CORO_READY);
    CHECK_INT(weft_coro_resume(p.a, NULL, &v), ==, 0);
    CHECK_INT(as_int(v), ==, 99);
    weft_coro_free(p.a);
    weft_coro_free(p.b);
}

TEST(transfer_on_a_threads_own_stack_is_a_resume)
{
    weft_coro *c;
    void *v;
    REQUIRE(weft_coro_new(&c, echo_three, as_ptr(3), NULL) == 0);
    CHECK_INT(weft_coro_transfer(c, NULL, &v), ==, 1);
    CHECK_INT(as_int(v), ==, 3);
    weft_coro_free(c);
}

static void *ring(void *arg)
{
    weft_coro **all = arg;
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 8; i++) {
            if (all[i] == weft_coro_current()) {
                CHECK_INT(weft_coro_transfer(all[(i + 1) % 8], NULL, NULL), ==, 1);
                break;
            }
        }
    }
    return NULL;
}

TEST(transfers_go_round_a_ring)
{
    weft_coro *all[8];
    int ended = 0;
    for (int i = 0; i < 8; i++)
        REQUIRE(weft_coro_new(&all[i], ring, all, NULL) == 0);
    for (int guard = 0; ended < 8 && guard < 10000 && !test_has_failed(); guard++) {
        ended = 0;
        for (int i = 0; i < 8; i++) {
            if (weft_coro_state(all[i]) == WEFT_CORO_DONE)
                ended++;
        }
        for (int i = 0; i < 8; i++) {
            if (weft_coro_state(all[i]) == WEFT_CORO_READY) {
                weft_coro_resume(all[i], NULL, NULL);
                break;
            }
        }
        if (ended == 7)
            break; /* the last one's neighbour has ended: its transfer would fail, as it should */
    }
    CHECK_INT(ended, >=, 1);
    for (int i = 0; i < 8; i++)
        CHECK_INT(weft_coro_free(all[i]), ==, 0);
}

static void *uses_doubles(void *arg)
{
    double x = 1.5 * (double)as_int(arg);
    for (int i = 0; i < 10; i++) {
        double before = x;
        weft_coro_yield(NULL);
        CHECK(x == before);
        x += 0.25;
    }
    return NULL;
}

TEST(registers_are_kept_across_switches)
{
    weft_coro *c[4];
    double sum = 0.5;
    for (int i = 0; i < 4; i++)
        REQUIRE(weft_coro_new(&c[i], uses_doubles, as_ptr(i), NULL) == 0);
    for (int round = 0; round < 11; round++) {
        for (int i = 0; i < 4; i++) {
            double before = sum;
            weft_coro_resume(c[i], NULL, NULL);
            CHECK(sum == before);
            sum += 1;
        }
    }
    for (int i = 0; i < 4; i++)
        weft_coro_free(c[i]);
}

static void *aligned(void *arg)
{
    _Alignas(16) char here[16];
    uintptr_t address = (uintptr_t)here;
    __asm__ volatile("" : "+r"(address)); /* else the compiler answers by itself */
    *(uintptr_t *)arg = address % 16;
    return NULL;
}

TEST(the_stack_is_aligned_as_the_abi_says)
{
    weft_coro *c;
    uintptr_t off = 1;
    REQUIRE(weft_coro_new(&c, aligned, &off, NULL) == 0);
    weft_coro_resume(c, NULL, NULL);
    CHECK_INT(off, ==, 0);
    weft_coro_free(c);
}

TESTS(coro_basics, values_pass_both_ways, states_follow_its_life, one_that_waits_for_another_is_running,
      reset_runs_again_on_the_same_stack_under_a_new_id, name_is_copied_and_count_is_exact, null_may_be_asked_as_well,
      transfer_hands_over_the_resumer, transfer_on_a_threads_own_stack_is_a_resume, transfers_go_round_a_ring,
      registers_are_kept_across_switches, the_stack_is_aligned_as_the_abi_says)
