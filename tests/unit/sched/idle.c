/*
 * Workers without work sleep: they cost nothing, work wakes as many as it needs, and work for one wakes that one.
 */
#include <sched.h>

#include "unit/sched/ground.h"

enum { WORKERS = 4 };

static void *says_its_thread(void *arg)
{
    (void)arg;
    return ptr(gettid());
}

static void find_threads(weft_sched *s, pid_t tids[WORKERS])
{
    weft_fiber *f;
    for (int i = 0; i < WORKERS; i++) {
        CHECK_INT(weft_sched_go(s, &f, &(weft_attr){.worker = WEFT_WORKER(i)}, says_its_thread, NULL), ==, 0);
        tids[i] = (pid_t)(intptr_t)ended(f);
    }
    AWAIT(figures(s).idle == WORKERS);
}

/* How often a thread has gone to sleep so far; and in CPU time, ns. */
static long sleeps_of(pid_t tid)
{
    char path[64], line[256];
    long n = -1;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        sscanf(line, "voluntary_ctxt_switches: %ld", &n);
    if (f)
        fclose(f);
    return n;
}

static int64_t cpu_of(pid_t tid)
{
    char path[64];
    long long ns = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", tid);
    FILE *f = fopen(path, "re");
    if (f) {
        if (fscanf(f, "%lld", &ns) != 1)
            ns = -1;
        fclose(f);
    }
    return ns;
}

TEST(an_idle_scheduler_costs_nothing)
{
    pid_t tids[WORKERS];
    long before[WORKERS];
    int64_t cpu = 0;
    const struct timespec two_seconds = {.tv_sec = 2};
    weft_sched *s = running_sched(WORKERS);
    find_threads(s, tids);
    for (int i = 0; i < WORKERS; i++) {
        before[i] = sleeps_of(tids[i]);
        if (before[i] < 0)
            SKIP("/proc does not say how often a thread has slept");
        cpu -= cpu_of(tids[i]);
    }
    nanosleep(&two_seconds, NULL);
    for (int i = 0; i < WORKERS; i++) {
        CHECK_INT(sleeps_of(tids[i]) - before[i], <=, 8); /* what is kept and not needed goes back, in halves */
        cpu += cpu_of(tids[i]);
    }
    CHECK_INT(cpu, <, 10 * WEFT_MS); /* of 2 s: 0.5 % of one CPU, for all four */
    end_sched(s);
}

TEST(work_for_one_that_sleeps_wakes_that_one_only)
{
    enum { TIMES = 50 };
    pid_t tids[WORKERS];
    long before[WORKERS];
    weft_sched *s = running_sched(WORKERS);
    find_threads(s, tids);
    for (int i = 0; i < WORKERS; i++)
        before[i] = sleeps_of(tids[i]);
    if (before[0] < 0)
        SKIP("/proc does not say how often a thread has slept");
    for (int i = 0; i < TIMES; i++) {
        weft_fiber *f;
        CHECK_INT(weft_sched_go(s, &f, &(weft_attr){.worker = WEFT_WORKER(2)}, says_its_thread, NULL), ==, 0);
        CHECK_INT((intptr_t)ended(f), ==, tids[2]);
        AWAIT(figures(s).idle == WORKERS);
    }
    for (int i = 0; i < WORKERS; i++) {
        long n = sleeps_of(tids[i]) - before[i];
        if (i == 2)
            CHECK_INT(n, >=, TIMES / 5); /* it may find the next work when it has said that it sleeps, before it does */
        else
            CHECK_INT(n, <=, 8);
    }
    end_sched(s);
}

TEST(one_piece_of_work_wakes_few)
{
    enum { TIMES = 50 };
    pid_t tids[WORKERS];
    long before = 0, after = 0;
    weft_sched *s = running_sched(WORKERS);
    find_threads(s, tids);
    for (int i = 0; i < WORKERS; i++)
        before += sleeps_of(tids[i]);
    if (before < 0)
        SKIP("/proc does not say how often a thread has slept");
    for (int i = 0; i < TIMES; i++) {
        ended(go_on(s, says_its_thread, NULL));
        AWAIT(figures(s).idle == WORKERS);
    }
    for (int i = 0; i < WORKERS; i++)
        after += sleeps_of(tids[i]);
    CHECK_INT(after - before, <=, 2 * TIMES + 4 * WORKERS); /* the one that is woken, and at most one in vain */
    end_sched(s);
}

/* As much work as there are workers, none of which ends before all have begun: nobody may be left asleep. */
static void *waits_for_all(void *arg)
{
    more(arg);
    while (seen(arg) < WORKERS)
        sched_yield(); /* the thread's: its worker runs nothing else */
    return NULL;
}

TEST(work_for_all_wakes_all)
{
    weft_sched *s = running_sched(WORKERS);
    for (int i = 0; i < 50 && !test_has_failed(); i++) {
        int began = 0;
        weft_fiber *f[WORKERS];
        AWAIT(figures(s).idle == WORKERS);
        for (int j = 0; j < WORKERS; j++)
            f[j] = go_on(s, waits_for_all, &began);
        AWAIT(seen(&began) == WORKERS);
        put(&began, WORKERS); /* also if they have not */
        for (int j = 0; j < WORKERS; j++)
            ended(f[j]);
    }
    end_sched(s);
}

static void *spawns_for_all(void *arg)
{
    for (int j = 1; j < WORKERS; j++)
        CHECK_INT(weft_go(waits_for_all, arg), ==, 0);
    return waits_for_all(arg);
}

TEST(so_does_work_that_a_fiber_brings)
{
    weft_sched *s = running_sched(WORKERS);
    for (int i = 0; i < 50 && !test_has_failed(); i++) {
        int began = 0;
        AWAIT(figures(s).idle == WORKERS);
        weft_fiber *f = go_on(s, spawns_for_all, &began);
        AWAIT(seen(&began) == WORKERS);
        put(&began, WORKERS);
        ended(f);
        CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, 0);
    }
    end_sched(s);
}

/* A sleeper's worker sleeps until then, not in steps. */
static void *sleeps_100_ms(void *arg)
{
    CHECK_INT(weft_sleep(100 * WEFT_MS), ==, 0);
    return arg;
}

TEST(a_worker_sleeps_through_until_the_earliest_time)
{
    pid_t tids[WORKERS];
    weft_fiber *f;
    weft_sched *s = running_sched(WORKERS);
    find_threads(s, tids);
    long before = sleeps_of(tids[1]);
    if (before < 0)
        SKIP("/proc does not say how often a thread has slept");
    CHECK_INT(weft_sched_go(s, &f, &(weft_attr){.worker = WEFT_WORKER(1)}, sleeps_100_ms, NULL), ==, 0);
    ended(f);
    AWAIT(figures(s).idle == WORKERS);
    CHECK_INT(sleeps_of(tids[1]) - before, <=, 6);
    end_sched(s);
}

TESTS(sched_idle, an_idle_scheduler_costs_nothing, work_for_one_that_sleeps_wakes_that_one_only,
      one_piece_of_work_wakes_few, work_for_all_wakes_all, so_does_work_that_a_fiber_brings,
      a_worker_sleeps_through_until_the_earliest_time)
