/*
 * hook/real.c: see real.h.
 */
#include "hook/real.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hook/names.h"

/* ---- the bare forms: no cancellation points, and nothing looked up ---- */

static ssize_t bare_read(int fd, void *memory, size_t bytes)
{
    return syscall(SYS_read, fd, memory, bytes);
}

static ssize_t bare_write(int fd, const void *memory, size_t bytes)
{
    return syscall(SYS_write, fd, memory, bytes);
}

static ssize_t bare_readv(int fd, const struct iovec *parts, int count)
{
    return syscall(SYS_readv, fd, parts, count);
}

static ssize_t bare_writev(int fd, const struct iovec *parts, int count)
{
    return syscall(SYS_writev, fd, parts, count);
}

static ssize_t bare_preadv2(int fd, const struct iovec *parts, int count, off_t at, int flags)
{
    return syscall(SYS_preadv2, fd, parts, count, at, 0, flags);
}

static ssize_t bare_pwritev2(int fd, const struct iovec *parts, int count, off_t at, int flags)
{
    return syscall(SYS_pwritev2, fd, parts, count, at, 0, flags);
}

static ssize_t bare_recvfrom(int fd, void *memory, size_t bytes, int flags, struct sockaddr *from, socklen_t *size)
{
    return syscall(SYS_recvfrom, fd, memory, bytes, flags, from, size);
}

static ssize_t bare_recv(int fd, void *memory, size_t bytes, int flags)
{
    return bare_recvfrom(fd, memory, bytes, flags, NULL, NULL);
}

static ssize_t bare_recvmsg(int fd, struct msghdr *message, int flags)
{
    return syscall(SYS_recvmsg, fd, message, flags);
}

static int bare_recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *limit)
{
    return (int)syscall(SYS_recvmmsg, fd, messages, count, flags, limit);
}

static ssize_t bare_sendto(int fd, const void *memory, size_t bytes, int flags, const struct sockaddr *to,
                           socklen_t size)
{
    return syscall(SYS_sendto, fd, memory, bytes, flags, to, size);
}

static ssize_t bare_send(int fd, const void *memory, size_t bytes, int flags)
{
    return bare_sendto(fd, memory, bytes, flags, NULL, 0);
}

static ssize_t bare_sendmsg(int fd, const struct msghdr *message, int flags)
{
    return syscall(SYS_sendmsg, fd, message, flags);
}

static int bare_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    return (int)syscall(SYS_sendmmsg, fd, messages, count, flags);
}

static ssize_t bare_sendfile(int to, int from, off_t *offset, size_t bytes)
{
    return syscall(SYS_sendfile, to, from, offset, bytes);
}

static ssize_t bare_splice(int from, off64_t *from_at, int to, off64_t *to_at, size_t bytes, unsigned flags)
{
    return syscall(SYS_splice, from, from_at, to, to_at, bytes, flags);
}

static int bare_connect(int fd, const struct sockaddr *to, socklen_t size)
{
    return (int)syscall(SYS_connect, fd, to, size);
}

static int bare_accept4(int fd, struct sockaddr *from, socklen_t *size, int flags)
{
    return (int)syscall(SYS_accept4, fd, from, size, flags);
}

static int bare_accept(int fd, struct sockaddr *from, socklen_t *size)
{
    return bare_accept4(fd, from, size, 0);
}

static int bare_close(int fd)
{
    return (int)syscall(SYS_close, fd);
}

static int bare_dup3(int from, int to, int flags)
{
    return (int)syscall(SYS_dup3, from, to, flags);
}

/* dup3(2) refuses what dup2(2) takes for done. */
static int bare_dup2(int from, int to)
{
    if (from != to)
        return bare_dup3(from, to, 0);
    return syscall(SYS_fcntl, from, F_GETFD) < 0 ? -1 : to;
}

static int bare_close_range(unsigned first, unsigned last, int flags)
{
    return (int)syscall(SYS_close_range, first, last, flags);
}

static int bare_setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
    return (int)syscall(SYS_setsockopt, fd, level, name, value, size);
}

/* A limit as the kernel wants it: it writes what is left there. */
static struct timespec *copy_of(struct timespec *copy, const struct timespec *limit)
{
    if (!limit)
        return NULL;
    *copy = *limit;
    return copy;
}

enum { MASK_BYTES = 8 }; /* of the kernel's sigset_t */

static int bare_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit, const sigset_t *mask)
{
    struct timespec left;
    return (int)syscall(SYS_ppoll, fds, count, copy_of(&left, limit), mask, MASK_BYTES);
}

static int bare_poll(struct pollfd *fds, nfds_t count, int ms)
{
    struct timespec limit = {ms / 1000, ms % 1000 * 1000000L};
    return bare_ppoll(fds, count, ms < 0 ? NULL : &limit, NULL);
}

static int bare_pselect(int count, fd_set *reads, fd_set *writes, fd_set *others, const struct timespec *limit,
                        const sigset_t *mask)
{
    struct timespec left;
    struct {
        const sigset_t *mask;
        size_t bytes;
    } with = {mask, MASK_BYTES};
    return (int)syscall(SYS_pselect6, count, reads, writes, others, copy_of(&left, limit), &with);
}

/* As on Linux the limit becomes what is left of it. */
static int bare_select(int count, fd_set *reads, fd_set *writes, fd_set *others, struct timeval *limit)
{
    if (!limit)
        return (int)syscall(SYS_pselect6, count, reads, writes, others, NULL, NULL);
    struct timespec left = {limit->tv_sec, limit->tv_usec * 1000};
    int n = (int)syscall(SYS_pselect6, count, reads, writes, others, &left, NULL);
    *limit = (struct timeval){left.tv_sec, left.tv_nsec / 1000};
    return n;
}

static int bare_epoll_pwait(int set, struct epoll_event *events, int room, int ms, const sigset_t *mask)
{
    return (int)syscall(SYS_epoll_pwait, set, events, room, ms, mask, MASK_BYTES);
}

static int bare_epoll_wait(int set, struct epoll_event *events, int room, int ms)
{
    return bare_epoll_pwait(set, events, room, ms, NULL);
}

static int bare_epoll_pwait2(int set, struct epoll_event *events, int room, const struct timespec *limit,
                             const sigset_t *mask)
{
    return (int)syscall(SYS_epoll_pwait2, set, events, room, limit, mask, MASK_BYTES);
}

static int bare_nanosleep(const struct timespec *time, struct timespec *left)
{
    return (int)syscall(SYS_nanosleep, time, left);
}

static int bare_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
    int kept = errno, rc = syscall(SYS_clock_nanosleep, clock, flags, time, left) == 0 ? 0 : errno;
    errno = kept;
    return rc;
}

static pid_t bare_wait4(pid_t pid, int *state, int flags, struct rusage *usage)
{
    return (pid_t)syscall(SYS_wait4, pid, state, flags, usage);
}

static int bare_waitid(idtype_t type, id_t id, siginfo_t *info, int flags)
{
    return (int)syscall(SYS_waitid, type, id, info, flags, NULL);
}

/* ---- those that are looked up when they are first called ---- */

static void *find(const char *name)
{
    int kept = errno;
    void *function = dlsym(RTLD_NEXT, name);
    errno = kept;
    return function;
}

#define LATE(type, name, parameters, arguments)                                                                        \
    static type late_##name parameters                                                                                 \
    {                                                                                                                  \
        type(*function) parameters = find(#name);                                                                      \
        if (!function)                                                                                                 \
            abort(); /* a C library without it: whoever calls it cannot go on */                                       \
        return function arguments;                                                                                     \
    }
LIBRARY_CALLS(LATE)

#define BARE(type, name, parameters, arguments) .name = bare_##name,
#define NAMED_LATE(type, name, parameters, arguments) .name = late_##name,
struct wf_real wf_real = {SYSTEM_CALLS(BARE) LIBRARY_CALLS(NAMED_LATE)};

bool wf_hooks_on, wf_is_verbose;

__attribute__((noinline)) int *wf_errno(void)
{
    __asm__ volatile(""); /* so that no caller takes two calls for one */
    return __errno_location();
}

enum wf_word wf_environment(const char *name, const char *extra, const char *known)
{
    static const char *const off[] = {"off", "0", "no", "false"}, *const on[] = {"on", "1", "yes", "true"};
    const char *text = getenv(name);
    if (!text || text[0] == '\0')
        return WF_DEFAULT;
    for (int i = 0; i < 4; i++) {
        if (strcasecmp(text, off[i]) == 0)
            return WF_OFF;
        if (strcasecmp(text, on[i]) == 0)
            return WF_ON;
    }
    if (extra && strcasecmp(text, extra) == 0)
        return WF_EXTRA;
    char line[200];
    int n = snprintf(line, sizeof line, "weft-hook: %s=%.80s is not known and counts as not set: it may be %s\n", name,
                     text, known);
    syscall(SYS_write, STDERR_FILENO, line, n);
    return WF_DEFAULT;
}

/* Before it ends nothing is hooked: there can be no fibers yet, but for those of other constructors. */
__attribute__((constructor(101))) static void set_up(void)
{
#define FOUND(type, name, parameters, arguments)                                                                       \
    {                                                                                                                  \
        void *function = find(#name);                                                                                  \
        if (function)                                                                                                  \
            wf_real.name = (type(*) parameters)function;                                                               \
    }
    SYSTEM_CALLS(FOUND)
    LIBRARY_CALLS(FOUND)
    enum wf_word word = wf_environment("WEFT_HOOK", "verbose", "off, on or verbose");
    wf_hooks_on = word != WF_OFF;
    wf_is_verbose = word == WF_EXTRA;
}

void *weft_hook_real(const char *name)
{
    if (!name)
        return NULL;
#define NAMED(type, function, parameters, arguments)                                                                   \
    if (strcmp(name, #function) == 0)                                                                                  \
        return (void *)wf_real.function;
    SYSTEM_CALLS(NAMED)
    LIBRARY_CALLS(NAMED)
    return wf_hook_has(name) ? find(name) : NULL;
}
