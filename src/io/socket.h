/*
 * io/socket.h: what others need of sockets.
 */
#ifndef WF_IO_SOCKET_H
#define WF_IO_SOCKET_H

#include <stdint.h>
#include <sys/socket.h>

#include <weft/time.h>

struct wf_fd;

/* weft_accept on a descriptor of this generation: for who accepts again and again. -EBADF: it was closed. */
int wf_accept(struct wf_fd *e, int fd, uint32_t generation, struct sockaddr *from, socklen_t *size, int flags,
              weft_time deadline);

#endif
