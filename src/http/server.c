/*
 * http/server.c: see server.h: making, serving, stopping, counting.
 */
#include "http/server.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

#include <weft/io.h>

#include "http/address.h"
#include "http/block.h"
#include "http/connection.h"
#include "http/field.h"
#include "http/flusher.h"
#include "http/input.h"
#include "http/log.h"
#include "http/memory.h"
#include "http/options.h"
#include "http/route.h"

/* Making */

static int copy_server_field(weft_http *h)
{
    const char *value = h->o.server;
    size_t size = value ? strlen(value) : 0;
    h->o.server = NULL;
    if (size == 0)
        return 0;
    if (size > 256 || !wh_is_field_value(value, size))
        return -EINVAL;
    h->server_size = size + sizeof "Server: \r\n" - 1;
    h->server = wh_alloc(h->server_size);
    if (!h->server)
        return -ENOMEM;
    memcpy(h->server, "Server: ", 8);
    memcpy(h->server + 8, value, size);
    memcpy(h->server + 8 + size, "\r\n", 2);
    return 0;
}

int weft_http_new(weft_http **out, const weft_http_opts *opts)
{
    weft_http_opts o;
    int rc = out ? wh_http_opts_read(&o, opts) : -EINVAL;
    weft_http *h = rc == 0 ? wh_alloc_zero(sizeof *h) : NULL;
    if (!h)
        return rc != 0 ? rc : -ENOMEM;
    h->o = o;
    h->in_size = (o.head_bytes + WH_IN_SPARE + 4095) / 4096 * 4096;
    rc = copy_server_field(h);
    h->routes = wh_routes_new();
    h->addresses = wh_addresses_new();
    if (rc != 0 || !h->routes || !h->addresses) {
        weft_http_free(h);
        return rc != 0 ? rc : -ENOMEM;
    }
    *out = h;
    return 0;
}

bool wh_server_is_serving(weft_http *h)
{
    wh_lock(&h->lock);
    bool serves = h->serving > 0;
    weft_mutex_unlock(&h->lock);
    return serves;
}

int weft_http_free(weft_http *h)
{
    if (!h)
        return 0;
    if (wh_server_is_serving(h))
        return -EBUSY;
    for (unsigned i = 0; i < h->worker_count; i++) {
        wh_blocks_free(h, &h->workers[i]);
        wh_inputs_free(&h->workers[i]);
    }
    free(h->workers);
    if (h->log)
        wh_log_free(h->log);
    while (h->owned) {
        struct wh_owned *o = h->owned;
        h->owned = o->next;
        o->destroy(o->arg);
        wh_free(o);
    }
    wh_free(h->layers);
    wh_routes_free(h->routes);
    wh_addresses_free(h->addresses);
    wh_free(h->server);
    wh_free(h);
    return 0;
}

int wh_server_own(weft_http *h, void (*destroy)(void *arg), void *arg)
{
    struct wh_owned *o = wh_alloc(sizeof *o);
    if (!o)
        return -ENOMEM;
    *o = (struct wh_owned){h->owned, destroy, arg};
    h->owned = o;
    return 0;
}

int weft_http_route(weft_http *h, const char *pattern, weft_handler *fn, void *arg)
{
    if (!h || !pattern || !fn)
        return -EINVAL;
    return wh_server_is_serving(h) ? -EBUSY : wh_routes_add(h->routes, pattern, fn, arg);
}

int weft_http_use(weft_http *h, weft_handler *fn, void *arg)
{
    if (!h || !fn)
        return -EINVAL;
    if (wh_server_is_serving(h))
        return -EBUSY;
    struct wh_layer *layers = wh_alloc((h->layer_count + 1) * sizeof *layers);
    if (!layers)
        return -ENOMEM;
    if (h->layer_count > 0)
        memcpy(layers, h->layers, h->layer_count * sizeof *layers);
    layers[h->layer_count++] = (struct wh_layer){fn, arg};
    wh_free(h->layers);
    h->layers = layers;
    return 0;
}

int weft_http_log(weft_http *h, int fd)
{
    if (!h || fd < 0)
        return -EINVAL;
    if (h->log)
        return -EALREADY;
    return wh_server_is_serving(h) ? -EBUSY : wh_log_new(&h->log, fd);
}

/* Connections */

void wh_server_add(weft_http *h, struct wh_connection *c)
{
    wh_lock(&h->lock);
    c->next = h->connections;
    c->prev = NULL;
    if (c->next)
        c->next->prev = c;
    h->connections = c;
    weft_mutex_unlock(&h->lock);
}

void wh_server_remove(weft_http *h, struct wh_connection *c)
{
    wh_lock(&h->lock);
    if (c->prev)
        c->prev->next = c->next;
    else
        h->connections = c->next;
    if (c->next)
        c->next->prev = c->prev;
    weft_mutex_unlock(&h->lock);
}

/*
 * Nothing more is accepted. Idle connections are woken: a read of theirs returns 0. (A request of which a part comes at this
 * very moment is lost with its connection, as when an idle connection is closed by its time.) Handlers are told by their
 * scopes.
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
        if (atomic_load_explicit(&c->phase, memory_order_seq_cst) == WH_IDLE)
            weft_shutdown(c->fd, SHUT_RD);
        if (c->scope)
            weft_scope_stop(c->scope, h->o.grace < 0 ? 0 : h->o.grace);
    }
    weft_mutex_unlock(&h->lock);
}

/* Serving */

/* The first call decides which scheduler runs the connections. */
static int make_workers(weft_http *h)
{
    weft_sched *sched = h->o.on ? h->o.on : weft_sched_current();
    weft_sched_figures figures = {.size = sizeof figures};
    if (h->workers)
        return h->sched == sched ? 0 : -EBUSY;
    int rc = weft_sched_stats(sched, &figures);
    if (rc != 0)
        return rc;
    size_t bytes = figures.workers * sizeof *h->workers;
    h->workers = aligned_alloc(_Alignof(struct wh_worker), bytes);
    if (!h->workers)
        return -ENOMEM;
    memset(h->workers, 0, bytes);
    h->worker_count = (unsigned)figures.workers;
    h->sched = sched;
    return 0;
}

/* Between +1 and -1 weft_http_free says -EBUSY. */
static void count_serving(weft_http *h, int by)
{
    wh_lock(&h->lock);
    h->serving += (unsigned)by;
    weft_mutex_unlock(&h->lock);
}

/* What all calls need: 0, or a negative errno. */
static int start_helpers(weft_http *h)
{
    int rc = wh_flushers_start(h);
    if (rc != 0 || !h->log)
        return rc;
    rc = wh_log_start(h->log);
    if (rc != 0)
        wh_flushers_stop(h);
    return rc;
}

/* The first of several calls starts the helpers. In `life`. */
static int join_in(weft_http *h)
{
    wh_lock(&h->lock);
    int rc = h->is_stopped ? -ESHUTDOWN : make_workers(h);
    weft_mutex_unlock(&h->lock);
    if (rc == 0 && h->users == 0)
        rc = start_helpers(h);
    if (rc == 0)
        h->users++;
    return rc;
}

/* A call that comes while the last one before it ends the helpers waits for that. */
static int begin_serving(weft_http *h)
{
    count_serving(h, 1);
    int rc = weft_mutex_lock(&h->life, WEFT_FOREVER);
    if (rc == 0) {
        rc = join_in(h);
        weft_mutex_unlock(&h->life);
    }
    if (rc != 0)
        count_serving(h, -1);
    return rc;
}

/* The last of several calls ends the helpers. */
static void end_serving(weft_http *h)
{
    wh_lock(&h->life);
    if (--h->users == 0) {
        wh_flushers_stop(h);
        if (h->log)
            wh_log_stop(h->log);
    }
    weft_mutex_unlock(&h->life);
    count_serving(h, -1);
}

static int open_serving(struct wh_serving *s, weft_http *h, int listener)
{
    int one = 1, fd = fcntl(listener, F_DUPFD_CLOEXEC, 0), error = errno;
    if (fd < 0)
        return -error;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* connections inherit it; a UNIX socket has none */
    *s = (struct wh_serving){.h = h, .listener = fd};
    wh_lock(&h->lock);
    s->next = h->servings;
    h->servings = s;
    weft_mutex_unlock(&h->lock);
    return 0;
}

/* Out of the list, and its listener closed by exactly one of this and weft_http_stop. */
static void close_serving(struct wh_serving *s)
{
    weft_http *h = s->h;
    wh_lock(&h->lock);
    struct wh_serving **at = &h->servings;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    int fd = s->listener;
    weft_mutex_unlock(&h->lock);
    if (fd >= 0)
        weft_close(fd);
}

static int serve(weft_http *h, int listener, weft_time deadline)
{
    struct wh_serving *s = wh_alloc(sizeof *s);
    int rc = s ? open_serving(s, h, listener) : -ENOMEM;
    if (rc == 0) {
        weft_serve_opts opts = {.size = sizeof opts,
                                .max_conns = h->o.max_conns,
                                .stack = h->o.stack,
                                .shared = h->o.shared,
                                .grace = h->o.grace,
                                .refuse = wh_refuse_connection,
                                .peers = h->log != NULL, /* else the kernel is asked, as long as the client is there */
                                .on = h->o.on,
                                .ending = tell_connections};
        rc = weft_serve(s->listener, wh_serve_connection, s, &opts, deadline);
        close_serving(s);
    }
    wh_free(s);
    return rc;
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
    rc = serve(h, listener, deadline);
    end_serving(h);
    return rc;
}

int weft_http_stop(weft_http *h)
{
    if (!h)
        return -EINVAL;
    wh_lock(&h->lock);
    h->is_stopped = true;
    for (;;) {
        struct wh_serving *s = h->servings;
        while (s && s->listener < 0)
            s = s->next;
        if (!s)
            break;
        int fd = s->listener;
        s->listener = -1;
        weft_mutex_unlock(&h->lock);
        weft_close(fd); /* ends its weft_serve */
        wh_lock(&h->lock);
    }
    weft_mutex_unlock(&h->lock);
    return 0;
}

/* Counting */

static void add_worker(weft_http_figures *out, const struct wh_worker *w)
{
    uint64_t ended = wh_count_read(&w->ended), idle_ended = wh_count_read(&w->idle_ended),
             streams_ended = wh_count_read(&w->streams_ended); /* before their beginnings: no difference is negative */
    uint64_t begun = wh_count_read(&w->connections);
    out->connections += (unsigned)(begun - ended);
    out->idle += (unsigned)(wh_count_read(&w->idle_begun) - idle_ended);
    out->streams += (unsigned)(wh_count_read(&w->streams_begun) - streams_ended);
    out->refused += wh_count_read(&w->refused);
    out->accepted += begun + wh_count_read(&w->refused);
    out->requests += wh_count_read(&w->requests);
    out->cut += wh_count_read(&w->cut);
    out->bytes_in += wh_count_read(&w->bytes_in);
    out->bytes_out += wh_count_read(&w->bytes_out);
    for (size_t i = 0; i < 6; i++)
        out->status[i] += wh_count_read(&w->status[i]);
    for (size_t i = 0; i < WEFT_HTTP_LATENCIES; i++)
        out->latencies[i] += wh_count_read(&w->latencies[i]);
}

int weft_http_stats(const weft_http *h, weft_http_figures *out)
{
    weft_http_figures all = {0};
    if (!h || !out || out->size == 0)
        return -EINVAL;
    weft_http *mine = (weft_http *)h;
    wh_lock(&mine->lock);
    unsigned workers = h->worker_count;
    weft_mutex_unlock(&mine->lock);
    for (unsigned i = 0; i < workers; i++)
        add_worker(&all, &h->workers[i]);
    all.size = out->size < sizeof all ? out->size : sizeof all;
    memcpy(out, &all, all.size);
    return 0;
}
