/*
 * case_weft.c: weft's side of bench-task, by plain calls of the public API, on libweft.so.
 *
 * Every bench is the first fiber of a weft_run with one worker, or with two where its name ends with -2.
 */
#include <errno.h>
#include <string.h>

#include "../common/case.h"
#include <weft/fiber.h>
#include <weft/sched.h>
#include <weft/scope.h>
#include <weft/sync.h>
#include <weft/task.h>

#define CHILDREN 1000

static inline void must(int rc, const char *what)
{
    if (rc != 0)
        case_fail("%s: %s", what, strerror(-rc));
}

static void must_be(int rc, int expected, const char *what)
{
    if (rc != expected)
        case_fail("%s returned %d, expected %d", what, rc, expected);
}

/* A batch, and what its first fiber needs to time it. */
struct timing {
    double budget_ms;
    case_batch *batch;
    double per;
};

static void *first_timer(void *arg)
{
    struct timing *t = arg;
    case_ok(case_time(t->budget_ms, t->batch, NULL, t->per), "");
    return NULL;
}

static void run_first(unsigned workers, weft_fn *first, void *what)
{
    weft_sched_opts opts = {.size = sizeof(opts), .threads = workers};
    must(weft_run(first, what, NULL, &opts), "weft_run");
}

static void run_batches(double budget_ms, unsigned workers, case_batch *batch, double per)
{
    struct timing t = {.budget_ms = budget_ms, .batch = batch, .per = per};
    run_first(workers, first_timer, &t);
}

/* spawn-join, the yardstick */

static void *give_back(void *arg)
{
    return arg;
}

static inline weft_fiber *spawn(void *arg)
{
    weft_fiber *f;
    must(weft_go_with(&f, NULL, give_back, arg), "weft_go_with");
    return f;
}

static inline uint64_t join(weft_fiber *f)
{
    void *value;
    must(weft_join(f, &value, WEFT_FOREVER), "weft_join");
    return (uintptr_t)value;
}

static void spawn_join(void *ctx, size_t n)
{
    uint64_t sum = 0;

    (void)ctx;
    for (size_t i = 0; i < n; i++)
        sum += join(spawn((void *)(i + 1)));
    case_check_sum(sum, case_pingpong_sum(n));
}

static void run_spawn_join(double budget_ms)
{
    run_batches(budget_ms, 1, spawn_join, 1);
}

/* As many fibers alive at once as a scope of scope-1000 has: what of its cost is not the scope's. */
static void join_all(void *ctx, size_t n)
{
    static weft_fiber *all[CHILDREN];

    (void)ctx;
    while (n--) {
        uint64_t sum = 0;
        for (size_t i = 0; i < CHILDREN; i++)
            all[i] = spawn((void *)(i + 1));
        for (size_t i = 0; i < CHILDREN; i++)
            sum += join(all[i]);
        case_check_sum(sum, case_pingpong_sum(CHILDREN));
    }
}

static void run_join_all(double budget_ms)
{
    run_batches(budget_ms, 1, join_all, CHILDREN);
}

static void run_join_all_2(double budget_ms)
{
    run_batches(budget_ms, 2, join_all, CHILDREN);
}

/* scope-1000 */

/* What the children leave, each in its own place: with two workers they run at the same time. */
static uint64_t results[CHILDREN];

static void check_results(void)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < CHILDREN; i++) {
        sum += results[i];
        results[i] = 0;
    }
    case_check_sum(sum, case_pingpong_sum(CHILDREN));
}

static int leave_result(void *place)
{
    uint64_t *result = place;
    *result = (uint64_t)(result - results) + 1;
    return 0;
}

static void scope_1000(void *ctx, size_t n)
{
    (void)ctx;
    while (n--) {
        weft_scope s = {0};
        must(weft_scope_open(&s, NULL), "weft_scope_open");
        for (size_t i = 0; i < CHILDREN; i++)
            must(weft_scope_go(&s, leave_result, &results[i]), "weft_scope_go");
        must(weft_scope_wait(&s), "weft_scope_wait");
        must(weft_scope_close(&s), "weft_scope_close");
        check_results();
    }
}

static void run_scope(double budget_ms)
{
    run_batches(budget_ms, 1, scope_1000, CHILDREN);
}

static void run_scope_2(double budget_ms)
{
    run_batches(budget_ms, 2, scope_1000, CHILDREN);
}

/* scope-deadline */

static void scope_of_one(weft_time deadline)
{
    weft_scope_opts opts = {.size = sizeof(opts), .deadline = deadline};
    weft_scope s = {0};

    must(weft_scope_open(&s, &opts), "weft_scope_open");
    must(weft_scope_go(&s, leave_result, &results[0]), "weft_scope_go");
    must(weft_scope_wait(&s), "weft_scope_wait");
    must(weft_scope_close(&s), "weft_scope_close");
    case_check_sum(results[0], 1);
    results[0] = 0;
}

static void with_deadline(void *ctx, size_t n)
{
    (void)ctx;
    while (n--)
        scope_of_one(weft_in(10 * WEFT_SEC));
}

static void without_deadline(void *ctx, size_t n)
{
    (void)ctx;
    while (n--)
        scope_of_one(WEFT_FOREVER);
}

static void run_deadline(double budget_ms)
{
    run_batches(budget_ms, 1, with_deadline, 1);
}

static void run_no_deadline(double budget_ms)
{
    run_batches(budget_ms, 1, without_deadline, 1);
}

/* cancel-1000 */

static size_t waiting;
static weft_event never_set;

static int leave_result_if_cancelled(int rc, void *place)
{
    if (rc == -ECANCELED)
        leave_result(place);
    return rc;
}

static int wait_parked(void *place)
{
    waiting++;
    return leave_result_if_cancelled(weft_park(WEFT_FOREVER), place);
}

static int wait_for_event(void *place)
{
    waiting++;
    return leave_result_if_cancelled(weft_event_wait(&never_set, WEFT_FOREVER), place);
}

/* With one worker, a child that has counted itself waits before its owner runs again. */
static double cancel_1000(void *ctx)
{
    weft_job *wait = *(weft_job **)ctx;
    weft_scope s = {0};
    int64_t begun;
    double took;

    waiting = 0;
    must(weft_scope_open(&s, NULL), "weft_scope_open");
    for (size_t i = 0; i < CHILDREN; i++)
        must(weft_scope_go(&s, wait, &results[i]), "weft_scope_go");
    while (waiting < CHILDREN)
        weft_yield();
    begun = weft_now().ns;
    must(weft_scope_cancel(&s, 0, NULL), "weft_scope_cancel");
    must_be(weft_scope_close(&s), -ECANCELED, "weft_scope_close");
    took = (double)(weft_now().ns - begun);
    check_results();
    return took;
}

struct cancelling {
    double budget_ms;
    weft_job *wait;
};

static void *first_canceller(void *arg)
{
    struct cancelling *c = arg;
    case_ok(case_time_prepared(c->budget_ms, cancel_1000, &c->wait, CHILDREN), "");
    return NULL;
}

static void run_cancel(double budget_ms)
{
    run_first(1, first_canceller, &(struct cancelling){budget_ms, wait_parked});
}

static void run_cancel_event(double budget_ms)
{
    run_first(1, first_canceller, &(struct cancelling){budget_ms, wait_for_event});
}

/* task-await */

static int give_value(void *arg, void **value)
{
    *value = arg;
    return 0;
}

static uint64_t await(void *arg)
{
    weft_task *t;
    void *value;

    must(weft_task_start(&t, give_value, arg, NULL), "weft_task_start");
    must(weft_task_await(t, NULL, WEFT_FOREVER), "weft_task_await");
    must(weft_task_take(t, &value), "weft_task_take");
    weft_task_free(t);
    return (uintptr_t)value;
}

static void task_await(void *ctx, size_t n)
{
    uint64_t sum = 0;

    (void)ctx;
    for (size_t i = 0; i < n; i++)
        sum += await((void *)(i + 1));
    case_check_sum(sum, case_pingpong_sum(n));
}

static void run_task(double budget_ms)
{
    run_batches(budget_ms, 1, task_await, 1);
}

static void run_task_2(double budget_ms)
{
    run_batches(budget_ms, 2, task_await, 1);
}

int main(int argc, char **argv)
{
    static const struct case_entry entries[] = {
        {"spawn-join", "weft", run_spawn_join},
        {"scope-1000", "weft", run_scope},
        {"scope-1000", "weft-spawn-join", run_spawn_join},
        {"scope-1000", "weft-join-all", run_join_all},
        {"scope-1000-2", "weft", run_scope_2},
        {"scope-1000-2", "weft-join-all", run_join_all_2},
        {"scope-deadline", "weft", run_deadline},
        {"scope-deadline", "weft-no-deadline", run_no_deadline},
        {"cancel-1000", "weft", run_cancel},
        {"cancel-1000", "weft-event", run_cancel_event},
        {"task-await", "weft", run_task},
        {"task-await", "weft-spawn-join", run_spawn_join},
        {"task-await-2", "weft", run_task_2},
    };
    return case_main(argc, argv, entries, sizeof(entries) / sizeof(entries[0]));
}
