/*
 * Tasks: where they run, what they bring, and how they end.
 */
#include <stdlib.h>

#include "unit/task/places.h"

static int fails(void *arg, void **value)
{
    *value = arg;
    return -EDOM;
}

static int says_seven(void *arg, void **value)
{
    (void)value;
    return weft_fail(-ERANGE, "%s is not %d", (const char *)arg, 7);
}

static void *awaits_in_fiber(void *arg)
{
    void *value = NULL;
    CHECK_INT(weft_task_await(arg, &value, WEFT_FOREVER), ==, 0);
    return value;
}

TEST(every_await_reads_the_value)
{
    weft_sched *s = running_sched(2);
    for (enum kind k = 0; k < KINDS; k++) {
        struct place p = place_new(k);
        struct gate g = {0};
        put(&g.open, k == NOOP); /* where it runs in this call */
        weft_task *t = start_on(p.x, passes_as_task, &g), *other[KINDS];
        struct place q[KINDS];
        for (enum kind i = 0; i < KINDS; i++) {
            q[i] = place_new(i);
            other[i] = start_on(q[i].x, awaits_arg, t);
        }
        weft_fiber *f = go_on(s, awaits_in_fiber, t);
        put(&g.open, 1);
        void *value = NULL;
        CHECK_INT(weft_task_await(t, &value, WEFT_FOREVER), ==, 0);
        CHECK_PTR(value, ==, &g);
        CHECK_PTR(ended(f), ==, &g);
        for (enum kind i = 0; i < KINDS; i++) {
            value = NULL;
            CHECK_INT(weft_task_await(other[i], &value, WEFT_FOREVER), ==, 0);
            CHECK_PTR(value, ==, &g);
            weft_task_free(other[i]);
            place_free(&q[i]);
        }
        CHECK_INT(weft_task_cancel(t), ==, -ESRCH);
        weft_task_free(t);
        place_free(&p);
    }
    end_sched(s);
}

/* The calling thread. pthread_self is declared as a function that always returns the same. */
static int thread_here(void)
{
    return gettid();
}

static int says_thread(void *arg, void **value)
{
    (void)arg;
    *value = ptr(thread_here());
    return 0;
}

struct pair {
    weft_executor *other;
    int before, after;
};

static int looks_at_threads(void *arg, void **value)
{
    struct pair *p = arg;
    struct gate g = {.open = 1};
    weft_task *t = start_on(p->other, passes_as_task, &g);
    p->before = thread_here();
    int rc = weft_task_await(t, value, WEFT_FOREVER);
    p->after = thread_here();
    weft_task_free(t);
    return rc;
}

TEST(a_task_of_a_looper_is_always_on_its_thread)
{
    struct place looper = place_new(LOOPER), pool = place_new(ASYNC);
    weft_task *t = start_on(looper.x, says_thread, NULL);
    void *thread = NULL;
    CHECK_INT(weft_task_await(t, &thread, WEFT_FOREVER), ==, 0);
    weft_task_free(t);
    for (int i = 0; i < 100; i++) {
        struct pair pair = {.other = pool.x};
        t = start_on(looper.x, looks_at_threads, &pair);
        CHECK_INT(ends(t), ==, 0);
        CHECK_PTR(ptr(pair.before), ==, thread);
        CHECK_PTR(ptr(pair.after), ==, thread);
        weft_task_free(t);
    }
    place_free(&pool);
    place_free(&looper);
}

/* On noop: up to the await in the starter, and the rest in the finisher before that goes on. */
struct here {
    weft_task *awaited;
    int before, after;
    int steps;
};

static int runs_here(void *arg, void **value)
{
    struct here *h = arg;
    h->before = thread_here();
    more(&h->steps);
    int rc = weft_task_await(h->awaited, value, WEFT_FOREVER);
    h->after = thread_here();
    more(&h->steps);
    return rc;
}

static int step_after;

static void looks_at_step(void *arg)
{
    step_after = seen(&((struct here *)arg)->steps);
}

TEST(a_task_on_noop_runs_in_its_starter_and_in_its_finisher)
{
    struct place noop = place_new(NOOP), looper = place_new(LOOPER);
    struct gate g = {0};
    struct here h = {.awaited = start_on(looper.x, passes_as_task, &g)};
    weft_task *t = start_on(noop.x, runs_here, &h);
    CHECK_INT(h.steps, ==, 1);
    CHECK_INT(h.before, ==, thread_here());
    CHECK_INT(weft_executor_execute(looper.x, looks_at_step, &h), ==, 0); /* what the looper does next */
    put(&g.open, 1);
    CHECK_INT(ends(t), ==, 0);
    CHECK_INT(h.after, !=, thread_here());
    CHECK_INT(ends(h.awaited), ==, 0);
    weft_task_free(t);
    weft_task_free(h.awaited);
    CHECK_INT(weft_executor_close(looper.x, true), ==, 0);
    CHECK_INT(weft_executor_join(looper.x, WEFT_FOREVER), ==, 0);
    place_free(&looper);
    CHECK_INT(step_after, ==, 2);
    place_free(&noop);
}

enum { CHAIN = 2000 };

TEST(a_long_chain_of_noop_tasks_needs_no_deep_stack)
{
    struct place noop = place_new(NOOP), looper = place_new(LOOPER);
    struct gate g = {0};
    static weft_task *t[CHAIN];
    t[0] = start_on(looper.x, passes_as_task, &g);
    for (int i = 1; i < CHAIN; i++)
        t[i] = start_on(noop.x, awaits_arg, t[i - 1]);
    put(&g.open, 1);
    CHECK_INT(ends(t[CHAIN - 1]), ==, 0);
    for (int i = 0; i < CHAIN; i++)
        weft_task_free(t[i]);
    place_free(&looper);
    place_free(&noop);
}

static int names_itself(void *arg, void **value)
{
    CHECK_PTR(weft_task_current(), !=, NULL);
    *value = weft_task_current();
    return arg != NULL;
}

static void *starts_without_executor(void *arg)
{
    weft_task *t = NULL;
    void *value = NULL;
    CHECK_INT(weft_task_start(&t, names_itself, NULL, NULL), ==, 0);
    CHECK_INT(weft_task_await(t, &value, WEFT_FOREVER), ==, 0);
    CHECK_PTR(value, ==, t);
    CHECK_PTR(weft_task_current(), ==, NULL);
    weft_task_free(t);
    return arg;
}

TEST(a_task_without_executor_is_a_fiber_or_has_a_thread)
{
    starts_without_executor(NULL);
    in_a_fiber(1, starts_without_executor, NULL);
    in_a_fiber(2, starts_without_executor, NULL);
}

TEST(a_value_is_taken_once)
{
    struct place p = place_new(ASYNC);
    struct gate g = {0};
    void *value = &p;
    weft_task *t = start_on(p.x, passes_as_task, &g), *failed = start_on(p.x, fails, &g);
    CHECK_INT(weft_task_take(t, &value), ==, -EAGAIN);
    CHECK_PTR(value, ==, &p);
    put(&g.open, 1);
    CHECK_INT(ends(t), ==, 0);
    CHECK_INT(weft_task_take(t, &value), ==, 0);
    CHECK_PTR(value, ==, &g);
    CHECK_INT(weft_task_take(t, &value), ==, -EALREADY);
    CHECK_INT(weft_task_await(t, &value, WEFT_NOW), ==, 0);
    CHECK_PTR(value, ==, NULL);
    CHECK_INT(ends(failed), ==, -EDOM);
    CHECK_INT(weft_task_take(failed, &value), ==, -EDOM);
    weft_task_free(failed);
    weft_task_free(t);
    place_free(&p);
}

static int destroyed;

static void destroys(void *value)
{
    more(&destroyed);
    free(value);
}

static int makes_memory(void *arg, void **value)
{
    *value = malloc(16);
    return (int)(intptr_t)arg;
}

TEST(a_value_that_nobody_took_is_destroyed)
{
    destroyed = 0;
    for (enum kind k = 0; k < KINDS; k++) {
        struct place p = place_new(k);
        weft_task *t = NULL;
        weft_task_opts o = {.on = p.x, .destroy = destroys};
        void *value = NULL;
        CHECK_INT(weft_task_start(&t, makes_memory, NULL, &o), ==, 0);
        CHECK_INT(weft_task_await(t, &value, WEFT_FOREVER), ==, 0);
        CHECK_INT(weft_task_take(t, &value), ==, 0);
        weft_task_free(t);
        free(value);
        CHECK_INT(weft_task_start(&t, makes_memory, NULL, &o), ==, 0);
        CHECK_INT(ends(t), ==, 0);
        weft_task_free(t);
        CHECK_INT(weft_task_start(&t, makes_memory, NULL, &o), ==, 0);
        weft_task_free(t); /* before its end, or after it */
        CHECK_INT(weft_executor_close(p.x, true), ==, 0);
        CHECK_INT(weft_executor_join(p.x, WEFT_FOREVER), ==, 0);
        place_free(&p);
        CHECK_INT(destroyed, ==, 2 * ((int)k + 1));
    }
}

TEST(a_failed_task_has_a_code_and_a_message)
{
    for (enum kind k = 0; k < KINDS; k++) {
        struct place p = place_new(k);
        struct gate g = {0};
        weft_error e = {.code = 1};
        put(&g.open, k == NOOP);
        weft_task *held = start_on(p.x, passes_as_task, &g);
        if (k != NOOP)
            CHECK_INT(weft_task_error(held, &e), ==, -EAGAIN);
        CHECK_INT(e.code, ==, 1);
        put(&g.open, 1);
        CHECK_INT(ends(held), ==, 0);
        CHECK_INT(weft_task_error(held, &e), ==, 0);
        CHECK_INT(e.code, ==, 0);
        CHECK_STR(e.message, "");
        weft_task *plain = start_on(p.x, fails, NULL), *with = start_on(p.x, says_seven, "six"),
                  *named = start_named(p.x, "count", says_seven, "six"),
                  *quiet = start_named(p.x, "quiet", fails, NULL);
        void *value = &p;
        CHECK_INT(weft_task_await(plain, &value, WEFT_FOREVER), ==, -EDOM);
        CHECK_PTR(value, ==, &p);
        CHECK_INT(weft_task_error(plain, &e), ==, 0);
        CHECK_STR(e.message, weft_strerror(-EDOM));
        CHECK_INT(ends(with), ==, -ERANGE);
        CHECK_INT(weft_task_error(with, &e), ==, 0);
        CHECK_INT(e.code, ==, -ERANGE);
        CHECK_STR(e.message, "six is not 7");
        CHECK_INT(ends(named), ==, -ERANGE);
        CHECK_INT(weft_task_error(named, &e), ==, 0);
        CHECK_STR(e.message, "count: six is not 7");
        CHECK_INT(ends(quiet), ==, -EDOM);
        CHECK_INT(weft_task_error(quiet, &e), ==, 0);
        CHECK(strncmp(e.message, "quiet: ", 7) == 0 && strcmp(e.message + 7, weft_strerror(-EDOM)) == 0);
        weft_task *all[] = {held, plain, with, named, quiet};
        for (size_t i = 0; i < 5; i++)
            weft_task_free(all[i]);
        place_free(&p);
    }
    CHECK_INT(weft_fail(-EDOM, "outside of a task"), ==, -EDOM);
}

static int refuses(void *arg, void **value)
{
    (void)arg, (void)value;
    return weft_fail(-ECONNREFUSED, "refused");
}

static int changes_the_code(void *arg, void **value)
{
    return weft_task_await(arg, value, WEFT_FOREVER) < 0 ? -EIO : 0;
}

static int says_more(void *arg, void **value)
{
    weft_error e = {0};
    int rc = weft_task_await(arg, value, WEFT_FOREVER);
    CHECK_INT(weft_task_error(arg, &e), ==, 0);
    return weft_fail(rc, "no page (%s)", e.message);
}

TEST(a_task_that_passes_a_failure_on_keeps_the_chain)
{
    for (enum kind k = 0; k < KINDS; k++) {
        struct place p = place_new(k), q = place_new((k + 1) % KINDS);
        weft_error e = {0};
        weft_task *connects = start_named(p.x, "connect", refuses, NULL),
                  *fetches = start_named(q.x, "fetch", awaits_arg, connects),
                  *other = start_named(p.x, "other", changes_the_code, connects),
                  *talks = start_named(q.x, "talk", says_more, connects);
        CHECK_INT(ends(fetches), ==, -ECONNREFUSED);
        CHECK_INT(weft_task_error(fetches, &e), ==, 0);
        CHECK_STR(e.message, "fetch: connect: refused");
        CHECK_INT(ends(other), ==, -EIO);
        CHECK_INT(weft_task_error(other, &e), ==, 0);
        CHECK(strncmp(e.message, "other: ", 7) == 0 && strcmp(e.message + 7, weft_strerror(-EIO)) == 0);
        CHECK_INT(ends(talks), ==, -ECONNREFUSED);
        CHECK_INT(weft_task_error(talks, &e), ==, 0);
        CHECK_STR(e.message, "talk: no page (connect: refused)");
        weft_task *all[] = {connects, fetches, other, talks};
        for (size_t i = 0; i < 4; i++)
            weft_task_free(all[i]);
        place_free(&q);
        place_free(&p);
    }
}

static void forgets(void *arg)
{
    struct place p = place_new(LOOPER);
    weft_task *t = start_named(p.x, "lonely", says_seven, "six");
    (void)arg;
    weft_executor_close(p.x, true);
    weft_executor_join(p.x, WEFT_FOREVER);
    weft_task_free(t);
    place_free(&p);
}

TEST(a_failure_that_nobody_looked_at_is_reported)
{
    if (!WF_DEBUG)
        SKIP("a check of debug builds");
    CHECK_CHILD(forgets, NULL, 0, "a task \"lonely\" failed and nobody looked: lonely: six is not 7");
}

static int own_exits;

static void counts_exit(void *arg)
{
    more(arg);
}

TEST(an_owned_executor_is_freed_with_its_task)
{
    int threads = steady_threads();
    own_exits = 0;
    for (int early = 0; early < 2; early++) {
        weft_executor *x = NULL;
        weft_task *t = NULL;
        struct gate g = {0};
        CHECK_INT(weft_executor_looper(&x, NULL, counts_exit, &own_exits), ==, 0);
        CHECK_INT(weft_task_start(&t, passes_as_task, &g, &(weft_task_opts){.on = x, .owns_executor = true}), ==, 0);
        AWAIT(seen(&g.begun));
        if (early)
            weft_task_free(t);
        put(&g.open, 1);
        if (!early) {
            CHECK_INT(ends(t), ==, 0);
            weft_task_free(t);
            CHECK_INT(own_exits, ==, 1);
        }
        AWAIT(seen(&own_exits) == early + 1);
        CHECK_INT(seen(&g.ended), ==, 1);
    }
    AWAIT(count_threads() == threads);
}

TEST(invalid_arguments_return_einval)
{
    weft_task *t = NULL;
    void *value;
    weft_error e;
    struct place p = place_new(LOOPER);
    CHECK_INT(weft_task_start(NULL, returns_arg, NULL, NULL), ==, -EINVAL);
    CHECK_INT(weft_task_start(&t, NULL, NULL, NULL), ==, -EINVAL);
    CHECK_INT(weft_task_start(&t, returns_arg, NULL, &(weft_task_opts){.owns_executor = true}), ==, -EINVAL);
    CHECK_INT(weft_task_start(&t, returns_arg, NULL, &(weft_task_opts){.size = 3}), ==, -EINVAL);
    CHECK_INT(weft_task_start(&t, returns_arg, NULL, &(weft_task_opts){.on = p.x, .attr = &(weft_attr){.stack = 1}}),
              ==, -EINVAL);
    CHECK_PTR(t, ==, NULL);
    CHECK_INT(weft_task_await(NULL, &value, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(weft_task_take(NULL, &value), ==, -EINVAL);
    CHECK_INT(weft_task_error(NULL, &e), ==, -EINVAL);
    CHECK_INT(weft_task_cancel(NULL), ==, -EINVAL);
    weft_task_free(NULL);
    weft_attr large = {.size = sizeof large, .stack = 1024 * 1024};
    CHECK_INT(weft_task_start(&t, returns_arg, &p, &(weft_task_opts){.on = p.x, .attr = &large}), ==, 0);
    CHECK_INT(weft_task_take(t, NULL), ==, -EINVAL);
    CHECK_INT(weft_task_error(t, NULL), ==, -EINVAL);
    CHECK_INT(ends(t), ==, 0);
    weft_task_free(t);
    place_free(&p);
}

TESTS(task_task, every_await_reads_the_value, a_task_of_a_looper_is_always_on_its_thread,
      a_task_on_noop_runs_in_its_starter_and_in_its_finisher, a_long_chain_of_noop_tasks_needs_no_deep_stack,
      a_task_without_executor_is_a_fiber_or_has_a_thread, a_value_is_taken_once, a_value_that_nobody_took_is_destroyed,
      a_failed_task_has_a_code_and_a_message, a_task_that_passes_a_failure_on_keeps_the_chain,
      a_failure_that_nobody_looked_at_is_reported, an_owned_executor_is_freed_with_its_task,
      invalid_arguments_return_einval)
