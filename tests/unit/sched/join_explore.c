/*
 * Joins, the end of a fiber and the settling of sleepers, as they are, through many orders of their steps. The joiners
 * are plain threads and sleep by our futex: a sleep ends for no reason or by its deadline, by chance, so that the end
 * and the deadline race at every step.
 */
#define WF_EXPLORE 1

#include "sched/worker.h"

static void release_record(struct wf_worker *w, weft_fiber *f);
#define wf_fiber_release release_record /* of join.c: ours counts */

#include "sched/join.c" // NOLINT(bugprone-suspicious-include): compiled for the explorer
#include "sched/wait.c" // NOLINT(bugprone-suspicious-include)

#include "support/explore.h"
#include "support/test.h"

static const weft_time soon = {1}; /* a deadline: our futex decides when it has passed */

int wf_futex_wait(const uint32_t *word, uint32_t value, int64_t deadline)
{
    (void)word, (void)value;
    wf_cpu_relax();
    return deadline != INT64_MAX && explore_random(4) == 0 ? -ETIMEDOUT : 0;
}

void wf_futex_wake(const uint32_t *word, int count)
{
    (void)word, (void)count;
    wf_cpu_relax();
}

static int released[2];
static weft_fiber fibers[2];

static void release_record(struct wf_worker *w, weft_fiber *f)
{
    (void)w;
    released[f - fibers]++;
}

static int got[2];    /* joins that took its value */
static bool ended[2]; /* by a step of the explorer's */

static void set_up(void)
{
    for (int i = 0; i < 2; i++) {
        fibers[i] = (weft_fiber){.state = WEFT_FIBER_RUNNING, .join = WF_JOIN_OPEN};
        released[i] = got[i] = 0;
        ended[i] = false;
    }
}

static void end(int which)
{
    fibers[which].value = &fibers[which];
    wf_store_release(&ended[which], true);
    if (!wf_join_ended(&fibers[which]))
        release_record(NULL, &fibers[which]);
}

static void end_of_first(int self)
{
    (void)self;
    end(0);
}

static void end_of_both(int self)
{
    (void)self;
    end(0);
    end(1);
}

static int join(int which, weft_time deadline)
{
    void *value = NULL;
    int rc = weft_join(&fibers[which], &value, deadline);
    if (rc == 0) {
        CHECK_PTR(value, ==, &fibers[which]);
        CHECK(ended[which]);
        got[which]++;
    }
    return rc;
}

/* ---- one that gives up ---- */

static void joins_one_then_the_other(int self)
{
    (void)self;
    int rc = join(0, soon);
    CHECK(rc == 0 || rc == -ETIMEDOUT);
    CHECK_INT(join(1, WEFT_FOREVER), ==, 0); /* whose sleeper is where the first one's was */
    if (rc != 0)
        CHECK_INT(join(0, WEFT_FOREVER), ==, 0);
}

static void both_were_joined(void)
{
    for (int i = 0; i < 2; i++) {
        CHECK_INT(got[i], ==, 1);
        CHECK_INT(released[i], ==, 1);
        CHECK_INT(fibers[i].join, ==, WF_JOIN_GONE);
    }
}

TEST(an_end_is_felt_only_in_the_join_that_it_ends)
{
    explore(&(struct explore){
        .set_up = set_up, .threads = {joins_one_then_the_other, end_of_both}, .check = both_were_joined});
}

/* ---- two at once ---- */

static void tries_to_join(int self)
{
    int rc = join(0, self == 0 ? WEFT_FOREVER : soon);
    CHECK(rc == 0 || rc == -EALREADY || (self != 0 && rc == -ETIMEDOUT));
}

/* Nobody, if one was told of the other, which then gave up: it is still there to be joined. */
static void one_joined_at_most(void)
{
    if (fibers[0].join == WF_JOIN_DONE)
        got[0] += weft_join(&fibers[0], NULL, WEFT_NOW) == 0;
    CHECK_INT(got[0], ==, 1);
    CHECK_INT(released[0], ==, 1);
}

TEST(of_two_joiners_one_gets_it_at_most)
{
    explore(&(struct explore){
        .set_up = set_up, .threads = {tries_to_join, tries_to_join, end_of_first}, .check = one_joined_at_most});
}

/* ---- detaching ---- */

static void detaches(int self)
{
    (void)self;
    CHECK_INT(weft_detach(&fibers[0]), ==, 0);
}

static void it_was_released(void)
{
    CHECK_INT(released[0], ==, 1);
}

TEST(a_detach_and_an_end_release_it_once)
{
    explore(&(struct explore){.set_up = set_up, .threads = {detaches, end_of_first}, .check = it_was_released});
}

static void detaches_perhaps(int self)
{
    (void)self;
    int rc = weft_detach(&fibers[0]);
    CHECK(rc == 0 || rc == -EALREADY);
}

static void joins_perhaps(int self)
{
    (void)self;
    int rc = join(0, soon);
    CHECK(rc == 0 || rc == -ETIMEDOUT || rc == -EINVAL || rc == -EALREADY);
    if (rc == -ETIMEDOUT) {
        rc = weft_detach(&fibers[0]);
        CHECK(rc == 0 || rc == -EALREADY);
    }
}

TEST(a_join_a_detach_and_an_end_release_it_once)
{
    explore(&(struct explore){
        .set_up = set_up, .threads = {joins_perhaps, detaches_perhaps, end_of_first}, .check = it_was_released});
}

TESTS(sched_join_explore, an_end_is_felt_only_in_the_join_that_it_ends, of_two_joiners_one_gets_it_at_most,
      a_detach_and_an_end_release_it_once, a_join_a_detach_and_an_end_release_it_once)
