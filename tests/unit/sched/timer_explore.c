/*
 * A timer that comes while its worker goes to sleep, through many orders of their steps: idle.c and timers.c as they are. A
 * sleep here ends by a wake, or at once if it is for no longer than to the timer's time: a worker that sleeps past that is
 * a schedule without an end.
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

#include "stack/cache.h"
#define wf_stack_look(thread, now) ((void)(thread), (void)(now), INT64_MAX) /* nothing to give back */

#include "base/lock.c"    // NOLINT(bugprone-suspicious-include): compiled for the explorer
#include "sched/idle.c"   // NOLINT(bugprone-suspicious-include)
#include "sched/timers.c" // NOLINT(bugprone-suspicious-include)

#include "support/test.h"

bool asymmetric;

enum { SOON = 50, LATER = 100, SOONER = 10 };

static union {
    weft_sched it;
    char bytes[sizeof(weft_sched) + sizeof(struct wf_worker *)];
} sched;
static struct wf_worker worker;
static struct wf_timers timers;

/* The kernel looks at the newest value and puts the caller to sleep in one step. */
static const uint32_t *sleeps_on;

int wf_futex_wait(const uint32_t *word, uint32_t value, int64_t deadline)
{
    if (wf_add((uint32_t *)(uintptr_t)word, 0) != value || deadline <= SOON)
        return 0;
    sleeps_on = word;
    while (sleeps_on && !test_has_failed())
        wf_cpu_relax();
    return 0;
}

void wf_futex_wake(const uint32_t *word, int count)
{
    (void)count;
    wf_cpu_relax();
    if (sleeps_on == word)
        sleeps_on = NULL;
}

static void set_up(void)
{
    memset(threads, 0, sizeof threads);
    memset(&sched, 0, sizeof sched);
    sched.it = (weft_sched){.workers = 1, .policy = &weft_fifo, .life = WF_RUNNING};
    sched.it.worker[0] = &worker;
    worker = (struct wf_worker){
        .sched = &sched.it, .thread = &threads[0], .timers = &timers, .settled = INT64_MAX / 2, .solo = true};
    worker.solo = explore_random(2);
    wf_wheel_init(&worker.wheel, 0);
    worker.first_due = INT64_MAX;
    threads[0].worker = &worker;
    timers = (struct wf_timers){.next = INT64_MAX, .known = 1, .worker = &worker, .due_end = &timers.due};
    sleeps_on = NULL;
    asymmetric = explore_random(2);
}

/* It has slept before, for a short time: who looks must not take that for the sleep that it begins. */
static void sleeps_until_it_is_there(int self)
{
    (void)self;
    wf_idle(&worker, SOONER);
    while (wf_load(&timers.next) > SOON && !test_has_failed())
        wf_idle(&worker, INT64_MAX);
}

static void comes(int64_t when)
{
    wf_lock(&timers.lock);
    if (when < wf_load(&timers.next))
        wf_timers_bring_forward(&timers, when);
    wf_unlock(&timers.lock);
}

static void adds_two(int self)
{
    (void)self;
    comes(LATER);
    comes(SOON);
}

static void adds_one(int self)
{
    (void)self;
    comes(SOON);
}

static void check(void)
{
    CHECK_INT(timers.next, ==, SOON);
    CHECK_INT(sched.it.idle_count, ==, 0);
}

static void run_schedules(const struct explore *what)
{
    static bool begun;
    if (!begun) {
        explore_plain(&worker, offsetof(struct wf_worker, inbox));
        explore_plain(&sched.it.idle_count, sizeof sched.it.idle_count);
        explore_name(&worker.driver, sizeof worker.driver, "asleep");
        explore_name(&worker.sleeps_until, sizeof worker.sleeps_until, "sleeps_until");
        explore_name(&timers, sizeof timers, "timers");
        explore_name(&worker, sizeof worker, "worker");
        explore_name(&sched, sizeof sched, "sched");
    }
    begun = true;
    explore(what);
}

TEST(no_worker_sleeps_past_a_timer_that_came_meanwhile)
{
    run_schedules(&(struct explore){.set_up = set_up, .threads = {sleeps_until_it_is_there, adds_one}, .check = check});
}

TEST(nor_past_one_that_two_threads_raced_to_add)
{
    run_schedules(
        &(struct explore){.set_up = set_up, .threads = {sleeps_until_it_is_there, adds_two, adds_one}, .check = check});
}

TESTS(sched_timer_explore, no_worker_sleeps_past_a_timer_that_came_meanwhile,
      nor_past_one_that_two_threads_raced_to_add)
