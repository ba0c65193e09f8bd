/*
 * Where fibers run: bound ones on their worker, started ones on the thread they started on, those that may move
 * anywhere, and those that have not started wherever there is a free worker.
 */
#include <limits.h>

#include "base/sys.h"
#include "unit/sched/ground.h"

enum { WORKERS = 4 };

/* Waits in every way that there is. */
static void wait_somehow(int i)
{
    switch (i % 4) {
    case 0:
        weft_yield();
        break;
    case 1:
        CHECK_INT(weft_sleep(WEFT_US), ==, 0);
        break;
    case 2:
        CHECK_INT(weft_park(weft_in(WEFT_US)), ==, -ETIMEDOUT);
        break;
    default:
        ended(go(returns_at_once, NULL));
    }
}

static void *stays_where_it_is_bound(void *arg)
{
    for (int i = 0; i < 100; i++) {
        CHECK_INT(weft_fiber_worker(weft_fiber_current()), ==, (intptr_t)arg);
        wait_somehow(i);
    }
    return ptr(gettid());
}

TEST(a_bound_one_runs_on_its_worker_from_start_to_end)
{
    weft_fiber *f[5 * WORKERS];
    intptr_t tid[WORKERS] = {0};
    weft_sched *s = running_sched(WORKERS);
    for (intptr_t i = 0; i < 5 * WORKERS; i++)
        CHECK_INT(weft_sched_go(s, &f[i], (&(weft_attr){.worker = WEFT_WORKER(i % WORKERS), .flags = WEFT_MIGRATE}),
                                stays_where_it_is_bound, ptr(i % WORKERS)),
                  ==, 0);
    for (int i = 0; i < 5 * WORKERS; i++) {
        intptr_t on = (intptr_t)ended(f[i]);
        if (tid[i % WORKERS] == 0)
            tid[i % WORKERS] = on;
        CHECK_INT(on, ==, tid[i % WORKERS]); /* a worker is one thread */
    }
    for (int i = 1; i < WORKERS; i++)
        CHECK(tid[i] != tid[i - 1]);
    end_sched(s);
}

static void *stays_on_its_thread(void *arg)
{
    pid_t tid = gettid();
    int worker = weft_fiber_worker(weft_fiber_current());
    for (int i = 0; i < 100; i++) {
        wait_somehow(i);
        CHECK_INT(gettid(), ==, tid);
        CHECK_INT(weft_fiber_worker(weft_fiber_current()), ==, worker);
    }
    return arg;
}

static void *many_stay(void *arg)
{
    enum { MANY = 40 };
    weft_fiber *f[MANY];
    for (int i = 0; i < MANY; i++)
        f[i] = go(stays_on_its_thread, NULL);
    for (int i = 0; i < MANY; i++)
        ended(f[i]);
    return arg;
}

TEST(a_started_one_never_changes_its_thread)
{
    in_a_fiber(WORKERS, many_stay, NULL);
}

struct mover {
    int over, moves;
};

static void *moves(void *arg)
{
    struct mover *m = arg;
    int worker = weft_fiber_worker(weft_fiber_current());
    for (int i = 0; !seen(&m->over); i++) {
        wait_somehow(i);
        int now = weft_fiber_worker(weft_fiber_current());
        if (now != worker)
            more(&m->moves);
        worker = now;
    }
    return NULL;
}

TEST(one_that_may_move_does)
{
    struct mover m = {0};
    weft_sched *s = running_sched(2);
    for (int i = 0; i < 5; i++)
        CHECK_INT(weft_sched_go(s, NULL, &(weft_attr){.flags = WEFT_MIGRATE}, moves, &m), ==, 0);
    AWAIT(seen(&m.moves) > 10);
    put(&m.over, 1);
    end_sched(s);
}

/*
 * A wait that is over at once, as its fiber was cancelled: it is ready, and others may take it, the moment it is
 * published. By then it must have left its stack.
 */
static void *waits_in_vain(void *arg)
{
    volatile uint64_t mine = (uintptr_t)arg;
    for (int i = 0; i < 3000; i++) {
        CHECK_INT(i % 2 ? weft_park(WEFT_FOREVER) : weft_sleep(WEFT_SEC), ==, -ECANCELED);
        CHECK(mine == (uintptr_t)arg + (uint64_t)i);
        mine++;
    }
    return NULL;
}

static void wait_in_vain(unsigned workers)
{
    enum { MANY = 6 };
    weft_fiber *f[MANY];
    weft_sched *s = new_sched(workers, false);
    for (int i = 0; i < MANY; i++) {
        CHECK_INT(weft_sched_go(s, &f[i], &(weft_attr){.flags = WEFT_MIGRATE}, waits_in_vain, &f[i]), ==, 0);
        CHECK_INT(weft_cancel(f[i]), ==, 0);
    }
    CHECK_INT(weft_sched_start(s), ==, 0);
    for (int i = 0; i < MANY; i++)
        ended(f[i]);
    end_sched(s);
}

TEST(one_that_moves_is_run_by_one_worker_at_a_time)
{
    for (int round = 0; round < 40; round++) /* two of them are stolen from each other in some rounds only */
        wait_in_vain(2 + (unsigned)round % (WORKERS - 1));
}

/* Spawns, and then computes until all of them have run: nobody but others can run them. */
struct family {
    int children, ran;
};

static void *computes_until_they_have_run(void *arg)
{
    struct family *f = arg;
    for (int i = 0; i < f->children; i++)
        CHECK_INT(weft_go(counts, &f->ran), ==, 0);
    int64_t limit = real_now() + AWAIT_SECONDS * WEFT_SEC;
    while (seen(&f->ran) < f->children && real_now() < limit)
        ;
    CHECK_INT(seen(&f->ran), ==, f->children);
    return NULL;
}

TEST(a_spawner_that_computes_does_not_hold_up_its_children)
{
    static const int sizes[] = {1, 2, 50, 200, 10000}; /* the last is more than a ring has room for at first */
    for (unsigned workers = 2; workers <= WORKERS; workers++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            struct family f = {.children = sizes[i]};
            in_a_fiber(workers, computes_until_they_have_run, &f);
        }
    }
}

/* No memory for a larger ring: what does not fit is not lost, nor does it wait for its worker. */
static void *spawns_without_memory(void *arg)
{
    wf_sys_fail(1u << WF_SYS_GROW, 1, UINT_MAX - 1);
    void *value = computes_until_they_have_run(arg);
    CHECK_INT(wf_sys_calls(), >, 0);
    wf_sys_fail(0, 0, 0);
    return value;
}

TEST(nor_does_one_whose_ring_cannot_grow)
{
    for (unsigned workers = 2; workers <= WORKERS; workers++) {
        struct family f = {.children = 3000};
        in_a_fiber(workers, spawns_without_memory, &f);
    }
}

/* Many at once on every worker, while all steal from all: the rings grow under those who steal. */
static void *spawns_many(void *arg)
{
    for (int i = 0; i < 2000; i++)
        CHECK_INT(weft_go(counts, arg), ==, 0);
    return NULL;
}

TEST(rings_that_grow_while_others_steal_lose_nobody)
{
    static const unsigned workers[] = {1, 2, 8, 64};
    for (size_t i = 0; i < sizeof workers / sizeof workers[0]; i++) {
        int ran = 0;
        weft_sched *s = running_sched(workers[i]);
        for (int j = 0; j < 30; j++)
            CHECK_INT(weft_sched_go(s, NULL, NULL, spawns_many, &ran), ==, 0);
        CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, 0);
        CHECK_INT(ran, ==, 30 * 2000);
        end_sched(s);
    }
}

struct busy {
    int begun, over;
};

static void *is_busy(void *arg)
{
    struct busy *b = arg;
    put(&b->begun, 1);
    return spins(&b->over);
}

/* A started fiber waits for its worker, however busy that is; the one that has not started does not. */
TEST(what_has_started_is_not_stolen)
{
    struct busy busy = {0};
    int ran = 0;
    weft_sched *s = running_sched(2);
    weft_fiber *parked;
    CHECK_INT(weft_sched_go(s, &parked, &(weft_attr){.worker = WEFT_WORKER(0)}, parks, NULL), ==, 0);
    AWAIT(is_parked(parked));
    CHECK_INT(weft_sched_go(s, NULL, &(weft_attr){.worker = WEFT_WORKER(0)}, is_busy, &busy), ==, 0);
    AWAIT(seen(&busy.begun));
    weft_unpark(parked);
    for (int i = 0; i < 20; i++)
        CHECK_INT(weft_sched_go(s, NULL, NULL, counts, &ran), ==, 0);
    AWAIT(seen(&ran) == 20);
    CHECK_INT(weft_join(parked, NULL, WEFT_NOW), ==, -EAGAIN);
    put(&busy.over, 1);
    ended(parked);
    end_sched(s);
}

TESTS(sched_pinned, a_bound_one_runs_on_its_worker_from_start_to_end, a_started_one_never_changes_its_thread,
      one_that_may_move_does, one_that_moves_is_run_by_one_worker_at_a_time,
      a_spawner_that_computes_does_not_hold_up_its_children, nor_does_one_whose_ring_cannot_grow,
      rings_that_grow_while_others_steal_lose_nobody, what_has_started_is_not_stolen)
