/*
 * What ends while others still use it: executors that are freed on their own threads, tasks that are dropped, and
 * loopers at their exit.
 */
#include "unit/task/places.h"

struct follower {
    weft_task *awaited;
    weft_executor *x;
    int ended;
};

static int frees_executor_after(void *arg, void **value)
{
    struct follower *f = arg;
    int rc = weft_task_await(f->awaited, value, WEFT_FOREVER);
    weft_executor_free(f->x);
    more(&f->ended);
    return rc;
}

TEST(a_task_on_noop_may_free_the_executor_of_the_task_that_it_awaited)
{
    for (enum kind k = THREAD; k < KINDS; k++) {
        struct place p = place_new(k), noop = place_new(NOOP);
        struct gate g = {0};
        struct follower f = {.awaited = start_on(p.x, passes_as_task, &g), .x = p.x};
        AWAIT(seen(&g.begun));
        weft_task *t = start_on(noop.x, frees_executor_after, &f);
        put(&g.open, 1);
        CHECK_INT(weft_task_await(t, NULL, weft_in(AWAIT_SECONDS * WEFT_SEC)), ==, 0);
        CHECK_INT(seen(&f.ended), ==, 1);
        weft_task_free(t);
        weft_task_free(f.awaited);
        place_free(&noop);
        if (p.sched)
            end_sched(p.sched);
    }
}

static int freed_owned;

static void counts_exit(void *arg)
{
    (void)arg;
    more(&freed_owned);
}

TEST(a_dropped_task_frees_the_executor_that_it_owns)
{
    weft_executor *x = NULL;
    weft_task *t = NULL;
    struct gate g = {0};
    put(&freed_owned, 0);
    size_t before = wf_sys_held().n;
    CHECK_INT(weft_executor_looper(&x, NULL, counts_exit, NULL), ==, 0);
    CHECK_INT(weft_executor_execute(x, passes, &g), ==, 0);
    AWAIT(seen(&g.begun));
    CHECK_INT(weft_task_start(&t, returns_arg, NULL, &(weft_task_opts){.on = x, .owns_executor = true}), ==, 0);
    weft_task_free(t);
    CHECK_INT(weft_executor_close(x, false), ==, 0);
    put(&g.open, 1);
    AWAIT(seen(&freed_owned));
    AWAIT(wf_sys_held().n <= before + 1); /* 1: memory that is kept for the next task */
}

static weft_executor *exiting;

static void joins_and_frees(void *arg)
{
    CHECK_INT(weft_executor_join(exiting, WEFT_FOREVER), ==, -EDEADLK);
    CHECK_INT(weft_executor_free(exiting), ==, 0);
    more(arg);
}

TEST(a_looper_may_be_freed_at_its_exit)
{
    int done = 0;
    size_t before = wf_sys_held().n;
    CHECK_INT(weft_executor_looper(&exiting, NULL, joins_and_frees, &done), ==, 0);
    CHECK_INT(weft_executor_close(exiting, true), ==, 0);
    AWAIT(seen(&done));
    AWAIT(wf_sys_held().n <= before);
}

static void opens_gate(void *arg)
{
    put(&((struct gate *)arg)->open, 1);
}

struct dropper {
    weft_task *awaited;
    weft_executor *x;
    int joined;
};

static int joins_after(void *arg, void **value)
{
    struct dropper *d = arg;
    int rc = weft_task_await(d->awaited, value, WEFT_FOREVER);
    d->joined = weft_executor_join(d->x, weft_in(AWAIT_SECONDS * WEFT_SEC));
    return rc;
}

TEST(a_task_that_continues_in_a_close_may_join_the_executor)
{
    struct place p = place_new(LOOPER), noop = place_new(NOOP);
    struct gate g = {0};
    CHECK_INT(weft_executor_execute(p.x, passes, &g), ==, 0);
    AWAIT(seen(&g.begun));
    struct dropper d = {.awaited = start_on(p.x, returns_arg, NULL), .x = p.x, .joined = 1};
    weft_task *t = start_on(noop.x, joins_after, &d), *behind = start_on(p.x, returns_arg, NULL);
    weft_task_finally(d.awaited, opens_gate, &g);
    CHECK_INT(weft_executor_close(p.x, false), ==, 0);
    CHECK_INT(ends(t), ==, -ECANCELED);
    CHECK_INT(ends(behind), ==, -ECANCELED);
    CHECK_INT(d.joined, ==, 0);
    weft_task_free(t);
    weft_task_free(behind);
    weft_task_free(d.awaited);
    place_free(&noop);
    place_free(&p);
}

/* A program's own executor: one thread, which the test makes when all is queued. */
struct own_loop {
    weft_executor *x;
    struct {
        void (*fn)(void *);
        void *arg;
    } queue[4];
    int queued, closed, freed, join;
};

static int own_loop_execute(void *self, void (*fn)(void *), void *arg)
{
    struct own_loop *l = self;
    l->queue[l->queued].fn = fn;
    l->queue[l->queued++].arg = arg;
    return 0;
}

static void own_loop_close(void *self)
{
    more(&((struct own_loop *)self)->closed);
}

static int own_loop_join(void *self, weft_time deadline)
{
    (void)self, (void)deadline;
    return -EIO; /* it would wait for its own thread */
}

static void own_loop_free(void *self)
{
    more(&((struct own_loop *)self)->freed);
}

static void *own_loop_main(void *arg)
{
    struct own_loop *l = arg;
    for (int i = 0; i < l->queued; i++)
        l->queue[i].fn(l->queue[i].arg);
    return arg;
}

static void frees_own_loop(void *value)
{
    struct own_loop *l = value;
    l->join = weft_executor_join(l->x, weft_in(WEFT_SEC));
    CHECK_INT(weft_executor_free(l->x), ==, 0);
}

TEST(a_destructor_may_free_the_executor_of_its_task)
{
    const weft_executor_ops ops = {.size = sizeof ops,
                                   .flags = WEFT_EXECUTOR_SERIAL,
                                   .execute = own_loop_execute,
                                   .close = own_loop_close,
                                   .join = own_loop_join,
                                   .free = own_loop_free};
    for (int behind = 0; behind < 2; behind++) { /* whether a second task is in the queue */
        struct own_loop l = {0};
        weft_task *t = NULL;
        CHECK_INT(weft_executor_new(&l.x, &ops, &l), ==, 0);
        weft_task_opts opts = {.on = l.x, .destroy = frees_own_loop};
        CHECK_INT(weft_task_start(&t, returns_arg, &l, &opts), ==, 0);
        weft_task_free(t);
        if (behind)
            weft_task_free(start_on(l.x, returns_arg, NULL));
        pthread_join(new_thread(own_loop_main, &l), NULL);
        CHECK_INT(l.join, ==, -EDEADLK);
        CHECK_INT(l.closed, ==, 1);
        CHECK_INT(l.freed, ==, 1);
    }
}

/* A thread of an executor that takes its time to end, and two threads that join the executor. */
struct slow_end {
    weft_executor *x;
    struct gate gate;
    int early, returned;
};

static pthread_key_t slow_key;

static void use_slow_key(void *arg)
{
    CHECK_INT(pthread_setspecific(slow_key, arg), ==, 0);
}

static void *joins_slow_end(void *arg)
{
    struct slow_end *e = arg;
    CHECK_INT(weft_executor_join(e->x, WEFT_FOREVER), ==, 0);
    if (!seen(&e->gate.ended))
        more(&e->early);
    more(&e->returned);
    return arg;
}

TEST(every_join_waits_until_the_threads_are_gone)
{
    CHECK_INT(pthread_key_create(&slow_key, passes), ==, 0); /* the destructor holds up the thread's end */
    for (enum kind k = THREAD; k <= LOOPER; k++) {
        struct place p = place_new(k);
        struct slow_end e = {.x = p.x};
        CHECK_INT(weft_executor_execute(p.x, use_slow_key, &e.gate), ==, 0);
        CHECK_INT(weft_executor_close(p.x, true), ==, 0);
        AWAIT(seen(&e.gate.begun));
        pthread_t joiners[2] = {new_thread(joins_slow_end, &e), new_thread(joins_slow_end, &e)};
        weft_time soon = weft_in(20 * WEFT_MS); /* for a join that does not wait */
        while (!seen(&e.returned) && weft_now().ns < soon.ns)
            sched_yield();
        put(&e.gate.open, 1);
        for (int i = 0; i < 2; i++)
            pthread_join(joiners[i], NULL);
        CHECK_INT(e.early, ==, 0);
        place_free(&p);
    }
    pthread_key_delete(slow_key);
}

TESTS(task_lifetime, a_task_on_noop_may_free_the_executor_of_the_task_that_it_awaited,
      a_dropped_task_frees_the_executor_that_it_owns, a_looper_may_be_freed_at_its_exit,
      a_task_that_continues_in_a_close_may_join_the_executor, every_join_waits_until_the_threads_are_gone,
      a_destructor_may_free_the_executor_of_its_task)
