/*
 * Several flows that wait for one descriptor: on one worker, on two, for the same and for different things.
 */
#include "hook/ends.h"

#include <string.h>

struct reader {
    int fd;
    int wanted; /* messages that it takes */
    int *taken; /* how many all have taken; atomic */
    int mine;   /* how many of them are ours */
};

static void take(void *arg)
{
    struct reader *r = arg;
    for (int i = 0; i < r->wanted; i++) {
        char text[16];
        CHECK_INT(recv(r->fd, text, sizeof text, 0), ==, 5);
        CHECK(memcmp(text, "hello", 5) == 0);
        r->mine++;
        __atomic_add_fetch(r->taken, 1, __ATOMIC_RELAXED);
    }
}

static bool comes_to(const int *count, int wanted)
{
    for (int i = 0; i < 2000 && __atomic_load_n(count, __ATOMIC_RELAXED) < wanted; i++)
        usleep(1000);
    return __atomic_load_n(count, __ATOMIC_RELAXED) == wanted;
}

/* Two read one message each from e.a; what is sent wakes one of them. */
static void two_take(struct ends e, struct flow *(*begin_second)(void (*)(void *), void *))
{
    int taken = 0;
    struct reader r = {.fd = e.a, .wanted = 1, .taken = &taken}, s = r;
    struct flow *f = begin(take, &r), *g = begin_second(take, &s);
    usleep(70000);
    CHECK_INT(send(e.b, "hello", 5, 0), ==, 5);
    CHECK(comes_to(&taken, 1));
    usleep(20000);
    CHECK_INT(__atomic_load_n(&taken, __ATOMIC_RELAXED), ==, 1);
    double start = now_ms();
    CHECK_INT(send(e.b, "hello", 5, 0), ==, 5);
    end(f);
    end(g);
    CHECK_AT_ONCE(start);
    CHECK_INT(taken, ==, 2);
    close_ends(e);
}

STATEMENT(a_datagram_wakes_one_of_two_on_one_worker)
{
    two_take(udp_ends(), begin);
    two_take(unix_ends(SOCK_DGRAM), begin);
    two_take(unix_ends(SOCK_SEQPACKET), begin);
}

STATEMENT(a_datagram_wakes_one_of_two_on_two_workers)
{
    two_take(udp_ends(), begin_elsewhere);
    two_take(unix_ends(SOCK_DGRAM), begin_elsewhere);
    two_take(unix_ends(SOCK_SEQPACKET), begin_elsewhere);
}

STATEMENT(a_datagram_wakes_a_flow_or_a_plain_thread)
{
    two_take(udp_ends(), begin_thread);
    two_take(unix_ends(SOCK_STREAM), begin_thread);
}

static struct flow *begin_somewhere(int i, void (*fn)(void *), void *arg)
{
    return i % 3 == 0 ? begin(fn, arg) : i % 3 == 1 ? begin_elsewhere(fn, arg) : begin_thread(fn, arg);
}

/* Who sends waits for room, and nothing is lost on the way. */
STATEMENT(many_share_one_socket_and_all_finish)
{
    enum { READERS = 12, EACH = 100 };
    struct ends e = unix_ends(SOCK_SEQPACKET);
    struct reader readers[READERS];
    struct flow *flows[READERS];
    int taken = 0;
    for (int i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.fd = e.a, .wanted = EACH, .taken = &taken};
        flows[i] = begin_somewhere(i, take, &readers[i]);
    }
    for (int i = 0; i < READERS * EACH; i++)
        CHECK_INT(send(e.b, "hello", 5, 0), ==, 5);
    for (int i = 0; i < READERS; i++) {
        end(flows[i]);
        CHECK_INT(readers[i].mine, ==, EACH);
    }
    CHECK_INT(recv(e.a, &taken, 1, MSG_DONTWAIT), ==, -1);
    close_ends(e);
}

struct accepting {
    int fd;
    int *taken;
};

static void take_connection(void *arg)
{
    struct accepting *a = arg;
    int fd = accept4(a->fd, NULL, NULL, SOCK_CLOEXEC);
    CHECK_INT(fd, >=, 0);
    __atomic_add_fetch(a->taken, 1, __ATOMIC_RELAXED);
    close(fd);
}

STATEMENT(each_connection_wakes_one_of_those_who_accept)
{
    enum { MANY = 6 };
    struct sockaddr_in at;
    struct flow *flows[MANY];
    int taken = 0, fds[MANY];
    struct accepting a = {listener(16, &at), &taken};
    for (int i = 0; i < MANY; i++)
        flows[i] = begin_somewhere(i, take_connection, &a);
    for (int i = 0; i < MANY; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK_INT(connect(fds[i], (struct sockaddr *)&at, sizeof at), ==, 0);
        CHECK(comes_to(&taken, i + 1));
    }
    for (int i = 0; i < MANY; i++) {
        end(flows[i]);
        close(fds[i]);
    }
    close(a.fd);
}

struct side {
    int fd;
    size_t bytes;
    double over; /* when it was through */
};

static void write_much(void *arg)
{
    struct side *s = arg;
    static const char much[65536];
    for (size_t left = s->bytes; left > 0;) {
        ssize_t n = send(s->fd, much, left < sizeof much ? left : sizeof much, 0);
        CHECK_INT(n, >, 0);
        if (n <= 0)
            return;
        left -= (size_t)n;
    }
    s->over = now_ms();
}

static void read_much(void *arg)
{
    struct side *s = arg;
    static char room[65536]; /* nobody looks at it */
    for (size_t left = s->bytes; left > 0;) {
        ssize_t n = recv(s->fd, room, left < sizeof room ? left : sizeof room, 0);
        CHECK_INT(n, >, 0);
        if (n <= 0)
            return;
        left -= (size_t)n;
    }
    s->over = now_ms();
}

/* The writer waits for a reader that does not come yet; who reads the same descriptor goes on. */
static void read_beside_a_writer(struct flow *(*begin_reader)(void (*)(void *), void *))
{
    struct ends e = tcp_ends();
    struct side out = {.fd = e.a, .bytes = 16u << 20}, in = {.fd = e.a, .bytes = 100};
    struct flow *f = begin(write_much, &out), *g = begin_reader(read_much, &in);
    usleep(50000);
    CHECK(out.over == 0);
    double start = now_ms();
    struct side other = {.fd = e.b, .bytes = 100};
    write_much(&other);
    end(g);
    CHECK_AT_ONCE(start);
    CHECK(out.over == 0);
    other.bytes = out.bytes;
    read_much(&other);
    end(f);
    CHECK(out.over != 0);
    close_ends(e);
}

STATEMENT(a_reader_and_a_writer_of_one_descriptor_are_independent)
{
    read_beside_a_writer(begin);
    read_beside_a_writer(begin_elsewhere);
}

struct watcher {
    int fd;
    short events, got;
};

static void watch(void *arg)
{
    struct watcher *w = arg;
    struct pollfd p = {w->fd, w->events, 0};
    CHECK_INT(poll(&p, 1, -1), ==, 1);
    w->got = p.revents;
}

STATEMENT(a_reader_a_writer_and_two_who_poll_share_a_descriptor)
{
    struct ends e = tcp_ends();
    struct side out = {.fd = e.a, .bytes = 16u << 20}, in = {.fd = e.a, .bytes = 1};
    struct watcher w = {.fd = e.a, .events = POLLPRI}, x = {.fd = e.a, .events = POLLIN | POLLOUT};
    struct flow *writing = begin(write_much, &out);
    usleep(50000); /* until there is no room */
    struct flow *f = begin(watch, &w), *g = begin_elsewhere(watch, &x), *reading = begin_elsewhere(read_much, &in);
    usleep(30000);
    CHECK_INT(x.got, ==, 0);
    struct side other = {.fd = e.b, .bytes = out.bytes};
    read_much(&other);
    end(g);
    CHECK_INT(x.got, ==, POLLOUT);
    end(writing);
    CHECK_INT(send(e.b, "x", 1, 0), ==, 1);
    end(reading); /* who reads past what is urgent takes that away: so this comes first */
    CHECK_INT(w.got, ==, 0);
    CHECK_INT(send(e.b, "!", 1, MSG_OOB), ==, 1);
    end(f);
    CHECK_INT(w.got, ==, POLLPRI);
    close_ends(e);
}

static void recv_all(void *arg)
{
    struct side *s = arg;
    char room[64];
    CHECK_INT(recv(s->fd, room, sizeof room, 0), ==, 0);
    s->over = now_ms();
}

STATEMENT(the_end_wakes_all)
{
    enum { MANY = 6 };
    struct ends e = tcp_ends();
    struct side sides[MANY] = {{0}};
    struct flow *flows[MANY];
    for (int i = 0; i < MANY; i++) {
        sides[i].fd = e.a;
        flows[i] = begin_somewhere(i, recv_all, &sides[i]);
    }
    usleep(30000);
    double start = now_ms();
    close(e.b);
    for (int i = 0; i < MANY; i++) {
        end(flows[i]);
        CHECK(sides[i].over >= start);
    }
    CHECK_AT_ONCE(start);
    close(e.a);
}

/* A wait that is over leaves nothing behind: the same descriptor is waited for from here, from there, and from here. */
STATEMENT(a_descriptor_is_waited_for_by_one_after_another)
{
    struct ends e = udp_ends();
    int taken = 0;
    for (int i = 0; i < 60; i++) {
        struct reader r = {.fd = e.a, .wanted = 1, .taken = &taken};
        struct flow *f = begin_somewhere(i % 7, take, &r);
        usleep(i % 4 ? 1000 : 0);
        CHECK_INT(send(e.b, "hello", 5, 0), ==, 5);
        end(f);
    }
    CHECK_INT(taken, ==, 60);
    close_ends(e);
}

STATEMENTS(several, a_datagram_wakes_one_of_two_on_one_worker, a_datagram_wakes_one_of_two_on_two_workers,
           a_datagram_wakes_a_flow_or_a_plain_thread, many_share_one_socket_and_all_finish,
           each_connection_wakes_one_of_those_who_accept, a_reader_and_a_writer_of_one_descriptor_are_independent,
           a_reader_a_writer_and_two_who_poll_share_a_descriptor, the_end_wakes_all,
           a_descriptor_is_waited_for_by_one_after_another)
