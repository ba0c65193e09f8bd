/*
 * io/splice.c: weft_splice. One of the two is a pipe, and either may be what has to be waited for: both are polled, and what
 * is not ready is waited for. A descriptor that is blocking is given no more than surely fits.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>

#include <weft/fiber.h>
#include <weft/io.h>

#include "io/call.h"
#include "io/fd.h"
#include "sched/slice.h"

/* The one of the two that is not ready; -1: both are, or say so when they are used. */
static int not_ready(int from, int to, uint32_t *events)
{
    struct pollfd both[] = {{.fd = from, .events = POLLIN}, {.fd = to, .events = POLLOUT}};
    if (wf_poll_until(both, 2, INT64_MIN) < 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        if (both[i].revents == 0) {
            *events = (uint32_t)both[i].events;
            return both[i].fd;
        }
    }
    return -1;
}

static int wait_for(int fd, uint32_t events, weft_time deadline)
{
    struct wf_fd *e = wf_fd_of(fd);
    return e ? wf_fd_wait(e, fd, wf_fd_generation(e), events, 0, deadline) : -ENOMEM;
}

ptrdiff_t weft_splice(int from, off_t *from_offset, int to, off_t *to_offset, size_t bytes, unsigned flags,
                      weft_time deadline)
{
    wf_slice_enter();
    for (bool late = false;;) {
        uint32_t events = 0;
        int fd = not_ready(from, to, &events), kept = errno;
        ptrdiff_t n = -EAGAIN;
        if (fd < 0) {
            size_t most = wf_is_blocking(to) && bytes > PIPE_BUF ? PIPE_BUF : bytes;
            n = splice(from, from_offset, to, to_offset, most, flags | SPLICE_F_NONBLOCK);
            n = n < 0 ? -errno : n;
            errno = kept;
        }
        if (n == -EINTR)
            continue;
        if (n != -EAGAIN || wf_time_is_now(deadline))
            return n;
        if (late)
            return -ETIMEDOUT;
        int rc = fd < 0 ? weft_sleep(WEFT_MS) /* both are ready, and yet nothing can be moved */
                        : wait_for(fd, events, deadline);
        if (rc < 0 && rc != -ETIMEDOUT)
            return rc;
        late = rc == -ETIMEDOUT;
    }
}
