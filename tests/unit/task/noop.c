/*
 * Where tasks on noop continue: in the call that ends their wait, but only when that call has nothing half done. They
 * may then wait for what the call has ended. If a worker ends the wait on its own stack, or the thread that keeps the
 * deadlines ends it, they continue on a thread of their own.
 */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weft/chan.h>
#include <weft/io.h>

#include "unit/task/places.h"

#define LONG (AWAIT_SECONDS * WEFT_SEC)

/*
 * `inner` is a task on noop, and mostly a child of a scope: a cancel ends its await. `outer` is a task on noop that is
 * cancelled by nobody: it awaits inner, so it continues where inner ends. Then it waits for `go_on`.
 */
struct pair {
    struct place noop;
    weft_task *never, *inner, *outer;
    weft_event go_on;
    int fiber, rc; /* where outer continued: 1: in a fiber */
};

static int waits_for_ever(void *arg, void **value)
{
    (void)arg, (void)value;
    return weft_sleep_until(WEFT_FOREVER);
}

static int awaits_never(void *arg, void **value)
{
    return weft_task_await(((struct pair *)arg)->never, value, WEFT_FOREVER);
}

static int awaits_inner(void *arg, void **value)
{
    struct pair *p = arg;
    (void)value;
    p->rc = weft_task_await(p->inner, NULL, WEFT_FOREVER);
    p->fiber = weft_fiber_current() != NULL;
    return weft_event_wait(&p->go_on, weft_in(LONG));
}

static void pair_begin(struct pair *p, weft_scope *s)
{
    *p = (struct pair){.noop = place_new(NOOP)};
    CHECK_INT(weft_task_start(&p->never, waits_for_ever, NULL, NULL), ==, 0);
    CHECK_INT(weft_task_start(&p->inner, awaits_never, p, &(weft_task_opts){.on = p->noop.x, .scope = s}), ==, 0);
    p->outer = start_on(p->noop.x, awaits_inner, p);
}

static void pair_end(struct pair *p)
{
    weft_event_set(&p->go_on);
    CHECK_INT(ends(p->outer), ==, 0);
    CHECK_INT(p->rc, ==, -ECANCELED);
    CHECK_INT(weft_task_cancel(p->never), ==, 0);
    CHECK_INT(ends(p->never), ==, -ECANCELED);
    weft_task_free(p->outer);
    weft_task_free(p->inner);
    weft_task_free(p->never);
    place_free(&p->noop);
}

static int fails(void *arg, void **value)
{
    (void)value;
    while (!seen(arg))
        breathe();
    return -EIO;
}

static void *closes_after_a_failure(void *arg)
{
    for (enum kind k = NOOP; k < KINDS; k++) {
        struct place at = {0};
        struct pair p;
        weft_scope s;
        weft_task *t = NULL;
        int now = 0;
        if (k != NOOP)
            at = place_new(k); /* else the failing task is a fiber of this scheduler */
        CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
        pair_begin(&p, &s);
        CHECK_INT(weft_task_start(&t, fails, &now, &(weft_task_opts){.on = at.x, .scope = &s}), ==, 0);
        put(&now, 1);
        CHECK_INT(weft_scope_wait(&s), ==, -EIO);
        CHECK_INT(weft_scope_close(&s), ==, -EIO); /* though outer, which continued at the failure, waits */
        pair_end(&p);
        weft_task_free(t);
        if (at.x)
            place_free(&at);
    }
    return arg;
}

TEST(a_task_that_continues_where_a_child_failed_may_wait_for_the_close)
{
    in_a_fiber(2, closes_after_a_failure, NULL);
}

static int fails_at_once(void *arg)
{
    (void)arg;
    return -EIO;
}

static void *lets_a_fiber_fail(void *arg)
{
    struct pair p;
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    pair_begin(&p, &s);
    CHECK_INT(weft_scope_go(&s, fails_at_once, NULL), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, -EIO); /* outer does not keep the worker */
    CHECK_INT(weft_scope_close(&s), ==, -EIO);
    pair_end(&p);
    CHECK(!p.fiber);
    return arg;
}

TEST(the_end_of_a_fiber_continues_tasks_on_a_thread_of_their_own)
{
    in_a_fiber(1, lets_a_fiber_fail, NULL);
}

static void *has_a_deadline(void *arg)
{
    struct pair p;
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, &(weft_scope_opts){.deadline = weft_in(5 * WEFT_MS)}), ==, 0);
    pair_begin(&p, &s);
    CHECK_INT(weft_scope_wait(&s), ==, -ETIMEDOUT);
    CHECK_INT(weft_scope_close(&s), ==, -ETIMEDOUT);
    pair_end(&p);
    CHECK(!p.fiber);
    return arg;
}

TEST(the_deadline_of_a_scope_continues_tasks_on_a_thread_of_their_own)
{
    in_a_fiber(1, has_a_deadline, NULL);
}

/* A task on noop whose await times out, and which then blocks its thread. */
struct late {
    weft_task *never;
    weft_event *go_on;
    int rc;
};

static int awaits_briefly(void *arg, void **value)
{
    struct late *l = arg;
    l->rc = weft_task_await(l->never, value, weft_in(WEFT_MS));
    return weft_event_wait(l->go_on, weft_in(LONG));
}

static int sets_after_a_deadline(void *arg, void **value)
{
    struct late *l = arg;
    l->rc = weft_task_await(l->never, value, weft_in(20 * WEFT_MS));
    weft_event_set(l->go_on);
    return 0;
}

TEST(a_task_that_blocks_after_its_awaits_deadline_holds_up_no_other_deadline)
{
    struct place noop = place_new(NOOP), looper = place_new(LOOPER);
    struct gate g = {0};
    weft_event go_on = {0};
    weft_task *never = start_on(looper.x, passes_as_task, &g);
    struct late first = {never, &go_on, 0}, second = first;
    weft_task *t[2] = {start_on(noop.x, awaits_briefly, &first), start_on(noop.x, sets_after_a_deadline, &second)};
    for (int i = 0; i < 2; i++) {
        CHECK_INT(ends(t[i]), ==, 0);
        weft_task_free(t[i]);
    }
    CHECK_INT(first.rc, ==, -ETIMEDOUT);
    CHECK_INT(second.rc, ==, -ETIMEDOUT);
    put(&g.open, 1);
    CHECK_INT(ends(never), ==, 0);
    weft_task_free(never);
    place_free(&looper);
    place_free(&noop);
}

static void *spawned(void *arg)
{
    return arg;
}

/* Needs the pool of fibers. */
static int cleans_up_with_fibers(void *arg, void **value)
{
    struct pair *p = arg;
    (void)value;
    p->rc = weft_task_await(p->inner, NULL, WEFT_FOREVER);
    FILE *to = fopen("/dev/null", "w");
    CHECK_INT(weft_dump(to), >=, 1);
    fclose(to);
    return 0;
}

static void *hangs_up(void *arg)
{
    struct pair p;
    weft_scope s;
    int fds[2];
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), ==, 0);
    CHECK_INT(weft_cancel_on_hangup(fds[0], weft_fiber_current()), ==, 0);
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    p = (struct pair){.noop = place_new(NOOP)};
    CHECK_INT(weft_task_start(&p.never, waits_for_ever, NULL, NULL), ==, 0);
    CHECK_INT(weft_task_start(&p.inner, awaits_never, &p, &(weft_task_opts){.on = p.noop.x, .scope = &s}), ==, 0);
    p.outer = start_on(p.noop.x, cleans_up_with_fibers, &p);
    close(fds[1]);
    CHECK_INT(weft_sleep_until(WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    CHECK_INT(weft_shield_begin(weft_in(LONG)), ==, 0);
    pair_end(&p);
    weft_shield_end();
    CHECK_INT(weft_close(fds[0]), ==, 0);
    return arg;
}

static void *has_a_hangup(void *arg)
{
    ended(go(hangs_up, arg));
    ended(go(spawned, arg));
    return arg;
}

TEST(a_hangup_continues_tasks_without_a_lock)
{
    in_a_fiber(1, has_a_hangup, NULL);
}

static int joins_the_first(void *arg, void **value)
{
    struct pair *p = arg;
    (void)value;
    p->rc = weft_task_await(p->inner, NULL, WEFT_FOREVER);
    return weft_executor_join(p->noop.x, WEFT_FOREVER);
}

TEST(a_task_that_continues_in_a_close_may_join_what_is_closed)
{
    struct place looper = place_new(LOOPER), other = place_new(NOOP);
    struct gate g = {0};
    struct pair p = {.noop = place_new(NOOP)};
    p.never = start_on(looper.x, passes_as_task, &g);
    p.inner = start_on(p.noop.x, awaits_never, &p);
    weft_task *second = start_on(p.noop.x, awaits_never, &p);
    p.outer = start_on(other.x, joins_the_first, &p);
    CHECK_INT(weft_executor_close(p.noop.x, false), ==, 0);
    CHECK_INT(weft_task_await(p.outer, NULL, WEFT_NOW), ==, 0);
    CHECK_INT(weft_task_await(second, NULL, WEFT_NOW), ==, -ECANCELED);
    put(&g.open, 1);
    CHECK_INT(ends(p.never), ==, 0);
    weft_task *all[] = {p.outer, second, p.inner, p.never};
    for (int i = 0; i < 4; i++)
        weft_task_free(all[i]);
    place_free(&p.noop);
    place_free(&other);
    place_free(&looper);
}

/* An executor of a program, whose execute is a call of the library: a checkpoint, where a time slice may end. */
static int passes_on(void *inner, void (*fn)(void *), void *arg)
{
    return weft_executor_execute(inner, fn, arg);
}

enum { ENDS = WF_VALGRIND || TEST_EMULATED ? 10 : 150, AWAITERS = 6 };

struct slices {
    weft_executor *noop, *wrapped;
    int stop, early;
};

static int marks(void *arg, void **value)
{
    (void)value;
    put(arg, 1);
    return 0;
}

static void *starts_on_noop(void *arg)
{
    struct slices *s = arg;
    while (!seen(&s->stop)) {
        int *ran = calloc(1, sizeof *ran);
        weft_task *t = start_on(s->noop, marks, ran);
        if (!seen(ran))
            more(&s->early);
        CHECK_INT(ends(t), ==, 0);
        weft_task_free(t);
        free(ran);
        weft_yield();
    }
    return NULL;
}

static int computes(void *arg, void **value)
{
    (void)arg, (void)value;
    int64_t until = weft_now().ns + 200 * WEFT_US;
    while (weft_now().ns < until)
        ;
    return 0;
}

static void *tells_in_slices(void *arg)
{
    struct slices *s = arg;
    weft_fiber *f = go(starts_on_noop, s);
    for (int i = 0; i < ENDS && !test_has_failed(); i++) {
        weft_task *t = NULL, *awaiters[AWAITERS];
        CHECK_INT(weft_task_start(&t, computes, NULL, NULL), ==, 0);
        for (int k = 0; k < AWAITERS; k++)
            awaiters[k] = start_on(s->wrapped, awaits_arg, t);
        for (int k = 0; k < AWAITERS; k++) {
            CHECK_INT(ends(awaiters[k]), ==, 0);
            weft_task_free(awaiters[k]);
        }
        weft_task_free(t);
    }
    put(&s->stop, 1);
    ended(f);
    return NULL;
}

TEST(an_end_that_gives_way_in_a_programs_execute_shares_no_list_with_other_fibers)
{
    struct place noop = place_new(NOOP), pool = place_new(ASYNC);
    struct slices s = {.noop = noop.x};
    weft_span slice = 50 * WEFT_US;
    weft_executor_ops ops = {.size = sizeof ops, .name = "wraps", .execute = passes_on};
    CHECK_INT(weft_executor_new(&s.wrapped, &ops, pool.x), ==, 0);
    weft_sched_opts opts = {.threads = 1, .policy = &weft_rr, .policy_arg = &slice};
    CHECK_INT(weft_run(tells_in_slices, &s, NULL, &opts), ==, 0);
    CHECK_INT(s.early, ==, 0);
    CHECK_INT(weft_executor_free(s.wrapped), ==, 0);
    place_free(&pool);
    place_free(&noop);
}

/* Two tasks on noop await the same task: the first one fails its scope, the second one waits for the close. */
struct pair_of_ends {
    weft_task *awaited, *never;
    weft_event closed;
    int second;
};

static int fails_after_an_await(void *arg, void **value)
{
    CHECK_INT(weft_task_await(((struct pair_of_ends *)arg)->awaited, value, WEFT_FOREVER), ==, 0);
    return -EIO;
}

static int waits_for_the_close(void *arg, void **value)
{
    struct pair_of_ends *p = arg;
    CHECK_INT(weft_task_await(p->awaited, value, WEFT_FOREVER), ==, 0);
    p->second = weft_event_wait(&p->closed, weft_in(LONG));
    return 0;
}

static int awaits_in_vain(void *arg, void **value)
{
    return weft_task_await(((struct pair_of_ends *)arg)->never, value, WEFT_FOREVER);
}

static void *closes_beside_a_second(void *arg)
{
    static const enum kind kinds[] = {LOOPER, NOOP}; /* of the sibling that the failure cancels */
    for (int i = 0; i < 2; i++) {
        struct place looper = place_new(LOOPER), noop = place_new(NOOP), sibling = place_new(kinds[i]);
        struct pair_of_ends p = {.second = -1};
        struct gate g = {0};
        weft_scope s;
        p.awaited = start_on(looper.x, passes_as_task, &g);
        CHECK_INT(weft_task_start(&p.never, waits_for_ever, NULL, NULL), ==, 0);
        CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
        weft_task_opts in = {.on = noop.x, .scope = &s}, beside = {.on = sibling.x, .scope = &s};
        weft_task *t[3] = {NULL};
        CHECK_INT(weft_task_start(&t[0], awaits_in_vain, &p, &beside), ==, 0);
        CHECK_INT(weft_task_start(&t[1], fails_after_an_await, &p, &in), ==, 0);
        t[2] = start_on(noop.x, waits_for_the_close, &p);
        put(&g.open, 1);
        CHECK_INT(weft_scope_wait(&s), ==, -EIO); /* the sibling was cancelled before the second one continued */
        CHECK_INT(weft_scope_close(&s), ==, -EIO);
        weft_event_set(&p.closed);
        CHECK_INT(ends(t[2]), ==, 0);
        CHECK_INT(p.second, ==, 0);
        CHECK_INT(ends(t[0]), ==, -ECANCELED);
        CHECK_INT(weft_task_cancel(p.never), ==, 0);
        for (int k = 0; k < 3; k++)
            weft_task_free(t[k]);
        CHECK_INT(ends(p.never), ==, -ECANCELED);
        weft_task_free(p.never);
        weft_task_free(p.awaited);
        place_free(&sibling);
        place_free(&noop);
        place_free(&looper);
    }
    return arg;
}

TEST(siblings_of_a_failed_task_are_cancelled_before_other_tasks_continue)
{
    in_a_fiber(1, closes_beside_a_second, NULL);
}

static void *sleeps_in_a_runtime(void *arg)
{
    put(arg, 1);
    CHECK_INT(weft_sleep(20 * WEFT_MS), ==, 0); /* the cancel of the task is none of its own */
    put(arg, 2);
    return NULL;
}

static int runs_a_runtime(void *arg, void **value)
{
    (void)value;
    CHECK_INT(weft_run(sleeps_in_a_runtime, arg, NULL, NULL), ==, 0);
    CHECK_INT(weft_run(sleeps_in_a_runtime, arg, NULL, NULL), ==, -ECANCELED);
    return weft_sleep(0);
}

TEST(a_runtime_that_a_cancelled_task_runs_goes_on_to_its_end)
{
    struct place looper = place_new(LOOPER);
    int step = 0;
    weft_task *t = start_on(looper.x, runs_a_runtime, &step);
    AWAIT(seen(&step) == 1);
    CHECK_INT(weft_task_cancel(t), ==, 0);
    CHECK_INT(ends(t), ==, -ECANCELED);
    CHECK_INT(step, ==, 2);
    weft_task_free(t);
    place_free(&looper);
}

TESTS(task_noop, a_task_that_continues_where_a_child_failed_may_wait_for_the_close,
      the_end_of_a_fiber_continues_tasks_on_a_thread_of_their_own,
      the_deadline_of_a_scope_continues_tasks_on_a_thread_of_their_own,
      a_task_that_blocks_after_its_awaits_deadline_holds_up_no_other_deadline, a_hangup_continues_tasks_without_a_lock,
      a_task_that_continues_in_a_close_may_join_what_is_closed,
      an_end_that_gives_way_in_a_programs_execute_shares_no_list_with_other_fibers,
      siblings_of_a_failed_task_are_cancelled_before_other_tasks_continue,
      a_runtime_that_a_cancelled_task_runs_goes_on_to_its_end)
