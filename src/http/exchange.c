/*
 * http/exchange.c: see exchange.h. Also the exchange's memory, its scope, and weft_http_next.
 */
#include "http/exchange.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/block.h"
#include "http/connection.h"
#include "http/flusher.h"
#include "http/memory.h"
#include "http/server.h"

void wh_exchange_begin(weft_exchange *x, struct wh_connection *c)
{
    const struct wh_head *head = &x->head;
    x->c = c;
    x->bytes = c->in + c->in_at;
    x->is_head = head->method == WH_HEAD;
    x->keeps = head->keeps_alive;
    x->body = head->is_chunked ? WH_CHUNKED : head->length > 0 ? WH_SIZED : WH_NO_BODY;
    x->wants_continue = head->expects_continue && x->body != WH_NO_BODY;
    x->body_left = head->length;
    x->body_allowed = c->h->o.body_bytes;
    x->layer = 0;
    x->body_error = 0;
    x->body_read = 0;
    x->body_waited = 0;
    x->chunks = (struct wh_chunks){0};
    x->answer = WH_NO_ANSWER;
    x->sends_chunks = x->sends_nothing = x->ends_with_close = x->has_length = x->has_own_length = x->is_stream = false;
    x->has_scope = false;
    x->status = 0;
    x->arena_used = 0;
    x->sent = 0;
    x->added = NULL;
    x->added_size = x->added_room = 0;
    x->id = x->form = NULL;
    x->extra = NULL;
    x->match.fn = NULL;
    x->match.allow = NULL;
    x->match.is_options = false;
    x->match.count = 0;
}

void *weft_http_alloc(weft_exchange *x, size_t bytes)
{
    size_t whole = bytes < WH_ARENA ? (bytes + 15) / 16 * 16 : SIZE_MAX;
    if (whole <= WH_ARENA - x->arena_used) {
        void *p = x->arena + x->arena_used;
        x->arena_used += (uint32_t)whole;
        return p;
    }
    struct wh_extra *e = bytes < SIZE_MAX - sizeof *e ? wh_alloc(sizeof *e + bytes) : NULL;
    if (!e)
        return NULL;
    e->next = x->extra;
    x->extra = e;
    return e->bytes;
}

weft_scope *weft_http_scope(weft_exchange *x)
{
    struct wh_connection *c = x->c;
    if (x->has_scope)
        return &x->scope;
    if (weft_scope_open(&x->scope, &(weft_scope_opts){.name = "http"}) != 0)
        return NULL;
    x->has_scope = true;
    wh_lock(&c->h->lock);
    c->scope = &x->scope;
    bool stops = wh_is_stopping(c);
    weft_mutex_unlock(&c->h->lock);
    if (stops)
        weft_scope_stop(&x->scope, c->h->o.grace < 0 ? 0 : c->h->o.grace);
    return &x->scope;
}

/* After a close that returned -EBUSY. If a scope that the handler has opened is still open, the exchange's scope is not
 * closed, and the next request could not use its memory. So the program ends. */
static void check_closed(weft_scope *scope)
{
    weft_scope_tally tally = {.size = sizeof tally};
    if (weft_scope_counts(scope, &tally) == -ESRCH)
        return;
    fputs("weft: an HTTP handler has returned, but a scope that it has opened is still open: close every scope in the "
          "function that opened it\n",
          stderr);
    abort();
}

/* Closes the exchange's scope. Children may take long to end, so complete answers go out meanwhile. */
static void close_scope(weft_exchange *x)
{
    struct wh_connection *c = x->c;
    wh_lock(&c->h->lock);
    c->scope = NULL; /* from now on a stop does not touch the scope */
    weft_mutex_unlock(&c->h->lock);
    if (x->answer != WH_CUT && c->block->out_end > 0)
        wh_flusher_watch(c);
    if (weft_scope_close(&x->scope) == -EBUSY) /* not closed, or closed with a child that has failed with -EBUSY */
        check_closed(&x->scope);
    x->has_scope = false;
    wh_flusher_forget(c);
}

void wh_exchange_abandon(weft_exchange *x)
{
    if (x->answer == WH_BEGUN)
        x->answer = WH_CUT;
    if (x->has_scope)
        close_scope(x);
}

void wh_exchange_end(weft_exchange *x)
{
    while (x->extra) {
        struct wh_extra *e = x->extra;
        x->extra = e->next;
        wh_free(e);
    }
}

/* The status for a handler that has failed because its request's body ends too early. Either the client has ended it, or
 * a stop has shut the reading half when the request began. */
static int status_of_short_body(const struct wh_connection *c)
{
    return atomic_load_explicit(&c->is_shut, memory_order_acquire) ? 503 : 400; /* pairs with tell_connections */
}

/* The status that the server answers for a handler that has failed before its answer began. */
static int status_of(int error)
{
    switch (error) {
    case -ENOENT:
        return 404;
    case -EACCES:
    case -EPERM:
        return 403;
    case -EINVAL:
    case -EBADMSG:
        return 400;
    case -EOPNOTSUPP:
        return 405;
    case -ETIMEDOUT:
        return 408;
    case -EFBIG:
        return 413;
    case -EAGAIN:
    case -EBUSY:
        return 503;
    case -ETIME:
        return 504;
    default:
        return 500;
    }
}

/* Adds Allow, for a handler that has refused the method of its request. */
static int add_other_methods(weft_exchange *x)
{
    const struct wh_head *head = &x->head;
    char *room = weft_http_alloc(x, head->path.size + 1 + WH_PARAMS);
    const char *allow = !room
                            ? NULL
                            : wh_routes_others(x->c->h->routes, x->bytes + head->method_text.at, head->method_text.size,
                                               x->bytes + head->path.at, head->path.size, head->has_percent, room);
    return allow ? weft_http_add_header(x, "Allow", allow) : -ENOMEM;
}

/* Answers with the reason of a status as the body; 204 has none. */
static int reply_with_reason(weft_exchange *x, int status)
{
    char body[64];
    if (status == 204)
        return weft_http_reply(x, 204, NULL, NULL, 0);
    const char *reason = weft_http_reason(status);
    size_t size = strlen(reason);
    memcpy(body, reason, size);
    body[size++] = '\n';
    return weft_http_reply(x, status, "text/plain; charset=utf-8", body, size);
}

void wh_exchange_answer(weft_exchange *x, int status)
{
    if (x->answer != WH_NO_ANSWER)
        return;
    x->has_own_length = false;
    if (status == 405 && add_other_methods(x) != 0)
        status = 503;
    reply_with_reason(x, status);
}

/* Runs the handler of the route. Without a route it answers, unless middleware has answered. */
static int run_route(weft_exchange *x)
{
    if (x->match.fn)
        return x->match.fn(x, x->match.arg);
    if (x->answer != WH_NO_ANSWER)
        return -EALREADY;
    int status = x->status;
    x->status = 0;
    if (x->match.allow && weft_http_add_header(x, "Allow", x->match.allow) != 0)
        return -ENOMEM;
    return reply_with_reason(x, status);
}

/*
 * Completes the answer after a handler. `added`: bytes of the fields that were added before it ran. If the handler has
 * failed, only these fields stay, because the handler's own fields were for another answer.
 */
static int complete(weft_exchange *x, int rc, uint32_t added)
{
    if (rc > 0)
        rc = -ERANGE; /* perhaps the handler has returned a status, which would silently be lost */
    if (rc < 0) {
        bool is_short = x->body == WH_BAD_BODY && rc == -ECONNRESET;
        if (x->answer == WH_NO_ANSWER) {
            x->added_size = added;
            wh_exchange_answer(x, is_short ? status_of_short_body(x->c) : status_of(rc));
        } else if (x->answer == WH_BEGUN && x->is_stream && x->is_head) {
            weft_http_end(x); /* weft_http_events has cancelled it */
        } else if (x->answer == WH_BEGUN) {
            x->answer = WH_CUT;
        }
        return rc;
    }
    if (x->answer == WH_NO_ANSWER)
        wh_exchange_answer(x, 204);
    else if (x->answer == WH_BEGUN)
        weft_http_end(x);
    return rc;
}

/* Closes a scope that was opened during the call, so that the caller can close the scopes that it has opened before. */
int weft_http_next(weft_exchange *x)
{
    const weft_http *h = x->c->h;
    uint32_t added = x->added_size;
    bool had_scope = x->has_scope;
    unsigned number = x->layer;
    if (number > h->layer_count)
        return -EALREADY;
    x->layer++;
    int rc = number < h->layer_count ? h->layers[number].fn(x, h->layers[number].arg) : run_route(x);
    rc = complete(x, rc, added);
    x->layer = h->layer_count + 1; /* the answer is complete. What has refused to go on must not be passed by */
    if (x->has_scope && !had_scope)
        close_scope(x);
    return rc;
}

/* Searches for a route in every way. Returns the status; 200: a route was found. */
static int find_any_route(weft_exchange *x)
{
    const struct wh_head *head = &x->head;
    const char *path = head->path.size > 0 ? x->bytes + head->path.at : "/";
    size_t path_size = head->path.size > 0 ? head->path.size : 1;
    if (head->form == WH_AUTHORITY_FORM) { /* CONNECT: what follows may be meant for the tunnel, and is no request */
        x->keeps = false;
        return 501;
    }
    char *room = weft_http_alloc(x, path_size + 1 + WH_PARAMS);
    if (!room)
        return 503;
    int status = wh_routes_find(x->c->h->routes, x->bytes + head->method_text.at, head->method_text.size, path,
                                path_size, head->has_percent, room, &x->match);
    return status == 200 && x->match.is_options ? 204 : status;
}

/* Finds the route. If there is none, x->status keeps the status for run_route, because middleware runs first. */
static void find_route(weft_exchange *x)
{
    const struct wh_head *head = &x->head;
    if (head->form == WH_ORIGIN_FORM && !head->has_percent &&
        wh_routes_find_literal(x->c->h->routes, head->method, x->bytes + head->path.at, head->path.size, &x->match))
        return;
    int status = find_any_route(x);
    if (status == 200)
        return;
    x->match.fn = NULL;
    x->status = status;
}

int wh_exchange_run(weft_exchange *x)
{
    struct wh_connection *c = x->c;
    find_route(x);
    if (c->block->out_end > 0 && !c->is_unflushed)
        wh_flusher_watch(c);
    return weft_http_next(x);
}

const char *wh_text(weft_exchange *x, struct wh_slice s)
{
    x->bytes[s.at + s.size] = '\0';
    return x->bytes + s.at;
}

void wh_exchange_set_id(weft_exchange *x, const char *id)
{
    x->id = id;
}
