/*
 * Another thread cancels or stops a fiber or its scope. The fiber closes the scope, ends and is joined while that call
 * is still under way, and the call does not touch the fiber any more. The sanitizers look.
 */
#include "base/sanitizer.h"
#include "unit/task/ground.h"

enum { ROUNDS = WF_VALGRIND || TEST_EMULATED ? 100 : 2000 };

/* What a thread does to a fiber, or to the scope that the fiber has open. */
struct visit {
    weft_scope *scope; /* flag: NULL: not open yet */
    weft_fiber *fiber; /* flag: NULL: not known yet */
    int kind;          /* 0: weft_scope_cancel, 1: weft_scope_stop, 2: weft_cancel */
    int64_t pause;     /* so many turns of a loop before it */
};

static void *strikes(void *arg)
{
    struct visit *v = arg;
    weft_scope *scope = NULL;
    weft_fiber *fiber = NULL;
    AWAIT((scope = __atomic_load_n(&v->scope, __ATOMIC_ACQUIRE)) != NULL &&
          (fiber = __atomic_load_n(&v->fiber, __ATOMIC_ACQUIRE)) != NULL);
    for (volatile int64_t i = v->pause; i > 0; i--)
        ;
    int rc = v->kind == 0   ? weft_scope_cancel(scope, 0, NULL)
             : v->kind == 1 ? weft_scope_stop(scope, 1)
                            : weft_cancel(fiber);
    CHECK_INT(rc, ==, 0);
    return NULL;
}

/* The scope stays open until the thread has made its call: only that call ends the child. */
static void *opens_and_ends(void *arg)
{
    struct visit *v = arg;
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_go(&s, waits, NULL), ==, 0);
    __atomic_store_n(&v->scope, &s, __ATOMIC_RELEASE);
    CHECK_INT(weft_scope_wait(&s), ==, -ECANCELED);
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    return NULL;
}

static void strike(weft_sched *s, int kind)
{
    for (int i = 0; i < ROUNDS && !test_has_failed(); i++) {
        struct visit v = {.kind = kind, .pause = i % 300};
        pthread_t t = new_thread(strikes, &v);
        weft_fiber *f = go_on(s, opens_and_ends, &v);
        __atomic_store_n(&v.fiber, f, __ATOMIC_RELEASE);
        ended(f); /* as soon as it has ended, the thread may still be in its call */
        CHECK_INT(pthread_join(t, NULL), ==, 0);
    }
}

static void strike_with(int kind)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        weft_sched *s = running_sched(workers);
        strike(s, kind);
        end_sched(s);
    }
}

TEST(a_thread_may_cancel_a_scope_that_is_then_closed)
{
    strike_with(0);
}

TEST(a_thread_may_stop_a_scope_that_is_then_closed)
{
    strike_with(1);
}

TEST(a_thread_may_cancel_a_fiber_that_is_then_joined)
{
    strike_with(2);
}

static void pauses(void *arg)
{
    (void)arg;
    usleep(2000);
}

/* The same while every such call is held up after it has woken the owner. */
TEST(a_close_waits_for_a_call_that_is_held_up)
{
    weft_sched *s = running_sched(2);
    for (int kind = 0; kind < 2; kind++) {
        for (int i = 0; i < 20 && !test_has_failed(); i++) {
            struct visit v = {.kind = kind};
            wf_sys_before(1u << WF_SYS_CANCEL, pauses, NULL);
            pthread_t t = new_thread(strikes, &v);
            weft_fiber *f = go_on(s, opens_and_ends, &v);
            __atomic_store_n(&v.fiber, f, __ATOMIC_RELEASE);
            ended(f);
            CHECK_INT(pthread_join(t, NULL), ==, 0);
            wf_sys_before(0, NULL, NULL);
        }
    }
    end_sched(s);
}

TESTS(scope_stranger, a_thread_may_cancel_a_scope_that_is_then_closed, a_thread_may_stop_a_scope_that_is_then_closed,
      a_thread_may_cancel_a_fiber_that_is_then_joined, a_close_waits_for_a_call_that_is_held_up)
