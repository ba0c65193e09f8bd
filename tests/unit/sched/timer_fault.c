/*
 * Timers without memory: a new one says so, and one that is due waits until there is memory for its fiber. And with the
 * memory of those that are gone.
 */
#include <signal.h>

#include <weft/stack.h>

#include "base/sanitizer.h"
#include "base/sys.h"
#include "unit/sched/timer_ground.h"

#define MEMORY (1u << WF_SYS_MALLOC | 1u << WF_SYS_MMAP)

TEST(new_without_memory_is_enomem)
{
    struct log l = {0};
    weft_timer *t = (weft_timer *)1;
    weft_alive *a = NULL, *b = (weft_alive *)1;
    ground_begin();
    CHECK_INT(weft_alive_new(&a, NULL, NULL), ==, 0);
    wf_sys_fail(MEMORY, 1, 100);
    CHECK_INT(weft_timer_new(&t, WEFT_MS, false, a, fires, &l), ==, -ENOMEM);
    CHECK_INT(weft_alive_new(&b, NULL, NULL), ==, -ENOMEM);
    wf_sys_fail(0, 0, 0);
    CHECK_PTR(t, ==, (weft_timer *)1);
    CHECK_PTR(b, ==, (weft_alive *)1);
    weft_alive_drop(a);
    ground_end();
}

/* More than there are records at hand. */
enum { MANY = 2000 };

TEST(those_that_are_due_fire_when_there_is_memory_again)
{
    static struct log l[MANY];
    weft_timer *cancelled = NULL;
    struct log never = {0};
    memset(l, 0, sizeof l);
    ground_begin();
    for (int i = 0; i < MANY; i++)
        CHECK_INT(weft_timer_new(NULL, WEFT_MS, false, NULL, fires, &l[i]), ==, 0);
    cancelled = new_timer(WEFT_MS, false, fires, &never);
    wf_sys_fail(MEMORY, 1, 1000000);
    clock_forward(WEFT_MS);
    for (int i = 0; i < 5; i++) {
        weft_sched_run(ground, WEFT_NOW);
        clock_forward(WEFT_MS);
    }
    CHECK(wf_sys_calls() > 0);
    CHECK_INT(l[MANY - 1].times, ==, 0);
    CHECK_INT(weft_timer_free(cancelled), ==, 1);
    wf_sys_fail(0, 0, 0);
    clock_forward(WEFT_MS);
    CHECK_INT(weft_sched_run(ground, WEFT_FOREVER), ==, 0);
    for (int i = 0; i < MANY; i++)
        CHECK_INT(l[i].times, ==, 1);
    CHECK_INT(never.times, ==, 0);
    ground_end();
}

static void one_life(void)
{
    static struct log l[3];
    static int destroyed;
    weft_timer *t[3] = {NULL};
    weft_sched *s = NULL;
    weft_alive *a = NULL;
    memset(l, 0, sizeof l);
    destroyed = 0;
    bool has_alive = weft_alive_new(&a, &destroyed, NULL) == 0;
    if (weft_sched_new(&s, &(weft_sched_opts){.threads = 1, .use_caller = true}) == 0) {
        int made = 0;
        made += weft_timer_new(NULL, 0, false, NULL, fires, &l[0]) == 0;
        made += weft_timer_new(&t[1], 0, false, a, fires, &l[1]) == 0;
        weft_timer_new(&t[2], WEFT_MS, true, a, fires, &l[2]);
        while (weft_sched_stop(s, WEFT_FOREVER) != 0)
            ;
        CHECK_INT(l[0].times + l[1].times, ==, made);
        CHECK_INT(weft_sched_free(s), ==, 0);
    }
    for (int i = 0; i < 3; i++)
        weft_timer_free(t[i]);
    if (has_alive)
        weft_alive_drop(a);
}

TEST(nothing_is_left_behind_whatever_cannot_be_had)
{
    one_life(); /* what this thread keeps for ever, it has from now on */
    weft_stack_trim();
    struct wf_sys_held before = wf_sys_held();
    unsigned n = 1, calls;
    do {
        wf_sys_fail(MEMORY, n, 0);
        one_life();
        calls = wf_sys_calls();
        wf_sys_fail(0, 0, 0);
        weft_stack_trim();
        struct wf_sys_held now = wf_sys_held();
        if (now.n != before.n || now.bytes != before.bytes)
            test_failed(__FILE__, __LINE__, "without call %u: %zd allocations and %zd bytes are left behind", n,
                        (ssize_t)(now.n - before.n), (ssize_t)(now.bytes - before.bytes));
    } while (calls >= n++);
    CHECK_INT(n, >, 6);
}

/* ---- memory that is used again ---- */

#define KEEPS_NONE "sanitizers and valgrind are to see who uses a handle that was freed"

static void never_fires(void *arg)
{
    (void)arg;
    CHECK(false);
}

static weft_timer *for_long(void)
{
    weft_timer *t = NULL;
    CHECK_INT(weft_timer_new(&t, 1000 * WEFT_SEC, false, NULL, never_fires, NULL), ==, 0);
    return t;
}

static void *makes_one_after_another(void *arg)
{
    CHECK_INT(weft_timer_free(for_long()), ==, 1);
    wf_sys_fail(MEMORY, 1000000, 0); /* counts */
    for (int i = 0; i < 1000; i++)
        CHECK_INT(weft_timer_free(for_long()), ==, 1);
    CHECK_INT(wf_sys_calls(), ==, 0);
    wf_sys_fail(0, 0, 0);
    return arg;
}

TEST(one_timer_after_another_takes_no_memory)
{
    if (WF_ASAN || WF_VALGRIND)
        SKIP(KEEPS_NONE);
    in_a_fiber(1, makes_one_after_another, NULL);
}

static void *makes_many_at_once(void *arg)
{
    static weft_timer *all[MANY];
    size_t before = wf_sys_held().n;
    for (int i = 0; i < MANY; i++)
        all[i] = for_long();
    for (int i = 0; i < MANY; i++)
        CHECK_INT(weft_timer_free(all[i]), ==, 1);
    CHECK_INT(wf_sys_held().n - before, <, MANY / 4);
    return arg;
}

TEST(after_many_only_some_memory_is_kept)
{
    in_a_fiber(1, makes_many_at_once, NULL);
}

static void *frees_twice(void *arg)
{
    weft_timer *t = for_long();
    CHECK_INT(weft_timer_free(t), ==, 1);
    weft_timer_free(t);
    return arg;
}

static void run_frees_twice(void *arg)
{
    in_a_fiber(1, frees_twice, arg);
}

TEST(a_handle_that_was_freed_is_noticed)
{
    if (WF_ASAN || WF_VALGRIND)
        SKIP(KEEPS_NONE);
    CHECK_CHILD(run_frees_twice, NULL, SIGABRT, "is it a handle that was freed?");
}

TESTS(sched_timer_fault, new_without_memory_is_enomem, those_that_are_due_fire_when_there_is_memory_again,
      nothing_is_left_behind_whatever_cannot_be_had, one_timer_after_another_takes_no_memory,
      after_many_only_some_memory_is_kept, a_handle_that_was_freed_is_noticed)
