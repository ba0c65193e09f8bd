/*
 * Scopes and what is around them: WEFT_SCOPE, clean-up handlers, shields, a fiber's end, shared stacks, forks, faults.
 */
#include <sys/wait.h>

#include <weft/executor.h>
#include <weft/task.h>

#include "unit/sched/heard.h"
#include "unit/task/ground.h"

/* ---- WEFT_SCOPE ---- */

static int leaves_by_return(int *ended)
{
    WEFT_SCOPE (s, NULL) {
        CHECK_INT(weft_scope_go(&s, waits_and_counts, ended), ==, 0);
        return 1;
    }
    return 2;
}

static void leaves_by_goto(int *ended)
{
    WEFT_SCOPE (s, NULL) {
        CHECK_INT(weft_scope_go(&s, waits_and_counts, ended), ==, 0);
        goto out;
    }
out:
    CHECK_INT(seen(ended), ==, 2);
}

IN_A_SCOPE_FIBER(weft_scope_closes_on_every_path_out_of_its_block)
{
    int ended = 0;
    CHECK_INT(leaves_by_return(&ended), ==, 1);
    CHECK_INT(seen(&ended), ==, 1);
    leaves_by_goto(&ended);
    for (int i = 0; i < 2; i++) {
        WEFT_SCOPE (s, &(weft_scope_opts){.name = "loop"}) {
            CHECK_INT(weft_scope_go(&s, waits_and_counts, &ended), ==, 0);
            if (i == 0)
                break;
            continue; // NOLINT(readability-redundant-control-flow): what it leaves is the test
        }
        CHECK_INT(seen(&ended), ==, 3 + i); /* break and continue leave the block alone */
    }
    WEFT_SCOPE (outer, NULL) {
        WEFT_SCOPE (inner, NULL) {
            CHECK_INT(weft_scope_go(&inner, returns, NULL), ==, 0);
            CHECK_INT(weft_scope_wait(&inner), ==, 0);
        }
        CHECK_INT(weft_scope_go(&outer, returns, NULL), ==, 0);
        CHECK_INT(weft_scope_close(&outer), ==, 0); /* closed in its block */
    }
    return arg;
}

static void *fails_unheard(void *arg)
{
    WEFT_SCOPE (s, &(weft_scope_opts){.name = "unheard"}) {
        CHECK_INT(weft_scope_go(&s, returns, AS_ARG(-EIO)), ==, 0);
        AWAIT(weft_cancelled());
    }
    return arg;
}

static void run_fails_unheard(void *arg)
{
    in_a_fiber(1, fails_unheard, arg);
}

TEST(a_failure_that_nobody_waited_for_is_reported)
{
    CHECK_CHILD(run_fails_unheard, NULL, 0, "scope \"unheard\" at");
}

static void opens_on_a_thread(void *arg)
{
    (void)arg;
    WEFT_SCOPE (s, NULL)
        CHECK(false);
}

TEST(weft_scope_panics_if_it_cannot_open)
{
    CHECK_CHILD(opens_on_a_thread, NULL, SIGABRT, "cannot be opened");
}

static void opens_and_returns(void)
{
    static weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
}

static void *leaves_a_scope_open(void *arg)
{
    opens_and_returns();
    return arg;
}

static void run_leaves_a_scope_open(void *arg)
{
    in_a_fiber(1, leaves_a_scope_open, arg);
}

TEST(a_fiber_that_ends_with_a_scope_open_panics_and_names_where_it_was_opened)
{
    CHECK_CHILD(run_leaves_a_scope_open, NULL, SIGABRT, "scope_life.c");
}

/* ---- clean-up handlers ---- */

static char order[8];

static void notes(void *arg)
{
    size_t n = strlen(order);
    order[n] = (char)(intptr_t)arg;
    order[n + 1] = '\0';
}

static void notes_after_a_wait(void *arg)
{
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0); /* though the fiber is cancelled */
    notes(arg);
}

static void *has_handlers(void *arg)
{
    CHECK_INT(weft_defer(notes_after_a_wait, AS_ARG('a')), ==, 0);
    CHECK_INT(weft_defer(notes, AS_ARG('b')), ==, 0);
    WEFT_SCOPE (s, NULL) {
        CHECK_INT(weft_defer(notes, AS_ARG('c')), ==, 0);
        CHECK_INT(weft_defer(notes_after_a_wait, AS_ARG('d')), ==, 0);
        weft_cancel(weft_fiber_current());
    }
    CHECK_STR(order, "dc");
    return arg;
}

IN_A_SCOPE_FIBER(handlers_run_in_reverse_order_at_the_close_or_at_the_fibers_end_and_may_wait)
{
    order[0] = '\0';
    ended(go(has_handlers, NULL));
    CHECK_STR(order, "dcba");
    CHECK_INT(weft_defer(NULL, NULL), ==, -EINVAL);
    return arg;
}

TEST(a_plain_thread_has_no_handlers)
{
    CHECK_INT(weft_defer(notes, NULL), ==, -ENXIO);
}

/* ---- shields ---- */

static int sleeps_briefly(void *arg)
{
    (void)arg;
    return weft_sleep(5 * WEFT_MS);
}

static void *cleans_up_in_parallel(void *arg)
{
    CHECK_INT(weft_cancel(weft_fiber_current()), ==, 0);
    weft_scope open_outside;
    CHECK_INT(weft_scope_open(&open_outside, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&open_outside, returns, NULL), ==, -ECANCELED);
    CHECK_INT(weft_shield_begin(weft_in(LONG)), ==, 0);
    CHECK_INT(weft_scope_go(&open_outside, returns, NULL), ==, -ECANCELED);
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, sleeps_briefly, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, sleeps_briefly, NULL), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, 0);
    CHECK_INT(weft_scope_close(&s), ==, 0);
    weft_shield_end();
    CHECK_INT(weft_scope_close(&open_outside), ==, -ECANCELED);
    return arg;
}

IN_A_SCOPE_FIBER(a_scope_that_was_opened_in_a_shield_is_sheltered)
{
    ended(go(cleans_up_in_parallel, NULL));
    return arg;
}

IN_A_SCOPE_FIBER(a_cancel_inside_the_shield_reaches_scopes_that_were_opened_there)
{
    weft_scope s, inner;
    int ended_ones = 0;
    CHECK_INT(weft_shield_begin(weft_in(LONG)), ==, 0);
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_open(&inner, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&inner, waits_and_counts, &ended_ones), ==, 0);
    CHECK_INT(weft_scope_cancel(&s, 0, NULL), ==, 0);
    CHECK_INT(weft_scope_wait(&inner), ==, -ECANCELED);
    CHECK_INT(weft_scope_close(&inner), ==, -ECANCELED);
    CHECK_INT(seen(&ended_ones), ==, 1);
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    weft_shield_end();
    return arg;
}

/* ---- children that ignore their cancel ---- */

static int begun; /* how many children ignore their cancel from now on */

static int ignores_its_cancel(void *arg)
{
    CHECK_INT(weft_shield_begin(weft_in(2 * WEFT_SEC)), ==, 0);
    more(&begun);
    weft_sleep_until(WEFT_FOREVER);
    weft_shield_end();
    (void)arg;
    return 0;
}

static void *waits_for_one_that_ignores_its_cancel(void *arg)
{
    WEFT_SCOPE (s, &(weft_scope_opts){.name = "patient"}) {
        CHECK_INT(weft_scope_go(&s, ignores_its_cancel, NULL), ==, 0);
        AWAIT(seen(&begun) == 1);
    }
    return arg;
}

static void run_ignored(void *arg)
{
    in_a_fiber(1, waits_for_one_that_ignores_its_cancel, arg);
}

TEST(close_names_after_a_second_the_children_that_ignore_their_cancel)
{
    CHECK_CHILD(run_ignored, NULL, 0, "scope \"patient\" opened at");
    CHECK_CHILD(run_ignored, NULL, 0, "\"\", waits for sleep, started at " __FILE__);
}

static int ignores_as_task(void *arg, void **value)
{
    (void)value;
    return ignores_its_cancel(arg);
}

static int blocks_its_thread(void *arg, void **value)
{
    (void)value;
    more(&begun);
    usleep(2000 * 1000);
    put(arg, 1);
    return 0;
}

static void *waits_for_tasks_that_ignore_their_cancel(void *arg)
{
    weft_executor *x = NULL;
    weft_task *t[2];
    int ended_ones = 0;
    CHECK_INT(weft_executor_async(&x, 2), ==, 0);
    WEFT_SCOPE (s, &(weft_scope_opts){.name = "patient"}) {
        weft_task_opts here = {.scope = &s, .name = "deaf"}, there = {.scope = &s, .on = x, .name = "busy"};
        CHECK_INT(weft_task_start(&t[0], ignores_as_task, NULL, &here), ==, 0);
        CHECK_INT(weft_task_start(&t[1], blocks_its_thread, &ended_ones, &there), ==, 0);
        AWAIT(seen(&begun) == 2);
    }
    CHECK_INT(ended_ones, ==, 1);
    weft_task_free(t[0]);
    weft_task_free(t[1]);
    CHECK_INT(weft_executor_free(x), ==, 0);
    return arg;
}

static void run_ignored_by_tasks(void *arg)
{
    in_a_fiber(1, waits_for_tasks_that_ignore_their_cancel, arg);
}

TEST(close_names_tasks_that_ignore_their_cancel)
{
    CHECK_CHILD(run_ignored_by_tasks, NULL, 0, "task \"deaf\", which is fiber ");
    CHECK_CHILD(run_ignored_by_tasks, NULL, 0, "task \"busy\" on executor \"async\", which has begun");
}

static void *takes_long(void *arg)
{
    more(&begun);
    usleep(2000 * 1000);
    return arg;
}

static int offloads(void *arg)
{
    return weft_offload(takes_long, arg, NULL, WEFT_FOREVER);
}

static void *waits_for_an_offloaded_call(void *arg)
{
    WEFT_SCOPE (s, NULL) {
        CHECK_INT(weft_scope_go(&s, offloads, NULL), ==, 0);
        AWAIT(seen(&begun) == 1);
    }
    return arg;
}

static void run_offloaded(void *arg)
{
    in_a_fiber(1, waits_for_an_offloaded_call, arg);
}

/* What an offloaded call uses lies in the frame that closes the scope. */
struct call {
    int begun, go_on, ended, over, rc;
    int most; /* ms that it waits to go on; 0: very long */
};

static void *uses_the_frame(void *arg)
{
    struct call *c = arg;
    put(&c->begun, 1);
    for (int i = 0; !seen(&c->go_on) && i < (c->most ? c->most : AWAIT_SECONDS * 1000); i++)
        usleep(1000);
    put(&c->ended, 1);
    return arg;
}

static int offloads_to_the_frame(void *arg)
{
    struct call *c = arg;
    void *value = NULL;
    c->rc = weft_offload(uses_the_frame, c, &value, WEFT_FOREVER);
    CHECK(value == arg);
    return c->rc;
}

static int offloads_as_task(void *arg, void **value)
{
    (void)value;
    return offloads_to_the_frame(arg);
}

static int opens_below(void *arg)
{
    WEFT_SCOPE (s, NULL)
        return offloads_to_the_frame(arg);
    return 0;
}

static void *waits_for_what_was_begun(void *arg)
{
    weft_job *const jobs[] = {offloads_to_the_frame, opens_below, NULL};
    for (int i = 0; i < 3; i++) {
        struct call c = {.most = 200}; /* at the close nobody tells it to go on */
        weft_task *t = NULL;
        weft_scope s;
        CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
        if (jobs[i])
            CHECK_INT(weft_scope_go(&s, jobs[i], &c), ==, 0);
        else
            CHECK_INT(weft_task_start(&t, offloads_as_task, &c, &(weft_task_opts){.scope = &s}), ==, 0);
        AWAIT(seen(&c.begun));
        CHECK_INT(weft_scope_cancel(&s, 0, NULL), ==, 0);
        CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
        CHECK_INT(seen(&c.ended), ==, 1);
        CHECK_INT(c.rc, ==, 0); /* it has run */
        weft_task_free(t);
    }
    return arg;
}

static void *offloads_without_a_scope(void *arg)
{
    return ptr(weft_offload(uses_the_frame, arg, NULL, WEFT_FOREVER));
}

static void *leaves_what_was_begun(void *arg)
{
    struct call c = {0};
    weft_fiber *f = go(offloads_without_a_scope, &c);
    AWAIT(seen(&c.begun));
    CHECK_INT(weft_cancel(f), ==, 0);
    CHECK_INT((intptr_t)ended(f), ==, -ECANCELED); /* no scope: as ever */
    put(&c.go_on, 1);
    AWAIT(seen(&c.ended));
    return arg;
}

TEST(no_offloaded_call_outlives_the_scope_of_its_caller)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        in_a_fiber(workers, waits_for_what_was_begun, NULL);
        in_a_fiber(workers, leaves_what_was_begun, NULL);
    }
}

TEST(close_says_that_an_offloaded_call_cannot_be_interrupted)
{
    CHECK_CHILD(run_offloaded, NULL, 0, "cannot be interrupted");
}

/* ---- shared stacks ---- */

static void *opens_on_a_shared_stack(void *arg)
{
    weft_scope here, *s = NULL;
    CHECK_INT(weft_scope_open(&here, NULL), ==, -EINVAL);
    CHECK_INT(weft_scope_new(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_go(s, sleeps_briefly, NULL), ==, 0);
    CHECK_INT(weft_scope_go(s, sleeps_briefly, NULL), ==, 0);
    CHECK_INT(weft_scope_wait(s), ==, 0);
    CHECK_INT(weft_scope_free(s), ==, 0);
    return arg;
}

IN_A_SCOPE_FIBER(on_a_shared_stack_a_scope_is_on_the_heap)
{
    weft_stacks *pool = NULL;
    weft_fiber *f = NULL;
    CHECK_INT(weft_stacks_new(&pool, 1, 0), ==, 0);
    CHECK_INT(weft_go_with(&f, &(weft_attr){.shared = pool}, opens_on_a_shared_stack, NULL), ==, 0);
    ended(f);
    weft_stacks_free(pool);
    return arg;
}

/* ---- forks ---- */

static void in_the_child(weft_scope *s)
{
    weft_scope_tally tally = {.size = sizeof tally};
    CHECK_INT(weft_scope_counts(s, &tally), ==, 0);
    CHECK_INT(tally.live, ==, 0);
    CHECK_INT(weft_scope_go(s, returns, AS_ARG(0)), ==, 0);
    CHECK_INT(weft_scope_wait(s), ==, 0);
    CHECK_INT(weft_sleep(LONG), ==, -ECANCELED); /* its deadline holds here too */
    CHECK_INT(weft_scope_close(s), ==, -ETIMEDOUT);
    _exit(test_has_failed());
}

#define SKIP_UNDER_TSAN()                                                                                              \
    do {                                                                                                               \
        if (WF_TSAN)                                                                                                   \
            return arg; /* it takes the child's fibers for those of the parent's threads */                            \
    } while (0)

/* Long enough for the first part of in_the_child. */
#define CHILDS_DEADLINE ((WF_VALGRIND || TEST_EMULATED ? 15000 : 1500) * WEFT_MS)

IN_A_SCOPE_FIBER(in_the_child_of_a_fork_scopes_hold_no_children)
{
    SKIP_UNDER_TSAN();
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, &(weft_scope_opts){.deadline = weft_in(CHILDS_DEADLINE)}), ==, 0);
    CHECK_INT(weft_scope_go(&s, waits, NULL), ==, 0);
    weft_yield();
    pid_t child = fork();
    if (child == 0)
        in_the_child(&s);
    CHECK_INT(weft_scope_close(&s), ==, 0);
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0)
        breathe();
    CHECK_INT(status, ==, 0);
    return arg;
}

struct forking {
    weft_scope *scope;
    int status;
};

static int forks(void *arg)
{
    struct forking *forking = arg;
    pid_t child = fork();
    if (child == 0) {
        CHECK_INT(weft_scope_go(forking->scope, returns, NULL), ==, -EPERM);
        CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
        _exit(test_has_failed());
    }
    int status = -1;
    while (waitpid(child, &status, WNOHANG) == 0)
        breathe();
    put(&forking->status, status);
    return 0;
}

IN_A_SCOPE_FIBER(a_child_that_forks_is_nobodys_child_there)
{
    SKIP_UNDER_TSAN();
    weft_scope s;
    struct forking forking = {&s, -1};
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, forks, &forking), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, 0);
    CHECK_INT(seen(&forking.status), ==, 0);
    CHECK_INT(weft_scope_close(&s), ==, 0);
    return arg;
}

/* ---- no memory ---- */

static void *finds_no_memory(void *arg)
{
    weft_scope s;
    wf_sys_fail(1u << WF_SYS_MALLOC, 1, 0);
    CHECK_INT(weft_scope_open(&s, NULL), ==, -ENOMEM);
    wf_sys_fail(0, 0, 0);
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    for (unsigned n = 1;; n++) {
        wf_sys_fail(1u << WF_SYS_MALLOC, n, 0);
        int rc = weft_scope_go(&s, returns, AS_ARG(0));
        bool reached = wf_sys_calls() >= n;
        wf_sys_fail(0, 0, 0);
        if (!reached)
            break;
        CHECK(rc == -ENOMEM || rc == 0);
    }
    wf_sys_fail(1u << WF_SYS_MALLOC, 1, 0);
    CHECK_INT(weft_defer(notes, NULL), ==, -ENOMEM);
    wf_sys_fail(0, 0, 0);
    CHECK_INT(weft_scope_wait(&s), ==, 0);
    CHECK_INT(weft_scope_close(&s), ==, 0);
    return arg;
}

TEST(without_memory_nothing_is_lost_or_leaked)
{
    struct wf_sys_held had = wf_sys_held();
    in_a_fiber(1, finds_no_memory, NULL);
    CHECK_INT(wf_sys_held().n, ==, had.n);
}

static int offloads_with_a_deadline(void *arg)
{
    struct call *c = arg;
    weft_time deadline = weft_in(200 * WEFT_MS);
    c->rc = weft_offload(uses_the_frame, c, NULL, deadline);
    CHECK_INT(weft_now().ns, >=, deadline.ns);
    put(&c->over, 1);
    return c->rc;
}

IN_A_SCOPE_FIBER(a_cancelled_call_on_a_helper_still_has_its_own_deadline)
{
    struct call c = {0};
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, offloads_with_a_deadline, &c), ==, 0);
    AWAIT(seen(&c.begun) || seen(&c.over)); /* on a very slow machine its deadline comes first */
    CHECK_INT(weft_scope_cancel(&s, 0, NULL), ==, 0);
    weft_scope_close(&s);
    CHECK_INT(c.rc, ==, -ETIMEDOUT);
    put(&c.go_on, 1);
    if (seen(&c.begun))
        AWAIT(seen(&c.ended));
    return arg;
}

TESTS(scope_life, weft_scope_closes_on_every_path_out_of_its_block, a_failure_that_nobody_waited_for_is_reported,
      weft_scope_panics_if_it_cannot_open, a_fiber_that_ends_with_a_scope_open_panics_and_names_where_it_was_opened,
      handlers_run_in_reverse_order_at_the_close_or_at_the_fibers_end_and_may_wait, a_plain_thread_has_no_handlers,
      a_scope_that_was_opened_in_a_shield_is_sheltered,
      a_cancel_inside_the_shield_reaches_scopes_that_were_opened_there,
      close_names_after_a_second_the_children_that_ignore_their_cancel, close_names_tasks_that_ignore_their_cancel,
      close_says_that_an_offloaded_call_cannot_be_interrupted, on_a_shared_stack_a_scope_is_on_the_heap,
      in_the_child_of_a_fork_scopes_hold_no_children, a_child_that_forks_is_nobodys_child_there,
      without_memory_nothing_is_lost_or_leaked, no_offloaded_call_outlives_the_scope_of_its_caller,
      a_cancelled_call_on_a_helper_still_has_its_own_deadline)
