/*
 * io/other.h: one try to read or write a descriptor that is no socket. The try does not wait, whatever the descriptor's
 * flags are. For most kinds RWF_NOWAIT ensures that. Kinds without RWF_NOWAIT (terminals, FIFOs, writes to event
 * descriptors, all pipes before Linux 6.4) are polled first; a write then passes no more bytes than there is room for.
 *
 * Between the poll and the call the program may put another file at the number, by close(2) or dup2(2). The call then
 * reaches that file, and blocks the thread if the file is not ready: weft/io.h says so. (Poll and call on a duplicate would
 * reach the same file. But closing a duplicate drops the process's locks of fcntl(2).)
 *
 * Any thread; the caller is in wf_fd_enter.
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
    const struct iovec *parts; /* of one byte at least */
    size_t count;
    bool may_be_file; /* after EAGAIN ask the kernel whether it is a file: the caller was woken, or does not wait */
};

/*
 * The result, or a negative errno. -EAGAIN: nothing can be done now. -EINTR: the number is a socket's by now, and the record knows
 * it. WF_NOT_HERE: it is a file that is not in memory. SIGPIPE comes for a pipe alone (io/quiet.h).
 */
ptrdiff_t wf_other_read(const struct wf_other *o);
ptrdiff_t wf_other_write(const struct wf_other *o);

/* A write of it in a ring was -EPIPE: wf_quiet_broken. */
ptrdiff_t wf_other_broken(const struct wf_other *o);

/* A call of sockets said that the descriptor is none: what it is goes into the record. */
void wf_other_learn(const struct wf_fd_ref *of);

#endif
