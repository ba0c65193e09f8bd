/*
 * hook/transfer.c: see transfer.h.
 */
#include "hook/transfer.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <weft/fiber.h>
#include <weft/io.h>

#include "hook/real.h"
#include "hook/wait.h"

#define LOOK_AGAIN (5 * WEFT_MS) /* at what nothing tells of */

size_t wf_length(const struct iovec *parts, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].iov_len > WF_MOST - bytes)
            return WF_MOST;
        bytes += parts[i].iov_len;
    }
    return bytes;
}

/*
 * They look at the whole length before they cut it. Where the memory of programs ends is the kernel's to say: mincore(2) does before
 * it finds that there is nowhere to put its answer.
 */
bool wf_is_refused(const void *memory, size_t bytes)
{
    uintptr_t first = (uintptr_t)memory & ~(uintptr_t)(sysconf(_SC_PAGESIZE) - 1);
    int kept = errno;
    bool is = bytes > SSIZE_MAX ||
              (mincore((void *)first, bytes + ((uintptr_t)memory - first), (unsigned char *)UINTPTR_MAX) != 0 &&
               errno == ENOMEM);
    errno = kept;
    return is;
}

size_t wf_parts_after(struct iovec *to, size_t room, const struct iovec *parts, size_t count, size_t skip)
{
    size_t n = 0, most = WF_MOST - skip;
    for (size_t i = 0; i < count && n < room && most > 0; i++) {
        if (skip >= parts[i].iov_len) {
            skip -= parts[i].iov_len;
            continue;
        }
        size_t bytes = parts[i].iov_len - skip < most ? parts[i].iov_len - skip : most;
        to[n++] = (struct iovec){(char *)parts[i].iov_base + skip, bytes};
        most -= bytes;
        skip = 0;
    }
    return n;
}

/* The kernel looks at what a signal mask would be before it finds that nothing is to be done with it. */
bool wf_is_memory(const void *at)
{
    int kept = errno;
    bool is = syscall(SYS_rt_sigprocmask, -1, at, NULL, sizeof(uint64_t)) == 0 || errno != EFAULT;
    errno = kept;
    return is;
}

static bool is_stream(int fd)
{
    return wf_option(fd, SO_TYPE) == SOCK_STREAM;
}

/* After a wait: whether there is an error. TCP's come with a hang-up: without one it is something in the error queue. */
static bool has_failed(const struct wf_waiting *w, int fd)
{
    return unlikely(w->events & POLLERR) && (w->events & POLLHUP || wf_option(fd, SO_PROTOCOL) != IPPROTO_TCP);
}

/*
 * After a wait in the middle of a transfer: whether to go on. An error is left for the next call to find, as the kernel
 * does; what came before it is still to be read.
 */
static bool goes_on(const struct wf_waiting *w, int fd)
{
    int there = 0;
    return !has_failed(w, fd) || (ioctl(fd, FIONREAD, &there) == 0 && there > 0);
}

bool wf_low_marks; /* atomic */

/* How many bytes a call that has got `done` of them waits for: all by MSG_WAITALL, or what SO_RCVLOWAT says. */
static size_t wanted(int fd, size_t bytes, int flags, size_t done)
{
    if (flags & MSG_WAITALL)
        return is_stream(fd) ? bytes : done;
    int low = wf_option(fd, SO_RCVLOWAT);
    if (low <= 1 || !is_stream(fd))
        return done;
    return (size_t)low < bytes ? (size_t)low : bytes;
}

/*
 * More than `done` bytes are to be there, and none are to be taken: poll(2) would say every time that there are some. So it
 * is asked again and again.
 */
static ssize_t peek_rest(int fd, struct msghdr *message, int flags, size_t done, size_t bytes, struct wf_waiting *w)
{
    bool waits = wf_option(fd, SO_DOMAIN) != AF_UNIX; /* there it does not */
    if (!waits || (!w->begun && wf_wait_begin(w, fd, POLLIN) != WF_WAIT_AGAIN))
        return (ssize_t)done;
    bool moves = wf_option(fd, SO_PEEK_OFF) >= 0; /* then one begins where the last has ended */
    for (weft_span pause = 100 * WEFT_US; done < bytes; pause = pause < 5 * WEFT_MS ? 2 * pause : pause) {
        struct pollfd p = {.fd = fd, .events = POLLRDHUP};
        struct iovec left[WF_AT_ONCE];
        struct msghdr rest = {.msg_iov = left};
        rest.msg_iovlen = wf_parts_after(left, WF_AT_ONCE, message->msg_iov, message->msg_iovlen, done);
        int over = wf_real.poll(&p, 1, 0);
        ssize_t n = wf_real.recvmsg(fd, moves ? &rest : message, flags | MSG_DONTWAIT);
        if (n > 0)
            done = moves ? done + (size_t)n : (size_t)n;
        bool none = n == 0 || (n < 0 && (!moves || errno != EAGAIN));
        if (none || over != 0 || weft_now().ns >= w->until.ns ||
            wf_sleep_until(&w->section, WF_ENDS_ALWAYS, weft_in(pause)) != 0)
            break;
    }
    return (ssize_t)done;
}

/* Whether a message ends here though there is room for more: the kernel joins no others to what has come with descriptors. */
static bool ends_here(int fd, const struct msghdr *message)
{
    return (message->msg_controllen > 0 || message->msg_flags & MSG_CTRUNC) && wf_option(fd, SO_DOMAIN) == AF_UNIX;
}

/* `room` is what there was for control data at first. */
static ssize_t receive_rest(int fd, struct msghdr *message, int flags, size_t done, struct wf_waiting *w, size_t room)
{
    int kept = errno;
    size_t bytes = wanted(fd, wf_length(message->msg_iov, message->msg_iovlen), flags, done);
    w->has_part = true;
    if (done < bytes && flags & MSG_PEEK)
        done = (size_t)peek_rest(fd, message, flags, done, bytes, w);
    while (done < bytes && !(flags & MSG_PEEK)) {
        enum wf_wait next = wf_wait_ready(w, fd, POLLIN);
        if (next == WF_WAIT_OVER || (next == WF_WAIT_AGAIN && !goes_on(w, fd)))
            break;
        struct iovec left[WF_AT_ONCE];
        struct msghdr rest = {.msg_iov = left, .msg_control = message->msg_control, .msg_controllen = room};
        rest.msg_iovlen = wf_parts_after(left, WF_AT_ONCE, message->msg_iov, message->msg_iovlen, done);
        ssize_t n = wf_real.recvmsg(fd, &rest, next == WF_WAIT_BLOCK ? flags : flags | MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            break;
        done += n > 0 ? (size_t)n : 0;
        if (n > 0 && room > 0) { /* else what came with the first bytes stays */
            message->msg_controllen = rest.msg_controllen;
            message->msg_flags = rest.msg_flags;
        }
        if (n > 0 && ends_here(fd, message))
            break;
    }
    errno = kept;
    return (ssize_t)done;
}

ssize_t wf_receive_rest(int fd, struct msghdr *message, int flags, size_t done, struct wf_waiting *w)
{
    return receive_rest(fd, message, flags, done, w, 0);
}

enum wf_wait wf_wait_data(struct wf_waiting *w, int fd, int flags)
{
    if (likely(!(flags & MSG_PEEK && w->events & POLLIN)))
        return wf_wait_ready(w, fd, POLLIN);
    weft_time soon = weft_in(LOOK_AGAIN);
    int kept = errno, rc = weft_now().ns >= w->until.ns ? -EAGAIN : 0;
    if (rc == 0)
        rc = wf_wait_fd(&w->section, fd, POLLPRI, wf_ends_of(w),
                        soon.ns < w->until.ns ? soon : w->until); /* or closed meanwhile */
    errno = rc < 0 && rc != -ETIMEDOUT ? -rc : kept;
    return rc < 0 && rc != -ETIMEDOUT ? WF_WAIT_OVER : WF_WAIT_AGAIN;
}

ssize_t wf_receive(int fd, struct msghdr *message, int flags, struct wf_waiting *w)
{
    int kept = errno;
    size_t room = flags & MSG_WAITALL && wf_is_memory(&message->msg_controllen) ? message->msg_controllen : 0;
    for (;;) { /* what it was given is looked at when the kernel has: it may be no memory */
        ssize_t n = wf_real.recvmsg(fd, message, flags | MSG_DONTWAIT);
        if (n >= 0) {
            if (n > 0 && wf_wants_more(flags) && (size_t)n < wf_length(message->msg_iov, message->msg_iovlen) &&
                !ends_here(fd, message))
                n = receive_rest(fd, message, flags, (size_t)n, w, room);
            errno = kept;
            return n;
        }
        if (errno != EAGAIN)
            return -1;
        enum wf_wait next = wf_wait_data(w, fd, flags);
        if (next == WF_WAIT_OVER)
            return -1;
        if (next == WF_WAIT_BLOCK) {
            errno = kept;
            return wf_real.recvmsg(fd, message, flags);
        }
    }
}

/* The rest of what a stream has taken the first `done` bytes of. SIGPIPE is for who has sent nothing. */
ssize_t wf_send_rest(int fd, const struct msghdr *message, int flags, size_t done, struct wf_waiting *w)
{
    size_t bytes = wf_length(message->msg_iov, message->msg_iovlen);
    int kept = errno;
    w->has_part = true;
    while (done < bytes) {
        enum wf_wait next = wf_wait_ready(w, fd, POLLOUT);
        if (next == WF_WAIT_OVER || (next == WF_WAIT_AGAIN && (w->events & POLLHUP || has_failed(w, fd))))
            break;
        struct iovec left[WF_AT_ONCE];
        struct msghdr rest = {.msg_name = message->msg_name, .msg_namelen = message->msg_namelen, .msg_iov = left};
        rest.msg_iovlen = wf_parts_after(left, WF_AT_ONCE, message->msg_iov, message->msg_iovlen, done);
        int how = flags | MSG_NOSIGNAL | (next == WF_WAIT_BLOCK ? 0 : MSG_DONTWAIT);
        ssize_t n = wf_real.sendmsg(fd, &rest, how);
        if (n < 0 && errno != EAGAIN)
            break;
        done += n > 0 ? (size_t)n : 0;
        if (n > 0 && w->looks_again && w->until.ns != WEFT_FOREVER.ns)
            w->begun = false; /* between UNIX sockets SO_SNDTIMEO is for every piece */
    }
    errno = kept;
    return (ssize_t)done;
}

/* An error that came while the call waited is its own, without a SIGPIPE: one that begins would look for others first. */
static bool fails_now(const struct wf_waiting *w, int fd)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (likely(!(w->events & (POLLERR | POLLHUP))) || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 ||
        error == 0)
        return false;
    errno = error;
    return true;
}

ssize_t wf_send_connected(int fd, const struct msghdr *message, int flags, struct wf_waiting *w)
{
    enum wf_wait next = wf_wait_ready(w, fd, POLLOUT);
    if (next == WF_WAIT_OVER && errno == EAGAIN)
        errno = EINPROGRESS; /* what O_NONBLOCK and SO_SNDTIMEO end with */
    if (next == WF_WAIT_OVER || (next == WF_WAIT_AGAIN && fails_now(w, fd)))
        return -1;
    wf_wait_for_next(w, w->has_part);
    return wf_send(fd, message, flags & ~MSG_FASTOPEN, w);
}

ssize_t wf_send(int fd, const struct msghdr *message, int flags, struct wf_waiting *w)
{
    int kept = errno;
    for (;;) {
        ssize_t n = wf_real.sendmsg(fd, message, flags | MSG_DONTWAIT);
        if (n >= 0) {
            if ((size_t)n < wf_length(message->msg_iov, message->msg_iovlen))
                n = wf_send_rest(fd, message, flags, (size_t)n, w);
            errno = kept;
            return n;
        }
        if (errno == EINPROGRESS) {
            errno = kept;
            return wf_send_connected(fd, message, flags, w);
        }
        if (errno != EAGAIN)
            return -1;
        enum wf_wait next = wf_wait_ready(w, fd, POLLOUT);
        if (next == WF_WAIT_OVER || (next == WF_WAIT_AGAIN && fails_now(w, fd)))
            return -1;
        if (next == WF_WAIT_BLOCK) {
            errno = kept;
            return wf_real.sendmsg(fd, message, flags);
        }
    }
}

/*
 * A kernel without the call, or a sandbox that does not know it, is as one that cannot tell this descriptor not to wait. (If
 * EPERM is the kernel's own word, the call that is made instead says it again.)
 */
static ssize_t tried(ssize_t n)
{
    if (n < 0 && (errno == EPERM || errno == ENOSYS))
        errno = EOPNOTSUPP;
    return n;
}

ssize_t wf_try_readv(int fd, const struct iovec *parts, int count)
{
    return tried(wf_real.preadv2(fd, parts, count, -1, RWF_NOWAIT));
}

ssize_t wf_try_writev(int fd, const struct iovec *parts, int count)
{
    return tried(wf_real.pwritev2(fd, parts, count, -1, RWF_NOWAIT));
}

/* Calls without a byte, and wrong ones, are the system's: they do not wait. */
static bool is_odd(int count)
{
    return count <= 0 || count > 1024;
}

/*
 * The kernel is first to look at what it was given, as that may be no memory: by a call that takes and brings nothing if it has
 * no bytes, which those of sockets do. (Before Linux 6.5 RWF_NOWAIT is not for sockets.)
 */
ssize_t wf_read_parts(int fd, const struct iovec *parts, int count)
{
    if (is_odd(count) || wf_is_file(fd))
        return wf_real.readv(fd, parts, count);
    int kept = errno;
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
    struct wf_waiting w = {0};
    ssize_t n = wf_try_readv(fd, parts, count);
    if (n > 0 && unlikely(wf_wants_more(0)) && (size_t)n < wf_length(parts, (size_t)count))
        return wf_receive_rest(fd, &message, 0, (size_t)n, &w);
    if (n >= 0 || (errno != EAGAIN && errno != EOPNOTSUPP))
        return n;
    errno = kept;
    if (wf_length(parts, (size_t)count) == 0)
        return wf_real.readv(fd, parts, count);
    n = wf_receive(fd, &message, 0, &w);
    if (n >= 0 || errno != ENOTSOCK)
        return n;
    errno = kept;
    return wf_read_other(fd, parts, count);
}

ssize_t wf_write_parts(int fd, const struct iovec *parts, int count)
{
    if (is_odd(count) || wf_is_file(fd))
        return wf_real.writev(fd, parts, count);
    int kept = errno;
    if (wf_option(fd, SO_TYPE) < 0)
        return wf_write_other(fd, parts, count);
    ssize_t n = wf_try_writev(fd, parts, count);
    bool connects = n < 0 && errno == EINPROGRESS;
    if (n < 0 && errno != EAGAIN && errno != EOPNOTSUPP && !connects)
        return n;
    errno = kept;
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
    struct wf_waiting w = {0};
    size_t bytes = wf_length(parts, (size_t)count);
    if (unlikely(connects))
        return wf_send_connected(fd, &message, 0, &w);
    if (n < 0)
        return bytes == 0 ? wf_real.writev(fd, parts, count) : wf_send(fd, &message, 0, &w);
    return (size_t)n < bytes ? wf_send_rest(fd, &message, 0, (size_t)n, &w) : n;
}
