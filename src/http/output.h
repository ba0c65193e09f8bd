/*
 * http/output.h: the bytes of answers on their way out. They are collected in the connection's block, and written when
 * the block is full, when the connection is about to wait, or when a handler flushes. For the connection's fiber; the
 * flusher (flusher.h) calls wh_out_sent too.
 *
 * Failure: a negative errno, and the connection's has_failed is set: nothing more goes out.
 */
#ifndef WH_HTTP_OUTPUT_H
#define WH_HTTP_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "http/block.h"
#include "http/connection.h"

/* Writes what was collected. 0, or a negative errno. */
int wh_out_flush_slow(struct wh_connection *c);

static inline int wh_out_flush(struct wh_connection *c)
{
    return c->block->out_end == 0 ? 0 : wh_out_flush_slow(c);
}

/* Before a cut: writes the complete answers among what was collected, and drops the rest. */
void wh_out_flush_whole(struct wh_connection *c);

/* What was collected has been sent: counts the latencies of the answers in it. */
void wh_out_sent(struct wh_connection *c);

static inline bool wh_out_has_room(const struct wh_connection *c, size_t bytes)
{
    return WH_OUT_SIZE - c->block->out_end >= bytes;
}

/* Makes room for `bytes`, at most WH_OUT_SIZE. If they do not fit, the call first writes what was collected. */
static inline int wh_out_reserve(struct wh_connection *c, size_t bytes)
{
    return wh_out_has_room(c, bytes) ? 0 : wh_out_flush_slow(c);
}

/* Where the reserved bytes go. wh_out_use says how many were written there. */
static inline char *wh_out_at(struct wh_connection *c)
{
    return c->block->out + c->block->out_end;
}

static inline void wh_out_use(struct wh_connection *c, size_t bytes)
{
    c->block->out_end += (uint32_t)bytes;
}

static inline char *wh_append(char *to, const void *bytes, size_t count)
{
    memcpy(to, bytes, count);
    return to + count;
}

/* For bytes that do not fit. If they are many, writes them at once, behind what was collected. If they are few, fills
 * and writes the buffer, and collects the rest. */
int wh_out_put_slow(struct wh_connection *c, const void *bytes, size_t count);

static inline int wh_out_put(struct wh_connection *c, const void *bytes, size_t count)
{
    if (count > WH_OUT_SIZE - c->block->out_end)
        return wh_out_put_slow(c, bytes, count);
    memcpy(wh_out_at(c), bytes, count);
    wh_out_use(c, count);
    return 0;
}

/* Sends a part of a file behind what was collected. -ENODATA: the file has ended. */
int wh_out_file(struct wh_connection *c, int file, int64_t offset, uint64_t count);

/* Writes a number in decimal, or in hexadecimal; returns the end. At most 20 bytes. */
char *wh_put_decimal(char *to, uint64_t n);
char *wh_put_hex(char *to, uint64_t n);

#endif
