/*
 * case_posix.c: what the C library offers: swapcontext, and threads that hand over to each other.
 *
 * swapcontext has no stacks of its own: they come from a free list here, which is the least it can cost. The threads
 * are bound to one CPU: there a hand-over is a futex call and a switch in the kernel, faster than waking another CPU.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "../common/case.h"

#define LIVE_COROUTINES 10000
#define NESTED_LEVELS 100000
#define STACK_SIZE ((size_t)64 * 1024)

/* swapcontext */

/* A context at the top of its stack, as a small library on top of swapcontext would keep it. */
struct flow {
    ucontext_t self;
    ucontext_t resumer;
    struct flow *next; /* in the free list */
    uintptr_t value;   /* passed both ways */
};

static struct flow *free_flows;

/* Cuts many stacks from one mapping, so that the number of mappings is no limit. */
static void add_free_flows(void)
{
    size_t count = 1024;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *slab = mmap(NULL, count * STACK_SIZE, PROT_READ | PROT_WRITE, flags, -1, 0);

    if (slab == MAP_FAILED)
        case_na("no address space for stacks: %s", strerror(errno));
    for (size_t i = 0; i < count; i++) {
        struct flow *flow = (struct flow *)(slab + (i + 1) * STACK_SIZE - sizeof(struct flow));
        flow->next = free_flows;
        free_flows = flow;
    }
}

static void split_pointer(unsigned high, unsigned low);

static struct flow *flow_new(void (*fn)(struct flow *flow))
{
    struct flow *flow;
    uintptr_t bits;

    if (!free_flows)
        add_free_flows();
    flow = free_flows;
    free_flows = flow->next;
    getcontext(&flow->self);
    flow->self.uc_stack.ss_sp = (char *)(flow + 1) - STACK_SIZE;
    flow->self.uc_stack.ss_size = STACK_SIZE - sizeof(*flow);
    flow->self.uc_link = &flow->resumer;
    flow->value = (uintptr_t)fn;
    bits = (uintptr_t)flow;
    makecontext(&flow->self, (void (*)(void))split_pointer, 2, (unsigned)(bits >> 32), (unsigned)bits);
    return flow;
}

static void flow_free(struct flow *flow)
{
    flow->next = free_flows;
    free_flows = flow;
}

/* makecontext passes ints only. */
static void split_pointer(unsigned high, unsigned low)
{
    struct flow *flow = (struct flow *)((uintptr_t)high << 32 | low);
    void (*fn)(struct flow *) = (void (*)(struct flow *))flow->value;
    fn(flow);
}

static inline uintptr_t flow_resume(struct flow *flow)
{
    swapcontext(&flow->resumer, &flow->self);
    return flow->value;
}

static inline uintptr_t flow_yield(struct flow *flow, uintptr_t out)
{
    flow->value = out;
    swapcontext(&flow->self, &flow->resumer);
    return flow->value;
}

static void answer_plus_one(struct flow *flow)
{
    uintptr_t in = flow_yield(flow, 0);
    for (;;)
        in = flow_yield(flow, in + 1);
}

static void pingpong(void *ctx, size_t n)
{
    struct flow *flow = ctx;
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        flow->value = i;
        sum += flow_resume(flow);
    }
    case_check_sum(sum, case_pingpong_sum(n));
}

static void run_switch(double budget_ms)
{
    struct flow *flow = flow_new(answer_plus_one);
    flow_resume(flow);
    case_ok(case_time(budget_ms, pingpong, flow, 2), "");
}

static void end_at_once(struct flow *flow)
{
    flow->value = 1;
}

static void spawn(void *ctx, size_t n)
{
    uint64_t sum = 0;

    (void)ctx;
    for (size_t i = 0; i < n; i++) {
        struct flow *flow = flow_new(end_at_once);
        sum += flow_resume(flow);
        flow_free(flow);
    }
    case_check_sum(sum, n);
}

static void run_spawn(double budget_ms)
{
    case_ok(case_time(budget_ms, spawn, NULL, 1), "stack=65536");
}

static void yield_once(struct flow *flow)
{
    flow->value = flow_yield(flow, 0) + 1;
}

static void spawn_live(void *ctx, size_t n)
{
    struct flow **all = ctx;

    while (n--) {
        uint64_t sum = 0;
        for (size_t i = 0; i < LIVE_COROUTINES; i++) {
            all[i] = flow_new(yield_once);
            flow_resume(all[i]);
        }
        for (size_t i = 0; i < LIVE_COROUTINES; i++) {
            sum += flow_resume(all[i]);
            flow_free(all[i]);
        }
        case_check_sum(sum, LIVE_COROUTINES);
    }
}

static void run_spawn_live(double budget_ms)
{
    static struct flow *all[LIVE_COROUTINES];
    case_ok(case_time(budget_ms, spawn_live, all, LIVE_COROUTINES), "live=10000 stack=65536");
}

static struct flow *chain[NESTED_LEVELS + 1];
static size_t level; /* of the flow that starts */

static void go_deeper(struct flow *flow)
{
    struct flow **next = &chain[level + 1];
    uintptr_t depth = 0;

    for (;;) {
        flow_yield(flow, depth + 1);
        if (*next)
            depth = flow_resume(*next);
    }
}

static void descend(void *ctx, size_t n)
{
    (void)ctx;
    while (n--)
        case_check_sum(flow_resume(chain[0]), NESTED_LEVELS);
}

static void run_nested(double budget_ms)
{
    for (level = 0; level < NESTED_LEVELS; level++) {
        chain[level] = flow_new(go_deeper);
        flow_resume(chain[level]);
    }
    case_ok(case_time(budget_ms, descend, NULL, NESTED_LEVELS), "levels=100000");
}

/* pthread */

/* Whose turn it is: a thread waits until the word is its own. */
struct turn {
    _Atomic uint32_t word;
};

static void turn_give(struct turn *turn, uint32_t to)
{
    atomic_store_explicit(&turn->word, to, memory_order_release);
    syscall(SYS_futex, &turn->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void turn_wait(struct turn *turn, uint32_t mine)
{
    uint32_t seen;
    while ((seen = atomic_load_explicit(&turn->word, memory_order_acquire)) != mine)
        syscall(SYS_futex, &turn->word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void bind_to_this_cpu(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    sched_setaffinity(0, sizeof(set), &set);
}

static pthread_t thread_new(void *(*fn)(void *), void *arg)
{
    pthread_t thread;
    int rc = pthread_create(&thread, NULL, fn, arg);
    if (rc != 0)
        case_na("pthread_create: %s", strerror(rc));
    return thread;
}

enum { MAIN = 1, OTHER = 2 };

struct thread_pair {
    struct turn turn;
    uintptr_t value;
};

static void *thread_answer_plus_one(void *arg)
{
    struct thread_pair *pair = arg;
    for (;;) {
        turn_wait(&pair->turn, OTHER);
        pair->value++;
        turn_give(&pair->turn, MAIN);
    }
    return NULL;
}

static void thread_pingpong(void *ctx, size_t n)
{
    struct thread_pair *pair = ctx;
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        pair->value = i;
        turn_give(&pair->turn, OTHER);
        turn_wait(&pair->turn, MAIN);
        sum += pair->value;
    }
    case_check_sum(sum, case_pingpong_sum(n));
}

static void run_thread_switch(double budget_ms)
{
    static struct thread_pair pair;
    bind_to_this_cpu();
    thread_new(thread_answer_plus_one, &pair);
    case_ok(case_time(budget_ms, thread_pingpong, &pair, 2), "handover=futex cpus=1");
}

static void *thread_give_back(void *arg)
{
    return arg;
}

static void thread_spawn(void *ctx, size_t n)
{
    uint64_t sum = 0;
    void *out;

    (void)ctx;
    for (size_t i = 0; i < n; i++) {
        pthread_join(thread_new(thread_give_back, (void *)(i + 1)), &out);
        sum += (uintptr_t)out;
    }
    case_check_sum(sum, case_pingpong_sum(n));
}

static void run_thread_spawn(double budget_ms)
{
    bind_to_this_cpu();
    case_ok(case_time(budget_ms, thread_spawn, NULL, 1), "cpus=1");
}

static struct turn live_turns[LIVE_COROUTINES];
static struct turn main_turn;

static void *thread_wait_once(void *arg)
{
    struct turn *turn = arg;
    turn_give(&main_turn, (uint32_t)(turn - live_turns) + 1);
    turn_wait(turn, OTHER);
    return (void *)1;
}

static void thread_spawn_live(void *ctx, size_t n)
{
    pthread_t *all = ctx;
    void *out;

    while (n--) {
        uint64_t sum = 0;
        for (size_t i = 0; i < LIVE_COROUTINES; i++) {
            live_turns[i].word = MAIN;
            all[i] = thread_new(thread_wait_once, &live_turns[i]);
            turn_wait(&main_turn, (uint32_t)i + 1);
        }
        for (size_t i = 0; i < LIVE_COROUTINES; i++) {
            turn_give(&live_turns[i], OTHER);
            pthread_join(all[i], &out);
            sum += (uintptr_t)out;
        }
        case_check_sum(sum, LIVE_COROUTINES);
    }
}

static void run_thread_spawn_live(double budget_ms)
{
    static pthread_t all[LIVE_COROUTINES];
    bind_to_this_cpu();
    case_ok(case_time(budget_ms, thread_spawn_live, all, LIVE_COROUTINES), "live=10000 cpus=1");
}

int main(int argc, char **argv)
{
    static const struct case_entry entries[] = {
        {"switch", "swapcontext", run_switch},        {"switch", "pthread", run_thread_switch},
        {"spawn", "swapcontext", run_spawn},          {"spawn", "pthread", run_thread_spawn},
        {"spawn-10k", "swapcontext", run_spawn_live}, {"spawn-10k", "pthread", run_thread_spawn_live},
        {"nested", "swapcontext", run_nested},
    };
    return case_main(argc, argv, entries, sizeof(entries) / sizeof(entries[0]));
}
