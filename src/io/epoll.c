/*
 * io/epoll.c: a worker's epoll set. A descriptor is registered once, edge-triggered, for everything; nothing is armed again
 * for a wait. Other threads end a wait through an eventfd, which is edge-triggered too and so need not be read.
 *
 * What an edge-triggered set cannot see is a descriptor that was closed behind our back, and its number reused: the kernel
 * has dropped the registration, and we think it is there. So a wait that takes long is verified: EPOLL_CTL_MOD finds out,
 * and reports again what is ready. Each time nothing is found, the next verification of this descriptor is later. What
 * wakes a worker for that is a timer of the kernel's in the set, which is set once for many waits: a wait with a timeout
 * would have the kernel set a timer and take it back each time.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/raw.h"
#include "base/sys.h"
#include "io/attempt.h"
#include "io/fd.h"
#include "io/set.h"
#include "sched/worker.h"

enum { EVENTS_AT_ONCE = 256, AHEAD = 4, MOST_PATIENCE = 4 };

#define EVERYTHING (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI | EPOLLET)
#define WAKE UINT64_MAX
#define TIMER (UINT64_MAX - 1)

_Static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLPRI == POLLPRI && EPOLLERR == POLLERR &&
                   EPOLLHUP == POLLHUP && EPOLLRDHUP == POLLRDHUP,
               "an event is the same word for both");

/* owner: the worker, but for what `wake` uses */
struct epoll {
    struct wf_set set;
    int fd, wake;       /* const; wake: an eventfd */
    int timer;          /* a timerfd for verifying; -1: none yet, -2: none can be had */
    bool ticks;         /* it is set, and its event has not come */
    bool coarse;        /* the kernel has no epoll_pwait2: ms */
    int *fds;           /* what is registered, some of it long gone */
    size_t count, room; /* of fds */
    struct epoll_event events[EVENTS_AT_ONCE];
};

static uint64_t tag(int fd, uint32_t generation)
{
    return (uint64_t)generation << 32 | (uint32_t)fd;
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* A number that was closed and used again is there more than once. */
static void forget_doubles(struct epoll *p)
{
    size_t n = 0;
    if (p->count == 0)
        return; /* qsort must not be given NULL, whatever the count */
    qsort(p->fds, p->count, sizeof p->fds[0], by_number);
    for (size_t i = 0; i < p->count; i++) {
        if (i == 0 || p->fds[i] != p->fds[i - 1])
            p->fds[n++] = p->fds[i];
    }
    p->count = n;
}

static bool remember(struct epoll *p, int fd)
{
    if (p->count == p->room) {
        forget_doubles(p);
        if (p->count < p->room / 2) {
            p->fds[p->count++] = fd;
            return true;
        }
        size_t room = p->room ? 2 * p->room : 64;
        int *fds = wf_sys_malloc(room * sizeof *fds);
        if (!fds)
            return false;
        if (p->count > 0)
            memcpy(fds, p->fds, p->count * sizeof *fds);
        wf_sys_free(p->fds);
        p->fds = fds;
        p->room = room;
    }
    p->fds[p->count++] = fd;
    return true;
}

/* 0, or a negative errno. One that is there already is reported anew. */
static int add(struct epoll *p, int fd, uint32_t generation)
{
    struct epoll_event event = {.events = EVERYTHING, .data.u64 = tag(fd, generation)};
    int rc = wf_sys_epoll_ctl(p->fd, EPOLL_CTL_ADD, fd, &event);
    return rc == -EEXIST ? wf_sys_epoll_ctl(p->fd, EPOLL_CTL_MOD, fd, &event) : rc;
}

int wf_epoll_register(struct wf_set *set, int fd, uint32_t generation)
{
    struct epoll *p = (struct epoll *)set;
    if (!remember(p, fd))
        return -ENOMEM;
    int rc = add(p, fd, generation);
    if (rc != 0)
        p->count--;
    return rc;
}

int wf_epoll_arm(struct wf_set *set, int fd, uint32_t generation, uint32_t events, bool registered)
{
    struct epoll *p = (struct epoll *)set;
    struct epoll_event event = {.events = registered ? EVERYTHING : events | EPOLLONESHOT,
                                .data.u64 = tag(fd, generation)};
    int rc = wf_sys_epoll_ctl(p->fd, EPOLL_CTL_MOD, fd, &event);
    return rc == -ENOENT ? wf_sys_epoll_ctl(p->fd, EPOLL_CTL_ADD, fd, &event) : rc;
}

static int wait_coarsely(struct epoll *p, int64_t ns)
{
    int64_t ms = ns < 0 ? -1 : (ns + 999999) / 1000000;
    return wf_raw_epoll_wait(p->fd, p->events, EVENTS_AT_ONCE, ms > INT32_MAX ? INT32_MAX : (int)ms);
}

/* `ns`: for how long; -1: until an event comes. */
static int wait(struct epoll *p, int64_t ns)
{
    if (p->coarse || ns == 0)
        return wait_coarsely(p, ns);
    struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    int n = wf_raw_epoll_pwait2(p->fd, p->events, EVENTS_AT_ONCE, ns < 0 ? NULL : &t);
    if (n < 0 && (errno == ENOSYS || errno == EPERM)) { /* EPERM: a sandbox that does not know it */
        p->coarse = true;
        return wait_coarsely(p, ns);
    }
    return n;
}

/* False: none can be had. */
WF_COLD static bool make_timer(struct epoll *p)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = TIMER};
    p->timer = wf_sys_timerfd(CLOCK_MONOTONIC);
    if (p->timer >= 0 && wf_sys_epoll_ctl(p->fd, EPOLL_CTL_ADD, p->timer, &event) == 0)
        return true;
    int made = p->timer;
    p->timer = -2;
    if (made >= 0)
        wf_raw_close(made);
    return false;
}

/* Has the set wake up in `ns`, if it does not sooner. False: the wait must. */
static bool tick(struct epoll *p, int64_t ns)
{
    if (p->ticks)
        return true;
    if (p->timer < 0 && (p->timer == -2 || !make_timer(p)))
        return false;
    struct itimerspec in = {.it_value.tv_nsec = ns};
    p->ticks = timerfd_settime(p->timer, 0, &in, NULL) == 0;
    return p->ticks;
}

/* Not past the next verification. */
static int64_t at_most(struct epoll *p, int64_t ns)
{
    int64_t most = WF_VERIFY_MS * (int64_t)1000000;
    return p->set.verify_at != INT64_MAX && (ns < 0 || ns > most) && !tick(p, most) ? most : ns;
}

/* What is the matter with one that was registered here. */
enum wait_is {
    NOT_OURS, /* it was forgotten, or its generation has ended */
    FINE,     /* nobody waits, or it was verified */
    YOUNG,    /* it is too early to say */
    LATE,     /* it is to be verified now */
};

/* Counts as verified if it is late. */
static enum wait_is judge(const struct epoll *p, struct wf_fd *e, uint32_t now_ms, uint32_t *generation)
{
    enum wait_is is = NOT_OURS;
    wf_lock(&e->lock);
    for (int i = 0; i < WF_FD_PLACES; i++) {
        if (e->at[i] == p->set.id)
            is = FINE;
    }
    *generation = 0;
    if (is == FINE && e->parked_at != 0) {
        if (now_ms - e->parked_at < (uint32_t)WF_VERIFY_MS << e->patience) {
            is = YOUNG;
        } else {
            wf_store(&e->parked_at, 0);
            *generation = wf_fd_generation(e);
            is = LATE;
        }
    }
    wf_unlock(&e->lock);
    return is;
}

/* It is registered, or is again; or those who wait for it learn that it is gone. */
static void put_right(struct epoll *p, struct wf_fd *e, int fd, uint32_t generation)
{
    struct epoll_event event = {.events = EVERYTHING, .data.u64 = tag(fd, generation)};
    if (!wf_fd_enter(e, generation, 0))
        return;
    int rc = wf_sys_epoll_ctl(p->fd, EPOLL_CTL_MOD, fd, &event);
    if (rc == -ENOENT) /* another file has its number */
        rc = add(p, fd, generation);
    else if (rc == 0)
        rc = 1;
    wf_fd_exit(e, rc == 1 ? 0 : WF_FD_BITS, 0);
    wf_lock(&e->lock);
    if (rc != 1)
        e->patience = 0;
    else if (e->patience < MOST_PATIENCE)
        e->patience++;
    wf_unlock(&e->lock);
    if (rc < 0)
        wf_fd_event(fd, generation, POLLIN | POLLOUT | POLLERR | POLLHUP); /* they try, and get the error */
}

/* Looks after everybody who has waited for long. */
static void verify(struct epoll *p)
{
    int64_t now = wf_clock_now();
    bool young = false;
    for (size_t i = 0; i < p->count;) {
        int fd = p->fds[i];
        struct wf_fd *e = wf_fd_look(fd);
        uint32_t generation;
        enum wait_is is = judge(p, e, (uint32_t)(now / 1000000) | 1, &generation);
        if (is == NOT_OURS) {
            p->fds[i] = p->fds[--p->count];
            continue;
        }
        young |= is == YOUNG;
        if (is == LATE)
            put_right(p, e, fd, generation);
        i++;
    }
    p->set.verify_at = young ? now + WF_VERIFY_MS * (int64_t)1000000 : INT64_MAX;
}

static void poll_set(struct wf_io *io, int64_t ns)
{
    struct epoll *p = (struct epoll *)io;
    int kept = errno;
    bool due = false;
    int n = wait(p, at_most(p, ns));
    for (int i = 0; i < n; i++) {
        const struct epoll_event *event = &p->events[i];
        if (i + 2 * AHEAD < n)
            wf_fd_fetch((int)(uint32_t)event[2 * AHEAD].data.u64);
        if (i + AHEAD < n)
            wf_fd_fetch_waiter((int)(uint32_t)event[AHEAD].data.u64);
        if (wf_unlikely(event->data.u64 == TIMER)) {
            p->ticks = false;
            due = true;
        } else if (wf_likely(event->data.u64 != WAKE))
            wf_fd_event((int)(uint32_t)event->data.u64, (uint32_t)(event->data.u64 >> 32), event->events);
    }
    if (wf_unlikely(p->set.verify_at != INT64_MAX) && (due || p->set.verify_at <= p->set.worker->now))
        verify(p);
    errno = kept;
}

static void wake(struct wf_io *io)
{
    int kept = errno;
    wf_raw_eventfd_write(((struct epoll *)io)->wake, 1);
    errno = kept;
}

static void leave(struct wf_io *io)
{
    (void)io; /* any thread may wait with it */
}

static void drop(struct wf_io *io)
{
    struct epoll *p = (struct epoll *)io;
    int kept = errno;
    wf_raw_close(p->fd);
    wf_raw_close(p->wake);
    if (p->timer >= 0)
        wf_raw_close(p->timer);
    errno = kept;
    wf_sys_free(p->fds);
    wf_sys_free(p);
    wf_attempt_drop();
}

/* The set is the parent's too: to take anything out of it would take it out there. */
static void forget(struct wf_io *io)
{
    struct epoll *p = (struct epoll *)io;
    int kept = errno;
    wf_raw_close(p->fd);
    wf_raw_close(p->wake);
    if (p->timer >= 0)
        wf_raw_close(p->timer);
    errno = kept;
    wf_set_forget(&p->set);
}

static const struct wf_io_ops ops = {.poll = poll_set, .wake = wake, .leave = leave, .drop = drop, .forget = forget};

int wf_epoll_new(struct wf_set **out, struct wf_worker *w)
{
    struct epoll *p = wf_sys_malloc(sizeof *p);
    if (!p)
        return -ENOMEM;
    memset(p, 0, sizeof *p);
    p->set = (struct wf_set){.io.ops = &ops, .backend = WF_EPOLL, .worker = w, .verify_at = INT64_MAX, .there = true};
    p->timer = -1;
    p->fd = wf_sys_epoll_create();
    p->wake = p->fd < 0 ? -1 : wf_sys_eventfd();
    int rc = p->fd < 0 ? p->fd : p->wake < 0 ? p->wake : 0;
    if (rc == 0) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = WAKE};
        rc = wf_sys_epoll_ctl(p->fd, EPOLL_CTL_ADD, p->wake, &event);
    }
    if (rc == 0) {
        *out = &p->set;
        return 0;
    }
    if (p->wake >= 0)
        wf_raw_close(p->wake);
    if (p->fd >= 0)
        wf_raw_close(p->fd);
    wf_sys_free(p);
    return rc;
}
