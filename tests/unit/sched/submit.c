/*
 * weft_sched_submit: a fiber that was made beforehand, or is parked, given to a worker.
 */
#include "unit/sched/ground.h"

static weft_fiber *new_fiber(weft_fn *fn, void *arg)
{
    weft_fiber *f = NULL;
    CHECK_INT(weft_fiber_new(&f, NULL, fn, arg), ==, 0);
    return f;
}

TEST(a_new_one_starts_when_it_is_submitted)
{
    int ran = 0;
    weft_sched *s = running_sched(2);
    weft_fiber *f = new_fiber(counts, &ran);
    CHECK_INT(weft_fiber_state(f), ==, WEFT_FIBER_NEW);
    CHECK_INT(weft_join(f, NULL, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_sched_submit(s, f, 0), ==, 0);
    CHECK_PTR(ended(f), ==, &ran);
    end_sched(s);
}

static void *says_its_worker(void *arg)
{
    (void)arg;
    return ptr(weft_fiber_worker(weft_fiber_current()));
}

TEST(a_new_one_starts_on_the_worker_that_is_named)
{
    weft_sched *s = running_sched(3);
    for (intptr_t i = 0; i < 30; i++) {
        weft_fiber *f = new_fiber(says_its_worker, NULL);
        CHECK_INT(weft_sched_submit(s, f, WEFT_WORKER(i % 3)), ==, 0);
        CHECK_INT((intptr_t)ended(f), ==, i % 3);
    }
    end_sched(s);
}

TEST(what_cannot_be_is_einval)
{
    weft_sched *s = running_sched(2);
    weft_fiber *f = new_fiber(returns_at_once, NULL), *untouched = ptr(1);
    CHECK_INT(weft_sched_submit(NULL, f, 0), ==, -EINVAL);
    CHECK_INT(weft_sched_submit(s, NULL, 0), ==, -EINVAL);
    CHECK_INT(weft_sched_submit(s, f, WEFT_WORKER(2)), ==, -EINVAL);
    CHECK_INT(weft_sched_submit(s, f, -1), ==, -EINVAL);
    CHECK_INT(weft_fiber_state(f), ==, WEFT_FIBER_NEW);
    CHECK_INT(weft_fiber_new(&untouched, NULL, NULL, NULL), ==, -EINVAL);
    CHECK_INT(weft_fiber_new(NULL, NULL, returns_at_once, NULL), ==, -EINVAL);
    CHECK_INT(weft_fiber_new(&untouched, &(weft_attr){.priority = 8}, returns_at_once, NULL), ==, -EINVAL);
    CHECK_PTR(untouched, ==, ptr(1));
    CHECK_INT(weft_sched_submit(s, f, 0), ==, 0);
    ended(f);
    end_sched(s);
}

static void *sleeps_long(void *arg)
{
    (void)arg;
    return ptr(weft_sleep(AWAIT_SECONDS * WEFT_SEC));
}

static void *submits_in_every_state(void *arg)
{
    weft_sched *s = weft_sched_current();
    weft_fiber *f = new_fiber(parks, NULL);
    CHECK_INT(weft_sched_submit(s, weft_fiber_current(), 0), ==, -EBUSY); /* it runs */
    CHECK_INT(weft_sched_submit(s, f, 0), ==, 0);
    CHECK_INT(weft_sched_submit(s, f, 0), ==, -EBUSY); /* it is ready */
    weft_yield();
    CHECK(is_parked(f));
    CHECK_INT(weft_sched_submit(s, f, 0), ==, 0); /* it is parked: an unpark */
    CHECK_INT(weft_fiber_state(f), ==, WEFT_FIBER_READY);
    CHECK_INT(weft_sched_submit(s, f, 0), ==, -EBUSY);
    weft_yield();
    CHECK_INT(weft_fiber_state(f), ==, WEFT_FIBER_DONE);
    CHECK_INT(weft_sched_submit(s, f, 0), ==, -ESRCH);
    CHECK_PTR(ended(f), ==, NULL);

    f = go(sleeps_long, NULL);
    weft_yield();
    CHECK(is_parked(f));
    CHECK_INT(weft_sched_submit(s, f, 0), ==, -EBUSY); /* it waits for something else */
    CHECK_INT(weft_cancel(f), ==, 0);
    CHECK_INT((intptr_t)ended(f), ==, -ECANCELED);
    return arg;
}

TEST(it_is_taken_when_new_or_parked_and_refused_otherwise)
{
    in_a_fiber(1, submits_in_every_state, NULL);
}

static void *parks_twice(void *arg)
{
    CHECK_INT(weft_park(WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_park(WEFT_NOW), ==, -EAGAIN); /* a submit leaves no token */
    return arg;
}

static void *submits_one_that_is_ready(void *arg)
{
    weft_fiber *f = go(parks_twice, NULL);
    weft_yield();
    CHECK_INT(weft_sched_submit(weft_sched_current(), f, 0), ==, 0);
    CHECK_INT(weft_sched_submit(weft_sched_current(), f, 0), ==, -EBUSY);
    ended(f);
    return arg;
}

TEST(a_refused_submit_leaves_no_token)
{
    in_a_fiber(1, submits_one_that_is_ready, NULL);
}

TEST(a_started_one_stays_with_its_scheduler_and_its_worker)
{
    weft_sched *s = running_sched(2), *other = running_sched(2);
    weft_fiber *f;
    CHECK_INT(weft_sched_go(s, &f, &(weft_attr){.worker = WEFT_WORKER(0)}, parks, NULL), ==, 0);
    AWAIT(is_parked(f));
    CHECK_INT(weft_sched_submit(other, f, 0), ==, -EPERM);
    CHECK_INT(weft_sched_submit(s, f, WEFT_WORKER(1)), ==, -EPERM);
    CHECK(is_parked(f));
    CHECK_INT(weft_sched_submit(s, f, WEFT_WORKER(0)), ==, 0);
    CHECK_PTR(ended(f), ==, NULL);
    CHECK_INT(weft_sched_go(s, &f, (&(weft_attr){.worker = WEFT_WORKER(0), .flags = WEFT_MIGRATE}), parks, NULL), ==,
              0);
    AWAIT(is_parked(f));
    CHECK_INT(weft_sched_submit(s, f, WEFT_WORKER(1)), ==, -EPERM); /* it is bound, whatever else it says */
    CHECK_INT(weft_sched_submit(s, f, 0), ==, 0);
    CHECK_PTR(ended(f), ==, NULL);
    end_sched(s);
    end_sched(other);
}

/* A fiber that may move, and is submitted again and again. */
struct guest {
    int turns;
    int where; /* the worker of the last turn */
    int over;
};

static void *goes_round(void *arg)
{
    struct guest *g = arg;
    for (;;) {
        put(&g->where, weft_fiber_worker(weft_fiber_current()));
        more(&g->turns);
        if (seen(&g->over))
            return NULL;
        CHECK_INT(weft_park(seen(&g->turns) % 2 ? WEFT_FOREVER : weft_in(AWAIT_SECONDS * WEFT_SEC)), ==, 0);
    }
}

/* Counts the turns that it has elsewhere than on the worker that was named. */
static int submit_round(weft_sched *s, weft_fiber *f, struct guest *g, unsigned workers, int times)
{
    int elsewhere = 0;
    for (int i = 0; i < times; i++) {
        int before = seen(&g->turns), named = (int)((unsigned)(i / 3 + i) % workers);
        int rc = weft_sched_submit(s, f, WEFT_WORKER(named));
        CHECK_INT(rc, ==, 0);
        if (rc != 0)
            return times;
        AWAIT(seen(&g->turns) > before && is_parked(f));
        elsewhere += seen(&g->where) != named;
    }
    return elsewhere;
}

TEST(one_that_may_move_runs_next_on_the_worker_that_is_named)
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        struct guest g = {0};
        weft_sched *s = running_sched(workers);
        weft_fiber *f;
        CHECK_INT(weft_sched_go(s, &f, &(weft_attr){.flags = WEFT_MIGRATE}, goes_round, &g), ==, 0);
        AWAIT(is_parked(f));
        CHECK_INT(submit_round(s, f, &g, workers, 1000), ==, 0); /* all others are idle, and would steal it */
        put(&g.over, 1);
        weft_unpark(f);
        ended(f);
        end_sched(s);
    }
}

TEST(one_that_was_new_may_be_named_another_worker_next)
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        for (unsigned first = 0; first < workers; first++) {
            struct guest g = {0};
            weft_sched *s = running_sched(workers);
            weft_fiber *f;
            CHECK_INT(weft_fiber_new(&f, &(weft_attr){.flags = WEFT_MIGRATE}, goes_round, &g), ==, 0);
            CHECK_INT(weft_sched_submit(s, f, WEFT_WORKER(first)), ==, 0);
            CHECK_INT(weft_fiber_worker(f), ==, first);
            AWAIT(is_parked(f));
            CHECK_INT(g.where, ==, first);
            CHECK_INT(submit_round(s, f, &g, workers, 20), ==, 0);
            put(&g.over, 1);
            weft_unpark(f);
            ended(f);
            end_sched(s);
        }
    }
}

/* By fibers, on the worker that is named and on others. */
struct host {
    weft_fiber *f;
    struct guest *g;
    unsigned workers;
    int elsewhere;
};

static void *submits_round(void *arg)
{
    struct host *h = arg;
    h->elsewhere = submit_round(weft_sched_current(), h->f, h->g, h->workers, 300);
    return NULL;
}

TEST(fibers_name_a_worker_as_well)
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        struct guest g = {0};
        weft_sched *s = running_sched(workers);
        struct host h = {.g = &g, .workers = workers};
        CHECK_INT(weft_sched_go(s, &h.f, &(weft_attr){.flags = WEFT_MIGRATE}, goes_round, &g), ==, 0);
        AWAIT(is_parked(h.f));
        ended(go_on(s, submits_round, &h));
        CHECK_INT(h.elsewhere, ==, 0);
        put(&g.over, 1);
        weft_unpark(h.f);
        ended(h.f);
        end_sched(s);
    }
}

/* One that a worker was named for is free again: while that worker computes, another one takes it. */
struct leaver {
    int parks_first;
    int over;
    int last;
};

static void *leaves(void *arg)
{
    struct leaver *l = arg;
    if (l->parks_first)
        CHECK_INT(weft_park(WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_fiber_worker(weft_fiber_current()), ==, 0);
    CHECK_INT(weft_go_with(NULL, &(weft_attr){.worker = WEFT_WORKER(0)}, spins, &l->over), ==, 0);
    weft_yield();
    put(&l->last, weft_fiber_worker(weft_fiber_current()));
    put(&l->over, 1);
    return NULL;
}

TEST(one_that_may_move_is_free_again_after_it_has_run_where_it_was_named)
{
    for (int parks_first = 0; parks_first < 2; parks_first++) {
        struct leaver l = {.parks_first = parks_first, .last = -1};
        weft_sched *s = running_sched(2);
        weft_fiber *f;
        CHECK_INT(weft_fiber_new(&f, &(weft_attr){.flags = WEFT_MIGRATE}, leaves, &l), ==, 0);
        CHECK_INT(weft_sched_submit(s, f, WEFT_WORKER(parks_first)), ==, 0);
        if (parks_first) {
            AWAIT(is_parked(f));
            CHECK_INT(weft_sched_submit(s, f, WEFT_WORKER(0)), ==, 0);
        }
        AWAIT(seen(&l.last) == 1);
        put(&l.over, 1);
        ended(f);
        end_sched(s);
    }
}

/* Of two threads that name different workers, the one that is not refused is obeyed. */
struct rival {
    weft_sched *sched;
    weft_fiber *f;
    int *began;
    int worker, rc;
};

static void *names_its_worker(void *arg)
{
    struct rival *r = arg;
    more(r->began);
    while (seen(r->began) < 2)
        ;
    r->rc = weft_sched_submit(r->sched, r->f, WEFT_WORKER(r->worker));
    return NULL;
}

TEST(the_submit_that_is_taken_says_where)
{
    struct guest g = {0};
    weft_sched *s = running_sched(2);
    weft_fiber *f;
    CHECK_INT(weft_sched_go(s, &f, &(weft_attr){.flags = WEFT_MIGRATE}, goes_round, &g), ==, 0);
    for (int i = 0; i < 500; i++) {
        AWAIT(is_parked(f));
        int began = 0, before = seen(&g.turns);
        struct rival r[2] = {{s, f, &began, 0, 1}, {s, f, &began, 1, 1}};
        pthread_t other = new_thread(names_its_worker, &r[0]);
        names_its_worker(&r[1]);
        pthread_join(other, NULL);
        int taken = (r[0].rc == 0) + (r[1].rc == 0);
        AWAIT(seen(&g.turns) == before + taken);
        CHECK(taken > 0);
        if (taken == 1) /* else one came after the other */
            CHECK_INT(seen(&g.where), ==, r[0].rc == 0 ? 0 : 1);
    }
    AWAIT(is_parked(f));
    put(&g.over, 1);
    weft_unpark(f);
    ended(f);
    end_sched(s);
}

TEST(what_a_scheduler_that_stops_refuses_stays_new)
{
    int over = 0, ran = 0;
    weft_sched *s = running_sched(1);
    weft_fiber *f = new_fiber(counts, &ran);
    CHECK_INT(weft_sched_go(s, NULL, NULL, spins, &over), ==, 0);
    pthread_t other = new_thread(stops, s);
    await_draining(s);
    CHECK_INT(weft_sched_submit(s, f, 0), ==, -ESHUTDOWN);
    CHECK_INT(weft_sched_submit(s, f, WEFT_WORKER(0)), ==, -ESHUTDOWN);
    CHECK_INT(weft_fiber_state(f), ==, WEFT_FIBER_NEW);
    CHECK_INT(weft_fiber_worker(f), ==, -1);
    put(&over, 1);
    pthread_join(other, NULL);
    CHECK_INT(weft_sched_submit(s, f, 0), ==, -ESHUTDOWN);
    CHECK_INT(weft_sched_free(s), ==, 0);
    s = running_sched(1); /* another one takes it */
    CHECK_INT(weft_sched_submit(s, f, 0), ==, 0);
    CHECK_PTR(ended(f), ==, &ran);
    end_sched(s);
}

/* Of two who submit the same one at once, one is refused. */
struct race {
    weft_sched *sched;
    weft_fiber *f;
    int began, taken;
};

static void *submits_at_the_same_moment(void *arg)
{
    struct race *r = arg;
    more(&r->began);
    while (seen(&r->began) < 2)
        ;
    int rc = weft_sched_submit(r->sched, r->f, 0);
    CHECK(rc == 0 || rc == -EBUSY || rc == -ESRCH);
    if (rc == 0)
        more(&r->taken);
    return NULL;
}

TEST(of_two_submits_one_is_taken)
{
    weft_sched *s = running_sched(2);
    for (int i = 0; i < 100; i++) {
        int ran = 0;
        struct race r = {.sched = s, .f = new_fiber(counts, &ran)};
        pthread_t other = new_thread(submits_at_the_same_moment, &r);
        submits_at_the_same_moment(&r);
        pthread_join(other, NULL);
        CHECK_INT(r.taken, ==, 1);
        ended(r.f);
        CHECK_INT(ran, ==, 1);
    }
    end_sched(s);
}

TESTS(sched_submit, a_new_one_starts_when_it_is_submitted, a_new_one_starts_on_the_worker_that_is_named,
      what_cannot_be_is_einval, it_is_taken_when_new_or_parked_and_refused_otherwise, a_refused_submit_leaves_no_token,
      a_started_one_stays_with_its_scheduler_and_its_worker, one_that_may_move_runs_next_on_the_worker_that_is_named,
      one_that_was_new_may_be_named_another_worker_next, fibers_name_a_worker_as_well,
      one_that_may_move_is_free_again_after_it_has_run_where_it_was_named, the_submit_that_is_taken_says_where,
      what_a_scheduler_that_stops_refuses_stays_new, of_two_submits_one_is_taken)
