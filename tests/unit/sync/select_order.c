/*
 * weft_select with cases that are switched off and with no cases at all, and weft_select_ordered.
 */
#include <errno.h>

#include <weft/chan.h>
#include <weft/sync.h>

#include "support/test.h"
#include "unit/sync/flows.h"
#include "unit/sync/selects.h"

/* ---- cases that are switched off, and no cases ---- */

static weft_case switched_off(weft_case k)
{
    k.op = WEFT_NONE;
    return k;
}

static void leaves_out_what_is_off(void)
{
    weft_chan *a = new_chan(sizeof(int), 1), *b = new_chan(sizeof(int), 0), *closed = new_chan(sizeof(int), 0);
    weft_event set = {0};
    int v = 1, out = 0;
    struct call s;
    CHECK_INT(weft_event_set(&set), ==, 0);
    CHECK_INT(weft_chan_close(closed), ==, 0);
    weft_case k[6] = {switched_off(sending(a, &v)),
                      switched_off(waiting_for(&set)),
                      sending(a, &v),
                      switched_off(receiving(NULL, &v)),
                      receiving(b, &out),
                      {.op = WEFT_NONE}};
    for (int i = 0; i < 20; i++) {
        CHECK_INT(weft_select(k, 6, WEFT_NOW), ==, 2); /* whatever is drawn: the others could have happened */
        CHECK_INT(weft_chan_recv(a, &out, WEFT_NOW), ==, 0);
    }
    CHECK(k[0].result == 4711 && k[1].result == 4711 && k[2].result == 0 && k[3].result == 4711);
    k[2] = switched_off(receiving(closed, &out));
    CHECK_INT(weft_select(k, 6, WEFT_NOW), ==, -EAGAIN);
    for (int i = 0; i < 2; i++) {
        begin_how(&s, i ? weft_select_ordered : weft_select, k, 6);
        waits_on(b, 1);
        waits_on(a, 0);
        v = 77 + i;
        CHECK_INT(weft_chan_send(b, &v, WEFT_NOW), ==, 0);
        CHECK_INT(end(&s), ==, 4);
        CHECK_INT(k[4].result, ==, 0);
        CHECK_INT(out, ==, 77 + i);
    }
    CHECK_INT(weft_select(k, 6, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(weft_chan_free(a), ==, 0);
    CHECK_INT(weft_chan_free(b), ==, 0);
    CHECK_INT(weft_chan_free(closed), ==, 0);
}

TEST(a_case_without_operation_never_happens)
{
    everywhere(leaves_out_what_is_off);
}

/* Most of many are off, among them the first and the last; the closed ones that are on have their neighbours off. */
static void leaves_out_many(void)
{
    enum { MANY = 40 };
    weft_chan *c[MANY];
    weft_case k[MANY];
    int out = 0;
    struct call s;
    for (int i = 0; i < MANY; i++) {
        c[i] = new_chan(sizeof(int), 0);
        k[i] = i % 7 == 3 ? receiving(c[i], &out) : switched_off(receiving(c[i], &out));
    }
    for (int i = 3; i < MANY && !test_has_failed(); i += 7) {
        begin(&s, k, MANY);
        waits_on(c[i], 1);
        waits_on(c[i - 1], 0);
        CHECK_INT(weft_chan_send(c[i], &i, WEFT_NOW), ==, 0);
        CHECK_INT(end(&s), ==, i);
        CHECK_INT(out, ==, i);
    }
    for (int i = 0; i < MANY; i++)
        CHECK_INT(weft_chan_free(c[i]), ==, 0);
}

TEST(most_of_many_cases_may_be_switched_off)
{
    everywhere(leaves_out_many);
}

static void waits_for_nothing(void)
{
    weft_case off[12] = {{.op = WEFT_NONE}};
    const size_t n[] = {0, 0, 1, 8, 12};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        weft_case *k = i == 0 ? NULL : off;
        CHECK_INT(weft_select(k, n[i], WEFT_NOW), ==, -EAGAIN);
        CHECK_INT(weft_select_ordered(k, n[i], WEFT_NOW), ==, -EAGAIN);
        CHECK_INT(weft_select(k, n[i], weft_in(-WEFT_SEC)), ==, -ETIMEDOUT);
        weft_time until = weft_in(5 * WEFT_MS);
        CHECK_INT(weft_select(k, n[i], until), ==, -ETIMEDOUT);
        CHECK_INT(weft_now().ns, >=, until.ns);
        until = weft_in(5 * WEFT_MS);
        CHECK_INT(weft_select_ordered(k, n[i], until), ==, -ETIMEDOUT);
        CHECK_INT(weft_now().ns, >=, until.ns);
        CHECK_INT(weft_now().ns, <, until.ns + 10 * WEFT_SEC);
    }
}

TEST(a_select_of_nothing_waits_for_its_deadline)
{
    everywhere(waits_for_nothing);
}

static void cancels_one_that_waits_for_nothing(void)
{
    weft_case off = {.op = WEFT_NONE};
    for (size_t n = 0; n < 2; n++) {
        struct call s = {.cases = n ? &off : NULL, .n = n, .deadline = WEFT_FOREVER, .how = weft_select};
        flow_start(&s.flow, selects, &s);
        while (weft_fiber_state(s.flow.fiber) != WEFT_FIBER_PARKED)
            weft_yield();
        CHECK_STR(weft_fiber_waits_for(s.flow.fiber, NULL), "select");
        CHECK_INT(weft_cancel(s.flow.fiber), ==, 0);
        CHECK_INT(end(&s), ==, -ECANCELED);
    }
}

TEST(a_select_of_nothing_without_deadline_ends_by_a_cancel)
{
    in_fibers(cancels_one_that_waits_for_nothing, 1);
    in_fibers(cancels_one_that_waits_for_nothing, 4);
}

/* ---- ordered choice ---- */

TEST(an_ordered_select_takes_the_first_case_that_can_happen)
{
    weft_chan *ready = new_chan(0, 1), *never = new_chan(0, 0);
    CHECK_INT(weft_chan_close(ready), ==, 0);
    for (unsigned n = 2; n <= 12; n += 5) {
        for (unsigned mask = 1; mask<1u << n; mask += n> 7 ? 41 : 1) {
            weft_case k[12];
            for (unsigned i = 0; i < n; i++)
                k[i] = (weft_case){.op = i % 2 ? WEFT_SEND : WEFT_RECV, .chan = mask >> i & 1 ? ready : never};
            CHECK_INT(weft_select_ordered(k, n, WEFT_FOREVER), ==, __builtin_ctz(mask));
            k[__builtin_ctz(mask)].op = WEFT_NONE; /* the next one, if there is one */
            unsigned rest = mask & (mask - 1);
            CHECK_INT(weft_select_ordered(k, n, WEFT_NOW), ==, rest ? __builtin_ctz(rest) : -EAGAIN);
        }
    }
    CHECK_INT(weft_chan_free(ready), ==, 0);
    CHECK_INT(weft_chan_free(never), ==, 0);
}

/* Each of `n` cases on one channel: the first of those that can is met, whatever the order of the locks' addresses. */
static void wins_first(const int *ops, size_t n, void (*meets)(weft_chan *), int expected)
{
    enum { ROUNDS = 12 };
    for (int i = 0; i < ROUNDS && !test_has_failed(); i++) {
        weft_chan *c = new_chan(sizeof(int), 0), *other = new_chan(sizeof(int), 0);
        int v = 1;
        weft_case k[12];
        struct call s;
        REQUIRE(n < 12);
        k[0] = receiving(other, &v);
        for (size_t j = 0; j < n; j++)
            k[j + 1] = (weft_case){.op = ops[j], .chan = c, .value = &v};
        begin_how(&s, weft_select_ordered, k, n + 1);
        waits_on(c, n);
        meets(c);
        CHECK_INT(end(&s), ==, expected);
        CHECK_INT(weft_chan_free(c), ==, 0);
        CHECK_INT(weft_chan_free(other), ==, 0);
    }
}

static void waits_in_order(void)
{
    static const int receive[11] = {WEFT_RECV, WEFT_RECV, WEFT_RECV, WEFT_RECV, WEFT_RECV, WEFT_RECV,
                                    WEFT_RECV, WEFT_RECV, WEFT_RECV, WEFT_RECV, WEFT_RECV},
                     both[3] = {WEFT_SEND, WEFT_RECV, WEFT_SEND}, mixed[3] = {WEFT_RECV, WEFT_SEND, WEFT_SEND};
    wins_first(receive, 3, sends_one, 1);
    wins_first(receive, 11, sends_one, 1);
    wins_first(both, 3, sends_one, 2);
    wins_first(mixed, 3, receives_one, 2);
    wins_first(receive, 3, closes, 1);
    wins_first(receive, 11, closes, 1);
    wins_first(both, 3, closes, 1);
    wins_first(mixed, 3, closes, 1);
}

TEST(the_first_case_of_a_channel_wins_an_ordered_wait)
{
    everywhere(waits_in_order);
}

static void waits_in_order_for_an_event(void)
{
    weft_chan *c = new_chan(sizeof(int), 0);
    int v = 0;
    for (int i = 0; i < 12 && !test_has_failed(); i++) {
        weft_event e = {0};
        weft_case k[3] = {receiving(c, &v), waiting_for(&e), waiting_for(&e)};
        struct call s;
        begin_how(&s, weft_select_ordered, k, 3);
        waits_on(c, 1);
        CHECK_INT(weft_event_set(&e), ==, 0);
        CHECK_INT(end(&s), ==, 1);
    }
    CHECK_INT(weft_chan_free(c), ==, 0);
}

TEST(the_first_case_of_an_event_wins_an_ordered_wait)
{
    everywhere(waits_in_order_for_an_event);
}

TESTS(sync_select_order, a_case_without_operation_never_happens, most_of_many_cases_may_be_switched_off,
      a_select_of_nothing_waits_for_its_deadline, a_select_of_nothing_without_deadline_ends_by_a_cancel,
      an_ordered_select_takes_the_first_case_that_can_happen, the_first_case_of_a_channel_wins_an_ordered_wait,
      the_first_case_of_an_event_wins_an_ordered_wait)
