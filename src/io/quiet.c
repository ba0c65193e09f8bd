/*
 * io/quiet.c: see quiet.h.
 */
#include "io/quiet.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/errno.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "base/own.h"
#include "base/raw.h"
#include "base/sys.h"
#include "io/call.h"
#include "io/fd.h"

enum { UNKNOWN, YES, NO };

static uint32_t state; /* atomic: nothing else depends on it */

/* Reads from an eventfd, where nothing is: a kernel that does not know the flag says EOPNOTSUPP before it says EAGAIN. */
WF_COLD static uint32_t ask_kernel(void)
{
    int kept = errno, fd = wf_sys_eventfd();
    if (fd < 0)
        return NO; /* for now */
    uint64_t count;
    struct iovec part = {&count, sizeof count};
    bool has = wf_sys_may(WF_SYS_NOSIGNAL) &&
               (wf_raw_preadv2(fd, &part, 1, -1, RWF_NOWAIT | RWF_NOSIGNAL) >= 0 || errno == EAGAIN);
    wf_own_close(fd);
    errno = kept;
    wf_store(&state, has ? YES : NO);
    return has ? YES : NO;
}

bool wf_is_quiet(void)
{
    uint32_t now = wf_load(&state);
    return (wf_likely(now != UNKNOWN) ? now : ask_kernel()) == YES;
}

/* The end of wf_sigpipe_hold: a SIGPIPE that the write has raised is taken away, whatever was written to. */
static ptrdiff_t quieten(const struct wf_sigpipe *held, ptrdiff_t n)
{
    if (wf_unlikely(n == -EPIPE) && !held->pending) {
        int kept = errno;
        sigset_t only;
        sigemptyset(&only);
        sigaddset(&only, SIGPIPE);
        sigtimedwait(&only, NULL, &(struct timespec){0}); /* it is pending: nothing is waited for */
        errno = kept;
    }
    pthread_sigmask(SIG_SETMASK, &held->mask, NULL);
    return n;
}

static ptrdiff_t write_held(int fd, const struct iovec *parts, int count, int flags)
{
    int kept = errno;
    struct wf_sigpipe held;
    wf_sigpipe_hold(&held);
    return quieten(&held, wf_negative_errno(wf_raw_pwritev2(fd, parts, count, -1, flags), kept));
}

ptrdiff_t wf_quiet_pwritev2(int fd, const struct iovec *parts, int count, off_t at, int flags)
{
    int kept = errno;
    if (at != -1) /* what could raise SIGPIPE has no places */
        return wf_negative_errno(wf_raw_pwritev2(fd, parts, count, at, flags), kept);
    if (!wf_is_quiet())
        return write_held(fd, parts, count, flags);
    ptrdiff_t n = wf_negative_errno(wf_raw_pwritev2(fd, parts, count, -1, flags | RWF_NOSIGNAL), kept);
    if (wf_unlikely(n == -EOPNOTSUPP) && flags == 0) /* no flag is to be had, or a call without one fails as well */
        n = write_held(fd, parts, count, 0);
    return n;
}

ptrdiff_t wf_quiet_writev(int fd, const struct iovec *parts, int count)
{
    return write_held(fd, parts, count, 0);
}

ptrdiff_t wf_quiet_write_nothing(int fd)
{
    int kept = errno;
    struct wf_sigpipe held;
    wf_sigpipe_hold(&held);
    return quieten(&held, wf_negative_errno(wf_raw_write(fd, "", 0), kept));
}

static bool is_pipe(int fd)
{
    struct stat st;
    int kept = errno;
    bool is = fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
    errno = kept;
    return is;
}

static bool has_no_reader(int fd)
{
    struct pollfd p = {.fd = fd, .events = 0};
    return wf_poll_until(&p, 1, INT64_MIN) > 0 && p.revents & POLLERR;
}

ptrdiff_t wf_quiet_broken(int fd, ptrdiff_t (*again)(void *arg), void *arg)
{
    if (!is_pipe(fd))
        return -EPIPE;
    ptrdiff_t n = again(arg);
    bool broken = n == -EPIPE;
    if (n == -EOPNOTSUPP) { /* a FIFO on which a write cannot be told not to wait */
        broken = has_no_reader(fd);
        n = -EPIPE;
    }
    if (broken && is_pipe(fd))
        raise(SIGPIPE); /* to the calling thread, as the kernel does */
    return n;
}
