/*
 * hook/read.c: the names that read.
 */
#include <errno.h>
#include <sys/eventfd.h>

#include <weft/io.h>
#include <weft/time.h>

#include "hook/real.h"
#include "hook/transfer.h"
#include "hook/wait.h"

/* Flags of calls that never wait, or that the kernel must see as they are. */
#define NO_WAIT (MSG_DONTWAIT | MSG_OOB | MSG_ERRQUEUE)

HOOK ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    if (likely(!wf_hooked_here()) || flags & NO_WAIT)
        return wf_real.recvmsg(fd, message, flags);
    return wf_receive(fd, message, flags);
}

/* In a ring the call itself waits: nothing is tried before, and nothing again after. */
static ssize_t receive_in_ring(int fd, void *memory, size_t bytes)
{
    struct wf_waiting w = {0};
    int kept = errno;
    if (wf_wait_begin(&w, fd, POLLIN) != WF_WAIT_AGAIN) {
        errno = kept;
        return wf_real.recv(fd, memory, bytes, 0);
    }
    ptrdiff_t n = weft_recv(fd, memory, bytes, 0, w.until);
    return n >= 0 ? n : wf_fails(n == -ETIMEDOUT ? EAGAIN : (int)-n);
}

static bool has_ring(void)
{
    return weft_io_backend()[0] == 'i'; /* io_uring */
}

HOOK ssize_t recvfrom(int fd, void *memory, size_t bytes, int flags, struct sockaddr *from, socklen_t *size)
{
    if (likely(!wf_hooked_here()) || flags & NO_WAIT)
        return wf_real.recvfrom(fd, memory, bytes, flags, from, size);
    bytes = bytes < WF_MOST ? bytes : WF_MOST;
    if (flags == 0 && !from && !wf_wants_more(0) && has_ring())
        return receive_in_ring(fd, memory, bytes);
    if (flags & MSG_WAITALL && !from) /* recvmsg(2) says what does not belong together */
        return wf_receive(fd, &(struct msghdr){.msg_iov = &(struct iovec){memory, bytes}, .msg_iovlen = 1}, flags);
    struct wf_waiting w = {0};
    int kept = errno;
    for (;;) {
        ssize_t n = wf_real.recvfrom(fd, memory, bytes, flags | MSG_DONTWAIT, from, size);
        if (n >= 0 || errno != EAGAIN) {
            if (n >= 0)
                errno = kept;
            if (n > 0 && unlikely(wf_wants_more(flags)) && (size_t)n < bytes)
                n = wf_receive_rest(fd, &(struct msghdr){.msg_iov = &(struct iovec){memory, bytes}, .msg_iovlen = 1},
                                    flags, (size_t)n, &w);
            return n;
        }
        enum wf_wait next = wf_wait_ready(&w, fd, POLLIN);
        if (next == WF_WAIT_OVER)
            return -1;
        if (next == WF_WAIT_BLOCK) {
            errno = kept;
            return wf_real.recvfrom(fd, memory, bytes, flags, from, size);
        }
    }
}

HOOK ssize_t recv(int fd, void *memory, size_t bytes, int flags)
{
    if (likely(!wf_hooked_here()))
        return wf_real.recv(fd, memory, bytes, flags);
    return recvfrom(fd, memory, bytes, flags, NULL, NULL);
}

HOOK ssize_t read(int fd, void *memory, size_t bytes)
{
    if (likely(!wf_hooked_here()) || bytes == 0 || wf_is_too_much(memory, bytes))
        return wf_real.read(fd, memory, bytes);
    int kept = errno;
    ssize_t n = recvfrom(fd, memory, bytes, 0, NULL, NULL);
    if (n >= 0 || errno != ENOTSOCK)
        return n;
    errno = kept;
    return wf_read_other(fd, &(struct iovec){memory, bytes}, 1);
}

HOOK ssize_t readv(int fd, const struct iovec *parts, int count)
{
    return likely(!wf_hooked_here()) ? wf_real.readv(fd, parts, count) : wf_read_parts(fd, parts, count);
}

HOOK ssize_t preadv2(int fd, const struct iovec *parts, int count, off_t at, int flags)
{
    if (likely(!wf_hooked_here()) || at != -1 || flags != 0)
        return wf_real.preadv2(fd, parts, count, at, flags);
    return wf_read_parts(fd, parts, count);
}

HOOK ssize_t preadv64v2(int fd, const struct iovec *parts, int count, off64_t at, int flags)
{
    return preadv2(fd, parts, count, at, flags);
}

HOOK ssize_t __read_chk(int fd, void *memory, size_t bytes, size_t room)
{
    if (bytes > room)
        __chk_fail();
    return read(fd, memory, bytes);
}

HOOK ssize_t __recv_chk(int fd, void *memory, size_t bytes, size_t room, int flags)
{
    if (bytes > room)
        __chk_fail();
    return recv(fd, memory, bytes, flags);
}

HOOK ssize_t __recvfrom_chk(int fd, void *memory, size_t bytes, size_t room, int flags, struct sockaddr *from,
                            socklen_t *size)
{
    if (bytes > room)
        __chk_fail();
    return recvfrom(fd, memory, bytes, flags, from, size);
}

HOOK int eventfd_read(int fd, eventfd_t *value)
{
    return read(fd, value, sizeof *value) == (ssize_t)sizeof *value ? 0 : -1;
}

/* One after the other, as the kernel does: the time is looked at after each, and what came before a failure counts. */
HOOK int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *limit)
{
    if (likely(!wf_hooked_here()) || flags & NO_WAIT)
        return wf_real.recvmmsg(fd, messages, count, flags, limit);
    if (limit && (limit->tv_sec < 0 || limit->tv_nsec < 0 || limit->tv_nsec >= WEFT_SEC))
        return wf_fails(EINVAL);
    weft_time until = limit ? wf_ahead(limit->tv_sec, limit->tv_nsec) : WEFT_FOREVER;
    int kept = errno, each = flags & ~MSG_WAITFORONE;
    unsigned n = 0;
    while (n < count) {
        ssize_t bytes = recvmsg(fd, &messages[n].msg_hdr, each);
        if (bytes < 0)
            break;
        messages[n++].msg_len = (unsigned)bytes;
        if (flags & MSG_WAITFORONE)
            each |= MSG_DONTWAIT;
        if (limit && weft_now().ns >= until.ns)
            break;
        if (messages[n - 1].msg_hdr.msg_flags & MSG_OOB)
            break;
    }
    if (limit && n > 0) {
        int64_t left = until.ns - weft_now().ns;
        left = left < 0 ? 0 : left;
        *limit = (struct timespec){left / WEFT_SEC, left % WEFT_SEC};
    }
    if (n == 0 && count > 0)
        return -1;
    errno = kept;
    return (int)n;
}
