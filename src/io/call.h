/*
 * io/call.h: what system calls on descriptors have in common here: errno is the user's, and stays as it was.
 */
#ifndef WF_IO_CALL_H
#define WF_IO_CALL_H

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <time.h>

#include "base/errno.h"
#include "base/syscall.h"

/* Whether calls on it wait, as it has no O_NONBLOCK. */
static inline bool wf_is_blocking(int fd)
{
    int kept = errno, flags = fcntl(fd, F_GETFL);
    errno = kept;
    return flags >= 0 && !(flags & O_NONBLOCK);
}

/*
 * Around calls that cannot be told to raise no SIGPIPE: hold it back, and let it go with the call's result. One that the
 * call has raised for a socket is taken away; for a pipe it comes, as with write(2).
 */
struct wf_sigpipe {
    sigset_t mask; /* what the thread's was */
    bool pending;  /* one had come before */
};

static inline void wf_sigpipe_hold(struct wf_sigpipe *held)
{
    sigset_t only, pending;
    sigemptyset(&only);
    sigaddset(&only, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &only, &held->mask);
    held->pending = sigismember(&held->mask, SIGPIPE) && sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE);
}

static inline void wf_sigpipe_release(const struct wf_sigpipe *held, int to, ptrdiff_t result)
{
    int kept = errno, type;
    socklen_t size = sizeof type;
    if (result == -EPIPE && !held->pending && getsockopt(to, SOL_SOCKET, SO_TYPE, &type, &size) == 0) {
        sigset_t only;
        sigemptyset(&only);
        sigaddset(&only, SIGPIPE);
        sigtimedwait(&only, NULL, &(struct timespec){0});
    }
    pthread_sigmask(SIG_SETMASK, &held->mask, NULL);
    errno = kept;
}

#endif
