/*
 * Waiting for readiness: weft_wait_fd and weft_poll, on descriptors that the library knows and on such as it does not.
 */
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include "unit/io/ground.h"

static void *writes_soon(void *arg)
{
    weft_sleep(3 * WEFT_MS);
    CHECK_INT(write(*(int *)arg, "12345678", 8), ==, 8);
    return NULL;
}

IN_FIBER(a_descriptor_of_any_kind_is_waited_for)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct pair p = make_pair(kind);
        char buffer[8];
        for (int round = 0; round < 3; round++) {
            CHECK_INT(weft_wait_fd(p.a, POLLIN, WEFT_NOW), ==, -EAGAIN);
            weft_time until = weft_in(2 * WEFT_MS);
            CHECK_INT(weft_wait_fd(p.a, POLLIN, until), ==, -ETIMEDOUT);
            CHECK_INT(weft_now().ns, >=, until.ns);
            weft_fiber *f = go(writes_soon, &p.b);
            CHECK_INT(weft_wait_fd(p.a, POLLIN, WEFT_FOREVER), ==, POLLIN);
            CHECK_INT(weft_wait_fd(p.a, POLLIN, WEFT_FOREVER), ==, POLLIN); /* it still is */
            CHECK_INT(weft_wait_fd(p.a, POLLIN, WEFT_NOW), ==, POLLIN);
            CHECK_INT(weft_wait_fd(p.b, POLLOUT, WEFT_FOREVER), ==, POLLOUT);
            ended(f);
            CHECK_INT(read(p.a, buffer, 8), ==, 8);
        }
        CHECK_INT(weft_close(p.b), ==, 0);
        CHECK_INT(weft_wait_fd(p.a, POLLIN, WEFT_FOREVER) & (POLLIN | POLLHUP), !=, 0);
        CHECK_INT(weft_close(p.a), ==, 0);
    }
    return arg;
}

IN_FIBER(counters_and_timers_are_waited_for)
{
    int e = eventfd(0, EFD_CLOEXEC), t = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    uint64_t n = 0;
    weft_fiber *f = go(writes_soon, &e);
    CHECK_INT(weft_read(e, &n, sizeof n, WEFT_FOREVER), ==, 8);
    CHECK(n != 0);
    ended(f);
    CHECK_INT(timerfd_settime(t, 0, &(struct itimerspec){.it_value.tv_nsec = 3000000}, NULL), ==, 0);
    CHECK_INT(weft_read(t, &n, sizeof n, WEFT_FOREVER), ==, 8);
    CHECK_INT(n, ==, 1);
    CHECK_INT(weft_read(e, &n, sizeof n, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(weft_close(e), ==, 0);
    CHECK_INT(weft_close(t), ==, 0);
    return arg;
}

IN_FIBER(what_cannot_be_waited_for_is_said)
{
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    CHECK_INT(weft_wait_fd(file, POLLIN, WEFT_FOREVER), ==, -EPERM);
    CHECK_INT(weft_wait_fd(-1, POLLIN, WEFT_FOREVER), ==, -EBADF);
    CHECK_INT(weft_wait_fd(9999, POLLIN, WEFT_FOREVER), ==, -EBADF);
    CHECK_INT(weft_wait_fd(9999, POLLIN, WEFT_NOW), ==, -EBADF);
    CHECK_INT(weft_wait_fd(file, 0, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_wait_fd(file, POLLNVAL, WEFT_FOREVER), ==, -EINVAL);
    char magic[4];
    CHECK_INT(weft_read(file, magic, sizeof magic, WEFT_FOREVER), ==, 4); /* but it can be read */
    CHECK(memcmp(magic, "\177ELF", 4) == 0);
    CHECK_INT(weft_close(file), ==, 0);
    return arg;
}

static void *waits(void *arg)
{
    return ptr(weft_wait_fd(*(int *)arg, POLLIN, WEFT_FOREVER));
}

IN_FIBER(who_waits_is_told_of_a_close)
{
    struct pair p = tcp_pair();
    weft_fiber *f = go(waits, &p.a), *g = go(waits, &p.a);
    AWAIT(is_parked(f) && is_parked(g));
    CHECK_INT(weft_close(p.a), ==, 0);
    CHECK_PTR(ended(f), ==, ptr(-EBADF));
    CHECK_PTR(ended(g), ==, ptr(-EBADF));
    CHECK_INT(weft_close(p.b), ==, 0);
    return arg;
}

IN_FIBER(one_that_is_closed_elsewhere_while_it_is_waited_for_does_not_hang)
{
    struct pair p = pipe_pair(0), q = pipe_pair(0);
    weft_fiber *f = go(waits, &p.a);
    AWAIT(is_parked(f));
    CHECK_INT(dup2(q.a, p.a), ==, p.a); /* another pipe has its number */
    CHECK_INT(write(q.b, "x", 1), ==, 1);
    CHECK_PTR(ended(f), ==, ptr(POLLIN));
    close_pair(p);
    close_pair(q);
    return arg;
}

IN_FIBER(poll_says_which_of_many)
{
    enum { MANY = 40 };
    struct pair p[MANY];
    struct pollfd fds[MANY + 2];
    for (int i = 0; i < MANY; i++) {
        p[i] = make_pair(i % KINDS);
        fds[i] = (struct pollfd){.fd = p[i].a, .events = POLLIN};
    }
    fds[MANY] = (struct pollfd){.fd = -1, .events = POLLIN, .revents = 7};
    fds[MANY + 1] = (struct pollfd){.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), .events = POLLPRI};
    CHECK_INT(weft_poll(fds, MANY + 2, WEFT_NOW), ==, 0);
    weft_time until = weft_in(2 * WEFT_MS);
    CHECK_INT(weft_poll(fds, MANY + 2, until), ==, 0);
    CHECK_INT(weft_now().ns, >=, until.ns);
    for (int i = 0; i < MANY; i += 13) {
        char buffer[8];
        weft_fiber *f = go(writes_soon, &p[i].b);
        CHECK_INT(weft_poll(fds, MANY + 2, WEFT_FOREVER), ==, 1);
        CHECK_INT(fds[i].revents, ==, POLLIN);
        CHECK_INT(fds[MANY].revents, ==, 0);
        ended(f);
        CHECK_INT(read(p[i].a, buffer, 8), ==, 8);
    }
    CHECK_INT(weft_poll(fds, 3, weft_in(WEFT_MS)), ==, 0);
    CHECK_INT(weft_poll(NULL, 0, weft_in(WEFT_MS)), ==, 0);
    CHECK_INT(weft_poll(NULL, 1, weft_in(WEFT_MS)), ==, -EFAULT);
    fds[1].fd = 9999;
    CHECK_INT(weft_poll(fds, 3, WEFT_FOREVER), ==, 1);
    CHECK_INT(fds[1].revents, ==, POLLNVAL);
    for (int i = 0; i < MANY; i++)
        close_pair(p[i]);
    close(fds[MANY + 1].fd);
    return arg;
}

static void *polls_two(void *arg)
{
    struct pair *p = arg;
    struct pollfd fds[] = {{.fd = p->a, .events = POLLIN}, {.fd = p->b, .events = POLLIN}};
    return ptr(weft_poll(fds, 2, WEFT_FOREVER));
}

IN_FIBER(a_poll_is_cancelled)
{
    struct pair p = tcp_pair();
    weft_fiber *f = go(polls_two, &p);
    AWAIT(is_parked(f));
    CHECK(strcmp(weft_fiber_waits_for(f, NULL), "poll") == 0);
    CHECK_INT(weft_cancel(f), ==, 0);
    CHECK_PTR(ended(f), ==, ptr(-ECANCELED));
    close_pair(p);
    return arg;
}

TESTS(io_poll, a_descriptor_of_any_kind_is_waited_for, counters_and_timers_are_waited_for,
      what_cannot_be_waited_for_is_said, who_waits_is_told_of_a_close,
      one_that_is_closed_elsewhere_while_it_is_waited_for_does_not_hang, poll_says_which_of_many, a_poll_is_cancelled)
