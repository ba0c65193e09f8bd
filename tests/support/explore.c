/*
 * tests/support/explore.c: the schedules of explore.h, and the operations of base/atomic.h as steps of them. All of it
 * runs on one thread.
 */
#define WF_EXPLORE 1
#include "support/explore.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <weft/coro.h>

#include "base/atomic.h"
#include "base/sanitizer.h"
#include "support/explore_parts.h"
#include "support/test.h"

enum { SCHEDULES = 20000, NOBODY = -1 };
/* What is simulated is the same everywhere: an emulator and valgrind do as much of it as there is time for. */
static const double most_seconds = WF_VALGRIND || TEST_EMULATED ? 0.5 : 2;

static struct {
    weft_coro *coro;
    bool ended;
    unsigned weight; /* how often it is picked, compared to the others */
} threads[EXPLORE_THREADS];
static int thread_count;
static int running = NOBODY; /* NOBODY: set_up, check, or no schedule at all */
static int next;             /* whose the next step is */

static const struct explore *explored;
static uint64_t random_state;
static unsigned turn; /* once in 2^turn steps somebody is picked anew */
static unsigned steps;

unsigned explore_random(unsigned n)
{
    return (unsigned)(test_random(&random_state) >> 33) % n;
}

bool explore_chance(unsigned bits)
{
    return explore_random(1u << bits) == 0;
}

/* --- the steps --- */

static int pick(void)
{
    unsigned tickets = 0, drawn;
    for (int i = 0; i < thread_count; i++)
        tickets += threads[i].ended ? 0 : threads[i].weight;
    if (tickets == 0)
        return NOBODY;
    drawn = explore_random(tickets);
    for (int i = 0;; i++) {
        if (threads[i].ended)
            continue;
        if (drawn < threads[i].weight)
            return i;
        drawn -= threads[i].weight;
    }
}

/* The running thread is about to take a step: others may go before it. A schedule that has failed is left for good. */
static int step(void)
{
    int self = running;
    if (++steps == EXPLORE_STEPS)
        test_failed(__FILE__, __LINE__, "it has not ended after %u steps", steps);
    memory_publish_some();
    if (explore_chance(turn))
        next = pick();
    if (next != self || test_has_failed())
        weft_coro_yield(NULL);
    return self;
}

uintptr_t wf_explore_load(const void *p, size_t size, bool acquire)
{
    return running == NOBODY ? memory_read(p, size) : memory_load(step(), p, size, acquire);
}

void wf_explore_store(void *p, size_t size, uintptr_t v, bool release)
{
    if (running == NOBODY)
        memory_write(p, size, v);
    else
        memory_store(step(), p, size, v, release);
}

static uintptr_t modify(void *p, size_t size, enum modification how, uintptr_t v)
{
    if (running != NOBODY)
        return memory_modify(step(), p, size, how, v);
    uintptr_t old = memory_read(p, size);
    memory_write(p, size, memory_modified(old, size, how, v));
    return old;
}

uintptr_t wf_explore_exchange(void *p, size_t size, uintptr_t v)
{
    return modify(p, size, EXCHANGE, v);
}

uintptr_t wf_explore_add(void *p, size_t size, uintptr_t n)
{
    return modify(p, size, ADD, n);
}

uintptr_t wf_explore_or(void *p, size_t size, uintptr_t bits)
{
    return modify(p, size, OR, bits);
}

uintptr_t wf_explore_and(void *p, size_t size, uintptr_t bits)
{
    return modify(p, size, AND, bits);
}

bool wf_explore_cas(void *p, size_t size, uintptr_t *expected, uintptr_t v)
{
    if (running != NOBODY)
        return memory_cas(step(), p, size, expected, v);
    uintptr_t wanted = memory_modified(0, size, ADD, *expected);
    *expected = memory_read(p, size);
    if (*expected == wanted)
        memory_write(p, size, v);
    return *expected == wanted;
}

void wf_explore_fence(void)
{
    if (running != NOBODY)
        memory_fence(step());
}

/* The others pass their fences at moments of their own between our two. */
void wf_explore_heavy(void)
{
    if (running == NOBODY)
        return;
    int self = step();
    memory_fence(self);
    for (int i = 1; i < thread_count; i++) {
        step();
        memory_fence((self + i) % thread_count);
    }
    step();
    memory_fence(self);
}

/* Who waits gives way: else a schedule's steps could be used up before a thread that is seldom picked is through. */
void wf_explore_relax(void)
{
    if (running == NOBODY)
        return;
    next = pick();
    step();
}

int explore_self(void)
{
    return running;
}

/* --- the schedules --- */

static void *run_thread(void *number)
{
    int i = (int)(intptr_t)number;
    explored->threads[i](i);
    return NULL;
}

static void begin(const struct explore *what, uint64_t seed)
{
    static const unsigned weights[] = {1, 1, 4, 16};
    explored = what;
    steps = 0;
    random_state = (seed + 1) * 0x9e3779b97f4a7c15u;
    random_state += random_state == 0;
    for (int i = 0; i < 8; i++) /* neighbouring seeds are alike at first */
        test_random(&random_state);
    for (thread_count = 0; thread_count < EXPLORE_THREADS && what->threads[thread_count]; thread_count++) {
        threads[thread_count].ended = false;
        threads[thread_count].weight = weights[explore_random(4)];
    }
    turn = explore_random(4);
    unsigned publish = explore_random(6), old = 1 + explore_random(3);
    memory_begin((struct memory_habits){.publish = publish, .old = old, .plain_stacks = what->plain_stacks});
    trace_begin();
}

static void run_threads(void)
{
    for (int i = 0; i < thread_count; i++) {
        if (weft_coro_new(&threads[i].coro, run_thread, (void *)(intptr_t)i, NULL) != 0) {
            perror("explore: no coroutine");
            abort();
        }
    }
    for (next = pick(); next != NOBODY && !test_has_failed();) {
        running = next;
        if (weft_coro_resume(threads[running].coro, NULL, NULL) == 0) {
            threads[running].ended = true;
            next = pick();
        }
    }
    running = NOBODY;
    for (int i = 0; i < thread_count; i++)
        weft_coro_free(threads[i].coro);
}

bool explore_one(const struct explore *what, uint64_t seed)
{
    begin(what, seed);
    if (what->set_up)
        what->set_up();
    run_threads();
    if (!test_has_failed()) {
        memory_publish_all();
        if (what->check)
            what->check();
    }
    if (test_has_failed())
        trace_print(seed, steps);
    return !test_has_failed();
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void explore(const struct explore *what)
{
    const char *first = getenv("WEFT_SEED"), *count = getenv("WEFT_SCHEDULES");
    uint64_t seed = first ? strtoull(first, NULL, 0) : 1;
    unsigned long wanted = count ? strtoul(count, NULL, 0) : what->schedules ? what->schedules : SCHEDULES, done = 0;
    double start = seconds_now();
    while (done < wanted && !test_has_failed() && (count || done % 64 != 0 || seconds_now() < start + most_seconds)) {
        explore_one(what, seed + done);
        done++;
    }
    printf("%lu schedules from seed %llu in %.2f s\n", done, (unsigned long long)seed, seconds_now() - start);
}
