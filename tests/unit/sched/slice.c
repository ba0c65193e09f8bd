/*
 * The time slice: a fiber that computes is put back at the first call of the library after its slice is used up, and
 * what waits for its time is not forgotten meanwhile. One worker, on a clock that the fibers move.
 */
#include <weft/chan.h>
#include <weft/sync.h>

#include "unit/sched/ground.h"

/* Each step takes as long as it says, and the time is somebody's. */
struct runner {
    weft_span step, until, ran;
    int turns;
};

static struct runner *last;

static weft_sched *begin(const weft_span *slice)
{
    weft_sched *s = NULL;
    last = NULL;
    clock_begin();
    CHECK_INT(weft_sched_new(
                  &s, &(weft_sched_opts){.threads = 1, .use_caller = true, .policy = &weft_rr, .policy_arg = slice}),
              ==, 0);
    return s;
}

static void end(weft_sched *s)
{
    end_sched(s);
    clock_end();
}

static void *computes(void *arg)
{
    struct runner *r = arg;
    while (clock_passed() < r->until) {
        if (last != r) {
            r->turns++;
            last = r;
        }
        clock_forward(r->step);
        r->ran += r->step;
        weft_checkpoint();
    }
    return NULL;
}

TEST(two_that_compute_share_the_time_by_halves)
{
    struct runner r[2] = {{.step = WEFT_MS / 10, .until = 2 * WEFT_SEC}, {.step = WEFT_MS / 3, .until = 2 * WEFT_SEC}};
    weft_sched *s = begin(NULL);
    for (int i = 0; i < 2; i++)
        CHECK_INT(weft_sched_go(s, NULL, NULL, computes, &r[i]), ==, 0);
    end(s);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(r[i].ran, >=, 900 * WEFT_MS);
        CHECK_INT(r[i].ran, <=, 1100 * WEFT_MS);
        CHECK_INT(r[i].turns, >=, 180);
        CHECK_INT(r[i].turns, <=, 200);
    }
}

static void share_with(const weft_span *slice, int turns)
{
    struct runner r[2] = {{.step = WEFT_MS, .until = 200 * WEFT_MS}, {.step = WEFT_MS, .until = 200 * WEFT_MS}};
    weft_sched *s = begin(slice);
    for (int i = 0; i < 2; i++)
        CHECK_INT(weft_sched_go(s, NULL, NULL, computes, &r[i]), ==, 0);
    end(s);
    for (int i = 0; i < 2; i++)
        CHECK_INT(r[i].turns, ==, turns);
}

TEST(a_slice_is_5_ms_and_an_option)
{
    const weft_span slice = 20 * WEFT_MS;
    share_with(NULL, 20);
    share_with(&slice, 5);
}

/* Every call of the library is a checkpoint. */
static void does_nothing(void *arg)
{
    (void)arg;
}

static weft_fiber *another; /* that has ended, and waits for its join */

static void call_cancelled(void)
{
    CHECK(!weft_cancelled());
}

static void call_unpark(void)
{
    weft_unpark(another);
}

static void call_park(void)
{
    CHECK_INT(weft_park(WEFT_NOW), ==, -EAGAIN);
}

static void call_join(void)
{
    CHECK_INT(weft_join(weft_fiber_current(), NULL, WEFT_NOW), ==, -EDEADLK);
}

static void call_cancel(void)
{
    CHECK_INT(weft_cancel(another), ==, -ESRCH);
}

static void call_detach(void)
{
    CHECK_INT(weft_detach(NULL), ==, -EINVAL);
}

static void call_go(void)
{
    CHECK_INT(weft_go(returns_at_once, NULL), ==, 0);
}

static void call_go_with(void)
{
    CHECK_INT(weft_go_with(NULL, &(weft_attr){.name = "two", .priority = 1}, returns_at_once, NULL), ==, 0);
}

static void call_sched_go(void)
{
    CHECK_INT(weft_sched_go(weft_sched_current(), NULL, NULL, returns_at_once, NULL), ==, 0);
}

static void call_fiber_new(void)
{
    weft_fiber *f = NULL;
    CHECK_INT(weft_fiber_new(&f, NULL, returns_at_once, NULL), ==, 0);
    CHECK_INT(weft_detach(f), ==, 0);
}

static void call_submit(void)
{
    CHECK_INT(weft_sched_submit(weft_sched_current(), another, 0), ==, -ESRCH);
}

static void call_current(void)
{
    CHECK(weft_fiber_current() != NULL);
}

static void call_sched_current(void)
{
    CHECK(weft_sched_current() != NULL);
}

static void call_state(void)
{
    CHECK_INT(weft_fiber_state(another), ==, WEFT_FIBER_DONE);
}

static void call_stats(void)
{
    CHECK_INT(figures(weft_sched_current()).workers, ==, 1);
}

static void call_of_the_record(void)
{
    CHECK(weft_fiber_id(another) != 0);
}

static void call_now(void)
{
    CHECK_INT(weft_now().ns, >, 0);
}

static void call_in(void)
{
    CHECK_INT(weft_in(WEFT_MS).ns, >, 0);
}

static void call_mutex(void)
{
    static weft_mutex m;
    CHECK_INT(weft_mutex_lock(&m, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_mutex_unlock(&m), ==, 0);
}

static void call_rmutex(void)
{
    static weft_rmutex m;
    CHECK_INT(weft_rmutex_lock(&m, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_rmutex_unlock(&m), ==, 0);
}

static void call_read_lock(void)
{
    static weft_rwlock l;
    CHECK_INT(weft_rwlock_read_lock(&l, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_rwlock_unlock(&l), ==, 0);
}

static void call_write_lock(void)
{
    static weft_rwlock l;
    CHECK_INT(weft_rwlock_write_lock(&l, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_rwlock_unlock(&l), ==, 0);
}

static void call_signal(void)
{
    static weft_cond c;
    CHECK_INT(weft_cond_signal(&c), ==, 0);
}

static void call_post(void)
{
    static weft_sem s;
    CHECK_INT(weft_sem_post(&s), ==, 0);
}

static void call_try(void)
{
    static weft_sem s;
    CHECK_INT(weft_sem_wait(&s, WEFT_NOW), ==, -EAGAIN);
}

static void call_is_set(void)
{
    static weft_event e;
    CHECK(!weft_event_is_set(&e));
}

static void call_waitgroup(void)
{
    static weft_waitgroup g;
    CHECK_INT(weft_waitgroup_wait(&g, WEFT_FOREVER), ==, 0);
}

static void call_once(void)
{
    static weft_once o;
    CHECK_INT(weft_once_do(&o, does_nothing, NULL, WEFT_FOREVER), ==, 0);
}

static weft_chan *channel; /* with room for all that is sent */

static void call_send(void)
{
    CHECK_INT(weft_chan_send(channel, &(int){1}, WEFT_NOW), ==, 0);
}

static void call_receive(void)
{
    int value;
    CHECK_INT(weft_chan_recv(channel, &value, WEFT_NOW), ==, -EAGAIN);
}

static void call_select(void)
{
    int value;
    CHECK_INT(weft_select(&(weft_case){.op = WEFT_RECV, .chan = channel, .value = &value}, 1, WEFT_NOW), ==, -EAGAIN);
}

static const struct {
    const char *name;
    void (*call)(void);
} calls[] = {
    {"weft_checkpoint", weft_checkpoint},
    {"weft_cancelled", call_cancelled},
    {"weft_unpark", call_unpark},
    {"weft_park", call_park},
    {"weft_join", call_join},
    {"weft_cancel", call_cancel},
    {"weft_detach", call_detach},
    {"weft_go", call_go},
    {"weft_go_with", call_go_with},
    {"weft_sched_go", call_sched_go},
    {"weft_fiber_new", call_fiber_new},
    {"weft_sched_submit", call_submit},
    {"weft_fiber_current", call_current},
    {"weft_sched_current", call_sched_current},
    {"weft_fiber_state", call_state},
    {"weft_sched_stats", call_stats},
    {"weft_fiber_id", call_of_the_record},
    {"weft_now", call_now},
    {"weft_in", call_in},
    {"weft_mutex_lock", call_mutex},
    {"weft_rmutex_lock", call_rmutex},
    {"weft_rwlock_read_lock", call_read_lock},
    {"weft_rwlock_write_lock", call_write_lock},
    {"weft_cond_signal", call_signal},
    {"weft_sem_post", call_post},
    {"weft_sem_wait", call_try},
    {"weft_event_is_set", call_is_set},
    {"weft_waitgroup_wait", call_waitgroup},
    {"weft_once_do", call_once},
    {"weft_chan_recv", call_receive},
    {"weft_select", call_select},
    {"weft_chan_send", call_send},
};

struct caller {
    void (*call)(void);
    int calls, *beside;
};

static void *calls_after_its_slice(void *arg)
{
    struct caller *c = arg;
    clock_forward(4 * WEFT_MS);
    c->call(); /* within its slice: it goes on */
    CHECK_INT(*c->beside, ==, 0);
    clock_forward(2 * WEFT_MS);
    c->call();
    c->calls = *c->beside;
    return NULL;
}

TEST(every_call_is_a_checkpoint)
{
    CHECK_INT(weft_chan_new(&channel, sizeof(int), 8), ==, 0);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        int beside = 0;
        struct caller c = {.call = calls[i].call, .beside = &beside};
        weft_sched *s = begin(NULL);
        another = go_on(s, returns_at_once, NULL);
        CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, 0);
        CHECK_INT(weft_sched_go(s, NULL, NULL, calls_after_its_slice, &c), ==, 0);
        CHECK_INT(weft_sched_go(s, NULL, NULL, counts, &beside), ==, 0);
        CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, 0);
        ended(another);
        end(s);
        if (c.calls != 1)
            test_failed(__FILE__, __LINE__, "%s did not give way though the slice was used up", calls[i].name);
    }
    CHECK_INT(weft_chan_free(channel), ==, 0);
}

/* Beside two that compute, what waits for its time is late by a slice or two, and no more. */
static weft_span late;
static int slept;

static void *computes_beside(void *arg)
{
    while (!slept) {
        clock_forward(WEFT_MS / 2);
        weft_checkpoint();
    }
    return arg;
}

static void *sleeps_beside(void *arg)
{
    for (int i = 0; i < 10; i++) {
        weft_time until = weft_in(7 * WEFT_MS);
        CHECK_INT(weft_sleep_until(until), ==, 0);
        weft_span by = weft_now().ns - until.ns;
        late = by > late ? by : late;
    }
    slept = 1;
    return arg;
}

TEST(a_sleeper_beside_two_that_compute_is_late_by_few_slices)
{
    weft_sched *s = begin(NULL);
    late = slept = 0;
    for (int i = 0; i < 2; i++)
        CHECK_INT(weft_sched_go(s, NULL, NULL, computes_beside, NULL), ==, 0);
    CHECK_INT(weft_sched_go(s, NULL, NULL, sleeps_beside, NULL), ==, 0);
    end(s);
    CHECK_INT(late, <=, 15 * WEFT_MS);
}

/* In a coroutine inside of the fiber: the whole fiber gives way, and goes on there. */
static void *computes_in_a_coroutine(void *arg)
{
    weft_coro *c;
    void *value = NULL;
    CHECK_INT(weft_coro_new(&c, computes, arg, NULL), ==, 0);
    CHECK_INT(weft_coro_resume(c, NULL, &value), ==, 0);
    CHECK_INT(weft_coro_free(c), ==, 0);
    return value;
}

TEST(a_slice_ends_in_a_coroutine_too)
{
    struct runner r[2] = {{.step = WEFT_MS, .until = 200 * WEFT_MS}, {.step = WEFT_MS, .until = 200 * WEFT_MS}};
    weft_sched *s = begin(NULL);
    for (int i = 0; i < 2; i++)
        CHECK_INT(weft_sched_go(s, NULL, NULL, computes_in_a_coroutine, &r[i]), ==, 0);
    end(s);
    for (int i = 0; i < 2; i++)
        CHECK_INT(r[i].turns, ==, 20);
}

TESTS(sched_slice, two_that_compute_share_the_time_by_halves, a_slice_is_5_ms_and_an_option, every_call_is_a_checkpoint,
      a_sleeper_beside_two_that_compute_is_late_by_few_slices, a_slice_ends_in_a_coroutine_too)
