/*
 * Cancelling tasks: in every wait, before their turn, and by the close of their executor. Deadlines of awaits.
 */
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include <weft/chan.h>
#include <weft/io.h>
#include <weft/offload.h>

#include "unit/task/places.h"

/* What a task waits in. */
struct wait {
    int (*fn)(void *arg, void **value);
    weft_task *awaited;
    weft_mutex mutex;
    weft_sem sem;
    weft_chan *chan;
    int fds[2];
    int begun, again, done;
};

static int in_await(void *arg, void **value)
{
    return weft_task_await(((struct wait *)arg)->awaited, value, WEFT_FOREVER);
}

static int in_timed_await(void *arg, void **value)
{
    return weft_task_await(((struct wait *)arg)->awaited, value, weft_in(100 * WEFT_SEC));
}

static int in_all(void *arg, void **value)
{
    struct wait *w = arg;
    weft_task *two[] = {w->awaited, w->awaited};
    (void)value;
    return weft_task_all(two, 2, WEFT_FOREVER);
}

static int in_sleep(void *arg, void **value)
{
    (void)arg, (void)value;
    return weft_sleep(100 * WEFT_SEC);
}

static int in_mutex(void *arg, void **value)
{
    (void)value;
    return weft_mutex_lock(&((struct wait *)arg)->mutex, WEFT_FOREVER);
}

static int in_sem(void *arg, void **value)
{
    (void)value;
    return weft_sem_wait(&((struct wait *)arg)->sem, WEFT_FOREVER);
}

static int in_chan(void *arg, void **value)
{
    int received;
    (void)value;
    return weft_chan_recv(((struct wait *)arg)->chan, &received, WEFT_FOREVER);
}

static int in_read(void *arg, void **value)
{
    char byte;
    (void)value;
    return (int)weft_read(((struct wait *)arg)->fds[0], &byte, 1, WEFT_FOREVER);
}

static int in_wait_fd(void *arg, void **value)
{
    (void)value;
    return weft_wait_fd(((struct wait *)arg)->fds[0], POLLIN, WEFT_FOREVER);
}

static int in_poll(void *arg, void **value)
{
    struct pollfd p = {.fd = ((struct wait *)arg)->fds[0], .events = POLLIN};
    (void)value;
    return weft_poll(&p, 1, WEFT_FOREVER);
}

static int waits_twice(void *arg, void **value)
{
    struct wait *w = arg;
    put(&w->begun, 1);
    int rc = w->fn(w, value);
    CHECK(weft_cancelled());
    w->again = weft_sleep(100 * WEFT_SEC); /* and every later one */
    put(&w->done, 1);
    return rc;
}

static void cancel_in(struct wait *w, enum kind k, bool early)
{
    struct place p = place_new(k), looper = place_new(LOOPER);
    struct gate g = {0};
    w->begun = w->again = w->done = 0;
    w->awaited = start_on(looper.x, passes_as_task, &g);
    weft_task *t = start_on(p.x, waits_twice, w);
    if (!early) {
        AWAIT(seen(&w->begun));
        for (int i = 0; i < 5; i++)
            breathe(); /* it may be in the wait by now, or not */
    }
    CHECK_INT(weft_task_cancel(t), ==, 0);
    int rc = ends(t);
    CHECK_INT(rc, ==, -ECANCELED);
    CHECK_INT(seen(&w->done), ==, seen(&w->begun)); /* one that had not begun never does */
    CHECK_INT(w->again, ==, w->begun ? -ECANCELED : 0);
    CHECK_INT(weft_task_cancel(t), ==, -ESRCH);
    weft_task_free(t);
    put(&g.open, 1);
    CHECK_INT(ends(w->awaited), ==, 0);
    weft_task_free(w->awaited);
    place_free(&looper);
    place_free(&p);
}

TEST(a_cancel_ends_every_kind_of_wait)
{
    static weft_task_fn *const waits[] = {in_await, in_timed_await, in_all,  in_sleep,   in_mutex,
                                          in_sem,   in_chan,        in_read, in_wait_fd, in_poll};
    struct wait w = {0};
    CHECK_INT(weft_chan_new(&w.chan, sizeof(int), 0), ==, 0);
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, w.fds), ==, 0);
    CHECK_INT(weft_mutex_lock(&w.mutex, WEFT_FOREVER), ==, 0);
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        w.fn = waits[i];
        for (enum kind k = THREAD; k < KINDS; k++) {
            cancel_in(&w, k, false);
            cancel_in(&w, k, true);
        }
    }
    CHECK_INT(weft_mutex_unlock(&w.mutex), ==, 0);
    weft_close(w.fds[0]);
    weft_close(w.fds[1]);
    CHECK_INT(weft_chan_free(w.chan), ==, 0);
}

/* Everything that a cancelled task needs is there, so no call would have to wait. */
struct plenty {
    weft_mutex mutex;
    weft_rwlock rwlock;
    weft_sem sem;
    weft_event event;
    weft_waitgroup group;
    weft_once once;
    weft_barrier alone;
    weft_chan *chan;
    weft_task *ended;
    weft_executor *over;
    int fds[2], begun, cancelled, calls;
};

static void never_called(void *arg)
{
    more(&((struct plenty *)arg)->calls);
}

static void *never_offloaded(void *arg)
{
    never_called(arg);
    return NULL;
}

/* The calls that can wait; each must be refused. */
static void calls_that_can_wait(struct plenty *p)
{
    char byte = 'x';
    int number = 1;
    struct pollfd ready = {.fd = p->fds[0], .events = POLLIN};
    CHECK_INT(weft_sleep(0), ==, -ECANCELED);
    CHECK_INT(weft_mutex_lock(&p->mutex, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_rwlock_read_lock(&p->rwlock, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_rwlock_write_lock(&p->rwlock, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_sem_wait(&p->sem, weft_in(100 * WEFT_SEC)), ==, -ECANCELED);
    CHECK_INT(weft_event_wait(&p->event, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_waitgroup_wait(&p->group, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_once_do(&p->once, never_called, p, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_barrier_wait(&p->alone, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_chan_send(p->chan, &number, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_chan_recv(p->chan, &number, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_task_await(p->ended, NULL, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_task_all(&p->ended, 1, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_task_all(NULL, 0, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_task_any(&p->ended, 1, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_task_race(&p->ended, 1, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_executor_join(p->over, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_read(p->fds[0], &byte, 1, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_write(p->fds[0], &byte, 1, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_wait_fd(p->fds[0], POLLIN, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_poll(&ready, 1, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_offload(never_offloaded, p, NULL, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(p->calls, ==, 0);
}

static int is_refused_everywhere(void *arg, void **value)
{
    struct plenty *p = arg;
    int number;
    char byte;
    (void)value;
    put(&p->begun, 1);
    wait_flag(&p->cancelled);
    CHECK(weft_cancelled());
    calls_that_can_wait(p);
    CHECK_INT(weft_sem_wait(&p->sem, WEFT_NOW), ==, 0); /* with WEFT_NOW, and releasing, goes on */
    CHECK_INT(weft_sem_post(&p->sem), ==, 0);
    CHECK_INT(weft_chan_recv(p->chan, &number, WEFT_NOW), ==, 0);
    CHECK_INT(weft_chan_send(p->chan, &number, WEFT_NOW), ==, 0);
    CHECK_INT(weft_read(p->fds[0], &byte, 1, WEFT_NOW), ==, 1);
    CHECK_INT(weft_write(p->fds[1], &byte, 1, WEFT_NOW), ==, 1);
    return -ECANCELED;
}

TEST(a_cancelled_task_is_refused_by_calls_that_would_not_have_to_wait)
{
    struct plenty p = {0};
    int number = 7;
    CHECK_INT(weft_barrier_init(&p.alone, 1), ==, 0);
    CHECK_INT(weft_chan_new(&p.chan, sizeof(int), 2), ==, 0);
    CHECK_INT(weft_chan_send(p.chan, &number, WEFT_NOW), ==, 0);
    CHECK_INT(weft_sem_post(&p.sem), ==, 0);
    weft_event_set(&p.event);
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, p.fds), ==, 0);
    CHECK_INT(weft_write(p.fds[1], "y", 1, WEFT_NOW), ==, 1);
    CHECK_INT(weft_executor_noop(&p.over), ==, 0);
    CHECK_INT(weft_executor_close(p.over, true), ==, 0);
    for (enum kind k = THREAD; k < KINDS; k++) {
        struct place at = place_new(k);
        p.begun = p.cancelled = 0;
        p.ended = start_on(at.x, returns_arg, NULL);
        CHECK_INT(ends(p.ended), ==, 0);
        weft_task *t = start_on(at.x, is_refused_everywhere, &p);
        AWAIT(seen(&p.begun));
        CHECK_INT(weft_task_cancel(t), ==, 0);
        put(&p.cancelled, 1);
        CHECK_INT(ends(t), ==, -ECANCELED);
        weft_task_free(t);
        weft_task_free(p.ended);
        place_free(&at);
    }
    CHECK_INT(weft_executor_free(p.over), ==, 0);
    weft_close(p.fds[0]);
    weft_close(p.fds[1]);
    CHECK_INT(weft_chan_free(p.chan), ==, 0);
}

/* What a fiber need not wait for, and what it would have to wait for. */
struct there {
    weft_task *ended, *held;
    weft_executor *over;
};

/* The calls of a cancelled fiber that wait for tasks and executors: each must be refused. */
static void task_calls_that_can_wait(const struct there *h)
{
    weft_task *both[] = {h->ended, h->held};
    void *value = &both;
    CHECK_INT(weft_task_await(h->ended, &value, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_task_await(h->ended, &value, weft_in(100 * WEFT_SEC)), ==, -ECANCELED);
    CHECK_INT(weft_task_await(h->held, &value, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_task_all(both, 1, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_task_any(both, 1, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_task_any(both, 2, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_task_race(both, 1, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_task_race(both, 2, weft_in(100 * WEFT_SEC)), ==, -ECANCELED);
    CHECK_INT(weft_executor_join(h->over, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_PTR(value, ==, &both);
}

/* What goes on, cancelled or not. */
static void task_calls_that_never_wait(const struct there *h)
{
    weft_task *both[] = {h->ended, h->held};
    void *value = NULL;
    CHECK_INT(weft_task_await(h->ended, &value, WEFT_NOW), ==, 0);
    CHECK_PTR(value, ==, h->over);
    CHECK_INT(weft_task_await(h->held, &value, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_task_all(both, 1, WEFT_NOW), ==, 0);
    CHECK_INT(weft_task_all(both, 2, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_task_any(both, 2, WEFT_NOW), ==, 0);
    CHECK_INT(weft_task_race(both, 2, WEFT_NOW), ==, 0);
    CHECK_INT(weft_executor_join(h->over, WEFT_NOW), ==, 0);
}

static void *is_refused_tasks(void *arg)
{
    task_calls_that_never_wait(arg);
    CHECK_INT(weft_cancel(weft_fiber_current()), ==, 0);
    task_calls_that_can_wait(arg);
    task_calls_that_never_wait(arg);
    CHECK_INT(weft_shield_begin(weft_in(AWAIT_SECONDS * WEFT_SEC)), ==, 0);
    CHECK_INT(weft_task_await(((struct there *)arg)->ended, NULL, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_executor_join(((struct there *)arg)->over, WEFT_FOREVER), ==, 0);
    weft_shield_end();
    return arg;
}

TEST(a_cancelled_fiber_is_refused_by_waits_for_tasks_that_would_not_have_to_wait)
{
    for (enum kind k = THREAD; k < KINDS; k++) {
        struct place at = place_new(k), looper = place_new(LOOPER);
        struct gate g = {0};
        struct there h = {
            .ended = start_on(at.x, returns_arg, at.x), .held = start_on(looper.x, passes_as_task, &g), .over = at.x};
        CHECK_INT(weft_executor_close(at.x, true), ==, 0);
        CHECK_INT(weft_executor_join(at.x, WEFT_FOREVER), ==, 0);
        in_a_fiber(1, is_refused_tasks, &h);
        in_a_fiber(2, is_refused_tasks, &h);
        put(&g.open, 1);
        CHECK_INT(ends(h.held), ==, 0);
        weft_task_free(h.held);
        weft_task_free(h.ended);
        place_free(&looper);
        place_free(&at);
    }
}

/* Waits shortly, again and again, until it is cancelled. */
static int waits_often(void *arg, void **value)
{
    weft_sem sem = {0};
    int rc;
    (void)value;
    do {
        more(arg);
        rc = weft_sem_wait(&sem, weft_in(5 * WEFT_US));
    } while (rc == -ETIMEDOUT);
    return rc;
}

TEST(a_cancel_races_with_the_end_of_a_wait)
{
    struct place p = place_new(ASYNC);
    for (int i = 0; i < 300; i++) {
        int waits = 0;
        weft_task *t = start_on(p.x, waits_often, &waits);
        while (seen(&waits) < 1 + i % 7)
            sched_yield();
        CHECK_INT(weft_task_cancel(t), ==, 0);
        CHECK_INT(ends(t), ==, -ECANCELED);
        weft_task_free(t);
    }
    place_free(&p);
}

static int awaits_and_notes(void *arg, void **value)
{
    struct wait *w = arg;
    int rc = in_await(w, value);
    put(&w->done, 1);
    return rc;
}

TEST(a_cancelled_task_on_noop_continues_in_the_call)
{
    struct place noop = place_new(NOOP), looper = place_new(LOOPER);
    struct gate g = {0};
    struct wait w = {.awaited = start_on(looper.x, passes_as_task, &g)};
    weft_task *t = start_on(noop.x, awaits_and_notes, &w);
    CHECK_INT(w.done, ==, 0);
    CHECK_INT(weft_task_cancel(t), ==, 0);
    CHECK_INT(w.done, ==, 1);
    CHECK_INT(weft_task_await(t, NULL, WEFT_NOW), ==, -ECANCELED);
    weft_task_free(t);
    put(&g.open, 1);
    weft_task_free(w.awaited);
    place_free(&looper);
    place_free(&noop);
}

static void notes_thread(void *arg)
{
    *(int *)arg = gettid();
}

TEST(a_close_without_drain_ends_tasks_that_have_not_begun)
{
    struct place p = place_new(LOOPER);
    struct gate g = {0};
    weft_task *t[10];
    int threads[10] = {0}, calls = 0;
    CHECK_INT(weft_executor_execute(p.x, passes, &g), ==, 0);
    AWAIT(seen(&g.begun));
    for (int i = 0; i < 10; i++) {
        t[i] = start_on(p.x, passes_as_task, &g);
        weft_task_finally(weft_task_finally(t[i], notes_thread, &threads[i]), counts_call, &calls);
    }
    CHECK_INT(weft_executor_close(p.x, false), ==, 0);
    for (int i = 0; i < 10; i++) {
        CHECK_INT(weft_task_await(t[i], NULL, WEFT_NOW), ==, -ECANCELED);
        CHECK_INT(threads[i], ==, gettid()); /* callbacks ran here */
        weft_task_free(t[i]);
    }
    put(&g.open, 1);
    place_free(&p);
    CHECK_INT(g.begun, ==, 1);
    CHECK_INT(calls, ==, 10);
}

TEST(a_close_without_drain_cancels_tasks_that_have_begun)
{
    for (enum kind k = NOOP; k < KINDS; k++) {
        struct place p = place_new(k), looper = place_new(LOOPER);
        struct gate g = {0};
        struct wait w[3];
        weft_task *awaited = start_on(looper.x, passes_as_task, &g), *t[3];
        for (int i = 0; i < 3; i++) {
            w[i] = (struct wait){.fn = in_await, .awaited = awaited};
            t[i] = start_on(p.x, waits_twice, &w[i]);
        }
        for (int i = 0; i < 3; i++)
            AWAIT(seen(&w[i].begun));
        CHECK_INT(weft_executor_free(p.x), ==, 0);
        for (int i = 0; i < 3; i++) {
            CHECK_INT(weft_task_await(t[i], NULL, WEFT_NOW), ==, -ECANCELED);
            CHECK_INT(w[i].done, ==, 1);
            weft_task_free(t[i]);
        }
        put(&g.open, 1);
        weft_task_free(awaited);
        place_free(&looper);
        if (p.sched)
            end_sched(p.sched);
    }
}

TEST(a_close_with_drain_lets_tasks_await_to_their_end)
{
    for (enum kind k = NOOP; k < KINDS; k++) {
        struct place p = place_new(k), looper = place_new(LOOPER);
        struct gate g = {0};
        weft_task *awaited = start_on(looper.x, passes_as_task, &g), *t[3];
        for (int i = 0; i < 3; i++)
            t[i] = start_on(p.x, awaits_arg, awaited);
        CHECK_INT(weft_executor_close(p.x, true), ==, 0);
        put(&g.open, 1);
        CHECK_INT(weft_executor_join(p.x, WEFT_FOREVER), ==, 0);
        for (int i = 0; i < 3; i++) {
            CHECK_INT(weft_task_await(t[i], NULL, WEFT_NOW), ==, 0);
            weft_task_free(t[i]);
        }
        weft_task_free(awaited);
        place_free(&looper);
        place_free(&p);
    }
}

struct timed {
    weft_task *awaited;
    weft_time deadline;
    int error, rc, code, begun;
};

static int awaits_until(void *arg, void **value)
{
    struct timed *d = arg;
    weft_error e;
    d->rc = weft_task_await(d->awaited, value, d->deadline);
    CHECK(d->deadline.ns == INT64_MIN || weft_now().ns >= d->deadline.ns); /* never early */
    d->error = weft_task_error(d->awaited, &e);
    return 0;
}

TEST(an_await_ends_at_its_deadline)
{
    for (enum kind k = NOOP; k < KINDS; k++) {
        struct place p = place_new(k), looper = place_new(LOOPER);
        struct gate g = {0};
        weft_task *awaited = start_on(looper.x, passes_as_task, &g);
        struct timed d[4] = {{.awaited = awaited, .deadline = WEFT_NOW},
                             {.awaited = awaited, .deadline = weft_in(-WEFT_MS)},
                             {.awaited = awaited, .deadline = weft_in(WEFT_MS)},
                             {.awaited = awaited, .deadline = weft_in(3 * WEFT_MS)}};
        weft_task *t[4];
        for (int i = 0; i < 4; i++)
            t[i] = start_on(p.x, awaits_until, &d[i]);
        for (int i = 0; i < 4; i++) {
            CHECK_INT(ends(t[i]), ==, 0);
            CHECK_INT(d[i].rc, ==, i == 0 ? -EAGAIN : -ETIMEDOUT);
            CHECK_INT(d[i].error, ==, -EAGAIN); /* the await's failure, not the task's */
            weft_task_free(t[i]);
        }
        put(&g.open, 1);
        weft_task_free(awaited);
        place_free(&looper);
        place_free(&p);
    }
}

/* Awaits it, and looks whether the failure was the task's. */
static int awaits_and_looks(void *arg, void **value)
{
    struct timed *d = arg;
    weft_error e = {.code = 1};
    put(&d->begun, 1);
    d->rc = weft_task_await(d->awaited, value, WEFT_FOREVER);
    d->error = weft_task_error(d->awaited, &e);
    d->code = e.code;
    return 0;
}

static void *awaits_and_looks_in_fiber(void *arg)
{
    void *value = NULL;
    awaits_and_looks(arg, &value);
    return arg;
}

/* Two awaits of a task: the awaiter of the first is cancelled, then the task. Both return -ECANCELED. */
static void cancel_either(enum kind k, weft_sched *fibers)
{
    struct place p = place_new(k), looper = place_new(LOOPER);
    struct gate g = {0};
    weft_task *front = start_on(looper.x, passes_as_task, &g), *t[2] = {NULL, NULL};
    struct timed d[2] = {{.awaited = start_on(looper.x, returns_arg, NULL)}, {.awaited = NULL}};
    d[1].awaited = d[0].awaited;
    weft_fiber *f = fibers ? go_on(fibers, awaits_and_looks_in_fiber, &d[0]) : NULL;
    for (int i = fibers ? 1 : 0; i < 2; i++)
        t[i] = start_on(p.x, awaits_and_looks, &d[i]);
    AWAIT(seen(&d[0].begun) && seen(&d[1].begun));
    CHECK_INT(f ? weft_cancel(f) : weft_task_cancel(t[0]), ==, 0);
    if (f)
        ended(f);
    else
        CHECK_INT(ends(t[0]), ==, 0);
    CHECK_INT(d[0].rc, ==, -ECANCELED);
    CHECK_INT(d[0].error, ==, -EAGAIN); /* await's own failure: the task has not ended */
    CHECK_INT(d[0].code, ==, 1);
    CHECK_INT(weft_task_cancel(d[0].awaited), ==, 0);
    put(&g.open, 1);
    CHECK_INT(ends(t[1]), ==, 0);
    CHECK_INT(d[1].rc, ==, -ECANCELED);
    CHECK_INT(d[1].error, ==, 0); /* the task's */
    CHECK_INT(d[1].code, ==, -ECANCELED);
    weft_task *all[] = {front, d[0].awaited, t[0], t[1]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        weft_task_free(all[i]);
    place_free(&looper);
    place_free(&p);
}

TEST(a_cancel_of_the_awaiter_and_of_the_task_are_told_apart)
{
    weft_sched *s = running_sched(1);
    for (enum kind k = NOOP; k < KINDS; k++) {
        cancel_either(k, NULL);
        cancel_either(k, s);
    }
    end_sched(s);
}

struct causes {
    weft_task *awaited;
    weft_cause why;
    int begun, before, after;
};

static int learns_cause(void *arg, void **value)
{
    struct causes *c = arg;
    (void)value;
    c->why.size = sizeof c->why;
    c->before = weft_cancel_cause(&c->why);
    more(&c->begun);
    int rc = weft_task_await(c->awaited, NULL, WEFT_FOREVER);
    c->after = weft_cancel_cause(&c->why);
    return rc;
}

static void check_cause(const struct causes *c, int kind, int code)
{
    CHECK_INT(c->before, ==, -ENOENT);
    CHECK_INT(c->after, ==, 0);
    CHECK_INT(c->why.kind, ==, kind);
    CHECK_INT(c->why.code, ==, code);
}

TEST(a_task_learns_whether_a_call_or_a_close_cancelled_it)
{
    for (enum kind k = NOOP; k < KINDS; k++) {
        struct place p = place_new(k), looper = place_new(LOOPER);
        struct gate g = {0};
        weft_task *held = start_on(looper.x, passes_as_task, &g);
        struct causes call = {.awaited = held}, close = {.awaited = held};
        weft_task *t[2] = {start_on(p.x, learns_cause, &call), start_on(p.x, learns_cause, &close)};
        AWAIT(seen(&call.begun) && seen(&close.begun));
        CHECK_INT(weft_task_cancel(t[0]), ==, 0);
        CHECK_INT(ends(t[0]), ==, -ECANCELED);
        CHECK_INT(weft_executor_close(p.x, false), ==, 0);
        CHECK_INT(ends(t[1]), ==, -ECANCELED);
        check_cause(&call, WEFT_CAUSE_CALL, -ECANCELED);
        check_cause(&close, WEFT_CAUSE_SHUTDOWN, -ECANCELED);
        CHECK(strstr(close.why.text, "executor"));
        weft_task_free(t[0]);
        weft_task_free(t[1]);
        put(&g.open, 1);
        CHECK_INT(ends(held), ==, 0);
        weft_task_free(held);
        place_free(&p);
        place_free(&looper);
    }
}

static void *cancels_its_scope(void *arg)
{
    for (enum kind k = NOOP; k < KINDS; k++) {
        struct place p = place_new(k), looper = place_new(LOOPER);
        struct gate g = {0};
        weft_task *held = start_on(looper.x, passes_as_task, &g), *t = NULL;
        struct causes c = {.awaited = held};
        weft_scope s;
        CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
        CHECK_INT(weft_task_start(&t, learns_cause, &c, &(weft_task_opts){.on = p.x, .scope = &s}), ==, 0);
        AWAIT(seen(&c.begun));
        CHECK_INT(weft_scope_cancel(&s, -EINTR, "enough of it"), ==, 0);
        CHECK_INT(weft_task_cancel(t), <=, 0); /* too late to be the cause */
        CHECK_INT(weft_scope_close(&s), ==, -ECANCELED);
        check_cause(&c, WEFT_CAUSE_CALL, -EINTR);
        CHECK_STR(c.why.text, "enough of it");
        weft_task_free(t);
        put(&g.open, 1);
        CHECK_INT(ends(held), ==, 0);
        weft_task_free(held);
        place_free(&p);
        place_free(&looper);
    }
    return arg;
}

TEST(a_task_learns_the_cause_of_its_scopes_cancel)
{
    in_a_fiber(1, cancels_its_scope, NULL);
    in_a_fiber(2, cancels_its_scope, NULL);
}

TESTS(task_cancel, a_cancel_ends_every_kind_of_wait, a_cancelled_task_is_refused_by_calls_that_would_not_have_to_wait,
      a_cancelled_fiber_is_refused_by_waits_for_tasks_that_would_not_have_to_wait,
      a_cancel_races_with_the_end_of_a_wait, a_cancelled_task_on_noop_continues_in_the_call,
      a_close_without_drain_ends_tasks_that_have_not_begun, a_close_without_drain_cancels_tasks_that_have_begun,
      a_close_with_drain_lets_tasks_await_to_their_end, an_await_ends_at_its_deadline,
      a_cancel_of_the_awaiter_and_of_the_task_are_told_apart, a_task_learns_whether_a_call_or_a_close_cancelled_it,
      a_task_learns_the_cause_of_its_scopes_cancel)
