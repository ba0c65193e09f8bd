/*
 * io/watch.c: see watch.h and weft/watch.h.
 */
#include "io/watch.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

#include <weft/watch.h>

#include "base/errno.h"
#include "base/fork.h"
#include "base/sys.h"
#include "base/thread.h"
#include "io/fd.h"
#include "io/set.h"
#include "sched/pending.h"
#include "sched/sched.h"
#include "sched/slice.h"
#include "sched/wait.h"
#include "sched/worker.h"

#define BOTH ((unsigned)(WEFT_READ | WEFT_WRITE))

_Static_assert(WEFT_READ == POLLIN && WEFT_WRITE == POLLOUT, "a direction is an event");

struct wf_watch {
    struct wf_watch *next;    /* of the descriptor's; or of those taken out */
    int fd;                   /* const */
    unsigned direction;       /* const: WEFT_READ or WEFT_WRITE */
    unsigned events;          /* what it ends with. owner: who took it out */
    weft_watch_fn *fn;        /* const; NULL: unpark */
    void *arg;                /* const */
    weft_fiber *unpark;       /* const: whom; it may have ended, and its record be another fiber's */
    uint64_t unpark_id;       /* const: its id, which no other fiber has */
    weft_fiber *fiber;        /* const: what runs it, not yet started */
    struct wf_worker *worker; /* const once it is published: where it fires */
    bool armed;               /* its worker knows of it, and counts it. guarded by: e->lock; written by the worker */
    uint32_t ticket;          /* of the poll in its worker's ring. owner: the worker */
    uint32_t forks;           /* const: the wf_forks that it is of */
};

static void count_here(struct wf_worker *here, int change)
{
    wf_store(&here->counts.watches, here->counts.watches + (size_t)change);
}

/* In its fiber. */
static void *run_watch(void *arg)
{
    struct wf_watch w = *(struct wf_watch *)arg;
    struct wf_worker *worker = wf_thread_now()->worker;
    wf_sys_free(arg);
    if (w.forks != wf_forks) /* it was ended in the parent, before this scheduler ever ran */
        return NULL;
    if (w.armed)
        count_here(worker, -1);
    if (w.ticket && (w.events == WF_WATCH_DELETED || w.events & (WEFT_CANCELED | WEFT_FAILED)))
        wf_set_disarm((struct wf_set *)worker->driver.io, w.ticket);
    if (w.events == WF_WATCH_DELETED)
        return NULL;
    if (w.fn)
        w.fn(w.fd, w.events, w.arg);
    else
        wf_unpark_if_alive(w.unpark, w.unpark_id);
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

static uint32_t directions_of(uint32_t events)
{
    uint32_t directions = 0;
    if (events & (POLLIN | POLLRDHUP | POLLERR | POLLHUP))
        directions |= WEFT_READ;
    if (events & (POLLOUT | POLLERR | POLLHUP))
        directions |= WEFT_WRITE;
    return directions;
}

/*
 * Whether an event may have been over before a watch was added: its own worker fetches events and tells them before anything
 * else, others may be late. guarded by: e->lock
 */
static bool may_be_over(const struct wf_fd *e, uint32_t events)
{
    const struct wf_worker *here = wf_thread_now()->worker;
    bool may = events & WF_FD_UNSURE;
    for (const struct wf_watch *w = e->watch; w; w = w->next)
        may |= !w->armed || w->worker != here;
    return may;
}

/* What is so now; `told` if the kernel cannot say. */
static uint32_t ask(int fd, uint32_t told)
{
    struct pollfd now = {.fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP};
    int n = wf_poll_until(&now, 1, INT64_MIN);
    return n < 0 || (n > 0 && now.revents & POLLNVAL) ? told : n == 0 ? 0 : (uint32_t)now.revents;
}

struct wf_watch *wf_watch_take(struct wf_fd *e, uint32_t events, bool *again)
{
    uint32_t directions = directions_of(events);
    if (directions != 0 && may_be_over(e, events)) {
        events = ask(e->watch->fd, events);
        for (const struct wf_watch *w = e->watch; w; w = w->next)
            *again |= w->direction & directions & ~directions_of(events) && w->worker == wf_thread_now()->worker &&
                      w->ticket;
        directions &= directions_of(events);
    }
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

/* All that is needed to fire, before anybody can see it. */
static int new_watch(struct wf_watch **out, int fd, unsigned direction, weft_watch_fn *fn, void *arg)
{
    struct wf_watch *w = wf_sys_malloc(sizeof *w);
    if (!w)
        return -ENOMEM;
    *w = (struct wf_watch){.fd = fd, .direction = direction, .fn = fn, .arg = arg, .forks = wf_forks};
    if (!fn) {
        w->unpark = wf_thread_now()->fiber;
        w->unpark_id = wf_load(&w->unpark->id);
    }
    int rc = wf_pending_new(&w->fiber, "weft_watch_add", run_watch, w);
    if (rc != 0) {
        wf_sys_free(w);
        return rc;
    }
    *out = w;
    return 0;
}

/* What one call adds: a watch for each direction. */
struct batch {
    struct wf_watch *watch[2];
    int count;
};

/* Nobody has seen them. */
static void discard(struct batch *b)
{
    for (int i = 0; i < b->count; i++) {
        wf_pending_discard(b->watch[i]->fiber);
        wf_sys_free(b->watch[i]);
    }
    b->count = 0;
}

static int new_batch(struct batch *b, int fd, unsigned events, weft_watch_fn *fn, void *arg)
{
    static const unsigned directions[] = {WEFT_READ, WEFT_WRITE};
    int rc = 0;
    *b = (struct batch){.count = 0};
    for (int i = 0; rc == 0 && i < 2; i++) {
        if (events & directions[i]) {
            rc = new_watch(&b->watch[b->count], fd, directions[i], fn, arg);
            b->count += rc == 0;
        }
    }
    if (rc != 0)
        discard(b);
    return rc;
}

static bool has(const struct wf_fd *e, unsigned directions)
{
    for (const struct wf_watch *w = e->watch; w; w = w->next) {
        if (w->direction & directions)
            return true;
    }
    return false;
}

/* On their worker: has events reported, those that are so by now included. A ring has a poll for each. */
static int arm(const struct wf_fd_ref *of, const struct batch *b)
{
    struct wf_set *set;
    int rc = wf_set_here(of->fd, &set);
    if (rc == 0 && set->backend == WF_EPOLL)
        return wf_fd_register(of, set);
    for (int i = 0; rc == 0 && i < b->count; i++) { /* they are there until this worker runs their fibers */
        struct wf_watch *w = b->watch[i];
        uint32_t events = w->direction | (w->direction == WEFT_READ ? POLLRDHUP : 0);
        rc = wf_set_arm(set, of, events, &w->ticket);
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

/*
 * They are the descriptor's, and worker `w`'s, from now on. -EEXIST: nothing was done. guarded by: e->lock, and
 * w->sched->lock if the caller is no fiber of w
 */
static int publish(struct wf_fd *e, const struct batch *b, struct wf_worker *w, bool inside)
{
    for (int i = 0; i < b->count; i++) {
        if (has(e, b->watch[i]->direction))
            return -EEXIST;
    }
    for (int i = 0; i < b->count; i++) {
        struct wf_watch *made = b->watch[i];
        made->worker = w;
        made->armed = inside;
        if (inside)
            wf_pending_bind(made->fiber, w);
        else
            wf_pending_bring(made->fiber, w);
        made->next = e->watch;
        e->watch = made;
    }
    return 0;
}

/* Takes out those of these that nobody has taken out before: a list, for wf_watch_fire. On their worker. */
static struct wf_watch *take_these(struct wf_fd *e, const struct batch *b, uint32_t events)
{
    struct wf_watch *taken = NULL;
    wf_lock(&e->lock);
    for (struct wf_watch **p = &e->watch; *p;) {
        struct wf_watch *w = *p;
        if (w != b->watch[0] && (b->count < 2 || w != b->watch[1])) {
            p = &w->next;
            continue;
        }
        *p = w->next;
        w->events = events == WF_WATCH_DELETED ? WF_WATCH_DELETED : events | w->direction;
        w->next = taken;
        taken = w;
    }
    wf_unlock(&e->lock);
    return taken;
}

/* The scheduler is being stopped or freed. On the worker, or when none runs: so the watch is there. */
static void cancel_pending(weft_fiber *f)
{
    if (f->fn != run_watch)
        return;
    struct wf_watch *w = f->arg;
    wf_watch_fire(take_these(wf_fd_look(w->fd), &(struct batch){{w}, 1}, WEFT_CANCELED));
}

static void drop_pending(weft_fiber *f)
{
    if (f->fn == run_watch)
        wf_sys_free(f->arg);
}

static void know_pending(void)
{
    static const struct wf_pending_ops ops = {.cancel = cancel_pending, .drop = drop_pending};
    if (!wf_load(&wf_pending_ops))
        wf_store(&wf_pending_ops, &ops);
}

/* In a fiber, on its worker. */
static int add_here(int fd, unsigned events, weft_watch_fn *fn, void *arg)
{
    struct wf_worker *worker = wf_thread_now()->worker;
    struct wf_fd *e = wf_fd_of(fd);
    struct batch b;
    if (worker->cancelled_to != 0)
        return -ECANCELED; /* all watches were cancelled, and a new one would hold up the end of the scheduler */
    int rc = e ? new_batch(&b, fd, events, fn, arg) : wf_fd_none(fd);
    if (rc != 0)
        return rc;
    wf_lock(&e->lock);
    uint32_t generation = wf_fd_generation(e);
    rc = publish(e, &b, worker, true);
    wf_unlock(&e->lock);
    if (rc != 0) {
        discard(&b);
        return rc;
    }
    count_here(worker, b.count);
    rc = arm(&(struct wf_fd_ref){fd, generation, e}, &b);
    struct wf_watch *taken = rc != 0 ? take_these(e, &b, WF_WATCH_DELETED) : NULL;
    wf_watch_fire(taken);
    return taken ? rc : 0; /* those that somebody has ended meanwhile say so themselves */
}

/*
 * In a fiber, on their worker: arms what others have added for it. A watch that is not there any more has ended without
 * that. One that is there may be of a later add, whose own fiber then finds nothing to do.
 */
static void *arm_there(void *arg)
{
    int fd = (int)(intptr_t)arg;
    struct wf_worker *worker = wf_thread_now()->worker;
    struct wf_fd *e = wf_fd_look(fd);
    struct batch b = {.count = 0};
    if (!e)
        return NULL; /* the child of a fork: there are none */
    wf_lock(&e->lock);
    uint32_t generation = wf_fd_generation(e);
    for (struct wf_watch *w = e->watch; w; w = w->next) {
        if (w->worker == worker && !w->armed) {
            w->armed = true;
            b.watch[b.count++] = w;
        }
    }
    wf_unlock(&e->lock);
    count_here(worker, b.count);
    if (b.count > 0 && arm(&(struct wf_fd_ref){fd, generation, e}, &b) != 0)
        wf_watch_fire(take_these(e, &b, WEFT_FAILED));
    return NULL;
}

void wf_watch_arm_again(int fd, struct wf_fd *e, uint32_t generation)
{
    struct wf_worker *worker = wf_thread_now()->worker;
    struct batch b = {.count = 0};
    wf_lock(&e->lock);
    for (struct wf_watch *w = wf_fd_generation(e) == generation ? e->watch : NULL; w && b.count < 2; w = w->next) {
        if (w->worker == worker && w->ticket)
            b.watch[b.count++] = w;
    }
    wf_unlock(&e->lock);
    for (int i = 0; i < b.count; i++)
        wf_set_disarm((struct wf_set *)worker->driver.io, b.watch[i]->ticket);
    if (b.count > 0 && arm(&(struct wf_fd_ref){fd, generation, e}, &b) != 0)
        wf_watch_fire(take_these(e, &b, 0)); /* whoever it is for has to look */
}

/* Publishes them for some worker, and has it arm them: nobody waits for that. The scheduler is there. */
static int bring(weft_sched *s, const struct wf_fd_ref *ref, const struct batch *b, weft_fiber *armer)
{
    struct wf_fd *e = ref->e;
    int rc = -ESHUTDOWN;
    wf_lock(&s->lock);
    if (wf_sched_takes_work(s)) {
        struct wf_worker *w = wf_sched_next_worker(s);
        wf_lock(&e->lock);
        bool is_closed = wf_fd_generation(e) != ref->generation || wf_load(&e->word) & WF_FD_CLOSING;
        rc = is_closed ? -EBADF : publish(e, b, w, false);
        if (rc == 0)
            wf_pending_bring(armer, w);
        wf_unlock(&e->lock);
    }
    wf_unlock(&s->lock);
    if (rc == 0)
        wf_pending_start(armer);
    return rc;
}

/* By who is no fiber of `to`; NULL: that is the one that weft_run started. */
static int add_from_outside(weft_sched *to, int fd, unsigned events, weft_watch_fn *fn, void *arg)
{
    struct wf_fd_ref ref;
    struct batch b;
    weft_fiber *armer = NULL;
    int rc = wf_fd_refer(&ref, fd);
    if (rc == 0)
        rc = new_batch(&b, fd, events, fn, arg);
    if (rc != 0)
        return rc;
    rc = wf_pending_new(&armer, "weft_watch_add", arm_there, (void *)(intptr_t)fd);
    if (rc == 0)
        rc = wf_fd_enter(&ref, 0) ? 0 : -EBADF; /* it is not being closed, or that sees the watches */
    if (rc == 0) {
        weft_sched *s = to ? to : wf_sched_hold_default();
        rc = s ? bring(s, &ref, &b, armer) : -ENXIO;
        if (!to)
            wf_sched_let_default_go();
        wf_fd_leave(&ref);
    }
    if (rc != 0) {
        discard(&b);
        if (armer)
            wf_pending_discard(armer);
    }
    return rc;
}

static int add(weft_sched *s, int fd, unsigned events, weft_watch_fn *fn, void *arg)
{
    const struct wf_thread *t = wf_thread_now();
    bool inside = t->fiber && t->worker->sched == s;
    if (events == 0 || events & ~BOTH || (!fn && !inside))
        return -EINVAL;
    int rc = fd < 0 ? -EBADF : check_kind(fd);
    if (rc != 0)
        return rc;
    know_pending();
    return inside ? add_here(fd, events, fn, arg) : add_from_outside(s, fd, events, fn, arg);
}

int weft_watch_add(int fd, unsigned events, weft_watch_fn *fn, void *arg)
{
    wf_slice_here();
    const struct wf_worker *w = wf_thread_now()->worker;
    return add(w ? w->sched : NULL, fd, events, fn, arg);
}

int weft_sched_watch_add(weft_sched *s, int fd, unsigned events, weft_watch_fn *fn, void *arg)
{
    wf_slice_here();
    return s ? add(s, fd, events, fn, arg) : -EINVAL;
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
