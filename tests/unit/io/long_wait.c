/*
 * Waits that have taken long when the program closes the descriptor by close(2) or dup2(2): the waiter finds out within the time
 * that weft/io.h states. The test moves the clock, and has the workers look at it.
 */
#include "io/fd.h"
#include "unit/io/ground.h"

#define LONGEST (13 * WEFT_SEC) /* from one look of a long wait to the next, as io.h says */

static void poke(weft_sched *s)
{
    ended(go_on(s, returns_at_once, NULL));
}

static void *reads(void *arg)
{
    char byte;
    return ptr(weft_read(*(int *)arg, &byte, 1, WEFT_FOREVER));
}

static void *waits(void *arg)
{
    return ptr(weft_wait_fd(*(int *)arg, POLLIN, WEFT_FOREVER));
}

static void *polls(void *arg)
{
    struct pollfd p = {.fd = *(int *)arg, .events = POLLIN};
    int n = weft_poll(&p, 1, WEFT_FOREVER);
    return ptr(n != 1 ? -EINVAL : p.revents == POLLNVAL ? -EBADF : p.revents);
}

static weft_fn *const ways[] = {waits, polls, reads};

/* How many of them a driver can promise that for: with io_uring a read goes on with the file that was closed. */
static int count_ways(void)
{
    return strcmp(weft_io_backend(), "epoll") == 0 ? 3 : 2;
}

/* Until it has been looked after some times, and the looks are as far apart as they get. */
static void let_it_wait(weft_sched *s, weft_fiber *f)
{
    AWAIT(is_parked(f));
    for (int i = 0; i < 20; i++) {
        clock_forward(LONGEST);
        for (int k = 0; k < 5; k++)
            poke(s);
        CHECK(weft_fiber_state(f) != WEFT_FIBER_DONE);
    }
    AWAIT(is_parked(f));
}

static void ends_with(weft_sched *s, weft_fiber *f, intptr_t result)
{
    clock_forward(LONGEST);
    AWAIT((poke(s), weft_fiber_state(f) == WEFT_FIBER_DONE));
    weft_cancel(f);
    CHECK_PTR(ended(f), ==, ptr(result));
}

TEST(a_close_behind_a_long_wait_is_found_out)
{
    clock_begin();
    weft_sched *s = running_sched(1);
    for (int i = 0; i < count_ways(); i++) {
        struct pair p = unix_pair(SOCK_STREAM);
        weft_fiber *f = go_on(s, ways[i], &p.a);
        let_it_wait(s, f);
        CHECK_INT(close(p.a), ==, 0);
        ends_with(s, f, -EBADF);
        CHECK_INT(weft_close(p.b), ==, 0);
    }
    end_sched(s);
    clock_end();
}

TEST(a_long_wait_goes_on_with_what_has_the_number_now)
{
    clock_begin();
    weft_sched *s = running_sched(1);
    for (int i = 0; i < count_ways(); i++) {
        struct pair p = unix_pair(SOCK_STREAM), next = unix_pair(SOCK_STREAM);
        weft_fiber *f = go_on(s, ways[i], &p.a);
        let_it_wait(s, f);
        CHECK_INT(dup2(next.a, p.a), ==, p.a);
        CHECK_INT(write(next.b, "x", 1), ==, 1);
        ends_with(s, f, 1); /* a byte, or POLLIN */
        close_pair(p);
        close_pair(next);
    }
    end_sched(s);
    clock_end();
}

static void use(weft_sched *s, int *fd)
{
    weft_fiber *f = go_on(s, reads, fd);
    AWAIT(is_parked(f));
    weft_cancel(f);
    CHECK_PTR(ended(f), ==, ptr(-ECANCELED));
}

/* Both have the number registered, for the file that was closed. Only one has a waiter, and the other looks first. */
TEST(a_wait_is_verified_by_the_scheduler_that_it_is_of)
{
    clock_begin();
    weft_sched *a = running_sched(1), *b = running_sched(1);
    struct pair p = unix_pair(SOCK_STREAM), next = unix_pair(SOCK_STREAM), idle = unix_pair(SOCK_STREAM);
    use(a, &p.a);
    use(b, &p.a);
    CHECK_INT(dup2(next.a, p.a), ==, p.a);
    weft_fiber *waits_in_a = go_on(a, reads, &idle.a), *f = go_on(b, reads, &p.a);
    AWAIT(is_parked(waits_in_a) && is_parked(f));
    clock_forward(WEFT_SEC);
    for (int i = 0; i < 20; i++)
        poke(a);
    weft_cancel(waits_in_a);
    CHECK_PTR(ended(waits_in_a), ==, ptr(-ECANCELED));
    end_sched(a);
    for (int i = 0; i < 20; i++)
        poke(b);
    CHECK_INT(write(next.b, "x", 1), ==, 1);
    AWAIT(weft_fiber_state(f) == WEFT_FIBER_DONE);
    weft_cancel(f);
    CHECK_PTR(ended(f), ==, ptr(1));
    end_sched(b);
    close_pair(p);
    close_pair(next);
    close_pair(idle);
    clock_end();
}

TESTS(io_long_wait, a_close_behind_a_long_wait_is_found_out, a_long_wait_goes_on_with_what_has_the_number_now,
      a_wait_is_verified_by_the_scheduler_that_it_is_of)
