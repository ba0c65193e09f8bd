/*
 * io/socket.h: what others need of sockets.
 */
#ifndef WF_IO_SOCKET_H
#define WF_IO_SOCKET_H

#include <stdint.h>
#include <sys/socket.h>

#include <weft/time.h>

struct wf_fd_ref;

/* weft_accept on a descriptor as it was: for callers that accept again and again. -EBADF: it was closed. */
int wf_accept(const struct wf_fd_ref *of, struct sockaddr *from, socklen_t *size, int flags, weft_time deadline);

/* weft_close of a descriptor as it was. -EBADF: it was closed since, by weft_close or after weft_closing. */
int wf_close_ref(const struct wf_fd_ref *f);

#endif
