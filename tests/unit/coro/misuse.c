/*
 * Bad input and misuse: every wrong call gets its code, or a panic that names the function and what to do.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>

#include <weft/weft.h>

#include "base/sanitizer.h"
#include "support/test.h"

static void *returns(void *arg)
{
    return arg;
}

static void *yields_once(void *arg)
{
    weft_coro_yield(arg);
    return arg;
}

TEST(resume_of_a_done_one_is_esrch)
{
    weft_coro *c;
    void *v = &c;
    REQUIRE(weft_coro_new(&c, returns, NULL, NULL) == 0);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_resume(c, NULL, &v), ==, -ESRCH);
    CHECK_PTR(v, ==, &c); /* untouched */
    CHECK_INT(weft_coro_transfer(c, NULL, &v), ==, -ESRCH);
    weft_coro_free(c);
}

struct chain {
    weft_coro *a, *b;
};

static void *calls_up(void *arg)
{
    struct chain *chain = arg;
    CHECK_INT(weft_coro_resume(chain->b, NULL, NULL), ==, -EDEADLK);   /* itself */
    CHECK_INT(weft_coro_resume(chain->a, NULL, NULL), ==, -EDEADLK);   /* an ancestor */
    CHECK_INT(weft_coro_transfer(chain->b, NULL, NULL), ==, -EDEADLK); /* itself */
    CHECK_INT(weft_coro_transfer(chain->a, NULL, NULL), ==, -EDEADLK); /* an ancestor */
    CHECK_INT(weft_coro_free(chain->a), ==, -EBUSY);
    CHECK_INT(weft_coro_free(chain->b), ==, -EBUSY);
    CHECK_INT(weft_coro_reset(chain->a, returns, NULL), ==, -EBUSY);
    CHECK_INT(weft_coro_reset(chain->b, returns, NULL), ==, -EBUSY);
    CHECK_INT(weft_coro_transfer(NULL, NULL, NULL), ==, -EINVAL);
    return NULL;
}

static void *calls_down(void *arg)
{
    struct chain *chain = arg;
    CHECK_INT(weft_coro_resume(chain->b, NULL, NULL), ==, 0);
    return NULL;
}

TEST(resume_of_itself_or_of_an_ancestor_is_edeadlk)
{
    struct chain chain;
    REQUIRE(weft_coro_new(&chain.a, calls_down, &chain, NULL) == 0);
    REQUIRE(weft_coro_new(&chain.b, calls_up, &chain, NULL) == 0);
    CHECK_INT(weft_coro_resume(chain.a, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_free(chain.a), ==, 0);
    CHECK_INT(weft_coro_free(chain.b), ==, 0);
}

struct elsewhere {
    weft_coro *c;
    int inside[2], go_on[2]; /* pipes: a wait waits for the event */
};

static void *runs_long(void *arg)
{
    struct elsewhere *e = arg;
    char byte = 0;
    CHECK_INT(write(e->inside[1], &byte, 1), ==, 1);
    CHECK_INT(read(e->go_on[0], &byte, 1), ==, 1);
    return NULL;
}

static void *other_thread(void *arg)
{
    struct elsewhere *e = arg;
    CHECK_INT(weft_coro_resume(e->c, NULL, NULL), ==, 0);
    return NULL;
}

TEST(resume_of_one_that_another_thread_runs_is_ebusy)
{
    struct elsewhere e;
    pthread_t thread;
    char byte = 0;
    REQUIRE(pipe(e.inside) == 0 && pipe(e.go_on) == 0);
    REQUIRE(weft_coro_new(&e.c, runs_long, &e, NULL) == 0);
    REQUIRE(pthread_create(&thread, NULL, other_thread, &e) == 0);
    CHECK_INT(read(e.inside[0], &byte, 1), ==, 1);
    CHECK_INT(weft_coro_resume(e.c, NULL, NULL), ==, -EBUSY);
    CHECK_INT(weft_coro_transfer(e.c, NULL, NULL), ==, -EBUSY);
    CHECK_INT(weft_coro_reset(e.c, returns, NULL), ==, -EBUSY);
    CHECK_INT(weft_coro_free(e.c), ==, -EBUSY);
    CHECK_INT(write(e.go_on[1], &byte, 1), ==, 1);
    pthread_join(thread, NULL);
    CHECK_INT(weft_coro_free(e.c), ==, 0);
    for (int i = 0; i < 2; i++) {
        close(e.inside[i]);
        close(e.go_on[i]);
    }
}

static void yield_outside(void *arg)
{
    weft_coro_yield(arg);
}

TEST(yield_outside_any_coroutine_panics)
{
    CHECK_CHILD(yield_outside, NULL, SIGABRT, "weft: weft_coro_yield: called outside any coroutine");
}

static void free_twice(void *arg)
{
    weft_coro *c;
    (void)arg;
    if (weft_coro_new(&c, returns, NULL, NULL) == 0) {
        weft_coro_free(c);
        weft_coro_free(c);
    }
}

static void resume_freed(void *arg)
{
    weft_coro *c;
    (void)arg;
    if (weft_coro_new(&c, returns, NULL, NULL) == 0) {
        weft_coro_free(c);
        weft_coro_resume(c, NULL, NULL);
    }
}

TEST(use_after_free_is_noticed)
{
#if WF_ASAN /* which notices it before we do */
    CHECK_CHILD(free_twice, NULL, TEST_EXITS, "use-after-poison");
    CHECK_CHILD(resume_freed, NULL, TEST_EXITS, "use-after-poison");
#else
    CHECK_CHILD(free_twice, NULL, SIGABRT, "weft: weft_coro_free: ");
    CHECK_CHILD(resume_freed, NULL, SIGABRT, "weft: weft_coro_resume: ");
#endif
}

TEST(null_arguments_are_einval)
{
    weft_coro *c = NULL;
    CHECK_INT(weft_coro_new(&c, NULL, NULL, NULL), ==, -EINVAL);
    CHECK_PTR(c, ==, NULL);
    CHECK_INT(weft_coro_new(NULL, returns, NULL, NULL), ==, -EINVAL);
    CHECK_INT(weft_coro_resume(NULL, NULL, NULL), ==, -EINVAL);
    CHECK_INT(weft_coro_transfer(NULL, NULL, NULL), ==, -EINVAL);
    CHECK_INT(weft_coro_reset(NULL, returns, NULL), ==, -EINVAL);
    CHECK_INT(weft_coro_free(NULL), ==, 0);
    REQUIRE(weft_coro_new(&c, returns, NULL, NULL) == 0);
    CHECK_INT(weft_coro_reset(c, NULL, NULL), ==, -EINVAL);
    weft_coro_free(c);
    CHECK_INT(weft_stacks_free(NULL), ==, 0);
    CHECK_INT(weft_stack_stats(NULL), ==, -EINVAL);
}

static int make_with_stack(size_t bytes)
{
    weft_coro *c = NULL;
    void *v;
    int rc = weft_coro_new(&c, yields_once, &c, &(weft_coro_opts){.size = sizeof(weft_coro_opts), .stack = bytes});
    if (rc == 0) {
        CHECK_INT(weft_coro_resume(c, NULL, &v), ==, 1);
        CHECK_PTR(v, ==, &c);
        CHECK_INT(weft_coro_resume(c, NULL, &v), ==, 0);
        weft_coro_free(c);
    } else {
        CHECK_PTR(c, ==, NULL);
    }
    return rc;
}

TEST(every_stack_size_works_or_has_its_code)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    CHECK_INT(make_with_stack(0), ==, 0);
    CHECK_INT(make_with_stack(1), ==, -EINVAL);
    CHECK_INT(make_with_stack(WEFT_STACK_MIN - 1), ==, -EINVAL);
    CHECK_INT(make_with_stack(WEFT_STACK_MIN), ==, 0);
    CHECK_INT(make_with_stack(3 * page), ==, 0);
    CHECK_INT(make_with_stack(3 * page + 1), ==, 0);
    CHECK_INT(make_with_stack(100001), ==, 0);
    CHECK_INT(make_with_stack((size_t)64 << 20), ==, 0);
    CHECK_INT(make_with_stack((size_t)1 << 47), ==, -ENOMEM);
    CHECK_INT(make_with_stack(SIZE_MAX), ==, -ENOMEM);
    CHECK_INT(make_with_stack(SIZE_MAX - page), ==, -ENOMEM);
}

TEST(options_that_make_no_sense_are_einval)
{
    weft_coro *c = NULL;
    weft_stacks *s;
    struct {
        weft_coro_opts known;
        long later;
    } longer = {.known = {.size = sizeof longer}};
    REQUIRE(weft_stacks_new(&s, 1, 0) == 0);
    weft_coro_opts both = {.size = sizeof both, .shared = s, .stack = 65536};
    weft_coro_opts flags = {.size = sizeof flags, .flags = 1u << 31};
    weft_coro_opts tiny = {.size = 3};
    CHECK_INT(weft_coro_new(&c, returns, NULL, &both), ==, -EINVAL);
    CHECK_INT(weft_coro_new(&c, returns, NULL, &flags), ==, -EINVAL);
    CHECK_INT(weft_coro_new(&c, returns, NULL, &tiny), ==, -EINVAL);
    longer.later = 1; /* a later version's field that asks for something */
    CHECK_INT(weft_coro_new(&c, returns, NULL, &longer.known), ==, -EINVAL);
    CHECK_PTR(c, ==, NULL);
    longer.later = 0;
    REQUIRE(weft_coro_new(&c, returns, NULL, &longer.known) == 0);
    weft_coro_free(c);
    CHECK_INT(weft_stacks_free(s), ==, 0);
}

TEST(shared_pools_check_their_arguments)
{
    weft_stacks *s = NULL;
    weft_coro *c;
    CHECK_INT(weft_stacks_new(NULL, 1, 0), ==, -EINVAL);
    CHECK_INT(weft_stacks_new(&s, 0, 0), ==, -EINVAL);
    CHECK_INT(weft_stacks_new(&s, 1, 1), ==, -EINVAL);
    CHECK_INT(weft_stacks_new(&s, 1, SIZE_MAX), ==, -ENOMEM);
    CHECK_INT(weft_stacks_new(&s, SIZE_MAX, 0), ==, -ENOMEM);
    CHECK_PTR(s, ==, NULL);
    REQUIRE(weft_stacks_new(&s, 1, 10001) == 0);
    REQUIRE(weft_coro_new(&c, returns, NULL, &(weft_coro_opts){.shared = s}) == 0);
    CHECK_INT(weft_stacks_free(s), ==, -EBUSY);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0);
    weft_coro_free(c);
    CHECK_INT(weft_stacks_free(s), ==, 0);
}

TEST(errno_is_never_touched)
{
    weft_coro *c;
    weft_stacks *s;
    errno = 4711;
    CHECK_INT(weft_coro_new(&c, returns, NULL, &(weft_coro_opts){.stack = (size_t)1 << 47}), ==, -ENOMEM);
    CHECK_INT(weft_coro_new(&c, returns, NULL, &(weft_coro_opts){.stack = (size_t)300 << 20}), ==, 0);
    weft_coro_resume(c, NULL, NULL);
    weft_coro_free(c);
    weft_stack_trim();
    CHECK_INT(weft_stacks_new(&s, 2, 0), ==, 0);
    CHECK_INT(weft_stacks_free(s), ==, 0);
    CHECK_INT(errno, ==, 4711);
}

TESTS(coro_misuse, resume_of_a_done_one_is_esrch, resume_of_itself_or_of_an_ancestor_is_edeadlk,
      resume_of_one_that_another_thread_runs_is_ebusy, yield_outside_any_coroutine_panics, use_after_free_is_noticed,
      null_arguments_are_einval, every_stack_size_works_or_has_its_code, options_that_make_no_sense_are_einval,
      shared_pools_check_their_arguments, errno_is_never_touched)
