/*
 * Dialling a name that means several addresses: some of them refuse, some do not answer.
 */
#include <weft/net.h>

#include "unit/net/ground.h"

/* A port on which nobody listens. */
static int silent_port(void)
{
    struct sockaddr_in at;
    close(listener(&at));
    return ntohs(at.sin_port);
}

/* One that answers nobody, as those who wait to be accepted are too many. */
struct black_hole {
    int listener, inside[8], count, port;
};

static struct black_hole dig(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    struct black_hole b = {.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    CHECK(bind(b.listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(b.listener, 0) == 0);
    CHECK_INT(getsockname(b.listener, (struct sockaddr *)&at, &size), ==, 0);
    b.port = ntohs(at.sin_port);
    for (bool open = true; open && b.count < 8; b.count++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        struct pollfd p = {.fd = b.inside[b.count] = fd, .events = POLLOUT};
        CHECK(connect(fd, (struct sockaddr *)&at, sizeof at) == 0 || errno == EINPROGRESS);
        open = poll(&p, 1, 20) == 1;
    }
    return b;
}

static void fill_up(struct black_hole b)
{
    for (int i = 0; i < b.count; i++)
        close(b.inside[i]);
    close(b.listener);
}

static void *dials(void *arg)
{
    return ptr(weft_dial("many:1", *(weft_time *)arg));
}

/* Its time has come; that may be seen a tick later. */
static void *ends_soon(weft_fiber *f)
{
    AWAIT((clock_forward(10 * WEFT_US), weft_fiber_state(f) == WEFT_FIBER_DONE));
    return ended(f);
}

/* The body of a test; the clock stands still, so that nothing but an answer makes it go on. Nothing stays open. */
static void with_many(weft_fn *body)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        int before = count_descriptors();
        answers.count = 0;
        wf_sys_resolver(many_addresses);
        clock_begin();
        in_a_fiber(workers, body, NULL);
        clock_end();
        wf_sys_resolver(NULL);
        CHECK_INT(count_descriptors(), ==, before);
    }
}

static int peer_port(int fd)
{
    struct sockaddr_storage to = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof to;
    CHECK_INT(getpeername(fd, (struct sockaddr *)&to, &size), ==, 0);
    return ntohs(to.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&to)->sin6_port
                                          : ((struct sockaddr_in *)&to)->sin_port);
}

/* Dials, and checks whom it got. */
static void dial_to(int listener)
{
    int fd = weft_dial("many:1", WEFT_FOREVER);
    CHECK_INT(fd, >=, 0);
    CHECK_INT(peer_port(fd), ==, weft_port(listener));
    CHECK_INT(weft_close(fd), ==, 0);
}

static void *first_refuses(void *arg)
{
    int there = weft_listen("127.0.0.1:0");
    answer("255.255.255.255", 1); /* no stream goes there: connect itself says so */
    answer("127.0.0.1", silent_port());
    answer("127.0.0.2", silent_port());
    answer("127.0.0.1", weft_port(there));
    dial_to(there);
    CHECK_INT(weft_close(there), ==, 0);
    return arg;
}

TEST(a_refused_address_is_followed_by_the_next_at_once)
{
    with_many(first_refuses);
}

static void *first_is_silent(void *arg)
{
    int there = weft_listen("127.0.0.1:0");
    struct black_hole b = dig();
    weft_time forever = WEFT_FOREVER;
    answer("127.0.0.1", b.port);
    answer("127.0.0.1", weft_port(there));
    weft_fiber *f = go(dials, &forever);
    AWAIT(is_parked(f));
    for (int ms = 0; ms < 249; ms += 83) {
        clock_forward(83 * WEFT_MS);
        weft_sleep(0);
        CHECK_INT(weft_accept(there, NULL, NULL, 0, WEFT_NOW), ==, -EAGAIN); /* it is not its turn */
    }
    clock_forward(WEFT_MS);
    int fd = (int)(intptr_t)ends_soon(f);
    CHECK_INT(fd, >=, 0);
    CHECK_INT(peer_port(fd), ==, weft_port(there));
    CHECK_INT(weft_close(fd), ==, 0);
    CHECK_INT(weft_close(there), ==, 0);
    fill_up(b);
    return arg;
}

TEST(a_silent_address_is_followed_by_the_next_after_a_quarter_of_a_second)
{
    with_many(first_is_silent);
}

static void *all_refuse(void *arg)
{
    for (int i = 0; i < 5; i++)
        answer("127.0.0.1", silent_port());
    CHECK_INT(weft_dial("many:1", WEFT_FOREVER), ==, -ECONNREFUSED);
    CHECK_INT(weft_dial("many:1", weft_in(WEFT_SEC)), ==, -ECONNREFUSED);
    return arg;
}

TEST(if_all_refuse_that_is_said)
{
    with_many(all_refuse);
}

static void *all_are_silent(void *arg)
{
    struct black_hole b = dig();
    for (int i = 0; i < 3; i++)
        answer("127.0.0.1", b.port);
    weft_time until = weft_in(WEFT_SEC);
    weft_fiber *f = go(dials, &until), *g = go(dials, &(weft_time){INT64_MAX});
    for (int i = 0; i < 10; i++) {
        AWAIT(is_parked(f) && is_parked(g));
        clock_forward(100 * WEFT_MS - (i == 0));
    }
    AWAIT(is_parked(f)); /* again, if it goes on to the next address: a nanosecond is left */
    clock_forward(1);
    CHECK_PTR(ends_soon(f), ==, ptr(-ETIMEDOUT));
    CHECK_INT(weft_cancel(g), ==, 0);
    CHECK_PTR(ends_soon(g), ==, ptr(-ECANCELED)); /* to close its sockets may take a moment */
    CHECK_INT(weft_dial("127.0.0.1:1", WEFT_NOW), ==, -ECONNREFUSED);
    char to[32];
    snprintf(to, sizeof to, "127.0.0.1:%d", b.port);
    CHECK_INT(weft_dial(to, WEFT_NOW), ==, -EAGAIN);
    fill_up(b);
    return arg;
}

TEST(if_all_are_silent_it_ends_at_the_deadline_or_when_cancelled)
{
    with_many(all_are_silent);
}

/* Of two kinds that the resolver sorts one after the other, the second's first comes second. */
static void *both_kinds(void *arg)
{
    int six = weft_listen("[::1]:0"), four = weft_listen("127.0.0.1:0");
    if (six < 0)
        test_skip("this machine has no IPv6");
    else {
        answer("127.0.0.1", silent_port());
        answer("127.0.0.1", weft_port(four));
        answer("::1", weft_port(six));
        dial_to(six);
        answers.count = 0;
        answer("::1", silent_port());
        answer("127.0.0.1", weft_port(four));
        dial_to(four);
        CHECK_INT(weft_close(six), ==, 0);
    }
    CHECK_INT(weft_close(four), ==, 0);
    return arg;
}

TEST(the_two_kinds_of_addresses_alternate)
{
    with_many(both_kinds);
}

static void *unknown_name(void *arg)
{
    CHECK_INT(weft_dial("no such name:80", WEFT_FOREVER), ==, -ENOENT);
    CHECK_INT(weft_listen("no such name:80"), ==, -ENOENT);
    CHECK_INT(weft_dial("127.0.0.1:no such service", WEFT_FOREVER), ==, -ENOENT);
    return arg;
}

TEST(a_name_that_does_not_exist_is_said)
{
    with_many(unknown_name);
}

/* The dialled listener has room for one connection, and nobody accepts it. */
IN_FIBER(a_dial_waits_for_room_in_a_full_backlog)
{
    char name[64];
    snprintf(name, sizeof name, "unix:@weft-test-dial-%d", getpid());
    int there = weft_listen(name);
    CHECK_INT(listen(there, 0), ==, 0);
    int first = weft_dial(name, WEFT_FOREVER);
    CHECK_INT(first, >=, 0);
    CHECK_INT(weft_dial(name, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_dial(name, weft_in(3 * WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(weft_close(first), ==, 0);
    CHECK_INT(weft_close(there), ==, 0);
    return arg;
}

TESTS(net_dial, a_refused_address_is_followed_by_the_next_at_once,
      a_silent_address_is_followed_by_the_next_after_a_quarter_of_a_second, if_all_refuse_that_is_said,
      if_all_are_silent_it_ends_at_the_deadline_or_when_cancelled, the_two_kinds_of_addresses_alternate,
      a_name_that_does_not_exist_is_said, a_dial_waits_for_room_in_a_full_backlog)
