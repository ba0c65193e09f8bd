/*
 * The pool of weft_executor_async: how many threads there are, and what happens when none can be made.
 */
#include "task/async.h"

#include "task/executor.h"
#include "unit/task/places.h"

static weft_executor *new_pool(unsigned max)
{
    weft_executor *x = NULL;
    CHECK_INT(weft_executor_async(&x, max), ==, 0);
    return x;
}

TEST(a_pool_grows_to_its_limit_and_no_further)
{
    weft_executor *x = new_pool(3);
    struct gate g = {0};
    CHECK_INT(wf_async_threads(x), ==, 0);
    for (int i = 0; i < 10; i++)
        CHECK_INT(weft_executor_execute(x, passes, &g), ==, 0);
    AWAIT(seen(&g.begun) == 3);
    for (int i = 0; i < 20; i++)
        breathe();
    CHECK_INT(seen(&g.begun), ==, 3);
    CHECK_INT(wf_async_threads(x), ==, 3);
    put(&g.open, 1);
    AWAIT(seen(&g.ended) == 10);
    CHECK_INT(weft_executor_free(x), ==, 0);
}

TEST(idle_threads_end_and_others_are_made)
{
    weft_executor *x = new_pool(4);
    int threads = steady_threads(), calls = 0;
    __atomic_store_n(&wf_async_idle_ns, WEFT_MS, __ATOMIC_RELAXED);
    for (int round = 1; round <= 5; round++) {
        for (int i = 0; i < 8; i++)
            CHECK_INT(weft_executor_execute(x, counts_call, &calls), ==, 0);
        AWAIT(seen(&calls) == 8 * round);
        AWAIT(wf_async_threads(x) == 0);
        AWAIT(count_threads() == threads);
    }
    __atomic_store_n(&wf_async_idle_ns, WEFT_SEC, __ATOMIC_RELAXED);
    CHECK_INT(weft_executor_free(x), ==, 0);
}

TEST(a_pool_without_threads_that_can_make_none_refuses)
{
    weft_executor *x = new_pool(4);
    int calls = 0;
    wf_sys_fail(1u << WF_SYS_THREAD, 1, 0);
    CHECK_INT(weft_executor_execute(x, counts_call, &calls), ==, -EAGAIN);
    wf_sys_fail(0, 0, 0);
    CHECK_INT(weft_executor_execute(x, counts_call, &calls), ==, 0);
    AWAIT(seen(&calls) == 1);
    CHECK_INT(weft_executor_free(x), ==, 0);
    CHECK_INT(calls, ==, 1);
}

TEST(a_pool_that_can_make_no_thread_uses_the_threads_that_it_has)
{
    weft_executor *x = new_pool(4);
    struct gate g = {0};
    int calls = 0;
    CHECK_INT(weft_executor_execute(x, passes, &g), ==, 0);
    AWAIT(seen(&g.begun) == 1);
    wf_sys_fail(1u << WF_SYS_THREAD, 1, 100);
    for (int i = 0; i < 5; i++)
        CHECK_INT(weft_executor_execute(x, counts_call, &calls), ==, 0);
    put(&g.open, 1);
    AWAIT(seen(&calls) == 5);
    wf_sys_fail(0, 0, 0);
    CHECK_INT(weft_executor_free(x), ==, 0);
}

struct maker {
    weft_executor *x;
    int making, go_on, calls;
};

static void holds_up_making(void *arg)
{
    struct maker *m = arg;
    more(&m->making);
    wait_flag(&m->go_on);
}

static void *executes(void *arg)
{
    struct maker *m = arg;
    CHECK_INT(weft_executor_execute(m->x, counts_call, &m->calls), ==, 0);
    return NULL;
}

/* `frees`: the pool releases itself meanwhile. */
static void end_while_making(bool frees)
{
    struct maker m = {.x = new_pool(2)};
    struct gate g = {0};
    int threads = steady_threads();
    size_t before = wf_sys_held().n;
    CHECK_INT(weft_executor_execute(m.x, passes, &g), ==, 0);
    AWAIT(seen(&g.begun));
    wf_sys_before(1u << WF_SYS_THREAD, holds_up_making, &m);
    wf_sys_fail(1u << WF_SYS_THREAD, 1, 0);
    pthread_t thread = new_thread(executes, &m);
    AWAIT(seen(&m.making));
    CHECK_INT(weft_executor_close(m.x, true), ==, 0);
    put(&g.open, 1); /* the thread that there is runs all, and ends */
    AWAIT(seen(&m.calls));
    AWAIT(count_threads() == threads + 1);
    if (frees)
        wf_executor_abandon(m.x, &(struct wf_later){0});
    put(&m.go_on, 1);
    pthread_join(thread, NULL);
    wf_sys_before(0, NULL, NULL);
    wf_sys_fail(0, 0, 0);
    if (!frees) {
        CHECK_INT(weft_executor_join(m.x, weft_in(AWAIT_SECONDS * WEFT_SEC)), ==, 0);
        weft_executor_free(m.x);
    }
    AWAIT(wf_sys_held().n < before); /* the pool is gone */
}

TEST(a_pool_that_ends_while_a_thread_cannot_be_made_is_over)
{
    end_while_making(false);
    end_while_making(true);
}

TESTS(task_async, a_pool_grows_to_its_limit_and_no_further, idle_threads_end_and_others_are_made,
      a_pool_without_threads_that_can_make_none_refuses, a_pool_that_can_make_no_thread_uses_the_threads_that_it_has,
      a_pool_that_ends_while_a_thread_cannot_be_made_is_over)
