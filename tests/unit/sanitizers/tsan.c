/*
 * What ThreadSanitizer must know of our stacks: each coroutine is a context of its own, with its own calls and its own
 * place in time.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include <weft/weft.h>

#include "support/test.h"

static __attribute__((noinline)) void sink(int depth)
{
    __asm__ volatile("");
    if (depth > 0)
        sink(depth - 1);
    else
        weft_coro_yield(NULL);
    __asm__ volatile("");
}

static void *goes_deep(void *arg)
{
    sink(100);
    return arg;
}

/* Each leaves a hundred calls that never return. On one common list of calls they would run over its end. */
static void leave_many_calls_open(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3000; i++) {
        weft_coro *c;
        if (weft_coro_new(&c, goes_deep, NULL, NULL) != 0)
            abort();
        weft_coro_resume(c, NULL, NULL);
        weft_coro_free(c);
    }
}

TEST(calls_that_never_return_stay_with_their_coroutine)
{
    CHECK_CHILD(leave_many_calls_open, NULL, 0, NULL);
}

static long plain;
static int met;

static void *adds(void *arg)
{
    for (int i = 0; i < 1000; i++) {
        plain++;
        weft_coro_yield(NULL);
    }
    return arg;
}

/*
 * Neither thread goes on before both have added: if one had ended before the other began, the locks of a thread's first
 * and last use of the library would have ordered them. Relaxed, so that the meeting itself orders nothing.
 */
static void *adds_and_meets(void *arg)
{
    plain++;
    __atomic_add_fetch(&met, 1, __ATOMIC_RELAXED);
    while (__atomic_load_n(&met, __ATOMIC_RELAXED) < 2)
        sched_yield();
    return adds(arg);
}

static void *runs_one(void *arg)
{
    while (weft_coro_resume(arg, NULL, NULL) == 1)
        ;
    return NULL;
}

static void race_on_two_threads(void *arg)
{
    pthread_t thread[2];
    weft_coro *c[2];
    (void)arg;
    for (int i = 0; i < 2; i++) {
        if (weft_coro_new(&c[i], adds_and_meets, NULL, NULL) != 0 ||
            pthread_create(&thread[i], NULL, runs_one, c[i]) != 0)
            abort();
    }
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    exit(0); /* TSan speaks at exit */
}

TEST(a_race_between_coroutines_of_two_threads_is_seen)
{
    CHECK_CHILD(race_on_two_threads, NULL, TEST_EXITS, "data race");
}

static void take_turns_on_two_threads(void *arg)
{
    weft_coro *c;
    (void)arg;
    if (weft_coro_new(&c, adds, NULL, NULL) != 0)
        abort();
    for (int i = 0; i < 10; i++) {
        pthread_t thread;
        weft_coro_resume(c, NULL, NULL);
        if (i == 9) {
            pthread_create(&thread, NULL, runs_one, c);
            pthread_join(thread, NULL);
        }
    }
    weft_coro_free(c);
    exit(0);
}

TEST(a_coroutine_that_is_handed_over_in_order_is_no_race)
{
    CHECK_CHILD(take_turns_on_two_threads, NULL, 0, NULL);
}

TESTS(sanitizers_tsan, calls_that_never_return_stay_with_their_coroutine,
      a_race_between_coroutines_of_two_threads_is_seen, a_coroutine_that_is_handed_over_in_order_is_no_race)
