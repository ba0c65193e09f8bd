/*
 * Executors and tasks in the child of a fork.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/sanitizer.h"
#include "sched/family.h"
#include "sched/fork.h"
#include "task/scope.h"
#include "task/task.h"
#include "unit/task/places.h"

#if WF_TSAN
#define SKIP_UNDER_TSAN() SKIP("ThreadSanitizer makes no threads in a child of many, and loses fibers there")
#else
#define SKIP_UNDER_TSAN()
#endif

/* The status of a child, which must end by itself. */
static int status_of(pid_t child)
{
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int value_of(weft_executor *x)
{
    weft_task *t = NULL;
    void *value = NULL;
    int rc = weft_task_start(&t, returns_arg, ptr(7), &(weft_task_opts){.on = x});
    if (rc == 0)
        rc = weft_task_await(t, &value, WEFT_FOREVER);
    weft_task_free(t);
    return rc == 0 ? (int)(intptr_t)value : rc;
}

TEST(executors_with_threads_are_closed_in_the_child)
{
    SKIP_UNDER_TSAN();
    for (enum kind k = THREAD; k <= LOOPER; k++) {
        struct place p = place_new(k);
        struct gate g = {0};
        int calls = 0;
        weft_task *waiting = start_on(p.x, passes_as_task, &g), *over = start_on(NULL, returns_arg, &g);
        CHECK_INT(ends(over), ==, 0);
        AWAIT(seen(&g.begun));
        pid_t child = fork();
        if (child == 0) {
            CHECK_INT(weft_executor_execute(p.x, counts_call, &calls), ==, -ESHUTDOWN);
            CHECK_INT(weft_task_await(waiting, NULL, WEFT_FOREVER), ==, -ESRCH);
            CHECK_INT(weft_task_await(over, NULL, WEFT_FOREVER), ==, 0);
            CHECK_INT(weft_executor_join(p.x, WEFT_FOREVER), ==, 0);
            CHECK_INT(weft_executor_close(p.x, true), ==, -EALREADY);
            CHECK_INT(weft_executor_free(p.x), ==, 0);
            struct place mine = place_new(k);
            CHECK_INT(value_of(mine.x), ==, 7); /* new ones can be made */
            CHECK_INT(value_of(NULL), ==, 7);
            place_free(&mine);
            _exit(test_has_failed());
        }
        CHECK_INT(status_of(child), ==, 0);
        put(&g.open, 1);
        CHECK_INT(ends(waiting), ==, 0);
        weft_task_free(waiting);
        weft_task_free(over);
        place_free(&p);
    }
}

TEST(noop_goes_on_in_the_child)
{
    struct place p = place_new(NOOP);
    pid_t child = fork();
    if (child == 0) {
        CHECK_INT(value_of(p.x), ==, 7);
        place_free(&p);
        _exit(test_has_failed());
    }
    CHECK_INT(status_of(child), ==, 0);
    CHECK_INT(value_of(p.x), ==, 7);
    place_free(&p);
}

struct forker {
    pid_t child;
    int rc;
};

static int forks(void *arg, void **value)
{
    struct forker *f = arg;
    *value = arg;
    f->child = fork();
    if (f->child == 0) { /* the task that forked goes on: it starts and awaits others */
        f->rc = value_of(NULL);
        if (f->rc != 7)
            _exit(3);
        struct place p = place_new(LOOPER);
        if (value_of(p.x) != 7)
            _exit(4);
        place_free(&p);
    }
    return 0;
}

TEST(a_child_forked_by_a_task_ends_when_the_task_returns)
{
    SKIP_UNDER_TSAN();
    for (enum kind k = THREAD; k <= LOOPER; k++) {
        struct place p = place_new(k);
        struct forker f = {0};
        weft_task *t = start_on(p.x, forks, &f);
        CHECK_INT(ends(t), ==, 0);
        CHECK_INT(status_of(f.child), ==, 0);
        weft_task_free(t);
        place_free(&p);
    }
}

static void *forks_in_fiber(void *arg)
{
    struct forker f = {0};
    weft_task *t = start_on(NULL, forks, &f);
    CHECK_INT(ends(t), ==, 0);
    CHECK_INT(status_of(f.child), ==, 0);
    weft_task_free(t);
    return arg;
}

TEST(a_fiber_that_is_a_task_may_fork)
{
    SKIP_UNDER_TSAN();
    pid_t child = fork(); /* as the grandchild may return from weft_run, or end by exit(0) */
    if (child == 0) {
        pid_t self = getpid();
        int rc = weft_run(forks_in_fiber, NULL, NULL, &(weft_sched_opts){.threads = 1});
        _exit(getpid() == self && (rc != 0 || test_has_failed()));
    }
    CHECK_INT(status_of(child), ==, 0);
}

static int returns_later(void *arg, void **value)
{
    struct timespec pause = {.tv_nsec = 5000000}; /* so that most awaits have to wait; any order is right */
    nanosleep(&pause, NULL);
    *value = arg;
    return 0;
}

static int forks_and_awaits(void *arg, void **value)
{
    struct forker *f = arg;
    (void)value;
    f->child = fork();
    if (f->child == 0) {
        struct place p = place_new(THREAD);
        weft_task *t = start_on(p.x, returns_later, ptr(7));
        int rc = ends(t);
        weft_task_free(t);
        place_free(&p);
        _exit(rc == 0 ? 42 : 3);
    }
    return 0;
}

TEST(a_task_that_forked_goes_on_after_an_await)
{
    SKIP_UNDER_TSAN();
    for (enum kind k = THREAD; k <= LOOPER; k++) {
        struct place p = place_new(k);
        struct forker f = {0};
        int calls = 0;
        for (int i = 0; i < 3; i++) /* a pool then has an idle thread, which the child does not have */
            CHECK_INT(weft_executor_execute(p.x, counts_call, &calls), ==, 0);
        AWAIT(seen(&calls) == 3);
        weft_task *t = start_on(p.x, forks_and_awaits, &f);
        CHECK_INT(ends(t), ==, 0);
        CHECK_INT(status_of(f.child), ==, 42);
        weft_task_free(t);
        place_free(&p);
    }
}

static int forks_and_starts(void *arg, void **value)
{
    struct forker *f = arg;
    (void)value;
    f->child = fork();
    if (f->child == 0 && value_of(NULL) != 7)
        _exit(3);
    return 0;
}

TEST(a_task_without_executor_may_fork_and_start_others)
{
    SKIP_UNDER_TSAN();
    struct forker f = {0};
    weft_task *t = start_on(NULL, forks_and_starts, &f);
    CHECK_INT(ends(t), ==, 0);
    CHECK_INT(status_of(f.child), ==, 0);
    weft_task_free(t);
}

struct family {
    weft_executor *x;
    weft_task *waiting;
    struct forker f;
    int continued;
};

static int says_continued(void *arg, void **value)
{
    struct family *a = arg;
    (void)value;
    int rc = weft_task_await(a->waiting, NULL, WEFT_FOREVER);
    more(&a->continued);
    return rc;
}

static void forks_in_function(void *arg)
{
    struct family *a = arg;
    a->f.child = fork();
}

TEST(a_function_on_noop_that_forks_leaves_other_tasks_behind)
{
    struct place p = place_new(NOOP), looper = place_new(LOOPER);
    struct gate g = {0};
    struct family a = {.x = p.x, .waiting = start_on(looper.x, passes_as_task, &g)};
    weft_task *t = start_on(p.x, says_continued, &a);
    CHECK_INT(weft_executor_execute(p.x, forks_in_function, &a), ==, 0);
    if (a.f.child == 0) {
        CHECK_INT(weft_task_cancel(t), ==, -ESRCH);
        CHECK_INT(weft_executor_close(p.x, false), ==, 0);
        CHECK_INT(weft_executor_join(p.x, weft_in(AWAIT_SECONDS * WEFT_SEC)), ==, 0);
        CHECK_INT(a.continued, ==, 0);
        _exit(test_has_failed());
    }
    CHECK_INT(status_of(a.f.child), ==, 0);
    put(&g.open, 1);
    CHECK_INT(ends(t), ==, 0);
    weft_task_free(t);
    weft_task_free(a.waiting);
    place_free(&p);
    place_free(&looper);
}

static int forks_in_scope(void *arg, void **value)
{
    struct forker *f = arg;
    (void)value;
    f->child = fork();
    return 0;
}

static void *forks_below_its_scope(void *arg)
{
    struct place p = place_new(NOOP);
    struct forker *f = arg;
    weft_task *t = NULL;
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_task_start(&t, forks_in_scope, f, &(weft_task_opts){.on = p.x, .scope = &s}), ==, 0);
    CHECK_INT(weft_scope_close(&s), ==, 0); /* in the child too */
    if (f->child == 0)
        _exit(test_has_failed() ? 1 : 42);
    CHECK_INT(status_of(f->child), ==, 42);
    weft_task_free(t);
    place_free(&p);
    return NULL;
}

TEST(a_task_that_forked_is_nobodys_child)
{
    SKIP_UNDER_TSAN();
    struct forker f = {0};
    in_a_fiber(1, forks_below_its_scope, &f);
}

/* ---- what the parent has, and the child must not wait for ---- */

enum { CHILD_SECONDS = 10 }; /* a child that hangs is killed */

/* Lets the fibers of the only worker run, if one is ready that should not be. */
static void let_others_run(void)
{
    for (int i = 0; i < 10; i++)
        weft_yield();
}

struct siblings {
    weft_scope scope;
    void (*in_child)(weft_scope *s);
    bool locked; /* the lock of the owner's family is held at the fork */
    int woken;
};

static int counts_wakes(void *arg)
{
    struct siblings *all = arg;
    int rc = weft_sleep(3600 * WEFT_SEC);
    more(&all->woken);
    return rc;
}

static int forks_among_siblings(void *arg)
{
    struct siblings *all = arg;
    struct wf_lock *lock = &wf_extra_of(wf_scope_of(&all->scope)->owner)->lock;
    if (all->locked)
        wf_lock(lock);
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_SECONDS);
        all->in_child(&all->scope);
        let_others_run();
        CHECK_INT(all->woken, ==, 0);
        _exit(test_has_failed());
    }
    if (all->locked)
        wf_unlock(lock);
    CHECK_INT(status_of(child), ==, 0);
    return 0;
}

static void *opens_for_siblings(void *arg)
{
    struct siblings *all = arg;
    CHECK_INT(weft_scope_open(&all->scope, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&all->scope, counts_wakes, all), ==, 0);
    weft_yield(); /* it sleeps */
    CHECK_INT(weft_scope_go(&all->scope, forks_among_siblings, all), ==, 0);
    weft_yield();
    CHECK_INT(all->woken, ==, 0);
    CHECK_INT(weft_scope_close(&all->scope), ==, 0);
    CHECK_INT(all->woken, ==, 1);
    return NULL;
}

static int returns_zero(void *arg)
{
    (void)arg;
    return 0;
}

static void uses_a_lost_scope(weft_scope *s)
{
    weft_scope_tally tally = {.size = sizeof tally};
    weft_failure failure;
    weft_task *t = NULL;
    CHECK_INT(weft_scope_cancel(s, 0, NULL), ==, -ESRCH);
    CHECK_INT(weft_scope_stop(s, 0), ==, -ESRCH);
    CHECK_INT(weft_scope_stop(s, WEFT_MS), ==, -ESRCH);
    CHECK_INT(weft_scope_counts(s, &tally), ==, -ESRCH);
    CHECK_INT(weft_scope_failures(s, &failure, 1), ==, -ESRCH);
    CHECK_INT(weft_scope_go(s, returns_zero, NULL), ==, -EPERM);
    CHECK_INT(weft_scope_try_go(s, returns_zero, NULL), ==, -EPERM);
    CHECK_INT(weft_task_start(&t, returns_arg, NULL, &(weft_task_opts){.scope = s}), ==, -EPERM);
    CHECK_INT(weft_scope_wait(s), ==, -EPERM);
    CHECK_INT(weft_scope_close(s), ==, -EPERM);
}

TEST(a_scope_whose_owner_is_in_the_parent_cannot_be_cancelled_or_counted)
{
    SKIP_UNDER_TSAN();
    struct siblings all = {.in_child = uses_a_lost_scope};
    in_a_fiber(1, opens_for_siblings, &all);
}

TEST(a_scope_whose_owner_is_in_the_parent_is_not_locked)
{
    SKIP_UNDER_TSAN();
    struct siblings all = {.in_child = uses_a_lost_scope, .locked = true};
    in_a_fiber(1, opens_for_siblings, &all);
}

static void walks_a_lost_scope(weft_scope *s)
{
    struct wf_cause why = wf_cause_here(WEFT_CAUSE_CALL, -ECANCELED, NULL);
    struct wf_later later = {0};
    wf_scope_cancel(wf_scope_of(s), &why, &later);
}

TEST(a_cancel_wakes_no_fiber_of_the_parent)
{
    SKIP_UNDER_TSAN();
    struct siblings all = {.in_child = walks_a_lost_scope};
    in_a_fiber(1, opens_for_siblings, &all);
}

TEST(a_closed_executor_without_threads_is_over_in_the_child)
{
    SKIP_UNDER_TSAN();
    for (enum kind k = NOOP; k <= SCHED; k += SCHED - NOOP) {
        struct place p = place_new(k), looper = place_new(LOOPER);
        struct gate g = {0};
        weft_task *waiting = start_on(looper.x, passes_as_task, &g), *t = start_on(p.x, awaits_arg, waiting);
        CHECK_INT(weft_executor_close(p.x, true), ==, 0);
        pid_t child = fork();
        if (child == 0) {
            alarm(CHILD_SECONDS);
            CHECK_INT(weft_executor_execute(p.x, counts_call, &g.begun), ==, -ESHUTDOWN);
            CHECK_INT(weft_executor_join(p.x, WEFT_FOREVER), ==, 0);
            CHECK_INT(weft_executor_free(p.x), ==, 0);
            _exit(test_has_failed());
        }
        CHECK_INT(status_of(child), ==, 0);
        put(&g.open, 1);
        CHECK_INT(ends(t), ==, 0);
        weft_task_free(t);
        weft_task_free(waiting);
        place_free(&p);
        place_free(&looper);
    }
}

TEST(an_executor_that_was_closed_without_drain_is_freed_in_the_child)
{
    SKIP_UNDER_TSAN();
    struct place p = place_new(SCHED);
    struct gate g = {0};
    weft_task *t = start_on(p.x, passes_as_task, &g);
    AWAIT(seen(&g.begun));
    CHECK_INT(weft_executor_close(p.x, false), ==, 0);
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_SECONDS);
        CHECK_INT(weft_executor_free(p.x), ==, 0);
        _exit(test_has_failed());
    }
    CHECK_INT(status_of(child), ==, 0);
    put(&g.open, 1);
    CHECK_INT(ends(t), ==, 0);
    weft_task_free(t);
    place_free(&p);
}

/* A program's own table: a queue that the test empties. */
struct own {
    struct {
        void (*fn)(void *);
        void *arg;
    } queue[4];
    unsigned queued;
    int closes, joins;
    struct gate *gate; /* holds up the close; NULL: none */
};

static int own_execute(void *self, void (*fn)(void *), void *arg)
{
    struct own *own = self;
    own->queue[own->queued].fn = fn;
    own->queue[own->queued++].arg = arg;
    return 0;
}

static void own_close(void *self)
{
    struct own *own = self;
    if (own->gate)
        passes(own->gate);
    own->closes++;
}

static int own_join(void *self, weft_time deadline)
{
    struct own *own = self;
    (void)deadline;
    own->joins++;
    return own->closes == 1 || own->gate ? 0 : -EPROTO;
}

static void own_call(struct own *own, unsigned i)
{
    own->queue[i].fn(own->queue[i].arg);
}

static weft_executor *own_new(struct own *own)
{
    static const weft_executor_ops ops = {
        .size = sizeof ops, .execute = own_execute, .close = own_close, .join = own_join};
    weft_executor *x = NULL;
    CHECK_INT(weft_executor_new(&x, &ops, own), ==, 0);
    return x;
}

static void free_in_the_child(bool joins)
{
    struct own own = {.closes = 0};
    weft_executor *x = own_new(&own);
    int calls = 0;
    CHECK_INT(weft_executor_execute(x, counts_call, &calls), ==, 0);
    CHECK_INT(weft_executor_close(x, false), ==, 0);
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_SECONDS);
        CHECK_INT(own.closes, ==, 0); /* a fork calls no function of the program */
        if (joins)
            CHECK_INT(weft_executor_join(x, WEFT_FOREVER), ==, 0);
        CHECK_INT(weft_executor_free(x), ==, 0);
        CHECK_INT(own.closes, ==, 1);
        CHECK_INT(own.joins, ==, 1 + joins);
        _exit(test_has_failed());
    }
    CHECK_INT(status_of(child), ==, 0);
    own_call(&own, 0);
    CHECK_INT(calls, ==, 0);
    CHECK_INT(own.closes, ==, 1);
    CHECK_INT(weft_executor_free(x), ==, 0);
}

TEST(a_free_or_join_in_the_child_closes_a_table_that_waited_for_functions_of_the_parent)
{
    free_in_the_child(false);
    free_in_the_child(true);
}

static void *frees_executor(void *arg)
{
    CHECK_INT(weft_executor_free(arg), ==, 0);
    return NULL;
}

TEST(an_executor_that_a_thread_of_the_parent_is_closing_is_over_in_the_child)
{
    struct gate g = {0};
    struct own own = {.gate = &g};
    weft_executor *x = own_new(&own);
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, frees_executor, x), ==, 0);
    AWAIT(seen(&g.begun));
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_SECONDS);
        CHECK_INT(weft_executor_join(x, WEFT_FOREVER), ==, 0);
        CHECK_INT(own.joins, ==, 1);
        CHECK_INT(g.begun, ==, 1); /* it is not closed twice */
        _exit(test_has_failed());
    }
    CHECK_INT(status_of(child), ==, 0);
    put(&g.open, 1);
    pthread_join(thread, NULL);
}

TEST(a_function_of_the_parent_that_the_child_calls_too_leaves_those_of_the_child_alone)
{
    struct own own = {.closes = 0};
    weft_executor *x = own_new(&own);
    int calls = 0;
    for (int i = 0; i < 2; i++)
        CHECK_INT(weft_executor_execute(x, counts_call, &calls), ==, 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK_INT(weft_executor_execute(x, counts_call, &calls), ==, 0);
        own_call(&own, 1);
        own_call(&own, 0);
        CHECK_INT(weft_executor_close(x, true), ==, 0);
        CHECK_INT(own.closes, ==, 0);
        own_call(&own, 2);
        CHECK_INT(own.closes, ==, 1);
        CHECK_INT(weft_executor_free(x), ==, 0);
        _exit(test_has_failed());
    }
    CHECK_INT(status_of(child), ==, 0);
    own_call(&own, 0);
    own_call(&own, 1);
    CHECK_INT(weft_executor_free(x), ==, 0);
}

static void counts_value(void *value, void *arg)
{
    CHECK(value == ptr(7));
    more(arg);
}

static void counts_error(const weft_error *error, void *arg)
{
    (void)error;
    more(arg);
}

static weft_task *start_owning(weft_task_fn *fn, void *arg)
{
    weft_task *t = NULL;
    weft_executor *x = NULL;
    CHECK_INT(weft_executor_looper(&x, NULL, NULL, NULL), ==, 0);
    CHECK_INT(weft_task_start(&t, fn, arg, &(weft_task_opts){.on = x, .owns_executor = true}), ==, 0);
    return t;
}

static void uses_an_unfinished_task(weft_task *t)
{
    void *value = ptr(1);
    weft_error error;
    int calls = 0;
    CHECK(weft_task_then(t, counts_value, &calls) == NULL);
    CHECK(weft_task_catching(t, counts_error, &calls) == NULL);
    CHECK(weft_task_finally(t, counts_call, &calls) == NULL);
    CHECK_INT(weft_task_take(t, &value), ==, -EAGAIN);
    CHECK_INT(weft_task_error(t, &error), ==, -EAGAIN);
    CHECK_INT(weft_task_cancel(t), ==, -ESRCH);
    CHECK_INT(weft_task_all(&t, 1, WEFT_FOREVER), ==, -ESRCH);
    CHECK_INT(weft_task_race(&t, 1, WEFT_NOW), ==, -ESRCH);
    weft_task_free(t);
    CHECK_INT(calls, ==, 0);
}

TEST(an_unfinished_task_of_the_parent_takes_no_callbacks_and_is_not_locked)
{
    SKIP_UNDER_TSAN();
    struct gate g = {0};
    weft_task *t = start_owning(passes_as_task, &g);
    AWAIT(seen(&g.begun));
    wf_lock(&t->lock); /* as another thread may */
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_SECONDS);
        uses_an_unfinished_task(t);
        _exit(test_has_failed());
    }
    wf_unlock(&t->lock);
    CHECK_INT(status_of(child), ==, 0);
    put(&g.open, 1);
    CHECK_INT(ends(t), ==, 0);
    weft_task_free(t);
}

static void uses_ended_tasks(weft_task *t[2])
{
    void *value = NULL;
    int calls = 0;
    CHECK(weft_task_then(t[0], counts_value, &calls) == t[0]);
    CHECK(weft_task_catching(t[0], counts_error, &calls) == t[0]);
    CHECK(weft_task_finally(t[0], counts_call, &calls) == t[0]);
    CHECK_INT(calls, ==, 2);
    CHECK_INT(weft_task_all(t, 2, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_task_any(t, 2, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_task_race(t, 2, WEFT_NOW), ==, 0);
    CHECK_INT(weft_task_take(t[1], &value), ==, 0);
    CHECK(value == ptr(7));
    CHECK_INT(weft_task_take(t[1], &value), ==, -EALREADY);
    weft_task_free(t[0]);
    weft_task_free(t[1]);
}

TEST(an_ended_task_of_the_parent_can_be_used_though_its_lock_was_held)
{
    SKIP_UNDER_TSAN();
    weft_task *t[2];
    for (int i = 0; i < 2; i++) {
        t[i] = start_owning(returns_arg, ptr(7));
        CHECK_INT(ends(t[i]), ==, 0);
        wf_lock(&t[i]->lock);
    }
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_SECONDS);
        wf_lock(wf_fork_lock(&t[0]->lock, t[0]->forks));
        child = fork();
        if (child == 0) {
            alarm(CHILD_SECONDS);
            uses_ended_tasks(t);
            _exit(test_has_failed());
        }
        wf_unlock(wf_fork_lock(&t[0]->lock, t[0]->forks));
        CHECK_INT(status_of(child), ==, 0);
        uses_ended_tasks(t);
        _exit(test_has_failed());
    }
    for (int i = 0; i < 2; i++)
        wf_unlock(&t[i]->lock);
    CHECK_INT(status_of(child), ==, 0);
    for (int i = 0; i < 2; i++)
        weft_task_free(t[i]);
}

/* A fiber F cancels a task whose fiber has a task on noop below it. That one goes on in the cancel, and forks there. */
struct cancelled {
    struct place noop;
    weft_task *outer, *waiting;
    struct gate g;
    pid_t child;
};

static int forks_when_cancelled(void *arg, void **value)
{
    struct cancelled *c = arg;
    (void)value;
    CHECK_INT(weft_task_await(c->waiting, NULL, WEFT_FOREVER), ==, -ECANCELED);
    wf_lock(&c->outer->lock); /* as another thread may */
    c->child = fork();
    if (c->child == 0)
        alarm(CHILD_SECONDS);
    else
        wf_unlock(&c->outer->lock);
    return 0;
}

static int has_a_task_below(void *arg, void **value)
{
    struct cancelled *c = arg;
    weft_task *t = NULL;
    weft_scope s;
    (void)value;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_task_start(&t, forks_when_cancelled, c, &(weft_task_opts){.on = c->noop.x, .scope = &s}), ==, 0);
    CHECK_INT(weft_sleep(3600 * WEFT_SEC), ==, -ECANCELED);
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    weft_task_free(t);
    return 0;
}

static void *cancels_above_a_fork(void *arg)
{
    struct cancelled *c = arg;
    struct place looper = place_new(LOOPER);
    c->noop = place_new(NOOP);
    c->waiting = start_on(looper.x, passes_as_task, &c->g);
    c->outer = start_on(NULL, has_a_task_below, c);
    weft_yield(); /* it sleeps */
    CHECK_INT(weft_task_cancel(c->outer), ==, 0);
    if (c->child == 0)
        _exit(test_has_failed());
    CHECK_INT(status_of(c->child), ==, 0);
    CHECK_INT(ends(c->outer), ==, 0);
    put(&c->g.open, 1);
    CHECK_INT(ends(c->waiting), ==, 0);
    weft_task_free(c->outer);
    weft_task_free(c->waiting);
    place_free(&c->noop);
    place_free(&looper);
    return NULL;
}

TEST(a_cancel_of_a_task_returns_in_the_child_too_when_a_task_below_forks)
{
    SKIP_UNDER_TSAN();
    struct cancelled c = {.child = -1};
    in_a_fiber(1, cancels_above_a_fork, &c);
}

/* Two tasks on noop that continue one after another, where the first one forks. */
struct continued {
    weft_task *awaited;
    int *runs; /* shared with the child */
    pid_t child;
};

static int forks_after_an_await(void *arg, void **value)
{
    struct continued *c = arg;
    CHECK_INT(weft_task_await(c->awaited, value, WEFT_FOREVER), ==, 0);
    c->child = fork();
    return 0;
}

static int counts_after_an_await(void *arg, void **value)
{
    struct continued *c = arg;
    CHECK_INT(weft_task_await(c->awaited, value, WEFT_FOREVER), ==, 0);
    more(c->runs);
    return 0;
}

TEST(tasks_that_continue_behind_a_task_that_forks_do_so_in_the_parent_alone)
{
    SKIP_UNDER_TSAN();
    struct place looper = place_new(LOOPER), noop = place_new(NOOP);
    struct gate g = {0};
    struct continued c = {.awaited = start_on(looper.x, passes_as_task, &g)};
    c.runs = mmap(NULL, sizeof *c.runs, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    weft_task *t[2] = {start_on(noop.x, forks_after_an_await, &c), start_on(noop.x, counts_after_an_await, &c)};
    put(&g.open, 1);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(ends(t[i]), ==, 0);
        weft_task_free(t[i]);
    }
    CHECK_INT(status_of(c.child), ==, 0);
    CHECK_INT(seen(c.runs), ==, 1);
    munmap(c.runs, sizeof *c.runs);
    weft_task_free(c.awaited);
    place_free(&noop);
    place_free(&looper);
}

TESTS(task_fork, executors_with_threads_are_closed_in_the_child, noop_goes_on_in_the_child,
      a_child_forked_by_a_task_ends_when_the_task_returns, a_fiber_that_is_a_task_may_fork,
      a_task_that_forked_goes_on_after_an_await, a_task_without_executor_may_fork_and_start_others,
      a_function_on_noop_that_forks_leaves_other_tasks_behind, a_task_that_forked_is_nobodys_child,
      a_scope_whose_owner_is_in_the_parent_cannot_be_cancelled_or_counted,
      a_scope_whose_owner_is_in_the_parent_is_not_locked, a_cancel_wakes_no_fiber_of_the_parent,
      a_closed_executor_without_threads_is_over_in_the_child,
      an_executor_that_was_closed_without_drain_is_freed_in_the_child,
      a_free_or_join_in_the_child_closes_a_table_that_waited_for_functions_of_the_parent,
      an_executor_that_a_thread_of_the_parent_is_closing_is_over_in_the_child,
      a_function_of_the_parent_that_the_child_calls_too_leaves_those_of_the_child_alone,
      an_unfinished_task_of_the_parent_takes_no_callbacks_and_is_not_locked,
      an_ended_task_of_the_parent_can_be_used_though_its_lock_was_held,
      a_cancel_of_a_task_returns_in_the_child_too_when_a_task_below_forks,
      tasks_that_continue_behind_a_task_that_forks_do_so_in_the_parent_alone)
