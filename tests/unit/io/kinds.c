/*
 * Kinds of descriptors on which a short read does not say that there is no more: terminals, counters, timers, signals,
 * inotify, datagrams, packets. What is left there is read at once, and what comes later is waited for.
 */
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <termios.h>

#include "base/sanitizer.h"
#include "unit/io/ground.h"

/*
 * A kind: how to make one (a is read, b is what `put_two` uses), how two units come at once, and how long each is to a read
 * with room for `room` bytes.
 */
struct kind {
    const char *name;
    struct pair (*make)(int flags);
    void (*put_two)(struct pair p);
    ptrdiff_t first, second;
    size_t room;
};

static void set_flags(int fd, int flags)
{
    if (flags)
        CHECK_INT(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | flags), ==, 0);
}

/* ---- terminals ---- */

static struct pair new_terminal(int flags)
{
    struct pair p = {.b = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)};
    char name[64] = "";
    CHECK(p.b >= 0 && grantpt(p.b) == 0 && unlockpt(p.b) == 0);
    CHECK_INT(ptsname_r(p.b, name, sizeof name), ==, 0);
    p.a = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC | flags);
    CHECK(p.a >= 0);
    return p;
}

static void put_two_lines(struct pair p)
{
    CHECK_INT(write(p.b, "ab\ncde\n", 7), ==, 7);
}

/* The other side of one, which echoes nothing and changes nothing. */
static struct pair new_raw_master(int flags)
{
    struct pair t = new_terminal(0);
    struct termios raw;
    CHECK_INT(tcgetattr(t.a, &raw), ==, 0);
    cfmakeraw(&raw);
    CHECK_INT(tcsetattr(t.a, TCSANOW, &raw), ==, 0);
    set_flags(t.b, flags);
    return (struct pair){t.b, t.a};
}

/* ---- counters and timers ---- */

static struct pair new_counter(int flags)
{
    struct pair p = {.a = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC | (flags ? EFD_NONBLOCK : 0))};
    p.b = dup(p.a);
    return p;
}

static void count_two(struct pair p)
{
    CHECK_INT(eventfd_write(p.b, 2), ==, 0);
}

/* ---- signals ---- */

static sigset_t two_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    return set;
}

static struct pair new_signals(int flags)
{
    sigset_t set = two_signals();
    struct pair p = {.a = signalfd(-1, &set, SFD_CLOEXEC | (flags ? SFD_NONBLOCK : 0))};
    p.b = dup(p.a);
    return p;
}

static void send_two(struct pair p)
{
    (void)p;
    CHECK_INT(kill(getpid(), SIGUSR1), ==, 0);
    CHECK_INT(kill(getpid(), SIGUSR2), ==, 0);
}

/* ---- files that change ---- */

static char folder[] = "/tmp/weft-kinds-XXXXXX";

static struct pair new_inotify(int flags)
{
    struct pair p = {.a = inotify_init1(IN_CLOEXEC | (flags ? IN_NONBLOCK : 0))};
    CHECK_INT(inotify_add_watch(p.a, folder, IN_CREATE), >, 0);
    p.b = dup(p.a);
    return p;
}

static void make_two_files(struct pair p)
{
    (void)p;
    for (int i = 0; i < 2; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/file%d", folder, i);
        int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
        CHECK(fd >= 0);
        close(fd);
        CHECK_INT(unlink(path), ==, 0);
    }
}

/* ---- datagrams and packets ---- */

static struct pair new_udp(int flags)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    struct pair p = {socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    CHECK_INT(bind(p.a, (struct sockaddr *)&at, sizeof at), ==, 0);
    CHECK_INT(getsockname(p.a, (struct sockaddr *)&at, &size), ==, 0);
    CHECK_INT(connect(p.b, (struct sockaddr *)&at, sizeof at), ==, 0);
    set_flags(p.a, flags);
    return p;
}

static struct pair new_unix_datagrams(int flags)
{
    struct pair p = unix_pair(SOCK_DGRAM);
    set_flags(p.a, flags);
    return p;
}

static struct pair new_packets(int flags)
{
    struct pair p = unix_pair(SOCK_SEQPACKET);
    set_flags(p.a, flags);
    return p;
}

static struct pair new_packet_pipe(int flags)
{
    struct pair p = pipe_pair(O_DIRECT);
    set_flags(p.a, flags);
    return p;
}

static void send_three_and_two(struct pair p)
{
    CHECK_INT(write(p.b, "abc", 3), ==, 3);
    CHECK_INT(write(p.b, "de", 2), ==, 2);
}

static void send_none_and_two(struct pair p)
{
    CHECK_INT(send(p.b, "", 0, 0), ==, 0);
    CHECK_INT(send(p.b, "de", 2, 0), ==, 2);
}

/* ---- all of them ---- */

static const struct kind kinds[] = {
    {"terminal", new_terminal, put_two_lines, 3, 4, 64},
    {"counter", new_counter, count_two, 8, 8, 64},
    {"signals", new_signals, send_two, sizeof(struct signalfd_siginfo), sizeof(struct signalfd_siginfo), 200},
    {"inotify", new_inotify, make_two_files, 32, 32, 40},
    {"udp", new_udp, send_three_and_two, 3, 2, 64},
    {"udp, none", new_udp, send_none_and_two, 0, 2, 64},
    {"unix datagrams", new_unix_datagrams, send_three_and_two, 3, 2, 64},
    {"unix datagrams, none", new_unix_datagrams, send_none_and_two, 0, 2, 64},
    {"packets", new_packets, send_three_and_two, 3, 2, 64},
    {"packet pipe", new_packet_pipe, send_three_and_two, 3, 2, 64},
};

enum { ALL_KINDS = sizeof kinds / sizeof kinds[0] };

/*
 * A wait that is about nothing is verified after 50 ms, and found out. So it is not enough that what is left is read in the
 * end: of several rounds one at least is to be quicker than that, however busy the machine.
 */
#define QUICK (25 * WEFT_MS)

struct reading {
    const struct kind *kind;
    int fd;
    int parked_for;    /* atomic: the round that it waits for */
    weft_span fastest; /* of the second reads */
};

enum { ROUNDS = 4 };

/* A fiber's: reads two units each round, and nothing else. */
static void *reads_two_a_round(void *arg)
{
    struct reading *r = arg;
    char buffer[256];
    for (int round = 1; round <= ROUNDS; round++) {
        put(&r->parked_for, round);
        ptrdiff_t first = weft_read(r->fd, buffer, r->kind->room, weft_in(20 * WEFT_SEC));
        int64_t begin = real_now();
        ptrdiff_t second = weft_read(r->fd, buffer, r->kind->room, weft_in(20 * WEFT_SEC));
        weft_span took = real_now() - begin;
        r->fastest = took < r->fastest ? took : r->fastest;
        if (first != r->kind->first || second != r->kind->second)
            test_failed(__FILE__, __LINE__, "%s, round %d: read %td and %td", r->kind->name, round, first, second);
    }
    CHECK_INT(weft_read(r->fd, buffer, r->kind->room, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    return NULL;
}

static void *reads_all_kinds(void *arg)
{
    for (int i = 0; i < 2 * ALL_KINDS; i++) {
        const struct kind *k = &kinds[i / 2];
        struct pair p = k->make(i % 2 ? O_NONBLOCK : 0);
        struct reading r = {.kind = k, .fd = p.a, .fastest = INT64_MAX};
        weft_fiber *f = go(reads_two_a_round, &r);
        for (int round = 1; round <= ROUNDS; round++) {
            AWAIT(seen(&r.parked_for) == round && is_parked(f));
            k->put_two(p);
        }
        ended(f);
        if (r.fastest > QUICK)
            test_failed(__FILE__, __LINE__, "%s: what was left was read %lld ns later", k->name, (long long)r.fastest);
        close_pair(p);
    }
    return arg;
}

TEST(what_a_short_read_leaves_is_read_at_once)
{
    sigset_t set = two_signals(), kept;
    CHECK_INT(pthread_sigmask(SIG_BLOCK, &set, &kept), ==, 0);
    REQUIRE(mkdtemp(folder));
    in_a_fiber(1, reads_all_kinds, NULL);
    in_a_fiber(2, reads_all_kinds, NULL);
    CHECK_INT(rmdir(folder), ==, 0);
    CHECK_INT(pthread_sigmask(SIG_SETMASK, &kept, NULL), ==, 0);
}

IN_FIBER(what_comes_from_a_terminal_is_read_on_its_other_side)
{
    for (int i = 0; i < 2; i++) {
        struct pair p = new_raw_master(i ? O_NONBLOCK : 0);
        char buffer[64];
        for (int round = 0; round < 3; round++) {
            CHECK_INT(weft_read(p.a, buffer, sizeof buffer, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
            CHECK_INT(weft_write(p.b, "hello", 5, WEFT_FOREVER), ==, 5);
            CHECK_INT(weft_read_full(p.a, buffer, 5, NULL, weft_in(20 * WEFT_SEC)), ==, 5);
        }
        CHECK_INT(weft_close(p.b), ==, 0);
        CHECK_INT(weft_read(p.a, buffer, sizeof buffer, weft_in(20 * WEFT_SEC)), ==, -EIO); /* nobody is there */
        CHECK_INT(weft_close(p.a), ==, 0);
    }
    return arg;
}

/* It counts what has passed: each read takes all, and the next waits for the next time. */
IN_FIBER(a_timer_descriptor_is_read_time_after_time)
{
    for (int i = 0; i < 2; i++) {
        int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | (i ? TFD_NONBLOCK : 0));
        struct itimerspec each = {.it_value.tv_nsec = 1000000, .it_interval.tv_nsec = 1000000};
        uint64_t times[4], sum = 0;
        int64_t begin = real_now(); /* before the timer's first period begins */
        CHECK_INT(timerfd_settime(fd, 0, &each, NULL), ==, 0);
        for (int round = 0; round < 5; round++) {
            CHECK_INT(weft_read(fd, times, sizeof times, weft_in(20 * WEFT_SEC)), ==, 8);
            sum += times[0];
            CHECK_INT(sum, <=, (real_now() - begin) / 1000000 + 1);
        }
        CHECK_INT(sum, >=, 5);
        CHECK_INT(weft_close(fd), ==, 0);
    }
    return arg;
}

static void *reads_what_is_there(void *arg)
{
    char buffer[8];
    return ptr(weft_read(*(int *)arg, buffer, sizeof buffer, weft_in(20 * WEFT_SEC)));
}

/* Fewer bytes than such a socket wants are nothing to it. */
IN_FIBER(a_socket_that_waits_for_more_bytes_does_not_hang)
{
    for (int i = 0; i < 3; i++) {
        struct pair p = tcp_pair();
        int low = 4;
        CHECK_INT(setsockopt(p.a, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low), ==, 0);
        for (int round = 0; round < 3; round++) {
            weft_fiber *f = go(reads_what_is_there, &p.a);
            AWAIT(is_parked(f));
            weft_sleep(WEFT_MS); /* its worker has told the kernel */
            CHECK_INT(write(p.b, "abc", 3), ==, 3);
            weft_sleep(WEFT_MS);
            CHECK_INT(write(p.b, "d", 1), ==, 1);
            CHECK_PTR(ended(f), ==, ptr(4));
        }
        close_pair(p);
    }
    return arg;
}

IN_FIBER(devices_that_are_always_ready_are_read)
{
    char buffer[16];
    int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC), null = open("/dev/null", O_RDWR | O_CLOEXEC);
    memset(buffer, 1, sizeof buffer);
    CHECK_INT(weft_read(zero, buffer, sizeof buffer, WEFT_FOREVER), ==, sizeof buffer);
    CHECK_INT(buffer[15], ==, 0);
    CHECK_INT(weft_read(null, buffer, sizeof buffer, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_write(null, buffer, sizeof buffer, WEFT_FOREVER), ==, sizeof buffer);
    CHECK_INT(weft_close(zero), ==, 0);
    CHECK_INT(weft_close(null), ==, 0);
    return arg;
}

struct ending {
    int fd;
    int waits;      /* atomic */
    weft_span took; /* to the end */
};

static void *reads_to_the_end(void *arg)
{
    struct ending *e = arg;
    char buffer[64];
    ptrdiff_t n = weft_read(e->fd, buffer, sizeof buffer, weft_in(WEFT_MS)); /* it is registered from now on */
    CHECK_INT(n, ==, -ETIMEDOUT);
    put(&e->waits, 1);
    CHECK_INT(weft_read(e->fd, buffer, sizeof buffer, weft_in(20 * WEFT_SEC)), ==, 3);
    int64_t begin = real_now();
    CHECK_INT(weft_read(e->fd, buffer, sizeof buffer, weft_in(20 * WEFT_SEC)), ==, 0);
    e->took = real_now() - begin;
    CHECK_INT(weft_read(e->fd, buffer, sizeof buffer, weft_in(20 * WEFT_SEC)), ==, 0);
    return NULL;
}

/* One event tells of both: the read that takes the bytes is short, and there is still the end to be read. */
IN_FIBER(the_last_bytes_and_the_end_come_to_one_who_waits)
{
    weft_span fastest[KINDS];
    for (int kind = 0; kind < KINDS; kind++)
        fastest[kind] = INT64_MAX;
    for (int round = 0; round < 40; round++) {
        struct pair p = make_pair(round % KINDS);
        struct ending e = {.fd = p.a};
        weft_fiber *f = go(reads_to_the_end, &e);
        AWAIT(seen(&e.waits) && is_parked(f));
        CHECK_INT(write(p.b, "end", 3), ==, 3);
        if (round % 4 == 0 && round % KINDS < 4)
            CHECK_INT(shutdown(p.b, SHUT_WR), ==, 0);
        else
            close(p.b);
        ended(f);
        if (round % 4 == 0 && round % KINDS < 4)
            close(p.b);
        CHECK_INT(weft_close(p.a), ==, 0);
        if (e.took < fastest[round % KINDS])
            fastest[round % KINDS] = e.took;
    }
    for (int kind = 0; kind < KINDS; kind++)
        CHECK_INT(fastest[kind], <, QUICK);
    return arg;
}

TESTS(io_kinds, what_a_short_read_leaves_is_read_at_once, what_comes_from_a_terminal_is_read_on_its_other_side,
      a_timer_descriptor_is_read_time_after_time, a_socket_that_waits_for_more_bytes_does_not_hang,
      devices_that_are_always_ready_are_read, the_last_bytes_and_the_end_come_to_one_who_waits)
