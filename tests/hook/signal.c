/*
 * Signals that come while flows wait, and masks of calls. A signal whose handler runs on a worker does not interrupt the
 * calls of its fibers: they go on, as after SA_RESTART. That is a difference, and stated here as such.
 */
#include "hook/signals.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>

/* A thread that gets a signal after a while, and then something to read. */
struct shot {
    pthread_t thread;
    int after, fd;
};

static void shoot(void *arg)
{
    struct shot *s = arg;
    usleep((useconds_t)s->after * 1000);
    pthread_kill(s->thread, SIGUSR1);
    if (s->fd < 0)
        return;
    usleep(70000);
    write_one(s->fd);
}

static struct flow *begin_shot(struct shot *s, int fd)
{
    *s = (struct shot){.thread = pthread_self(), .after = 70, .fd = fd};
    return begin_thread(shoot, s);
}

/* A signal comes while the call waits: it goes on, and gets what comes later; or it is EINTR at once. */
static void check_signal(const char *name, long (*call)(int), int flags, bool interrupted)
{
    struct ends e = tcp_ends();
    struct shot s;
    struct sigaction before = handle(flags);
    double start = now_ms();
    struct flow *f = begin_shot(&s, e.b);
    errno = 0;
    long rc = call(e.a);
    double took = now_ms() - start;
    int error = errno;
    CHECK(took >= (interrupted ? 70 : 140));
    if (interrupted ? rc != -1 || error != EINTR : rc != 1)
        test_failed(__FILE__, __LINE__, "%s: %ld with errno %s", name, rc, strerrorname_np(error));
    CHECK_INT(count(), ==, 1);
    end(f);
    restore(before);
    close_ends(e);
}

STATEMENT(a_signal_without_sa_restart_does_not_interrupt_a_flow)
{
    check_signal("recv", in_recv, 0, is_kernel());
    check_signal("read", in_read, 0, is_kernel());
    check_signal("recv with a limit", in_limited_recv, 0, is_kernel());
    check_signal("poll", in_poll, 0, is_kernel());
    check_signal("select", in_select, 0, is_kernel());
    check_signal("epoll_wait", in_epoll_wait, 0, is_kernel());
}

STATEMENT(a_signal_with_sa_restart_does_not_interrupt_either)
{
    check_signal("recv", in_recv, SA_RESTART, false);
    check_signal("read", in_read, SA_RESTART, false);
    check_signal("recv with a limit", in_limited_recv, SA_RESTART, is_kernel());
    check_signal("poll", in_poll, SA_RESTART, is_kernel());
    check_signal("select", in_select, SA_RESTART, is_kernel());
    check_signal("epoll_wait", in_epoll_wait, SA_RESTART, is_kernel());
}

STATEMENT(a_signal_does_not_shorten_a_flow_s_sleep)
{
    struct shot s;
    struct timespec rem = {7, 7};
    struct sigaction before = handle(0);
    double begun = now_ms();
    struct flow *f = begin_shot(&s, -1);
    double start = now_ms();
    int rc = nanosleep(&(struct timespec){0, 200000000}, &rem);
    double over = now_ms();
    CHECK_INT(rc, ==, is_kernel() ? -1 : 0);
    CHECK(is_kernel() ? over - begun >= 70 && rem.tv_sec == 0 : over - start >= 200 && rem.tv_sec == 7);
    CHECK_INT(count(), ==, 1);
    end(f);
    f = begin_shot(&s, -1);
    CHECK_INT(sleep(1), ==, 0); /* whole seconds are told: none is left */
    CHECK_INT(count(), ==, 2);
    end(f);
    restore(before);
}

struct sink {
    int fd;
    size_t bytes;
};

static void drain_later(void *arg)
{
    struct sink *s = arg;
    static char room[65536];
    ssize_t n;
    usleep(160000);
    while ((n = recv(s->fd, room, sizeof room, 0)) > 0)
        s->bytes += (size_t)n;
}

/* What the kernel ends early, with what was sent so far, goes on to its end in a flow. */
STATEMENT(a_signal_while_much_is_sent_loses_nothing)
{
    enum { MUCH = 16 << 20 };
    static const char much[MUCH];
    struct ends e = tcp_ends();
    struct shot s;
    struct sink sink = {.fd = e.b};
    struct sigaction before = handle(0);
    struct flow *f = begin_shot(&s, -1), *g = begin(drain_later, &sink);
    ssize_t n = send(e.a, much, MUCH, 0);
    CHECK_INT(count(), ==, 1);
    if (is_kernel())
        CHECK(n > 0 && n < MUCH);
    else
        CHECK_INT(n, ==, MUCH);
    close(e.a);
    end(f);
    end(g);
    CHECK_INT(sink.bytes, ==, n);
    close(e.b);
    restore(before);
}

/* --- masks --- */

static sigset_t none_blocked(void)
{
    sigset_t set;
    sigemptyset(&set);
    return set;
}

/* SIGUSR1 is blocked on this thread, until `unblock`. */
static sigset_t block(void)
{
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK_INT(pthread_sigmask(SIG_BLOCK, &set, &before), ==, 0);
    return before;
}

static bool is_blocked(void)
{
    sigset_t now;
    CHECK_INT(pthread_sigmask(SIG_SETMASK, NULL, &now), ==, 0);
    return sigismember(&now, SIGUSR1) == 1;
}

static void unblock(sigset_t before)
{
    CHECK_INT(pthread_sigmask(SIG_SETMASK, &before, NULL), ==, 0);
}

typedef int masked(int fd, int ms, const sigset_t *mask);

static int by_ppoll(int fd, int ms, const sigset_t *mask)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    return ppoll(&(struct pollfd){fd, POLLIN, 0}, 1, ms < 0 ? NULL : &t, mask);
}

static int by_pselect(int fd, int ms, const sigset_t *mask)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    return pselect(fd + 1, &set, NULL, NULL, ms < 0 ? NULL : &t, mask);
}

static int in_set(int fd, int ms, const sigset_t *mask, bool second)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    struct epoll_event e = {.events = EPOLLIN};
    int set = epoll_create1(EPOLL_CLOEXEC);
    CHECK_INT(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e), ==, 0);
    int n = second ? epoll_pwait2(set, &e, 1, ms < 0 ? NULL : &t, mask) : epoll_pwait(set, &e, 1, ms, mask);
    int error = errno;
    close(set);
    errno = error;
    return n;
}

static int by_epoll_pwait(int fd, int ms, const sigset_t *mask)
{
    return in_set(fd, ms, mask, false);
}

static int by_epoll_pwait2(int fd, int ms, const sigset_t *mask)
{
    return in_set(fd, ms, mask, true);
}

static masked *const calls[] = {by_ppoll, by_pselect, by_epoll_pwait, by_epoll_pwait2};
enum { CALLS = sizeof calls / sizeof calls[0] };

STATEMENT(a_signal_that_is_pending_is_let_through_by_a_mask)
{
    struct ends e = tcp_ends();
    sigset_t none = none_blocked();
    struct sigaction before = handle(0);
    sigset_t mask = block();
    for (int i = 0; i < CALLS; i++) {
        pthread_kill(pthread_self(), SIGUSR1);
        CHECK_INT(count(), ==, i);
        double start = now_ms();
        CHECK_ERRNO(calls[i](e.a, -1, &none), EINTR);
        CHECK_AT_ONCE(start);
        CHECK_INT(count(), ==, i + 1);
        CHECK(is_blocked());
    }
    unblock(mask);
    restore(before);
    close_ends(e);
}

STATEMENT(a_signal_that_comes_is_let_through_by_a_mask)
{
    struct ends e = tcp_ends();
    sigset_t none = none_blocked();
    struct sigaction before = handle(SA_RESTART);
    sigset_t mask = block();
    for (int i = 0; i < CALLS; i++) {
        struct shot s;
        double start = now_ms();
        struct flow *f = begin_shot(&s, -1);
        CHECK_ERRNO(calls[i](e.a, i % 2 ? -1 : 5000, &none), EINTR);
        CHECK_AFTER(start, 70);
        CHECK_INT(count(), ==, i + 1);
        CHECK(is_blocked());
        end(f);
    }
    unblock(mask);
    restore(before);
    close_ends(e);
}

STATEMENT(a_mask_without_a_signal_changes_nothing)
{
    struct ends e = tcp_ends();
    sigset_t none = none_blocked();
    struct sigaction before = handle(0);
    sigset_t mask = block();
    char byte;
    for (int i = 0; i < CALLS; i++) {
        double start = now_ms();
        CHECK_INT(calls[i](e.a, 30, &none), ==, 0);
        CHECK_AFTER(start, 30);
        struct later l = {.fd = e.b, .after = 70};
        struct flow *f = begin(do_later, &l);
        CHECK_INT(calls[i](e.a, -1, &none), ==, 1);
        CHECK_JUST_AFTER(&l);
        end(f);
        CHECK_INT(calls[i](e.a, 0, &none), ==, 1);
        CHECK_INT(read(e.a, &byte, 1), ==, 1);
        CHECK_INT(calls[i](e.a, 0, &none), ==, 0);
        CHECK(is_blocked());
    }
    CHECK_INT(count(), ==, 0);
    unblock(mask);
    restore(before);
    close_ends(e);
}

STATEMENT(a_signal_that_the_mask_blocks_stays_pending)
{
    struct ends e = tcp_ends();
    struct sigaction before = handle(0);
    sigset_t mask = block(), blocking;
    sigemptyset(&blocking);
    sigaddset(&blocking, SIGUSR1);
    pthread_kill(pthread_self(), SIGUSR1);
    for (int i = 0; i < CALLS; i++) {
        double start = now_ms();
        CHECK_INT(calls[i](e.a, 30, &blocking), ==, 0);
        CHECK_AFTER(start, 30);
        CHECK_INT(calls[i](e.a, 10, NULL), ==, 0);
    }
    CHECK_INT(count(), ==, 0);
    unblock(mask);
    CHECK_INT(count(), ==, 1);
    restore(before);
    close_ends(e);
}

STATEMENTS(signal, a_signal_without_sa_restart_does_not_interrupt_a_flow,
           a_signal_with_sa_restart_does_not_interrupt_either, a_signal_does_not_shorten_a_flow_s_sleep,
           a_signal_while_much_is_sent_loses_nothing, a_signal_that_is_pending_is_let_through_by_a_mask,
           a_signal_that_comes_is_let_through_by_a_mask, a_mask_without_a_signal_changes_nothing,
           a_signal_that_the_mask_blocks_stays_pending)
