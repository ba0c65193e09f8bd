/*
 * Executors: what all kinds have in common, and a program's own.
 */
#include <weft/hook.h>

#include "unit/task/places.h"

TEST(a_function_runs_once_on_every_kind)
{
    for (enum kind k = 0; k < KINDS; k++) {
        struct place p = place_new(k);
        int calls = 0;
        for (int i = 0; i < 100; i++)
            CHECK_INT(weft_executor_execute(p.x, counts_call, &calls), ==, 0);
        CHECK_INT(weft_executor_close(p.x, true), ==, 0);
        CHECK_INT(weft_executor_join(p.x, WEFT_FOREVER), ==, 0);
        CHECK_INT(seen(&calls), ==, 100);
        place_free(&p);
    }
}

TEST(a_closed_executor_refuses_functions_and_tasks)
{
    for (enum kind k = 0; k < KINDS; k++) {
        struct place p = place_new(k);
        int calls = 0;
        weft_task *t = NULL;
        CHECK_INT(weft_executor_close(p.x, k % 2), ==, 0);
        CHECK_INT(weft_executor_execute(p.x, counts_call, &calls), ==, -ESHUTDOWN);
        CHECK_INT(weft_task_start(&t, returns_arg, NULL, &(weft_task_opts){.on = p.x}), ==, -ESHUTDOWN);
        CHECK_PTR(t, ==, NULL);
        CHECK_INT(weft_executor_close(p.x, true), ==, -EALREADY);
        CHECK_INT(weft_executor_join(p.x, WEFT_FOREVER), ==, 0);
        place_free(&p);
        CHECK_INT(calls, ==, 0);
    }
}

TEST(close_with_drain_lets_queued_functions_run)
{
    struct place p = place_new(LOOPER);
    struct gate g = {0};
    int calls = 0;
    CHECK_INT(weft_executor_execute(p.x, passes, &g), ==, 0);
    for (int i = 0; i < 10; i++)
        CHECK_INT(weft_executor_execute(p.x, counts_call, &calls), ==, 0);
    CHECK_INT(weft_executor_close(p.x, true), ==, 0);
    CHECK_INT(weft_executor_join(p.x, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_executor_join(p.x, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    put(&g.open, 1);
    CHECK_INT(weft_executor_join(p.x, WEFT_FOREVER), ==, 0);
    CHECK_INT(seen(&calls), ==, 10);
    place_free(&p);
}

TEST(close_without_drain_drops_queued_functions)
{
    struct place p = place_new(LOOPER);
    struct gate g = {0};
    int calls = 0;
    CHECK_INT(weft_executor_execute(p.x, passes, &g), ==, 0);
    AWAIT(seen(&g.begun));
    for (int i = 0; i < 10; i++)
        CHECK_INT(weft_executor_execute(p.x, counts_call, &calls), ==, 0);
    CHECK_INT(weft_executor_close(p.x, true), ==, 0);
    CHECK_INT(weft_executor_close(p.x, false), ==, 0); /* it was to drain: not any more */
    CHECK_INT(weft_executor_close(p.x, false), ==, -EALREADY);
    put(&g.open, 1);
    place_free(&p);
    CHECK_INT(seen(&g.ended), ==, 1);
    CHECK_INT(calls, ==, 0);
}

struct inside {
    weft_executor *x;
    int join, done;
};

static void joins_itself(void *arg)
{
    struct inside *in = arg;
    in->join = weft_executor_join(in->x, WEFT_FOREVER);
    put(&in->done, 1);
}

TEST(join_inside_the_executor_is_edeadlk)
{
    for (enum kind k = 0; k < KINDS; k++) {
        struct place p = place_new(k);
        struct inside in = {.x = p.x};
        CHECK_INT(weft_executor_execute(p.x, joins_itself, &in), ==, 0);
        AWAIT(seen(&in.done));
        CHECK_INT(in.join, ==, -EDEADLK);
        place_free(&p);
    }
}

/* A function on noop that yields out of its raw coroutine, to be resumed elsewhere. */
struct generator {
    weft_executor *outer, *inner;
    weft_coro *coro;
    int joins[6], count;
};

/* What the joins of both executors return: -EDEADLK inside, else -EAGAIN. */
static void note_joins(struct generator *g)
{
    g->joins[g->count++] = weft_executor_join(g->outer, WEFT_NOW);
    g->joins[g->count++] = weft_executor_join(g->inner, WEFT_NOW);
}

static void yields_in_inner(void *arg)
{
    weft_coro_yield(arg);
    note_joins(arg);
}

static void executes_inner(void *arg)
{
    struct generator *g = arg;
    CHECK_INT(weft_executor_execute(g->inner, yields_in_inner, g), ==, 0);
    note_joins(g);
}

static void *generates(void *arg)
{
    struct generator *g = arg;
    CHECK_INT(weft_executor_execute(g->outer, executes_inner, g), ==, 0);
    note_joins(g);
    return NULL;
}

static void *resumes_first(void *arg)
{
    struct generator *g = arg;
    CHECK_INT(weft_coro_new(&g->coro, generates, g, NULL), ==, 0);
    CHECK_INT(weft_coro_resume(g->coro, NULL, NULL), >=, 0);
    CHECK_INT(weft_executor_join(g->outer, WEFT_NOW), ==, -EAGAIN); /* the function is there no longer */
    CHECK_INT(weft_executor_join(g->inner, WEFT_NOW), ==, -EAGAIN);
    return arg;
}

static void *resumes_again(void *arg)
{
    struct generator *g = arg;
    CHECK_INT(weft_coro_resume(g->coro, NULL, NULL), >=, 0);
    CHECK_INT(weft_executor_join(g->outer, WEFT_NOW), ==, -EAGAIN);
    return arg;
}

static struct generator generator_new(void)
{
    struct generator g = {0};
    CHECK_INT(weft_executor_noop(&g.outer), ==, 0);
    CHECK_INT(weft_executor_noop(&g.inner), ==, 0);
    return g;
}

static void check_generator(struct generator *g)
{
    int inside[6] = {-EDEADLK, -EDEADLK, -EDEADLK, -EAGAIN, -EAGAIN, -EAGAIN};
    CHECK_INT(g->count, ==, 6);
    for (int i = 0; i < 6; i++)
        CHECK_INT(g->joins[i], ==, inside[i]);
    CHECK_INT(weft_coro_free(g->coro), ==, 0);
    CHECK_INT(weft_executor_free(g->inner), ==, 0);
    CHECK_INT(weft_executor_free(g->outer), ==, 0);
}

static void *resumes_in_fibers(void *arg)
{
    struct generator g = generator_new();
    CHECK_PTR(ended(go(resumes_first, &g)), ==, &g); /* its record may be the next fiber's */
    CHECK_PTR(ended(go(resumes_again, &g)), ==, &g);
    check_generator(&g);
    return arg;
}

TEST(a_function_that_yields_out_of_its_coroutine_goes_with_it)
{
    in_a_fiber(1, resumes_in_fibers, NULL);
    struct generator g = generator_new();
    pthread_join(new_thread(resumes_first, &g), NULL);
    resumes_again(&g);
    check_generator(&g);
}

static void ends_its_fiber(void *arg)
{
    weft_hook_end(arg);
}

static void *executes_the_end(void *arg)
{
    weft_executor_execute(arg, ends_its_fiber, arg);
    return NULL;
}

static void *ends_fibers(void *arg)
{
    weft_executor *sched = NULL, *noop = NULL;
    CHECK_INT(weft_executor_sched(&sched, weft_sched_current(), 0), ==, 0);
    CHECK_INT(weft_executor_execute(sched, ends_its_fiber, NULL), ==, 0);
    CHECK_INT(weft_executor_noop(&noop), ==, 0);
    CHECK_PTR(ended(go(executes_the_end, noop)), ==, noop);
    CHECK_INT(weft_executor_close(sched, true), ==, 0);
    CHECK_INT(weft_executor_close(noop, true), ==, 0);
    weft_time soon = weft_in(AWAIT_SECONDS * WEFT_SEC);
    CHECK_INT(weft_executor_join(sched, soon), ==, 0);
    CHECK_INT(weft_executor_join(noop, soon), ==, 0);
    CHECK_INT(weft_executor_free(sched), ==, 0);
    CHECK_INT(weft_executor_free(noop), ==, 0);
    return arg;
}

TEST(a_function_that_ends_its_fiber_has_ended)
{
    in_a_fiber(1, ends_fibers, NULL);
}

static void frees_it(void *arg)
{
    struct inside *in = arg;
    CHECK_INT(weft_executor_free(in->x), ==, 0);
    CHECK_INT(weft_executor_execute(in->x, counts_call, &in->join), ==, -ESHUTDOWN); /* it is there while we are */
    put(&in->done, 1);
}

TEST(an_executor_freed_in_its_own_function_releases_itself)
{
    int threads = steady_threads();
    for (enum kind k = 0; k < KINDS; k++) {
        struct place p = place_new(k);
        struct inside in = {.x = p.x};
        CHECK_INT(weft_executor_execute(p.x, frees_it, &in), ==, 0);
        AWAIT(seen(&in.done));
        if (p.sched)
            end_sched(p.sched);
        CHECK_INT(in.join, ==, 0);
    }
    AWAIT(count_threads() == threads);
}

static int at_exits;
static pthread_t exit_thread;

static void exits(void *arg)
{
    exit_thread = pthread_self();
    more(arg);
}

struct order {
    weft_executor *x;
    pthread_t thread;
    int next;
};

struct numbered {
    struct order *order;
    int number;
};

static void comes_in_order(void *arg)
{
    struct numbered *n = arg;
    CHECK_INT(n->order->next, ==, n->number);
    if (n->number == 0)
        n->order->thread = pthread_self();
    CHECK(pthread_equal(n->order->thread, pthread_self()));
    more(&n->order->next);
    if (n->number < 50) /* from inside: behind all others */
        CHECK_INT(weft_executor_execute(n->order->x, comes_in_order, n + 100), ==, 0);
}

TEST(a_looper_runs_functions_in_order_on_one_thread)
{
    weft_executor *x = NULL;
    static struct numbered all[150];
    struct gate g = {0};
    CHECK_INT(weft_executor_looper(&x, "a name that is too long for a thread", exits, &at_exits), ==, 0);
    struct order order = {.x = x};
    CHECK_INT(weft_executor_execute(x, passes, &g), ==, 0);
    for (int i = 0; i < 150; i++)
        all[i] = (struct numbered){&order, i};
    for (int i = 0; i < 100; i++)
        CHECK_INT(weft_executor_execute(x, comes_in_order, &all[i]), ==, 0);
    put(&g.open, 1);
    AWAIT(seen(&order.next) == 150);
    CHECK_INT(seen(&at_exits), ==, 0);
    CHECK_INT(weft_executor_free(x), ==, 0);
    CHECK_INT(at_exits, ==, 1);
    CHECK(pthread_equal(order.thread, exit_thread));
}

static void *joins(void *arg)
{
    return ptr(weft_executor_join(arg, WEFT_FOREVER));
}

static void *joins_in_fiber(void *arg)
{
    struct gate g = {0};
    struct place p = place_new(LOOPER);
    CHECK_INT(weft_executor_execute(p.x, passes, &g), ==, 0);
    weft_fiber *f = go(joins, p.x), *cancelled = go(joins, p.x);
    AWAIT(is_parked(f) && is_parked(cancelled)); /* the worker is free */
    weft_cancel(cancelled);
    CHECK_PTR(ended(cancelled), ==, ptr(-ECANCELED));
    CHECK_INT(weft_executor_close(p.x, true), ==, 0);
    put(&g.open, 1);
    CHECK_PTR(ended(f), ==, ptr(0));
    place_free(&p);
    return arg;
}

TEST(a_join_in_a_fiber_lets_only_the_fiber_wait)
{
    in_a_fiber(1, joins_in_fiber, NULL);
}

/* A program's own executor: calls at once, and notes what it is told. */
struct own {
    int executed, closed, joined, freed, refuse;
};

static int own_execute(void *self, void (*fn)(void *), void *arg)
{
    struct own *o = self;
    CHECK_INT(o->closed, ==, 0);
    if (o->refuse)
        return o->refuse;
    o->executed++;
    fn(arg);
    return 0;
}

static void own_close(void *self)
{
    struct own *o = self;
    o->closed++;
}

static int own_join(void *self, weft_time deadline)
{
    struct own *o = self;
    (void)deadline;
    CHECK_INT(o->closed, ==, 1);
    return ++o->joined == 1 ? -ETIMEDOUT : 0;
}

static void own_free(void *self)
{
    struct own *o = self;
    CHECK_INT(o->closed, ==, 1);
    o->freed++;
}

static const weft_executor_ops own_ops = {.size = sizeof own_ops,
                                          .name = "own",
                                          .execute = own_execute,
                                          .close = own_close,
                                          .join = own_join,
                                          .free = own_free};

TEST(a_programs_table_is_closed_joined_and_freed_once)
{
    struct own o = {0};
    weft_executor *x = NULL;
    int calls = 0;
    CHECK_INT(weft_executor_new(&x, &own_ops, &o), ==, 0);
    CHECK_STR(weft_executor_name(x), "own");
    CHECK_INT(weft_executor_execute(x, counts_call, &calls), ==, 0);
    o.refuse = -EDOM;
    CHECK_INT(weft_executor_execute(x, counts_call, &calls), ==, -EDOM);
    CHECK_INT(calls, ==, 1);
    CHECK_INT(weft_executor_join(x, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_executor_close(x, true), ==, 0);
    CHECK_INT(o.closed, ==, 1);
    CHECK_INT(weft_executor_join(x, WEFT_FOREVER), ==, -ETIMEDOUT);
    CHECK_INT(weft_executor_free(x), ==, 0);
    CHECK_INT(o.closed, ==, 1);
    CHECK_INT(o.joined, ==, 2);
    CHECK_INT(o.freed, ==, 1);
}

/* A table that keeps one function for later. */
struct later {
    void (*fn)(void *);
    void *arg;
    int closed;
};

static int later_execute(void *self, void (*fn)(void *), void *arg)
{
    struct later *l = self;
    l->fn = fn;
    l->arg = arg;
    return 0;
}

static void later_close(void *self)
{
    ((struct later *)self)->closed++;
}

TEST(a_table_is_closed_after_its_last_function)
{
    struct later l = {0};
    weft_executor *x = NULL;
    int calls = 0;
    weft_executor_ops ops = {.size = sizeof ops, .execute = later_execute, .close = later_close};
    CHECK_INT(weft_executor_new(&x, &ops, &l), ==, 0);
    CHECK_STR(weft_executor_name(x), "");
    CHECK_INT(weft_executor_execute(x, counts_call, &calls), ==, 0);
    CHECK_INT(weft_executor_close(x, false), ==, 0);
    CHECK_INT(l.closed, ==, 0); /* it has a function, though that was dropped */
    CHECK_INT(weft_executor_join(x, WEFT_NOW), ==, -EAGAIN);
    l.fn(l.arg);
    CHECK_INT(calls, ==, 0);
    CHECK_INT(l.closed, ==, 1);
    CHECK_INT(weft_executor_free(x), ==, 0);
}

/* A table that queues functions. The test runs them. */
struct queue {
    pthread_mutex_t lock;
    struct {
        void (*fn)(void *);
        void *arg;
    } calls[4];
    int queued, closed; /* atomic; written under the lock */
};

static int queue_execute(void *self, void (*fn)(void *), void *arg)
{
    struct queue *q = self;
    CHECK_INT(seen(&q->closed), ==, 0);
    pthread_mutex_lock(&q->lock);
    q->calls[q->queued].fn = fn;
    q->calls[q->queued].arg = arg;
    more(&q->queued);
    pthread_mutex_unlock(&q->lock);
    return 0;
}

static void queue_close(void *self)
{
    more(&((struct queue *)self)->closed);
}

/* Waits for the only function in the queue, and calls it. */
static void run_queued(struct queue *q)
{
    AWAIT(seen(&q->queued) == 1);
    pthread_mutex_lock(&q->lock);
    void (*fn)(void *) = q->calls[0].fn;
    void *arg = q->calls[0].arg;
    put(&q->queued, 0);
    pthread_mutex_unlock(&q->lock);
    fn(arg);
}

static int awaits_both(void *arg, void **value)
{
    weft_task **two = arg;
    int rc = weft_task_await(two[0], value, WEFT_FOREVER);
    return rc != 0 ? rc : weft_task_await(two[1], value, WEFT_FOREVER);
}

TEST(a_table_is_closed_after_the_last_continuation_of_its_tasks)
{
    struct place looper = place_new(LOOPER);
    struct queue q = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct gate g[2] = {{0}, {0}};
    weft_task *held[2] = {start_on(looper.x, passes_as_task, &g[0]), start_on(looper.x, passes_as_task, &g[1])};
    weft_executor_ops ops = {.size = sizeof ops, .execute = queue_execute, .close = queue_close};
    weft_executor *x = NULL;
    CHECK_INT(weft_executor_new(&x, &ops, &q), ==, 0);
    weft_task *t = start_on(x, awaits_both, held);
    run_queued(&q); /* up to the first await */
    CHECK_INT(weft_executor_close(x, true), ==, 0);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(q.closed, ==, 0); /* nothing is queued, but the task lives */
        CHECK_INT(weft_executor_join(x, WEFT_NOW), ==, -EAGAIN);
        put(&g[i].open, 1);
        AWAIT(seen(&q.queued) == 1);
        CHECK_INT(ends(held[i]), ==, 0);
        CHECK_INT(q.closed, ==, 0);
        CHECK_INT(weft_task_await(t, NULL, WEFT_NOW), ==, -EAGAIN);
        run_queued(&q);
    }
    CHECK_INT(q.closed, ==, 1);
    CHECK_INT(weft_task_await(t, NULL, WEFT_NOW), ==, 0);
    CHECK_INT(weft_executor_join(x, WEFT_NOW), ==, 0);
    weft_task *all[] = {t, held[0], held[1]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        weft_task_free(all[i]);
    CHECK_INT(weft_executor_free(x), ==, 0);
    CHECK_INT(q.closed, ==, 1);
    place_free(&looper);
}

TEST(a_table_closed_without_drain_still_continues_its_tasks)
{
    struct place looper = place_new(LOOPER);
    struct queue q = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct gate g = {0};
    weft_task *held = start_on(looper.x, passes_as_task, &g), *two[] = {held, held};
    weft_executor_ops ops = {.size = sizeof ops, .execute = queue_execute, .close = queue_close};
    weft_executor *x = NULL;
    CHECK_INT(weft_executor_new(&x, &ops, &q), ==, 0);
    weft_task *t = start_on(x, awaits_both, two);
    run_queued(&q);
    CHECK_INT(weft_executor_close(x, false), ==, 0); /* cancels the task, which is to continue in the table */
    CHECK_INT(seen(&q.queued), ==, 1);
    CHECK_INT(q.closed, ==, 0);
    run_queued(&q);
    CHECK_INT(q.closed, ==, 1);
    CHECK_INT(weft_task_await(t, NULL, WEFT_NOW), ==, -ECANCELED);
    put(&g.open, 1);
    CHECK_INT(ends(held), ==, 0);
    weft_task_free(t);
    weft_task_free(held);
    CHECK_INT(weft_executor_free(x), ==, 0);
    place_free(&looper);
}

TEST(invalid_arguments_return_einval)
{
    weft_executor *x = NULL;
    weft_executor_ops ops = own_ops;
    CHECK_INT(weft_executor_new(NULL, &own_ops, NULL), ==, -EINVAL);
    CHECK_INT(weft_executor_new(&x, NULL, NULL), ==, -EINVAL);
    ops.execute = NULL;
    CHECK_INT(weft_executor_new(&x, &ops, NULL), ==, -EINVAL);
    ops = own_ops;
    ops.flags = 1u << 20;
    CHECK_INT(weft_executor_new(&x, &ops, NULL), ==, -EINVAL);
    CHECK_INT(weft_executor_noop(NULL), ==, -EINVAL);
    CHECK_INT(weft_executor_thread(NULL), ==, -EINVAL);
    CHECK_INT(weft_executor_async(NULL, 0), ==, -EINVAL);
    CHECK_INT(weft_executor_async(&x, 100000), ==, -EINVAL);
    CHECK_INT(weft_executor_looper(NULL, NULL, NULL, NULL), ==, -EINVAL);
    CHECK_INT(weft_executor_sched(&x, NULL, 0), ==, -EINVAL);
    weft_sched *s = new_sched(1, false);
    CHECK_INT(weft_executor_sched(&x, s, 2), ==, -EINVAL);
    CHECK_INT(weft_executor_sched(&x, s, -1), ==, -EINVAL);
    CHECK_INT(weft_sched_free(s), ==, 0);
    CHECK_PTR(x, ==, NULL);
    CHECK_INT(weft_executor_execute(NULL, counts_call, NULL), ==, -EINVAL);
    CHECK_INT(weft_executor_close(NULL, true), ==, -EINVAL);
    CHECK_INT(weft_executor_join(NULL, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(weft_executor_free(NULL), ==, 0);
    CHECK_STR(weft_executor_name(NULL), "");
    CHECK_INT(weft_executor_noop(&x), ==, 0);
    CHECK_INT(weft_executor_execute(x, NULL, NULL), ==, -EINVAL);
    CHECK_INT(weft_executor_free(x), ==, 0);
}

TESTS(task_executor, a_function_runs_once_on_every_kind, a_closed_executor_refuses_functions_and_tasks,
      close_with_drain_lets_queued_functions_run, close_without_drain_drops_queued_functions,
      join_inside_the_executor_is_edeadlk, a_function_that_yields_out_of_its_coroutine_goes_with_it,
      a_function_that_ends_its_fiber_has_ended, an_executor_freed_in_its_own_function_releases_itself,
      a_looper_runs_functions_in_order_on_one_thread, a_join_in_a_fiber_lets_only_the_fiber_wait,
      a_programs_table_is_closed_joined_and_freed_once, a_table_is_closed_after_its_last_function,
      a_table_is_closed_after_the_last_continuation_of_its_tasks,
      a_table_closed_without_drain_still_continues_its_tasks, invalid_arguments_return_einval)
