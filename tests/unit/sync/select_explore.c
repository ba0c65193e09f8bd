/*
 * Channels, events, select and the settling of sleepers themselves, as they are, through many orders of their steps:
 * who wins is one, what is sent is received once, and nothing is left linked. Each thread makes one call a schedule.
 *
 * The threads are plain ones for the library, and sleep by our futex: a sleep ends at once for no reason, or by its
 * deadline if it has one, by chance. So a wake and a timeout race at every step.
 */
#define WF_EXPLORE 1

#include <sched.h>
#include <time.h>

#include "base/atomic.h"

/* Who waits long for a lock lets others go on, which is a step as any other. */
#define sched_yield() wf_cpu_relax()
#define nanosleep(span, rest) wf_cpu_relax()

#include "base/lock.c"   // NOLINT(bugprone-suspicious-include): compiled for the explorer
#include "sched/wait.c"  // NOLINT(bugprone-suspicious-include)
#include "sync/chan.c"   // NOLINT(bugprone-suspicious-include)
#include "sync/event.c"  // NOLINT(bugprone-suspicious-include)
#include "sync/select.c" // NOLINT(bugprone-suspicious-include)

#include "support/explore.h"
#include "support/test.h"

static const weft_time soon = {1}; /* a deadline: our futex decides when it has passed */

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

/* Lock order must not depend on where malloc puts things: a schedule is to be a function of its seed. */
static weft_chan channels[2]; /* capacity 0 */
static weft_event event;
static int64_t sent, received; /* sums over calls that said they did */
static int sends, receives;
static int won[EXPLORE_THREADS]; /* what each call returned */

static void set_up(void)
{
    memset(rows, 0, sizeof rows);
    for (int i = 0; i < 2; i++)
        channels[i] = (weft_chan){.elem = sizeof(uint64_t)};
    event = (weft_event){0};
    sent = received = 0;
    sends = receives = 0;
    memset(won, 0, sizeof won);
}

static void count(const weft_case *k)
{
    if (k->result != 0 || k->op == WEFT_EVENT)
        return;
    uint64_t value = *(uint64_t *)k->value;
    *(k->op == WEFT_SEND ? &sent : &received) += (int64_t)value;
    *(k->op == WEFT_SEND ? &sends : &receives) += 1;
}

static void select_of(int self, weft_case *cases, size_t n, weft_time deadline)
{
    for (size_t i = 0; i < n; i++)
        cases[i].result = 4711;
    int rc = weft_select(cases, n, deadline);
    won[self] = rc;
    CHECK(rc >= 0 || (rc == -ETIMEDOUT && deadline.ns != INT64_MAX));
    for (int i = 0; i < (int)n; i++) {
        if (i == rc)
            count(&cases[i]);
        else
            CHECK_INT(cases[i].result, ==, 4711);
    }
}

static weft_case sending(int channel, uint64_t *value)
{
    return (weft_case){.op = WEFT_SEND, .chan = &channels[channel], .value = value};
}

static weft_case receiving(int channel, uint64_t *value)
{
    return (weft_case){.op = WEFT_RECV, .chan = &channels[channel], .value = value};
}

static void nothing_is_left(void)
{
    for (int i = 0; i < 2; i++) {
        CHECK_INT(channels[i].waiting, ==, 0);
        CHECK_PTR(channels[i].senders.first, ==, NULL);
        CHECK_PTR(channels[i].receivers.first, ==, NULL);
        CHECK_INT(channels[i].lock.word, ==, 0);
    }
    CHECK_PTR(wf_waiters_of(&event.waiters)->first, ==, NULL);
    CHECK_INT(sends, ==, receives);
    CHECK_INT(sent, ==, received);
}

/* ---- a select with two cases that others race for ---- */

static void receives_from_either(int self)
{
    uint64_t a = 0, b = 0;
    weft_case k[2] = {receiving(0, &a), receiving(1, &b)};
    select_of(self, k, 2, soon);
    CHECK_INT(a, ==, won[self] == 0 ? 101 : 0);
    CHECK_INT(b, ==, won[self] == 1 ? 102 : 0);
}

static void sends_on_its_own(int self)
{
    uint64_t value = 100 + (uint64_t)self;
    int rc = weft_chan_send(&channels[self - 1], &value, soon);
    CHECK(rc == 0 || rc == -ETIMEDOUT);
    if (rc == 0) {
        sends++;
        sent += (int64_t)value;
    }
}

TEST(one_sender_wins_a_select)
{
    explore(&(struct explore){.set_up = set_up,
                              .threads = {receives_from_either, sends_on_its_own, sends_on_its_own},
                              .check = nothing_is_left});
}

/* ---- selects among themselves ---- */

static void sends_or_receives(int self)
{
    uint64_t out = 200 + (uint64_t)self, in = 0;
    weft_case k[4] = {sending(0, &out), receiving(1, &in), receiving(0, &in), sending(1, &out)};
    select_of(self, k + (self & 1), 3, soon);
    CHECK(in == 0 || (in >= 200 && in < 204 && in != out));
}

TEST(selects_meet_each_other_and_never_themselves)
{
    explore(&(struct explore){.set_up = set_up,
                              .threads = {sends_or_receives, sends_or_receives, sends_or_receives},
                              .check = nothing_is_left});
}

/* ---- closing and events ---- */

static void waits_for_all_kinds(int self)
{
    uint64_t in = 0, out = 300;
    weft_case k[3] = {receiving(0, &in), {.op = WEFT_EVENT, .event = &event}, sending(1, &out)};
    select_of(self, k, 3, WEFT_FOREVER);
}

static void sets_the_event(int self)
{
    (void)self;
    weft_event_set(&event);
}

static void closes_one(int self)
{
    CHECK_INT(weft_chan_close(&channels[explore_random(2)]), ==, 0);
    won[self] = 1;
}

static void receives_on_its_own(int self)
{
    uint64_t value = 0;
    int rc = weft_chan_recv(&channels[1], &value, soon);
    CHECK(rc == 0 || rc == -ETIMEDOUT || rc == -EPIPE);
    CHECK_INT(value, ==, rc == 0 ? 300 : 0);
    if (rc == 0) {
        receives++;
        received += (int64_t)value;
    }
    won[self] = rc;
}

TEST(close_and_events_wake_a_select_once)
{
    explore(&(struct explore){.set_up = set_up,
                              .threads = {waits_for_all_kinds, sets_the_event, closes_one, receives_on_its_own},
                              .check = nothing_is_left});
}

/* ---- a channel in several cases, freed by the receiver of its only value ---- */

enum { FREED = 0xa5, PAST_LOCK = offsetof(weft_chan, lock) + sizeof(struct wf_lock) };

static bool
    freed; /* channel 0 is FREED bytes, which nobody may touch, but for its lock, whose word the explorer keeps */

static void set_up_to_free(void)
{
    set_up();
    freed = false;
}

static void sends_in_several_cases(int self)
{
    uint64_t in = 0, out = 400;
    weft_case k[4] = {sending(0, &out), receiving(1, &in), sending(0, &out), receiving(0, &in)};
    select_of(self, k, 4, soon);
    CHECK(won[self] == 0 || won[self] == 2 || won[self] == -ETIMEDOUT);
}

static void receives_and_frees(int self)
{
    uint64_t value = 0;
    won[self] = weft_chan_recv(&channels[0], &value, soon);
    if (won[self] != 0)
        return;
    receives++;
    received += (int64_t)value;
    wf_lock(&channels[0].lock); /* as weft_chan_free does */
    CHECK_INT(channels[0].waiting, ==, 0);
    CHECK(!channels[0].senders.first && !channels[0].receivers.first);
    wf_unlock(&channels[0].lock);
    memset((char *)&channels[0] + PAST_LOCK, FREED, sizeof channels[0] - PAST_LOCK);
    freed = true;
}

static void freed_is_untouched(void)
{
    unsigned char bytes[sizeof channels[0]];
    memset(bytes, FREED, sizeof bytes);
    if (freed) {
        CHECK_INT(memcmp((char *)&channels[0] + PAST_LOCK, bytes, sizeof bytes - PAST_LOCK), ==, 0);
        channels[0] = (weft_chan){0};
    }
    nothing_is_left();
}

TEST(a_select_never_touches_a_channel_again_that_met_one_of_its_cases)
{
    explore(&(struct explore){.set_up = set_up_to_free,
                              .threads = {sends_in_several_cases, receives_and_frees},
                              .check = freed_is_untouched});
}

TESTS(sync_select_explore, one_sender_wins_a_select, selects_meet_each_other_and_never_themselves,
      close_and_events_wake_a_select_once, a_select_never_touches_a_channel_again_that_met_one_of_its_cases)
