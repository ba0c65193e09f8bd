/*
 * Channels: what each call answers, the order of things, deadlines, cancellation, closing, and the end of a channel;
 * among fibers, plain threads and both. What lies on shared stacks is chan_copied.c's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weft/chan.h>

#include "base/sys.h"
#include "support/test.h"
#include "unit/sync/flows.h"

TEST(a_channel_has_its_capacity_and_leaves_nothing_behind)
{
    struct wf_sys_held held = wf_sys_held();
    weft_chan *c = new_chan(sizeof(int), 5);
    CHECK_INT(weft_chan_capacity(c), ==, 5);
    CHECK_INT(weft_chan_count(c), ==, 0);
    for (int i = 0; i < 3; i++)
        CHECK_INT(weft_chan_send(c, &i, WEFT_NOW), ==, 0);
    CHECK_INT(weft_chan_count(c), ==, 3);
    CHECK_INT(weft_chan_free(c), ==, 0);
    CHECK_INT(weft_chan_free(NULL), ==, 0);
    CHECK_INT(wf_sys_held().n, ==, held.n);
}

TEST(sizes_beyond_memory_are_einval_and_no_memory_is_enomem)
{
    weft_chan *const untouched = (weft_chan *)&untouched;
    weft_chan *c = untouched;
    CHECK_INT(weft_chan_new(NULL, 8, 1), ==, -EINVAL);
    CHECK_INT(weft_chan_new(&c, SIZE_MAX, 0), ==, -EINVAL);
    CHECK_INT(weft_chan_new(&c, 2, SIZE_MAX), ==, -EINVAL);
    CHECK_INT(weft_chan_new(&c, SIZE_MAX / 2 + 2, 2), ==, -EINVAL);
    CHECK_INT(weft_chan_new(&c, 1, PTRDIFF_MAX - 8), ==, -EINVAL);
    wf_sys_fail(1u << WF_SYS_MALLOC, 1, 0);
    CHECK_INT(weft_chan_new(&c, 8, 1), ==, -ENOMEM);
    wf_sys_fail(0, 0, 0);
    CHECK_PTR(c, ==, untouched);
}

TEST(what_is_missing_is_einval)
{
    int v = 7;
    weft_chan *c = new_chan(sizeof v, 1);
    CHECK_INT(weft_chan_count(NULL), ==, 0);
    CHECK_INT(weft_chan_capacity(NULL), ==, 0);
    CHECK_INT(weft_chan_send(NULL, &v, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(weft_chan_recv(NULL, &v, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(weft_chan_send(c, NULL, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(weft_chan_recv(c, NULL, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(weft_chan_close(NULL), ==, -EINVAL);
    CHECK_INT(weft_chan_count(c), ==, 0);
    CHECK_INT(weft_chan_free(c), ==, 0);
}

static void fills_and_empties(size_t elem, size_t capacity)
{
    unsigned char in[128], out[130];
    weft_chan *c = new_chan(elem, capacity);
    unsigned sent = 0, got = 0;
    for (size_t round = 0; round < 3 * capacity + 3; round++) { /* the ring's end is passed at every fill */
        for (size_t i = 0; i < round % (capacity + 1); i++) {
            memset(in, (int)(sent++ & 0xff), sizeof in);
            CHECK_INT(weft_chan_send(c, in, WEFT_NOW), ==, 0);
        }
        while (weft_chan_count(c) > 0) {
            memset(out, 0xee, sizeof out);
            CHECK_INT(weft_chan_recv(c, out + 1, WEFT_NOW), ==, 0);
            memset(in, (int)(got++ & 0xff), sizeof in);
            CHECK(memcmp(out + 1, in, elem) == 0);
            CHECK(out[0] == 0xee && out[1 + elem] == 0xee);
        }
    }
    CHECK_INT(sent, ==, got);
    CHECK_INT(weft_chan_free(c), ==, 0);
}

TEST(elements_of_any_size_arrive_whole_and_in_order)
{
    static const size_t sizes[] = {1, 2, 3, 4, 7, 8, 9, 16, 100, 128};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        fills_and_empties(sizes[i], 1);
        fills_and_empties(sizes[i], 2);
        fills_and_empties(sizes[i], 5);
    }
}

TEST(with_now_what_would_wait_is_eagain)
{
    uint64_t v = 1;
    weft_chan *c = new_chan(sizeof v, 1), *unbuffered = new_chan(sizeof v, 0);
    CHECK_INT(weft_chan_recv(c, &v, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_chan_send(c, &v, WEFT_NOW), ==, 0);
    v = 2;
    CHECK_INT(weft_chan_send(c, &v, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_chan_send(unbuffered, &v, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_chan_recv(unbuffered, &v, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(v, ==, 2);
    CHECK_INT(weft_chan_recv(c, &v, WEFT_NOW), ==, 0);
    CHECK_INT(v, ==, 1);
    CHECK_INT(weft_chan_free(c), ==, 0);
    CHECK_INT(weft_chan_free(unbuffered), ==, 0);
}

TEST(elements_of_no_bytes_are_only_counted)
{
    weft_chan *c = new_chan(0, SIZE_MAX);
    CHECK_INT(weft_chan_capacity(c), ==, SIZE_MAX);
    for (int i = 0; i < 3; i++)
        CHECK_INT(weft_chan_send(c, NULL, WEFT_NOW), ==, 0);
    CHECK_INT(weft_chan_count(c), ==, 3);
    for (int i = 0; i < 3; i++)
        CHECK_INT(weft_chan_recv(c, NULL, WEFT_NOW), ==, 0);
    CHECK_INT(weft_chan_recv(c, NULL, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_chan_free(c), ==, 0);
}

enum { MANY = 2000 };

static void *sends_many(void *c)
{
    for (uint64_t i = 0; i < MANY; i++)
        CHECK_INT(weft_chan_send(c, &i, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_chan_close(c), ==, 0);
    return NULL;
}

static void receives_many(size_t capacity)
{
    struct flow sender;
    weft_chan *c = new_chan(sizeof(uint64_t), capacity);
    uint64_t v, expected = 0;
    flow_start(&sender, sends_many, c);
    while (weft_chan_recv(c, &v, WEFT_FOREVER) == 0)
        CHECK_INT(v, ==, expected++);
    CHECK_INT(expected, ==, MANY);
    flow_end(&sender);
    CHECK_INT(weft_chan_free(c), ==, 0);
}

static void receives_many_of_each(void)
{
    receives_many(0);
    receives_many(1);
    receives_many(16);
}

TEST(what_one_sends_another_receives_in_order)
{
    everywhere(receives_many_of_each);
}

/* One call on a channel, and what came of it. */
struct call {
    weft_chan *c;
    int v, rc;
    weft_time deadline;
    struct flow flow;
};

static void *sends(void *arg)
{
    struct call *k = arg;
    k->rc = weft_chan_send(k->c, &k->v, k->deadline);
    return NULL;
}

static void *receives(void *arg)
{
    struct call *k = arg;
    k->rc = weft_chan_recv(k->c, &k->v, k->deadline);
    return NULL;
}

/* Its deadline is only to fail instead of hanging. */
static void begin(struct call *k, weft_fn *fn, weft_chan *c, int v)
{
    *k = (struct call){.c = c, .v = v, .deadline = weft_in(10 * WEFT_SEC), .rc = 4711};
    flow_start(&k->flow, fn, k);
}

static void serves_in_order(void)
{
    enum { N = 5 };
    struct call k[N];
    weft_chan *c = new_chan(sizeof(int), 2);
    int v = -2;
    for (; v < 0; v++)
        CHECK_INT(weft_chan_send(c, &v, WEFT_NOW), ==, 0);
    for (int i = 0; i < N; i++) {
        begin(&k[i], sends, c, i);
        waits_on(c, (size_t)i + 1);
    }
    for (int i = -2; i < N; i++) { /* what was in it first, then the senders in the order they came */
        CHECK_INT(weft_chan_count(c), ==, i < N - 2 ? 2 : N - i);
        CHECK_INT(weft_chan_recv(c, &v, WEFT_NOW), ==, 0);
        CHECK_INT(v, ==, i);
    }
    for (int i = 0; i < N; i++) {
        flow_end(&k[i].flow);
        CHECK_INT(k[i].rc, ==, 0);
    }
    for (int i = 0; i < N; i++) {
        begin(&k[i], receives, c, -1);
        waits_on(c, (size_t)i + 1);
    }
    for (int i = 0; i < N; i++)
        CHECK_INT(weft_chan_send(c, &i, WEFT_NOW), ==, 0);
    CHECK_INT(weft_chan_count(c), ==, 0); /* each went straight to who waited */
    for (int i = 0; i < N; i++) {
        flow_end(&k[i].flow);
        CHECK_INT(k[i].rc, ==, 0);
        CHECK_INT(k[i].v, ==, i);
    }
    CHECK_INT(weft_chan_free(c), ==, 0);
}

TEST(who_waits_longest_goes_first)
{
    everywhere(serves_in_order);
}

static void closes_with_elements(void)
{
    weft_chan *c = new_chan(sizeof(int), 2);
    int v = 1;
    CHECK_INT(weft_chan_send(c, &v, WEFT_NOW), ==, 0);
    CHECK_INT(weft_chan_close(c), ==, 0);
    CHECK_INT(weft_chan_close(c), ==, -EPIPE);
    CHECK_INT(weft_chan_send(c, &v, WEFT_FOREVER), ==, -EPIPE);
    CHECK_INT(weft_chan_send(c, &v, WEFT_NOW), ==, -EPIPE);
    v = 0;
    CHECK_INT(weft_chan_count(c), ==, 1);
    CHECK_INT(weft_chan_recv(c, &v, WEFT_FOREVER), ==, 0);
    CHECK_INT(v, ==, 1);
    CHECK_INT(weft_chan_recv(c, &v, WEFT_FOREVER), ==, -EPIPE);
    CHECK_INT(weft_chan_recv(c, &v, WEFT_NOW), ==, -EPIPE);
    CHECK_INT(v, ==, 1);
    CHECK_INT(weft_chan_free(c), ==, 0);
}

TEST(a_closed_channel_takes_nothing_and_gives_what_is_in_it_then_epipe)
{
    everywhere(closes_with_elements);
}

static void closes_while_others_wait(void)
{
    enum { N = 4 };
    struct call k[N], r[N];
    weft_chan *full = new_chan(sizeof(int), 1), *empty = new_chan(sizeof(int), 0);
    int v = 42;
    CHECK_INT(weft_chan_send(full, &v, WEFT_NOW), ==, 0);
    for (int i = 0; i < N; i++) {
        begin(&k[i], sends, full, i);
        begin(&r[i], receives, empty, -1);
    }
    waits_on(full, N);
    waits_on(empty, N);
    CHECK_INT(weft_chan_close(full), ==, 0);
    CHECK_INT(weft_chan_close(empty), ==, 0);
    for (int i = 0; i < N; i++) {
        flow_end(&k[i].flow);
        flow_end(&r[i].flow);
        CHECK_INT(k[i].rc, ==, -EPIPE);
        CHECK_INT(r[i].rc, ==, -EPIPE);
        CHECK_INT(r[i].v, ==, -1);
    }
    CHECK_INT(weft_chan_recv(full, &v, WEFT_FOREVER), ==, 0);
    CHECK_INT(v, ==, 42);
    CHECK_INT(weft_chan_recv(full, &v, WEFT_FOREVER), ==, -EPIPE);
    CHECK_INT(weft_chan_free(full), ==, 0);
    CHECK_INT(weft_chan_free(empty), ==, 0);
}

TEST(close_wakes_everybody_with_epipe)
{
    everywhere(closes_while_others_wait);
}

static void waits_until_its_deadline(void)
{
    weft_chan *c = new_chan(sizeof(int), 1);
    int v = 3;
    weft_time past = weft_in(-WEFT_SEC), until = weft_in(20 * WEFT_MS);
    CHECK_INT(weft_chan_recv(c, &v, past), ==, -ETIMEDOUT);
    CHECK_INT(weft_chan_send(c, &v, past), ==, 0); /* it tries once */
    CHECK_INT(weft_chan_send(c, &v, past), ==, -ETIMEDOUT);
    CHECK_INT(weft_chan_send(c, &v, until), ==, -ETIMEDOUT);
    CHECK_INT(weft_now().ns, >=, until.ns);
    CHECK_INT(weft_now().ns, <, until.ns + 10 * WEFT_SEC);
    CHECK_INT(weft_chan_recv(c, &v, past), ==, 0);
    until = weft_in(20 * WEFT_MS);
    CHECK_INT(weft_chan_recv(c, &v, until), ==, -ETIMEDOUT);
    CHECK_INT(weft_now().ns, >=, until.ns);
    CHECK_INT(weft_now().ns, <, until.ns + 10 * WEFT_SEC);
    CHECK_INT(v, ==, 3);
    CHECK_INT(weft_chan_free(c), ==, 0); /* nobody is left in it */
}

TEST(a_deadline_ends_the_wait_and_never_early)
{
    everywhere(waits_until_its_deadline);
}

static void gives_up_in_the_middle(void)
{
    struct call first, gives_up, last;
    weft_chan *c = new_chan(sizeof(int), 0);
    begin(&first, receives, c, -1);
    waits_on(c, 1);
    gives_up = (struct call){.c = c, .v = -1, .deadline = weft_in(5 * WEFT_MS)};
    flow_start(&gives_up.flow, receives, &gives_up);
    flow_end(&gives_up.flow);
    CHECK_INT(gives_up.rc, ==, -ETIMEDOUT);
    begin(&last, receives, c, -1);
    waits_on(c, 2);
    for (int i = 1; i <= 2; i++)
        CHECK_INT(weft_chan_send(c, &i, WEFT_NOW), ==, 0);
    flow_end(&first.flow);
    flow_end(&last.flow);
    CHECK_INT(first.v, ==, 1);
    CHECK_INT(gives_up.v, ==, -1);
    CHECK_INT(last.v, ==, 2);
    CHECK_INT(weft_chan_free(c), ==, 0);
}

TEST(who_gave_up_is_given_nothing)
{
    everywhere(gives_up_in_the_middle);
}

static void *is_cancelled(void *arg)
{
    struct call *k = arg;
    int v = 9;
    k->rc = weft_chan_recv(k->c, &k->v, WEFT_FOREVER);
    CHECK_INT(weft_chan_recv(k->c, &k->v, weft_in(WEFT_SEC)), ==, -ECANCELED); /* the next one as well */
    CHECK_INT(weft_chan_send(k->c, &v, WEFT_FOREVER), ==, -ECANCELED);         /* nor one that would not have to wait */
    CHECK_INT(weft_chan_send(k->c, &v, WEFT_NOW), ==, 0);
    CHECK_INT(weft_chan_send(k->c, &v, WEFT_NOW), ==, -EAGAIN);
    return NULL;
}

static void cancels_one_that_waits(void)
{
    struct call k = {.c = new_chan(sizeof(int), 1), .v = -1};
    flow_start(&k.flow, is_cancelled, &k);
    waits_on(k.c, 1);
    CHECK_INT(weft_cancel(k.flow.fiber), ==, 0);
    flow_end(&k.flow);
    CHECK_INT(k.rc, ==, -ECANCELED);
    CHECK_INT(k.v, ==, -1);
    CHECK_INT(weft_chan_count(k.c), ==, 1);
    CHECK_INT(weft_chan_free(k.c), ==, 0);
}

TEST(a_cancelled_wait_is_ecanceled)
{
    in_fibers(cancels_one_that_waits, 1);
    in_fibers(cancels_one_that_waits, 4);
}

static void frees_too_early(void)
{
    struct call k;
    weft_chan *c = new_chan(sizeof(int), 0);
    begin(&k, receives, c, -1);
    waits_on(c, 1);
    CHECK_INT(weft_chan_free(c), ==, -EBUSY);
    CHECK_INT(weft_chan_close(c), ==, 0);
    CHECK_INT(weft_chan_free(c), ==, 0); /* it has been woken, and looks at the channel no more */
    flow_end(&k.flow);
    CHECK_INT(k.rc, ==, -EPIPE);
}

TEST(free_is_ebusy_while_somebody_waits)
{
    everywhere(frees_too_early);
}

/* Cancelled and not yet awake: another takes its waiter out, but it will still look at the channel. */
static void frees_before_it_is_gone(void)
{
    struct call k;
    weft_chan *c = new_chan(sizeof(int), 0);
    begin(&k, receives, c, -1);
    waits_on(c, 1);
    CHECK_INT(weft_cancel(k.flow.fiber), ==, 0);
    CHECK_INT(weft_chan_close(c), ==, 0);
    CHECK_INT(weft_chan_free(c), ==, -EBUSY);
    flow_end(&k.flow);
    CHECK_INT(k.rc, ==, -ECANCELED);
    CHECK_INT(weft_chan_free(c), ==, 0);
}

TEST(free_is_ebusy_until_who_gave_up_has_gone)
{
    in_fibers(frees_before_it_is_gone, 1);
}

static void *sends_one_and_may_find_it_gone(void *c)
{
    uint64_t v = 1;
    CHECK_INT(weft_chan_send(c, &v, WEFT_FOREVER), ==, 0);
    return NULL;
}

static void frees_what_it_received_from(void)
{
    for (int i = 0; i < 200 && !test_has_failed(); i++) {
        struct flow f;
        uint64_t v = 0;
        weft_chan *c = new_chan(sizeof v, (size_t)i % 2);
        flow_start(&f, sends_one_and_may_find_it_gone, c);
        if (i % 3 == 0 && i % 2 == 0)
            waits_on(c, 1);
        CHECK_INT(weft_chan_recv(c, &v, WEFT_FOREVER), ==, 0);
        CHECK_INT(v, ==, 1);
        CHECK_INT(weft_chan_free(c), ==, 0);
        flow_end(&f);
    }
}

TEST(who_received_the_last_value_may_free_the_channel)
{
    everywhere(frees_what_it_received_from);
}

TESTS(sync_chan, a_channel_has_its_capacity_and_leaves_nothing_behind,
      sizes_beyond_memory_are_einval_and_no_memory_is_enomem, what_is_missing_is_einval,
      elements_of_any_size_arrive_whole_and_in_order, with_now_what_would_wait_is_eagain,
      elements_of_no_bytes_are_only_counted, what_one_sends_another_receives_in_order, who_waits_longest_goes_first,
      a_closed_channel_takes_nothing_and_gives_what_is_in_it_then_epipe, close_wakes_everybody_with_epipe,
      a_deadline_ends_the_wait_and_never_early, who_gave_up_is_given_nothing, a_cancelled_wait_is_ecanceled,
      free_is_ebusy_while_somebody_waits, free_is_ebusy_until_who_gave_up_has_gone,
      who_received_the_last_value_may_free_the_channel)
