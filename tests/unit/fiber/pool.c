/*
 * The pool of fiber records: what is taken is apart and comes back clean, memory goes back to the system, and a walk
 * sees every record.
 */
#include "fiber/pool.h"

#include <stdlib.h>

#include "base/sys.h"
#include "unit/sched/ground.h"

enum { MANY = 20000 };

static weft_fiber *all[MANY];

static int by_address(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    return x < y ? -1 : x > y;
}

/* What is empty goes back by halves, as somebody settles now and then. */
static void settle(void)
{
    for (int i = 0; i < 20; i++)
        wf_pool_settle();
}

TEST(records_are_apart_and_aligned)
{
    for (int i = 0; i < MANY; i++) {
        all[i] = wf_pool_take();
        REQUIRE(all[i] != NULL);
        CHECK_INT((uintptr_t)all[i] % 64, ==, 0);
        CHECK_PTR(all[i]->sleeper.fiber, ==, all[i]);
        CHECK_INT(all[i]->join, ==, WF_JOIN_GONE);
        CHECK_INT(all[i]->state, ==, 0);
    }
    qsort(all, MANY, sizeof all[0], by_address);
    for (int i = 1; i < MANY; i++)
        CHECK((char *)all[i] - (char *)all[i - 1] >= (ptrdiff_t)sizeof(weft_fiber));
    for (int i = 0; i < MANY; i++)
        wf_pool_give(all[i]);
}

TEST(memory_goes_back_to_the_system)
{
    settle();
    size_t before = wf_sys_held().bytes;
    for (int i = 0; i < MANY; i++)
        REQUIRE((all[i] = wf_pool_take()) != NULL);
    size_t most = wf_sys_held().bytes;
    CHECK_INT(most, >, before);
    for (int i = 0; i < MANY; i++)
        wf_pool_give(all[i]);
    settle();
    CHECK_INT(wf_sys_held().bytes, <=, before);
    CHECK(!wf_pool_has_empty());
    weft_fiber *f = wf_pool_take(); /* there is still one to be had */
    CHECK(f != NULL);
    if (f)
        wf_pool_give(f);
}

TEST(a_worker_takes_some_at_once_and_gives_back_what_it_does_not_need)
{
    struct wf_records r = {0};
    for (int i = 0; i < 1000; i++)
        REQUIRE((all[i] = wf_records_take(&r)) != NULL);
    CHECK_INT(r.count, <, WF_RECORDS_AT_ONCE);
    for (int i = 0; i < 1000; i++)
        wf_records_give(&r, all[i]);
    CHECK_INT(r.count, >=, 1000);
    wf_records_settle(&r); /* from now on it looks */
    uint32_t kept = r.count;
    wf_records_settle(&r);
    CHECK_INT(r.count, <, kept);
    for (int i = 0; i < 20; i++)
        wf_records_settle(&r);
    CHECK_INT(r.count, <=, WF_RECORDS_AT_ONCE);
    wf_records_trim(&r, 0);
    CHECK_INT(r.count, ==, 0);
    CHECK_PTR(r.first, ==, NULL);
}

TEST(a_worker_keeps_no_more_than_its_limit)
{
    struct wf_records r = {0};
    for (int i = 0; i < MANY; i++)
        REQUIRE((all[i] = wf_records_take(&r)) != NULL);
    for (int i = 0; i < MANY; i++) {
        wf_records_give(&r, all[i]);
        CHECK_INT(r.count, <=, WF_RECORDS_KEPT);
    }
    wf_records_trim(&r, 0);
}

static void counts_used(weft_fiber *f, void *arg)
{
    *(size_t *)arg += __atomic_load_n(&f->state, __ATOMIC_RELAXED) == WEFT_FIBER_NEW;
}

static size_t used(void)
{
    size_t n = 0;
    wf_pool_walk(counts_used, &n);
    return n;
}

TEST(a_walk_sees_every_record)
{
    CHECK_INT(used(), ==, 0);
    for (int i = 0; i < MANY; i++) {
        REQUIRE((all[i] = wf_pool_take()) != NULL);
        all[i]->state = WEFT_FIBER_NEW;
    }
    CHECK_INT(used(), ==, MANY);
    for (int i = 0; i < MANY; i++) {
        all[i]->state = 0;
        wf_pool_give(all[i]);
    }
    CHECK_INT(used(), ==, 0);
}

TEST(without_memory_there_is_none)
{
    struct wf_records r = {0};
    int n = 0;
    settle();
    wf_sys_fail(1u << WF_SYS_MMAP, 1, MANY);
    while (n < MANY && (all[n] = wf_pool_take()) != NULL)
        n++;
    CHECK_INT(n, <, MANY);
    CHECK_PTR(wf_records_take(&r), ==, NULL);
    CHECK_INT(r.count, ==, 0);
    wf_sys_fail(0, 0, 0);
    weft_fiber *f = wf_pool_take();
    CHECK(f != NULL);
    if (f)
        wf_pool_give(f);
    while (n > 0)
        wf_pool_give(all[--n]);
}

/* Threads take from and give to it at once; what one gives another may get. */
static void *takes_and_gives(void *arg)
{
    enum { HELD = 300 };
    weft_fiber *held[HELD] = {NULL};
    uint64_t random = (uintptr_t)arg | 1;
    for (int i = 0; i < 20000; i++) {
        weft_fiber **f = &held[test_random(&random) % HELD];
        if (*f) {
            CHECK_PTR((*f)->fn, ==, (weft_fn *)(uintptr_t)f); /* nobody else has it */
            (*f)->fn = NULL;
            wf_pool_give(*f);
            *f = NULL;
        } else if ((*f = wf_pool_take()) != NULL) {
            (*f)->fn = (weft_fn *)(uintptr_t)f;
        }
    }
    for (int i = 0; i < HELD; i++) {
        if (held[i])
            wf_pool_give(held[i]);
    }
    return NULL;
}

TEST(threads_take_and_give_at_once)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        threads[i] = new_thread(takes_and_gives, ptr(4711 + i));
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

TESTS(fiber_pool, records_are_apart_and_aligned, memory_goes_back_to_the_system,
      a_worker_takes_some_at_once_and_gives_back_what_it_does_not_need, a_worker_keeps_no_more_than_its_limit,
      a_walk_sees_every_record, without_memory_there_is_none, threads_take_and_give_at_once)
