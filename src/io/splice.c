/*
 * io/splice.c: weft_splice. One of the two is a pipe, and either may be what has to be waited for: both are polled, and what
 * is not ready is waited for. A pipe is told not to wait; another descriptor that is blocking is given no more than
 * surely fits.
 */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>

#include <weft/fiber.h>
#include <weft/io.h>

#include "base/errno.h"
#include "base/raw.h"
#include "base/thread.h"
#include "io/call.h"
#include "io/fd.h"
#include "sched/budget.h"
#include "sched/slice.h"
#include "sched/wait.h"

/* Whether writing to it may wait though it is told not to: it heeds O_NONBLOCK alone, and does not have it. */
static bool waits_for_room(int fd)
{
    int kept = errno, pipe_size = fcntl(fd, F_GETPIPE_SZ);
    errno = kept;
    return pipe_size < 0 && wf_is_blocking(fd);
}

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

/* One try; *wait_for is which of the two it has to wait for, NULL: nobody knows. */
static ptrdiff_t try_splice(const struct wf_fd_ref *from, off_t *from_offset, const struct wf_fd_ref *to,
                            off_t *to_offset, size_t bytes, unsigned flags, const struct wf_fd_ref **wait_for,
                            uint32_t *events)
{
    int kept = errno, fd = not_ready(from->fd, to->fd, events);
    *wait_for = fd < 0 ? NULL : fd == from->fd ? from : to;
    if (fd >= 0)
        return -EAGAIN;
    struct wf_sigpipe held;
    if (bytes > PIPE_BUF && waits_for_room(to->fd))
        bytes = PIPE_BUF;
    wf_sigpipe_hold(&held);
    ptrdiff_t n = wf_negative_errno(
        wf_raw_splice(from->fd, from_offset, to->fd, to_offset, bytes, flags | SPLICE_F_NONBLOCK), kept);
    wf_sigpipe_release(&held, to->fd, n);
    return n;
}

/* The same, on both as they were: -EBADF, one of them was closed. */
static ptrdiff_t splice_once(const struct wf_fd_ref *from, off_t *from_offset, const struct wf_fd_ref *to,
                             off_t *to_offset, size_t bytes, unsigned flags, const struct wf_fd_ref **wait_for,
                             uint32_t *events)
{
    ptrdiff_t n = -EBADF;
    if (!wf_fd_enter(from, 0))
        return n;
    if (wf_fd_enter(to, 0)) {
        do
            n = try_splice(from, from_offset, to, to_offset, bytes, flags, wait_for, events);
        while (n == -EINTR);
        wf_fd_leave(to);
    }
    wf_fd_leave(from);
    return n;
}

/* Both are ready, and yet nothing can be moved: a while. */
static int wait_blindly(weft_time deadline)
{
    weft_time soon = weft_in(WEFT_MS);
    int rc = weft_sleep_until(soon.ns < deadline.ns ? soon : deadline);
    return rc == 0 && weft_now().ns >= deadline.ns ? -ETIMEDOUT : rc;
}

ptrdiff_t weft_splice(int from, off_t *from_offset, int to, off_t *to_offset, size_t bytes, unsigned flags,
                      weft_time deadline)
{
    wf_slice_enter();
    struct wf_fd_ref a, b;
    int rc = wf_fd_refer(&a, from);
    if (rc == 0)
        rc = wf_fd_refer(&b, to);
    bool once = wf_time_is_now(deadline) || flags & SPLICE_F_NONBLOCK;
    if (rc == 0 && wf_cancel_point(wf_thread_now()->fiber, once ? WEFT_NOW : deadline))
        return -ECANCELED;
    while (rc >= 0 || rc == -ETIMEDOUT) {
        const struct wf_fd_ref *wait_for = NULL;
        uint32_t events = 0;
        ptrdiff_t n = splice_once(&a, from_offset, &b, to_offset, bytes, flags, &wait_for, &events);
        if (n != -EAGAIN || once) {
            wf_budget_spend_anywhere(wf_cost_io(n), !once);
            return n;
        }
        if (rc == -ETIMEDOUT)
            break;
        rc = wait_for ? wf_fd_wait(wait_for, events, 0, deadline) : wait_blindly(deadline);
    }
    return rc;
}
