/*
 * io/ops.c: the calls of weft/io.h that read and write. Each tries, and waits if there is nothing; see fd.h for how it
 * knows beforehand that there is nothing. No try waits, whatever the descriptor's flags are: sockets are told so in the
 * call, other kinds by RWF_NOWAIT, and where that does not exist they are polled first.
 */
#include "io/ops.h"

#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/fiber.h>
#include <weft/io.h>

#include "base/errno.h"
#include "base/raw.h"
#include "base/thread.h"
#include "io/call.h"
#include "io/fd.h"
#include "io/file.h"
#include "io/other.h"
#include "io/quiet.h"
#include "io/set.h"
#include "io/uring.h"
#include "sched/budget.h"
#include "sched/wait.h"

/* Nothing can be done now. */
#define NOT_NOW (-EAGAIN)
enum kind { READ, WRITE, READV, WRITEV, RECV, SEND, RECVFROM, SENDTO, RECVMSG, SENDMSG, SENDFILE, NOTHING };

/* A call that is being made. */
struct call {
    enum kind kind;
    bool is_other;       /* its last attempt in a ring has shown that the descriptor is no socket */
    uint8_t unwaited;    /* how often it could not be waited for */
    uint8_t futile;      /* how often it was woken in vain, one after the other */
    bool may_be_file;    /* the call was woken, or does not wait: a file says EAGAIN, and is always ready */
    struct wf_fd_ref of; /* of.e NULL: as the number is when the call begins */
    int flags;
    const struct iovec *parts;
    size_t count;
    union {
        struct msghdr *message;
        const struct sockaddr *to;
        struct {
            struct sockaddr *from;
            socklen_t *size;
        };
        struct {
            const struct wf_fd_ref *from_file;
            off_t *offset;
        };
    };
    socklen_t to_size;
};

typedef ptrdiff_t attempt_fn(struct call *c);

static size_t length(const struct call *c)
{
    size_t bytes = 0;
    for (size_t i = 0; i < c->count; i++)
        bytes += c->parts[i].iov_len;
    return bytes;
}

/* The result of a call that returns a negative errno. */
static ptrdiff_t tried(ptrdiff_t n)
{
    return n == -EWOULDBLOCK ? NOT_NOW : n;
}

/* The same for a call that sets errno, which stays as it was. */
static ptrdiff_t result(ptrdiff_t n, int kept)
{
    return tried(wf_negative_errno(n, kept));
}

/* Whether a short read or write says that there is no more. */
static bool is_stream(int fd)
{
    int kept = errno, protocol = 0, low = 0;
    char ulp[16] = "";
    socklen_t size = sizeof protocol, low_size = sizeof low, ulp_size = sizeof ulp;
    bool is = getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 && protocol == IPPROTO_TCP &&
              getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, &low_size) == 0 && low == 1 &&
              (getsockopt(fd, IPPROTO_TCP, TCP_ULP, ulp, &ulp_size) != 0 || ulp_size == 0 || ulp[0] == '\0');
    errno = kept;
    return is;
}

/* The bits that a call which moved less than it could leaves as they are: it took or filled all. */
static uint64_t after_short(struct call *c)
{
    uint64_t word = wf_load(&c->of.e->word);
    if (wf_unlikely(!(word & WF_FD_KNOWN)))
        return WF_FD_KNOWN | (is_stream(c->of.fd) ? WF_FD_STREAM : 0);
    return word & (WF_FD_KNOWN | WF_FD_STREAM);
}

/* One try. */
static inline __attribute__((always_inline)) ptrdiff_t attempt(struct call *c, attempt_fn *fn, uint64_t drained,
                                                               size_t full)
{
    if (!wf_fd_enter(&c->of, drained))
        return -EBADF;
    ptrdiff_t n;
    do
        n = fn(c);
    while (n == -EINTR);
    uint64_t clear = drained, set = 0;
    if (n == NOT_NOW) {
        clear = 0;
    } else if (n > 0 && (size_t)n < full) {
        set = after_short(c);
        if (set & WF_FD_STREAM && !(wf_load(&c->of.e->word) & WF_FD_ENDING))
            clear = 0;
    }
    wf_fd_exit(&c->of, clear, set);
    return n;
}

static struct wf_other other(const struct call *c)
{
    return (struct wf_other){.of = &c->of, .parts = c->parts, .count = c->count, .may_be_file = c->may_be_file};
}

/* A call of sockets said that it is none: from now on others are tried first. The caller is in wf_fd_enter. */
static ptrdiff_t no_socket(struct call *c)
{
    wf_other_learn(&c->of);
    return -ENOTSOCK;
}

/* Whether the call of sockets that is tried first may be left out. */
static bool skips_socket(const struct call *c)
{
    return c->is_other || wf_load(&c->of.e->word) & WF_FD_NO_SOCKET;
}

/* A datagram to a UNIX socket that it names. */
static bool is_addressed(const struct call *c)
{
    const struct sockaddr *to = c->kind == SENDTO ? c->to : c->kind == SENDMSG ? c->message->msg_name : NULL;
    return to && to->sa_family == AF_UNIX;
}

/* Does something about the descriptor itself, if it is still the same. */
static ptrdiff_t entered(struct call *c, ptrdiff_t (*fn)(struct call *c))
{
    if (!wf_fd_enter(&c->of, 0))
        return -EBADF;
    ptrdiff_t n = fn(c);
    wf_fd_leave(&c->of);
    return n;
}

#if WF_URING_BUILT
/* A read or a write of what is no socket. */
static void describe_other(const struct call *c, struct wf_request *r, bool reads)
{
    r->call = reads ? WF_CALL_READV : WF_CALL_WRITEV;
    r->flags = reads ? 0 : RWF_NOSIGNAL;
    r->memory = c->parts;
    r->size = c->count;
}

/* The call as a ring takes it; `m` is room for what that needs. False: it does not. */
static bool describe(const struct call *c, struct wf_request *r, struct msghdr *m)
{
    bool reads = c->kind == READ || c->kind == READV, socket = !skips_socket(c);
    if (!socket && wf_load(&c->of.e->word) & WF_FD_TERMINAL)
        return false; /* the kernel would wait in the ring's own thread */
    if (is_addressed(c))
        return false; /* the kernel would try on and on */
    if (!socket && (c->kind == WRITE || c->kind == WRITEV) && !wf_is_quiet())
        return false; /* nobody can hold SIGPIPE back */
    *r = (struct wf_request){.fd = c->of.fd, .flags = c->flags, .memory = m, .size = 1};
    *m = (struct msghdr){.msg_iov = (struct iovec *)(uintptr_t)c->parts, .msg_iovlen = c->count};
    switch (c->kind) {
    case READ:
    case WRITE:
    case RECV:
    case SEND:
        r->call = c->kind == READ || c->kind == RECV ? WF_CALL_RECV : WF_CALL_SEND;
        r->memory = c->parts->iov_base;
        r->size = c->parts->iov_len;
        if (socket || c->kind == RECV || c->kind == SEND)
            return true;
        describe_other(c, r, reads);
        return true;
    case READV:
    case WRITEV:
        r->call = c->kind == READV ? WF_CALL_RECVMSG : WF_CALL_SENDMSG;
        if (!socket)
            describe_other(c, r, reads);
        return true;
    case SENDTO:
        r->call = WF_CALL_SENDMSG;
        m->msg_name = (void *)(uintptr_t)c->to;
        m->msg_namelen = c->to_size;
        return true;
    case RECVMSG:
    case SENDMSG:
        r->call = c->kind == RECVMSG ? WF_CALL_RECVMSG : WF_CALL_SENDMSG;
        r->memory = c->message;
        return true;
    default:
        return false; /* it waits until it is ready */
    }
}

static ptrdiff_t broken_pipe(struct call *c)
{
    struct wf_other o = other(c);
    return wf_other_broken(&o);
}

/* Lets the kernel make it. -ENOSYS: the caller must. */
WF_NOINLINE static ptrdiff_t make_in_ring(struct call *c, struct wf_set *ring, uint32_t events, weft_time deadline)
{
    struct wf_request r;
    struct msghdr m;
    for (;;) {
        if (!describe(c, &r, &m)) {
            c->is_other = false;
            return -ENOSYS;
        }
        ptrdiff_t n = wf_uring_call(ring, &c->of, &r, deadline);
        if (wf_unlikely(n == -ENOTSOCK) && c->kind <= WRITEV && r.call != WF_CALL_READV && r.call != WF_CALL_WRITEV) {
            if (entered(c, no_socket) == -EBADF)
                return -EBADF;
            c->is_other = true;
            continue;
        }
        c->is_other = false; /* the number may be another descriptor's by the next attempt */
        if (wf_unlikely(n == -EPIPE) && r.call == WF_CALL_WRITEV)
            n = entered(c, broken_pipe);
        if (n != NOT_NOW && n != -EINTR)
            return n;
        int rc = n == -EINTR ? 0 : wf_fd_wait(&c->of, events, 0, deadline); /* O_NONBLOCK is set */
        if (rc < 0)
            return rc;
    }
}
#endif

/* Of a file that is not in memory. -EAGAIN: its number is no file's any more. */
WF_COLD static ptrdiff_t make_elsewhere(struct call *c, weft_time deadline)
{
    struct wf_file_call away = {.op = c->kind == READ || c->kind == READV ? WF_FILE_READ : WF_FILE_WRITE,
                                .of = c->of,
                                .parts = c->parts,
                                .count = c->count,
                                .offset = -1};
    return wf_file_call(&away, deadline);
}

/* What the number is from now on, for one call or for several that are one to the caller. 0, or a negative errno. */
static inline int look_up(struct call *c)
{
    return wf_fd_refer(&c->of, c->of.fd);
}

/* It cannot be waited for, so what is known about it is wrong: it is forgotten. False: that was tried often enough. */
WF_COLD static bool forget_kind(struct call *c, uint64_t drained)
{
    wf_fd_learn(&c->of, WF_FD_KIND | WF_FD_KNOWN | WF_FD_STREAM | drained, 0);
    return c->unwaited++ < 4;
}

enum { MOST_FUTILE = 8 };

/*
 * Whether the event that ends its waits says nothing. A UNIX socket can send as long as it has memory, and a receiver that is full
 * tells nobody but those who are connected to it; each failed send gives its memory back, which is the next event. An event
 * descriptor can be written to if 1 can be added, and not what is to be.
 */
static bool is_told_wrong(const struct call *c)
{
    return is_addressed(c) ||
           (c->futile >= MOST_FUTILE && c->kind <= WRITEV && wf_load(&c->of.e->word) & WF_FD_NO_SOCKET);
}

#define FIRST_PAUSE (100 * WEFT_US)
#define LONGEST_PAUSE (5 * WEFT_MS)

/* Such a one looks again by the clock. 1, -ETIMEDOUT (it may try once more) or -ECANCELED. */
WF_COLD static int pause_after_futile(struct call *c, weft_time deadline)
{
    unsigned doubled = is_addressed(c) ? c->futile - 1u : c->futile - (unsigned)MOST_FUTILE;
    weft_time soon = weft_in(doubled < 6 ? FIRST_PAUSE << doubled : LONGEST_PAUSE);
    int rc = weft_sleep_until(soon.ns < deadline.ns ? soon : deadline);
    if (rc != 0)
        return rc;
    return deadline.ns <= soon.ns ? -ETIMEDOUT : 1;
}

/* Tries, and waits, until something was done. `full`: fewer bytes may mean that there is no more; 0: never. */
static inline __attribute__((always_inline)) ptrdiff_t make(struct call *c, attempt_fn *fn, uint32_t events,
                                                            uint64_t drained, size_t full, weft_time deadline)
{
    bool once = wf_time_is_now(deadline) || c->flags & MSG_DONTWAIT, tried = false;
    if (wf_cancel_point_here(once ? WEFT_NOW : deadline))
        return -ECANCELED;
    int rc = c->of.e ? 0 : look_up(c);
    if (wf_unlikely(rc != 0))
        return rc;
    c->may_be_file = once;
#if WF_URING_BUILT
    struct wf_set *ring = once ? NULL : wf_set_for_calls(c->of.fd);
    if (ring) {
        ptrdiff_t n = make_in_ring(c, ring, events, deadline);
        if (n != -ENOSYS)
            return n;
    }
#endif
    for (;;) {
        if (once || rc != 0 || !(wf_load(&c->of.e->word) & drained)) {
            ptrdiff_t n = attempt(c, fn, drained, full);
            if (wf_unlikely(n == WF_NOT_HERE)) { /* -EAGAIN: it is no file any more */
                n = make_elsewhere(c, deadline);
                rc = 1; /* it has waited */
            }
            if (wf_likely(n != NOT_NOW) || once) {
                if (rc == 0) /* it has not waited */
                    wf_budget_spend(wf_cost_io(n), !once);
                return n;
            }
            if (tried && c->futile < UINT8_MAX)
                c->futile++;
            tried = true;
        }
        if (wf_unlikely(rc < 0))
            return rc;
        rc = wf_fd_wait(&c->of, events, drained, deadline);
        if (wf_unlikely(rc == -EPERM) && forget_kind(c, drained))
            rc = 1;                                             /* a try tells what it is */
        if (wf_unlikely(rc < 0) && (rc != -ETIMEDOUT || tried)) /* one whose time is up still tries once */
            return rc;
        c->may_be_file = true;
        if (wf_unlikely(c->futile > 0) && rc >= 0 && is_told_wrong(c)) {
            rc = pause_after_futile(c, deadline);
            if (rc < 0 && rc != -ETIMEDOUT)
                return rc;
        }
    }
}

static inline __attribute__((always_inline)) ptrdiff_t take(struct call *c, attempt_fn *fn, size_t full,
                                                            weft_time deadline)
{
    return make(c, fn, POLLIN, WF_FD_DRAINED_IN, full, deadline);
}

/* Flags of reads whose EAGAIN says nothing about the bytes: they look into another queue, or behind the bytes (SO_PEEK_OFF). */
#define ASIDE (MSG_ERRQUEUE | MSG_OOB | MSG_PEEK)

/* Of those: nothing counts as drained. */
WF_NOINLINE static ptrdiff_t take_aside(struct call *c, attempt_fn *fn, weft_time deadline)
{
    uint32_t events = c->flags & MSG_ERRQUEUE ? POLLERR : c->flags & MSG_OOB ? POLLPRI : POLLIN;
    return make(c, fn, events, 0, 0, deadline);
}

static inline __attribute__((always_inline)) ptrdiff_t put(struct call *c, attempt_fn *fn, size_t full,
                                                           weft_time deadline)
{
    return make(c, fn, POLLOUT, WF_FD_DRAINED_OUT, full, deadline);
}

static ptrdiff_t read_other(struct call *c)
{
    struct wf_other o = other(c);
    return wf_other_read(&o);
}

static ptrdiff_t write_other(struct call *c)
{
    struct wf_other o = other(c);
    return wf_other_write(&o);
}

WF_NOINLINE static ptrdiff_t try_recv(struct call *c)
{
    if (wf_unlikely(c->kind == READ && skips_socket(c)))
        return -ENOTSOCK;
    ptrdiff_t n = tried(
        wf_raw_recvfrom(c->of.fd, c->parts->iov_base, c->parts->iov_len, c->flags | MSG_DONTWAIT, NULL, NULL));
    return wf_unlikely(n == -ENOTSOCK) ? no_socket(c) : n;
}

WF_NOINLINE static ptrdiff_t try_send(struct call *c)
{
    if (wf_unlikely(c->kind == WRITE && skips_socket(c)))
        return -ENOTSOCK;
    ptrdiff_t n = tried(wf_raw_sendto(c->of.fd, c->parts->iov_base, c->parts->iov_len,
                                      c->flags | MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0));
    return wf_unlikely(n == -ENOTSOCK) ? no_socket(c) : n;
}

static ptrdiff_t try_read(struct call *c)
{
    ptrdiff_t n = try_recv(c);
    return wf_unlikely(n == -ENOTSOCK) ? read_other(c) : n;
}

static ptrdiff_t try_write(struct call *c)
{
    ptrdiff_t n = try_send(c);
    return wf_unlikely(n == -ENOTSOCK) ? write_other(c) : n;
}

/* A socket of packets sends an empty one, if it has room. */
static ptrdiff_t try_write_nothing(struct call *c)
{
    ptrdiff_t n = tried(wf_raw_sendto(c->of.fd, "", 0, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0));
    return n == -ENOTSOCK ? wf_quiet_write_nothing(c->of.fd) : n;
}

WF_COLD static ptrdiff_t write_nothing(int fd, weft_time deadline)
{
    struct call c = {.kind = NOTHING, .of.fd = fd};
    return put(&c, try_write_nothing, 0, deadline);
}

/*
 * read(2) of nothing tells whether the descriptor is any good. Of an inotify descriptor without an event it would wait: then
 * readv(2) is asked, which never gets that far.
 */
static ptrdiff_t try_read_nothing(struct call *c)
{
    int kept = errno;
    char none = 0;
    struct stat st;
    bool has_no_kind = fstat(c->of.fd, &st) == 0 && (st.st_mode & S_IFMT) == 0;
    struct pollfd p = {.fd = c->of.fd, .events = POLLIN};
    if (has_no_kind && wf_poll_until(&p, 1, INT64_MIN) == 0)
        return result(wf_raw_readv(c->of.fd, &(struct iovec){&none, 0}, 1), kept);
    return result(wf_raw_read(c->of.fd, &none, 0), kept);
}

WF_COLD static ptrdiff_t read_nothing(int fd, weft_time deadline)
{
    struct call c = {.kind = NOTHING, .of.fd = fd};
    if (wf_cancel_point_here(deadline))
        return -ECANCELED;
    int rc = look_up(&c);
    ptrdiff_t n = rc != 0 ? rc : entered(&c, try_read_nothing);
    wf_budget_spend_anywhere(WF_COST_IO, !wf_time_is_now(deadline));
    return n;
}

WF_ENTRY ptrdiff_t weft_read(int fd, void *buffer, size_t bytes, weft_time deadline)
{
    if (wf_unlikely(bytes == 0))
        return read_nothing(fd, deadline);
    struct iovec part = {buffer, bytes};
    struct call c = {.kind = READ, .of.fd = fd, .parts = &part, .count = 1};
    return take(&c, try_read, bytes, deadline);
}

WF_ENTRY ptrdiff_t weft_write(int fd, const void *buffer, size_t bytes, weft_time deadline)
{
    if (wf_unlikely(bytes == 0))
        return write_nothing(fd, deadline);
    struct iovec part = {(void *)(uintptr_t)buffer, bytes};
    struct call c = {.kind = WRITE, .of.fd = fd, .parts = &part, .count = 1};
    return put(&c, try_write, bytes, deadline);
}

/* Not inline: each reads what is thread-local anew. */
WF_NOINLINE static ptrdiff_t read_part(struct call *c, weft_time deadline)
{
    return take(c, try_read, c->parts->iov_len, deadline);
}

WF_NOINLINE static ptrdiff_t write_part(struct call *c, weft_time deadline)
{
    return put(c, try_write, c->parts->iov_len, deadline);
}

WF_NOINLINE static ptrdiff_t recv_part(struct call *c, weft_time deadline)
{
    return take(c, try_recv, c->parts->iov_len, deadline);
}

/*
 * Makes a call of one part, which is moved on, again and again until all of it is moved, or it says 0 or fails: that is
 * returned. The descriptor is one and the same: whatever gets its number meanwhile is left alone.
 */
static ptrdiff_t repeat(struct call *c, struct iovec *part, ptrdiff_t (*move)(struct call *, weft_time),
                        weft_time deadline)
{
    ptrdiff_t n = c->of.e ? 0 : look_up(c);
    while (n >= 0 && part->iov_len > 0) {
        n = move(c, deadline);
        if (n <= 0)
            return n;
        part->iov_base = (char *)part->iov_base + n;
        part->iov_len -= (size_t)n;
    }
    return n;
}

/* MSG_WAITALL of a stream: all of it, or what there was before the end or an error. */
WF_COLD static ptrdiff_t recv_all(const struct wf_fd_ref *of, void *buffer, size_t bytes, int flags, weft_time deadline)
{
    struct iovec part = {buffer, bytes};
    struct call c = {.kind = RECV, .of = *of, .flags = flags & ~MSG_WAITALL, .parts = &part, .count = 1};
    ptrdiff_t n = repeat(&c, &part, recv_part, deadline), have = (ptrdiff_t)(bytes - part.iov_len);
    return have > 0 ? have : n;
}

static bool is_of_type(int fd, int wanted)
{
    int kept = errno, type = 0;
    socklen_t size = sizeof type;
    bool is = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == wanted;
    errno = kept;
    return is;
}

WF_ENTRY ptrdiff_t weft_recv(int fd, void *buffer, size_t bytes, int flags, weft_time deadline)
{
    struct wf_fd_ref of = {.fd = fd};
    if (wf_unlikely(flags & MSG_WAITALL) && !(flags & (MSG_PEEK | MSG_OOB | MSG_DONTWAIT)) &&
        !wf_time_is_now(deadline) && wf_fd_refer(&of, fd) == 0 && is_of_type(fd, SOCK_STREAM))
        return recv_all(&of, buffer, bytes, flags, deadline);
    struct iovec part = {buffer, bytes};
    struct call c = {.kind = RECV, .of = of, .flags = flags, .parts = &part, .count = 1};
    return wf_unlikely(flags & ASIDE) ? take_aside(&c, try_recv, deadline) : take(&c, try_recv, bytes, deadline);
}

WF_ENTRY ptrdiff_t weft_send(int fd, const void *buffer, size_t bytes, int flags, weft_time deadline)
{
    struct iovec part = {(void *)(uintptr_t)buffer, bytes};
    struct call c = {.kind = SEND, .of.fd = fd, .flags = flags, .parts = &part, .count = 1};
    return put(&c, try_send, flags & MSG_OOB ? 0 : bytes, deadline);
}

static ptrdiff_t try_recvmsg(struct call *c)
{
    int kept = errno;
    return result(wf_raw_recvmsg(c->of.fd, c->message, c->flags | MSG_DONTWAIT), kept);
}

static ptrdiff_t try_sendmsg(struct call *c)
{
    int kept = errno;
    return result(wf_raw_sendmsg(c->of.fd, c->message, c->flags | MSG_DONTWAIT | MSG_NOSIGNAL), kept);
}

ptrdiff_t weft_recvmsg(int fd, struct msghdr *message, int flags, weft_time deadline)
{
    struct call c = {.kind = RECVMSG, .of.fd = fd, .flags = flags, .message = message};
    if (!message)
        return -EFAULT;
    return flags & ASIDE ? take_aside(&c, try_recvmsg, deadline) : take(&c, try_recvmsg, 0, deadline);
}

ptrdiff_t weft_sendmsg(int fd, const struct msghdr *message, int flags, weft_time deadline)
{
    struct call c = {.kind = SENDMSG, .of.fd = fd, .flags = flags, .message = (struct msghdr *)(uintptr_t)message};
    return message ? put(&c, try_sendmsg, 0, deadline) : -EFAULT;
}

static ptrdiff_t try_readv(struct call *c)
{
    if (!skips_socket(c)) {
        int kept = errno;
        struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)c->parts, .msg_iovlen = c->count};
        ptrdiff_t n = result(wf_raw_recvmsg(c->of.fd, &m, MSG_DONTWAIT), kept);
        if (n != -ENOTSOCK)
            return n;
        no_socket(c);
    }
    return read_other(c);
}

static ptrdiff_t try_writev(struct call *c)
{
    if (!skips_socket(c)) {
        int kept = errno;
        struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)c->parts, .msg_iovlen = c->count};
        ptrdiff_t n = result(wf_raw_sendmsg(c->of.fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL), kept);
        if (n != -ENOTSOCK)
            return n;
        no_socket(c);
    }
    return write_other(c);
}

/* readv(2) and writev(2) of nothing tell whether the descriptor is any good, and do nothing else. */
static ptrdiff_t try_move_no_parts(struct call *c)
{
    int kept = errno;
    struct iovec none = {NULL, 0};
    return result(c->kind == READV ? wf_raw_readv(c->of.fd, &none, 1) : wf_raw_writev(c->of.fd, &none, 1), kept);
}

WF_COLD static ptrdiff_t move_no_parts(struct call *c, weft_time deadline)
{
    if (wf_cancel_point_here(deadline))
        return -ECANCELED;
    int rc = look_up(c);
    return rc != 0 ? rc : entered(c, try_move_no_parts);
}

/* What readv(2) and writev(2) refuse, which the calls used here word otherwise. 1: go on, with something to move. */
static ptrdiff_t check_parts(struct call *c, int count, weft_time deadline)
{
    if (count < 0 || count > IOV_MAX)
        return -EINVAL;
    c->count = (size_t)count;
    return count == 0 || length(c) == 0 ? move_no_parts(c, deadline) : 1;
}

ptrdiff_t weft_readv(int fd, const struct iovec *parts, int count, weft_time deadline)
{
    struct call c = {.kind = READV, .of.fd = fd, .parts = parts};
    ptrdiff_t n = check_parts(&c, count, deadline);
    return n > 0 ? take(&c, try_readv, length(&c), deadline) : n;
}

ptrdiff_t weft_writev(int fd, const struct iovec *parts, int count, weft_time deadline)
{
    struct call c = {.kind = WRITEV, .of.fd = fd, .parts = parts};
    ptrdiff_t n = check_parts(&c, count, deadline);
    return n > 0 ? put(&c, try_writev, length(&c), deadline) : n;
}

ptrdiff_t weft_read_full(int fd, void *buffer, size_t bytes, size_t *done, weft_time deadline)
{
    struct iovec part = {buffer, bytes};
    struct call c = {.kind = READ, .of.fd = fd, .parts = &part, .count = 1};
    ptrdiff_t n = bytes > 0 ? repeat(&c, &part, read_part, deadline) : read_nothing(fd, deadline);
    if (done)
        *done = bytes - part.iov_len;
    return n < 0 ? n : (ptrdiff_t)(bytes - part.iov_len);
}

ptrdiff_t weft_write_all(int fd, const void *buffer, size_t bytes, size_t *done, weft_time deadline)
{
    struct iovec part = {(void *)(uintptr_t)buffer, bytes};
    struct call c = {.kind = WRITE, .of.fd = fd, .parts = &part, .count = 1};
    ptrdiff_t n = bytes > 0 ? repeat(&c, &part, write_part, deadline) : write_nothing(fd, deadline);
    if (done)
        *done = bytes - part.iov_len;
    return n < 0 ? n : (ptrdiff_t)(bytes - part.iov_len);
}

ptrdiff_t wf_ops_write_all(const struct wf_fd_ref *to, const void *buffer, size_t bytes, size_t *done,
                           weft_time deadline)
{
    struct iovec part = {(void *)(uintptr_t)buffer, bytes};
    struct call c = {.kind = WRITE, .of = *to, .parts = &part, .count = 1};
    ptrdiff_t n = repeat(&c, &part, write_part, deadline);
    *done = bytes - part.iov_len;
    return n;
}

static ptrdiff_t try_recvfrom(struct call *c)
{
    return tried(
        wf_raw_recvfrom(c->of.fd, c->parts->iov_base, c->parts->iov_len, c->flags | MSG_DONTWAIT, c->from, c->size));
}

static ptrdiff_t try_sendto(struct call *c)
{
    return tried(wf_raw_sendto(c->of.fd, c->parts->iov_base, c->parts->iov_len, c->flags | MSG_DONTWAIT | MSG_NOSIGNAL,
                               c->to, c->to_size));
}

ptrdiff_t weft_recvfrom(int fd, void *buffer, size_t bytes, int flags, struct sockaddr *from, socklen_t *size,
                        weft_time deadline)
{
    struct iovec part = {buffer, bytes};
    struct call c = {
        .kind = RECVFROM, .of.fd = fd, .flags = flags, .parts = &part, .count = 1, .from = from, .size = size};
    return flags & ASIDE ? take_aside(&c, try_recvfrom, deadline) : take(&c, try_recvfrom, 0, deadline);
}

ptrdiff_t weft_sendto(int fd, const void *buffer, size_t bytes, int flags, const struct sockaddr *to, socklen_t size,
                      weft_time deadline)
{
    struct iovec part = {(void *)(uintptr_t)buffer, bytes};
    struct call c = {
        .kind = SENDTO, .of.fd = fd, .flags = flags, .parts = &part, .count = 1, .to = to, .to_size = size};
    return put(&c, try_sendto, 0, deadline);
}

static ptrdiff_t try_sendfile(struct call *c)
{
    int kept = errno;
    struct wf_sigpipe held;
    if (!wf_fd_enter(c->from_file, 0))
        return -EBADF;
    wf_sigpipe_hold(&held);
    ptrdiff_t n = result(wf_raw_sendfile(c->of.fd, c->from_file->fd, c->offset, c->parts->iov_len), kept);
    wf_sigpipe_release(&held, c->of.fd, n);
    wf_fd_leave(c->from_file);
    return n;
}

ptrdiff_t wf_ops_sendfile(const struct wf_fd_ref *to, const struct wf_fd_ref *from, off_t *offset, size_t bytes,
                          weft_time deadline)
{
    struct iovec part = {NULL, bytes};
    struct call c = {.kind = SENDFILE, .of = *to, .parts = &part, .count = 1, .from_file = from, .offset = offset};
    return put(&c, try_sendfile, 0, deadline);
}
