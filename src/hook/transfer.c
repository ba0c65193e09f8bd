/*
 * hook/transfer.c: see transfer.h.
 */
#include "hook/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "hook/real.h"
#include "hook/wait.h"

enum { AT_ONCE = 16 }; /* parts of one call that goes on after others */

size_t wf_length(const struct iovec *parts, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += parts[i].iov_len;
    return bytes;
}

size_t wf_parts_after(struct iovec *to, size_t room, const struct iovec *parts, size_t count, size_t skip)
{
    size_t n = 0;
    for (size_t i = 0; i < count && n < room; i++) {
        if (skip >= parts[i].iov_len) {
            skip -= parts[i].iov_len;
            continue;
        }
        to[n++] = (struct iovec){(char *)parts[i].iov_base + skip, parts[i].iov_len - skip};
        skip = 0;
    }
    return n;
}

static bool is_stream(int fd)
{
    int type = 0;
    socklen_t size = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

/*
 * After a wait in the middle of a transfer: whether to go on. An error is left for the next call to find, as the kernel
 * does; what came before it is still to be read.
 */
static bool goes_on(const struct wf_waiting *w, int fd)
{
    int there = 0;
    return !(w->events & POLLERR) || (ioctl(fd, FIONREAD, &there) == 0 && there > 0);
}

/* MSG_WAITALL: the rest of what was asked for, after `done` bytes. */
ssize_t wf_receive_rest(int fd, const struct msghdr *message, int flags, size_t done, struct wf_waiting *w)
{
    size_t bytes = wf_length(message->msg_iov, message->msg_iovlen);
    int kept = errno;
    if (flags & MSG_PEEK || !is_stream(fd))
        return (ssize_t)done;
    while (done < bytes) {
        enum wf_wait next = wf_wait_ready(w, fd, POLLIN);
        if (next == WF_WAIT_OVER || (next == WF_WAIT_AGAIN && !goes_on(w, fd)))
            break;
        struct iovec left[AT_ONCE];
        struct msghdr rest = {.msg_iov = left};
        rest.msg_iovlen = wf_parts_after(left, AT_ONCE, message->msg_iov, message->msg_iovlen, done);
        ssize_t n = wf_real.recvmsg(fd, &rest, next == WF_WAIT_BLOCK ? flags : flags | MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            break;
        done += n > 0 ? (size_t)n : 0;
    }
    errno = kept;
    return (ssize_t)done;
}

ssize_t wf_receive(int fd, struct msghdr *message, int flags)
{
    struct wf_waiting w = {0};
    int kept = errno;
    for (;;) { /* what it was given is looked at when the kernel has: it may be no memory */
        ssize_t n = wf_real.recvmsg(fd, message, flags | MSG_DONTWAIT);
        if (n >= 0) {
            if (n > 0 && flags & MSG_WAITALL && message->msg_controllen == 0 &&
                (size_t)n < wf_length(message->msg_iov, message->msg_iovlen))
                n = wf_receive_rest(fd, message, flags, (size_t)n, &w);
            errno = kept;
            return n;
        }
        if (errno != EAGAIN)
            return -1;
        enum wf_wait next = wf_wait_ready(&w, fd, POLLIN);
        if (next == WF_WAIT_OVER)
            return -1;
        if (next == WF_WAIT_BLOCK)
            return wf_real.recvmsg(fd, message, flags);
    }
}

/* The rest of what a stream has taken the first `done` bytes of. SIGPIPE is for who has sent nothing. */
static ssize_t send_rest(int fd, const struct msghdr *message, int flags, size_t done, struct wf_waiting *w)
{
    size_t bytes = wf_length(message->msg_iov, message->msg_iovlen);
    int kept = errno;
    while (done < bytes) {
        enum wf_wait next = wf_wait_ready(w, fd, POLLOUT);
        if (next == WF_WAIT_OVER || (next == WF_WAIT_AGAIN && w->events & (POLLERR | POLLHUP)))
            break;
        struct iovec left[AT_ONCE];
        struct msghdr rest = {.msg_name = message->msg_name, .msg_namelen = message->msg_namelen, .msg_iov = left};
        rest.msg_iovlen = wf_parts_after(left, AT_ONCE, message->msg_iov, message->msg_iovlen, done);
        int how = flags | MSG_NOSIGNAL | (next == WF_WAIT_BLOCK ? 0 : MSG_DONTWAIT);
        ssize_t n = wf_real.sendmsg(fd, &rest, how);
        if (n < 0 && errno != EAGAIN)
            break;
        done += n > 0 ? (size_t)n : 0;
    }
    errno = kept;
    return (ssize_t)done;
}

ssize_t wf_send_rest(int fd, const struct msghdr *message, int flags, size_t done)
{
    struct wf_waiting w = {0};
    return send_rest(fd, message, flags, done, &w);
}

ssize_t wf_send(int fd, const struct msghdr *message, int flags)
{
    struct wf_waiting w = {0};
    int kept = errno;
    for (;;) {
        ssize_t n = wf_real.sendmsg(fd, message, flags | MSG_DONTWAIT);
        if (n >= 0) {
            if ((size_t)n < wf_length(message->msg_iov, message->msg_iovlen))
                n = send_rest(fd, message, flags, (size_t)n, &w);
            errno = kept;
            return n;
        }
        if (errno != EAGAIN)
            return -1;
        enum wf_wait next = wf_wait_ready(&w, fd, POLLOUT);
        if (next == WF_WAIT_OVER)
            return -1;
        if (next == WF_WAIT_BLOCK)
            return wf_real.sendmsg(fd, message, flags);
    }
}

/* Of a kind that may wait for a disk and for nothing else. */
static bool is_file(int fd)
{
    struct stat st;
    return fstat(fd, &st) != 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode);
}

/* What is no socket. */
ssize_t wf_read_other(int fd, const struct iovec *parts, int count)
{
    struct wf_waiting w = {0};
    int kept = errno;
    if (is_file(fd))
        return wf_real.readv(fd, parts, count);
    for (;;) {
        ssize_t n = wf_real.preadv2(fd, parts, count, -1, RWF_NOWAIT);
        bool knows = n >= 0 || errno != EOPNOTSUPP;
        if (n >= 0)
            errno = kept;
        if (n >= 0 || (knows && errno != EAGAIN))
            return n;
        enum wf_wait next = wf_wait_ready(&w, fd, POLLIN);
        if (next == WF_WAIT_OVER && knows)
            return -1;
        if (next == WF_WAIT_OVER && errno != EAGAIN)
            return -1;
        if (next != WF_WAIT_AGAIN || !knows) { /* one that cannot be told not to wait has O_NONBLOCK, or is ready */
            errno = kept;
            return wf_real.readv(fd, parts, count);
        }
    }
}

ssize_t wf_write_other(int fd, const struct iovec *parts, int count)
{
    struct wf_waiting w = {0};
    size_t done = 0;
    int kept = errno;
    if (is_file(fd))
        return wf_real.writev(fd, parts, count);
    for (;;) {
        struct iovec left[AT_ONCE];
        bool first = done == 0;
        size_t parts_left = first ? (size_t)count : wf_parts_after(left, AT_ONCE, parts, (size_t)count, done);
        ssize_t n = wf_real.pwritev2(fd, first ? parts : left, (int)parts_left, -1, RWF_NOWAIT);
        bool knows = n >= 0 || errno != EOPNOTSUPP;
        if (n >= 0)
            errno = kept;
        if (n > 0)
            done += (size_t)n;
        if (n == 0 || (n > 0 && done == wf_length(parts, (size_t)count)) || (n < 0 && knows && errno != EAGAIN))
            return done > 0 ? (ssize_t)done : n;
        enum wf_wait next = wf_wait_ready(&w, fd, POLLOUT);
        if (next == WF_WAIT_OVER && (knows || errno != EAGAIN))
            return done > 0 ? (ssize_t)done : -1;
        if (next != WF_WAIT_AGAIN || !knows) {
            errno = kept;
            return wf_real.writev(fd, parts, count);
        }
    }
}

/* Calls without a byte, and wrong ones, are the system's: they do not wait. */
static bool is_odd(int count)
{
    return count <= 0 || count > 1024;
}

ssize_t wf_read_parts(int fd, const struct iovec *parts, int count)
{
    if (is_odd(count))
        return wf_real.readv(fd, parts, count);
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
    int kept = errno;
    ssize_t n = wf_real.recvmsg(fd, &message, MSG_DONTWAIT);
    if (n >= 0)
        return n;
    int error = errno;
    errno = kept;
    if (error == ENOTSOCK)
        return wf_read_other(fd, parts, count);
    if (error != EAGAIN || wf_length(parts, (size_t)count) == 0)
        return wf_real.readv(fd, parts, count);
    return wf_receive(fd, &message, 0);
}

ssize_t wf_write_parts(int fd, const struct iovec *parts, int count)
{
    if (is_odd(count))
        return wf_real.writev(fd, parts, count);
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
    int kept = errno;
    ssize_t n = wf_send(fd, &message, 0);
    if (n >= 0 || errno != ENOTSOCK)
        return n;
    errno = kept;
    return wf_write_other(fd, parts, count);
}
