/*
 * Guards below stacks: by advice where the kernel can, by mappings where it cannot or only pretends to, and counted
 * where there is neither. What guards a stack is asked of the kernel (by /proc/self/maps, and by a read that it
 * refuses), not of the library.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <weft/weft.h>

#include "base/sys.h"
#include "coro/coro.h"
#include "stack/guard.h"
#include "support/test.h"

enum { EVERY = 1000000, MANY = 100 };

static void *returns(void *arg)
{
    return arg;
}

static int pipe_ends[2] = {-1, -1};

/* By a bare system call, as sanitizers look at the arguments of write(). */
static bool readable(const char *p)
{
    char byte;
    if (pipe_ends[0] < 0 && pipe(pipe_ends) != 0)
        test_failed(__FILE__, __LINE__, "no pipe");
    return syscall(SYS_write, pipe_ends[1], p, 1) == 1 && read(pipe_ends[0], &byte, 1) == 1;
}

/* Whether the mapping that `p` is in may be read and written. */
static bool mapped_for_use(const char *p)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512], mode[5] = "";
    unsigned long low, high;
    bool found = false;
    while (maps && !found && fgets(line, sizeof line, maps))
        found = sscanf(line, "%lx-%lx %4s", &low, &high, mode) == 3 && (uintptr_t)p >= low && (uintptr_t)p < high;
    if (maps)
        fclose(maps);
    CHECK(found);
    return mode[0] == 'r' && mode[1] == 'w';
}

/* What guards the stack whose lowest byte is `low`, all of the guard alike. */
static enum wf_guard guard_below(const char *low)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), refused = 0, pages = wf_guard_bytes() / page;
    CHECK(readable(low));
    for (size_t i = 1; i <= pages; i++)
        refused += !readable(low - i * page);
    CHECK(refused == 0 || refused == pages);
    if (refused == 0)
        return WF_GUARD_NONE;
    return mapped_for_use(low - 1) ? WF_GUARD_ADVICE : WF_GUARD_MAPPING;
}

static bool kernel_guards(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool works = p != MAP_FAILED && madvise(p, page, 102 /* MADV_GUARD_INSTALL */) == 0 && !readable(p);
    munmap(p, page);
    return works;
}

/* From here on guards are tried out anew, as if the process had just begun; mapping_limit 0: the system's. */
static void begin(unsigned fail, unsigned lie, size_t mapping_limit)
{
    weft_stack_trim();
    wf_guard_forget(mapping_limit);
    wf_sys_lie(lie);
    wf_sys_fail(fail, fail ? 1 : 0, EVERY);
}

static weft_stack_figures stats_now(void)
{
    weft_stack_figures stats = {.size = sizeof stats};
    CHECK_INT(weft_stack_stats(&stats), ==, 0);
    return stats;
}

/* Makes many and counts how they are guarded; frees all but the first `stay`, which go to *left. */
static void make_many(size_t stack, size_t counts[3], int stay, weft_coro **left)
{
    static weft_coro *all[MANY];
    weft_stack_figures stats;
    for (int i = 0; i < MANY; i++) {
        REQUIRE(weft_coro_new(&all[i], returns, NULL, &(weft_coro_opts){.stack = stack}) == 0);
        counts[guard_below(wf_coro_low(all[i]))]++;
    }
    stats = stats_now();
    CHECK_INT(stats.guarded + stats.unguarded, ==, stats.stacks);
    for (int i = 0; i < MANY; i++) {
        CHECK_INT(weft_coro_resume(all[i], NULL, NULL), ==, 0);
        if (i < stay)
            left[i] = all[i];
        else
            CHECK_INT(weft_coro_free(all[i]), ==, 0);
    }
}

/* All stacks, private ones of two sizes and shared ones, are guarded in this one way. */
static void check_all(enum wf_guard kind)
{
    static const size_t sizes[] = {0, 20000, 3 << 20};
    weft_stacks *s;
    struct wf_sys_held before = wf_sys_held();
    for (int i = 0; i < 3; i++) {
        size_t counts[3] = {0};
        make_many(sizes[i], counts, 0, NULL);
        CHECK_INT(counts[kind], ==, MANY);
        CHECK_INT(stats_now().unguarded, ==, 0);
        CHECK_INT(stats_now().guarded, ==, stats_now().stacks);
    }
    REQUIRE(weft_stacks_new(&s, 5, 65536) == 0);
    for (int i = 0; i < 5; i++)
        CHECK_INT(guard_below(s->stacks[i].low), ==, kind);
    CHECK_INT(weft_stacks_free(s), ==, 0);
    weft_stack_trim();
    CHECK_INT(wf_sys_held().n, ==, before.n);
    CHECK_INT(wf_sys_held().bytes, ==, before.bytes); /* trying out leaves nothing behind */
    begin(0, 0, 0);
}

static void warm_up(void)
{
    weft_coro *c;
    CHECK_INT(weft_coro_new(&c, returns, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_free(c), ==, 0);
}

TEST(the_kernels_guards_are_used_where_it_has_them)
{
    if (!kernel_guards())
        SKIP("this kernel has no MADV_GUARD_INSTALL");
    warm_up();
    begin(0, 0, 0);
    check_all(WF_GUARD_ADVICE);
}

TEST(mappings_are_used_where_the_kernel_has_no_guards)
{
    warm_up();
    begin(1u << WF_SYS_GUARD, 0, 0);
    check_all(WF_GUARD_MAPPING);
}

TEST(a_kernel_that_only_says_yes_is_noticed)
{
    warm_up();
    begin(0, 1u << WF_SYS_GUARD, 0);
    check_all(WF_GUARD_MAPPING);
}

TEST(guards_beyond_the_mapping_limit_are_missing_and_counted)
{
    enum { LIMIT = 40, GUARDS = LIMIT / 4 };
    warm_up();
    begin(1u << WF_SYS_GUARD, 0, LIMIT);
    for (int round = 0; round < 3; round++) { /* what was spent comes back with the stacks */
        size_t counts[3] = {0};
        weft_coro *left[MANY];
        make_many(0, counts, MANY, left);
        CHECK_INT(counts[WF_GUARD_MAPPING], ==, GUARDS);
        CHECK_INT(counts[WF_GUARD_NONE], ==, MANY - GUARDS);
        CHECK_INT(stats_now().guarded, ==, GUARDS);
        CHECK_INT(stats_now().unguarded, ==, stats_now().stacks - GUARDS);
        for (int i = 0; i < MANY; i++)
            CHECK_INT(weft_coro_free(left[i]), ==, 0);
        weft_stack_trim();
        CHECK_INT(stats_now().guarded + stats_now().unguarded, ==, 0);
    }
    begin(0, 0, 0);
}

TEST(shared_stacks_beyond_the_mapping_limit_work_without_a_guard)
{
    weft_stacks *s;
    weft_coro *c;
    warm_up();
    for (int round = 0; round < 2; round++) {
        if (round == 0)
            begin(1u << WF_SYS_GUARD, 0, 16); /* four guards, two a stack */
        REQUIRE(weft_stacks_new(&s, 3, 0) == 0);
        for (int i = 0; i < 3; i++)
            CHECK_INT(guard_below(s->stacks[i].low), ==, i < 2 ? WF_GUARD_MAPPING : WF_GUARD_NONE);
        for (int i = 0; i < 3; i++) {
            REQUIRE(weft_coro_new(&c, returns, NULL, &(weft_coro_opts){.shared = s}) == 0);
            CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0);
            CHECK_INT(weft_coro_free(c), ==, 0);
        }
        CHECK_INT(weft_stacks_free(s), ==, 0);
    }
    begin(0, 0, 0);
}

TEST(mappings_that_are_refused_are_missing_and_counted)
{
    size_t counts[3] = {0};
    warm_up();
    begin(1u << WF_SYS_GUARD | 1u << WF_SYS_MPROTECT, 0, 0);
    make_many(0, counts, 0, NULL);
    CHECK_INT(counts[WF_GUARD_NONE], ==, MANY);
    CHECK_INT(stats_now().unguarded, ==, stats_now().stacks);
    begin(0, 0, 0);
}

/* Stacks that go back to a slab that stays, and come again. */
static void check_guards_stay(enum wf_guard kind)
{
    weft_coro *left[1] = {NULL};
    size_t counts[3] = {0};
    make_many(0, counts, 1, left); /* one keeps its slab */
    CHECK_INT(weft_stack_trim(), >, 0);
    CHECK_INT(stats_now().stacks, ==, 1);
    make_many(0, counts, 0, NULL);
    CHECK_INT(counts[kind], ==, 2 * MANY);
    CHECK_INT(weft_coro_free(left[0]), ==, 0);
    begin(0, 0, 0);
}

TEST(a_stack_that_went_back_and_comes_again_has_its_guard)
{
    warm_up();
    begin(0, 0, 0);
    check_guards_stay(kernel_guards() ? WF_GUARD_ADVICE : WF_GUARD_MAPPING);
    begin(1u << WF_SYS_GUARD, 0, 0);
    check_guards_stay(WF_GUARD_MAPPING);
}

/* Overflows that are caught by either kind of guard. */
static volatile int deepest = 10000000;

__attribute__((noinline)) static int digs(volatile char *above, int depth)
{
    volatile char mine[1024];
    mine[0] = mine[depth % 1024] = above[0];
    return depth < deepest ? digs(mine, depth + 1) + mine[0] : 0;
}

static void *overflows(void *arg)
{
    volatile char first = 1;
    digs(&first, 0);
    return arg;
}

static void overflows_a_guard(void *arg)
{
    const unsigned *fail_and_lie = arg;
    weft_coro *c;
    begin(fail_and_lie[0], fail_and_lie[1], 0);
    if (weft_coro_new(&c, overflows, NULL, NULL) == 0)
        weft_coro_resume(c, NULL, NULL);
}

TEST(an_overflow_is_caught_by_every_kind_of_guard)
{
    unsigned as_it_is[] = {0, 0}, fails[] = {1u << WF_SYS_GUARD, 0}, lies[] = {0, 1u << WF_SYS_GUARD};
    CHECK_CHILD(overflows_a_guard, as_it_is, SIGSEGV, "overflowed its stack");
    CHECK_CHILD(overflows_a_guard, fails, SIGSEGV, "overflowed its stack");
    CHECK_CHILD(overflows_a_guard, lies, SIGSEGV, "overflowed its stack");
}

TESTS(stack_guard, an_overflow_is_caught_by_every_kind_of_guard, the_kernels_guards_are_used_where_it_has_them,
      mappings_are_used_where_the_kernel_has_no_guards, a_kernel_that_only_says_yes_is_noticed,
      guards_beyond_the_mapping_limit_are_missing_and_counted,
      shared_stacks_beyond_the_mapping_limit_work_without_a_guard, mappings_that_are_refused_are_missing_and_counted,
      a_stack_that_went_back_and_comes_again_has_its_guard)
