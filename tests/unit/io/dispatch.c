/*
 * The two modes of dispatch, with descriptors: R is queued, the time of S, who sleeps, has come, and what W reads is there.
 */
#include "unit/io/ground.h"

static char order[16];
static size_t orders;
static int ends[2]; /* of a pair of sockets */

static void note(char who)
{
    if (orders + 1 < sizeof order)
        order[orders++] = who;
}

static void *is_queued(void *arg)
{
    note('R');
    return arg;
}

static void *sleeps(void *arg)
{
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
    note('S');
    return arg;
}

static void *reads(void *arg)
{
    char byte;
    CHECK_INT(weft_read(ends[0], &byte, 1, WEFT_FOREVER), ==, 1);
    note('W');
    return arg;
}

static void *lets_all_be_ready(void *arg)
{
    weft_fiber *s = go(sleeps, NULL), *w = go(reads, NULL);
    AWAIT(is_parked(s) && is_parked(w));
    CHECK_INT(weft_detach(s), ==, 0);
    CHECK_INT(weft_detach(w), ==, 0);
    for (int i = 0; i < 200; i++)
        weft_yield(); /* the driver has seen to both by now */
    wf_clock_set(weft_now().ns + 10 * WEFT_MS);
    CHECK_INT(write(ends[1], "x", 1), ==, 1);
    CHECK_INT(weft_go(is_queued, NULL), ==, 0);
    return arg;
}

static void dispatch(int how, const char *expected)
{
    weft_sched *s = NULL;
    memset(order, 0, sizeof order);
    orders = 0;
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), ==, 0);
    wf_clock_set(real_now());
    CHECK_INT(weft_sched_new(&s, &(weft_sched_opts){.threads = 1, .use_caller = true, .dispatch = how}), ==, 0);
    CHECK_INT(weft_sched_go(s, NULL, NULL, lets_all_be_ready, NULL), ==, 0);
    end_sched(s);
    wf_clock_set(0);
    CHECK_STR(order, expected);
    CHECK_INT(weft_close(ends[0]), ==, 0);
    CHECK_INT(weft_close(ends[1]), ==, 0);
}

TEST(queue_runs_what_is_queued_then_sleepers_then_readers)
{
    dispatch(WEFT_QUEUE, "RSW");
}

TEST(direct_runs_sleepers_then_readers_then_what_is_queued)
{
    dispatch(WEFT_DIRECT, "SWR");
}

TESTS(io_dispatch, queue_runs_what_is_queued_then_sleepers_then_readers,
      direct_runs_sleepers_then_readers_then_what_is_queued)
