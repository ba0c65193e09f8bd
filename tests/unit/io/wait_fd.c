/*
 * weft_wait_fd says what is so when it returns, though other workers have the same descriptor registered and may be late to tell
 * what they have fetched.
 */
#include "unit/io/stale.h"

/* The only reader: after a read there is nothing, until it has been counted. */
static void *reads_and_waits(void *arg)
{
    struct stale *s = arg;
    for (int i = 0; i < ROUNDS; i++) {
        char byte;
        while (weft_read(s->pair.a, &byte, 1, WEFT_NOW) != 1)
            weft_yield();
        int rc = weft_wait_fd(s->pair.a, POLLIN, weft_in(20 * WEFT_US));
        s->wrong += rc != -ETIMEDOUT;
        more(&s->read);
    }
    put(&s->stop, 1);
    return NULL;
}

TEST(a_wait_reports_no_byte_that_was_read_before_it_began)
{
    CHECK_INT(play_stale(reads_and_waits), ==, 0);
}

static void *waits_to_read(void *arg)
{
    return ptr(weft_wait_fd(*(int *)arg, POLLIN, WEFT_FOREVER));
}

IN_FIBER(a_wait_goes_on_when_the_kernel_says_that_there_is_nothing)
{
    struct pair p = unix_pair(SOCK_STREAM);
    weft_fiber *f = go(waits_to_read, &p.a);
    for (int i = 0; i < 3; i++) {
        AWAIT(is_parked(f));
        tell_of_nothing(p.a, WF_FD_UNSURE);
        AWAIT(is_parked(f) || weft_fiber_state(f) == WEFT_FIBER_DONE);
        CHECK(weft_fiber_state(f) != WEFT_FIBER_DONE);
    }
    CHECK_INT(write(p.b, "x", 1), ==, 1);
    CHECK_PTR(ended(f), ==, ptr(POLLIN));
    close_pair(p);
    return arg;
}

TESTS(io_wait_fd, a_wait_reports_no_byte_that_was_read_before_it_began,
      a_wait_goes_on_when_the_kernel_says_that_there_is_nothing)
