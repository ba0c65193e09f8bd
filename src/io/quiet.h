/*
 * io/quiet.h: writing without SIGPIPE to a descriptor whose kind is not known for sure.
 *
 * weft_write raises no SIGPIPE on sockets, and raises it on pipes as write(2) does. After a close(2) the record
 * of a descriptor may be wrong about its kind, and so may the answer of a system call made a moment ago. So neither decides.
 * No write in this file raises SIGPIPE. Where the kernel has RWF_NOSIGNAL (Linux 6.18), the write has that flag. Elsewhere the
 * thread blocks SIGPIPE during the write, which takes two more system calls, and removes the signal that the write raised.
 * After -EPIPE the caller calls wf_quiet_broken, which raises SIGPIPE if the descriptor is a pipe.
 *
 * Any thread.
 */
#ifndef WF_IO_QUIET_H
#define WF_IO_QUIET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifndef RWF_NOSIGNAL
#define RWF_NOSIGNAL 0x00000100 /* Linux 6.18 */
#endif

/* Whether the kernel has RWF_NOSIGNAL. It is asked once. A ring, which cannot hold SIGPIPE back, writes only then. */
bool wf_is_quiet(void);

/* pwritev2(2) at `at` (-1: where the file is) with `flags`. The result or a negative errno, with errno as it was. */
ptrdiff_t wf_quiet_pwritev2(int fd, const struct iovec *parts, int count, off_t at, int flags);

/* The same without flags, for kinds that take none. */
ptrdiff_t wf_quiet_writev(int fd, const struct iovec *parts, int count);

/* write(2) of no bytes. */
ptrdiff_t wf_quiet_write_nothing(int fd);

/*
 * A write as above was -EPIPE: raises SIGPIPE on the calling thread if the descriptor is a pipe. `again` makes the
 * write once more: a number that became a pipe only now takes the bytes. Returns what the caller is to return.
 */
ptrdiff_t wf_quiet_broken(int fd, ptrdiff_t (*again)(void *arg), void *arg);

#endif
