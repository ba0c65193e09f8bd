/*
 * io/other.h: one try to read or write a descriptor that is no socket. The try does not wait, whatever the descriptor's
 * flags are. For most kinds RWF_NOWAIT ensures that. Kinds without RWF_NOWAIT (terminals, FIFOs, writes to event
 * descriptors, all pipes before Linux 6.4) are polled first; a write then passes no more bytes than there is room for.
 *
 * Between the poll and the call the program may put another file at the number, by close(2) or dup2(2). The call then
 * reaches that file, and blocks the thread if the file is not ready: weft/io.h says so. (On a duplicate, the poll and
 * the call would reach the same file. But closing a duplicate drops the process's locks of fcntl(2).)
 *
 * Any thread may call these functions, after wf_fd_enter.
 */
#ifndef WF_IO_OTHER_H
#define WF_IO_OTHER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

struct wf_fd_ref;

/* The call may wait for a disk, so a helper must make it. This value is no errno. */
#define WF_NOT_HERE (-5000)

struct wf_other {
    const struct wf_fd_ref *of;
    const struct iovec *parts; /* together of at least one byte */
    size_t count;
    bool may_be_file; /* after EAGAIN ask the kernel whether it is a file: the caller was woken, or does not wait */
};

/*
 * The result, or a negative errno. -EAGAIN: the call would have to wait. -EINTR: the number belongs to a socket by now,
 * and the record knows that. WF_NOT_HERE: it is a file that is not in memory. Only a pipe raises SIGPIPE (io/quiet.h).
 */
ptrdiff_t wf_other_read(const struct wf_other *o);
ptrdiff_t wf_other_write(const struct wf_other *o);

/* Call after a write to the descriptor in a ring has returned -EPIPE: wf_quiet_broken. */
ptrdiff_t wf_other_broken(const struct wf_other *o);

/* Call after a socket call has said that the descriptor is no socket: notes the descriptor's kind in the record. */
void wf_other_learn(const struct wf_fd_ref *of);

#endif
