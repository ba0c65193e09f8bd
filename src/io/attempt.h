/*
 * io/attempt.h: accept(2) and connect(2) on a blocking descriptor, without a wait. They have no flag for that, and the
 * descriptor's own belongs to everybody who has it. A ring makes them as if it were set, and one that would have to wait is
 * taken back in the same system call.
 */
#ifndef WF_IO_ATTEMPT_H
#define WF_IO_ATTEMPT_H

#include <sys/socket.h>

/* The call's result; -EAGAIN: nobody is there. -ENOSYS: there is no ring to be had. */
int wf_attempt_accept(int fd, struct sockaddr *from, socklen_t *size, int flags);

/* The same for addresses of the internet; -EINPROGRESS: it goes on, and POLLOUT says when it has ended. */
int wf_attempt_connect(int fd, const struct sockaddr *to, socklen_t size);

/* A scheduler is freed: what was kept for such calls goes with it. They make it anew. */
void wf_attempt_drop(void);

#endif
