/*
 * select and pselect: the sets they leave, the time they leave, and what they refuse.
 */
#include "hook/ends.h"

#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/select.h>

static fd_set of(int fd)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    return set;
}

static bool is_empty(const fd_set *set)
{
    fd_set none;
    FD_ZERO(&none);
    return memcmp(set, &none, sizeof none) == 0;
}

static int above(struct ends e)
{
    return (e.a > e.b ? e.a : e.b) + 1;
}

STATEMENT(bits_are_counted_and_the_others_cleared)
{
    struct ends e = tcp_ends(), idle = tcp_ends();
    fd_set in = of(e.a), out = of(e.a), except = of(e.a);
    FD_SET(idle.a, &in);
    CHECK_INT(write(e.b, "x", 1), ==, 1);
    struct pollfd p = {e.a, POLLIN, 0};
    CHECK_INT(poll(&p, 1, 5000), ==, 1);
    CHECK_INT(select(above(idle), &in, &out, &except, NULL), ==, 2);
    CHECK(FD_ISSET(e.a, &in) && !FD_ISSET(idle.a, &in));
    CHECK(FD_ISSET(e.a, &out));
    CHECK(is_empty(&except));
    close_ends(e);
    close_ends(idle);
}

STATEMENT(it_waits_for_reading_and_tells_what_time_is_left)
{
    struct ends e = tcp_ends(), idle = tcp_ends();
    fd_set in = of(e.a), out;
    struct timeval t = {5, 0};
    struct later l = {.fd = e.b, .after = 80};
    struct flow *f = begin(do_later, &l);
    FD_ZERO(&out);
    FD_SET(idle.a, &in);
    CHECK_INT(select(above(idle), &in, &out, NULL, &t), ==, 1);
    CHECK_JUST_AFTER(&l);
    CHECK(FD_ISSET(e.a, &in) && !FD_ISSET(idle.a, &in));
    CHECK_INT(t.tv_sec, ==, 4);
    CHECK(t.tv_usec > 0 && t.tv_usec <= 950000);
    end(f);
    t = (struct timeval){7, 5};
    CHECK_INT(select(above(idle), &in, NULL, NULL, &t), ==, 1); /* at once: next to nothing is gone */
    CHECK(t.tv_sec == 6 || (t.tv_sec == 7 && t.tv_usec <= 5));
    close_ends(e);
    close_ends(idle);
}

STATEMENT(it_times_out_with_nothing_set_and_nothing_left)
{
    struct ends e = tcp_ends();
    fd_set in = of(e.a), except = of(e.b);
    struct timeval t = {0, 40000};
    double start = now_ms();
    CHECK_INT(select(above(e), &in, NULL, &except, &t), ==, 0);
    CHECK_AFTER(start, 40);
    CHECK(is_empty(&in) && is_empty(&except));
    CHECK(t.tv_sec == 0 && t.tv_usec == 0);
    in = of(e.a);
    start = now_ms();
    CHECK_INT(select(above(e), &in, NULL, NULL, &t), ==, 0); /* a time of nothing looks and returns */
    CHECK_AT_ONCE(start);
    CHECK(is_empty(&in));
    close_ends(e);
}

STATEMENT(without_descriptors_it_sleeps)
{
    struct timeval t = {0, 30000};
    struct timespec n = {0, 30000000};
    double start = now_ms();
    CHECK_INT(select(0, NULL, NULL, NULL, &t), ==, 0);
    CHECK_AFTER(start, 30);
    CHECK(t.tv_sec == 0 && t.tv_usec == 0);
    start = now_ms();
    CHECK_INT(pselect(0, NULL, NULL, NULL, &n, NULL), ==, 0);
    CHECK_AFTER(start, 30);
    CHECK(n.tv_sec == 0 && n.tv_nsec == 30000000); /* pselect leaves its time alone */
}

/* The C library carries what is too many for microseconds. */
STATEMENT(microseconds_may_be_more_than_a_second)
{
    struct ends e = tcp_ends();
    fd_set in = of(e.a);
    struct timeval t = {0, 5200000};
    struct later l = {.fd = e.b, .after = 80};
    struct flow *f = begin(do_later, &l);
    CHECK_INT(select(above(e), &in, NULL, NULL, &t), ==, 1);
    CHECK_JUST_AFTER(&l);
    CHECK(t.tv_sec == 5 && t.tv_usec <= 150000);
    end(f);
    close_ends(e);
}

STATEMENT(what_cannot_be_is_refused)
{
    struct ends e = tcp_ends();
    int closed = dup(e.a);
    close(closed);
    fd_set in = of(closed), out = of(e.a);
    CHECK_ERRNO(select(closed + 1, &in, NULL, NULL, NULL), EBADF);
    CHECK(FD_ISSET(closed, &in)); /* left as they are */
    CHECK_ERRNO(select(closed + 1, NULL, &in, NULL, NULL), EBADF);
    CHECK_ERRNO(select(closed + 1, NULL, &out, &in, &(struct timeval){0, 0}), EBADF);
    CHECK(FD_ISSET(e.a, &out));
    CHECK_ERRNO(select(-1, &in, NULL, NULL, NULL), EINVAL);
    CHECK_ERRNO(select(1, NULL, NULL, NULL, &(struct timeval){-1, 0}), EINVAL);
    CHECK_ERRNO(select(1, NULL, NULL, NULL, &(struct timeval){0, -1}), EINVAL);
    CHECK_ERRNO(pselect(1, NULL, NULL, NULL, &(struct timespec){0, 1000000000}, NULL), EINVAL);
    CHECK_ERRNO(pselect(1, NULL, NULL, NULL, &(struct timespec){-1, 0}, NULL), EINVAL);
    close_ends(e);
}

STATEMENT(bits_from_nfds_on_are_not_looked_at)
{
    struct ends e = tcp_ends();
    fd_set in = of(e.a);
    FD_SET(1000, &in); /* nobody has it */
    CHECK_INT(write(e.b, "x", 1), ==, 1);
    CHECK_INT(select(e.a + 1, &in, NULL, NULL, NULL), ==, 1);
    CHECK(FD_ISSET(e.a, &in) && FD_ISSET(1000, &in));
    in = of(e.a);
    CHECK_INT(select(e.a, &in, NULL, NULL, &(struct timeval){0, 1000}), ==, 0);
    close_ends(e);
}

/* More than an fd_set has room for: programs bring arrays of their own. */
STATEMENT(descriptors_above_1024_can_be_selected)
{
    enum { HIGH = 3000, WORDS = 4096 / (8 * sizeof(fd_mask)) };
    static fd_mask in[WORDS], out[WORDS];
    struct rlimit now;
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &now), ==, 0);
    struct rlimit more = {now.rlim_max < 4096 ? now.rlim_max : 4096, now.rlim_max};
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &more), ==, 0);
    struct ends e = tcp_ends(), high = {fcntl(e.a, F_DUPFD_CLOEXEC, HIGH), fcntl(e.b, F_DUPFD_CLOEXEC, HIGH)};
    struct later l = {.fd = e.b, .after = 70};
    CHECK(high.a >= HIGH && high.b >= HIGH);
    memset(in, 0, sizeof in);
    memset(out, 0, sizeof out);
    in[high.a / NFDBITS] |= (fd_mask)1 << high.a % NFDBITS;
    struct flow *f = begin(do_later, &l);
    struct timeval t = {5, 0};
    CHECK_INT(select(high.b + 1, (fd_set *)in, (fd_set *)out, NULL, &t), ==, 1);
    CHECK_JUST_AFTER(&l);
    end(f);
    CHECK_INT(in[high.a / NFDBITS], ==, (fd_mask)1 << high.a % NFDBITS);
    CHECK_INT(out[high.a / NFDBITS], ==, 0);
    out[high.b / NFDBITS] |= (fd_mask)1 << high.b % NFDBITS;
    CHECK_INT(pselect(high.b + 1, (fd_set *)in, (fd_set *)out, NULL, NULL, NULL), ==, 2);
    close_ends(high);
    close_ends(e);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &now), ==, 0);
}

static void send_urgent(int fd)
{
    CHECK_INT(send(fd, "!", 1, MSG_OOB), ==, 1);
}

STATEMENT(urgent_data_is_an_exception)
{
    struct ends e = tcp_ends();
    fd_set in = of(e.b), except = of(e.a);
    struct later l = {.fd = e.b, .after = 70, .what = send_urgent};
    struct flow *f = begin(do_later, &l);
    CHECK_INT(select(above(e), &in, NULL, &except, NULL), ==, 1);
    CHECK_JUST_AFTER(&l);
    CHECK(is_empty(&in) && FD_ISSET(e.a, &except));
    end(f);
    close_ends(e);
}

static void close_it(int fd)
{
    CHECK_INT(close(fd), ==, 0);
}

static void drain(int fd)
{
    char much[65536];
    while (recv(fd, much, sizeof much, MSG_DONTWAIT) > 0)
        ;
}

STATEMENT(the_end_is_readable_and_room_is_writable)
{
    struct ends e = unix_ends(SOCK_STREAM);
    fill(e.a);
    fd_set in = of(e.a), out = of(e.a);
    struct later l = {.fd = e.b, .after = 70, .what = drain};
    struct flow *f = begin(do_later, &l);
    CHECK_INT(select(above(e), &in, &out, NULL, NULL), ==, 1);
    CHECK(is_empty(&in) && FD_ISSET(e.a, &out));
    CHECK_JUST_AFTER(&l);
    end(f);
    in = of(e.a);
    l = (struct later){.fd = e.b, .after = 70, .what = close_it};
    f = begin(do_later, &l);
    CHECK_INT(select(above(e), &in, NULL, NULL, NULL), ==, 1);
    CHECK(FD_ISSET(e.a, &in));
    CHECK_JUST_AFTER(&l);
    end(f);
    close(e.a);
}

STATEMENT(files_are_ready)
{
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), null = open("/dev/null", O_RDWR | O_CLOEXEC);
    fd_set in = of(file), out = of(file), except = of(file);
    FD_SET(null, &in);
    CHECK_INT(select((file > null ? file : null) + 1, &in, &out, &except, NULL), ==, 3);
    CHECK(FD_ISSET(file, &in) && FD_ISSET(null, &in) && FD_ISSET(file, &out) && is_empty(&except));
    close(file);
    close(null);
}

/* A hang-up is readable: who waits for exceptions alone waits on, and does not spin. */
STATEMENT(a_hang_up_is_no_exception)
{
    struct ends e = unix_ends(SOCK_STREAM), p = pipe_ends();
    close(e.b);
    close(p.b);
    fd_set except = of(e.a), out = of(p.a);
    FD_SET(p.a, &except);
    struct timeval t = {0, 200000};
    double start = now_ms(), computed = cpu_ms();
    CHECK_INT(select((e.a > p.a ? e.a : p.a) + 1, NULL, &out, &except, &t), ==, 0);
    CHECK_AFTER(start, 200);
    CHECK(cpu_ms() - computed < 100);
    close(e.a);
    close(p.a);
}

/* As many as there may be, and not as many as the set has bits: the kernel looks at no more than there are. */
STATEMENT(nfds_may_be_more_than_the_set_has)
{
    struct ends e = pipe_ends();
    struct {
        fd_set in;
        char table[(4096 - FD_SETSIZE) / 8]; /* the descriptors that the process has room for may be more */
        char more[1024];
    } given;
    memset(&given, 0, sizeof given);
    memset(given.more, 0x5a, sizeof given.more);
    given.in = of(e.a);
    double start = now_ms();
    CHECK_INT(select(1 << 20, &given.in, NULL, NULL, &(struct timeval){0, 50000}), ==, 0);
    CHECK_AFTER(start, 50);
    CHECK(!FD_ISSET(e.a, &given.in));
    FD_SET(e.a, &given.in);
    CHECK_INT(write(e.b, "x", 1), ==, 1);
    CHECK_INT(select(INT_MAX, &given.in, NULL, NULL, NULL), ==, 1);
    CHECK(FD_ISSET(e.a, &given.in));
    for (size_t i = 0; i < sizeof given.more; i++)
        CHECK_INT(given.more[i], ==, 0x5a);
    close_ends(e);
}

STATEMENTS(select, bits_are_counted_and_the_others_cleared, it_waits_for_reading_and_tells_what_time_is_left,
           it_times_out_with_nothing_set_and_nothing_left, without_descriptors_it_sleeps,
           microseconds_may_be_more_than_a_second, what_cannot_be_is_refused, bits_from_nfds_on_are_not_looked_at,
           nfds_may_be_more_than_the_set_has, descriptors_above_1024_can_be_selected, urgent_data_is_an_exception,
           the_end_is_readable_and_room_is_writable, files_are_ready, a_hang_up_is_no_exception)
