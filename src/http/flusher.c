/*
 * http/flusher.c: see flusher.h. A flusher and the connections of its list are fibers of one worker, which run one at a time:
 * nothing here is locked.
 */
#include "http/flusher.h"

#include <errno.h>
#include <string.h>

#include "http/block.h"
#include "http/output.h"
#include "http/transport.h"

/* Sends what the client takes now. The rest is left to the connection, which may wait. */
static void send_some(struct wh_connection *c)
{
    struct wh_block *b = c->block;
    if (c->is_sending || c->has_failed || b->out_end == 0)
        return;
    ptrdiff_t n = wh_send(c, b->out, b->out_end, 0, WEFT_NOW);
    if (n == -EAGAIN || n == -ECANCELED)
        return;
    if (n < 0) {
        c->has_failed = true;
        return;
    }
    memmove(b->out, b->out + n, b->out_end - (size_t)n);
    b->out_end -= (uint32_t)n;
    wh_out_sent(c);
}

static void *run(void *arg)
{
    struct wh_worker *w = arg;
    w->flusher = weft_fiber_current();
    for (;;) {
        while (w->unflushed) {
            struct wh_connection *c = w->unflushed;
            wh_flusher_forget(c);
            send_some(c);
        }
        w->flusher_is_awake = false;
        if (weft_park(WEFT_FOREVER) == -ECANCELED)
            break;
    }
    w->flusher = NULL;
    return NULL;
}

int wh_flushers_start(weft_http *h)
{
    for (unsigned i = 0; i < h->threads; i++) {
        struct wh_worker *w = &h->workers[i];
        weft_attr attr = {.size = sizeof attr, .name = "http flusher", .worker = WEFT_WORKER(i)};
        int rc = weft_sched_go(h->sched, &w->flusher_to_join, &attr, run, w);
        if (rc != 0) {
            wh_flushers_stop(h);
            return rc;
        }
    }
    return 0;
}

void wh_flushers_stop(weft_http *h)
{
    for (unsigned i = 0; i < h->threads; i++) {
        struct wh_worker *w = &h->workers[i];
        if (!w->flusher_to_join)
            continue;
        weft_cancel(w->flusher_to_join);
        wh_join(w->flusher_to_join);
        w->flusher_to_join = NULL;
    }
}

void wh_flusher_watch(struct wh_connection *c)
{
    struct wh_worker *w = c->w;
    if (!w->flusher || c->is_unflushed)
        return;
    c->is_unflushed = true;
    c->unflushed_next = w->unflushed;
    c->unflushed_at = &w->unflushed;
    if (c->unflushed_next)
        c->unflushed_next->unflushed_at = &c->unflushed_next;
    w->unflushed = c;
    if (w->flusher_is_awake)
        return;
    w->flusher_is_awake = true;
    weft_unpark(w->flusher);
}

void wh_flusher_forget(struct wh_connection *c)
{
    if (!c->is_unflushed)
        return;
    *c->unflushed_at = c->unflushed_next;
    if (c->unflushed_next)
        c->unflushed_next->unflushed_at = c->unflushed_at;
    c->is_unflushed = false;
}
