/*
 * poll and ppoll: what they count, which bits they give, when they wake.
 */
#include "hook/ends.h"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/timerfd.h>

STATEMENT(duplicates_count_separately_and_negatives_are_zeroed)
{
    struct ends e = unix_ends(SOCK_STREAM);
    struct pollfd fds[4] = {{e.a, POLLIN, 99}, {-1, POLLIN, 99}, {e.a, POLLOUT, 99}, {-5, POLLOUT, 99}};
    CHECK_INT(write(e.b, "x", 1), ==, 1);
    CHECK_INT(poll(fds, 4, -1), ==, 2);
    CHECK_INT(fds[0].revents, ==, POLLIN);
    CHECK_INT(fds[1].revents, ==, 0);
    CHECK_INT(fds[2].revents, ==, POLLOUT);
    CHECK_INT(fds[3].revents, ==, 0);
    close_ends(e);
}

STATEMENT(duplicates_that_have_to_wait_wake_together)
{
    struct ends e = unix_ends(SOCK_STREAM), idle = unix_ends(SOCK_STREAM);
    struct pollfd fds[5] = {{e.a, POLLIN, 99}, {-1, POLLIN, 99}, {idle.a, POLLIN, 99}, {e.a, POLLIN | POLLOUT, 99}};
    struct later l = {.fd = e.b, .after = 70};
    fill(e.a);
    struct flow *f = begin(do_later, &l);
    fds[4] = (struct pollfd){e.a, POLLRDNORM, 99};
    CHECK_INT(poll(fds, 5, -1), ==, 3);
    CHECK_JUST_AFTER(&l);
    CHECK_INT(fds[0].revents, ==, POLLIN);
    CHECK_INT(fds[1].revents, ==, 0);
    CHECK_INT(fds[2].revents, ==, 0);
    CHECK_INT(fds[3].revents, ==, POLLIN);
    CHECK_INT(fds[4].revents, ==, POLLRDNORM);
    end(f);
    close_ends(e);
    close_ends(idle);
}

STATEMENT(a_timeout_of_0_never_waits)
{
    struct ends e = tcp_ends();
    struct pollfd fds[2] = {{e.a, POLLIN, 99}, {e.b, POLLIN, 99}};
    double start = now_ms();
    for (int i = 0; i < 1000; i++)
        CHECK_INT(poll(fds, 2, 0), ==, 0);
    CHECK_WITHIN(start, 1000);
    CHECK_INT(fds[0].revents, ==, 0);
    CHECK_INT(fds[1].revents, ==, 0);
    CHECK_INT(poll(NULL, 0, 0), ==, 0);
    close_ends(e);
}

/* What curl asks for, and what it expects: IN, PRI, RDNORM, RDBAND; then OUT, PRI, WRNORM. */
STATEMENT(all_the_bits_asked_for_are_given)
{
    struct ends e = tcp_ends(), wake = unix_ends(SOCK_STREAM);
    struct pollfd fds[2] = {{e.a, 0xc3, 0}, {wake.a, 0xc3, 0}};
    struct later l = {.fd = e.b, .after = 70};
    struct flow *f = begin(do_later, &l);
    CHECK_INT(poll(fds, 2, 5000), ==, 1);
    CHECK_INT(fds[0].revents, ==, 0x41);
    CHECK_INT(fds[1].revents, ==, 0);
    end(f);
    CHECK_INT(poll(fds, 2, 5000), ==, 1); /* nothing was taken: once more, and at once */
    CHECK_INT(fds[0].revents, ==, 0x41);
    fds[0].events = 0x106;
    CHECK_INT(poll(fds, 2, 5000), ==, 1);
    CHECK_INT(fds[0].revents, ==, 0x104);
    fds[0].events = 0x1cf;
    CHECK_INT(poll(fds, 2, 5000), ==, 1);
    CHECK_INT(fds[0].revents & ~POLLWRBAND, ==, 0x145);
    fds[1].events = POLLWRBAND;
    CHECK_INT(poll(fds + 1, 1, 0), ==, 1);
    CHECK_INT(fds[1].revents, ==, POLLWRBAND);
    close_ends(e);
    close_ends(wake);
}

static void send_urgent(int fd)
{
    CHECK_INT(send(fd, "!", 1, MSG_OOB), ==, 1);
}

/* Soon, and when it has waited longer. */
STATEMENT(urgent_data_is_pollpri)
{
    for (int after = 20; after <= 200; after += 90) {
        struct ends e = tcp_ends();
        struct pollfd p = {e.a, POLLPRI, 0};
        struct later l = {.fd = e.b, .after = after, .what = send_urgent};
        struct flow *f = begin(do_later, &l);
        CHECK_INT(poll(&p, 1, 2000), ==, 1);
        CHECK_INT(p.revents, ==, POLLPRI);
        CHECK_JUST_AFTER(&l);
        end(f);
        close_ends(e);
    }
}

/* Who waits for something else does not wake for what is there, nor spin over it. */
STATEMENT(what_was_not_asked_for_does_not_wake)
{
    struct ends e = tcp_ends();
    struct pollfd fds[2] = {{e.a, POLLPRI | POLLRDHUP, 0}, {e.b, POLLIN, 0}};
    struct later l = {.fd = e.b, .after = 70};
    struct flow *f = begin(do_later, &l);
    double start = now_ms(), computed = cpu_ms();
    CHECK_INT(poll(fds, 2, 200), ==, 0);
    CHECK_AFTER(start, 200);
    CHECK(cpu_ms() - computed < 100);
    CHECK_INT(fds[0].revents, ==, 0);
    end(f);
    start = now_ms();
    computed = cpu_ms();
    CHECK_INT(poll(fds, 2, 200), ==, 0); /* and now it is there from the start */
    CHECK_AFTER(start, 200);
    CHECK(cpu_ms() - computed < 100);
    close_ends(e);
}

static void shut_write(int fd)
{
    CHECK_INT(shutdown(fd, SHUT_WR), ==, 0);
}

static void shut(int fd)
{
    CHECK_INT(shutdown(fd, SHUT_RDWR), ==, 0);
}

static void close_it(int fd)
{
    CHECK_INT(close(fd), ==, 0);
}

/* Polls with these events while somebody does `what` to the other end; the bits that come. */
static int bits_after(int fd, short events, int other, void (*what)(int))
{
    struct pollfd p = {fd, events, 0};
    struct later l = {.fd = other, .after = 70, .what = what};
    struct flow *f = begin(do_later, &l);
    CHECK_INT(poll(&p, 1, 5000), ==, 1);
    CHECK_JUST_AFTER(&l);
    end(f);
    return (unsigned short)p.revents;
}

static int bits_of_an_end(struct ends e, short events, void (*what)(int))
{
    int bits = bits_after(e.a, events, e.b, what);
    CHECK_INT(close(e.a), ==, 0);
    if (what != close_it)
        CHECK_INT(close(e.b), ==, 0);
    return bits;
}

STATEMENT(the_ends_of_a_stream_are_told)
{
    struct ends e = tcp_ends();
    shut_write(e.a);
    CHECK_INT(bits_of_an_end(e, 0, shut_write), ==, POLLHUP); /* both ways shut: never asked for, always told */
    CHECK_INT(bits_of_an_end(tcp_ends(), POLLRDHUP, shut_write), ==, POLLRDHUP);
    CHECK_INT(bits_of_an_end(tcp_ends(), POLLIN | POLLRDHUP, shut), ==, POLLIN | POLLRDHUP);
    CHECK_INT(bits_of_an_end(unix_ends(SOCK_STREAM), 0, close_it), ==, POLLHUP);
    CHECK_INT(bits_of_an_end(unix_ends(SOCK_STREAM), POLLIN, close_it), ==, POLLIN | POLLHUP);
    CHECK_INT(bits_of_an_end(unix_ends(SOCK_STREAM), POLLRDHUP, shut_write), ==, POLLRDHUP);
}

STATEMENT(the_ends_of_a_pipe_are_told)
{
    struct ends e = pipe_ends();
    CHECK_INT(bits_after(e.a, POLLIN, e.b, close_it), ==, POLLHUP);
    close(e.a);
    e = pipe_ends();
    fill(e.b);
    CHECK_INT(bits_after(e.b, 0, e.a, close_it), ==, POLLERR);
    close(e.b);
}

/* epoll refuses them all. */
STATEMENT(files_and_plain_devices_are_ready)
{
    struct ends e = unix_ends(SOCK_STREAM);
    static const char *const names[] = {"/proc/self/exe", "/", "/dev/null", "/dev/zero"};
    for (int i = 0; i < 4; i++) {
        int fd = open(names[i], O_RDONLY | O_CLOEXEC);
        struct pollfd fds[2] = {{e.a, POLLIN, 99}, {fd, POLLIN | POLLOUT | POLLPRI | POLLRDNORM, 99}};
        CHECK_INT(fd, >=, 0);
        CHECK_INT(poll(fds, 2, -1), ==, 1);
        CHECK_INT(fds[0].revents, ==, 0);
        CHECK_INT(fds[1].revents, ==, POLLIN | POLLOUT | POLLRDNORM);
        struct pollfd alone = {fd, POLLPRI, 99};
        double start = now_ms();
        errno = 0;
        CHECK_INT(poll(&alone, 1, 30), ==, 0); /* never */
        CHECK_INT(errno, ==, 0);
        CHECK_AFTER(start, 30);
        CHECK_INT(alone.revents, ==, 0);
        close(fd);
    }
    close_ends(e);
}

STATEMENT(a_closed_descriptor_is_pollnval)
{
    struct ends e = unix_ends(SOCK_STREAM);
    int closed = dup(e.a);
    close(closed);
    struct pollfd fds[3] = {{e.a, POLLIN, 99}, {closed, POLLIN, 99}, {1 << 20, 0, 99}};
    CHECK_INT(poll(fds, 3, -1), ==, 2);
    CHECK_INT(fds[0].revents, ==, 0);
    CHECK_INT(fds[1].revents, ==, POLLNVAL);
    CHECK_INT(fds[2].revents, ==, POLLNVAL);
    struct pollfd none = {closed, 0, 99};
    CHECK_INT(poll(&none, 1, -1), ==, 1);
    CHECK_INT(none.revents, ==, POLLNVAL);
    close_ends(e);
}

STATEMENT(a_timeout_is_never_early)
{
    struct ends e = unix_ends(SOCK_STREAM), f = pipe_ends();
    struct pollfd fds[2] = {{e.a, POLLIN, 99}, {f.a, POLLIN, 99}};
    for (int n = 0; n <= 2; n++) {
        for (int ms = 1; ms <= 40; ms += 13) {
            double start = now_ms();
            errno = 7;
            CHECK_INT(poll(n ? fds : NULL, (nfds_t)n, ms), ==, 0);
            CHECK_AFTER(start, ms);
            CHECK_INT(errno, ==, 7);
        }
    }
    CHECK_INT(fds[0].revents, ==, 0);
    close_ends(e);
    close_ends(f);
}

STATEMENT(any_negative_timeout_is_for_ever)
{
    struct ends e = unix_ends(SOCK_STREAM);
    struct pollfd p = {e.a, POLLIN, 0};
    struct later l = {.fd = e.b, .after = 70};
    struct flow *f = begin(do_later, &l);
    CHECK_INT(poll(&p, 1, -17), ==, 1);
    CHECK_JUST_AFTER(&l);
    end(f);
    close_ends(e);
}

/* Woken by a flow of this worker, of another, and by a plain thread. Of a few times the best one counts. */
STATEMENT(two_idle_descriptors_wake_promptly)
{
    struct ends e = tcp_ends(), g = tcp_ends();
    struct pollfd fds[2] = {{e.a, POLLIN, 0}, {g.a, POLLIN, 0}};
    double best[3] = {1e9, 1e9, 1e9};
    for (int i = 0; i < 12; i++) {
        struct later l = {.fd = i & 1 ? e.b : g.b, .after = 60};
        struct flow *f = i % 3 == 0   ? begin(do_later, &l)
                         : i % 3 == 1 ? begin_elsewhere(do_later, &l)
                                      : begin_thread(do_later, &l);
        char byte;
        CHECK_INT(poll(fds, 2, 5000), ==, 1);
        double took = now_ms() - l.at;
        CHECK_JUST_AFTER(&l);
        CHECK_INT(fds[i & 1 ? 0 : 1].revents, ==, POLLIN);
        CHECK_INT(fds[i & 1].revents, ==, 0);
        CHECK_INT(read(i & 1 ? e.a : g.a, &byte, 1), ==, 1);
        end(f);
        best[i % 3] = took < best[i % 3] ? took : best[i % 3];
    }
    for (int i = 0; i < 3; i++)
        CHECK(best[i] < 10);
    close_ends(e);
    close_ends(g);
}

static void poll_idle(void *arg)
{
    struct ends *e = arg;
    struct pollfd fds[2] = {{e->a, POLLIN, 0}, {e->b, POLLIN, 0}};
    CHECK_INT(poll(fds, 2, -1), ==, 1);
    CHECK_INT(fds[0].revents, ==, POLLIN | POLLHUP);
}

STATEMENT(a_thousand_that_wait_compute_nothing)
{
    enum { CROWD = 1000 };
    static struct flow *flows[CROWD];
    struct ends door = unix_ends(SOCK_STREAM), idle = unix_ends(SOCK_STREAM), both = {door.a, idle.a};
    double before = cpu_ms();
    usleep(400000);
    double alone = cpu_ms() - before; /* the ticker, on a machine that is slow today */
    for (int i = 0; i < CROWD; i++)
        flows[i] = begin(poll_idle, &both);
    usleep(100000);
    double computed = cpu_ms();
    usleep(400000);
    CHECK(cpu_ms() - computed < alone + 200); /* a crowd that looks again and again takes all of the 400 */
    close(door.b);
    for (int i = 0; i < CROWD; i++)
        end(flows[i]);
    close(door.a);
    close_ends(idle);
}

STATEMENT(what_cannot_be_is_refused)
{
    struct rlimit now, few;
    static struct pollfd fds[600];
    for (int i = 0; i < 600; i++)
        fds[i] = (struct pollfd){-1, POLLIN, 0};
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &now), ==, 0);
    few = (struct rlimit){512, now.rlim_max};
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), ==, 0);
    CHECK_ERRNO(poll(fds, 600, 0), EINVAL);
    CHECK_ERRNO(poll(fds, 600, 50), EINVAL);
    CHECK_INT(poll(fds, 512, 1), ==, 0);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &now), ==, 0);
    CHECK_ERRNO(ppoll(fds, 1, &(struct timespec){0, 1000000000}, NULL), EINVAL);
    CHECK_ERRNO(ppoll(fds, 1, &(struct timespec){0, -1}, NULL), EINVAL);
    CHECK_ERRNO(ppoll(fds, 1, &(struct timespec){-1, 0}, NULL), EINVAL);
}

STATEMENT(ppoll_takes_nanoseconds_and_leaves_them_alone)
{
    struct ends e = tcp_ends();
    struct pollfd p = {e.a, POLLIN, 99};
    struct timespec t = {0, 20500000};
    double start = now_ms();
    CHECK_INT(ppoll(&p, 1, &t, NULL), ==, 0);
    CHECK(now_ms() - start >= 20.5);
    CHECK_INT(t.tv_sec, ==, 0);
    CHECK_INT(t.tv_nsec, ==, 20500000);
    start = now_ms();
    CHECK_INT(ppoll(&p, 1, &(struct timespec){0, 0}, NULL), ==, 0);
    CHECK_AT_ONCE(start);
    struct later l = {.fd = e.b, .after = 70};
    struct flow *f = begin(do_later, &l);
    CHECK_INT(ppoll(&p, 1, NULL, NULL), ==, 1);
    CHECK_JUST_AFTER(&l);
    CHECK_INT(p.revents, ==, POLLIN);
    end(f);
    close_ends(e);
}

/* More descriptors than any array on a stack should have; the last is the one. */
STATEMENT(many_descriptors_are_waited_for)
{
    enum { MANY = 900 };
    static struct pollfd fds[MANY];
    struct ends idle = unix_ends(SOCK_STREAM), e = unix_ends(SOCK_STREAM);
    struct rlimit now;
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &now), ==, 0);
    struct rlimit more = {now.rlim_max < 4096 ? now.rlim_max : 4096, now.rlim_max};
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &more), ==, 0);
    for (int i = 0; i < MANY - 1; i++)
        fds[i] = (struct pollfd){dup(idle.a), POLLIN, 99};
    fds[MANY - 1] = (struct pollfd){e.a, POLLIN, 99};
    struct later l = {.fd = e.b, .after = 80};
    struct flow *f = begin(do_later, &l);
    CHECK_INT(poll(fds, MANY, 5000), ==, 1);
    CHECK_JUST_AFTER(&l);
    CHECK_INT(fds[MANY - 1].revents, ==, POLLIN);
    end(f);
    for (int i = 0; i < MANY - 1; i++) {
        CHECK_INT(fds[i].revents, ==, 0);
        close(fds[i].fd);
    }
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &now), ==, 0);
    close_ends(idle);
    close_ends(e);
}

static void add_one(int fd)
{
    CHECK_INT(eventfd_write(fd, 1), ==, 0);
}

STATEMENT(every_kind_is_waited_for)
{
    struct sockaddr_in at;
    struct ends e = pipe_ends(), u = udp_ends();
    int event = eventfd(0, EFD_CLOEXEC), timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    int listening = listener(8, &at);
    CHECK_INT(bits_after(e.a, POLLIN, e.b, NULL), ==, POLLIN);
    CHECK_INT(bits_after(u.a, POLLIN, u.b, NULL), ==, POLLIN);
    CHECK_INT(bits_after(event, POLLIN, event, add_one), ==, POLLIN);
    CHECK_INT(bits_after(listening, POLLIN, listening, connect_briefly), ==, POLLIN);
    struct itimerspec soon = {.it_value = {0, 20000000}};
    struct pollfd p = {timer, POLLIN, 0};
    double start = now_ms();
    CHECK_INT(timerfd_settime(timer, 0, &soon, NULL), ==, 0);
    CHECK_INT(poll(&p, 1, -1), ==, 1);
    CHECK_AFTER(start, 20);
    CHECK_INT(p.revents, ==, POLLIN);
    close_ends(e);
    close_ends(u);
    close(event);
    close(timer);
    close(listening);
}

STATEMENTS(poll, duplicates_count_separately_and_negatives_are_zeroed, duplicates_that_have_to_wait_wake_together,
           a_timeout_of_0_never_waits, all_the_bits_asked_for_are_given, urgent_data_is_pollpri,
           what_was_not_asked_for_does_not_wake, the_ends_of_a_stream_are_told, the_ends_of_a_pipe_are_told,
           files_and_plain_devices_are_ready, a_closed_descriptor_is_pollnval, a_timeout_is_never_early,
           any_negative_timeout_is_for_ever, two_idle_descriptors_wake_promptly, a_thousand_that_wait_compute_nothing,
           what_cannot_be_is_refused, ppoll_takes_nanoseconds_and_leaves_them_alone, many_descriptors_are_waited_for,
           every_kind_is_waited_for)
