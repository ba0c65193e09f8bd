/*
 * Fibers that cannot have a stack, as there is no memory: they hold up nobody, are tried now and then and not all the time,
 * and run in their turn as soon as there is memory.
 *
 * Most of it is on the test's own thread and on a clock that the test moves: then it is exact how often a worker tries. What
 * counts as a try is a call that asks the system for memory.
 */
#include <sys/wait.h>

#include <weft/process.h>
#include <weft/stack.h>

#include "base/sanitizer.h"
#include "base/sys.h"
#include "unit/sched/ground.h"

#define MEMORY (1u << WF_SYS_MALLOC | 1u << WF_SYS_MMAP)
#define LARGE ((size_t)3 << 20) /* of such stacks none is at hand */

enum { MANY = 12000, SOME = 40, FOR_EVER = 1 << 30 };

/* From now on there is none, for stacks of this thread. */
static void take_memory_away(void)
{
    weft_stack_trim();
    wf_sys_fail(MEMORY, 1, FOR_EVER);
}

static void give_memory_back(void)
{
    wf_sys_fail(0, 0, 0);
}

/* What ran, in its order. */
static int ran, out_of_turn;

static void begin(void)
{
    put(&ran, 0);
    put(&out_of_turn, 0);
}

/* The nth. */
static void *runs_in_turn(void *arg)
{
    if (more(&ran) - 1 != (int)(intptr_t)arg)
        more(&out_of_turn);
    return NULL;
}

static weft_sched *own_sched(const weft_policy *policy)
{
    weft_sched *s = NULL;
    begin();
    CHECK_INT(weft_sched_new(&s, &(weft_sched_opts){.threads = 1, .use_caller = true, .policy = policy}), ==, 0);
    CHECK_INT(weft_sched_start(s), ==, 0);
    return s;
}

static void go_large(weft_sched *s, int from, int to)
{
    for (int i = from; i < to; i++)
        CHECK_INT(weft_sched_go(s, NULL, &(weft_attr){.stack = LARGE}, runs_in_turn, ptr(i)), ==, 0);
}

static int pass(weft_sched *s)
{
    return weft_sched_run(s, WEFT_NOW);
}

static void *sleeps_and_counts(void *arg)
{
    for (int i = 0; i < 3; i++) {
        CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
        more(arg);
    }
    return NULL;
}

TEST(one_of_12000_fibers_without_a_stack_tries_each_millisecond_and_others_go_on)
{
    int slept = 0;
    clock_begin();
    weft_sched *s = own_sched(NULL);
    CHECK_INT(weft_sched_go(s, NULL, NULL, sleeps_and_counts, &slept), ==, 0);
    CHECK_INT(pass(s), ==, -EAGAIN);
    go_large(s, 0, MANY);
    take_memory_away();
    CHECK_INT(pass(s), ==, -EAGAIN);
    unsigned a_try = wf_sys_calls();
    CHECK_INT(a_try, >, 0);
    CHECK_INT(a_try, <, 10);
    for (int i = 0; i < 3; i++)
        CHECK_INT(pass(s), ==, -EAGAIN);
    CHECK_INT(wf_sys_calls(), ==, a_try);
    for (int i = 1; i <= 3; i++) {
        clock_forward(WEFT_MS);
        CHECK_INT(pass(s), ==, -EAGAIN);
        CHECK_INT(pass(s), ==, -EAGAIN);
        CHECK_INT(slept, ==, i);
        CHECK_INT(wf_sys_calls(), <=, 2 * a_try * (unsigned)(i + 1));
        CHECK_INT(wf_sys_calls(), >=, a_try * (unsigned)i);
    }
    CHECK_INT(ran, ==, 0);
    CHECK_INT(figures(s).ready, ==, MANY);
    give_memory_back();
    CHECK_INT(pass(s), ==, -EAGAIN);
    CHECK_INT(ran, ==, 0); /* not before its time */
    clock_forward(WEFT_MS);
    CHECK_INT(pass(s), ==, 0); /* each lets the next one try */
    CHECK_INT(ran, ==, MANY);
    CHECK_INT(out_of_turn, ==, 0);
    end_sched(s);
    clock_end();
}

TEST(a_newcomer_does_not_pass_those_that_wait_for_memory)
{
    clock_begin();
    weft_sched *s = own_sched(NULL);
    go_large(s, 0, SOME);
    take_memory_away();
    CHECK_INT(pass(s), ==, -EAGAIN);
    give_memory_back();
    go_large(s, SOME, SOME + 1);
    CHECK_INT(pass(s), ==, -EAGAIN);
    CHECK_INT(ran, ==, 0);
    clock_forward(WEFT_MS);
    while (pass(s) != 0)
        CHECK_INT(ran, >, 0);
    CHECK_INT(ran, ==, SOME + 1);
    CHECK_INT(out_of_turn, ==, 0);
    end_sched(s);
    clock_end();
}

TEST(a_small_stack_is_tried_while_a_large_one_is_not_there)
{
    int small = 0;
    clock_begin();
    weft_sched *s = own_sched(NULL);
    go_large(s, 0, 1);
    take_memory_away();
    CHECK_INT(pass(s), ==, -EAGAIN);
    give_memory_back();
    CHECK_INT(weft_sched_go(s, NULL, NULL, counts, &small), ==, 0);
    CHECK_INT(pass(s), ==, -EAGAIN);
    CHECK_INT(small, ==, 1);
    CHECK_INT(ran, ==, 0);
    clock_forward(WEFT_MS);
    CHECK_INT(pass(s), ==, 0);
    CHECK_INT(ran, ==, 1);
    end_sched(s);
    clock_end();
}

TEST(more_stack_sizes_than_there_are_lists_all_get_their_turn)
{
    enum { SIZES = 20 };
    int all = 0;
    clock_begin();
    weft_sched *s = own_sched(NULL);
    for (size_t i = 0; i < SIZES; i++)
        CHECK_INT(weft_sched_go(s, NULL, &(weft_attr){.stack = (size_t)65536 << (i / 2) | 1024 * i}, counts, &all), ==,
                  0);
    take_memory_away();
    for (int i = 0; i < 3; i++) {
        CHECK_INT(pass(s), ==, -EAGAIN);
        clock_forward(WEFT_MS);
    }
    CHECK_INT(all, ==, 0);
    give_memory_back();
    clock_forward(WEFT_MS);
    CHECK_INT(pass(s), ==, 0);
    CHECK_INT(all, ==, SIZES);
    end_sched(s);
    clock_end();
}

static void *runs_in_turn_and_parks(void *arg)
{
    runs_in_turn(arg);
    return parks(NULL);
}

/* The clock stands still: only the stacks that others give back are to be had. */
TEST(a_stack_that_is_given_back_is_the_next_ones_at_once)
{
    enum { ALL = 100 }; /* more than the stacks that come with the first one */
    weft_fiber *f[ALL];
    clock_begin();
    weft_sched *s = own_sched(NULL);
    for (int i = 0; i < ALL; i++) {
        CHECK_INT(weft_sched_go(s, &f[i], &(weft_attr){.stack = LARGE}, runs_in_turn_and_parks, ptr(i)), ==, 0);
        if (i == 0)
            CHECK_INT(pass(s), ==, -EAGAIN);
    }
    take_memory_away();
    CHECK_INT(pass(s), ==, -EAGAIN);
    int first = ran;
    CHECK_INT(first, >, 0);
    CHECK_INT(first, <, ALL);
    for (int i = 0; i < ALL; i++) {
        weft_unpark(f[i]);
        CHECK_INT(pass(s), ==, i + 1 < ALL ? -EAGAIN : 0);
        CHECK_INT(ran, ==, first + i + 1 < ALL ? first + i + 1 : ALL);
        CHECK_INT(weft_join(f[i], NULL, WEFT_NOW), ==, 0);
    }
    CHECK_INT(out_of_turn, ==, 0);
    give_memory_back();
    end_sched(s);
    clock_end();
}

TEST(every_policy_goes_on_without_memory_and_when_it_is_back)
{
    const weft_policy *policies[] = {&weft_fifo, &weft_priority, &weft_sjf, &weft_hrrn, &weft_rr, &weft_edf};
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        int slept = 0;
        clock_begin();
        weft_sched *s = own_sched(policies[i]);
        CHECK_INT(weft_sched_go(s, NULL, NULL, sleeps_and_counts, &slept), ==, 0);
        CHECK_INT(pass(s), ==, -EAGAIN);
        go_large(s, 0, MANY);
        take_memory_away();
        CHECK_INT(pass(s), ==, -EAGAIN);
        for (int n = 1; n <= 3; n++) {
            unsigned before = wf_sys_calls();
            clock_forward(WEFT_MS);
            CHECK_INT(pass(s), ==, -EAGAIN);
            CHECK_INT(pass(s), ==, -EAGAIN);
            CHECK_INT(slept, ==, n);
            CHECK_INT(wf_sys_calls() - before, <, 200);
        }
        CHECK_INT(ran, ==, 0);
        give_memory_back();
        for (int n = 0; pass(s) != 0 && n < 100; n++)
            clock_forward(WEFT_MS);
        CHECK_INT(ran, ==, MANY);
        end_sched(s);
        clock_end();
    }
}

TEST(a_run_without_memory_ends_by_its_deadline)
{
    weft_sched *s = own_sched(NULL);
    go_large(s, 0, SOME);
    take_memory_away();
    CHECK_INT(weft_sched_run(s, weft_in(5 * WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(ran, ==, 0);
    give_memory_back();
    CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, 0);
    CHECK_INT(ran, ==, SOME);
    CHECK_INT(out_of_turn, ==, 0);
    end_sched(s);
}

static int64_t cpu_of_this_thread(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

TEST(a_worker_that_lacks_memory_sleeps_between_its_tries)
{
    weft_sched *s = own_sched(NULL);
    go_large(s, 0, SOME);
    take_memory_away();
    CHECK_INT(pass(s), ==, -EAGAIN);
    unsigned a_try = wf_sys_calls();
    int64_t began = real_now(), cpu = cpu_of_this_thread();
    CHECK_INT(weft_sched_run(s, weft_in(200 * WEFT_MS)), ==, -ETIMEDOUT);
    int64_t took = real_now() - began;
    CHECK_INT(wf_sys_calls(), <=, a_try * (unsigned)(took / WEFT_MS + 2));
    CHECK_INT(wf_sys_calls(), >, a_try);
    if (!TEST_EMULATED)
        CHECK_INT(cpu_of_this_thread() - cpu, <, took * 3 / 4);
    give_memory_back();
    end_sched(s);
    CHECK_INT(ran, ==, SOME);
}

/* Of two workers the second has stacks at hand, and the first has none. */
static void *runs_on_the_second(void *arg)
{
    CHECK_INT(weft_fiber_worker(weft_fiber_current()), ==, 1);
    more(arg);
    return NULL;
}

static void *starves_beside_a_busy_worker(void *arg)
{
    enum { AT_HAND = 10 };
    int go_on = 0, count = 0;
    weft_fiber *f = NULL, *busy = NULL;
    const weft_attr second = {.stack = LARGE, .worker = WEFT_WORKER(1)};
    (void)arg;
    CHECK_INT(weft_go_with(&f, &second, returns_at_once, NULL), ==, 0);
    ended(f); /* its worker has fetched some stacks, and keeps them */
    CHECK_INT(weft_go_with(&busy, &(weft_attr){.worker = WEFT_WORKER(1)}, spins, &go_on), ==, 0);
    AWAIT(weft_fiber_state(busy) == WEFT_FIBER_RUNNING);
    for (int i = 0; i < AT_HAND; i++)
        CHECK_INT(weft_go_with(NULL, &(weft_attr){.stack = LARGE}, runs_on_the_second, &count), ==, 0);
    take_memory_away();
    AWAIT(wf_sys_calls() > 0);
    for (int i = 0; i < 2 * AT_HAND; i++)
        weft_yield();
    CHECK_INT(seen(&count), ==, 0);
    put(&go_on, 1);
    AWAIT(seen(&count) == AT_HAND);
    give_memory_back();
    ended(busy);
    return NULL;
}

TEST(an_idle_worker_takes_fibers_for_which_another_has_no_stack)
{
    in_a_fiber(2, starves_beside_a_busy_worker, NULL);
}

TEST(several_workers_without_memory_lose_nobody)
{
    for (int i = 0; i < 20; i++) {
        begin();
        weft_sched *s = running_sched(3);
        wf_sys_fail(MEMORY, 200, 2000);
        int given = 0;
        for (int n = 0; n < 500; n++) {
            weft_attr attr = {.stack = LARGE + ((size_t)(n % 3) << 20), .worker = n % 5 == 0 ? WEFT_WORKER(n % 3) : 0};
            given += weft_sched_go(s, NULL, &attr, counts, &ran) == 0;
        }
        CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
        give_memory_back();
        CHECK_INT(seen(&ran), ==, given);
        CHECK_INT(weft_sched_free(s), ==, 0);
    }
}

static void *forks_while_others_starve(void *arg)
{
    int status = -1;
    (void)arg;
    for (int i = 0; i < SOME; i++)
        CHECK_INT(weft_go_with(NULL, &(weft_attr){.stack = LARGE}, runs_in_turn, ptr(i)), ==, 0);
    take_memory_away();
    weft_yield();
    give_memory_back();
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        weft_sleep(5 * WEFT_MS);
        _exit(seen(&ran));
    }
    CHECK_INT(weft_wait_child(pid, &status, WEFT_FOREVER), ==, 0);
    CHECK_INT(status, ==, 0);
    return NULL;
}

TEST(those_that_wait_for_memory_stay_in_the_parent_of_a_fork)
{
    if (WF_TSAN)
        SKIP("after a fork TSan takes every fiber but the current one for ended");
    begin();
    in_a_fiber(1, forks_while_others_starve, NULL);
    CHECK_INT(ran, ==, SOME);
    CHECK_INT(out_of_turn, ==, 0);
}

TESTS(sched_starved, one_of_12000_fibers_without_a_stack_tries_each_millisecond_and_others_go_on,
      a_newcomer_does_not_pass_those_that_wait_for_memory, a_small_stack_is_tried_while_a_large_one_is_not_there,
      more_stack_sizes_than_there_are_lists_all_get_their_turn, a_stack_that_is_given_back_is_the_next_ones_at_once,
      every_policy_goes_on_without_memory_and_when_it_is_back, a_run_without_memory_ends_by_its_deadline,
      a_worker_that_lacks_memory_sleeps_between_its_tries, an_idle_worker_takes_fibers_for_which_another_has_no_stack,
      several_workers_without_memory_lose_nobody, those_that_wait_for_memory_stay_in_the_parent_of_a_fork)
