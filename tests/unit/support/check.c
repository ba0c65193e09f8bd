/*
 * The tests' own tools: a CHECK that fails, wherever it stands, fails its test and says why.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/weft.h>

#include "support/runner.h"

static void *checks_wrongly(void *arg)
{
    CHECK_INT(1 + 1, ==, 3);
    return arg;
}

static void in_a_coroutine(void)
{
    weft_coro *c;
    if (weft_coro_new(&c, checks_wrongly, NULL, NULL) == 0) {
        weft_coro_resume(c, NULL, NULL);
        weft_coro_free(c);
    }
}

static void in_a_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, checks_wrongly, NULL) == 0)
        pthread_join(thread, NULL);
}

static void in_a_child(void)
{
    CHECK_CHILD((void (*)(void *))(uintptr_t)checks_wrongly, NULL, 0, NULL);
}

static void by_a_wrong_string(void)
{
    CHECK_STR("a", "b");
}

static void by_a_child_that_says_something_else(void)
{
    CHECK_CHILD((void (*)(void *))(uintptr_t)free, NULL, 0, "something");
}

static void not_at_all(void)
{
    CHECK(true);
}

static void skips(void)
{
    SKIP("to see that it counts as skipped");
}

/* Runs a test inside of this one, in a child, whose exit status says what came of it. */
static void run_inner(void *inner)
{
    enum test_result result = test_run_one(inner);
    if (result == TEST_FAILED)
        test_run_one(&(struct test){"passes", not_at_all}); /* forget the failure: it was wanted */
    _exit(result == TEST_FAILED ? 1 : result == TEST_SKIPPED ? 2 : 0);
}

TEST(a_check_that_fails_fails_its_test_wherever_it_stands)
{
    static struct test wrong[] = {{"in_a_coroutine", in_a_coroutine},
                                  {"in_a_thread", in_a_thread},
                                  {"in_a_child", in_a_child},
                                  {"by_a_wrong_string", by_a_wrong_string},
                                  {"by_a_child", by_a_child_that_says_something_else}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK_CHILD(run_inner, &wrong[i], TEST_EXITS, NULL);
    CHECK_CHILD(run_inner, &wrong[0], TEST_EXITS, "check.c");          /* the file and */
    CHECK_CHILD(run_inner, &wrong[0], TEST_EXITS, "1 + 1 == 3: 2, 3"); /* the values */
}

TEST(a_test_that_is_right_passes_and_one_that_skips_says_why)
{
    static struct test right = {"not_at_all", not_at_all}, skipping = {"skips", skips};
    CHECK_CHILD(run_inner, &right, 0, NULL);
    CHECK_CHILD(run_inner, &skipping, TEST_EXITS, "to see that it counts as skipped");
}

TESTS(support_check, a_check_that_fails_fails_its_test_wherever_it_stands,
      a_test_that_is_right_passes_and_one_that_skips_says_why)
