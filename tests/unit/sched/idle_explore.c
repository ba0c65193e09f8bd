/*
 * Work and sleep through many orders of their steps: pick.c, idle.c and the giving of spawn.c as they are, under workers
 * that do nothing but pick and idle, and a plain thread that brings work. A sleep here ends by a wake and nothing else, but
 * for the naps of a lookout, which may end at any time.
 *
 * Every piece of work is done once, and none is left while all sleep: that would be a schedule without an end. More than
 * that: if all workers but one are busy, that one finds what there is to do.
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

#define LOOKOUT_LOOKS 2
#define wf_barrier_is_asymmetric asymmetric
#include "base/barrier.h"
#define wf_barrier_heavy() (asymmetric ? wf_explore_heavy() : wf_fence())

#include "base/thread.h"
static struct wf_thread threads[EXPLORE_THREADS];
#define wf_thread_now() (&threads[explore_self()])

#include "stack/cache.h"
#define wf_stack_look(thread, now) ((void)(thread), (void)(now), 0) /* nothing to give back */

#include "base/clock.h"
#define wf_clock_now() ((int64_t)1) /* a schedule is a function of its seed alone */

/* Now and then there is no memory for a ring that wants to grow. */
#include "base/sys.h"
static void *map(size_t bytes);
#define wf_sys_map map

#include "base/ring.c"     // NOLINT(bugprone-suspicious-include)
#include "base/lock.c"     // NOLINT(bugprone-suspicious-include): compiled for the explorer
#include "sched/idle.c"    // NOLINT(bugprone-suspicious-include)
#include "sched/lookout.c" // NOLINT(bugprone-suspicious-include)
#include "sched/pick.c"    // NOLINT(bugprone-suspicious-include)
#include "sched/spawn.c"   // NOLINT(bugprone-suspicious-include)

#include "support/test.h"

enum { WORKERS = 3, PIECES = 5 };

bool asymmetric;

static union {
    weft_sched it;
    char bytes[sizeof(weft_sched) + WORKERS * sizeof(struct wf_worker *)];
} sched;
static struct wf_worker workers[WORKERS];
static struct wf_timers no_timers = {.next = INT64_MAX};
static weft_fiber pieces[PIECES];
static int made, done, times[PIECES]; /* plain: between two steps */
static bool only_offers;              /* every piece wakes one that may move, and brings nothing else */
static bool busy; /* workers are busy until others have begun what they could: all but the last worker */

/* ---- the kernel's part ---- */

static const uint32_t *sleeps_on[EXPLORE_THREADS];

/* The kernel looks at the newest value and puts the caller to sleep in one step. */
int wf_futex_wait(const uint32_t *word, uint32_t value, int64_t deadline)
{
    (void)deadline;
    int self = explore_self();
    if (wf_add((uint32_t *)(uintptr_t)word, 0) != value)
        return 0;
    sleeps_on[self] = word;
    while (sleeps_on[self] && !test_has_failed()) {
        wf_cpu_relax();
        if (threads[self].worker && threads[self].worker->lookout && explore_random(2) == 0)
            sleeps_on[self] = NULL;
    }
    return 0;
}

void wf_futex_wake(const uint32_t *word, int count)
{
    (void)count; /* one thread at most sleeps on a word here */
    wf_cpu_relax();
    for (int i = 0; i < EXPLORE_THREADS; i++) {
        if (sleeps_on[i] == word)
            sleeps_on[i] = NULL;
    }
}

static void *maps[2][32];
static unsigned mapped;

static void *map(size_t bytes)
{
    bool may = explore_random(2) && mapped < sizeof maps / sizeof maps[0] && bytes <= sizeof maps[0];
    return may ? maps[mapped++] : NULL;
}

/* ---- the pieces of work ---- */

static void set_up_of(unsigned count)
{
    memset(threads, 0, sizeof threads);
    memset(&sched, 0, sizeof sched);
    sched.it = (weft_sched){.workers = count, .policy = &weft_fifo, .life = WF_RUNNING};
    for (unsigned i = 0; i < count; i++) {
        workers[i] = (struct wf_worker){
            .sched = &sched.it, .thread = &threads[i], .index = i, .random = i, .timers = &no_timers};
        wf_ring_init(&workers[i].ring);
        wf_wheel_init(&workers[i].wheel, 0);
        workers[i].first_due = INT64_MAX;
        sched.it.worker[i] = &workers[i];
        threads[i].worker = &workers[i];
    }
    memset(pieces, 0, sizeof pieces);
    memset(times, 0, sizeof times);
    memset(sleeps_on, 0, sizeof sleeps_on);
    memset(maps, 0, sizeof maps);
    mapped = 0;
    made = done = 0;
    only_offers = false;
    busy = explore_random(2);
    asymmetric = explore_random(2);
}

static void set_up_two(void)
{
    set_up_of(2);
}

static void set_up_three(void)
{
    set_up_of(3);
}

static void set_up_offers(void)
{
    set_up_of(3);
    only_offers = busy = true;
}

/* Brings one more, for anybody (NULL) or bound to a worker. */
static void bring_to(struct wf_worker *w)
{
    weft_fiber *f = &pieces[made++];
    f->bound = w != NULL;
    f->home = w;
    CHECK_INT(give(&sched.it, f), ==, 0);
}

static void bring(bool bound)
{
    bring_to(bound ? &workers[explore_random(sched.it.workers)] : NULL);
}

/* As if the piece that runs had woken one that may move: it has a stack, and waits without a deadline. */
static void wake_one_that_moves(int self)
{
    static weft_coro stack;
    weft_fiber *f = &pieces[made++];
    f->flags = WEFT_MIGRATE;
    f->coro = &stack;
    f->until = INT64_MAX;
    f->home = &workers[self];
    wf_worker_woken(&workers[self], f);
}

/* Whether something that anybody could do waits to be begun. */
static bool some_wait(void)
{
    for (int i = 0; i < made; i++) {
        if (!pieces[i].bound && times[i] == 0)
            return true;
    }
    return false;
}

/* As end_threads() of life.c. */
static void end_all(void)
{
    wf_store_release(&sched.it.over, 1);
    wf_barrier_light();
    for (unsigned i = 0; i < sched.it.workers; i++)
        wf_driver_wake(&sched.it.worker[i]->driver);
}

static void do_piece(int self, weft_fiber *f)
{
    struct wf_counts *counts = &workers[self].counts;
    threads[self].fiber = f;
    wf_store(&counts->switches, counts->switches + 1);
    CHECK_INT(times[f - pieces]++, ==, 0);
    CHECK(!f->bound || f->home == &workers[self]);
    for (unsigned n = only_offers ? 1 : 1 + explore_random(2); n > 0 && made < PIECES; n--)
        if (only_offers || explore_random(2))
            wake_one_that_moves(self);
        else
            bring(explore_random(3) == 0);
    while (busy && self + 1 < (int)sched.it.workers && some_wait() && !test_has_failed())
        wf_cpu_relax();
    threads[self].fiber = NULL;
    if (++done == PIECES)
        end_all();
}

/* As work() of worker.c. */
static void works(int self)
{
    struct wf_worker *w = &workers[self];
    while (!wf_load_acquire(&sched.it.over) && !test_has_failed()) {
        weft_fiber *f = wf_pick(w);
        if (f)
            do_piece(self, f);
        else
            wf_idle(w, INT64_MAX);
    }
    if (w->searching)
        wf_idle_found(w);
}

static void brings_from_outside(int self)
{
    (void)self;
    bring(explore_random(3) == 0);
    if (explore_random(2) && made < PIECES)
        bring(explore_random(3) == 0);
}

/* While one worker computes and has an offer, another one that may search for work is given something of its own. */
static void brings_to_those_who_compute(int self)
{
    (void)self;
    bring_to(&workers[0]);
    if (made < PIECES)
        bring_to(&workers[1]);
}

static void check(void)
{
    CHECK_INT(done, ==, PIECES);
    for (int i = 0; i < PIECES; i++)
        CHECK_INT(times[i], ==, 1);
    CHECK_INT(sched.it.idle_count, ==, 0);
    CHECK_INT(sched.it.searching, ==, 0);
    CHECK_INT(sched.it.lookout, ==, 0);
    CHECK_PTR(sched.it.idle, ==, NULL);
    CHECK_INT(sched.it.injected.count, ==, 0);
}

/* Named for the traces; and what its writer reads back plainly. */
static void run_schedules(const struct explore *what)
{
    static bool begun;
    static const char *const names[WORKERS] = {"worker 0", "worker 1", "worker 2"};
    for (int i = 0; i < WORKERS && !begun; i++) {
        explore_plain(&workers[i], offsetof(struct wf_worker, inbox));
        explore_plain(&workers[i].nudge, sizeof workers[i].nudge);
        explore_name(&workers[i].inbox, sizeof workers[i].inbox, "inbox");
        explore_name(&workers[i].driver, sizeof workers[i].driver, "asleep");
        explore_name(&workers[i].ring, sizeof workers[i].ring, "ring");
        explore_name(&workers[i], sizeof workers[i], names[i]);
    }
    if (!begun) {
        explore_plain(&sched.it.injected, sizeof sched.it.injected);
        explore_plain(&sched.it.spawned_outside, sizeof sched.it.spawned_outside);
        explore_plain(&sched.it.idle_count, sizeof sched.it.idle_count);
        explore_plain(pieces, sizeof pieces);
        explore_name(&sched.it.idle_count, sizeof sched.it.idle_count, "idle_count");
        explore_name(&sched.it.searching, sizeof sched.it.searching, "searching");
        explore_name(&sched, sizeof sched, "sched");
        explore_name(pieces, sizeof pieces, "pieces");
    }
    begun = true;
    struct explore all = *what;
    all.plain_stacks = true; /* a list that is being made */
    explore(&all);
}

TEST(no_work_is_left_when_two_workers_sleep)
{
    run_schedules(
        &(struct explore){.set_up = set_up_two, .threads = {works, works, brings_from_outside}, .check = check});
}

TEST(no_work_is_left_when_three_workers_sleep)
{
    run_schedules(&(struct explore){
        .set_up = set_up_three, .threads = {works, works, works, brings_from_outside}, .check = check});
}

TEST(no_offer_is_left_while_one_worker_sleeps)
{
    run_schedules(&(struct explore){
        .set_up = set_up_offers, .threads = {works, works, works, brings_to_those_who_compute}, .check = check});
}

TESTS(sched_idle_explore, no_work_is_left_when_two_workers_sleep, no_work_is_left_when_three_workers_sleep,
      no_offer_is_left_while_one_worker_sleeps)
