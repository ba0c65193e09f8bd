/*
 * Closing what others use, and numbers that are used again: nobody hangs, nobody reaches the next descriptor of a number.
 */
#include <sys/ioctl.h>

#include "base/sanitizer.h"
#include "base/sys.h"
#include "unit/io/ground.h"

static void *polls_for_ever(void *arg)
{
    struct pollfd fds[] = {{.fd = *(int *)arg, .events = POLLIN}};
    int n = weft_poll(fds, 1, weft_in(20 * WEFT_SEC));
    return ptr(n == 1 ? fds[0].revents : -1);
}

IN_FIBER(a_poll_is_ended_by_a_close)
{
    for (int round = 0; round < 5; round++) {
        struct pair p = tcp_pair();
        weft_fiber *f = go(polls_for_ever, &p.a);
        AWAIT(is_parked(f));
        CHECK_INT(weft_close(p.a), ==, 0);
        CHECK_PTR(ended(f), ==, ptr(POLLNVAL));
        CHECK_INT(weft_close(p.b), ==, 0);
    }
    return arg;
}

static void *polls_on_a_thread(void *arg)
{
    CHECK_PTR(polls_for_ever(arg), ==, ptr(POLLNVAL));
    return NULL;
}

TEST(a_poll_of_a_plain_thread_is_ended_by_a_close)
{
    struct pair p = tcp_pair();
    pthread_t t = new_thread(polls_on_a_thread, &p.a);
    usleep(20000);
    CHECK_INT(weft_close(p.a), ==, 0);
    pthread_join(t, NULL);
    CHECK_INT(weft_close(p.b), ==, 0);
}

static void *writes_soon(void *arg)
{
    weft_sleep(3 * WEFT_MS);
    CHECK_INT(write(*(int *)arg, "x", 1), ==, 1);
    return NULL;
}

IN_FIBER(one_descriptor_may_be_polled_for_two_things)
{
    struct pair p = pipe_pair(0);
    struct pollfd fds[] = {{.fd = p.a, .events = POLLIN}, {.fd = p.a, .events = POLLPRI}};
    weft_time begin = weft_now();
    weft_fiber *f = go(writes_soon, &p.b);
    CHECK_INT(weft_poll(fds, 2, weft_in(20 * WEFT_SEC)), ==, 1);
    CHECK_INT(fds[0].revents, ==, POLLIN);
    CHECK_INT(weft_now().ns - begin.ns, <, 10 * WEFT_SEC);
    ended(f);
    close_pair(p);
    return arg;
}

/* A socket that can be written to all the time is waited for until it can be read. */
IN_FIBER(what_others_may_wait_for_does_not_keep_the_worker_busy)
{
    struct pair p = tcp_pair();
    char byte;
    CHECK_INT(weft_read(p.a, &byte, 1, weft_in(WEFT_MS)), ==, -ETIMEDOUT); /* it is registered for good */
    uint64_t before = figures(weft_sched_current()).switches;
    CHECK_INT(weft_wait_fd(p.a, POLLIN, weft_in(30 * WEFT_MS)), ==, -ETIMEDOUT);
    struct pollfd fd = {.fd = p.a, .events = POLLIN};
    CHECK_INT(weft_poll(&fd, 1, weft_in(30 * WEFT_MS)), ==, 0);
    CHECK_INT(figures(weft_sched_current()).switches - before, <, 100);
    close_pair(p);
    return arg;
}

/* What was known of a file does not hold for the socket that gets its number. */
IN_FIBER(a_file_that_was_closed_elsewhere_may_become_a_socket)
{
    char magic[4];
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    CHECK_INT(weft_read(file, magic, sizeof magic, WEFT_FOREVER), ==, 4);
    close(file);
    struct pair p = unix_pair(SOCK_STREAM);
    if (p.a != file) {
        CHECK_INT(dup2(p.a, file), ==, file);
        close(p.a);
        p.a = file;
    }
    CHECK_INT(weft_recv(p.a, magic, 1, 0, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_read(p.a, magic, 1, weft_in(2 * WEFT_MS)), ==, -ETIMEDOUT);
    weft_fiber *f = go(writes_soon, &p.b);
    CHECK_INT(weft_read(p.a, magic, 1, weft_in(20 * WEFT_SEC)), ==, 1);
    ended(f);
    close_pair(p);
    return arg;
}

struct hammer {
    int fd, stop;
};

/* Reads again and again, also while the descriptor is being closed. */
static void *reads_until_it_is_gone(void *arg)
{
    struct hammer *h = arg;
    char byte;
    while (!seen(&h->stop)) {
        weft_read(h->fd, &byte, 1, weft_in(20 * WEFT_SEC));
        weft_yield();
    }
    return NULL;
}

IN_FIBER(a_close_ends_though_others_try_again)
{
    for (int round = 0; round < 5; round++) {
        struct pair p = tcp_pair();
        struct hammer h = {.fd = p.a};
        weft_fiber *f[4];
        for (int i = 0; i < 4; i++)
            f[i] = go(reads_until_it_is_gone, &h);
        weft_sleep(WEFT_MS);
        weft_time begin = weft_now();
        CHECK_INT(weft_close(p.a), ==, 0);
        CHECK_INT(weft_now().ns - begin.ns, <, 10 * WEFT_SEC);
        put(&h.stop, 1);
        for (int i = 0; i < 4; i++)
            ended(f[i]);
        CHECK_INT(weft_close(p.b), ==, 0);
    }
    return arg;
}

static void *reads_one(void *arg)
{
    char byte;
    return ptr(weft_read(*(int *)arg, &byte, 1, WEFT_FOREVER));
}

struct pieces {
    int fd;
    size_t done;
};

static void *reads_ten(void *arg)
{
    struct pieces *r = arg;
    char buffer[10];
    return ptr(weft_read_full(r->fd, buffer, sizeof buffer, &r->done, WEFT_FOREVER));
}

static void *writes_much(void *arg)
{
    struct pieces *r = arg;
    static char bytes[1 << 24];
    return ptr(weft_write_all(r->fd, bytes, sizeof bytes, &r->done, WEFT_FOREVER));
}

static int bytes_in(int fd)
{
    int n = -1;
    CHECK_INT(ioctl(fd, FIONREAD, &n), ==, 0);
    return n;
}

/* Another descriptor has the number of one that was closed. */
static void take_number(int fd, int by)
{
    CHECK_INT(weft_close(fd), ==, 0);
    CHECK_INT(dup2(by, fd), ==, fd);
}

/* Its slice is over between two pieces. */
static void *closes_between_pieces(void *arg)
{
    struct pair p = tcp_pair(), next = tcp_pair();
    struct pieces r = {.fd = p.a};
    weft_fiber *f = go(reads_ten, &r);
    AWAIT(is_parked(f));
    CHECK_INT(write(p.b, "12345", 5), ==, 5);
    CHECK_INT(write(next.b, "abcde", 5), ==, 5);
    AWAIT(bytes_in(p.a) == 0);
    take_number(p.a, next.a);
    CHECK_PTR(ended(f), ==, ptr(-EBADF));
    CHECK_INT(r.done, ==, 5);
    CHECK_INT(bytes_in(next.a), ==, 5);
    close_pair(p);

    p = tcp_pair();
    r = (struct pieces){.fd = p.b};
    f = go(writes_much, &r);
    AWAIT(bytes_in(p.a) > 0);
    take_number(p.b, next.b);
    CHECK_PTR(ended(f), ==, ptr(-EBADF));
    CHECK_INT(bytes_in(next.a), ==, 5);
    close_pair(p);
    close_pair(next);
    return arg;
}

TEST(what_goes_in_pieces_goes_to_one_descriptor)
{
    weft_span slice = 1;
    for (unsigned workers = 1; workers <= 2; workers++)
        CHECK_INT(weft_run(closes_between_pieces, NULL, NULL,
                           &(weft_sched_opts){.threads = workers, .policy = &weft_rr, .policy_arg = &slice}),
                  ==, 0);
}

static void *waits_for_one(void *arg)
{
    return ptr(weft_wait_fd(*(int *)arg, POLLIN, WEFT_FOREVER));
}

/* With a ring each of them is a call, or a poll, that must be cancelled, and only those of this descriptor. */
IN_FIBER(a_close_ends_thousands_of_waits)
{
    enum { MANY = WF_TSAN || WF_VALGRIND || TEST_EMULATED ? 1000 : 5000, OTHERS = 100 };
    struct pair p = tcp_pair(), other = tcp_pair();
    static weft_fiber *f[MANY], *g[OTHERS];
    for (int i = 0; i < MANY; i++) {
        f[i] = go(i % 5 == 0 ? waits_for_one : reads_one, &p.a);
        if (i % (MANY / OTHERS) == 0)
            g[i / (MANY / OTHERS)] = go(reads_one, &other.a);
    }
    for (int i = 0; i < MANY; i++)
        AWAIT(is_parked(f[i]));
    for (int i = 0; i < OTHERS; i++)
        AWAIT(is_parked(g[i]));
    weft_time begin = weft_now();
    CHECK_INT(weft_close(p.a), ==, 0);
    CHECK_INT(weft_now().ns - begin.ns, <, 10 * WEFT_SEC);
    for (int i = 0; i < MANY; i++)
        CHECK_PTR(ended(f[i]), ==, ptr(-EBADF));
    for (int i = 0; i < OTHERS; i++)
        CHECK(is_parked(g[i]));
    for (int i = 0; i < OTHERS; i++)
        CHECK_INT(write(other.b, "x", 1), ==, 1);
    for (int i = 0; i < OTHERS; i++)
        CHECK_PTR(ended(g[i]), ==, ptr(1));
    CHECK_INT(weft_close(p.b), ==, 0);
    close_pair(other);
    return arg;
}

/* The thread that is worker 0 closes it while it does not work. */
/* ---- a cancel that the kernel loses ---- */

static void *reads_for_ever(void *arg)
{
    char byte;
    return ptr(weft_read(*(int *)arg, &byte, 1, WEFT_FOREVER));
}

/* The next two requests to cancel a call in a ring find nothing. */
static void lose_cancels(void)
{
    wf_sys_fail(1u << WF_SYS_RING_CANCEL, 1, 1);
}

/* With a ring the kernel was asked until it found the call. */
static void check_that_all_were_asked(void)
{
    if (strcmp(weft_io_backend(), "io_uring") == 0)
        CHECK_INT(wf_sys_calls(), >=, 3);
    wf_sys_fail(0, 0, 0);
}

IN_FIBER(a_close_asks_again_when_the_kernel_did_not_find_a_call)
{
    struct pair p = tcp_pair();
    weft_fiber *f = go(reads_for_ever, &p.a);
    AWAIT(is_parked(f));
    lose_cancels();
    CHECK_INT(weft_close(p.a), ==, 0);
    check_that_all_were_asked();
    CHECK_PTR(ended(f), ==, ptr(-EBADF));
    CHECK_INT(weft_close(p.b), ==, 0);
    return arg;
}

IN_FIBER(a_deadline_asks_again_when_the_kernel_did_not_find_a_call)
{
    struct pair p = tcp_pair();
    char byte;
    lose_cancels();
    CHECK_INT(weft_read(p.a, &byte, 1, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    check_that_all_were_asked();
    close_pair(p);
    return arg;
}

TEST(worker_0_may_close_outside_of_its_loop)
{
    weft_sched *s = new_sched(1, true);
    struct pair p = tcp_pair();
    weft_fiber *f = go_on(s, reads_one, &p.a);
    CHECK_INT(weft_sched_run(s, weft_in(5 * WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(weft_close(p.a), ==, 0);
    CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, 0);
    CHECK_PTR(ended(f), ==, ptr(-EBADF));
    end_sched(s);
    CHECK_INT(weft_close(p.b), ==, 0);
}

/* A scheduler that is started again serves descriptors as before. */
TEST(a_scheduler_may_be_started_again)
{
    weft_sched *s = new_sched(2, false);
    struct pair p = tcp_pair();
    for (int round = 0; round < 3; round++) {
        CHECK_INT(weft_sched_start(s), ==, 0);
        weft_fiber *f = go_on(s, reads_one, &p.a);
        AWAIT(is_parked(f));
        CHECK_INT(write(p.b, "x", 1), ==, 1);
        CHECK_PTR(ended(f), ==, ptr(1));
        CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    }
    CHECK_INT(weft_sched_free(s), ==, 0);
    close_pair(p);
}

/* A fiber that may move waits in its turn on whichever worker it is. */
static void *reads_with_short_deadlines(void *arg)
{
    char byte;
    for (int i = 0; i < 200; i++) {
        CHECK_INT(weft_read(*(int *)arg, &byte, 1, weft_in(i % 7 * 10 * WEFT_US)), ==, -ETIMEDOUT);
        CHECK_INT(weft_wait_fd(*(int *)arg, POLLIN, weft_in(i % 5 * 10 * WEFT_US)), ==, -ETIMEDOUT);
    }
    return NULL;
}

TEST(fibers_that_move_leave_nothing_behind)
{
    weft_sched *s = running_sched(3);
    struct pair p = tcp_pair();
    weft_fiber *f[8];
    for (int i = 0; i < 8; i++) {
        f[i] = NULL;
        CHECK_INT(weft_sched_go(s, &f[i], &(weft_attr){.flags = WEFT_MIGRATE}, reads_with_short_deadlines, &p.a), ==,
                  0);
    }
    for (int i = 0; i < 8; i++)
        ended(f[i]);
    close_pair(p); /* returns, as nobody is in a call on it */
    end_sched(s);
}

TESTS(io_closing, a_poll_is_ended_by_a_close, a_poll_of_a_plain_thread_is_ended_by_a_close,
      one_descriptor_may_be_polled_for_two_things, what_others_may_wait_for_does_not_keep_the_worker_busy,
      a_file_that_was_closed_elsewhere_may_become_a_socket, a_close_ends_though_others_try_again,
      a_close_ends_thousands_of_waits, a_close_asks_again_when_the_kernel_did_not_find_a_call,
      a_deadline_asks_again_when_the_kernel_did_not_find_a_call, what_goes_in_pieces_goes_to_one_descriptor,
      worker_0_may_close_outside_of_its_loop, a_scheduler_may_be_started_again, fibers_that_move_leave_nothing_behind)
