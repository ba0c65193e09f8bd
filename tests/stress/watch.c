/*
 * Watches under load: an event, a delete and a cancel race for each, and exactly one of them has it.
 */
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include <weft/io.h>
#include <weft/watch.h>

#include "base/sanitizer.h"
#include "unit/sched/ground.h"

enum { RACES = WF_VALGRIND ? 500 : TEST_EMULATED ? 2000 : 10000 }; /* WEFT_RACES=1000000 makes more */

struct race {
    int fd;
    int round;                     /* which race is on. flag */
    int done;                      /* by the deleter. flag */
    int rounds;                    /* const */
    int ready, cancelled, deleted; /* outcomes. flags, counted */
};

static void fires(int fd, unsigned events, void *arg)
{
    struct race *r = arg;
    (void)fd;
    more(events & WEFT_CANCELED ? &r->cancelled : &r->ready);
}

/* On a thread of its own: deletes and cancels in turn, while the event comes. */
static void *deletes(void *arg)
{
    struct race *r = arg;
    for (int i = 1; i <= r->rounds; i++) {
        while (seen(&r->round) != i)
            sched_yield();
        for (volatile int pause = i * 7 % 2000; pause > 0; pause--)
            ; /* sooner or later than the event */
        if (i % 3 != 0 && (i % 2 ? weft_watch_del(r->fd, WEFT_READ) : weft_watch_cancel(r->fd, WEFT_READ)) == 0 &&
            i % 2)
            more(&r->deleted);
        put(&r->done, i);
    }
    return NULL;
}

static int outcomes(const struct race *r)
{
    return seen(&r->ready) + seen(&r->cancelled) + seen(&r->deleted);
}

static void *races(void *arg)
{
    struct race *r = arg;
    pthread_t t = new_thread(deletes, r);
    for (int i = 1; i <= r->rounds; i++) {
        eventfd_t n;
        CHECK_INT(weft_watch_add(r->fd, WEFT_READ, fires, r), ==, 0);
        put(&r->round, i);
        CHECK_INT(eventfd_write(r->fd, 1), ==, 0);
        while (seen(&r->done) != i)
            weft_yield();
        AWAIT(outcomes(r) == i);
        CHECK_INT(weft_watch_del(r->fd, WEFT_READ), ==, -ENOENT);
        CHECK_INT(eventfd_read(r->fd, &n), ==, 0);
    }
    pthread_join(t, NULL);
    return NULL;
}

static void race_with(unsigned workers)
{
    const char *wish = getenv("WEFT_RACES");
    struct race r = {.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .rounds = wish ? atoi(wish) : RACES};
    in_a_fiber(workers, races, &r);
    CHECK_INT(outcomes(&r), ==, r.rounds);
    printf("%u workers, %s: %d fired, %d cancelled, %d deleted\n", workers, getenv("WEFT_IO"), r.ready, r.cancelled,
           r.deleted);
    CHECK_INT(weft_close(r.fd), ==, 0);
}

TEST(of_event_delete_and_cancel_exactly_one_wins)
{
    race_with(1);
    race_with(2);
}

TESTS(stress_watch, of_event_delete_and_cancel_exactly_one_wins)
