/*
 * io/socket.c: accepting, connecting, closing. accept(2) and connect(2) have no flag that says not to wait: on a descriptor
 * that is blocking they are made only when they do not wait.
 */
#include "io/socket.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <weft/io.h>

#include "base/errno.h"
#include "base/fork.h"
#include "base/own.h"
#include "base/raw.h"
#include "base/sys.h"
#include "base/thread.h"
#include "io/attempt.h"
#include "io/call.h"
#include "io/fd.h"
#include "io/set.h"
#include "io/uring.h"
#include "offload/offload.h"
#include "sched/budget.h"
#include "sched/slice.h"
#include "sched/wait.h"

/* Nothing is there to be accepted: -EAGAIN, or what accept(2) would say to a descriptor that is none to accept from. */
static int why_none(int fd)
{
    int kept = errno, listens = 0;
    socklen_t size = sizeof listens;
    int rc = (int)wf_negative_errno(getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size), kept);
    return rc != 0 ? rc : listens ? -EAGAIN : -EINVAL;
}

static int call_accept(int fd, struct sockaddr *from, socklen_t *size, int flags)
{
    int kept = errno, rc;
    wf_sys_point(WF_SYS_ACCEPT);
    do
        rc = (int)wf_negative_errno(wf_raw_accept4(fd, from, size, flags), kept);
    while (rc == -EINTR);
    return rc;
}

static bool has_none(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return wf_poll_until(&p, 1, INT64_MIN) == 0;
}

/*
 * One try. What poll has seen on a blocking descriptor another may take: without a ring, who accepts there holds its lock, so
 * that it is none of ours. A thread that calls accept(2) itself, or another process, may still, and then we wait.
 */
WF_NOINLINE static int try_accept(struct wf_fd *e, int fd, struct sockaddr *from, socklen_t *size, int flags)
{
    if (!wf_is_blocking(fd))
        return call_accept(fd, from, size, flags);
    if (has_none(fd))
        return why_none(fd);
    int rc = wf_attempt_accept(fd, from, size, flags);
    if (rc != -ENOSYS)
        return rc;
    wf_lock(&e->lock);
    rc = has_none(fd) ? why_none(fd) : call_accept(fd, from, size, flags);
    wf_unlock(&e->lock);
    return rc;
}

#if WF_URING_BUILT
/* By the ring, if the fiber may use one. -EAGAIN: it may not, or O_NONBLOCK is set and there is nothing. */
static int call_in_ring(const struct wf_fd_ref *of, const struct wf_request *r, weft_time deadline)
{
    struct wf_set *ring = wf_time_is_now(deadline) ? NULL : wf_set_for_calls(r->fd);
    int rc;
    do
        rc = ring ? (int)wf_uring_call(ring, of, r, deadline) : -EAGAIN;
    while (rc == -EINTR);
    return rc;
}
#else
static int call_in_ring(const struct wf_fd_ref *of, const struct wf_request *r, weft_time deadline)
{
    (void)of, (void)r, (void)deadline;
    return -EAGAIN;
}
#endif

/*
 * An accept in a ring is woken alone of all that wait on the socket, those of other processes included; if its process is
 * being killed, or it is being cancelled, nobody is, and the connection waits for the next one to come. So only who cannot
 * do otherwise accepts there: on a descriptor that blocks. Others wait for readiness, which wakes all.
 */
static int accept_in_ring(const struct wf_fd_ref *of, const struct wf_request *r, weft_time deadline)
{
    return wf_set_for_calls(r->fd) && wf_is_blocking(r->fd) ? call_in_ring(of, r, deadline) : -EAGAIN;
}

/* Whatever had the number before: this is a new one. */
static int accepted(int fd)
{
    if (fd >= 0)
        wf_fd_fresh(fd);
    return fd;
}

int wf_accept(const struct wf_fd_ref *of, struct sockaddr *from, socklen_t *size, int flags, weft_time deadline)
{
    if (wf_cancel_point(wf_thread_now()->fiber, deadline))
        return -ECANCELED;
    struct wf_request r = {.call = WF_CALL_ACCEPT, .fd = of->fd, .flags = flags, .memory = from, .accepted = size};
    int in_ring = accept_in_ring(of, &r, deadline);
    if (in_ring != -EAGAIN)
        return accepted(in_ring);
    bool tried = false;
    for (int rc = 0;;) {
        if (rc != 0 || wf_time_is_now(deadline) || !(wf_load(&of->e->word) & WF_FD_DRAINED_IN)) {
            if (!wf_fd_enter(of, WF_FD_DRAINED_IN))
                return -EBADF;
            int made = try_accept(of->e, of->fd, from, size, flags);
            wf_fd_exit(of, made == -EAGAIN ? 0 : WF_FD_DRAINED_IN, 0);
            if (made != -EAGAIN || wf_time_is_now(deadline)) {
                made = accepted(made);
                wf_budget_spend_anywhere(WF_COST_IO, !wf_time_is_now(deadline));
                return made;
            }
            tried = true;
        }
        if (rc < 0)
            return rc;
        rc = wf_fd_wait(of, POLLIN, WF_FD_DRAINED_IN, deadline);
        if (rc == -EPERM)
            rc = 1; /* it cannot be waited for: a try tells what it is */
        if (rc < 0 && (rc != -ETIMEDOUT || tried))
            return rc;
    }
}

int weft_accept(int fd, struct sockaddr *from, socklen_t *size, int flags, weft_time deadline)
{
    wf_slice_enter();
    struct wf_fd_ref of;
    int rc = wf_fd_refer(&of, fd);
    return rc != 0 ? rc : wf_accept(&of, from, size, flags, deadline);
}

/* How a connect that was under way has ended. */
static int connect_error(int fd)
{
    int kept = errno, error = 0;
    socklen_t size = sizeof error;
    int rc = (int)wf_negative_errno(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size), kept);
    return rc != 0 ? rc : -error;
}

WF_NOINLINE static int try_connect(int fd, const struct sockaddr *to, socklen_t size)
{
    int kept = errno, rc;
    do
        rc = (int)wf_negative_errno(wf_raw_connect(fd, to, size), kept);
    while (rc == -EINTR);
    return rc;
}

/* On a blocking descriptor, without a wait. -ENOSYS: that cannot be. */
static int begin_connect(int fd, const struct sockaddr *to, socklen_t size)
{
    if (size < sizeof to->sa_family || (to->sa_family != AF_INET && to->sa_family != AF_INET6))
        return -ENOSYS;
    int rc = wf_attempt_connect(fd, to, size);
    return rc == -EALREADY ? -EINPROGRESS : rc;
}

/* How it has ended; as of one who has waited, another connect(2) is EISCONN from now on. */
static int end_connect(int fd, const struct sockaddr *to, socklen_t size)
{
    int rc = begin_connect(fd, to, size);
    return rc == -ENOSYS ? connect_error(fd) : rc;
}

/* connect(2) on a blocking descriptor, by a helper, which has a descriptor of its own: ours may be closed meanwhile. */
struct connecting {
    struct wf_errand_end closed; /* ours is. The first member: it is found by that */
    struct wf_waiter node;       /* guarded by: of.e->lock */
    struct wf_fd_ref of;         /* ours */
    int fd, result;              /* fd: its own */
    socklen_t size;
    struct sockaddr_storage to;
};

static void *connect_on_helper(void *arg)
{
    struct connecting *c = arg;
    c->result = try_connect(c->fd, (struct sockaddr *)&c->to, c->size);
    return c;
}

static void drop_connecting(void *arg, void *value)
{
    (void)value;
    struct connecting *c = arg;
    wf_own_close(c->fd);
    wf_sys_free(c);
}

static bool link_to_close(struct wf_errand_end *end, struct wf_sleeper *me)
{
    struct connecting *c = (struct connecting *)end;
    c->node.data = (void *)(uintptr_t)WF_FD_TOLD; /* no event, only a close */
    return wf_fd_link(&c->of, &c->node, me);
}

static void unlink_from_close(struct wf_errand_end *end)
{
    struct connecting *c = (struct connecting *)end;
    wf_fd_unlink(c->of.e, &c->node);
}

/* Another descriptor of the same socket; a negative errno. */
static int duplicate(const struct wf_fd_ref *of)
{
    if (!wf_fd_enter(of, 0))
        return -EBADF;
    int fd = wf_own_dup(of->fd);
    wf_fd_leave(of);
    return fd;
}

WF_COLD static int connect_by_helper(const struct wf_fd_ref *of, const struct sockaddr *to, socklen_t size,
                                     weft_time deadline)
{
    struct connecting *c = wf_sys_malloc(sizeof *c);
    if (!c)
        return -ENOMEM;
    *c = (struct connecting){
        .closed = {link_to_close, unlink_from_close, -EBADF}, .of = *of, .fd = duplicate(of), .size = size};
    memcpy(&c->to, to, size);
    struct wf_errand errand = {
        .fn = connect_on_helper, .arg = c, .drop = drop_connecting, .end = &c->closed, .kind = WEFT_OFFLOAD_NET};
    int rc = c->fd < 0 ? c->fd : wf_offload(&errand, NULL, deadline);
    if (rc == -ETIMEDOUT || rc == -ECANCELED || (rc == -EBADF && c->fd >= 0))
        return rc;
    if (rc == 0)
        rc = c->result;
    if (c->fd >= 0)
        wf_own_close(c->fd);
    wf_sys_free(c);
    return rc;
}

/* Whether connect(2) could hold up the worker, or a thread past its deadline. */
static bool may_wait(int fd, const struct sockaddr *to, socklen_t size, weft_time deadline)
{
    int kept = errno, type = 0;
    socklen_t type_size = sizeof type;
    bool known = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) == 0;
    errno = kept;
    return known && type != SOCK_DGRAM && to && size <= sizeof(struct sockaddr_storage) &&
           (wf_thread_now()->fiber || deadline.ns != INT64_MAX) && wf_is_blocking(fd);
}

static bool never(const void *arg)
{
    (void)arg;
    return false;
}

/* Sleeps. weft_close ends the sleep of a fiber (-EBADF); a plain thread notices it when it tries again. */
static int pause_until(const struct wf_fd_ref *of, weft_time until)
{
    if (!wf_thread_now()->fiber)
        return weft_sleep_until(until);
    int rc = wf_fd_wait_until(of, never, NULL, until);
    return rc == -ETIMEDOUT ? 0 : rc;
}

#define FIRST_PAUSE WEFT_MS
#define LONGEST_PAUSE (100 * WEFT_MS)

/* One try. *is_full: a UNIX listener's backlog is full. (On a blocking socket EAGAIN is the end of SO_SNDTIMEO.) */
static int connect_here(const struct wf_fd_ref *of, const struct sockaddr *to, socklen_t size, bool *is_full)
{
    if (!wf_fd_enter(of, 0))
        return -EBADF;
    int rc = try_connect(of->fd, to, size);
    *is_full = wf_unlikely(rc == -EAGAIN) && to->sa_family == AF_UNIX && !wf_is_blocking(of->fd);
    wf_fd_exit(of, WF_FD_DRAINED_IN | WF_FD_DRAINED_OUT, 0);
    return rc;
}

/* Nothing tells when a full backlog has room again. So the call tries again by the clock, and at its deadline. */
static int connect_when_room(const struct wf_fd_ref *of, const struct sockaddr *to, socklen_t size, weft_time deadline)
{
    bool is_full = false, is_last = wf_time_is_now(deadline);
    int rc = connect_here(of, to, size, &is_full);
    for (weft_span pause = FIRST_PAUSE; wf_unlikely(is_full) && !is_last; pause *= pause < LONGEST_PAUSE ? 2 : 1) {
        weft_time until = weft_in(pause);
        is_last = until.ns >= deadline.ns;
        rc = pause_until(of, is_last ? deadline : until);
        if (rc != 0)
            return rc;
        rc = connect_here(of, to, size, &is_full);
        if (is_full && is_last)
            return -ETIMEDOUT;
    }
    return rc;
}

/* On a blocking descriptor, where connect(2) must not wait on this thread. */
static int connect_elsewhere(const struct wf_fd_ref *of, const struct sockaddr *to, socklen_t size, weft_time deadline)
{
    if (!wf_fd_enter(of, 0))
        return -EBADF;
    int rc = begin_connect(of->fd, to, size);
    wf_fd_exit(of, WF_FD_DRAINED_IN | WF_FD_DRAINED_OUT, 0);
    if (rc != -ENOSYS)
        return rc;
    rc = connect_by_helper(of, to, size, deadline);
    if (!wf_fd_enter(of, 0))
        return -EBADF;
    wf_fd_exit(of, WF_FD_DRAINED_IN | WF_FD_DRAINED_OUT, 0);
    return rc;
}

static int wait_for_connection(const struct wf_fd_ref *of, const struct sockaddr *to, socklen_t size, bool blocking,
                               weft_time deadline)
{
    for (;;) {
        int rc = wf_fd_wait(of, POLLOUT, 0, deadline);
        if (rc < 0)
            return rc;
        if (!wf_fd_enter(of, 0))
            return -EBADF;
        struct pollfd p = {.fd = of->fd, .events = POLLOUT};
        bool over = wf_poll_until(&p, 1, INT64_MIN) != 0; /* a socket that is not connecting yet reports HUP */
        rc = !over ? -EINPROGRESS : blocking ? end_connect(of->fd, to, size) : connect_error(of->fd);
        wf_fd_leave(of);
        if (rc != -EINPROGRESS)
            return rc;
    }
}

static int make_connection(const struct wf_fd_ref *of, const struct sockaddr *to, socklen_t size, weft_time deadline)
{
    struct wf_request r = {.call = WF_CALL_CONNECT, .fd = of->fd, .memory = to, .size = size};
    int rc = call_in_ring(of, &r, deadline);
    bool blocking = false;
    if (rc == -EAGAIN) {
        blocking = may_wait(of->fd, to, size, deadline);
        rc = blocking ? connect_elsewhere(of, to, size, deadline) : connect_when_room(of, to, size, deadline);
    }
    if (rc != -EINPROGRESS)
        return rc;
    return wf_time_is_now(deadline) ? -EAGAIN : wait_for_connection(of, to, size, blocking, deadline);
}

int weft_connect(int fd, const struct sockaddr *to, socklen_t size, weft_time deadline)
{
    wf_slice_enter();
    struct wf_fd_ref of;
    int rc = wf_fd_refer(&of, fd);
    if (rc != 0)
        return rc;
    if (wf_cancel_point(wf_thread_now()->fiber, deadline))
        return -ECANCELED;
    rc = make_connection(&of, to, size, deadline);
    wf_budget_spend_anywhere(WF_COST_IO, !wf_time_is_now(deadline));
    return rc;
}

/* Who uses it is told; then it is SHUT. A child of vfork(2) tells nobody. */
static void end_uses(struct wf_fd *e, bool is_guest)
{
    if (!wf_fd_shut(e, !is_guest) && !is_guest)
        wf_fd_close(e);
}

WF_NOINLINE static bool close_one(struct wf_fd *e)
{
    end_uses(e, wf_fork_is_guest());
    return true;
}

WF_NOINLINE static bool close_several(unsigned first, unsigned last)
{
    struct wf_fd *e;
    if (!wf_fd_next(&first, last))
        return false;
    bool is_guest = wf_fork_is_guest();
    /* To end uses is to give way, which nobody does who has something SHUT: so in two rounds. */
    for (unsigned fd = first; (e = wf_fd_next(&fd, last)) != NULL; fd++) {
        if (wf_own_holds((int)fd))
            continue;
        end_uses(e, is_guest);
        wf_fd_closed(e);
    }
    for (unsigned fd = first; (e = wf_fd_next(&fd, last)) != NULL; fd++) {
        if (!wf_own_holds((int)fd))
            wf_fd_shut(e, !is_guest);
    }
    return true;
}

bool weft_closing(unsigned first, unsigned last)
{
    if (wf_unlikely(first != last))
        return close_several(first, last);
    struct wf_fd *e = first < WF_FD_NUMBERS ? wf_fd_look((int)first) : NULL;
    return e && !wf_own_holds((int)first) ? close_one(e) : false;
}

void weft_closed(unsigned first, unsigned last)
{
    for (struct wf_fd *e; (e = wf_fd_next(&first, last)) != NULL; first++)
        wf_fd_closed(e);
}

/* One that is SHUT, or has no record. */
static int close_number(int fd, struct wf_fd *e)
{
    int kept = errno;
    int rc = (int)wf_negative_errno(wf_raw_close(fd), kept);
    if (e)
        wf_fd_closed(e);
    return rc == -EINTR ? 0 : rc; /* it is closed */
}

int weft_close(int fd)
{
    wf_slice_enter();
    if (wf_unlikely(wf_own_holds(fd)))
        return -EBADF;
    struct wf_fd *e = wf_fd_look(fd);
    if (e)
        wf_fd_close(e);
    return close_number(fd, e);
}

int wf_close_ref(const struct wf_fd_ref *f)
{
    return wf_fd_close_if(f) ? close_number(f->fd, f->e) : -EBADF;
}

int weft_shutdown(int fd, int how)
{
    wf_slice_enter();
    int kept = errno;
    return (int)wf_negative_errno(wf_raw_shutdown(fd, how), kept);
}
