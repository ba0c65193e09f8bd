/*
 * http/events.c: server-sent events (the event stream format of the HTML standard). Each event goes out at once.
 */
#include <errno.h>
#include <string.h>

#include "http/block.h"
#include "http/connection.h"
#include "http/output.h"
#include "http/reply.h"
#include "http/server.h"

int weft_http_events(weft_exchange *x)
{
    if (weft_http_status(x) != 0)
        return -EALREADY;
    if (!weft_http_scope(x))
        return -ENOMEM;
    int rc = weft_http_add_header(x, "Content-Type", "text/event-stream");
    if (rc == 0)
        rc = weft_http_add_header(x, "Cache-Control", "no-store");
    if (rc == 0)
        rc = weft_http_begin(x, 200);
    if (rc != 0)
        return rc;
    x->is_stream = true;
    wh_count_add(&x->c->w->streams_begun, 1);
    rc = weft_http_flush(x);
    if (rc == 0 && x->is_head) /* the client has its whole answer, and may send its next request */
        weft_scope_cancel(&x->scope, 0, "the request is HEAD: its answer has no events");
    return rc;
}

/* Returns the length of the line at `text`. *next: where the next line begins; NULL: this is the last line. A line ends
 * with CR, LF or both. */
static size_t line_of(const char *text, const char **next)
{
    size_t size = strcspn(text, "\r\n");
    const char *end = text + size;
    *next = *end == '\0' ? NULL : end[0] == '\r' && end[1] == '\n' ? end + 2 : end + 1;
    return size;
}

static size_t size_of_event(const char *name, const char *data)
{
    if (!name && !data)
        return sizeof ":\n\n" - 1;
    size_t size = 1 + (name ? strlen("event: \n") + strlen(name) : 0);
    for (const char *line = data ? data : ""; line;) {
        const char *next;
        size += strlen("data: \n") + line_of(line, &next);
        line = next;
    }
    return size;
}

static int put(struct wh_connection *c, int rc, const char *text, size_t size)
{
    return rc != 0 ? rc : wh_out_put(c, text, size);
}

static int put_event(struct wh_connection *c, const char *name, const char *data)
{
    int rc = 0;
    if (!name && !data)
        return wh_out_put(c, ":\n\n", 3);
    if (name) {
        rc = put(c, rc, "event: ", 7);
        rc = put(c, rc, name, strlen(name));
        rc = put(c, rc, "\n", 1);
    }
    for (const char *line = data ? data : ""; line;) {
        const char *next;
        size_t size = line_of(line, &next);
        rc = put(c, rc, "data: ", 6);
        rc = put(c, rc, line, size);
        rc = put(c, rc, "\n", 1);
        line = next;
    }
    return put(c, rc, "\n", 1);
}

int weft_http_event(weft_exchange *x, const char *name, const char *data)
{
    if (!x->is_stream || (name && strpbrk(name, "\r\n")))
        return -EINVAL;
    size_t size = size_of_event(name, data);
    int rc = wh_part_begin(x, size);
    if (rc != 0)
        return rc > 0 ? 0 : rc;
    rc = put_event(x->c, name, data);
    if (rc == 0)
        rc = wh_part_end(x, size);
    if (rc != 0) {
        x->answer = WH_CUT;
        x->keeps = false;
        return rc;
    }
    return weft_http_flush(x);
}
