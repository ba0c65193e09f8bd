/*
 * weft_stack_release: what lies below the caller's frame goes, what is live stays.
 */
#include <alloca.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <weft/weft.h>

#include "base/sys.h"
#include "coro/coro.h"
#include "support/locals.h"
#include "support/test.h"

enum { DEEP = 150000, FRAMES = 40960 }; /* FRAMES: so much may be live around the call, and the loader may have used */

__attribute__((noinline)) static void go_deep(size_t bytes)
{
    char *mine = alloca(bytes);
    memset(mine, 0xff, bytes);
    __asm__ volatile("" : : "r"(mine) : "memory");
}

/* Pages in memory of the lower part of a stack, up to FRAMES below its upper end. */
static size_t resident(const weft_coro *c)
{
    size_t page = wf_sys_page(), count = 0, pages = (size_t)(wf_coro_high(c) - wf_coro_low(c) - FRAMES) / page;
    unsigned char *in = calloc(pages, 1);
    CHECK_INT(mincore(wf_coro_low(c), pages * page, in), ==, 0);
    for (size_t i = 0; i < pages; i++)
        count += in[i] & 1;
    free(in);
    return count;
}

static weft_coro *current(void)
{
    return wf_thread_self.current;
}

/* On the stack that it is called on, twice: what came back can be given back again. */
static void *releases(void *arg)
{
    struct locals mine;
    size_t page = wf_sys_page();
    locals_fill(&mine, 7);
    char *below = wf_coro_low(current()) - page;
    bool guarded = wf_sys_forbidden(below);
    for (int i = 0; i < 2; i++) {
        go_deep(DEEP);
        size_t before = TEST_EMULATED ? 0 : resident(current());
        CHECK_INT(weft_stack_release(), ==, 0);
        CHECK(locals_intact(&mine, 7));
        if (!TEST_EMULATED) {
            CHECK_INT(before, >=, (DEEP - FRAMES) / page - 1);
            CHECK_INT(resident(current()), ==, 0);
        }
    }
    CHECK_INT(wf_sys_forbidden(below), ==, guarded);
    go_deep(DEEP);
    CHECK(locals_intact(&mine, 7));
    return arg;
}

TEST(a_coroutine_gives_back_what_is_below_its_frame)
{
    weft_coro *c;
    REQUIRE(weft_coro_new(&c, releases, NULL, NULL) == 0);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_free(c), ==, 0);
}

static void *resumes_one_that_releases(void *arg)
{
    releases(arg);
    struct locals mine;
    locals_fill(&mine, 5);
    weft_coro *c;
    CHECK_INT(weft_coro_new(&c, releases, NULL, NULL), ==, 0);
    go_deep(DEEP);
    size_t before = TEST_EMULATED ? 0 : resident(current());
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0);
    CHECK(locals_intact(&mine, 5));
    if (!TEST_EMULATED)
        CHECK_INT(resident(current()), >=, before); /* that was about the coroutine's stack */
    CHECK_INT(weft_coro_free(c), ==, 0);
    return arg;
}

TEST(a_fiber_gives_back_what_is_below_its_frame)
{
    CHECK_INT(weft_run(resumes_one_that_releases, NULL, NULL, &(weft_sched_opts){.threads = 1}), ==, 0);
}

/* Frames are not cut off, wherever in a page they end. */
__attribute__((noinline)) static void release_at(size_t down)
{
    volatile char *mine = alloca(down);
    memset((char *)mine, 0x5a, down);
    CHECK_INT(weft_stack_release(), ==, 0);
    for (size_t i = 0; i < down; i++) {
        if (mine[i] != 0x5a) {
            CHECK_INT(mine[i], ==, 0x5a);
            return;
        }
    }
}

static void *releases_everywhere(void *arg)
{
    for (size_t down = 1; down < 3 * 4096; down += 16)
        release_at(down);
    return arg;
}

TEST(frames_stay_wherever_in_a_page_they_end)
{
    weft_coro *c;
    REQUIRE(weft_coro_new(&c, releases_everywhere, NULL, NULL) == 0);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_free(c), ==, 0);
}

static void *fills_its_stack(void *arg)
{
    release_at(WEFT_STACK_MIN / 2); /* all that is below is in use, or nearly */
    return arg;
}

TEST(a_stack_with_nothing_below_is_left_alone)
{
    weft_coro *c;
    REQUIRE(weft_coro_new(&c, fills_its_stack, NULL, &(weft_coro_opts){.stack = WEFT_STACK_MIN}) == 0);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_free(c), ==, 0);
}

static void *releases_between(void *arg)
{
    go_deep(DEEP);
    CHECK_INT(weft_stack_release(), ==, 0);
    weft_coro_yield(NULL);
    go_deep(DEEP / 2);
    weft_coro_yield(NULL);
    return arg;
}

TEST(a_measured_stack_counts_from_the_release_on)
{
    if (TEST_EMULATED)
        SKIP("emulators may keep what is given back");
    weft_coro *c;
    REQUIRE(weft_coro_new(&c, releases_between, NULL, &(weft_coro_opts){.flags = WEFT_MEASURE}) == 0);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 1);
    CHECK_INT(weft_coro_stack_used(c), <, FRAMES);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 1);
    CHECK_INT(weft_coro_stack_used(c), >=, DEEP / 2);
    CHECK_INT(weft_coro_stack_used(c), <, DEEP / 2 + FRAMES);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_free(c), ==, 0);
}

TEST(a_threads_own_stack_is_left_alone)
{
    CHECK_INT(weft_stack_release(), ==, -ENXIO);
}

static void *releases_while_locked(void *arg)
{
    char *low = wf_coro_low(current());
    size_t bytes = (size_t)(wf_coro_high(current()) - low);
    if (syscall(SYS_mlock, low, bytes) != 0) /* sanitizers make nothing of mlock(2) */
        return NULL;
    CHECK_INT(weft_stack_release(), ==, -EINVAL);
    CHECK_INT(syscall(SYS_munlock, low, bytes), ==, 0);
    CHECK_INT(weft_stack_release(), ==, 0);
    return arg;
}

TEST(a_stack_that_is_locked_in_memory_is_told)
{
    weft_coro *c;
    int locked = 0;
    void *value = NULL;
    REQUIRE(weft_coro_new(&c, releases_while_locked, &locked, NULL) == 0);
    CHECK_INT(weft_coro_resume(c, NULL, &value), ==, 0);
    CHECK_INT(weft_coro_free(c), ==, 0);
    if (!value || TEST_EMULATED)
        SKIP("no memory can be locked here");
}

static volatile sig_atomic_t said;

static void releases_in_a_handler(int signal)
{
    (void)signal;
    said = weft_stack_release();
}

static void *is_interrupted(void *arg)
{
    struct locals mine;
    locals_fill(&mine, 3);
    said = 0;
    raise(SIGUSR1);
    CHECK_INT(said, ==, -EOPNOTSUPP);
    CHECK(locals_intact(&mine, 3));
    return arg;
}

TEST(a_signal_handler_on_another_stack_gives_nothing_back)
{
    weft_coro *c;
    struct sigaction sa = {.sa_handler = releases_in_a_handler, .sa_flags = SA_ONSTACK}, was;
    stack_t there = {.ss_sp = malloc(65536), .ss_size = 65536}, before;
    REQUIRE(weft_coro_new(&c, is_interrupted, NULL, NULL) == 0);
    CHECK_INT(sigaction(SIGUSR1, &sa, &was), ==, 0);
    CHECK_INT(sigaltstack(&there, &before), ==, 0);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0);
    CHECK_INT(sigaltstack(&before, NULL), ==, 0);
    CHECK_INT(sigaction(SIGUSR1, &was, NULL), ==, 0);
    CHECK_INT(weft_coro_free(c), ==, 0);
    free(there.ss_sp);
}

/* ---- on shared stacks ---- */

static weft_coro *shared_new(weft_stacks *pool, weft_fn *fn, void *arg)
{
    weft_coro *c = NULL;
    CHECK_INT(weft_coro_new(&c, fn, arg, &(weft_coro_opts){.shared = pool}), ==, 0);
    return c;
}

__attribute__((noinline)) static void yield_deep(void)
{
    char mine[3000];
    memset(mine, 0x77, sizeof mine);
    weft_coro_yield(NULL);
    for (size_t i = 0; i < sizeof mine; i++)
        CHECK_INT(mine[i], ==, 0x77);
}

/* Yields three times: deep, flat, and flat after a release. */
static void *yields_deep_and_flat(void *arg)
{
    struct locals mine;
    locals_fill(&mine, 9);
    yield_deep();
    weft_coro_yield(NULL);
    CHECK_INT(weft_stack_release(), ==, 0);
    weft_coro_yield(NULL);
    CHECK(locals_intact(&mine, 9));
    return arg;
}

static void *only_yields(void *arg)
{
    while (arg)
        weft_coro_yield(arg);
    return arg;
}

/* Lets it run on, and then another one take its place: how much room its copy has. */
static uint32_t room_after(weft_coro *c, weft_coro *other)
{
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 1);
    CHECK_INT(weft_coro_resume(other, NULL, NULL), ==, 1);
    return c->room;
}

TEST(on_a_shared_stack_the_room_of_a_deep_copy_is_given_back)
{
    weft_stacks *pool;
    REQUIRE(weft_stacks_new(&pool, 1, 0) == 0);
    weft_coro *c = shared_new(pool, yields_deep_and_flat, NULL), *other = shared_new(pool, only_yields, pool);
    uint32_t deep = room_after(c, other), flat = room_after(c, other), released = room_after(c, other);
    CHECK_INT(deep, >=, 3000);
    CHECK_INT(flat, ==, deep); /* a little more than it needs is kept */
    CHECK_INT(released, <=, deep - 2000);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_free(c), ==, 0);
    CHECK_INT(weft_coro_free(other), ==, 0);
    CHECK_INT(weft_stacks_free(pool), ==, 0);
}

/* It has the room to give way to the one below, which cannot fail, and keeps that. */
static void *releases_above(void *arg)
{
    struct locals mine;
    locals_fill(&mine, 4);
    uint32_t room = current()->room;
    CHECK_INT(room, >, 0);
    CHECK_INT(weft_stack_release(), ==, 0);
    CHECK_INT(current()->room, ==, room);
    wf_sys_fail(1u << WF_SYS_MALLOC, 1, 1000);
    weft_coro_yield(NULL);
    CHECK(locals_intact(&mine, 4));
    return arg;
}

static void *is_below(void *arg)
{
    struct locals mine;
    weft_coro *above = shared_new(arg, releases_above, NULL);
    locals_fill(&mine, 6);
    CHECK_INT(weft_coro_resume(above, NULL, NULL), ==, 1);
    wf_sys_fail(0, 0, 0);
    CHECK(locals_intact(&mine, 6));
    CHECK_INT(weft_coro_resume(above, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_free(above), ==, 0);
    return NULL;
}

TEST(on_a_shared_stack_room_that_a_yield_needs_is_kept)
{
    weft_stacks *pool;
    REQUIRE(weft_stacks_new(&pool, 1, 0) == 0);
    weft_coro *c = shared_new(pool, is_below, pool);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_free(c), ==, 0);
    CHECK_INT(weft_stacks_free(pool), ==, 0);
}

TESTS(coro_release, a_coroutine_gives_back_what_is_below_its_frame, a_fiber_gives_back_what_is_below_its_frame,
      frames_stay_wherever_in_a_page_they_end, a_stack_with_nothing_below_is_left_alone,
      a_measured_stack_counts_from_the_release_on, a_threads_own_stack_is_left_alone,
      a_stack_that_is_locked_in_memory_is_told, a_signal_handler_on_another_stack_gives_nothing_back,
      on_a_shared_stack_the_room_of_a_deep_copy_is_given_back, on_a_shared_stack_room_that_a_yield_needs_is_kept)
