/*
 * Descriptors that end otherwise than by weft_close: who waits is told before that, by weft_closing; and one who connects by a
 * helper is told of a close too.
 */
#include <limits.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/offload.h>

#include "unit/io/ground.h"

/* As if they were closed in between. */
static void forget(unsigned first, unsigned last)
{
    weft_closing(first, last);
    weft_closed(first, last);
}

static void *reads_byte(void *arg)
{
    char byte;
    return ptr(weft_read(*(int *)arg, &byte, 1, weft_in(20 * WEFT_SEC)));
}

static void *waits_for_byte(void *arg)
{
    return ptr(weft_wait_fd(*(int *)arg, POLLIN, weft_in(20 * WEFT_SEC)));
}

IN_FIBER(who_waits_is_told_of_what_is_forgotten)
{
    static weft_fn *const how[] = {reads_byte, waits_for_byte};
    for (int kind = 0; kind < KINDS; kind++) {
        for (int i = 0; i < 2; i++) {
            struct pair p = make_pair(kind), next = make_pair(kind);
            weft_fiber *f = go(how[i], &p.a);
            AWAIT(is_parked(f));
            forget((unsigned)p.a, (unsigned)p.a);
            CHECK_INT(dup2(next.a, p.a), ==, p.a);
            CHECK_PTR(ended(f), ==, ptr(-EBADF));
            f = go(how[i], &p.a); /* the number is another descriptor's */
            CHECK_INT(write(next.b, "x", 1), ==, 1);
            CHECK_PTR(ended(f), ==, ptr(1)); /* a byte, or POLLIN */
            close_pair(p);
            close_pair(next);
        }
    }
    return arg;
}

IN_FIBER(a_range_is_forgotten_and_no_other)
{
    struct pair p[3] = {tcp_pair(), unix_pair(SOCK_STREAM), pipe_pair(0)};
    weft_fiber *f[3];
    for (int i = 0; i < 3; i++) { /* in this order */
        int number = fcntl(p[i].a, F_DUPFD_CLOEXEC, 100 + 10 * i);
        close(p[i].a);
        p[i].a = number;
        f[i] = go(i == 1 ? reads_byte : waits_for_byte, &p[i].a);
        AWAIT(is_parked(f[i]));
    }
    CHECK(!weft_closing(UINT_MAX, UINT_MAX));
    forget((unsigned)p[2].a + 1, UINT_MAX);
    for (int i = 0; i < 3; i++)
        CHECK(is_parked(f[i]));
    forget((unsigned)p[1].a, UINT_MAX);
    CHECK_PTR(ended(f[1]), ==, ptr(-EBADF));
    CHECK_PTR(ended(f[2]), ==, ptr(-EBADF));
    CHECK(is_parked(f[0]));
    CHECK_INT(write(p[0].b, "x", 1), ==, 1);
    CHECK_PTR(ended(f[0]), ==, ptr(POLLIN));
    for (int i = 0; i < 3; i++)
        close_pair(p[i]);
    return arg;
}

/* It has our memory, and its descriptors are copies: what it closes is not ours. */
IN_FIBER(a_child_of_vfork_forgets_nothing)
{
#ifdef TEST_EMULATED
    return arg; /* an emulator makes a fork of it */
#endif
    struct pair p = tcp_pair();
    weft_fiber *f = go(waits_for_byte, &p.a);
    AWAIT(is_parked(f));
    pid_t child = vfork();
    if (child == 0) {
        forget(0, UINT_MAX);
        _exit(3);
    }
    int state = 0;
    CHECK_INT(waitpid(child, &state, 0), ==, child);
    CHECK_INT(WEXITSTATUS(state), ==, 3);
    CHECK(is_parked(f));
    CHECK_INT(write(p.b, "x", 1), ==, 1);
    CHECK_PTR(ended(f), ==, ptr(POLLIN));
    close_pair(p);
    return arg;
}

struct comer {
    int fd;
    _Atomic int stage; /* 1 it has begun, 2 it may go on */
};

static void *comes(void *arg)
{
    struct comer *c = arg;
    char byte;
    c->stage = 1;
    while (c->stage != 2)
        ;
    return ptr(weft_recv(c->fd, &byte, 1, 0, weft_in(20 * WEFT_SEC)));
}

/* What it began on would be gone, and nobody left to tell it. A number is shut for 10 ms at the longest. */
TEST(nobody_begins_to_wait_on_what_is_being_closed)
{
    for (int sure = 0, rounds = 0; sure < 20 && rounds < 300; rounds++) {
        struct pair p = unix_pair(SOCK_STREAM);
        struct comer c = {.fd = p.a};
        pthread_t thread;
        void *got = NULL;
        CHECK_INT(weft_recv(p.a, &(char){0}, 1, 0, weft_in(0)), ==, -ETIMEDOUT); /* there is a record of it */
        CHECK_INT(pthread_create(&thread, NULL, comes, &c), ==, 0);
        while (c.stage != 1)
            ;
        CHECK(weft_closing((unsigned)p.a, (unsigned)p.a));
        int64_t shut = wf_clock_now();
        c.stage = 2;
        while (wf_clock_now() < shut + 4 * WEFT_MS)
            ;
        CHECK_INT(syscall(SYS_close, p.a), ==, 0); /* if it took too long others are in calls on it */
        weft_closed((unsigned)p.a, (unsigned)p.a);
        bool in_time = wf_clock_now() < shut + 8 * WEFT_MS;
        if (!in_time)
            CHECK_INT(shutdown(p.b, SHUT_RDWR), ==, 0);
        CHECK_INT(pthread_join(thread, &got), ==, 0);
        if (in_time)
            CHECK_PTR(got, ==, ptr(-EBADF));
        sure += in_time;
        close(p.b);
    }
}

struct call {
    int fd;
    struct sockaddr_in to;
};

static void *connects(void *arg)
{
    struct call *c = arg;
    return ptr(weft_connect(c->fd, (struct sockaddr *)&c->to, sizeof c->to, weft_in(20 * WEFT_SEC)));
}

static unsigned busy_helpers(void)
{
    weft_offload_figures figures = {.size = sizeof figures};
    CHECK_INT(weft_offload_stats(&figures), ==, 0);
    return figures.busy;
}

/* Nobody accepts, and there is room for no more: on a blocking socket, without a ring, a helper waits for that. */
IN_FIBER(a_close_tells_who_connects)
{
    struct call c = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    int l = listener(&c.to), filling[8];
    CHECK_INT(listen(l, 0), ==, 0);
    for (int i = 0; i < 8; i++) {
        filling[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)connect(filling[i], (struct sockaddr *)&c.to, sizeof c.to);
    }
    weft_fiber *f = go(connects, &c);
    AWAIT(is_parked(f));
    weft_sleep(5 * WEFT_MS);
    if (!is_parked(f)) /* there was room after all */
        test_failed(__FILE__, __LINE__, "connected");
    CHECK_INT(weft_close(c.fd), ==, 0);
    CHECK_PTR(ended(f), ==, ptr(-EBADF));
    for (int i = 0; i < 8; i++)
        CHECK_INT(close(filling[i]), ==, 0);
    CHECK_INT(weft_close(l), ==, 0);
    AWAIT(busy_helpers() == 0); /* the attempt ends too, as nobody listens any more */
    return arg;
}

TESTS(io_forget, who_waits_is_told_of_what_is_forgotten, a_range_is_forgotten_and_no_other,
      a_child_of_vfork_forgets_nothing, nobody_begins_to_wait_on_what_is_being_closed, a_close_tells_who_connects)
