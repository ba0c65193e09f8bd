/*
 * Context values flow to children, and nowhere else.
 */
#include "unit/task/ground.h"

static weft_context_key request, user;

static int reads(void *arg)
{
    CHECK_PTR(weft_context_get(request), ==, arg);
    CHECK_INT(weft_context_set(request, AS_ARG(99)), ==, 0); /* the parent does not see it */
    CHECK_PTR(weft_context_get(request), ==, AS_ARG(99));
    return 0;
}

static int reads_below(void *arg)
{
    WEFT_SCOPE (s, NULL) {
        CHECK_INT(weft_scope_go(&s, reads, arg), ==, 0);
        return weft_scope_wait(&s);
    }
    return -EBADE;
}

static void *reads_nothing(void *arg)
{
    CHECK_PTR(weft_context_get(request), ==, NULL);
    return arg;
}

IN_A_SCOPE_FIBER(values_flow_to_children_of_scopes_and_not_to_fibers_of_weft_go)
{
    CHECK_PTR(weft_context_get(request), ==, NULL);
    CHECK_INT(weft_context_set(request, AS_ARG(1)), ==, 0);
    CHECK_INT(weft_context_set(user, AS_ARG(2)), ==, 0);
    WEFT_SCOPE (s, NULL) {
        CHECK_INT(weft_scope_go(&s, reads, AS_ARG(1)), ==, 0);
        CHECK_INT(weft_scope_go(&s, reads_below, AS_ARG(1)), ==, 0);
        CHECK_INT(weft_context_set(request, AS_ARG(3)), ==, 0); /* those that have begun keep theirs */
        CHECK_INT(weft_scope_go(&s, reads, AS_ARG(3)), ==, 0);
        CHECK_INT(weft_scope_wait(&s), ==, 0);
    }
    CHECK_PTR(weft_context_get(request), ==, AS_ARG(3));
    CHECK_PTR(weft_context_get(user), ==, AS_ARG(2));
    ended(go(reads_nothing, NULL));
    return arg;
}

TEST(misuse_of_keys_is_refused)
{
    weft_context_key none = {0}, far = {1000};
    CHECK_INT(weft_context_new(NULL), ==, -EINVAL);
    CHECK_INT(weft_context_set(none, NULL), ==, -EINVAL);
    CHECK_INT(weft_context_set(far, NULL), ==, -EINVAL);
    CHECK_INT(weft_context_set(request, NULL), ==, -ENXIO);
    CHECK_PTR(weft_context_get(request), ==, NULL);
    CHECK_PTR(weft_context_get(far), ==, NULL);
}

static void *sets_without_memory(void *arg)
{
    for (unsigned n = 1; n <= 2; n++) {
        wf_sys_fail(1u << WF_SYS_MALLOC, n, 0);
        CHECK_INT(weft_context_set(request, AS_ARG(1)), ==, -ENOMEM);
        wf_sys_fail(0, 0, 0);
        CHECK_PTR(weft_context_get(request), ==, NULL);
    }
    return arg;
}

TEST(without_memory_a_value_is_as_it_was)
{
    struct wf_sys_held had = wf_sys_held();
    in_a_fiber(1, sets_without_memory, NULL);
    CHECK_INT(wf_sys_held().n, ==, had.n);
}

TEST(there_are_64_keys)
{
    weft_context_key key = {0};
    int rc = 0, count = 2;
    while ((rc = weft_context_new(&key)) == 0)
        count++;
    CHECK_INT(rc, ==, -EAGAIN);
    CHECK_INT(count, ==, 64);
}

TEST(keys_can_be_made)
{
    CHECK_INT(weft_context_new(&request), ==, 0);
    CHECK_INT(weft_context_new(&user), ==, 0);
}

TESTS(context, keys_can_be_made, values_flow_to_children_of_scopes_and_not_to_fibers_of_weft_go,
      misuse_of_keys_is_refused, without_memory_a_value_is_as_it_was, there_are_64_keys)
