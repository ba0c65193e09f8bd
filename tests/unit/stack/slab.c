/*
 * Where private stacks come from and go to: sizes, the slabs they are cut from, what a thread keeps for its next
 * coroutines, and how it gives that back.
 */
#include <alloca.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "base/clock.h"
#include "base/sanitizer.h"
#include "base/sys.h"
#include "stack/cache.h"
#include "stack/guard.h"
#include "stack/slab.h"
#include "support/test.h"

enum { BURST = WF_VALGRIND ? 2000 : WF_ASAN || WF_TSAN || TEST_EMULATED ? 10000 : 100000, SECOND = 1000000000 };

static weft_stack_figures stats_now(void)
{
    weft_stack_figures stats = {.size = sizeof stats};
    CHECK_INT(weft_stack_stats(&stats), ==, 0);
    return stats;
}

static void *yields_once(void *arg)
{
    weft_coro_yield(NULL);
    return arg;
}

/* So many coroutines at once, each of them begun. */
static void burst(weft_coro **all, int n)
{
    for (int i = 0; i < n; i++) {
        REQUIRE(weft_coro_new(&all[i], yields_once, NULL, NULL) == 0);
        CHECK_INT(weft_coro_resume(all[i], NULL, NULL), ==, 1);
    }
    for (int i = 0; i < n; i++)
        CHECK_INT(weft_coro_free(all[i]), ==, 0);
}

TEST(a_burst_is_kept_so_that_the_next_one_maps_nothing)
{
    weft_coro **all = calloc(BURST, sizeof(weft_coro *));
    REQUIRE(all != NULL);
    wf_clock_set(SECOND);
    burst(all, BURST);
    weft_stack_figures first = stats_now();
    CHECK_INT(first.cached, >=, BURST);
    CHECK_INT(first.stacks, ==, first.cached);
    wf_sys_fail(1u << WF_SYS_MMAP | 1u << WF_SYS_MALLOC, 0, 0); /* counts */
    burst(all, BURST);
    CHECK_INT(wf_sys_calls(), ==, 0);
    wf_sys_fail(0, 0, 0);
    weft_stack_figures second = stats_now();
    CHECK_INT(second.slabs, ==, first.slabs);
    CHECK_INT(second.reserved, ==, first.reserved);
    CHECK_INT(second.stacks, ==, first.stacks);
    weft_stack_trim();
    wf_clock_set(0);
    free(all);
}

TEST(what_a_burst_left_goes_back_with_time_and_a_little_activity)
{
    enum { A_FEW = 2 * WF_STACK_LOOK_EVERY, LOOKS = 40 };
    weft_coro **all = calloc(BURST, sizeof(weft_coro *));
    REQUIRE(all != NULL);
    wf_clock_set(SECOND);
    burst(all, A_FEW);
    weft_stack_trim();
    size_t slabs_before = stats_now().slabs, memory_before = test_memory();
    burst(all, BURST);
    size_t slabs_after = stats_now().slabs, memory_after = test_memory();
    burst(all, A_FEW);
    CHECK_INT(stats_now().slabs, ==, slabs_after); /* no time has passed */
    for (int i = 1; i <= LOOKS; i++) {
        wf_clock_set(SECOND + i * (int64_t)(SECOND / 2));
        burst(all, A_FEW);
    }
    size_t slabs_later = stats_now().slabs, memory_later = test_memory();
    CHECK_INT(slabs_later - slabs_before, <=, (slabs_after - slabs_before) / 10 + A_FEW / 16);
    CHECK_INT(stats_now().cached, <=, 2 * A_FEW);
#if !WF_ASAN && !WF_TSAN && !WF_VALGRIND && !TEST_EMULATED /* which keep memory of their own */
    CHECK_INT(memory_after - memory_before, >=, (size_t)BURST * 4096);
    CHECK_INT(memory_later, <=, memory_before + (memory_after - memory_before) / 10);
#endif
    (void)memory_before, (void)memory_after, (void)memory_later;
    weft_stack_trim();
    wf_clock_set(0);
    free(all);
}

TEST(trim_gives_everything_back)
{
    weft_coro *all[500];
    weft_coro *stays;
    struct wf_sys_held before;
    wf_clock_set(SECOND);
    weft_stack_trim();
    before = wf_sys_held();
    CHECK_INT(stats_now().stacks, ==, 0);
    CHECK_INT(stats_now().slabs, ==, 0);
    REQUIRE(weft_coro_new(&stays, yields_once, NULL, NULL) == 0);
    burst(all, 500);
    size_t cached = stats_now().cached;
    CHECK_INT(cached, >=, 500);
    CHECK_INT(weft_stack_trim(), ==, cached);
    CHECK_INT(stats_now().cached, ==, 0);
    CHECK_INT(stats_now().stacks, ==, 1);
    CHECK_INT(stats_now().slabs, ==, 1);
    CHECK_INT(weft_stack_trim(), ==, 0);
    CHECK_INT(weft_coro_resume(stays, NULL, NULL), ==, 1); /* its pages are still there */
    CHECK_INT(weft_coro_resume(stays, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_free(stays), ==, 0);
    CHECK_INT(weft_stack_trim(), ==, 1);
    CHECK_INT(stats_now().slabs, ==, 0);
    CHECK_INT(stats_now().reserved, ==, 0);
    CHECK_INT(wf_sys_held().n, ==, before.n);
    CHECK_INT(wf_sys_held().bytes, ==, before.bytes);
    wf_clock_set(0);
}

TEST(a_stack_that_was_freed_is_the_next_ones)
{
    weft_coro *c, *again;
    REQUIRE(weft_coro_new(&c, yields_once, NULL, NULL) == 0);
    CHECK_INT(weft_coro_free(c), ==, 0);
    REQUIRE(weft_coro_new(&again, yields_once, NULL, NULL) == 0);
    CHECK_PTR(again, ==, c);
    CHECK_INT(weft_coro_free(again), ==, 0);
}

TEST(large_stacks_are_kept_in_small_numbers)
{
#if WF_ASAN || WF_TSAN || WF_VALGRIND
    SKIP("a shadow of so many gigabytes takes too long");
#else
    enum { MADE = 3 * WF_STACK_LOOK_EVERY };
    const size_t large = (size_t)1 << (TEST_EMULATED ? 27 : 30); /* an emulator looks at every page */
    static weft_coro *all[MADE];
    unsigned most = wf_stack_keep_at_most((unsigned)wf_stack_class(large));
    CHECK_INT(most, <, WF_STACK_LOOK_EVERY);
    wf_clock_set(SECOND);
    weft_stack_trim();
    for (int i = 0; i < MADE; i++)
        REQUIRE(weft_coro_new(&all[i], yields_once, NULL, &(weft_coro_opts){.stack = large}) == 0);
    CHECK_INT(stats_now().stacks, ==, MADE);
    for (int i = 0; i < MADE; i++)
        CHECK_INT(weft_coro_free(all[i]), ==, 0);
    CHECK_INT(stats_now().cached, <=, most + WF_STACK_LOOK_EVERY);
    weft_stack_trim();
    wf_clock_set(0);
#endif
}

TEST(every_size_has_a_class_that_holds_it_and_wastes_little)
{
    const size_t page = wf_sys_page(), most = (size_t)1 << 40;
    uint64_t random = test_seed();
    size_t last_stride = 0;
    for (size_t usable = WEFT_STACK_MIN; usable < most; usable += 1 + usable / 16 + test_random(&random) % 4096) {
        if (usable == WEFT_STACK_DEFAULT || test_has_failed())
            continue;
        int class = wf_stack_class(usable);
        REQUIRE(class > 0 && class < WF_STACK_CLASSES);
        size_t stride = wf_stack_stride((unsigned)class), extra = WF_ASAN || WF_TSAN ? 65536 : 0;
        size_t need = usable + extra + wf_guard_bytes() + WF_STACK_TOP_BYTES + 1024;
        CHECK_INT(stride % page, ==, 0);
        CHECK_INT(stride, >=, need);
        CHECK_INT(stride, <=, need + need / 4 + 2 * page);
        CHECK_INT(stride, >=, last_stride);
        last_stride = stride;
    }
    CHECK_INT(wf_stack_class(WEFT_STACK_DEFAULT), ==, 0);
    CHECK_INT(wf_stack_stride(0), <=, 262144 + page + (WF_ASAN || WF_TSAN ? 262144 : 0));
    CHECK_INT(wf_stack_class(SIZE_MAX), <, 0);
}

/* Fills all of the stack that it asked for and finds it as it was, with neighbours that do the same. */
struct user {
    weft_coro *c;
    size_t asked;
    unsigned char fill;
};

#ifdef WF_UCONTEXT
enum { FRAMES = 4096 }; /* of ours and of swapcontext */
#else
enum { FRAMES = 2048 };
#endif

static void *uses_all_of_it(void *arg)
{
    struct user *u = arg;
    size_t bytes = u->asked - FRAMES, wrong = 0;
    unsigned char *all = alloca(bytes);
    memset(all, u->fill, bytes);
    __asm__ volatile("" : : "r"(all) : "memory");
    weft_coro_yield(NULL);
    for (size_t i = 0; i < bytes; i++)
        wrong += all[i] != u->fill;
    CHECK_INT(wrong, ==, 0);
    return NULL;
}

TEST(odd_sizes_give_at_least_what_was_asked)
{
    if (WF_VALGRIND)
        SKIP("valgrind takes a frame of more than 2 MiB for a switch of stacks");
    static const size_t sizes[] = {
        WEFT_STACK_MIN,         WEFT_STACK_MIN + 1,     10001,   12288,         12289,  20000, 65536, 100001,
        WEFT_STACK_DEFAULT - 1, WEFT_STACK_DEFAULT + 1, 1 << 20, (1 << 20) + 1, 3333333};
    enum { NEIGHBOURS = 20 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct user users[NEIGHBOURS];
        for (int j = 0; j < NEIGHBOURS; j++) {
            users[j] = (struct user){.asked = sizes[i], .fill = (unsigned char)(j + 1)};
            REQUIRE(weft_coro_new(&users[j].c, uses_all_of_it, &users[j], &(weft_coro_opts){.stack = sizes[i]}) == 0);
        }
        for (int round = 1; round >= 0; round--) {
            for (int j = 0; j < NEIGHBOURS; j++)
                CHECK_INT(weft_coro_resume(users[j].c, NULL, NULL), ==, round);
        }
        for (int j = 0; j < NEIGHBOURS; j++)
            CHECK_INT(weft_coro_free(users[j].c), ==, 0);
    }
}

TESTS(stack_slab, a_burst_is_kept_so_that_the_next_one_maps_nothing,
      what_a_burst_left_goes_back_with_time_and_a_little_activity, trim_gives_everything_back,
      a_stack_that_was_freed_is_the_next_ones, large_stacks_are_kept_in_small_numbers,
      every_size_has_a_class_that_holds_it_and_wastes_little, odd_sizes_give_at_least_what_was_asked)
