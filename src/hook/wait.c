/*
 * hook/wait.c: see wait.h.
 */
#include "hook/wait.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <weft/fiber.h>
#include <weft/io.h>

#include "hook/never.h"
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

pid_t wf_process(void)
{
    return home;
}

/* The child of vfork(2) has our memory, and our fibers are not its own. */
bool wf_may_wait(void)
{
    return !wf_in_handler() && (pid_t)syscall(SYS_getpid) == home;
}

void wf_share(int fd)
{
    int kept = errno;
    int flags = fd < 0 ? 0 : fcntl(fd, F_GETFL);
    if (flags >= 0 && !(flags & O_NONBLOCK) && wf_may_wait())
        weft_yield();
    errno = kept;
}

bool wf_fails_cancelled(void)
{
    if (!wf_may_wait())
        return false;
    wf_spent(-1, 0);
    errno = ECANCELED;
    return true;
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
    weft_time until = limit_of(fd, events);
    if (until.ns == WEFT_FOREVER.ns && wf_never_waits(fd, events))
        return WF_WAIT_BLOCK; /* it will not */
    *w = (struct wf_waiting){.begun = true,
                             .has_part = w->has_part,
                             .is_limited = until.ns != WEFT_FOREVER.ns,
                             .until = until,
                             .section = w->section};
    /* Of a UNIX socket that can be written to no more poll(2) says nothing, though a send would fail. */
    w->looks_again = events == POLLOUT && wf_option(fd, SO_DOMAIN) == AF_UNIX;
    w->is_datagram = w->looks_again && wf_option(fd, SO_TYPE) == SOCK_DGRAM;
    return WF_WAIT_AGAIN;
}

/*
 * Whether poll(2) has said that it is ready, and the call has found nothing all the same. That is so of a UNIX socket that sends to
 * another than it is connected to, if that one is full; and of any with something in its error queue (IP_RECVERR, time
 * stamps, MSG_ZEROCOPY): it has POLLERR until that is read.
 */
static bool is_told_wrong(const struct wf_waiting *w, int events)
{
    return w->events != 0 && (w->is_datagram || !(w->events & (events | POLLHUP)));
}

#define LONGEST_PAUSE (5 * WEFT_MS)

int wf_pause(struct wf_section *s, weft_span *pause, enum wf_ends ends, weft_time until)
{
    *pause = *pause == 0 ? 100 * WEFT_US : *pause < LONGEST_PAUSE ? 2 * *pause : *pause;
    weft_time soon = weft_in(*pause);
    return wf_sleep_until(s, ends, soon.ns < until.ns ? soon : until);
}

/* So that it is not asked over and over without a pause. 0, or a negative errno; -EBADF: another has the number now. */
static int pause_a_little(struct wf_waiting *w, int fd)
{
    struct stat before, after;
    if (weft_now().ns >= w->until.ns)
        return -ETIMEDOUT;
    bool known = fstat(fd, &before) == 0;
    int rc = wf_pause(&w->section, &w->pause, wf_ends_of(w), w->until);
    if (rc == 0 && (!known || fstat(fd, &after) != 0 || before.st_ino != after.st_ino || before.st_dev != after.st_dev))
        rc = -EBADF;
    return rc;
}

enum wf_wait wf_wait_unless_ready(struct wf_waiting *w, int fd, int events)
{
    int kept = errno;
    struct pollfd p = {.fd = fd, .events = (short)events};
    enum wf_wait next = w->begun ? WF_WAIT_AGAIN : wf_wait_begin(w, fd, events);
    if (next != WF_WAIT_AGAIN)
        return next;
    if (wf_real.poll(&p, 1, 0) <= 0) {
        errno = kept;
        return wf_wait_ready(w, fd, events);
    }
    w->events = p.revents;
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
    int n = unlikely(is_told_wrong(w, events)) ? pause_a_little(w, fd) : 0;
    if (n == 0)
        n = wf_wait_fd(&w->section, fd, (unsigned)events, wf_ends_of(w), early ? soon : w->until);
    if (unlikely(wf_cannot_be_told(n)))
        n = pause_a_little(w, fd);
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
