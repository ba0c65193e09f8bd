/*
 * net/serve.c: weft_serve. The state that handlers share is one record, counted: the last of the server and its handlers
 * releases it.
 */
#include <errno.h>
#include <string.h>

#include <weft/fiber.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/sched.h>
#include <weft/stack.h>
#include <weft/sync.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/fork.h"
#include "base/options.h"
#include "base/sys.h"
#include "base/thread.h"
#include "fiber/fiber.h"
#include "io/fd.h"
#include "io/socket.h"
#include "sched/wait.h"
#include "sync/mutex.h"

#define FIRST_SIZE (offsetof(weft_serve_opts, grace) + sizeof(weft_span))
#define GRACE (5 * WEFT_SEC)
#define FIRST_PAUSE (5 * WEFT_MS)
#define LONGEST_PAUSE WEFT_SEC
#define GIVE_WAY_EVERY 16 /* connections */

/* A connection. */
struct served {
    struct server *server;
    struct served *next, *prev; /* guarded by: server->lock */
    weft_fiber *fiber;          /* guarded by: server->lock: NULL until it is known */
    int fd;
    unsigned worker;
    uint32_t forks; /* const: the wf_forks that the server is of */
};

struct server {
    int listener;           /* const */
    struct wf_fd *e;        /* const: the listener's record, */
    uint32_t generation;    /* const: and which descriptor it is */
    weft_serve_fn *handler; /* const */
    void *arg;              /* const */
    unsigned workers;       /* const */
    weft_mutex lock;
    struct served *first; /* guarded by: lock */
    bool cancelled;       /* handlers are to end. guarded by: lock */
    weft_waitgroup live;  /* handlers */
    unsigned max;         /* const: so many connections at a time; 0: no limit */
    unsigned count;       /* connections. atomic */
    unsigned conns[];     /* of each worker. atomic */
};

static bool has_room(const void *arg)
{
    const struct server *s = arg;
    return s->max == 0 || wf_load(&s->count) < s->max;
}

/* A connection more of this worker, or one less. */
static void count(struct server *s, unsigned worker, int change)
{
    wf_add(&s->conns[worker], (unsigned)change);
    wf_add(&s->count, (unsigned)change);
    if (change < 0 && s->max > 0)
        wf_fd_event(s->listener, s->generation, WF_FD_TOLD); /* after the count: it may be waited for */
}

static void *serve_one(void *arg)
{
    struct served *c = arg;
    struct server *s = c->server;
    wf_mutex_take(&s->lock);
    c->fiber = weft_fiber_current();
    bool cancelled = s->cancelled;
    weft_mutex_unlock(&s->lock);
    if (!cancelled)
        s->handler(c->fd, s->arg);
    if (c->forks != wf_forks) { /* it has forked: in the child there is no server to tell */
        weft_close(c->fd);
        wf_sys_free(c);
        return NULL;
    }
    wf_mutex_take(&s->lock);
    if (c->prev)
        c->prev->next = c->next;
    else
        s->first = c->next;
    if (c->next)
        c->next->prev = c->prev;
    weft_mutex_unlock(&s->lock);
    weft_close(c->fd);
    count(s, c->worker, -1);
    wf_sys_free(c);
    weft_waitgroup_done(&s->live); /* the last touch */
    return NULL;
}

static unsigned emptiest(const struct server *s)
{
    unsigned best = 0;
    for (unsigned i = 1; i < s->workers; i++) {
        if (wf_load(&s->conns[i]) < wf_load(&s->conns[best]))
            best = i;
    }
    return best;
}

/* Gives a connection to a fiber; takes fd in any case. */
static int start(struct server *s, int fd, size_t stack)
{
    struct served *c = wf_sys_malloc(sizeof *c);
    int rc = -ENOMEM;
    if (c) {
        *c = (struct served){.server = s, .fd = fd, .worker = emptiest(s), .forks = wf_forks};
        count(s, c->worker, 1);
        weft_waitgroup_add(&s->live, 1);
        wf_mutex_take(&s->lock);
        c->next = s->first;
        if (c->next)
            c->next->prev = c;
        s->first = c;
        weft_mutex_unlock(&s->lock);
        rc = weft_go_with(NULL, &(weft_attr){.name = "serve", .stack = stack, .worker = WEFT_WORKER(c->worker)},
                          serve_one, c);
        if (rc == 0)
            return 0;
        wf_mutex_take(&s->lock);
        s->first = c->next; /* only we add to the list */
        if (s->first)
            s->first->prev = NULL;
        weft_mutex_unlock(&s->lock);
        count(s, c->worker, -1);
        weft_waitgroup_done(&s->live);
        wf_sys_free(c);
    }
    weft_close(fd);
    return rc;
}

/* What accept says when the connection, and not the listener, is at fault. */
static bool is_passing(int error)
{
    switch (error) {
    case -ECONNABORTED:
    case -EPROTO:
    case -ENETDOWN:
    case -ENOPROTOOPT:
    case -EHOSTDOWN:
    case -ENONET:
    case -EHOSTUNREACH:
    case -ENETUNREACH:
    case -EPERM:
        return true;
    default:
        return false;
    }
}

static bool is_lack(int error)
{
    return error == -EMFILE || error == -ENFILE || error == -ENOBUFS || error == -ENOMEM;
}

/* Connections that keep coming hold up neither the worker's other fibers nor the end. */
static int give_way(weft_time deadline)
{
    weft_yield();
    if (weft_cancelled())
        return -ECANCELED;
    return !wf_time_is_now(deadline) && deadline.ns <= wf_clock_now() ? -ETIMEDOUT : 0;
}

/* Until something ends it: why. */
static int accept_all(struct server *s, size_t stack, weft_time deadline)
{
    unsigned taken = 0;
    for (weft_span pause = FIRST_PAUSE;;) {
        int rc = has_room(s) ? 0 : wf_fd_wait_until(s->e, s->generation, has_room, s, deadline);
        if (rc != 0)
            return rc;
        int fd = wf_accept(s->e, s->listener, s->generation, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC, deadline);
        rc = fd >= 0 ? start(s, fd, stack) : fd;
        if (rc == 0) {
            pause = FIRST_PAUSE;
            if (++taken % GIVE_WAY_EVERY == 0 && (rc = give_way(deadline)) != 0)
                return rc;
        } else if (is_lack(rc)) {
            weft_time until = weft_in(pause);
            rc = weft_sleep_until(until.ns < deadline.ns ? until : deadline);
            pause = 2 * pause < LONGEST_PAUSE ? 2 * pause : LONGEST_PAUSE;
            if (rc != 0)
                return rc;
        } else if (!is_passing(rc)) {
            return rc;
        }
    }
}

static void cancel_handlers(struct server *s)
{
    wf_mutex_take(&s->lock);
    s->cancelled = true;
    for (struct served *c = s->first; c; c = c->next) {
        if (c->fiber)
            weft_cancel(c->fiber); /* it is there: it takes itself out of the list under the lock */
    }
    weft_mutex_unlock(&s->lock);
}

static int read_opts(weft_serve_opts *mine, const weft_serve_opts *theirs)
{
    *mine = (weft_serve_opts){.size = sizeof *mine};
    int rc = theirs ? wf_options_read(mine, sizeof *mine, theirs, FIRST_SIZE) : 0;
    return rc == 0 && mine->stack != 0 && mine->stack < WEFT_STACK_MIN ? -EINVAL : rc;
}

/* The handlers end, in time or cancelled. Whatever happens to the caller, none is left behind. */
static void wait_for_handlers(struct server *s, weft_span grace)
{
    weft_fiber *me = weft_fiber_current();
    me->deaf = true; /* though we may be cancelled ourselves */
    if (grace < 0 || weft_waitgroup_wait(&s->live, weft_in(grace == 0 ? GRACE : grace)) != 0) {
        cancel_handlers(s);
        weft_waitgroup_wait(&s->live, WEFT_FOREVER);
    }
    me->deaf = false;
}

int weft_serve(int listener, weft_serve_fn *handler, void *arg, const weft_serve_opts *opts, weft_time deadline)
{
    weft_serve_opts o;
    weft_sched_figures figures = {.size = sizeof figures};
    int rc = handler ? read_opts(&o, opts) : -EINVAL;
    if (rc != 0)
        return rc;
    if (!weft_fiber_current())
        return -ENXIO;
    struct wf_fd *e = wf_fd_of(listener);
    if (!e)
        return wf_fd_none(listener);
    weft_sched_stats(weft_sched_current(), &figures);
    struct server *s = wf_sys_malloc(sizeof *s + figures.workers * sizeof s->conns[0]);
    if (!s)
        return -ENOMEM;
    memset(s, 0, sizeof *s + figures.workers * sizeof s->conns[0]);
    s->listener = listener;
    s->e = e;
    s->generation = wf_fd_generation(e);
    s->handler = handler;
    s->arg = arg;
    s->workers = (unsigned)figures.workers;
    s->max = o.max_conns;
    rc = accept_all(s, o.stack, deadline);
    wait_for_handlers(s, o.grace);
    wf_sys_free(s);
    return rc == -ETIMEDOUT ? 0 : rc;
}
