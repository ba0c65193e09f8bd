/*
 * hook/read.c: the names that read.
 */
#include <errno.h>
#include <netinet/in.h>
#include <sys/eventfd.h>

#include <weft/io.h>
#include <weft/time.h>

#include "hook/real.h"
#include "hook/transfer.h"
#include "hook/wait.h"

/* Flags of calls that never wait, or that the kernel must see as they are. */
#define NO_WAIT (MSG_DONTWAIT | MSG_OOB | MSG_ERRQUEUE)

HOOK ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    if (likely(!wf_hooked_here()) || flags & NO_WAIT)
        return wf_real.recvmsg(fd, message, flags);
    if (wf_cancelled())
        return -1;
    return wf_spent(fd, wf_receive(fd, message, flags, &(struct wf_waiting){0}));
}

/* In a ring the call itself waits, and nothing is tried again after that. The caller has tried, and found nothing. */
static ssize_t receive_in_ring(int fd, void *memory, size_t bytes)
{
    struct wf_waiting w = {0};
    int kept = errno;
    enum wf_wait next = wf_wait_begin(&w, fd, POLLIN);
    if (next == WF_WAIT_OVER)
        return -1;
    if (next == WF_WAIT_BLOCK) {
        errno = kept;
        return wf_real.recv(fd, memory, bytes, 0);
    }
    ptrdiff_t n = weft_recv(fd, memory, bytes, 0, w.until);
    if (unlikely(n < 0 && wf_cannot_be_told((int)n)))
        return wf_receive(fd, &(struct msghdr){.msg_iov = &(struct iovec){memory, bytes}, .msg_iovlen = 1}, 0, &w);
    return n >= 0 ? n : wf_fails(n == -ETIMEDOUT ? EAGAIN : (int)-n);
}

/* Before a try: the worker's set is made by then, and does not get the number of a descriptor that is closed after it. */
static bool has_ring(void)
{
    return weft_io_backend()[0] == 'i'; /* io_uring */
}

/* In a fiber that is hooked. */
static ssize_t receive_from(int fd, void *memory, size_t bytes, int flags, struct sockaddr *from, socklen_t *size)
{
    if (flags & NO_WAIT)
        return wf_real.recvfrom(fd, memory, bytes, flags, from, size);
    if (wf_cancelled())
        return -1;
    bytes = bytes < WF_MOST ? bytes : WF_MOST;
    struct wf_waiting w = {0};
    if (flags & MSG_WAITALL && !from) /* recvmsg(2) says what does not belong together */
        return wf_receive(fd, &(struct msghdr){.msg_iov = &(struct iovec){memory, bytes}, .msg_iovlen = 1}, flags, &w);
    int kept = errno;
    bool in_ring = flags == 0 && !from && !wf_wants_more(0) && has_ring();
    for (;;) {
        ssize_t n = wf_real.recvfrom(fd, memory, bytes, flags | MSG_DONTWAIT, from, size);
        if (n >= 0 || errno != EAGAIN) {
            if (n >= 0)
                errno = kept;
            if (n > 0 && unlikely(wf_wants_more(flags)) && (size_t)n < bytes)
                n = wf_receive_rest(fd, &(struct msghdr){.msg_iov = &(struct iovec){memory, bytes}, .msg_iovlen = 1},
                                    flags, (size_t)n, &w);
            return wf_spent(fd, n);
        }
        if (in_ring && likely(!wf_is_interruptible())) {
            errno = kept;
            return receive_in_ring(fd, memory, bytes);
        }
        enum wf_wait next = wf_wait_data(&w, fd, flags);
        if (next == WF_WAIT_OVER)
            return -1;
        if (next == WF_WAIT_BLOCK) {
            errno = kept;
            return wf_real.recvfrom(fd, memory, bytes, flags, from, size);
        }
    }
}

HOOK ssize_t recvfrom(int fd, void *memory, size_t bytes, int flags, struct sockaddr *from, socklen_t *size)
{
    return likely(!wf_hooked_here()) ? wf_real.recvfrom(fd, memory, bytes, flags, from, size)
                                     : receive_from(fd, memory, bytes, flags, from, size);
}

HOOK ssize_t recv(int fd, void *memory, size_t bytes, int flags)
{
    return likely(!wf_hooked_here()) ? wf_real.recv(fd, memory, bytes, flags)
                                     : receive_from(fd, memory, bytes, flags, NULL, NULL);
}

HOOK ssize_t read(int fd, void *memory, size_t bytes)
{
    if (likely(!wf_hooked_here()) || bytes == 0 || wf_is_too_much(memory, bytes))
        return wf_real.read(fd, memory, bytes);
    int kept = errno;
    ssize_t n = receive_from(fd, memory, bytes, 0, NULL, NULL);
    if (n >= 0 || errno != ENOTSOCK)
        return n;
    errno = kept;
    return wf_spent(fd, wf_read_other(fd, &(struct iovec){memory, bytes}, 1));
}

HOOK ssize_t readv(int fd, const struct iovec *parts, int count)
{
    if (likely(!wf_hooked_here()))
        return wf_real.readv(fd, parts, count);
    return wf_cancelled() ? -1 : wf_spent(fd, wf_read_parts(fd, parts, count));
}

HOOK ssize_t preadv2(int fd, const struct iovec *parts, int count, off_t at, int flags)
{
    if (likely(!wf_hooked_here()) || at != -1 || flags != 0)
        return wf_real.preadv2(fd, parts, count, at, flags);
    return wf_cancelled() ? -1 : wf_spent(fd, wf_read_parts(fd, parts, count));
}

HOOK ssize_t preadv64v2(int fd, const struct iovec *parts, int count, off64_t at, int flags)
{
    return preadv2(fd, parts, count, at, flags);
}

HOOK ssize_t __read_chk(int fd, void *memory, size_t bytes, size_t room)
{
    if (bytes > room)
        __chk_fail();
    return read(fd, memory, bytes);
}

HOOK ssize_t __recv_chk(int fd, void *memory, size_t bytes, size_t room, int flags)
{
    if (bytes > room)
        __chk_fail();
    return recv(fd, memory, bytes, flags);
}

HOOK ssize_t __recvfrom_chk(int fd, void *memory, size_t bytes, size_t room, int flags, struct sockaddr *from,
                            socklen_t *size)
{
    if (bytes > room)
        __chk_fail();
    return recvfrom(fd, memory, bytes, flags, from, size);
}

HOOK int eventfd_read(int fd, eventfd_t *value)
{
    return read(fd, value, sizeof *value) == (ssize_t)sizeof *value ? 0 : -1;
}

/* What is left of a batch's own time. */
static struct timespec left_until(weft_time until)
{
    int64_t left = until.ns - weft_now().ns;
    left = left < 0 ? 0 : left;
    return (struct timespec){left / WEFT_SEC, left % WEFT_SEC};
}

/* Messages of a stream that each wait for more than there is. */
static int receive_one_by_one(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *limit)
{
    if (limit && (limit->tv_sec < 0 || limit->tv_nsec < 0 || limit->tv_nsec >= WEFT_SEC))
        return wf_fails(EINVAL);
    weft_time until = limit ? wf_ahead(limit->tv_sec, limit->tv_nsec) : WEFT_FOREVER;
    struct wf_waiting w = {0};
    int each = flags & ~MSG_WAITFORONE;
    unsigned n = 0;
    while (n < count) {
        struct msghdr *message = &messages[n].msg_hdr;
        ssize_t bytes = each & MSG_DONTWAIT ? wf_real.recvmsg(fd, message, each) : wf_receive(fd, message, each, &w);
        if (bytes < 0)
            break;
        wf_wait_for_next(&w, true);
        messages[n++].msg_len = (unsigned)bytes;
        if (flags & MSG_WAITFORONE)
            each |= MSG_DONTWAIT;
        if (weft_now().ns >= until.ns || messages[n - 1].msg_hdr.msg_flags & MSG_OOB)
            break;
    }
    if (limit && n > 0)
        *limit = left_until(until);
    return n > 0 ? (int)n : -1;
}

/* Whether POLLERR may be for something in the error queue, which is no error. */
static bool has_error_queue(int fd)
{
    int v4 = 0, v6 = 0, kept = errno;
    socklen_t size = sizeof v4;
    getsockopt(fd, IPPROTO_IP, IP_RECVERR, &v4, &size);
    size = sizeof v6;
    getsockopt(fd, IPPROTO_IPV6, IPV6_RECVERR, &v6, &size);
    errno = kept;
    return v4 > 0 || v6 > 0 || wf_option(fd, SO_TIMESTAMPING) > 0;
}

/* Waits for another message. After others an error is for the next call: it is left where it is. */
static enum wf_wait wait_for_message(struct wf_waiting *w, int fd, bool after_others)
{
    enum wf_wait next = wf_wait_ready(w, fd, POLLIN);
    return next == WF_WAIT_AGAIN && after_others && w->events & POLLERR && !has_error_queue(fd) ? WF_WAIT_OVER : next;
}

static bool has_enough(const struct mmsghdr *messages, unsigned n, unsigned count, int flags)
{
    return n == count || (n > 0 && (flags & MSG_WAITFORONE || messages[n - 1].msg_hdr.msg_flags & MSG_OOB));
}

/*
 * The kernel takes what is there. It looks at the time after each message, and keeps an error that comes after some of them for
 * the next call. The fiber waits for the rest.
 */
static int receive_messages(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *limit)
{
    struct wf_waiting w = {0};
    bool first = true;
    weft_time until = WEFT_FOREVER;
    unsigned n = 0;
    for (enum wf_wait next = WF_WAIT_AGAIN;; first = false) {
        int how = next == WF_WAIT_BLOCK ? flags : flags | MSG_DONTWAIT;
        struct timespec left = left_until(until), *time = first || !limit ? limit : &left;
        int more = wf_real.recvmmsg(fd, messages + n, count - n, how, time);
        if (more < 0 && errno != EAGAIN)
            break;
        n += more > 0 ? (unsigned)more : 0;
        if (more > 0 && time == &left)
            *limit = left;
        if (next == WF_WAIT_BLOCK || has_enough(messages, n, count, flags) ||
            (more > 0 && time && time->tv_sec == 0 && time->tv_nsec == 0))
            break;
        if (more > 0) /* each has SO_RCVTIMEO for itself */
            wf_wait_for_next(&w, true);
        if (first && limit)
            until = wf_ahead(limit->tv_sec, limit->tv_nsec);
        next = wait_for_message(&w, fd, n > 0);
        if (next == WF_WAIT_OVER)
            break;
    }
    return n > 0 ? (int)n : -1;
}

HOOK int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *limit)
{
    if (likely(!wf_hooked_here()) || flags & NO_WAIT || count == 0)
        return wf_real.recvmmsg(fd, messages, count, flags, limit);
    if (wf_cancelled())
        return -1;
    int kept = errno, n;
    if (wf_wants_more(flags) && wf_option(fd, SO_TYPE) == SOCK_STREAM)
        n = receive_one_by_one(fd, messages, count, flags, limit);
    else
        n = receive_messages(fd, messages, count, flags, limit);
    if (n >= 0)
        errno = kept;
    return (int)wf_spent(fd, n);
}
