/*
 * weft_select: exactly one case happens, which one among those that can is fair, and nothing is left of the others.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weft/chan.h>
#include <weft/sync.h>

#include "base/sys.h"
#include "support/test.h"
#include "unit/sync/flows.h"
#include "unit/sync/selects.h"

TEST(what_is_no_case_is_einval)
{
    int v = 0;
    weft_chan *c = new_chan(sizeof v, 1), *signals = new_chan(0, 1);
    weft_case good = sending(c, &v), bad[2] = {good, good};
    CHECK_INT(weft_select(NULL, 1, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(weft_select(&good, SIZE_MAX, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(weft_select_ordered(NULL, 1, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(weft_select_ordered(&good, SIZE_MAX, WEFT_NOW), ==, -EINVAL);
    bad[1].op = WEFT_NONE - 1;
    CHECK_INT(weft_select(bad, 2, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(weft_select_ordered(bad, 2, WEFT_NOW), ==, -EINVAL);
    bad[1].op = WEFT_EVENT + 1;
    CHECK_INT(weft_select(bad, 2, WEFT_NOW), ==, -EINVAL);
    bad[1] = sending(NULL, &v);
    CHECK_INT(weft_select(bad, 2, WEFT_NOW), ==, -EINVAL);
    bad[1] = receiving(c, NULL);
    CHECK_INT(weft_select(bad, 2, WEFT_NOW), ==, -EINVAL);
    bad[1] = waiting_for(NULL);
    CHECK_INT(weft_select(bad, 2, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(weft_chan_count(c), ==, 0); /* and none of the others happened */
    bad[0] = receiving(signals, NULL);
    bad[1] = sending(signals, NULL);
    CHECK_INT(weft_select(bad, 2, WEFT_NOW), ==, 1);
    CHECK_INT(weft_chan_count(signals), ==, 1);
    CHECK_INT(weft_chan_free(c), ==, 0);
    CHECK_INT(weft_chan_free(signals), ==, 0);
}

TEST(the_one_that_can_happens_and_the_others_are_untouched)
{
    weft_chan *a = new_chan(sizeof(int), 1), *b = new_chan(sizeof(int), 0);
    weft_event e = {0};
    int in = 1, out = 0;
    weft_case k[4] = {receiving(a, &out), receiving(b, &out), sending(b, &in), waiting_for(&e)};
    CHECK_INT(weft_select(k, 4, WEFT_NOW), ==, -EAGAIN);
    weft_event_set(&e);
    CHECK_INT(weft_select(k, 4, WEFT_NOW), ==, 3);
    CHECK_INT(weft_select(k, 4, WEFT_FOREVER), ==, 3); /* it stays set */
    CHECK_INT(k[3].result, ==, 0);
    weft_event_reset(&e);
    CHECK_INT(weft_select(k, 4, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_chan_send(a, &in, WEFT_NOW), ==, 0);
    CHECK_INT(weft_select(k, 4, weft_in(-WEFT_SEC)), ==, 0); /* a deadline in the past tries once */
    CHECK_INT(k[0].result, ==, 0);
    CHECK_INT(out, ==, 1);
    k[0] = sending(a, &in);
    CHECK_INT(weft_select(k, 4, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_chan_count(a), ==, 1);
    CHECK_INT(k[1].result, ==, 4711);
    CHECK_INT(k[2].result, ==, 4711);
    CHECK_INT(weft_chan_free(a), ==, 0);
    CHECK_INT(weft_chan_free(b), ==, 0);
}

TEST(a_case_of_a_closed_channel_happens_with_epipe)
{
    weft_chan *a = new_chan(sizeof(int), 1), *b = new_chan(sizeof(int), 1);
    int v = 5, out = 0;
    weft_case k[2] = {receiving(a, &out), receiving(b, &out)};
    CHECK_INT(weft_chan_send(a, &v, WEFT_NOW), ==, 0);
    CHECK_INT(weft_chan_close(a), ==, 0);
    CHECK_INT(weft_select(k, 2, WEFT_FOREVER), ==, 0);
    CHECK_INT(k[0].result, ==, 0);
    CHECK_INT(out, ==, 5);
    out = 0;
    CHECK_INT(weft_select(k, 2, WEFT_FOREVER), ==, 0);
    CHECK_INT(k[0].result, ==, -EPIPE);
    CHECK_INT(out, ==, 0);
    CHECK_INT(weft_chan_send(b, &v, WEFT_NOW), ==, 0);
    k[0] = sending(b, &v);
    k[1] = sending(a, &v);
    CHECK_INT(weft_select(k, 2, WEFT_NOW), ==, 1);
    CHECK_INT(k[1].result, ==, -EPIPE);
    CHECK_INT(weft_chan_free(a), ==, 0);
    CHECK_INT(weft_chan_free(b), ==, 0);
}

static void waits_for_each(void)
{
    weft_chan *a = new_chan(sizeof(int), 0), *b = new_chan(sizeof(int), 0), *c = new_chan(sizeof(int), 0);
    weft_event e = {0};
    int in = 7, out = 0, v = 0;
    struct call s;
    for (int which = 0; which < 4 && !test_has_failed(); which++) {
        weft_case k[4] = {sending(a, &in), receiving(b, &out), waiting_for(&e), receiving(c, &v)};
        begin(&s, k, 4);
        waits_on(a, 1);
        CHECK_INT(weft_chan_free(c), ==, -EBUSY);
        v = 100 + which;
        if (which == 0)
            CHECK_INT(weft_chan_recv(a, &v, WEFT_NOW), ==, 0);
        else if (which == 1)
            CHECK_INT(weft_chan_send(b, &v, WEFT_NOW), ==, 0);
        else if (which == 2)
            CHECK_INT(weft_event_set(&e), ==, 0);
        else
            CHECK_INT(weft_chan_close(c), ==, 0);
        CHECK_INT(end(&s), ==, which);
        for (int i = 0; i < 4; i++)
            CHECK_INT(k[i].result, ==, i != which ? 4711 : which == 3 ? -EPIPE : 0);
        weft_event_reset(&e);
        waits_on(a, 0);
        waits_on(b, 0);
        waits_on(c, 0);
    }
    CHECK_INT(out, ==, 101);
    CHECK_INT(v, ==, 103);
    CHECK_INT(weft_chan_free(a), ==, 0);
    CHECK_INT(weft_chan_free(b), ==, 0);
    CHECK_INT(weft_chan_free(c), ==, 0);
}

TEST(whichever_comes_first_ends_the_wait)
{
    everywhere(waits_for_each);
}

static void meets_others_only(void)
{
    weft_chan *c = new_chan(sizeof(int), 0);
    int in = 1, out = 0, v = 0;
    weft_case k[3] = {sending(c, &in), receiving(c, &out), sending(c, &in)};
    struct call s;
    CHECK_INT(weft_select(k, 3, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_select(k, 3, weft_in(2 * WEFT_MS)), ==, -ETIMEDOUT);
    begin(&s, k, 3);
    waits_on(c, 3);
    CHECK_INT(weft_chan_recv(c, &v, WEFT_NOW), ==, 0);
    CHECK_INT(v, ==, 1);
    CHECK_INT(end(&s) % 2, ==, 0);
    begin(&s, k, 3);
    waits_on(c, 3);
    v = 9;
    CHECK_INT(weft_chan_send(c, &v, WEFT_NOW), ==, 0);
    CHECK_INT(end(&s), ==, 1);
    CHECK_INT(out, ==, 9);
    begin(&s, k, 3);
    waits_on(c, 3);
    CHECK_INT(weft_chan_close(c), ==, 0);
    CHECK_INT(end(&s), >=, 0);
    CHECK_INT(k[s.rc].result, ==, -EPIPE);
    CHECK_INT(weft_chan_free(c), ==, 0);
}

TEST(a_channel_in_several_cases_never_meets_itself)
{
    everywhere(meets_others_only);
}

static void two_selects_meet(void)
{
    weft_chan *a = new_chan(sizeof(int), 0), *b = new_chan(sizeof(int), 0);
    for (int i = 0; i < 200 && !test_has_failed(); i++) {
        int mine = 1000 + i, yours = 2000 + i, got_mine = 0, got_yours = 0;
        weft_case k[4] = {sending(a, &yours), sending(b, &yours), receiving(b, &got_yours), receiving(a, &got_yours)};
        weft_case m[4] = {sending(b, &mine), receiving(b, &got_mine), sending(a, &mine), receiving(a, &got_mine)};
        struct call s;
        begin(&s, k, 4);
        int rc = weft_select(m, 4, WEFT_FOREVER);
        CHECK_INT(end(&s), >=, 0);
        REQUIRE(rc >= 0 && s.rc >= 0);
        CHECK_PTR(m[rc].chan, ==, k[s.rc].chan);
        CHECK(m[rc].op != k[s.rc].op);
        CHECK_INT(got_mine, ==, m[rc].op == WEFT_RECV ? yours : 0);
        CHECK_INT(got_yours, ==, m[rc].op == WEFT_SEND ? mine : 0);
    }
    CHECK_INT(weft_chan_free(a), ==, 0);
    CHECK_INT(weft_chan_free(b), ==, 0);
}

TEST(two_selects_can_meet_each_other)
{
    everywhere(two_selects_meet);
}

static void takes_back_what_it_left(void)
{
    weft_chan *used = new_chan(sizeof(int), 0), *other = new_chan(sizeof(int), 0);
    int v = 1, out = 0;
    for (int i = 0; i < 50 && !test_has_failed(); i++) {
        weft_case k[3] = {receiving(other, &out), receiving(used, &out), sending(other, &v)};
        struct call s;
        begin(&s, k, 3);
        waits_on(other, 2);
        CHECK_INT(weft_chan_send(used, &v, WEFT_NOW), ==, 0);
        CHECK_INT(end(&s), ==, 1);
        CHECK_INT(weft_chan_send(other, &v, WEFT_NOW), ==, -EAGAIN); /* nobody is there */
        CHECK_INT(weft_chan_recv(other, &v, WEFT_NOW), ==, -EAGAIN);
    }
    CHECK_INT(weft_chan_free(used), ==, 0);
    CHECK_INT(weft_chan_free(other), ==, 0);
}

TEST(nothing_is_left_of_the_cases_that_did_not_happen)
{
    everywhere(takes_back_what_it_left);
}

static void waits_until_its_deadline(void)
{
    weft_chan *a = new_chan(sizeof(int), 0), *b = new_chan(sizeof(int), 0);
    weft_event e = {0};
    int v = 0;
    weft_case k[3] = {receiving(a, &v), sending(b, &v), waiting_for(&e)};
    weft_time until = weft_in(20 * WEFT_MS);
    CHECK_INT(weft_select(k, 3, until), ==, -ETIMEDOUT);
    CHECK_INT(weft_now().ns, >=, until.ns);
    CHECK_INT(weft_now().ns, <, until.ns + 10 * WEFT_SEC);
    CHECK_INT(weft_select(k, 3, weft_in(-WEFT_SEC)), ==, -ETIMEDOUT);
    CHECK(k[0].result == 4711 && k[1].result == 4711 && k[2].result == 4711);
    CHECK_INT(weft_chan_free(a), ==, 0);
    CHECK_INT(weft_chan_free(b), ==, 0);
    CHECK_INT(weft_event_set(&e), ==, 0);
}

TEST(a_deadline_ends_the_wait_and_never_early)
{
    everywhere(waits_until_its_deadline);
}

static void cancels_one_that_waits(void)
{
    weft_chan *a = new_chan(sizeof(int), 0), *b = new_chan(sizeof(int), 0);
    int v = 0;
    weft_case k[2] = {receiving(a, &v), sending(b, &v)};
    struct call s;
    begin(&s, k, 2);
    waits_on(b, 1);
    CHECK_INT(weft_cancel(s.flow.fiber), ==, 0);
    CHECK_INT(end(&s), ==, -ECANCELED);
    CHECK_INT(weft_chan_free(a), ==, 0);
    CHECK_INT(weft_chan_free(b), ==, 0);
}

TEST(a_cancelled_wait_is_ecanceled)
{
    in_fibers(cancels_one_that_waits, 1);
    in_fibers(cancels_one_that_waits, 4);
}

enum { LOTS = 300 };

static void selects_among_lots(void)
{
    static weft_chan *c[LOTS];
    weft_case *k = calloc(LOTS, sizeof *k);
    int v = 1, out[LOTS] = {0};
    struct call s;
    REQUIRE(k != NULL);
    for (int i = 0; i < LOTS; i++) {
        c[i] = i % 3 == 2 ? c[i - 1] : new_chan(sizeof(int), 0); /* each third is there twice */
        k[i] = receiving(c[i], &out[i]);
    }
    CHECK_INT(weft_select(k, LOTS, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_select(k, LOTS, weft_in(2 * WEFT_MS)), ==, -ETIMEDOUT);
    for (int i = 0; i < LOTS && !test_has_failed(); i += 37) {
        begin(&s, k, LOTS);
        waits_on(c[i], i % 3 ? 2 : 1);
        CHECK_INT(weft_chan_send(c[i], &v, WEFT_NOW), ==, 0);
        CHECK_INT(end(&s), >=, 0);
        CHECK_PTR(c[s.rc], ==, c[i]);
        CHECK_INT(out[s.rc], ==, 1);
        out[s.rc] = 0;
    }
    for (int i = 0; i < LOTS; i++) {
        CHECK_INT(out[i], ==, 0);
        if (i % 3 != 2)
            CHECK_INT(weft_chan_free(c[i]), ==, 0);
    }
    free(k);
}

TEST(there_may_be_hundreds_of_cases)
{
    everywhere(selects_among_lots);
}

TEST(more_than_eight_cases_need_memory)
{
    weft_chan *c = new_chan(sizeof(int), 1);
    weft_case k[9];
    int v = 0;
    struct wf_sys_held held = wf_sys_held();
    for (int i = 0; i < 9; i++)
        k[i] = receiving(c, &v);
    wf_sys_fail(1u << WF_SYS_MALLOC, 1, 0);
    CHECK_INT(weft_select(k, 9, WEFT_FOREVER), ==, -ENOMEM);
    wf_sys_fail(1u << WF_SYS_MALLOC, 1, 1000);
    CHECK_INT(weft_select(k, 8, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(wf_sys_calls(), ==, 0);
    wf_sys_fail(0, 0, 0);
    CHECK_INT(weft_select(k, 9, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(wf_sys_held().n, ==, held.n);
    CHECK_INT(weft_chan_free(c), ==, 0);
}

/* Of `n` cases those in the mask can happen, always: each as often as the others? */
static void chooses_evenly(unsigned n, unsigned mask)
{
    enum { ROUNDS = 40000 };
    weft_chan *ready = new_chan(0, 1), *never = new_chan(0, 0);
    weft_case k[12];
    double seen[12] = {0}, squares = 0, expected = (double)ROUNDS / __builtin_popcount(mask);
    CHECK_INT(weft_chan_close(ready), ==, 0);
    for (unsigned i = 0; i < n; i++)
        k[i] = (weft_case){.op = i % 2 ? WEFT_SEND : WEFT_RECV, .chan = mask >> i & 1 ? ready : never};
    for (int i = 0; i < ROUNDS; i++) {
        int rc = weft_select(k, n, WEFT_FOREVER);
        REQUIRE(rc >= 0 && rc < (int)n);
        seen[rc]++;
    }
    for (unsigned i = 0; i < n; i++) {
        if (mask >> i & 1)
            squares += (seen[i] - expected) * (seen[i] - expected) / expected;
        else
            CHECK_INT(seen[i], ==, 0);
    }
    /* With 11 degrees of freedom or fewer chance is above 50 once in a million runs. */
    if (squares > 50)
        test_failed(__FILE__, __LINE__, "of %u cases, mask %x: chi-square %.1f", n, mask, squares);
    CHECK_INT(weft_chan_free(ready), ==, 0);
    CHECK_INT(weft_chan_free(never), ==, 0);
}

TEST(each_case_that_can_happen_is_as_likely_as_another)
{
    chooses_evenly(2, 0x3);
    chooses_evenly(3, 0x7);
    chooses_evenly(4, 0x3); /* two neighbours: a walk from a random start would favour one of them */
    chooses_evenly(5, 0x13);
    chooses_evenly(8, 0xff);
    chooses_evenly(8, 0x91);
    chooses_evenly(12, 0xfff);
    chooses_evenly(12, 0x805);
}

/*
 * A select that has to wait, met a thousand times by whatever `meets` does on the channel: how often each case won. The
 * cases are all on one channel, but the last of three.
 */
static void wins_evenly(const weft_case *cases, size_t n, void (*meets)(weft_chan *))
{
    enum { ROUNDS = 1000 };
    int wins[3] = {0};
    for (int i = 0; i < ROUNDS && !test_has_failed(); i++) {
        weft_chan *c = new_chan(sizeof(int), 0), *other = new_chan(sizeof(int), 0);
        int v = 1;
        weft_case k[3];
        struct call s;
        for (size_t j = 0; j < n; j++) {
            k[j] = cases[j];
            k[j].chan = j < 2 ? c : other;
            k[j].value = &v;
        }
        begin(&s, k, n);
        waits_on(c, 2);
        meets(c);
        REQUIRE(end(&s) >= 0);
        wins[s.rc]++;
        CHECK_INT(weft_chan_free(c), ==, 0);
        CHECK_INT(weft_chan_free(other), ==, 0);
    }
    CHECK_INT(wins[0], >=, ROUNDS * 3 / 10); /* 12 standard deviations below the half */
    CHECK_INT(wins[1], >=, ROUNDS * 3 / 10);
    CHECK_INT(wins[0] + wins[1], ==, ROUNDS);
}

static void waits_fairly(void)
{
    static const weft_case receive[3] = {{.op = WEFT_RECV}, {.op = WEFT_RECV}, {.op = WEFT_RECV}},
                           send[3] = {{.op = WEFT_SEND}, {.op = WEFT_SEND}, {.op = WEFT_SEND}},
                           both[3] = {{.op = WEFT_SEND}, {.op = WEFT_RECV}, {.op = WEFT_SEND}};
    wins_evenly(receive, 2, sends_one);
    wins_evenly(send, 2, receives_one);
    wins_evenly(receive, 3, sends_one); /* the third is another channel's */
    wins_evenly(send, 3, receives_one);
    wins_evenly(receive, 2, closes);
    wins_evenly(both, 2, closes);
    wins_evenly(both, 3, closes);
}

/* Thousands of threads take minutes where each step is emulated. */
static void everywhere_or_in_fibers(void (*scenario)(void))
{
#if defined(WF_VALGRIND) && WF_VALGRIND
    bool slow = true;
#else
    bool slow = TEST_EMULATED;
#endif
    if (slow)
        in_fibers(scenario, 1);
    else
        everywhere(scenario);
}

TEST(cases_of_one_channel_win_a_wait_as_often_as_each_other)
{
    everywhere_or_in_fibers(waits_fairly);
}

static void waits_fairly_for_an_event(void)
{
    enum { ROUNDS = 1000 };
    weft_chan *c = new_chan(sizeof(int), 0);
    int wins[3] = {0}, v = 0;
    for (int i = 0; i < ROUNDS && !test_has_failed(); i++) {
        weft_event e = {0};
        weft_case k[3] = {waiting_for(&e), waiting_for(&e), receiving(c, &v)};
        struct call s;
        begin(&s, k, 3);
        waits_on(c, 1);
        CHECK_INT(weft_event_set(&e), ==, 0);
        REQUIRE(end(&s) >= 0);
        wins[s.rc]++;
    }
    CHECK_INT(wins[0], >=, ROUNDS * 3 / 10);
    CHECK_INT(wins[1], >=, ROUNDS * 3 / 10);
    CHECK_INT(weft_chan_free(c), ==, 0);
}

TEST(cases_of_one_event_win_a_wait_as_often_as_each_other)
{
    everywhere_or_in_fibers(waits_fairly_for_an_event);
}

static void *sends_and_selects_no_more(void *arg)
{
    weft_chan **c = arg;
    int v = 3, out;
    weft_case k[2] = {sending(c[0], &v), receiving(c[1], &out)};
    CHECK_INT(weft_select(k, 2, WEFT_FOREVER), ==, 0);
    CHECK_INT(k[0].result, ==, 0);
    return NULL;
}

static void frees_what_a_select_sent_on(void)
{
    weft_chan *c[2] = {NULL, new_chan(sizeof(int), 0)};
    for (int i = 0; i < 200 && !test_has_failed(); i++) {
        struct flow f;
        int v = 0;
        c[0] = new_chan(sizeof(int), 0);
        flow_start(&f, sends_and_selects_no_more, c);
        if (i % 2)
            waits_on(c[0], 1);
        CHECK_INT(weft_chan_recv(c[0], &v, WEFT_FOREVER), ==, 0);
        CHECK_INT(weft_chan_free(c[0]), ==, 0);
        flow_end(&f);
    }
    CHECK_INT(weft_chan_free(c[1]), ==, 0);
}

TEST(who_received_the_last_value_of_a_select_may_free_the_channel)
{
    everywhere(frees_what_a_select_sent_on);
}

/* The same with the channel in several cases: once one of them has happened, nothing of the others is left in it. */
static void *sends_in_several_cases(void *arg)
{
    weft_chan *c = *(weft_chan **)arg, *other = ((weft_chan **)arg)[1];
    int v = 3, out;
    weft_case k[5] = {sending(c, &v), receiving(other, &out), sending(c, &v), receiving(c, &out), sending(c, &v)};
    int rc = weft_select(k, 5, WEFT_FOREVER);
    CHECK(rc == 0 || rc == 2 || rc == 4);
    CHECK_INT(k[rc].result, ==, 0);
    return NULL;
}

static void frees_what_had_several_cases(void)
{
    weft_chan *c[2] = {NULL, new_chan(sizeof(int), 0)};
    for (int i = 0; i < 200 && !test_has_failed(); i++) {
        struct flow f;
        int v = 0;
        c[0] = new_chan(sizeof(int), 0);
        flow_start(&f, sends_in_several_cases, c);
        if (i % 2)
            waits_on(c[0], 4);
        CHECK_INT(weft_chan_recv(c[0], &v, WEFT_FOREVER), ==, 0);
        CHECK_INT(v, ==, 3);
        REQUIRE(weft_chan_free(c[0]) == 0);
        flow_end(&f);
    }
    CHECK_INT(weft_chan_free(c[1]), ==, 0);
}

TEST(who_received_the_last_value_may_free_a_channel_that_was_in_several_cases)
{
    everywhere(frees_what_had_several_cases);
}

/* Fibers that may move go on on another worker while the commit of their wait still releases locks. */
struct crowd {
    weft_chan *c[3];
    int left; /* atomic */
};

static void *selects_again_and_again(void *arg)
{
    struct crowd *crowd = arg;
    int in = 1, out = 0;
    for (int i = 0; i < 300; i++) {
        weft_case k[6];
        for (int j = 0; j < 3; j++) {
            k[2 * j] = sending(crowd->c[j], &in);
            k[2 * j + 1] = receiving(crowd->c[j], &out);
        }
        int rc = weft_select(k, 6, WEFT_FOREVER);
        if (rc < 0 || k[rc].result != 0)
            break; /* closed: the others are through */
    }
    if (__atomic_sub_fetch(&crowd->left, 1, __ATOMIC_RELAXED) == 1) {
        for (int j = 0; j < 3; j++)
            CHECK_INT(weft_chan_close(crowd->c[j]), ==, 0); /* for the last one: nobody is left to meet */
    }
    return NULL;
}

static void moves_about(void)
{
    enum { N = 12 };
    struct crowd crowd = {.left = N};
    weft_fiber *f[N];
    for (int j = 0; j < 3; j++)
        crowd.c[j] = new_chan(sizeof(int), 0);
    for (int i = 0; i < N; i++) {
        weft_attr attr = {.size = sizeof attr, .flags = WEFT_MIGRATE};
        CHECK_INT(weft_go_with(&f[i], &attr, selects_again_and_again, &crowd), ==, 0);
    }
    for (int i = 0; i < N; i++)
        CHECK_INT(weft_join(f[i], NULL, WEFT_FOREVER), ==, 0);
    for (int j = 0; j < 3; j++)
        CHECK_INT(weft_chan_free(crowd.c[j]), ==, 0);
}

TEST(fibers_that_may_move_select_as_well)
{
    in_fibers(moves_about, 4);
}

TESTS(sync_select, what_is_no_case_is_einval, the_one_that_can_happens_and_the_others_are_untouched,
      a_case_of_a_closed_channel_happens_with_epipe, whichever_comes_first_ends_the_wait,
      a_channel_in_several_cases_never_meets_itself, two_selects_can_meet_each_other,
      nothing_is_left_of_the_cases_that_did_not_happen, a_deadline_ends_the_wait_and_never_early,
      a_cancelled_wait_is_ecanceled, there_may_be_hundreds_of_cases, more_than_eight_cases_need_memory,
      each_case_that_can_happen_is_as_likely_as_another, cases_of_one_channel_win_a_wait_as_often_as_each_other,
      cases_of_one_event_win_a_wait_as_often_as_each_other,
      who_received_the_last_value_of_a_select_may_free_the_channel,
      who_received_the_last_value_may_free_a_channel_that_was_in_several_cases, fibers_that_may_move_select_as_well)
