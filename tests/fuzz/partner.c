/*
 * fuzz/partner.c: see partner.h.
 */
#include "fuzz/partner.h"

#include <llhttp.h>

/* Strict mode is chosen when llhttp is compiled. */
#if !LLHTTP_STRICT_MODE
#error llhttp must be compiled with LLHTTP_STRICT_MODE=1
#endif

static struct text whole_url(llhttp_t *p, const char *at, size_t size)
{
    struct partner_head *h = p->data;
    return h->url.at ? (struct text){h->url.at, h->url.size + size} : (struct text){at, size};
}

static int on_url(llhttp_t *p, const char *at, size_t size)
{
    struct partner_head *h = p->data;
    h->url = whole_url(p, at, size);
    return 0;
}

static int on_name(llhttp_t *p, const char *at, size_t size)
{
    struct partner_head *h = p->data;
    if (h->count < RULES_FIELDS)
        h->fields[h->count] = (struct rules_field){.name = {at, size}};
    return 0;
}

static int on_value(llhttp_t *p, const char *at, size_t size)
{
    struct partner_head *h = p->data;
    if (h->count < RULES_FIELDS)
        h->fields[h->count].value = (struct text){at, size};
    return 0;
}

static int on_value_complete(llhttp_t *p)
{
    struct partner_head *h = p->data;
    if (h->count < RULES_FIELDS) {
        struct text *value = &h->fields[h->count].value;
        while (value->size > 0 && strchr(" \t", value->at[value->size - 1]))
            value->size--;
    }
    h->count++;
    return 0;
}

static int on_headers(llhttp_t *p)
{
    (void)p;
    return HPE_PAUSED;
}

static void keep_meaning(struct partner_head *h, const llhttp_t *p)
{
    strncpy(h->method, llhttp_method_name(p->method), sizeof h->method - 1);
    h->major = p->http_major;
    h->minor = p->http_minor;
    h->is_chunked = p->flags & F_CHUNKED;
    h->has_length = p->flags & F_CONTENT_LENGTH;
    h->length = p->content_length;
    h->keeps_alive = llhttp_should_keep_alive(p);
    h->has_upgrade = p->flags & F_UPGRADE && p->flags & F_CONNECTION_UPGRADE;
}

void partner_read_head(struct partner_head *h, const char *bytes, size_t size)
{
    static const llhttp_settings_t settings = {.on_url = on_url,
                                               .on_header_field = on_name,
                                               .on_header_value = on_value,
                                               .on_header_value_complete = on_value_complete,
                                               .on_headers_complete = on_headers};
    llhttp_t p;
    memset(h, 0, offsetof(struct partner_head, fields));
    llhttp_init(&p, HTTP_REQUEST, &settings);
    p.data = h;
    int rc = llhttp_execute(&p, bytes, size);
    h->reason = rc == HPE_OK ? "not complete" : llhttp_get_error_reason(&p);
    if (rc != HPE_PAUSED)
        return;
    keep_meaning(h, &p);
    h->size = (size_t)(llhttp_get_error_pos(&p) - bytes);
    /* It looks at the transfer coding only behind the head. */
    if (p.flags & F_TRANSFER_ENCODING && !h->is_chunked)
        h->reason = "transfer coding";
    else
        h->is_accepted = true;
}

bool partner_knows_method(struct text method)
{
    for (int i = HTTP_DELETE; i <= HTTP_SOURCE; i++) {
        if (text_is(method, llhttp_method_name(i)))
            return true;
    }
    return false;
}

/* ---- bodies ---- */

struct collector {
    struct partner_body *body;
    char *data;
};

static int on_body(llhttp_t *p, const char *at, size_t size)
{
    struct collector *c = p->data;
    memcpy(c->data + c->body->size, at, size);
    c->body->size += size;
    return 0;
}

static int on_message(llhttp_t *p)
{
    struct collector *c = p->data;
    c->body->has_ended = true;
    return HPE_PAUSED;
}

void partner_read_chunks(struct partner_body *b, const char *bytes, size_t size, char *data)
{
    static const llhttp_settings_t settings = {.on_body = on_body, .on_message_complete = on_message};
    static const char head[] = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    struct collector c = {b, data};
    llhttp_t p;
    *b = (struct partner_body){0};
    llhttp_init(&p, HTTP_REQUEST, &settings);
    p.data = &c;
    FUZZ_CHECK_INT(llhttp_execute(&p, head, sizeof head - 1), HPE_OK);
    int rc = llhttp_execute(&p, bytes, size);
    b->is_refused = rc != HPE_OK && rc != HPE_PAUSED;
    b->reason = b->is_refused ? llhttp_get_error_reason(&p) : NULL;
    if (b->has_ended)
        b->used = (size_t)(llhttp_get_error_pos(&p) - bytes);
}
