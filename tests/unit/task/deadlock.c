/*
 * Awaits that could never end are refused, and an executor that cannot run a task again does not lose it.
 */
#include "unit/task/places.h"

struct ring {
    weft_task *next; /* the task that it awaits */
    int go, rc;
};

static int awaits_next(void *arg, void **value)
{
    struct ring *r = arg;
    while (!seen(&r->go))
        breathe();
    r->rc = weft_task_await(r->next, value, WEFT_FOREVER);
    return r->rc;
}

TEST(a_task_that_awaits_itself_gets_edeadlk)
{
    for (enum kind k = THREAD; k < KINDS; k++) {
        struct place p = place_new(k);
        struct ring r = {0};
        weft_error e = {0};
        weft_task *t = r.next = start_named(p.x, "narcissus", awaits_next, &r);
        put(&r.go, 1);
        CHECK_INT(ends(t), ==, -EDEADLK);
        CHECK_INT(weft_task_error(t, &e), ==, 0);
        CHECK_STR(e.message, "narcissus: narcissus awaits itself");
        weft_task_free(t);
        place_free(&p);
    }
}

static bool waits(weft_task *t)
{
    return weft_task_await(t, NULL, weft_in(WEFT_MS)) == -ETIMEDOUT;
}

TEST(tasks_that_await_each_other_in_a_ring_get_edeadlk)
{
    for (enum kind k = THREAD; k < KINDS; k++) {
        struct place p = place_new(k), q = place_new(THREAD);
        struct ring r[3] = {{0}};
        weft_error e = {0};
        weft_task *t[3] = {start_named(q.x, "a", awaits_next, &r[0]), start_named(q.x, "b", awaits_next, &r[1]),
                           start_named(p.x, "c", awaits_next, &r[2])};
        for (int i = 0; i < 3; i++)
            r[i].next = t[(i + 1) % 3];
        for (int i = 0; i < 3; i++)
            put(&r[i].go, 1);
        int refused = 0;
        for (int i = 0; i < 3; i++) { /* the last to await is refused, and the others pass its failure on */
            char ring[80];
            const char *n[] = {"a", "b", "c", "a", "b"};
            snprintf(ring, sizeof ring, "%s: %s awaits %s, which awaits %s, which awaits %s", n[i], n[i], n[i + 1],
                     n[i + 2], n[i]);
            CHECK_INT(ends(t[i]), ==, -EDEADLK);
            CHECK_INT(r[i].rc, ==, -EDEADLK);
            CHECK_INT(weft_task_error(t[i], &e), ==, 0);
            refused += strcmp(e.message, ring) == 0;
        }
        CHECK_INT(refused, ==, 1);
        for (int i = 0; i < 3; i++)
            weft_task_free(t[i]);
        place_free(&q);
        place_free(&p);
    }
}

/* A task that waits for a group. */
struct waiter {
    int (*fn)(weft_task **tasks, size_t n, weft_time deadline); /* NULL: it awaits the first task */
    weft_task *tasks[2];
    size_t n;
    int rc;
};

static int waits_for_group(void *arg, void **value)
{
    struct waiter *w = arg;
    w->rc = w->fn ? w->fn(w->tasks, w->n, WEFT_FOREVER) : weft_task_await(w->tasks[0], value, WEFT_FOREVER);
    return w->rc < 0 ? w->rc : 0;
}

typedef int group_fn(weft_task **tasks, size_t n, weft_time deadline);

static group_fn *const groups[] = {NULL, weft_task_all, weft_task_any, weft_task_race};

enum { GROUPS = sizeof groups / sizeof *groups, PARTY = 3 };

/* Tasks a, b and c of a looper, which begin to wait in this order, and a free one on another thread. */
struct party {
    struct place looper, threads;
    struct gate start, gate;
    struct waiter w[PARTY];
    weft_task *t[PARTY], *free;
    int waiting;
};

static void party_begin(struct party *p)
{
    const char *names[] = {"a", "b", "c"};
    *p = (struct party){.looper = place_new(LOOPER), .threads = place_new(THREAD)};
    CHECK_INT(weft_executor_execute(p->looper.x, passes, &p->start), ==, 0);
    for (int i = 0; i < PARTY; i++)
        p->t[i] = start_named(p->looper.x, names[i], waits_for_group, &p->w[i]);
    p->free = start_named(p->threads.x, "free", passes_as_task, &p->gate);
}

/* Task i is to wait for a group of two, or (two NULL) for one task. */
static void party_plan(struct party *p, int i, group_fn *fn, weft_task *one, weft_task *two)
{
    p->w[i] = (struct waiter){.fn = fn, .tasks = {one, two}, .n = two ? 2 : 1};
}

/* Every task has begun to wait, or has ended, when it returns. */
static void party_starts(struct party *p)
{
    CHECK_INT(weft_executor_execute(p->looper.x, counts_call, &p->waiting), ==, 0);
    put(&p->start.open, 1);
    AWAIT(seen(&p->waiting));
}

static bool has_ended(weft_task *t)
{
    weft_error e;
    return weft_task_error(t, &e) == 0;
}

static const char *message_of(weft_task *t)
{
    weft_error e = {.message = "it has not ended"};
    weft_task_error(t, &e);
    return e.message;
}

static void party_end(struct party *p)
{
    put(&p->gate.open, 1);
    for (int i = 0; i < PARTY; i++) {
        weft_task_cancel(p->t[i]);
        ends(p->t[i]);
        weft_task_free(p->t[i]);
    }
    ends(p->free);
    weft_task_free(p->free);
    place_free(&p->threads);
    place_free(&p->looper);
}

TEST(a_ring_through_groups_gets_edeadlk)
{
    for (int i = 0; i < GROUPS * GROUPS; i++) {
        group_fn *fn = groups[i % GROUPS], *last = groups[i / GROUPS];
        struct party p;
        party_begin(&p);
        party_plan(&p, 0, fn, p.t[1], NULL);
        party_plan(&p, 1, last, p.t[0], NULL);
        party_plan(&p, 2, NULL, p.t[1], NULL);
        party_starts(&p);
        CHECK_INT(p.w[1].rc, ==, -EDEADLK);
        CHECK_STR(message_of(p.t[1]), "b: b awaits a, which awaits b");
        CHECK_INT(ends(p.t[0]), ==, fn == weft_task_race ? 0 : -EDEADLK);
        CHECK_INT(ends(p.t[2]), ==, -EDEADLK); /* it is not in the ring, and passes the failure on */
        CHECK_STR(message_of(p.t[2]), "c: b: b awaits a, which awaits b");
        party_end(&p);
    }
}

TEST(one_member_that_leads_back_is_a_ring_for_all)
{
    struct party p;
    party_begin(&p);
    party_plan(&p, 0, weft_task_all, p.free, p.t[1]);
    party_plan(&p, 1, NULL, p.t[2], NULL);
    party_plan(&p, 2, weft_task_all, p.free, p.t[0]);
    party_starts(&p);
    CHECK_STR(message_of(p.t[2]), "c: c awaits a, which awaits b, which awaits c");
    CHECK_INT(ends(p.t[0]), ==, -EDEADLK); /* a member has failed */
    party_end(&p);
}

TEST(a_member_that_is_free_makes_any_and_race_no_ring)
{
    for (int i = 0; i < 2; i++) {
        struct party p;
        group_fn *fn = i ? weft_task_race : weft_task_any;
        party_begin(&p);
        party_plan(&p, 0, fn, p.t[1], p.free);
        party_plan(&p, 1, fn, p.t[0], p.t[2]); /* through a */
        party_plan(&p, 2, weft_task_all, p.t[0],
                   p.t[1]); /* meets b on the way to a, and before it knows that a is free */
        party_starts(&p);
        CHECK(!has_ended(p.t[0]) && !has_ended(p.t[1]) && !has_ended(p.t[2]));
        put(&p.gate.open, 1);
        for (int k = 0; k < PARTY; k++)
            CHECK_INT(ends(p.t[k]), ==, 0);
        party_end(&p);
    }
}

TEST(any_and_race_whose_members_all_lead_back_are_a_ring)
{
    for (int i = 0; i < 2; i++) {
        struct party p;
        group_fn *fn = i ? weft_task_race : weft_task_any;
        party_begin(&p);
        party_plan(&p, 0, fn, p.t[1], p.t[2]);
        party_plan(&p, 1, fn, p.t[0], p.t[2]); /* c could still end */
        party_plan(&p, 2, NULL, p.t[0], NULL);
        party_starts(&p);
        CHECK_STR(message_of(p.t[2]), "c: c awaits a, which awaits b, which awaits c");
        party_end(&p);
    }
}

static int fails(void *arg, void **value)
{
    (void)arg, (void)value;
    return -EDOM;
}

TEST(members_that_have_ended_lead_nowhere)
{
    for (int i = 1; i < GROUPS; i++) {
        for (int failure = 0; failure < 2; failure++) {
            struct party p;
            party_begin(&p);
            weft_task *failed = start_on(p.threads.x, fails, NULL);
            put(&p.gate.open, 1);
            CHECK_INT(ends(p.free), ==, 0);
            CHECK_INT(ends(failed), ==, -EDOM);
            party_plan(&p, 0, NULL, p.t[1], NULL);
            party_plan(&p, 1, groups[i], p.t[0], failure ? failed : p.free);
            party_plan(&p, 2, NULL, p.free, NULL);
            party_starts(&p);
            bool decides = groups[i] == weft_task_race || failure == (groups[i] == weft_task_all);
            CHECK_INT(ends(p.t[1]), ==, !decides ? -EDEADLK : groups[i] == weft_task_all ? -EDOM : 0);
            weft_task_free(failed);
            party_end(&p);
        }
    }
}

/* The same once the gate is open. */
struct held_waiter {
    struct gate gate;
    struct waiter *w;
};

static int passes_and_waits(void *arg, void **value)
{
    struct held_waiter *held = arg;
    passes(&held->gate);
    return waits_for_group(held->w, value);
}

TEST(a_ring_through_groups_on_every_kind_gets_edeadlk)
{
    for (enum kind k = THREAD; k < KINDS; k++) {
        struct place p = place_new(k), q = place_new(THREAD);
        struct waiter a = {.fn = weft_task_all, .n = 1}, b = {.fn = weft_task_all, .n = 1};
        struct held_waiter x = {.w = &a}, y = {.w = &b};
        weft_task *s = b.tasks[0] = start_named(p.x, "a", passes_and_waits, &x);
        weft_task *t = a.tasks[0] = start_named(q.x, "b", passes_and_waits, &y);
        put(&x.gate.open, 1);
        put(&y.gate.open, 1);
        CHECK_INT(ends(s), ==, -EDEADLK); /* the last one to wait is refused, and the other passes its failure on */
        CHECK_INT(ends(t), ==, -EDEADLK);
        bool by_s = strcmp(message_of(s), "a: a awaits b, which awaits a") == 0;
        bool by_t = strcmp(message_of(t), "b: b awaits a, which awaits b") == 0;
        CHECK_INT(by_s + by_t, ==, 1);
        weft_task_free(s);
        weft_task_free(t);
        place_free(&q);
        place_free(&p);
    }
}

enum { LAYERS = 30, TOO_MANY = 40 };

/*
 * Each of two tasks of a layer waits for both tasks of the layer below, and the lowest ones for `bottom`. `bottom` waits
 * for the highest ones, and is the last to wait. On one looper they wait in the order of their start.
 */
static void check_layers(int layers, group_fn *fn, bool is_seen)
{
    static struct waiter w[TOO_MANY][2];
    weft_task *t[TOO_MANY][2];
    struct place looper = place_new(LOOPER), threads = place_new(THREAD);
    struct waiter bottom = {.fn = fn, .n = 2};
    struct held_waiter held = {.w = &bottom};
    weft_task *b = start_named(threads.x, "bottom", passes_and_waits, &held);
    for (int i = 0; i < layers; i++) {
        for (int j = 0; j < 2; j++) {
            w[i][j] = (struct waiter){.fn = fn, .tasks = {b, b}, .n = 2};
            if (i > 0)
                memcpy(w[i][j].tasks, t[i - 1], sizeof t[i - 1]);
            t[i][j] = start_named(looper.x, "layer", waits_for_group, &w[i][j]);
        }
    }
    memcpy(bottom.tasks, t[layers - 1], sizeof t[layers - 1]);
    int waiting = 0;
    CHECK_INT(weft_executor_execute(looper.x, counts_call, &waiting), ==, 0);
    AWAIT(seen(&waiting));
    put(&held.gate.open, 1);
    if (!is_seen) {
        CHECK(waits(b));
        CHECK_INT(weft_task_cancel(b), ==, 0);
    }
    CHECK_INT(ends(b), ==, is_seen ? -EDEADLK : -ECANCELED);
    for (int i = 0; i < layers; i++) {
        for (int j = 0; j < 2; j++) {
            ends(t[i][j]);
            weft_task_free(t[i][j]);
        }
    }
    weft_task_free(b);
    place_free(&threads);
    place_free(&looper);
}

TEST(a_search_visits_a_group_once_and_ends_in_the_deep)
{
    for (int i = 1; i < GROUPS; i++) {
        check_layers(LAYERS, groups[i], true);
        check_layers(TOO_MANY, groups[i], false);
    }
}

struct getter {
    weft_executor *x;
    int rc, all, done;
};

static void gets_of_its_looper(void *arg)
{
    struct getter *g = arg;
    weft_task *t = start_on(g->x, returns_arg, NULL);
    g->rc = weft_task_await(t, NULL, WEFT_FOREVER);
    g->all = weft_task_all(&t, 1, WEFT_FOREVER);
    weft_task_free(t);
    put(&g->done, 1);
}

TEST(a_function_of_a_looper_that_awaits_its_task_gets_edeadlk)
{
    struct place p = place_new(LOOPER);
    struct getter g = {.x = p.x};
    CHECK_INT(weft_executor_execute(p.x, gets_of_its_looper, &g), ==, 0);
    AWAIT(seen(&g.done));
    CHECK_INT(g.rc, ==, -EDEADLK);
    CHECK_INT(g.all, ==, -EDEADLK);
    place_free(&p);
    p = place_new(ASYNC); /* there are other threads */
    g = (struct getter){.x = p.x};
    CHECK_INT(weft_executor_execute(p.x, gets_of_its_looper, &g), ==, 0);
    AWAIT(seen(&g.done));
    CHECK_INT(g.rc, ==, 0);
    CHECK_INT(g.all, ==, 0);
    place_free(&p);
}

TEST(the_only_worker_of_a_scheduler_does_not_wait_for_its_task)
{
    weft_sched *s = new_sched(1, true);
    weft_task *t = NULL;
    CHECK_INT(weft_task_start(&t, returns_arg, NULL, NULL), ==, 0);
    CHECK_INT(weft_task_await(t, NULL, WEFT_FOREVER), ==, -EDEADLK);
    CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, 0);
    CHECK_INT(ends(t), ==, 0);
    weft_task_free(t);
    end_sched(s);
}

TEST(the_only_worker_of_a_scheduler_does_not_wait_for_an_executor_of_it)
{
    for (int joins = 0; joins < 2; joins++) {
        weft_sched *s = new_sched(1, true);
        weft_executor *x = NULL;
        weft_time soon = weft_in(AWAIT_SECONDS * WEFT_SEC);
        int calls = 0;
        CHECK_INT(weft_executor_sched(&x, s, 0), ==, 0);
        weft_task *t = start_on(x, returns_arg, NULL);
        CHECK_INT(weft_executor_execute(x, counts_call, &calls), ==, 0);
        CHECK_INT(weft_task_await(t, NULL, WEFT_NOW), ==, -EAGAIN);
        CHECK_INT(weft_task_await(t, NULL, soon), ==, -EDEADLK);
        CHECK_INT(weft_task_all(&t, 1, soon), ==, -EDEADLK);
        CHECK_INT(weft_executor_join(x, WEFT_NOW), ==, -EAGAIN);
        CHECK_INT(weft_executor_join(x, soon), ==, -EDEADLK);
        if (!joins)
            CHECK_INT(weft_executor_free(x), ==, 0); /* it drops both */
        CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, 0);
        CHECK_INT(ends(t), ==, joins ? 0 : -ECANCELED);
        CHECK_INT(calls, ==, joins);
        weft_task_free(t);
        if (joins) {
            CHECK_INT(weft_executor_join(x, weft_in(WEFT_MS)), ==, -ETIMEDOUT); /* another thread may close it */
            CHECK_INT(weft_executor_close(x, true), ==, 0);
            CHECK_INT(weft_executor_join(x, soon), ==, 0);
            CHECK_INT(weft_executor_free(x), ==, 0);
        }
        end_sched(s);
    }
}

/* A table that runs a function on its caller, and refuses once it is told to. */
struct flaky {
    int refuse;
};

static int flaky_execute(void *self, void (*fn)(void *), void *arg)
{
    struct flaky *f = self;
    int refuse = seen(&f->refuse);
    if (refuse)
        return refuse;
    fn(arg);
    return 0;
}

struct resumed {
    weft_task *awaited;
    int rc, again, tid;
};

static int awaits_refused(void *arg, void **value)
{
    struct resumed *r = arg;
    r->rc = weft_task_await(r->awaited, value, WEFT_FOREVER);
    r->tid = gettid();
    r->again = weft_task_await(r->awaited, value, WEFT_FOREVER);
    return 0;
}

TEST(a_task_that_cannot_be_resumed_continues_on_the_finisher_with_the_error)
{
    struct flaky f = {0};
    struct place looper = place_new(LOOPER);
    struct gate g = {0};
    weft_executor *x = NULL;
    weft_executor_ops ops = {.size = sizeof ops, .execute = flaky_execute};
    CHECK_INT(weft_executor_new(&x, &ops, &f), ==, 0);
    struct resumed r = {.awaited = start_on(looper.x, passes_as_task, &g)};
    weft_task *t = start_on(x, awaits_refused, &r);
    put(&f.refuse, -EUSERS);
    put(&g.open, 1);
    CHECK_INT(ends(t), ==, 0);
    CHECK_INT(r.rc, ==, -EUSERS);
    CHECK_INT(r.again, ==, 0); /* what it awaited has ended all the same */
    CHECK_INT(r.tid, !=, gettid());
    weft_task_free(t);
    weft_task_free(r.awaited);
    put(&f.refuse, 0);
    CHECK_INT(weft_executor_free(x), ==, 0);
    place_free(&looper);
}

TEST(a_task_that_finds_no_thread_after_an_await_continues_with_eagain)
{
    struct place threads = place_new(THREAD), looper = place_new(LOOPER);
    struct gate g = {0};
    struct resumed r = {.awaited = start_on(looper.x, passes_as_task, &g)};
    weft_task *t = start_on(threads.x, awaits_refused, &r);
    CHECK(waits(t));
    wf_sys_fail(1u << WF_SYS_THREAD, 1, 100);
    put(&g.open, 1);
    CHECK_INT(ends(t), ==, 0);
    wf_sys_fail(0, 0, 0);
    CHECK(r.rc == -EAGAIN || r.rc == 0); /* 0: it had not begun to wait */
    CHECK_INT(r.again, ==, 0);
    weft_task_free(t);
    weft_task_free(r.awaited);
    place_free(&looper);
    place_free(&threads);
}

/* The task of an executor, which ends while another thread is about to wait for it. */
struct ending {
    struct place place;
    struct gate gate;
    weft_task *task;
};

/* Before the wait: the task ends, and its executor is freed. */
static void ends_first(void *arg)
{
    struct ending *e = arg;
    weft_error how;
    wf_sys_before(0, NULL, NULL);
    put(&e->gate.open, 1);
    AWAIT(weft_task_error(e->task, &how) == 0);
    place_free(&e->place);
}

TEST(an_await_does_not_use_the_executor_of_a_task_that_ends_meanwhile)
{
    enum kind kinds[] = {LOOPER, ASYNC, THREAD};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct ending e = {.place = place_new(kinds[i])};
        e.task = start_on(e.place.x, passes_as_task, &e.gate);
        wf_sys_before(1u << WF_SYS_AWAIT, ends_first, &e);
        CHECK_INT(weft_task_await(e.task, NULL, WEFT_FOREVER), ==, 0);
        weft_task_free(e.task);
    }
}

TESTS(task_deadlock, an_await_does_not_use_the_executor_of_a_task_that_ends_meanwhile,
      a_task_that_awaits_itself_gets_edeadlk, tasks_that_await_each_other_in_a_ring_get_edeadlk,
      a_ring_through_groups_gets_edeadlk, a_ring_through_groups_on_every_kind_gets_edeadlk,
      one_member_that_leads_back_is_a_ring_for_all, a_member_that_is_free_makes_any_and_race_no_ring,
      any_and_race_whose_members_all_lead_back_are_a_ring, members_that_have_ended_lead_nowhere,
      a_search_visits_a_group_once_and_ends_in_the_deep, a_function_of_a_looper_that_awaits_its_task_gets_edeadlk,
      the_only_worker_of_a_scheduler_does_not_wait_for_its_task,
      the_only_worker_of_a_scheduler_does_not_wait_for_an_executor_of_it,
      a_task_that_cannot_be_resumed_continues_on_the_finisher_with_the_error,
      a_task_that_finds_no_thread_after_an_await_continues_with_eagain)
