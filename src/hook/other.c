/*
 * hook/other.c: reading and writing what is no socket; see transfer.h.
 *
 * What cannot be told not to wait is polled, and then called. That is not enough for some: what poll(2) says of a terminal, an event
 * descriptor or a FIFO is not always what a call does.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <termios.h>
#include <unistd.h>

#include <weft/io.h>
#include <weft/offload.h>

#include "hook/away.h"
#include "hook/real.h"
#include "hook/transfer.h"
#include "hook/wait.h"

#define LOOK_AGAIN (5 * WEFT_MS) /* at what nothing tells of */

bool wf_is_file(int fd)
{
    struct stat st;
    return fstat(fd, &st) != 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode);
}

/* A call for a helper to make: of a terminal, which takes or gives what there is and waits for the rest. */
struct moving {
    struct wf_away away;
    int fd; /* a duplicate: what the caller has may be closed meanwhile */
    bool writes;
    int count;
    const struct iovec *parts;
    ssize_t bytes;
};

static void move_there(struct wf_away *call)
{
    struct moving *m = (struct moving *)call;
    m->bytes = m->writes ? wf_real.writev(m->fd, m->parts, m->count) : wf_real.readv(m->fd, m->parts, m->count);
    int error = errno;
    weft_own_close(m->fd);
    errno = m->bytes < 0 ? error : 0;
}

static void let_go(struct wf_away *call)
{
    weft_own_close(((struct moving *)call)->fd);
}

static ssize_t move_away(int fd, const struct iovec *parts, int count, bool writes)
{
    struct moving *m = malloc(sizeof *m);
    if (!m)
        return wf_fails(ENOMEM);
    *m = (struct moving){.away = {.make = move_there, .discard = let_go},
                         .fd = weft_own_dup(fd),
                         .writes = writes,
                         .count = count,
                         .parts = parts};
    if (m->fd < 0) { /* none is to be had: then the worker waits */
        free(m);
        return writes ? wf_real.writev(fd, parts, count) : wf_real.readv(fd, parts, count);
    }
    if (!wf_away_to_its_end(&m->away, WEFT_OFFLOAD_CALL))
        return -1;
    ssize_t bytes = m->bytes;
    free(m);
    return bytes;
}

/* Not the end of a pseudoterminal that a program holds: that tells how the other end is set, and is not set so itself. */
static bool is_terminal(int fd, struct termios *how)
{
    int packets;
    return tcgetattr(fd, how) == 0 && ioctl(fd, TIOCGPKT, &packets) != 0;
}

/* Whether the kernel has something against it that this process reads from its terminal now. */
static bool is_in_background(int fd)
{
    pid_t group = tcgetpgrp(fd);
    return group > 0 && group != getpgrp();
}

/* It is asked again before it is called: others may have been faster, and a ring is woken by bytes that are too few. */
static enum wf_wait wait_for_data(struct wf_waiting *w, int fd)
{
    enum wf_wait next;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    do
        next = wf_wait_unless_ready(w, fd, POLLIN);
    while (next == WF_WAIT_AGAIN && wf_real.poll(&p, 1, 0) == 0);
    return next;
}

static size_t there(int fd)
{
    int bytes = 0;
    return ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0 ? (size_t)bytes : 0;
}

/*
 * Without lines (termios(3)): VMIN bytes are to come, or those that came when there were none for VTIME tenths of a second; without
 * a VMIN one is waited for, for so long. poll(2) waits for VMIN bytes if there is no VTIME, and else for one.
 */
static ssize_t read_raw(int fd, const struct iovec *parts, int count, const struct termios *how, struct wf_waiting *w)
{
    size_t bytes = wf_length(parts, (size_t)count), least = how->c_cc[VMIN];
    weft_span limit = how->c_cc[VTIME] * 100 * WEFT_MS;
    bool looks = least > bytes && limit == 0; /* fewer are enough, and poll(2) does not know */
    int kept = errno;
    enum wf_wait next;
    if (least == 0 && limit == 0)
        return wf_real.readv(fd, parts, count);
    if (least == 0)
        w->until = weft_in(limit);
    do {
        if (looks)
            w->until = weft_in(LOOK_AGAIN);
        next = looks && there(fd) >= bytes ? WF_WAIT_AGAIN : wait_for_data(w, fd);
    } while (looks && next == WF_WAIT_OVER && errno == EAGAIN);
    if (next == WF_WAIT_OVER && errno != EAGAIN)
        return -1;
    errno = kept;
    if (next == WF_WAIT_OVER)
        return 0;
    return least > 1 && limit > 0 ? move_away(fd, parts, count, false) : wf_real.readv(fd, parts, count);
}

/* Waits, and then calls what has O_NONBLOCK or is ready. */
static ssize_t read_ready(int fd, const struct iovec *parts, int count, struct wf_waiting *w)
{
    int kept = errno;
    if (wait_for_data(w, fd) == WF_WAIT_OVER && errno != EAGAIN)
        return -1;
    errno = kept;
    return wf_real.readv(fd, parts, count);
}

/* A terminal. Who waits when the program at the other end is gone is told so; who comes later finds the end. */
static ssize_t read_terminal(int fd, const struct iovec *parts, int count, const struct termios *how, dev_t device)
{
    struct wf_waiting w = {0};
    int kept = errno;
    bool pseudo = major(device) >= 136 && major(device) < 144;
    if (wf_wait_begin(&w, fd, POLLIN) == WF_WAIT_AGAIN) {
        if (is_in_background(fd) && wf_real.read(fd, &kept, 0) < 0) /* of no bytes: it does not wait for any */
            return -1;
        errno = kept;
        ssize_t n = how->c_lflag & ICANON ? read_ready(fd, parts, count, &w) : read_raw(fd, parts, count, how, &w);
        return n == 0 && pseudo && w.events & POLLHUP ? wf_fails(EIO) : n;
    }
    errno = kept;
    return wf_real.readv(fd, parts, count);
}

/*
 * Of a FIFO that nobody has written to since it was opened poll(2) says nothing, and a read says that it ends: vmsplice(2) does so
 * too, and can be told not to wait. What is there is left to a read. (Who may write has a writer, and to him vmsplice(2) would
 * write.) False: it is to be waited for.
 */
static bool has_ended(int fd, const struct iovec *parts, int count, ssize_t *result)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int kept = errno;
    bool looks = (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY && wf_real.poll(&p, 1, 0) == 0;
    *result = looks ? vmsplice(fd, parts, (size_t)count, SPLICE_F_NONBLOCK) : -1;
    errno = kept;
    return *result >= 0;
}

/* What cannot be told not to wait. */
static ssize_t read_polled(int fd, const struct iovec *parts, int count)
{
    struct stat st = {0};
    struct termios how;
    int kept = errno;
    bool terminal = fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && is_terminal(fd, &how);
    errno = kept;
    if (terminal)
        return read_terminal(fd, parts, count, &how, st.st_rdev);
    ssize_t n;
    if (S_ISFIFO(st.st_mode) && has_ended(fd, parts, count, &n))
        return n;
    return read_ready(fd, parts, count, &(struct wf_waiting){0});
}

ssize_t wf_read_other(int fd, const struct iovec *parts, int count)
{
    struct wf_waiting w = {0};
    int kept = errno;
    if (wf_is_file(fd))
        return wf_real.readv(fd, parts, count);
    for (;;) {
        ssize_t n = wf_try_readv(fd, parts, count);
        if (n < 0 && errno == EOPNOTSUPP) {
            errno = kept;
            return read_polled(fd, parts, count);
        }
        if (n >= 0)
            errno = kept;
        if (n >= 0 || errno != EAGAIN)
            return n;
        enum wf_wait next = wf_wait_ready(&w, fd, POLLIN);
        if (next == WF_WAIT_OVER)
            return -1;
        if (next == WF_WAIT_BLOCK) {
            errno = kept;
            return wf_real.readv(fd, parts, count);
        }
    }
}

/* What is left after `done` bytes, for one call. */
static size_t rest_of(struct iovec *left, const struct iovec *parts, int count, size_t done, size_t most)
{
    size_t n = wf_parts_after(left, WF_AT_ONCE, parts, (size_t)count, done), kept = 0;
    for (; kept < n && most > 0; kept++) {
        if (left[kept].iov_len > most)
            left[kept].iov_len = most;
        most -= left[kept].iov_len;
    }
    return kept;
}

/* How much can be added to what an event descriptor has; UINT64_MAX: it is none. */
static uint64_t room_of(int fd)
{
    char name[64], text[512];
    int kept = errno;
    bool is_event = true;
    uint64_t count = 0;
    snprintf(name, sizeof name, "/proc/thread-self/fdinfo/%d", fd);
    int info = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n = info < 0 ? -1 : wf_real.read(info, text, sizeof text - 1);
    if (info >= 0)
        wf_real.close(info);
    if (n > 0) {
        text[n] = '\0';
        const char *field = strstr(text, "eventfd-count:");
        is_event = field != NULL;
        count = field ? strtoull(field + strlen("eventfd-count:"), NULL, 16) : 0;
    }
    errno = kept;
    return is_event ? UINT64_MAX - 1 - count : UINT64_MAX;
}

/*
 * An event descriptor takes a number if there is room for it; poll(2) tells whether there is for 1, and nothing tells when there
 * is more. Who is refused, or adds nothing, is not made to wait.
 */
static ssize_t write_event(int fd, const struct iovec *part)
{
    struct wf_waiting w = {0};
    uint64_t value = 0;
    int kept = errno, rc = -ETIMEDOUT;
    enum wf_wait next = WF_WAIT_AGAIN;
    if (part->iov_len >= sizeof value && wf_is_memory(part->iov_base))
        memcpy(&value, part->iov_base, sizeof value);
    while (value != 0 && value != UINT64_MAX && rc == -ETIMEDOUT && room_of(fd) != UINT64_MAX) {
        next = wf_wait_unless_ready(&w, fd, POLLOUT);
        if (next != WF_WAIT_AGAIN || value == 1 || room_of(fd) >= value)
            break;
        rc = wf_wait_fd(&w.section, fd, POLLPRI, WF_ENDS_RESTART, weft_in(LOOK_AGAIN)); /* it may be closed meanwhile */
    }
    if (rc < 0 && rc != -ETIMEDOUT)
        return wf_fails(-rc);
    if (next == WF_WAIT_OVER && errno != EAGAIN)
        return -1;
    errno = kept;
    return wf_real.write(fd, part->iov_base, part->iov_len);
}

enum { SMALL = 256, ATOMIC = 4096 }; /* what a terminal that is ready has room for; what such a FIFO has */

/* What cannot be told not to wait: it is polled, and given no more than it has room for. */
static ssize_t write_polled(int fd, const struct iovec *parts, int count)
{
    struct wf_waiting w = {0};
    struct stat st = {0};
    int kept = errno;
    bool fifo = fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode), terminal = S_ISCHR(st.st_mode);
    if ((st.st_mode & S_IFMT) == 0 && count == 1)
        return write_event(fd, parts);
    for (size_t done = 0, bytes = wf_length(parts, (size_t)count);;) {
        w.has_part = done > 0;
        enum wf_wait next = wf_wait_unless_ready(&w, fd, POLLOUT);
        if (next == WF_WAIT_OVER && errno != EAGAIN)
            return done > 0 ? (ssize_t)done : -1;
        errno = kept;
        if (next == WF_WAIT_AGAIN && terminal && bytes > SMALL) {
            if (is_in_background(fd) &&
                wf_real.write(fd, "", 0) < 0) /* a helper blocks the signal that is to stop us */
                return -1;
            return move_away(fd, parts, count, true);
        }
        if (next != WF_WAIT_AGAIN || !fifo) /* it has O_NONBLOCK, or is ready */
            return wf_real.writev(fd, parts, count);
        struct iovec left[WF_AT_ONCE];
        ssize_t n = wf_real.writev(fd, left, (int)rest_of(left, parts, count, done, ATOMIC));
        if (n < 0)
            return done > 0 ? (ssize_t)done : -1;
        done += (size_t)n;
        if (done == bytes)
            return (ssize_t)done;
    }
}

ssize_t wf_write_other(int fd, const struct iovec *parts, int count)
{
    struct wf_waiting w = {0};
    size_t done = 0;
    int kept = errno;
    if (wf_is_file(fd))
        return wf_real.writev(fd, parts, count);
    for (;;) {
        struct iovec left[WF_AT_ONCE];
        bool first = done == 0;
        size_t parts_left = first ? (size_t)count : wf_parts_after(left, WF_AT_ONCE, parts, (size_t)count, done);
        ssize_t n = wf_try_writev(fd, first ? parts : left, (int)parts_left);
        if (n < 0 && errno == EOPNOTSUPP) {
            errno = kept;
            return write_polled(fd, parts, count);
        }
        if (n >= 0)
            errno = kept;
        if (n > 0)
            done += (size_t)n;
        if (n == 0 || (n > 0 && done == wf_length(parts, (size_t)count)) || (n < 0 && errno != EAGAIN))
            return done > 0 ? (ssize_t)done : n;
        w.has_part = done > 0;
        enum wf_wait next = wf_wait_ready(&w, fd, POLLOUT);
        if (next == WF_WAIT_OVER)
            return done > 0 ? (ssize_t)done : -1;
        if (next == WF_WAIT_BLOCK) {
            errno = kept;
            return first ? wf_real.writev(fd, parts, count) : (ssize_t)done;
        }
    }
}
