/*
 * Awaits that could never end are refused, and an executor that cannot run a task again does not lose it.
 */
#include "unit/task/places.h"

struct ring {
    weft_task *next; /* the task that it awaits */
    int go, rc;
};

static int awaits_next(void *arg, void **value)
{
    struct ring *r = arg;
    while (!seen(&r->go))
        breathe();
    r->rc = weft_task_await(r->next, value, WEFT_FOREVER);
    return r->rc;
}

TEST(a_task_that_awaits_itself_gets_edeadlk)
{
    for (enum kind k = THREAD; k < KINDS; k++) {
        struct place p = place_new(k);
        struct ring r = {0};
        weft_error e = {0};
        weft_task *t = r.next = start_named(p.x, "narcissus", awaits_next, &r);
        put(&r.go, 1);
        CHECK_INT(ends(t), ==, -EDEADLK);
        CHECK_INT(weft_task_error(t, &e), ==, 0);
        CHECK_STR(e.message, "narcissus: narcissus awaits itself");
        weft_task_free(t);
        place_free(&p);
    }
}

static bool waits(weft_task *t)
{
    return weft_task_await(t, NULL, weft_in(WEFT_MS)) == -ETIMEDOUT;
}

TEST(tasks_that_await_each_other_in_a_ring_get_edeadlk)
{
    for (enum kind k = THREAD; k < KINDS; k++) {
        struct place p = place_new(k), q = place_new(THREAD);
        struct ring r[3] = {{0}};
        weft_error e = {0};
        weft_task *t[3] = {start_named(q.x, "a", awaits_next, &r[0]), start_named(q.x, "b", awaits_next, &r[1]),
                           start_named(p.x, "c", awaits_next, &r[2])};
        for (int i = 0; i < 3; i++)
            r[i].next = t[(i + 1) % 3];
        for (int i = 0; i < 3; i++)
            put(&r[i].go, 1);
        int refused = 0;
        for (int i = 0; i < 3; i++) { /* the last to await is refused, and the others pass its failure on */
            char ring[80];
            const char *n[] = {"a", "b", "c", "a", "b"};
            snprintf(ring, sizeof ring, "%s: %s awaits %s, which awaits %s, which awaits %s", n[i], n[i], n[i + 1],
                     n[i + 2], n[i]);
            CHECK_INT(ends(t[i]), ==, -EDEADLK);
            CHECK_INT(r[i].rc, ==, -EDEADLK);
            CHECK_INT(weft_task_error(t[i], &e), ==, 0);
            refused += strcmp(e.message, ring) == 0;
        }
        CHECK_INT(refused, ==, 1);
        for (int i = 0; i < 3; i++)
            weft_task_free(t[i]);
        place_free(&q);
        place_free(&p);
    }
}

struct getter {
    weft_executor *x;
    int rc, all, done;
};

static void gets_of_its_looper(void *arg)
{
    struct getter *g = arg;
    weft_task *t = start_on(g->x, returns_arg, NULL);
    g->rc = weft_task_await(t, NULL, WEFT_FOREVER);
    g->all = weft_task_all(&t, 1, WEFT_FOREVER);
    weft_task_free(t);
    put(&g->done, 1);
}

TEST(a_function_of_a_looper_that_awaits_its_task_gets_edeadlk)
{
    struct place p = place_new(LOOPER);
    struct getter g = {.x = p.x};
    CHECK_INT(weft_executor_execute(p.x, gets_of_its_looper, &g), ==, 0);
    AWAIT(seen(&g.done));
    CHECK_INT(g.rc, ==, -EDEADLK);
    CHECK_INT(g.all, ==, -EDEADLK);
    place_free(&p);
    p = place_new(ASYNC); /* there are other threads */
    g = (struct getter){.x = p.x};
    CHECK_INT(weft_executor_execute(p.x, gets_of_its_looper, &g), ==, 0);
    AWAIT(seen(&g.done));
    CHECK_INT(g.rc, ==, 0);
    CHECK_INT(g.all, ==, 0);
    place_free(&p);
}

TEST(the_only_worker_of_a_scheduler_does_not_wait_for_its_task)
{
    weft_sched *s = new_sched(1, true);
    weft_task *t = NULL;
    CHECK_INT(weft_task_start(&t, returns_arg, NULL, NULL), ==, 0);
    CHECK_INT(weft_task_await(t, NULL, WEFT_FOREVER), ==, -EDEADLK);
    CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, 0);
    CHECK_INT(ends(t), ==, 0);
    weft_task_free(t);
    end_sched(s);
}

TEST(the_only_worker_of_a_scheduler_does_not_wait_for_an_executor_of_it)
{
    for (int joins = 0; joins < 2; joins++) {
        weft_sched *s = new_sched(1, true);
        weft_executor *x = NULL;
        weft_time soon = weft_in(AWAIT_SECONDS * WEFT_SEC);
        int calls = 0;
        CHECK_INT(weft_executor_sched(&x, s, 0), ==, 0);
        weft_task *t = start_on(x, returns_arg, NULL);
        CHECK_INT(weft_executor_execute(x, counts_call, &calls), ==, 0);
        CHECK_INT(weft_task_await(t, NULL, WEFT_NOW), ==, -EAGAIN);
        CHECK_INT(weft_task_await(t, NULL, soon), ==, -EDEADLK);
        CHECK_INT(weft_task_all(&t, 1, soon), ==, -EDEADLK);
        CHECK_INT(weft_executor_join(x, WEFT_NOW), ==, -EAGAIN);
        CHECK_INT(weft_executor_join(x, soon), ==, -EDEADLK);
        if (!joins)
            CHECK_INT(weft_executor_free(x), ==, 0); /* it drops both */
        CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, 0);
        CHECK_INT(ends(t), ==, joins ? 0 : -ECANCELED);
        CHECK_INT(calls, ==, joins);
        weft_task_free(t);
        if (joins) {
            CHECK_INT(weft_executor_join(x, weft_in(WEFT_MS)), ==, -ETIMEDOUT); /* another thread may close it */
            CHECK_INT(weft_executor_close(x, true), ==, 0);
            CHECK_INT(weft_executor_join(x, soon), ==, 0);
            CHECK_INT(weft_executor_free(x), ==, 0);
        }
        end_sched(s);
    }
}

/* A table that runs a function on its caller, and refuses once it is told to. */
struct flaky {
    int refuse;
};

static int flaky_execute(void *self, void (*fn)(void *), void *arg)
{
    struct flaky *f = self;
    int refuse = seen(&f->refuse);
    if (refuse)
        return refuse;
    fn(arg);
    return 0;
}

struct resumed {
    weft_task *awaited;
    int rc, again, tid;
};

static int awaits_refused(void *arg, void **value)
{
    struct resumed *r = arg;
    r->rc = weft_task_await(r->awaited, value, WEFT_FOREVER);
    r->tid = gettid();
    r->again = weft_task_await(r->awaited, value, WEFT_FOREVER);
    return 0;
}

TEST(a_task_that_cannot_be_resumed_continues_on_the_finisher_with_the_error)
{
    struct flaky f = {0};
    struct place looper = place_new(LOOPER);
    struct gate g = {0};
    weft_executor *x = NULL;
    weft_executor_ops ops = {.size = sizeof ops, .execute = flaky_execute};
    CHECK_INT(weft_executor_new(&x, &ops, &f), ==, 0);
    struct resumed r = {.awaited = start_on(looper.x, passes_as_task, &g)};
    weft_task *t = start_on(x, awaits_refused, &r);
    put(&f.refuse, -EUSERS);
    put(&g.open, 1);
    CHECK_INT(ends(t), ==, 0);
    CHECK_INT(r.rc, ==, -EUSERS);
    CHECK_INT(r.again, ==, 0); /* what it awaited has ended all the same */
    CHECK_INT(r.tid, !=, gettid());
    weft_task_free(t);
    weft_task_free(r.awaited);
    put(&f.refuse, 0);
    CHECK_INT(weft_executor_free(x), ==, 0);
    place_free(&looper);
}

TEST(a_task_that_finds_no_thread_after_an_await_continues_with_eagain)
{
    struct place threads = place_new(THREAD), looper = place_new(LOOPER);
    struct gate g = {0};
    struct resumed r = {.awaited = start_on(looper.x, passes_as_task, &g)};
    weft_task *t = start_on(threads.x, awaits_refused, &r);
    CHECK(waits(t));
    wf_sys_fail(1u << WF_SYS_THREAD, 1, 100);
    put(&g.open, 1);
    CHECK_INT(ends(t), ==, 0);
    wf_sys_fail(0, 0, 0);
    CHECK(r.rc == -EAGAIN || r.rc == 0); /* 0: it had not begun to wait */
    CHECK_INT(r.again, ==, 0);
    weft_task_free(t);
    weft_task_free(r.awaited);
    place_free(&looper);
    place_free(&threads);
}

/* The task of an executor, which ends while another thread is about to wait for it. */
struct ending {
    struct place place;
    struct gate gate;
    weft_task *task;
};

/* Before the wait: the task ends, and its executor is freed. */
static void ends_first(void *arg)
{
    struct ending *e = arg;
    weft_error how;
    wf_sys_before(0, NULL, NULL);
    put(&e->gate.open, 1);
    AWAIT(weft_task_error(e->task, &how) == 0);
    place_free(&e->place);
}

TEST(an_await_does_not_use_the_executor_of_a_task_that_ends_meanwhile)
{
    enum kind kinds[] = {LOOPER, ASYNC, THREAD};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct ending e = {.place = place_new(kinds[i])};
        e.task = start_on(e.place.x, passes_as_task, &e.gate);
        wf_sys_before(1u << WF_SYS_AWAIT, ends_first, &e);
        CHECK_INT(weft_task_await(e.task, NULL, WEFT_FOREVER), ==, 0);
        weft_task_free(e.task);
    }
}

TESTS(task_deadlock, an_await_does_not_use_the_executor_of_a_task_that_ends_meanwhile,
      a_task_that_awaits_itself_gets_edeadlk, tasks_that_await_each_other_in_a_ring_get_edeadlk,
      a_function_of_a_looper_that_awaits_its_task_gets_edeadlk,
      the_only_worker_of_a_scheduler_does_not_wait_for_its_task,
      the_only_worker_of_a_scheduler_does_not_wait_for_an_executor_of_it,
      a_task_that_cannot_be_resumed_continues_on_the_finisher_with_the_error,
      a_task_that_finds_no_thread_after_an_await_continues_with_eagain)
