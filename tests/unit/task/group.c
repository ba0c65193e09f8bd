/*
 * all, any and race.
 */
#include "unit/task/places.h"

struct job {
    struct gate gate;
    int code;
};

static int works(void *arg, void **value)
{
    struct job *j = arg;
    passes(&j->gate);
    *value = j;
    return j->code;
}

enum { CREW = 4 };

/* Four tasks, each on a thread of its own, which end when they are told to. */
struct crew {
    struct place threads;
    struct job jobs[CREW];
    weft_task *tasks[CREW];
};

static void crew_begin(struct crew *c, int code)
{
    *c = (struct crew){.threads = place_new(THREAD)};
    for (int i = 0; i < CREW; i++) {
        c->jobs[i].code = code;
        c->tasks[i] = start_on(c->threads.x, works, &c->jobs[i]);
    }
}

static void let_end(struct crew *c, int i)
{
    put(&c->jobs[i].gate.open, 1);
}

static void crew_end(struct crew *c)
{
    for (int i = 0; i < CREW; i++) {
        let_end(c, i);
        ends(c->tasks[i]);
        weft_task_free(c->tasks[i]);
    }
    place_free(&c->threads);
}

/* A wait for the crew in a task, a fiber or a thread. */
struct waiter {
    int (*fn)(weft_task **tasks, size_t n, weft_time deadline);
    struct crew *crew;
    weft_time deadline;
    int rc;
};

static int waits_for_crew(void *arg, void **value)
{
    struct waiter *w = arg;
    (void)value;
    w->rc = w->fn(w->crew->tasks, CREW, w->deadline);
    return 0;
}

static void *waits_on_thread(void *arg)
{
    waits_for_crew(arg, NULL);
    return arg;
}

/* Calls fn in a task on each kind of executor, and on a thread: it returns rc. `end` lets tasks end. */
static void check(int (*fn)(weft_task **, size_t, weft_time), int code, void (*end)(struct crew *), int rc)
{
    for (int k = 0; k <= KINDS; k++) {
        struct crew c;
        crew_begin(&c, code);
        struct waiter w = {.fn = fn, .crew = &c, .deadline = WEFT_FOREVER};
        CHECK_INT(fn(c.tasks, CREW, WEFT_NOW), ==, -EAGAIN);
        CHECK_INT(fn(c.tasks, CREW, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
        if (k == KINDS) {
            pthread_t id = new_thread(waits_on_thread, &w);
            end(&c);
            pthread_join(id, NULL);
        } else {
            struct place p = place_new((enum kind)k);
            weft_task *t = start_on(p.x, waits_for_crew, &w);
            end(&c);
            CHECK_INT(ends(t), ==, 0);
            weft_task_free(t);
            place_free(&p);
        }
        CHECK_INT(w.rc, ==, rc);
        crew_end(&c);
    }
}

static void end_all(struct crew *c)
{
    for (int i = 0; i < CREW; i++)
        let_end(c, i);
}

static void end_third(struct crew *c)
{
    let_end(c, 2);
}

static void third_fails(struct crew *c)
{
    c->jobs[2].code = -EDOM; /* ordered by the gate */
    let_end(c, 2);
}

static void third_succeeds(struct crew *c)
{
    let_end(c, 1);
    ends(c->tasks[1]);
    c->jobs[2].code = 0;
    let_end(c, 2);
}

static void end_in_turn(struct crew *c)
{
    for (int i = 0; i < CREW; i++) {
        c->jobs[i].code = -100 - i;
        let_end(c, i);
        ends(c->tasks[i]);
    }
}

TEST(all_waits_for_every_task)
{
    check(weft_task_all, 0, end_all, 0);
}

TEST(all_returns_the_first_failure)
{
    check(weft_task_all, 0, third_fails, -EDOM);
}

TEST(any_returns_the_first_success)
{
    check(weft_task_any, -EDOM, third_succeeds, 2);
}

TEST(any_returns_the_last_failure_if_all_fail)
{
    check(weft_task_any, 0, end_in_turn, -103);
}

TEST(race_returns_the_first_to_end)
{
    check(weft_task_race, 0, end_third, 2);
    check(weft_task_race, -EDOM, end_third, 2);
}

TEST(tasks_that_have_ended_count_at_once)
{
    struct crew c;
    crew_begin(&c, 0);
    weft_task *same[] = {c.tasks[0], c.tasks[0], c.tasks[0]};
    let_end(&c, 1);
    CHECK_INT(ends(c.tasks[1]), ==, 0);
    CHECK_INT(weft_task_race(c.tasks, CREW, WEFT_NOW), ==, 1);
    CHECK_INT(weft_task_any(c.tasks, CREW, WEFT_NOW), ==, 1);
    CHECK_INT(weft_task_all(c.tasks, CREW, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_task_all(&c.tasks[1], 1, WEFT_NOW), ==, 0);
    let_end(&c, 0);
    CHECK_INT(weft_task_all(same, 3, WEFT_FOREVER), ==, 0); /* one task, three times */
    crew_end(&c);
}

TEST(invalid_groups_return_einval)
{
    weft_task *none[] = {NULL};
    CHECK_INT(weft_task_all(NULL, 0, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_task_any(NULL, 0, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_task_race(NULL, 0, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_task_all(NULL, 1, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_task_all(none, 1, WEFT_FOREVER), ==, -EINVAL);
}

TESTS(task_group, all_waits_for_every_task, all_returns_the_first_failure, any_returns_the_first_success,
      any_returns_the_last_failure_if_all_fail, race_returns_the_first_to_end, tasks_that_have_ended_count_at_once,
      invalid_groups_return_einval)
