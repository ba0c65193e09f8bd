/*
 * One descriptor in more sets than its record can note: who waits in a set that was forgotten is woken all the same. The clock
 * stands still, so that no verification of long waits helps.
 */
#include <weft/watch.h>

#include "io/fd.h"
#include "unit/io/ground.h"

static void *reads(void *arg)
{
    char byte;
    return ptr(weft_read(*(int *)arg, &byte, 1, WEFT_FOREVER));
}

static void *waits_for_room(void *arg)
{
    return ptr(weft_wait_fd(*(int *)arg, POLLOUT, WEFT_FOREVER));
}

/* Waits for what does not come, until it is cancelled: it arms the descriptor. */
static void *polls_for_urgent_data(void *arg)
{
    struct pollfd p = {.fd = *(int *)arg, .events = POLLPRI};
    return ptr(weft_poll(&p, 1, WEFT_FOREVER));
}

/* As many other sets as a record can note have it registered, and whatever was noted before is forgotten. */
static void use_elsewhere(weft_sched *other, int fd)
{
    for (int i = 0; i < WF_FD_PLACES; i++) {
        weft_fiber *f = NULL;
        CHECK_INT(weft_sched_go(other, &f, &(weft_attr){.worker = WEFT_WORKER(i)}, reads, &fd), ==, 0);
        AWAIT(is_parked(f));
        weft_cancel(f);
        CHECK_PTR(ended(f), ==, ptr(-ECANCELED));
    }
}

/* Others use the descriptor on the set that was forgotten. The last of them ends with an event: a report that comes once has come. */
static void use_here(weft_sched *s, int fd)
{
    weft_fiber *f = go_on(s, polls_for_urgent_data, &fd);
    AWAIT(is_parked(f));
    weft_cancel(f);
    CHECK_PTR(ended(f), ==, ptr(-ECANCELED));
    CHECK_PTR(ended(go_on(s, waits_for_room, &fd)), ==, ptr(POLLOUT));
}

TEST(a_reader_in_a_forgotten_set_is_woken)
{
    clock_begin();
    struct pair p = unix_pair(SOCK_STREAM);
    weft_sched *s = running_sched(1), *other = running_sched(WF_FD_PLACES);
    weft_fiber *f = go_on(s, reads, &p.a);
    AWAIT(is_parked(f));
    use_elsewhere(other, p.a);
    use_here(s, p.a);
    end_sched(other);
    CHECK_INT(write(p.b, "x", 1), ==, 1);
    AWAIT(weft_fiber_state(f) == WEFT_FIBER_DONE);
    weft_cancel(f);
    CHECK_PTR(ended(f), ==, ptr(1));
    end_sched(s);
    close_pair(p);
    clock_end();
}

static void fired(int fd, unsigned events, void *arg)
{
    (void)fd;
    CHECK_INT(events, ==, WEFT_READ);
    more(arg);
}

TEST(a_watch_in_a_forgotten_set_fires)
{
    clock_begin();
    struct pair p = unix_pair(SOCK_STREAM);
    weft_sched *s = running_sched(1), *other = running_sched(WF_FD_PLACES);
    int times = 0;
    CHECK_INT(weft_sched_watch_add(s, p.a, WEFT_READ, fired, &times), ==, 0);
    ended(go_on(s, returns_at_once, NULL)); /* after what arms the watch */
    use_elsewhere(other, p.a);
    use_here(s, p.a);
    end_sched(other);
    CHECK_INT(write(p.b, "x", 1), ==, 1);
    AWAIT(seen(&times) == 1);
    weft_watch_cancel_all(p.a);
    end_sched(s);
    close_pair(p);
    clock_end();
}

static void *waits_for_a_hangup(void *arg)
{
    CHECK_INT(weft_cancel_on_hangup(*(int *)arg, weft_fiber_current()), ==, 0);
    return parks(NULL);
}

TEST(a_hangup_in_a_forgotten_set_cancels)
{
    clock_begin();
    struct pair p = unix_pair(SOCK_STREAM);
    weft_sched *s = running_sched(1), *other = running_sched(WF_FD_PLACES);
    weft_fiber *f = go_on(s, waits_for_a_hangup, &p.a);
    AWAIT(is_parked(f));
    use_elsewhere(other, p.a);
    use_here(s, p.a);
    end_sched(other);
    CHECK_INT(close(p.b), ==, 0);
    AWAIT(weft_fiber_state(f) == WEFT_FIBER_DONE);
    weft_unpark(f);
    CHECK_PTR(ended(f), ==, ptr(-ECANCELED));
    end_sched(s);
    CHECK_INT(weft_close(p.a), ==, 0);
    clock_end();
}

TESTS(io_many_sets, a_reader_in_a_forgotten_set_is_woken, a_watch_in_a_forgotten_set_fires,
      a_hangup_in_a_forgotten_set_cancels)
