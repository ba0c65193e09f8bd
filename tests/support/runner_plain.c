/*
 * tests/support/runner_plain.c: runs the tests of a program one after another, for targets without cmocka.
 */
#include <stdio.h>

#include "support/runner.h"

int test_main(const char *program, const struct test *tests, size_t count)
{
    static const char *const words[] = {"ok", "FAILED", "skipped"};
    size_t counts[3] = {0};
    for (size_t i = 0; i < count; i++) {
        enum test_result result = test_run_one(&tests[i]);
        counts[result]++;
        fprintf(stderr, "[ %s ] %s\n", words[result], tests[i].name);
    }
    printf("%s: %zu passed, %zu failed, %zu skipped\n", program, counts[TEST_PASSED], counts[TEST_FAILED],
           counts[TEST_SKIPPED]);
    return counts[TEST_FAILED] == 0 ? 0 : 1;
}
