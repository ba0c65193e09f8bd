/*
 * http/transport.h: the bytes of a connection. Every read and write of the server passes here, so another transport
 * (TLS) takes this place alone.
 */
#ifndef WH_HTTP_TRANSPORT_H
#define WH_HTTP_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <weft/time.h>

struct wh_connection;

/* Waits for bytes: how many came, 0 at the end, or a negative errno. */
ptrdiff_t wh_receive(struct wh_connection *c, void *buffer, size_t bytes, weft_time deadline);

/* Waits until a read has bytes, the end or an error: a positive number, or a negative errno. Little lies on the stack meanwhile. */
int wh_wait(struct wh_connection *c, weft_time deadline);

/* Writes what the client takes, and waits only if that is nothing: how much, or a negative errno. With WEFT_NOW it never
 * waits (-EAGAIN). flags: those of send(2), MSG_MORE. */
ptrdiff_t wh_send(struct wh_connection *c, const void *bytes, size_t count, int flags, weft_time deadline);
ptrdiff_t wh_send_parts(struct wh_connection *c, const struct iovec *parts, int count, weft_time deadline);
ptrdiff_t wh_send_file(struct wh_connection *c, int file, off_t *offset, size_t bytes, weft_time deadline);

/* Ends the sending half. */
void wh_send_end(struct wh_connection *c);

/* The close that follows resets the connection, so that nobody takes what was sent for all of it. */
void wh_reset_at_close(struct wh_connection *c);

#endif
