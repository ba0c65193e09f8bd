/*
 * Tasks across all executors, with random awaits, deadlines, cancels, failures, groups and frees. Every callback runs
 * exactly once, every value is taken or destroyed once, and nothing leaks.
 *
 * WEFT_SEED repeats the choices (not the order of the threads). WEFT_TASKS sets how many tasks there are in all.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

#include "base/sys.h"
#include "support/test.h"

enum {
    NOOP,
    THREAD,
    ASYNC,
    LOOPER,
    SCHED,
    CURRENT,
    KINDS,
    STARTERS = 4,
    BATCH = 24,
    DEEPEST = 3,
    ROUNDS = 4,
    ROOM_FOR_CACHES = 64
};

static weft_executor *places[KINDS];
static weft_sched *sched;
static uint64_t started, ended, succeeded, failed, values, destroyed; /* atomic */
static uint64_t then_calls, catching_calls, finally_calls;            /* atomic */

static void add(uint64_t *n)
{
    __atomic_add_fetch(n, 1, __ATOMIC_RELAXED);
}

/* What a task is to do. Freed by its finally. */
struct plan {
    uint64_t random;
    int depth;
};

static unsigned pick(struct plan *p, unsigned n)
{
    return (unsigned)(test_random(&p->random) >> 33) % n;
}

static void on_then(void *value, void *arg)
{
    CHECK(value != NULL && arg == NULL);
    add(&then_calls);
}

static void on_catching(const weft_error *error, void *arg)
{
    CHECK(error->code < 0 && error->message && arg == NULL);
    add(&catching_calls);
}

static void on_finally(void *arg)
{
    add(&finally_calls);
    free(arg);
}

static void destroy(void *value)
{
    add(&destroyed);
    free(value);
}

static weft_time some_deadline(struct plan *p)
{
    switch (pick(p, 4)) {
    case 0:
        return weft_in((weft_span)pick(p, 500) * WEFT_US);
    case 1:
        return WEFT_NOW;
    default:
        return WEFT_FOREVER;
    }
}

static int run(void *arg, void **value);

/* A thread for each turn is dear: such tasks are few. */
static unsigned some_place(struct plan *p)
{
    unsigned kind = pick(p, KINDS);
    return kind == THREAD && pick(p, 16) != 0 ? (unsigned)ASYNC : kind;
}

/* Starts a task and adds its callbacks; NULL: it was refused. */
static weft_task *start(struct plan *p)
{
    struct plan *child = malloc(sizeof *child);
    *child = (struct plan){test_random(&p->random) | 1, p->depth + 1};
    weft_task_opts o = {.on = places[some_place(p)], .destroy = destroy, .name = pick(p, 4) ? NULL : "named"};
    weft_task *t = NULL;
    int rc = weft_task_start(&t, run, child, &o);
    if (rc != 0) {
        CHECK(rc == -ENOMEM || rc == -EAGAIN);
        free(child);
        return NULL;
    }
    add(&started);
    CHECK(
        weft_task_finally(weft_task_catching(weft_task_then(t, on_then, NULL), on_catching, NULL), on_finally, child));
    return t;
}

static void check_rc(int rc)
{
    CHECK(rc >= 0 || rc == -EIO || rc == -ECANCELED || rc == -ETIMEDOUT || rc == -EAGAIN || rc == -ENOMEM);
}

static void use(struct plan *p, weft_task **t, int n)
{
    void *value = NULL;
    int which = (int)pick(p, (unsigned)n);
    switch (pick(p, 8)) {
    case 0:
        weft_task_cancel(t[which]);
        break;
    case 1:
        check_rc(weft_task_all(t, (size_t)n, some_deadline(p)));
        break;
    case 2:
        check_rc(weft_task_any(t, (size_t)n, some_deadline(p)));
        break;
    case 3:
        check_rc(weft_task_race(t, (size_t)n, some_deadline(p)));
        break;
    case 4:
        if (weft_task_take(t[which], &value) == 0)
            destroy(value);
        break;
    default:
        check_rc(weft_task_await(t[which], NULL, some_deadline(p)));
    }
}

static void play(struct plan *p, int n)
{
    weft_task *t[BATCH];
    int have = 0;
    for (int i = 0; i < n; i++) {
        t[have] = start(p);
        have += t[have] != NULL;
    }
    for (int i = 0; i < n && have > 0; i++)
        use(p, t, have);
    for (int i = 0; i < have; i++)
        weft_task_free(t[i]);
}

static int run(void *arg, void **value)
{
    struct plan p = *(struct plan *)arg;
    if (p.depth < DEEPEST && pick(&p, 3) == 0)
        play(&p, 1 + (int)pick(&p, 3));
    if (pick(&p, 32) == 0)
        weft_sleep((weft_span)pick(&p, 100) * WEFT_US);
    add(&ended);
    if (pick(&p, 4) == 0) {
        add(&failed);
        return pick(&p, 2) ? -EIO : weft_fail(-EIO, "task %u failed", pick(&p, 1000));
    }
    *value = malloc(8);
    add(&values);
    add(&succeeded);
    return 0;
}

static uint64_t limit;

static void *starts_many(void *arg)
{
    struct plan p = {(uint64_t)(uintptr_t)arg | 1, 0};
    while (__atomic_load_n(&started, __ATOMIC_RELAXED) < limit)
        play(&p, BATCH);
    return arg;
}

static void make_places(void)
{
    CHECK_INT(weft_sched_new(&sched, &(weft_sched_opts){.threads = 2}), ==, 0);
    CHECK_INT(weft_sched_start(sched), ==, 0);
    CHECK_INT(weft_executor_noop(&places[NOOP]), ==, 0);
    CHECK_INT(weft_executor_thread(&places[THREAD]), ==, 0);
    CHECK_INT(weft_executor_async(&places[ASYNC], 6), ==, 0);
    CHECK_INT(weft_executor_looper(&places[LOOPER], NULL, NULL, NULL), ==, 0);
    CHECK_INT(weft_executor_sched(&places[SCHED], sched, 0), ==, 0);
}

static void end_places(void)
{
    for (int i = 0; i < CURRENT; i++)
        CHECK_INT(weft_executor_close(places[i], true), ==, 0);
    for (int i = 0; i < CURRENT; i++)
        CHECK_INT(weft_executor_join(places[i], WEFT_FOREVER), ==, 0);
    for (int i = 0; i < CURRENT; i++)
        CHECK_INT(weft_executor_free(places[i]), ==, 0);
    CHECK_INT(weft_sched_stop(sched, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_sched_free(sched), ==, 0);
}

static void *joins_thread(void *arg)
{
    pthread_join(*(pthread_t *)arg, NULL);
    return arg;
}

static bool all_have_ended(void)
{
    return __atomic_load_n(&finally_calls, __ATOMIC_ACQUIRE) == __atomic_load_n(&started, __ATOMIC_ACQUIRE);
}

/* Starters are fibers and plain threads. */
static void *plays(void *seed)
{
    uint64_t random = *(uint64_t *)seed;
    weft_fiber *fibers[STARTERS];
    pthread_t threads[STARTERS];
    make_places();
    for (int i = 0; i < STARTERS; i++) {
        CHECK_INT(weft_go_with(&fibers[i], NULL, starts_many, (void *)(uintptr_t)test_random(&random)), ==, 0);
        CHECK_INT(pthread_create(&threads[i], NULL, starts_many, (void *)(uintptr_t)test_random(&random)), ==, 0);
    }
    for (int i = 0; i < STARTERS; i++) {
        CHECK_INT(weft_join(fibers[i], NULL, WEFT_FOREVER), ==, 0);
        weft_offload(joins_thread, &threads[i], NULL, WEFT_FOREVER);
    }
    while (!all_have_ended())
        weft_sleep(WEFT_MS);
    end_places();
    return seed;
}

TEST(every_callback_runs_once_and_nothing_leaks)
{
    const char *many = getenv("WEFT_TASKS"), *seconds = getenv("WEFT_SECONDS");
    uint64_t seed = test_seed();
    limit = many ? strtoull(many, NULL, 10) : seconds ? 1000000 : 40000;
    size_t held[ROUNDS];
    limit /= ROUNDS;
    for (int round = 0; round < ROUNDS; round++) {
        started = ended = succeeded = failed = values = destroyed = 0;
        then_calls = catching_calls = finally_calls = 0;
        CHECK_INT(weft_run(plays, &seed, NULL, &(weft_sched_opts){.threads = 2}), ==, 0);
        CHECK_INT(finally_calls, ==, started);
        CHECK_INT(then_calls, ==, succeeded);
        CHECK_INT(then_calls + catching_calls, ==, started);
        CHECK_INT(destroyed, ==, values);
        held[round] = wf_sys_held().n;
    }
    CHECK_INT(held[ROUNDS - 1], <, held[0] + ROOM_FOR_CACHES); /* a task that leaks takes one or more */
    printf("%llu tasks, %llu ran, %llu failed by themselves\n", (unsigned long long)started, (unsigned long long)ended,
           (unsigned long long)failed);
}

TESTS(stress_task, every_callback_runs_once_and_nothing_leaks)
