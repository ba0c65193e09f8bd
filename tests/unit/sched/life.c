/*
 * A scheduler's life: new, start, stop and free in every order, and what each says when it is not its turn.
 */
#include "unit/sched/ground.h"

TEST(new_start_stop_free)
{
    int ran = 0;
    weft_sched *s = new_sched(2, false);
    CHECK_INT(weft_sched_start(s), ==, 0);
    for (int i = 0; i < 10; i++)
        CHECK_INT(weft_sched_go(s, NULL, NULL, counts, &ran), ==, 0);
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    CHECK_INT(seen(&ran), ==, 10);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

TEST(without_a_scheduler_it_is_einval)
{
    CHECK_INT(weft_sched_new(NULL, NULL), ==, -EINVAL);
    CHECK_INT(weft_sched_start(NULL), ==, -EINVAL);
    CHECK_INT(weft_sched_run(NULL, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_sched_stop(NULL, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_sched_go(NULL, NULL, NULL, returns_at_once, NULL), ==, -EINVAL);
    CHECK_INT(weft_sched_free(NULL), ==, 0);
    CHECK_INT(weft_run(NULL, NULL, NULL, NULL), ==, -EINVAL);
}

/* As `size` says, the options are longer than this library knows. */
struct later_opts {
    weft_sched_opts known;
    long unknown;
};

TEST(options_that_cannot_be_had_are_einval)
{
    const weft_policy no_pop = {
        .size = sizeof no_pop, .begin = weft_rr.begin, .end = weft_rr.end, .push = weft_rr.push};
    struct later_opts later = {.known = {.size = sizeof later, .threads = 1}};
    const weft_sched_opts bad[] = {
        {.threads = 1025},
        {.threads = 1, .dispatch = 2},
        {.threads = 1, .dispatch = -1},
        {.threads = 1, .dispatch = WEFT_DIRECT, .policy = &weft_rr},
        {.threads = 1, .policy = &no_pop},
        {.threads = 1, .stack = WEFT_STACK_MIN - 1},
        {.threads = 1, .size = 3},
        {.threads = 1, .size = 1u << 20},
    };
    weft_sched *s = ptr(1);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int rc = weft_sched_new(&s, &bad[i]), of_run = weft_run(returns_at_once, NULL, NULL, &bad[i]);
        if (rc != -EINVAL || of_run != -EINVAL)
            test_failed(__FILE__, __LINE__, "options %zu: %d from weft_sched_new, %d from weft_run", i, rc, of_run);
    }
    later.unknown = 1;
    CHECK_INT(weft_sched_new(&s, &later.known), ==, -EINVAL);
    CHECK_PTR(s, ==, ptr(1));
    later.unknown = 0;
    CHECK_INT(weft_sched_new(&s, &later.known), ==, 0);
    CHECK_INT(weft_sched_free(s), ==, 0);
    CHECK_INT(weft_sched_new(&s, &(weft_sched_opts){.threads = 1024}), ==, 0);
    CHECK_INT(weft_sched_free(s), ==, 0);
    CHECK_INT(weft_sched_new(&s, &(weft_sched_opts){.threads = 1, .dispatch = WEFT_DIRECT, .policy = &weft_fifo}), ==,
              0);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

TEST(attributes_that_cannot_be_had_are_einval)
{
    weft_stacks *pool;
    REQUIRE(weft_stacks_new(&pool, 1, 0) == 0);
    weft_sched *s = running_sched(2);
    const weft_attr bad[] = {
        {.worker = WEFT_WORKER(2)},
        {.worker = -1},
        {.priority = 8},
        {.priority = -1},
        {.cost = -1},
        {.flags = 1u << 10},
        {.stack = WEFT_STACK_MIN - 1},
        {.stack = WEFT_STACK_MIN, .shared = pool},
        {.size = 3},
        {.size = 1u << 20},
    };
    weft_fiber *f = ptr(1);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int rc = weft_sched_go(s, &f, &bad[i], returns_at_once, NULL);
        if (rc != -EINVAL)
            test_failed(__FILE__, __LINE__, "attributes %zu: %d", i, rc);
    }
    CHECK_INT(weft_sched_go(s, &f, NULL, NULL, NULL), ==, -EINVAL);
    CHECK_PTR(f, ==, ptr(1));
    CHECK_INT(weft_sched_go(s, &f, (&(weft_attr){.worker = WEFT_WORKER(1), .priority = 7}), returns_at_once, NULL), ==,
              0);
    ended(f);
    end_sched(s);
    CHECK_INT(weft_stacks_free(pool), ==, 0);
}

TEST(start_of_one_that_runs_is_ealready)
{
    int over = 0;
    weft_sched *s = running_sched(1);
    CHECK_INT(weft_sched_start(s), ==, -EALREADY);
    CHECK_INT(weft_sched_go(s, NULL, NULL, spins, &over), ==, 0);
    CHECK_INT(weft_sched_start(s), ==, -EALREADY);
    put(&over, 1);
    end_sched(s);
}

TEST(stop_while_another_thread_stops_it_is_ealready)
{
    int over = 0;
    void *rc;
    weft_sched *s = running_sched(2);
    CHECK_INT(weft_sched_go(s, NULL, NULL, spins, &over), ==, 0);
    pthread_t other = new_thread(stops, s);
    await_draining(s);
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, -EALREADY);
    CHECK_INT(weft_sched_start(s), ==, -EALREADY);
    CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, -ESHUTDOWN);
    CHECK_INT(weft_sched_free(s), ==, -EBUSY);
    put(&over, 1);
    pthread_join(other, &rc);
    CHECK_PTR(rc, ==, NULL);
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

TEST(stop_of_one_that_has_stopped_is_0)
{
    weft_sched *s = running_sched(1);
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_sched_stop(s, WEFT_NOW), ==, 0);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

TEST(stop_before_start_runs_what_was_queued)
{
    int ran = 0;
    weft_sched *s = new_sched(2, false);
    for (int i = 0; i < 100; i++)
        CHECK_INT(weft_sched_go(s, NULL, &(weft_attr){.worker = i % 3}, counts, &ran), ==, 0);
    CHECK_INT(seen(&ran), ==, 0);
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    CHECK_INT(seen(&ran), ==, 100);
    CHECK_INT(weft_sched_go(s, NULL, NULL, counts, &ran), ==, -ESHUTDOWN);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

TEST(stop_before_start_without_work_makes_no_thread)
{
    int before = steady_threads();
    weft_sched *s = new_sched(4, false);
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    CHECK_INT(count_threads(), ==, before);
    CHECK_INT(weft_sched_go(s, NULL, NULL, returns_at_once, NULL), ==, -ESHUTDOWN);
    CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, -ESHUTDOWN);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

static void *stops_its_own(void *s)
{
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, -EDEADLK);
    CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, -EDEADLK);
    CHECK_INT(weft_sched_start(s), ==, -EALREADY);
    CHECK_INT(weft_sched_free(s), ==, -EBUSY);
    return NULL;
}

TEST(stop_in_a_fiber_of_its_own_is_edeadlk)
{
    weft_sched *s = running_sched(1);
    ended(go_on(s, stops_its_own, s));
    end_sched(s);
}

TEST(a_stopped_one_takes_no_work)
{
    weft_fiber *f = ptr(1), *fresh;
    weft_sched *s = running_sched(1);
    REQUIRE(weft_fiber_new(&fresh, NULL, returns_at_once, NULL) == 0);
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_sched_go(s, &f, NULL, returns_at_once, NULL), ==, -ESHUTDOWN);
    CHECK_INT(weft_sched_go(s, &f, &(weft_attr){.worker = WEFT_WORKER(0)}, returns_at_once, NULL), ==, -ESHUTDOWN);
    CHECK_PTR(f, ==, ptr(1));
    CHECK_INT(weft_sched_submit(s, fresh, 0), ==, -ESHUTDOWN);
    CHECK_INT(weft_fiber_state(fresh), ==, WEFT_FIBER_NEW);
    CHECK_INT(weft_detach(fresh), ==, 0);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

static void *says_whether_it_is_cancelled(void *arg)
{
    (void)arg;
    weft_yield();
    return ptr(weft_cancelled());
}

TEST(it_starts_again_after_a_stop)
{
    weft_sched *s = new_sched(2, false);
    for (int life = 0; life < 5; life++) {
        CHECK_INT(weft_sched_start(s), ==, 0);
        CHECK_PTR(ended(go_on(s, says_whether_it_is_cancelled, NULL)), ==, NULL);
        weft_fiber *parked = go_on(s, parks, NULL);
        AWAIT(is_parked(parked));
        CHECK_INT(weft_sched_stop(s, WEFT_NOW), ==, 0); /* it cancels: the next life knows nothing of it */
        CHECK_INT((intptr_t)ended(parked), ==, -ECANCELED);
    }
    CHECK_INT(weft_sched_free(s), ==, 0);
}

TEST(free_of_one_that_runs_is_ebusy)
{
    int over = 0;
    weft_sched *s = running_sched(1);
    CHECK_INT(weft_sched_free(s), ==, -EBUSY);
    CHECK_INT(weft_sched_go(s, NULL, NULL, spins, &over), ==, 0);
    CHECK_INT(weft_sched_free(s), ==, -EBUSY);
    put(&over, 1);
    end_sched(s);
}

TEST(free_releases_what_never_ran)
{
    int ran = 0;
    weft_stacks *pool;
    REQUIRE(weft_stacks_new(&pool, 1, 0) == 0);
    weft_sched *s = new_sched(2, false);
    for (int i = 0; i < 30; i++)
        CHECK_INT(weft_sched_go(s, NULL, &(weft_attr){.worker = i % 3}, counts, &ran), ==, 0);
    CHECK_INT(weft_sched_go(s, NULL, &(weft_attr){.shared = pool}, counts, &ran), ==, 0);
    CHECK_INT(weft_sched_free(s), ==, 0);
    CHECK_INT(ran, ==, 0);
    CHECK_INT(count_fibers(), ==, 0);
    CHECK_INT(weft_stacks_free(pool), ==, 0);
}

TESTS(sched_life, new_start_stop_free, without_a_scheduler_it_is_einval, options_that_cannot_be_had_are_einval,
      attributes_that_cannot_be_had_are_einval, start_of_one_that_runs_is_ealready,
      stop_while_another_thread_stops_it_is_ealready, stop_of_one_that_has_stopped_is_0,
      stop_before_start_runs_what_was_queued, stop_before_start_without_work_makes_no_thread,
      stop_in_a_fiber_of_its_own_is_edeadlk, a_stopped_one_takes_no_work, it_starts_again_after_a_stop,
      free_of_one_that_runs_is_ebusy, free_releases_what_never_ran)
