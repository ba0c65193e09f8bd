/*
 * The other side has closed its half, and says so for ever: who waits for room to write still waits, is told when there is
 * some, and does not keep its worker busy meanwhile.
 */
#include <weft/stack.h>
#include <weft/watch.h>

#include "unit/io/ground.h"

enum { ROOM = 1 << 16 };

/* A connection on which b finds no room to write, and none comes while nobody reads. `half`: a has closed its half. */
static struct pair full_pair(int kind, bool half)
{
    struct pair p = make_pair(kind);
    static char bytes[ROOM];
    if (half)
        CHECK_INT(shutdown(p.a, SHUT_WR), ==, 0);
    for (int still = 0; still < 3; still++) {
        for (size_t n = sizeof bytes; n > 0; n /= sizeof bytes) {
            while (weft_send(p.b, bytes, n, 0, WEFT_NOW) > 0)
                still = 0;
        }
        weft_sleep(WEFT_MS);
    }
    return p;
}

/* Reads all that there is. */
static void drain(struct pair p)
{
    static char bytes[ROOM];
    while (recv(p.a, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
}

/* Some bytes may still be on their way. */
static void drain_until_done(struct pair p, const weft_fiber *f)
{
    AWAIT((drain(p), weft_fiber_state(f) == WEFT_FIBER_DONE));
}

static void *writes_one(void *arg)
{
    return ptr(weft_write(*(int *)arg, "x", 1, weft_in(20 * WEFT_SEC)));
}

static void *waits_to_write(void *arg)
{
    return ptr(weft_wait_fd(*(int *)arg, POLLOUT, weft_in(20 * WEFT_SEC)));
}

static void *polls_to_write(void *arg)
{
    struct pollfd fd = {.fd = *(int *)arg, .events = POLLOUT};
    return ptr(weft_poll(&fd, 1, weft_in(20 * WEFT_SEC)) == 1 ? fd.revents : -1);
}

static void fires(int fd, unsigned events, void *arg)
{
    (void)fd;
    put(arg, (int)events);
}

enum { SOCKETS = 4 }; /* of the kinds of pairs */

/* On a stack of its own, on a shared one and as one that may move: rings are used in several ways. */
IN_FIBER(who_waits_for_room_gets_it_though_the_other_half_is_closed)
{
    weft_stacks *pool = NULL;
    CHECK_INT(weft_stacks_new(&pool, 1, 0), ==, 0);
    for (int kind = 0; kind < SOCKETS; kind++) {
        const weft_attr attrs[] = {{.size = 0}, {.shared = pool}, {.flags = WEFT_MIGRATE}};
        for (int i = 0; i < 3; i++) {
            for (int b = 0; b < 3; b++) {
                weft_fn *const bodies[] = {writes_one, waits_to_write, polls_to_write};
                weft_fiber *f = NULL;
                struct pair p = full_pair(kind, true);
                CHECK_INT(weft_go_with(&f, &attrs[i], bodies[b], &p.b), ==, 0);
                AWAIT(is_parked(f));
                weft_sleep(WEFT_MS);
                drain_until_done(p, f);
                CHECK_PTR(ended(f), ==, ptr(b == 0 ? 1 : POLLOUT));
                close_pair(p);
            }
        }
    }
    CHECK_INT(weft_stacks_free(pool), ==, 0);
    return arg;
}

IN_FIBER(a_watch_for_room_fires_though_the_other_half_is_closed)
{
    for (int kind = 0; kind < SOCKETS; kind++) {
        struct pair p = full_pair(kind, true);
        int fired = 0;
        CHECK_INT(weft_watch_add(p.b, WEFT_WRITE, fires, &fired), ==, 0);
        weft_sleep(WEFT_MS);
        CHECK_INT(seen(&fired), ==, 0);
        drain(p);
        AWAIT(seen(&fired) != 0);
        CHECK_INT(fired & (WEFT_READ | WEFT_WRITE | WEFT_CLOSED), ==, WEFT_WRITE);
        close_pair(p);
    }
    return arg;
}

/* One half is closed while somebody waits already. */
IN_FIBER(who_waits_for_room_does_not_mind_when_the_other_half_is_closed)
{
    for (int kind = 0; kind < SOCKETS; kind++) {
        struct pair p = full_pair(kind, false);
        weft_fiber *f = go(waits_to_write, &p.b);
        AWAIT(is_parked(f));
        weft_sleep(WEFT_MS);
        CHECK_INT(shutdown(p.a, SHUT_WR), ==, 0);
        weft_sleep(WEFT_MS);
        AWAIT(is_parked(f) || weft_fiber_state(f) == WEFT_FIBER_DONE); /* the event may make it look, and wait again */
        CHECK(is_parked(f));
        drain_until_done(p, f);
        CHECK_PTR(ended(f), ==, ptr(POLLOUT));
        close_pair(p);
    }
    return arg;
}

IN_FIBER(an_end_that_nobody_waits_for_does_not_keep_the_worker_busy)
{
    for (int kind = 0; kind < SOCKETS; kind++) {
        struct pair p = full_pair(kind, true);
        struct pollfd fd = {.fd = p.b, .events = POLLOUT};
        uint64_t before = figures(weft_sched_current()).switches;
        weft_time until = weft_in(30 * WEFT_MS);
        CHECK_INT(weft_wait_fd(p.b, POLLOUT, until), ==, -ETIMEDOUT);
        CHECK_INT(weft_now().ns, >=, until.ns);
        CHECK_INT(weft_poll(&fd, 1, weft_in(30 * WEFT_MS)), ==, 0);
        CHECK_INT(figures(weft_sched_current()).switches - before, <, 100);
        close_pair(p); /* returns: nothing that was armed for it is left */
    }
    return arg;
}

struct stream {
    int fd;
    int *stop; /* flag */
};

static void *writes_until_it_is_stopped(void *arg)
{
    struct stream *s = arg;
    static const char bytes[ROOM];
    while (!seen(s->stop))
        CHECK_INT(weft_write(s->fd, bytes, sizeof bytes, weft_in(60 * WEFT_SEC)), >, 0);
    return NULL;
}

/* Each waits as a fiber: nothing in the kernel waits for it. */
IN_FIBER(who_waits_for_room_takes_no_thread)
{
    enum { MANY = 20 };
    struct pair p[MANY];
    struct stream s[MANY];
    weft_fiber *f[MANY];
    int stop = 0, before = count_threads();
    for (int i = 0; i < MANY; i++) {
        p[i] = make_pair(i % SOCKETS);
        CHECK_INT(shutdown(p[i].a, SHUT_WR), ==, 0);
        s[i] = (struct stream){p[i].b, &stop};
        f[i] = go(writes_until_it_is_stopped, &s[i]);
    }
    for (int i = 0; i < MANY; i++)
        AWAIT(is_parked(f[i]));
    weft_sleep(20 * WEFT_MS);
    CHECK_INT(count_threads(), <=, before); /* fewer where a thread of an earlier test ends only now */
    put(&stop, 1);
    for (int i = 0; i < MANY; i++) {
        AWAIT((drain(p[i]), weft_fiber_state(f[i]) == WEFT_FIBER_DONE));
        ended(f[i]);
        close_pair(p[i]);
    }
    return arg;
}

TESTS(io_half, who_waits_for_room_gets_it_though_the_other_half_is_closed,
      a_watch_for_room_fires_though_the_other_half_is_closed,
      who_waits_for_room_does_not_mind_when_the_other_half_is_closed,
      an_end_that_nobody_waits_for_does_not_keep_the_worker_busy, who_waits_for_room_takes_no_thread)
