/*
 * A scheduler that cannot get what it needs: no thread, no memory, at every step. It says so, goes on when it can, and
 * leaves nothing behind.
 */
#include <stdlib.h>

#include <weft/stack.h>
#include <weft/timer.h>

#include "base/sys.h"
#include "unit/sched/ground.h"

#define THREADS (1u << WF_SYS_THREAD)
#define MEMORY (1u << WF_SYS_MALLOC | 1u << WF_SYS_MMAP)

enum { WORKERS = 3 };

/* The state of a thread, as /proc has it: 'R' when it runs or is about to, 'S' when it waits for something. */
static char state_of(const char *tid)
{
    char path[288], line[256], state = '?';
    snprintf(path, sizeof path, "/proc/self/task/%s/status", tid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        sscanf(line, "State: %c", &state);
    if (f)
        fclose(f);
    return state;
}

static bool others_sleep(void)
{
    DIR *tasks = opendir("/proc/self/task");
    bool all = tasks != NULL;
    for (struct dirent *e; all && (e = readdir(tasks)) != NULL;) {
        if (e->d_name[0] != '.' && strtol(e->d_name, NULL, 10) != gettid())
            all = state_of(e->d_name) == 'S';
    }
    if (tasks)
        closedir(tasks);
    return all;
}

/* Before the next thread is made: those that are there get as far as they can, whatever the machine has to do besides. */
static void lets_the_others_go_on(void *ran)
{
    AWAIT(seen(ran) > 0 || others_sleep());
}

TEST(a_thread_that_cannot_be_made_leaves_the_scheduler_as_it_was)
{
    for (unsigned use_caller = 0; use_caller < 2; use_caller++) {
        int before = steady_threads(), ran = 0;
        for (unsigned nth = 1; nth <= WORKERS - use_caller; nth++) {
            weft_sched *s = new_sched(WORKERS, use_caller);
            for (int i = 0; i < 50; i++)
                CHECK_INT(weft_sched_go(s, NULL, &(weft_attr){.worker = i % (WORKERS + 1)}, counts, &ran), ==, 0);
            wf_sys_before(THREADS, lets_the_others_go_on, &ran);
            wf_sys_fail(THREADS, nth, 0);
            CHECK_INT(weft_sched_start(s), ==, -EAGAIN);
            wf_sys_fail(THREADS, nth, 0);
            CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, -EAGAIN);
            wf_sys_fail(THREADS, nth, 0);
            CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, -EAGAIN);
            wf_sys_fail(0, 0, 0);
            AWAIT(count_threads() == before);
            CHECK_INT(seen(&ran), ==, 0);
            wf_sys_before(0, NULL, NULL);
            if (nth == 1) {
                CHECK_INT(weft_sched_free(s), ==, 0);
                continue;
            }
            CHECK_INT(weft_sched_start(s), ==, 0);
            CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
            CHECK_INT(seen(&ran), ==, 50);
            put(&ran, 0);
            CHECK_INT(weft_sched_free(s), ==, 0);
        }
    }
}

static void *waits_a_little(void *arg)
{
    weft_yield();
    CHECK_INT(weft_sleep(10 * WEFT_US), ==, 0);
    return arg;
}

/* What it began, it ends; every call may say that there is no memory, and nothing else. */
static bool said_why(int rc)
{
    if (rc != 0)
        CHECK(rc == -ENOMEM || rc == -EAGAIN);
    return rc == 0;
}

static void one_life(void)
{
    weft_sched *s = NULL;
    weft_fiber *f[4] = {NULL};
    weft_stacks *pool = NULL;
    const weft_sched_opts opts = {.threads = WORKERS, .warm = 2};
    said_why(weft_stacks_new(&pool, 2, 0));
    if (said_why(weft_sched_new(&s, &opts))) {
        for (int i = 0; i < 4; i++)
            said_why(weft_sched_go(s, &f[i], (&(weft_attr){.worker = i, .shared = i == 3 ? pool : NULL}),
                                   waits_a_little, &f[i]));
        if (said_why(weft_sched_start(s))) {
            for (int i = 0; i < 4; i++) {
                if (f[i])
                    CHECK_PTR(ended(f[i]), ==, &f[i]);
            }
            CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
        }
        CHECK_INT(weft_sched_free(s), ==, 0);
    }
    CHECK_INT(weft_stacks_free(pool), ==, 0);
}

static void one_run(void)
{
    said_why(weft_run(waits_a_little, NULL, NULL, &(weft_sched_opts){.threads = WORKERS, .policy = &weft_priority}));
}

/* The same without one of the things it needs, for each of them. */
static void fails_at_every_step(void (*life)(void))
{
    life(); /* what this thread keeps for ever, it has from now on */
    weft_stack_trim();
    struct wf_sys_held before = wf_sys_held();
    unsigned n = 1, calls;
    do {
        wf_sys_fail(MEMORY | THREADS, n, 0);
        life();
        calls = wf_sys_calls();
        wf_sys_fail(0, 0, 0);
        weft_stack_trim();
        struct wf_sys_held now = wf_sys_held();
        if (now.n != before.n || now.bytes != before.bytes)
            test_failed(__FILE__, __LINE__, "without call %u: %zd allocations and %zd bytes are left behind", n,
                        (ssize_t)(now.n - before.n), (ssize_t)(now.bytes - before.bytes));
    } while (calls >= n++);
    CHECK_INT(n, >, 10);
}

TEST(nothing_is_left_behind_whatever_cannot_be_had)
{
    fails_at_every_step(one_life);
}

TEST(nothing_is_left_behind_by_a_run)
{
    fails_at_every_step(one_run);
}

static void *spawns_until_there_is_no_memory(void *arg)
{
    enum { MOST = 100000 };
    int rc = 0, spawned = 0, ran = 0;
    weft_fiber *f = ptr(1);
    wf_sys_fail(MEMORY, 1, MOST);
    while (rc == 0 && spawned < MOST) { /* there are records at hand, but not that many */
        rc = weft_go(counts, &ran);
        spawned += rc == 0;
    }
    CHECK_INT(rc, ==, -ENOMEM);
    CHECK_INT(weft_go_with(&f, NULL, counts, &ran), ==, -ENOMEM);
    CHECK_INT(weft_fiber_new(&f, NULL, counts, &ran), ==, -ENOMEM);
    CHECK_PTR(f, ==, ptr(1));
    wf_sys_fail(0, 0, 0);
    AWAIT(seen(&ran) == spawned);
    return arg;
}

TEST(go_without_memory_is_enomem)
{
    in_a_fiber(1, spawns_until_there_is_no_memory, NULL);
}

/* Its stack is not to be had for a while. */
static void *waits_for_one(void *arg)
{
    int ran = 0;
    (void)arg;
    weft_stack_trim(); /* the worker's: none is at hand */
    wf_sys_fail(MEMORY, 1, 5);
    weft_fiber *f = NULL;
    int rc = weft_go_with(&f, &(weft_attr){.stack = 3 << 20}, counts, &ran);
    if (rc == 0)
        CHECK_PTR(ended(f), ==, &ran);
    wf_sys_fail(0, 0, 0);
    CHECK_INT(rc, ==, 0);
    CHECK_INT(ran, ==, 1);
    return NULL;
}

TEST(a_fiber_without_a_stack_waits_for_one)
{
    in_a_fiber(1, waits_for_one, NULL);
    in_a_fiber(2, waits_for_one, NULL);
}

static void rings(void *arg)
{
    more(arg);
}

/* Its time is past when the threads that could be made find that they are to end. */
TEST(a_start_that_fails_fires_no_timers)
{
    weft_sched *s = new_sched(WORKERS, false);
    int fibers = count_fibers(), rang = 0;
    for (int i = 0; i < WORKERS; i++)
        CHECK_INT(weft_sched_timer_new(s, NULL, 0, false, NULL, rings, &rang), ==, 0);
    wf_sys_fail(THREADS, WORKERS, 0);
    CHECK_INT(weft_sched_start(s), ==, -EAGAIN);
    wf_sys_fail(0, 0, 0);
    CHECK_INT(count_fibers(), ==, fibers); /* there are none for them, which a free would forget */
    CHECK_INT(figures(s).timers, ==, WORKERS);
    CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, 0);
    CHECK_INT(seen(&rang), ==, WORKERS);
    end_sched(s);
}

TESTS(sched_life_fault, a_start_that_fails_fires_no_timers, a_thread_that_cannot_be_made_leaves_the_scheduler_as_it_was,
      nothing_is_left_behind_whatever_cannot_be_had, nothing_is_left_behind_by_a_run, go_without_memory_is_enomem,
      a_fiber_without_a_stack_waits_for_one)
