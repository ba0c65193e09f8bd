/*
 * Tasks that are children of a scope, and the context values that tasks inherit.
 */
#include <stdlib.h>

#include <weft/context.h>
#include <weft/hook.h>
#include <weft/scope.h>

#include "unit/task/places.h"

static weft_task *start_in(weft_scope *s, weft_executor *x, weft_task_fn *fn, void *arg)
{
    weft_task *t = NULL;
    CHECK_INT(weft_task_start(&t, fn, arg, &(weft_task_opts){.on = x, .scope = s}), ==, 0);
    return t;
}

static int passes_breathing(void *arg, void **value)
{
    struct gate *g = arg;
    more(&g->begun);
    while (!seen(&g->open))
        breathe();
    more(&g->ended);
    *value = arg;
    return 0;
}

static void *opens_gate(void *arg)
{
    struct gate *g = arg;
    AWAIT(seen(&g->begun) == 3);
    put(&g->open, 1);
    return NULL;
}

static void *waits_for_tasks(void *arg)
{
    for (enum kind k = THREAD; k < KINDS; k++) {
        struct place p = place_new(k);
        struct gate g = {0};
        weft_scope s;
        int serial = k == LOOPER;
        CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
        weft_task *t[3];
        if (serial)
            put(&g.open, 1); /* they run one after another */
        for (int i = 0; i < 3; i++)
            t[i] = start_in(&s, p.x, passes_breathing, &g);
        weft_fiber *f = go(opens_gate, &g);
        CHECK_INT(weft_scope_wait(&s), ==, 0);
        CHECK_INT(seen(&g.ended), ==, 3);
        CHECK_INT(weft_scope_close(&s), ==, 0);
        for (int i = 0; i < 3; i++) {
            CHECK_INT(weft_task_await(t[i], NULL, WEFT_NOW), ==, 0);
            weft_task_free(t[i]);
        }
        ended(f);
        place_free(&p);
    }
    return arg;
}

TEST(a_scope_waits_for_tasks_of_every_kind)
{
    in_a_fiber(1, waits_for_tasks, NULL);
    in_a_fiber(2, waits_for_tasks, NULL);
}

static int sleeps_long(void *arg, void **value)
{
    (void)value;
    more(arg);
    return weft_sleep(1000 * WEFT_SEC);
}

static int awaits_long(void *arg, void **value)
{
    return weft_task_await(arg, value, WEFT_FOREVER);
}

static int fails(void *arg, void **value)
{
    (void)arg, (void)value;
    return -EDOM;
}

static void *closes_over_tasks(void *arg)
{
    bool by_failure = arg != NULL;
    for (enum kind k = NOOP; k < KINDS; k++) {
        struct place p = place_new(k), looper = place_new(LOOPER);
        struct gate g = {0};
        int begun = 0;
        weft_scope s;
        CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
        weft_task *held = start_on(looper.x, passes_as_task, &g);
        weft_task *t[2] = {start_in(&s, p.x, awaits_long, held),
                           start_in(&s, k == NOOP ? NULL : p.x, sleeps_long, &begun)};
        if (k != LOOPER || !by_failure)
            AWAIT(seen(&begun));
        if (by_failure) {
            weft_task *failed = start_in(&s, NULL, fails, NULL);
            CHECK_INT(weft_scope_wait(&s), ==, -EDOM);
            weft_task_free(failed);
        }
        CHECK_INT(weft_scope_close(&s), ==, by_failure ? -EDOM : 0);
        for (int i = 0; i < 2; i++) {
            CHECK_INT(weft_task_await(t[i], NULL, WEFT_NOW), ==, -ECANCELED);
            weft_task_free(t[i]);
        }
        put(&g.open, 1);
        weft_task_free(held);
        place_free(&looper);
        place_free(&p);
    }
    return NULL;
}

TEST(a_close_cancels_tasks_and_waits_for_them)
{
    in_a_fiber(1, closes_over_tasks, NULL);
    in_a_fiber(2, closes_over_tasks, NULL);
}

TEST(a_failed_task_fails_its_scope_and_cancels_the_others)
{
    static int yes;
    in_a_fiber(1, closes_over_tasks, &yes);
    in_a_fiber(2, closes_over_tasks, &yes);
}

static void *is_refused(void *arg)
{
    struct place p = place_new(NOOP);
    weft_task *t = NULL;
    weft_scope s;
    int begun = 0;
    CHECK_INT(weft_scope_open(&s, &(weft_scope_opts){.at_once = 1}), ==, 0);
    weft_task *one = start_in(&s, NULL, sleeps_long, &begun);
    weft_task_opts o = {.on = p.x, .scope = &s};
    CHECK_INT(weft_task_start(&t, returns_arg, NULL, &o), ==, -EAGAIN);
    CHECK_INT(weft_scope_cancel(&s, -EINTR, "enough"), ==, 0);
    CHECK_INT(weft_task_start(&t, returns_arg, NULL, &o), ==, -ECANCELED);
    CHECK_PTR(t, ==, NULL);
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    weft_task_free(one);
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_executor_close(p.x, true), ==, 0);
    CHECK_INT(weft_task_start(&t, returns_arg, NULL, &o), ==, -ESHUTDOWN);
    CHECK_INT(weft_scope_close(&s), ==, 0); /* nothing was left in it */
    place_free(&p);
    return arg;
}

static weft_scope *strange;

static int starts_in_strange_scope(void *arg, void **value)
{
    weft_task *t = NULL;
    (void)arg, (void)value;
    return weft_task_start(&t, returns_arg, NULL, &(weft_task_opts){.scope = strange});
}

static int starts_sibling(void *arg, void **value)
{
    weft_task *t = NULL;
    int rc = weft_task_start(&t, returns_arg, NULL, &(weft_task_opts){.on = arg, .scope = strange});
    (void)value;
    weft_task_free(t);
    return rc;
}

static void *has_strangers(void *arg)
{
    struct place p = place_new(ASYNC);
    weft_scope s;
    weft_scope_tally tally = {.size = sizeof tally};
    strange = &s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    weft_task *t = start_on(p.x, starts_in_strange_scope, NULL);
    CHECK_INT(ends(t), ==, -EPERM);
    weft_task_free(t);
    t = start_in(&s, p.x, starts_sibling, p.x); /* a child may */
    CHECK_INT(ends(t), ==, 0);
    weft_task_free(t);
    CHECK_INT(weft_scope_wait(&s), ==, 0);
    CHECK_INT(weft_scope_counts(&s, &tally), ==, 0);
    CHECK_INT(tally.succeeded, ==, 2);
    CHECK_INT(weft_scope_close(&s), ==, 0);
    place_free(&p);
    return arg;
}

TEST(a_scope_refuses_tasks_as_it_refuses_fibers)
{
    in_a_fiber(1, is_refused, NULL);
    in_a_fiber(2, has_strangers, NULL);
}

static weft_context_key key;

static int reads_context(void *arg, void **value)
{
    CHECK_PTR(weft_context_get(key), ==, arg);
    CHECK_INT(weft_context_set(key, ptr(99)), ==, 0); /* nobody else sees it */
    CHECK_PTR(weft_context_get(key), ==, ptr(99));
    weft_task *t = start_on(NULL, returns_arg, NULL);
    CHECK_INT(ends(t), ==, 0);
    weft_task_free(t);
    CHECK_PTR(weft_context_get(key), ==, ptr(99));
    *value = arg;
    return 0;
}

static int passes_context(void *arg, void **value)
{
    weft_task *t = start_on(arg, reads_context, ptr(7)); /* inherited from our starter */
    int rc = weft_task_await(t, value, WEFT_FOREVER);
    weft_task_free(t);
    return rc;
}

static void *sets_context(void *arg)
{
    CHECK_INT(weft_context_set(key, ptr(7)), ==, 0);
    for (enum kind k = NOOP; k < KINDS; k++) {
        struct place p = place_new(k);
        weft_task *t = start_on(p.x, passes_context, p.x);
        CHECK_INT(ends(t), ==, 0);
        weft_task_free(t);
        place_free(&p);
        CHECK_PTR(weft_context_get(key), ==, ptr(7));
    }
    return arg;
}

TEST(a_task_inherits_the_context_of_its_starter)
{
    CHECK_INT(weft_context_new(&key), ==, 0);
    in_a_fiber(1, sets_context, NULL);
    in_a_fiber(2, sets_context, NULL);
}

static int is_told_to_stop(void *arg, void **value)
{
    int *begun = arg;
    (void)value;
    CHECK(!weft_stopping());
    more(begun);
    wait_flag(begun + 1);
    return weft_stopping() ? 0 : -EDOM;
}

static int finds_itself_stopping(void *arg, void **value)
{
    (void)arg, (void)value;
    return weft_stopping() ? 0 : -EDOM;
}

static void *stops_its_tasks(void *arg)
{
    for (enum kind k = THREAD; k < KINDS; k++) {
        struct place p = place_new(k);
        int flags[2] = {0};
        weft_scope s;
        CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
        weft_task *t = start_in(&s, p.x, is_told_to_stop, flags);
        AWAIT(seen(&flags[0]));
        CHECK_INT(weft_scope_stop(&s, 1000 * WEFT_SEC), ==, 0);
        CHECK_INT(weft_scope_stop(&s, 900 * WEFT_SEC), ==, 0);
        weft_task *late = start_in(&s, p.x, finds_itself_stopping, NULL);
        put(&flags[1], 1);
        CHECK_INT(weft_scope_wait(&s), ==, 0);
        CHECK_INT(weft_scope_close(&s), ==, 0);
        weft_task_free(t);
        weft_task_free(late);
        place_free(&p);
    }
    return arg;
}

TEST(a_task_sees_that_its_scope_is_stopping)
{
    in_a_fiber(2, stops_its_tasks, NULL);
}

static int awaits_stop(void *arg)
{
    more(arg);
    return weft_event_wait(weft_stop_event(), WEFT_FOREVER);
}

struct below {
    struct below *next; /* the task that this one starts in a scope of its own; NULL: none */
    int *begun;
};

static int opens_below(void *arg, void **value)
{
    struct below *b = arg;
    weft_scope s;
    (void)value;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, awaits_stop, b->begun), ==, 0);
    if (b->next)
        weft_task_free(start_in(&s, NULL, opens_below, b->next));
    more(b->begun);
    int rc = weft_event_wait(weft_stop_event(), WEFT_FOREVER);
    CHECK_INT(weft_scope_wait(&s), ==, 0);
    CHECK_INT(weft_scope_close(&s), ==, 0);
    return rc;
}

static void *stops_what_is_below(void *arg)
{
    int begun = 0;
    struct below inner = {.begun = &begun}, outer = {.next = &inner, .begun = &begun};
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    weft_task_free(start_in(&s, NULL, opens_below, &outer));
    AWAIT(seen(&begun) == 4);
    CHECK_INT(weft_scope_stop(&s, 1000 * WEFT_SEC), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, 0);
    CHECK_INT(weft_scope_close(&s), ==, 0);
    return arg;
}

TEST(a_stop_reaches_what_is_below_tasks)
{
    in_a_fiber(1, stops_what_is_below, NULL);
    in_a_fiber(2, stops_what_is_below, NULL);
}

static void *closes_under_its_scope(void *arg)
{
    for (enum kind k = ASYNC; k <= LOOPER; k++) {
        weft_executor *x = NULL;
        struct gate g = {0};
        weft_scope s;
        weft_scope_tally tally = {.size = sizeof tally};
        CHECK_INT(k == ASYNC ? weft_executor_async(&x, 1) : weft_executor_looper(&x, NULL, NULL, NULL), ==, 0);
        CHECK_INT(weft_executor_execute(x, passes, &g), ==, 0);
        AWAIT(seen(&g.begun));
        CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
        weft_task *t = start_in(&s, x, returns_arg, NULL);
        CHECK_INT(weft_executor_close(x, false), ==, 0); /* drops it: nothing has called it */
        AWAIT(weft_scope_counts(&s, &tally) == 0 && tally.live == 0);
        CHECK_INT(weft_task_await(t, NULL, WEFT_NOW), ==, -ECANCELED);
        put(&g.open, 1);
        CHECK_INT(weft_scope_close(&s), ==, 0);
        weft_task_free(t);
        CHECK_INT(weft_executor_free(x), ==, 0);
    }
    return arg;
}

TEST(a_dropped_task_leaves_its_scope)
{
    in_a_fiber(1, closes_under_its_scope, NULL);
}

/* ---- the end of a task that is a child ---- */

/* What a task leaves to its end lies in the frame that closes the scope. */
struct leavings {
    int open, handled, destroyed, late;
};

static void handles(void *arg)
{
    struct leavings *l = arg;
    CHECK_INT(weft_sleep(2 * WEFT_MS), ==, 0);
    more(seen(&l->open) ? &l->handled : &l->late);
}

static int defers(void *arg, void **value)
{
    (void)value;
    return weft_defer(handles, arg);
}

static void *closes_after_handlers(void *arg)
{
    struct place p = place_new(SCHED);
    for (int i = 0; i < 2; i++) {
        struct leavings l = {.open = 1};
        weft_scope s;
        CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
        weft_task *t = start_in(&s, i == 0 ? NULL : p.x, defers, &l);
        CHECK_INT(ends(t), ==, 0);
        CHECK_INT(seen(&l.handled), ==, 1); /* before the await returns */
        CHECK_INT(weft_scope_close(&s), ==, 0);
        put(&l.open, 0);
        CHECK_INT(l.late, ==, 0);
        weft_task_free(t);
    }
    place_free(&p);
    return arg;
}

TEST(clean_up_handlers_of_a_task_run_before_its_end)
{
    for (unsigned workers = 1; workers <= 2; workers++)
        in_a_fiber(workers, closes_after_handlers, NULL);
}

static void destroys(void *value)
{
    struct leavings *l = value;
    for (int i = 0; i < 3; i++)
        breathe();
    more(seen(&l->open) ? &l->destroyed : &l->late);
}

enum { FREED = WF_VALGRIND || TEST_EMULATED ? 20 : 500 };

static void *frees_before_the_end(void *arg)
{
    for (enum kind k = NOOP; k < KINDS; k++) {
        struct place p = place_new(k);
        for (int i = 0; i < FREED / 5 && !test_has_failed(); i++) {
            struct leavings *l = calloc(1, sizeof *l); /* a sanitizer tells of a destructor that comes late */
            weft_scope s;
            weft_task *t = NULL;
            weft_task_opts opts = {.on = p.x, .scope = &s, .destroy = destroys};
            put(&l->open, 1);
            CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
            CHECK_INT(weft_task_start(&t, returns_arg, l, &opts), ==, 0);
            weft_task_free(t);
            CHECK_INT(weft_scope_wait(&s), ==, 0);
            CHECK_INT(weft_scope_close(&s), ==, 0);
            put(&l->open, 0);
            CHECK_INT(l->destroyed, ==, 1);
            free(l);
        }
        place_free(&p);
    }
    return arg;
}

TEST(the_value_of_a_child_whose_handle_is_freed_is_destroyed_before_the_close)
{
    in_a_fiber(2, frees_before_the_end, NULL);
}

static int cancels_itself(void *arg, void **value)
{
    (void)arg, (void)value;
    CHECK_INT(weft_cancel(weft_fiber_current()), ==, 0);
    return weft_sleep(WEFT_SEC);
}

static void *has_a_child_that_cancels_itself(void *arg)
{
    weft_scope_tally tally = {.size = sizeof tally};
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    weft_task *t = start_in(&s, NULL, cancels_itself, NULL);
    CHECK_INT(weft_scope_wait(&s), ==, 0);
    CHECK_INT(weft_scope_counts(&s, &tally), ==, 0);
    CHECK_INT(tally.failed, ==, 0);
    CHECK_INT(weft_scope_close(&s), ==, 0);
    CHECK_INT(ends(t), ==, -ECANCELED);
    weft_task_free(t);
    return arg;
}

TEST(a_task_that_was_cancelled_as_a_fiber_has_not_failed)
{
    in_a_fiber(1, has_a_child_that_cancels_itself, NULL);
}

static int fails_with_eio(void *arg, void **value)
{
    (void)value;
    if (arg)
        __atomic_store_n((uint64_t *)arg, weft_fiber_id(weft_fiber_current()), __ATOMIC_SEQ_CST);
    return -EIO;
}

static void *lists_a_failed_task(void *arg)
{
    weft_failure failure = {0};
    uint64_t id = 0;
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    weft_task *t = start_in(&s, NULL, fails_with_eio, &id);
    CHECK_INT(weft_scope_wait(&s), ==, -EIO);
    CHECK_INT(weft_scope_failures(&s, &failure, 1), ==, 1);
    CHECK_INT(failure.code, ==, -EIO);
    CHECK(failure.fiber == id);
    CHECK_INT(weft_scope_close(&s), ==, -EIO);
    weft_task_free(t);
    return arg;
}

TEST(the_list_of_failures_names_the_fiber_of_a_task)
{
    in_a_fiber(1, lists_a_failed_task, NULL);
}

struct freed {
    weft_executor *x;
    int freed;
};

static void frees_the_executor(void *value)
{
    struct freed *f = value;
    CHECK_INT(weft_executor_join(f->x, WEFT_FOREVER), ==, -EDEADLK);
    CHECK_INT(weft_executor_free(f->x), ==, 0);
    put(&f->freed, 1);
}

static void *lets_a_destructor_free(void *arg)
{
    for (enum kind k = THREAD; k < KINDS; k++) {
        struct place p = place_new(k);
        struct freed f = {.x = p.x};
        weft_scope s;
        weft_task *t = NULL;
        weft_task_opts opts = {.on = p.x, .scope = &s, .destroy = frees_the_executor};
        CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
        CHECK_INT(weft_task_start(&t, returns_arg, &f, &opts), ==, 0);
        bool ends_first = weft_task_await(t, NULL, WEFT_NOW) == 0;
        if (!ends_first)
            weft_task_free(t);
        CHECK_INT(weft_scope_wait(&s), ==, 0);
        CHECK_INT(weft_scope_close(&s), ==, 0);
        if (ends_first) { /* then the destructor would run here, outside of the executor */
            void *value;
            CHECK_INT(weft_task_take(t, &value), ==, 0);
            weft_task_free(t);
            CHECK_INT(weft_executor_free(p.x), ==, 0);
            put(&f.freed, 1);
        }
        CHECK_INT(seen(&f.freed), ==, 1);
        if (p.sched)
            end_sched(p.sched);
    }
    return arg;
}

TEST(the_destructor_of_a_childs_value_may_free_the_executor)
{
    in_a_fiber(1, lets_a_destructor_free, NULL);
}

static void ends_its_fiber(void *arg)
{
    more(arg);
    weft_hook_end(NULL);
}

static int defers_two_ends(void *arg, void **value)
{
    (void)value;
    CHECK_INT(weft_defer(counts_call, arg), ==, 0);
    CHECK_INT(weft_defer(ends_its_fiber, arg), ==, 0);
    return 0;
}

static void *has_handlers_that_end_the_fiber(void *arg)
{
    int calls = 0;
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    weft_task *t = start_in(&s, NULL, defers_two_ends, &calls);
    CHECK_INT(ends(t), ==, 0);
    CHECK_INT(seen(&calls), ==, 2); /* the other handler, too, before the task's end */
    CHECK_INT(weft_scope_close(&s), ==, 0);
    weft_task_free(t);
    return arg;
}

TEST(a_task_ends_although_a_handler_ends_its_fiber)
{
    in_a_fiber(1, has_handlers_that_end_the_fiber, NULL);
}

TESTS(task_scoped, a_scope_waits_for_tasks_of_every_kind, a_close_cancels_tasks_and_waits_for_them,
      a_failed_task_fails_its_scope_and_cancels_the_others, a_scope_refuses_tasks_as_it_refuses_fibers,
      a_task_inherits_the_context_of_its_starter, a_task_sees_that_its_scope_is_stopping,
      a_stop_reaches_what_is_below_tasks, a_dropped_task_leaves_its_scope,
      clean_up_handlers_of_a_task_run_before_its_end,
      the_value_of_a_child_whose_handle_is_freed_is_destroyed_before_the_close,
      a_task_that_was_cancelled_as_a_fiber_has_not_failed, the_list_of_failures_names_the_fiber_of_a_task,
      the_destructor_of_a_childs_value_may_free_the_executor, a_task_ends_although_a_handler_ends_its_fiber)
