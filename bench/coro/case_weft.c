/*
 * case_weft.c: weft's side of bench-coro, by plain calls of the public API.
 *
 * Built twice: bench-coro-weft runs on libweft.so, bench-coro-weft-static on libweft.a.
 */
#include <stdlib.h>
#include <string.h>

#include "../common/case.h"
#include <weft/coro.h>

#define LIVE_COROUTINES 10000
#define NESTED_LEVELS 100000
#define WORDS_CHECKED 16

static weft_coro *make(weft_fn *fn, void *arg, const weft_coro_opts *opts)
{
    weft_coro *c;
    int rc = weft_coro_new(&c, fn, arg, opts);
    if (rc != 0)
        case_fail("weft_coro_new: %s", strerror(-rc));
    return c;
}

static void release(weft_coro *c)
{
    int rc = weft_coro_free(c);
    if (rc != 0)
        case_fail("weft_coro_free: %s", strerror(-rc));
}

static void resume_to(weft_coro *c, int expected)
{
    int rc = weft_coro_resume(c, NULL, NULL);
    if (rc != expected)
        case_fail("weft_coro_resume returned %d, expected %d", rc, expected);
}

/* switch */

static void *answer_plus_one(void *arg)
{
    uintptr_t in = (uintptr_t)weft_coro_yield(arg);
    for (;;)
        in = (uintptr_t)weft_coro_yield((void *)(in + 1));
    return NULL;
}

static void pingpong(void *ctx, size_t n)
{
    uint64_t sum = 0;
    void *out;

    for (size_t i = 0; i < n; i++) {
        weft_coro_resume(ctx, (void *)i, &out);
        sum += (uintptr_t)out;
    }
    case_check_sum(sum, case_pingpong_sum(n));
}

static void run_switch_with(double budget_ms, unsigned flags)
{
    weft_coro_opts opts = {.size = sizeof(opts), .flags = flags};
    weft_coro *c = make(answer_plus_one, NULL, &opts);

    resume_to(c, 1);
    case_ok(case_time(budget_ms, pingpong, c, 2), "");
    release(c);
}

static void run_switch(double budget_ms)
{
    run_switch_with(budget_ms, 0);
}

static void run_switch_fpenv(double budget_ms)
{
    run_switch_with(budget_ms, WEFT_FPENV);
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
        weft_coro *c = make(give_back, (void *)(i + 1), NULL);
        weft_coro_resume(c, NULL, &out);
        sum += (uintptr_t)out;
        release(c);
    }
    case_check_sum(sum, case_pingpong_sum(n));
}

static void run_spawn(double budget_ms)
{
    case_ok(case_time(budget_ms, spawn, NULL, 1), "");
}

/* spawn-10k */

static void *yield_once(void *arg)
{
    weft_coro_yield(NULL);
    return arg;
}

static void spawn_live(void *ctx, size_t n)
{
    weft_coro **all = ctx;
    void *out;

    while (n--) {
        uint64_t sum = 0;
        for (size_t i = 0; i < LIVE_COROUTINES; i++) {
            all[i] = make(yield_once, (void *)(i + 1), NULL);
            resume_to(all[i], 1);
        }
        for (size_t i = 0; i < LIVE_COROUTINES; i++) {
            weft_coro_resume(all[i], NULL, &out);
            sum += (uintptr_t)out;
            release(all[i]);
        }
        case_check_sum(sum, case_pingpong_sum(LIVE_COROUTINES));
    }
}

static void run_spawn_live(double budget_ms)
{
    static weft_coro *all[LIVE_COROUTINES];
    case_ok(case_time(budget_ms, spawn_live, all, LIVE_COROUTINES), "live=10000");
}

/* switch-copied: two coroutines take turns on one shared stack; each resume copies one out and the other in. */

struct copied_pair {
    weft_coro *coro[2];
};

/* Four sums at a time, so that checking is a small part of what is timed. */
static inline uint64_t sum_words(const uint64_t *words)
{
    uint64_t a = 0, b = 0, c = 0, d = 0;

    for (size_t i = 0; i < WORDS_CHECKED; i += 4) {
        a += words[i];
        b += words[i + 1];
        c += words[i + 2];
        d += words[i + 3];
    }
    return a + b + c + d;
}

/*
 * Holds `count` words that must be in memory at every yield. After each resume WORDS_CHECKED of them are summed up, in
 * turn, so that the time is the switch's and not that of reading 1 KiB.
 */
static inline __attribute__((always_inline)) void *hold_words(uint64_t *words, size_t count, uintptr_t seed)
{
    uint64_t expected;
    uintptr_t in = 0;

    for (size_t i = 0; i < count; i++)
        words[i] = seed + i % WORDS_CHECKED;
    expected = sum_words(words);
    for (size_t at = 0;; at = (at + WORDS_CHECKED) % count) {
        __asm__ volatile("" : : "r"(words) : "memory");
        in = (uintptr_t)weft_coro_yield((void *)(in + 1));
        if (sum_words(words + at) != expected)
            case_fail("words %zu to %zu of coroutine %zu were not kept", at, at + WORDS_CHECKED - 1, (size_t)seed);
    }
    return NULL;
}

static void *hold_128_bytes(void *arg)
{
    uint64_t words[128 / 8];
    return hold_words(words, sizeof(words) / sizeof(words[0]), (uintptr_t)arg);
}

static void *hold_1_kib(void *arg)
{
    uint64_t words[1024 / 8];
    return hold_words(words, sizeof(words) / sizeof(words[0]), (uintptr_t)arg);
}

static void take_turns(void *ctx, size_t n)
{
    struct copied_pair *pair = ctx;
    uint64_t sum = 0;
    void *out;

    for (size_t i = 0; i < n; i++) {
        weft_coro_resume(pair->coro[i & 1], (void *)i, &out);
        sum += (uintptr_t)out;
    }
    case_check_sum(sum, case_pingpong_sum(n));
}

static weft_stacks *make_stacks(void)
{
    weft_stacks *stacks;
    int rc = weft_stacks_new(&stacks, 1, 0);
    if (rc != 0)
        case_fail("weft_stacks_new: %s", strerror(-rc));
    return stacks;
}

static void run_copied_with(double budget_ms, weft_fn *fn, const char *params)
{
    weft_stacks *stacks = make_stacks();
    weft_coro_opts opts = {.size = sizeof(opts), .shared = stacks};
    struct copied_pair pair;

    for (uintptr_t i = 0; i < 2; i++) {
        pair.coro[i] = make(fn, (void *)(1000 * (i + 1)), &opts);
        resume_to(pair.coro[i], 1);
    }
    case_ok(case_time(budget_ms, take_turns, &pair, 2), params);
    for (size_t i = 0; i < 2; i++)
        release(pair.coro[i]);
    weft_stacks_free(stacks);
}

static void run_copied(double budget_ms)
{
    run_copied_with(budget_ms, hold_128_bytes, "live=128");
}

static void run_copied_1_kib(double budget_ms)
{
    run_copied_with(budget_ms, hold_1_kib, "live=1024");
}

/* rss */

static void *hold_locals(void *arg)
{
    struct case_locals locals;
    case_fill(&locals, (uintptr_t)arg);
    weft_coro_yield(NULL);
    case_verify(&locals, (uintptr_t)arg);
    return arg;
}

static void run_rss_with(size_t count, weft_stacks *shared)
{
    weft_coro_opts opts = {.size = sizeof(opts), .shared = shared};
    size_t bytes = count * sizeof(void *);
    weft_coro **all = malloc(bytes);
    struct case_memory before, now;

    memset(all, 1, bytes); /* what the bench itself takes is in memory before the first reading */
    before = case_memory_now();
    for (size_t i = 0; i < count; i++) {
        case_check_memory(i);
        all[i] = make(hold_locals, (void *)i, &opts);
        resume_to(all[i], 1);
    }
    now = case_memory_now();
    for (size_t i = 0; i < count; i++) {
        resume_to(all[i], 0);
        release(all[i]);
    }
    case_ok_memory(before, now, count);
    free(all);
}

static void run_rss_shared_with(size_t count)
{
    weft_stacks *stacks = make_stacks();
    run_rss_with(count, stacks);
    weft_stacks_free(stacks);
}

static void run_rss_100k(double budget_ms)
{
    (void)budget_ms;
    run_rss_with(100000, NULL);
}

static void run_rss_100k_shared(double budget_ms)
{
    (void)budget_ms;
    run_rss_shared_with(100000);
}

static void run_rss_1m(double budget_ms)
{
    (void)budget_ms;
    run_rss_with(1000000, NULL);
}

static void run_rss_1m_shared(double budget_ms)
{
    (void)budget_ms;
    run_rss_shared_with(1000000);
}

/* nested: coroutine k resumes k + 1 and yields one more than that yielded. */

static void *go_deeper(void *arg)
{
    weft_coro **next = arg;
    void *depth = NULL;

    for (;;) {
        weft_coro_yield((void *)((uintptr_t)depth + 1));
        if (*next)
            weft_coro_resume(*next, NULL, &depth);
    }
    return NULL;
}

static void descend(void *ctx, size_t n)
{
    weft_coro **chain = ctx;
    void *depth;

    while (n--) {
        weft_coro_resume(chain[0], NULL, &depth);
        case_check_sum((uintptr_t)depth, NESTED_LEVELS);
    }
}

static void run_nested(double budget_ms)
{
    static weft_coro *chain[NESTED_LEVELS + 1];

    for (size_t i = 0; i < NESTED_LEVELS; i++) {
        chain[i] = make(go_deeper, &chain[i + 1], NULL);
        resume_to(chain[i], 1);
    }
    case_ok(case_time(budget_ms, descend, chain, NESTED_LEVELS), "levels=100000");
    for (size_t i = 0; i < NESTED_LEVELS; i++)
        release(chain[i]);
}

int main(int argc, char **argv)
{
    static const struct case_entry entries[] = {
        {"switch", "weft", run_switch},
        {"switch", "weft-static", run_switch},
        {"switch", "weft-fpenv", run_switch_fpenv},
        {"spawn", "weft", run_spawn},
        {"spawn-10k", "weft", run_spawn_live},
        {"switch-copied", "weft", run_copied},
        {"switch-copied", "weft-1KiB", run_copied_1_kib},
        {"rss-100k", "weft", run_rss_100k},
        {"rss-100k", "weft-shared", run_rss_100k_shared},
        {"rss-1m", "weft", run_rss_1m},
        {"rss-1m", "weft-shared", run_rss_1m_shared},
        {"nested", "weft", run_nested},
    };
    return case_main(argc, argv, entries, sizeof(entries) / sizeof(entries[0]));
}
