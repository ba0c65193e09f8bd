/*
 * io/set.c: which kind of set a worker gets, and what other threads ask of rings; see set.h.
 */
#include "io/set.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/io.h>

#include "base/errno.h"
#include "base/sys.h"
#include "base/thread.h"
#include "io/fd.h"
#include "io/uring.h"
#include "sched/sched.h"

static uint32_t last_id;         /* atomic */
static struct wf_set *forgotten; /* those of the parents: their memory may be in use. owner: a child that is alone */

void wf_set_forget(struct wf_set *set)
{
    set->next = forgotten;
    forgotten = set;
}

static enum wf_backend wanted(int option)
{
    static uint32_t told; /* atomic */
    const char *named = option == WEFT_IO_AUTO ? getenv("WEFT_IO") : NULL;
    if (option == WEFT_IO_URING || (named && (strcmp(named, "uring") == 0 || strcmp(named, "io_uring") == 0)))
        return WF_URING;
    if (named && named[0] != '\0' && strcmp(named, "epoll") != 0 && wf_exchange(&told, 1) == 0)
        fprintf(stderr, "weft: WEFT_IO=%s is not known, epoll is used: it may be epoll or uring\n", named);
    return WF_EPOLL;
}

/* What the scheduler's workers get. The environment is asked once for each. */
static enum wf_backend wanted_of(weft_sched *s)
{
    int io = wf_load(&s->io);
    if (wf_unlikely(io == WEFT_IO_AUTO)) {
        io = wanted(io) == WF_URING ? WEFT_IO_URING : WEFT_IO_EPOLL;
        wf_store(&s->io, io);
    }
    return io == WEFT_IO_URING ? WF_URING : WF_EPOLL;
}

static void tell_once(int error)
{
    static uint32_t told; /* atomic */
    if (wf_exchange(&told, 1) == 0)
        fprintf(stderr, "weft: io_uring cannot be had (%s): epoll is used\n", strerror(-error));
}

WF_COLD void wf_set_tell_loss(const struct wf_set *set, const char *what, int number)
{
    static uint32_t told; /* atomic */
    if (wf_exchange(&told, 1) == 0)
        fprintf(stderr,
                "weft: the %s of worker %u, number %d, was closed by the program: it is made anew (weft_own_next tells "
                "which numbers to leave alone)\n",
                what, set->worker->index, number);
}

#if WF_URING_BUILT
static struct wf_lock rings_lock;
static struct wf_set *rings; /* guarded by: rings_lock */

static int new_ring(struct wf_set **out, struct wf_worker *w)
{
    int rc = wf_uring_new(out, w);
    if (rc != 0)
        return rc;
    (*out)->id = wf_add(&last_id, 1) + 1;
    wf_lock(&rings_lock);
    (*out)->next = rings;
    rings = *out;
    wf_unlock(&rings_lock);
    return 0;
}

void wf_set_in_child(void)
{
    rings_lock = (struct wf_lock){0};
    rings = NULL;
}

void wf_set_unlist(struct wf_set *set)
{
    wf_lock(&rings_lock);
    struct wf_set **p = &rings;
    while (*p && *p != set)
        p = &(*p)->next;
    if (*p)
        *p = set->next;
    wf_unlock(&rings_lock);
}

int wf_set_arm(struct wf_set *set, const struct wf_fd_ref *r, uint32_t events, uint32_t *ticket)
{
    if (set->backend == WF_EPOLL)
        return wf_epoll_arm(set, r->fd, r->generation, events, wf_fd_is_at(r->e, set->id));
    if (!wf_fd_enter(r, 0)) /* until it reports */
        return -EBADF;
    wf_sys_point(WF_SYS_RING_POLL);
    int rc = wf_fd_in_ring(r, set->id) ? wf_uring_arm(set, r, events, ticket) : -EBADF;
    if (rc != 0)
        wf_fd_leave(r);
    return rc;
}

/* guarded by: rings_lock. False: no memory. */
static bool ask(struct wf_set *set, struct wf_asked what)
{
    if (set->asked_count == set->asked_room) {
        uint32_t room = set->asked_room ? 2 * set->asked_room : 16;
        struct wf_asked *asked = wf_sys_malloc(room * sizeof *asked);
        if (!asked)
            return false;
        if (set->asked_count > 0)
            memcpy(asked, set->asked, set->asked_count * sizeof *asked);
        wf_sys_free(set->asked);
        set->asked = asked;
        set->asked_room = room;
    }
    set->asked[set->asked_count] = what;
    wf_store(&set->asked_count, set->asked_count + 1);
    set->io.ops->wake(&set->io);
    return true;
}

void wf_set_disarm(struct wf_set *set, uint32_t ticket)
{
    if (set->backend != WF_URING)
        return;
    if ((struct wf_set *)wf_thread_now()->worker->driver.io == set) {
        wf_uring_disarm(set, ticket);
        return;
    }
    wf_lock(&rings_lock);                      /* a fiber that has moved */
    ask(set, (struct wf_asked){NULL, ticket}); /* without memory it stays until it reports */
    wf_unlock(&rings_lock);
}

void wf_set_disarm_in(uint32_t id, uint32_t ticket)
{
    wf_lock(&rings_lock);
    for (struct wf_set *set = rings; set; set = set->next) {
        if (set->id == id)
            ask(set, (struct wf_asked){NULL, ticket}); /* as above */
    }
    wf_unlock(&rings_lock);
}

void wf_set_cancel(uint32_t id, const struct wf_fd *e, uint32_t generation)
{
    bool all;
    do {
        all = true;
        wf_lock(&rings_lock);
        for (struct wf_set *set = rings; set; set = set->next) {
            if (id == 0 || set->id == id)
                all &= ask(set, (struct wf_asked){e, generation});
        }
        wf_unlock(&rings_lock);
        if (!all)
            sched_yield(); /* no memory: those who were asked are asked again */
    } while (!all);
}

void wf_set_do_asked(struct wf_set *set)
{
    while (wf_unlikely(wf_load(&set->asked_count) > 0)) {
        wf_lock(&rings_lock);
        uint32_t left = set->asked_count - 1; /* only we take from it */
        struct wf_asked what = set->asked[left];
        wf_store(&set->asked_count, left);
        wf_unlock(&rings_lock);
        if (what.e)
            wf_uring_cancel(set, what.e, what.generation);
        else
            wf_uring_disarm(set, what.generation);
    }
}
#else
void wf_set_in_child(void)
{
}

static int new_ring(struct wf_set **out, struct wf_worker *w)
{
    (void)out, (void)w;
    return -ENOSYS;
}

int wf_set_arm(struct wf_set *set, const struct wf_fd_ref *r, uint32_t events, uint32_t *ticket)
{
    (void)ticket;
    return wf_epoll_arm(set, r->fd, r->generation, events, wf_fd_is_at(r->e, set->id));
}

void wf_set_disarm(struct wf_set *set, uint32_t ticket)
{
    (void)set, (void)ticket;
}

void wf_set_disarm_in(uint32_t id, uint32_t ticket)
{
    (void)id, (void)ticket;
}

void wf_set_cancel(uint32_t id, const struct wf_fd *e, uint32_t generation)
{
    (void)id, (void)e, (void)generation;
}
#endif

/* Its ring went with the thread that was this worker before. */
WF_COLD static int make_again(struct wf_set *set)
{
#if WF_URING_BUILT
    return wf_uring_make(set);
#else
    (void)set;
    return -ENOSYS;
#endif
}

WF_NOINLINE static int new_set(struct wf_set **out, struct wf_worker *w)
{
    struct wf_set *made = NULL;
    int rc = -ENOSYS;
    wf_fd_join_fork();
    if (wanted_of(w->sched) == WF_URING && (rc = new_ring(&made, w)) != 0)
        tell_once(rc);
    if (rc != 0)
        rc = wf_epoll_new(&made, w);
    if (rc != 0)
        return rc;
    if (made->id == 0)
        made->id = wf_add(&last_id, 1) + 1;
    w->driver.io = &made->io;
    w->round |= WF_ROUND_TIMED;
    *out = made;
    return 0;
}

static bool is_open(int fd)
{
    int kept = errno;
    bool is = fcntl(fd, F_GETFD) >= 0;
    errno = kept;
    return is;
}

int wf_set_here(int fd, struct wf_set **out)
{
    struct wf_worker *w = wf_thread_now()->worker;
    if (wf_unlikely(w->driver.io == NULL))
        return fd < 0 || is_open(fd) ? new_set(out, w) : -EBADF;
    *out = (struct wf_set *)w->driver.io;
    return wf_likely((*out)->there) ? 0 : make_again(*out);
}

struct wf_set *wf_set_for_calls(int fd)
{
    struct wf_thread *t = wf_thread_now();
    weft_fiber *f = t->fiber;
    struct wf_set *set;
    if (!f || (!t->worker->driver.io && wanted_of(t->worker->sched) != WF_URING) || wf_set_here(fd, &set) != 0 ||
        set->backend != WF_URING || f->flags & WEFT_MIGRATE || f->shared ||
        t->current != f->coro) /* inside of a coroutine the stack may be a shared one */
        return NULL;
    return set;
}

int wf_set_register(struct wf_set *set, const struct wf_fd_ref *r, uint32_t events, uint32_t *ticket)
{
    return set->backend == WF_EPOLL ? wf_epoll_register(set, r->fd, r->generation) : wf_set_arm(set, r, events, ticket);
}

const char *weft_io_backend(void)
{
    struct wf_set *set;
    if (wf_thread_now()->fiber && wf_set_here(-1, &set) == 0)
        return set->backend == WF_URING ? "io_uring" : "epoll";
    return WF_URING_BUILT && wanted(WEFT_IO_AUTO) == WF_URING ? "io_uring" : "epoll";
}
