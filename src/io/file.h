/*
 * io/file.h: calls on files that may wait for a disk, by a helper.
 */
#ifndef WF_IO_FILE_H
#define WF_IO_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <weft/time.h>

#include "io/fd.h"

enum wf_file_op { WF_FILE_READ, WF_FILE_WRITE, WF_FILE_SYNC };

struct wf_file_call {
    enum wf_file_op op;
    struct wf_fd_ref of;
    const struct iovec *parts;
    size_t count;
    off_t offset;     /* -1: where the file is */
    ptrdiff_t result; /* of the call, when it was made */
};

/*
 * Makes it on a helper while the fiber waits, or right here: on a plain thread, for one whose time is up, or if there is no
 * helper. The call's result; -ETIMEDOUT and -ECANCELED: it was not made. Who calls is not in wf_fd_enter.
 */
ptrdiff_t wf_file_call(struct wf_file_call *c, weft_time deadline);

/* weft_pread of a descriptor as it was. */
ptrdiff_t wf_file_pread(const struct wf_fd_ref *from, void *buffer, size_t bytes, off_t offset, weft_time deadline);

#endif
