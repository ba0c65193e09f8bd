/*
 * io/other.c: see other.h.
 */
#include "io/other.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/errno.h"
#include "base/compiler.h"
#include "base/raw.h"
#include "io/call.h"
#include "io/fd.h"
#include "io/quiet.h"

/* The file type that the number has now; 0: an event descriptor and its like, or the kernel does not tell. */
static mode_t type_of(int fd)
{
    struct stat st;
    int kept = errno;
    mode_t type = fstat(fd, &st) == 0 ? st.st_mode & S_IFMT : 0;
    errno = kept;
    return type;
}

/* What a record says about it. */
static uint64_t bits_of(mode_t type)
{
    if (type == S_IFREG || type == S_IFBLK || type == S_IFDIR)
        return WF_FD_NO_SOCKET | WF_FD_FILE;
    if (type == S_IFCHR)
        return WF_FD_NO_SOCKET | WF_FD_TERMINAL;
    return type == S_IFSOCK ? 0 : WF_FD_NO_SOCKET;
}

void wf_other_learn(const struct wf_fd_ref *of)
{
    wf_fd_learn(of, WF_FD_KIND, bits_of(type_of(of->fd)));
}

/*
 * Whether the number is a file's now. If the record says so, or may_be_file is set, the kernel decides: the record may be wrong
 * after a close(2) and a reuse of the number.
 */
static bool is_file(const struct wf_other *o)
{
    bool known = wf_load(&o->of->e->word) & WF_FD_FILE;
    if (!known && !o->may_be_file)
        return false;
    uint64_t bits = bits_of(type_of(o->of->fd));
    if (known != (bool)(bits & WF_FD_FILE))
        wf_fd_learn(o->of, WF_FD_KIND, bits);
    return bits & WF_FD_FILE;
}

/* A closed number is not ready: the call that follows could reach the next file of that number. */
static bool is_ready(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};
    return wf_poll_until(&p, 1, INT64_MIN) > 0 && !(p.revents & POLLNVAL);
}

/*
 * For a descriptor that is not ready, or has too little room. 0: it has O_NONBLOCK, so the call cannot wait. -EAGAIN: the call
 * would wait. -EBADF: it is closed, or not open in this direction.
 */
static ptrdiff_t is_blocking(int fd, bool reads)
{
    int kept = errno, flags = fcntl(fd, F_GETFL);
    errno = kept;
    if (flags < 0 || (flags & O_ACCMODE) == (reads ? O_WRONLY : O_RDONLY))
        return -EBADF;
    return flags & O_NONBLOCK ? 0 : -EAGAIN;
}

static bool is_terminal(int fd, struct termios *how)
{
    int kept = errno;
    bool is = tcgetattr(fd, how) == 0;
    errno = kept;
    return is;
}

enum { TERMINAL_ROOM = 256 };

/*
 * How many of these bytes a terminal takes without a wait once poll(2) says that it is ready. It then has room for 256 bytes in
 * one piece. A character that it puts out as another one is a piece of its own, and the next may find no room: a
 * pseudoterminal counts its buffers, not the bytes in them.
 */
static size_t fit_terminal(const char *bytes, size_t count, const struct termios *how)
{
    size_t n = 0, most = count < TERMINAL_ROOM ? count : TERMINAL_ROOM;
    if (!(how->c_oflag & OPOST))
        return most;
    while (n < most && !(how->c_oflag & OLCUC) && bytes[n] != '\n' && bytes[n] != '\r' && bytes[n] != '\t')
        n++;
    return n > 0 ? n : 1;
}

/* Piece by piece, as long as it is ready. */
static ptrdiff_t write_terminal(const struct wf_other *o, const struct termios *how)
{
    int fd = o->of->fd;
    ptrdiff_t blocks = is_blocking(fd, false), done = 0;
    if (blocks != -EAGAIN)
        return blocks < 0 ? blocks : wf_quiet_pwritev2(fd, o->parts, (int)o->count, -1, 0);
    for (size_t i = 0; i < o->count; i++) {
        struct iovec left = o->parts[i];
        while (left.iov_len > 0) {
            struct iovec piece = {left.iov_base, fit_terminal(left.iov_base, left.iov_len, how)};
            ptrdiff_t n = is_ready(fd, POLLOUT) ? wf_quiet_pwritev2(fd, &piece, 1, -1, 0) : -EAGAIN;
            if (n <= 0)
                return done > 0 ? done : n;
            done += n;
            left.iov_base = (char *)left.iov_base + n;
            left.iov_len -= (size_t)n;
        }
    }
    return done;
}

/* How much can be added to what an event descriptor has. UINT64_MAX: it is none, or nobody tells. */
static uint64_t room_of_event(int fd)
{
    char name[64], text[512];
    int kept = errno;
    uint64_t room = UINT64_MAX;
    snprintf(name, sizeof name, "/proc/thread-self/fdinfo/%d", fd);
    int info = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = info < 0 ? -1 : wf_raw_read(info, text, sizeof text - 1);
    if (info >= 0)
        wf_raw_close(info);
    if (n > 0) {
        text[n] = '\0';
        const char *field = strstr(text, "eventfd-count:");
        if (field)
            room = UINT64_MAX - 1 - strtoull(field + strlen("eventfd-count:"), NULL, 16);
    }
    errno = kept;
    return room;
}

/*
 * Whether a ready event descriptor takes this value without a wait. Ready means that there is room for 1. The kernel never
 * waits with 0, nor with a value that it refuses.
 */
static bool fits_event(int fd, const struct iovec *part)
{
    uint64_t value = 0;
    if (part->iov_len >= sizeof value)
        memcpy(&value, part->iov_base, sizeof value);
    return value <= 1 || value == UINT64_MAX || room_of_event(fd) >= value;
}

static size_t length(const struct iovec *parts, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += parts[i].iov_len;
    return bytes;
}

/*
 * Chooses what a ready descriptor takes without a wait. *parts becomes all of o->parts, or *piece, the beginning of the first
 * part that is not empty. Returns the number of parts; 0: there is no room yet.
 */
static size_t fit(const struct wf_other *o, mode_t type, const struct iovec **parts, struct iovec *piece)
{
    const struct iovec *first = o->parts;
    while (first->iov_len == 0)
        first++;
    *piece = *first;
    *parts = piece;
    if (type == 0) /* each part is a value to add */
        return fits_event(o->of->fd, piece) ? 1 : 0;
    if (length(o->parts, o->count) <= PIPE_BUF) { /* a FIFO that is ready has room for so much */
        *parts = o->parts;
        return o->count;
    }
    piece->iov_len = piece->iov_len < PIPE_BUF ? piece->iov_len : PIPE_BUF;
    return 1;
}

static ptrdiff_t write_now(const struct wf_other *o, mode_t type)
{
    struct termios how;
    struct iovec piece = {0};
    const struct iovec *parts = o->parts;
    int fd = o->of->fd;
    if (type == S_IFCHR && is_terminal(fd, &how))
        return write_terminal(o, &how);
    size_t count = is_ready(fd, POLLOUT) ? fit(o, type, &parts, &piece) : 0;
    if (count == 0 || (parts == &piece && piece.iov_len < length(o->parts, o->count))) {
        ptrdiff_t blocks = is_blocking(fd, false);
        if (blocks == -EBADF || (blocks != 0 && count == 0))
            return blocks;
        if (blocks == 0) { /* then the kernel says how much it takes */
            parts = o->parts;
            count = o->count;
        }
    }
    return type == 0 ? wf_quiet_writev(fd, parts, (int)count) : wf_quiet_pwritev2(fd, parts, (int)count, -1, 0);
}

static ptrdiff_t read_now(const struct wf_other *o)
{
    int kept = errno, fd = o->of->fd;
    ptrdiff_t blocks = is_ready(fd, POLLIN) ? 0 : is_blocking(fd, true);
    return blocks != 0 ? blocks : wf_negative_errno(wf_raw_readv(fd, o->parts, (int)o->count), kept);
}

/* For kinds without RWF_NOWAIT: polls and makes the call under the record's lock, so that no other caller comes between. */
static ptrdiff_t call_if_ready(const struct wf_other *o, bool reads)
{
    mode_t type = type_of(o->of->fd);
    uint64_t bits = bits_of(type);
    if (wf_unlikely(!(bits & WF_FD_NO_SOCKET) || bits & WF_FD_FILE)) {
        wf_fd_learn(o->of, WF_FD_KIND, bits);
        if (bits & WF_FD_FILE)
            return WF_NOT_HERE;
        /* weft_close waits for this call, which cannot learn anything any more if the generation has ended */
        return wf_fd_generation(o->of->e) != o->of->generation ? -EBADF : -EINTR;
    }
    wf_lock(&o->of->e->lock);
    ptrdiff_t n = reads ? read_now(o) : write_now(o, type);
    wf_unlock(&o->of->e->lock);
    return n;
}

static ptrdiff_t write_at_once(void *arg)
{
    const struct wf_other *o = arg;
    return wf_quiet_pwritev2(o->of->fd, o->parts, (int)o->count, -1, RWF_NOWAIT);
}

ptrdiff_t wf_other_broken(const struct wf_other *o)
{
    return wf_quiet_broken(o->of->fd, write_at_once, (void *)(uintptr_t)o);
}

static ptrdiff_t move(const struct wf_other *o, bool reads)
{
    int kept = errno;
    ptrdiff_t n = -EOPNOTSUPP;
    uint64_t unable = reads ? WF_FD_NO_NOWAIT : WF_FD_NO_NOWAIT_OUT;
    if (!(wf_load(&o->of->e->word) & unable)) {
        n = reads ? wf_negative_errno(wf_raw_preadv2(o->of->fd, o->parts, (int)o->count, -1, RWF_NOWAIT), kept)
                  : write_at_once((void *)(uintptr_t)o);
        if (n == -EOPNOTSUPP)
            wf_fd_learn(o->of, 0, unable);
    }
    if (n != -EOPNOTSUPP && n != -EAGAIN)
        return n;
    if (is_file(o)) /* always ready: it takes as long as the disk does */
        return WF_NOT_HERE;
    return n == -EAGAIN ? n : call_if_ready(o, reads);
}

ptrdiff_t wf_other_read(const struct wf_other *o)
{
    return move(o, true);
}

ptrdiff_t wf_other_write(const struct wf_other *o)
{
    ptrdiff_t n = move(o, false);
    return wf_unlikely(n == -EPIPE) ? wf_other_broken(o) : n;
}
