/*
 * then, catching and finally: when they run, how often, and where.
 */
#include "unit/task/places.h"

enum { ROOM = 32 };

/* What callbacks have been called, in order. */
struct log {
    weft_task *task;
    int count, entries[ROOM];
    int threads[ROOM]; /* on which */
};

struct entry {
    struct log *log;
    int number;
};

static void write_log(struct entry *e)
{
    int at = more(&e->log->count) - 1;
    if (at < ROOM) {
        e->log->entries[at] = e->number;
        e->log->threads[at] = gettid();
    }
}

static void on_success(void *value, void *arg)
{
    struct entry *e = arg;
    CHECK_PTR(value, ==, e->log);
    write_log(e);
}

static void on_failure(const weft_error *error, void *arg)
{
    CHECK_INT(error->code, ==, -EDOM);
    CHECK_STR(error->message, weft_strerror(-EDOM));
    write_log(arg);
}

static void at_end(void *arg)
{
    write_log(arg);
}

struct held {
    struct gate gate;
    struct log *log;
    int code;
};

static int waits_and_ends(void *arg, void **value)
{
    struct held *h = arg;
    passes(&h->gate);
    *value = h->log;
    return h->code;
}

TEST(callbacks_run_in_order_once_and_before_any_await_returns)
{
    for (enum kind k = THREAD; k < KINDS; k++) {
        for (int code = 0; code >= -EDOM; code -= EDOM) {
            struct place p = place_new(k);
            struct log log = {0};
            struct held h = {.log = &log, .code = code};
            struct entry e[12];
            weft_task *t = start_on(p.x, waits_and_ends, &h), *same = t;
            for (int i = 0; i < 12; i++) {
                e[i] = (struct entry){&log, i};
                same = i % 3 == 0   ? weft_task_then(same, on_success, &e[i])
                       : i % 3 == 1 ? weft_task_catching(same, on_failure, &e[i])
                                    : weft_task_finally(same, at_end, &e[i]);
            }
            CHECK_PTR(same, ==, t);
            put(&h.gate.open, 1);
            CHECK_INT(ends(t), ==, code);
            CHECK_INT(seen(&log.count), ==, 8);
            for (int i = 0, next = 0; i < 12; i++) {
                if (i % 3 == (code == 0))
                    continue;
                CHECK_INT(log.entries[next], ==, i);
                CHECK_INT(log.threads[next], !=, gettid());
                next++;
            }
            weft_task_free(t);
            place_free(&p);
            CHECK_INT(log.count, ==, 8);
        }
    }
}

TEST(a_callback_of_an_ended_task_runs_at_once_on_the_caller)
{
    struct place p = place_new(LOOPER);
    struct log log = {0};
    struct held h = {.log = &log, .gate.open = 1};
    struct entry one = {&log, 1}, two = {&log, 2};
    weft_task *t = start_on(p.x, waits_and_ends, &h);
    CHECK_INT(ends(t), ==, 0);
    CHECK_PTR(weft_task_then(weft_task_finally(t, at_end, &one), on_success, &two), ==, t);
    CHECK_PTR(weft_task_catching(t, on_failure, &two), ==, t);
    CHECK_INT(log.count, ==, 2);
    CHECK_INT(log.threads[0], ==, gettid());
    CHECK_INT(log.entries[1], ==, 2);
    weft_task_free(t);
    place_free(&p);
}

/* The first callback awaits and reads its own task, and adds another one. */
static void uses_its_task(void *arg)
{
    struct entry *e = arg;
    weft_task *t = e->log->task;
    void *value = NULL;
    weft_error error = {.code = 1};
    CHECK_INT(weft_task_await(t, &value, WEFT_FOREVER), ==, 0);
    CHECK_PTR(value, ==, e->log);
    CHECK_INT(weft_task_error(t, &error), ==, 0);
    CHECK_INT(error.code, ==, 0);
    CHECK_INT(weft_task_cancel(t), ==, -ESRCH);
    write_log(e);
    if (e->number == 0)
        CHECK_PTR(weft_task_finally(t, uses_its_task, e + 2), ==, t);
    CHECK_INT(seen(&e->log->count), ==, e->number == 0 ? 1 : e->number + 1); /* it did not run at once */
}

TEST(a_callback_may_await_its_task_and_append_another)
{
    for (enum kind k = THREAD; k < KINDS; k++) {
        struct place p = place_new(k);
        struct log log = {0};
        struct held h = {.log = &log};
        struct entry e[3] = {{&log, 0}, {&log, 1}, {&log, 2}};
        weft_task *t = log.task = start_on(p.x, waits_and_ends, &h);
        weft_task_finally(weft_task_finally(t, uses_its_task, &e[0]), uses_its_task, &e[1]);
        put(&h.gate.open, 1);
        CHECK_INT(ends(t), ==, 0);
        CHECK_INT(seen(&log.count), ==, 3);
        for (int i = 0; i < 3; i++)
            CHECK_INT(log.entries[i], ==, i);
        weft_task_free(t);
        place_free(&p);
    }
}

/* How a task ends. */
enum how { RUNS, DROPPED, CANCELLED };

struct own_group {
    weft_task *task, *current;
    int await, all, any, race, calls;
};

static void waits_for_its_task(void *arg)
{
    struct own_group *g = arg;
    weft_time soon = weft_in(AWAIT_SECONDS * WEFT_SEC);
    g->current = weft_task_current();
    g->await = weft_task_await(g->task, NULL, soon);
    g->all = weft_task_all(&g->task, 1, soon);
    g->any = weft_task_any(&g->task, 1, soon);
    g->race = weft_task_race(&g->task, 1, soon);
    more(&g->calls);
}

static void check_own_group(enum kind k, enum how how)
{
    struct place p = place_new(k);
    struct gate g = {0};
    int code = how == RUNS ? 0 : -ECANCELED;
    weft_task *before = start_on(p.x, passes_as_task, &g); /* holds up the looper */
    AWAIT(seen(&g.begun));
    weft_task *t = start_on(p.x, returns_arg, NULL);
    struct own_group own = {.task = t, .all = 1, .any = 1, .race = 1};
    CHECK_PTR(weft_task_finally(t, waits_for_its_task, &own), ==, t);
    if (how == CANCELLED)
        CHECK_INT(weft_task_cancel(t), ==, 0);
    if (how == DROPPED)
        CHECK_INT(weft_executor_close(p.x, false), ==, 0);
    put(&g.open, 1);
    CHECK_INT(ends(t), ==, code);
    CHECK_INT(seen(&own.calls), ==, 1);
    CHECK_PTR(own.current, ==, t);
    CHECK_INT(own.await, ==, code);
    CHECK_INT(own.all, ==, code);
    CHECK_INT(own.any, ==, code);
    CHECK_INT(own.race, ==, 0);
    ends(before);
    weft_task_free(before);
    weft_task_free(t);
    place_free(&p);
}

TEST(a_callback_is_inside_its_task_and_may_wait_for_it_in_a_group)
{
    for (enum how how = RUNS; how <= CANCELLED; how++)
        check_own_group(LOOPER, how);
}

struct own_and_other {
    weft_task *tasks[2];
    int begun, all;
};

static void waits_for_both(void *arg)
{
    struct own_and_other *both = arg;
    put(&both->begun, 1);
    both->all = weft_task_all(both->tasks, 2, weft_in(AWAIT_SECONDS * WEFT_SEC));
}

TEST(a_callback_may_wait_for_its_task_beside_another)
{
    for (enum kind k = THREAD; k < KINDS; k++) { /* while a coroutine waits, its group is linked on another stack */
        struct place p = place_new(k), q = place_new(LOOPER);
        struct held h = {0};
        struct gate other = {0};
        weft_task *t = start_on(p.x, waits_and_ends, &h);
        struct own_and_other both = {.tasks = {t, start_on(q.x, passes_as_task, &other)}, .all = 1};
        weft_task_finally(t, waits_for_both, &both);
        put(&h.gate.open, 1);
        AWAIT(seen(&both.begun));
        CHECK_INT(weft_task_await(t, NULL, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
        put(&other.open, 1);
        CHECK_INT(ends(t), ==, 0);
        CHECK_INT(both.all, ==, 0);
        weft_task_free(both.tasks[1]);
        weft_task_free(t);
        place_free(&q);
        place_free(&p);
    }
}

static void holds_up(void *arg)
{
    passes(arg);
}

TEST(an_await_waits_for_callbacks_that_run)
{
    for (enum kind k = THREAD; k < KINDS; k++) {
        struct place p = place_new(k);
        struct log log = {0};
        struct held h = {.log = &log};
        struct gate g = {0};
        weft_error error;
        weft_task *t = start_on(p.x, waits_and_ends, &h);
        weft_task_finally(t, holds_up, &g);
        put(&h.gate.open, 1);
        AWAIT(seen(&g.begun));
        CHECK_INT(weft_task_await(t, NULL, WEFT_NOW), ==, -EAGAIN);
        CHECK_INT(weft_task_await(t, NULL, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
        CHECK_INT(weft_task_error(t, &error), ==, -EAGAIN);
        put(&g.open, 1);
        CHECK_INT(ends(t), ==, 0);
        CHECK_INT(seen(&g.ended), ==, 1);
        weft_task_free(t);
        place_free(&p);
    }
}

static int freed_twice;

static void starts_and_frees(void *arg)
{
    struct log *log = arg;
    weft_task *t = start_on(NULL, returns_arg, NULL);
    weft_task_free(t);
    weft_task_free(log->task);
    more(&freed_twice);
}

TEST(a_callback_may_start_a_task_and_free_its_own)
{
    for (enum kind k = THREAD; k < KINDS; k++) {
        struct place p = place_new(k);
        struct log log = {0};
        struct held h = {.log = &log};
        freed_twice = 0;
        log.task = start_on(p.x, waits_and_ends, &h);
        weft_task_finally(log.task, starts_and_frees, &log);
        put(&h.gate.open, 1);
        AWAIT(seen(&freed_twice) == 1);
        place_free(&p);
    }
}

TEST(a_null_task_or_no_memory_returns_null)
{
    struct place p = place_new(LOOPER);
    struct log log = {0};
    struct held h = {.log = &log};
    struct entry e = {&log, 0};
    CHECK_PTR(weft_task_then(NULL, on_success, &e), ==, NULL);
    CHECK_PTR(weft_task_catching(NULL, on_failure, &e), ==, NULL);
    CHECK_PTR(weft_task_finally(NULL, at_end, &e), ==, NULL);
    weft_task *t = start_on(p.x, waits_and_ends, &h);
    AWAIT(seen(&h.gate.begun));
    CHECK_PTR(weft_task_finally(t, NULL, &e), ==, NULL);
    wf_sys_fail(1u << WF_SYS_MALLOC, 1, 100);
    CHECK_PTR(weft_task_finally(t, at_end, &e), ==, t); /* two are in the task */
    CHECK_PTR(weft_task_finally(t, at_end, &e), ==, t);
    CHECK_PTR(weft_task_finally(t, at_end, &e), ==, NULL);
    CHECK_PTR(weft_task_then(weft_task_finally(t, at_end, &e), on_success, &e), ==, NULL);
    wf_sys_fail(0, 0, 0);
    CHECK_PTR(weft_task_finally(t, at_end, &e), ==, t);
    put(&h.gate.open, 1);
    CHECK_INT(ends(t), ==, 0);
    CHECK_INT(log.count, ==, 3);
    wf_sys_fail(1u << WF_SYS_MALLOC, 1, 100);
    CHECK_PTR(weft_task_finally(t, at_end, &e), ==, t); /* needs none */
    wf_sys_fail(0, 0, 0);
    CHECK_INT(log.count, ==, 4);
    weft_task_free(t);
    place_free(&p);
}

TESTS(task_callbacks, callbacks_run_in_order_once_and_before_any_await_returns,
      a_callback_of_an_ended_task_runs_at_once_on_the_caller, a_callback_may_await_its_task_and_append_another,
      a_callback_is_inside_its_task_and_may_wait_for_it_in_a_group, a_callback_may_wait_for_its_task_beside_another,
      an_await_waits_for_callbacks_that_run, a_callback_may_start_a_task_and_free_its_own,
      a_null_task_or_no_memory_returns_null)
