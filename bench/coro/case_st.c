/*
 * case_st.c: State Threads, whose threads are scheduled on one system thread.
 *
 * It has no call to yield; two threads that signal and wait on condition variables switch straight to each other, as
 * the run queue never empties and so the idle thread (and with it poll) never runs.
 */
#include <st.h>

#include <errno.h>
#include <string.h>

#include "../common/case.h"

#define LIVE_COROUTINES 10000

static st_cond_t main_waits;  /* signalled by the thread that the main thread waits for */
static st_cond_t others_wait; /* where the other threads wait to be resumed */

static void start_library(void)
{
    if (st_init() != 0)
        case_na("st_init: %s", strerror(errno));
    main_waits = st_cond_new();
    others_wait = st_cond_new();
}

static st_thread_t thread_new(void *(*fn)(void *), void *arg, int joinable)
{
    st_thread_t thread = st_thread_create(fn, arg, joinable, 0);
    if (!thread)
        case_na("st_thread_create: %s", strerror(errno));
    return thread;
}

/* switch */

static uintptr_t value;

static void *answer_plus_one(void *arg)
{
    for (;;) {
        st_cond_wait(others_wait);
        value++;
        st_cond_signal(main_waits);
    }
    return arg;
}

static void pingpong(void *ctx, size_t n)
{
    uint64_t sum = 0;

    (void)ctx;
    for (size_t i = 0; i < n; i++) {
        value = i;
        st_cond_signal(others_wait);
        st_cond_wait(main_waits);
        sum += value;
    }
    case_check_sum(sum, case_pingpong_sum(n));
}

static void run_switch(double budget_ms)
{
    start_library();
    thread_new(answer_plus_one, NULL, 0);
    st_usleep(0); /* it runs until it waits */
    case_ok(case_time(budget_ms, pingpong, NULL, 2), "handover=cond");
}

/* spawn */

static void *give_back(void *arg)
{
    return arg;
}

static void spawn(void *ctx, size_t n)
{
    uint64_t sum = 0;
    void *out;

    (void)ctx;
    for (size_t i = 0; i < n; i++) {
        st_thread_join(thread_new(give_back, (void *)(i + 1), 1), &out);
        sum += (uintptr_t)out;
    }
    case_check_sum(sum, case_pingpong_sum(n));
}

static void run_spawn(double budget_ms)
{
    start_library();
    case_ok(case_time(budget_ms, spawn, NULL, 1), "");
}

/* spawn-10k and rss: all wait on one condition variable; the last to get there, or to end, wakes the main thread. */

static size_t total;
static size_t arrived;
static size_t ended;

static void wait_with_the_others(void)
{
    if (++arrived == total)
        st_cond_signal(main_waits);
    st_cond_wait(others_wait);
}

static void count_end(void)
{
    if (++ended == total)
        st_cond_signal(main_waits);
}

static void resume_all(void)
{
    st_cond_broadcast(others_wait);
    st_cond_wait(main_waits);
    case_check_sum(ended, total);
}

static void *wait_once(void *arg)
{
    wait_with_the_others();
    count_end();
    return arg;
}

static void spawn_live(void *ctx, size_t n)
{
    (void)ctx;
    while (n--) {
        arrived = ended = 0;
        total = LIVE_COROUTINES;
        for (size_t i = 0; i < total; i++)
            thread_new(wait_once, NULL, 0);
        st_cond_wait(main_waits);
        resume_all();
    }
}

static void run_spawn_live(double budget_ms)
{
    start_library();
    case_ok(case_time(budget_ms, spawn_live, NULL, LIVE_COROUTINES), "live=10000");
}

static void *hold_locals(void *arg)
{
    struct case_locals locals;
    case_fill(&locals, (uintptr_t)arg);
    wait_with_the_others();
    case_verify(&locals, (uintptr_t)arg);
    count_end();
    return arg;
}

static void run_rss_with(size_t count)
{
    struct case_memory before, now;

    start_library();
    total = count;
    before = case_memory_now();
    for (size_t i = 0; i < count; i++) {
        case_check_memory(i);
        thread_new(hold_locals, (void *)i, 0);
    }
    st_cond_wait(main_waits);
    now = case_memory_now();
    resume_all();
    case_ok_memory(before, now, count);
}

static void run_rss_100k(double budget_ms)
{
    (void)budget_ms;
    run_rss_with(100000);
}

static void run_rss_1m(double budget_ms)
{
    (void)budget_ms;
    run_rss_with(1000000);
}

int main(int argc, char **argv)
{
    static const struct case_entry entries[] = {
        {"switch", "state-threads", run_switch},        {"spawn", "state-threads", run_spawn},
        {"spawn-10k", "state-threads", run_spawn_live}, {"rss-100k", "state-threads", run_rss_100k},
        {"rss-1m", "state-threads", run_rss_1m},
    };
    return case_main(argc, argv, entries, sizeof(entries) / sizeof(entries[0]));
}
