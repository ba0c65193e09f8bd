/*
 * The explorer's memory, by the short programs that memory models are known by: it shows what a weak memory may show,
 * and never what C11 forbids. And its schedules: they repeat, and a failure says how.
 */
#define WF_EXPLORE 1
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "support/explore.h"
#include "support/runner.h"

enum { ENOUGH = 2000 }; /* schedules for such short programs */

static uint32_t x, y;
static uint32_t seen[4]; /* what the threads have read; plain */
static unsigned surprises, plain_results;

static void zero(void)
{
    x = y = 0;
    memset(seen, 0xff, sizeof seen);
}

/* --- storing: each writes one and reads the other; both reading 0 is the surprise --- */

static void store_x_load_y(int self)
{
    wf_store_release(&x, 1);
    seen[self] = wf_load_acquire(&y);
}

static void store_y_load_x(int self)
{
    wf_store_release(&y, 1);
    seen[self] = wf_load_acquire(&x);
}

static void store_x_fence_load_y(int self)
{
    wf_store(&x, 1);
    wf_fence();
    seen[self] = wf_load(&y);
}

static void store_y_fence_load_x(int self)
{
    wf_store(&y, 1);
    wf_fence();
    seen[self] = wf_load(&x);
}

static void count_both_zero(void)
{
    *(seen[0] == 0 && seen[1] == 0 ? &surprises : &plain_results) += 1;
}

TEST(a_store_may_be_seen_after_a_later_load_but_for_a_fence)
{
    surprises = plain_results = 0;
    explore(&(struct explore){
        .set_up = zero, .threads = {store_x_load_y, store_y_load_x}, .check = count_both_zero, .schedules = ENOUGH});
    CHECK_INT(surprises, >, 0);
    CHECK_INT(plain_results, >, 0);
    surprises = 0;
    explore(&(struct explore){.set_up = zero,
                              .threads = {store_x_fence_load_y, store_y_fence_load_x},
                              .check = count_both_zero,
                              .schedules = ENOUGH});
    CHECK_INT(surprises, ==, 0);
}

/* --- each writes both, in opposite orders; that the first store of each is the last word is the surprise --- */

static void store_x_store_y(int self)
{
    (void)self;
    wf_store(&x, 1);
    wf_store(&y, 2);
}

static void store_y_store_x(int self)
{
    (void)self;
    wf_store(&y, 1);
    wf_store(&x, 2);
}

static void count_first_stores_last(void)
{
    *(x == 1 && y == 1 ? &surprises : &plain_results) += 1;
}

TEST(stores_to_two_locations_may_change_places)
{
    surprises = plain_results = 0;
    explore(&(struct explore){.set_up = zero,
                              .threads = {store_x_store_y, store_y_store_x},
                              .check = count_first_stores_last,
                              .schedules = ENOUGH});
    CHECK_INT(surprises, >, 0);
    CHECK_INT(plain_results, >, 0);
}

/* --- a message: x is written, then y says so; who sees y and not x is surprised --- */

static void send_relaxed(int self)
{
    (void)self;
    wf_store(&x, 1);
    wf_store(&y, 1);
}

static void send_released(int self)
{
    (void)self;
    wf_store(&x, 1);
    wf_store_release(&y, 1);
}

static void send_fenced(int self)
{
    (void)self;
    wf_store(&x, 1);
    wf_fence();
    wf_store(&y, 1);
}

static void send_modified(int self)
{
    (void)self;
    wf_store(&x, 1);
    wf_add(&y, 1);
}

static void receive_relaxed(int self)
{
    (void)self;
    seen[0] = wf_load(&y);
    seen[1] = wf_load(&x);
}

static void receive_acquired(int self)
{
    (void)self;
    seen[0] = wf_load_acquire(&y);
    seen[1] = wf_load(&x);
}

static void receive_fenced(int self)
{
    (void)self;
    seen[0] = wf_load(&y);
    wf_fence();
    seen[1] = wf_load(&x);
}

static void receive_by_cas(int self)
{
    (void)self;
    uint32_t is = 7;
    CHECK(!wf_cas(&y, &is, 8)); /* one that fails acquires too */
    seen[0] = is;
    seen[1] = wf_load(&x);
}

static void count_message_without_contents(void)
{
    *(seen[0] == 1 && seen[1] == 0 ? &surprises : &plain_results) += seen[0] == 1;
}

static unsigned surprises_of_message(void (*sender)(int), void (*receiver)(int))
{
    surprises = plain_results = 0;
    explore(&(struct explore){
        .set_up = zero, .threads = {sender, receiver}, .check = count_message_without_contents, .schedules = ENOUGH});
    CHECK_INT(plain_results, >, 0); /* it arrives */
    return surprises;
}

TEST(a_message_needs_a_release_and_an_acquire)
{
    CHECK_INT(surprises_of_message(send_relaxed, receive_relaxed), >, 0);
    CHECK_INT(surprises_of_message(send_relaxed, receive_acquired), >, 0);
    CHECK_INT(surprises_of_message(send_released, receive_relaxed), >, 0);
    CHECK_INT(surprises_of_message(send_modified, receive_relaxed), >, 0);
}

TEST(a_release_and_an_acquire_of_any_kind_carry_a_message)
{
    void (*const senders[])(int) = {send_released, send_fenced, send_modified};
    void (*const receivers[])(int) = {receive_acquired, receive_fenced, receive_by_cas};
    for (int s = 0; s < 3; s++) {
        for (int r = 0; r < 3; r++)
            CHECK_INT(surprises_of_message(senders[s], receivers[r]), ==, 0);
    }
}

/* A third thread passes the message on, by its own release of another word. */
static uint32_t z;

static void pass_on(int self)
{
    (void)self;
    if (wf_load_acquire(&y) == 1)
        wf_store_release(&z, 1);
}

static void receive_what_was_passed_on(int self)
{
    (void)self;
    seen[0] = wf_load_acquire(&z);
    seen[1] = wf_load(&x);
}

static void zero_all(void)
{
    zero();
    z = 0;
}

TEST(a_message_can_be_passed_on)
{
    surprises = plain_results = 0;
    explore(&(struct explore){.set_up = zero_all,
                              .threads = {send_released, pass_on, receive_what_was_passed_on},
                              .check = count_message_without_contents,
                              .schedules = ENOUGH});
    CHECK_INT(plain_results, >, 0);
    CHECK_INT(surprises, ==, 0);
}

/* --- one location --- */

static void count_up(int self)
{
    (void)self;
    for (uint32_t i = 1; i <= 3; i++)
        wf_store(&x, i);
    CHECK_INT(wf_load(&x), ==, 3);
}

static void watch(int self)
{
    (void)self;
    for (uint32_t last = 0, now, i = 0; i < 4; i++, last = now) {
        now = wf_load(&x);
        CHECK_INT(now, >=, last);
    }
}

TEST(nobody_goes_back_in_the_history_of_one_location)
{
    explore(&(struct explore){.set_up = zero, .threads = {count_up, watch, watch}, .schedules = ENOUGH});
}

static void add_in_one_step(int self)
{
    (void)self;
    wf_add(&x, 1);
}

static void add_by_cas(int self)
{
    (void)self;
    uint32_t is = wf_load(&x);
    while (!wf_cas(&x, &is, is + 1))
        wf_cpu_relax();
}

static void add_in_two_steps(int self)
{
    (void)self;
    wf_store(&x, wf_load(&x) + 1);
}

static void count_lost(void)
{
    *(x < 3 ? &surprises : &plain_results) += 1;
}

TEST(two_steps_can_lose_what_one_step_cannot)
{
    surprises = 0;
    explore(&(struct explore){.set_up = zero,
                              .threads = {add_in_one_step, add_by_cas, add_in_one_step},
                              .check = count_lost,
                              .schedules = ENOUGH});
    CHECK_INT(surprises, ==, 0);
    explore(&(struct explore){.set_up = zero,
                              .threads = {add_in_two_steps, add_by_cas, add_in_two_steps},
                              .check = count_lost,
                              .schedules = ENOUGH});
    CHECK_INT(surprises, >, 0);
}

static uint8_t small;
static int64_t large;

static void modify_all_sizes(int self)
{
    (void)self;
    CHECK_INT(wf_add(&small, 2), ==, 255);
    CHECK_INT(wf_or(&small, 6), ==, 1);
    CHECK_INT(wf_and(&small, 5), ==, 7);
    CHECK_INT(wf_exchange(&small, 9), ==, 5);
    wf_store(&large, -2);
    CHECK_INT(wf_add(&large, 1), ==, -2);
    CHECK_INT(wf_load(&large), ==, -1);
}

static void reset_all_sizes(void)
{
    small = 255;
    large = 0;
}

static void check_all_sizes(void)
{
    int64_t is = -1;
    CHECK_INT(small, ==, 9);
    CHECK(wf_cas(&large, &is, -3)); /* outside of the threads it is memory */
    CHECK_INT(wf_exchange(&large, 5), ==, -3);
    CHECK_INT(large, ==, 5);
}

TEST(operations_keep_to_the_size_and_sign_of_their_operand)
{
    explore_one(
        &(struct explore){
            .set_up = reset_all_sizes, .threads = {modify_all_sizes}, .check = check_all_sizes, .schedules = 1},
        1);
}

/* --- schedules --- */

static uint64_t result;

static void mix(int self)
{
    for (int i = 0; i < 5; i++) {
        wf_store(&x, (uint32_t)(self * 10 + i));
        result = result * 31 + wf_load(&y);
        wf_store(&y, wf_load(&x) + explore_random(7));
    }
}

TEST(a_seed_is_a_schedule)
{
    const struct explore mixed = {.set_up = zero, .threads = {mix, mix, mix}, .schedules = 1};
    unsigned differ = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        uint64_t results[3];
        for (int i = 0; i < 3; i++) {
            result = 0;
            explore_one(&mixed, seed + (i == 2));
            results[i] = result;
        }
        CHECK(results[0] == results[1]);
        differ += results[1] != results[2];
    }
    CHECK_INT(differ, >, 90);
}

static void wait_for_nobody(int self)
{
    (void)self;
    while (wf_load(&y) == 0)
        wf_cpu_relax();
}

static void expects_too_much(int self)
{
    (void)self;
    wf_store(&x, 0xab);
    CHECK_INT(wf_load(&y), ==, 1);
    wait_for_nobody(self);
}

static void explore_a_mistake(void)
{
    explore_name(&x, sizeof x, "ex");
    explore(&(struct explore){.set_up = zero, .threads = {expects_too_much, wait_for_nobody}, .schedules = ENOUGH});
}

static void explore_an_endless_loop(void)
{
    explore(&(struct explore){.set_up = zero, .threads = {wait_for_nobody}, .schedules = ENOUGH});
}

static void forget_failures(void)
{
}

/* Runs a test in a child, whose exit status says whether it failed. */
static void run_failing(void *inner)
{
    unsetenv("WEFT_SEED"); /* what it says must not depend on them */
    unsetenv("WEFT_SCHEDULES");
    int status = test_run_one(&(struct test){"inner", *(void (**)(void))inner}) == TEST_FAILED ? 3 : 0;
    test_run_one(&(struct test){"nothing", forget_failures}); /* it was wanted */
    _exit(status);
}

TEST(a_failure_ends_the_schedule_and_says_its_seed_and_steps)
{
    void (*mistake)(void) = explore_a_mistake, (*endless)(void) = explore_an_endless_loop;
    CHECK_CHILD(run_failing, &mistake, TEST_EXITS, "WEFT_SEED=1 WEFT_SCHEDULES=1");
    CHECK_CHILD(run_failing, &mistake, TEST_EXITS, "thread 0  store         ex+0                 ab");
    CHECK_CHILD(run_failing, &endless, TEST_EXITS, "it has not ended");
}

TESTS(support_explore, a_store_may_be_seen_after_a_later_load_but_for_a_fence,
      stores_to_two_locations_may_change_places, a_message_needs_a_release_and_an_acquire,
      a_release_and_an_acquire_of_any_kind_carry_a_message, a_message_can_be_passed_on,
      nobody_goes_back_in_the_history_of_one_location, two_steps_can_lose_what_one_step_cannot,
      operations_keep_to_the_size_and_sign_of_their_operand, a_seed_is_a_schedule,
      a_failure_ends_the_schedule_and_says_its_seed_and_steps)
