/*
 * net/serve.c: weft_serve: accepting, refusing, and the end. The handlers share one record, struct server;
 * net/served.h has the life of one connection.
 */
#include <string.h>

#include <weft/fiber.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/sched.h>
#include <weft/stack.h>
#include <weft/sync.h>

#include "base/errno.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "base/fork.h"
#include "base/options.h"
#include "base/sys.h"
#include "base/thread.h"
#include "fiber/fiber.h"
#include "io/socket.h"
#include "net/served.h"
#include "sched/wait.h"
#include "sync/mutex.h"

#define FIRST_SIZE sizeof(weft_serve_opts)
#define GRACE (5 * WEFT_SEC)
#define FIRST_PAUSE (5 * WEFT_MS)
#define LONGEST_PAUSE WEFT_SEC
#define GIVE_WAY_EVERY 16 /* connections */
#define MOST_REFUSALS 64

static bool has_room(const void *arg)
{
    const struct server *s = arg;
    return s->max == 0 || wf_load(&s->count) < s->max;
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

static void list(struct served *c)
{
    struct server *s = c->server;
    wf_served_count(c, 1);
    weft_waitgroup_add(&s->live, 1);
    wf_mutex_take(&s->lock);
    c->next = s->first;
    if (c->next)
        c->next->prev = c;
    s->first = c;
    weft_mutex_unlock(&s->lock);
}

/* The last one that was listed, which has no fiber. */
static void unlist(struct served *c)
{
    struct server *s = c->server;
    wf_mutex_take(&s->lock);
    s->first = c->next; /* only we add to the list */
    if (s->first)
        s->first->prev = NULL;
    weft_mutex_unlock(&s->lock);
    wf_served_count(c, -1);
    weft_waitgroup_done(&s->live);
}

/* On its worker; if that worker can have no stack of the pool, on any worker that can. */
static int spawn(struct served *c)
{
    const struct server *s = c->server;
    weft_attr attr = {.name = c->is_refused ? "refuse" : "serve",
                      .stack = s->stack,
                      .shared = s->shared,
                      .worker = WEFT_WORKER(c->worker)};
    int rc = weft_sched_go(s->on, NULL, &attr, wf_serve_one, c);
    if (wf_likely(rc != -EBUSY))
        return rc;
    attr.worker = 0;
    return weft_sched_go(s->on, NULL, &attr, wf_serve_one, c);
}

/* Gives a connection to a fiber; takes it in any case. */
static int start(struct server *s, const struct accepted *a, bool is_refused)
{
    struct served *c = wf_served_new(s, a, emptiest(s), is_refused);
    int rc = c ? 0 : -ENOMEM;
    if (c) {
        list(c);
        rc = spawn(c);
        if (rc == 0)
            return 0;
        unlist(c);
        wf_sys_free(c);
    }
    weft_close(a->fd);
    return rc;
}

/* The same for a connection above max_conns. */
static int refuse(struct server *s, const struct accepted *a)
{
    if (s->refuse != weft_refuse && wf_load(&s->refusals) < MOST_REFUSALS)
        return start(s, a, true);
    weft_close(a->fd);
    return 0;
}

void weft_refuse(int fd, void *arg)
{
    (void)fd, (void)arg;
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
    if (wf_cancel_point(wf_thread_now()->fiber, deadline))
        return -ECANCELED;
    return !wf_time_is_now(deadline) && deadline.ns <= wf_clock_now() ? -ETIMEDOUT : 0;
}

/* Pauses until there may be what was lacking, and the next time for longer: 0, or why serving ends. */
static int wait_out(weft_span *pause, weft_time deadline)
{
    if (wf_time_is_now(deadline))
        return -EAGAIN;
    weft_time until = weft_in(*pause);
    *pause = 2 * *pause < LONGEST_PAUSE ? 2 * *pause : LONGEST_PAUSE;
    if (until.ns < deadline.ns)
        return weft_sleep_until(until);
    int rc = weft_sleep_until(deadline);
    return rc != 0 ? rc : -ETIMEDOUT;
}

static int accept_one(struct server *s, weft_time deadline)
{
    struct accepted a = {.size = s->peers ? sizeof a.peer : 0};
    struct sockaddr *from = s->peers ? (struct sockaddr *)&a.peer : NULL;
    int rc = s->refuse || has_room(s) ? 0 : wf_fd_wait_until(&s->listener, has_room, s, deadline);
    if (rc != 0)
        return rc;
    a.fd = wf_accept(&s->listener, from, from ? &a.size : NULL, SOCK_NONBLOCK | SOCK_CLOEXEC, deadline);
    if (a.fd < 0)
        return a.fd;
    return has_room(s) ? start(s, &a, false) : refuse(s, &a);
}

/* Until something ends it: why. */
static int accept_all(struct server *s, weft_time deadline)
{
    unsigned taken = 0;
    for (weft_span pause = FIRST_PAUSE;;) {
        int rc = accept_one(s, deadline);
        if (is_lack(rc)) {
            rc = wait_out(&pause, deadline);
        } else if (rc == 0 || is_passing(rc)) {
            pause = FIRST_PAUSE;
            rc = ++taken % GIVE_WAY_EVERY == 0 ? give_way(deadline) : 0;
        }
        if (rc != 0)
            return rc;
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
    if (rc != 0)
        return rc;
    bool has_bad_stack = mine->stack != 0 && (mine->stack < WEFT_STACK_MIN || mine->shared);
    return has_bad_stack || (mine->refuse && mine->max_conns == 0) ? -EINVAL : 0;
}

/* The handlers end, in time or cancelled. Whatever happens to the caller, none is left behind. */
static void wait_for_handlers(struct server *s, weft_span grace)
{
    weft_fiber *me = weft_fiber_current();
    bool was = wf_section_begin(me); /* though we may be cancelled ourselves; the caller may be in one of its own */
    if (grace < 0 || weft_waitgroup_wait(&s->live, weft_in(grace == 0 ? GRACE : grace)) != 0) {
        cancel_handlers(s);
        weft_waitgroup_wait(&s->live, WEFT_FOREVER);
    }
    wf_section_end(me, was);
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
    struct wf_fd_ref of;
    rc = wf_fd_refer(&of, listener);
    if (rc != 0)
        return rc;
    if (wf_cancel_point(wf_thread_now()->fiber, deadline))
        return -ECANCELED;
    weft_sched *on = o.on ? o.on : weft_sched_current();
    weft_sched_stats(on, &figures);
    struct server *s = wf_sys_malloc(sizeof *s + figures.workers * sizeof s->conns[0]);
    if (!s)
        return -ENOMEM;
    memset(s, 0, sizeof *s + figures.workers * sizeof s->conns[0]);
    s->listener = of;
    s->handler = handler;
    s->refuse = o.refuse;
    s->arg = arg;
    s->forks = wf_forks;
    s->shared = o.shared;
    s->on = on;
    s->stack = o.stack;
    s->peers = o.peers;
    s->workers = (unsigned)figures.workers;
    s->max = o.max_conns;
    rc = accept_all(s, deadline);
    /* Its time is over, or weft_close has ended it. A number that never was a listener's keeps its generation. */
    if (rc == -ETIMEDOUT || (rc == -EBADF && wf_fd_generation(of.e) != of.generation))
        rc = 0;
    if (o.ending)
        o.ending(arg);
    wait_for_handlers(s, o.grace);
    wf_sys_free(s);
    return rc;
}
