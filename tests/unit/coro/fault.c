/*
 * Out of memory at every allocation and mapping: -ENOMEM with nothing changed and nothing leaked, and everything works
 * afterwards. A guard that cannot be made is no failure. Switches on shared stacks are copied_fault.c's.
 */
#include <errno.h>
#include <pthread.h>

#include <weft/weft.h>

#include "base/sys.h"
#include "support/test.h"

enum { EVERY = 1000000 };

#define MEMORY (1u << WF_SYS_MALLOC | 1u << WF_SYS_MMAP)
#define GUARDS (1u << WF_SYS_GUARD | 1u << WF_SYS_MPROTECT)

static void *yields_once(void *arg)
{
    weft_coro_yield(arg);
    return arg;
}

static void run_and_free(weft_coro *c)
{
    void *value;
    CHECK_INT(weft_coro_resume(c, NULL, &value), ==, 1);
    CHECK_INT(weft_coro_resume(c, NULL, &value), ==, 0);
    CHECK_INT(weft_coro_free(c), ==, 0);
}

/* Something that is made in one call. make: untouched *out on failure; use: uses it and releases it. */
struct product {
    int (*make)(void **out, void *arg);
    void (*use)(void *made);
    void *arg;
};

/* Makes it with the nth call of `kinds` failing and checks that nothing leaks. Whether there was an nth call. */
static bool make_failing(const struct product *p, unsigned kinds, unsigned n, int *rc)
{
    struct wf_sys_held before = wf_sys_held();
    size_t count = weft_coro_count();
    void *made = &before;
    wf_sys_fail(kinds, n, 1000000); /* and all that follow: a smaller one may be tried instead */
    *rc = p->make(&made, p->arg);
    bool happened = wf_sys_calls() >= n;
    wf_sys_fail(0, 0, 0);
    if (*rc == 0)
        p->use(made);
    else
        CHECK_PTR(made, ==, &before);
    weft_stack_trim();
    CHECK_INT(weft_coro_count(), ==, count);
    CHECK_INT(wf_sys_held().n, ==, before.n);
    CHECK_INT(wf_sys_held().bytes, ==, before.bytes);
    return happened;
}

/* Every allocation and mapping fails in turn, then every guard. The number of allocations and mappings. */
static unsigned fail_in_turn(const struct product *p)
{
    unsigned n;
    int rc;
    for (n = 1; make_failing(p, MEMORY, n, &rc); n++)
        CHECK_INT(rc, ==, -ENOMEM);
    CHECK_INT(rc, ==, 0);
    for (unsigned guard = 1; make_failing(p, GUARDS, guard, &rc); guard++)
        CHECK_INT(rc, ==, 0);
    CHECK_INT(rc, ==, 0);
    return n - 1;
}

static int make_coroutine(void **out, void *opts)
{
    weft_coro *c = *out;
    int rc = weft_coro_new(&c, yields_once, NULL, opts);
    *out = c;
    return rc;
}

static void use_coroutine(void *made)
{
    run_and_free(made);
}

/* What a thread keeps for ever is there, so that it is not taken for a leak; guards are known; no stack is kept. */
static void warm_up(void)
{
    weft_coro *c;
    weft_stack_trim();
    CHECK_INT(weft_coro_new(&c, yields_once, NULL, NULL), ==, 0);
    run_and_free(c);
    weft_stack_trim();
}

/* In a child that has not used the library before. */
static void first_in_the_process(void *arg)
{
    unsigned n = *(unsigned *)arg;
    weft_coro *c = arg;
    wf_sys_fail(MEMORY | GUARDS, n, 0);
    int rc = weft_coro_new(&c, yields_once, NULL, NULL);
    bool happened = wf_sys_calls() >= n;
    wf_sys_fail(0, 0, 0);
    CHECK(rc == 0 || rc == -ENOMEM);
    CHECK(rc == 0 || c == arg);
    CHECK(rc == 0 || happened);
    if (rc == 0)
        run_and_free(c);
    warm_up();
    weft_coro_opts big = {.size = sizeof big, .stack = 1 << 20};
    CHECK_INT(fail_in_turn(&(struct product){make_coroutine, use_coroutine, &big}), >=, 2);
}

TEST(the_first_coroutine_of_a_process_may_fail)
{
    for (unsigned n = 1; n <= 12; n++)
        CHECK_CHILD(first_in_the_process, &n, 0, NULL);
}

TEST(new_without_memory_is_enomem)
{
    weft_coro_opts opts[] = {
        {.stack = 300 * 1024},
        {.stack = 300 * 1024, .name = "with a name"},
        {.stack = 8 << 20, .name = "with a name and much stack", .flags = WEFT_FPENV | WEFT_CXX | WEFT_MEASURE},
    };
    warm_up();
    CHECK_INT(fail_in_turn(&(struct product){make_coroutine, use_coroutine, NULL}), ==, 2); /* a slab and its record */
    CHECK_INT(fail_in_turn(&(struct product){make_coroutine, use_coroutine, &opts[0]}), ==, 2);
    CHECK_INT(fail_in_turn(&(struct product){make_coroutine, use_coroutine, &opts[1]}), ==, 3);
    CHECK_INT(fail_in_turn(&(struct product){make_coroutine, use_coroutine, &opts[2]}), ==, 3);
}

TEST(new_on_a_shared_stack_without_memory_is_enomem)
{
    weft_stacks *s;
    warm_up();
    REQUIRE(weft_stacks_new(&s, 1, 0) == 0);
    weft_coro_opts plain = {.shared = s};
    weft_coro_opts named = {.shared = s, .name = "with a name", .flags = WEFT_FPENV};
    CHECK_INT(fail_in_turn(&(struct product){make_coroutine, use_coroutine, &plain}), ==, 1);
    CHECK_INT(fail_in_turn(&(struct product){make_coroutine, use_coroutine, &named}), ==, 2);
    CHECK_INT(weft_stacks_free(s), ==, 0); /* those that were not made do not count as its users */
}

static int make_stacks(void **out, void *count)
{
    weft_stacks *s = *out;
    int rc = weft_stacks_new(&s, *(size_t *)count, 0);
    *out = s;
    return rc;
}

static void use_stacks(void *made)
{
    for (int i = 0; i < 5; i++) { /* more than there are stacks */
        weft_coro *c;
        REQUIRE(weft_coro_new(&c, yields_once, NULL, &(weft_coro_opts){.shared = made}) == 0);
        run_and_free(c);
    }
    CHECK_INT(weft_stacks_free(made), ==, 0);
}

TEST(shared_stacks_without_memory_are_enomem)
{
    warm_up();
    for (size_t count = 1; count <= 4; count++)
        CHECK_INT(fail_in_turn(&(struct product){make_stacks, use_stacks, &count}), ==, 1 + count);
}

TEST(no_memory_at_all_for_a_while_is_survived)
{
    weft_coro *c = NULL;
    weft_stacks *s = NULL;
    warm_up();
    struct wf_sys_held before = wf_sys_held();
    wf_sys_fail(MEMORY | GUARDS, 1, EVERY);
    for (int i = 0; i < 100; i++) {
        CHECK_INT(weft_coro_new(&c, yields_once, NULL, NULL), ==, -ENOMEM);
        CHECK_INT(weft_coro_new(&c, yields_once, NULL, &(weft_coro_opts){.name = "named"}), ==, -ENOMEM);
        CHECK_INT(weft_stacks_new(&s, 2, 0), ==, -ENOMEM);
    }
    wf_sys_fail(0, 0, 0);
    CHECK(c == NULL && s == NULL);
    CHECK_INT(wf_sys_held().n, ==, before.n);
    CHECK_INT(wf_sys_held().bytes, ==, before.bytes);
    warm_up();
    CHECK_INT(wf_sys_held().n, ==, before.n);
}

TEST(without_any_guard_coroutines_still_run)
{
    enum { MANY = 200 };
    static weft_coro *all[MANY];
    weft_stacks *s;
    warm_up();
    struct wf_sys_held before = wf_sys_held();
    wf_sys_fail(GUARDS, 1, EVERY);
    for (int i = 0; i < MANY; i++)
        CHECK_INT(weft_coro_new(&all[i], yields_once, NULL, NULL), ==, 0);
    CHECK_INT(weft_stacks_new(&s, 2, 0), ==, 0);
    CHECK_INT(wf_sys_calls(), >=, 1);
    wf_sys_fail(0, 0, 0);
    for (int i = 0; i < MANY; i++)
        run_and_free(all[i]);
    use_stacks(s);
    weft_stack_trim();
    CHECK_INT(wf_sys_held().n, ==, before.n);
    CHECK_INT(wf_sys_held().bytes, ==, before.bytes);
}

/* A thread whose first call of the library fails, and then works. */
struct first_of_a_thread {
    unsigned n;
    bool happened;
    int rc;
};

static void *begins_failing(void *arg)
{
    struct first_of_a_thread *f = arg;
    weft_coro *c = NULL;
    wf_sys_fail(MEMORY | GUARDS, f->n, 1000000);
    f->rc = weft_coro_new(&c, yields_once, NULL, NULL);
    f->happened = wf_sys_calls() >= f->n;
    wf_sys_fail(0, 0, 0);
    if (f->rc == 0)
        run_and_free(c);
    CHECK_INT(weft_coro_new(&c, yields_once, NULL, NULL), ==, 0);
    run_and_free(c);
    return NULL;
}

TEST(the_first_coroutine_of_a_thread_may_fail)
{
    struct first_of_a_thread f = {.happened = true};
    unsigned refused = 0;
    pthread_t thread;
    warm_up();
    struct wf_sys_held before = wf_sys_held();
    for (f.n = 1; f.happened; f.n++) {
        REQUIRE(pthread_create(&thread, NULL, begins_failing, &f) == 0);
        pthread_join(thread, NULL);
        CHECK(f.rc == 0 || f.rc == -ENOMEM);
        refused += f.rc == -ENOMEM;
        CHECK_INT(wf_sys_held().n, ==, before.n); /* a thread takes all of its own with it */
        CHECK_INT(wf_sys_held().bytes, ==, before.bytes);
    }
    CHECK_INT(f.rc, ==, 0);
    CHECK_INT(refused, >=, 3); /* its cache, a slab and the slab's record; guards alone are not needed */
}

static void *frees_failing(void *arg)
{
    wf_sys_fail(MEMORY, 1, EVERY);
    CHECK_INT(weft_coro_free(arg), ==, 0);
    CHECK_INT(wf_sys_calls(), >=, 1);
    wf_sys_fail(0, 0, 0);
    return NULL;
}

TEST(a_thread_without_memory_for_a_cache_gives_stacks_back)
{
    weft_stack_figures stats = {.size = sizeof stats};
    weft_coro *c;
    pthread_t thread;
    warm_up();
    CHECK_INT(weft_stack_stats(&stats), ==, 0);
    size_t stacks = stats.stacks;
    REQUIRE(weft_coro_new(&c, yields_once, NULL, NULL) == 0);
    weft_stack_trim();
    REQUIRE(pthread_create(&thread, NULL, frees_failing, c) == 0);
    pthread_join(thread, NULL);
    CHECK_INT(weft_stack_stats(&stats), ==, 0);
    CHECK_INT(stats.stacks, ==, stacks);
}

TESTS(coro_fault, the_first_coroutine_of_a_process_may_fail, new_without_memory_is_enomem,
      new_on_a_shared_stack_without_memory_is_enomem, shared_stacks_without_memory_are_enomem,
      no_memory_at_all_for_a_while_is_survived, without_any_guard_coroutines_still_run,
      the_first_coroutine_of_a_thread_may_fail, a_thread_without_memory_for_a_cache_gives_stacks_back)
