/*
 * Reading and writing streams: TCP, UNIX sockets and pipes, blocking descriptors and not; deadlines, ends and errors.
 */
#include <sys/uio.h>

#include "base/sys.h"
#include "unit/io/ground.h"

struct writer {
    int fd;
    const char *text;
};

static void *writes_later(void *arg)
{
    const struct writer *w = arg;
    CHECK_INT(weft_sleep(5 * WEFT_MS), ==, 0);
    CHECK_INT(weft_write(w->fd, w->text, strlen(w->text), WEFT_FOREVER), ==, (long)strlen(w->text));
    return NULL;
}

IN_FIBER(a_read_waits_for_bytes)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct pair p = make_pair(kind);
        struct writer w = {p.b, "hello"};
        char buffer[64] = "";
        int flags = fcntl(p.a, F_GETFL);
        for (int round = 0; round < 3; round++) {
            weft_fiber *f = go(writes_later, &w);
            CHECK_INT(weft_read(p.a, buffer, sizeof buffer, WEFT_FOREVER), ==, 5);
            CHECK(memcmp(buffer, "hello", 5) == 0);
            ended(f);
        }
        CHECK_INT(fcntl(p.a, F_GETFL), ==, flags);
        CHECK_INT(weft_close(p.b), ==, 0);
        CHECK_INT(weft_read(p.a, buffer, sizeof buffer, WEFT_FOREVER), ==, 0);
        CHECK_INT(weft_read(p.a, buffer, sizeof buffer, WEFT_FOREVER), ==, 0);
        CHECK_INT(weft_close(p.a), ==, 0);
    }
    return arg;
}

enum { MUCH = 1 << 20 };

static unsigned char nth_byte(size_t i)
{
    return (unsigned char)(i * 31 + (i >> 8) * 7 + (i >> 16));
}

static void *writes_much(void *arg)
{
    int fd = *(int *)arg;
    unsigned char *all = malloc(MUCH);
    size_t done = 0;
    if (!all)
        return NULL;
    for (size_t i = 0; i < MUCH; i++)
        all[i] = nth_byte(i);
    CHECK_INT(weft_write_all(fd, all, MUCH, &done, WEFT_FOREVER), ==, MUCH);
    CHECK_INT(done, ==, MUCH);
    free(all);
    CHECK_INT(weft_close(fd), ==, 0);
    return NULL;
}

/* Whether so many bytes, the first of them the at-th, are as they should be. */
static bool are_right(const unsigned char *bytes, size_t count, size_t at)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != nth_byte(at + i))
            return false;
    }
    return true;
}

IN_FIBER(a_megabyte_comes_through_in_order)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct pair p = make_pair(kind);
        weft_fiber *f = go(writes_much, &p.b);
        size_t at = 0;
        ptrdiff_t n;
        unsigned char buffer[3000];
        while ((n = weft_read(p.a, buffer, sizeof buffer - at % 7, WEFT_FOREVER)) > 0) {
            CHECK(are_right(buffer, (size_t)n, at));
            at += (size_t)n;
        }
        CHECK_INT(n, ==, 0);
        CHECK_INT(at, ==, MUCH);
        ended(f);
        CHECK_INT(weft_close(p.a), ==, 0);
    }
    return arg;
}

IN_FIBER(a_read_ends_at_its_deadline_and_never_early)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct pair p = make_pair(kind);
        char buffer[16];
        for (int round = 0; round < 3; round++) {
            weft_time until = weft_in(3 * WEFT_MS);
            CHECK_INT(weft_read(p.a, buffer, sizeof buffer, until), ==, -ETIMEDOUT);
            CHECK_INT(weft_now().ns, >=, until.ns);
        }
        CHECK_INT(weft_read(p.a, buffer, sizeof buffer, WEFT_NOW), ==, -EAGAIN);
        CHECK_INT(weft_read(p.a, buffer, sizeof buffer, weft_in(-WEFT_SEC)), ==, -ETIMEDOUT);
        CHECK_INT(weft_write(p.b, "late", 4, WEFT_NOW), ==, 4);
        CHECK_INT(poll(&(struct pollfd){.fd = p.a, .events = POLLIN}, 1, 10000), ==, 1); /* it has come through */
        CHECK_INT(weft_read(p.a, buffer, sizeof buffer, weft_in(-WEFT_SEC)), ==, 4);
        CHECK_INT(weft_write(p.b, "now", 3, weft_in(-WEFT_SEC)), ==, 3);
        CHECK_INT(poll(&(struct pollfd){.fd = p.a, .events = POLLIN}, 1, 10000), ==, 1);
        CHECK_INT(weft_read(p.a, buffer, sizeof buffer, WEFT_NOW), ==, 3);
        close_pair(p);
    }
    return arg;
}

IN_FIBER(a_write_that_finds_no_room_ends_at_its_deadline)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct pair p = make_pair(kind);
        static char much[MUCH];
        size_t done = 0;
        weft_time until = weft_in(50 * WEFT_MS);
        ptrdiff_t n;
        do
            n = weft_write_all(p.b, much, sizeof much, &done, until);
        while (n > 0);
        CHECK_INT(n, ==, -ETIMEDOUT);
        CHECK_INT(weft_now().ns, >=, until.ns);
        CHECK_INT(done, <, sizeof much);
        close_pair(p);
    }
    return arg;
}

static void *reads_one(void *arg)
{
    char byte;
    return ptr(weft_read(*(int *)arg, &byte, 1, WEFT_FOREVER));
}

/* Several fibers on one descriptor: each byte is somebody's. */
IN_FIBER(many_may_read_one_descriptor)
{
    enum { READERS = 16 };
    for (int kind = 0; kind < KINDS; kind++) {
        struct pair p = make_pair(kind);
        weft_fiber *f[READERS];
        for (int i = 0; i < READERS; i++)
            f[i] = go(reads_one, &p.a);
        weft_sleep(WEFT_MS);
        for (int i = 0; i < READERS; i++)
            CHECK_INT(weft_write(p.b, "x", 1, WEFT_FOREVER), ==, 1);
        for (int i = 0; i < READERS; i++)
            CHECK_PTR(ended(f[i]), ==, ptr(1));
        close_pair(p);
    }
    return arg;
}

IN_FIBER(close_tells_all_who_wait)
{
    enum { READERS = 8 };
    for (int kind = 0; kind < KINDS; kind++) {
        struct pair p = make_pair(kind);
        weft_fiber *f[READERS];
        for (int i = 0; i < READERS; i++)
            f[i] = go(reads_one, &p.a);
        for (int i = 0; i < READERS; i++)
            AWAIT(is_parked(f[i]));
        CHECK_INT(weft_close(p.a), ==, 0);
        struct pair next = make_pair(kind); /* has the number, and bytes that are none of theirs */
        CHECK_INT(write(next.b, "yyyyyyyy", 8), ==, 8);
        for (int i = 0; i < READERS; i++)
            CHECK_PTR(ended(f[i]), ==, ptr(-EBADF));
        char buffer[16];
        CHECK_INT(weft_read_full(next.a, buffer, 8, NULL, WEFT_FOREVER), ==, 8);
        close_pair(next);
        CHECK_INT(weft_close(p.b), ==, 0);
    }
    return arg;
}

/* The number is reused behind the library's back, and what is known about it is wrong. */
static void *reuses_numbers(void *arg)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct pair p = make_pair(kind);
        char buffer[64];
        CHECK_INT(weft_write(p.b, "one", 3, WEFT_FOREVER), ==, 3);
        CHECK_INT(weft_read(p.a, buffer, sizeof buffer, WEFT_FOREVER), ==, 3);
        CHECK_INT(weft_read(p.a, buffer, sizeof buffer, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
        int old = p.a;
        close(p.a);
        close(p.b);
        for (int other = 0; other < KINDS; other++) {
            struct pair next = make_pair(other);
            if (next.b == old)
                next.b = dup(old);
            if (next.a != old) {
                CHECK_INT(dup2(next.a, old), ==, old);
                close(next.a);
                next.a = old;
            }
            struct writer w = {next.b, "two"};
            weft_fiber *f = go(writes_later, &w);
            CHECK_INT(weft_read(next.a, buffer, sizeof buffer, weft_in(10 * WEFT_SEC)), ==, 3);
            ended(f);
            close(next.a);
            close(next.b);
        }
    }
    return arg;
}

TEST(a_number_that_was_closed_elsewhere_and_reused_does_not_hang)
{
    in_a_fiber(1, reuses_numbers, NULL);
    in_a_fiber(2, reuses_numbers, NULL);
    wf_sys_fail(1u << WF_SYS_TIMERFD_MONOTONIC, 1, 1000); /* the set gets no timer */
    in_a_fiber(1, reuses_numbers, NULL);
    wf_sys_fail(0, 0, 0);
}

IN_FIBER(a_fiber_that_waits_is_cancelled)
{
    struct pair p = tcp_pair();
    weft_fiber *f = go(reads_one, &p.a);
    AWAIT(is_parked(f));
    CHECK(strcmp(weft_fiber_waits_for(f, NULL), "read") == 0);
    CHECK_INT(weft_cancel(f), ==, 0);
    CHECK_PTR(ended(f), ==, ptr(-ECANCELED));
    CHECK_INT(weft_write(p.b, "x", 1, WEFT_FOREVER), ==, 1);
    CHECK_PTR(reads_one(&p.a), ==, ptr(1)); /* no byte was lost */
    close_pair(p);
    return arg;
}

IN_FIBER(the_last_bytes_and_the_end_may_come_together)
{
    for (int round = 0; round < 50; round++) {
        struct pair p = tcp_pair();
        char buffer[256];
        CHECK_INT(weft_write(p.b, "begin", 5, WEFT_FOREVER), ==, 5);
        CHECK_INT(weft_read(p.a, buffer, sizeof buffer, WEFT_FOREVER), ==, 5);
        CHECK_INT(weft_write(p.b, "end", 3, WEFT_FOREVER), ==, 3);
        CHECK_INT(weft_close(p.b), ==, 0);
        CHECK_INT(weft_read(p.a, buffer, sizeof buffer, WEFT_FOREVER), ==, 3);
        CHECK_INT(weft_read(p.a, buffer, sizeof buffer, weft_in(10 * WEFT_SEC)), ==, 0);
        CHECK_INT(weft_close(p.a), ==, 0);
    }
    return arg;
}

IN_FIBER(one_half_may_be_closed)
{
    struct pair p = tcp_pair();
    char buffer[16];
    CHECK_INT(weft_shutdown(p.b, SHUT_WR), ==, 0);
    CHECK_INT(weft_read(p.a, buffer, sizeof buffer, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_write(p.a, "still", 5, WEFT_FOREVER), ==, 5);
    CHECK_INT(weft_read(p.b, buffer, sizeof buffer, WEFT_FOREVER), ==, 5);
    close_pair(p);
    return arg;
}

static void *resets_later(void *arg)
{
    struct linger now = {.l_onoff = 1};
    weft_sleep(5 * WEFT_MS);
    CHECK_INT(setsockopt(*(int *)arg, SOL_SOCKET, SO_LINGER, &now, sizeof now), ==, 0);
    CHECK_INT(weft_close(*(int *)arg), ==, 0);
    return NULL;
}

IN_FIBER(a_reset_is_told)
{
    struct pair p = tcp_pair();
    char buffer[16];
    weft_fiber *f = go(resets_later, &p.b);
    CHECK_INT(weft_read(p.a, buffer, sizeof buffer, WEFT_FOREVER), ==, -ECONNRESET);
    CHECK_INT(weft_write(p.a, "x", 1, WEFT_FOREVER), ==, -EPIPE);
    ended(f);
    CHECK_INT(weft_close(p.a), ==, 0);
    return arg;
}

IN_FIBER(vectors_are_filled_in_order)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct pair p = make_pair(kind);
        char one[3], two[8];
        struct iovec out[] = {{"abc", 3}, {"", 0}, {"defg", 4}}, in[] = {{one, sizeof one}, {two, sizeof two}};
        CHECK_INT(weft_writev(p.b, out, 3, WEFT_FOREVER), ==, 7);
        CHECK_INT(weft_readv(p.a, in, 2, WEFT_FOREVER), ==, 7);
        CHECK(memcmp(one, "abc", 3) == 0 && memcmp(two, "defg", 4) == 0);
        CHECK_INT(weft_readv(p.a, in, 2, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
        CHECK_INT(weft_readv(p.a, in, -1, WEFT_NOW), ==, -EINVAL);
        CHECK_INT(weft_readv(p.a, in, 0, WEFT_NOW), ==, 0);
        close_pair(p);
    }
    return arg;
}

IN_FIBER(read_full_says_how_much_there_was)
{
    struct pair p = tcp_pair();
    char buffer[16];
    size_t done = 99;
    CHECK_INT(weft_write(p.b, "abc", 3, WEFT_FOREVER), ==, 3);
    CHECK_INT(weft_read_full(p.a, buffer, 8, &done, weft_in(50 * WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(done, ==, 3);
    CHECK_INT(weft_write(p.b, "defg", 4, WEFT_FOREVER), ==, 4);
    CHECK_INT(weft_close(p.b), ==, 0);
    CHECK_INT(weft_read_full(p.a, buffer, 8, &done, WEFT_FOREVER), ==, 4);
    CHECK_INT(done, ==, 4);
    CHECK_INT(weft_close(p.a), ==, 0);
    return arg;
}

IN_FIBER(errors_are_returned_and_errno_is_left_alone)
{
    char buffer[4] = "";
    errno = 12345;
    CHECK_INT(weft_read(-1, buffer, 4, WEFT_FOREVER), ==, -EBADF);
    CHECK_INT(weft_read(9999, buffer, 4, WEFT_FOREVER), ==, -EBADF);
    CHECK_INT(weft_write(9999, buffer, 4, WEFT_FOREVER), ==, -EBADF);
    CHECK_INT(weft_close(9999), ==, -EBADF);
    CHECK_INT(weft_close(-1), ==, -EBADF);
    struct pair p = pipe_pair(0);
    CHECK_INT(weft_read(p.b, buffer, 4, WEFT_FOREVER), ==, -EBADF); /* the end to write to */
    CHECK_INT(weft_recv(p.a, buffer, 4, 0, WEFT_FOREVER), ==, -ENOTSOCK);
    CHECK_INT(weft_read(p.a, buffer, 0, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_read(p.a, buffer, 4, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(weft_read(p.a, buffer, 4, WEFT_NOW), ==, -EAGAIN);
    close_pair(p);
    CHECK_INT(errno, ==, 12345);
    return arg;
}

/* On a shared stack: the buffer is elsewhere while others run. */
static void *echoes_with_a_buffer_of_its_own(void *arg)
{
    int fd = *(int *)arg;
    for (unsigned char round = 0; round < 20; round++) {
        unsigned char buffer[200];
        memset(buffer, 0xee, sizeof buffer);
        CHECK_INT(weft_read_full(fd, buffer, 100, NULL, WEFT_FOREVER), ==, 100);
        for (int i = 0; i < 100; i++)
            CHECK_INT(buffer[i], ==, (unsigned char)(round + i));
        CHECK_INT(buffer[100], ==, 0xee);
        weft_yield();
        CHECK_INT(weft_write_all(fd, buffer, 100, NULL, WEFT_FOREVER), ==, 100);
    }
    return NULL;
}

IN_FIBER(fibers_on_a_shared_stack_read_and_write)
{
    enum { FIBERS = 5 };
    weft_stacks *pool = NULL;
    struct pair p[FIBERS];
    weft_fiber *f[FIBERS] = {NULL};
    CHECK_INT(weft_stacks_new(&pool, 1, 0), ==, 0);
    for (int i = 0; i < FIBERS; i++) {
        p[i] = i % 2 ? unix_pair(SOCK_STREAM) : tcp_pair();
        CHECK_INT(weft_go_with(&f[i], &(weft_attr){.shared = pool}, echoes_with_a_buffer_of_its_own, &p[i].a), ==, 0);
    }
    for (unsigned char round = 0; round < 20; round++) {
        unsigned char out[100], in[100];
        for (int i = 0; i < 100; i++)
            out[i] = (unsigned char)(round + i);
        for (int i = 0; i < FIBERS; i++)
            CHECK_INT(weft_write_all(p[i].b, out, 100, NULL, WEFT_FOREVER), ==, 100);
        for (int i = 0; i < FIBERS; i++) {
            CHECK_INT(weft_read_full(p[i].b, in, 100, NULL, WEFT_FOREVER), ==, 100);
            CHECK(memcmp(in, out, 100) == 0);
        }
    }
    for (int i = 0; i < FIBERS; i++) {
        ended(f[i]);
        close_pair(p[i]);
    }
    CHECK_INT(weft_stacks_free(pool), ==, 0);
    return arg;
}

struct reader {
    int fd, step;
};

static void *plain_thread(void *arg)
{
    struct reader *r = arg;
    char buffer[8];
    CHECK_INT(weft_read(r->fd, buffer, sizeof buffer, weft_in(3 * WEFT_MS)), ==, -ETIMEDOUT);
    put(&r->step, 1);
    CHECK_INT(weft_read(r->fd, buffer, sizeof buffer, WEFT_FOREVER), ==, 2);
    put(&r->step, 2);
    CHECK_INT(weft_read(r->fd, buffer, sizeof buffer, WEFT_FOREVER), ==, -EBADF);
    return NULL;
}

/* A thread without fibers may do all of it, and is told of a close as well. */
TEST(plain_threads_wait_too)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct pair p = make_pair(kind);
        struct reader r = {.fd = p.a};
        pthread_t t = new_thread(plain_thread, &r);
        AWAIT(seen(&r.step) == 1);
        CHECK_INT(weft_write(p.b, "ab", 2, WEFT_FOREVER), ==, 2);
        AWAIT(seen(&r.step) == 2);
        usleep(5000); /* it waits again, or finds it closed */
        CHECK_INT(weft_close(p.a), ==, 0);
        pthread_join(t, NULL);
        CHECK_INT(weft_close(p.b), ==, 0);
    }
}

TESTS(io_stream, a_read_waits_for_bytes, a_megabyte_comes_through_in_order, a_read_ends_at_its_deadline_and_never_early,
      a_write_that_finds_no_room_ends_at_its_deadline, many_may_read_one_descriptor, close_tells_all_who_wait,
      a_number_that_was_closed_elsewhere_and_reused_does_not_hang, a_fiber_that_waits_is_cancelled,
      the_last_bytes_and_the_end_may_come_together, one_half_may_be_closed, a_reset_is_told,
      vectors_are_filled_in_order, read_full_says_how_much_there_was, errors_are_returned_and_errno_is_left_alone,
      fibers_on_a_shared_stack_read_and_write, plain_threads_wait_too)
