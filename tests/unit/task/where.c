/*
 * Where functions and tasks run: on threads of the executor thread, on one worker of a scheduler, and without an
 * executor.
 */
#include <stdio.h>
#include <sys/prctl.h>

#include "unit/task/places.h"

/* Turns that the calling thread has given to the task below. Not inlined: a task may change threads at an await. */
static __attribute__((noinline)) int count_turn_here(void)
{
    static _Thread_local int turns;
    return ++turns;
}

enum { SLEEPS = 5, STOPS = SLEEPS + 3 };

/* A task that awaits again and again, and where it was after each await. */
struct journey {
    weft_task *held, *never;
    int threads[STOPS], turns[STOPS], named[STOPS], codes[STOPS];
    int stops;
};

static void note_stop(struct journey *j, int code)
{
    char name[16] = "";
    prctl(PR_GET_NAME, name); /* pthread_self is declared as a function that always returns the same */
    j->codes[j->stops] = code;
    j->turns[j->stops] = count_turn_here();
    j->named[j->stops] = strcmp(name, "weft_thread") == 0;
    put(&j->threads[j->stops], gettid());
    j->stops++;
}

static int travels(void *arg, void **value)
{
    struct journey *j = arg;
    note_stop(j, 0);
    for (int i = 0; i < SLEEPS; i++)
        note_stop(j, weft_task_await(j->never, value, weft_in(100 * WEFT_US)));
    note_stop(j, weft_task_await(j->held, value, WEFT_FOREVER));
    note_stop(j, weft_task_await(j->never, value, WEFT_FOREVER));
    return 0;
}

/* The task waits after this stop: its thread there has ended. */
static bool has_left(const struct journey *j, int stop)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d", seen(&j->threads[stop]));
    return seen(&j->threads[stop]) && access(path, F_OK) != 0;
}

TEST(the_thread_executor_continues_a_task_on_a_new_thread_after_every_await)
{
    struct place thread = place_new(THREAD), looper = place_new(LOOPER);
    struct gate g[2] = {{0}, {0}};
    struct journey j = {.held = start_on(looper.x, passes_as_task, &g[0]),
                        .never = start_on(looper.x, passes_as_task, &g[1])};
    weft_task *t = start_on(thread.x, travels, &j);
    AWAIT(has_left(&j, SLEEPS));
    put(&g[0].open, 1); /* the looper's thread ends the wait */
    AWAIT(has_left(&j, SLEEPS + 1));
    CHECK_INT(weft_task_cancel(t), ==, 0); /* this thread ends it */
    CHECK_INT(ends(t), ==, 0);
    CHECK_INT(j.stops, ==, STOPS);
    for (int i = 0; i < STOPS; i++) {
        CHECK_INT(j.codes[i], ==, i == 0 || i == STOPS - 2 ? 0 : i == STOPS - 1 ? -ECANCELED : -ETIMEDOUT);
        CHECK_INT(j.turns[i], ==, 1); /* a new thread */
        CHECK_INT(j.named[i], ==, 1); /* and one of the executor: not the one that ended the wait */
        CHECK_INT(j.threads[i], !=, gettid());
        CHECK(i == 0 || j.threads[i] != j.threads[i - 1]);
    }
    put(&g[1].open, 1);
    weft_task *all[] = {t, j.held, j.never};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        weft_task_free(all[i]);
    place_free(&looper);
    place_free(&thread);
}

/* A scheduler with two workers, and an executor of one of them. */
struct bound {
    weft_sched *s;
    weft_executor *x, *pool;
    int threads[2]; /* of the workers */
    int worker;
    int begun, strayed;
};

static void *notes_worker(void *arg)
{
    put(arg, gettid());
    return NULL;
}

static void *passes_in_fiber(void *arg)
{
    passes(arg);
    return arg;
}

static weft_fiber *go_to_worker(weft_sched *s, int worker, weft_fn *fn, void *arg)
{
    weft_fiber *f = NULL;
    weft_attr attr = {.size = sizeof attr, .worker = WEFT_WORKER(worker)};
    CHECK_INT(weft_sched_go(s, &f, &attr, fn, arg), ==, 0);
    return f;
}

static void note_where(struct bound *b)
{
    if (gettid() != b->threads[b->worker])
        more(&b->strayed);
}

static void runs_bound(void *arg)
{
    struct bound *b = arg;
    more(&b->begun);
    for (int i = 0; i < 10; i++) {
        note_where(b);
        weft_yield();
    }
}

static int runs_bound_as_task(void *arg, void **value)
{
    struct bound *b = arg;
    runs_bound(b);
    weft_task *t = start_on(b->pool, returns_arg, b);
    int rc = weft_task_await(t, value, WEFT_FOREVER);
    note_where(b);
    weft_task_free(t);
    return rc;
}

static void run_on_worker(struct bound *b)
{
    struct gate g = {0};
    weft_task *t[20];
    int n = sizeof t / sizeof t[0], other = 1 - b->worker, thread = 0;
    CHECK_INT(weft_executor_sched(&b->x, b->s, WEFT_WORKER(b->worker)), ==, 0);
    weft_fiber *f = go_to_worker(b->s, b->worker, passes_in_fiber, &g);
    AWAIT(seen(&g.begun)); /* the worker is busy, and the other is idle */
    for (int i = 0; i < n; i++) {
        t[i] = start_on(b->x, runs_bound_as_task, b);
        CHECK_INT(weft_executor_execute(b->x, runs_bound, b), ==, 0);
    }
    ended(go_to_worker(b->s, other, notes_worker, &thread));
    CHECK_INT(thread, ==, b->threads[other]);
    CHECK_INT(seen(&b->begun), ==, 0);
    put(&g.open, 1);
    for (int i = 0; i < n; i++) {
        CHECK_INT(ends(t[i]), ==, 0);
        weft_task_free(t[i]);
    }
    ended(f);
    CHECK_INT(weft_executor_close(b->x, true), ==, 0);
    CHECK_INT(weft_executor_join(b->x, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_executor_free(b->x), ==, 0);
    CHECK_INT(b->begun, ==, 2 * n);
    CHECK_INT(b->strayed, ==, 0);
}

TEST(an_executor_of_a_worker_runs_on_that_worker_only)
{
    struct place pool = place_new(ASYNC);
    struct bound b = {.s = running_sched(2), .pool = pool.x};
    for (int i = 0; i < 2; i++)
        ended(go_to_worker(b.s, i, notes_worker, &b.threads[i]));
    CHECK_INT(b.threads[0], !=, b.threads[1]);
    for (b.worker = 0; b.worker < 2; b.worker++) {
        b.begun = b.strayed = 0;
        run_on_worker(&b);
    }
    end_sched(b.s);
    place_free(&pool);
}

/* Where a task without an executor runs. */
struct whereabouts {
    weft_fiber *fiber;
    weft_sched *sched;
    int thread;
    int *begun;
};

static int notes_whereabouts(void *arg, void **value)
{
    struct whereabouts *w = arg;
    (void)value;
    w->fiber = weft_fiber_current();
    w->sched = weft_sched_current();
    w->thread = gettid();
    more(w->begun);
    AWAIT(seen(w->begun) == 2); /* the other one runs beside it */
    return 0;
}

/* Two tasks that have begun and not ended. */
static void start_two(struct whereabouts w[2])
{
    int begun = 0;
    weft_task *t[2];
    for (int i = 0; i < 2; i++) {
        w[i].begun = &begun;
        t[i] = start_on(NULL, notes_whereabouts, &w[i]);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_INT(ends(t[i]), ==, 0);
        weft_task_free(t[i]);
    }
}

static void *starts_two_in_fiber(void *arg)
{
    struct whereabouts w[2] = {{0}, {0}};
    start_two(w);
    for (int i = 0; i < 2; i++) {
        CHECK_PTR(w[i].fiber, !=, NULL);
        CHECK_PTR(w[i].fiber, !=, weft_fiber_current());
        CHECK_PTR(w[i].sched, ==, weft_sched_current());
    }
    CHECK_PTR(w[0].fiber, !=, w[1].fiber);
    return arg;
}

TEST(a_task_without_executor_is_a_fiber_of_its_starters_scheduler)
{
    in_a_fiber(1, starts_two_in_fiber, NULL);
    in_a_fiber(2, starts_two_in_fiber, NULL);
}

TEST(a_task_without_executor_and_scheduler_has_a_thread_of_its_own)
{
    struct whereabouts w[2] = {{0}, {0}};
    start_two(w);
    for (int i = 0; i < 2; i++) {
        CHECK_PTR(w[i].fiber, ==, NULL);
        CHECK_PTR(w[i].sched, ==, NULL);
        CHECK_INT(w[i].thread, !=, gettid());
    }
    CHECK_INT(w[0].thread, !=, w[1].thread);
}

TESTS(task_where, the_thread_executor_continues_a_task_on_a_new_thread_after_every_await,
      an_executor_of_a_worker_runs_on_that_worker_only, a_task_without_executor_is_a_fiber_of_its_starters_scheduler,
      a_task_without_executor_and_scheduler_has_a_thread_of_its_own)
