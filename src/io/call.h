/*
 * io/call.h: what system calls on descriptors have in common here: errno is the user's, and stays as it was.
 */
#ifndef WF_IO_CALL_H
#define WF_IO_CALL_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>

/* The result of a call that sets errno: itself, or a negative errno, with errno as it was `kept` before the call. */
static inline ptrdiff_t wf_negative_errno(ptrdiff_t n, int kept)
{
    if (n >= 0)
        return n;
    n = -errno;
    errno = kept;
    return n;
}

/* Whether calls on it wait, as it has no O_NONBLOCK. */
static inline bool wf_is_blocking(int fd)
{
    int kept = errno, flags = fcntl(fd, F_GETFL);
    errno = kept;
    return flags >= 0 && !(flags & O_NONBLOCK);
}

#endif
