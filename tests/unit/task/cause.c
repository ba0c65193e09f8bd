/*
 * weft_cancel_cause: every kind of cancel has its cause, and the first and outermost one counts.
 */
#include <sys/socket.h>

#include <weft/io.h>

#include "unit/task/ground.h"

/* Waits until it is cancelled, and keeps why. */
static void *keeps_its_cause(void *arg)
{
    weft_cause *why = arg;
    CHECK_INT(weft_cancel_cause(why), ==, -ENOENT);
    CHECK_INT(weft_sleep_until(WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_cancel_cause(why), ==, 0);
    return NULL;
}

IN_A_SCOPE_FIBER(the_cause_names_the_fiber_that_cancelled)
{
    weft_cause why = {.size = sizeof why};
    weft_fiber *f = go(keeps_its_cause, &why);
    AWAIT(weft_fiber_state(f) == WEFT_FIBER_PARKED);
    CHECK_INT(weft_cancel(f), ==, 0);
    ended(f);
    CHECK_INT(why.kind, ==, WEFT_CAUSE_CALL);
    CHECK_INT(why.code, ==, -ECANCELED);
    CHECK_INT(why.fiber, ==, weft_fiber_id(weft_fiber_current()));
    CHECK(why.text != NULL && why.text[0] != '\0');
    return arg;
}

TEST(a_cancel_by_a_plain_thread_names_no_fiber)
{
    weft_sched *s = running_sched(1);
    weft_cause why = {.size = sizeof why, .fiber = 77};
    weft_fiber *f = go_on(s, keeps_its_cause, &why);
    AWAIT(weft_fiber_state(f) == WEFT_FIBER_PARKED);
    CHECK_INT(weft_cancel(f), ==, 0);
    int again = weft_cancel(f);
    CHECK(again == 0 || again == -ESRCH); /* it may have ended */
    ended(f);
    CHECK_INT(why.kind, ==, WEFT_CAUSE_CALL);
    CHECK_INT(why.fiber, ==, 0);
    end_sched(s);
}

TEST(a_stop_of_the_scheduler_is_a_shutdown)
{
    weft_sched *s = running_sched(2);
    weft_cause why = {.size = sizeof why};
    weft_fiber *f = go_on(s, keeps_its_cause, &why);
    AWAIT(weft_fiber_state(f) == WEFT_FIBER_PARKED);
    CHECK_INT(weft_sched_stop(s, WEFT_NOW), ==, 0);
    CHECK_INT(why.kind, ==, WEFT_CAUSE_SHUTDOWN);
    ended(f);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

IN_A_SCOPE_FIBER(a_cancel_on_hangup_has_the_cause_hangup)
{
    int ends[2];
    weft_cause why = {.size = sizeof why};
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), ==, 0);
    weft_fiber *f = go(keeps_its_cause, &why);
    AWAIT(weft_fiber_state(f) == WEFT_FIBER_PARKED);
    CHECK_INT(weft_cancel_on_hangup(ends[0], f), ==, 0);
    CHECK_INT(weft_close(ends[1]), ==, 0);
    ended(f);
    CHECK_INT(why.kind, ==, WEFT_CAUSE_HANGUP);
    CHECK_INT(weft_close(ends[0]), ==, 0);
    return arg;
}

static void *is_cancelled_twice(void *arg)
{
    weft_scope s;
    weft_cause why = {.size = sizeof why};
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_scope_cancel(&s, -EIO, "first"), ==, 0);
    CHECK_INT(weft_scope_cancel(&s, -EPIPE, "second"), ==, 0);
    CHECK_INT(weft_cancel_cause(&why), ==, 0);
    CHECK_INT(why.code, ==, -EIO); /* of the same scope the first one counts */
    CHECK_STR(why.text, "first");
    CHECK_INT(weft_cancel(weft_fiber_current()), ==, 0);
    CHECK_INT(weft_cancel_cause(&why), ==, 0);
    CHECK_INT(why.code, ==, -ECANCELED); /* the fiber's own is further out */
    CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
    CHECK_INT(weft_cancel_cause(&why), ==, 0);
    CHECK_INT(why.kind, ==, WEFT_CAUSE_CALL);
    return arg;
}

IN_A_SCOPE_FIBER(the_first_and_outermost_cause_counts)
{
    ended(go(is_cancelled_twice, NULL));
    return arg;
}

static void *asks_wrongly(void *arg)
{
    weft_cause why = {.size = 3, .kind = 99};
    CHECK_INT(weft_cancel(weft_fiber_current()), ==, 0);
    CHECK_INT(weft_cancel_cause(NULL), ==, -EINVAL);
    CHECK_INT(weft_cancel_cause(&why), ==, -EINVAL);
    CHECK_INT(why.kind, ==, 99);
    why.size = 0;
    CHECK_INT(weft_cancel_cause(&why), ==, 0);
    struct {
        weft_cause known;
        uint64_t later;
    } more_room = {.known.size = sizeof more_room, .later = 5};
    CHECK_INT(weft_cancel_cause(&more_room.known), ==, 0);
    CHECK_INT(more_room.later, ==, 0);
    return arg;
}

IN_A_SCOPE_FIBER(an_invalid_size_is_refused)
{
    ended(go(asks_wrongly, NULL));
    return arg;
}

static void *is_cancelled_without_memory(void *arg)
{
    weft_cause why = {.size = sizeof why};
    wf_sys_fail(1u << WF_SYS_MALLOC, 1, 0);
    CHECK_INT(weft_cancel(weft_fiber_current()), ==, 0);
    wf_sys_fail(0, 0, 0);
    CHECK(weft_cancelled());
    CHECK_INT(weft_cancel_cause(&why), ==, 0);
    CHECK_INT(why.kind, ==, WEFT_CAUSE_CALL);
    CHECK_INT(why.fiber, ==, 0); /* there was no place for it */
    return arg;
}

IN_A_SCOPE_FIBER(without_memory_a_cause_is_known_by_its_kind)
{
    ended(go(is_cancelled_without_memory, NULL));
    return arg;
}

TEST(a_plain_thread_has_no_cause)
{
    weft_cause why = {.size = sizeof why};
    CHECK_INT(weft_cancel_cause(&why), ==, -ENOENT);
}

TESTS(cause, the_cause_names_the_fiber_that_cancelled, a_cancel_by_a_plain_thread_names_no_fiber,
      a_stop_of_the_scheduler_is_a_shutdown, a_cancel_on_hangup_has_the_cause_hangup,
      the_first_and_outermost_cause_counts, an_invalid_size_is_refused, without_memory_a_cause_is_known_by_its_kind,
      a_plain_thread_has_no_cause)
