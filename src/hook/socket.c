/*
 * hook/socket.c: the names that make connections, and those that end descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <weft/io.h>
#include <weft/offload.h>

#include "hook/away.h"
#include "hook/interrupt.h"
#include "hook/never.h"
#include "hook/real.h"
#include "hook/signal.h"
#include "hook/transfer.h"
#include "hook/wait.h"

/* A call that can only fail is the system's. */
static bool accepts(int fd, int flags)
{
    return !(flags & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)) && wf_option(fd, SO_ACCEPTCONN) == 1;
}

/* The kernel has a number for it before it looks whether there is a connection: false, and errno says why there is none. */
static bool has_number_left(int fd)
{
    int number = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (number >= 0)
        wf_real.close(number);
    return number >= 0;
}

/* What has come is taken at once. Then the fiber waits. */
static int take_connection(int fd, struct sockaddr *from, socklen_t *size, int flags, struct wf_waiting *w)
{
    for (;;) {
        int made = weft_accept(fd, from, size, flags, WEFT_NOW);
        if (made != -EAGAIN)
            return made;
        if (likely(!wf_is_interruptible()))
            return weft_accept(fd, from, size, flags, w->until);
        int rc = wf_wait_fd(&w->section, fd, POLLIN, wf_ends_of(w), w->until);
        if (rc < 0)
            return rc;
    }
}

HOOK int accept4(int fd, struct sockaddr *from, socklen_t *size, int flags)
{
    struct wf_waiting w = {0};
    int kept = errno;
    if (likely(!wf_hooked_here()))
        return wf_real.accept4(fd, from, size, flags);
    if (wf_cancelled())
        return -1;
    if (!accepts(fd, flags) || wf_wait_begin(&w, fd, POLLIN) != WF_WAIT_AGAIN) {
        errno = kept;
        return wf_real.accept4(fd, from, size, flags);
    }
    if (!has_number_left(fd))
        return -1;
    int made = take_connection(fd, from, size, flags, &w);
    while (unlikely(wf_cannot_be_told(made)) && has_number_left(fd)) {
        if (wf_wait_ready(&w, fd, POLLIN) == WF_WAIT_OVER)
            return -1;
        errno = kept;
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (wf_real.poll(&p, 1, 0) != 0)
            return wf_real.accept4(fd, from, size, flags); /* weft_accept might take the last number for itself */
    }
    return made >= 0 ? (int)wf_spent(fd, made) : wf_fails(made == -ETIMEDOUT ? EAGAIN : -made);
}

HOOK int accept(int fd, struct sockaddr *from, socklen_t *size)
{
    return likely(!wf_hooked_here()) ? wf_real.accept(fd, from, size) : accept4(fd, from, size, 0);
}

/* ---- connect ---- */

/* A connect(2) for a helper to make. */
struct connecting {
    struct wf_away away;
    int fd;       /* a duplicate: what the caller has may be closed meanwhile */
    bool borrows; /* the caller's own, as none could be made: it waits for the end */
    socklen_t size;
    struct sockaddr_storage to;
};

static void make_connection(struct wf_away *call)
{
    struct connecting *c = (struct connecting *)call;
    int rc = wf_real.connect(c->fd, (struct sockaddr *)&c->to, c->size), error = errno;
    if (!c->borrows)
        weft_own_close(c->fd);
    errno = rc == 0 ? 0 : error;
}

static void let_go(struct wf_away *call)
{
    struct connecting *c = (struct connecting *)call;
    if (!call->made && !c->borrows)
        weft_own_close(c->fd);
}

/* By a helper, which waits as the kernel does, its timeouts included: 0, or errno. */
static int connect_away(int fd, const struct sockaddr *to, socklen_t size)
{
    struct connecting *c = malloc(sizeof *c);
    if (!c)
        return ENOMEM;
    *c = (struct connecting){
        .away = {.make = make_connection, .discard = let_go}, .fd = weft_own_dup(fd), .size = size};
    c->borrows = c->fd < 0;
    if (c->borrows)
        c->fd = fd;
    memcpy(&c->to, to, size);
    if (!(c->borrows ? wf_away_to_its_end(&c->away, WEFT_OFFLOAD_NET) : wf_away(&c->away, WEFT_OFFLOAD_NET)))
        return errno;
    int error = c->away.error;
    free(c);
    return error;
}

/* A copy of an address, if it is one that can be read: else it is for the kernel to say so. */
static bool copy_address(struct sockaddr_storage *copy, const struct sockaddr *to, socklen_t size)
{
    if (!to || size < sizeof(sa_family_t) || size > sizeof *copy)
        return false;
    int kept = errno;
    struct iovec mine = {copy, size}, theirs = {(void *)to, size};
    ssize_t n = process_vm_readv(getpid(), &mine, 1, &theirs, 1, 0);
    if (n < 0 && errno != EFAULT) { /* it is not allowed here */
        memcpy(copy, to, size);
        n = (ssize_t)size;
    }
    errno = kept;
    return n == (ssize_t)size;
}

/* Whether an earlier call has begun it. */
static bool is_under_way(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_state == TCP_SYN_SENT;
}

/*
 * As weft_connect, but tries first: what the kernel does at once is done at once. What is under way then, also by an
 * earlier call, is waited for, and made by another try: the socket's state is then what a blocking connect(2) leaves.
 */
static int connect_inet(int fd, const struct sockaddr *to, socklen_t size, struct wf_waiting *w)
{
    for (;;) {
        int rc = weft_connect(fd, to, size, WEFT_NOW);
        if (rc != -EAGAIN)
            return rc;
        if (!is_under_way(fd)) /* nothing was begun: there is no ring to try in. Or it has just been made */
            return weft_connect(fd, to, size, w->until);
        rc = wf_wait_fd(&w->section, fd, POLLOUT, wf_ends_of(w), w->until);
        if (rc < 0)
            return rc;
    }
}

HOOK int connect(int fd, const struct sockaddr *to, socklen_t size)
{
    struct wf_waiting w = {0};
    int kept = errno;
    struct sockaddr_storage copy;
    if (likely(!wf_hooked_here()))
        return wf_real.connect(fd, to, size);
    if (wf_cancelled())
        return -1;
    if (!copy_address(&copy, to, size) || wf_wait_begin(&w, fd, POLLOUT) != WF_WAIT_AGAIN) {
        errno = kept;
        return wf_real.connect(fd, to, size);
    }
    int type = wf_option(fd, SO_TYPE), error;
    to = (struct sockaddr *)&copy;
    if ((type != SOCK_STREAM && type != SOCK_SEQPACKET) || to->sa_family == AF_UNSPEC) {
        errno = kept;
        return wf_real.connect(fd, to, size); /* there is nothing to wait for */
    }
    if (to->sa_family == AF_INET || to->sa_family == AF_INET6) {
        bool limited = w.until.ns != WEFT_FOREVER.ns, again = limited && is_under_way(fd);
        error = -connect_inet(fd, to, size, &w);
        if (error == EMFILE) /* a connect(2) needs no descriptor */
            error = connect_away(fd, to, size);
        if (error == ETIMEDOUT && limited && weft_now().ns >= w.until.ns)
            error = again ? EALREADY : EINPROGRESS; /* what SO_SNDTIMEO ends with */
    } else {
        error = connect_away(fd, to, size);
    }
    errno = error ? error : kept;
    return error ? -1 : 0;
}

/* ---- the end ---- */

/* Whether who waits is to be told. A handler may have interrupted who deals with that very number. */
static inline __attribute__((always_inline)) bool tells(int fd)
{
    return wf_hooks_on && fd >= 0 && likely(!wf_in_handler()) && weft_closing((unsigned)fd, (unsigned)fd);
}

/* Of SO_LINGER: how long the end of such a socket may take; 0: it does not. */
static weft_span linger_of(int fd)
{
    struct linger l = {0};
    socklen_t size = sizeof l;
    int kept = errno;
    bool lingers = getsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &size) == 0 && l.l_onoff && l.l_linger > 0 &&
                   wf_option(fd, SO_PROTOCOL) == IPPROTO_TCP && wf_may_wait();
    errno = kept;
    return lingers ? l.l_linger * (weft_span)WEFT_SEC : 0;
}

/* Whether what was sent, the end included, has not all arrived. */
static bool is_under_way_out(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
           (info.tcpi_state == TCP_FIN_WAIT1 || info.tcpi_state == TCP_CLOSING || info.tcpi_state == TCP_LAST_ACK);
}

/*
 * Ends a copy of a socket that lingers, as the kernel does: it waits until all has arrived, or the time is over, and what is
 * left then goes on without us. If something came that nobody has read it is reset at once, and there is no wait.
 */
static void linger(int fd, weft_span limit)
{
    weft_time until = weft_in(limit);
    int unread = 0;
    if (ioctl(fd, FIONREAD, &unread) == 0 && unread == 0) {
        shutdown(fd, SHUT_WR);
        weft_span pause = 0;
        struct wf_section section = {0};
        while (is_under_way_out(fd) && weft_now().ns < until.ns &&
               wf_pause(&section, &pause, WF_ENDS_ALWAYS, until) == 0)
            ;
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){0}, sizeof(struct linger));
    }
    weft_own_close(fd);
}

/* Calls that end what has a number. */
struct ending {
    enum { CLOSE, DUP2, DUP3 } which;
    int fd, from, flags;
};

/* `told`: who waits on the number has been told, and others are kept from it until it is over. */
static int end_number(struct ending e, bool told)
{
    weft_span limit = wf_hooked_here() ? linger_of(e.fd) : 0;
    int copy = limit > 0 ? weft_own_dup(e.fd) : -1;
    int rc = e.which == CLOSE  ? wf_real.close(e.fd)
             : e.which == DUP2 ? wf_real.dup2(e.from, e.fd)
                               : wf_real.dup3(e.from, e.fd, e.flags);
    int error = errno;
    if (told)
        weft_closed((unsigned)e.fd, (unsigned)e.fd);
    if (copy >= 0)
        linger(copy, limit);
    errno = error;
    return rc;
}

static __attribute__((noinline)) int close_number(int fd, bool told)
{
    return end_number((struct ending){.which = CLOSE, .fd = fd}, told);
}

/* Whether the library keeps it for itself: the program has no descriptor of that number. */
static inline __attribute__((always_inline)) bool is_own(int fd)
{
    return wf_hooks_on && fd >= 0 && weft_own_next((unsigned)fd, (unsigned)fd) >= 0;
}

HOOK int close(int fd)
{
    if (unlikely(is_own(fd)))
        return wf_fails(EBADF);
    bool told = tells(fd);
    return likely(!told && !weft_hooked()) ? wf_real.close(fd) : close_number(fd, told);
}

/* Whether a duplicate of it can be made: if not, what has the other number stays. */
static bool is_open(int fd)
{
    int kept = errno;
    bool is = fcntl(fd, F_GETFD) >= 0;
    errno = kept;
    return is;
}

HOOK int dup2(int from, int to)
{
    if (!wf_hooks_on || from == to || !is_open(from))
        return wf_real.dup2(from, to);
    if (is_own(to))
        return wf_fails(EBADF);
    struct ending e = {.which = DUP2, .fd = to, .from = from};
    return end_number(e, tells(to));
}

HOOK int dup3(int from, int to, int flags)
{
    if (!wf_hooks_on || from == to || flags & ~O_CLOEXEC || !is_open(from))
        return wf_real.dup3(from, to, flags);
    if (is_own(to))
        return wf_fails(EBADF);
    struct ending e = {.which = DUP3, .fd = to, .from = from, .flags = flags};
    return end_number(e, tells(to));
}

/* All but what the library keeps for itself: a program that has closed all goes on. An exec closes that. */
static int close_around_own(unsigned first, unsigned last, int flags)
{
    int own;
    while ((own = weft_own_next(first, last)) >= 0) {
        if ((unsigned)own > first && wf_real.close_range(first, (unsigned)own - 1, flags) != 0)
            return -1;
        if ((unsigned)own == last)
            return 0;
        first = (unsigned)own + 1;
    }
    return wf_real.close_range(first, last, flags);
}

/* With a flag it closes nothing, or nothing that this table of descriptors has. */
HOOK int close_range(unsigned first, unsigned last, int flags)
{
    if (!wf_hooks_on || first > last)
        return wf_real.close_range(first, last, flags);
    if (flags != 0 || wf_in_handler() || !weft_closing(first, last))
        return close_around_own(first, last, flags);
    int rc = close_around_own(first, last, flags);
    weft_closed(first, last);
    return rc;
}

HOOK void closefrom(int low)
{
    int kept = errno;
    if (!wf_hooks_on || close_range(low > 0 ? (unsigned)low : 0, ~0u, 0) != 0) /* an old kernel has no close_range */
        wf_real.closefrom(low);
    errno = kept;
}

/* Whether it is a limit that never lets a call wait: one that the kernel takes for that. */
static bool is_never(const void *value, socklen_t size)
{
    struct timeval t;
    if (!value || size < sizeof t)
        return false;
    memcpy(&t, value, sizeof t);
    return t.tv_sec < 0 && t.tv_usec >= 0 && t.tv_usec < 1000000;
}

/* Sets a limit. If it cannot be remembered that a socket never waits, it has the shortest limit there is instead. */
static int set_limit(int fd, int name, int events, const void *value, socklen_t size)
{
    int rc = wf_real.setsockopt(fd, SOL_SOCKET, name, value, size); /* which has looked whether there is a value */
    if (rc == 0 && !wf_never_note(fd, events, is_never(value, size)))
        rc = wf_real.setsockopt(fd, SOL_SOCKET, name, &(struct timeval){.tv_usec = 1}, sizeof(struct timeval));
    return rc;
}

/* Only to know what the kernel does not tell when it is asked (never.h), or who would have to be asked too often. */
HOOK int setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
    if (level == SOL_SOCKET && likely(wf_hooks_on)) {
        if (name == SO_RCVTIMEO || name == SO_RCVTIMEO_NEW)
            return set_limit(fd, name, POLLIN, value, size);
        if (name == SO_SNDTIMEO || name == SO_SNDTIMEO_NEW)
            return set_limit(fd, name, POLLOUT, value, size);
        if (name == SO_RCVLOWAT)
            __atomic_store_n(&wf_low_marks, true, __ATOMIC_RELAXED);
    }
    return wf_real.setsockopt(fd, level, name, value, size);
}
