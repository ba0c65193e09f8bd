/*
 * What holds for coroutines on shared stacks besides their bytes: values that arrive in locals of one that was copied
 * out, reset, free, the figures, -EBUSY across threads, and what debug builds do to bytes that were copied out.
 */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include <weft/weft.h>

#include "base/sanitizer.h"
#include "support/locals.h"
#include "support/test.h"

static void *as_ptr(intptr_t n)
{
    return (void *)n;
}

static int shared_new(weft_coro **out, weft_stacks *pool, weft_fn *fn, void *arg)
{
    return weft_coro_new(out, fn, arg, &(weft_coro_opts){.size = sizeof(weft_coro_opts), .shared = pool});
}

static void *ends(void *arg)
{
    return arg;
}

/* Yields what it got, one more each time; ends on NULL. */
static void *counts_up(void *arg)
{
    struct locals mine;
    void *in = arg;
    locals_fill(&mine, 11);
    while (in) {
        in = weft_coro_yield(as_ptr((intptr_t)in + 1));
        CHECK(locals_intact(&mine, 11));
    }
    return as_ptr(-1);
}

/* first resumes middle, middle resumes last; every value goes to a local of whoever resumed. */
struct three {
    weft_coro *first, *middle, *last;
};

static void *middle_of_three(void *arg)
{
    struct three *three = arg;
    void *value = NULL;
    CHECK_INT(weft_coro_resume(three->last, as_ptr(20), &value), ==, 1);
    CHECK_PTR(value, ==, as_ptr(11));
    weft_coro_yield(as_ptr((intptr_t)value * 2));
    CHECK_PTR(value, ==, as_ptr(11));
    CHECK_INT(weft_coro_resume(three->last, as_ptr(30), &value), ==, 1);
    CHECK_PTR(value, ==, as_ptr(31));
    CHECK_INT(weft_coro_resume(three->last, NULL, &value), ==, 0);
    CHECK_PTR(value, ==, as_ptr(-1));
    return as_ptr(5);
}

static void *first_of_three(void *arg)
{
    struct three *three = arg;
    void *values[3] = {NULL, NULL, NULL};
    CHECK_INT(weft_coro_resume(three->middle, NULL, &values[1]), ==, 1);
    CHECK_PTR(values[1], ==, as_ptr(22));
    CHECK_INT(weft_coro_resume(three->middle, NULL, &values[2]), ==, 0);
    CHECK_PTR(values[0], ==, NULL);
    CHECK_PTR(values[1], ==, as_ptr(22));
    CHECK_PTR(values[2], ==, as_ptr(5));
    return values[2];
}

TEST(values_arrive_in_locals_of_one_that_was_copied_out)
{
    struct three three;
    weft_stacks *s;
    void *value;
    REQUIRE(weft_stacks_new(&s, 1, 0) == 0);
    for (int private_middle = 0; private_middle < 2; private_middle++) {
        REQUIRE(shared_new(&three.first, s, first_of_three, &three) == 0);
        REQUIRE(shared_new(&three.middle, private_middle ? NULL : s, middle_of_three, &three) == 0);
        REQUIRE(shared_new(&three.last, s, counts_up, as_ptr(10)) == 0);
        CHECK_INT(weft_coro_resume(three.first, NULL, &value), ==, 0);
        CHECK_PTR(value, ==, as_ptr(5));
        CHECK_INT(weft_coro_free(three.first), ==, 0);
        CHECK_INT(weft_coro_free(three.middle), ==, 0);
        CHECK_INT(weft_coro_free(three.last), ==, 0);
    }
    CHECK_INT(weft_stacks_free(s), ==, 0);
}

/* What a transfer hands over goes to a local of one that was copied out. */
static void *transfers_and_gets(void *arg)
{
    struct three *three = arg;
    void *value = NULL;
    CHECK_INT(weft_coro_transfer(three->last, NULL, &value), ==, 1);
    return value;
}

TEST(a_transfers_value_arrives_in_a_local_of_one_that_was_copied_out)
{
    struct three three;
    weft_stacks *s;
    void *value;
    REQUIRE(weft_stacks_new(&s, 1, 0) == 0);
    REQUIRE(shared_new(&three.first, s, transfers_and_gets, &three) == 0);
    REQUIRE(shared_new(&three.last, s, counts_up, as_ptr(40)) == 0);
    CHECK_INT(weft_coro_resume(three.first, NULL, &value), ==, 1);
    CHECK_PTR(value, ==, as_ptr(41));
    CHECK_INT(weft_coro_resume(three.first, as_ptr(77), &value), ==, 0);
    CHECK_PTR(value, ==, as_ptr(77));
    CHECK_INT(weft_coro_free(three.first), ==, 0);
    CHECK_INT(weft_coro_free(three.last), ==, 0);
    CHECK_INT(weft_stacks_free(s), ==, 0);
}

TEST(reset_runs_again_in_place_and_after_others)
{
    weft_stacks *s;
    weft_coro *c, *other;
    void *value;
    REQUIRE(weft_stacks_new(&s, 1, 0) == 0);
    REQUIRE(shared_new(&c, s, ends, as_ptr(1)) == 0);
    REQUIRE(shared_new(&other, s, counts_up, as_ptr(1)) == 0);
    uint64_t id = weft_coro_id(c);
    CHECK_INT(weft_coro_reset(c, ends, as_ptr(2)), ==, 0); /* never resumed */
    CHECK(weft_coro_id(c) != id);
    CHECK_INT(weft_coro_resume(c, NULL, &value), ==, 0);
    CHECK_PTR(value, ==, as_ptr(2));
    CHECK_INT(weft_coro_reset(c, counts_up, as_ptr(3)), ==, 0); /* done, nobody on the stack */
    CHECK_INT(weft_coro_resume(c, NULL, &value), ==, 1);
    CHECK_PTR(value, ==, as_ptr(4));
    CHECK_INT(weft_coro_reset(c, ends, NULL), ==, -EBUSY); /* suspended */
    CHECK_INT(weft_coro_resume(other, NULL, &value), ==, 1);
    CHECK_INT(weft_coro_reset(c, ends, NULL), ==, -EBUSY); /* suspended and copied out */
    CHECK_INT(weft_coro_resume(c, NULL, &value), ==, 0);
    CHECK_PTR(value, ==, as_ptr(-1));
    CHECK_INT(weft_coro_resume(other, as_ptr(8), &value), ==, 1);
    CHECK_INT(weft_coro_reset(c, counts_up, as_ptr(5)), ==, 0); /* done, another one on the stack */
    CHECK_INT(weft_coro_resume(c, NULL, &value), ==, 1);
    CHECK_PTR(value, ==, as_ptr(6));
    CHECK_INT(weft_coro_resume(other, NULL, &value), ==, 0);
    CHECK_INT(weft_coro_free(c), ==, 0);
    CHECK_INT(weft_coro_free(other), ==, 0);
    CHECK_INT(weft_stacks_free(s), ==, 0);
}

TEST(free_of_a_suspended_one_leaves_the_others_alone)
{
    weft_stacks *s;
    weft_coro *in_place, *copied_out, *fresh, *other;
    void *value;
    size_t before = weft_coro_count();
    REQUIRE(weft_stacks_new(&s, 1, 0) == 0);
    REQUIRE(shared_new(&copied_out, s, counts_up, as_ptr(1)) == 0);
    REQUIRE(shared_new(&other, s, counts_up, as_ptr(1)) == 0);
    REQUIRE(shared_new(&in_place, s, counts_up, as_ptr(1)) == 0);
    REQUIRE(shared_new(&fresh, s, counts_up, as_ptr(1)) == 0);
    CHECK_INT(weft_coro_resume(copied_out, NULL, NULL), ==, 1);
    CHECK_INT(weft_coro_resume(other, NULL, NULL), ==, 1);
    CHECK_INT(weft_coro_resume(in_place, NULL, NULL), ==, 1);
    CHECK_INT(weft_coro_free(in_place), ==, 0);
    CHECK_INT(weft_coro_free(copied_out), ==, 0);
    CHECK_INT(weft_coro_free(fresh), ==, 0);
    CHECK_INT(weft_stacks_free(s), ==, -EBUSY);
    CHECK_INT(weft_coro_resume(other, as_ptr(4), &value), ==, 1);
    CHECK_PTR(value, ==, as_ptr(5));
    CHECK_INT(weft_coro_free(other), ==, 0);
    CHECK_INT(weft_coro_count(), ==, before);
    CHECK_INT(weft_stacks_free(s), ==, 0);
}

TEST(stack_used_is_the_most_that_was_live_while_it_rested)
{
    const size_t slack = WF_ASAN || WF_TSAN ? 8192 : 4096;
    weft_stacks *s;
    weft_coro *c, *other;
    REQUIRE(weft_stacks_new(&s, 1, 0) == 0);
    REQUIRE(shared_new(&c, s, counts_up, as_ptr(1)) == 0);
    REQUIRE(shared_new(&other, s, ends, NULL) == 0);
    CHECK_INT(weft_coro_stack_used(c), ==, 0);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 1);
    for (int i = 0; i < 2; i++) { /* in place, then copied out */
        CHECK_INT(weft_coro_stack_used(c), >=, sizeof(struct locals));
        CHECK_INT(weft_coro_stack_used(c), <=, sizeof(struct locals) + slack);
        if (i == 0)
            CHECK_INT(weft_coro_resume(other, NULL, NULL), ==, 0);
    }
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_stack_used(c), >=, sizeof(struct locals)); /* the most there ever was */
    CHECK_INT(weft_coro_free(c), ==, 0);
    CHECK_INT(weft_coro_free(other), ==, 0);
    CHECK_INT(weft_stacks_free(s), ==, 0);
}

/* Another thread stays inside a coroutine of the stack until it is told to go on. */
struct elsewhere {
    weft_coro *there, *here;
    int inside[2], go_on[2];
};

static void *stays(void *arg)
{
    struct elsewhere *e = arg;
    char byte = 0;
    CHECK_INT(write(e->inside[1], &byte, 1), ==, 1);
    CHECK_INT(read(e->go_on[0], &byte, 1), ==, 1);
    return NULL;
}

static void *other_thread(void *arg)
{
    struct elsewhere *e = arg;
    CHECK_INT(weft_coro_resume(e->there, NULL, NULL), ==, 0);
    return NULL;
}

static void *tries_to_transfer(void *arg)
{
    struct elsewhere *e = arg;
    void *value = arg;
    CHECK_INT(weft_coro_transfer(e->here, NULL, &value), ==, -EBUSY);
    CHECK_PTR(value, ==, arg);
    return NULL;
}

TEST(a_stack_that_another_thread_uses_is_ebusy)
{
    struct elsewhere e;
    weft_stacks *s;
    weft_coro *from;
    pthread_t thread;
    char byte = 0;
    void *value = &e;
    REQUIRE(pipe(e.inside) == 0 && pipe(e.go_on) == 0);
    REQUIRE(weft_stacks_new(&s, 1, 0) == 0);
    REQUIRE(shared_new(&e.there, s, stays, &e) == 0);
    REQUIRE(shared_new(&e.here, s, counts_up, as_ptr(1)) == 0);
    REQUIRE(weft_coro_new(&from, tries_to_transfer, &e, NULL) == 0);
    REQUIRE(pthread_create(&thread, NULL, other_thread, &e) == 0);
    CHECK_INT(read(e.inside[0], &byte, 1), ==, 1);
    CHECK_INT(weft_coro_resume(e.here, NULL, &value), ==, -EBUSY);
    CHECK_PTR(value, ==, &e);
    CHECK_INT(weft_coro_state(e.here), ==, WEFT_CORO_READY);
    CHECK_INT(weft_coro_resume(from, NULL, NULL), ==, 0);
    CHECK_INT(write(e.go_on[1], &byte, 1), ==, 1);
    pthread_join(thread, NULL);
    CHECK_INT(weft_coro_resume(e.here, NULL, &value), ==, 1);
    CHECK_PTR(value, ==, as_ptr(2));
    CHECK_INT(weft_coro_free(e.here), ==, 0);
    CHECK_INT(weft_coro_free(e.there), ==, 0);
    CHECK_INT(weft_coro_free(from), ==, 0);
    CHECK_INT(weft_stacks_free(s), ==, 0);
    for (int i = 0; i < 2; i++) {
        close(e.inside[i]);
        close(e.go_on[i]);
    }
}

#if WF_DEBUG
static void *shows_its_locals(void *arg)
{
    struct locals mine;
    locals_fill(&mine, 21);
    weft_coro_yield(&mine); /* against the rule, to see what happens */
    CHECK(locals_intact(&mine, 21));
    return arg;
}

WF_RAW_MEMORY static size_t count_words(const volatile struct locals *l, uint64_t word)
{
    size_t n = 0;
    for (size_t i = 0; i < sizeof l->words / sizeof l->words[0]; i++)
        n += l->words[i] == word;
    return n;
}
#endif

TEST(debug_builds_overwrite_what_was_copied_out)
{
#if WF_DEBUG
    const size_t all = sizeof(struct locals) / sizeof(uint64_t);
    weft_stacks *s;
    weft_coro *c, *other;
    void *seen;
    REQUIRE(weft_stacks_new(&s, 1, 0) == 0);
    REQUIRE(shared_new(&c, s, shows_its_locals, NULL) == 0);
    REQUIRE(shared_new(&other, s, ends, NULL) == 0);
    CHECK_INT(weft_coro_resume(c, NULL, &seen), ==, 1);
    CHECK_INT(count_words(seen, 0xdbdbdbdbdbdbdbdb), ==, 0);
    CHECK_INT(weft_coro_resume(other, NULL, NULL), ==, 0); /* needs the upper end only */
    CHECK_INT(count_words(seen, 0xdbdbdbdbdbdbdbdb), >, all / 2);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_free(c), ==, 0);
    CHECK_INT(weft_coro_free(other), ==, 0);
    CHECK_INT(weft_stacks_free(s), ==, 0);
#else
    SKIP("only builds with WEFT_DEBUG overwrite what was copied out");
#endif
}

TESTS(coro_copied_rules, values_arrive_in_locals_of_one_that_was_copied_out,
      a_transfers_value_arrives_in_a_local_of_one_that_was_copied_out, reset_runs_again_in_place_and_after_others,
      free_of_a_suspended_one_leaves_the_others_alone, stack_used_is_the_most_that_was_live_while_it_rested,
      a_stack_that_another_thread_uses_is_ebusy, debug_builds_overwrite_what_was_copied_out)
