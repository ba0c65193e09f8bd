/*
 * Programs that do legal but unkind things around the library: cancelled threads, no pthread keys left, threads that end
 * inside a coroutine, destructors in the last round, handlers of SIGSEGV with habits of their own.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <weft/weft.h>

#include "base/sanitizer.h"
#include "support/test.h"

static void *returns(void *arg)
{
    return arg;
}

static void make_and_free(void)
{
    weft_coro *c;
    CHECK_INT(weft_coro_new(&c, returns, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_free(c), ==, 0);
}

static void *with_a_cancel_pending(void *arg)
{
    weft_stacks *s;
    pthread_cancel(pthread_self());
    make_and_free(); /* no cancellation point inside: a lock would stay locked */
    if (weft_stacks_new(&s, 2, 0) == 0)
        weft_stacks_free(s);
    weft_stack_trim();
    pthread_testcancel();
    return arg;
}

TEST(a_cancelled_thread_leaves_no_lock_behind)
{
    pthread_t thread;
    void *result;
    REQUIRE(pthread_create(&thread, NULL, with_a_cancel_pending, NULL) == 0);
    pthread_join(thread, &result);
    CHECK_PTR(result, ==, PTHREAD_CANCELED);
    make_and_free();
}

static void *uses_weft(void *arg)
{
    make_and_free();
    return arg;
}

static void run_threads(int n)
{
    for (int i = 0; i < n; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, uses_weft, NULL) == 0)
            pthread_join(thread, NULL);
    }
}

static void take_all_keys(void *arg)
{
    pthread_key_t first, key;
    (void)arg;
    if (pthread_key_create(&first, NULL) != 0)
        return;
    while (pthread_key_create(&key, NULL) == 0)
        ;
    pthread_setspecific(first, &first);
    uses_weft(NULL);
    run_threads(3);
    CHECK_PTR(pthread_getspecific(first), ==, &first); /* not ours */
    CHECK_INT(weft_coro_count(), ==, 0);
}

TEST(without_a_pthread_key_everything_works)
{
    CHECK_CHILD(take_all_keys, NULL, 0, NULL);
}

static pthread_key_t again;

/* Runs in every round of destructors, the last one included. */
static void use_weft_and_come_again(void *left)
{
    make_and_free();
    if ((intptr_t)left > 1)
        pthread_setspecific(again, (void *)((intptr_t)left - 1));
}

static void *ends_with_destructors(void *arg)
{
    pthread_setspecific(again, (void *)PTHREAD_DESTRUCTOR_ITERATIONS);
    make_and_free();
    return arg;
}

TEST(destructors_may_use_it_to_the_last)
{
    if (WF_TSAN)
        SKIP("TSan has left the thread before its last destructors");
    weft_stack_figures before = {.size = sizeof before}, after = before;
    REQUIRE(pthread_key_create(&again, use_weft_and_come_again) == 0);
    weft_stack_stats(&before);
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, ends_with_destructors, NULL) == 0);
        pthread_join(thread, NULL);
    }
    weft_stack_stats(&after);
    CHECK_INT(after.stacks, ==, before.stacks);
    CHECK_INT(weft_coro_count(), ==, 0);
    pthread_key_delete(again);
}

#if !WF_TSAN && !WF_ASAN
static void *ends_the_thread(void *arg)
{
    (void)arg;
    pthread_exit(NULL);
}

static void *resumes(void *c)
{
    weft_coro_resume(c, NULL, NULL);
    return NULL;
}

TEST(a_thread_that_ends_inside_a_coroutine_leaves_it_done)
{
    weft_stacks *s;
    weft_coro *c, *other;
    pthread_t thread;
    REQUIRE(weft_stacks_new(&s, 1, 0) == 0);
    for (int round = 0; round < 2; round++) {
        weft_coro_opts opts = {.size = sizeof opts, .shared = round == 1 ? s : NULL};
        REQUIRE(weft_coro_new(&c, ends_the_thread, NULL, &opts) == 0);
        REQUIRE(pthread_create(&thread, NULL, resumes, c) == 0);
        pthread_join(thread, NULL);
        CHECK_INT(weft_coro_state(c), ==, WEFT_CORO_DONE);
        REQUIRE(weft_coro_new(&other, returns, NULL, &opts) == 0);
        CHECK_INT(weft_coro_resume(other, NULL, NULL), ==, 0);
        CHECK_INT(weft_coro_free(other), ==, 0);
        CHECK_INT(weft_coro_free(c), ==, 0);
    }
    CHECK_INT(weft_stacks_free(s), ==, 0);
}
#else
TEST(a_thread_that_ends_inside_a_coroutine_leaves_it_done)
{
    SKIP("sanitizers expect a thread to end on its own stack");
}
#endif

/* The last thing it does is to yield: compiled well, its context lies where that of a fresh one would. */
static void *is_a_yield(void *arg)
{
    return weft_coro_yield(arg);
}

TEST(one_that_waits_in_its_last_call_is_under_way)
{
    weft_coro *c;
    REQUIRE(weft_coro_new(&c, is_a_yield, NULL, NULL) == 0);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 1);
    CHECK_INT(weft_coro_reset(c, returns, NULL), ==, -EBUSY);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_free(c), ==, 0);
}

static void handler_that_returns(int signal)
{
    static const char text[] = "handled once\n";
    (void)signal;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(3);
}

static __attribute__((noinline)) void fault(void)
{
    char *volatile nowhere = (char *)8;
    *nowhere = 1;
}

static void fault_with_one_shot_handler(void *arg)
{
    struct sigaction sa = {.sa_handler = handler_that_returns, .sa_flags = (int)SA_RESETHAND};
    (void)arg;
    sigaction(SIGSEGV, &sa, NULL);
    make_and_free();
    alarm(60);
    fault();
}

TEST(a_one_shot_handler_of_before_stays_one)
{
    CHECK_CHILD(fault_with_one_shot_handler, NULL, SIGSEGV, "handled once");
}

static void handler_with_large_locals(int signal)
{
    volatile char large[300 * 1024];
    (void)signal;
    for (size_t i = 0; i < sizeof large; i += 1024)
        large[i] = 1;
    _exit(large[0] == 1 ? 0 : 3);
}

static void fault_with_large_handler(void *arg)
{
    struct sigaction sa = {.sa_handler = handler_with_large_locals};
    (void)arg;
    sigaction(SIGSEGV, &sa, NULL);
    make_and_free();
    fault();
}

TEST(a_handler_of_before_runs_on_the_stack_it_asked_for)
{
    CHECK_CHILD(fault_with_large_handler, NULL, 0, NULL);
}

TESTS(coro_hostile, a_cancelled_thread_leaves_no_lock_behind, without_a_pthread_key_everything_works,
      destructors_may_use_it_to_the_last, a_thread_that_ends_inside_a_coroutine_leaves_it_done,
      one_that_waits_in_its_last_call_is_under_way, a_one_shot_handler_of_before_stays_one,
      a_handler_of_before_runs_on_the_stack_it_asked_for)
