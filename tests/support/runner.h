/*
 * tests/support/runner.h: what the two runners share.
 */
#ifndef TESTS_SUPPORT_RUNNER_H
#define TESTS_SUPPORT_RUNNER_H

#include "support/test.h"

enum test_result { TEST_PASSED, TEST_FAILED, TEST_SKIPPED };

/* Runs one test and says how it went; a skip is explained on standard error. */
enum test_result test_run_one(const struct test *test);

#endif
