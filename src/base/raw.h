/*
 * base/raw.h: the system calls that libweft-hook stands in for, made past it: what this library does for a fiber must not
 * come back as a call of that fiber. Each is as the function of its name in the C library, but no cancellation point, unless
 * a comment says more.
 *
 * Under ThreadSanitizer they are the C library's: it watches those, and learns who handed what to whom.
 */
#ifndef WF_BASE_RAW_H
#define WF_BASE_RAW_H

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/errno.h"
#include "base/sanitizer.h"
#include "base/syscall.h"

#if WF_TSAN
#define WF_RAW(raw, libc) (libc)
#else
#define WF_RAW(raw, libc) (raw)
#endif

static inline ssize_t wf_raw_read(int fd, void *memory, size_t bytes)
{
    return WF_RAW(syscall(SYS_read, fd, memory, bytes), read(fd, memory, bytes));
}

static inline ssize_t wf_raw_write(int fd, const void *memory, size_t bytes)
{
    return WF_RAW(syscall(SYS_write, fd, memory, bytes), write(fd, memory, bytes));
}

static inline ssize_t wf_raw_readv(int fd, const struct iovec *parts, int count)
{
    return WF_RAW(syscall(SYS_readv, fd, parts, count), readv(fd, parts, count));
}

static inline ssize_t wf_raw_writev(int fd, const struct iovec *parts, int count)
{
    return WF_RAW(syscall(SYS_writev, fd, parts, count), writev(fd, parts, count));
}

/*
 * Where the kernel, or an emulator, has no calls with flags, or a sandbox that does not know them says EPERM: without any
 * they are the older ones, as in the C library. (If EPERM is the kernel's word, on a file that is sealed, it says so again.)
 */
static inline bool wf_raw_is_refused(ssize_t n)
{
    return n < 0 && (errno == ENOSYS || errno == EPERM);
}

static inline ssize_t wf_raw_older(long call, long at_place, int fd, const struct iovec *parts, int count, off_t at,
                                   int flags)
{
    if (flags != 0) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return at == -1 ? syscall(call, fd, parts, count) : syscall(at_place, fd, parts, count, at, 0);
}

/* The kernel takes an offset in two halves; where a register holds all of it the second one is not looked at. */
static inline ssize_t wf_raw_preadv2(int fd, const struct iovec *parts, int count, off_t at, int flags)
{
    ssize_t n = WF_RAW(syscall(SYS_preadv2, fd, parts, count, at, 0, flags), preadv2(fd, parts, count, at, flags));
    return wf_raw_is_refused(n) ? wf_raw_older(SYS_readv, SYS_preadv, fd, parts, count, at, flags) : n;
}

static inline ssize_t wf_raw_pwritev2(int fd, const struct iovec *parts, int count, off_t at, int flags)
{
    ssize_t n = WF_RAW(syscall(SYS_pwritev2, fd, parts, count, at, 0, flags), pwritev2(fd, parts, count, at, flags));
    return wf_raw_is_refused(n) ? wf_raw_older(SYS_writev, SYS_pwritev, fd, parts, count, at, flags) : n;
}

/* recvfrom(2) and sendto(2), but a failure returns a negative errno, and errno stays as it was. */
static inline ssize_t wf_raw_recvfrom(int fd, void *memory, size_t bytes, int flags, struct sockaddr *from,
                                      socklen_t *size)
{
#if WF_TSAN
    int before = errno;
    ssize_t n = recvfrom(fd, memory, bytes, flags, from, size);
    return wf_negative_errno(n, before);
#else
    return wf_syscall(SYS_recvfrom, fd, (long)memory, (long)bytes, flags, (long)from, (long)size);
#endif
}

static inline ssize_t wf_raw_sendto(int fd, const void *memory, size_t bytes, int flags, const struct sockaddr *to,
                                    socklen_t size)
{
#if WF_TSAN
    int before = errno;
    ssize_t n = sendto(fd, memory, bytes, flags, to, size);
    return wf_negative_errno(n, before);
#else
    return wf_syscall(SYS_sendto, fd, (long)memory, (long)bytes, flags, (long)to, size);
#endif
}

static inline ssize_t wf_raw_recvmsg(int fd, struct msghdr *message, int flags)
{
    return WF_RAW(syscall(SYS_recvmsg, fd, message, flags), recvmsg(fd, message, flags));
}

static inline ssize_t wf_raw_sendmsg(int fd, const struct msghdr *message, int flags)
{
    return WF_RAW(syscall(SYS_sendmsg, fd, message, flags), sendmsg(fd, message, flags));
}

static inline int wf_raw_accept4(int fd, struct sockaddr *from, socklen_t *size, int flags)
{
    return WF_RAW((int)syscall(SYS_accept4, fd, from, size, flags), accept4(fd, from, size, flags));
}

static inline int wf_raw_connect(int fd, const struct sockaddr *to, socklen_t size)
{
    return WF_RAW((int)syscall(SYS_connect, fd, to, size), connect(fd, to, size));
}

static inline int wf_raw_shutdown(int fd, int how)
{
    return WF_RAW((int)syscall(SYS_shutdown, fd, how), shutdown(fd, how));
}

static inline int wf_raw_close(int fd)
{
    return WF_RAW((int)syscall(SYS_close, fd), close(fd));
}

/* It may change *limit: pass one that is not needed any more. */
static inline int wf_raw_ppoll(struct pollfd *fds, size_t count, struct timespec *limit)
{
    return WF_RAW((int)syscall(SYS_ppoll, fds, count, limit, NULL, 0), ppoll(fds, count, limit, NULL));
}

static inline int wf_raw_epoll_wait(int set, struct epoll_event *events, int room, int ms)
{
    return WF_RAW((int)syscall(SYS_epoll_pwait, set, events, room, ms, NULL, 0), epoll_wait(set, events, room, ms));
}

static inline int wf_raw_epoll_pwait2(int set, struct epoll_event *events, int room, const struct timespec *limit)
{
    return WF_RAW((int)syscall(SYS_epoll_pwait2, set, events, room, limit, NULL, 0),
                  epoll_pwait2(set, events, room, limit, NULL));
}

static inline ssize_t wf_raw_sendfile(int to, int from, off_t *offset, size_t bytes)
{
    return WF_RAW(syscall(SYS_sendfile, to, from, offset, bytes), sendfile(to, from, offset, bytes));
}

static inline ssize_t wf_raw_splice(int from, off_t *from_offset, int to, off_t *to_offset, size_t bytes,
                                    unsigned flags)
{
    return WF_RAW(syscall(SYS_splice, from, from_offset, to, to_offset, bytes, flags),
                  splice(from, from_offset, to, to_offset, bytes, flags));
}

/* The C library has it by a second name, which nobody stands in for; the bare system call would need a trampoline. */
static inline int wf_raw_sigaction(int number, const struct sigaction *act, struct sigaction *before)
{
#ifdef __GLIBC__
    extern int __sigaction(int number, const struct sigaction *act, struct sigaction *before);
    return WF_RAW(__sigaction(number, act, before), sigaction(number, act, before));
#else
    return sigaction(number, act, before);
#endif
}

/* An eventfd's. 0, or -1. */
static inline int wf_raw_eventfd_write(int fd, uint64_t count)
{
    return wf_raw_write(fd, &count, sizeof count) == (ssize_t)sizeof count ? 0 : -1;
}

static inline int wf_raw_eventfd_read(int fd, uint64_t *count)
{
    return wf_raw_read(fd, count, sizeof *count) == (ssize_t)sizeof *count ? 0 : -1;
}

#endif
