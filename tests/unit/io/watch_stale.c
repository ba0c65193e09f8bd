/*
 * A watch fires on what is so, though other workers have the same descriptor registered and may be late to tell what they have
 * fetched.
 */
#include <weft/watch.h>

#include "unit/io/stale.h"

static void fires(int fd, unsigned events, void *arg)
{
    (void)fd, (void)events;
    put(arg, 1);
}

/* The only reader: after a read there is nothing, until it has been counted. */
static void *reads_and_watches(void *arg)
{
    struct stale *s = arg;
    for (int i = 0; i < ROUNDS; i++) {
        char byte;
        while (weft_read(s->pair.a, &byte, 1, WEFT_NOW) != 1)
            weft_yield();
        int fired = 0;
        CHECK_INT(weft_watch_add(s->pair.a, WEFT_READ, fires, &fired), ==, 0);
        weft_sleep(20 * WEFT_US); /* the more often a late event falls into this, the more the test sees */
        if (weft_watch_del(s->pair.a, WEFT_READ) != 0) {
            AWAIT(seen(&fired));
            s->wrong++;
        }
        more(&s->read);
    }
    put(&s->stop, 1);
    return NULL;
}

TEST(a_watch_does_not_fire_on_a_byte_that_was_read_before_it_was_added)
{
    CHECK_INT(play_stale(reads_and_watches), ==, 0);
}

static void counts_reads(int fd, unsigned events, void *arg)
{
    (void)fd;
    CHECK_INT(events, ==, WEFT_READ);
    more(arg);
}

static void *tells_unsure(void *arg)
{
    tell_of_nothing(*(int *)arg, WF_FD_UNSURE);
    return NULL;
}

/* Told by another thread, then by its own worker for an event that waited. */
TEST(a_watch_stays_when_the_kernel_says_that_there_is_nothing)
{
    struct pair p = unix_pair(SOCK_STREAM);
    weft_sched *s = running_sched(1);
    for (int round = 0; round < 3; round++) {
        int times = 0;
        char byte;
        CHECK_INT(weft_sched_watch_add(s, p.a, WEFT_READ, counts_reads, &times), ==, 0);
        tell_of_nothing(p.a, 0); /* whether it is armed by now or not */
        ended(go_on(s, returns_at_once, NULL));
        tell_of_nothing(p.a, 0);
        ended(go_on(s, tells_unsure, &p.a));
        CHECK_INT(seen(&times), ==, 0);
        CHECK_INT(weft_sched_watch_add(s, p.a, WEFT_READ, counts_reads, &times), ==, -EEXIST); /* it is still there */
        CHECK_INT(write(p.b, "x", 1), ==, 1);
        AWAIT(seen(&times) == 1);
        CHECK_INT(read(p.a, &byte, 1), ==, 1);
    }
    end_sched(s);
    close_pair(p);
}

/* In a ring the watch's own poll reports it, and is used up by that. */
IN_FIBER(a_watch_whose_byte_was_taken_fires_for_the_next)
{
    struct pair p = unix_pair(SOCK_STREAM);
    int times = 0;
    char byte;
    CHECK_INT(weft_watch_add(p.a, WEFT_READ, counts_reads, &times), ==, 0);
    weft_sleep(WEFT_MS); /* long enough for a ring to be given the poll */
    CHECK_INT(write(p.b, "x", 1), ==, 1);
    CHECK_INT(read(p.a, &byte, 1), ==, 1);
    weft_sleep(WEFT_MS);
    CHECK_INT(write(p.b, "x", 1), ==, 1);
    AWAIT(seen(&times) == 1);
    close_pair(p);
    return arg;
}

TESTS(io_watch_stale, a_watch_does_not_fire_on_a_byte_that_was_read_before_it_was_added,
      a_watch_stays_when_the_kernel_says_that_there_is_nothing, a_watch_whose_byte_was_taken_fires_for_the_next)
