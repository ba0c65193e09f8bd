/*
 * A program's own epoll sets, in all the ways they can be used.
 */
#include "hook/ends.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

static int new_set(void)
{
    int set = epoll_create1(EPOLL_CLOEXEC);
    CHECK_INT(set, >=, 0);
    return set;
}

static void add(int set, int fd, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.fd = fd};
    CHECK_INT(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e), ==, 0);
}

/* What the set has for us within this time: the events of the one descriptor, or 0. */
static uint32_t next(int set, int fd, int ms)
{
    struct epoll_event e[2] = {{0}};
    int n = epoll_wait(set, e, 2, ms);
    CHECK(n == 0 || (n == 1 && e[0].data.fd == fd));
    return n == 1 ? e[0].events : 0;
}

STATEMENT(it_waits_for_an_event)
{
    struct ends e = tcp_ends(), idle = tcp_ends();
    int set = new_set();
    add(set, e.a, EPOLLIN);
    add(set, idle.a, EPOLLIN);
    for (int i = 0; i < 3; i++) {
        struct later l = {.fd = e.b, .after = 70};
        struct flow *f = i == 0   ? begin(do_later, &l)
                         : i == 1 ? begin_elsewhere(do_later, &l)
                                  : begin_thread(do_later, &l);
        char byte;
        CHECK_INT(next(set, e.a, -1), ==, EPOLLIN);
        CHECK_JUST_AFTER(&l);
        CHECK_INT(next(set, e.a, -1), ==, EPOLLIN); /* it is still there */
        CHECK_INT(read(e.a, &byte, 1), ==, 1);
        CHECK_INT(next(set, e.a, 0), ==, 0);
        end(f);
    }
    close(set);
    close_ends(e);
    close_ends(idle);
}

STATEMENT(its_timeout_is_never_early)
{
    struct ends e = tcp_ends();
    struct epoll_event event;
    int set = new_set();
    add(set, e.a, EPOLLIN);
    for (int ms = 1; ms < 40; ms += 12) {
        double start = now_ms();
        CHECK_INT(epoll_wait(set, &event, 1, ms), ==, 0);
        CHECK_AFTER(start, ms);
        start = now_ms();
        CHECK_INT(epoll_pwait(set, &event, 1, ms, NULL), ==, 0);
        CHECK_AFTER(start, ms);
        start = now_ms();
        CHECK_INT(epoll_pwait2(set, &event, 1, &(struct timespec){0, ms * 1000000L + 500000}, NULL), ==, 0);
        CHECK(now_ms() - start >= ms + 0.5);
    }
    double start = now_ms();
    CHECK_INT(epoll_wait(set, &event, 1, 0), ==, 0);
    CHECK_INT(epoll_pwait2(set, &event, 1, &(struct timespec){0, 0}, NULL), ==, 0);
    CHECK_AT_ONCE(start);
    struct later l = {.fd = e.b, .after = 70};
    struct flow *f = begin(do_later, &l);
    CHECK_INT(epoll_pwait2(set, &event, 1, NULL, NULL), ==, 1);
    CHECK_JUST_AFTER(&l);
    end(f);
    close(set);
    close_ends(e);
}

STATEMENT(what_cannot_be_is_refused)
{
    struct ends e = tcp_ends();
    struct epoll_event event;
    int set = new_set(), closed = new_set();
    volatile int less = -1; /* the compiler knows better */
    close(closed);
    CHECK_ERRNO(epoll_wait(set, &event, 0, -1), EINVAL);
    CHECK_ERRNO(epoll_wait(set, &event, less, -1), EINVAL);
    CHECK_ERRNO(epoll_wait(e.a, &event, 1, -1), EINVAL);
    CHECK_ERRNO(epoll_wait(closed, &event, 1, -1), EBADF);
    CHECK_ERRNO(epoll_wait(-1, &event, 1, -1), EBADF);
    CHECK_ERRNO(epoll_pwait2(set, &event, 1, &(struct timespec){0, 1000000000}, NULL), EINVAL);
    CHECK_ERRNO(epoll_pwait2(set, &event, 1, &(struct timespec){-1, 0}, NULL), EINVAL);
    close(set);
    close_ends(e);
}

STATEMENT(an_edge_is_told_once)
{
    struct ends e = tcp_ends();
    int set = new_set();
    add(set, e.a, EPOLLIN | EPOLLET);
    CHECK_INT(write(e.b, "x", 1), ==, 1);
    CHECK_INT(next(set, e.a, 5000), ==, EPOLLIN);
    double start = now_ms();
    CHECK_INT(next(set, e.a, 30), ==, 0);
    CHECK_AFTER(start, 30);
    struct later l = {.fd = e.b, .after = 70};
    struct flow *f = begin(do_later, &l);
    CHECK_INT(next(set, e.a, -1), ==, EPOLLIN); /* more has come */
    CHECK_JUST_AFTER(&l);
    end(f);
    CHECK_INT(next(set, e.a, 30), ==, 0);
    close(set);
    close_ends(e);
}

STATEMENT(one_shot_is_silent_until_it_is_armed_again)
{
    struct ends e = tcp_ends();
    int set = new_set();
    add(set, e.a, EPOLLIN | EPOLLONESHOT);
    CHECK_INT(write(e.b, "x", 1), ==, 1);
    CHECK_INT(next(set, e.a, 5000), ==, EPOLLIN);
    CHECK_INT(write(e.b, "x", 1), ==, 1);
    CHECK_INT(next(set, e.a, 30), ==, 0);
    struct epoll_event again = {.events = EPOLLIN | EPOLLONESHOT, .data.fd = e.a};
    CHECK_INT(epoll_ctl(set, EPOLL_CTL_MOD, e.a, &again), ==, 0);
    CHECK_INT(next(set, e.a, 5000), ==, EPOLLIN);
    CHECK_INT(next(set, e.a, 30), ==, 0);
    close(set);
    close_ends(e);
}

static void shut_write(int fd)
{
    CHECK_INT(shutdown(fd, SHUT_WR), ==, 0);
}

STATEMENT(the_other_side_s_end_is_told)
{
    struct ends e = tcp_ends();
    int set = new_set();
    add(set, e.a, EPOLLIN | EPOLLRDHUP);
    struct later l = {.fd = e.b, .after = 70, .what = shut_write};
    struct flow *f = begin(do_later, &l);
    CHECK_INT(next(set, e.a, -1), ==, EPOLLIN | EPOLLRDHUP);
    CHECK_JUST_AFTER(&l);
    end(f);
    shutdown(e.a, SHUT_WR);
    CHECK_INT(next(set, e.a, 5000) & EPOLLHUP, ==, EPOLLHUP);
    close(set);
    close_ends(e);
}

struct waiter {
    int set, fd, ms;
    int *sum; /* how many had an event; atomic, of all who wait */
};

static void wait_for_one(void *arg)
{
    struct waiter *w = arg;
    struct epoll_event e = {0};
    int n = epoll_wait(w->set, &e, 1, w->ms);
    CHECK(n == 0 || n == 1);
    if (n == 1) {
        CHECK_INT(e.data.fd, ==, w->fd);
        __atomic_add_fetch(w->sum, 1, __ATOMIC_RELAXED);
    }
}

STATEMENT(one_descriptor_is_in_two_sets)
{
    struct ends e = tcp_ends();
    int sets[2] = {new_set(), new_set()}, woken = 0;
    add(sets[0], e.a, EPOLLIN | EPOLLET);
    add(sets[1], e.a, EPOLLIN);
    struct waiter a = {.set = sets[0], .fd = e.a, .ms = -1, .sum = &woken}, b = a;
    b.set = sets[1];
    struct flow *f = begin(wait_for_one, &a), *g = begin_elsewhere(wait_for_one, &b);
    usleep(20000);
    CHECK_INT(__atomic_load_n(&woken, __ATOMIC_RELAXED), ==, 0);
    CHECK_INT(write(e.b, "x", 1), ==, 1);
    end(f);
    end(g);
    CHECK_INT(__atomic_load_n(&woken, __ATOMIC_RELAXED), ==, 2);
    close(sets[0]);
    close(sets[1]);
    close_ends(e);
}

STATEMENT(who_is_exclusive_need_not_be_woken_but_somebody_is)
{
    int fd = eventfd(0, EFD_CLOEXEC), sets[2] = {new_set(), new_set()}, woken = 0;
    add(sets[0], fd, EPOLLIN | EPOLLET | EPOLLEXCLUSIVE);
    add(sets[1], fd, EPOLLIN | EPOLLET | EPOLLEXCLUSIVE);
    struct waiter a = {.set = sets[0], .fd = fd, .ms = 200, .sum = &woken}, b = a;
    b.set = sets[1];
    struct flow *f = begin(wait_for_one, &a), *g = begin(wait_for_one, &b);
    usleep(20000);
    CHECK_INT(eventfd_write(fd, 1), ==, 0);
    end(f);
    end(g);
    CHECK(woken == 1 || woken == 2);
    close(sets[0]);
    close(sets[1]);
    close(fd);
}

STATEMENT(of_two_that_wait_in_one_set_one_gets_the_edge)
{
    struct ends e = tcp_ends();
    int set = new_set(), woken = 0;
    add(set, e.a, EPOLLIN | EPOLLET);
    struct waiter a = {.set = set, .fd = e.a, .ms = 300, .sum = &woken}, b = a;
    struct flow *f = begin(wait_for_one, &a), *g = begin(wait_for_one, &b);
    usleep(20000);
    CHECK_INT(write(e.b, "x", 1), ==, 1);
    end(f);
    end(g);
    CHECK_INT(__atomic_load_n(&woken, __ATOMIC_RELAXED), ==, 1);
    a.ms = b.ms = -1;
    f = begin(wait_for_one, &a);
    g = begin_elsewhere(wait_for_one, &b);
    usleep(20000);
    CHECK_INT(write(e.b, "x", 1), ==, 1);
    for (int i = 0; i < 500 && __atomic_load_n(&woken, __ATOMIC_RELAXED) < 2; i++)
        usleep(1000);
    CHECK_INT(__atomic_load_n(&woken, __ATOMIC_RELAXED), ==, 2);
    CHECK_INT(write(e.b, "x", 1), ==, 1); /* now the other */
    end(f);
    end(g);
    CHECK_INT(__atomic_load_n(&woken, __ATOMIC_RELAXED), ==, 3);
    close(set);
    close_ends(e);
}

STATEMENT(a_set_can_be_in_a_set)
{
    struct ends e = tcp_ends();
    int inner = new_set(), outer = new_set();
    char byte;
    add(inner, e.a, EPOLLIN);
    add(outer, inner, EPOLLIN);
    struct later l = {.fd = e.b, .after = 70};
    struct flow *f = begin(do_later, &l);
    CHECK_INT(next(outer, inner, -1), ==, EPOLLIN);
    CHECK_JUST_AFTER(&l);
    CHECK_INT(next(inner, e.a, 0), ==, EPOLLIN);
    end(f);
    CHECK_INT(read(e.a, &byte, 1), ==, 1);
    CHECK_INT(next(outer, inner, 30), ==, 0);
    close(outer);
    close(inner);
    close_ends(e);
}

struct addition {
    int set, fd;
};

static void add_later(void *arg)
{
    struct addition *a = arg;
    usleep(70000);
    add(a->set, a->fd, EPOLLIN);
}

STATEMENT(what_is_added_meanwhile_wakes)
{
    struct ends e = tcp_ends();
    int set = new_set();
    struct addition a = {set, e.a};
    CHECK_INT(write(e.b, "x", 1), ==, 1);
    double start = now_ms();
    struct flow *f = begin_thread(add_later, &a);
    CHECK_INT(next(set, e.a, 5000), ==, EPOLLIN);
    CHECK_AFTER(start, 70);
    end(f);
    CHECK_INT(epoll_ctl(set, EPOLL_CTL_DEL, e.a, NULL), ==, 0);
    start = now_ms();
    f = begin(add_later, &a);
    CHECK_INT(next(set, e.a, 5000), ==, EPOLLIN);
    CHECK_AFTER(start, 70);
    end(f);
    close(set);
    close_ends(e);
}

STATEMENT(a_set_can_be_polled)
{
    struct ends e = tcp_ends();
    int set = new_set();
    char byte;
    add(set, e.a, EPOLLIN);
    for (int i = 0; i < 2; i++) {
        struct pollfd p = {set, POLLIN, 0};
        struct later l = {.fd = e.b, .after = 70};
        struct flow *f = begin(do_later, &l);
        CHECK_INT(poll(&p, 1, -1), ==, 1);
        CHECK_INT(p.revents, ==, POLLIN);
        CHECK_JUST_AFTER(&l);
        CHECK_INT(next(set, e.a, 0), ==, EPOLLIN);
        CHECK_INT(read(e.a, &byte, 1), ==, 1);
        CHECK_INT(poll(&p, 1, 20), ==, 0);
        end(f);
    }
    close(set);
    close_ends(e);
}

STATEMENT(no_more_are_given_than_there_is_room_for)
{
    struct epoll_event got[4];
    int set = new_set(), fds[3], seen = 0;
    for (int i = 0; i < 3; i++) {
        fds[i] = eventfd(1, EFD_CLOEXEC);
        add(set, fds[i], EPOLLIN);
    }
    for (int round = 0; round < 2; round++) { /* those not told come first the next time */
        CHECK_INT(epoll_wait(set, got, 2, -1), ==, 2);
        for (int i = 0; i < 2; i++)
            seen |= got[i].data.fd == fds[0] ? 1 : got[i].data.fd == fds[1] ? 2 : 4;
    }
    CHECK_INT(seen, ==, 7);
    CHECK_INT(epoll_wait(set, got, 4, -1), ==, 3);
    CHECK_INT(close(fds[1]), ==, 0); /* and so it is gone */
    CHECK_INT(epoll_wait(set, got, 4, -1), ==, 2);
    close(fds[0]);
    close(fds[2]);
    CHECK_INT(epoll_wait(set, got, 4, 20), ==, 0);
    close(set);
}

STATEMENT(reading_and_the_set_do_not_disturb_each_other)
{
    struct ends e = tcp_ends();
    int set = new_set(), woken = 0;
    char byte;
    add(set, e.a, EPOLLIN);
    struct waiter w = {.set = set, .fd = e.a, .ms = -1, .sum = &woken};
    struct flow *f = begin(wait_for_one, &w);
    struct later l = {.fd = e.b, .after = 70};
    struct flow *g = begin(do_later, &l);
    struct pollfd p = {e.a, POLLIN, 0};
    CHECK_INT(poll(&p, 1, -1), ==, 1);
    end(f);
    CHECK_INT(__atomic_load_n(&woken, __ATOMIC_RELAXED), ==, 1);
    end(g);
    CHECK_INT(read(e.a, &byte, 1), ==, 1);
    CHECK_INT(next(set, e.a, 0), ==, 0);
    close(set);
    close_ends(e);
}

STATEMENTS(epoll, it_waits_for_an_event, its_timeout_is_never_early, what_cannot_be_is_refused, an_edge_is_told_once,
           one_shot_is_silent_until_it_is_armed_again, the_other_side_s_end_is_told, one_descriptor_is_in_two_sets,
           who_is_exclusive_need_not_be_woken_but_somebody_is, of_two_that_wait_in_one_set_one_gets_the_edge,
           a_set_can_be_in_a_set, what_is_added_meanwhile_wakes, a_set_can_be_polled,
           no_more_are_given_than_there_is_room_for, reading_and_the_set_do_not_disturb_each_other)
