/*
 * The helpers: how many there are, who gets one, when they end, and what happens when none can be made.
 */
#include <stdlib.h>
#include <sys/wait.h>

#include "base/sanitizer.h"
#include "unit/offload/ground.h"

struct call {
    struct gate *gate;
    int kind;
};

static void *goes_through(void *arg)
{
    struct call *c = arg;
    return ptr(weft_offload_with(&(weft_offload_opts){.kind = c->kind}, passes, c->gate, NULL, WEFT_FOREVER));
}

enum { CROWD = 12 };

/* 12 calls of one kind, of which 3 may run: another kind finds a helper all the same. */
static void *crowds(void *arg)
{
    struct gate stuck = {0}, other = {.open = 1};
    struct call c = {&stuck, WEFT_OFFLOAD_NET};
    weft_fiber *f[CROWD];
    for (int i = 0; i < CROWD; i++)
        f[i] = go(goes_through, &c);
    AWAIT(helpers().queued == CROWD - 3 && seen(&stuck.begun) == 3);
    for (int kind = 0; kind < WEFT_OFFLOAD_ALL; kind++) {
        struct call free_one = {&other, kind};
        if (kind != WEFT_OFFLOAD_NET)
            CHECK_PTR(goes_through(&free_one), ==, ptr(0));
    }
    CHECK_INT(seen(&stuck.begun), ==, 3);
    CHECK_INT(helpers().busy, ==, 3);
    CHECK_INT(weft_offload_limit(WEFT_OFFLOAD_NET, 5), ==, 0); /* more may now, and do */
    AWAIT(seen(&stuck.begun) == 5);
    CHECK_INT(helpers().queued, ==, CROWD - 5);
    put(&stuck.open, 1);
    for (int i = 0; i < CROWD; i++)
        CHECK_PTR(ended(f[i]), ==, ptr(0));
    CHECK_INT(stuck.ended, ==, CROWD);
    return arg;
}

TEST(one_kind_has_no_more_helpers_than_it_may)
{
    CHECK_INT(weft_offload_limit(WEFT_OFFLOAD_NET, 3), ==, 0);
    in_a_fiber(1, crowds, NULL);
    default_limits();
    CHECK_INT(weft_offload_limit(WEFT_OFFLOAD_ALL, 5), ==, 0); /* half of which is 3 */
    in_a_fiber(2, crowds, NULL);
    default_limits();
}

/* Two kinds fill the pool, of which there are never more than there may be. */
static void *fills_the_pool(void *arg)
{
    struct gate g = {0};
    struct call net = {&g, WEFT_OFFLOAD_NET}, file = {&g, WEFT_OFFLOAD_FILE};
    weft_fiber *f[CROWD];
    for (int i = 0; i < CROWD; i++)
        f[i] = go(goes_through, i % 2 ? &net : &file);
    AWAIT(seen(&g.begun) == 4);
    for (int i = 0; i < 20; i++)
        breathe();
    CHECK_INT(seen(&g.begun), ==, 4);
    CHECK_INT(helpers().threads, ==, 4);
    put(&g.open, 1);
    for (int i = 0; i < CROWD; i++)
        CHECK_PTR(ended(f[i]), ==, ptr(0));
    CHECK_INT(helpers().threads, <=, 4);
    return arg;
}

TEST(there_are_no_more_helpers_than_there_may_be)
{
    end_helpers();
    CHECK_INT(weft_offload_limit(WEFT_OFFLOAD_ALL, 4), ==, 0);
    in_a_fiber(1, fills_the_pool, NULL);
    in_a_fiber(2, fills_the_pool, NULL);
    default_limits();
}

static int order[CROWD], taken;

static void *takes_its_turn(void *arg)
{
    order[more(&taken) - 1] = (int)(intptr_t)arg;
    return arg;
}

static void *offloads_in_turn(void *arg)
{
    int number = (int)(intptr_t)arg;
    weft_offload_opts o = {.kind = number % 2 ? WEFT_OFFLOAD_CALL : WEFT_OFFLOAD_FILE};
    return ptr(weft_offload_with(&o, takes_its_turn, arg, NULL, WEFT_FOREVER));
}

static void *queues_in_order(void *arg)
{
    struct gate first = {0};
    struct call c = {&first, WEFT_OFFLOAD_CALL};
    weft_fiber *holder = go(goes_through, &c), *f[CROWD];
    AWAIT(seen(&first.begun) == 1);
    put(&taken, 0);
    for (int i = 0; i < CROWD; i++) {
        f[i] = go(offloads_in_turn, ptr(i));
        AWAIT(helpers().queued == (size_t)i + 1);
    }
    put(&first.open, 1);
    ended(holder);
    for (int i = 0; i < CROWD; i++) {
        CHECK_PTR(ended(f[i]), ==, ptr(0));
    }
    for (int i = 0; i < CROWD; i++)
        CHECK_INT(order[i], ==, i);
    return arg;
}

TEST(calls_get_helpers_in_the_order_they_came)
{
    end_helpers();
    CHECK_INT(weft_offload_limit(WEFT_OFFLOAD_ALL, 1), ==, 0);
    in_a_fiber(1, queues_in_order, NULL);
    in_a_fiber(2, queues_in_order, NULL);
    default_limits();
}

static void *has_many_at_once(void *arg)
{
    struct gate g = {0};
    struct call c = {&g, WEFT_OFFLOAD_CALL};
    weft_fiber *f[CROWD];
    for (int i = 0; i < CROWD; i++)
        f[i] = go(goes_through, &c);
    AWAIT(seen(&g.begun) == CROWD);
    CHECK_INT(helpers().threads, >=, CROWD);
    put(&g.open, 1);
    for (int i = 0; i < CROWD; i++)
        ended(f[i]);
    return arg;
}

TEST(helpers_end_when_they_have_nothing_to_do)
{
    end_helpers();
    int before = steady_threads();
    in_a_fiber(1, has_many_at_once, NULL);
    unsigned made = helpers().threads;
    CHECK_INT(made, ==, CROWD);
    AWAIT(helpers().busy == 0);
    int64_t now = real_now();
    wf_clock_set(now + 3 * WEFT_SEC); /* not yet */
    for (int i = 0; i < 100; i++)
        breathe();
    CHECK_INT(helpers().threads, ==, made);
    end_helpers();
    AWAIT(count_threads() <= before);
}

TEST(fewer_helpers_are_kept_when_fewer_may_be)
{
    in_a_fiber(1, has_many_at_once, NULL);
    CHECK_INT(weft_offload_limit(WEFT_OFFLOAD_ALL, 2), ==, 0);
    AWAIT(helpers().threads <= 2);
    CHECK_INT(weft_offload(returns_at_once, NULL, NULL, weft_in(100 * WEFT_SEC)), ==, 0);
    default_limits();
}

static void *finds_no_memory(void *arg)
{
    struct gate g = {0};
    weft_offload_opts o = {.drop = drops};
    wf_sys_fail(1u << WF_SYS_MALLOC, 1, 0);
    CHECK_INT(weft_offload_with(&o, passes, &g, NULL, WEFT_FOREVER), ==, -ENOMEM);
    wf_sys_fail(0, 0, 0);
    CHECK_INT(g.begun + g.dropped, ==, 0);
    return arg;
}

TEST(without_memory_it_is_enomem)
{
    in_a_fiber(1, finds_no_memory, NULL);
}

static void *finds_no_thread(void *arg)
{
    struct gate g = {.open = 1};
    weft_offload_opts o = {.drop = drops};
    wf_sys_fail(1u << WF_SYS_THREAD, 1, 1000);
    CHECK_INT(weft_offload_with(&o, passes, &g, NULL, WEFT_FOREVER), ==, -EAGAIN);
    CHECK_INT(weft_offload_with(&o, passes, &g, NULL, weft_in(100 * WEFT_SEC)), ==, -EAGAIN);
    wf_sys_fail(0, 0, 0);
    CHECK_INT(helpers().threads, ==, 0);
    CHECK_INT(g.begun + g.dropped, ==, 0);
    CHECK_INT(weft_offload_with(&o, passes, &g, NULL, WEFT_FOREVER), ==, 0);
    return arg;
}

TEST(without_any_thread_it_is_eagain)
{
    end_helpers();
    in_a_fiber(1, finds_no_thread, NULL);
    end_helpers();
    in_a_fiber(2, finds_no_thread, NULL);
}

/* One helper is there, and no second can be made: all run by it. */
static void *has_one_helper(void *arg)
{
    struct gate g = {0};
    struct call c = {&g, WEFT_OFFLOAD_CALL};
    weft_fiber *f[CROWD];
    f[0] = go(goes_through, &c);
    AWAIT(seen(&g.begun) == 1);
    wf_sys_fail(1u << WF_SYS_THREAD, 1, 1000);
    for (int i = 1; i < CROWD; i++)
        f[i] = go(goes_through, &c);
    AWAIT(helpers().queued == CROWD - 1 && helpers().threads == 1);
    put(&g.open, 1);
    for (int i = 0; i < CROWD; i++)
        CHECK_PTR(ended(f[i]), ==, ptr(0));
    wf_sys_fail(0, 0, 0);
    CHECK_INT(g.ended, ==, CROWD);
    return arg;
}

TEST(a_thread_that_cannot_be_made_leaves_its_work_to_the_others)
{
    end_helpers();
    in_a_fiber(1, has_one_helper, NULL);
    end_helpers();
    in_a_fiber(2, has_one_helper, NULL);
}

enum { ROUNDS = 60 };

static int made, missed, fell, dropped;

static void drops_one(void *arg, void *value)
{
    (void)arg, (void)value;
    more(&dropped);
}

static void *naps(void *arg)
{
    struct timespec pause = {.tv_nsec = (long)(intptr_t)arg};
    nanosleep(&pause, NULL);
    return arg;
}

/* Deadlines, cancels and ends close to each other. */
static void *hurries(void *arg)
{
    unsigned random = (unsigned)(intptr_t)arg * 2654435761u + 1;
    for (int i = 0; i < ROUNDS; i++) {
        random = random * 1103515245u + 12345;
        void *nap = ptr(random >> 8 & 0x3ffff), *value = NULL;
        weft_offload_opts o = {.kind = (int)(random >> 28 & 3), .drop = drops_one};
        weft_time until = weft_in(random >> 4 & 0x3ffff);
        int rc = weft_offload_with(&o, naps, nap, &value, until);
        if (rc == 0)
            CHECK_PTR(value, ==, nap);
        else
            CHECK_PTR(value, ==, NULL);
        CHECK(rc != -ETIMEDOUT || real_now() >= until.ns);
        more(rc == 0 ? &made : rc == -ETIMEDOUT ? &missed : &fell);
        CHECK(rc == 0 || rc == -ETIMEDOUT || rc == -ECANCELED);
    }
    return arg;
}

static void *hurries_all(void *arg)
{
    weft_fiber *f[CROWD];
    for (int i = 0; i < CROWD; i++)
        f[i] = go(hurries, ptr(i));
    for (int i = 0; i < CROWD; i += 3) {
        weft_sleep(2 * WEFT_MS);
        weft_cancel(f[i]);
    }
    for (int i = 0; i < CROWD; i++)
        ended(f[i]);
    return arg;
}

TEST(each_call_is_answered_or_dropped_once)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        made = missed = fell = dropped = 0;
        CHECK_INT(weft_offload_limit(WEFT_OFFLOAD_ALL, 3), ==, 0);
        in_a_fiber(workers, hurries_all, NULL);
        AWAIT(helpers().busy == 0 && seen(&dropped) == missed + fell);
        CHECK_INT(made + missed + fell, ==, CROWD * ROUNDS);
        CHECK_INT(helpers().queued, ==, 0);
        default_limits();
    }
}

TEST(nothing_is_held_when_the_helpers_have_ended)
{
    end_helpers();
    struct wf_sys_held before = wf_sys_held();
    CHECK_INT(weft_offload(returns_at_once, NULL, NULL, weft_in(100 * WEFT_SEC)), ==, 0);
    end_helpers();
    CHECK_INT(wf_sys_held().n, ==, before.n);
}

static void offloads_and_exits(void *arg)
{
    CHECK_INT(weft_offload(returns_at_once, arg, NULL, weft_in(100 * WEFT_SEC)), ==, 0);
    CHECK_INT(helpers().threads, ==, 1);
    exit(test_has_failed());
}

TEST(the_child_of_a_fork_has_helpers_of_its_own)
{
#if WF_TSAN
    SKIP("ThreadSanitizer makes no threads in a child of many");
#endif
    CHECK_INT(weft_offload(returns_at_once, NULL, NULL, weft_in(100 * WEFT_SEC)), ==, 0);
    CHECK_CHILD(offloads_and_exits, NULL, 0, NULL);
    CHECK_INT(weft_offload(returns_at_once, NULL, NULL, weft_in(100 * WEFT_SEC)), ==, 0);
}

static void *forks(void *arg)
{
    (void)arg;
    return ptr(fork());
}

static void *waits_for_a_forked_one(void *arg)
{
    void *pid = NULL;
    int status = -1;
    CHECK_INT(weft_offload(forks, NULL, &pid, WEFT_FOREVER), ==, 0); /* in the child it never returns */
    CHECK_INT(waitpid((pid_t)(intptr_t)pid, &status, 0), >, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return arg;
}

TEST(a_child_that_a_helper_forks_ends_when_the_call_does)
{
    in_a_fiber(1, waits_for_a_forked_one, NULL);
}

TESTS(offload_pool, one_kind_has_no_more_helpers_than_it_may, there_are_no_more_helpers_than_there_may_be,
      calls_get_helpers_in_the_order_they_came, helpers_end_when_they_have_nothing_to_do,
      fewer_helpers_are_kept_when_fewer_may_be, without_memory_it_is_enomem, without_any_thread_it_is_eagain,
      a_thread_that_cannot_be_made_leaves_its_work_to_the_others, each_call_is_answered_or_dropped_once,
      nothing_is_held_when_the_helpers_have_ended, the_child_of_a_fork_has_helpers_of_its_own,
      a_child_that_a_helper_forks_ends_when_the_call_does)
