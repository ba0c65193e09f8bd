/*
 * Watches: each fires once, for what it was added for or for what ended it, and one that was deleted never does.
 */
#include <weft/watch.h>

#include "unit/io/fired.h"
#include "unit/io/ground.h"

IN_FIBER(a_watch_fires_once_when_there_is_something_to_read)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct pair p = make_pair(kind);
        struct fired f = {0};
        char buffer[8];
        for (int round = 1; round <= 3; round++) {
            CHECK_INT(weft_watch_add(p.a, WEFT_READ, notes, &f), ==, 0);
            CHECK_INT(weft_watch_add(p.a, WEFT_READ, notes, &f), ==, -EEXIST);
            weft_sleep(WEFT_MS);
            CHECK_INT(f.count, ==, round - 1);
            CHECK_INT(write(p.b, "x", 1), ==, 1);
            AWAIT(seen(&f.count) == round);
            CHECK_INT(seen_events(&f), ==, WEFT_READ);
            CHECK_INT(seen(&f.fd), ==, p.a);
            CHECK_INT(weft_watch_del(p.a, WEFT_READ), ==, -ENOENT);
            CHECK_INT(read(p.a, buffer, 8), ==, 1);
        }
        CHECK_INT(write(p.b, "x", 1), ==, 1);
        weft_sleep(WEFT_MS);
        CHECK_INT(f.count, ==, 3); /* it was not added again */
        CHECK_INT(weft_watch_add(p.a, WEFT_READ, notes, &f), ==, 0);
        AWAIT(seen(&f.count) == 4); /* what is there by now counts */
        close_pair(p);
    }
    return arg;
}

IN_FIBER(both_directions_are_two_watches)
{
    struct pair p = tcp_pair();
    struct fired f = {0};
    CHECK_INT(weft_watch_add(p.a, WEFT_READ | WEFT_WRITE, notes, &f), ==, 0);
    AWAIT(seen(&f.count) == 1);
    CHECK_INT(seen_events(&f), ==, WEFT_WRITE);
    CHECK_INT(weft_watch_add(p.a, WEFT_READ, notes, &f), ==, -EEXIST);
    CHECK_INT(write(p.b, "x", 1), ==, 1);
    AWAIT(seen(&f.count) == 2);
    CHECK_INT(seen_events(&f), ==, WEFT_READ);
    close_pair(p);
    return arg;
}

IN_FIBER(one_that_was_deleted_never_fires)
{
    struct pair p = tcp_pair();
    struct fired f = {0};
    CHECK_INT(weft_watch_del(p.a, WEFT_READ), ==, -ENOENT);
    CHECK_INT(weft_watch_add(p.a, WEFT_READ, notes, &f), ==, 0);
    CHECK_INT(weft_watch_del(p.a, WEFT_WRITE), ==, -ENOENT);
    CHECK_INT(weft_watch_del(p.a, WEFT_READ), ==, 0);
    CHECK_INT(weft_watch_del(p.a, WEFT_READ), ==, -ENOENT);
    CHECK_INT(write(p.b, "x", 1), ==, 1);
    weft_sleep(2 * WEFT_MS);
    CHECK_INT(f.count, ==, 0);
    close_pair(p);
    return arg;
}

IN_FIBER(one_that_is_cancelled_fires_and_says_so)
{
    struct pair p = tcp_pair();
    struct fired f = {0}, g = {0};
    CHECK_INT(weft_watch_cancel(p.a, WEFT_READ), ==, -ENOENT);
    CHECK_INT(weft_watch_add(p.a, WEFT_READ, notes, &f), ==, 0);
    CHECK_INT(weft_watch_cancel(p.a, WEFT_READ), ==, 0);
    AWAIT(seen(&f.count) == 1);
    CHECK_INT(seen_events(&f), ==, WEFT_READ | WEFT_CANCELED);
    CHECK_INT(weft_watch_add(p.b, WEFT_READ, notes, &g), ==, 0);
    CHECK_INT(weft_watch_cancel_all(p.b), ==, 0);
    AWAIT(seen(&g.count) == 1);
    CHECK_INT(seen_events(&g), ==, WEFT_READ | WEFT_CANCELED);
    CHECK_INT(weft_watch_cancel_all(p.b), ==, -ENOENT);
    close_pair(p);
    return arg;
}

IN_FIBER(a_close_fires_what_is_left)
{
    struct pair p = tcp_pair();
    struct fired f = {0};
    CHECK_INT(weft_watch_add(p.a, WEFT_READ, notes, &f), ==, 0);
    CHECK_INT(weft_close(p.a), ==, 0);
    AWAIT(seen(&f.count) == 1);
    CHECK_INT(seen_events(&f), ==, WEFT_READ | WEFT_CLOSED);
    CHECK_INT(weft_close(p.b), ==, 0);
    return arg;
}

IN_FIBER(the_end_of_the_other_side_is_something_to_read)
{
    struct pair p = tcp_pair();
    struct fired f = {0};
    CHECK_INT(weft_watch_add(p.a, WEFT_READ, notes, &f), ==, 0);
    CHECK_INT(weft_shutdown(p.b, SHUT_WR), ==, 0);
    AWAIT(seen(&f.count) == 1);
    CHECK_INT(seen_events(&f) & WEFT_READ, ==, WEFT_READ);
    close_pair(p);
    return arg;
}

IN_FIBER(without_a_function_the_fiber_is_unparked)
{
    struct pair p = tcp_pair();
    CHECK_INT(weft_watch_add(p.a, WEFT_READ, NULL, NULL), ==, 0);
    CHECK_INT(weft_park(weft_in(2 * WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(write(p.b, "x", 1), ==, 1);
    CHECK_INT(weft_park(WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_watch_add(p.a, WEFT_READ, NULL, NULL), ==, 0);
    weft_sleep(2 * WEFT_MS); /* it has come by now, and is kept */
    CHECK_INT(weft_park(weft_in(10 * WEFT_SEC)), ==, 0);
    close_pair(p);
    return arg;
}

/* Its watch outlives it. */
static void *watches_and_ends(void *arg)
{
    CHECK_INT(weft_watch_add(*(int *)arg, WEFT_READ, NULL, NULL), ==, 0);
    return weft_fiber_current();
}

static void *parks_for_a_while(void *arg)
{
    return ptr(weft_park(*(weft_time *)arg));
}

/* Another fiber may have its record by then. */
IN_FIBER(without_a_function_nobody_is_unparked_for_a_fiber_that_has_ended)
{
    enum { NEXT = 64 };
    struct pair p = tcp_pair();
    struct fired f = {0};
    weft_fiber *next[NEXT];
    weft_attr here = {.size = sizeof here, .worker = WEFT_WORKER(0)};
    weft_fiber *ends = NULL;
    weft_time until = WEFT_FOREVER;
    reuse_records();
    CHECK_INT(weft_go_with(&ends, &here, watches_and_ends, &p.a), ==, 0);
    const void *record = ended(ends);
    bool same = false;
    for (int i = 0; i < NEXT; i++) {
        CHECK_INT(weft_go_with(&next[i], &here, parks_for_a_while, &until), ==, 0);
        same |= next[i] == record;
    }
    CHECK(same); /* else this says nothing */
    for (int i = 0; i < NEXT; i++)
        AWAIT(is_parked(next[i]));
    CHECK_INT(write(p.b, "x", 1), ==, 1);
    AWAIT(weft_watch_add(p.a, WEFT_READ, notes, &f) == 0); /* when the other one has fired */
    AWAIT(seen(&f.count) == 1);
    for (int i = 0; i < NEXT; i++) {
        CHECK(is_parked(next[i]));
        CHECK_INT(weft_cancel(next[i]), ==, 0);
        CHECK_PTR(ended(next[i]), ==, ptr(-ECANCELED));
    }
    close_pair(p);
    return arg;
}

static void *reads_one(void *arg)
{
    char byte;
    return ptr(weft_read(*(int *)arg, &byte, 1, WEFT_FOREVER));
}

IN_FIBER(who_reads_the_same_descriptor_is_no_concern_of_a_watch)
{
    struct pair p = tcp_pair();
    struct fired f = {0};
    weft_fiber *reader = go(reads_one, &p.a);
    AWAIT(is_parked(reader));
    CHECK_INT(weft_watch_add(p.a, WEFT_READ, notes, &f), ==, 0);
    CHECK_INT(write(p.b, "x", 1), ==, 1);
    CHECK_PTR(ended(reader), ==, ptr(1));
    CHECK_INT(write(p.b, "y", 1), ==, 1); /* if the reader was quick there was nothing left to see */
    AWAIT(seen(&f.count) == 1);
    close_pair(p);
    return arg;
}

IN_FIBER(what_cannot_be_watched_is_said)
{
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct fired f = {0};
    CHECK_INT(weft_watch_add(file, WEFT_READ, notes, &f), ==, -EPERM);
    CHECK_INT(weft_watch_add(-1, WEFT_READ, notes, &f), ==, -EBADF);
    CHECK_INT(weft_watch_add(9999, WEFT_READ, notes, &f), ==, -EBADF);
    CHECK_INT(weft_watch_add(file, 0, notes, &f), ==, -EINVAL);
    CHECK_INT(weft_watch_add(file, 2, notes, &f), ==, -EINVAL);
    CHECK_INT(weft_watch_del(file, 2), ==, -EINVAL);
    CHECK_INT(weft_watch_del(9999, WEFT_READ), ==, -ENOENT);
    CHECK_INT(weft_watch_cancel(-1, WEFT_READ), ==, -ENOENT);
    close(file);
    return arg;
}

/* A plain thread's watches are the default runtime's. */
static void *adds_on_a_thread(void *arg)
{
    struct pair p = tcp_pair();
    struct fired *f = arg;
    CHECK_INT(weft_watch_add(p.a, WEFT_READ, NULL, NULL), ==, -EINVAL);
    CHECK_INT(weft_watch_add(p.a, WEFT_READ, notes, f), ==, 0);
    CHECK_INT(write(p.b, "x", 1), ==, 1);
    AWAIT(seen(&f->count) == 1);
    close_pair(p);
    put(&f->over, 1);
    return NULL;
}

IN_FIBER(plain_threads_may_add_some)
{
    struct fired f = {0};
    pthread_t t = new_thread(adds_on_a_thread, &f);
    while (!seen(&f.over))
        weft_sleep(WEFT_MS);
    pthread_join(t, NULL);
    return arg;
}

TEST(without_a_runtime_there_are_none)
{
    struct pair p = tcp_pair();
    struct fired f = {0};
    CHECK_INT(weft_watch_add(p.a, WEFT_READ, notes, &f), ==, -ENXIO);
    close_pair(p);
}

static void *adds_and_returns(void *arg)
{
    struct fired *f = arg;
    struct pair p = tcp_pair();
    f->fd = p.b;
    CHECK_INT(weft_watch_add(p.a, WEFT_READ, notes, f), ==, 0);
    return ptr(p.a);
}

/* A stop waits for watches; at its deadline it cancels them. */
TEST(a_stop_cancels_watches_at_its_deadline)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        weft_sched *s = running_sched(workers);
        struct fired f = {0};
        int a = (int)(intptr_t)ended(go_on(s, adds_and_returns, &f)), b = f.fd;
        weft_time until = weft_in(20 * WEFT_MS);
        CHECK_INT(weft_sched_stop(s, until), ==, 0);
        CHECK_INT(weft_now().ns, >=, until.ns);
        CHECK_INT(f.count, ==, 1);
        CHECK_INT(f.events, ==, WEFT_READ | WEFT_CANCELED);
        CHECK_INT(weft_sched_free(s), ==, 0);
        close(a);
        close(b);
    }
}

TESTS(io_watch, a_watch_fires_once_when_there_is_something_to_read, both_directions_are_two_watches,
      one_that_was_deleted_never_fires, one_that_is_cancelled_fires_and_says_so, a_close_fires_what_is_left,
      the_end_of_the_other_side_is_something_to_read, without_a_function_the_fiber_is_unparked,
      without_a_function_nobody_is_unparked_for_a_fiber_that_has_ended,
      who_reads_the_same_descriptor_is_no_concern_of_a_watch, what_cannot_be_watched_is_said,
      plain_threads_may_add_some, without_a_runtime_there_are_none, a_stop_cancels_watches_at_its_deadline)
