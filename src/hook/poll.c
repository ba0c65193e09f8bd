/*
 * hook/poll.c: the names that wait for several descriptors: poll, select and epoll_wait.
 *
 * A signal mask holds for the call alone. While the fiber waits its worker keeps its own, so a signal that only the call's
 * lets through stays pending: a signalfd(2) for those is waited for beside the rest, and when one has come the kernel's call
 * is made, without a wait: that lets it through, and says EINTR.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>

#include <weft/io.h>

#include "hook/interrupt.h"
#include "hook/real.h"
#include "hook/wait.h"

/* Signals that are blocked here and not by `mask`, as a descriptor; -1: there are none, or there is none to be had. */
static int let_through(const sigset_t *mask)
{
    sigset_t now, those;
    bool any = false;
    if (!mask || pthread_sigmask(SIG_SETMASK, NULL, &now) != 0)
        return -1;
    sigemptyset(&those);
    for (int n = 1; n < NSIG; n++) {
        if (sigismember(&now, n) == 1 && sigismember(mask, n) == 0 && sigaddset(&those, n) == 0)
            any = true;
    }
    return any ? weft_own_take(signalfd(-1, &those, SFD_NONBLOCK | SFD_CLOEXEC)) : -1;
}

static bool is_wrong(const struct timespec *limit)
{
    return limit && (limit->tv_sec < 0 || limit->tv_nsec < 0 || limit->tv_nsec >= WEFT_SEC);
}

/* Whether a call with this limit only looks. */
static bool is_zero(const struct timespec *limit)
{
    return limit && limit->tv_sec == 0 && limit->tv_nsec == 0;
}

static weft_time end_of(const struct timespec *limit)
{
    return limit ? wf_ahead(limit->tv_sec, limit->tv_nsec) : WEFT_FOREVER;
}

static const struct timespec at_once;

/* ---- poll ---- */

/* Nothing was found so far. `mask`: of the call, or NULL. */
static int poll_until(struct wf_section *s, struct pollfd *fds, nfds_t count, weft_time until, const sigset_t *mask)
{
    int n = wf_poll(s, fds, count, mask, until);
    for (weft_span pause = 0; unlikely(wf_cannot_be_told(n)) && weft_now().ns < until.ns;) {
        int rc = wf_pause(s, &pause, WF_ENDS_ALWAYS, until), found = wf_real.poll(fds, count, 0);
        if (found != 0)
            return found;
        n = rc < 0 ? rc : n;
    }
    return n >= 0 ? n : wf_cannot_be_told(n) ? 0 : wf_fails(-n);
}

HOOK int poll(struct pollfd *fds, nfds_t count, int ms)
{
    if (likely(!wf_hooked_here()) || ms == 0 || !wf_may_wait())
        return wf_real.poll(fds, count, ms);
    if (wf_cancelled())
        return -1;
    int n = wf_real.poll(fds, count, 0);
    if (n != 0)
        return (int)wf_spent(-1, n);
    return poll_until(&(struct wf_section){0}, fds, count, ms < 0 ? WEFT_FOREVER : weft_in(ms * (weft_span)WEFT_MS),
                      NULL);
}

static int found_in(const struct pollfd *fds, nfds_t count)
{
    int n = 0;
    for (nfds_t i = 0; i < count; i++)
        n += fds[i].revents != 0;
    return n;
}

/* With a descriptor more, for signals. */
static int poll_with(struct pollfd *fds, nfds_t count, weft_time until, const sigset_t *mask, int signals)
{
    struct pollfd *all = malloc((count + 1) * sizeof *all);
    if (!all)
        return wf_fails(ENOMEM);
    struct wf_section s = {0};
    int n;
    do {
        if (count > 0)
            memcpy(all, fds, count * sizeof *all);
        all[count] = (struct pollfd){.fd = signals, .events = POLLIN};
        n = poll_until(&s, all, count + 1, until, mask);
        if (n > 0 && all[count].revents != 0 &&
            (n = wf_real.ppoll(fds, 0, &at_once, mask)) == 0) /* they go through here */
            n = found_in(all, count);
    } while (n == 0 && weft_now().ns < until.ns);
    for (nfds_t i = 0; n >= 0 && i < count; i++)
        fds[i].revents = all[i].revents;
    int kept = errno;
    free(all);
    errno = kept;
    return n;
}

HOOK int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit, const sigset_t *mask)
{
    if (likely(!wf_hooked_here()) || is_wrong(limit) || !wf_may_wait())
        return wf_real.ppoll(fds, count, limit, mask);
    weft_time until = end_of(limit);
    if (!is_zero(limit) && wf_cancelled())
        return -1;
    int n = wf_real.ppoll(fds, count, &at_once, mask);
    if (is_zero(limit))
        return n;
    if (n != 0)
        return (int)wf_spent(-1, n);
    int signals = let_through(mask);
    if (signals < 0)
        return poll_until(&(struct wf_section){0}, fds, count, until, mask);
    n = poll_with(fds, count, until, mask, signals);
    int kept = errno;
    weft_own_close(signals);
    errno = kept;
    return n;
}

HOOK int __poll_chk(struct pollfd *fds, nfds_t count, int ms, size_t room)
{
    if (room / sizeof *fds < count)
        __chk_fail();
    return poll(fds, count, ms);
}

HOOK int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *limit, const sigset_t *mask, size_t room)
{
    if (room / sizeof *fds < count)
        __chk_fail();
    return ppoll(fds, count, limit, mask);
}

/* ---- select ---- */

#define READS (POLLIN | POLLRDNORM | POLLRDBAND)
#define WRITES (POLLOUT | POLLWRNORM | POLLWRBAND)
#define BITS (8 * sizeof(unsigned long))

/* The three sets, of any size: as they were given, and as the kernel is asked. */
struct sets {
    unsigned long *given[3];
    size_t words;
    unsigned long *copy; /* of all three, and room for three more */
};

static bool is_in(const unsigned long *set, size_t fd)
{
    return set && set[fd / BITS] >> fd % BITS & 1;
}

/* select(2) of what is so, with the sets as they were given; these are changed only if it has something to say. */
static int look(struct sets *s, int count, const sigset_t *mask)
{
    unsigned long *try[3];
    for (int i = 0; i < 3; i++) {
        try[i] = s->given[i] ? s->copy + (3 + i) * s->words : NULL;
        if (try[i])
            memcpy(try[i], s->copy + i * s->words, s->words * sizeof *s->copy);
    }
    int n = wf_real.pselect(count, (fd_set *)try[0], (fd_set *)try[1], (fd_set *)try[2], &at_once, mask);
    for (int i = 0; i < 3 && n > 0; i++) {
        if (try[i])
            memcpy(s->given[i], try[i], s->words * sizeof *s->copy);
    }
    return n;
}

static size_t gather(const struct sets *s, int count, struct pollfd *fds)
{
    size_t n = 0;
    for (size_t fd = 0; fd < (size_t)count; fd++) {
        short events = 0;
        events |= is_in(s->given[0], fd) ? READS : 0;
        events |= is_in(s->given[1], fd) ? WRITES : 0;
        events |= is_in(s->given[2], fd) ? POLLPRI : 0;
        if (events)
            fds[n++] = (struct pollfd){.fd = (int)fd, .events = events};
    }
    return n;
}

/* After a poll: whether one of them is closed. What is hung up and not asked for that is not waited for any longer. */
static bool is_any_closed(struct pollfd *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (fds[i].revents & POLLNVAL)
            return true;
        if (fds[i].revents && !(fds[i].events & READS) && !(fds[i].revents & fds[i].events))
            fds[i].fd = -1;
    }
    return false;
}

static int select_until(struct sets *s, int count, weft_time until, bool only_looks, const sigset_t *mask)
{
    int n = look(s, count, mask);
    if (n != 0 || only_looks)
        return n;
    struct pollfd *fds = malloc(((size_t)count + 1) * sizeof *fds);
    if (!fds)
        return wf_fails(ENOMEM);
    size_t waited = gather(s, count, fds);
    struct wf_section section = {0};
    int signals = let_through(mask);
    if (signals >= 0)
        fds[waited++] = (struct pollfd){.fd = signals, .events = POLLIN};
    do {
        n = poll_until(&section, fds, waited, until, mask);
        if (n > 0 && is_any_closed(fds, waited))
            n = wf_fails(EBADF);
        if (n >= 0)
            n = look(s, count, mask);
    } while (n == 0 && weft_now().ns < until.ns); /* poll(2) tells more than is asked for here */
    int kept = errno;
    if (signals >= 0)
        weft_own_close(signals);
    free(fds);
    errno = kept;
    return n;
}

static void clear(struct sets *s)
{
    for (int i = 0; i < 3; i++) {
        if (s->given[i])
            memset(s->given[i], 0, s->words * sizeof *s->copy);
    }
}

enum { FEW = 64 }; /* every table has room for so many */

/*
 * The kernel looks at no more than this process's table has room for, so a program may say more than its sets have: INT_MAX, or
 * what getdtablesize(3) says.
 */
static int no_more_than_there_are(int count)
{
    static const char name[] = "FDSize:";
    if (count <= FEW)
        return count;
    char text[1024];
    int fd = open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : wf_real.read(fd, text, sizeof text - 1);
    if (fd >= 0)
        wf_real.close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *at = strstr(text, name);
    long room = at ? strtol(at + sizeof name - 1, NULL, 10) : count;
    return room > 0 && room < count ? (int)room : count;
}

static int select_in_fiber(int count, fd_set *const sets[3], weft_time until, bool only_looks, const sigset_t *mask)
{
    int before = errno;
    count = no_more_than_there_are(count);
    errno = before;
    struct sets s = {.words = ((size_t)count + BITS - 1) / BITS};
    s.copy = malloc(6 * (s.words + 1) * sizeof *s.copy);
    if (!s.copy)
        return wf_fails(ENOMEM);
    for (int i = 0; i < 3; i++) {
        s.given[i] = (unsigned long *)sets[i];
        if (s.given[i])
            memcpy(s.copy + (size_t)i * s.words, s.given[i], s.words * sizeof *s.copy);
    }
    int n = select_until(&s, count, until, only_looks, mask);
    if (n == 0)
        clear(&s);
    int kept = errno;
    free(s.copy);
    errno = kept;
    return only_looks ? n : (int)wf_spent(-1, n);
}

HOOK int pselect(int count, fd_set *reads, fd_set *writes, fd_set *others, const struct timespec *limit,
                 const sigset_t *mask)
{
    if (likely(!wf_hooked_here()) || count < 0 || is_wrong(limit) || !wf_may_wait())
        return wf_real.pselect(count, reads, writes, others, limit, mask);
    fd_set *const sets[3] = {reads, writes, others};
    if (!is_zero(limit) && wf_cancelled())
        return -1;
    return select_in_fiber(count, sets, end_of(limit), is_zero(limit), mask);
}

HOOK int select(int count, fd_set *reads, fd_set *writes, fd_set *others, struct timeval *limit)
{
    if (likely(!wf_hooked_here()) || count < 0 || (limit && (limit->tv_sec < 0 || limit->tv_usec < 0)) ||
        !wf_may_wait())
        return wf_real.select(count, reads, writes, others, limit);
    bool only_looks = limit && limit->tv_sec == 0 && limit->tv_usec == 0;
    if (!only_looks && wf_cancelled())
        return -1;
    fd_set *const sets[3] = {reads, writes, others};
    weft_time until = limit ? wf_ahead(limit->tv_sec + limit->tv_usec / 1000000, limit->tv_usec % 1000000 * 1000LL)
                            : WEFT_FOREVER;
    int n = select_in_fiber(count, sets, until, only_looks, NULL);
    if (limit) { /* on Linux it becomes what is left */
        int64_t left = until.ns == WEFT_FOREVER.ns ? 0 : until.ns - weft_now().ns;
        left = left < 0 ? 0 : left;
        if (until.ns != WEFT_FOREVER.ns)
            *limit = (struct timeval){left / WEFT_SEC, left % WEFT_SEC / 1000};
    }
    return n;
}

/* ---- epoll ---- */

static int epoll_until(int set, struct epoll_event *events, int room, weft_time until, const sigset_t *mask)
{
    struct wf_section section = {0};
    int signals = let_through(mask), n;
    do {
        struct pollfd fds[2] = {{.fd = set, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
        n = poll_until(&section, fds, signals < 0 ? 1 : 2, until, mask);
        if (n > 0 && fds[0].revents & POLLNVAL)
            n = wf_fails(EBADF);
        else if (n > 0 && signals >= 0 && fds[1].revents != 0)
            n = wf_real.ppoll(NULL, 0, &at_once, mask); /* epoll_pwait(2) lets none through if it is not to wait */
        if (n >= 0)
            n = wf_real.epoll_pwait(set, events, room, 0, mask);
    } while (n == 0 && weft_now().ns < until.ns);
    int kept = errno;
    if (signals >= 0)
        weft_own_close(signals);
    errno = kept;
    return n;
}

HOOK int epoll_pwait(int set, struct epoll_event *events, int room, int ms, const sigset_t *mask)
{
    if (likely(!wf_hooked_here()) || ms == 0 || !wf_may_wait())
        return wf_real.epoll_pwait(set, events, room, ms, mask);
    if (wf_cancelled())
        return -1;
    weft_time until = ms < 0 ? WEFT_FOREVER : weft_in(ms * (weft_span)WEFT_MS);
    int n = wf_real.epoll_pwait(set, events, room, 0, mask);
    return n != 0 ? (int)wf_spent(-1, n) : epoll_until(set, events, room, until, mask);
}

HOOK int epoll_wait(int set, struct epoll_event *events, int room, int ms)
{
    return likely(!wf_hooked_here()) ? wf_real.epoll_wait(set, events, room, ms)
                                     : epoll_pwait(set, events, room, ms, NULL);
}

HOOK int epoll_pwait2(int set, struct epoll_event *events, int room, const struct timespec *limit, const sigset_t *mask)
{
    if (likely(!wf_hooked_here()) || is_wrong(limit) || !wf_may_wait())
        return wf_real.epoll_pwait2(set, events, room, limit, mask);
    weft_time until = end_of(limit);
    if (!is_zero(limit) && wf_cancelled())
        return -1;
    int n = wf_real.epoll_pwait(set, events, room, 0, mask);
    if (is_zero(limit))
        return n;
    return n != 0 ? (int)wf_spent(-1, n) : epoll_until(set, events, room, until, mask);
}
