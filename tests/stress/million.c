/*
 * A million live coroutines, each on a private stack with a guard: what one costs, how many mappings they take, and that
 * the guards are there: a thousand of them, chosen at random, are overflowed in forked children, and each dies with the
 * message. And a million on shared stacks.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <weft/weft.h>

#include "base/sanitizer.h"
#include "support/test.h"

enum { MILLION = 1000000, VICTIMS = 1000 };

static weft_coro **all;

static __attribute__((noinline)) int dig(volatile char *above, size_t levels)
{
    volatile char frame[512];
    frame[0] = *above;
    return levels == 0 ? 0 : dig(frame, levels - 1) + frame[0];
}

/* Yields once with 64 bytes of locals; resumed with a value, it overflows its stack, else it checks them and ends. */
static void *waits(void *arg)
{
    char locals[64];
    memset(locals, (int)(uintptr_t)arg, sizeof locals);
    __asm__ volatile("" : : "r"(locals) : "memory");
    if (weft_coro_yield(NULL))
        dig(locals, SIZE_MAX);
    for (size_t i = 0; i < sizeof locals; i++) {
        if (locals[i] != (char)(uintptr_t)arg)
            return NULL;
    }
    return arg;
}

static size_t mappings(void)
{
    size_t lines = 0;
    FILE *f = fopen("/proc/self/maps", "re");
    for (int c; f && (c = fgetc(f)) != EOF;)
        lines += c == '\n';
    if (f)
        fclose(f);
    return lines;
}

static size_t mapping_limit(void)
{
    size_t limit = 0;
    FILE *f = fopen("/proc/sys/vm/max_map_count", "re");
    if (f && fscanf(f, "%zu", &limit) != 1)
        limit = 0;
    if (f)
        fclose(f);
    return limit;
}

static void overflow(void *coroutine)
{
    weft_coro_resume(coroutine, "overflow", NULL);
}

/*
 * A fork copies the page tables of a million stacks, which takes half a second. A child needs those of its victim only:
 * the large mappings are kept out of forks, and the victim's part let in again.
 */
static void keep_out_of_forks(void)
{
    char line[256];
    FILE *f = fopen("/proc/self/maps", "re");
    while (f && fgets(line, sizeof line, f)) {
        size_t from, to;
        if (sscanf(line, "%zx-%zx rw-p", &from, &to) == 2 && to - from > (size_t)1 << 30)
            CHECK_INT(madvise((void *)from, to - from, MADV_DONTFORK), ==, 0);
    }
    if (f)
        fclose(f);
}

static void overflow_in_a_child(weft_coro *victim)
{
    enum { PART = 1 << 20 }; /* more than a stack and its guard */
    char *part = (char *)((uintptr_t)victim & ~(uintptr_t)4095) - PART;
    CHECK_INT(madvise(part, PART + 4096, MADV_DOFORK), ==, 0);
    CHECK_CHILD(overflow, victim, SIGSEGV, "overflowed its stack");
    CHECK_INT(madvise(part, PART + 4096, MADV_DONTFORK), ==, 0);
}

static bool enough_memory(size_t bytes)
{
    size_t kib = 0;
    char line[256];
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "MemAvailable: %zu", &kib) != 1)
        ;
    if (f)
        fclose(f);
    return kib > bytes / 1024;
}

/* Makes a million and runs each to its yield; the bytes that one costs. */
static double make_million(const weft_coro_opts *opts)
{
    size_t before = test_memory();
    for (uintptr_t i = 0; i < MILLION; i++) {
        if (weft_coro_new(&all[i], waits, (void *)i, opts) != 0 || weft_coro_resume(all[i], NULL, NULL) != 1) {
            test_failed(__FILE__, __LINE__, "coroutine %zu could not be made", (size_t)i);
            return 0;
        }
    }
    double each = (double)(test_memory() - before) / MILLION;
    printf("%.0f bytes each, %zu mappings\n", each, mappings());
    return each;
}

static void end_million(void)
{
    for (uintptr_t i = 0; i < MILLION; i++) {
        void *value = NULL;
        int rc = weft_coro_resume(all[i], NULL, &value);
        if (rc != 0 || value != (void *)i)
            CHECK_INT(rc, ==, 0);
        weft_coro_free(all[i]);
    }
}

TEST(a_million_private_stacks_are_small_and_each_is_guarded)
{
#if WF_NOTED || WF_VALGRIND || defined(WF_UCONTEXT)
    SKIP("what a coroutine costs is a matter of plain builds with the native switch");
#endif
    weft_stack_figures stats = {.size = sizeof stats};
    uint64_t random = test_seed();
    if (!enough_memory((size_t)7 << 30))
        SKIP("less than 7 GiB of memory are free");
    all = calloc(MILLION, sizeof(weft_coro *));
    REQUIRE(all != NULL);
    double each = make_million(NULL);
    CHECK(each > 4096 && each <= 4800);
    REQUIRE(weft_stack_stats(&stats) == 0);
    CHECK_INT(mappings(), <, mapping_limit());
    if (stats.unguarded > 0)
        SKIP("this kernel has no MADV_GUARD_INSTALL: not every stack can have a guard");
    CHECK_INT(stats.guarded, >=, MILLION);
    keep_out_of_forks();
    for (int i = 0; i < VICTIMS && !test_has_failed(); i++)
        overflow_in_a_child(all[test_random(&random) % MILLION]);
    end_million();
    free(all);
    CHECK_INT(weft_stack_trim(), >=, 100000); /* what the thread kept for its next burst */
    CHECK_INT(test_memory(), <, (size_t)200 << 20);
}

TEST(a_million_on_shared_stacks_cost_a_few_hundred_bytes)
{
#if WF_NOTED || WF_VALGRIND || defined(WF_UCONTEXT)
    SKIP("what a coroutine costs is a matter of plain builds with the native switch");
#endif
    weft_stacks *s;
    if (!enough_memory((size_t)1 << 30))
        SKIP("less than 1 GiB of memory is free");
    all = calloc(MILLION, sizeof(weft_coro *));
    REQUIRE(all != NULL && weft_stacks_new(&s, 1, 0) == 0);
    CHECK(make_million(&(weft_coro_opts){.size = sizeof(weft_coro_opts), .shared = s}) <= 300);
    end_million();
    CHECK_INT(weft_stacks_free(s), ==, 0);
    free(all);
}

TESTS(million, a_million_private_stacks_are_small_and_each_is_guarded,
      a_million_on_shared_stacks_cost_a_few_hundred_bytes)
