/*
 * http/transport.c: see transport.h. Plain sockets.
 */
#include "http/transport.h"

#include <poll.h>
#include <sys/socket.h>

int wh_wait(struct wh_connection *c, weft_time deadline)
{
    return weft_wait_fd(c->fd, POLLIN, deadline);
}

ptrdiff_t wh_send_parts(struct wh_connection *c, const struct iovec *parts, int count, weft_time deadline)
{
    return wh_count_sent(c, weft_writev(c->fd, parts, count, deadline));
}

ptrdiff_t wh_send_file(struct wh_connection *c, int file, off_t *offset, size_t bytes, weft_time deadline)
{
    return wh_count_sent(c, weft_sendfile(c->fd, file, offset, bytes, deadline));
}

void wh_send_end(struct wh_connection *c)
{
    weft_shutdown(c->fd, SHUT_WR);
}

void wh_reset_at_close(struct wh_connection *c)
{
    struct linger now = {.l_onoff = 1};
    setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}
