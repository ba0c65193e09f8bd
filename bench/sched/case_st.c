/*
 * case_st.c: State Threads, whose threads are scheduled on one system thread, in turn.
 *
 * It has neither a yield nor semaphores nor channels. What hands over here is its condition variable: a signal makes the
 * waiting thread ready, a wait switches to the next ready one. Nothing is preempted, so a flag and a condition variable
 * are a whole channel. What needs two workers it cannot do.
 */
#include <st.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../common/case.h"
#include "../common/fair.h"
#include "../common/sleepers.h"

#define LIVE 10000
#define YIELDERS_MAX 1000
#define LEAVES 1000000
#define LEAVES_SUM 499999500000

static void start_library(void)
{
    if (st_init() != 0)
        case_na("st_init: %s", strerror(errno));
}

static st_thread_t thread_new(void *(*fn)(void *), void *arg, int joinable, int stack)
{
    st_thread_t thread = st_thread_create(fn, arg, joinable, stack);
    if (!thread)
        case_na("st_thread_create: %s", strerror(errno));
    return thread;
}

/* yield: a ring, in which each wakes the next and waits; that is one switch, to the one that was woken. */

static struct {
    st_cond_t turn[YIELDERS_MAX];
    size_t yields[YIELDERS_MAX];
    size_t count;
} ring;

static inline void yield_to_next(size_t me)
{
    ring.yields[me]++;
    st_cond_signal(ring.turn[me + 1 == ring.count ? 0 : me + 1]);
    st_cond_wait(ring.turn[me]);
}

static void *yield_for_ever(void *arg)
{
    size_t me = (uintptr_t)arg;

    st_cond_wait(ring.turn[me]);
    for (;;)
        yield_to_next(me);
    return NULL;
}

static void yield(void *ctx, size_t n)
{
    (void)ctx;
    memset(ring.yields, 0, sizeof(ring.yields));
    for (size_t i = 0; i < n; i++)
        yield_to_next(0);
    for (size_t k = 0; k < ring.count; k++)
        case_check_sum(ring.yields[k], n);
}

static void run_yield_with(double budget_ms, size_t count)
{
    start_library();
    ring.count = count;
    for (size_t k = 0; k < count; k++)
        ring.turn[k] = st_cond_new();
    for (size_t k = 1; k < count; k++)
        thread_new(yield_for_ever, (void *)k, 0, 0);
    st_usleep(0); /* they run until they wait */
    case_ok(case_time(budget_ms, yield, NULL, (double)count), "handover=cond");
}

static void run_yield_2(double budget_ms)
{
    run_yield_with(budget_ms, 2);
}

static void run_yield_1000(double budget_ms)
{
    run_yield_with(budget_ms, YIELDERS_MAX);
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
        st_thread_join(thread_new(give_back, (void *)(i + 1), 1, 0), &out);
        sum += (uintptr_t)out;
    }
    case_check_sum(sum, case_pingpong_sum(n));
}

static void run_spawn_join(double budget_ms)
{
    start_library();
    case_ok(case_time(budget_ms, spawn_join, NULL, 1), "");
}

static void spawn_join_live(void *ctx, size_t n)
{
    st_thread_t *all = ctx;
    void *out;

    while (n--) {
        uint64_t sum = 0;
        for (size_t i = 0; i < LIVE; i++)
            all[i] = thread_new(give_back, (void *)(i + 1), 1, 0);
        for (size_t i = 0; i < LIVE; i++) {
            st_thread_join(all[i], &out);
            sum += (uintptr_t)out;
        }
        case_check_sum(sum, case_pingpong_sum(LIVE));
    }
}

static void run_spawn_join_live(double budget_ms)
{
    static st_thread_t all[LIVE];
    start_library();
    case_ok(case_time(budget_ms, spawn_join_live, all, LIVE), "live=10000");
}

/*
 * chan: an unbuffered channel of one receiver. A sender that finds it waiting gives it the value; else it leaves an offer
 * and waits until that is taken. One that was woken still stands in its condition variable's queue until it runs, so a
 * channel is released by the last who uses it.
 */

struct offer {
    uint64_t value;
    struct offer *next;
};

struct channel {
    st_cond_t receiver, senders; /* those who wait */
    uint64_t *wanted;            /* where the receiver that waits wants the value; NULL: none waits */
    struct offer *first, **last; /* in the order in which their senders wait */
    size_t users;                /* who may still use it */
};

static struct channel *channel_new(size_t users)
{
    struct channel *c = malloc(sizeof(*c));
    if (!c || !(c->receiver = st_cond_new()) || !(c->senders = st_cond_new()))
        case_na("no memory for a channel");
    c->wanted = NULL;
    c->first = NULL;
    c->last = &c->first;
    c->users = users;
    return c;
}

static void channel_leave(struct channel *c)
{
    if (--c->users > 0)
        return;
    if (st_cond_destroy(c->receiver) != 0 || st_cond_destroy(c->senders) != 0)
        case_fail("somebody still waits for a channel");
    free(c);
}

static inline void channel_send(struct channel *c, uint64_t value)
{
    struct offer offer = {value, NULL};

    if (c->wanted) {
        *c->wanted = value;
        c->wanted = NULL;
        st_cond_signal(c->receiver);
        return;
    }
    *c->last = &offer;
    c->last = &offer.next;
    st_cond_wait(c->senders);
}

static inline uint64_t channel_receive(struct channel *c)
{
    uint64_t value;

    if (c->first) {
        value = c->first->value;
        c->first = c->first->next;
        if (!c->first)
            c->last = &c->first;
        st_cond_signal(c->senders);
        return value;
    }
    c->wanted = &value;
    st_cond_wait(c->receiver);
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
    start_library();
    there = channel_new(2);
    back = channel_new(2);
    thread_new(answer_plus_one, NULL, 0, 0);
    case_ok(case_time(budget_ms, pingpong, NULL, 2), "channel=cond");
}

/* sem: signal and wait on two condition variables */

static st_cond_t main_waits, other_waits;
static uint64_t shared_value;

static void *signal_plus_one(void *arg)
{
    for (;;) {
        st_cond_wait(other_waits);
        shared_value++;
        st_cond_signal(main_waits);
    }
    return arg;
}

static void signal_and_wait(void *ctx, size_t n)
{
    uint64_t sum = 0;

    (void)ctx;
    for (size_t i = 0; i < n; i++) {
        shared_value = i;
        st_cond_signal(other_waits);
        st_cond_wait(main_waits);
        sum += shared_value;
    }
    case_check_sum(sum, case_pingpong_sum(n));
}

static void run_sem(double budget_ms)
{
    start_library();
    main_waits = st_cond_new();
    other_waits = st_cond_new();
    thread_new(signal_plus_one, NULL, 0, 0);
    st_usleep(0); /* it runs until it waits */
    case_ok(case_time(budget_ms, signal_and_wait, NULL, 2), "semaphore=cond");
}

/* skynet */

struct node {
    struct channel *parent;
    size_t ordinal, size;
};

static size_t nodes_made;

static void *skynet(void *arg);

/* `node` must stay until its sum is received. */
static void node_start(struct node *node)
{
    case_check_memory(nodes_made++);
    thread_new(skynet, node, 0, 0);
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
        nodes_made = 0;
        node_start(&root);
        case_check_sum(channel_receive(root.parent), LEAVES_SUM);
        channel_leave(root.parent);
    }
}

static void run_skynet(double budget_ms)
{
    start_library();
    case_ok(case_time(budget_ms, grow_skynet, NULL, LEAVES), "leaves=1000000 channel=cond");
}

/*
 * sleepers: a sleep counts from when the scheduler last looked at the clock, which it does when nobody is ready; st_usleep
 * lets it. So they wake a little early; if the maker did not give way, by half a second.
 */

static st_cond_t all_woken;
static size_t asleep = SLEEPERS;

static void *sleep_once(void *arg)
{
    size_t i = (uintptr_t)arg;

    sleeper_start(i);
    st_usleep(sleeper_us(i));
    sleeper_woke(i);
    if (--asleep == 0)
        st_cond_signal(all_woken);
    return NULL;
}

static void run_sleepers_with(enum sleepers_figure figure)
{
    start_library();
    all_woken = st_cond_new();
    sleepers_begin();
    for (size_t i = 0; i < SLEEPERS; i++) {
        thread_new(sleep_once, (void *)i, 0, 0);
        st_usleep(0);
    }
    st_cond_wait(all_woken);
    sleepers_answer(figure, false);
}

static void run_sleepers_p99(double budget_ms)
{
    (void)budget_ms;
    run_sleepers_with(SLEEPERS_P99);
}

static void run_sleepers_cpu(double budget_ms)
{
    (void)budget_ms;
    run_sleepers_with(SLEEPERS_CPU);
}

/* fair: the neighbour gives way by a sleep of nothing, which lets the scheduler look at the clock. */

static int64_t sleeps_until;

static bool has_slept;

static void *sleep_beside(void *arg)
{
    do {
        int64_t us = fair_span_us(), due = fair_now() + us * 1000;
        st_usleep((st_utime_t)us);
        fair_late(fair_now() - due);
    } while (fair_now() < sleeps_until);
    has_slept = true;
    return arg;
}

static void run_fair_sleep(double budget_ms)
{
    start_library();
    sleeps_until = fair_now() + (int64_t)(budget_ms * 1e6);
    fair_begin(0);
    thread_new(sleep_beside, NULL, 0, 0);
    while (!has_slept) {
        fair_compute();
        st_usleep(0);
    }
    fair_end(0);
    fair_answer(false, "");
}

static void need_two_workers(double budget_ms)
{
    (void)budget_ms;
    case_na("all of State Threads runs on one system thread");
}

int main(int argc, char **argv)
{
    static const struct case_entry entries[] = {
        {"yield-2", "state-threads", run_yield_2},
        {"yield-1000", "state-threads", run_yield_1000},
        {"spawn-join", "state-threads", run_spawn_join},
        {"spawn-join-10k", "state-threads", run_spawn_join_live},
        {"chan", "state-threads", run_chan},
        {"sem", "state-threads", run_sem},
        {"skynet-1", "state-threads", run_skynet},
        {"skynet-2", "state-threads", need_two_workers},
        {"wake", "state-threads", need_two_workers},
        {"sleepers-p99", "state-threads", run_sleepers_p99},
        {"sleepers-cpu", "state-threads", run_sleepers_cpu},
        {"fair-0.1", "st-sleep", run_fair_sleep},
        {"fair-0.5", "st-sleep", run_fair_sleep},
        {"fair-5", "st-sleep", run_fair_sleep},
        {"mutex-1", "state-threads", need_two_workers},
        {"mutex-4", "state-threads", need_two_workers},
        {"mutex-16", "state-threads", need_two_workers},
        {"mutex-64", "state-threads", need_two_workers},
    };
    fair_open(argc, argv);
    return case_main(argc, argv, entries, sizeof(entries) / sizeof(entries[0]));
}
