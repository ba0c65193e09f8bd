/*
 * fork: the child is a copy in which only the forking thread exists. It goes on where it was, inside a coroutine too,
 * and can do everything; what it does to its coroutines is unknown to the parent.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/weft.h>

#include "base/sanitizer.h"
#include "support/locals.h"
#include "support/test.h"

static void *as_ptr(intptr_t n)
{
    return (void *)n;
}

/* Yields 1, 2, 3 ... */
static void *counts(void *arg)
{
    struct locals mine;
    locals_fill(&mine, 1);
    for (intptr_t i = 1; i < 100; i++) {
        weft_coro_yield(as_ptr(i));
        CHECK(locals_intact(&mine, 1));
    }
    return arg;
}

static intptr_t next_of(weft_coro *c)
{
    void *value = NULL;
    CHECK_INT(weft_coro_resume(c, NULL, &value), ==, 1);
    return (intptr_t)value;
}

/* Makes, runs and frees some, on private and on shared stacks. */
static void use_the_library(void)
{
    weft_stacks *pool;
    weft_coro *all[40];
    REQUIRE(weft_stacks_new(&pool, 2, 0) == 0);
    for (int i = 0; i < 40; i++)
        REQUIRE(weft_coro_new(&all[i], counts, NULL, &(weft_coro_opts){.shared = i % 2 ? pool : NULL}) == 0);
    for (int round = 1; round < 4; round++) {
        for (int i = 0; i < 40; i++)
            CHECK_INT(next_of(all[i]), ==, round);
    }
    for (int i = 0; i < 40; i++)
        CHECK_INT(weft_coro_free(all[i]), ==, 0);
    CHECK_INT(weft_stacks_free(pool), ==, 0);
    weft_stack_trim();
}

/* In a child, where nobody else makes or frees any. */
static void use_it_alone(void *arg)
{
    size_t before = weft_coro_count();
    (void)arg;
    use_the_library();
    CHECK_INT(weft_coro_count(), ==, before);
}

/* What is there when the fork happens, in a coroutine or not. */
struct family {
    weft_coro *forks, *private_one, *shared_one;
    weft_stacks *pool;
};

static void child(void *arg)
{
    struct family *f = arg;
    CHECK_PTR(weft_coro_current(), ==, f->forks);
    if (f->forks)
        CHECK_INT(weft_coro_state(f->forks), ==, WEFT_CORO_RUNNING);
    for (int i = 0; i < 3; i++) { /* those of before go on */
        CHECK_INT(next_of(f->private_one), ==, 3 + i);
        CHECK_INT(next_of(f->shared_one), ==, 3 + i);
    }
    use_it_alone(NULL);
    CHECK_INT(weft_coro_free(f->private_one), ==, 0);
    CHECK_INT(weft_coro_free(f->shared_one), ==, 0);
}

static void *forks_inside(void *arg)
{
    struct locals mine;
    locals_fill(&mine, 2);
    CHECK_CHILD(child, arg, 0, NULL);
    CHECK(locals_intact(&mine, 2));
    return NULL;
}

static void family_new(struct family *f)
{
    *f = (struct family){0};
    REQUIRE(weft_stacks_new(&f->pool, 1, 0) == 0);
    REQUIRE(weft_coro_new(&f->private_one, counts, NULL, NULL) == 0);
    REQUIRE(weft_coro_new(&f->shared_one, counts, NULL, &(weft_coro_opts){.shared = f->pool}) == 0);
    for (int i = 1; i <= 2; i++) {
        CHECK_INT(next_of(f->private_one), ==, i);
        CHECK_INT(next_of(f->shared_one), ==, i);
    }
}

/* The parent's are where they were. */
static void family_free(struct family *f)
{
    CHECK_INT(next_of(f->private_one), ==, 3);
    CHECK_INT(next_of(f->shared_one), ==, 3);
    CHECK_INT(weft_coro_free(f->private_one), ==, 0);
    CHECK_INT(weft_coro_free(f->shared_one), ==, 0);
    CHECK_INT(weft_stacks_free(f->pool), ==, 0);
}

TEST(a_child_goes_on_with_the_coroutines_of_before)
{
    struct family f;
    family_new(&f);
    CHECK_CHILD(child, &f, 0, NULL);
    family_free(&f);
}

TEST(a_child_goes_on_inside_a_coroutine)
{
    struct family f;
    family_new(&f);
    for (int shared = 0; shared < 2; shared++) {
        weft_stacks *other;
        REQUIRE(weft_stacks_new(&other, 1, 0) == 0);
        REQUIRE(weft_coro_new(&f.forks, forks_inside, &f, &(weft_coro_opts){.shared = shared ? other : NULL}) == 0);
        CHECK_INT(weft_coro_resume(f.forks, NULL, NULL), ==, 0);
        CHECK_INT(weft_coro_free(f.forks), ==, 0);
        CHECK_INT(weft_stacks_free(other), ==, 0);
    }
    family_free(&f);
}

static void *forks_and_returns(void *arg)
{
    pid_t *pid = arg;
    *pid = fork();
    return arg;
}

TEST(a_child_leaves_the_coroutine_for_the_threads_own_stack)
{
    weft_coro *c;
    pid_t pid = -1;
    int status = -1;
    if (WF_TSAN)
        SKIP("after a fork TSan takes every fiber but the current one for ended");
    REQUIRE(weft_coro_new(&c, forks_and_returns, &pid, NULL) == 0);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0); /* twice: here and in the child */
    CHECK_INT(weft_coro_state(c), ==, WEFT_CORO_DONE);
    CHECK_INT(weft_coro_reset(c, counts, NULL), ==, 0);
    CHECK_INT(next_of(c), ==, 1);
    CHECK_INT(weft_coro_free(c), ==, 0);
    if (pid == 0) {
        use_it_alone(NULL);
        _exit(test_has_failed());
    }
    CHECK_INT(waitpid(pid, &status, 0), ==, pid);
    CHECK_INT(status, ==, 0);
}

/* Threads that hold the library's locks as often as they can. */
static int busy = 1; /* atomic */

static void *keeps_the_slabs_busy(void *arg)
{
    while (__atomic_load_n(&busy, __ATOMIC_RELAXED)) {
        weft_coro *c;
        CHECK_INT(weft_coro_new(&c, counts, NULL, NULL), ==, 0);
        CHECK_INT(weft_coro_free(c), ==, 0);
        weft_stack_trim();
    }
    return arg;
}

static void *keeps_the_list_busy(void *arg)
{
    while (__atomic_load_n(&busy, __ATOMIC_RELAXED))
        CHECK_INT(weft_coro_count(), <, 1000);
    return arg;
}

static void *forks_on_a_thread(void *arg)
{
    use_the_library();
    for (int i = 0; i < 20; i++)
        CHECK_CHILD(use_it_alone, NULL, 0, NULL);
    return arg;
}

TEST(a_fork_beside_busy_threads_leaves_a_child_that_works)
{
    pthread_t threads[3];
    if (WF_ASAN || WF_TSAN)
        SKIP("a sanitizer's own locks do not survive a fork beside other threads");
    REQUIRE(pthread_create(&threads[0], NULL, keeps_the_slabs_busy, NULL) == 0);
    REQUIRE(pthread_create(&threads[1], NULL, keeps_the_list_busy, NULL) == 0);
    REQUIRE(pthread_create(&threads[2], NULL, forks_on_a_thread, NULL) == 0);
    forks_on_a_thread(NULL);
    pthread_join(threads[2], NULL);
    __atomic_store_n(&busy, 0, __ATOMIC_RELAXED);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

TESTS(coro_fork, a_child_goes_on_with_the_coroutines_of_before, a_child_goes_on_inside_a_coroutine,
      a_child_leaves_the_coroutine_for_the_threads_own_stack, a_fork_beside_busy_threads_leaves_a_child_that_works)
