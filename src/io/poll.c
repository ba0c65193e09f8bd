/*
 * io/poll.c: waiting for descriptors that this library may know nothing about, one or many. Nothing is kept: a wait arms the
 * descriptor for one event, and who wakes asks the kernel what is so. (One that is registered for good, as this library's
 * own calls use it, is only made to report anew what is so.)
 *
 * A number that is closed behind our back while somebody waits, and reused, would never report. So a wait has parts, the first of
 * 50 ms, each longer than the one before, and no longer than 12.8 s: then it is armed again, whatever it is now.
 *
 * Our own set's events come to us only after we have left (its worker is running us), so a descriptor is armed first and
 * waited for after that. Nothing in between may give way.
 */
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <weft/io.h>

#include "base/errno.h"
#include "base/clock.h"
#include "base/own.h"
#include "base/raw.h"
#include "base/sys.h"
#include "base/thread.h"
#include "io/fd.h"
#include "io/set.h"
#include "sched/budget.h"
#include "sched/flow.h"
#include "sched/slice.h"
#include "sched/worker.h"

enum { FEW = 8 };

/* What is waited for on one descriptor. */
struct place {
    struct wf_waiter node;     /* guarded by: e->lock */
    struct wf_fd_thread plain; /* instead, on a plain thread. guarded by: e->lock */
    struct wf_fd_ref of;       /* when the wait began. of.e NULL: it is left out */
    uint32_t events;
    uint32_t ticket;
    bool armed;
    bool is_closed; /* weft_close of it is under way: it counts as closed, whatever generation `of` has */
};

struct wait_for {
    struct place *places;
    size_t count;
};

/* Whether its generation has not ended. */
static bool is_there(const struct wf_fd_ref *r)
{
    return wf_fd_is_of(r, wf_load(&r->e->word));
}

static void prepare(struct place *p, int fd, uint32_t events)
{
    *p = (struct place){.of.fd = fd, .events = events | POLLERR | POLLHUP};
    wf_fd_refer(&p->of, fd);
}

/*
 * Has it report what is so, once. In an epoll set that is one report for all who wait, of all that they want, and wakes all. It
 * must not replace what somebody here counts on: then the descriptor is registered for good instead. -EPERM: it cannot be
 * waited for.
 */
static int arm(struct wf_set *set, struct place *p, uint32_t also)
{
    bool for_all = set->backend == WF_EPOLL && !wf_fd_is_at(p->of.e, set->id);
    uint32_t others = 0;
    p->node.prev = &p->node; /* not linked */
    if (!wf_fd_enter(&p->of, 0)) {
        p->is_closed = true; /* a reference that was taken during the close has the next generation already */
        return -EBADF;
    }
    bool for_good = for_all && wf_fd_wanted(p->of.e, &others);
    for_all &= !for_good;
    p->node.data = (void *)(uintptr_t)(p->events | (for_all ? WF_FD_ANY : 0));
    uint32_t events = p->events | (for_all ? also | others : 0);
    int rc = for_good ? wf_fd_register(&p->of, set) : wf_set_arm(set, &p->of, events, &p->ticket);
    p->armed = rc == 0;
    wf_fd_leave(&p->of);
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
        if (!wf_fd_link(&p->of, &p->node, me))
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
        wf_fd_unlink(p->of.e, &p->node);
        disarm(set, p);
    }
}

/* What the same call wants of the same descriptor elsewhere. */
static uint32_t wanted_beside(const struct wait_for *all, size_t which)
{
    uint32_t events = 0;
    for (size_t i = 0; i < all->count && all->count <= 4 * FEW; i++) {
        if (i != which && all->places[i].of.fd == all->places[which].of.fd)
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
        if (!p->of.e)
            continue;
        rc = arm(set, p, wanted_beside(all, i));
        if (rc == -EPERM) { /* a regular file that asks for nothing it has: it never will */
            p->of.e = NULL;
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
        if (p->of.e && epoll_ctl(probe, EPOLL_CTL_ADD, p->of.fd, &none) != 0 && errno == EPERM) {
            p->of.e = NULL;
            any = true;
        }
    }
    if (probe >= 0)
        wf_own_close(probe);
    errno = kept;
    return any;
}

static int wait_once(struct wait_for *all, weft_time deadline)
{
    struct wf_sleeper own, *me = wf_sleeper(&own); /* before anything is armed, as it may give way */
    struct wf_set *set;
    int rc = wf_set_here(-1, &set);
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

/* When a part of a wait is over, if that is before its deadline. The first is number 0. */
static weft_time part_end(unsigned number, weft_time deadline)
{
    unsigned n = 2 * number < WF_VERIFY_MOST ? 2 * number : WF_VERIFY_MOST;
    weft_time t = {wf_thread_now()->worker->now + (WF_VERIFY_MS * WEFT_MS << n)};
    return t.ns < deadline.ns ? t : deadline;
}

static bool is_past(weft_time deadline)
{
    return deadline.ns != INT64_MAX && wf_clock_now() >= deadline.ns;
}

/* poll(2) of what is so; what was closed since the wait began, or is being closed, is POLLNVAL, whatever has its number now. */
static int look_at_all(struct pollfd *fds, const struct wait_for *all)
{
    int n = wf_poll_until(fds, all->count, INT64_MIN);
    for (size_t i = 0; n >= 0 && i < all->count; i++) {
        const struct place *p = &all->places[i];
        if (!p->of.e || (!p->is_closed && is_there(&p->of)))
            continue;
        n += fds[i].revents == 0;
        fds[i].revents = POLLNVAL;
    }
    return n;
}

/* Nothing could be armed, though no descriptor is known to be closed: the worker's set may be gone. Others run meanwhile. */
WF_COLD static int nap(weft_time deadline)
{
    weft_time t = {wf_clock_now() + WEFT_MS};
    int rc = weft_sleep_until(t.ns < deadline.ns ? t : deadline);
    return rc == 0 ? -ETIMEDOUT : rc;
}

static int poll_in_fiber(struct pollfd *fds, struct wait_for *all, weft_time deadline)
{
    for (unsigned part = 0;; part++) {
        int n = look_at_all(fds, all);
        if (n != 0 || wf_time_is_now(deadline))
            return n;
        int rc = wait_once(all, part_end(part, deadline));
        if (rc == -EBADF) {
            n = look_at_all(fds, all); /* it says which */
            if (n != 0)
                return n;
            rc = nap(deadline);
        }
        if (rc < 0 && rc != -ETIMEDOUT && !(rc == -EPERM && leave_out(all)))
            return rc;
        if (is_past(deadline)) /* whatever came: what wakes us may be for others */
            return look_at_all(fds, all);
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
            struct place *p = &all->places[i];
            p->plain.wake = wake;
            p->is_closed = p->of.e && !wf_fd_join_threads(&p->of, &p->plain);
        }
        n = look_at_all(fds, all);
        if (n == 0) {
            struct wf_flow *flow = wf_flow_cancellable();
            if (flow && !wf_flow_poll_begin(flow, wake))
                wf_raw_eventfd_write(wake, 1);
            n = wf_poll_until(with, all->count + 1, deadline.ns);
            if (flow)
                wf_flow_poll_end(flow);
            bool woken = n > 0;
            n = n < 0 ? n : look_at_all(fds, all);
            if (n == 0 && woken && flow && wf_flow_is_cancelled(flow))
                n = -ECANCELED;
        }
        for (size_t i = 0; i < all->count; i++) {
            if (all->places[i].of.e && !all->places[i].is_closed)
                wf_fd_leave_threads(all->places[i].of.e, &all->places[i].plain);
        }
        wf_sys_free(with);
    }
    wf_own_close(wake);
    return n;
}

int weft_poll(struct pollfd *fds, size_t count, weft_time deadline)
{
    wf_slice_here();
    if (!fds && count > 0)
        return -EFAULT;
    if (wf_cancel_point(wf_thread_now()->fiber, deadline))
        return -ECANCELED;
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
    wf_budget_spend_anywhere(WF_COST_IO, !wf_time_is_now(deadline));
    return n;
}

/* A descriptor that is closed is told apart from one that fails. */
static int look(int fd, uint32_t events)
{
    struct pollfd p = {.fd = fd, .events = (short)events};
    int n = wf_poll_until(&p, 1, INT64_MIN);
    return n <= 0 ? n : p.revents & POLLNVAL ? -EBADF : p.revents;
}

/* The same after a wait. A ring reports a file that got the number behind our back as ready, and an epoll set refuses it. */
WF_NOINLINE static int look_again(const struct wf_fd_ref *of, uint32_t events)
{
    if (!wf_fd_enter(of, 0))
        return -EBADF;
    int rc = look(of->fd, events);
    if (rc > 0 && wf_fd_is_file(of->fd))
        rc = -EPERM;
    wf_fd_leave(of);
    return rc;
}

/* What is left of a place while its fiber waits. */
struct armed {
    struct wf_set *set; /* where it is armed: the fiber may move */
    uint32_t ticket;
    uint32_t wants; /* its waiter */
};

WF_NOINLINE static int arm_one(const struct wf_fd_ref *of, uint32_t events, struct armed *out)
{
    struct place p = {.of = *of, .events = events};
    int rc = wf_set_here(of->fd, &out->set);
    if (rc == 0)
        rc = arm(out->set, &p, 0);
    out->ticket = p.ticket;
    out->wants = (uint32_t)(uintptr_t)p.node.data;
    return rc;
}

/* In a fiber. It leaves as little as possible on the stack: a shared stack is copied, and the copy takes memory. */
WF_NOINLINE static int wait_in_fiber(int fd, uint32_t events, weft_time deadline)
{
    struct wf_fd_ref of;
    int rc = wf_fd_refer(&of, fd);
    for (unsigned part = 0; rc == 0 || rc == -ETIMEDOUT; part++) {
        struct armed at;
        struct wf_sleeper *me = wf_sleeper(NULL); /* before arm_one, as this may give way */
        rc = arm_one(&of, events, &at);
        if (rc == 0) {
            rc = wf_fd_sleep(&of, me, at.wants, part_end(part, deadline));
            if (rc < 0)
                wf_set_disarm(at.set, at.ticket);
            else if ((uint32_t)rc & WF_FD_UNSURE)
                rc = look_again(&of, events);
        }
        if ((rc == 0 || rc == -ETIMEDOUT) && is_past(deadline)) {
            rc = look_again(&of, events);
            return rc == 0 ? -ETIMEDOUT : rc;
        }
        if (rc > 0 && !is_there(&of))
            return -EBADF; /* closed after it was ready, and before we had our turn */
    }
    return rc;
}

WF_NOINLINE static int wait_on_thread(int fd, uint32_t events, weft_time deadline)
{
    struct wf_fd_ref of;
    int rc = wf_fd_refer(&of, fd);
    return rc != 0 ? rc : wf_fd_wait(&of, events, 0, deadline);
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
    if (wf_cancel_point(wf_thread_now()->fiber, deadline))
        return -ECANCELED;
    return wf_thread_now()->fiber ? wait_in_fiber(fd, events | POLLERR | POLLHUP, deadline)
                                  : wait_on_thread(fd, events, deadline);
}
