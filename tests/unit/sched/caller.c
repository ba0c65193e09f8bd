/*
 * use_caller: the thread that makes a scheduler is its worker 0, and works only inside weft_sched_run and
 * weft_sched_stop.
 */
#include <weft/timer.h>

#include "unit/sched/ground.h"

static void *says_where(void *arg)
{
    *(pid_t *)arg = gettid();
    return NULL;
}

/* The worker that a fiber bound to worker 0 ran on, as a thread. */
static pid_t thread_of_worker_0(weft_sched *s)
{
    pid_t tid = 0;
    CHECK_INT(weft_sched_go(s, NULL, &(weft_attr){.worker = WEFT_WORKER(0)}, says_where, &tid), ==, 0);
    CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, 0);
    return tid;
}

TEST(one_thread_fewer_is_made)
{
    for (unsigned threads = 1; threads <= 4; threads += 3) {
        for (int use_caller = 0; use_caller < 2; use_caller++) {
            int before = steady_threads();
            weft_sched *s = new_sched(threads, use_caller);
            CHECK_INT(count_threads(), ==, before);
            CHECK_INT(weft_sched_start(s), ==, 0);
            CHECK_INT(count_threads(), ==, before + (int)threads - use_caller);
            CHECK_INT(figures(s).workers, ==, threads);
            CHECK_INT(thread_of_worker_0(s) == gettid(), ==, use_caller);
            CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
            AWAIT(count_threads() == before);
            CHECK_INT(weft_sched_free(s), ==, 0);
        }
    }
}

TEST(alone_nothing_runs_before_run_or_stop)
{
    int ran = 0;
    weft_sched *s = new_sched(1, true);
    CHECK_INT(weft_sched_go(s, NULL, NULL, counts, &ran), ==, 0);
    CHECK_INT(weft_sched_start(s), ==, 0);
    CHECK_INT(weft_go(counts, &ran), ==, 0); /* the thread's own scheduler */
    weft_yield();
    CHECK_INT(weft_sleep(2 * WEFT_MS), ==, 0);
    CHECK_INT(ran, ==, 0);
    CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, 0);
    CHECK_INT(ran, ==, 2);
    CHECK_INT(weft_go(counts, &ran), ==, 0);
    CHECK_INT(ran, ==, 2);
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    CHECK_INT(ran, ==, 3);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

TEST(worker_0_works_only_inside_run_or_stop)
{
    int on_0 = 0, elsewhere = 0;
    weft_sched *s = new_sched(4, true);
    CHECK_INT(weft_sched_start(s), ==, 0);
    for (int i = 0; i < 8; i++) {
        CHECK_INT(weft_sched_go(s, NULL, &(weft_attr){.worker = WEFT_WORKER(0)}, counts, &on_0), ==, 0);
        CHECK_INT(weft_sched_go(s, NULL, NULL, counts, &elsewhere), ==, 0);
    }
    AWAIT(seen(&elsewhere) == 8);
    CHECK_INT(seen(&on_0), ==, 0);
    CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, 0);
    CHECK_INT(seen(&on_0), ==, 8);
    CHECK_INT(weft_sched_go(s, NULL, &(weft_attr){.worker = WEFT_WORKER(0)}, counts, &on_0), ==, 0);
    ended(go_on(s, returns_at_once, NULL));
    CHECK_INT(seen(&on_0), ==, 8);
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    CHECK_INT(seen(&on_0), ==, 9);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

static void *looks_at_current(void *s)
{
    CHECK_PTR(weft_sched_current(), ==, s);
    return NULL;
}

static void *has_none(void *arg)
{
    CHECK_PTR(weft_sched_current(), ==, NULL);
    return arg;
}

TEST(it_is_the_current_one_from_new_to_free)
{
    CHECK_PTR(weft_sched_current(), ==, NULL);
    weft_sched *s = new_sched(2, true), *other = running_sched(1);
    CHECK_PTR(weft_sched_current(), ==, s);
    CHECK_INT(weft_sched_go(s, NULL, NULL, looks_at_current, s), ==, 0);
    ended(go_on(other, looks_at_current, other));
    pthread_join(new_thread(has_none, NULL), NULL);
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    CHECK_PTR(weft_sched_current(), ==, s);
    CHECK_INT(weft_sched_free(s), ==, 0);
    CHECK_PTR(weft_sched_current(), ==, NULL);
    end_sched(other);
}

struct called {
    weft_sched *by; /* the scheduler in which it was called. atomic */
    int count;
};

static void notes_scheduler(void *arg)
{
    struct called *c = arg;
    __atomic_store_n(&c->by, weft_sched_current(), __ATOMIC_RELAXED);
    more(&c->count);
}

static void *goes_and_notes(void *arg)
{
    notes_scheduler(arg);
    return NULL;
}

static weft_sched *caller_of(struct called *c)
{
    AWAIT(seen(&c->count) == 1);
    return __atomic_load_n(&c->by, __ATOMIC_RELAXED);
}

TEST(go_and_timers_on_the_thread_of_worker_0_mean_its_scheduler)
{
    struct run_beside b;
    run_beside_begin(&b);
    for (unsigned threads = 1; threads <= 2; threads++) {
        struct called go = {0}, timer = {0};
        weft_sched *s = new_sched(threads, true);
        CHECK_INT(weft_go(goes_and_notes, &go), ==, 0);
        CHECK_INT(weft_timer_new(NULL, WEFT_US, false, NULL, notes_scheduler, &timer), ==, 0);
        CHECK_INT(weft_timer_next(NULL).ns, <, INT64_MAX);
        CHECK_INT(figures(s).spawned, ==, 1);
        CHECK_INT(figures(s).timers, ==, 1);
        CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, 0);
        CHECK_PTR(caller_of(&go), ==, s);
        CHECK_PTR(caller_of(&timer), ==, s);
        CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
        CHECK_INT(weft_go(goes_and_notes, &go), ==, -ESHUTDOWN); /* it is still the one */
        CHECK_INT(weft_timer_new(NULL, WEFT_US, false, NULL, notes_scheduler, &timer), ==, -ESHUTDOWN);
        CHECK_INT(weft_sched_free(s), ==, 0);
        go = timer = (struct called){0};
        CHECK_INT(weft_go(goes_and_notes, &go), ==, 0);
        CHECK_INT(weft_timer_new(NULL, WEFT_US, false, NULL, notes_scheduler, &timer), ==, 0);
        CHECK_PTR(caller_of(&go), ==, b.sched);
        CHECK_PTR(caller_of(&timer), ==, b.sched);
    }
    run_beside_end(&b);
}

static void *makes_one_too(void *arg)
{
    weft_sched *s = new_sched(1, true);
    end_sched(s);
    return arg;
}

static void *cannot_make_one(void *arg)
{
    weft_sched *s = ptr(1);
    CHECK_INT(weft_sched_new(&s, &(weft_sched_opts){.threads = 1, .use_caller = true}), ==, -EDEADLK);
    CHECK_PTR(s, ==, ptr(1));
    return arg;
}

TEST(a_thread_is_worker_0_of_one_at_most)
{
    weft_sched *s = new_sched(1, true), *second = ptr(1);
    CHECK_INT(weft_sched_new(&second, &(weft_sched_opts){.threads = 1, .use_caller = true}), ==, -EBUSY);
    CHECK_PTR(second, ==, ptr(1));
    second = running_sched(1); /* without use_caller it may have any number */
    ended(go_on(second, cannot_make_one, NULL));
    pthread_join(new_thread(makes_one_too, NULL), NULL);
    end_sched(second);
    end_sched(s);
    makes_one_too(NULL);
}

static void *is_not_the_maker(void *s)
{
    CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, -EPERM);
    CHECK_INT(weft_sched_run(s, WEFT_NOW), ==, -EPERM);
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, -EPERM);
    CHECK_INT(weft_sched_free(s), ==, -EPERM);
    return NULL;
}

TEST(only_the_maker_may_run_stop_and_free)
{
    weft_sched *s = new_sched(2, true);
    pthread_join(new_thread(is_not_the_maker, s), NULL);
    CHECK_INT(weft_sched_start(s), ==, 0);
    pthread_join(new_thread(is_not_the_maker, s), NULL);
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    pthread_join(new_thread(is_not_the_maker, s), NULL);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

TEST(run_ends_at_its_deadline)
{
    for (unsigned threads = 1; threads <= 2; threads++) {
        weft_sched *s = new_sched(threads, true);
        weft_fiber *f = go_on(s, parks, NULL);
        AWAIT((weft_sched_run(s, WEFT_NOW), is_parked(f))); /* not in the 5 ms, which may pass before anybody runs it */
        weft_time until = weft_in(5 * WEFT_MS);
        CHECK_INT(weft_sched_run(s, until), ==, -ETIMEDOUT);
        CHECK_INT(weft_now().ns, >=, until.ns);
        CHECK(is_parked(f));
        CHECK_INT(weft_sched_run(s, (weft_time){1}), ==, -ETIMEDOUT);
        weft_unpark(f);
        CHECK_INT(weft_sched_run(s, weft_in(20 * WEFT_SEC)), ==, 0);
        CHECK_PTR(ended(f), ==, NULL);
        CHECK_INT(weft_sched_run(s, (weft_time){1}), ==, 0);
        end_sched(s);
    }
}

static void *counts_its_turns(void *arg)
{
    for (;;) {
        more(arg);
        weft_yield();
        if (weft_cancelled())
            return NULL;
    }
}

static void run_them_once(const weft_policy *policy, int worker)
{
    enum { MANY = 5 };
    int turns[MANY] = {0};
    weft_fiber *f[MANY];
    weft_sched *s;
    REQUIRE(weft_sched_new(&s, &(weft_sched_opts){.threads = 1, .use_caller = true, .policy = policy}) == 0);
    CHECK_INT(weft_sched_run(s, WEFT_NOW), ==, 0);
    for (int i = 0; i < MANY; i++)
        CHECK_INT(weft_sched_go(s, &f[i], &(weft_attr){.worker = worker}, counts_its_turns, &turns[i]), ==, 0);
    for (int turn = 1; turn <= 3; turn++) {
        CHECK_INT(weft_sched_run(s, WEFT_NOW), ==, -EAGAIN);
        for (int i = 0; i < MANY; i++)
            CHECK_INT(turns[i], ==, turn);
    }
    for (int i = 0; i < MANY; i++)
        CHECK_INT(weft_cancel(f[i]), ==, 0);
    CHECK_INT(weft_sched_run(s, WEFT_NOW), ==, 0);
    for (int i = 0; i < MANY; i++)
        ended(f[i]);
    end_sched(s);
}

TEST(run_now_runs_what_is_ready_once)
{
    run_them_once(NULL, 0);
    run_them_once(NULL, WEFT_WORKER(0));
    run_them_once(&weft_rr, 0);
    run_them_once(&weft_priority, 0);
}

static void *unparks_another(void *arg)
{
    weft_unpark(*(weft_fiber **)arg);
    return NULL;
}

TEST(run_now_lets_one_that_was_woken_meanwhile_take_nobodys_turn)
{
    int turns[3] = {0};
    weft_fiber *parked, *f[3];
    weft_sched *s = new_sched(1, true);
    parked = go_on(s, parks, NULL);
    CHECK_INT(weft_sched_run(s, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_sched_go(s, NULL, NULL, unparks_another, &parked), ==, 0);
    for (int i = 0; i < 3; i++)
        f[i] = go_on(s, counts_its_turns, &turns[i]);
    CHECK_INT(weft_sched_run(s, WEFT_NOW), ==, -EAGAIN);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(turns[i], ==, 1);
        CHECK_INT(weft_cancel(f[i]), ==, 0);
    }
    CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, 0);
    ended(parked);
    for (int i = 0; i < 3; i++)
        ended(f[i]);
    end_sched(s);
}

static void *lives_in_a_coroutine(void *arg)
{
    int ran = 0;
    weft_sched *s = new_sched(2, true);
    weft_coro *me = weft_coro_current();
    weft_coro_yield(NULL);
    CHECK_PTR(weft_sched_current(), ==, s);
    for (int i = 0; i < 10; i++)
        CHECK_INT(weft_sched_go(s, NULL, &(weft_attr){.worker = i % 3}, counts, &ran), ==, 0);
    CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, 0);
    CHECK_INT(seen(&ran), ==, 10);
    CHECK_PTR(weft_coro_current(), ==, me);
    weft_coro_yield(NULL);
    weft_fiber *f;
    CHECK_INT(weft_sched_go(s, &f, &(weft_attr){.worker = WEFT_WORKER(0)}, parks, NULL), ==, 0);
    CHECK_INT(weft_sched_run(s, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    weft_coro_yield(f); /* its fiber waits meanwhile */
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    CHECK_PTR(ended(f), ==, NULL);
    CHECK_INT(weft_sched_free(s), ==, 0);
    return arg;
}

TEST(a_scheduler_may_live_in_a_raw_coroutine)
{
    weft_coro *c;
    weft_stacks *pool;
    void *f = NULL;
    REQUIRE(weft_stacks_new(&pool, 1, 0) == 0);
    for (int shared = 0; shared < 2; shared++) {
        REQUIRE(weft_coro_new(&c, lives_in_a_coroutine, NULL, &(weft_coro_opts){.shared = shared ? pool : NULL}) == 0);
        CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 1);
        CHECK(weft_sched_current() != NULL);
        CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 1);
        CHECK_INT(weft_coro_resume(c, NULL, &f), ==, 1);
        weft_unpark(f);
        CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0);
        CHECK_PTR(weft_sched_current(), ==, NULL);
        CHECK_INT(weft_coro_free(c), ==, 0);
    }
    CHECK_INT(weft_stacks_free(pool), ==, 0);
}

/* Brings work in the moment in which worker 0's deadline passes: it is woken for it, and leaves. */
struct late {
    weft_sched *sched;
    int ran, over;
};

static void *brings_work_late(void *arg)
{
    struct late *l = arg;
    AWAIT(figures(l->sched).idle == 2);
    clock_forward(WEFT_SEC);
    CHECK_INT(weft_sched_go(l->sched, NULL, NULL, counts, &l->ran), ==, 0);
    return NULL;
}

TEST(a_worker_0_that_leaves_passes_on_the_work_that_it_was_woken_for)
{
    struct late l = {.sched = new_sched(2, true)};
    clock_begin();
    CHECK_INT(weft_sched_start(l.sched), ==, 0);
    weft_fiber *stays;
    CHECK_INT(weft_sched_go(l.sched, &stays, &(weft_attr){.worker = WEFT_WORKER(1)}, parks, NULL), ==, 0);
    AWAIT(is_parked(stays) && figures(l.sched).idle == 1);
    for (int i = 1; i <= 200 && !test_has_failed(); i++) {
        pthread_t other = new_thread(brings_work_late, &l);
        CHECK_INT(weft_sched_run(l.sched, weft_in(100 * WEFT_MS)), ==, -ETIMEDOUT);
        pthread_join(other, NULL);
        AWAIT(seen(&l.ran) == i); /* worker 1 is there to do it */
        AWAIT(figures(l.sched).idle == 1);
    }
    clock_end();
    weft_unpark(stays);
    CHECK_INT(weft_sched_stop(l.sched, WEFT_FOREVER), ==, 0);
    ended(stays);
    CHECK_INT(weft_sched_free(l.sched), ==, 0);
}

/* Leaves more than a ring's worth that has not started. */
static void *spawns_and_stays(void *arg)
{
    for (int i = 0; i < 1000; i++)
        CHECK_INT(weft_go(counts, arg), ==, 0);
    CHECK_INT(weft_park(WEFT_FOREVER), ==, 0);
    return NULL;
}

/* Keeps its worker to itself from when it says so until it is told to end. */
struct busy {
    int began, over;
};

static void *is_busy(void *arg)
{
    struct busy *b = arg;
    put(&b->began, 1);
    return spins(&b->over);
}

TEST(what_has_not_started_when_worker_0_leaves_runs_elsewhere)
{
    int ran = 0;
    struct busy other = {0};
    weft_fiber *f;
    weft_sched *s = new_sched(2, true);
    CHECK_INT(weft_sched_go(s, &f, &(weft_attr){.worker = WEFT_WORKER(0)}, spawns_and_stays, &ran), ==, 0);
    CHECK_INT(weft_sched_go(s, NULL, &(weft_attr){.worker = WEFT_WORKER(1)}, is_busy, &other), ==, 0);
    CHECK_INT(weft_sched_start(s), ==, 0);
    AWAIT(seen(&other.began));
    CHECK_INT(weft_sched_run(s, WEFT_NOW), ==, -EAGAIN);
    CHECK(is_parked(f));
    CHECK_INT(seen(&ran), ==, 0); /* nobody has stolen any of it while worker 0 was there to offer the rest */
    put(&other.over, 1);
    AWAIT(seen(&ran) == 1000);
    weft_unpark(f);
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    ended(f);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

/* What only the calling thread could run. */
static void *joins_in_vain(void *arg)
{
    (void)arg;
    weft_sched *s = new_sched(1, true);
    weft_fiber *f = go_on(s, returns_at_once, NULL), *parked, *bound;
    CHECK_INT(weft_join(f, NULL, WEFT_NOW), ==, -EAGAIN); /* asks, and does not wait */
    CHECK_INT(weft_join(f, NULL, weft_in(WEFT_MS)), ==, -EDEADLK);
    CHECK_INT(weft_join(f, NULL, WEFT_FOREVER), ==, -EDEADLK);
    CHECK_INT(weft_sched_go(s, &parked, &(weft_attr){.flags = WEFT_MIGRATE}, parks, NULL), ==, 0);
    CHECK_INT(weft_sched_run(s, WEFT_NOW), ==, -EAGAIN);
    CHECK(is_parked(parked));
    CHECK_INT(weft_join(parked, NULL, WEFT_FOREVER), ==, -EDEADLK);
    ended(f); /* it has ended by now: the value is there */
    weft_unpark(parked);
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    ended(parked);
    CHECK_INT(weft_sched_free(s), ==, 0);

    s = new_sched(2, true); /* others could, but not these */
    CHECK_INT(weft_sched_go(s, &bound, &(weft_attr){.worker = WEFT_WORKER(0)}, parks, NULL), ==, 0);
    CHECK_INT(weft_sched_start(s), ==, 0);
    CHECK_INT(weft_join(bound, NULL, WEFT_FOREVER), ==, -EDEADLK);
    CHECK_INT(weft_sched_run(s, WEFT_NOW), ==, -EAGAIN);
    CHECK(is_parked(bound));
    CHECK_INT(weft_join(bound, NULL, WEFT_FOREVER), ==, -EDEADLK);
    weft_unpark(bound);
    CHECK_INT(weft_join(bound, NULL, WEFT_FOREVER), ==, -EDEADLK);
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    ended(bound);
    CHECK_INT(weft_sched_free(s), ==, 0);
    return NULL;
}

TEST(worker_0_cannot_join_what_only_it_could_run)
{
    joins_in_vain(NULL);
    pthread_join(new_thread(joins_in_vain, NULL), NULL);
}

TEST(worker_0_joins_what_others_can_run)
{
    weft_sched *s = new_sched(2, true), *elsewhere = running_sched(1);
    weft_fiber *f = NULL;
    CHECK_INT(weft_sched_start(s), ==, 0);
    ended(go_on(s, returns_at_once, NULL));
    CHECK_INT(weft_sched_go(s, &f, &(weft_attr){.worker = WEFT_WORKER(1)}, returns_at_once, NULL), ==, 0);
    ended(f);
    ended(go_on(elsewhere, returns_at_once, NULL));
    CHECK_INT(weft_fiber_new(&f, NULL, returns_at_once, NULL), ==, 0);
    CHECK_INT(weft_join(f, NULL, weft_in(WEFT_MS)), ==, -ETIMEDOUT); /* another thread may submit it */
    CHECK_INT(weft_detach(f), ==, 0);
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_sched_free(s), ==, 0);
    end_sched(elsewhere);
}

TESTS(sched_caller, one_thread_fewer_is_made, alone_nothing_runs_before_run_or_stop,
      worker_0_works_only_inside_run_or_stop, it_is_the_current_one_from_new_to_free,
      go_and_timers_on_the_thread_of_worker_0_mean_its_scheduler, a_thread_is_worker_0_of_one_at_most,
      only_the_maker_may_run_stop_and_free, run_ends_at_its_deadline, run_now_runs_what_is_ready_once,
      run_now_lets_one_that_was_woken_meanwhile_take_nobodys_turn, a_scheduler_may_live_in_a_raw_coroutine,
      what_has_not_started_when_worker_0_leaves_runs_elsewhere,
      a_worker_0_that_leaves_passes_on_the_work_that_it_was_woken_for, worker_0_cannot_join_what_only_it_could_run,
      worker_0_joins_what_others_can_run)
