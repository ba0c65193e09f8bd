/*
 * io/process.c: see weft/process.h. Both kinds of waiting are for a descriptor of the moment (pidfd, signalfd): nothing is
 * kept, and no handler is installed.
 */
#include <weft/process.h>

#include <pthread.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/fiber.h>
#include <weft/io.h>

#include "base/errno.h"
#include "base/clock.h"
#include "base/own.h"
#include "base/raw.h"
#include "base/thread.h"
#include "io/call.h"
#include "io/own.h"
#include "sched/slice.h"
#include "sched/wait.h"

#define SHORTEST WEFT_MS /* between two looks at a child, where there are no pidfds */
#define LONGEST (50 * WEFT_MS)

/* 0: it has ended and is reaped; -EAGAIN: it has not. */
static int reap(pid_t pid, int *status)
{
    int kept = errno, state = 0, rc;
    do
        rc = (int)wf_negative_errno(
            WF_RAW(syscall(SYS_wait4, pid, &state, WNOHANG, NULL), waitpid(pid, &state, WNOHANG)), kept);
    while (rc == -EINTR);
    if (rc == 0)
        return -EAGAIN;
    if (rc > 0 && status)
        *status = state;
    return rc > 0 ? 0 : rc;
}

static int open_pid(pid_t pid)
{
#ifdef SYS_pidfd_open
    int kept = errno;
    return wf_own_take_for_call((int)wf_negative_errno(syscall(SYS_pidfd_open, pid, 0), kept));
#else
    (void)pid;
    return -ENOSYS;
#endif
}

/* The kernel, or what stands in for it, has no pidfds: looks now and then. */
WF_COLD static int wait_by_looking(pid_t pid, int *status, weft_time deadline)
{
    for (weft_span pause = SHORTEST;; pause = 2 * pause < LONGEST ? 2 * pause : LONGEST) {
        int64_t now = wf_clock_now();
        bool last = deadline.ns - now <= pause;
        int rc = weft_sleep(last ? deadline.ns - now : pause);
        int ended = reap(pid, status);
        if (ended != -EAGAIN || rc < 0)
            return ended != -EAGAIN ? ended : rc;
        if (last)
            return -ETIMEDOUT;
    }
}

int weft_wait_child(pid_t pid, int *status, weft_time deadline)
{
    wf_slice_here();
    if (pid <= 0)
        return -EINVAL;
    if (wf_cancel_point(wf_thread_now()->fiber, deadline))
        return -ECANCELED;
    int ended = reap(pid, status);
    if (ended != -EAGAIN || wf_time_is_now(deadline))
        return ended;
    int fd = open_pid(pid); /* of the child: it is not reaped yet, unless somebody else does so now */
    if (fd == -ESRCH)
        return reap(pid, status);
    if (fd == -ENOSYS)
        return wait_by_looking(pid, status, deadline);
    if (fd < 0)
        return fd;
    int rc;
    do {
        rc = weft_wait_fd(fd, POLLIN, deadline);
        ended = reap(pid, status);
    } while (rc > 0 && ended == -EAGAIN);
    wf_close_own(fd);
    return ended == -EAGAIN ? rc : ended;
}

/* Whether all of the set is blocked here. */
static bool is_blocked(const sigset_t *set)
{
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    for (int signal = 1; signal <= SIGRTMAX; signal++) {
        if (sigismember(set, signal) == 1 && sigismember(&blocked, signal) == 0 && signal != SIGKILL &&
            signal != SIGSTOP)
            return false;
    }
    return true;
}

/* The number of the one that was taken, or -EAGAIN. */
static int take(int fd, struct signalfd_siginfo *info)
{
    struct signalfd_siginfo taken;
    int kept = errno, rc;
    do
        rc = (int)wf_negative_errno(wf_raw_read(fd, &taken, sizeof taken), kept);
    while (rc == -EINTR);
    if (rc < 0)
        return rc;
    if (info)
        *info = taken;
    return (int)taken.ssi_signo;
}

int weft_wait_signal(const sigset_t *set, struct signalfd_siginfo *info, weft_time deadline)
{
    wf_slice_here();
    if (!set || !is_blocked(set))
        return -EINVAL;
    if (wf_cancel_point(wf_thread_now()->fiber, deadline))
        return -ECANCELED;
    int kept = errno;
    int fd = wf_own_take_for_call((int)wf_negative_errno(signalfd(-1, set, SFD_NONBLOCK | SFD_CLOEXEC), kept));
    if (fd < 0)
        return fd;
    int rc, number;
    do {
        number = take(fd, info);
        rc = number == -EAGAIN ? weft_wait_fd(fd, POLLIN, deadline) : 0;
    } while (rc > 0); /* somebody else may have taken it */
    if (rc == -ETIMEDOUT)
        number = take(fd, info);
    wf_close_own(fd);
    return number != -EAGAIN ? number : rc;
}
