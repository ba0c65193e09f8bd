/*
 * io/poll.c: waiting for descriptors that this library may know nothing about, one or many. Nothing is kept: a wait arms the
 * descriptor for one event, and who wakes asks the kernel what is so. (One that is registered for good, as this library's
 * own calls use it, is only made to report anew what is so.)
 *
 * A number that is closed behind our back while somebody waits, and reused, would never report. So the first 50 ms of a
 * wait are apart: then it is armed again, whatever it is now.
 *
 * Our own set's events come to us only after we have left (its worker is running us), so a descriptor is armed first and
 * waited for after that. Nothing in between may give way.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <weft/io.h>

#include "base/clock.h"
#include "base/raw.h"
#include "base/sys.h"
#include "base/thread.h"
#include "io/fd.h"
#include "io/set.h"
#include "sched/slice.h"
#include "sched/worker.h"

enum { FEW = 8 };

/* What is waited for on one descriptor. */
struct place {
    struct wf_waiter node;     /* guarded by: e->lock */
    struct wf_fd_thread plain; /* instead, on a plain thread. guarded by: e->lock */
    struct wf_fd *e;           /* NULL: it is left out */
    int fd;
    uint32_t events;
    uint32_t generation; /* when the wait began: it is about no other descriptor */
    uint32_t ticket;
    bool armed;
};

struct wait_for {
    struct place *places;
    size_t count;
};

static void prepare(struct place *p, int fd, uint32_t events)
{
    *p = (struct place){.e = fd < 0 ? NULL : wf_fd_of(fd), .fd = fd, .events = events | POLLERR | POLLHUP};
    if (p->e)
        p->generation = wf_fd_generation(p->e);
}

/*
 * Has it report what is so, once. In an epoll set that is one report for all who wait, of all that they want, and wakes all.
 * -EPERM: it cannot be waited for.
 */
static int arm(struct wf_set *set, struct place *p, uint32_t also)
{
    bool for_all = set->backend == WF_EPOLL && !wf_fd_is_at(p->e, set->id);
    p->node.prev = &p->node; /* not linked */
    p->node.data = (void *)(uintptr_t)(p->events | (for_all ? WF_FD_ANY : 0));
    if (!wf_fd_enter(p->e, p->generation, 0))
        return -EBADF;
    uint32_t events = p->events | (for_all ? also | wf_fd_wanted(p->e) : 0);
    int rc = wf_set_arm(set, p->e, p->fd, p->generation, events, &p->ticket);
    p->armed = rc == 0;
    wf_fd_exit(p->e, 0, 0);
    return rc;
}

static void disarm(struct wf_set *set, struct place *p)
{
    if (p->armed)
        wf_set_disarm(set, p->ticket);
    p->armed = false;
}

/* The commit step: from now on events find us. */
static bool link_all(struct wf_sleeper *me, void *arg)
{
    const struct wait_for *all = arg;
    for (size_t i = 0; i < all->count; i++) {
        struct place *p = &all->places[i];
        if (!p->armed)
            continue;
        if (!wf_fd_link(p->e, p->generation, &p->node, me))
            return false;
    }
    return true;
}

static void unlink_all(const struct wait_for *all, struct wf_set *set)
{
    for (size_t i = 0; i < all->count; i++) {
        struct place *p = &all->places[i];
        if (!p->armed)
            continue;
        wf_fd_unlink(p->e, &p->node);
        disarm(set, p);
    }
}

/* What the same call wants of the same descriptor elsewhere. */
static uint32_t wanted_beside(const struct wait_for *all, size_t which)
{
    uint32_t events = 0;
    for (size_t i = 0; i < all->count && all->count <= 4 * FEW; i++) {
        if (i != which && all->places[i].fd == all->places[which].fd)
            events |= all->places[i].events;
    }
    return all->count <= 4 * FEW ? events : POLLIN | POLLOUT | POLLPRI | POLLRDHUP;
}

/* 0, or a negative errno; -EBADF: one of them was closed. */
static int arm_all(struct wait_for *all, struct wf_set *set)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < all->count; i++) {
        struct place *p = &all->places[i];
        if (!p->e)
            continue;
        rc = arm(set, p, wanted_beside(all, i));
        if (rc == -EPERM) { /* a regular file that asks for nothing it has: it never will */
            p->e = NULL;
            rc = 0;
        }
    }
    return rc;
}

/* Leaves out what cannot be waited for, as it is always ready or never will be: false, there is none. */
WF_COLD static bool leave_out(struct wait_for *all)
{
    int probe = wf_sys_epoll_create(), kept = errno;
    bool any = false;
    for (size_t i = 0; probe >= 0 && i < all->count; i++) {
        struct place *p = &all->places[i];
        struct epoll_event none = {0};
        if (p->e && epoll_ctl(probe, EPOLL_CTL_ADD, p->fd, &none) != 0 && errno == EPERM) {
            p->e = NULL;
            any = true;
        }
    }
    if (probe >= 0)
        wf_raw_close(probe);
    errno = kept;
    return any;
}

static int wait_once(struct wait_for *all, weft_time deadline)
{
    struct wf_sleeper own, *me = wf_sleeper(&own); /* before anything is armed, as it may give way */
    struct wf_set *set;
    int rc = wf_set_here(&set);
    if (rc != 0)
        return rc;
    rc = arm_all(all, set);
    if (rc == 0) {
        struct wf_worker *w = wf_thread_now()->worker;
        wf_store(&w->counts.watches, w->counts.watches + 1);
        rc = wf_wait(me, "poll", link_all, all, deadline);
        w = wf_thread_now()->worker;
        wf_store(&w->counts.watches, w->counts.watches - 1);
    }
    unlink_all(all, set);
    return rc;
}

/* When the first part of a wait is over, if that is before its deadline. */
static weft_time first_part(weft_time deadline)
{
    weft_time t = {wf_thread_now()->worker->now + WF_VERIFY_MS * WEFT_MS};
    return t.ns < deadline.ns ? t : deadline;
}

static bool is_past(weft_time deadline)
{
    return deadline.ns != INT64_MAX && wf_clock_now() >= deadline.ns;
}

/* poll(2) of what is so; what was closed since the wait began is POLLNVAL, whatever has its number now. */
static int look_at_all(struct pollfd *fds, const struct wait_for *all)
{
    int n = wf_poll_until(fds, all->count, INT64_MIN);
    for (size_t i = 0; n >= 0 && i < all->count; i++) {
        const struct place *p = &all->places[i];
        if (!p->e || wf_fd_generation(p->e) == p->generation)
            continue;
        n += fds[i].revents == 0;
        fds[i].revents = POLLNVAL;
    }
    return n;
}

static int poll_in_fiber(struct pollfd *fds, struct wait_for *all, weft_time deadline)
{
    for (weft_time until = first_part(deadline);; until = deadline) {
        int n = look_at_all(fds, all);
        if (n != 0 || wf_time_is_now(deadline))
            return n;
        int rc = wait_once(all, until);
        if (is_past(deadline) && (rc == 0 || rc == -ETIMEDOUT)) /* what wakes us may be for others */
            return look_at_all(fds, all);
        if (rc == -EPERM && leave_out(all))
            continue;
        if (rc < 0 && rc != -ETIMEDOUT && rc != -EBADF) /* that is for look_at_all to say */
            return rc;
    }
}

/* On a plain thread: poll(2), with an eventfd that weft_close writes to. */
static int poll_on_thread(struct pollfd *fds, struct wait_for *all, weft_time deadline)
{
    int wake = wf_sys_eventfd();
    if (wake < 0)
        return wake;
    struct pollfd *with = wf_sys_malloc((all->count + 1) * sizeof *with);
    int n = with ? 0 : -ENOMEM;
    if (with) {
        if (all->count > 0)
            memcpy(with, fds, all->count * sizeof *fds);
        with[all->count] = (struct pollfd){.fd = wake, .events = POLLIN};
        for (size_t i = 0; i < all->count; i++) {
            all->places[i].plain.wake = wake;
            if (all->places[i].e)
                wf_fd_join_threads(all->places[i].e, &all->places[i].plain);
        }
        n = look_at_all(fds, all);
        if (n == 0) {
            n = wf_poll_until(with, all->count + 1, deadline.ns);
            n = n < 0 ? n : look_at_all(fds, all);
        }
        for (size_t i = 0; i < all->count; i++) {
            if (all->places[i].e)
                wf_fd_leave_threads(all->places[i].e, &all->places[i].plain);
        }
        wf_sys_free(with);
    }
    wf_raw_close(wake);
    return n;
}

int weft_poll(struct pollfd *fds, size_t count, weft_time deadline)
{
    wf_slice_here();
    if (!fds && count > 0)
        return -EFAULT;
    struct place few[FEW];
    bool fits = count <= FEW && !wf_on_copied_stack(few); /* others look at them while we wait */
    struct wait_for own = {.places = fits ? few : NULL, .count = count}, *all = &own;
    if (!fits) {
        all = wf_sys_malloc(sizeof *all + count * sizeof *all->places);
        if (!all)
            return -ENOMEM;
        *all = (struct wait_for){.places = (struct place *)(all + 1), .count = count};
    }
    for (size_t i = 0; i < count; i++)
        prepare(&all->places[i], fds[i].fd, (uint32_t)(unsigned short)fds[i].events);
    int n = wf_thread_now()->fiber ? poll_in_fiber(fds, all, deadline) : poll_on_thread(fds, all, deadline);
    if (!fits)
        wf_sys_free(all);
    return n;
}

/* A descriptor that is closed is told apart from one that fails. */
static int look(int fd, uint32_t events)
{
    struct pollfd p = {.fd = fd, .events = (short)events};
    int n = wf_poll_until(&p, 1, INT64_MIN);
    return n <= 0 ? n : p.revents & POLLNVAL ? -EBADF : p.revents;
}

/* One part of a wait: the events, 0, or a negative errno. */
static int wait_for_one(struct place *p, weft_time deadline)
{
    struct wf_sleeper own, *me = wf_sleeper(&own); /* before it is armed */
    struct wf_set *set;
    int rc = wf_set_here(&set);
    if (rc == 0)
        rc = arm(set, p, 0);
    if (rc != 0)
        return rc;
    rc = wf_fd_sleep(p->e, p->generation, me, (uint32_t)(uintptr_t)p->node.data, deadline);
    if (rc < 0)
        disarm(set, p);
    return rc;
}

int weft_wait_fd(int fd, unsigned events, weft_time deadline)
{
    wf_slice_here();
    if (fd < 0)
        return -EBADF;
    if (events == 0 || events & ~(unsigned)(POLLIN | POLLOUT | POLLPRI | POLLRDHUP))
        return -EINVAL;
    if (wf_time_is_now(deadline)) {
        int now = look(fd, events);
        return now == 0 ? -EAGAIN : now;
    }
    struct place p;
    prepare(&p, fd, events);
    if (!p.e)
        return -ENOMEM;
    if (!wf_thread_now()->fiber)
        return wf_fd_wait(p.e, fd, p.generation, events, 0, deadline);
    for (weft_time until = first_part(deadline);; until = deadline) {
        int rc = wait_for_one(&p, until);
        if (is_past(deadline) && (rc == 0 || rc == -ETIMEDOUT)) {
            rc = wf_fd_generation(p.e) == p.generation ? look(fd, events) : -EBADF;
            return rc == 0 ? -ETIMEDOUT : rc;
        }
        if (rc > 0 && wf_fd_generation(p.e) != p.generation)
            return -EBADF; /* closed after it was ready, and before we had our turn */
        if (rc != 0 && rc != -ETIMEDOUT)
            return rc;
    }
}
