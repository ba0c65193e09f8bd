/*
 * weft_sched_stats: the figures add up.
 */
#include "unit/sched/ground.h"

TEST(what_cannot_be_asked_is_einval)
{
    weft_sched_figures f = {.size = sizeof f};
    weft_sched *s = new_sched(1, false);
    CHECK_INT(weft_sched_stats(NULL, &f), ==, -EINVAL);
    CHECK_INT(weft_sched_stats(s, NULL), ==, -EINVAL);
    f.size = 0;
    CHECK_INT(weft_sched_stats(s, &f), ==, -EINVAL);
    f = (weft_sched_figures){.size = 2 * sizeof(size_t), .active = 4711}; /* as an older program has it */
    CHECK_INT(weft_sched_stats(s, &f), ==, 0);
    CHECK_INT(f.workers, ==, 1);
    CHECK_INT(f.active, ==, 4711);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

static void *sleeps_long(void *arg)
{
    (void)arg;
    return ptr(weft_sleep(AWAIT_SECONDS * WEFT_SEC));
}

static void *parks_long(void *arg)
{
    (void)arg;
    return ptr(weft_park(weft_in(AWAIT_SECONDS * WEFT_SEC)));
}

TEST(ready_parked_sleeping_and_timers_are_counted)
{
    enum { EACH = 5 };
    weft_fiber *parked[EACH], *asleep[EACH], *timed[EACH];
    int over = 0, ran = 0;
    weft_sched *s = running_sched(2);
    for (int i = 0; i < EACH; i++) {
        parked[i] = go_on(s, parks, NULL);
        asleep[i] = go_on(s, sleeps_long, NULL);
        timed[i] = go_on(s, parks_long, NULL);
    }
    AWAIT(figures(s).parked == 3 * EACH);
    AWAIT(figures(s).timers == 2 * EACH && figures(s).idle == 2);
    weft_sched_figures f = figures(s);
    CHECK_INT(f.workers, ==, 2);
    CHECK_INT(f.active, ==, 0);
    CHECK_INT(f.ready, ==, 0);
    CHECK_INT(f.sleeping, ==, EACH);
    CHECK_INT(f.spawned, ==, 3 * EACH);
    CHECK_INT(f.ended, ==, 0);
    CHECK_INT(f.watches, ==, 0);

    for (int i = 0; i < 2; i++) /* both are busy, and nobody runs what comes */
        CHECK_INT(weft_sched_go(s, NULL, &(weft_attr){.worker = WEFT_WORKER(i)}, spins, &over), ==, 0);
    AWAIT(figures(s).active == 2 && figures(s).ready == 0);
    for (int i = 0; i < 7; i++)
        CHECK_INT(weft_sched_go(s, NULL, NULL, counts, &ran), ==, 0);
    f = figures(s);
    CHECK_INT(f.ready, ==, 7);
    CHECK_INT(f.idle, ==, 0);
    CHECK_INT(f.parked, ==, 3 * EACH);
    CHECK_INT(f.spawned, ==, 3 * EACH + 9);
    put(&over, 1);

    for (int i = 0; i < EACH; i++) {
        weft_unpark(parked[i]);
        CHECK_INT(weft_cancel(asleep[i]), ==, 0);
        weft_unpark(timed[i]);
    }
    for (int i = 0; i < EACH; i++) {
        ended(parked[i]);
        ended(asleep[i]);
        ended(timed[i]);
    }
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    f = figures(s);
    CHECK_INT(f.active, ==, 0);
    CHECK_INT(f.idle, ==, 0);
    CHECK_INT(f.ready, ==, 0);
    CHECK_INT(f.parked, ==, 0);
    CHECK_INT(f.sleeping, ==, 0);
    CHECK_INT(f.timers, ==, 0);
    CHECK_INT(f.spawned, ==, 3 * EACH + 9);
    CHECK_INT(f.ended, ==, 3 * EACH + 9);
    CHECK_INT(f.switches, >=, 3 * EACH * 2 + 9);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

TEST(what_is_queued_before_a_start_is_ready)
{
    weft_sched *s = new_sched(3, false);
    for (int i = 0; i < 4; i++)
        CHECK_INT(weft_sched_go(s, NULL, NULL, returns_at_once, NULL), ==, 0);
    weft_sched_figures f = figures(s);
    CHECK_INT(f.workers, ==, 3);
    CHECK_INT(f.active, ==, 0);
    CHECK_INT(f.ready, ==, 4);
    CHECK_INT(f.spawned, ==, 4);
    end_sched(s);
}

TEST(worker_0_is_not_active_outside_run)
{
    weft_sched *s = new_sched(2, true);
    CHECK_INT(weft_sched_start(s), ==, 0);
    AWAIT(figures(s).idle == 1);
    CHECK_INT(figures(s).active, ==, 0);
    end_sched(s);
}

/* Some are spawned by fibers, some by others, by some workers for others. */
static void *has_children(void *arg)
{
    intptr_t depth = (intptr_t)arg;
    for (int i = 0; depth > 0 && i < 4; i++) {
        ended(go(returns_at_once, NULL));
        CHECK_INT(weft_go(has_children, ptr(depth - 1)), ==, 0);
        weft_yield();
    }
    return NULL;
}

TEST(as_many_end_as_are_spawned)
{
    for (unsigned workers = 1; workers <= 4; workers++) {
        weft_sched *s = running_sched(workers);
        for (int i = 0; i < 3; i++)
            CHECK_INT(weft_sched_go(s, NULL, NULL, has_children, ptr(4)), ==, 0);
        CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, 0);
        weft_sched_figures f = figures(s);
        CHECK_INT(f.spawned, ==, 3 * (1 + 4 + 16 + 64 + 256 + 4 * (1 + 4 + 16 + 64)));
        CHECK_INT(f.ended, ==, f.spawned);
        CHECK_INT(f.ready + f.parked + f.timers, ==, 0);
        CHECK_INT(f.warm_hits + f.warm_misses, ==, f.spawned);
        CHECK_INT(f.switches, >=, f.spawned);
        end_sched(s);
    }
}

static void *spins_beside_children(void *arg)
{
    int *ran = arg;
    for (int i = 0; i < 10; i++)
        CHECK_INT(weft_go(counts, ran), ==, 0);
    while (seen(ran) < 10)
        ;
    return NULL;
}

TEST(what_was_stolen_is_counted)
{
    int ran = 0;
    weft_sched *s = running_sched(2);
    CHECK_INT(figures(s).stolen, ==, 0);
    ended(go_on(s, spins_beside_children, &ran));
    CHECK_INT(figures(s).stolen, ==, 10);
    end_sched(s);
}

TEST(a_warm_start_is_a_hit)
{
    enum { WARM = 20 };
    weft_fiber *f[2 * WARM];
    for (unsigned use_caller = 0; use_caller < 2; use_caller++) {
        weft_sched *s;
        REQUIRE(weft_sched_new(&s, &(weft_sched_opts){.threads = 1, .warm = WARM, .use_caller = use_caller}) == 0);
        CHECK_INT(weft_sched_start(s), ==, 0);
        for (int i = 0; i < WARM; i++)
            f[i] = go_on(s, parks, NULL);
        if (use_caller)
            CHECK_INT(weft_sched_run(s, WEFT_NOW), ==, -EAGAIN);
        AWAIT(figures(s).parked == WARM);
        CHECK_INT(figures(s).warm_hits, ==, WARM);
        CHECK_INT(figures(s).warm_misses, ==, 0);
        for (int i = WARM; i < 2 * WARM; i++) /* some of these find none */
            f[i] = go_on(s, parks, NULL);
        if (use_caller)
            CHECK_INT(weft_sched_run(s, WEFT_NOW), ==, -EAGAIN);
        AWAIT(figures(s).parked == 2 * WARM);
        CHECK_INT(figures(s).warm_misses, >, 0);
        CHECK_INT(figures(s).warm_hits + figures(s).warm_misses, ==, 2 * WARM);
        for (int i = 0; i < 2 * WARM; i++)
            weft_unpark(f[i]);
        CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
        for (int i = 0; i < 2 * WARM; i++)
            ended(f[i]);
        CHECK_INT(weft_sched_free(s), ==, 0);
    }
}

enum { BURST = 200, KEPT = 10 };

static void *bursts(void *arg)
{
    static weft_fiber *f[BURST];
    weft_sched *s = weft_sched_current();
    for (int burst = 0; burst < 2; burst++) {
        weft_sched_figures before = figures(s);
        for (int i = 0; i < BURST; i++)
            f[i] = go(parks, NULL);
        AWAIT(figures(s).parked == BURST);
        weft_sched_figures after = figures(s);
        if (burst == 1) /* what the burst before has left is not enough for this one; they come 16 at a time */
            CHECK_INT(after.warm_misses - before.warm_misses, >=, (BURST - KEPT) / 17);
        for (int i = 0; i < BURST; i++)
            weft_unpark(f[i]);
        for (int i = 0; i < BURST; i++)
            ended(f[i]);
    }
    return arg;
}

TEST(warm_max_is_how_many_are_kept)
{
    for (unsigned use_caller = 0; use_caller < 2; use_caller++) {
        weft_sched *s;
        weft_stack_trim();
        REQUIRE(weft_sched_new(&s, &(weft_sched_opts){.threads = 1, .warm_max = KEPT, .use_caller = use_caller}) == 0);
        CHECK_INT(weft_sched_go(s, NULL, NULL, bursts, NULL), ==, 0);
        end_sched(s);
    }
}

TEST(null_has_no_name_no_birth_and_no_threads)
{
    CHECK_STR(weft_sched_name(NULL), "");
    CHECK_INT(weft_sched_born(NULL).ns, ==, 0);
    CHECK_INT(weft_sched_tid(NULL, 0), ==, -EINVAL);
}

TEST(a_scheduler_has_its_name_and_birth)
{
    clock_begin();
    weft_sched *s, *unnamed = new_sched(1, false);
    char name[] = "a name that is longer than those 31 bytes";
    CHECK_STR(weft_sched_name(unnamed), "weft");
    CHECK_INT(weft_sched_born(unnamed).ns, ==, 1000 * WEFT_SEC);
    clock_forward(5 * WEFT_SEC);
    REQUIRE(weft_sched_new(&s, &(weft_sched_opts){.threads = 1, .name = name}) == 0);
    name[0] = 'X'; /* it was copied */
    CHECK_STR(weft_sched_name(s), "a name that is longer than thos");
    clock_forward(5 * WEFT_SEC);
    for (int i = 0; i < 2; i++) { /* a start, and another, are no birth */
        CHECK_INT(weft_sched_start(s), ==, 0);
        CHECK_INT(weft_sched_born(s).ns, ==, 1005 * WEFT_SEC);
        CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    }
    CHECK_INT(weft_sched_free(s), ==, 0);
    end_sched(unnamed);
    clock_end();
}

struct place {
    int tid;
    char name[16];
};

static void *says_where(void *arg)
{
    struct place *p = arg;
    p->tid = gettid();
    pthread_getname_np(pthread_self(), p->name, sizeof p->name);
    return NULL;
}

/* What a fiber that is bound to it sees there. */
static struct place place_of(weft_sched *s, int worker)
{
    struct place p = {0};
    CHECK_INT(weft_sched_go(s, NULL, &(weft_attr){.worker = WEFT_WORKER(worker)}, says_where, &p), ==, 0);
    CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, 0);
    return p;
}

TEST(a_worker_has_a_thread_while_the_scheduler_runs)
{
    enum { WORKERS = 3 };
    for (int use_caller = 0; use_caller < 2; use_caller++) {
        weft_sched *s;
        weft_sched_opts opts = {.threads = WORKERS, .use_caller = use_caller, .name = "mill"};
        REQUIRE(weft_sched_new(&s, &opts) == 0);
        CHECK_INT(weft_sched_tid(s, -1), ==, -EINVAL);
        CHECK_INT(weft_sched_tid(s, WORKERS), ==, -EINVAL);
        for (int start = 0; start < 10; start++) {
            for (int i = 0; i < WORKERS; i++)
                CHECK_INT(weft_sched_tid(s, i), ==, use_caller && i == 0 ? gettid() : -ESRCH);
            CHECK_INT(weft_sched_start(s), ==, 0);
            for (int i = 0; i < WORKERS; i++) {
                int tid = weft_sched_tid(s, i); /* at once after the start */
                char name[32];
                snprintf(name, sizeof name, "mill_%d", i);
                struct place p = place_of(s, i);
                CHECK_INT(tid, >, 0);
                CHECK_INT(tid, ==, p.tid);
                if (!use_caller || i > 0) /* the caller's thread keeps its name */
                    CHECK_STR(p.name, name);
            }
            CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
        }
        CHECK_INT(weft_sched_tid(s, WORKERS - 1), ==, -ESRCH);
        CHECK_INT(weft_sched_free(s), ==, 0);
    }
}

static void *looks_from_outside(void *s)
{
    for (int i = 0; i < 2; i++)
        CHECK_INT(weft_sched_tid(s, i), >, 0);
    return NULL;
}

static void *looks_from_within(void *arg)
{
    CHECK_INT(weft_sched_tid(weft_sched_current(), weft_fiber_worker(weft_fiber_current())), ==, gettid());
    pthread_join(new_thread(looks_from_outside, weft_sched_current()), NULL);
    return arg;
}

TEST(a_fiber_may_ask_for_its_thread)
{
    in_a_fiber(2, looks_from_within, NULL);
}

TESTS(sched_stats, null_has_no_name_no_birth_and_no_threads, a_scheduler_has_its_name_and_birth,
      a_worker_has_a_thread_while_the_scheduler_runs, a_fiber_may_ask_for_its_thread, what_cannot_be_asked_is_einval,
      ready_parked_sleeping_and_timers_are_counted, what_is_queued_before_a_start_is_ready,
      worker_0_is_not_active_outside_run, as_many_end_as_are_spawned, what_was_stolen_is_counted, a_warm_start_is_a_hit,
      warm_max_is_how_many_are_kept)
