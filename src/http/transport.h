/*
 * http/transport.h: the bytes of a connection. All its reads and writes go through these calls, so another transport
 * (TLS) only has to replace this file. A client that is refused at a limit never becomes a connection, and gets its 503
 * without these calls. For the connection's fiber; the flusher calls wh_send with WEFT_NOW. What every request calls is
 * in line.
 */
#ifndef WH_HTTP_TRANSPORT_H
#define WH_HTTP_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <weft/io.h>
#include <weft/time.h>

#include "http/connection.h"
#include "http/server.h"

/* Waits for bytes. Returns how many came, 0 at the end, or a negative errno. */
static inline ptrdiff_t wh_receive(struct wh_connection *c, void *buffer, size_t bytes, weft_time deadline)
{
    ptrdiff_t n = weft_recv(c->fd, buffer, bytes, 0, deadline);
    if (n > 0)
        wh_count_add(&c->w->bytes_in, (uint64_t)n);
    return n;
}

/* Waits until a read would not wait: there are bytes, the end or an error. Returns a positive number, or a negative
 * errno. The call needs little stack while it waits. */
int wh_wait(struct wh_connection *c, weft_time deadline);

/* Counts what a write has sent. Returns its result. */
static inline ptrdiff_t wh_count_sent(struct wh_connection *c, ptrdiff_t n)
{
    if (n > 0)
        wh_count_add(&c->w->bytes_out, (uint64_t)n);
    return n;
}

/* Writes as much as the client takes, and waits only if the client takes nothing. Returns how much, or a negative
 * errno. With WEFT_NOW it never waits (-EAGAIN). flags: as for send(2), MSG_MORE. */
static inline ptrdiff_t wh_send(struct wh_connection *c, const void *bytes, size_t count, int flags, weft_time deadline)
{
    return wh_count_sent(c, weft_send(c->fd, bytes, count, flags, deadline));
}

ptrdiff_t wh_send_parts(struct wh_connection *c, const struct iovec *parts, int count, weft_time deadline);
ptrdiff_t wh_send_file(struct wh_connection *c, int file, off_t *offset, size_t bytes, weft_time deadline);

/* Ends the sending half. */
void wh_send_end(struct wh_connection *c);

/* Makes the close reset the connection, so that the client does not take a cut answer for a complete one. */
void wh_reset_at_close(struct wh_connection *c);

#endif
