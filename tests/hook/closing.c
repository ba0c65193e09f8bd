/*
 * close, and all else that takes a descriptor away from those who wait for it.
 *
 * The kernel leaves a thread that waits for a descriptor waiting when another closes it. Fibers are told, with EBADF
 * (poll: POLLNVAL): those statements are about hooks alone. What shutdown does, and who must not be disturbed, is the
 * kernel's word.
 */
#include "hook/ends.h"

#include <linux/close_range.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/uio.h>

#include <weft/fiber.h>

/* A call that waits for fd until somebody takes that away. */
struct victim {
    int fd;
    long (*wait)(int fd);
    long rc;
    int error;
    double over;
    weft_fiber *fiber; /* const once it waits; NULL: a thread */
    bool waits;        /* atomic: it is about to */
};

static void be_victim(void *arg)
{
    struct victim *v = arg;
    v->fiber = weft_fiber_current();
    __atomic_store_n(&v->waits, true, __ATOMIC_RELEASE);
    errno = 0;
    v->rc = v->wait(v->fd);
    v->error = errno;
    v->over = now_ms();
}

static char byte[4]; /* where they would read to */

static long in_recv(int fd)
{
    return recv(fd, byte, 1, 0);
}

static long in_read(int fd)
{
    return read(fd, byte, 1);
}

static long in_readv(int fd)
{
    return readv(fd, &(struct iovec){byte, 1}, 1);
}

static long in_recvmsg(int fd)
{
    struct msghdr m = {.msg_iov = &(struct iovec){byte, 1}, .msg_iovlen = 1};
    return recvmsg(fd, &m, 0);
}

static long in_recv_with_timeout(int fd)
{
    struct timeval t = {5, 0};
    CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t), ==, 0);
    return recv(fd, byte, 1, 0);
}

/* There is no room. */
static long in_send(int fd)
{
    return send(fd, byte, 1, MSG_NOSIGNAL);
}

static long in_accept(int fd)
{
    return accept(fd, NULL, NULL);
}

static struct sockaddr_in full; /* who cannot take in anybody */

static long in_connect(int fd)
{
    return connect(fd, (struct sockaddr *)&full, sizeof full);
}

static long in_select(int fd)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    return select(fd + 1, &set, NULL, NULL, &(struct timeval){5, 0});
}

static long in_epoll_wait(int fd)
{
    struct epoll_event e;
    return epoll_wait(fd, &e, 1, -1);
}

static long in_poll(int fd)
{
    struct pollfd p = {fd, POLLIN, 0};
    int n = poll(&p, 1, 5000);
    return n == 1 ? p.revents : n;
}

/* Somebody else's descriptor is in it too. */
static long in_poll_of_two(int fd)
{
    struct ends idle = pipe_ends();
    struct pollfd fds[3] = {{idle.a, POLLIN, 0}, {fd, POLLIN, 0}, {fd, POLLPRI, 0}};
    int n = poll(fds, 3, 5000);
    CHECK_INT(fds[0].revents, ==, 0);
    CHECK_INT(fds[2].revents, ==, POLLNVAL);
    close_ends(idle);
    return n == 2 ? fds[1].revents : n;
}

/* --- the ways to take it away --- */

static void close_it(int fd)
{
    CHECK_INT(close(fd), ==, 0);
}

static void dup2_over_it(int fd)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK_INT(dup2(null, fd), ==, fd);
    close(null);
}

static void dup3_over_it(int fd)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK_INT(dup3(null, fd, O_CLOEXEC), ==, fd);
    close(null);
}

static void close_range_over_it(int fd)
{
    CHECK_INT(close_range((unsigned)fd, (unsigned)fd, 0), ==, 0);
}

struct taker {
    int fd;
    void (*take)(int);
};

static void take_away(void *arg)
{
    struct taker *t = arg;
    t->take(t->fd);
}

static void await(struct victim *v)
{
    while (!__atomic_load_n(&v->waits, __ATOMIC_ACQUIRE))
        usleep(1000);
    while (v->fiber && weft_fiber_state(v->fiber) != WEFT_FIBER_PARKED)
        usleep(1000);
    static int turn;
    usleep(turn++ % 3 ? 10000 : 70000); /* a thread is about to wait: now it does. At times it is for longer */
}

static bool is_told(const struct victim *v)
{
    if (v->wait == in_poll || v->wait == in_poll_of_two)
        return v->rc == POLLNVAL;
    return v->rc == -1 && v->error == EBADF;
}

typedef struct flow *beginner(void (*)(void *), void *);

/* A victim waits for fd, somebody takes it away: the victim is told, and soon. fd is then closed. */
#define check_victim(fd, wait, who, take, whose) check_named(#wait, fd, wait, who, take, whose)
static void check_named(const char *name, int fd, long (*wait)(int), beginner *who, void (*take)(int), beginner *whose)
{
    struct victim v = {.fd = fd, .wait = wait};
    if (wait == in_send)
        fill(fd);
    struct flow *f = who(be_victim, &v);
    await(&v);
    CHECK(v.over == 0);
    double start = now_ms();
    struct taker t = {fd, take};
    struct flow *g = whose(take_away, &t);
    end(g);
    end(f);
    CHECK_AT_ONCE(start);
    if (!is_told(&v))
        test_failed(__FILE__, __LINE__, "%s: %ld with errno %s", name, v.rc, strerrorname_np(v.error));
    if (take == dup2_over_it || take == dup3_over_it)
        close(fd);
}

static void check_all_who_read(beginner *who, void (*take)(int), beginner *whose)
{
    static const struct {
        const char *name;
        long (*wait)(int);
    } calls[] = {{"recv", in_recv},       {"read", in_read}, {"readv", in_readv},
                 {"recvmsg", in_recvmsg}, {"send", in_send}, {"recv with a timeout", in_recv_with_timeout},
                 {"select", in_select},   {"poll", in_poll}, {"poll of two", in_poll_of_two}};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        struct ends e = i % 2 ? tcp_ends() : unix_ends(SOCK_STREAM);
        check_named(calls[i].name, e.a, calls[i].wait, who, take, whose);
        close(e.b);
    }
    struct ends e = pipe_ends();
    check_victim(e.a, in_read, who, take, whose);
    close(e.b);
    struct sockaddr_in at;
    check_victim(listener(4, &at), in_accept, who, take, whose);
    check_victim(listener(4, &at), in_poll, who, take, whose);
    check_victim(bound(SOCK_DGRAM, &at), in_recv, who, take, whose);
    check_victim(epoll_create1(EPOLL_CLOEXEC), in_epoll_wait, who, take, whose);
    check_victim(epoll_create1(EPOLL_CLOEXEC), in_poll, who, take, whose);
}

STATEMENT(close_tells_those_who_wait)
{
    if (is_kernel())
        return; /* see above */
    check_all_who_read(begin, close_it, begin);
}

STATEMENT(close_on_another_worker_tells_those_who_wait)
{
    if (is_kernel())
        return;
    check_all_who_read(begin, close_it, begin_elsewhere);
}

STATEMENT(close_on_a_plain_thread_tells_those_who_wait)
{
    if (is_kernel())
        return;
    check_all_who_read(begin_elsewhere, close_it, begin_thread);
}

STATEMENT(dup2_and_dup3_tell_those_who_wait)
{
    if (is_kernel())
        return;
    check_all_who_read(begin, dup2_over_it, begin);
    check_all_who_read(begin, dup3_over_it, begin_elsewhere);
}

STATEMENT(close_range_tells_those_who_wait)
{
    if (is_kernel())
        return;
    check_all_who_read(begin, close_range_over_it, begin);
}

STATEMENT(close_tells_who_connects)
{
    if (is_kernel())
        return;
    struct sockaddr_in at;
    int l = listener(0, &at), fillers[4];
    for (int i = 0; i < 4; i++) { /* until nobody can be taken in any more */
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(fillers[i], (struct sockaddr *)&at, sizeof at);
    }
    full = at;
    check_victim(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), in_connect, begin, close_it, begin);
    check_victim(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), in_connect, begin, dup2_over_it, begin_elsewhere);
    for (int i = 0; i < 4; i++)
        close(fillers[i]);
    close(l);
}

/* The new descriptor has the old one's number and something to read, which is not for who waited for the old one. */
static void check_reuse(beginner *who)
{
    int reused = 0;
    for (int i = 0; i < 20; i++) {
        struct ends e = tcp_ends(), other = unix_ends(SOCK_STREAM);
        struct victim v = {.fd = e.a, .wait = i % 2 ? in_recv : in_poll};
        struct flow *f = who(be_victim, &v);
        CHECK_INT(write(other.b, "x", 1), ==, 1);
        await(&v);
        close(e.a);
        int copy = fcntl(other.a, F_DUPFD_CLOEXEC, e.a);
        end(f);
        CHECK(is_told(&v));
        if (copy != e.a) { /* a worker that has just begun got the number, for its own epoll set */
            close(copy);
            close(e.b);
            close_ends(other);
            continue;
        }
        reused++;
        CHECK_INT(recv(e.a, byte, 4, MSG_DONTWAIT), ==, 1);
        double start = now_ms();
        struct later l = {.fd = other.b, .after = 10};
        f = begin(do_later, &l);
        CHECK_INT(recv(e.a, byte, 1, 0), ==, 1); /* and who waits for the new one gets what comes for it */
        CHECK_AFTER(start, 10);
        end(f);
        close(e.a);
        close(e.b);
        close_ends(other);
    }
    CHECK_INT(reused, >=, 15);
}

STATEMENT(who_waited_for_the_old_never_touches_the_new_one_of_that_number)
{
    if (is_kernel())
        return;
    check_reuse(begin);
    check_reuse(begin_elsewhere);
}

STATEMENT(close_tells_a_crowd)
{
    enum { CROWD = 100 };
    if (is_kernel())
        return;
    static struct victim victims[CROWD];
    struct flow *flows[CROWD];
    struct ends e = tcp_ends();
    for (int i = 0; i < CROWD; i++) {
        victims[i] = (struct victim){.fd = e.a, .wait = i % 3 == 0 ? in_recv : i % 3 == 1 ? in_poll : in_select};
        flows[i] = i % 2 ? begin(be_victim, &victims[i]) : begin_elsewhere(be_victim, &victims[i]);
    }
    for (int i = 0; i < CROWD; i += 33)
        await(&victims[i]);
    double start = now_ms();
    close(e.a);
    for (int i = 0; i < CROWD; i++) {
        end(flows[i]);
        CHECK(is_told(&victims[i]));
    }
    CHECK_AT_ONCE(start);
    close(e.b);
}

struct race {
    int fd;
    int spins; /* how long it waits before it closes */
    int *go;   /* atomic */
};

static void close_in_a_moment(void *arg)
{
    struct race *r = arg;
    __atomic_store_n(r->go, 1, __ATOMIC_RELEASE);
    for (volatile int i = 0; i < r->spins; i++)
        ;
    CHECK_INT(close(r->fd), ==, 0);
}

/* Somebody begins to wait while another worker or thread closes: the wait ends, or does not begin. */
STATEMENT(close_tells_who_just_begins_to_wait)
{
    if (is_kernel())
        return;
    static long (*const waits[])(int) = {in_recv, in_read, in_poll, in_select};
    for (int i = 0; i < 1200; i++) {
        struct ends e = unix_ends(SOCK_STREAM);
        int go = 0;
        struct victim v = {.fd = e.a, .wait = waits[i % 4]};
        struct race r = {e.a, i * 37 % 4001, &go};
        struct flow *f = i % 3 ? begin_elsewhere(close_in_a_moment, &r) : begin_thread(close_in_a_moment, &r);
        for (int n = 0; !__atomic_load_n(&go, __ATOMIC_ACQUIRE) && n < 1000000; n++)
            ;
        double start = now_ms();
        be_victim(&v);
        CHECK_WITHIN(start, 1000);
        /* The kernel itself calls what is closed in the middle of its select ready; and a worker may have got the number,
         * for its own epoll set, before recv came to it. */
        if (!is_told(&v) && !(v.wait == in_select && v.rc == 1) && v.error != ENOTSOCK)
            test_failed(__FILE__, __LINE__, "wait %d: %ld with errno %s", i % 4, v.rc, strerrorname_np(v.error));
        end(f);
        close(e.b);
    }
}

/* --- who must not be disturbed --- */

/* The victim waits on, until something comes for it. */
static void check_undisturbed(struct ends e, void (*disturb)(int))
{
    static long (*const waits[])(int) = {in_recv, in_read, in_poll};
    for (int i = 0; i < 3; i++) {
        struct victim v = {.fd = e.a, .wait = waits[i]};
        struct flow *f = begin(be_victim, &v);
        await(&v);
        disturb(e.a);
        usleep(10000);
        CHECK(v.over == 0);
        double start = now_ms();
        CHECK_INT(write(e.b, "x", 1), ==, 1);
        end(f);
        CHECK_AT_ONCE(start);
        CHECK_INT(v.rc, ==, 1); /* POLLIN is 1, too */
        if (waits[i] == in_poll)
            CHECK_INT(recv(e.a, byte, 4, MSG_DONTWAIT), ==, 1);
    }
    close_ends(e);
}

static void close_a_copy(int fd)
{
    CHECK_INT(close(dup(fd)), ==, 0);
    int copy = dup(fd), null = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK_INT(dup2(null, copy), ==, copy);
    close(null);
    close(copy);
}

static void dup2_onto_itself(int fd)
{
    CHECK_INT(dup2(fd, fd), ==, fd);
    CHECK_ERRNO(dup3(fd, fd, 0), EINVAL);
}

static void fail_to_take_it(int fd)
{
    int closed = dup(fd);
    close(closed);
    CHECK_ERRNO(dup2(closed, fd), EBADF);
    CHECK_ERRNO(dup2(-1, fd), EBADF);
    CHECK_ERRNO(dup3(closed, fd, 0), EBADF);
    CHECK_ERRNO(dup3(0, fd, 1), EINVAL);
    CHECK_ERRNO(close_range((unsigned)fd + 1, (unsigned)fd, 0), EINVAL);
    CHECK_ERRNO(close_range((unsigned)fd, (unsigned)fd, 1 << 20), EINVAL);
}

static void mark_for_exec(int fd)
{
    CHECK_INT(close_range((unsigned)fd, (unsigned)fd, CLOSE_RANGE_CLOEXEC), ==, 0);
    CHECK_INT(fcntl(fd, F_GETFD), ==, FD_CLOEXEC);
}

STATEMENT(a_copy_that_is_closed_disturbs_nobody)
{
    check_undisturbed(tcp_ends(), close_a_copy);
}

STATEMENT(what_takes_nothing_away_disturbs_nobody)
{
    check_undisturbed(tcp_ends(), dup2_onto_itself);
    check_undisturbed(unix_ends(SOCK_STREAM), fail_to_take_it);
    check_undisturbed(tcp_ends(), mark_for_exec);
}

STATEMENT(closing_what_is_closed_is_ebadf)
{
    struct ends e = tcp_ends();
    close_ends(e);
    CHECK_ERRNO(close(e.a), EBADF);
    CHECK_ERRNO(close(-1), EBADF);
    CHECK_ERRNO(close(1 << 30), EBADF);
    CHECK_ERRNO(shutdown(e.a, SHUT_RD), EBADF);
    CHECK_ERRNO(dup2(e.a, e.b), EBADF);
    CHECK_ERRNO(recv(e.a, byte, 1, 0), EBADF);
    CHECK_ERRNO(read(e.a, byte, 1), EBADF);
    CHECK_ERRNO(accept(e.a, NULL, NULL), EBADF);
}

/* --- shutdown --- */

static void check_shutdown(int fd, long (*wait)(int), int how, beginner *whose, long rc, int error)
{
    struct victim v = {.fd = fd, .wait = wait};
    if (wait == in_send)
        fill(fd);
    struct flow *f = whose(be_victim, &v);
    await(&v);
    CHECK(v.over == 0);
    double start = now_ms();
    CHECK_INT(shutdown(fd, how), ==, 0);
    end(f);
    CHECK_AT_ONCE(start);
    CHECK_INT(v.rc, ==, rc);
    if (rc < 0)
        CHECK_INT(v.error, ==, error);
    close(fd);
}

STATEMENT(shutdown_ends_a_wait)
{
    beginner *const whose[] = {begin, begin_elsewhere, begin_thread};
    for (int i = 0; i < 3; i++) {
        struct sockaddr_in at;
        struct ends e[4] = {tcp_ends(), tcp_ends(), unix_ends(SOCK_STREAM), tcp_ends()};
        check_shutdown(e[0].a, in_recv, SHUT_RDWR, whose[i], 0, 0);
        check_shutdown(e[1].a, in_poll, SHUT_RD, whose[i], POLLIN, 0);
        check_shutdown(e[2].a, in_read, SHUT_RD, whose[i], 0, 0);
        check_shutdown(e[3].a, in_send, SHUT_WR, whose[i], -1, EPIPE);
        check_shutdown(listener(4, &at), in_accept, SHUT_RDWR, whose[i], -1, EINVAL);
        for (int k = 0; k < 4; k++)
            close(e[k].b);
    }
}

/* Two are woken at the same time, and the first keeps the other from its turn until the number has another owner. */
struct late {
    int other[2], own[2];
    bool busy, replaced; /* atomic */
};

static void keep_busy(void *arg)
{
    struct late *l = arg;
    char c;
    CHECK_INT(recv(l->other[0], &c, 1, 0), ==, 1);
    __atomic_store_n(&l->busy, true, __ATOMIC_RELEASE);
    for (double start = now_ms(); now_ms() - start < 20 && !__atomic_load_n(&l->replaced, __ATOMIC_ACQUIRE);)
        ;
}

static void have_turn_late(void *arg)
{
    struct late *l = arg;
    char c = 0;
    struct msghdr m = {.msg_iov = &(struct iovec){&c, 1}, .msg_iovlen = 1};
    if (recvmsg(l->own[0], &m, 0) == 1)
        CHECK_INT(c, ==, 'o');
}

static void replace(void *arg)
{
    struct late *l = arg;
    int fresh[2], fd = l->own[0];
    CHECK_INT(send(l->other[1], "x", 1, 0), ==, 1);
    CHECK_INT(send(l->own[1], "o", 1, 0), ==, 1);
    while (!__atomic_load_n(&l->busy, __ATOMIC_ACQUIRE))
        usleep(100);
    CHECK_INT(close(fd), ==, 0);
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, fresh), ==, 0);
    if (fresh[0] != fd) {
        CHECK_INT(dup2(fresh[0], fd), ==, fd);
        close(fresh[0]);
    }
    CHECK_INT(send(fresh[1], "n", 1, 0), ==, 1);
    __atomic_store_n(&l->replaced, true, __ATOMIC_RELEASE);
    usleep(30000);
    char c = 0;
    CHECK_INT(recv(fd, &c, 1, MSG_DONTWAIT), ==, 1);
    CHECK_INT(c, ==, 'n');
    close(fd);
    close(fresh[1]);
}

STATEMENT(who_has_its_turn_after_the_number_was_reused_leaves_the_new_one_alone)
{
    for (int i = 0; i < 8; i++) {
        struct late l = {0};
        CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, l.other), ==, 0);
        CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, l.own), ==, 0);
        struct flow *first = begin(keep_busy, &l), *second = begin(have_turn_late, &l);
        usleep(5000);
        struct flow *third = begin_elsewhere(replace, &l);
        end(third);
        end(second);
        end(first);
        close(l.other[0]);
        close(l.other[1]);
        close(l.own[1]);
    }
}

STATEMENTS(closing, close_tells_those_who_wait, close_on_another_worker_tells_those_who_wait,
           close_on_a_plain_thread_tells_those_who_wait, dup2_and_dup3_tell_those_who_wait,
           close_range_tells_those_who_wait, close_tells_who_connects,
           who_waited_for_the_old_never_touches_the_new_one_of_that_number, close_tells_a_crowd,
           who_has_its_turn_after_the_number_was_reused_leaves_the_new_one_alone, close_tells_who_just_begins_to_wait,
           a_copy_that_is_closed_disturbs_nobody, what_takes_nothing_away_disturbs_nobody,
           closing_what_is_closed_is_ebadf, shutdown_ends_a_wait)
