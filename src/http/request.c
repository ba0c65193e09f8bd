/*
 * http/request.c: the calls by which a handler reads its request. Strings lie in the buffer that the head was read
 * into. When a handler asks for a string, the byte behind the string becomes its zero byte. The parser no longer needs
 * that byte: it is a space, a colon or a line end.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include <weft/net.h>

#include "http/block.h"
#include "http/connection.h"
#include "http/decode.h"
#include "http/exchange.h"

const char *weft_http_method(weft_exchange *x)
{
    return wh_text(x, x->head.method_text);
}

const char *weft_http_path(weft_exchange *x)
{
    return x->head.path.size == 0 ? "/" : wh_text(x, x->head.path);
}

const char *weft_http_query_text(weft_exchange *x)
{
    return x->head.has_query ? wh_text(x, x->head.query) : NULL;
}

/* The byte behind the authority of a target is the first byte of the path. So the authority is copied. */
const char *weft_http_host(weft_exchange *x)
{
    struct wh_slice host = x->head.host;
    if (host.size == 0)
        return "";
    if (x->head.form != WH_ABSOLUTE_FORM)
        return wh_text(x, host);
    char *copy = weft_http_alloc(x, host.size + 1);
    if (!copy)
        return "";
    memcpy(copy, x->bytes + host.at, host.size);
    copy[host.size] = '\0';
    return copy;
}

int weft_http_version(weft_exchange *x)
{
    return 10 + x->head.minor;
}

const char *weft_http_param(weft_exchange *x, const char *name)
{
    for (unsigned i = 0; i < x->match.count; i++) {
        if (!strcmp(x->match.params[i].name, name))
            return x->match.params[i].value;
    }
    return NULL;
}

static const char *find_pair(weft_exchange *x, const char *text, size_t size, const char *name)
{
    char *out = weft_http_alloc(x, size + 1);
    return out && wh_query_find(text, size, name, out) ? out : NULL;
}

const char *weft_http_query(weft_exchange *x, const char *name)
{
    const struct wh_head *head = &x->head;
    return head->has_query ? find_pair(x, x->bytes + head->query.at, head->query.size, name) : NULL;
}

const char *weft_http_form(weft_exchange *x, const char *name)
{
    return x->form ? find_pair(x, x->form, x->form_size, name) : NULL;
}

static bool has_name(weft_exchange *x, const struct wh_field *f, const char *name, size_t size)
{
    return f->name.size == size && strncasecmp(x->bytes + f->name.at, name, size) == 0;
}

const char *weft_http_header(weft_exchange *x, const char *name)
{
    size_t size = strlen(name);
    for (unsigned i = 0; i < x->head.count; i++) {
        if (has_name(x, &x->fields[i], name, size))
            return wh_text(x, x->fields[i].value);
    }
    return NULL;
}

int weft_http_header_at(weft_exchange *x, unsigned i, const char **name, const char **value)
{
    if (i >= x->head.count)
        return -ENOENT;
    *name = wh_text(x, x->fields[i].name);
    *value = wh_text(x, x->fields[i].value);
    return 0;
}

const char *weft_http_cookie(weft_exchange *x, const char *name)
{
    for (unsigned i = 0; i < x->head.count; i++) {
        const struct wh_field *f = &x->fields[i];
        if (!has_name(x, f, "cookie", 6))
            continue;
        char *out = weft_http_alloc(x, f->value.size + 1);
        if (!out)
            return NULL;
        if (wh_cookie_find(x->bytes + f->value.at, f->value.size, name, out))
            return out;
    }
    return NULL;
}

int weft_http_peer(weft_exchange *x, struct sockaddr *to, socklen_t *size)
{
    (void)x;
    return weft_peer(to, size);
}

const char *weft_http_id(weft_exchange *x)
{
    return x->id;
}
