/*
 * Calls on helper threads: values, deadlines, cancellation, and what is dropped.
 */
#include <signal.h>
#include <stdlib.h>

#include "offload/offload.h"
#include "unit/offload/ground.h"

struct visit {
    pthread_t on;
    char name[16];
    sigset_t blocked;
    bool is_fiber;
};

static void *looks_around(void *arg)
{
    struct visit *v = arg;
    v->on = pthread_self();
    pthread_getname_np(v->on, v->name, sizeof v->name);
    pthread_sigmask(SIG_BLOCK, NULL, &v->blocked);
    v->is_fiber = weft_fiber_current() != NULL;
    return &v->name;
}

static void *visits(void *arg)
{
    (void)arg;
    struct visit v = {0};
    void *value = NULL;
    CHECK_INT(weft_offload(looks_around, &v, &value, WEFT_FOREVER), ==, 0);
    CHECK_PTR(value, ==, v.name);
    CHECK(!pthread_equal(v.on, pthread_self()));
    CHECK(!v.is_fiber);
    CHECK_STR(v.name, "weft_helper");
    CHECK(sigismember(&v.blocked, SIGTERM) == 1 && sigismember(&v.blocked, SIGALRM) == 1);
    sigset_t mine;
    pthread_sigmask(SIG_BLOCK, NULL, &mine);
    CHECK_INT(sigismember(&mine, SIGTERM), ==, 0);
    return arg;
}

TEST(a_helper_runs_it_with_all_signals_blocked)
{
    in_a_fiber(1, visits, NULL);
    in_a_fiber(2, visits, NULL);
}

static void *goes_through(void *arg)
{
    void *value = NULL;
    int rc = weft_offload(passes, arg, &value, WEFT_FOREVER);
    CHECK_PTR(value, ==, arg);
    return ptr(rc);
}

static void *opens_while_another_waits(void *arg)
{
    struct gate g = {0};
    weft_fiber *f = go(goes_through, &g);
    AWAIT(seen(&g.begun) == 1);
    CHECK(is_parked(f));
    CHECK_INT(figures(weft_sched_current()).watches, ==, 1);
    put(&g.open, 1);
    CHECK_PTR(ended(f), ==, ptr(0));
    CHECK_INT(figures(weft_sched_current()).watches, ==, 0);
    return arg;
}

TEST(the_only_worker_runs_others_meanwhile)
{
    in_a_fiber(1, opens_while_another_waits, NULL);
}

TEST(a_plain_thread_without_a_deadline_runs_it_itself)
{
    struct visit v = {0};
    void *value = NULL;
    CHECK_INT(weft_offload(looks_around, &v, &value, WEFT_FOREVER), ==, 0);
    CHECK_PTR(value, ==, v.name);
    CHECK(pthread_equal(v.on, pthread_self()));
    CHECK_INT(weft_offload(looks_around, &v, NULL, WEFT_FOREVER), ==, 0);
}

TEST(a_plain_thread_with_a_deadline_has_a_helper)
{
    struct visit v = {0};
    CHECK_INT(weft_offload(looks_around, &v, NULL, weft_in(100 * WEFT_SEC)), ==, 0);
    CHECK(!pthread_equal(v.on, pthread_self()));
    struct gate g = {0};
    weft_time until = weft_in(2 * WEFT_MS);
    CHECK_INT(weft_offload_with(&(weft_offload_opts){.drop = drops}, passes, &g, NULL, until), ==, -ETIMEDOUT);
    CHECK_INT(real_now(), >=, until.ns);
    put(&g.open, 1);
    AWAIT(seen(&g.dropped) == 1);
}

struct hasty {
    struct gate *gate;
    weft_span after;
};

/* Returns what the call returned; the value must be untouched. */
static void *gives_up(void *arg)
{
    struct hasty *h = arg;
    void *value = &value;
    weft_time until = weft_in(h->after);
    int rc = weft_offload_with(&(weft_offload_opts){.drop = drops}, passes, h->gate, &value, until);
    CHECK_PTR(value, ==, &value);
    CHECK(rc != -ETIMEDOUT || real_now() >= until.ns);
    return ptr(rc);
}

/* Without a size all options count. */
static void *stays_to_the_end(void *arg)
{
    void *value = NULL;
    weft_offload_opts opts = {.stays = true};
    int rc = weft_offload_with(&opts, passes, arg, &value, WEFT_FOREVER);
    CHECK_INT(rc, ==, 0);
    CHECK_PTR(value, ==, arg);
    return ptr(rc);
}

static void *cancels_one_that_stays(void *arg)
{
    struct gate g = {0};
    weft_fiber *f = go(stays_to_the_end, &g);
    AWAIT(seen(&g.begun) == 1);
    CHECK_INT(weft_cancel(f), ==, 0);
    weft_sleep(5 * WEFT_MS);
    CHECK(is_parked(f));
    put(&g.open, 1);
    CHECK_PTR(ended(f), ==, ptr(0));
    CHECK_INT(seen(&g.ended), ==, 1);
    return arg;
}

TEST(one_that_stays_is_there_until_the_end)
{
    in_a_fiber(1, cancels_one_that_stays, NULL);
    in_a_fiber(2, cancels_one_that_stays, NULL);
}

static void *waits_with_drop(void *arg)
{
    return ptr(weft_offload_with(&(weft_offload_opts){.drop = drops}, passes, arg, NULL, WEFT_FOREVER));
}

static void *leaves_a_helper_by_deadline(void *arg)
{
    struct gate *g = arg;
    struct hasty h = {g, 5 * WEFT_MS};
    CHECK_PTR(gives_up(&h), ==, ptr(-ETIMEDOUT));
    while (!seen(&g->begun) && h.after < 10 * WEFT_SEC) { /* no helper had the time to begin: it never will */
        CHECK_INT(seen(&g->dropped), ==, 1);
        put(&g->dropped, 0);
        h.after *= 2;
        CHECK_PTR(gives_up(&h), ==, ptr(-ETIMEDOUT));
    }
    CHECK_INT(seen(&g->begun), ==, 1);
    CHECK_INT(seen(&g->dropped), ==, 0);
    return arg;
}

static void *leaves_a_helper_by_cancel(void *arg)
{
    struct gate *g = arg;
    weft_fiber *f = go(waits_with_drop, g);
    AWAIT(seen(&g->begun) == 1);
    CHECK_INT(weft_cancel(f), ==, 0);
    CHECK_PTR(ended(f), ==, ptr(-ECANCELED));
    CHECK_INT(seen(&g->dropped), ==, 0);
    return arg;
}

static void leave_and_finish(weft_fn *body)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        struct gate g = {0};
        in_a_fiber(workers, body, &g); /* the scheduler is gone after it, and the helper still in the call */
        CHECK_INT(seen(&g.ended), ==, 0);
        put(&g.open, 1);
        AWAIT(seen(&g.dropped) == 1);
        CHECK_INT(seen(&g.ended), ==, 1);
    }
}

TEST(a_deadline_returns_at_once_and_the_helper_finishes)
{
    leave_and_finish(leaves_a_helper_by_deadline);
}

TEST(a_cancelled_fiber_returns_at_once_and_the_helper_finishes)
{
    leave_and_finish(leaves_a_helper_by_cancel);
}

/* With all helpers taken: what gives up while it is queued never runs. */
static void *gives_up_in_the_queue(void *arg)
{
    struct gate first = {0}, late = {0}, cancelled = {0};
    weft_fiber *f = go(goes_through, &first);
    AWAIT(seen(&first.begun) == 1);
    struct hasty h = {&late, 5 * WEFT_MS};
    weft_fiber *l = go(gives_up, &h), *c = go(waits_with_drop, &cancelled);
    AWAIT(is_parked(c));
    CHECK_INT(weft_cancel(c), ==, 0);
    CHECK_PTR(ended(c), ==, ptr(-ECANCELED));
    CHECK_INT(seen(&cancelled.dropped), ==, 1);
    CHECK_PTR(ended(l), ==, ptr(-ETIMEDOUT));
    CHECK_INT(seen(&late.dropped), ==, 1);
    CHECK_INT(helpers().queued, ==, 0);
    put(&first.open, 1);
    CHECK_PTR(ended(f), ==, ptr(0));
    struct gate last = {.open = 1};
    CHECK_INT(weft_offload(passes, &last, NULL, WEFT_FOREVER), ==, 0);
    CHECK_INT(seen(&late.begun) + seen(&cancelled.begun), ==, 0);
    return arg;
}

TEST(who_gives_up_in_the_queue_never_runs)
{
    CHECK_INT(weft_offload_limit(WEFT_OFFLOAD_CALL, 1), ==, 0);
    in_a_fiber(1, gives_up_in_the_queue, NULL);
    in_a_fiber(2, gives_up_in_the_queue, NULL);
    default_limits();
}

struct stay {
    struct gate gate;
    weft_span after; /* 0: never */
};

/* As the calls on files do. */
static void *stays(void *arg)
{
    struct stay *s = arg;
    struct wf_errand errand = {.fn = passes, .arg = &s->gate, .drop = drops, .stays = true};
    void *value = NULL;
    int rc = wf_offload(&errand, &value, s->after ? weft_in(s->after) : WEFT_FOREVER);
    CHECK_PTR(value, ==, rc == 0 ? &s->gate : NULL);
    return ptr(rc);
}

static void *stays_on(void *arg)
{
    struct stay cancelled = {.after = 0}, late = {.after = 300 * WEFT_MS};
    weft_fiber *c = go(stays, &cancelled), *l = go(stays, &late);
    AWAIT(seen(&cancelled.gate.begun) == 1 && seen(&late.gate.begun) == 1);
    CHECK_INT(weft_cancel(c), ==, 0);
    CHECK_INT(weft_sleep(310 * WEFT_MS), ==, 0);
    CHECK(is_parked(c) && is_parked(l));
    put(&cancelled.gate.open, 1);
    put(&late.gate.open, 1);
    CHECK_PTR(ended(c), ==, ptr(0));
    CHECK_PTR(ended(l), ==, ptr(0));
    CHECK_INT(cancelled.gate.dropped + late.gate.dropped, ==, 0);
    return arg;
}

TEST(who_stays_waits_for_what_has_begun)
{
    in_a_fiber(1, stays_on, NULL);
    in_a_fiber(2, stays_on, NULL);
}

static void *is_cancelled_before(void *arg)
{
    AWAIT(weft_cancelled());
    return waits_with_drop(arg);
}

static void *comes_too_late(void *arg)
{
    struct gate g = {0};
    weft_offload_opts o = {.drop = drops};
    CHECK_INT(weft_offload_with(&o, passes, &g, NULL, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(g.dropped, ==, 0);
    CHECK_INT(weft_offload_with(&o, passes, &g, NULL, weft_in(-1)), ==, -ETIMEDOUT);
    CHECK_INT(g.dropped, ==, 1);
    weft_fiber *f = go(is_cancelled_before, &g);
    CHECK_INT(weft_cancel(f), ==, 0);
    CHECK_PTR(ended(f), ==, ptr(-ECANCELED));
    CHECK_INT(g.dropped, ==, 2);
    CHECK_INT(g.begun, ==, 0);
    return arg;
}

TEST(who_has_no_time_or_is_cancelled_before_begins_nothing)
{
    in_a_fiber(1, comes_too_late, NULL);
    struct gate g = {0};
    CHECK_INT(weft_offload(passes, &g, NULL, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_offload(passes, &g, NULL, weft_in(-1)), ==, -ETIMEDOUT);
    CHECK_INT(g.begun, ==, 0);
}

TEST(options_that_make_no_sense_are_refused)
{
    struct {
        weft_offload_opts o;
        char more[8];
    } newer = {.o.size = sizeof newer};
    CHECK_INT(weft_offload(NULL, NULL, NULL, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_offload_with(&newer.o, returns_at_once, NULL, NULL, WEFT_FOREVER), ==, 0);
    newer.more[0] = 1;
    CHECK_INT(weft_offload_with(&newer.o, returns_at_once, NULL, NULL, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_offload_with(&(weft_offload_opts){.kind = WEFT_OFFLOAD_ALL}, returns_at_once, NULL, NULL, WEFT_NOW),
              ==, -EINVAL);
    CHECK_INT(weft_offload_with(&(weft_offload_opts){.kind = -1}, returns_at_once, NULL, NULL, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(weft_offload_with(&(weft_offload_opts){.size = 1}, returns_at_once, NULL, NULL, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(weft_offload_limit(WEFT_OFFLOAD_ALL + 1, 1), ==, -EINVAL);
    CHECK_INT(weft_offload_limit(-1, 1), ==, -EINVAL);
    CHECK_INT(weft_offload_limit(WEFT_OFFLOAD_CPU, 1025), ==, -EINVAL);
    CHECK_INT(weft_offload_stats(NULL), ==, -EINVAL);
    CHECK_INT(weft_offload_stats(&(weft_offload_figures){.size = 0}), ==, -EINVAL);
}

enum { FLOCK = 40 };

static void *adds_one(void *arg)
{
    return ptr((intptr_t)arg + 1);
}

/* On a shared stack, which others use while it waits. */
static void *offloads_with_locals(void *arg)
{
    uint64_t mine[64];
    for (int i = 0; i < 64; i++)
        mine[i] = (uintptr_t)arg * 1000 + (unsigned)i;
    for (int round = 0; round < 10; round++) {
        void *value = NULL;
        CHECK_INT(weft_offload(adds_one, arg, &value, round % 2 ? WEFT_FOREVER : weft_in(100 * WEFT_SEC)), ==, 0);
        CHECK_PTR(value, ==, (char *)arg + 1);
        for (int i = 0; i < 64; i++)
            CHECK_INT(mine[i], ==, (uintptr_t)arg * 1000 + (unsigned)i);
    }
    return NULL;
}

TEST(values_come_to_fibers_on_shared_stacks)
{
    weft_stacks *pool = NULL;
    weft_fiber *f[FLOCK];
    CHECK_INT(weft_stacks_new(&pool, 1, 0), ==, 0);
    weft_sched *s = running_sched(1);
    for (int i = 0; i < FLOCK; i++)
        CHECK_INT(weft_sched_go(s, &f[i], &(weft_attr){.shared = pool}, offloads_with_locals, ptr(i)), ==, 0);
    for (int i = 0; i < FLOCK; i++)
        ended(f[i]);
    end_sched(s);
    CHECK_INT(weft_stacks_free(pool), ==, 0);
}

static void *offloads_and_moves(void *arg)
{
    void *value = NULL;
    for (int round = 0; round < 20; round++)
        CHECK_INT(weft_offload(adds_one, arg, &value, WEFT_FOREVER), ==, 0);
    return value;
}

TEST(values_come_to_fibers_that_may_move)
{
    weft_fiber *f[FLOCK];
    weft_sched *s = running_sched(2);
    for (int i = 0; i < FLOCK; i++)
        CHECK_INT(weft_sched_go(s, &f[i], &(weft_attr){.flags = WEFT_MIGRATE}, offloads_and_moves, ptr(i)), ==, 0);
    for (int i = 0; i < FLOCK; i++)
        CHECK_PTR(ended(f[i]), ==, ptr(i + 1));
    CHECK_INT(figures(s).watches, ==, 0);
    end_sched(s);
}

static void *offloads_again(void *arg)
{
    void *value = NULL;
    CHECK_INT(weft_offload(adds_one, arg, &value, WEFT_FOREVER), ==, 0);
    return value;
}

static void *offloads_inside(void *arg)
{
    void *value = NULL;
    CHECK_INT(weft_offload(offloads_again, ptr(6), &value, WEFT_FOREVER), ==, 0);
    CHECK_PTR(value, ==, ptr(7));
    return arg;
}

TEST(a_helper_that_offloads_runs_it_itself)
{
    CHECK_INT(weft_offload_limit(WEFT_OFFLOAD_ALL, 1), ==, 0);
    in_a_fiber(1, offloads_inside, NULL);
    default_limits();
}

TESTS(offload, one_that_stays_is_there_until_the_end, a_helper_runs_it_with_all_signals_blocked,
      the_only_worker_runs_others_meanwhile, a_plain_thread_without_a_deadline_runs_it_itself,
      a_plain_thread_with_a_deadline_has_a_helper, a_deadline_returns_at_once_and_the_helper_finishes,
      a_cancelled_fiber_returns_at_once_and_the_helper_finishes, who_stays_waits_for_what_has_begun,
      who_gives_up_in_the_queue_never_runs, who_has_no_time_or_is_cancelled_before_begins_nothing,
      options_that_make_no_sense_are_refused, values_come_to_fibers_on_shared_stacks,
      values_come_to_fibers_that_may_move, a_helper_that_offloads_runs_it_itself)
