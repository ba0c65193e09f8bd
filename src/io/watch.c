/*
 * io/watch.c: see watch.h and weft/watch.h.
 */
#include "io/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

#include <weft/watch.h>

#include "base/sys.h"
#include "base/thread.h"
#include "io/fd.h"
#include "io/set.h"
#include "sched/pending.h"
#include "sched/slice.h"
#include "sched/worker.h"

#define BOTH ((unsigned)(WEFT_READ | WEFT_WRITE))

_Static_assert(WEFT_READ == POLLIN && WEFT_WRITE == POLLOUT, "a direction is an event");

struct wf_watch {
    struct wf_watch *next; /* of the descriptor's; or of those taken out */
    int fd;                /* const */
    unsigned direction;    /* const: WEFT_READ or WEFT_WRITE */
    unsigned events;       /* what it ends with. owner: who took it out */
    weft_watch_fn *fn;     /* const; NULL: unpark */
    void *arg;             /* const */
    weft_fiber *unpark;    /* const: whom */
    weft_fiber *fiber;     /* const: what runs it, not yet started */
    uint32_t ticket;       /* of the poll in its worker's ring. owner: the worker */
};

/* In its fiber. */
static void *run_watch(void *arg)
{
    struct wf_watch w = *(struct wf_watch *)arg;
    struct wf_worker *worker = wf_thread_now()->worker;
    wf_store(&worker->counts.watches, worker->counts.watches - 1);
    wf_sys_free(arg);
    if (w.ticket && (w.events == WF_WATCH_DELETED || w.events & WEFT_CANCELED))
        wf_set_disarm((struct wf_set *)worker->driver.io, w.ticket);
    if (w.events == WF_WATCH_DELETED)
        return NULL;
    if (w.fn)
        w.fn(w.fd, w.events, w.arg);
    else
        weft_unpark(w.unpark);
    return NULL;
}

struct wf_watch *wf_watch_take_for(struct wf_fd *e, uint32_t directions, uint32_t events)
{
    struct wf_watch *taken = NULL;
    for (struct wf_watch **p = &e->watch; *p;) {
        struct wf_watch *w = *p;
        if (!(w->direction & directions)) {
            p = &w->next;
            continue;
        }
        *p = w->next;
        w->events = events == WF_WATCH_DELETED ? WF_WATCH_DELETED : events | w->direction;
        w->next = taken;
        taken = w;
    }
    return taken;
}

struct wf_watch *wf_watch_take(struct wf_fd *e, uint32_t events)
{
    uint32_t directions = 0;
    if (events & (POLLIN | POLLRDHUP | POLLERR | POLLHUP))
        directions |= WEFT_READ;
    if (events & (POLLOUT | POLLERR | POLLHUP))
        directions |= WEFT_WRITE;
    return wf_watch_take_for(e, directions, events & (POLLERR | POLLHUP | POLLRDHUP));
}

void wf_watch_fire(struct wf_watch *list)
{
    while (list) {
        struct wf_watch *next = list->next; /* it is gone once its fiber has started */
        wf_pending_start(list->fiber);
        list = next;
    }
}

/* All that is needed to fire, before anybody can see it. `w`: the worker that it is for. */
static int new_watch(struct wf_watch **out, int fd, unsigned direction, weft_watch_fn *fn, void *arg,
                     struct wf_worker *worker)
{
    struct wf_watch *w = wf_sys_malloc(sizeof *w);
    if (!w)
        return -ENOMEM;
    *w = (struct wf_watch){.fd = fd, .direction = direction, .fn = fn, .arg = arg, .unpark = wf_thread_now()->fiber};
    int rc = wf_pending_new(&w->fiber, "weft_watch_add", worker, run_watch, w);
    if (rc != 0) {
        wf_sys_free(w);
        return rc;
    }
    *out = w;
    return 0;
}

static bool has(const struct wf_fd *e, unsigned directions)
{
    for (const struct wf_watch *w = e->watch; w; w = w->next) {
        if (w->direction & directions)
            return true;
    }
    return false;
}

/* On its worker: has events reported, those that are so by now included. A ring has a poll for each. */
static int arm(struct wf_fd *e, int fd, uint32_t generation, struct wf_watch *const *made, int count)
{
    struct wf_set *set;
    int rc = wf_set_here(&set);
    if (rc == 0 && set->backend == WF_EPOLL)
        return wf_fd_register(e, fd, generation, set);
    for (int i = 0; rc == 0 && i < count; i++) { /* they are there until this worker runs their fibers */
        uint32_t events = made[i]->direction | (made[i]->direction == WEFT_READ ? POLLRDHUP : 0);
        rc = wf_set_arm(set, e, fd, generation, events, &made[i]->ticket);
    }
    return rc;
}

/* Whether it can be watched at all; a negative errno. */
static int check_kind(int fd)
{
    struct stat st;
    int kept = errno, rc = fstat(fd, &st) == 0 ? 0 : -errno;
    errno = kept;
    if (rc == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode)))
        rc = -EPERM;
    return rc;
}

/* Publishes them; -EEXIST: they are as they were. */
static int publish(struct wf_fd *e, struct wf_watch *const *made, int count, uint32_t *generation)
{
    int rc = 0;
    wf_lock(&e->lock);
    *generation = wf_fd_generation(e);
    for (int i = 0; i < count; i++)
        rc = has(e, made[i]->direction) ? -EEXIST : rc;
    for (int i = 0; rc == 0 && i < count; i++) {
        made[i]->next = e->watch;
        e->watch = made[i];
    }
    wf_unlock(&e->lock);
    return rc;
}

static void remove_watches(struct wf_fd *e, unsigned directions)
{
    wf_lock(&e->lock);
    struct wf_watch *taken = wf_watch_take_for(e, directions, WF_WATCH_DELETED);
    wf_unlock(&e->lock);
    wf_watch_fire(taken);
}

/* The scheduler is being stopped. On the worker, so the watch is there. */
static void cancel_pending(weft_fiber *f)
{
    if (f->fn != run_watch)
        return;
    const struct wf_watch *w = f->arg;
    struct wf_fd *e = wf_fd_look(w->fd);
    struct wf_watch *taken = NULL;
    wf_lock(&e->lock);
    for (struct wf_watch **p = &e->watch; *p && !taken; p = &(*p)->next) {
        if (*p != w)
            continue;
        taken = *p;
        *p = taken->next;
        taken->next = NULL;
        taken->events = WEFT_CANCELED | taken->direction;
        break;
    }
    wf_unlock(&e->lock);
    wf_watch_fire(taken);
}

/* In a fiber of the scheduler, on the worker that the watches are for. */
static int add_here(int fd, unsigned events, weft_watch_fn *fn, void *arg)
{
    struct wf_worker *worker = wf_thread_now()->worker;
    struct wf_fd *e = wf_fd_of(fd);
    struct wf_watch *made[2];
    if (!wf_load(&wf_pending_cancel))
        wf_store(&wf_pending_cancel, cancel_pending);
    uint32_t generation = 0;
    int count = 0, rc = e ? 0 : -ENOMEM;
    for (unsigned d = WEFT_READ; rc == 0 && d <= WEFT_WRITE; d <<= 1) {
        if (events & d & BOTH) {
            rc = new_watch(&made[count], fd, d, fn, arg, worker);
            count += rc == 0;
        }
    }
    wf_store(&worker->counts.watches, worker->counts.watches + (size_t)count);
    if (rc == 0)
        rc = publish(e, made, count, &generation);
    if (rc != 0) {
        for (int i = 0; i < count; i++) {
            made[i]->events = WF_WATCH_DELETED;
            made[i]->next = NULL;
            wf_watch_fire(made[i]);
        }
        return rc;
    }
    rc = arm(e, fd, generation, made, count);
    if (rc != 0)
        remove_watches(e, events);
    return rc;
}

struct request {
    int fd;
    unsigned events;
    weft_watch_fn *fn;
    void *arg;
};

static void *add_there(void *arg)
{
    struct request *r = arg;
    return (void *)(intptr_t)add_here(r->fd, r->events, r->fn, r->arg);
}

int weft_watch_add(int fd, unsigned events, weft_watch_fn *fn, void *arg)
{
    wf_slice_here();
    bool in_fiber = wf_thread_now()->fiber != NULL;
    if (events == 0 || events & ~BOTH || (!fn && !in_fiber))
        return -EINVAL;
    int rc = fd < 0 ? -EBADF : check_kind(fd);
    if (rc != 0)
        return rc;
    if (in_fiber)
        return add_here(fd, events, fn, arg);
    struct request r = {fd, events, fn, arg};
    weft_fiber *f;
    void *value;
    rc = weft_go_with(&f, NULL, add_there, &r);
    return rc != 0 ? rc : weft_join(f, &value, WEFT_FOREVER) != 0 ? -EAGAIN : (int)(intptr_t)value;
}

static int end_watches(int fd, unsigned directions, unsigned events)
{
    wf_slice_here();
    if (directions == 0 || directions & ~BOTH)
        return -EINVAL;
    struct wf_fd *e = wf_fd_look(fd);
    if (!e)
        return -ENOENT;
    wf_lock(&e->lock);
    struct wf_watch *taken = wf_watch_take_for(e, directions, events);
    wf_unlock(&e->lock);
    bool any = taken != NULL;
    wf_watch_fire(taken);
    return any ? 0 : -ENOENT;
}

int weft_watch_del(int fd, unsigned events)
{
    return end_watches(fd, events, WF_WATCH_DELETED);
}

int weft_watch_cancel(int fd, unsigned events)
{
    return end_watches(fd, events, WEFT_CANCELED);
}

int weft_watch_cancel_all(int fd)
{
    return end_watches(fd, BOTH, WEFT_CANCELED);
}
