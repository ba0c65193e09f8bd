/*
 * http/server.c: see server.h: making, counting, and the list of connections. Serving is in serve.c.
 */
#include "http/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "http/address.h"
#include "http/connection.h"
#include "http/field.h"
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
        wh_inputs_free(&h->workers[i]);
        wh_spares_free(&h->workers[i]);
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
    for (unsigned i = 0; i < mine->worker_count; i++)
        add_worker(&all, &mine->workers[i]);
    weft_mutex_unlock(&mine->lock);
    all.size = out->size < sizeof all ? out->size : sizeof all;
    memcpy(out, &all, all.size);
    return 0;
}
