/*
 * http/output.c: see output.h.
 *
 * A write first tries without a deadline, and so without a look at the clock. Only if the client is slow, the client
 * has write_time for each 64 KiB. A call without a deadline never lets other fibers run. So every WH_TRIES writes, one
 * has a deadline from the beginning: a handler whose client reads as fast as it writes does not hold up its neighbours.
 * Parts of files always have a deadline.
 */
#include "http/output.h"

#include <errno.h>
#include <sys/socket.h>

#include "http/server.h"
#include "http/transport.h"

enum {
    WINDOW = 64 * 1024, /* bytes for which a client has write_time */
    FEW = 4096,         /* up to so many bytes are copied, so that they go out with what was collected */
    FILE_PART = 1024 * 1024,
};

/* The time that a slow client has. */
struct window {
    uint64_t left; /* bytes until the client gets more time; 0: the time has not begun */
    weft_time until;
};

static weft_time window_deadline(struct window *w, const struct wh_connection *c)
{
    if (w->left == 0)
        *w = (struct window){WINDOW, weft_in(c->h->o.write_time)};
    return w->until;
}

static void window_moves(struct window *w, uint64_t bytes)
{
    w->left -= w->left < bytes ? w->left : bytes;
}

/* Whether a write may try without a deadline. */
static bool may_try(struct wh_connection *c)
{
    return ++c->w->tries % WH_TRIES != 0;
}

/*
 * Waits until the client has room. The kernel reports room in a full socket only when a third of its buffer is free,
 * which may be a megabyte. So when the time is over, it tries once more: a client that has read 64 KiB gets more time.
 */
static ptrdiff_t send_late(struct wh_connection *c, const char *bytes, size_t count, int flags, struct window *w)
{
    ptrdiff_t n = wh_send(c, bytes, count, flags, window_deadline(w, c));
    if (n != -ETIMEDOUT)
        return n;
    n = wh_send(c, bytes, count, flags, WEFT_NOW);
    return n == -EAGAIN ? -ETIMEDOUT : n;
}

/* Always with a deadline: a part of the file that is not in memory would else be read on the worker. */
static ptrdiff_t send_file_part(struct wh_connection *c, int file, off_t *at, size_t count, struct window *w)
{
    ptrdiff_t n = wh_send_file(c, file, at, count, window_deadline(w, c));
    if (n != -ETIMEDOUT)
        return n;
    n = wh_send_file(c, file, at, count, WEFT_NOW);
    return n == -EAGAIN ? -ETIMEDOUT : n;
}

static int fail(struct wh_connection *c, ptrdiff_t rc)
{
    c->has_failed = true;
    return (int)rc;
}

/* Sends all of it: 0, or a negative errno. In line, because returns behind a system call take long. */
__attribute__((always_inline)) static inline int send_all(struct wh_connection *c, const char *bytes, size_t count,
                                                          int flags, struct window *w)
{
    while (count > 0) {
        ptrdiff_t n = may_try(c) ? wh_send(c, bytes, count, flags, WEFT_NOW) : -EAGAIN;
        if (n == -EAGAIN)
            n = send_late(c, bytes, count, flags, w);
        if (n < 0)
            return (int)n;
        window_moves(w, (uint64_t)n);
        bytes += n;
        count -= (size_t)n;
    }
    return 0;
}

static unsigned latency_class(weft_span took)
{
    uint64_t us = took <= 0 ? 0 : (uint64_t)took / 1000;
    unsigned n = us == 0 ? 0 : 64 - (unsigned)__builtin_clzll(us);
    return n < WEFT_HTTP_LATENCIES ? n : WEFT_HTTP_LATENCIES - 1;
}

/* Reads the clock once for a write: for the latencies of its answers, and for the idle time that follows. */
void wh_out_sent(struct wh_connection *c)
{
    struct wh_block *b = c->block;
    b->sent = weft_now();
    if (b->answers == 0)
        return;
    wh_count_add(&c->w->latencies[latency_class(b->sent.ns - b->came.ns)], b->answers);
    b->answers = 0;
}

static inline int flush(struct wh_connection *c, int flags)
{
    struct wh_block *b = c->block;
    struct window w = {0};
    if (c->has_failed)
        return -EPIPE;
    c->is_sending = true;
    int rc = send_all(c, b->out, b->out_end, flags, &w);
    c->is_sending = false;
    b->out_end = b->whole = 0;
    wh_out_sent(c);
    return rc == 0 ? 0 : fail(c, rc);
}

int wh_out_flush_slow(struct wh_connection *c)
{
    return flush(c, 0);
}

/* Sends what was collected and a large part of a body, in one call if the client takes both. */
static int send_beside(struct wh_connection *c, const char *bytes, size_t count)
{
    struct wh_block *b = c->block;
    struct window w = {0};
    if (c->has_failed)
        return -EPIPE;
    struct iovec parts[2] = {{b->out, b->out_end}, {(void *)bytes, count}};
    size_t collected = b->out_end;
    c->is_sending = true;
    ptrdiff_t n = wh_send_parts(c, parts, 2, may_try(c) ? WEFT_NOW : window_deadline(&w, c));
    if (n == -EAGAIN || n == -ETIMEDOUT)
        n = 0;
    int rc = n < 0 ? (int)n : 0;
    if (rc == 0 && (size_t)n < collected) {
        rc = send_all(c, b->out + n, collected - (size_t)n, 0, &w);
        n = (ptrdiff_t)collected;
    }
    if (rc == 0) {
        size_t done = (size_t)n - collected;
        rc = send_all(c, bytes + done, count - done, 0, &w);
    }
    c->is_sending = false;
    b->out_end = b->whole = 0;
    wh_out_sent(c);
    return rc == 0 ? 0 : fail(c, rc);
}

void wh_out_flush_whole(struct wh_connection *c)
{
    c->block->out_end = c->block->whole;
    wh_out_flush(c);
}

int wh_out_put_slow(struct wh_connection *c, const void *bytes, size_t count)
{
    if (count > FEW)
        return send_beside(c, bytes, count);
    while (count > 0) {
        size_t room = WH_OUT_SIZE - c->block->out_end;
        size_t part = count < room ? count : room;
        memcpy(wh_out_at(c), bytes, part);
        wh_out_use(c, part);
        bytes = (const char *)bytes + part;
        count -= part;
        int rc = count > 0 ? wh_out_flush(c) : 0;
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int send_file(struct wh_connection *c, int file, off_t at, uint64_t count, struct window *w)
{
    while (count > 0) {
        size_t part = count < FILE_PART ? (size_t)count : FILE_PART;
        ptrdiff_t n = send_file_part(c, file, &at, part, w);
        if (n <= 0)
            return n == 0 ? -ENODATA : (int)n;
        window_moves(w, (uint64_t)n);
        count -= (uint64_t)n;
    }
    return 0;
}

int wh_out_file(struct wh_connection *c, int file, int64_t offset, uint64_t count)
{
    struct window w = {0};
    if (count == 0) /* nothing would follow MSG_MORE, and the kernel would hold back the head */
        return c->has_failed ? -EPIPE : 0;
    int rc = c->block->out_end > 0 ? flush(c, MSG_MORE) : 0; /* the head goes into the file's first packet */
    if (rc != 0 || c->has_failed)
        return rc != 0 ? rc : -EPIPE;
    c->is_sending = true;
    rc = send_file(c, file, offset, count, &w);
    c->is_sending = false;
    return rc == 0 ? 0 : fail(c, rc);
}

static char *put_two(char *to, unsigned n)
{
    static const char pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748"
        "4950515253545556575859606162636465666768697071727374757677787980818283848586878889909192939495969798"
        "99";
    return wh_append(to, pairs + 2 * n, 2);
}

char *wh_put_decimal(char *to, uint64_t n)
{
    if (n < 10) {
        *to = (char)('0' + n);
        return to + 1;
    }
    if (n < 100)
        return put_two(to, (unsigned)n);
    return put_two(wh_put_decimal(to, n / 100), (unsigned)(n % 100));
}

char *wh_put_hex(char *to, uint64_t n)
{
    unsigned count = n == 0 ? 1 : (67 - (unsigned)__builtin_clzll(n)) / 4;
    while (count > 0)
        *to++ = "0123456789abcdef"[n >> 4 * --count & 15];
    return to;
}
