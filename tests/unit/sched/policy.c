/*
 * The orders in which a worker runs what is ready. One worker, on the test's own thread and on a clock that the fibers
 * move, so that an order is exact.
 */
#include <stdlib.h>

#include "unit/sched/ground.h"

/* What ran, a letter each, in its order. */
static char order[256];
static size_t orders;

static void *writes(void *arg)
{
    order[orders++] = (char)(intptr_t)arg;
    order[orders] = '\0';
    return NULL;
}

static weft_sched *begin(const weft_policy *policy, const void *arg)
{
    weft_sched *s = NULL;
    orders = 0;
    order[0] = '\0';
    clock_begin();
    CHECK_INT(
        weft_sched_new(&s, &(weft_sched_opts){.threads = 1, .use_caller = true, .policy = policy, .policy_arg = arg}),
        ==, 0);
    return s;
}

static void end(weft_sched *s)
{
    end_sched(s);
    clock_end();
}

static void go_with(weft_sched *s, weft_attr attr, weft_fn *fn, char name)
{
    CHECK_INT(weft_sched_go(s, NULL, &attr, fn, ptr(name)), ==, 0);
}

static void *writes_thrice(void *arg)
{
    for (int i = 0; i < 3; i++) {
        writes(arg);
        weft_yield();
    }
    return NULL;
}

static void *spawns_some(void *arg)
{
    writes(arg);
    for (int c = 'a'; c <= 'd'; c++)
        CHECK_INT(weft_go(writes_thrice, ptr(c)), ==, 0);
    weft_yield();
    writes(arg);
    return NULL;
}

TEST(fifo_is_the_order_of_spawns_and_of_yields)
{
    weft_sched *s = begin(NULL, NULL);
    for (int c = 'A'; c <= 'E'; c++)
        go_with(s, (weft_attr){0}, c == 'C' ? spawns_some : writes, (char)c);
    end(s);
    CHECK_STR(order, "ABCDEabcdCabcdabcd");
}

TEST(priority_is_strict)
{
    weft_sched *s = begin(&weft_priority, NULL);
    const int priorities[] = {3, 0, 7, 5, 7, 0, 3};
    for (int i = 0; i < 7; i++)
        go_with(s, (weft_attr){.priority = priorities[i]}, writes_thrice, (char)('a' + i));
    end(s);
    CHECK_STR(order, "cececedddagagagbfbfbf");
}

/* Keeps the worker busy, a millisecond at a time. */
static int busy_until_low_ran; /* in ms, at most */
static weft_span low_ran_at;

static void *is_busy(void *arg)
{
    (void)arg;
    for (int ms = 0; ms < busy_until_low_ran && low_ran_at == 0; ms++) {
        clock_forward(WEFT_MS);
        weft_yield();
    }
    return NULL;
}

static void *is_low(void *arg)
{
    low_ran_at = clock_passed();
    return arg;
}

static void age_with(const weft_span *every)
{
    weft_span step = every ? *every : 100 * WEFT_MS;
    weft_sched *s = begin(&weft_priority, every);
    low_ran_at = 0;
    busy_until_low_ran = 5000;
    go_with(s, (weft_attr){.priority = 0}, is_low, 0);
    for (int i = 0; i < 3; i++)
        go_with(s, (weft_attr){.priority = 7}, is_busy, 0);
    end(s);
    CHECK_INT(low_ran_at, >=, 7 * step); /* it has risen level by level */
    CHECK_INT(low_ran_at, <=, 9 * step);
}

TEST(the_lowest_of_8_runs_within_900_ms)
{
    age_with(NULL);
}

TEST(the_time_to_rise_is_an_option)
{
    const weft_span every = 10 * WEFT_MS;
    age_with(&every);
}

/* Busy ones on every level: each gets its turn. */
static int busy_turns[8];

static void *is_busy_on_its_level(void *arg)
{
    while (clock_passed() < 2 * WEFT_SEC) {
        clock_forward(WEFT_MS);
        busy_turns[(intptr_t)arg]++;
        weft_yield();
    }
    return NULL;
}

TEST(none_of_8_busy_levels_starves)
{
    weft_sched *s = begin(&weft_priority, NULL);
    memset(busy_turns, 0, sizeof busy_turns);
    for (int i = 0; i < 8; i++)
        go_with(s, (weft_attr){.priority = i}, is_busy_on_its_level, (char)i);
    end(s);
    for (int i = 0; i < 8; i++)
        CHECK_INT(busy_turns[i], >=, 1);
    CHECK_INT(busy_turns[7], >, 100 * busy_turns[0]);
}

TEST(sjf_runs_the_cheapest_first)
{
    weft_sched *s = begin(&weft_sjf, NULL);
    const weft_span costs[] = {30, 10, 20, 10, 0, 5, WEFT_MS / WEFT_US};
    for (int i = 0; i < 7; i++)
        go_with(s, (weft_attr){.cost = costs[i] * WEFT_US}, writes, (char)('a' + i));
    end(s);
    CHECK_STR(order, "fbdcaeg"); /* one that does not say costs 1 ms; equals in the order they came */
}

TEST(sjf_orders_hundreds)
{
    enum { MANY = 200 };
    static weft_span costs[MANY];
    uint64_t random = 99;
    weft_sched *s = begin(&weft_sjf, NULL);
    for (int i = 0; i < MANY; i++) {
        costs[i] = (weft_span)(1 + test_random(&random) % 50) * WEFT_US;
        go_with(s, (weft_attr){.cost = costs[i]}, writes, (char)i);
    }
    end(s);
    for (int i = 1; i < MANY; i++) {
        int a = (unsigned char)order[i - 1], b = (unsigned char)order[i];
        CHECK(costs[a] < costs[b] || (costs[a] == costs[b] && a < b));
    }
}

/* Runs as long as it said. */
static void *costs_10_ms(void *arg)
{
    writes(arg);
    clock_forward(8 * WEFT_MS);
    CHECK_INT(weft_go_with(NULL, &(weft_attr){.cost = 5 * WEFT_MS}, writes, ptr('D')), ==, 0);
    clock_forward(2 * WEFT_MS);
    return NULL;
}

static void *costs_20_ms(void *arg)
{
    writes(arg);
    clock_forward(20 * WEFT_MS);
    return NULL;
}

/*
 * After A, at 10 ms: B (10 + 20) / 20 = 1.5, C (10 + 40) / 40 = 1.25, D (2 + 5) / 5 = 1.4. After B, at 30 ms:
 * C (30 + 40) / 40 = 1.75, D (22 + 5) / 5 = 5.4. The shortest first would be A D B C.
 */
TEST(hrrn_runs_the_highest_response_ratio_first)
{
    weft_sched *s = begin(&weft_hrrn, NULL);
    go_with(s, (weft_attr){.cost = 10 * WEFT_MS}, costs_10_ms, 'A');
    go_with(s, (weft_attr){.cost = 20 * WEFT_MS}, costs_20_ms, 'B');
    go_with(s, (weft_attr){.cost = 40 * WEFT_MS}, writes, 'C');
    end(s);
    CHECK_STR(order, "ABDC");
}

TEST(edf_runs_the_earliest_first_and_those_without_last)
{
    weft_sched *s = begin(&weft_edf, NULL);
    const int64_t due[] = {500, 0, 100, 300, 0, 100, 2};
    for (int i = 0; i < 7; i++)
        go_with(s, (weft_attr){.due = {due[i] == 0 ? 0 : weft_in(due[i] * WEFT_MS).ns}}, writes, (char)('a' + i));
    end(s);
    CHECK_STR(order, "gcfdabe");
}

TEST(edf_keeps_to_it_through_yields)
{
    weft_sched *s = begin(&weft_edf, NULL);
    go_with(s, (weft_attr){.due = weft_in(20 * WEFT_MS)}, writes_thrice, 'b');
    go_with(s, (weft_attr){.due = weft_in(10 * WEFT_MS)}, writes_thrice, 'a');
    go_with(s, (weft_attr){0}, writes_thrice, 'c');
    end(s);
    CHECK_STR(order, "aaabbbccc");
}

/* A user's: the last one first. It also writes down why it was given each. */
static char whys[64];
static int sets, ended_sets;

static void *lifo_begin(const void *arg)
{
    CHECK_PTR(arg, ==, &sets);
    sets++;
    return calloc(1, sizeof(weft_fiber *));
}

static void lifo_end(void *set)
{
    CHECK_PTR(*(weft_fiber **)set, ==, NULL);
    ended_sets++;
    free(set);
}

static void lifo_push(void *set, weft_fiber *f, enum weft_why why, weft_time now)
{
    weft_fiber **top = set;
    int priority = -1;
    weft_span cost = -1;
    weft_time due = {-1};
    weft_policy_attr(f, &priority, &cost, &due);
    CHECK_INT(priority, ==, 2);
    CHECK_INT(cost, ==, 7);
    CHECK_INT(due.ns, ==, 11);
    CHECK_INT(now.ns, ==, weft_now().ns);
    CHECK_INT((uintptr_t)weft_policy_room(f) % sizeof(void *), ==, 0);
    memset(weft_policy_room(f), 0xa5, 32);
    memcpy(weft_policy_room(f), top, sizeof *top);
    *top = f;
    whys[strlen(whys)] = "?nwys"[why];
}

static weft_fiber *lifo_pop(void *set, weft_time now)
{
    weft_fiber **top = set, *f = *top;
    (void)now;
    if (f)
        memcpy(top, weft_policy_room(f), sizeof *top);
    return f;
}

static void *does_all_there_is(void *arg)
{
    writes(arg);
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0); /* the room is the policy's only while it is in the set */
    weft_yield();
    clock_forward(WEFT_MS);
    weft_checkpoint();
    writes(arg);
    return NULL;
}

TEST(a_users_policy_is_asked)
{
    const weft_policy lifo = {.size = sizeof lifo,
                              .name = "lifo",
                              .slice = WEFT_MS,
                              .begin = lifo_begin,
                              .end = lifo_end,
                              .push = lifo_push,
                              .pop = lifo_pop};
    const weft_attr attr = {.priority = 2, .cost = 7, .due = {11}};
    memset(whys, 0, sizeof whys);
    sets = ended_sets = 0;
    weft_sched *s = begin(&lifo, &sets);
    CHECK_INT(sets, ==, 1);
    for (int c = 'a'; c <= 'c'; c++)
        go_with(s, attr, writes, (char)c);
    go_with(s, attr, does_all_there_is, 'd');
    CHECK_INT(weft_sched_run(s, WEFT_NOW), ==, -EAGAIN);
    CHECK_STR(order, "dcba");
    CHECK_STR(whys, "nnnn");
    clock_forward(WEFT_MS);
    end(s);
    CHECK_STR(order, "dcbad");
    CHECK_STR(whys, "nnnnwys");
    CHECK_INT(ended_sets, ==, 1);
}

/* R is queued, and the time of S, who sleeps, has come: who is first? */
static void *writes_sleeps_and_writes(void *arg)
{
    writes(arg);
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
    writes(arg);
    return NULL;
}

static void *lets_both_be_ready(void *arg)
{
    (void)arg;
    CHECK_INT(weft_go(writes_sleeps_and_writes, ptr('S')), ==, 0);
    weft_yield();
    CHECK_STR(order, "S");
    clock_forward(10 * WEFT_MS);
    CHECK_INT(weft_go(writes, ptr('R')), ==, 0);
    return NULL;
}

static void dispatch(int how, const char *expected)
{
    weft_sched *s = NULL;
    orders = 0;
    clock_begin();
    CHECK_INT(weft_sched_new(&s, &(weft_sched_opts){.threads = 1, .use_caller = true, .dispatch = how}), ==, 0);
    CHECK_INT(weft_sched_go(s, NULL, NULL, lets_both_be_ready, NULL), ==, 0);
    end(s);
    CHECK_STR(order, expected);
}

TEST(queue_runs_what_is_queued_before_an_expired_sleeper)
{
    dispatch(WEFT_QUEUE, "SRS");
}

TEST(direct_runs_an_expired_sleeper_first)
{
    dispatch(WEFT_DIRECT, "SSR");
}

TESTS(sched_policy, fifo_is_the_order_of_spawns_and_of_yields, priority_is_strict, the_lowest_of_8_runs_within_900_ms,
      the_time_to_rise_is_an_option, none_of_8_busy_levels_starves, sjf_runs_the_cheapest_first, sjf_orders_hundreds,
      hrrn_runs_the_highest_response_ratio_first, edf_runs_the_earliest_first_and_those_without_last,
      edf_keeps_to_it_through_yields, a_users_policy_is_asked, queue_runs_what_is_queued_before_an_expired_sleeper,
      direct_runs_an_expired_sleeper_first)
