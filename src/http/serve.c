/*
 * http/serve.c: weft_http_serve and weft_http_stop: see server.h on starting and stopping.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

#include <weft/io.h>

#include "http/connection.h"
#include "http/flusher.h"
#include "http/log.h"
#include "http/memory.h"
#include "http/refuse.h"
#include "http/server.h"

#define SHIELD (60 * WEFT_SEC)

/*
 * weft_serve accepts no more. Wakes idle connections: their reads return 0. (If a request begins at this moment, what
 * has not come of it is lost with its connection, as when idle_time closes a connection. If that is a part of the body,
 * the answer is 503.) Asks the scopes of handlers to stop.
 */
static void tell_connections(void *arg)
{
    struct wh_serving *s = arg;
    weft_http *h = s->h;
    atomic_store_explicit(&s->is_stopping, true, memory_order_seq_cst); /* pairs with WH_IDLE in wh_enter */
    wh_lock(&h->lock);
    for (struct wh_connection *c = h->connections; c; c = c->next) {
        if (c->serving != s)
            continue;
        if (atomic_load_explicit(&c->phase, memory_order_seq_cst) == WH_IDLE) {
            atomic_store_explicit(&c->is_shut, true, memory_order_release); /* pairs with status_of_short_body */
            weft_shutdown(c->fd, SHUT_RD);
        }
        if (c->scope) /* a grace of 0 would cancel in this call, and so run tasks on noop under the lock */
            weft_scope_stop(c->scope, h->o.grace < 0 ? 1 : h->o.grace);
    }
    weft_mutex_unlock(&h->lock);
}

/* Makes room for `count` workers. The counts and memory of the present workers move to the new array. */
static int grow_workers(weft_http *h, unsigned count)
{
    struct wh_worker *workers = aligned_alloc(_Alignof(struct wh_worker), count * sizeof *workers), *old = h->workers;
    if (!workers)
        return -ENOMEM;
    memset(workers, 0, count * sizeof *workers);
    if (old)
        memcpy(workers, old, h->worker_count * sizeof *workers);
    wh_lock(&h->lock);
    h->workers = workers;
    h->worker_count = count;
    weft_mutex_unlock(&h->lock);
    free(old);
    return 0;
}

/* Of several calls that serve at a time, the first one decides which scheduler runs the connections. */
static int choose_scheduler(weft_http *h)
{
    weft_sched *sched = h->o.on ? h->o.on : weft_sched_current();
    weft_sched_figures figures = {.size = sizeof figures};
    if (h->users > 0)
        return h->sched == sched ? 0 : -EBUSY;
    int rc = weft_sched_stats(sched, &figures);
    if (rc == 0 && figures.workers > h->worker_count)
        rc = grow_workers(h, (unsigned)figures.workers);
    if (rc != 0)
        return rc;
    h->threads = (unsigned)figures.workers;
    h->sched = sched;
    return 0;
}

/* Starts the flushers and the log's writer, which all calls need: on the scheduler of the connections, because the other
 * schedulers may end while one of these calls still serves. */
static int start_helpers(weft_http *h)
{
    int rc = wh_flushers_start(h);
    if (rc == 0 && h->log && (rc = wh_log_start(h->log, h->sched)) != 0)
        wh_flushers_stop(h);
    return rc;
}

static void stop_helpers(weft_http *h)
{
    wh_flushers_stop(h);
    if (h->log)
        wh_log_stop(h->log);
}

/* The holder may keep the lock while fibers end. A cancelled caller cannot wait, so it tries and yields. */
static void lock_life(weft_http *h)
{
    if (weft_mutex_lock(&h->life, WEFT_FOREVER) != 0)
        wh_lock(&h->life);
}

static int begin_use(weft_http *h)
{
    lock_life(h);
    int rc = choose_scheduler(h);
    if (rc == 0 && h->users == 0)
        rc = start_helpers(h);
    if (rc == 0)
        h->users++;
    weft_mutex_unlock(&h->life);
    return rc;
}

static void end_use(weft_http *h)
{
    lock_life(h);
    if (--h->users == 0)
        stop_helpers(h);
    weft_mutex_unlock(&h->life);
}

static int begin_serving(weft_http *h)
{
    wh_lock(&h->lock);
    int rc = h->is_stopped ? -ESHUTDOWN : 0;
    h->serving += rc == 0;
    weft_mutex_unlock(&h->lock);
    return rc;
}

/* From here on the server may be freed. */
static void end_serving(weft_http *h)
{
    wh_lock(&h->lock);
    h->serving--;
    weft_mutex_unlock(&h->lock);
}

static int call_weft_serve(struct wh_serving *s)
{
    const weft_http_opts *o = &s->h->o;
    weft_serve_opts opts = {.size = sizeof opts,
                            .max_conns = o->max_conns,
                            .stack = o->stack,
                            .shared = o->shared,
                            .grace = o->grace,
                            .refuse = wh_refuse_connection,
                            .peers = s->h->log != NULL, /* else the kernel is asked, as long as the client is there */
                            .on = o->on,
                            .ending = tell_connections};
    return weft_serve(s->listener, wh_serve_connection, s, &opts, s->deadline);
}

/* Puts the call into the list that weft_http_stop walks. False: weft_http_stop was called before. */
static bool list_serving(struct wh_serving *s)
{
    weft_http *h = s->h;
    wh_lock(&h->lock);
    bool is_stopped = h->is_stopped;
    if (!is_stopped) {
        s->fiber = weft_fiber_current();
        s->next = h->servings;
        h->servings = s;
    }
    weft_mutex_unlock(&h->lock);
    return !is_stopped;
}

static void unlist_serving(struct wh_serving *s)
{
    weft_http *h = s->h;
    wh_lock(&h->lock);
    struct wh_serving **at = &h->servings;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    s->fiber = NULL;
    if (h->is_stopped && s->rc == -ECANCELED)
        s->rc = 0;
    weft_mutex_unlock(&h->lock);
}

/* The fiber of a serving. */
static void *run_serving(void *arg)
{
    struct wh_serving *s = arg;
    if (!list_serving(s))
        return NULL;
    s->rc = call_weft_serve(s);
    unlist_serving(s);
    return NULL;
}

void wh_join(weft_fiber *f)
{
    int rc;
    do {
        int begun = weft_shield_begin(weft_in(SHIELD));
        rc = weft_join(f, NULL, WEFT_FOREVER);
        if (begun == 0)
            weft_shield_end();
        if (rc == -ECANCELED) { /* perhaps a shield of the caller is over: then this fiber can only try */
            weft_yield();
            rc = weft_join(f, NULL, WEFT_NOW);
        }
    } while (rc == -EAGAIN);
}

/* Waits for the fiber. If the caller is cancelled, cancels the fiber too. */
static int join_serving(weft_fiber *f)
{
    int rc = weft_join(f, NULL, WEFT_FOREVER);
    if (rc == -ECANCELED) {
        weft_cancel(f);
        wh_join(f);
    }
    return rc;
}

static int serve(weft_http *h, int listener, weft_time deadline)
{
    weft_fiber *f;
    weft_attr attr = {.size = sizeof attr, .name = "http serve"};
    struct wh_serving *s = wh_alloc(sizeof *s);
    if (!s)
        return -ENOMEM;
    *s = (struct wh_serving){.h = h, .listener = listener, .deadline = deadline};
    int rc = weft_go_with(&f, &attr, run_serving, s);
    if (rc == 0)
        rc = join_serving(f);
    if (rc == 0)
        rc = s->rc;
    wh_free(s);
    return rc;
}

/* Sets TCP_NODELAY, which connections inherit. A UNIX socket does not have it. */
static int set_up_listener(int listener)
{
    int one = 1;
    if (setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0 || errno != EBADF)
        return 0;
    return -EBADF;
}

int weft_http_serve(weft_http *h, int listener, weft_time deadline)
{
    if (!h)
        return -EINVAL;
    if (!weft_fiber_current())
        return -ENXIO;
    int rc = begin_serving(h);
    if (rc != 0)
        return rc;
    rc = set_up_listener(listener);
    if (rc == 0)
        rc = begin_use(h);
    if (rc == 0) {
        rc = serve(h, listener, deadline);
        end_use(h);
    }
    end_serving(h);
    return rc;
}

int weft_http_stop(weft_http *h)
{
    if (!h)
        return -EINVAL;
    wh_lock(&h->lock);
    h->is_stopped = true;
    for (struct wh_serving *s = h->servings; s; s = s->next)
        weft_cancel(s->fiber); /* the fiber exists: it leaves the list under the lock before it ends */
    weft_mutex_unlock(&h->lock);
    return 0;
}
