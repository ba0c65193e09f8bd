/*
 * The seam: the nth call fails, a call can lie, a caller can be held up, what is held is counted, and errno is left
 * alone.
 */
#include <errno.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/sys.h"
#include "support/test.h"

TEST(the_nth_call_fails_and_so_many_after_it)
{
    void *p[6];
    wf_sys_fail(1u << WF_SYS_MALLOC, 2, 1);
    for (int i = 0; i < 6; i++)
        p[i] = wf_sys_malloc(16);
    CHECK_INT(wf_sys_calls(), ==, 6);
    wf_sys_fail(0, 0, 0);
    for (int i = 0; i < 6; i++) {
        CHECK_INT(p[i] == NULL, ==, i == 1 || i == 2);
        wf_sys_free(p[i]);
    }
}

TEST(only_the_kinds_that_were_asked_for_fail)
{
    wf_sys_fail(1u << WF_SYS_MMAP, 1, 0);
    void *p = wf_sys_malloc(16);
    CHECK(p != NULL);
    CHECK(wf_sys_map(wf_sys_page()) == NULL);
    void *q = wf_sys_map(wf_sys_page());
    CHECK(q != NULL);
    wf_sys_fail(0, 0, 0);
    wf_sys_free(p);
    wf_sys_unmap(q, wf_sys_page());
}

static void counts_calls(void *arg)
{
    ++*(int *)arg;
}

TEST(whoever_makes_a_call_can_be_held_up_before_it)
{
    int calls = 0;
    wf_sys_before(1u << WF_SYS_MALLOC, counts_calls, &calls);
    wf_sys_fail(1u << WF_SYS_MALLOC, 2, 0);
    void *p = wf_sys_malloc(16), *q = wf_sys_map(wf_sys_page());
    CHECK_INT(calls, ==, 1);
    CHECK(wf_sys_malloc(16) == NULL);
    CHECK_INT(calls, ==, 2); /* also before one that fails */
    wf_sys_fail(0, 0, 0);
    wf_sys_before(0, NULL, NULL);
    void *r = wf_sys_malloc(16);
    CHECK_INT(calls, ==, 2);
    wf_sys_free(p);
    wf_sys_unmap(q, wf_sys_page());
    wf_sys_free(r);
}

TEST(what_is_held_is_counted)
{
    struct wf_sys_held before = wf_sys_held();
    void *p = wf_sys_malloc(16), *q = wf_sys_map(2 * wf_sys_page());
    CHECK_INT(wf_sys_held().n, ==, before.n + 1);
    CHECK_INT(wf_sys_held().bytes, ==, before.bytes + 2 * wf_sys_page());
    wf_sys_free(p);
    wf_sys_unmap(q, 2 * wf_sys_page());
    CHECK_INT(wf_sys_held().n, ==, before.n);
    CHECK_INT(wf_sys_held().bytes, ==, before.bytes);
}

TEST(a_failure_is_returned_and_errno_is_left_alone)
{
    static char not_a_page[3];
    errno = 4711;
    CHECK_INT(wf_sys_forbid(not_a_page + 1, 1), ==, -EINVAL);
    CHECK_INT(wf_sys_discard(not_a_page + 1, 1), ==, -EINVAL);
    CHECK(wf_sys_map((size_t)1 << 62) == NULL);
    CHECK(wf_sys_mapping_limit() > 1000);
    CHECK_INT(errno, ==, 4711);
}

TEST(a_page_that_is_guarded_is_forbidden_and_another_is_not)
{
    char *p = wf_sys_map(2 * wf_sys_page());
    REQUIRE(p != NULL);
    CHECK(!wf_sys_forbidden(p));
    if (wf_sys_guard(p, wf_sys_page()) == 0 && wf_sys_forbidden(p))
        CHECK(!wf_sys_forbidden(p + wf_sys_page()));
    else
        test_skip("this kernel has no MADV_GUARD_INSTALL");
    wf_sys_unmap(p, 2 * wf_sys_page());
}

TEST(the_clock_can_be_set_and_given_back)
{
    int64_t real = wf_clock_coarse();
    wf_clock_set(42);
    CHECK_INT(wf_clock_coarse(), ==, 42);
    wf_clock_set(0);
    CHECK_INT(wf_clock_coarse(), >=, real);
}

TESTS(base_sys, the_nth_call_fails_and_so_many_after_it, only_the_kinds_that_were_asked_for_fail,
      whoever_makes_a_call_can_be_held_up_before_it, what_is_held_is_counted,
      a_failure_is_returned_and_errno_is_left_alone, a_page_that_is_guarded_is_forbidden_and_another_is_not,
      the_clock_can_be_set_and_given_back)
