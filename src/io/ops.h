/*
 * io/ops.h: calls that others are made of, on a descriptor as it was when those began. -EBADF: it was closed since.
 */
#ifndef WF_IO_OPS_H
#define WF_IO_OPS_H

#include <stddef.h>
#include <sys/types.h>

#include <weft/time.h>

struct wf_fd_ref;

/* weft_write_all. */
ptrdiff_t wf_ops_write_all(const struct wf_fd_ref *to, const void *buffer, size_t bytes, size_t *done,
                           weft_time deadline);

/* sendfile(2) to a descriptor with O_NONBLOCK, of what is in memory: neither it nor the disk is waited for in the call. */
ptrdiff_t wf_ops_sendfile(const struct wf_fd_ref *to, const struct wf_fd_ref *from, off_t *offset, size_t bytes,
                          weft_time deadline);

#endif
