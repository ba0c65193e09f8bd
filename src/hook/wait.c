/*
 * hook/wait.c: see wait.h.
 */
#include "hook/wait.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <weft/io.h>

#include "hook/real.h"
#include "hook/signal.h"

static pid_t home; /* the process that this memory is of. const but for a fork */

static void note_process(void)
{
    home = (pid_t)syscall(SYS_getpid);
}

__attribute__((constructor(102))) static void set_up(void)
{
    note_process();
    pthread_atfork(NULL, NULL, note_process);
}

/* The child of vfork(2) has our memory, and our fibers are not its own. */
bool wf_may_wait(void)
{
    return !wf_in_handler() && (pid_t)syscall(SYS_getpid) == home;
}

weft_time wf_ahead(long long seconds, long long nanoseconds)
{
    if (seconds > INT64_MAX / WEFT_SEC / 4)
        return WEFT_FOREVER;
    return weft_in(seconds * WEFT_SEC + nanoseconds);
}

/* Until when a call may wait; the kernel says {0, 0} for no limit, and for what is no socket there is none. */
static weft_time limit_of(int fd, int events)
{
    struct timeval t = {0};
    socklen_t size = sizeof t;
    int kept = errno;
    bool none = getsockopt(fd, SOL_SOCKET, events == POLLIN ? SO_RCVTIMEO : SO_SNDTIMEO, &t, &size) != 0 ||
                (t.tv_sec == 0 && t.tv_usec == 0);
    errno = kept;
    return none ? WEFT_FOREVER : wf_ahead(t.tv_sec, t.tv_usec * 1000LL);
}

#define LOOK_AGAIN (100 * WEFT_MS)

int wf_option(int fd, int name)
{
    int value = -1, kept = errno;
    socklen_t size = sizeof value;
    if (getsockopt(fd, SOL_SOCKET, name, &value, &size) != 0)
        value = -1;
    errno = kept;
    return value;
}

enum wf_wait wf_wait_begin(struct wf_waiting *w, int fd, int events)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return WF_WAIT_OVER;
    if (flags & O_NONBLOCK) {
        errno = EAGAIN;
        return WF_WAIT_OVER;
    }
    if (!wf_may_wait())
        return WF_WAIT_BLOCK;
    *w = (struct wf_waiting){.begun = true, .until = limit_of(fd, events)};
    /* Of a UNIX socket that can be written to no more poll(2) says nothing, though a send would fail. */
    w->looks_again = events == POLLOUT && wf_option(fd, SO_DOMAIN) == AF_UNIX;
    return WF_WAIT_AGAIN;
}

enum wf_wait wf_wait_ready(struct wf_waiting *w, int fd, int events)
{
    int kept = errno;
    if (!w->begun) {
        enum wf_wait next = wf_wait_begin(w, fd, events);
        if (next != WF_WAIT_AGAIN)
            return next;
    }
    weft_time soon = w->looks_again ? weft_in(LOOK_AGAIN) : w->until;
    bool early = soon.ns < w->until.ns;
    int n = weft_wait_fd(fd, (unsigned)events, early ? soon : w->until);
    if (n == -ETIMEDOUT && early)
        n = 0;
    if (n == -EPERM) /* it is always ready */
        return WF_WAIT_BLOCK;
    if (n < 0) {
        errno = n == -ETIMEDOUT ? EAGAIN : -n;
        return WF_WAIT_OVER;
    }
    w->events = n;
    errno = kept;
    return WF_WAIT_AGAIN;
}
