/*
 * Transfers between coroutines on private stacks, on the same shared stack and on different ones, under any resumer:
 * locals and values arrive, also when the one that waits for a value was copied out meanwhile.
 */
#include <errno.h>

#include <weft/weft.h>

#include "support/locals.h"
#include "support/test.h"

enum where { ON_THE_THREAD, PRIVATE, ON_S, ON_T, PLACES };

static void *as_ptr(intptr_t n)
{
    return (void *)n;
}

enum role { RESUMER = 1, A = 2, B = 4, ALL = 7 };

/* The resumer resumes a, a transfers to b; those in `churns` use both shared stacks before every step. */
struct scene {
    weft_stacks *s, *t;
    weft_coro *resumer, *a, *b;
    weft_coro *churn_s, *churn_t;
    unsigned churns;
};

static int place_new(const struct scene *scene, weft_coro **out, enum where where, weft_fn *fn, void *arg)
{
    weft_stacks *pool = where == ON_S ? scene->s : where == ON_T ? scene->t : NULL;
    return weft_coro_new(out, fn, arg, &(weft_coro_opts){.size = sizeof(weft_coro_opts), .shared = pool});
}

/* Whoever is on its stack is copied out. */
static void *churner(void *arg)
{
    struct locals mine;
    for (uint64_t seed = 100;; seed++) {
        locals_fill(&mine, seed);
        if (weft_coro_yield(arg) == NULL)
            return NULL;
        CHECK(locals_intact(&mine, seed));
    }
}

static void churn(const struct scene *scene, enum role role)
{
    if (scene->churns & role) {
        CHECK_INT(weft_coro_resume(scene->churn_s, as_ptr(1), NULL), ==, 1);
        CHECK_INT(weft_coro_resume(scene->churn_t, as_ptr(1), NULL), ==, 1);
    }
}

static void *role_a(void *arg)
{
    struct scene *scene = arg;
    struct locals mine;
    void *got = NULL;
    locals_fill(&mine, 1);
    churn(scene, A);
    CHECK_INT(weft_coro_transfer(scene->b, as_ptr(5), &got), ==, 1); /* b begins: 5 goes nowhere */
    CHECK(locals_intact(&mine, 1));
    CHECK_PTR(got, ==, as_ptr(77)); /* from the resumer */
    CHECK_INT(weft_coro_state(scene->b), ==, WEFT_CORO_READY);
    churn(scene, A);
    CHECK_INT(weft_coro_transfer(scene->b, as_ptr(6), &got), ==, 1); /* b waits in a yield */
    CHECK(locals_intact(&mine, 1));
    CHECK_PTR(got, ==, as_ptr(78)); /* from b's transfer */
    CHECK_PTR(weft_coro_current(), ==, scene->a);
    return as_ptr(99);
}

static void *role_b(void *arg)
{
    struct scene *scene = arg;
    struct locals mine;
    void *got = NULL;
    locals_fill(&mine, 2);
    CHECK_INT(weft_coro_state(scene->a), ==, WEFT_CORO_READY);
    churn(scene, B);
    got = weft_coro_yield(as_ptr(42)); /* to whoever resumed a */
    CHECK(locals_intact(&mine, 2));
    CHECK_PTR(got, ==, as_ptr(6));
    churn(scene, B);
    CHECK_INT(weft_coro_transfer(scene->a, as_ptr(78), &got), ==, 1); /* a waits in a transfer */
    CHECK(locals_intact(&mine, 2));
    CHECK_PTR(got, ==, as_ptr(79));
    return as_ptr(43);
}

static void *role_resumer(void *arg)
{
    struct scene *scene = arg;
    struct locals mine;
    void *value = NULL;
    locals_fill(&mine, 3);
    CHECK_INT(weft_coro_resume(scene->a, NULL, &value), ==, 1);
    CHECK(locals_intact(&mine, 3));
    CHECK_PTR(value, ==, as_ptr(42));
    churn(scene, RESUMER);
    CHECK_INT(weft_coro_resume(scene->a, as_ptr(77), &value), ==, 0); /* a ends after b came and went */
    CHECK(locals_intact(&mine, 3));
    CHECK_PTR(value, ==, as_ptr(99));
    CHECK_INT(weft_coro_state(scene->a), ==, WEFT_CORO_DONE);
    churn(scene, RESUMER);
    CHECK_INT(weft_coro_resume(scene->b, as_ptr(79), &value), ==, 0);
    CHECK(locals_intact(&mine, 3));
    CHECK_PTR(value, ==, as_ptr(43));
    return as_ptr(100);
}

static void play(struct scene *scene, enum where resumer, enum where a, enum where b)
{
    void *value;
    REQUIRE(place_new(scene, &scene->a, a, role_a, scene) == 0);
    REQUIRE(place_new(scene, &scene->b, b, role_b, scene) == 0);
    if (resumer == ON_THE_THREAD) {
        role_resumer(scene);
    } else {
        REQUIRE(place_new(scene, &scene->resumer, resumer, role_resumer, scene) == 0);
        CHECK_INT(weft_coro_resume(scene->resumer, NULL, &value), ==, 0);
        CHECK_PTR(value, ==, as_ptr(100));
        CHECK_INT(weft_coro_free(scene->resumer), ==, 0);
    }
    CHECK_INT(weft_coro_free(scene->a), ==, 0);
    CHECK_INT(weft_coro_free(scene->b), ==, 0);
    if (test_has_failed())
        test_failed(__FILE__, __LINE__, "resumer %d, a %d, b %d, churns %u", resumer, a, b, scene->churns);
}

/* Every place for a and for b, under the resumers from first to last. */
static void play_all(enum where first, enum where last)
{
    struct scene scene;
    REQUIRE(weft_stacks_new(&scene.s, 1, 0) == 0 && weft_stacks_new(&scene.t, 1, 0) == 0);
    REQUIRE(place_new(&scene, &scene.churn_s, ON_S, churner, &scene) == 0);
    REQUIRE(place_new(&scene, &scene.churn_t, ON_T, churner, &scene) == 0);
    for (scene.churns = 0; scene.churns <= ALL; scene.churns++) {
        for (enum where resumer = first; resumer <= last; resumer++) {
            for (enum where a = PRIVATE; a < PLACES; a++) {
                for (enum where b = PRIVATE; b < PLACES && !test_has_failed(); b++)
                    play(&scene, resumer, a, b);
            }
        }
    }
    CHECK_INT(weft_coro_resume(scene.churn_s, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_resume(scene.churn_t, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_free(scene.churn_s), ==, 0);
    CHECK_INT(weft_coro_free(scene.churn_t), ==, 0);
    CHECK_INT(weft_stacks_free(scene.s), ==, 0);
    CHECK_INT(weft_stacks_free(scene.t), ==, 0);
}

TEST(transfers_between_any_two_stacks_keep_locals_and_values)
{
    play_all(ON_THE_THREAD, PRIVATE);
}

TEST(transfers_under_a_resumer_that_is_copied_out_keep_locals_and_values)
{
    play_all(ON_S, ON_T);
}

/* Each transfers to the next; the last one yields. */
struct runner {
    weft_coro *c;
    struct runner *next;
};

static void *runs(void *arg)
{
    struct runner *r = arg;
    struct locals mine;
    locals_fill(&mine, (uintptr_t)r);
    if (r->next)
        CHECK_INT(weft_coro_transfer(r->next->c, NULL, NULL), ==, 1);
    else
        weft_coro_yield(r);
    CHECK(locals_intact(&mine, (uintptr_t)r));
    return r;
}

static void *waits_for_the_last(void *arg)
{
    struct runner *runners = arg;
    struct locals mine;
    void *value = NULL;
    locals_fill(&mine, 50);
    CHECK_INT(weft_coro_resume(runners[0].c, NULL, &value), ==, 1);
    CHECK(locals_intact(&mine, 50));
    CHECK_PTR(value, ==, &runners[2]);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(weft_coro_state(runners[i].c), ==, WEFT_CORO_READY);
        CHECK_INT(weft_coro_resume(runners[i].c, NULL, &value), ==, 0);
        CHECK(locals_intact(&mine, 50));
        CHECK_PTR(value, ==, &runners[i]);
    }
    return NULL;
}

TEST(transfers_in_a_row_end_with_the_first_ones_resumer)
{
    struct scene scene = {0};
    struct runner runners[3] = {{.next = &runners[1]}, {.next = &runners[2]}, {.next = NULL}};
    static const enum where places[][3] = {
        {ON_S, PRIVATE, ON_S}, {PRIVATE, ON_S, PRIVATE}, {ON_T, ON_S, ON_T}, {ON_S, ON_S, ON_S}};
    REQUIRE(weft_stacks_new(&scene.s, 1, 0) == 0 && weft_stacks_new(&scene.t, 1, 0) == 0);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        REQUIRE(place_new(&scene, &scene.resumer, ON_S, waits_for_the_last, runners) == 0);
        for (int j = 0; j < 3; j++)
            REQUIRE(place_new(&scene, &runners[j].c, places[i][j], runs, &runners[j]) == 0);
        CHECK_INT(weft_coro_resume(scene.resumer, NULL, NULL), ==, 0);
        CHECK_INT(weft_coro_free(scene.resumer), ==, 0);
        for (int j = 0; j < 3; j++)
            CHECK_INT(weft_coro_free(runners[j].c), ==, 0);
    }
    CHECK_INT(weft_stacks_free(scene.s), ==, 0);
    CHECK_INT(weft_stacks_free(scene.t), ==, 0);
}

static void *transfers_to_nobody(void *arg)
{
    struct scene *scene = arg;
    struct locals mine;
    void *value = arg;
    locals_fill(&mine, 8);
    CHECK_INT(weft_coro_transfer(NULL, NULL, &value), ==, -EINVAL);
    CHECK_INT(weft_coro_transfer(scene->a, NULL, &value), ==, -EDEADLK); /* itself */
    CHECK_INT(weft_coro_transfer(scene->b, NULL, &value), ==, -ESRCH);   /* has ended */
    CHECK_PTR(value, ==, arg);
    CHECK(locals_intact(&mine, 8));
    return NULL;
}

static void *ends(void *arg)
{
    return arg;
}

TEST(a_transfer_that_is_refused_changes_nothing)
{
    struct scene scene = {0};
    REQUIRE(weft_stacks_new(&scene.s, 1, 0) == 0);
    REQUIRE(place_new(&scene, &scene.a, ON_S, transfers_to_nobody, &scene) == 0);
    REQUIRE(place_new(&scene, &scene.b, ON_S, ends, NULL) == 0);
    CHECK_INT(weft_coro_resume(scene.b, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_resume(scene.a, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_free(scene.a), ==, 0);
    CHECK_INT(weft_coro_free(scene.b), ==, 0);
    CHECK_INT(weft_stacks_free(scene.s), ==, 0);
}

TESTS(coro_copied_transfer, transfers_between_any_two_stacks_keep_locals_and_values,
      transfers_under_a_resumer_that_is_copied_out_keep_locals_and_values,
      transfers_in_a_row_end_with_the_first_ones_resumer, a_transfer_that_is_refused_changes_nothing)
