/*
 * io/ops.c: the calls of weft/io.h that read and write. Each tries, and waits if there is nothing; see fd.h for how it
 * knows beforehand that there is nothing. No try waits, whatever the descriptor's flags are: sockets are told so in the
 * call, other kinds by RWF_NOWAIT, and where that does not exist they are polled first.
 */
#include "io/ops.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/io.h>

#include "base/raw.h"
#include "base/thread.h"
#include "io/call.h"
#include "io/fd.h"
#include "io/file.h"
#include "io/set.h"
#include "io/uring.h"
#include "sched/slice.h"

/* Nothing can be done now. */
#define NOT_NOW (-EAGAIN)
/* It may wait for a disk: for a helper. No errno. */
#define NOT_HERE (-5000)

enum kind { READ, WRITE, READV, WRITEV, RECV, SEND, RECVFROM, SENDTO, RECVMSG, SENDMSG, SENDFILE };

/* A call that is being made. */
struct call {
    enum kind kind;
    int fd;
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
    struct wf_fd *e; /* NULL: as it is when the call begins */
    uint32_t generation;
};

typedef ptrdiff_t attempt_fn(struct call *c);

static size_t length(const struct call *c)
{
    size_t bytes = 0;
    for (size_t i = 0; i < c->count; i++)
        bytes += c->parts[i].iov_len;
    return bytes;
}

/* -errno for a call that has failed, and errno as it was. */
static ptrdiff_t result(ptrdiff_t n, int kept)
{
    if (n >= 0)
        return n;
    n = -errno;
    errno = kept;
    return n == -EWOULDBLOCK ? NOT_NOW : n;
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
    uint64_t word = wf_load(&c->e->word);
    if (wf_unlikely(!(word & WF_FD_KNOWN)))
        return WF_FD_KNOWN | (is_stream(c->fd) ? WF_FD_STREAM : 0);
    return word & (WF_FD_KNOWN | WF_FD_STREAM);
}

/* One try. */
static inline __attribute__((always_inline)) ptrdiff_t attempt(struct call *c, attempt_fn *fn, uint64_t drained,
                                                               size_t full)
{
    if (!wf_fd_enter(c->e, c->generation, drained))
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
        if (set & WF_FD_STREAM && !(wf_load(&c->e->word) & WF_FD_ENDING))
            clear = 0;
    }
    wf_fd_exit(c->e, clear, set);
    return n;
}

/* What is to be known of a descriptor that is no socket, as of now. */
static uint64_t look_at_kind(int fd)
{
    struct stat st;
    int kept = errno;
    uint64_t bits = WF_FD_NO_SOCKET;
    if (fstat(fd, &st) == 0) {
        if (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode) || S_ISDIR(st.st_mode))
            bits |= WF_FD_FILE;
        else if (S_ISCHR(st.st_mode))
            bits |= WF_FD_TERMINAL;
        else if (S_ISSOCK(st.st_mode))
            bits = 0;
    }
    errno = kept;
    return bits;
}

/* It is none: from now on it is treated so. */
static ptrdiff_t no_socket(struct call *c)
{
    wf_or(&c->e->word, look_at_kind(c->fd));
    return -ENOTSOCK;
}

/* Whether it is a file still: its number may have been closed elsewhere and reused. If not it is nothing we know. */
static bool is_still_file(struct call *c)
{
    if (!(wf_load(&c->e->word) & WF_FD_FILE))
        return false;
    uint64_t bits = look_at_kind(c->fd);
    if (!(bits & WF_FD_FILE)) {
        wf_and(&c->e->word,
               ~(uint64_t)(WF_FD_FILE | WF_FD_NO_SOCKET | WF_FD_TERMINAL | WF_FD_NO_NOWAIT | WF_FD_NO_NOWAIT_OUT));
        wf_or(&c->e->word, bits);
    }
    return bits & WF_FD_FILE;
}

#if WF_URING_BUILT
/* The call as a ring takes it; `m` is room for what that needs. False: it does not. */
static bool describe(const struct call *c, struct wf_request *r, struct msghdr *m)
{
    bool socket = !(wf_load(&c->e->word) & WF_FD_NO_SOCKET);
    if (!socket && wf_load(&c->e->word) & WF_FD_TERMINAL)
        return false; /* the kernel would wait in the ring's own thread */
    *r = (struct wf_request){.fd = c->fd, .flags = c->flags, .memory = m, .size = 1};
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
        r->call = c->kind == READ ? WF_CALL_READV : WF_CALL_WRITEV;
        r->memory = c->parts;
        r->size = c->count;
        return true;
    case READV:
    case WRITEV:
        r->call = c->kind == READV ? WF_CALL_RECVMSG : WF_CALL_SENDMSG;
        if (socket)
            return true;
        r->call = c->kind == READV ? WF_CALL_READV : WF_CALL_WRITEV;
        r->memory = c->parts;
        r->size = c->count;
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

/* Lets the kernel make it. -ENOSYS: the caller must. */
WF_NOINLINE static ptrdiff_t make_in_ring(struct call *c, struct wf_set *ring, uint32_t events, weft_time deadline)
{
    struct wf_request r;
    struct msghdr m;
    for (;;) {
        if (!describe(c, &r, &m))
            return -ENOSYS;
        ptrdiff_t n = wf_uring_call(ring, c->e, c->generation, &r, deadline);
        if (wf_unlikely(n == -ENOTSOCK) && c->kind <= WRITEV && r.call != WF_CALL_READV && r.call != WF_CALL_WRITEV) {
            no_socket(c);
            continue;
        }
        if (n != NOT_NOW && n != -EINTR)
            return n;
        int rc = n == -EINTR ? 0 : wf_fd_wait(c->e, c->fd, c->generation, events, 0, deadline); /* O_NONBLOCK is set */
        if (rc < 0)
            return rc;
    }
}
#endif

/* Of a file that is not in memory. */
WF_COLD static ptrdiff_t make_elsewhere(struct call *c, weft_time deadline)
{
    struct wf_file_call away = {.op = c->kind == READ || c->kind == READV ? WF_FILE_READ : WF_FILE_WRITE,
                                .fd = c->fd,
                                .e = c->e,
                                .generation = c->generation,
                                .parts = c->parts,
                                .count = c->count,
                                .offset = -1};
    return wf_file_call(&away, deadline);
}

/* What the number is from now on, for one call or for several that are one to the caller. 0, or a negative errno. */
static inline int look_up(struct call *c)
{
    c->e = wf_fd_of(c->fd);
    if (wf_unlikely(!c->e))
        return wf_fd_none(c->fd);
    c->generation = wf_fd_generation(c->e);
    return 0;
}

/* Tries, and waits, until something was done. `full`: fewer bytes may mean that there is no more; 0: never. */
static inline __attribute__((always_inline)) ptrdiff_t make(struct call *c, attempt_fn *fn, uint32_t events,
                                                            uint64_t drained, size_t full, weft_time deadline)
{
    bool once = wf_time_is_now(deadline) || c->flags & MSG_DONTWAIT, tried = false;
    wf_slice_enter();
    int rc = c->e ? 0 : look_up(c);
    if (wf_unlikely(rc != 0))
        return rc;
#if WF_URING_BUILT
    struct wf_set *ring = once ? NULL : wf_set_for_calls();
    if (ring) {
        ptrdiff_t n = make_in_ring(c, ring, events, deadline);
        if (n != -ENOSYS)
            return n;
    }
#endif
    for (;;) {
        if (once || rc != 0 || !(wf_load(&c->e->word) & drained)) {
            ptrdiff_t n = attempt(c, fn, drained, full);
            if (wf_unlikely(n == NOT_HERE))
                return make_elsewhere(c, deadline);
            if (wf_likely(n != NOT_NOW) || once)
                return n;
            tried = true;
        }
        if (wf_unlikely(rc < 0))
            return rc;
        rc = wf_fd_wait(c->e, c->fd, c->generation, events, drained, deadline);
        if (wf_unlikely(rc < 0) && (rc != -ETIMEDOUT || tried)) /* one whose time is up still tries once */
            return rc;
    }
}

static inline __attribute__((always_inline)) ptrdiff_t take(struct call *c, attempt_fn *fn, size_t full,
                                                            weft_time deadline)
{
    return make(c, fn, POLLIN, WF_FD_DRAINED_IN, full, deadline);
}

static inline __attribute__((always_inline)) ptrdiff_t put(struct call *c, attempt_fn *fn, size_t full,
                                                           weft_time deadline)
{
    return make(c, fn, POLLOUT, WF_FD_DRAINED_OUT, full, deadline);
}

/* Of what RWF_NOWAIT does not work on: whether it is ready, so that a plain call does not wait (for long). */
static bool is_ready(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};
    return wf_poll_until(&p, 1, INT64_MIN) != 0;
}

/*
 * For kinds on which RWF_NOWAIT does not work: makes the call when it does not wait, with nobody else doing so at the same
 * time. What is ready to be written to takes PIPE_BUF bytes without waiting.
 */
static ptrdiff_t call_if_ready(struct call *c, bool reads)
{
    int kept = errno, flags = fcntl(c->fd, F_GETFL), count = (int)c->count;
    errno = kept;
    if (flags < 0 || (flags & O_ACCMODE) == (reads ? O_WRONLY : O_RDONLY))
        return -EBADF;
    struct iovec first = c->parts[0];
    if (first.iov_len > PIPE_BUF)
        first.iov_len = PIPE_BUF;
    bool all = reads || flags & O_NONBLOCK || length(c) <= PIPE_BUF;
    ptrdiff_t n = NOT_NOW;
    wf_lock(&c->e->lock);
    if (flags & O_NONBLOCK || is_ready(c->fd, reads ? POLLIN : POLLOUT))
        n = result(reads ? wf_raw_readv(c->fd, c->parts, count)
                         : wf_raw_writev(c->fd, all ? c->parts : &first, all ? count : 1),
                   kept);
    wf_unlock(&c->e->lock);
    return n;
}

static ptrdiff_t move_other(struct call *c, bool reads)
{
    int kept = errno, count = (int)c->count;
    ptrdiff_t n = -EOPNOTSUPP;
    uint64_t unable = reads ? WF_FD_NO_NOWAIT : WF_FD_NO_NOWAIT_OUT;
    if (!(wf_load(&c->e->word) & unable)) {
        n = result(reads ? wf_raw_preadv2(c->fd, c->parts, count, -1, RWF_NOWAIT)
                         : wf_raw_pwritev2(c->fd, c->parts, count, -1, RWF_NOWAIT),
                   kept);
        if (n == -EOPNOTSUPP)
            wf_or(&c->e->word, unable);
    }
    if (n != -EOPNOTSUPP && n != NOT_NOW)
        return n;
    if (is_still_file(c)) /* always ready: it takes as long as the disk does */
        return NOT_HERE;
    return n == NOT_NOW ? NOT_NOW : call_if_ready(c, reads);
}

static ptrdiff_t read_other(struct call *c)
{
    return move_other(c, true);
}

static ptrdiff_t write_other(struct call *c)
{
    return move_other(c, false);
}

WF_NOINLINE static ptrdiff_t try_recv(struct call *c)
{
    int kept = errno;
    if (wf_unlikely(c->kind == READ && wf_load(&c->e->word) & WF_FD_NO_SOCKET))
        return -ENOTSOCK;
    ptrdiff_t n = result(
        wf_raw_recvfrom(c->fd, c->parts->iov_base, c->parts->iov_len, c->flags | MSG_DONTWAIT, NULL, NULL), kept);
    return wf_unlikely(n == -ENOTSOCK) ? no_socket(c) : n;
}

WF_NOINLINE static ptrdiff_t try_send(struct call *c)
{
    int kept = errno;
    if (wf_unlikely(c->kind == WRITE && wf_load(&c->e->word) & WF_FD_NO_SOCKET))
        return -ENOTSOCK;
    ptrdiff_t n = result(
        wf_raw_sendto(c->fd, c->parts->iov_base, c->parts->iov_len, c->flags | MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0),
        kept);
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

/* read(2) and write(2) of nothing tell whether the descriptor is any good, and never wait. */
WF_COLD static ptrdiff_t nothing(int fd, bool reads)
{
    int kept = errno;
    char none = 0;
    return result(reads ? wf_raw_read(fd, &none, 0) : wf_raw_write(fd, &none, 0), kept);
}

WF_ENTRY ptrdiff_t weft_read(int fd, void *buffer, size_t bytes, weft_time deadline)
{
    if (wf_unlikely(bytes == 0))
        return nothing(fd, true);
    struct iovec part = {buffer, bytes};
    struct call c = {.kind = READ, .fd = fd, .parts = &part, .count = 1};
    return take(&c, try_read, bytes, deadline);
}

WF_ENTRY ptrdiff_t weft_write(int fd, const void *buffer, size_t bytes, weft_time deadline)
{
    if (wf_unlikely(bytes == 0))
        return nothing(fd, false);
    struct iovec part = {(void *)(uintptr_t)buffer, bytes};
    struct call c = {.kind = WRITE, .fd = fd, .parts = &part, .count = 1};
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
    ptrdiff_t n = c->e ? 0 : look_up(c);
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
WF_COLD static ptrdiff_t recv_all(int fd, void *buffer, size_t bytes, int flags, weft_time deadline)
{
    struct iovec part = {buffer, bytes};
    struct call c = {.kind = RECV, .fd = fd, .flags = flags & ~MSG_WAITALL, .parts = &part, .count = 1};
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
    if (wf_unlikely(flags & MSG_WAITALL) && !(flags & (MSG_PEEK | MSG_OOB | MSG_DONTWAIT)) &&
        !wf_time_is_now(deadline) && is_of_type(fd, SOCK_STREAM))
        return recv_all(fd, buffer, bytes, flags, deadline);
    struct iovec part = {buffer, bytes};
    struct call c = {.kind = RECV, .fd = fd, .flags = flags, .parts = &part, .count = 1};
    return take(&c, try_recv, flags & (MSG_PEEK | MSG_OOB) ? 0 : bytes, deadline);
}

WF_ENTRY ptrdiff_t weft_send(int fd, const void *buffer, size_t bytes, int flags, weft_time deadline)
{
    struct iovec part = {(void *)(uintptr_t)buffer, bytes};
    struct call c = {.kind = SEND, .fd = fd, .flags = flags, .parts = &part, .count = 1};
    return put(&c, try_send, flags & MSG_OOB ? 0 : bytes, deadline);
}

static ptrdiff_t try_recvmsg(struct call *c)
{
    int kept = errno;
    return result(wf_raw_recvmsg(c->fd, c->message, c->flags | MSG_DONTWAIT), kept);
}

static ptrdiff_t try_sendmsg(struct call *c)
{
    int kept = errno;
    return result(wf_raw_sendmsg(c->fd, c->message, c->flags | MSG_DONTWAIT | MSG_NOSIGNAL), kept);
}

ptrdiff_t weft_recvmsg(int fd, struct msghdr *message, int flags, weft_time deadline)
{
    struct call c = {.kind = RECVMSG, .fd = fd, .flags = flags, .message = message};
    return message ? take(&c, try_recvmsg, 0, deadline) : -EFAULT;
}

ptrdiff_t weft_sendmsg(int fd, const struct msghdr *message, int flags, weft_time deadline)
{
    struct call c = {.kind = SENDMSG, .fd = fd, .flags = flags, .message = (struct msghdr *)(uintptr_t)message};
    return message ? put(&c, try_sendmsg, 0, deadline) : -EFAULT;
}

static ptrdiff_t try_readv(struct call *c)
{
    if (!(wf_load(&c->e->word) & WF_FD_NO_SOCKET)) {
        int kept = errno;
        struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)c->parts, .msg_iovlen = c->count};
        ptrdiff_t n = result(wf_raw_recvmsg(c->fd, &m, MSG_DONTWAIT), kept);
        if (n != -ENOTSOCK)
            return n;
        no_socket(c);
    }
    return read_other(c);
}

static ptrdiff_t try_writev(struct call *c)
{
    if (!(wf_load(&c->e->word) & WF_FD_NO_SOCKET)) {
        int kept = errno;
        struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)c->parts, .msg_iovlen = c->count};
        ptrdiff_t n = result(wf_raw_sendmsg(c->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL), kept);
        if (n != -ENOTSOCK)
            return n;
        no_socket(c);
    }
    return write_other(c);
}

/* What readv(2) and writev(2) refuse, which the calls used here word otherwise. 0: go on, with something to move. */
static ptrdiff_t check_parts(struct call *c, int count, bool reads)
{
    if (count < 0 || count > IOV_MAX)
        return -EINVAL;
    c->count = (size_t)count;
    return count == 0 || length(c) == 0 ? nothing(c->fd, reads) : 1;
}

ptrdiff_t weft_readv(int fd, const struct iovec *parts, int count, weft_time deadline)
{
    struct call c = {.kind = READV, .fd = fd, .parts = parts};
    ptrdiff_t n = check_parts(&c, count, true);
    return n > 0 ? take(&c, try_readv, length(&c), deadline) : n;
}

ptrdiff_t weft_writev(int fd, const struct iovec *parts, int count, weft_time deadline)
{
    struct call c = {.kind = WRITEV, .fd = fd, .parts = parts};
    ptrdiff_t n = check_parts(&c, count, false);
    return n > 0 ? put(&c, try_writev, length(&c), deadline) : n;
}

ptrdiff_t weft_read_full(int fd, void *buffer, size_t bytes, size_t *done, weft_time deadline)
{
    struct iovec part = {buffer, bytes};
    struct call c = {.kind = READ, .fd = fd, .parts = &part, .count = 1};
    ptrdiff_t n = bytes > 0 ? repeat(&c, &part, read_part, deadline) : nothing(fd, true);
    if (done)
        *done = bytes - part.iov_len;
    return n < 0 ? n : (ptrdiff_t)(bytes - part.iov_len);
}

ptrdiff_t weft_write_all(int fd, const void *buffer, size_t bytes, size_t *done, weft_time deadline)
{
    struct iovec part = {(void *)(uintptr_t)buffer, bytes};
    struct call c = {.kind = WRITE, .fd = fd, .parts = &part, .count = 1};
    ptrdiff_t n = bytes > 0 ? repeat(&c, &part, write_part, deadline) : nothing(fd, false);
    if (done)
        *done = bytes - part.iov_len;
    return n < 0 ? n : (ptrdiff_t)(bytes - part.iov_len);
}

ptrdiff_t wf_ops_write_all(const struct wf_fd_ref *to, const void *buffer, size_t bytes, size_t *done,
                           weft_time deadline)
{
    struct iovec part = {(void *)(uintptr_t)buffer, bytes};
    struct call c = {.kind = WRITE, .fd = to->fd, .parts = &part, .count = 1, .e = to->e, .generation = to->generation};
    ptrdiff_t n = repeat(&c, &part, write_part, deadline);
    *done = bytes - part.iov_len;
    return n;
}

static ptrdiff_t try_recvfrom(struct call *c)
{
    int kept = errno;
    return result(
        wf_raw_recvfrom(c->fd, c->parts->iov_base, c->parts->iov_len, c->flags | MSG_DONTWAIT, c->from, c->size), kept);
}

static ptrdiff_t try_sendto(struct call *c)
{
    int kept = errno;
    return result(wf_raw_sendto(c->fd, c->parts->iov_base, c->parts->iov_len, c->flags | MSG_DONTWAIT | MSG_NOSIGNAL,
                                c->to, c->to_size),
                  kept);
}

ptrdiff_t weft_recvfrom(int fd, void *buffer, size_t bytes, int flags, struct sockaddr *from, socklen_t *size,
                        weft_time deadline)
{
    struct iovec part = {buffer, bytes};
    struct call c = {
        .kind = RECVFROM, .fd = fd, .flags = flags, .parts = &part, .count = 1, .from = from, .size = size};
    return take(&c, try_recvfrom, 0, deadline);
}

ptrdiff_t weft_sendto(int fd, const void *buffer, size_t bytes, int flags, const struct sockaddr *to, socklen_t size,
                      weft_time deadline)
{
    struct iovec part = {(void *)(uintptr_t)buffer, bytes};
    struct call c = {.kind = SENDTO, .fd = fd, .flags = flags, .parts = &part, .count = 1, .to = to, .to_size = size};
    return put(&c, try_sendto, 0, deadline);
}

static ptrdiff_t try_sendfile(struct call *c)
{
    int kept = errno;
    struct wf_sigpipe held;
    if (!wf_fd_enter(c->from_file->e, c->from_file->generation, 0))
        return -EBADF;
    wf_sigpipe_hold(&held);
    ptrdiff_t n = result(wf_raw_sendfile(c->fd, c->from_file->fd, c->offset, c->parts->iov_len), kept);
    wf_sigpipe_release(&held, c->fd, n);
    wf_fd_exit(c->from_file->e, 0, 0);
    return n;
}

ptrdiff_t wf_ops_sendfile(const struct wf_fd_ref *to, const struct wf_fd_ref *from, off_t *offset, size_t bytes,
                          weft_time deadline)
{
    struct iovec part = {NULL, bytes};
    struct call c = {.kind = SENDFILE, .fd = to->fd, .parts = &part, .count = 1, .from_file = from, .offset = offset};
    c.e = to->e;
    c.generation = to->generation;
    return put(&c, try_sendfile, 0, deadline);
}
