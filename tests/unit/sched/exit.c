/*
 * pthread_exit, and pthread_cancel of a worker's thread, inside a fiber: without the hooks they would end the worker
 * and lose the fibers on it, so the program ends with a line that names the fiber. (With libweft-hook:
 * tests/hook/exit.c.)
 */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "base/sanitizer.h"
#include "unit/sched/ground.h"

#define TSAN "TSan has a check of its own there"
#define LINE "weft: pthread_exit: fiber "
#define NAMED " \"leaver\" would end the thread of its worker"

static void *exits(void *arg)
{
    pthread_exit(arg);
}

static void *waits_for_ever(void *arg)
{
    weft_sleep_until(WEFT_FOREVER);
    return arg;
}

static void *has_a_leaver(void *fn)
{
    weft_fiber *f = NULL;
    weft_attr attr = {.size = sizeof attr, .name = "leaver"};
    go(waits_for_ever, NULL);
    CHECK_INT(weft_go_with(&f, &attr, (weft_fn *)fn, NULL), ==, 0);
    weft_join(f, NULL, WEFT_FOREVER);
    return NULL;
}

static void run_with(unsigned threads, weft_fn *fn)
{
    weft_sched_opts opts = {.size = sizeof opts, .threads = threads};
    alarm(60); /* it hangs where nothing is said */
    weft_run(has_a_leaver, (void *)fn, NULL, &opts);
}

static void one_worker(void *fn)
{
    run_with(1, (weft_fn *)fn);
}

static void three_workers(void *fn)
{
    run_with(3, (weft_fn *)fn);
}

TEST(pthread_exit_in_a_fiber_panics_and_names_it)
{
    if (WF_TSAN)
        SKIP(TSAN);
    CHECK_CHILD(one_worker, (void *)exits, SIGABRT, LINE);
    CHECK_CHILD(one_worker, (void *)exits, SIGABRT, NAMED);
    CHECK_CHILD(three_workers, (void *)exits, SIGABRT, NAMED);
}

/* The worker is the main thread: of that pthread_exit lets the process go on without it. */
static void on_the_callers_thread(void *fn)
{
    weft_sched *s = NULL;
    weft_sched_opts opts = {.size = sizeof opts, .threads = 1, .use_caller = true};
    alarm(60);
    CHECK_INT(weft_sched_new(&s, &opts), ==, 0);
    CHECK_INT(weft_sched_go(s, NULL, NULL, has_a_leaver, fn), ==, 0);
    weft_sched_run(s, WEFT_FOREVER);
}

TEST(so_it_does_on_the_callers_thread)
{
    if (WF_TSAN)
        SKIP(TSAN);
    CHECK_CHILD(on_the_callers_thread, (void *)exits, SIGABRT, NAMED);
}

static void *exits_in_a_coroutine(void *arg)
{
    weft_coro *c;
    CHECK_INT(weft_coro_new(&c, exits, arg, NULL), ==, 0);
    weft_coro_resume(c, NULL, NULL);
    return NULL;
}

TEST(so_it_does_in_a_coroutine_of_a_fiber)
{
    if (WF_TSAN)
        SKIP(TSAN);
    CHECK_CHILD(one_worker, (void *)exits_in_a_coroutine, SIGABRT, NAMED);
}

static void *cancels(void *thread)
{
    pthread_cancel(*(pthread_t *)thread);
    return NULL;
}

static void *is_cancelled_as_a_thread(void *arg)
{
    static pthread_t me;
    pthread_t other;
    me = pthread_self();
    CHECK_INT(pthread_create(&other, NULL, cancels, &me), ==, 0);
    for (;;)
        pause(); /* a cancellation point */
    return arg;
}

TEST(so_does_pthread_cancel_of_the_workers_thread)
{
    CHECK_CHILD(one_worker, (void *)is_cancelled_as_a_thread, SIGABRT, NAMED);
}

TESTS(sched_exit, pthread_exit_in_a_fiber_panics_and_names_it, so_it_does_on_the_callers_thread,
      so_it_does_in_a_coroutine_of_a_fiber, so_does_pthread_cancel_of_the_workers_thread)
