/*
 * io/quiet.h: writing without SIGPIPE to a descriptor whose kind is not known for sure.
 *
 * weft_write raises no SIGPIPE on sockets, and raises it on pipes as write(2) does. After a close(2) the record of a
 * descriptor may be wrong about its kind, and so may the answer of a system call made a moment ago. So neither of them
 * decides whether SIGPIPE is raised. No write in this file raises SIGPIPE. If the kernel has RWF_NOSIGNAL (Linux 6.18),
 * the write has that flag. On older kernels the thread blocks SIGPIPE during the write, which takes two more system
 * calls, and removes the signal that the write raised. After -EPIPE the caller calls wf_quiet_broken, which raises
 * SIGPIPE if the descriptor is a pipe.
 *
 * Any thread may call these functions.
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

/* Whether the kernel has RWF_NOSIGNAL; asks once. Only then may a ring write: a ring cannot block SIGPIPE. */
bool wf_is_quiet(void);

/* pwritev2(2) at `at` (-1: the file's own offset) with `flags`. The result or a negative errno; errno is unchanged. */
ptrdiff_t wf_quiet_pwritev2(int fd, const struct iovec *parts, int count, off_t at, int flags);

/* The same without flags, for kinds that accept no flags. */
ptrdiff_t wf_quiet_writev(int fd, const struct iovec *parts, int count);

/* write(2) of no bytes. */
ptrdiff_t wf_quiet_write_nothing(int fd);

/*
 * Call after such a write has returned -EPIPE: raises SIGPIPE on the calling thread if the descriptor is a pipe.
 * `again` makes the write once more: if the number became a pipe's only now, the pipe takes the bytes. The caller
 * returns the result.
 */
ptrdiff_t wf_quiet_broken(int fd, ptrdiff_t (*again)(void *arg), void *arg);

#endif
