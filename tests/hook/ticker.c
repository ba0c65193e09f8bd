/*
 * tests/hook/ticker.c: what tells whether a worker was blocked can tell.
 */
#include "hook/statement.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include <weft/hook.h>

/* The least that is to be seen, however busy the machine is. */
static double long_ms(void)
{
    return 2 * statement_gap_limit();
}

static void block(void)
{
    weft_hook_enable(false);
    usleep((useconds_t)(long_ms() * 1000));
}

static double computed_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void compute(void)
{
    double end = computed_ms() + long_ms();
    while (computed_ms() < end)
        ;
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

/* A CPU may stand still for as long as that, once: then neither can be told from the other. */
static bool is_seen(void (*body)(void))
{
    double gap = statement_gap(body);
    return gap > statement_gap_limit() || statement_gap(body) > statement_gap_limit();
}

TEST(a_call_that_blocks_the_worker_is_seen)
{
    if (is_kernel())
        SKIP("there is no worker");
    for (int i = 0; i < 5; i++) {
        CHECK(is_seen(block));
        CHECK(is_seen(block_in_another_flow));
    }
}

TEST(a_computation_that_keeps_the_worker_is_seen)
{
    if (is_kernel())
        SKIP("there is no worker");
    for (int i = 0; i < 5; i++)
        CHECK(is_seen(compute));
}

TEST(what_blocks_elsewhere_is_not_held_against_the_worker)
{
    if (is_kernel())
        SKIP("there is no worker");
    double gap = statement_gap(block_the_other_worker);
    CHECK(gap <= statement_gap_limit() || statement_gap(block_the_other_worker) <= statement_gap_limit());
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

STATEMENTS(ticker, a_call_that_blocks_the_worker_is_seen, a_computation_that_keeps_the_worker_is_seen,
           what_blocks_elsewhere_is_not_held_against_the_worker, every_kind_of_flow_runs_and_is_waited_for,
           time_is_told)
