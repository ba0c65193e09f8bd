/*
 * io/epoll.c: a worker's epoll set. A descriptor is registered once, edge-triggered, for everything; nothing is armed again
 * for a wait. Other threads end a wait through an eventfd, which is edge-triggered too and so need not be read.
 *
 * What an edge-triggered set cannot see is a descriptor that was closed behind our back, and its number reused: the kernel
 * has dropped the registration, and we think it is there. So a wait that takes long is verified, by the set of the worker that it
 * is of: EPOLL_CTL_MOD finds out, and reports again what is ready. Each time nothing is found, the next verification is later:
 * after 50 ms at first, and every 12.8 s in the end. What wakes a worker for that is a timer of the kernel's in the set, which is
 * set once for many waits: a wait with a timeout would have the kernel set a timer and take it back each time.
 *
 * The set itself, and what is in it of ours, are descriptors too, which a program may close by mistake in spite of all
 * (base/own.h). A call on the set that says so makes another one, with all that was in the first.
 */
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/errno.h"
#include "base/clock.h"
#include "base/own.h"
#include "base/raw.h"
#include "base/sys.h"
#include "io/attempt.h"
#include "io/fd.h"
#include "io/set.h"
#include "sched/worker.h"

enum { EVENTS_AT_ONCE = 256, VERIFIED_AT_ONCE = 256, AHEAD = 4, MOST_PATIENCE = 4 };

#define MS ((int64_t)1000000)

#define EVERYTHING (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI | EPOLLET)
#define WAKE UINT64_MAX
#define TIMER (UINT64_MAX - 1)

_Static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLPRI == POLLPRI && EPOLLERR == POLLERR &&
                   EPOLLHUP == POLLHUP && EPOLLRDHUP == POLLRDHUP,
               "an event is the same word for both");

/* owner: the worker, but for what `wake` uses */
struct epoll {
    struct wf_set set;
    int fd;             /* set under `fix`: who wakes may look at it there */
    int wake;           /* an eventfd. atomic: who wakes looks. set under `fix` */
    struct wf_lock fix; /* of whoever gives it another of the two */
    int timer;          /* a timerfd for verifying; -1: none yet, -2: none can be had */
    int64_t ticks_at;   /* when its event comes; INT64_MAX: it is not set */
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

/* ---- a set that the program has closed ---- */

/* Closes it, if the number is not the program's by now, or nobody's. */
WF_COLD static void give_up(int *fd, const char *kind)
{
    if (*fd >= 0 && wf_own_is(*fd, kind))
        wf_own_close(*fd);
    else
        wf_own_forget(*fd);
    *fd = -1;
}

static int add_wake(const struct epoll *p, int wake)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = WAKE};
    return wf_sys_epoll_ctl(p->fd, EPOLL_CTL_ADD, wake, &event);
}

/* Another eventfd, if it is not there any more. 0, or a negative errno. Any thread: the set wakes up by it. */
WF_COLD static int fix_wake(struct epoll *p)
{
    int rc = 0;
    wf_lock(&p->fix);
    if (!wf_own_is(p->wake, "[eventfd]")) {
        int wake = wf_sys_eventfd();
        rc = wake < 0 ? wake : add_wake(p, wake);
        if (rc == 0) {
            wf_set_tell_loss(&p->set, "eventfd", p->wake);
            wf_own_forget(p->wake);
            wf_store(&p->wake, wake);
        } else if (wake >= 0) {
            wf_own_close(wake);
        }
    }
    wf_unlock(&p->fix);
    return rc;
}

/* Everything that was registered is again; who waits by wf_epoll_arm looks, and arms again. */
WF_COLD static void register_all(struct epoll *p)
{
    unsigned fd = 0;
    for (struct wf_fd *e; (e = wf_fd_next(&fd, UINT_MAX)) != NULL; fd++) {
        uint32_t generation = wf_fd_generation(e);
        struct wf_fd_ref of = {(int)fd, generation, e};
        if (wf_fd_is_at(e, p->set.id) && wf_fd_enter(&of, 0)) {
            int rc = add(p, (int)fd, generation);
            wf_fd_leave(&of);
            if (rc < 0)
                wf_fd_event((int)fd, generation,
                            POLLIN | POLLOUT | POLLERR | POLLHUP); /* they try, and get the error */
        }
        wf_fd_event((int)fd, generation, 0);
    }
}

/* What it was is gone: another set. 0, or a negative errno: it is tried again at the next look. */
WF_COLD static int make_anew(struct epoll *p)
{
    int made = wf_sys_epoll_create();
    if (made < 0)
        return made;
    wf_set_tell_loss(&p->set, "epoll set", p->fd);
    wf_own_forget(p->fd);
    wf_lock(&p->fix); /* who wakes may be about to look whether its eventfd is there */
    p->fd = made;
    wf_unlock(&p->fix);
    give_up(&p->timer, "[timerfd]");
    p->ticks_at = INT64_MAX;
    int wake = wf_load(&p->wake);
    int rc = wf_own_is(wake, "[eventfd]") ? add_wake(p, wake) : fix_wake(p);
    if (rc != 0 && rc != -EEXIST) { /* it is there: a waker has replaced the eventfd meanwhile */
        wf_lock(&p->fix);
        p->fd = -1; /* the next look finds it so. The number may be another's soon */
        wf_unlock(&p->fix);
        wf_own_close(made);
        return rc;
    }
    register_all(p);
    return 0;
}

WF_COLD static bool is_gone(const struct epoll *p)
{
    return !wf_own_is(p->fd, "[eventpoll]");
}

/* Whether an error of epoll_ctl(2) was about the set, and there is another one now. */
static inline bool is_made_anew(struct epoll *p, int rc)
{
    return wf_unlikely(rc == -EBADF || rc == -EINVAL) && is_gone(p) && make_anew(p) == 0;
}

/* ---- */

int wf_epoll_register(struct wf_set *set, int fd, uint32_t generation)
{
    struct epoll *p = (struct epoll *)set;
    if (!remember(p, fd))
        return -ENOMEM;
    int rc = add(p, fd, generation);
    if (is_made_anew(p, rc))
        rc = add(p, fd, generation);
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
    if (is_made_anew(p, rc))
        rc = -ENOENT;
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
        wf_own_close(made);
    return false;
}

/* Has the set wake up in `ns`, if it does not sooner. False: the wait must. */
static bool tick(struct epoll *p, int64_t ns)
{
    int64_t at = p->set.worker->now + ns;
    if (p->ticks_at <= at)
        return true;
    if (p->timer < 0 && (p->timer == -2 || !make_timer(p)))
        return false;
    struct itimerspec in = {.it_value = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}};
    if (timerfd_settime(p->timer, 0, &in, NULL) != 0)
        return false;
    p->ticks_at = at;
    return true;
}

/* Not past the next verification. */
static int64_t at_most(struct epoll *p, int64_t ns)
{
    if (wf_likely(p->ticks_at <= p->set.verify_at)) /* it is set, or there is nothing to verify */
        return ns;
    int64_t most = p->set.verify_at - p->set.worker->now;
    if (most < MS)
        most = MS;
    return (ns < 0 || ns > most) && !tick(p, most) ? most : ns;
}

/* What is the matter with one that was registered here. */
enum wait_is {
    NOT_OURS, /* it was forgotten, or its generation has ended, and nobody of this worker waits */
    FINE,     /* nobody of this worker waits */
    YOUNG,    /* it is too early to say */
    LATE,     /* it is to be verified now */
};

/* Whether a waiter's wait is this set's to verify. */
static bool is_ours(const struct epoll *p, const struct wf_waiter *w)
{
    const weft_fiber *f = w->who->fiber;
    return w->index != 0 && !((uint32_t)(uintptr_t)w->data & (WF_FD_ANY | WF_FD_TOLD)) && f &&
           wf_load(&f->home) == p->set.worker;
}

/* In ms; 0: its wait is to be verified. Those that have been verified may be up to a quarter early: many at a time. */
static uint32_t time_left(const struct wf_fd *e, const struct wf_waiter *w, uint32_t now)
{
    uint32_t verified = (w->index & WF_FD_STAMP_COUNT) - 1, n = e->patience + verified;
    int32_t passed = (int32_t)((now | WF_FD_STAMP_COUNT) - (w->index | WF_FD_STAMP_COUNT)) >> WF_FD_STAMP_BITS;
    int32_t span = WF_VERIFY_MS << (n < WF_VERIFY_MOST ? n : WF_VERIFY_MOST);
    return passed >= (verified > 0 ? span - span / 4 : span) ? 0 : (uint32_t)(span - passed);
}

/* The time until the first wait of this set's is to be verified, in ms; UINT32_MAX: there is none. guarded by: e->lock */
static uint32_t first_left(const struct epoll *p, const struct wf_fd *e, uint32_t now)
{
    uint32_t left = UINT32_MAX;
    for (const struct wf_waiter *w = e->waiters.first; w; w = w->next) {
        uint32_t ms = is_ours(p, w) ? time_left(e, w, now) : UINT32_MAX;
        left = ms < left ? ms : left;
    }
    return left;
}

/* Those who wait count as verified if it is late. *left: the ms until it is, or is again. */
static enum wait_is judge(const struct epoll *p, struct wf_fd *e, int64_t now, uint32_t *left, uint32_t *generation)
{
    enum wait_is is = NOT_OURS;
    wf_lock(&e->lock);
    *generation = wf_fd_generation(e);
    for (int i = 0; i < WF_FD_PLACES; i++) {
        if (e->at[i] == p->set.id)
            is = FINE;
    }
    *left = first_left(p, e, wf_fd_stamp(now, 0));
    if (*left != UINT32_MAX)
        is = *left > 0 ? YOUNG : LATE;
    if (is == LATE) {
        for (struct wf_waiter *w = e->waiters.first; w; w = w->next) {
            uint32_t verified = w->index & WF_FD_STAMP_COUNT;
            if (is_ours(p, w))
                w->index = wf_fd_stamp(now, verified < WF_VERIFY_MOST ? verified : WF_VERIFY_MOST);
        }
        *left = first_left(p, e, wf_fd_stamp(now, 0));
    }
    wf_unlock(&e->lock);
    return is;
}

/* Whether a wait that has taken long waits for what is there: then what is known about the descriptor is wrong. */
static bool is_ready_unseen(const struct wf_fd_ref *r)
{
    uint64_t word = wf_load(&r->e->word);
    struct pollfd now = {
        .fd = r->fd,
        .events = (short)((word & WF_FD_DRAINED_IN ? POLLIN : 0) | (word & WF_FD_DRAINED_OUT ? POLLOUT : 0))};
    return now.events != 0 && wf_poll_until(&now, 1, INT64_MIN) > 0;
}

/*
 * It is registered, or is again; or those who wait for it learn that it is gone. If it is another file than what is known is
 * about, that is forgotten.
 */
static void put_right(struct epoll *p, const struct wf_fd_ref *r)
{
    struct epoll_event event = {.events = EVERYTHING, .data.u64 = tag(r->fd, r->generation)};
    if (!wf_fd_enter(r, 0))
        return;
    int rc = wf_sys_epoll_ctl(p->fd, EPOLL_CTL_MOD, r->fd, &event);
    bool same = rc == 0 && !is_ready_unseen(r);
    if (rc == -ENOENT) /* another file has its number */
        rc = add(p, r->fd, r->generation);
    wf_fd_exit(r, same ? 0 : WF_FD_BITS, 0);
    wf_lock(&r->e->lock);
    if (!same)
        r->e->patience = 0;
    else if (r->e->patience < MOST_PATIENCE)
        r->e->patience++;
    wf_unlock(&r->e->lock);
    if (rc < 0)
        wf_fd_event(r->fd, r->generation, POLLIN | POLLOUT | POLLERR | POLLHUP); /* they try, and get the error */
}

/* Looks after those of this worker who have waited for long: if there are many, after some, and soon after the next. */
static void verify(struct epoll *p)
{
    int64_t now = wf_clock_now(), next = INT64_MAX;
    int count = 0;
    for (size_t i = 0; i < p->count && count < VERIFIED_AT_ONCE;) {
        int fd = p->fds[i];
        struct wf_fd *e = wf_fd_look(fd);
        uint32_t generation, left;
        enum wait_is is = judge(p, e, now, &left, &generation);
        if (is == NOT_OURS) {
            p->fds[i] = p->fds[--p->count];
            continue;
        }
        if (is == LATE) {
            put_right(p, &(struct wf_fd_ref){fd, generation, e});
            count++;
        }
        if (is != FINE && left * MS < next)
            next = left * MS;
        i++;
    }
    if (count == VERIFIED_AT_ONCE)
        next = MS;
    else if (next < WF_VERIFY_MS * MS)
        next = WF_VERIFY_MS * MS; /* as often as this at most */
    p->set.verify_at = next == INT64_MAX ? INT64_MAX : now + next;
}

/*
 * Instead of a wait, while there is no set to be had: nobody spins. Short, as nobody can end it if the eventfd is gone too, or if
 * the limit of descriptors is so low that poll(2) takes none.
 */
WF_COLD static void nap(struct epoll *p, int64_t ns)
{
    int64_t most = 10 * WEFT_MS, until = wf_clock_now() + (ns < 0 || ns > most ? most : ns);
    struct pollfd wake = {.fd = wf_load(&p->wake), .events = POLLIN};
    int n = wf_own_is(wake.fd, "[eventfd]") ? wf_poll_until(&wake, 1, until) : -EBADF;
    eventfd_t count;
    if (n < 0)
        wf_poll_until(NULL, 0, until);
    else if (n > 0)
        wf_raw_eventfd_read(wake.fd, &count); /* a set needs no read, and poll(2) does */
}

/* The wait has failed. */
WF_COLD static void see_why(struct epoll *p, int64_t ns)
{
    if ((errno == EBADF || errno == EINVAL) && make_anew(p) != 0 && ns != 0)
        nap(p, ns);
}

static void poll_set(struct wf_io *io, int64_t ns)
{
    struct epoll *p = (struct epoll *)io;
    int kept = errno;
    bool due = false;
    int n = wait(p, at_most(p, ns));
    if (wf_unlikely(n < 0))
        see_why(p, ns);
    for (int i = 0; i < n; i++) {
        const struct epoll_event *event = &p->events[i];
        if (i + 2 * AHEAD < n)
            wf_fd_fetch((int)(uint32_t)event[2 * AHEAD].data.u64);
        if (i + AHEAD < n)
            wf_fd_fetch_waiter((int)(uint32_t)event[AHEAD].data.u64);
        if (wf_unlikely(event->data.u64 == TIMER)) {
            p->ticks_at = INT64_MAX;
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
    struct epoll *p = (struct epoll *)io;
    int kept = errno;
    if (wf_unlikely(wf_raw_eventfd_write(wf_load(&p->wake), 1) != 0) && errno != EAGAIN && fix_wake(p) == 0)
        wf_raw_eventfd_write(wf_load(&p->wake), 1);
    errno = kept;
}

static void leave(struct wf_io *io)
{
    (void)io; /* any thread may wait with it */
}

static void close_all(struct epoll *p)
{
    give_up(&p->fd, "[eventpoll]");
    give_up(&p->wake, "[eventfd]");
    give_up(&p->timer, "[timerfd]");
}

static void drop(struct wf_io *io)
{
    struct epoll *p = (struct epoll *)io;
    close_all(p);
    wf_sys_free(p->fds);
    wf_sys_free(p);
    wf_attempt_drop();
}

/* The set is the parent's too: to take anything out of it would take it out there. */
static void forget(struct wf_io *io)
{
    struct epoll *p = (struct epoll *)io;
    close_all(p);
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
    p->ticks_at = INT64_MAX;
    p->fd = wf_sys_epoll_create();
    p->wake = p->fd < 0 ? -1 : wf_sys_eventfd();
    int rc = p->fd < 0 ? p->fd : p->wake < 0 ? p->wake : 0;
    if (rc == 0)
        rc = add_wake(p, p->wake);
    if (rc == 0) {
        *out = &p->set;
        return 0;
    }
    if (p->wake >= 0)
        wf_own_close(p->wake);
    if (p->fd >= 0)
        wf_own_close(p->fd);
    wf_sys_free(p);
    return rc;
}
