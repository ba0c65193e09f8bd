/*
 * case_posix.c: threads, with what the C library gives them: sem_t and mutexes.
 *
 * Where the others have one worker the threads are bound to one CPU: there a hand-over is a futex call and a switch in
 * the kernel, faster than waking another CPU. Where the others have two they are bound to two.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "../common/case.h"

#define LIVE 10000
#define YIELD_ROUNDS 64
#define LEAVES 1000 /* 1,111 threads; a million leaves would be more threads than a system has */
#define LEAVES_SUM 499500
#define LOCK_TURNS 256000
#define STACK_SIZE ((size_t)64 * 1024)

/* Binds the calling thread, and those that it makes from now on, to the one CPU that it is on or to `count`. */
static void bind_to_cpus(int count)
{
    cpu_set_t allowed, chosen;

    CPU_ZERO(&chosen);
    sched_getaffinity(0, sizeof(allowed), &allowed);
    if (count == 1)
        CPU_SET(sched_getcpu(), &chosen);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&chosen) < count; cpu++)
        if (CPU_ISSET(cpu, &allowed))
            CPU_SET(cpu, &chosen);
    if (CPU_COUNT(&chosen) < count)
        case_na("needs %d CPUs", count);
    sched_setaffinity(0, sizeof(chosen), &chosen);
}

static pthread_t thread_new(void *(*fn)(void *), void *arg)
{
    static pthread_attr_t attr;
    static bool has_attr;
    pthread_t thread;
    int rc;

    if (!has_attr) { /* by the main thread, before there is another */
        pthread_attr_init(&attr);
        pthread_attr_setstacksize(&attr, STACK_SIZE);
        has_attr = true;
    }
    rc = pthread_create(&thread, &attr, fn, arg);
    if (rc != 0)
        case_na("pthread_create: %s", strerror(rc));
    return thread;
}

/*
 * yield: the kernel need not switch, nor does it in turn. So all count, and a batch ends when they have done so many
 * together; the parameters say how many switches there were for one yield.
 */

static _Atomic uint64_t yields;

static void *yield_for_ever(void *arg)
{
    for (;;) {
        atomic_fetch_add_explicit(&yields, 1, memory_order_relaxed);
        sched_yield();
    }
    return arg;
}

static void yield(void *ctx, size_t n)
{
    uint64_t end = atomic_load(&yields) + n * *(size_t *)ctx * YIELD_ROUNDS;

    while (atomic_fetch_add_explicit(&yields, 1, memory_order_relaxed) < end)
        sched_yield();
}

static double switches(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_nvcsw + usage.ru_nivcsw);
}

static void run_yield_with(double budget_ms, size_t threads)
{
    char params[64];
    double value, before;

    bind_to_cpus(1);
    for (size_t k = 1; k < threads; k++)
        thread_new(yield_for_ever, NULL);
    before = switches();
    atomic_store(&yields, 0);
    value = case_time(budget_ms, yield, &threads, (double)threads * YIELD_ROUNDS);
    snprintf(params, sizeof(params), "cpus=1 switches=%.2f", (switches() - before) / (double)atomic_load(&yields));
    case_ok(value, params);
}

static void run_yield_2(double budget_ms)
{
    run_yield_with(budget_ms, 2);
}

static void run_yield_1000(double budget_ms)
{
    run_yield_with(budget_ms, 1000);
}

/* spawn-join */

static void *give_back(void *arg)
{
    return arg;
}

static void spawn_join(void *ctx, size_t n)
{
    uint64_t sum = 0;
    void *out;

    (void)ctx;
    for (size_t i = 0; i < n; i++) {
        pthread_join(thread_new(give_back, (void *)(i + 1)), &out);
        sum += (uintptr_t)out;
    }
    case_check_sum(sum, case_pingpong_sum(n));
}

static void run_spawn_join(double budget_ms)
{
    bind_to_cpus(1);
    case_ok(case_time(budget_ms, spawn_join, NULL, 1), "cpus=1");
}

static void spawn_join_live(void *ctx, size_t n)
{
    pthread_t *all = ctx;
    void *out;

    while (n--) {
        uint64_t sum = 0;
        for (size_t i = 0; i < LIVE; i++)
            all[i] = thread_new(give_back, (void *)(i + 1));
        for (size_t i = 0; i < LIVE; i++) {
            pthread_join(all[i], &out);
            sum += (uintptr_t)out;
        }
        case_check_sum(sum, case_pingpong_sum(LIVE));
    }
}

static void run_spawn_join_live(double budget_ms)
{
    static pthread_t all[LIVE];
    bind_to_cpus(1);
    case_ok(case_time(budget_ms, spawn_join_live, all, LIVE), "live=10000 cpus=1");
}

/*
 * chan: an unbuffered channel of one receiver. A sender that finds it waiting gives it the value; else it leaves an offer
 * and waits until that is taken. Who waits does so at a semaphore, which takes fewer system calls than a condition
 * variable. A sender may still be on its way out when its value is there, so a channel is released by the last who uses
 * it.
 */

struct offer {
    uint64_t value;
    struct offer *next;
    sem_t taken;
};

struct channel {
    pthread_mutex_t lock;
    uint64_t *wanted;            /* where the receiver that waits wants the value, or NULL. Guarded by: lock */
    struct offer *first, **last; /* guarded by: lock */
    sem_t given;
    _Atomic int users; /* who may still use it */
};

static struct channel *channel_new(int users)
{
    struct channel *c = malloc(sizeof(*c));
    if (!c)
        case_na("no memory for a channel");
    pthread_mutex_init(&c->lock, NULL);
    sem_init(&c->given, 0, 0);
    c->wanted = NULL;
    c->first = NULL;
    c->last = &c->first;
    atomic_init(&c->users, users);
    return c;
}

static void channel_leave(struct channel *c)
{
    if (atomic_fetch_sub(&c->users, 1) == 1)
        free(c);
}

static void channel_send(struct channel *c, uint64_t value)
{
    struct offer offer = {.value = value};

    pthread_mutex_lock(&c->lock);
    if (c->wanted) {
        *c->wanted = value;
        c->wanted = NULL;
        pthread_mutex_unlock(&c->lock);
        sem_post(&c->given);
        return;
    }
    sem_init(&offer.taken, 0, 0);
    *c->last = &offer;
    c->last = &offer.next;
    pthread_mutex_unlock(&c->lock);
    sem_wait(&offer.taken);
}

static uint64_t channel_receive(struct channel *c)
{
    struct offer *offer;
    uint64_t value;

    pthread_mutex_lock(&c->lock);
    offer = c->first;
    if (!offer) {
        c->wanted = &value;
        pthread_mutex_unlock(&c->lock);
        sem_wait(&c->given);
        return value;
    }
    c->first = offer->next;
    if (!c->first)
        c->last = &c->first;
    pthread_mutex_unlock(&c->lock);
    value = offer->value;
    sem_post(&offer->taken);
    return value;
}

static struct channel *there, *back;

static void *answer_plus_one(void *arg)
{
    for (;;)
        channel_send(back, channel_receive(there) + 1);
    return arg;
}

static void pingpong(void *ctx, size_t n)
{
    uint64_t sum = 0;

    (void)ctx;
    for (size_t i = 0; i < n; i++) {
        channel_send(there, i);
        sum += channel_receive(back);
    }
    case_check_sum(sum, case_pingpong_sum(n));
}

static void run_chan(double budget_ms)
{
    bind_to_cpus(1);
    there = channel_new(2);
    back = channel_new(2);
    thread_new(answer_plus_one, NULL);
    case_ok(case_time(budget_ms, pingpong, NULL, 2), "channel=mutex+sem_t cpus=1");
}

/* sem and wake */

static sem_t main_waits, other_waits;
static uint64_t shared_value;

static void *post_plus_one(void *arg)
{
    if (arg)
        sched_setaffinity(0, sizeof(cpu_set_t), arg);
    for (;;) {
        sem_wait(&other_waits);
        shared_value++;
        sem_post(&main_waits);
    }
    return NULL;
}

static void post_and_wait(void *ctx, size_t n)
{
    uint64_t sum = 0;

    (void)ctx;
    for (size_t i = 0; i < n; i++) {
        shared_value = i;
        sem_post(&other_waits);
        sem_wait(&main_waits);
        sum += shared_value;
    }
    case_check_sum(sum, case_pingpong_sum(n));
}

static void run_sem(double budget_ms)
{
    bind_to_cpus(1);
    thread_new(post_plus_one, NULL);
    case_ok(case_time(budget_ms, post_and_wait, NULL, 2), "semaphore=sem_t cpus=1");
}

static void run_wake(double budget_ms)
{
    bind_to_cpus(2);
    thread_new(post_plus_one, NULL);
    case_ok(case_time(budget_ms, post_and_wait, NULL, 2), "semaphore=sem_t placed=kernel");
}

static void run_wake_apart(double budget_ms)
{
    static cpu_set_t other;

    bind_to_cpus(2);
    sched_getaffinity(0, sizeof(other), &other);
    bind_to_cpus(1);
    CPU_CLR(sched_getcpu(), &other);
    thread_new(post_plus_one, &other);
    case_ok(case_time(budget_ms, post_and_wait, NULL, 2), "semaphore=sem_t placed=apart");
}

/* skynet */

struct node {
    struct channel *parent;
    size_t ordinal, size;
};

static void *skynet(void *arg);

/* `node` must stay until its sum is received. */
static void node_start(struct node *node)
{
    pthread_detach(thread_new(skynet, node));
}

static uint64_t sum_of_children(const struct node *node)
{
    struct channel *sums = channel_new(11);
    struct node children[10];
    uint64_t sum = 0;

    for (size_t i = 0; i < 10; i++) {
        children[i] = (struct node){sums, node->ordinal + i * (node->size / 10), node->size / 10};
        node_start(&children[i]);
    }
    for (size_t i = 0; i < 10; i++)
        sum += channel_receive(sums);
    channel_leave(sums);
    return sum;
}

static void *skynet(void *arg)
{
    const struct node *node = arg;
    struct channel *parent = node->parent;

    channel_send(parent, node->size == 1 ? node->ordinal : sum_of_children(node));
    channel_leave(parent);
    return NULL;
}

static void grow_skynet(void *ctx, size_t n)
{
    (void)ctx;
    while (n--) {
        struct node root = {channel_new(2), 0, LEAVES};
        node_start(&root);
        case_check_sum(channel_receive(root.parent), LEAVES_SUM);
        channel_leave(root.parent);
    }
}

static void run_skynet_1(double budget_ms)
{
    bind_to_cpus(1);
    case_ok(case_time(budget_ms, grow_skynet, NULL, LEAVES), "leaves=1000 channel=mutex+sem_t cpus=1");
}

static void run_skynet_2(double budget_ms)
{
    bind_to_cpus(2);
    case_ok(case_time(budget_ms, grow_skynet, NULL, LEAVES), "leaves=1000 channel=mutex+sem_t cpus=2");
}

/* sleepers */

static void run_sleepers(double budget_ms)
{
    (void)budget_ms;
    case_na("100,000 threads are more than pid_max, max_map_count or the cgroup usually allow");
}

/*
 * mutex: the threads stay, and meet the main thread at a barrier before and after a batch. Nobody locks before all have
 * left it; else the first would be done before the others are awake.
 */

static struct {
    pthread_mutex_t mutex;
    pthread_barrier_t barrier;
    uint64_t counter, expected; /* guarded by: mutex; between batches the main thread's */
    size_t threads, turns;      /* set by the main thread between batches */
    _Atomic size_t arrived;
} contention = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void *lock_in_turn(void *arg)
{
    for (;;) {
        pthread_barrier_wait(&contention.barrier);
        atomic_fetch_add(&contention.arrived, 1);
        while (atomic_load(&contention.arrived) < contention.threads)
            sched_yield();
        for (size_t turn = 0; turn < contention.turns; turn++) {
            pthread_mutex_lock(&contention.mutex);
            contention.counter++;
            pthread_mutex_unlock(&contention.mutex);
        }
        pthread_barrier_wait(&contention.barrier);
    }
    return arg;
}

static void contend(void *ctx, size_t n)
{
    (void)ctx;
    contention.turns = n * LOCK_TURNS / contention.threads;
    atomic_store(&contention.arrived, 0);
    pthread_barrier_wait(&contention.barrier);
    pthread_barrier_wait(&contention.barrier);
    contention.expected += contention.turns * contention.threads;
    case_check_sum(contention.counter, contention.expected);
}

static void run_mutex_with(double budget_ms, size_t threads)
{
    bind_to_cpus(2);
    contention.threads = threads;
    pthread_barrier_init(&contention.barrier, NULL, (unsigned)threads + 1);
    for (size_t k = 0; k < threads; k++)
        thread_new(lock_in_turn, NULL);
    case_ok(case_time(budget_ms, contend, NULL, LOCK_TURNS), "cpus=2");
}

static void run_mutex_1(double budget_ms)
{
    run_mutex_with(budget_ms, 1);
}

static void run_mutex_4(double budget_ms)
{
    run_mutex_with(budget_ms, 4);
}

static void run_mutex_16(double budget_ms)
{
    run_mutex_with(budget_ms, 16);
}

static void run_mutex_64(double budget_ms)
{
    run_mutex_with(budget_ms, 64);
}

int main(int argc, char **argv)
{
    static const struct case_entry entries[] = {
        {"yield-2", "pthread", run_yield_2},
        {"yield-1000", "pthread", run_yield_1000},
        {"spawn-join", "pthread", run_spawn_join},
        {"spawn-join-10k", "pthread", run_spawn_join_live},
        {"chan", "pthread", run_chan},
        {"sem", "pthread", run_sem},
        {"skynet-1", "pthread", run_skynet_1},
        {"skynet-2", "pthread", run_skynet_2},
        {"wake", "pthread", run_wake},
        {"wake", "pthread-apart", run_wake_apart},
        {"sleepers-p99", "pthread", run_sleepers},
        {"sleepers-cpu", "pthread", run_sleepers},
        {"mutex-1", "pthread", run_mutex_1},
        {"mutex-4", "pthread", run_mutex_4},
        {"mutex-16", "pthread", run_mutex_16},
        {"mutex-64", "pthread", run_mutex_64},
    };
    return case_main(argc, argv, entries, sizeof(entries) / sizeof(entries[0]));
}
