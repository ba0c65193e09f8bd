/*
 * case_weft.c: weft's side of bench-sched, by plain calls of the public API, on libweft.so.
 *
 * Every bench is the first fiber of a weft_run with one worker, or with two where its title says so.
 */
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>

#include "../common/case.h"
#include "../common/sleepers.h"
#include <weft/chan.h>
#include <weft/fiber.h>
#include <weft/sched.h>
#include <weft/sync.h>

#define LIVE 10000
#define YIELDERS_MAX 1000
#define LEAVES 1000000
#define LEAVES_SUM 499999500000
#define STARVED 12000
#define LOCK_TURNS 256000
#define LOCKERS_MAX 64

static inline void must(int rc, const char *what)
{
    if (rc != 0)
        case_fail("%s: %s", what, strerror(-rc));
}

/* The first fiber of a run; `what` is the bench's own. */
static void run_first(unsigned workers, weft_fn *first, void *what)
{
    weft_sched_opts opts = {.size = sizeof(opts), .threads = workers};
    must(weft_run(first, what, NULL, &opts), "weft_run");
}

static weft_fiber *spawn_on(int worker, weft_fn *fn, void *arg)
{
    weft_attr attr = {.size = sizeof(attr), .worker = worker};
    weft_fiber *f;
    must(weft_go_with(&f, &attr, fn, arg), "weft_go_with");
    return f;
}

static inline weft_fiber *spawn(weft_fn *fn, void *arg)
{
    weft_fiber *f;
    must(weft_go_with(&f, NULL, fn, arg), "weft_go_with");
    return f;
}

static inline void *join(weft_fiber *f)
{
    void *value;
    must(weft_join(f, &value, WEFT_FOREVER), "weft_join");
    return value;
}

/* yield */

static struct {
    size_t yields[YIELDERS_MAX];
    size_t count;
    bool end;
} yielders;

static void *yield_until_end(void *arg)
{
    size_t *yields = arg;

    while (!yielders.end) {
        (*yields)++;
        weft_yield();
    }
    return NULL;
}

static void yield(void *ctx, size_t n)
{
    (void)ctx;
    memset(yielders.yields, 0, sizeof(yielders.yields));
    for (size_t i = 0; i < n; i++)
        weft_yield();
    for (size_t k = 1; k < yielders.count; k++)
        case_check_sum(yielders.yields[k], n);
}

static void *first_yielder(void *budget_ms)
{
    for (size_t k = 1; k < yielders.count; k++)
        must(weft_go(yield_until_end, &yielders.yields[k]), "weft_go");
    case_ok(case_time(*(double *)budget_ms, yield, NULL, (double)yielders.count), "");
    yielders.end = true;
    return NULL;
}

static void run_yield_2(double budget_ms)
{
    yielders.count = 2;
    run_first(1, first_yielder, &budget_ms);
}

static void run_yield_1000(double budget_ms)
{
    yielders.count = YIELDERS_MAX;
    run_first(1, first_yielder, &budget_ms);
}

/* spawn-join */

static void *give_back(void *arg)
{
    return arg;
}

static void spawn_join(void *ctx, size_t n)
{
    uint64_t sum = 0;

    (void)ctx;
    for (size_t i = 0; i < n; i++)
        sum += (uintptr_t)join(spawn(give_back, (void *)(i + 1)));
    case_check_sum(sum, case_pingpong_sum(n));
}

static void *first_spawner(void *budget_ms)
{
    case_ok(case_time(*(double *)budget_ms, spawn_join, NULL, 1), "");
    return NULL;
}

static void run_spawn_join(double budget_ms)
{
    run_first(1, first_spawner, &budget_ms);
}

static void spawn_join_live(void *ctx, size_t n)
{
    weft_fiber **all = ctx;

    while (n--) {
        uint64_t sum = 0;
        for (size_t i = 0; i < LIVE; i++)
            all[i] = spawn(give_back, (void *)(i + 1));
        for (size_t i = 0; i < LIVE; i++)
            sum += (uintptr_t)join(all[i]);
        case_check_sum(sum, case_pingpong_sum(LIVE));
    }
}

static void *first_live_spawner(void *budget_ms)
{
    static weft_fiber *all[LIVE];
    case_ok(case_time(*(double *)budget_ms, spawn_join_live, all, LIVE), "live=10000");
    return NULL;
}

static void run_spawn_join_live(double budget_ms)
{
    run_first(1, first_live_spawner, &budget_ms);
}

/* chan */

static weft_chan *there, *back;

static weft_chan *channel(void)
{
    weft_chan *c;
    must(weft_chan_new(&c, sizeof(uint64_t), 0), "weft_chan_new");
    return c;
}

static void *answer_plus_one(void *arg)
{
    uint64_t value;

    while (weft_chan_recv(there, &value, WEFT_FOREVER) == 0) {
        value++;
        weft_chan_send(back, &value, WEFT_FOREVER);
    }
    return arg;
}

static void pingpong(void *ctx, size_t n)
{
    uint64_t sum = 0, value;

    (void)ctx;
    for (size_t i = 0; i < n; i++) {
        value = i;
        weft_chan_send(there, &value, WEFT_FOREVER);
        weft_chan_recv(back, &value, WEFT_FOREVER);
        sum += value;
    }
    case_check_sum(sum, case_pingpong_sum(n));
}

static void *first_pingpong(void *budget_ms)
{
    weft_fiber *other;

    there = channel();
    back = channel();
    other = spawn(answer_plus_one, NULL);
    case_ok(case_time(*(double *)budget_ms, pingpong, NULL, 2), "");
    must(weft_chan_close(there), "weft_chan_close");
    join(other);
    must(weft_chan_free(there), "weft_chan_free");
    must(weft_chan_free(back), "weft_chan_free");
    return NULL;
}

static void run_chan(double budget_ms)
{
    run_first(1, first_pingpong, &budget_ms);
}

/* sem and wake */

static struct {
    weft_sem there, back;
    uint64_t value;
    bool end;
} posts;

static void *post_plus_one(void *arg)
{
    for (;;) {
        weft_sem_wait(&posts.there, WEFT_FOREVER);
        if (posts.end)
            return arg;
        posts.value++;
        weft_sem_post(&posts.back);
    }
}

static void post_and_wait(void *ctx, size_t n)
{
    uint64_t sum = 0;

    (void)ctx;
    for (size_t i = 0; i < n; i++) {
        posts.value = i;
        weft_sem_post(&posts.there);
        weft_sem_wait(&posts.back, WEFT_FOREVER);
        sum += posts.value;
    }
    case_check_sum(sum, case_pingpong_sum(n));
}

static void *time_posts(void *budget_ms)
{
    case_ok(case_time(*(double *)budget_ms, post_and_wait, NULL, 2), "");
    posts.end = true;
    weft_sem_post(&posts.there);
    return NULL;
}

static void *first_poster(void *budget_ms)
{
    weft_fiber *other = spawn(post_plus_one, NULL);
    time_posts(budget_ms);
    return join(other);
}

static void run_sem(double budget_ms)
{
    run_first(1, first_poster, &budget_ms);
}

static void *first_waker(void *budget_ms)
{
    weft_fiber *other = spawn_on(WEFT_WORKER(1), post_plus_one, NULL);
    join(spawn_on(WEFT_WORKER(0), time_posts, budget_ms));
    return join(other);
}

static void run_wake(double budget_ms)
{
    run_first(2, first_waker, &budget_ms);
}

/* skynet. A parent's frame holds what its children are to do: it stays until it has had their sums. */

struct node {
    weft_chan *parent;
    size_t ordinal, size;
};

static void *skynet(void *arg);

static uint64_t sum_of_children(const struct node *node)
{
    weft_chan *sums = channel();
    struct node children[10];
    uint64_t sum = 0, value;

    for (size_t i = 0; i < 10; i++) {
        children[i] = (struct node){sums, node->ordinal + i * (node->size / 10), node->size / 10};
        must(weft_go(skynet, &children[i]), "weft_go");
    }
    for (size_t i = 0; i < 10; i++) {
        must(weft_chan_recv(sums, &value, WEFT_FOREVER), "weft_chan_recv");
        sum += value;
    }
    must(weft_chan_free(sums), "weft_chan_free");
    return sum;
}

static void *skynet(void *arg)
{
    const struct node *node = arg;
    uint64_t value = node->size == 1 ? node->ordinal : sum_of_children(node);

    must(weft_chan_send(node->parent, &value, WEFT_FOREVER), "weft_chan_send");
    return NULL;
}

static void grow_skynet(void *ctx, size_t n)
{
    (void)ctx;
    while (n--) {
        struct node root = {channel(), 0, LEAVES};
        uint64_t sum;
        must(weft_go(skynet, &root), "weft_go");
        must(weft_chan_recv(root.parent, &sum, WEFT_FOREVER), "weft_chan_recv");
        case_check_sum(sum, LEAVES_SUM);
        must(weft_chan_free(root.parent), "weft_chan_free");
    }
}

static void *first_node(void *budget_ms)
{
    case_ok(case_time(*(double *)budget_ms, grow_skynet, NULL, LEAVES), "leaves=1000000");
    return NULL;
}

static void run_skynet_1(double budget_ms)
{
    run_first(1, first_node, &budget_ms);
}

static void run_skynet_2(double budget_ms)
{
    run_first(2, first_node, &budget_ms);
}

/* sleepers */

static weft_waitgroup asleep;

static void *sleep_once(void *arg)
{
    size_t i = (uintptr_t)arg;

    sleeper_start(i);
    must(weft_sleep((weft_span)sleeper_us(i) * WEFT_US), "weft_sleep");
    sleeper_woke(i);
    weft_waitgroup_done(&asleep);
    return NULL;
}

static void *first_sleeper(void *figure)
{
    weft_waitgroup_add(&asleep, SLEEPERS);
    sleepers_begin();
    for (size_t i = 0; i < SLEEPERS; i++) {
        must(weft_go(sleep_once, (void *)i), "weft_go");
        weft_yield();
    }
    must(weft_waitgroup_wait(&asleep, WEFT_FOREVER), "weft_waitgroup_wait");
    sleepers_answer(*(enum sleepers_figure *)figure, true);
    return NULL;
}

static void run_sleepers_p99(double budget_ms)
{
    enum sleepers_figure figure = SLEEPERS_P99;
    (void)budget_ms;
    run_first(1, first_sleeper, &figure);
}

static void run_sleepers_cpu(double budget_ms)
{
    enum sleepers_figure figure = SLEEPERS_CPU;
    (void)budget_ms;
    run_first(1, first_sleeper, &figure);
}

/* starved: while the process may map nothing, no fiber can have a stack of a size that was not used before. */

static void *count_itself(void *count)
{
    (*(size_t *)count)++;
    return NULL;
}

static double worst_lateness_us(void)
{
    weft_span worst = 0;

    for (int i = 0; i < 50; i++) {
        weft_time due = weft_in(WEFT_MS);
        must(weft_sleep_until(due), "weft_sleep_until");
        weft_span late = weft_now().ns - due.ns;
        worst = late > worst ? late : worst;
    }
    return (double)worst / WEFT_US;
}

static void *first_starver(void *arg)
{
    weft_attr attr = {.size = sizeof(attr), .stack = 3 << 20};
    struct rlimit before, none;
    size_t ran = 0;

    (void)arg;
    for (size_t i = 0; i < STARVED; i++)
        must(weft_go_with(NULL, &attr, count_itself, &ran), "weft_go_with");
    getrlimit(RLIMIT_AS, &before);
    none = (struct rlimit){.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
    setrlimit(RLIMIT_AS, &none);
    double worst = worst_lateness_us();
    setrlimit(RLIMIT_AS, &before);
    case_check_sum(ran, 0);
    while (ran < STARVED)
        must(weft_sleep(WEFT_MS), "weft_sleep");
    case_ok(worst, "starved=12000");
    return NULL;
}

static void run_starved(double budget_ms)
{
    (void)budget_ms;
    run_first(1, first_starver, NULL);
}

/*
 * mutex: half of the fibers on each worker. Nobody locks before all are there; else the first would be done before the
 * other worker is awake.
 */

static struct {
    weft_mutex mutex;
    uint64_t counter, expected; /* guarded by: mutex; between batches the first fiber's */
    size_t fibers, turns;       /* set by the first fiber between batches */
    _Atomic size_t arrived;
} contention;

static void *lock_in_turn(void *arg)
{
    atomic_fetch_add(&contention.arrived, 1);
    while (atomic_load(&contention.arrived) < contention.fibers)
        weft_yield();
    for (size_t turn = 0; turn < contention.turns; turn++) {
        weft_mutex_lock(&contention.mutex, WEFT_FOREVER);
        contention.counter++;
        weft_mutex_unlock(&contention.mutex);
    }
    return arg;
}

static void contend(void *ctx, size_t n)
{
    weft_fiber *all[LOCKERS_MAX];

    (void)ctx;
    contention.turns = n * LOCK_TURNS / contention.fibers;
    atomic_store(&contention.arrived, 0);
    for (size_t i = 0; i < contention.fibers; i++)
        all[i] = spawn_on(WEFT_WORKER(i % 2), lock_in_turn, NULL);
    for (size_t i = 0; i < contention.fibers; i++)
        join(all[i]);
    contention.expected += contention.turns * contention.fibers;
    case_check_sum(contention.counter, contention.expected);
}

static void *first_locker(void *budget_ms)
{
    case_ok(case_time(*(double *)budget_ms, contend, NULL, LOCK_TURNS), "workers=2");
    return NULL;
}

static void run_mutex_with(double budget_ms, size_t fibers)
{
    contention.fibers = fibers;
    run_first(2, first_locker, &budget_ms);
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
        {"yield-2", "weft", run_yield_2},
        {"yield-1000", "weft", run_yield_1000},
        {"spawn-join", "weft", run_spawn_join},
        {"spawn-join-10k", "weft", run_spawn_join_live},
        {"chan", "weft", run_chan},
        {"sem", "weft", run_sem},
        {"skynet-1", "weft", run_skynet_1},
        {"skynet-2", "weft", run_skynet_2},
        {"wake", "weft", run_wake},
        {"sleepers-p99", "weft", run_sleepers_p99},
        {"sleepers-cpu", "weft", run_sleepers_cpu},
        {"starved", "weft", run_starved},
        {"mutex-1", "weft", run_mutex_1},
        {"mutex-4", "weft", run_mutex_4},
        {"mutex-16", "weft", run_mutex_16},
        {"mutex-64", "weft", run_mutex_64},
    };
    return case_main(argc, argv, entries, sizeof(entries) / sizeof(entries[0]));
}
