/*
 * Percentiles from counts by powers of two.
 */
#include "tools/weft/latency.h"

#include "support/test.h"

static uint64_t counts[WEFT_HTTP_LATENCIES];

static void clear(void)
{
    for (int i = 0; i < WEFT_HTTP_LATENCIES; i++)
        counts[i] = 0;
}

TEST(without_requests_there_are_no_percentiles)
{
    clear();
    struct latency l = latency_between(NULL, counts);
    CHECK_INT(l.count, ==, 0);
    CHECK(l.p50 < 0 && l.p90 < 0 && l.p99 < 0);
    counts[5] = 7;
    l = latency_between(counts, counts);
    CHECK_INT(l.count, ==, 0);
    CHECK(l.p50 < 0 && l.p90 < 0 && l.p99 < 0);
}

TEST(latencies_are_spread_evenly_within_a_power_of_two)
{
    clear();
    counts[10] = 100; /* from 512 to 1024 us */
    struct latency l = latency_between(NULL, counts);
    CHECK_INT(l.count, ==, 100);
    CHECK_INT(l.p50 * 10, ==, 7680);
    CHECK_INT(l.p90 * 10, ==, 9728);
    CHECK_INT(l.p99 * 100, ==, 101888);
}

TEST(the_first_class_is_below_a_microsecond)
{
    clear();
    counts[0] = 1;
    CHECK_INT(latency_between(NULL, counts).p50 * 10, ==, 5);
    clear();
    counts[1] = 1;
    CHECK_INT(latency_between(NULL, counts).p50 * 10, ==, 15);
}

TEST(each_percentile_lies_in_the_class_of_its_rank)
{
    clear();
    counts[4] = 90; /* 8 to 16 us */
    counts[10] = 10;
    struct latency l = latency_between(NULL, counts);
    CHECK(l.p50 >= 8 && l.p50 <= 16);
    CHECK_INT(l.p90, ==, 16); /* 90 of 100: the class is just full */
    CHECK_INT(l.p99 * 10, ==, 9728);
}

TEST(only_what_was_counted_since_the_first_figures_counts)
{
    uint64_t before[WEFT_HTTP_LATENCIES] = {[20] = 1000000};
    clear();
    counts[20] = 1000000;
    counts[3] = 4;
    struct latency l = latency_between(before, counts);
    CHECK_INT(l.count, ==, 4);
    CHECK(l.p99 <= 8);
    CHECK(latency_between(NULL, counts).p50 > 500000);
}

TEST(percentiles_do_not_fall_with_their_rank)
{
    uint64_t state = test_seed();
    for (int round = 0; round < 1000; round++) {
        clear();
        for (int i = 0; i < 6; i++)
            counts[test_random(&state) % WEFT_HTTP_LATENCIES] += test_random(&state) % 1000 + 1;
        struct latency l = latency_between(NULL, counts);
        CHECK(0 <= l.p50 && l.p50 <= l.p90 && l.p90 <= l.p99 && l.p99 <= (double)(UINT64_C(1) << 31));
    }
}

TESTS(tools_latency, without_requests_there_are_no_percentiles, latencies_are_spread_evenly_within_a_power_of_two,
      the_first_class_is_below_a_microsecond, each_percentile_lies_in_the_class_of_its_rank,
      only_what_was_counted_since_the_first_figures_counts, percentiles_do_not_fall_with_their_rank)
