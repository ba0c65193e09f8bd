/*
 * http/flusher.c: see flusher.h. A flusher and the connections of its list are fibers of one worker, and run one at a
 * time. So nothing here is locked.
 *
 * If a client does not take all, its connection goes into a second list, `stuck`. The flusher tries again after a
 * pause, which doubles after each try, to at most a second, until the list is empty. (A wait for each client would take
 * a fiber for each.)
 */
#include "http/flusher.h"

#include <errno.h>
#include <string.h>

#include "http/block.h"
#include "http/output.h"
#include "http/transport.h"

#define FIRST_PAUSE (5 * WEFT_MS)
#define LAST_PAUSE WEFT_SEC

static void link_to(struct wh_connection **list, struct wh_connection *c)
{
    c->is_unflushed = true;
    c->unflushed_next = *list;
    c->unflushed_at = list;
    if (c->unflushed_next)
        c->unflushed_next->unflushed_at = &c->unflushed_next;
    *list = c;
}

/* Sends as much of the complete answers as the client takes now. False: some of them are left. */
static bool send_some(struct wh_connection *c)
{
    struct wh_block *b = c->block;
    if (c->is_sending || c->has_failed || b->whole == 0)
        return true;
    ptrdiff_t n = wh_send(c, b->out, b->whole, 0, WEFT_NOW);
    if (n == -EAGAIN || n == -ECANCELED)
        return false;
    if (n < 0) {
        c->has_failed = true;
        return true;
    }
    memmove(b->out, b->out + n, b->out_end - (size_t)n);
    b->out_end -= (uint32_t)n;
    b->whole -= (uint32_t)n;
    wh_out_sent(c);
    return b->whole == 0;
}

static void send_all(struct wh_worker *w)
{
    while (w->unflushed) {
        struct wh_connection *c = w->unflushed;
        wh_flusher_forget(c);
        if (!send_some(c))
            link_to(&w->stuck, c);
    }
}

/* If it is time, tries the stuck connections again. Returns the time of the next try. */
static weft_time retry(struct wh_worker *w, weft_span *pause, weft_time again)
{
    if (!w->stuck) {
        *pause = FIRST_PAUSE;
        return WEFT_FOREVER;
    }
    weft_time now = weft_now();
    if (again.ns == INT64_MAX) /* no connection was stuck before */
        return (weft_time){now.ns + *pause};
    if (now.ns < again.ns)
        return again;
    while (w->stuck) {
        struct wh_connection *c = w->stuck;
        wh_flusher_forget(c);
        link_to(&w->unflushed, c);
    }
    send_all(w);
    *pause = *pause < LAST_PAUSE / 2 ? *pause * 2 : LAST_PAUSE;
    return (weft_time){now.ns + *pause};
}

static weft_time earlier(weft_time a, weft_time b)
{
    return a.ns < b.ns ? a : b;
}

static void *run(void *arg)
{
    struct wh_worker *w = arg;
    weft_span pause = FIRST_PAUSE;
    weft_time again = WEFT_FOREVER;
    w->flusher = weft_fiber_current();
    for (;;) {
        if (w->look_at.ns != 0)
            wh_spares_look(w); /* first: it may let other fibers run, which then need the rest */
        send_all(w);
        again = retry(w, &pause, again);
        w->flusher_is_awake = false;
        if (weft_park(w->look_at.ns == 0 ? again : earlier(again, w->look_at)) == -ECANCELED)
            break;
    }
    w->flusher = NULL;
    wh_spares_free(w); /* nobody looks any more, and the server may never serve again */
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

void wh_flusher_wake(struct wh_worker *w)
{
    if (!w->flusher || w->flusher_is_awake)
        return;
    w->flusher_is_awake = true;
    weft_unpark(w->flusher);
}

void wh_flusher_watch(struct wh_connection *c)
{
    struct wh_worker *w = c->w;
    if (!w->flusher || c->is_unflushed)
        return;
    link_to(&w->unflushed, c);
    wh_flusher_wake(w);
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
