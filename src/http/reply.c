/*
 * http/reply.c: heads and bodies of answers.
 *
 * When the answer begins, its head is written to the connection's output, so no list of fields is kept. Until then the
 * fields that the handler adds wait in the exchange's arena, as the text that is sent.
 */
#include "http/reply.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "http/block.h"
#include "http/body.h"
#include "http/connection.h"
#include "http/date.h"
#include "http/field.h"
#include "http/output.h"
#include "http/server.h"

enum {
    HEAD_MOST = 512, /* bytes of a head, without the type, the field Server and what was added */
    TYPE_MOST = 1024,
    CHUNK_FRAME = 24,  /* a size, and two line ends */
    SMALL_BODY = 4096, /* bytes of a body that goes out with its head */
};

/* Adding fields */

static bool is_name(const char *name, size_t size, const char *which)
{
    return strlen(which) == size && strncasecmp(name, which, size) == 0;
}

/* Whether handlers must not add the field: the server itself writes it, or it is about the connection. */
static bool is_reserved(const char *name, size_t size)
{
    static const char *const names[] = {"Connection", "Date", "Keep-Alive", "Trailer", "Transfer-Encoding", "Upgrade"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (is_name(name, size, names[i]))
            return true;
    }
    return false;
}

static int add_length(weft_exchange *x, const char *value)
{
    uint64_t n = 0;
    if (x->has_own_length || *value == '\0')
        return -EINVAL;
    for (; *value; value++) {
        if (*value < '0' || *value > '9' || n > (uint64_t)INT64_MAX / 10 - 1)
            return -EINVAL;
        n = n * 10 + (uint64_t)(*value - '0');
    }
    x->has_own_length = true;
    x->length = n;
    return 0;
}

/* Makes room behind the fields that were added. */
static int grow_added(weft_exchange *x, size_t more)
{
    size_t need = x->added_size + more;
    if (need <= x->added_room)
        return 0;
    size_t room = need < 256 ? 256 : need * 2;
    char *new = room < UINT32_MAX ? weft_http_alloc(x, room) : NULL;
    if (!new)
        return -ENOMEM;
    if (x->added_size > 0)
        memcpy(new, x->added, x->added_size);
    x->added = new;
    x->added_room = (uint32_t)room;
    return 0;
}

int weft_http_add_header(weft_exchange *x, const char *name, const char *value)
{
    if (x->answer != WH_NO_ANSWER)
        return -EALREADY;
    size_t name_size = name ? strlen(name) : 0, value_size = value ? strlen(value) : 0;
    if (!value || !wh_is_token(name, name_size) || !wh_is_field_value(value, value_size) ||
        is_reserved(name, name_size))
        return -EINVAL;
    if (is_name(name, name_size, "Content-Length"))
        return add_length(x, value);
    int rc = grow_added(x, name_size + value_size + 4);
    if (rc != 0)
        return rc;
    char *to = x->added + x->added_size;
    to = wh_append(to, name, name_size);
    to = wh_append(to, ": ", 2);
    to = wh_append(to, value, value_size);
    to = wh_append(to, "\r\n", 2);
    x->added_size = (uint32_t)(to - x->added);
    return 0;
}

/* Heads */

/* Writes the field Date anew once a second. */
static void refresh_date(struct wh_worker *w)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (now.tv_sec == w->second)
        return;
    w->second = now.tv_sec;
    memcpy(w->ok, "HTTP/1.1 200 OK\r\n", sizeof w->ok);
    char *to = wh_append(w->date, "Date: ", 6);
    wh_date_write(to, now.tv_sec);
    wh_append(to + WH_DATE_SIZE, "\r\n", 2);
}

static char *put_status_and_date(char *to, int status, const struct wh_worker *w)
{
    _Static_assert(offsetof(struct wh_worker, date) == offsetof(struct wh_worker, ok) + sizeof w->ok,
                   "one copy takes both");
    if (status == 200)
        return wh_append(to, (const char *)w + offsetof(struct wh_worker, ok), sizeof w->ok + sizeof w->date);
    const char *reason = weft_http_reason(status);
    to = wh_append(to, "HTTP/1.1 ", 9);
    to = wh_put_decimal(to, (uint64_t)status);
    *to++ = ' ';
    to = wh_append(to, reason, strlen(reason));
    to = wh_append(to, "\r\n", 2);
    return wh_append(to, w->date, sizeof w->date);
}

static char *put_type(char *to, const char *type, size_t size)
{
    to = wh_append(to, "Content-Type: ", 14);
    to = wh_append(to, type, size);
    return wh_append(to, "\r\n", 2);
}

/* The content type of a head. */
struct type {
    const char *text;  /* NULL: none */
    const char *field; /* the whole field, which the worker keeps; NULL: write it from `text` */
    size_t size;       /* of the field, or else of the text */
};

/* Checks a content type, and sets the field and the size. */
static bool check_type(struct wh_worker *w, struct type *type)
{
    if (strcmp(type->text, w->type) == 0) {
        type->field = w->type_field;
        type->size = w->type_field_size;
        return true;
    }
    size_t size = type->size = strlen(type->text);
    if (size > TYPE_MOST || !wh_is_field_value(type->text, size))
        return false;
    if (size > 0 && size < sizeof w->type) {
        memcpy(w->type, type->text, size + 1);
        type->size = w->type_field_size = (uint32_t)(put_type(w->type_field, type->text, size) - w->type_field);
        type->field = w->type_field;
    }
    return true;
}

static char *put_connection(char *to, const weft_exchange *x)
{
    if (!x->keeps)
        return wh_append(to, "Connection: close\r\n", 19);
    if (x->head.minor == 0)
        return wh_append(to, "Connection: keep-alive\r\n", 24);
    return to;
}

/* Whether a status has no body, whatever the handler gives. */
static bool is_bodiless(int status)
{
    return status == 204 || status == 205 || status == 304;
}

/* How the head tells the length of the body. */
struct frame {
    enum { NO_FRAME, LENGTH_FRAME, CHUNKED_FRAME } kind;
    uint64_t length;
};

static inline char *put_frame(char *to, const struct frame *frame)
{
    switch (frame->kind) {
    case LENGTH_FRAME:
        to = wh_append(to, "Content-Length: ", 16);
        return wh_append(wh_put_decimal(to, frame->length), "\r\n", 2);
    case CHUNKED_FRAME:
        return wh_append(to, "Transfer-Encoding: chunked\r\n", 28);
    default:
        return to;
    }
}

/* Writes the fields that the handler has added, and ends the head. */
__attribute__((noinline)) static int put_added(struct wh_connection *c, const weft_exchange *x)
{
    int rc = wh_out_put(c, x->added, x->added_size);
    return rc != 0 ? rc : wh_out_put(c, "\r\n", 2);
}

/* Writes the head to the connection's output, with room for `more` bytes behind it if nothing was added. */
__attribute__((always_inline)) static inline int put_head(weft_exchange *x, struct type type, const struct frame *frame,
                                                          size_t more)
{
    struct wh_connection *c = x->c;
    const weft_http *h = c->h;
    if (!wh_out_has_room(c, HEAD_MOST + type.size + h->server_size + more)) {
        int rc = wh_out_flush_slow(c);
        if (rc != 0)
            return rc;
        if (type.field) /* the write may have let other fibers run, and the worker may keep another field now */
            type = (struct type){type.text, NULL, strlen(type.text)};
    }
    if (c->block->out_end == 0) /* else an answer before this one has refreshed the date */
        refresh_date(c->w);
    char *begin = wh_out_at(c), *to = put_status_and_date(begin, x->status, c->w);
    if (h->server_size > 0)
        to = wh_append(to, h->server, h->server_size);
    if (type.size > 0)
        to = type.field ? wh_append(to, type.field, type.size) : put_type(to, type.text, type.size);
    to = put_connection(put_frame(to, frame), x);
    if (x->added_size > 0) {
        wh_out_use(c, (size_t)(to - begin));
        return put_added(c, x);
    }
    to = wh_append(to, "\r\n", 2);
    wh_out_use(c, (size_t)(to - begin));
    return 0;
}

/* The checks at the beginning of every answer: 0, or a negative errno. A 426 would need a protocol in Upgrade. */
static inline int begin(weft_exchange *x, int status)
{
    if (x->answer != WH_NO_ANSWER)
        return -EALREADY;
    if (status < 200 || status > 599 || status == 426)
        return -EINVAL;
    x->status = status;
    x->sends_nothing = x->is_head || is_bodiless(status);
    x->keeps = x->keeps && !x->c->has_ended && !wh_is_stopping(x->c) && (x->body == WH_NO_BODY || wh_body_can_drain(x));
    return 0;
}

static void count_answer(weft_exchange *x)
{
    struct wh_connection *c = x->c;
    x->answer = WH_ENDED;
    c->block->answers++;
    c->block->whole = c->block->out_end;
    if (c->block->out_end == 0)
        wh_out_sent(c); /* its last bytes have gone out already: a large body, a file */
    wh_count_add(&c->w->status[x->status / 100], 1);
}

static int failed(weft_exchange *x, int rc)
{
    x->answer = WH_CUT;
    x->keeps = false;
    return rc;
}

int weft_http_reply(weft_exchange *x, int status, const char *type, const void *body, size_t bytes)
{
    struct frame frame = {NO_FRAME, 0};
    struct type checked = {type, NULL, 0};
    if (x->answer != WH_NO_ANSWER)
        return -EALREADY;
    if (type && !check_type(x->c->w, &checked))
        return -EINVAL;
    if (x->has_own_length && !x->is_head && x->length != bytes)
        return -EINVAL;
    int rc = begin(x, status);
    if (rc != 0)
        return rc;
    if (status == 205)
        frame.kind = LENGTH_FRAME;
    else if (!is_bodiless(status))
        frame = (struct frame){LENGTH_FRAME, x->has_own_length ? x->length : bytes};
    if (x->sends_nothing)
        bytes = 0;
    rc = put_head(x, checked, &frame, bytes <= SMALL_BODY ? bytes : 0);
    if (rc == 0 && bytes > 0) {
        rc = wh_out_put(x->c, body, bytes);
        x->sent = bytes;
    }
    if (rc != 0)
        return failed(x, rc);
    count_answer(x);
    return 0;
}

int weft_http_redirect(weft_exchange *x, int status, const char *location)
{
    if (status != 301 && status != 302 && status != 303 && status != 307 && status != 308)
        return -EINVAL;
    if (!location || !*location)
        return -EINVAL;
    int rc = weft_http_add_header(x, "Location", location);
    return rc != 0 ? rc : weft_http_reply(x, status, NULL, NULL, 0);
}

/* Parts */

int weft_http_begin(weft_exchange *x, int status)
{
    struct frame frame = {NO_FRAME, 0};
    int rc = begin(x, status);
    if (rc != 0)
        return rc;
    if (status == 205) { /* a 205 has no content, but its head must tell the length 0 */
        frame.kind = LENGTH_FRAME;
    } else if (x->has_own_length && status != 204) {
        frame = (struct frame){LENGTH_FRAME, x->length};
        x->has_length = !x->sends_nothing;
        x->length_left = x->length;
    } else if (!x->sends_nothing && x->head.minor > 0) {
        frame.kind = CHUNKED_FRAME;
        x->sends_chunks = true;
    } else if (!x->sends_nothing) {
        x->ends_with_close = true;
        x->keeps = false;
    }
    rc = put_head(x, (struct type){0}, &frame, 0);
    if (rc != 0)
        return failed(x, rc);
    x->answer = WH_BEGUN;
    return 0;
}

/* For a part of a body that is not sent. No write of such a body waits. So it yields now and then, and tells a handler
 * whose body has no end that its client is gone. */
static int skip_part(const weft_exchange *x)
{
    if (++x->c->w->tries % WH_TRIES == 0)
        weft_yield();
    return weft_cancelled() ? -ECANCELED : 1;
}

int wh_part_begin(weft_exchange *x, size_t count)
{
    if (x->answer != WH_BEGUN)
        return x->answer == WH_CUT ? -EPIPE : -EINVAL;
    if (x->sends_nothing)
        return skip_part(x);
    if (x->has_length && count > x->length_left)
        return -EFBIG;
    if (x->sends_chunks && count > 0) {
        size_t with_data = count < WH_OUT_SIZE / 2 ? count : 0; /* a small chunk goes out in one write */
        int rc = wh_out_reserve(x->c, CHUNK_FRAME + with_data);
        if (rc != 0)
            return failed(x, rc);
        char *from = wh_out_at(x->c), *to = wh_put_hex(from, count);
        to = wh_append(to, "\r\n", 2);
        wh_out_use(x->c, (size_t)(to - from));
    }
    return 0;
}

int wh_part_end(weft_exchange *x, size_t count)
{
    x->sent += count;
    if (x->has_length)
        x->length_left -= count;
    if (!x->sends_chunks || count == 0)
        return 0;
    int rc = wh_out_put(x->c, "\r\n", 2);
    return rc != 0 ? failed(x, rc) : 0;
}

int weft_http_write(weft_exchange *x, const void *bytes, size_t count)
{
    int rc = wh_part_begin(x, count);
    if (rc != 0)
        return rc > 0 ? 0 : rc;
    rc = count > 0 ? wh_out_put(x->c, bytes, count) : 0; /* `bytes` may be NULL if `count` is 0 */
    return rc != 0 ? failed(x, rc) : wh_part_end(x, count);
}

int weft_http_write_file(weft_exchange *x, int file, int64_t offset, uint64_t count)
{
    int rc = wh_part_begin(x, count);
    if (rc != 0)
        return rc > 0 ? 0 : rc;
    rc = wh_out_file(x->c, file, offset, count);
    return rc != 0 ? failed(x, rc) : wh_part_end(x, count);
}

int weft_http_flush(weft_exchange *x)
{
    if (x->answer == WH_ENDED) /* the handler goes on, and the client need not wait for its end */
        return wh_out_flush(x->c);
    if (x->answer != WH_BEGUN)
        return x->answer == WH_CUT ? -EPIPE : -EINVAL;
    int rc = wh_out_flush(x->c);
    return rc != 0 ? failed(x, rc) : 0;
}

int weft_http_end(weft_exchange *x)
{
    if (x->answer != WH_BEGUN)
        return x->answer == WH_CUT ? -EPIPE : -EINVAL;
    if (x->has_length && x->length_left > 0)
        return failed(x, -ENODATA);
    int rc = x->sends_chunks ? wh_out_put(x->c, "0\r\n\r\n", 5) : 0;
    if (rc != 0)
        return failed(x, rc);
    count_answer(x);
    return 0;
}

int weft_http_status(weft_exchange *x)
{
    return x->answer == WH_NO_ANSWER ? 0 : x->status;
}

uint64_t weft_http_sent(weft_exchange *x)
{
    return x->sent;
}
