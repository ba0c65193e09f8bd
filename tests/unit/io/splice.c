/*
 * Splicing: pipes to and from sockets and files, without the bytes coming here.
 */
#include "unit/io/ground.h"

enum { BIG = 500009 };

static char byte_at(size_t place)
{
    return (char)(place * 11 + place / 253);
}

struct end {
    int fd;
    size_t bytes;
};

static void *writes(void *arg)
{
    struct end *e = arg;
    char *bytes = malloc(e->bytes);
    for (size_t i = 0; i < e->bytes; i++)
        bytes[i] = byte_at(i);
    CHECK_INT(weft_write_all(e->fd, bytes, e->bytes, NULL, weft_in(60 * WEFT_SEC)), ==, e->bytes);
    free(bytes);
    return NULL;
}

static void *reads(void *arg)
{
    struct end *e = arg;
    char *bytes = malloc(e->bytes);
    CHECK_INT(weft_read_full(e->fd, bytes, e->bytes, NULL, weft_in(60 * WEFT_SEC)), ==, e->bytes);
    for (size_t i = 0; i < e->bytes && !test_has_failed(); i++)
        CHECK_INT(bytes[i], ==, byte_at(i));
    free(bytes);
    return NULL;
}

static size_t splice_all(int from, int to, size_t bytes)
{
    size_t moved = 0;
    while (moved < bytes && !test_has_failed()) {
        ptrdiff_t n = weft_splice(from, NULL, to, NULL, bytes - moved, 0, weft_in(60 * WEFT_SEC));
        CHECK_INT(n, >, 0);
        moved += n > 0 ? (size_t)n : 0;
    }
    return moved;
}

/* From any kind through a pipe into any kind. */
IN_FIBER(bytes_go_through_a_pipe_in_order)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct pair in = make_pair(kind), out = make_pair(kind), middle = pipe_pair(kind % 2 ? O_NONBLOCK : 0);
        struct end writer = {in.b, BIG}, reader = {out.a, BIG};
        weft_fiber *w = go(writes, &writer), *r = go(reads, &reader);
        for (size_t moved = 0; moved < BIG && !test_has_failed();) {
            size_t piece = BIG - moved < 20000 ? BIG - moved : 20000;
            moved += splice_all(in.a, middle.b, piece);
            splice_all(middle.a, out.b, piece);
        }
        ended(w);
        ended(r);
        CHECK_INT(weft_close(in.b), ==, 0);
        CHECK_INT(weft_splice(in.a, NULL, middle.b, NULL, 10, 0, WEFT_FOREVER), ==, 0); /* the end */
        CHECK_INT(weft_close(in.a), ==, 0);
        close_pair(out);
        close_pair(middle);
    }
    return arg;
}

IN_FIBER(a_file_may_be_either_end)
{
    char path[] = "/tmp/weft-splice-XXXXXX";
    int file = mkostemp(path, O_CLOEXEC);
    struct pair middle = pipe_pair(0);
    struct end writer = {middle.b, 10000}, reader = {middle.a, 10000};
    off_t at = 0;
    CHECK(file >= 0 && unlink(path) == 0);
    writes(&writer);
    for (size_t moved = 0; moved < 10000 && !test_has_failed();) {
        ptrdiff_t n = weft_splice(middle.a, NULL, file, &at, 10000 - moved, 0, WEFT_FOREVER);
        CHECK_INT(n, >, 0);
        moved += (size_t)n;
    }
    CHECK_INT(at, ==, 10000);
    at = 0;
    for (size_t moved = 0; moved < 10000 && !test_has_failed();) {
        ptrdiff_t n = weft_splice(file, &at, middle.b, NULL, 10000 - moved, 0, WEFT_FOREVER);
        CHECK_INT(n, >, 0);
        moved += (size_t)n;
    }
    CHECK_INT(weft_splice(file, &at, middle.b, NULL, 10, 0, WEFT_FOREVER), ==, 0);
    reads(&reader);
    close_pair(middle);
    CHECK_INT(weft_close(file), ==, 0);
    return arg;
}

struct splicing {
    int from, to;
    weft_time until;
};

static void *splices(void *arg)
{
    struct splicing *s = arg;
    return ptr(weft_splice(s->from, NULL, s->to, NULL, 1000, 0, s->until));
}

static void fill(int fd)
{
    char bytes[4096] = "";
    while (weft_write(fd, bytes, sizeof bytes, WEFT_NOW) > 0)
        ;
}

/* Either end may be what it waits for: until the deadline, or a close. */
IN_FIBER(it_waits_for_either_end)
{
    for (int kind = 0; kind < KINDS; kind++) {
        for (int full = 0; full < 2; full++) {
            struct pair in = make_pair(kind), middle = pipe_pair(0);
            struct splicing s = {in.a, middle.b, weft_in(5 * WEFT_MS)};
            if (full) {
                CHECK_INT(weft_write(in.b, "x", 1, WEFT_FOREVER), ==, 1);
                fill(middle.b);
            }
            CHECK_PTR(splices(&s), ==, ptr(-ETIMEDOUT));
            CHECK_INT(weft_now().ns, >=, s.until.ns);
            CHECK_INT(weft_splice(in.a, NULL, middle.b, NULL, 10, 0, WEFT_NOW), ==, -EAGAIN);
            CHECK_INT(weft_splice(in.a, NULL, middle.b, NULL, 10, SPLICE_F_NONBLOCK, WEFT_FOREVER), ==, -EAGAIN);
            s.until = WEFT_FOREVER;
            weft_fiber *f = go(splices, &s), *g = go(splices, &s);
            AWAIT(is_parked(f) && is_parked(g));
            CHECK_INT(weft_cancel(g), ==, 0);
            CHECK_PTR(ended(g), ==, ptr(-ECANCELED));
            CHECK(is_parked(f));
            CHECK_INT(weft_close(full ? middle.b : in.a), ==, 0);
            CHECK_PTR(ended(f), ==, ptr(-EBADF));
            CHECK_INT(weft_close(full ? in.a : middle.b), ==, 0);
            CHECK_INT(weft_close(in.b), ==, 0);
            CHECK_INT(weft_close(middle.a), ==, 0);
        }
    }
    return arg;
}

IN_FIBER(it_goes_on_when_bytes_or_room_come)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct pair in = make_pair(kind), middle = pipe_pair(0);
        struct splicing s = {in.a, middle.b, weft_in(20 * WEFT_SEC)};
        weft_fiber *f = go(splices, &s);
        AWAIT(is_parked(f));
        CHECK_INT(weft_write(in.b, "hello", 5, WEFT_FOREVER), ==, 5);
        CHECK_PTR(ended(f), ==, ptr(5));
        char bytes[8];
        CHECK_INT(weft_read(middle.a, bytes, sizeof bytes, WEFT_FOREVER), ==, 5);
        CHECK(memcmp(bytes, "hello", 5) == 0);
        close_pair(in);
        close_pair(middle);
    }
    return arg;
}

/* SIGPIPE would end this program. */
IN_FIBER(a_dead_peer_is_told_without_a_signal)
{
    for (int kind = 0; kind < 4; kind++) {
        struct pair out = make_pair(kind), middle = pipe_pair(0);
        ptrdiff_t n;
        CHECK_INT(weft_close(out.a), ==, 0);
        do {
            CHECK_INT(weft_write(middle.b, "x", 1, WEFT_FOREVER), ==, 1);
            n = weft_splice(middle.a, NULL, out.b, NULL, 1, 0, WEFT_FOREVER);
        } while (n > 0);
        CHECK(n == -EPIPE || n == -ECONNRESET);
        sigset_t pending;
        CHECK(sigpending(&pending) == 0 && !sigismember(&pending, SIGPIPE));
        CHECK_INT(weft_close(out.b), ==, 0);
        close_pair(middle);
    }
    return arg;
}

IN_FIBER(what_cannot_be_spliced_is_said)
{
    struct pair p = tcp_pair(), q = pipe_pair(0);
    errno = 12345;
    CHECK_INT(weft_splice(-1, NULL, q.b, NULL, 1, 0, WEFT_FOREVER), ==, -EBADF);
    CHECK_INT(weft_splice(p.a, NULL, -1, NULL, 1, 0, WEFT_FOREVER), ==, -EBADF);
    CHECK_INT(weft_splice(9999, NULL, q.b, NULL, 1, 0, WEFT_FOREVER), ==, -EBADF);
    CHECK_INT(write(p.b, "x", 1), ==, 1);
    CHECK_INT(weft_wait_fd(p.a, POLLIN, WEFT_FOREVER), ==, POLLIN);
    CHECK_INT(weft_splice(p.a, NULL, p.b, NULL, 1, 0, WEFT_FOREVER), ==, -EINVAL); /* neither is a pipe */
    CHECK_INT(errno, ==, 12345);
    close_pair(p);
    close_pair(q);
    return arg;
}

TESTS(io_splice, bytes_go_through_a_pipe_in_order, a_file_may_be_either_end, it_waits_for_either_end,
      it_goes_on_when_bytes_or_room_come, a_dead_peer_is_told_without_a_signal, what_cannot_be_spliced_is_said)
