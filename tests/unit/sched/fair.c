/*
 * A fiber that computes and gives way holds up others for its own computing only, however little it gives way: after every
 * turn of it that took long the worker looks at its clock, its timers, its descriptors and what threads have brought.
 *
 * The tests count turns of that fiber, not time: each takes 2 ms of the clock, on a busy machine too.
 */
#include <weft/chan.h>
#include <weft/hook.h>
#include <weft/timer.h>

#include "unit/sched/ground.h"

#define TURN (2 * WEFT_MS)

/* What came due in one turn has its own within the next two. Ten times that is still less than the passes of a worker that
 * looks around by its passes alone. */
enum { SOON = 20 };

static int turns;       /* of all that compute. atomic */
static int turns_on[2]; /* the same, on each worker: a machine may take one CPU away for a while. atomic */
static int stop;        /* flag */

static void compute(weft_span d)
{
    for (int64_t until = real_now() + d; real_now() < until;)
        ;
}

static void *computes(void *arg)
{
    while (!seen(&stop)) {
        compute(TURN);
        more(&turns);
        more(&turns_on[weft_fiber_worker(weft_fiber_current())]);
        weft_yield();
    }
    return arg;
}

static void check_soon(int since, int neighbours)
{
    int waited = seen(&turns) - since;
    CHECK_INT(waited, <=, SOON * neighbours);
}

enum { TIMES = 10 };

static void sleep_beside(int neighbours)
{
    for (int i = 0; i < TIMES; i++) {
        int before = seen(&turns);
        CHECK_INT(weft_sleep(TURN / 2), ==, 0);
        check_soon(before, neighbours);
    }
}

static void notes(void *arg)
{
    put(arg, seen(&turns));
}

static int noted(const int *at)
{
    AWAIT(seen(at) >= 0); /* without a sleep, which would make the worker look at the time too */
    return seen(at);
}

static void time_beside(int neighbours)
{
    for (int i = 0; i < TIMES; i++) {
        weft_timer *t = NULL;
        int at = -1, before = seen(&turns);
        CHECK_INT(weft_timer_new(&t, TURN / 2, false, NULL, notes, &at), ==, 0);
        CHECK_INT(noted(&at) - before, <=, SOON * neighbours);
        weft_timer_free(t);
    }
}

/* Neighbours that compute, on a worker of their own with us. */
static void begin_neighbours(weft_fiber **f, int count)
{
    put(&stop, 0);
    for (int i = 0; i < count; i++)
        f[i] = go(computes, NULL);
    int before = seen(&turns);
    AWAIT(seen(&turns) >= before + 2 * count);
}

static void end_neighbours(weft_fiber **f, int count)
{
    put(&stop, 1);
    for (int i = 0; i < count; i++)
        ended(f[i]);
}

static void *sleeps_and_times(void *arg)
{
    weft_fiber *f[2];
    for (int count = 1; count <= 2; count++) { /* with two of them each hops to the other */
        begin_neighbours(f, count);
        sleep_beside(count);
        time_beside(count);
        end_neighbours(f, count);
    }
    return arg;
}

TEST(sleepers_and_timers_wait_for_one_turn_of_who_computes)
{
    in_a_fiber(1, sleeps_and_times, NULL);
}

TEST(so_they_do_under_every_policy)
{
    const weft_policy *const policies[] = {&weft_priority, &weft_sjf, &weft_hrrn, &weft_rr, &weft_edf};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        weft_sched_opts o = {.threads = 1, .policy = policies[i]};
        CHECK_INT(weft_run(sleeps_and_times, NULL, NULL, &o), ==, 0);
    }
    weft_sched_opts direct = {.threads = 1, .dispatch = WEFT_DIRECT};
    CHECK_INT(weft_run(sleeps_and_times, NULL, NULL, &direct), ==, 0);
}

/* Its time has come again before the others have had their turns. */
static void *sleeps_briefly(void *arg)
{
    int64_t limit = real_now() + AWAIT_SECONDS * WEFT_SEC;
    while (!seen(&stop) && real_now() < limit) {
        CHECK_INT(weft_sleep(WEFT_US), ==, 0);
        compute(100 * WEFT_US);
    }
    CHECK(seen(&stop));
    return arg;
}

static void *takes_turns_beside_short_sleeps(void *arg)
{
    enum { SLEEPERS = 8 };
    weft_fiber *f[SLEEPERS];
    weft_timer *t = NULL;
    int fired = -1;
    put(&stop, 0);
    for (int i = 0; i < SLEEPERS; i++)
        f[i] = go(sleeps_briefly, NULL);
    CHECK_INT(weft_timer_new(&t, WEFT_MS, false, NULL, notes, &fired), ==, 0);
    for (int i = 0; i < 20; i++)
        weft_yield();
    noted(&fired);
    put(&stop, 1);
    for (int i = 0; i < SLEEPERS; i++)
        ended(f[i]);
    weft_timer_free(t);
    return arg;
}

TEST(sleepers_that_go_first_leave_some_turns_to_others)
{
    weft_sched_opts direct = {.threads = 1, .dispatch = WEFT_DIRECT};
    CHECK_INT(weft_run(takes_turns_beside_short_sleeps, NULL, NULL, &direct), ==, 0);
}

/* From here on the test's own thread brings work to workers that all compute. */
static void with_busy_workers(unsigned workers, void (*fn)(weft_sched *s))
{
    weft_sched *s = running_sched(workers);
    put(&stop, 0);
    weft_fiber *f[4];
    for (unsigned i = 0; i < 2 * workers; i++) {
        weft_attr attr = {.worker = (int)(i % workers) + 1};
        CHECK_INT(weft_sched_go(s, &f[i], &attr, computes, NULL), ==, 0);
    }
    int before = seen(&turns);
    AWAIT(seen(&turns) >= before + 4 * (int)workers);
    fn(s);
    put(&stop, 1);
    for (unsigned i = 0; i < 2 * workers; i++)
        ended(f[i]);
    end_sched(s);
}

/* When something that a thread brings has run, and where. */
struct note {
    int before[2];     /* turns_on, when the thread brought it */
    int worker, turns; /* where it ran, and turns_on of that worker then; -1: it has not. atomic */
};

static struct note new_note(void)
{
    return (struct note){{seen(&turns_on[0]), seen(&turns_on[1])}, -1, -1};
}

static void runs(void *arg)
{
    struct note *n = arg;
    n->worker = weft_fiber_worker(weft_fiber_current());
    put(&n->turns, seen(&turns_on[n->worker]));
}

static void *runs_in_fiber(void *arg)
{
    runs(arg);
    return arg;
}

static void check_note(const struct note *n)
{
    AWAIT(seen(&n->turns) >= 0);
    CHECK_INT(seen(&n->turns) - n->before[n->worker], <=, SOON * 2);
}

static void bring_functions(weft_sched *s)
{
    for (int i = 0; i < TIMES; i++) {
        struct note n = new_note();
        ended(go_on(s, runs_in_fiber, &n));
        check_note(&n);
    }
}

static void bring_timers(weft_sched *s)
{
    for (int i = 0; i < TIMES; i++) {
        weft_timer *t = NULL;
        struct note n = new_note();
        CHECK_INT(weft_sched_timer_new(s, &t, TURN / 2, false, NULL, runs, &n), ==, 0);
        check_note(&n);
        weft_timer_free(t);
    }
}

TEST(what_a_thread_brings_waits_for_one_turn_of_who_computes)
{
    with_busy_workers(1, bring_functions);
    with_busy_workers(2, bring_functions);
}

/* The workers have nothing that is due, until then. */
TEST(a_timer_that_a_thread_adds_waits_for_one_turn_of_who_computes)
{
    with_busy_workers(1, bring_timers);
    with_busy_workers(2, bring_timers);
}

/* A deadline of the loop itself. */
TEST(a_scheduler_that_is_run_until_a_deadline_ends_after_one_turn)
{
    weft_sched *s = new_sched(1, true);
    put(&stop, 0);
    weft_fiber *f[2] = {go_on(s, computes, NULL), go_on(s, computes, NULL)};
    CHECK_INT(weft_sched_run(s, weft_in(4 * TURN)), ==, -ETIMEDOUT);
    int before = seen(&turns);
    weft_time until = weft_in(TURN / 2);
    CHECK_INT(weft_sched_run(s, until), ==, -ETIMEDOUT);
    CHECK_INT(weft_now().ns, >=, until.ns);
    check_soon(before, 2);
    put(&stop, 1);
    end_sched(s);
    (void)f;
}

/* ---- calls that never have to wait ---- */

static weft_chan *channel; /* with room for two */

/* A neighbour of those; it counts its turns. */
static void *takes_turns(void *arg)
{
    while (!seen(&stop)) {
        more(&turns);
        weft_yield();
    }
    return arg;
}

static void send_and_receive(weft_time deadline)
{
    int value = 1;
    CHECK_INT(weft_chan_send(channel, &value, deadline), ==, 0);
    CHECK_INT(weft_chan_recv(channel, &value, deadline), ==, 0);
}

static void choose(weft_time deadline)
{
    int value = 1;
    weft_case sends = {.op = WEFT_SEND, .chan = channel, .value = &value};
    weft_case receives = {.op = WEFT_RECV, .chan = channel, .value = &value};
    CHECK_INT(weft_select(&sends, 1, deadline), ==, 0);
    CHECK_INT(weft_select(&receives, 1, deadline), ==, 0);
}

#define FLOOD (20 * WEFT_MS)

/* Whether the neighbour has its turn now and then while such calls are made. */
static bool gives_way(void (*call)(weft_time deadline))
{
    int before = seen(&turns);
    for (int64_t until = real_now() + 20 * WEFT_SEC; real_now() < until && seen(&turns) < before + 5;)
        call(WEFT_FOREVER);
    return seen(&turns) >= before + 5;
}

/* How often the neighbour had its turn while such calls were made. */
static int turns_during(void (*call)(weft_time deadline), weft_time deadline)
{
    weft_yield();
    int before = seen(&turns);
    for (int64_t until = real_now() + FLOOD; real_now() < until;)
        call(deadline);
    return seen(&turns) - before;
}

static void *floods_channels(void *arg)
{
    void (*const calls[])(weft_time deadline) = {send_and_receive, choose};
    CHECK_INT(weft_chan_new(&channel, sizeof(int), 2), ==, 0);
    put(&stop, 0);
    weft_fiber *neighbour = go(takes_turns, NULL);
    for (int timed = 0; timed < 2; timed++) {
        for (int i = 0; i < 2; i++) {
            CHECK(gives_way(calls[i]));
            CHECK_INT(turns_during(calls[i], WEFT_NOW), ==, 0);
            weft_hook_held(1);
            CHECK_INT(turns_during(calls[i], WEFT_FOREVER), ==, 0);
            weft_hook_held(-1);
        }
        weft_sleep(WEFT_MS); /* once more on a worker that has had a deadline */
    }
    put(&stop, 1);
    ended(neighbour);
    CHECK_INT(weft_chan_free(channel), ==, 0);
    return arg;
}

TEST(who_never_has_to_wait_for_a_channel_lets_others_run)
{
    in_a_fiber(1, floods_channels, NULL);
}

TESTS(sched_fair, sleepers_and_timers_wait_for_one_turn_of_who_computes, so_they_do_under_every_policy,
      sleepers_that_go_first_leave_some_turns_to_others, what_a_thread_brings_waits_for_one_turn_of_who_computes,
      a_timer_that_a_thread_adds_waits_for_one_turn_of_who_computes,
      a_scheduler_that_is_run_until_a_deadline_ends_after_one_turn, who_never_has_to_wait_for_a_channel_lets_others_run)
