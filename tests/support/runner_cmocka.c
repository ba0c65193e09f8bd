/*
 * tests/support/runner_cmocka.c: runs the tests of a program under cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/runner.h"

static size_t counts[3];

static void run_under_cmocka(void **state)
{
    enum test_result result = test_run_one(*state);
    counts[result]++;
    if (result == TEST_FAILED)
        fail_msg("see the lines above");
    if (result == TEST_SKIPPED)
        skip();
}

int test_main(const char *program, const struct test *tests, size_t count)
{
    struct CMUnitTest *group = calloc(count, sizeof *group);
    if (!group)
        return 1;
    for (size_t i = 0; i < count; i++)
        group[i] = (struct CMUnitTest){
            .name = tests[i].name, .test_func = run_under_cmocka, .initial_state = (void *)(uintptr_t)&tests[i]};
    int failed = _cmocka_run_group_tests(program, group, count, NULL, NULL);
    free(group);
    printf("%s: %zu passed, %zu failed, %zu skipped\n", program, counts[TEST_PASSED], counts[TEST_FAILED],
           counts[TEST_SKIPPED]);
    return failed == 0 && counts[TEST_FAILED] == 0 ? 0 : 1;
}
