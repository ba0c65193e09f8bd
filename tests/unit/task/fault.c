/*
 * Memory and threads that are not to be had, at every step: nothing is lost, nothing leaks, callbacks run once.
 */
#include <weft/stack.h>

#include "unit/task/places.h"

static int calls;

static void counts_value(void *value, void *arg)
{
    (void)value;
    more(arg);
}

static void counts_error(const weft_error *error, void *arg)
{
    CHECK_INT(error->code, <, 0);
    CHECK(error->message[0] != '\0');
    more(arg);
}

static int awaits_named(void *arg, void **value)
{
    weft_executor *x = arg;
    weft_task *t = NULL;
    int rc = weft_task_start(&t, returns_arg, arg, &(weft_task_opts){.on = x, .name = "inner"});
    if (rc != 0)
        return weft_fail(rc, "no inner task: %d", rc);
    rc = weft_task_await(t, value, weft_in(100 * WEFT_SEC));
    if (rc < 0)
        rc = weft_task_await(t, value, WEFT_FOREVER); /* it could not be resumed, or had no timer */
    weft_task_free(t);
    return rc;
}

/* One of everything. Whatever fails, what was begun comes to its end. */
static void use_all(enum kind k, weft_sched *s)
{
    weft_executor *x = NULL, *pool = NULL;
    weft_task *t[3] = {NULL};
    int made = k == NOOP     ? weft_executor_noop(&x)
               : k == THREAD ? weft_executor_thread(&x)
               : k == ASYNC  ? weft_executor_async(&x, 2)
               : k == LOOPER ? weft_executor_looper(&x, "fault", counts_call, &calls)
                             : weft_executor_sched(&x, s, 0);
    CHECK(made == 0 || made == -ENOMEM || made == -EAGAIN);
    int rc = weft_executor_async(&pool, 1);
    CHECK(rc == 0 || rc == -ENOMEM);
    int expected = 0, run = 0;
    for (int i = 0; i < 3 && x && pool; i++) {
        rc = weft_task_start(&t[i], awaits_named, pool, &(weft_task_opts){.on = x, .name = "outer"});
        CHECK(rc == 0 || rc == -ENOMEM || rc == -EAGAIN);
        expected += rc == 0 && weft_task_catching(weft_task_then(t[i], counts_value, &run), counts_error, &run);
    }
    for (int i = 0; i < 3; i++) {
        if (t[i]) {
            rc = ends(t[i]);
            CHECK(rc == 0 || rc == -ENOMEM || rc == -EAGAIN);
        }
    }
    CHECK_INT(seen(&run), >=, expected);
    weft_task *both[] = {t[0], t[1]};
    if (t[0] && t[1]) {
        rc = weft_task_all(both, 2, WEFT_FOREVER);
        CHECK(rc == 0 || rc == -ENOMEM || rc == -EAGAIN);
    }
    for (int i = 0; i < 3; i++)
        weft_task_free(t[i]);
    if (pool && (rc = weft_executor_execute(pool, counts_call, &calls)) != 0)
        CHECK(rc == -ENOMEM || rc == -EAGAIN);
    weft_executor_free(x);
    weft_executor_free(pool);
}

/* What is held beside caches of stacks. */
static size_t held_now(void)
{
    weft_stack_trim();
    return wf_sys_held().n;
}

static void fail_each(unsigned kinds)
{
    for (enum kind k = 0; k < KINDS; k++) {
        weft_sched *s = k == SCHED ? running_sched(1) : NULL;
        use_all(k, s); /* what is kept for the next time is there */
        size_t before = held_now();
        for (unsigned n = 1, done = 0; !done && n < 1000; n++) {
            wf_sys_fail(kinds, n, n % 3);
            use_all(k, s);
            done = wf_sys_calls() < n;
            wf_sys_fail(0, 0, 0);
        }
        use_all(k, s);
        AWAIT(held_now() <=
              before + 1); /* the thread that keeps deadlines holds stacks until it ends; 1: kept for the next task */
        if (s)
            end_sched(s);
    }
}

TEST(no_memory_at_any_step_loses_nothing)
{
    fail_each(1u << WF_SYS_MALLOC);
}

TEST(no_thread_at_any_step_loses_nothing)
{
    fail_each(1u << WF_SYS_THREAD);
}

TEST(no_stack_at_any_step_ends_tasks_with_enomem)
{
    fail_each(1u << WF_SYS_MMAP);
}

TESTS(task_fault, no_memory_at_any_step_loses_nothing, no_thread_at_any_step_loses_nothing,
      no_stack_at_any_step_ends_tasks_with_enomem)
