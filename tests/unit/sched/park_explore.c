/*
 * The park protocol through many orders of its steps: phase, token and cancel bit as sched/wait.h and wait.c have them,
 * the commit of worker.c and the queues of pick.c. Thread 0 is a worker and the one fiber it has, by turns: a wait comes
 * to leave_waiting() below, which commits and works until the fiber is picked again. The other threads unpark, cancel
 * and wake it, and its deadlines pass by chance.
 *
 * In each wait it is made ready once, by one of them; no token is lost and none is used twice; no cancel is lost. Half of
 * the schedules have the light and heavy barriers of membarrier, the others fences on both sides.
 */
#define WF_EXPLORE 1

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "base/atomic.h"
#include "support/explore.h"

/* Who waits long for a lock lets others go on, which is a step as any other. */
#define sched_yield() wf_cpu_relax()
#define nanosleep(span, rest) wf_cpu_relax()

#define wf_barrier_is_asymmetric asymmetric
#include "base/barrier.h"
#define wf_barrier_heavy() (asymmetric ? wf_explore_heavy() : wf_fence())

#include "base/thread.h"
static struct wf_thread threads[EXPLORE_THREADS];
#define wf_thread_now() (&threads[explore_self()])

#include "sched/worker.h"
#include "base/clock.h"
static int64_t time_now(void);
#define wf_clock_now() time_now()
static void *leave_waiting(weft_fiber *f);
#define wf_leave_waiting leave_waiting

#include "base/lock.c"    // NOLINT(bugprone-suspicious-include): compiled for the explorer
#include "sched/pick.c"   // NOLINT(bugprone-suspicious-include)
#include "sched/shield.c" // NOLINT(bugprone-suspicious-include)
#include "sched/wait.c"   // NOLINT(bugprone-suspicious-include)
#include "sched/worker.c" // NOLINT(bugprone-suspicious-include)

#include "support/test.h"

bool asymmetric;

static struct wf_worker worker;

/* The clock of a worker that always looks: it stands still between two waits. */
static int64_t time_now(void)
{
    return worker.now;
}

static weft_sched scheduler;
static struct wf_timers no_timers = {.next = INT64_MAX};
static weft_fiber fiber;
static const weft_time soon = {1}, later = {2}; /* deadlines: leave_waiting decides when they have passed */

static struct wf_lock lock;
static struct wf_waiters waiters; /* guarded by: lock */

static uint32_t told[EXPLORE_THREADS]; /* a thread's contents, for the fiber. atomic: relaxed */
static int unparks, parks, wins;       /* calls, of them returned; waits that were won. Plain: between two steps */
static bool cancelled;                 /* a cancel has begun */

static void set_up(void)
{
    memset(threads, 0, sizeof threads);
    worker = (struct wf_worker){.sched = &scheduler, .thread = &threads[0], .solo = true, .timers = &no_timers};
    wf_wheel_init(&worker.wheel, 0);
    worker.first_due = INT64_MAX;
    scheduler = (weft_sched){.workers = 1, .policy = &weft_fifo};
    fiber = (weft_fiber){.home = &worker, .state = WEFT_FIBER_RUNNING, .sched = &scheduler};
    fiber.sleeper.fiber = &fiber;
    threads[0].worker = &worker;
    threads[0].fiber = &fiber;
    lock = (struct wf_lock){0};
    waiters = (struct wf_waiters){0};
    memset(told, 0, sizeof told);
    unparks = parks = wins = 0;
    cancelled = false;
    asymmetric = explore_random(2);
}

/* Named for the traces; and what the worker reads back plainly. */
static void begin_program(void)
{
    static bool begun;
    if (begun)
        return;
    begun = true;
    explore_plain(&worker, offsetof(struct wf_worker, inbox));
    explore_plain(&fiber.until, sizeof fiber.until);
    explore_name(&worker, sizeof worker, "worker");
    explore_name(&fiber.sleeper.phase, sizeof fiber.sleeper.phase, "phase");
    explore_name(&fiber.sleeper.bits, sizeof fiber.sleeper.bits, "bits");
    explore_name(&fiber, sizeof fiber, "fiber");
    explore_name(&lock, sizeof lock, "lock");
    explore_name(told, sizeof told, "told");
}

static void run_schedules(const struct explore *what)
{
    begin_program();
    explore(what);
}

/* The fiber is ready nowhere; its worker asks, or nobody runs any more. */
static void check_it_is_nowhere(void)
{
    CHECK_PTR(worker.queue.first, ==, NULL);
    CHECK_PTR(worker.slot, ==, NULL);
    CHECK_PTR(wf_load(&worker.inbox.top), ==, NULL);
    CHECK_INT(wf_wheel_count(&worker.wheel), ==, fiber.timed); /* an earlier wait's deadline may be left */
    CHECK(!fiber.timed || worker.first_due <= fiber.timer.when);
}

/* What run() and work() of worker.c do between two turns of a fiber. */
static void *leave_waiting(weft_fiber *f)
{
    weft_fiber *next;
    threads[0].fiber = NULL;
    wf_worker_commit(&worker, f);
    while ((next = wf_pick(&worker)) == NULL && !test_has_failed()) {
        if (wf_wheel_count(&worker.wheel) > 0 && explore_random(4) == 0) {
            worker.now += worker.now < later.ns && explore_random(2);
            expire(&worker);
        }
        wf_cpu_relax();
    }
    CHECK_PTR(next, ==, f);
    check_it_is_nowhere();
    CHECK_INT(wf_load(&f->sleeper.phase), ==, WF_SETTLED);
    wf_store(&f->state, WEFT_FIBER_RUNNING);
    threads[0].fiber = f;
    return NULL;
}

/* One park, which ended for a reason that there was. */
static int park(weft_time deadline)
{
    int rc = weft_park(deadline);
    CHECK(rc == 0 || (rc == -ETIMEDOUT && deadline.ns <= worker.now) || (rc == -ECANCELED && cancelled));
    parks += rc == 0;
    CHECK_INT(parks, <=, unparks);
    return rc;
}

static weft_time sometime(void)
{
    return explore_random(2) ? WEFT_FOREVER : explore_random(2) ? soon : later;
}

static void unparks_it(int self)
{
    wf_store(&told[self], 1);
    unparks++;
    weft_unpark(&fiber);
}

static void cancels_it(int self)
{
    (void)self;
    cancelled = true;
    wf_cancel_alone(&fiber, WEFT_CAUSE_CALL);
}

/* A token that is left is one that no park has used. */
static void check_tokens(void)
{
    check_it_is_nowhere();
    CHECK_INT(parks + !!(fiber.sleeper.bits & WF_TOKEN), <=, unparks);
}

/* ---- unpark and the deadline ---- */

static void parks_until_unparked(int self)
{
    (void)self;
    while (park(sometime()) != 0 && !test_has_failed())
        ;
    CHECK_INT(wf_load(&told[1]), ==, 1);
}

static void check_one(void)
{
    check_it_is_nowhere();
    CHECK_INT(parks, ==, 1);
    CHECK_INT(fiber.sleeper.bits, ==, 0);
}

TEST(one_unpark_ends_one_park)
{
    run_schedules(
        &(struct explore){.set_up = set_up, .threads = {parks_until_unparked, unparks_it}, .check = check_one});
}

static void parks_until_all_told(int self)
{
    (void)self;
    while ((!wf_load(&told[1]) || !wf_load(&told[2])) && !test_has_failed())
        park(sometime());
}

static void unparks_it_twice(int self)
{
    unparks++;
    weft_unpark(&fiber);
    unparks_it(self);
}

TEST(what_comes_before_an_unpark_is_seen_after_a_park)
{
    run_schedules(&(struct explore){
        .set_up = set_up, .threads = {parks_until_all_told, unparks_it_twice, unparks_it}, .check = check_tokens});
}

/* ---- cancel ---- */

static bool commits(struct wf_sleeper *me, void *arg)
{
    (void)me, (void)arg;
    return true;
}

static int wait_somehow(weft_time deadline)
{
    if (explore_random(2))
        return park(deadline);
    struct wf_sleeper own, *me = wf_sleeper(&own);
    int rc = wf_wait(me, "the test", commits, NULL, deadline);
    CHECK(rc == (deadline.ns <= worker.now ? -ETIMEDOUT : -ECANCELED) || (rc == -ECANCELED && cancelled));
    return rc;
}

static void waits_until_cancelled(int self)
{
    (void)self;
    while (wait_somehow(sometime()) != -ECANCELED && !test_has_failed())
        ;
    CHECK(weft_cancelled());
    int rc = wait_somehow(WEFT_FOREVER); /* for ever */
    if (rc == 0)
        rc = wait_somehow(WEFT_FOREVER);
    CHECK_INT(rc, ==, -ECANCELED);
}

TEST(a_cancel_ends_every_wait_from_then_on)
{
    run_schedules(&(struct explore){
        .set_up = set_up, .threads = {waits_until_cancelled, cancels_it, unparks_it}, .check = check_tokens});
}

TEST(a_cancel_that_comes_twice_wakes_once)
{
    run_schedules(&(struct explore){
        .set_up = set_up, .threads = {waits_until_cancelled, cancels_it, cancels_it}, .check = check_tokens});
}

/* ---- a wait for an object: wake, deadline and cancel ---- */

enum { BROUGHT = 7, WAITS = 2 };

static bool win(void)
{
    wf_lock(&lock);
    struct wf_waiter *w = wf_waiters_win_first(&waiters, BROUGHT);
    struct wf_sleeper *who = w ? w->who : NULL;
    wins += who != NULL;
    wf_unlock(&lock);
    if (who)
        wf_ready(who);
    return who;
}

static int wait_for_object(weft_time deadline)
{
    struct wf_sleeper own, *me = wf_sleeper(&own);
    wf_lock(&lock);
    wf_waiters_add(&waiters, &me->node, me);
    int rc = wf_wait_unlocking(me, "the object", &lock, deadline);
    if (rc < 0) {
        wf_lock(&lock);
        wf_waiters_remove(&waiters, &me->node);
        wf_unlock(&lock);
    }
    return rc;
}

static void waits_for_object(int self)
{
    (void)self;
    for (int i = 0; i < WAITS; i++) {
        weft_time deadline = i + 1 < WAITS ? sometime() : WEFT_FOREVER;
        int before = wins, rc = wait_for_object(deadline);
        CHECK(rc == BROUGHT || (rc == -ETIMEDOUT && deadline.ns <= worker.now) || (rc == -ECANCELED && cancelled));
        CHECK_INT(wins - before, ==, rc == BROUGHT);
    }
}

static void wakes_it_now_and_then(int self)
{
    (void)self;
    for (int tries = 0; tries < 6; tries++)
        win();
}

static void check_nothing_is_left(void)
{
    check_it_is_nowhere();
    CHECK_PTR(waiters.first, ==, NULL);
    CHECK_INT(lock.word, ==, 0);
}

TEST(one_of_wake_deadline_and_cancel_ends_a_wait)
{
    run_schedules(&(struct explore){.set_up = set_up,
                                    .threads = {waits_for_object, wakes_it_now_and_then, cancels_it, unparks_it},
                                    .check = check_nothing_is_left});
}

static void waits_deaf(int self)
{
    (void)self;
    struct wf_sleeper own, *me = wf_sleeper(&own);
    wf_lock(&lock);
    wf_waiters_add(&waiters, &me->node, me);
    wf_wait_deaf(me, "the object", &lock, WEFT_FOREVER);
    CHECK_INT(wins, ==, 1);
    CHECK_INT(park(WEFT_FOREVER) == 0 ? park(WEFT_FOREVER) : -ECANCELED, ==, -ECANCELED); /* the cancel has stayed */
}

static void wakes_it_once(int self)
{
    (void)self;
    while (!waiters.first && !test_has_failed()) /* it is about to wait, and has the lock until then */
        wf_cpu_relax();
    CHECK(win());
}

TEST(one_that_is_deaf_feels_the_cancel_in_its_next_wait)
{
    run_schedules(&(struct explore){.set_up = set_up,
                                    .threads = {waits_deaf, wakes_it_once, cancels_it, unparks_it},
                                    .check = check_nothing_is_left});
}

/* ---- a shield ---- */

/* The object or an unpark comes, its own deadline, or the shield's, which lets a cancel in. */
static void waits_in_a_shield(int self)
{
    (void)self;
    weft_time shield = explore_random(2) ? soon : later;
    fiber.shield = shield.ns;
    fiber.deaf = WF_DEAF_SHIELD;
    for (int i = 0; i < 2; i++) {
        weft_time deadline = sometime();
        struct wf_sleeper own, *me = wf_sleeper(&own);
        int rc;
        if (explore_random(2)) {
            rc = park(deadline);
        } else {
            wf_lock(&lock);
            wf_waiters_add(&waiters, &me->node, me);
            rc = wf_wait_unlocking(me, "the object", &lock, deadline);
            if (rc < 0) {
                wf_lock(&lock);
                wf_waiters_remove(&waiters, &me->node);
                wf_unlock(&lock);
            }
        }
        CHECK(rc != -ECANCELED || (cancelled && worker.now >= shield.ns));
        CHECK(rc != -ETIMEDOUT || worker.now >= deadline.ns);
    }
    fiber.deaf = 0;
    while (park(WEFT_FOREVER) == 0) /* the cancel has stayed */
        ;
}

TEST(a_shield_that_ends_in_a_wait_loses_no_cancel)
{
    run_schedules(&(struct explore){.set_up = set_up,
                                    .threads = {waits_in_a_shield, wakes_it_now_and_then, cancels_it, unparks_it},
                                    .check = check_nothing_is_left});
}

/* ---- the barriers themselves ---- */

static uint32_t x, y, seen_x, seen_y;

static void clear_xy(void)
{
    x = y = seen_x = seen_y = 0;
    asymmetric = explore_random(2);
}

static void light_side(int self)
{
    (void)self;
    wf_store(&x, 1);
    wf_barrier_light();
    seen_y = wf_load(&y);
}

static void heavy_side(int self)
{
    (void)self;
    wf_store(&y, 1);
    wf_barrier_heavy();
    seen_x = wf_load(&x);
}

static void check_one_saw_the_other(void)
{
    CHECK(seen_x || seen_y);
}

TEST(of_a_light_and_a_heavy_barrier_one_side_sees_the_other)
{
    run_schedules(&(struct explore){
        .set_up = clear_xy, .threads = {light_side, heavy_side}, .check = check_one_saw_the_other, .schedules = 5000});
}

TESTS(sched_park_explore, one_unpark_ends_one_park, what_comes_before_an_unpark_is_seen_after_a_park,
      a_cancel_ends_every_wait_from_then_on, a_cancel_that_comes_twice_wakes_once,
      one_of_wake_deadline_and_cancel_ends_a_wait, one_that_is_deaf_feels_the_cancel_in_its_next_wait,
      a_shield_that_ends_in_a_wait_loses_no_cancel, of_a_light_and_a_heavy_barrier_one_side_sees_the_other)
