/*
 * Coroutines on shared stacks: each finds its own bytes whenever it runs, whoever was on the stack meanwhile and
 * whoever resumed it. Their other rules (values, reset, -EBUSY) are in copied_rules.c, transfers in copied_transfer.c,
 * lack of memory in copied_fault.c.
 */
#include <alloca.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "base/sanitizer.h"
#include "support/locals.h"
#include "support/test.h"

static int shared_new(weft_coro **out, weft_stacks *pool, weft_fn *fn, void *arg)
{
    return weft_coro_new(out, fn, arg, &(weft_coro_opts){.size = sizeof(weft_coro_opts), .shared = pool});
}

/* One of a chain of coroutines, each of which resumes the next. */
struct link {
    struct link *next;
    weft_coro *c;
    uint64_t seed;
    int rounds;
};

/* A round: new contents, twice down the chain and back, then up to the resumer. */
static void *chained(void *arg)
{
    struct link *l = arg;
    struct locals mine;
    for (int round = 0; round < l->rounds; round++) {
        uint64_t seed = l->seed + (uint64_t)round;
        locals_fill(&mine, seed);
        for (int i = 0; l->next && i < 2; i++) {
            void *value = NULL;
            CHECK_INT(weft_coro_resume(l->next->c, l, &value), ==, 1);
            CHECK_PTR(value, ==, l->next);
            CHECK(locals_intact(&mine, seed));
            CHECK_PTR(weft_coro_current(), ==, l->c);
        }
        weft_coro_yield(l);
        CHECK(locals_intact(&mine, seed));
    }
    return l;
}

/* Runs a, which runs b, which runs c, for some rounds; then each to its end. */
static void run_chain(weft_stacks *of_a, weft_stacks *of_b, weft_stacks *of_c)
{
    enum { ROUNDS = 5 };
    struct link c = {.seed = 3000, .rounds = 4 * ROUNDS};
    struct link b = {.next = &c, .seed = 2000, .rounds = 2 * ROUNDS};
    struct link a = {.next = &b, .seed = 1000, .rounds = ROUNDS};
    struct link *all[] = {&a, &b, &c};
    void *value;
    REQUIRE(shared_new(&a.c, of_a, chained, &a) == 0); /* a pool of NULL: a private stack */
    REQUIRE(shared_new(&b.c, of_b, chained, &b) == 0);
    REQUIRE(shared_new(&c.c, of_c, chained, &c) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        CHECK_INT(weft_coro_resume(a.c, NULL, &value), ==, 1);
        CHECK_PTR(value, ==, &a);
    }
    for (size_t i = 0; i < 3; i++) {
        CHECK_INT(weft_coro_resume(all[i]->c, NULL, &value), ==, 0);
        CHECK_PTR(value, ==, all[i]);
        CHECK_INT(weft_coro_free(all[i]->c), ==, 0);
    }
}

TEST(three_nested_on_one_stack_keep_their_locals)
{
    weft_stacks *s;
    REQUIRE(weft_stacks_new(&s, 1, 0) == 0);
    run_chain(s, s, s);
    CHECK_INT(weft_stacks_free(s), ==, 0);
}

TEST(a_private_one_between_two_of_one_stack_changes_nothing)
{
    weft_stacks *s;
    REQUIRE(weft_stacks_new(&s, 1, 0) == 0);
    run_chain(s, NULL, s);
    run_chain(NULL, s, s);
    run_chain(s, s, NULL);
    CHECK_INT(weft_stacks_free(s), ==, 0);
}

TEST(nested_ones_of_two_stacks_keep_their_locals)
{
    weft_stacks *s, *t;
    REQUIRE(weft_stacks_new(&s, 1, 0) == 0 && weft_stacks_new(&t, 1, 0) == 0);
    run_chain(s, t, s);
    run_chain(s, s, t);
    run_chain(t, s, s);
    CHECK_INT(weft_stacks_free(s), ==, 0);
    CHECK_INT(weft_stacks_free(t), ==, 0);
}

static void *yields_often(void *arg)
{
    struct locals mine;
    locals_fill(&mine, (uintptr_t)arg);
    for (int i = 0; i < 100; i++) {
        weft_coro_yield(arg);
        CHECK(locals_intact(&mine, (uintptr_t)arg));
    }
    return arg;
}

static void *resumes_it(void *arg)
{
    struct locals mine;
    weft_coro *other = arg;
    void *value;
    locals_fill(&mine, 99);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(weft_coro_resume(other, NULL, &value), ==, 1);
        CHECK_INT((uintptr_t)value, ==, 7);
        CHECK(locals_intact(&mine, 99));
    }
    return NULL;
}

TEST(one_that_was_copied_out_before_can_be_resumed_from_its_own_stack)
{
    weft_stacks *s;
    weft_coro *c, *d;
    REQUIRE(weft_stacks_new(&s, 1, 0) == 0);
    REQUIRE(shared_new(&c, s, yields_often, (void *)7) == 0);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 1); /* by the thread: c is alone on the stack */
    for (int i = 0; i < 3; i++) {
        REQUIRE(shared_new(&d, s, resumes_it, c) == 0);
        CHECK_INT(weft_coro_resume(d, NULL, NULL), ==, 0); /* c was copied out to make place for d */
        CHECK_INT(weft_coro_free(d), ==, 0);
        CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 1);
    }
    CHECK_INT(weft_coro_free(c), ==, 0);
    CHECK_INT(weft_stacks_free(s), ==, 0);
}

/* One of many: at every turn another depth, with bytes on the way down that must be there on the way up. */
struct one_of_many {
    weft_coro *c;
    uint64_t random;
    int turns;
};

static void goes_down(struct one_of_many *m, unsigned levels)
{
    size_t bytes = 16 + test_random(&m->random) % 512;
    unsigned char fill = (unsigned char)test_random(&m->random);
    unsigned char *mine = alloca(bytes);
    size_t wrong = 0;
    memset(mine, fill, bytes);
    __asm__ volatile("" : : "r"(mine) : "memory");
    if (levels == 0)
        weft_coro_yield(m);
    else
        goes_down(m, levels - 1);
    __asm__ volatile("" : : "r"(mine) : "memory");
    for (size_t i = 0; i < bytes; i++)
        wrong += mine[i] != fill;
    CHECK_INT(wrong, ==, 0);
}

static void *goes_down_and_up(void *arg)
{
    struct one_of_many *m = arg;
    for (int i = 0; i < m->turns; i++)
        goes_down(m, (unsigned)(test_random(&m->random) % 12));
    return m;
}

TEST(a_thousand_on_three_stacks_keep_their_locals_in_any_order)
{
    enum { MANY = 1000, TURNS = 20 };
    struct one_of_many *many = calloc(MANY, sizeof *many);
    uint64_t random = test_seed();
    weft_stacks *s;
    int left = MANY;
    REQUIRE(many != NULL);
    REQUIRE(weft_stacks_new(&s, 3, 64 * 1024) == 0);
    for (int i = 0; i < MANY; i++) {
        many[i] = (struct one_of_many){.random = test_random(&random) | 1, .turns = TURNS};
        REQUIRE(shared_new(&many[i].c, s, goes_down_and_up, &many[i]) == 0);
    }
    while (left > 0 && !test_has_failed()) {
        struct one_of_many *m = &many[test_random(&random) % MANY];
        void *value = NULL;
        if (!m->c)
            continue;
        int rc = weft_coro_resume(m->c, NULL, &value);
        CHECK_PTR(value, ==, m);
        if (rc == 0) {
            CHECK_INT(weft_coro_free(m->c), ==, 0);
            m->c = NULL;
            left--;
        } else {
            CHECK_INT(rc, ==, 1);
        }
    }
    for (int i = 0; i < MANY; i++)
        weft_coro_free(many[i].c);
    CHECK_INT(weft_stacks_free(s), ==, 0);
    free(many);
}

/* Goes down with locals on every level, and yields once at the bottom, which stops at the next level up. */
static void *dives(void *arg)
{
    struct link *l = arg;
    struct locals mine;
    locals_fill(&mine, l->seed);
    if (l->next) {
        CHECK_INT(weft_coro_resume(l->next->c, NULL, NULL), ==, 1);
        CHECK(locals_intact(&mine, l->seed));
    }
    weft_coro_yield(NULL);
    CHECK(locals_intact(&mine, l->seed));
    if (l->next)
        CHECK_INT(weft_coro_resume(l->next->c, NULL, NULL), ==, 0);
    CHECK(locals_intact(&mine, l->seed));
    return NULL;
}

TEST(a_thousand_nested_on_one_stack_keep_their_locals)
{
    enum { DEPTH = 1000 };
    struct link *links = calloc(DEPTH, sizeof *links);
    weft_stacks *s;
    REQUIRE(links != NULL);
    REQUIRE(weft_stacks_new(&s, 1, 64 * 1024) == 0);
    for (int i = 0; i < DEPTH; i++) {
        links[i] = (struct link){.next = i + 1 < DEPTH ? &links[i + 1] : NULL, .seed = (uint64_t)i << 20};
        REQUIRE(shared_new(&links[i].c, s, dives, &links[i]) == 0);
    }
    CHECK_INT(weft_coro_resume(links[0].c, NULL, NULL), ==, 1);
    CHECK_INT(weft_coro_resume(links[0].c, NULL, NULL), ==, 0);
    for (int i = 0; i < DEPTH; i++) {
        CHECK_INT(weft_coro_state(links[i].c), ==, WEFT_CORO_DONE);
        CHECK_INT(weft_coro_free(links[i].c), ==, 0);
    }
    CHECK_INT(weft_stacks_free(s), ==, 0);
    free(links);
}

TESTS(coro_copied, three_nested_on_one_stack_keep_their_locals, a_private_one_between_two_of_one_stack_changes_nothing,
      nested_ones_of_two_stacks_keep_their_locals, one_that_was_copied_out_before_can_be_resumed_from_its_own_stack,
      a_thousand_on_three_stacks_keep_their_locals_in_any_order, a_thousand_nested_on_one_stack_keep_their_locals)
