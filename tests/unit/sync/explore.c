/*
 * The objects of weft/sync.h and the settling of sleepers, as they are, through many orders of their steps: nothing is
 * lost, nothing is had twice, and who lets another go on does not touch the object after that.
 *
 * The threads are plain ones for the library, and sleep by our futex: a sleep ends at once for no reason, or by its
 * deadline if it has one, by chance. Who they are the library asks the coroutine.
 */
#define WF_EXPLORE 1

#include <sched.h>
#include <time.h>

#include "base/atomic.h"

/* Who waits long for a lock lets others go on, which is a step as any other. */
#define sched_yield() wf_cpu_relax()
#define nanosleep(span, rest) wf_cpu_relax()

/* Every operation of the sources goes on to watch(). */
static void watch(const void *p);
#define WATCHED(p, call)                                                                                               \
    ({                                                                                                                 \
        uintptr_t watched_result = (call);                                                                             \
        watch(p);                                                                                                      \
        watched_result;                                                                                                \
    })
#define wf_explore_load(p, size, acquire) WATCHED(p, wf_explore_load(p, size, acquire))
#define wf_explore_store(p, size, v, release) (wf_explore_store(p, size, v, release), watch(p))
#define wf_explore_exchange(p, size, v) WATCHED(p, wf_explore_exchange(p, size, v))
#define wf_explore_or(p, size, bits) WATCHED(p, wf_explore_or(p, size, bits))
#define wf_explore_and(p, size, bits) WATCHED(p, wf_explore_and(p, size, bits))
#define wf_explore_cas(p, size, expected, v) WATCHED(p, wf_explore_cas(p, size, expected, v))

#include "base/lock.c"  // NOLINT(bugprone-suspicious-include): compiled for the explorer
#include "sched/wait.c" // NOLINT(bugprone-suspicious-include)

#include <weft/coro.h>
#define wf_whoami() ((const void *)weft_coro_current())
#define wf_whoami_here() wf_whoami()

#include "sync/event.c" // NOLINT(bugprone-suspicious-include)
#include "sync/sem.c"   // NOLINT(bugprone-suspicious-include)
#define wait_sealed group_wait_sealed
#include "sync/waitgroup.c" // NOLINT(bugprone-suspicious-include)
#include "sync/once.c"      // NOLINT(bugprone-suspicious-include)
#undef WAITERS
#include "sync/mutex.c" // NOLINT(bugprone-suspicious-include)
#undef WAITERS
#define give_up rwlock_give_up
#define lock_slowly rwlock_lock_slowly
#include "sync/rwlock.c" // NOLINT(bugprone-suspicious-include)
#undef give_up
#define give_up cond_give_up
#include "sync/cond.c" // NOLINT(bugprone-suspicious-include)
#undef give_up
#define give_up barrier_give_up
#include "sync/barrier.c" // NOLINT(bugprone-suspicious-include)

#include <string.h>

#include "support/explore.h"
#include "support/test.h"

/* ---- what the sources stand on ---- */

static union {
    weft_mutex mutex;
    weft_rwlock rwlock;
    weft_sem sem;
    weft_waitgroup group;
    weft_once once;
    weft_event event;
    weft_barrier barrier;
    char bytes[32];
} it; /* the object that all are about */

static bool gone; /* `it` was released: whoever touches it now is wrong */

/* After the step, as others go before it. */
static void watch(const void *p)
{
    CHECK(!gone || (const char *)p < it.bytes || (const char *)p >= it.bytes + sizeof it);
}

int wf_futex_wait(const uint32_t *word, uint32_t value, int64_t deadline)
{
    (void)word, (void)value;
    wf_cpu_relax();
    return deadline != INT64_MAX && explore_random(8) == 0 ? -ETIMEDOUT : 0;
}

void wf_futex_wake(const uint32_t *word, int count)
{
    (void)word, (void)count;
    wf_cpu_relax();
}

static const weft_time soon = {1}; /* our futex decides when it has passed */

static int inside, passed, given; /* the tests' own; plain: between two steps */
static uint32_t contents;         /* written by who brings, read by who gets. atomic: relaxed */

static void clear(void)
{
    memset(&it, 0, sizeof it);
    gone = false;
    inside = passed = given = 0;
    contents = 0;
}

static void run(const struct explore *what)
{
    struct explore enough = *what;
    if (enough.schedules == 0)
        enough.schedules = 4000;
    explore(&enough);
}

/* Most waits are for ever; some give up first. */
#define WAIT_SOMEHOW(call, deadline)                                                                                   \
    do {                                                                                                               \
        weft_time deadline = soon;                                                                                     \
        if (explore_random(2) == 0 && (call) >= 0)                                                                     \
            break;                                                                                                     \
        deadline = WEFT_FOREVER;                                                                                       \
        CHECK_INT(call, >=, 0);                                                                                        \
    } while (0)

/* ---- the semaphore ---- */

static void clear_sem(void)
{
    clear();
    it.sem.count = explore_random(2) ? WF_SEALED : 0;
}

static void waits_for_the_sem_and_frees_it(int self)
{
    (void)self;
    WAIT_SOMEHOW(weft_sem_wait(&it.sem, deadline), deadline);
    gone = true;
    CHECK_INT(wf_load(&contents), ==, 1);
}

static void posts_with_contents(int self)
{
    (void)self;
    wf_store(&contents, 1);
    CHECK_INT(weft_sem_post(&it.sem), ==, 0);
}

TEST(post_does_not_touch_a_semaphore_that_its_waiter_frees)
{
    run(&(struct explore){.set_up = clear_sem, .threads = {waits_for_the_sem_and_frees_it, posts_with_contents}});
}

static void takes_soon(int self)
{
    (void)self;
    passed += weft_sem_wait(&it.sem, explore_random(2) ? soon : WEFT_NOW) == 0;
}

static void takes_at_last(int self)
{
    (void)self;
    CHECK_INT(weft_sem_wait(&it.sem, WEFT_FOREVER), ==, 0);
    passed++;
}

static void posts(int self)
{
    (void)self;
    CHECK_INT(weft_sem_post(&it.sem), ==, 0);
    given++;
}

static void check_permits(void)
{
    CHECK_INT(it.sem.count & ~WF_SEALED, ==, given - passed);
    CHECK_PTR(it.sem.waiters.first, ==, NULL);
}

TEST(permits_are_neither_lost_nor_made)
{
    run(&(struct explore){
        .set_up = clear_sem, .threads = {takes_soon, takes_at_last, posts, posts}, .check = check_permits});
}

/* ---- the event ---- */

static void clear_event(void)
{
    clear();
    it.event.word = explore_random(2) ? WF_SEALED : 0;
}

static void waits_for_the_event_and_frees_it(int self)
{
    (void)self;
    if (explore_random(3) == 0) {
        while (!weft_event_is_set(&it.event))
            wf_cpu_relax();
    } else {
        WAIT_SOMEHOW(weft_event_wait(&it.event, deadline), deadline);
    }
    gone = true;
    CHECK_INT(wf_load(&contents), ==, 1);
}

static void sets_with_contents(int self)
{
    (void)self;
    wf_store(&contents, 1);
    CHECK_INT(weft_event_set(&it.event), ==, 0);
}

TEST(set_does_not_touch_an_event_that_its_waiter_frees)
{
    run(&(struct explore){.set_up = clear_event, .threads = {waits_for_the_event_and_frees_it, sets_with_contents}});
}

static void waits_for_the_event(int self)
{
    WAIT_SOMEHOW(weft_event_wait(&it.event, deadline), deadline);
    (void)self;
}

static void sets_after_a_reset(int self)
{
    (void)self;
    CHECK_INT(weft_event_reset(&it.event), ==, 0);
    CHECK_INT(weft_event_set(&it.event), ==, 0);
}

static void check_set(void)
{
    CHECK(it.event.word & WF_EVENT_SET);
    CHECK_PTR(it.event.waiters.first, ==, NULL);
}

TEST(a_set_that_follows_a_reset_lets_all_go_on)
{
    run(&(struct explore){.set_up = clear_event,
                          .threads = {waits_for_the_event, waits_for_the_event, sets_after_a_reset},
                          .check = check_set});
}

/* ---- the waitgroup ---- */

static void clear_group(void)
{
    clear();
    it.group.count = 2 | (explore_random(2) ? WF_SEALED : 0);
}

static void waits_for_the_group_and_frees_it(int self)
{
    (void)self;
    WAIT_SOMEHOW(weft_waitgroup_wait(&it.group, deadline), deadline);
    gone = true;
    CHECK_INT(passed, ==, 2);
}

static void is_done(int self)
{
    (void)self;
    passed++;
    CHECK_INT(weft_waitgroup_done(&it.group), ==, 0);
}

TEST(done_does_not_touch_a_waitgroup_that_its_waiter_frees)
{
    run(&(struct explore){.set_up = clear_group, .threads = {is_done, is_done, waits_for_the_group_and_frees_it}});
}

/* ---- owners: the last one frees it ---- */

static bool tried; /* the one that gives up for good has returned */

static void clear_mutex(void)
{
    clear();
    tried = false;
}

static void uses_the_mutex(int self)
{
    (void)self;
    WAIT_SOMEHOW(weft_mutex_lock(&it.mutex, deadline), deadline);
    CHECK_INT(inside++, ==, 0);
    CHECK_INT(wf_load(&contents), ==, passed); /* what the one before has written */
    wf_store(&contents, (uint32_t)passed + 1);
    bool last = ++passed == 2 && tried;
    inside--;
    CHECK_INT(weft_mutex_unlock(&it.mutex), ==, 0);
    if (last)
        gone = true;
}

static void tries_the_mutex(int self)
{
    (void)self;
    if (weft_mutex_lock(&it.mutex, soon) == 0) {
        CHECK_INT(inside, ==, 0);
        CHECK_INT(weft_mutex_unlock(&it.mutex), ==, 0);
    }
    tried = true;
}

TEST(one_has_the_mutex_and_the_last_may_free_it)
{
    run(&(struct explore){.set_up = clear_mutex,
                          .threads = {uses_the_mutex, uses_the_mutex, tries_the_mutex},
                          .schedules = 40000}); /* one in 20,000 finds the unlock that comes too late */
}

static void reads(int self)
{
    (void)self;
    WAIT_SOMEHOW(weft_rwlock_read_lock(&it.rwlock, deadline), deadline);
    CHECK_INT(inside, >=, 0);
    inside++;
    CHECK_INT(wf_load(&contents), ==, given);
    passed++;
    inside--;
    CHECK_INT(weft_rwlock_unlock(&it.rwlock), ==, 0);
}

static void writes(int self)
{
    (void)self;
    WAIT_SOMEHOW(weft_rwlock_write_lock(&it.rwlock, deadline), deadline);
    CHECK_INT(inside, ==, 0);
    inside = -1;
    wf_store(&contents, (uint32_t)++given);
    bool last = ++passed == 4;
    inside = 0;
    CHECK_INT(weft_rwlock_unlock(&it.rwlock), ==, 0);
    if (last)
        gone = true;
}

static void check_rwlock(void)
{
    CHECK_INT(passed, ==, 4);
    CHECK_INT(it.rwlock.word, ==, 0);
    CHECK_PTR(it.rwlock.waiters.first, ==, NULL);
}

TEST(readers_xor_a_writer_and_a_writer_that_is_the_last_may_free_it)
{
    run(&(struct explore){.set_up = clear, .threads = {reads, writes, reads, writes}, .check = check_rwlock});
}

static void happens(void *arg)
{
    *(bool *)arg = true;
    wf_store(&contents, 1);
    wf_cpu_relax();
    passed++;
}

static void needs_it(int self)
{
    (void)self;
    bool ran = false;
    WAIT_SOMEHOW(weft_once_do(&it.once, happens, &ran, deadline), deadline);
    CHECK_INT(passed, ==, 1);
    CHECK_INT(wf_load(&contents), ==, 1);
    if (!ran && ++given == 2) /* both others have it: only the one that ran it may still be in there */
        gone = true;
}

TEST(it_happens_once_and_those_that_waited_may_free_it)
{
    run(&(struct explore){.set_up = clear, .threads = {needs_it, needs_it, needs_it}});
}

/* ---- the condition ---- */

static weft_cond cond;

static void clear_cond(void)
{
    clear();
    memset(&cond, 0, sizeof cond);
}

/* Takes one of what is given, if it comes in time. */
static void take_one(weft_time deadline)
{
    int rc = 0;
    CHECK_INT(weft_mutex_lock(&it.mutex, WEFT_FOREVER), ==, 0);
    while (given == 0 && rc == 0)
        rc = weft_cond_wait(&cond, &it.mutex, deadline);
    CHECK(wf_mutex_is_of(&it.mutex, wf_me()));
    if (given > 0) {
        given--;
        passed++;
    }
    CHECK_INT(weft_mutex_unlock(&it.mutex), ==, 0);
}

static void takes_one(int self)
{
    (void)self;
    take_one(WEFT_FOREVER);
}

static void takes_one_soon(int self)
{
    (void)self;
    take_one(soon);
}

static void gives_one(int self)
{
    (void)self;
    CHECK_INT(weft_mutex_lock(&it.mutex, WEFT_FOREVER), ==, 0);
    given++;
    CHECK_INT(weft_mutex_unlock(&it.mutex), ==, 0);
    CHECK_INT(weft_cond_signal(&cond), ==, 0);
}

static void check_cond(void)
{
    CHECK_INT(passed + given, ==, 2);
    CHECK_INT(it.mutex.owner, ==, 0);
    CHECK_PTR(cond.waiters.first, ==, NULL);
}

TEST(no_signal_is_lost)
{
    run(&(struct explore){
        .set_up = clear_cond, .threads = {takes_one, takes_one_soon, gives_one, gives_one}, .check = check_cond});
}

/* ---- the barrier ---- */

static void clear_barrier(void)
{
    clear();
    CHECK_INT(weft_barrier_init(&it.barrier, 2), ==, 0);
}

static void meets(int self)
{
    (void)self;
    int rc = explore_random(2) ? -1 : weft_barrier_wait(&it.barrier, soon);
    if (rc < 0)
        rc = weft_barrier_wait(&it.barrier, WEFT_FOREVER);
    CHECK(rc == 0 || rc == 1);
    passed++;
    given += rc;
}

static void check_barrier(void)
{
    CHECK_INT(passed, ==, 4);
    CHECK_INT(given, ==, 2);
    CHECK_INT(it.barrier.arrived, ==, 0);
    CHECK_PTR(it.barrier.waiters.first, ==, NULL);
}

TEST(two_pairs_meet_at_the_barrier)
{
    run(&(struct explore){.set_up = clear_barrier, .threads = {meets, meets, meets, meets}, .check = check_barrier});
}

TESTS(sync_explore, post_does_not_touch_a_semaphore_that_its_waiter_frees, permits_are_neither_lost_nor_made,
      set_does_not_touch_an_event_that_its_waiter_frees, a_set_that_follows_a_reset_lets_all_go_on,
      done_does_not_touch_a_waitgroup_that_its_waiter_frees, one_has_the_mutex_and_the_last_may_free_it,
      readers_xor_a_writer_and_a_writer_that_is_the_last_may_free_it, it_happens_once_and_those_that_waited_may_free_it,
      no_signal_is_lost, two_pairs_meet_at_the_barrier)
