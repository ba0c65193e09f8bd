/*
 * http/body.c: reading the body of a request.
 *
 * Bytes that came with the head lie behind it in the connection's buffer, and are used first. Then a sized body is read
 * directly into the handler's buffer, and never past the end of the body. A chunked body is read into the connection's
 * buffer behind the head, and decoded there.
 *
 * Time. Reads may wait for the client GRACE in all, and one second more for each body_rate bytes that have come. Only
 * these waits count: a handler may take any time between two reads.
 */
#include "http/body.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include <weft/io.h>

#include "http/block.h"
#include "http/connection.h"
#include "http/output.h"
#include "http/server.h"
#include "http/transport.h"

#define GRACE (5 * WEFT_SEC)

enum { WASTE = 4096 };

int64_t weft_http_body_length(weft_exchange *x)
{
    return x->head.is_chunked ? -1 : (int64_t)x->head.length;
}

void weft_http_allow_body(weft_exchange *x, uint64_t bytes)
{
    x->body_allowed = bytes;
}

static ptrdiff_t fail(weft_exchange *x, int error)
{
    x->body = WH_BAD_BODY;
    x->body_error = error;
    x->keeps = false;
    return error;
}

/* The deadline for the client to send something. */
static weft_time patience_end(const weft_exchange *x)
{
    uint64_t rate = x->c->h->o.body_rate, seconds = x->body_read / rate;
    if (seconds > INT32_MAX)
        return WEFT_FOREVER;
    weft_span all = GRACE + (weft_span)seconds * WEFT_SEC + (weft_span)(x->body_read % rate * WEFT_SEC / rate);
    return weft_in(all - x->body_waited);
}

/* First sends what was collected, because the client may be waiting for it. The client's time begins after that. */
static ptrdiff_t receive_patiently(weft_exchange *x, void *buffer, size_t bytes, weft_time deadline)
{
    int rc = wh_out_flush(x->c);
    if (rc != 0)
        return rc;
    weft_time began = weft_now(), end = patience_end(x);
    ptrdiff_t n = wh_receive(x->c, buffer, bytes, end.ns < deadline.ns ? end : deadline);
    x->body_waited += weft_now().ns - began.ns;
    return n;
}

/* Waits for bytes of the body. */
static ptrdiff_t receive(weft_exchange *x, void *buffer, size_t bytes, weft_time deadline)
{
    struct wh_connection *c = x->c;
    ptrdiff_t n = c->has_ended ? 0 : -EAGAIN;
    bool only_tries = deadline.ns == WEFT_NOW.ns;
    if (n == -EAGAIN && (only_tries || ++c->w->tries % WH_TRIES != 0)) /* else the read may let other fibers run */
        n = wh_receive(c, buffer, bytes, WEFT_NOW);
    if (n == -EAGAIN && !only_tries)
        n = receive_patiently(x, buffer, bytes, deadline);
    if (n > 0)
        return n;
    if (n == 0) {
        c->has_ended = true;
        return fail(x, -ECONNRESET);
    }
    if (n == -EAGAIN)
        return n; /* not a failure: the caller only wanted to try */
    return fail(x, (int)n);
}

/* How many bytes in the buffer were not used: bytes of the body, and perhaps of later requests behind it. */
static size_t in_buffer(const struct wh_connection *c)
{
    return c->in_end - c->body_at;
}

static ptrdiff_t took(weft_exchange *x, size_t n)
{
    x->body_read += n;
    return (ptrdiff_t)n;
}

static ptrdiff_t read_sized(weft_exchange *x, char *buffer, size_t bytes, weft_time deadline)
{
    struct wh_connection *c = x->c;
    size_t most = bytes < x->body_left ? bytes : (size_t)x->body_left;
    ptrdiff_t n = (ptrdiff_t)(most < in_buffer(c) ? most : in_buffer(c));
    if (n > 0) {
        memcpy(buffer, c->in + c->body_at, (size_t)n);
        c->body_at += (uint32_t)n;
    } else {
        n = receive(x, buffer, most, deadline);
        if (n < 0)
            return n;
    }
    x->body_left -= (uint64_t)n;
    if (x->body_left == 0)
        x->body = WH_NO_BODY;
    return took(x, (size_t)n);
}

/* Reads more of a chunked body into the buffer, which is empty behind the head. */
static ptrdiff_t fill_buffer(weft_exchange *x, weft_time deadline)
{
    struct wh_connection *c = x->c;
    uint32_t begin = c->in_at + x->head_size;
    ptrdiff_t n = receive(x, c->in + begin, c->in_size - begin, deadline);
    if (n > 0) {
        c->body_at = begin;
        c->in_end = begin + (uint32_t)n;
    }
    return n;
}

static ptrdiff_t read_chunked(weft_exchange *x, char *buffer, size_t bytes, weft_time deadline)
{
    struct wh_connection *c = x->c;
    for (;;) {
        const char *data;
        size_t used = 0;
        ptrdiff_t n = in_buffer(c) == 0
                          ? 0
                          : wh_chunks_take(&x->chunks, c->in + c->body_at, in_buffer(c), bytes, &data, &used);
        if (n > 0)
            memcpy(buffer, data, (size_t)n);
        c->body_at += (uint32_t)used;
        if (n == -1) {
            x->body = WH_NO_BODY;
            return 0;
        }
        if (n < 0)
            return fail(x, -EBADMSG);
        if (n > 0) {
            if (x->body_read + (uint64_t)n > x->body_allowed)
                return fail(x, -EFBIG);
            return took(x, (size_t)n);
        }
        if (in_buffer(c) > 0)
            continue;
        n = fill_buffer(x, deadline);
        if (n < 0)
            return n;
    }
}

/* Sends 100 Continue, unless the client has not waited for it. */
static int say_continue(weft_exchange *x)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    x->wants_continue = false;
    if (x->answer != WH_NO_ANSWER || in_buffer(x->c) > 0) /* it has an answer, or has begun to send the body */
        return 0;
    int rc = wh_out_put(x->c, text, sizeof text - 1);
    return rc != 0 ? rc : wh_out_flush(x->c);
}

ptrdiff_t weft_http_read(weft_exchange *x, void *buffer, size_t bytes, weft_time deadline)
{
    if (x->body == WH_BAD_BODY)
        return x->body_error;
    if (x->body == WH_NO_BODY || bytes == 0)
        return 0;
    if (x->body == WH_SIZED && x->head.length > x->body_allowed)
        return fail(x, -EFBIG);
    if (x->wants_continue) {
        int rc = say_continue(x);
        if (rc != 0)
            return fail(x, rc);
    }
    return x->body == WH_SIZED ? read_sized(x, buffer, bytes, deadline) : read_chunked(x, buffer, bytes, deadline);
}

/* Makes more room for a body whose length is not known: twice as much each time. */
static char *grow(weft_exchange *x, char *body, size_t size, size_t *room)
{
    size_t more = *room < 2048 ? 4096 : *room * 2;
    char *new = weft_http_alloc(x, more + 1);
    if (!new)
        return NULL;
    if (size > 0)
        memcpy(new, body, size);
    *room = more;
    return new;
}

int weft_http_read_all(weft_exchange *x, const char **body, size_t *bytes, weft_time deadline)
{
    size_t size = 0, room = x->body == WH_SIZED && x->head.length <= x->body_allowed ? (size_t)x->body_left : 0;
    char *text = weft_http_alloc(x, room + 1);
    for (;;) {
        if (text && size == room && x->body == WH_CHUNKED)
            text = grow(x, text, size, &room);
        if (!text) {
            fail(x, -ENOMEM);
            return -ENOMEM;
        }
        ptrdiff_t n = weft_http_read(x, text + size, room - size > 0 ? room - size : 1, deadline);
        if (n == -EAGAIN && size > 0) /* the part that has come would be missing from the next try */
            return (int)fail(x, -ETIMEDOUT);
        if (n < 0)
            return (int)n;
        if (n == 0)
            break;
        size += (size_t)n;
    }
    text[size] = '\0';
    *body = text;
    *bytes = size;
    return 0;
}

int weft_http_read_form(weft_exchange *x, weft_time deadline)
{
    static const char wanted[] = "application/x-www-form-urlencoded";
    const char *type = weft_http_header(x, "Content-Type");
    size_t size = sizeof wanted - 1;
    if (!type || strncasecmp(type, wanted, size) != 0 || (type[size] != '\0' && !strchr("; \t", type[size])))
        return -EINVAL;
    return weft_http_read_all(x, &x->form, &x->form_size, deadline);
}

bool wh_body_can_drain(const weft_exchange *x)
{
    switch (x->body) {
    case WH_NO_BODY:
        return true;
    case WH_SIZED:
        return !x->wants_continue && x->body_left <= x->c->h->o.drain_bytes;
    case WH_CHUNKED:
        return !x->wants_continue;
    default:
        return false;
    }
}

bool wh_body_drain(weft_exchange *x)
{
    char *waste;
    uint64_t most = x->c->h->o.drain_bytes, size = 0;
    if (x->body == WH_NO_BODY)
        return true;
    if (!wh_body_can_drain(x))
        return false;
    if (wh_out_reserve(x->c, WASTE) != 0)
        return false;
    waste = wh_out_at(x->c); /* behind the answers, where nobody writes before the next request */
    x->body_allowed = UINT64_MAX;
    while (x->body != WH_NO_BODY) {
        ptrdiff_t n = weft_http_read(x, waste, WASTE, WEFT_FOREVER);
        if (n < 0)
            return false;
        size += (uint64_t)n;
        if (size > most)
            return false;
    }
    return true;
}
