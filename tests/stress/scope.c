/*
 * Scopes under load: trees of children that wait, fail, cancel, stop, shield themselves and open scopes with deadlines
 * of their own, at random. Most children are fibers. Some are tasks: fibers of the current scheduler, or functions of a
 * pool of threads. Some wait for ever, and only their cancel ends them: if a cancel is lost, the test does not end.
 *
 * No child is alive after the close of its scope, every child runs exactly once, every clean-up handler and every
 * callback of a task runs exactly once, and a scope's result agrees with what its children did.
 *
 * WEFT_SEED repeats a run; WEFT_CHILDREN says how many children run for each number of workers.
 */
#include <stdlib.h>

#include <weft/chan.h>
#include <weft/executor.h>
#include <weft/scope.h>
#include <weft/sync.h>
#include <weft/task.h>

#include "base/sanitizer.h"
#include "unit/sched/ground.h"

enum { CHILDREN = WF_VALGRIND ? 2000 : TEST_EMULATED ? 5000 : 20000, DEEPEST = 4, POOL = 6 };

/* What all fibers of a run share. */
static struct {
    int64_t left;                                  /* children that are still to be started. atomic */
    int64_t begun, ended;                          /* atomic */
    int64_t tasks, in_pool, unrun, finals;         /* tasks started, in the pool, cancelled unrun; callbacks. atomic */
    int64_t for_ever;                              /* children that waited for ever. atomic */
    int64_t deferred, cleaned;                     /* atomic */
    int64_t timed_out, failed, cancelled, refused; /* results of scopes. atomic */
    weft_chan *chan;
    weft_mutex mutex;
    weft_executor *pool, *looper;
    weft_chan *empty; /* nobody sends */
    weft_sem gate;    /* `never` waits for it, until all children have ended */
    weft_task *never;
} run;

static void count(int64_t *n)
{
    __atomic_add_fetch(n, 1, __ATOMIC_ACQ_REL);
}

static int64_t read_count(const int64_t *n)
{
    return __atomic_load_n(n, __ATOMIC_ACQUIRE);
}

/* Takes one of the children that are still to be started. Given back if it is refused, or ends without having run. */
static bool take_place(void)
{
    bool is_taken = __atomic_sub_fetch(&run.left, 1, __ATOMIC_ACQ_REL) >= 0;
    if (!is_taken)
        count(&run.left);
    return is_taken;
}

/* A node of a tree: one scope that its fiber opens. In the frame of that fiber. */
struct node {
    weft_scope scope;
    uint64_t random; /* atomic: its children draw from it too */
    int depth;
    bool will_cancel; /* const: the scope is cancelled for certain, whatever its children do */
    int64_t alive;    /* children that have begun and not ended. atomic */
};

static uint64_t draw(struct node *n)
{
    uint64_t state = __atomic_add_fetch(&n->random, 0x9e3779b97f4a7c15u, __ATOMIC_RELAXED);
    state = (state ^ state >> 30) * 0xbf58476d1ce4e5b9u;
    state = (state ^ state >> 27) * 0x94d049bb133111ebu;
    return state ^ state >> 31;
}

static int tree(uint64_t seed, int depth);

static void cleans(void *arg)
{
    (void)arg;
    count(&run.cleaned);
}

static void cleans_after_a_wait(void *arg)
{
    CHECK_INT(weft_sleep(WEFT_US), ==, 0);
    cleans(arg);
}

/* A wait of some kind; how it ended. */
static int wait_somehow(uint64_t chance)
{
    int rc = 0, value = 0;
    switch (chance % 7) {
    case 0:
        return weft_sleep((weft_span)(chance >> 8) % (50 * WEFT_US));
    case 1:
        return weft_chan_send(run.chan, &value, weft_in(20 * WEFT_US));
    case 2:
        return weft_chan_recv(run.chan, &value, weft_in(20 * WEFT_US));
    case 3:
        rc = weft_mutex_lock(&run.mutex, WEFT_FOREVER);
        if (rc != 0)
            return rc;
        weft_yield();
        weft_mutex_unlock(&run.mutex);
        return 0;
    case 4:
        if (!weft_fiber_current()) /* a task in the pool has no shields */
            return weft_sleep(10 * WEFT_US);
        CHECK_INT(weft_shield_begin(weft_in(30 * WEFT_US)), ==, 0);
        rc = weft_sleep(10 * WEFT_US);
        weft_shield_end();
        return rc;
    default:
        weft_yield();
        return 0;
    }
}

/* Only a cancel ends it. */
static int waits_for_ever(uint64_t chance)
{
    int rc = 0, value = 0;
    count(&run.for_ever);
    switch (chance % 4) {
    case 0:
        rc = weft_sleep_until(WEFT_FOREVER);
        break;
    case 1:
        rc = weft_chan_recv(run.empty, &value, WEFT_FOREVER);
        break;
    case 2:
        rc = weft_task_await(run.never, NULL, WEFT_FOREVER);
        break;
    default:
        rc = weft_task_all(&run.never, 1, WEFT_FOREVER);
    }
    CHECK_INT(rc, ==, -ECANCELED);
    return rc;
}

static int acts(struct node *n)
{
    uint64_t chance = draw(n);
    bool is_fiber = weft_fiber_current() != NULL;
    if (n->will_cancel && chance >> 60 < 4)
        return waits_for_ever(chance >> 8);
    switch (chance % 16) {
    case 0:
        return -EIO;
    case 1:
        weft_scope_cancel(&n->scope, -EINTR, "by a child");
        return 0;
    case 2:
        weft_scope_stop(&n->scope, (weft_span)(chance >> 8) % (100 * WEFT_US));
        return 0;
    case 3:
        return weft_sleep_until(weft_in(WEFT_MS));
    case 4:
        if (!is_fiber)
            return weft_stopping() ? -EIO : 0;
        return weft_event_wait(weft_stop_event(), weft_in(100 * WEFT_US)) == -ECANCELED ? -ECANCELED : 0;
    case 5:
    case 6:
        return is_fiber && n->depth < DEEPEST ? tree(draw(n), n->depth + 1) : 0;
    case 7:
        if (weft_defer(chance & 16 ? cleans : cleans_after_a_wait, NULL) == 0)
            count(&run.deferred);
        return wait_somehow(chance >> 8) == -ECANCELED ? -ECANCELED : 0;
    default:
        return wait_somehow(chance >> 8) == -ECANCELED ? -ECANCELED : 0;
    }
}

static int child(void *arg);

/* A child that is a task. Freed by its finally. */
struct task_child {
    struct node *node;
    bool begun; /* owner: the task, then its callback */
};

static int task_body(void *arg, void **value)
{
    struct task_child *c = arg;
    (void)value;
    c->begun = true;
    return child(c->node);
}

static void on_finally(void *arg)
{
    struct task_child *c = arg;
    if (!c->begun) {
        count(&run.unrun);
        count(&run.left);
    }
    count(&run.finals);
    free(c);
}

static int start_task(struct node *n, bool in_pool)
{
    weft_task *t = NULL;
    struct task_child *c = malloc(sizeof *c);
    *c = (struct task_child){.node = n};
    int rc = weft_task_start(&t, task_body, c, &(weft_task_opts){.on = in_pool ? run.pool : NULL, .scope = &n->scope});
    if (rc != 0) {
        free(c);
        return rc;
    }
    count(&run.tasks);
    if (in_pool)
        count(&run.in_pool);
    CHECK_PTR(weft_task_finally(t, on_finally, c), ==, t);
    weft_task_free(t);
    return 0;
}

/* Starts a child of some kind, in the owner or in another child. Gives the place that was taken back on a refusal. */
static int start_child(struct node *n, bool is_owner)
{
    uint64_t chance = draw(n) % 16;
    int rc = 0;
    if (chance < 2 || !weft_fiber_current())
        rc = start_task(n, chance == 0 || !weft_fiber_current());
    else
        rc = is_owner ? weft_scope_go(&n->scope, child, n) : weft_scope_try_go(&n->scope, child, n);
    if (rc != 0) {
        CHECK(rc == -ECANCELED || rc == -EAGAIN);
        count(&run.refused);
        count(&run.left);
    }
    return rc;
}

static int child(void *arg)
{
    struct node *n = arg;
    count(&run.begun);
    __atomic_add_fetch(&n->alive, 1, __ATOMIC_ACQ_REL);
    if (draw(n) % 8 == 0 && take_place())
        start_child(n, false);
    int rc = acts(n);
    __atomic_sub_fetch(&n->alive, 1, __ATOMIC_ACQ_REL);
    count(&run.ended);
    return rc;
}

static weft_scope_opts options(uint64_t chance)
{
    static const weft_scope_policy *const policies[] = {&weft_until_failure, &weft_until_success, &weft_until_all};
    weft_scope_opts o = {.name = "stress", .policy = policies[chance % 3]};
    if (chance >> 4 & 1)
        o.at_once = 1 + (unsigned)(chance >> 8) % 8;
    if (chance >> 5 & 1)
        o.deadline = weft_in((weft_span)(chance >> 16) % (500 * WEFT_US));
    return o;
}

/* How a tree ends its scope, before it closes it. */
enum { CLOSES, WAITS, CANCELS, STOPS };

/* Whether the scope is cancelled for certain before its owner needs the end of a child, for a place or in a wait. */
static bool will_cancel(const weft_scope_opts *o, unsigned ending)
{
    return o->deadline.ns != 0 || (o->at_once == 0 && ending != WAITS);
}

static void note(int rc)
{
    if (rc == -ETIMEDOUT)
        count(&run.timed_out);
    else if (rc == -ECANCELED)
        count(&run.cancelled);
    else if (rc < 0)
        count(&run.failed);
}

static int wait_for_children(struct node *n, unsigned ending)
{
    if (ending == CANCELS)
        CHECK_INT(weft_scope_cancel(&n->scope, -EINTR, "by the owner"), ==, 0);
    if (ending == STOPS)
        CHECK_INT(weft_scope_stop(&n->scope, (weft_span)draw(n) % (100 * WEFT_US)), ==, 0);
    int rc = weft_scope_wait(&n->scope);
    note(rc);
    CHECK(rc != -EINTR); /* a cause's code is not the result */
    return rc;
}

/* Opens a scope, starts children, and leaves it in one of several ways. Its result, for its own scope. */
static int tree(uint64_t seed, int depth) // NOLINT(misc-no-recursion)
{
    struct node n = {.random = seed, .depth = depth};
    uint64_t chance = draw(&n);
    weft_scope_opts o = options(chance);
    static const unsigned endings[] = {CLOSES, WAITS, WAITS, WAITS, WAITS, CANCELS, STOPS, CLOSES};
    unsigned ending = endings[chance >> 50 & 7];
    n.will_cancel = will_cancel(&o, ending);
    CHECK_INT(weft_scope_open(&n.scope, &o), ==, 0);
    for (int i = (int)(chance >> 40) % 12; i >= 0 && take_place(); i--) {
        if (start_child(&n, true) == -ECANCELED)
            break;
    }
    int rc = ending != CLOSES ? wait_for_children(&n, ending) : 0;
    int closed = weft_scope_close(&n.scope);
    CHECK_INT(read_count(&n.alive), ==, 0);
    CHECK(rc == 0 || closed == rc || closed == -ECANCELED);
    return closed == -ECANCELED && !weft_cancelled() ? 0 : closed;
}

static void *trees(void *arg)
{
    uint64_t seed = *(uint64_t *)arg;
    while (read_count(&run.left) > 0)
        tree(test_random(&seed), 0);
    return NULL;
}

static int waits_at_gate(void *arg, void **value)
{
    (void)value;
    return weft_sem_wait(arg, WEFT_FOREVER);
}

static void begin_run(int64_t children)
{
    memset(&run, 0, sizeof run);
    run.left = children;
    CHECK_INT(weft_chan_new(&run.chan, sizeof(int), 4), ==, 0);
    CHECK_INT(weft_chan_new(&run.empty, sizeof(int), 0), ==, 0);
    CHECK_INT(weft_executor_async(&run.pool, POOL), ==, 0);
    CHECK_INT(weft_executor_looper(&run.looper, NULL, NULL, NULL), ==, 0);
    CHECK_INT(weft_task_start(&run.never, waits_at_gate, &run.gate, &(weft_task_opts){.on = run.looper}), ==, 0);
}

static void end_run(void)
{
    CHECK_INT(weft_sem_post(&run.gate), ==, 0);
    CHECK_INT(weft_task_await(run.never, NULL, WEFT_FOREVER), ==, 0);
    weft_task_free(run.never);
    CHECK_INT(weft_executor_free(run.looper), ==, 0);
    CHECK_INT(weft_executor_free(run.pool), ==, 0);
    CHECK_INT(weft_chan_free(run.empty), ==, 0);
    CHECK_INT(weft_chan_free(run.chan), ==, 0);
}

static void stress_with(unsigned workers, uint64_t seed)
{
    const char *wish = getenv("WEFT_CHILDREN");
    int64_t children = wish ? atoll(wish) : CHILDREN;
    begin_run(children);
    weft_sched *s = running_sched(workers);
    enum { ROOTS = 8 };
    uint64_t seeds[ROOTS];
    weft_fiber *roots[ROOTS];
    for (int i = 0; i < ROOTS; i++) {
        seeds[i] = test_random(&seed);
        CHECK_INT(weft_sched_go(s, &roots[i], &(weft_attr){.flags = i % 2 ? WEFT_MIGRATE : 0}, trees, &seeds[i]), ==,
                  0);
    }
    for (int i = 0; i < ROOTS; i++)
        ended(roots[i]);
    end_sched(s);
    end_run();
    CHECK_INT(run.begun, ==, children);
    CHECK_INT(run.begun, ==, run.ended);
    CHECK_INT(run.deferred, ==, run.cleaned);
    CHECK_INT(run.tasks, ==, run.finals);
    printf("%u workers: %lld children, %lld tasks (%lld in the pool, %lld unrun), %lld waited for ever; "
           "%lld scopes timed out, %lld failed, %lld cancelled, %lld starts refused\n",
           workers, (long long)run.begun, (long long)run.tasks, (long long)run.in_pool, (long long)run.unrun,
           (long long)run.for_ever, (long long)run.timed_out, (long long)run.failed, (long long)run.cancelled,
           (long long)run.refused);
}

TEST(no_child_outlives_its_scope)
{
    static const unsigned workers[] = {1, 2, 4, 16, 64};
    uint64_t seed = test_seed();
    for (size_t i = 0; i < sizeof workers / sizeof workers[0]; i++)
        stress_with(workers[i], test_random(&seed));
}

enum { MANY = WF_VALGRIND || TEST_EMULATED ? 20000 : WF_DEBUG ? 100000 : 10000000 }; /* debug builds check each end */

static int does_nothing(void *arg)
{
    (void)arg;
    return 0;
}

static void *has_many_children(void *arg)
{
    weft_scope s;
    size_t before = 0;
    CHECK_INT(weft_scope_open(&s, &(weft_scope_opts){.at_once = 100}), ==, 0);
    for (int i = 0; i < MANY; i++) {
        if (i == MANY / 10)
            before = test_memory();
        if (weft_scope_go(&s, does_nothing, NULL) != 0)
            break;
    }
    CHECK_INT(weft_scope_wait(&s), ==, 0);
    weft_scope_tally tally = {.size = sizeof tally};
    CHECK_INT(weft_scope_counts(&s, &tally), ==, 0);
    CHECK_INT(tally.succeeded, ==, MANY);
    if (!(WF_ASAN | WF_TSAN | WF_VALGRIND | TEST_EMULATED)) /* the memory of these tools counts too */
        CHECK_INT(test_memory(), <=, before + (1 << 20));
    CHECK_INT(weft_scope_close(&s), ==, 0);
    return arg;
}

TEST(after_many_children_a_scope_is_as_big_as_at_its_start)
{
    in_a_fiber(1, has_many_children, NULL);
}

TESTS(stress_scope, no_child_outlives_its_scope, after_many_children_a_scope_is_as_big_as_at_its_start)
