/*
 * io/poll.c: waiting for descriptors that this library may know nothing about, one or many. Nothing is kept: a wait arms the
 * descriptor for one event, and who wakes asks the kernel what is so.
 *
 * A number that is closed behind our back while somebody waits, and reused, would never report. So the first 50 ms of a
 * wait are apart: then it is armed again, whatever it is now.
 *
 * Our own set's events come to us only after we have left (its worker is running us), so a descriptor is armed first and
 * waited for after that.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include <weft/io.h>

#include "base/clock.h"
#include "base/sys.h"
#include "base/thread.h"
#include "io/fd.h"
#include "io/set.h"
#include "sched/slice.h"
#include "sched/worker.h"

enum { FEW = 8 };

/* What is waited for on one descriptor. */
struct place {
    struct wf_waiter node; /* guarded by: e->lock */
    struct wf_fd *e;
    int fd;
    uint32_t generation, ticket;
};

struct wait_for {
    struct place *places;
    size_t count;
};

/* Has it report what is so, once. -EPERM: it cannot be waited for. */
static int arm(struct wf_set *set, struct place *p, int fd, uint32_t events)
{
    if (!wf_fd_enter(p->e, p->generation, 0))
        return -EBADF;
    int rc = wf_set_arm(set, p->e, fd, p->generation, events | wf_fd_wanted(p->e), &p->ticket);
    wf_fd_exit(p->e, 0, 0);
    return rc;
}

/* The commit step: from now on events find us. */
static bool link_all(struct wf_sleeper *me, void *arg)
{
    const struct wait_for *all = arg;
    for (size_t i = 0; i < all->count; i++) {
        struct place *p = &all->places[i];
        if (!p->e)
            continue;
        wf_lock(&p->e->lock);
        bool there = wf_fd_generation(p->e) == p->generation;
        if (there)
            wf_waiters_add(&p->e->waiters, &p->node, me);
        wf_unlock(&p->e->lock);
        if (!there)
            return false;
    }
    return true;
}

static void unlink_all(const struct wait_for *all, struct wf_set *set)
{
    for (size_t i = 0; i < all->count; i++) {
        struct place *p = &all->places[i];
        if (!p->e)
            continue;
        wf_lock(&p->e->lock);
        wf_waiters_remove(&p->e->waiters, &p->node);
        wf_unlock(&p->e->lock);
        wf_set_disarm(set, p->fd, p->ticket);
    }
}

static int wait_once(struct wait_for *all, weft_time deadline)
{
    struct wf_sleeper own, *me = wf_sleeper(&own);
    struct wf_worker *w = wf_thread_now()->worker;
    wf_store(&w->counts.watches, w->counts.watches + 1);
    int rc = wf_wait(me, "poll", link_all, all, deadline);
    struct wf_set *set = (struct wf_set *)w->driver.io;
    w = wf_thread_now()->worker;
    wf_store(&w->counts.watches, w->counts.watches - 1);
    unlink_all(all, set);
    return rc;
}

static void prepare(struct place *p, int fd, uint32_t events)
{
    *p = (struct place){.e = wf_fd_of(fd), .fd = fd};
    p->node.prev = &p->node; /* not linked */
    p->node.data = (void *)(uintptr_t)(events | WF_FD_ANY);
    if (p->e)
        p->generation = wf_fd_generation(p->e);
}

static int arm_all(struct wait_for *all, const struct pollfd *fds)
{
    struct wf_set *set;
    int rc = wf_set_here(&set);
    for (size_t i = 0; rc == 0 && i < all->count; i++) {
        if (fds[i].fd < 0)
            continue;
        uint32_t events = (uint32_t)(unsigned short)fds[i].events | POLLERR | POLLHUP;
        prepare(&all->places[i], fds[i].fd, events);
        rc = all->places[i].e ? arm(set, &all->places[i], fds[i].fd, events) : -ENOMEM;
        if (rc == -EPERM) { /* a regular file that asks for nothing it has: it never will */
            all->places[i].e = NULL;
            rc = 0;
        }
    }
    return rc;
}

/* When the first part of a wait is over, if that is before its deadline. */
static weft_time first_part(weft_time deadline)
{
    weft_time t = {wf_thread_now()->worker->now + WF_VERIFY_MS * WEFT_MS};
    return t.ns < deadline.ns ? t : deadline;
}

static int poll_in_fiber(struct pollfd *fds, struct wait_for *all, weft_time deadline)
{
    for (weft_time until = first_part(deadline);; until = deadline) {
        int n = wf_poll_until(fds, all->count, INT64_MIN);
        if (n != 0 || wf_time_is_now(deadline))
            return n;
        memset(all->places, 0, all->count * sizeof all->places[0]);
        int rc = arm_all(all, fds);
        if (rc == 0)
            rc = wait_once(all, until);
        bool over = deadline.ns != INT64_MAX && wf_clock_now() >= deadline.ns; /* what wakes us may be for others */
        if (over && (rc == 0 || rc == -ETIMEDOUT))
            return wf_poll_until(fds, all->count, INT64_MIN);
        if (rc < 0 && rc != -ETIMEDOUT && rc != -EBADF) /* that is for poll to say, as POLLNVAL */
            return rc;
    }
}

int weft_poll(struct pollfd *fds, size_t count, weft_time deadline)
{
    wf_slice_here();
    const struct wf_thread *t = wf_thread_now();
    if (!fds && count > 0)
        return -EFAULT;
    if (!t->fiber)
        return wf_poll_until(fds, count, deadline.ns);
    struct place few[FEW];
    bool fits = count <= FEW && !wf_on_copied_stack(few); /* others look at them while we wait */
    struct wait_for own = {.places = fits ? few : NULL, .count = count}, *all = &own;
    if (!fits) {
        all = wf_sys_malloc(sizeof *all + count * sizeof *all->places);
        if (!all)
            return -ENOMEM;
        *all = (struct wait_for){.places = (struct place *)(all + 1), .count = count};
    }
    int n = poll_in_fiber(fds, all, deadline);
    if (!fits)
        wf_sys_free(all);
    return n;
}

/* A descriptor that is closed is told apart from one that fails. */
static int look(int fd, uint32_t events, int64_t until)
{
    struct pollfd p = {.fd = fd, .events = (short)events};
    int n = wf_poll_until(&p, 1, until);
    return n <= 0 ? n : p.revents & POLLNVAL ? -EBADF : p.revents;
}

int weft_wait_fd(int fd, unsigned events, weft_time deadline)
{
    wf_slice_here();
    if (fd < 0)
        return -EBADF;
    if (events == 0 || events & ~(unsigned)(POLLIN | POLLOUT | POLLPRI | POLLRDHUP))
        return -EINVAL;
    if (wf_time_is_now(deadline)) {
        int now = look(fd, events, INT64_MIN);
        return now == 0 ? -EAGAIN : now;
    }
    struct wf_fd *e = wf_fd_of(fd);
    if (!e)
        return -ENOMEM;
    uint32_t generation = wf_fd_generation(e), all = events | POLLERR | POLLHUP;
    if (!wf_thread_now()->fiber)
        return wf_fd_wait(e, fd, generation, events, 0, deadline);
    for (weft_time until = first_part(deadline);; until = deadline) {
        struct place p;
        prepare(&p, fd, all);
        struct wf_set *set;
        int rc = p.generation != generation ? -EBADF : wf_set_here(&set);
        if (rc == 0)
            rc = arm(set, &p, fd, all);
        if (rc == 0) {
            rc = wf_fd_sleep(e, generation, all | WF_FD_ANY, until);
            if (rc < 0)
                wf_set_disarm(set, fd, p.ticket);
        }
        bool over = deadline.ns != INT64_MAX && wf_clock_now() >= deadline.ns;
        if (over && (rc == 0 || rc == -ETIMEDOUT)) {
            rc = wf_fd_generation(e) == generation ? look(fd, events, INT64_MIN) : -EBADF;
            return rc == 0 ? -ETIMEDOUT : rc;
        }
        if (rc != 0 && rc != -ETIMEDOUT)
            return rc;
    }
}
