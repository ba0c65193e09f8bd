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

static void *goes_round(void *arg)
{
    int *turns = arg;
    while (seen(turns) >= 0) {
        CHECK_INT(weft_park(WEFT_FOREVER), ==, 0);
        more(turns);
    }
    return NULL;
}

static void *keeps_busy(void *arg)
{
    while (!seen(arg))
        weft_yield();
    return NULL;
}

TEST(one_that_may_move_goes_on_on_the_worker_that_is_named)
{
    int turns = 0, over = 0;
    weft_sched *s = running_sched(2);
    weft_fiber *f;
    for (int i = 0; i < 2; i++) /* nobody is idle, and steals it on the way */
        CHECK_INT(weft_sched_go(s, NULL, &(weft_attr){.worker = WEFT_WORKER(i)}, keeps_busy, &over), ==, 0);
    CHECK_INT(weft_sched_go(s, &f, &(weft_attr){.flags = WEFT_MIGRATE}, goes_round, &turns), ==, 0);
    for (int i = 0; i < 200; i++) {
        AWAIT(is_parked(f));
        int before = seen(&turns);
        AWAIT(weft_sched_submit(s, f, WEFT_WORKER(i % 2)) == 0);
        AWAIT(seen(&turns) == before + 1);
        CHECK_INT(weft_fiber_worker(f), ==, i % 2);
    }
    AWAIT(is_parked(f));
    put(&turns, -1000);
    weft_unpark(f);
    ended(f);
    put(&over, 1);
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
      a_started_one_stays_with_its_scheduler_and_its_worker, one_that_may_move_goes_on_on_the_worker_that_is_named,
      what_a_scheduler_that_stops_refuses_stays_new, of_two_submits_one_is_taken)
