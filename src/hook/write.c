/*
 * hook/write.c: the names that write. A blocking call writes all of it, as the kernel's does.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/io.h>

#include "hook/interrupt.h"
#include "hook/real.h"
#include "hook/transfer.h"
#include "hook/wait.h"

HOOK ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    if (likely(!wf_hooked_here()) || flags & MSG_DONTWAIT)
        return wf_real.sendmsg(fd, message, flags);
    if (wf_cancelled())
        return -1;
    return wf_spent(fd, wf_send(fd, message, flags, &(struct wf_waiting){0}));
}

/* In a fiber that is hooked. */
static ssize_t send_to(int fd, const void *memory, size_t bytes, int flags, const struct sockaddr *to, socklen_t size)
{
    if (flags & MSG_DONTWAIT)
        return wf_real.sendto(fd, memory, bytes, flags, to, size);
    if (wf_cancelled())
        return -1;
    bytes = bytes < WF_MOST ? bytes : WF_MOST;
    int kept = errno;
    ssize_t n = wf_real.sendto(fd, memory, bytes, flags | MSG_DONTWAIT, to, size);
    if (n == (ssize_t)bytes || (n < 0 && errno != EAGAIN && errno != EINPROGRESS))
        return wf_spent(fd, n);
    bool connects = n < 0 && errno == EINPROGRESS;
    errno = kept;
    struct wf_waiting w = {0};
    struct iovec all = {(void *)memory, bytes};
    struct msghdr message = {.msg_name = (void *)to, .msg_namelen = size, .msg_iov = &all, .msg_iovlen = 1};
    if (unlikely(connects))
        return wf_send_connected(fd, &message, flags, &w);
    return n < 0 ? wf_send(fd, &message, flags, &w) : wf_send_rest(fd, &message, flags, (size_t)n, &w);
}

HOOK ssize_t sendto(int fd, const void *memory, size_t bytes, int flags, const struct sockaddr *to, socklen_t size)
{
    return likely(!wf_hooked_here()) ? wf_real.sendto(fd, memory, bytes, flags, to, size)
                                     : send_to(fd, memory, bytes, flags, to, size);
}

HOOK ssize_t send(int fd, const void *memory, size_t bytes, int flags)
{
    return likely(!wf_hooked_here()) ? wf_real.send(fd, memory, bytes, flags)
                                     : send_to(fd, memory, bytes, flags, NULL, 0);
}

HOOK ssize_t write(int fd, const void *memory, size_t bytes)
{
    if (likely(!wf_hooked_here()) || bytes == 0 || wf_is_too_much(memory, bytes))
        return wf_real.write(fd, memory, bytes);
    int kept = errno;
    ssize_t n = send_to(fd, memory, bytes, 0, NULL, 0);
    if (n >= 0 || errno != ENOTSOCK)
        return n;
    errno = kept;
    return wf_spent(fd, wf_write_other(fd, &(struct iovec){(void *)memory, bytes}, 1));
}

HOOK ssize_t writev(int fd, const struct iovec *parts, int count)
{
    if (likely(!wf_hooked_here()))
        return wf_real.writev(fd, parts, count);
    return wf_cancelled() ? -1 : wf_spent(fd, wf_write_parts(fd, parts, count));
}

HOOK ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t at, int flags)
{
    if (likely(!wf_hooked_here()) || at != -1 || flags != 0)
        return wf_real.pwritev2(fd, parts, count, at, flags);
    return wf_cancelled() ? -1 : wf_spent(fd, wf_write_parts(fd, parts, count));
}

HOOK ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t at, int flags)
{
    return pwritev2(fd, parts, count, at, flags);
}

HOOK int eventfd_write(int fd, eventfd_t value)
{
    return write(fd, &value, sizeof value) == (ssize_t)sizeof value ? 0 : -1;
}

HOOK int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    if (likely(!wf_hooked_here()) || flags & MSG_DONTWAIT || count == 0)
        return wf_real.sendmmsg(fd, messages, count, flags);
    struct wf_waiting w = {0};
    int kept = errno;
    unsigned n = 0;
    for (count = count < 1024 ? count : 1024; n < count; n++) {
        ssize_t bytes = wf_cancelled() ? -1 : wf_send(fd, &messages[n].msg_hdr, flags, &w);
        if (bytes < 0)
            break;
        wf_wait_for_next(&w, true);
        messages[n].msg_len = (unsigned)bytes;
    }
    if (n == 0)
        return -1;
    errno = kept;
    return (int)wf_spent(fd, n);
}

static mode_t kind_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 ? st.st_mode & S_IFMT : 0;
}

/* What this library's own call has done for us, with SIGPIPE as the system raises it. */
static ssize_t told(ptrdiff_t n, int to)
{
    if (n >= 0)
        return n;
    if (n == -EPIPE && wf_option(to, SO_TYPE) >= 0)
        raise(SIGPIPE);
    return wf_fails(n == -ETIMEDOUT ? EAGAIN : (int)-n);
}

/* Whether it is given a place in what has none. */
static bool is_misplaced(int fd, const off64_t *at)
{
    return at && lseek(fd, 0, SEEK_CUR) < 0;
}

/* What the kernel refuses. Of a pipe it cannot be asked by a call for no bytes: for those it waits too. */
static bool is_refused(int to, int from, const off_t *offset)
{
    int flags = fcntl(from, F_GETFL);
    return flags < 0 || (flags & O_ACCMODE) == O_WRONLY || (fcntl(to, F_GETFL) & O_ACCMODE) == O_RDONLY ||
           (offset && (!wf_is_memory(offset) || *offset < 0 || is_misplaced(from, offset)));
}

/* To a pipe: what fits, once anything does; one that has room for it takes it without a wait. */
static ssize_t sendfile_to_pipe(int to, int from, off_t *offset, size_t bytes)
{
    struct wf_waiting w = {0};
    int kept = errno;
    if (!is_refused(to, from, offset) && wf_wait_unless_ready(&w, to, POLLOUT) == WF_WAIT_OVER && errno != EAGAIN)
        return -1;
    errno = kept;
    return wf_real.sendfile(to, from, offset, bytes);
}

/* The kernel sends a file in such pieces, and SO_SNDTIMEO is for each: it ends when none of one went out for so long. */
enum { PIECE = 64 << 10 };

/* Whether the file's next byte need not come from a disk. */
static bool is_in_memory(int from, const off_t *offset)
{
    char byte;
    int kept = errno;
    off_t at = offset ? *offset : lseek(from, 0, SEEK_CUR);
    bool is = at >= 0 && (wf_real.preadv2(from, &(struct iovec){&byte, 1}, 1, at, RWF_NOWAIT) >= 0 || errno != EAGAIN);
    errno = kept;
    return is;
}

/* What there is room for is sent at once. If there is none the fiber waits. */
static ptrdiff_t send_piece(int to, int from, off_t *offset, size_t bytes, struct wf_waiting *w)
{
    while (is_in_memory(from, offset)) {
        ptrdiff_t n = weft_sendfile(to, from, offset, bytes, WEFT_NOW);
        if (n != -EAGAIN)
            return n;
        if (likely(!wf_is_interruptible()))
            break;
        int rc = wf_wait_fd(&w->section, to, POLLOUT, wf_ends_of(w), w->until);
        if (rc < 0)
            return rc;
    }
    ptrdiff_t n = weft_sendfile(to, from, offset, bytes, w->until);
    if (n == -ETIMEDOUT && is_in_memory(from, offset)) { /* a ring waits for much room, and there may be some */
        n = weft_sendfile(to, from, offset, bytes, WEFT_NOW);
        n = n == -EAGAIN ? -ETIMEDOUT : n;
    }
    return n;
}

static ssize_t send_file(int to, int from, off_t *offset, size_t bytes)
{
    struct wf_waiting w = {0};
    struct stat st;
    int kept = errno;
    if (wf_wait_begin(&w, to, POLLOUT) != WF_WAIT_AGAIN || fstat(to, &st) != 0 ||
        (!S_ISSOCK(st.st_mode) && !S_ISFIFO(st.st_mode)) || bytes == 0 || bytes > SSIZE_MAX ||
        kind_of(from) == S_IFDIR) {
        errno = kept;
        return wf_real.sendfile(to, from, offset, bytes);
    }
    if (S_ISFIFO(st.st_mode))
        return sendfile_to_pipe(to, from, offset, bytes);
    if (wf_real.sendfile(to, from, offset, 0) < 0) /* the kernel looks at what it was given, and sends nothing */
        return -1;
    bytes = bytes < WF_MOST ? bytes : WF_MOST;
    size_t done = 0;
    ptrdiff_t n = 0;
    bool limited = w.until.ns != WEFT_FOREVER.ns;
    while (done < bytes) {
        size_t piece = limited && bytes - done > PIECE ? PIECE : bytes - done;
        n = send_piece(to, from, offset, piece, &w);
        if (wf_cannot_be_told((int)n) && wf_wait_ready(&w, to, POLLOUT) == WF_WAIT_AGAIN)
            continue;
        if (n <= 0)
            break;
        done += (size_t)n;
        w.has_part = true;
        if (limited && wf_wait_begin(&w, to, POLLOUT) != WF_WAIT_AGAIN)
            break;
    }
    errno = kept;
    return done > 0 ? (ssize_t)done : told(n, to);
}

HOOK ssize_t sendfile(int to, int from, off_t *offset, size_t bytes)
{
    if (likely(!wf_hooked_here()))
        return wf_real.sendfile(to, from, offset, bytes);
    return wf_cancelled() ? -1 : wf_spent(to, send_file(to, from, offset, bytes));
}

HOOK ssize_t sendfile64(int to, int from, off64_t *offset, size_t bytes)
{
    return sendfile(to, from, offset, bytes);
}

#define SPLICE_FLAGS (SPLICE_F_MOVE | SPLICE_F_NONBLOCK | SPLICE_F_MORE | SPLICE_F_GIFT)

/* A call that can only fail is the system's. */
static bool cannot_be(int from, const off64_t *from_at, int to, const off64_t *to_at)
{
    bool out_of = kind_of(from) == S_IFIFO, into = kind_of(to) == S_IFIFO;
    struct stat a, b;
    return (!out_of && !into) || is_misplaced(from, from_at) || is_misplaced(to, to_at) ||
           (fcntl(from, F_GETFL) & O_ACCMODE) == O_WRONLY || (fcntl(to, F_GETFL) & O_ACCMODE) == O_RDONLY ||
           (out_of && into && fstat(from, &a) == 0 && fstat(to, &b) == 0 && a.st_ino == b.st_ino &&
            a.st_dev == b.st_dev);
}

/* A socket that does not wait; one that does sets w->until. */
static bool is_told_not_to(int fd, int events, struct wf_waiting *w)
{
    return kind_of(fd) == S_IFSOCK && wf_wait_begin(w, fd, events) != WF_WAIT_AGAIN;
}

/* The flag of a pipe counts where it is written to, and where it is read from if the other is a pipe too. */
static bool pipes_do_not(int from, int to)
{
    bool into = kind_of(to) == S_IFIFO;
    return (into && fcntl(to, F_GETFL) & O_NONBLOCK) ||
           (into && kind_of(from) == S_IFIFO && fcntl(from, F_GETFL) & O_NONBLOCK);
}

/*
 * After a piece: whether the kernel would go on, from a pipe that has more to a socket or file. (Of a UNIX socket that is half full
 * poll(2) says that there is no room, and the kernel knows some: then it is not waited for.)
 */
static bool goes_on(int from, int to)
{
    int there = 0;
    struct pollfd p = {.fd = to, .events = POLLOUT};
    return kind_of(from) == S_IFIFO && (kind_of(to) == S_IFSOCK || kind_of(to) == S_IFREG) &&
           ioctl(from, FIONREAD, &there) == 0 && there > 0 &&
           (wf_option(to, SO_DOMAIN) != AF_UNIX || wf_real.poll(&p, 1, 0) == 1);
}

/* weft_splice until w->until, and EINTR. */
static ptrdiff_t splice_piece(int from, off64_t *from_at, int to, off64_t *to_at, size_t bytes, unsigned flags,
                              struct wf_waiting *w)
{
    weft_time until = w->until;
    while (unlikely(wf_is_interruptible())) {
        ptrdiff_t n = weft_splice(from, from_at, to, to_at, bytes, flags, WEFT_NOW);
        if (n != -EAGAIN)
            return n;
        struct pollfd in = {.fd = from, .events = POLLIN};
        bool waits_for_data = wf_real.poll(&in, 1, 0) == 0;
        struct pollfd out = {.fd = to, .events = POLLOUT};
        bool waits_for_room = !waits_for_data && wf_real.poll(&out, 1, 0) == 0;
        int rc = waits_for_data   ? wf_wait_fd(&w->section, from, POLLIN, wf_ends_of(w), until)
                 : waits_for_room ? wf_wait_fd(&w->section, to, POLLOUT, wf_ends_of(w), until)
                                  : wf_pause(&w->section, &w->pause, wf_ends_of(w), until);
        if (rc < 0)
            return rc;
        if (!waits_for_data && !waits_for_room && weft_now().ns >= until.ns)
            return -ETIMEDOUT;
    }
    return weft_splice(from, from_at, to, to_at, bytes, flags, until);
}

HOOK ssize_t splice(int from, off64_t *from_at, int to, off64_t *to_at, size_t bytes, unsigned flags)
{
    struct wf_waiting in = {.until = WEFT_FOREVER}, out = in;
    int kept = errno;
    if (likely(!wf_hooked_here()) || bytes == 0 || flags & ~(unsigned)SPLICE_FLAGS || !wf_may_wait())
        return wf_real.splice(from, from_at, to, to_at, bytes, flags);
    if (!(flags & SPLICE_F_NONBLOCK) && wf_cancelled())
        return -1;
    if (cannot_be(from, from_at, to, to_at) || is_told_not_to(from, POLLIN, &in) || is_told_not_to(to, POLLOUT, &out) ||
        pipes_do_not(from, to)) {
        errno = kept;
        return wf_real.splice(from, from_at, to, to_at, bytes, flags);
    }
    if (flags & SPLICE_F_NONBLOCK) { /* of a blocking TCP socket it waits all the same */
        if (wf_option(from, SO_PROTOCOL) == IPPROTO_TCP && wf_wait_unless_ready(&in, from, POLLIN) == WF_WAIT_OVER)
            return -1;
        errno = kept;
        return wf_real.splice(from, from_at, to, to_at, bytes, flags);
    }
    errno = kept;
    weft_time until = in.until.ns < out.until.ns ? in.until : out.until;
    struct wf_waiting w = {.until = until, .is_limited = until.ns != WEFT_FOREVER.ns};
    size_t done = 0;
    ptrdiff_t n;
    do { /* to what is no pipe it goes in pieces */
        w.has_part = done > 0;
        n = splice_piece(from, from_at, to, to_at, bytes - done, flags, &w);
        while (unlikely(wf_cannot_be_told((int)n)) && weft_now().ns < until.ns &&
               wf_pause(&w.section, &w.pause, wf_ends_of(&w), until) == 0)
            n = weft_splice(from, from_at, to, to_at, bytes - done, flags, until);
        done += n > 0 ? (size_t)n : 0;
    } while (n > 0 && done < bytes && goes_on(from, to));
    errno = kept;
    return wf_spent(to, done > 0 ? (ssize_t)done : told(n, to));
}
