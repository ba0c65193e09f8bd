/*
 * tests/hook/ticker.c: what tells whether a worker was blocked can tell.
 */
#include "hook/statement.h"

#include <errno.h>
#include <unistd.h>

#include <weft/hook.h>

static void block(void)
{
    weft_hook_enable(false);
    usleep(600000);
}

static void flow_blocks(void *arg)
{
    (void)arg;
    block();
}

static void block_in_another_flow(void)
{
    end(begin(flow_blocks, NULL));
}

static void block_the_other_worker(void)
{
    end(begin_elsewhere(flow_blocks, NULL));
    end(begin_thread(flow_blocks, NULL));
}

TEST(a_call_that_blocks_the_worker_is_seen)
{
    if (is_kernel())
        SKIP("there is no worker");
    CHECK(statement_gap(block) >= 590);
    CHECK(statement_gap(block_in_another_flow) >= 590);
    CHECK(590 > statement_gap_limit());
}

TEST(what_blocks_elsewhere_is_not_held_against_the_worker)
{
    if (is_kernel())
        SKIP("there is no worker");
    CHECK(statement_gap(block_the_other_worker) <= statement_gap_limit());
}

static void count(void *arg)
{
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_RELAXED);
}

STATEMENT(every_kind_of_flow_runs_and_is_waited_for)
{
    int ran = 0;
    struct flow *flows[] = {begin(count, &ran), begin_elsewhere(count, &ran), begin_thread(count, &ran)};
    for (int i = 0; i < 3; i++)
        end(flows[i]);
    CHECK_INT(ran, ==, 3);
    CHECK_INT(weft_hooked(), ==, !is_kernel());
}

STATEMENT(time_is_told)
{
    double start = now_ms();
    CHECK_AT_ONCE(start);
    usleep(20000);
    CHECK_AFTER(start, 20);
    CHECK_ERRNO(close(-1), EBADF);
}

STATEMENTS(ticker, a_call_that_blocks_the_worker_is_seen, what_blocks_elsewhere_is_not_held_against_the_worker,
           every_kind_of_flow_runs_and_is_waited_for, time_is_told)
