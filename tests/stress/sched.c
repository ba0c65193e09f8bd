/*
 * The scheduler itself under load: actors, which are fibers of two schedulers and plain threads, spawn, join, detach,
 * cancel, park and unpark, submit, sleep, yield and use locks and channels, on 1, 2, 4 and 64 workers, under FIFO and
 * other policies, bound, free to move and on shared stacks, with coroutines inside. Rounds are short, so that schedulers
 * start and stop all the time, by draining and by cancelling what is left.
 *
 * Every fiber ends, each with its value; one unpark ends one park; a cancel is felt; what is sent is received; no more is
 * held at the end than at the start; and the scheduler's figures agree with ours.
 *
 * WEFT_STRESS_SECONDS is how long each number of workers is tried, WEFT_SEED the seed of the first round, and the others
 * follow it. A seed repeats the choices, not the order of the threads.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/chan.h>
#include <weft/coro.h>
#include <weft/fiber.h>
#include <weft/sched.h>
#include <weft/stack.h>
#include <weft/sync.h>

#include "base/sanitizer.h"
#include "base/sys.h"
#include "support/test.h"

enum { FIBERS = 12, OTHERS = 3, THREADS = 3, ACTORS = FIBERS + OTHERS + THREADS, SCHEDS = 2 };
enum { MUTEXES = 2, CHANNELS = 3, PERMITS = 3, STRAGGLERS = 4 };

struct actor {
    uint64_t random;
    weft_fiber *fiber;
    pthread_t thread;
};

/* One round's. */
static struct {
    weft_sched *sched[SCHEDS];
    unsigned workers[SCHEDS];
    bool fifo;                /* the first one's policy */
    uint64_t given[SCHEDS];   /* fibers that they were given. atomic */
    uint64_t detached, ended; /* fibers nobody joins, and how many of them have ended. atomic */
    unsigned threads_left;    /* atomic */
    weft_time end;
    weft_stacks *pool;
    struct {
        weft_mutex mutex;
        const void *inside;
    } rooms[MUTEXES];
    weft_mutex mutex;
    weft_cond cond;
    uint64_t brought, taken, left; /* guarded by: mutex */
    weft_sem permits;
    int in_use; /* atomic */
    weft_chan *channels[CHANNELS], *silent;
    uint64_t sent, received; /* sums. atomic */
    weft_event never;
} at;

static struct {
    uint64_t rounds, operations, switches, steals; /* operations: atomic */
} total;

static void add(uint64_t *n, uint64_t more)
{
    __atomic_add_fetch(n, more, __ATOMIC_RELAXED);
}

static unsigned pick(struct actor *a, unsigned n)
{
    return (unsigned)(test_random(&a->random) >> 33) % n;
}

static struct actor *new_actor(struct actor *parent)
{
    struct actor *a = calloc(1, sizeof *a);
    a->random = test_random(&parent->random) | 1;
    return a;
}

static void must(int rc)
{
    CHECK_INT(rc, ==, 0);
}

static weft_time soon(struct actor *a)
{
    return pick(a, 4) == 0 ? WEFT_NOW : weft_in((weft_span)pick(a, 150) * WEFT_US);
}

/* Whether it was granted; a refusal has a reason. */
static bool granted(int rc, weft_time deadline)
{
    bool now = deadline.ns == WEFT_NOW.ns;
    CHECK(rc >= 0 || (rc == -EAGAIN && now) || (rc == -ETIMEDOUT && !now) ||
          (rc == -ECANCELED && !now && weft_cancelled()));
    return rc >= 0;
}

/* ---- leaves: what any fiber or thread does, cancelled or not ---- */

static void leaf_yield(struct actor *a)
{
    for (unsigned n = pick(a, 6); n > 0; n--)
        weft_yield();
    weft_checkpoint();
}

static void leaf_sleep(struct actor *a)
{
    weft_span span = (weft_span)pick(a, 200) * WEFT_US;
    weft_time before = weft_now();
    int rc = weft_sleep(span);
    CHECK(rc == 0 || (rc == -ECANCELED && weft_cancelled()));
    CHECK(rc != 0 || weft_now().ns >= before.ns + span);
}

static void leaf_mutex(struct actor *a)
{
    unsigned i = pick(a, MUTEXES);
    weft_time deadline = pick(a, 2) ? soon(a) : WEFT_FOREVER;
    if (!granted(weft_mutex_lock(&at.rooms[i].mutex, deadline), deadline))
        return;
    CHECK_PTR(at.rooms[i].inside, ==, NULL);
    at.rooms[i].inside = a;
    if (pick(a, 4) == 0)
        weft_yield();
    CHECK_PTR(at.rooms[i].inside, ==, a);
    at.rooms[i].inside = NULL;
    must(weft_mutex_unlock(&at.rooms[i].mutex));
}

static void leaf_cond(struct actor *a)
{
    bool brings = pick(a, 2);
    weft_time deadline = soon(a);
    if (!granted(weft_mutex_lock(&at.mutex, deadline), deadline))
        return;
    int rc = 0;
    while (!brings && rc == 0 && at.left == 0)
        rc = weft_cond_wait(&at.cond, &at.mutex, deadline);
    granted(rc, deadline);
    if (brings) {
        at.brought++;
        at.left++;
        must(weft_cond_signal(&at.cond));
    } else if (at.left > 0) {
        at.taken++;
        at.left--;
    }
    must(weft_mutex_unlock(&at.mutex));
}

static void leaf_sem(struct actor *a)
{
    weft_time deadline = pick(a, 2) ? soon(a) : WEFT_FOREVER;
    if (!granted(weft_sem_wait(&at.permits, deadline), deadline))
        return;
    CHECK_INT(__atomic_add_fetch(&at.in_use, 1, __ATOMIC_RELAXED), <=, PERMITS);
    if (pick(a, 4) == 0)
        weft_yield();
    __atomic_sub_fetch(&at.in_use, 1, __ATOMIC_RELAXED);
    must(weft_sem_post(&at.permits));
}

static void leaf_chan(struct actor *a)
{
    weft_chan *c = at.channels[pick(a, CHANNELS)];
    weft_time deadline = soon(a);
    uint64_t value = test_random(&a->random);
    if (pick(a, 2)) {
        if (granted(weft_chan_send(c, &value, deadline), deadline))
            add(&at.sent, value);
    } else if (granted(weft_chan_recv(c, &value, deadline), deadline)) {
        add(&at.received, value);
    }
}

static void leaf_select(struct actor *a)
{
    uint64_t out = test_random(&a->random), in = 0;
    weft_case cases[3] = {{.op = WEFT_SEND, .chan = at.channels[pick(a, CHANNELS)], .value = &out},
                          {.op = WEFT_RECV, .chan = at.channels[pick(a, CHANNELS)], .value = &in},
                          {.op = WEFT_EVENT, .event = &at.never}};
    weft_time deadline = soon(a);
    int rc = weft_select(cases, 3, deadline);
    if (!granted(rc, deadline))
        return;
    CHECK(rc == 0 || rc == 1);
    must(cases[rc].result);
    add(rc == 0 ? &at.sent : &at.received, rc == 0 ? out : in);
}

static void leaf_park(struct actor *a)
{
    weft_time deadline = soon(a);
    int rc = weft_park(deadline);
    if (weft_fiber_current())
        CHECK(rc != 0 && !granted(rc, deadline)); /* nobody unparks it now */
    else
        CHECK_INT(rc, ==, -ENXIO);
}

static void *inside(void *arg)
{
    struct actor *a = arg;
    leaf_yield(a);
    if (pick(a, 2)) {
        weft_coro_yield(a);
        leaf_sleep(a);
    }
    return a;
}

/* A coroutine, in which the whole fiber waits. */
static void leaf_coro(struct actor *a)
{
    weft_coro *c = NULL;
    struct actor *b = new_actor(a);
    must(weft_coro_new(&c, inside, b, NULL));
    for (int rc = 1; rc == 1;) {
        void *value = NULL;
        rc = weft_coro_resume(c, NULL, &value);
        CHECK(rc == 0 || rc == 1);
        CHECK_PTR(value, ==, b);
    }
    weft_coro_free(c);
    free(b);
}

static void take_leaf(struct actor *a)
{
    static void (*const leaves[])(struct actor *) = {leaf_yield, leaf_yield, leaf_sleep,  leaf_mutex, leaf_cond,
                                                     leaf_sem,   leaf_chan,  leaf_select, leaf_park,  leaf_coro};
    leaves[pick(a, sizeof leaves / sizeof leaves[0])](a);
    add(&total.operations, 1);
}

/* ---- fibers that actors start; each gets an actor of its own and frees it ---- */

static void *value_of(const struct actor *a)
{
    return (void *)(uintptr_t)(a->random ^ 0x5eed);
}

static void *does_an_errand(void *arg)
{
    struct actor *a = arg;
    void *value = value_of(a);
    for (unsigned n = pick(a, 4); n > 0; n--)
        take_leaf(a);
    free(a);
    return value;
}

static void *does_it_for_nobody(void *arg)
{
    does_an_errand(arg);
    add(&at.ended, 1);
    return NULL;
}

/* Waits until it is cancelled; the value is how the wait ended. */
static void *waits_for_ever(void *arg)
{
    struct actor *a = arg;
    uint64_t value;
    int rc = 0;
    switch (pick(a, 6)) {
    case 0:
        rc = weft_park(WEFT_FOREVER);
        break;
    case 1:
        rc = weft_sleep_until(WEFT_FOREVER);
        break;
    case 2:
        rc = weft_event_wait(&at.never, WEFT_FOREVER);
        break;
    case 3:
        rc = weft_chan_recv(at.silent, &value, WEFT_FOREVER);
        break;
    case 4:
        rc = weft_select(&(weft_case){.op = WEFT_RECV, .chan = at.silent, .value = &value}, 1,
                         weft_in(3600 * WEFT_SEC));
        break;
    default:
        while (!weft_cancelled())
            take_leaf(a);
        rc = weft_sleep(WEFT_SEC);
    }
    free(a);
    return (void *)(intptr_t)rc;
}

/* How a fiber of scheduler `where` may run: anywhere, free to move, bound, or on a shared stack. */
static weft_attr some_attr(struct actor *a, unsigned where)
{
    static const size_t sizes[] = {0, 0, 16384, 262144};
    weft_attr attr = {.size = sizeof attr, .priority = (int)pick(a, 8), .cost = (weft_span)pick(a, 1000) * WEFT_US};
    attr.stack = sizes[pick(a, 4)];
    switch (pick(a, 5)) {
    case 0:
        attr.worker = WEFT_WORKER(pick(a, at.workers[where]));
        break;
    case 1:
        attr.flags = WEFT_MIGRATE;
        break;
    case 2:
        if (where == 0) {
            attr.stack = 0;
            attr.shared = at.pool;
            attr.worker = WEFT_WORKER(0); /* the pool is for one worker */
        }
        break;
    default:
        break;
    }
    return attr;
}

static weft_fiber *spawn(struct actor *a, bool joinable, weft_fn *fn, struct actor *child)
{
    unsigned where = pick(a, 8) == 0;
    weft_attr attr = some_attr(a, where);
    weft_fiber *f = NULL;
    must(weft_sched_go(at.sched[where], joinable ? &f : NULL, &attr, fn, child));
    add(&at.given[where], 1);
    return f;
}

static void join(struct actor *a, weft_fiber *f, const void *expected)
{
    void *value = NULL;
    int rc = -ETIMEDOUT;
    while (rc == -ETIMEDOUT || rc == -EAGAIN)
        rc = weft_join(f, &value, pick(a, 3) ? WEFT_FOREVER : soon(a));
    must(rc);
    CHECK_PTR(value, ==, expected);
}

/* ---- what actors do beside leaves ---- */

static void step_join(struct actor *a)
{
    weft_fiber *f[3];
    void *expected[3];
    unsigned n = 1 + pick(a, 3);
    for (unsigned i = 0; i < n; i++) {
        struct actor *child = new_actor(a);
        expected[i] = value_of(child);
        f[i] = spawn(a, true, does_an_errand, child);
    }
    for (unsigned i = 0; i < n; i++)
        join(a, f[i], expected[i]);
}

static void step_detached(struct actor *a)
{
    bool later = pick(a, 2);
    add(&at.detached, 1);
    weft_fiber *f = spawn(a, later, does_it_for_nobody, new_actor(a));
    if (later) {
        take_leaf(a);
        must(weft_detach(f));
    }
}

static void step_cancel(struct actor *a)
{
    weft_fiber *f = spawn(a, true, waits_for_ever, new_actor(a));
    if (pick(a, 2))
        take_leaf(a);
    must(weft_cancel(f));
    join(a, f, (void *)(intptr_t)-ECANCELED);
}

struct parking {
    weft_fiber *who;
    unsigned told; /* atomic */
    struct unparker {
        struct parking *of;
        struct actor actor;
    } by[2];
};

static void *unparks(void *arg)
{
    struct unparker *u = arg;
    if (pick(&u->actor, 2))
        leaf_yield(&u->actor);
    __atomic_add_fetch(&u->of->told, 1, __ATOMIC_RELEASE);
    weft_unpark(u->of->who);
    return u;
}

/* Each unpark ends one park; two may be felt as one. */
static void step_park(struct actor *a)
{
    struct parking *p = calloc(1, sizeof *p);
    weft_fiber *f[2];
    unsigned n = 1 + pick(a, 2), ended = 0;
    p->who = weft_fiber_current();
    CHECK_INT(weft_park(WEFT_NOW), ==, -EAGAIN);
    for (unsigned i = 0; i < n; i++) {
        weft_attr attr = some_attr(a, 0);
        p->by[i] = (struct unparker){.of = p, .actor.random = test_random(&a->random) | 1};
        must(weft_sched_go(at.sched[0], &f[i], &attr, unparks, &p->by[i]));
        add(&at.given[0], 1);
    }
    while (__atomic_load_n(&p->told, __ATOMIC_ACQUIRE) < n) {
        weft_time deadline = pick(a, 2) ? WEFT_FOREVER : soon(a);
        ended += granted(weft_park(deadline), deadline);
    }
    for (unsigned i = 0; i < n; i++)
        join(a, f[i], &p->by[i]);
    ended += weft_park(WEFT_NOW) == 0;
    CHECK_INT(ended, >=, 1);
    CHECK_INT(ended, <=, n);
    free(p);
}

static void step_submit(struct actor *a)
{
    struct actor *child = new_actor(a);
    void *expected = value_of(child);
    weft_fiber *f = NULL;
    must(weft_fiber_new(&f, NULL, does_an_errand, child));
    if (pick(a, 8) == 0) {
        must(weft_detach(f)); /* it never begins */
        free(child);
        return;
    }
    must(weft_sched_submit(at.sched[0], f, pick(a, 2) ? WEFT_WORKER(pick(a, at.workers[0])) : 0));
    add(&at.given[0], 1);
    join(a, f, expected);
}

static void *parks_once(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)weft_park(WEFT_FOREVER);
}

/* Unparks it on a worker. */
static void step_move(struct actor *a)
{
    weft_fiber *f = NULL;
    int worker = at.fifo ? WEFT_WORKER(pick(a, at.workers[0])) : 0, rc;
    must(weft_sched_go(at.sched[0], &f, &(weft_attr){.flags = WEFT_MIGRATE}, parks_once, NULL));
    add(&at.given[0], 1);
    while ((rc = weft_sched_submit(at.sched[0], f, worker)) == -EBUSY)
        weft_fiber_current() ? weft_yield() : (void)weft_sleep(10 * WEFT_US);
    must(rc);
    join(a, f, NULL);
}

static void look(void)
{
    FILE *nowhere = fopen("/dev/null", "we");
    weft_sched_figures figures = {.size = sizeof figures};
    must(weft_sched_stats(at.sched[0], &figures));
    CHECK_INT(figures.spawned, >=, figures.ended);
    if (nowhere) {
        CHECK_INT(weft_dump(nowhere), >=, 0);
        fclose(nowhere);
    }
}

static void add_figures(weft_sched *s, uint64_t given)
{
    weft_sched_figures figures = {.size = sizeof figures};
    must(weft_sched_stats(s, &figures));
    CHECK_INT(figures.spawned, ==, given);
    CHECK_INT(figures.ended, ==, given);
    CHECK_INT(figures.ready, ==, 0);
    CHECK_INT(figures.parked, ==, 0);
    total.switches += figures.switches;
    total.steals += figures.stolen;
}

/* A scheduler of its own, which starts and stops twice. */
static void step_sched(struct actor *a)
{
    weft_sched *s = NULL;
    uint64_t given = 0;
    must(weft_sched_new(&s, &(weft_sched_opts){.threads = 1 + pick(a, 2)}));
    for (int i = 0; i < 2; i++) {
        bool first = i == 0 && pick(a, 2); /* work before the start */
        if (!first)
            must(weft_sched_start(s));
        for (unsigned n = 1 + pick(a, 3); n > 0; n--, given++) {
            add(&at.detached, 1);
            must(weft_sched_go(s, NULL, NULL, does_it_for_nobody, new_actor(a)));
        }
        must(weft_sched_stop(s, WEFT_FOREVER));
    }
    weft_sched_figures figures = {.size = sizeof figures};
    must(weft_sched_stats(s, &figures));
    CHECK_INT(figures.ended, ==, given);
    must(weft_sched_free(s));
}

static void step(struct actor *a)
{
    unsigned what = pick(a, 64);
    bool thread = !weft_fiber_current();
    if (what < 8)
        step_join(a);
    else if (what < 12)
        step_detached(a);
    else if (what < 16)
        step_cancel(a);
    else if (what < 24 && !thread)
        step_park(a);
    else if (what < 27)
        step_submit(a);
    else if (what < 30)
        step_move(a);
    else if (what == 30 && thread)
        look();
    else if (what == 31 && thread)
        step_sched(a);
    else
        take_leaf(a);
    add(&total.operations, 1);
}

static void *acts(void *arg)
{
    while (weft_now().ns < at.end.ns && !test_has_failed())
        step(arg);
    return arg;
}

static void *acts_on_a_thread(void *arg)
{
    acts(arg);
    __atomic_sub_fetch(&at.threads_left, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* ---- rounds ---- */

static weft_sched_opts some_opts(struct actor *a, unsigned workers)
{
    static const weft_policy *const policies[] = {&weft_priority, &weft_hrrn, &weft_rr, &weft_edf};
    weft_sched_opts o = {.size = sizeof o, .threads = workers, .use_caller = pick(a, 3) == 0, .warm = pick(a, 3)};
    at.fifo = pick(a, 4) != 0;
    if (!at.fifo)
        o.policy = policies[pick(a, 4)];
    else if (pick(a, 4) == 0)
        o.dispatch = WEFT_DIRECT;
    return o;
}

static bool begin(struct actor *a, unsigned workers, weft_sched_opts *o)
{
    memset(&at, 0, sizeof at);
    *o = some_opts(a, workers);
    at.workers[0] = workers;
    at.workers[1] = 1;
    at.threads_left = THREADS;
    at.end = weft_in((weft_span)(20 + pick(a, 150)) * WEFT_MS);
    at.permits = (weft_sem)WEFT_SEM(PERMITS);
    bool made = weft_stacks_new(&at.pool, 2, 0) == 0 && weft_chan_new(&at.silent, sizeof(uint64_t), 0) == 0;
    for (unsigned i = 0; i < CHANNELS; i++)
        made = made && weft_chan_new(&at.channels[i], sizeof(uint64_t), (size_t)i * i * 8) == 0;
    return made && weft_sched_new(&at.sched[0], o) == 0 && weft_sched_start(at.sched[0]) == 0 &&
           weft_sched_new(&at.sched[1], &(weft_sched_opts){.threads = 1}) == 0 && weft_sched_start(at.sched[1]) == 0;
}

static void check_objects(void)
{
    uint64_t value;
    for (int i = 0; i < MUTEXES; i++)
        must(weft_mutex_lock(&at.rooms[i].mutex, WEFT_NOW));
    CHECK_INT(at.brought, ==, at.taken + at.left);
    for (int i = 0; i < PERMITS; i++)
        must(weft_sem_wait(&at.permits, WEFT_NOW));
    for (int i = 0; i < CHANNELS; i++) {
        while (weft_chan_recv(at.channels[i], &value, WEFT_NOW) == 0)
            at.received += value;
        must(weft_chan_free(at.channels[i]));
    }
    must(weft_chan_free(at.silent));
    CHECK(at.sent == at.received);
    must(weft_stacks_free(at.pool));
    CHECK_INT(at.ended, ==, at.detached);
}

/* Lets all of it end: by itself, or some by the stop. Then once more from the start, perhaps. */
static void finish(struct actor *a)
{
    weft_time until = WEFT_FOREVER;
    if (pick(a, 3) == 0) {
        for (int i = 0; i < STRAGGLERS; i++) {
            must(weft_sched_go(at.sched[0], NULL, NULL, waits_for_ever, new_actor(a)));
            at.given[0]++;
        }
        until = weft_in((weft_span)pick(a, 2000) * WEFT_US);
    }
    must(weft_sched_stop(at.sched[0], until));
    CHECK_INT(weft_sched_go(at.sched[0], NULL, NULL, acts, a), ==, -ESHUTDOWN);
    if (pick(a, 2)) {
        must(weft_sched_start(at.sched[0]));
        at.detached += 2;
        at.given[0] += 2;
        must(weft_sched_go(at.sched[0], NULL, NULL, does_it_for_nobody, new_actor(a)));
        must(weft_sched_go(at.sched[0], NULL, NULL, does_it_for_nobody, new_actor(a)));
        must(weft_sched_stop(at.sched[0], WEFT_FOREVER));
    }
    must(weft_sched_stop(at.sched[1], WEFT_FOREVER));
    for (int i = 0; i < SCHEDS; i++) {
        add_figures(at.sched[i], at.given[i]);
        must(weft_sched_free(at.sched[i]));
    }
}

static void play_round(unsigned workers, uint64_t seed)
{
    struct actor director = {.random = seed * 0x9e3779b97f4a7c15u | 1}, actors[ACTORS];
    weft_sched_opts opts;
    for (int i = 0; i < 8; i++) /* neighbouring seeds are alike at first */
        test_random(&director.random);
    REQUIRE(begin(&director, workers, &opts));
    for (unsigned i = 0; i < ACTORS; i++) {
        struct actor *a = &actors[i];
        unsigned where = i >= FIBERS;
        *a = (struct actor){.random = test_random(&director.random) | 1};
        if (i >= FIBERS + OTHERS) {
            must(pthread_create(&a->thread, NULL, acts_on_a_thread, a));
            continue;
        }
        weft_attr attr = some_attr(&director, where);
        must(weft_sched_go(at.sched[where], &a->fiber, &attr, acts, a));
        add(&at.given[where], 1);
    }
    while (opts.use_caller && (weft_sched_run(at.sched[0], weft_in(WEFT_MS)) != 0 ||
                               __atomic_load_n(&at.threads_left, __ATOMIC_ACQUIRE) > 0))
        ;
    for (unsigned i = 0; i < ACTORS; i++) {
        void *value = NULL;
        if (i >= FIBERS + OTHERS)
            pthread_join(actors[i].thread, NULL);
        else if (opts.use_caller && weft_join(actors[i].fiber, &value, WEFT_NOW) != 0)
            i--, weft_sched_run(at.sched[0], weft_in(WEFT_MS)); /* it waits for the other scheduler */
        else if (!opts.use_caller)
            must(weft_join(actors[i].fiber, &value, WEFT_FOREVER));
        CHECK(i >= FIBERS + OTHERS || !value || value == &actors[i]);
    }
    finish(&director);
    check_objects();
    total.rounds++;
}

static void play(unsigned workers)
{
    static uint64_t seed;
    const char *given = getenv("WEFT_STRESS_SECONDS");
    weft_time end = weft_in((weft_span)((given ? strtod(given, NULL) : WF_VALGRIND || TEST_EMULATED ? 2 : 5) * 1e9));
    if (seed == 0)
        seed = test_seed();
    struct wf_sys_held held = {0};
    for (unsigned round = 0; weft_now().ns < end.ns && !test_has_failed(); round++, seed++) {
        play_round(workers, seed);
        if (test_has_failed())
            fprintf(stderr, "with %u workers, WEFT_SEED=%llu\n", workers, (unsigned long long)seed);
        if (round == 0)
            held = wf_sys_held();
    }
    CHECK_INT(wf_sys_held().n, <=, held.n + 64); /* records and stacks of whatever threads there are differ a little */
}

TEST(on_1_worker)
{
    play(1);
}

TEST(on_2_workers)
{
    play(2);
}

TEST(on_4_workers)
{
    play(4);
}

TEST(on_64_workers)
{
    play(64);
    printf("stress: %llu seeds, %llu operations, %llu switches, %llu steals\n", (unsigned long long)total.rounds,
           (unsigned long long)total.operations, (unsigned long long)total.switches, (unsigned long long)total.steals);
}

TESTS(stress_sched, on_1_worker, on_2_workers, on_4_workers, on_64_workers)
