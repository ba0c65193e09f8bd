/*
 * tests/unit/sched/ground.h: what the scheduler's tests share: schedulers in one line, flags, waiting for an event, and
 * a clock that the test moves.
 */
#ifndef TESTS_UNIT_SCHED_GROUND_H
#define TESTS_UNIT_SCHED_GROUND_H

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <weft/coro.h>
#include <weft/fiber.h>
#include <weft/sched.h>

#include "base/clock.h"
#include "fiber/pool.h"
#include "support/test.h"

/* CLOCK_MONOTONIC in ns, whatever the injected clock shows. */
static inline int64_t real_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* Lets others go on, fibers and threads. */
static inline void breathe(void)
{
    if (weft_fiber_current()) {
        weft_yield();
    } else {
        struct timespec pause = {.tv_nsec = 20000};
        nanosleep(&pause, NULL);
    }
}

enum { AWAIT_SECONDS = 20 };

/* Goes on when the condition holds; a failure if it does not come to that. */
#define AWAIT(cond)                                                                                                    \
    do {                                                                                                               \
        int64_t await_until = real_now() + AWAIT_SECONDS * 1000000000ll;                                               \
        while (!(cond)) {                                                                                              \
            if (real_now() > await_until) {                                                                            \
                test_failed(__FILE__, __LINE__, "AWAIT(%s): it has not come to that", #cond);                          \
                break;                                                                                                 \
            }                                                                                                          \
            breathe();                                                                                                 \
        }                                                                                                              \
    } while (0)

/* Flags and counts that fibers and threads share. */
static inline int seen(const int *n)
{
    return __atomic_load_n(n, __ATOMIC_ACQUIRE);
}

static inline void put(int *n, int value)
{
    __atomic_store_n(n, value, __ATOMIC_RELEASE);
}

static inline int more(int *n)
{
    return __atomic_add_fetch(n, 1, __ATOMIC_ACQ_REL);
}

static inline weft_sched *new_sched(unsigned threads, bool use_caller)
{
    weft_sched *s = NULL;
    CHECK_INT(weft_sched_new(&s, &(weft_sched_opts){.threads = threads, .use_caller = use_caller}), ==, 0);
    return s;
}

static inline weft_sched *running_sched(unsigned threads)
{
    weft_sched *s = new_sched(threads, false);
    CHECK_INT(weft_sched_start(s), ==, 0);
    return s;
}

static inline void end_sched(weft_sched *s)
{
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

/* Runs fn(arg) as the first fiber of a runtime with so many workers. */
static inline void in_a_fiber(unsigned workers, weft_fn *fn, void *arg)
{
    CHECK_INT(weft_run(fn, arg, NULL, &(weft_sched_opts){.threads = workers}), ==, 0);
}

static inline weft_fiber *go(weft_fn *fn, void *arg)
{
    weft_fiber *f = NULL;
    CHECK_INT(weft_go_with(&f, NULL, fn, arg), ==, 0);
    return f;
}

static inline weft_fiber *go_on(weft_sched *s, weft_fn *fn, void *arg)
{
    weft_fiber *f = NULL;
    CHECK_INT(weft_sched_go(s, &f, NULL, fn, arg), ==, 0);
    return f;
}

static inline void *ended(weft_fiber *f)
{
    void *value = NULL;
    CHECK_INT(weft_join(f, &value, WEFT_FOREVER), ==, 0);
    return value;
}

static inline pthread_t new_thread(void *(*fn)(void *), void *arg)
{
    pthread_t id = {0};
    CHECK_INT(pthread_create(&id, NULL, fn, arg), ==, 0);
    return id;
}

static inline weft_sched_figures figures(const weft_sched *s)
{
    weft_sched_figures f = {.size = sizeof f};
    CHECK_INT(weft_sched_stats(s, &f), ==, 0);
    return f;
}

/* How many fibers this process has. */
static inline int count_fibers(void)
{
    FILE *nowhere = fopen("/dev/null", "we");
    int count = nowhere ? weft_dump(nowhere) : -1;
    if (nowhere)
        fclose(nowhere);
    return count;
}

static inline bool is_parked(const weft_fiber *f)
{
    return weft_fiber_state(f) == WEFT_FIBER_PARKED;
}

static inline int count_entries(const char *path)
{
    int count = 0;
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        count += e->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return count;
}

/* How many threads this process has. */
static inline int count_threads(void)
{
    return count_entries("/proc/self/task");
}

/* How many descriptors are open, and one more for the look. */
static inline int count_descriptors(void)
{
    return count_entries("/proc/self/fd");
}

static inline void *ends_at_once(void *arg)
{
    return arg;
}

/* How many it has when nothing of ours runs: a sanitizer may add one of its own to the first, and /proc shows a thread
 * that was joined for a moment more. */
static inline int steady_threads(void)
{
    pthread_t first;
    if (pthread_create(&first, NULL, ends_at_once, NULL) == 0)
        pthread_join(first, NULL);
    int count = count_threads();
    for (int same = 0; same < 20; same++) {
        int now = (breathe(), count_threads());
        if (now != count)
            same = 0;
        count = now;
    }
    return count;
}

/* From now on a fiber may get the record of one that has just ended, in debug builds too: they keep records apart. */
static inline void reuse_records(void)
{
#if WF_DEBUG
    __atomic_store_n(&wf_pool_apart, 0, __ATOMIC_RELAXED);
#endif
}

static inline void *ptr(intptr_t n)
{
    return (void *)n;
}

/* Fibers that everybody needs. */
static inline void *returns_at_once(void *arg)
{
    return arg;
}

static inline void *counts(void *arg)
{
    more(arg);
    return arg;
}

static inline void *parks(void *arg)
{
    (void)arg;
    return ptr(weft_park(WEFT_FOREVER));
}

/* Neither yields nor returns before the flag is set. */
static inline void *spins(void *arg)
{
    while (!seen(arg))
        ;
    return NULL;
}

/* A thread's: lets a scheduler stop for as long as it takes. */
static inline void *stops(void *s)
{
    return ptr(weft_sched_stop(s, WEFT_FOREVER));
}

/* A weft_run of another thread, from begin to end. */
struct run_beside {
    weft_sched *sched;
    pthread_t thread;
    int began, over;
};

static inline void *stays_beside(void *arg)
{
    struct run_beside *b = arg;
    b->sched = weft_sched_current();
    put(&b->began, 1);
    while (!seen(&b->over))
        breathe();
    return NULL;
}

static inline void *runs_beside(void *arg)
{
    in_a_fiber(1, stays_beside, arg);
    return NULL;
}

static inline void run_beside_begin(struct run_beside *b)
{
    *b = (struct run_beside){0};
    b->thread = new_thread(runs_beside, b);
    AWAIT(seen(&b->began));
}

static inline void run_beside_end(struct run_beside *b)
{
    put(&b->over, 1);
    pthread_join(b->thread, NULL);
}

/* Returns when a scheduler that another thread stops takes no more work. */
static inline void await_draining(weft_sched *s)
{
    AWAIT(weft_sched_go(s, NULL, NULL, returns_at_once, NULL) == -ESHUTDOWN);
}

/* The injected clock. It stands still between two calls; from clock_begin to clock_end it is not the real one. */
static inline void clock_begin(void)
{
    wf_clock_set(1000 * WEFT_SEC);
}

static inline void clock_forward(weft_span d)
{
    wf_clock_set(wf_clock_now() + d);
}

static inline weft_span clock_passed(void)
{
    return wf_clock_now() - 1000 * WEFT_SEC;
}

static inline void clock_end(void)
{
    wf_clock_set(0);
}

#endif
