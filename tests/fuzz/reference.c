/*
 * fuzz/reference.c: see reference.h.
 */
#include "fuzz/reference.h"

#include <ctype.h>
#include <strings.h>

enum { LINE_MOST = 256, TRAILER_MOST = 8192, EXTENSIONS_MOST = 16384, DIGITS_MOST = 16 };

struct reader {
    const char *at, *end;
    const char *stop; /* a byte here is one too many */
    size_t extensions;
    char *data, *plain;
    struct reference_body *b;
};

static bool refuse(struct reader *r, const char *fault)
{
    r->b->end = REFERENCE_REFUSED;
    r->b->fault = fault;
    return false;
}

/* The next byte, or -1: the bytes have ended, or the limit is reached. */
static int look(struct reader *r)
{
    if (r->at == r->end)
        return -1;
    if (r->at == r->stop) {
        refuse(r, "too long");
        return -1;
    }
    return (unsigned char)*r->at;
}

static bool take(struct reader *r, char byte, const char *fault)
{
    int next = look(r);
    if (next < 0)
        return false;
    if (next != byte)
        return refuse(r, fault);
    r->at++;
    return true;
}

static bool is_token_byte(int byte)
{
    return byte > 0 && byte < 0x80 && (isalnum(byte) || strchr("!#$%&'*+-.^_`|~", byte));
}

static bool is_value_byte(int byte)
{
    return byte == '\t' || (byte >= ' ' && byte != 0x7f);
}

static bool take_token(struct reader *r, const char *fault)
{
    int next = look(r);
    if (next >= 0 && !is_token_byte(next))
        return refuse(r, fault);
    while (next >= 0 && is_token_byte(next)) {
        r->at++;
        next = look(r);
    }
    return next >= 0;
}

static bool take_quoted(struct reader *r)
{
    r->at++;
    for (;;) {
        int next = look(r);
        if (next < 0)
            return false;
        r->at++;
        if (next == '"')
            return true;
        if (next == '\\') {
            r->b->has_odd_extension = true;
            next = look(r);
            if (next < 0)
                return false;
            r->at++;
        }
        if (!is_value_byte(next))
            return refuse(r, "quoted extension");
    }
}

/* Extensions, and the CR behind them. */
static bool take_extensions(struct reader *r)
{
    const char *line_stop = r->stop;
    const char *begin = r->at + 1;
    size_t left = EXTENSIONS_MOST - r->extensions;
    int next;
    if ((size_t)(r->stop - begin) > left)
        r->stop = begin + left;
    do {
        r->at++;
        if (!take_token(r, "extension name"))
            return false;
        next = look(r);
        if (next == '=') {
            r->at++;
            next = look(r);
            if (next < 0 || !(next == '"' ? take_quoted(r) : take_token(r, "extension value")))
                return false;
            next = look(r);
            r->b->has_odd_extension |= next == ';';
        }
    } while (next == ';');
    if (next < 0 || !take(r, '\r', "extension"))
        return false;
    r->extensions += (size_t)(r->at - begin);
    r->stop = line_stop;
    return true;
}

static bool take_size(struct reader *r, uint64_t *size)
{
    const char *begin = r->at;
    int next;
    r->stop = begin + LINE_MOST;
    for (*size = 0; (next = look(r)) >= 0 && isxdigit(next); r->at++) {
        if (r->at - begin == DIGITS_MOST)
            return refuse(r, "digits");
        *size = *size * 16 + (uint64_t)(isdigit(next) ? next - '0' : toupper(next) - 'A' + 10);
    }
    if (next < 0)
        return false;
    if (r->at == begin || *size > INT64_MAX)
        return refuse(r, "size");
    memcpy(r->plain + r->b->plain_size, begin, (size_t)(r->at - begin));
    r->b->plain_size += (size_t)(r->at - begin);
    if (!(next == ';' ? take_extensions(r) : take(r, '\r', "size")) || !take(r, '\n', "line end"))
        return false;
    memcpy(r->plain + r->b->plain_size, "\r\n", 2);
    r->b->plain_size += 2;
    return true;
}

static void keep(struct reader *r, const char *from, size_t size)
{
    memcpy(r->plain + r->b->plain_size, from, size);
    r->b->plain_size += size;
}

static bool take_data(struct reader *r, uint64_t size)
{
    size_t there = (size_t)(r->end - r->at), part = there < size ? there : (size_t)size;
    memcpy(r->data + r->b->size, r->at, part);
    r->b->size += part;
    keep(r, r->at, part);
    r->at += part;
    r->stop = r->at + 2;
    if (part < size || !take(r, '\r', "behind data") || !take(r, '\n', "behind data"))
        return false;
    keep(r, "\r\n", 2);
    return true;
}

static bool is_refused_name(const char *name, size_t size)
{
    static const char *const names[] = {"content-length", "transfer-encoding", "host"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i]) == size && strncasecmp(names[i], name, size) == 0)
            return true;
    }
    return false;
}

static bool take_trailer(struct reader *r)
{
    const char *begin = r->at;
    r->stop = begin + TRAILER_MOST;
    for (;;) {
        const char *name = r->at;
        if (look(r) == '\r')
            break;
        if (!take_token(r, "trailer name"))
            return false;
        size_t size = (size_t)(r->at - name);
        if (*r->at == ':' && is_refused_name(name, size))
            return refuse(r, "trailer name");
        if (!take(r, ':', "trailer name"))
            return false;
        while (is_value_byte(look(r)))
            r->at++;
        if (!take(r, '\r', "trailer value") || !take(r, '\n', "trailer value"))
            return false;
    }
    r->at++;
    if (!take(r, '\n', "end"))
        return false;
    keep(r, begin, (size_t)(r->at - begin));
    return true;
}

void reference_read(struct reference_body *b, const char *bytes, size_t size, char *data, char *plain)
{
    struct reader r = {.at = bytes, .end = bytes + size, .data = data, .plain = plain, .b = b};
    uint64_t chunk;
    *b = (struct reference_body){.end = REFERENCE_MORE};
    do {
        if (!take_size(&r, &chunk) || (chunk > 0 && !take_data(&r, chunk)))
            break;
        if (chunk == 0 && take_trailer(&r))
            b->end = REFERENCE_ENDED;
    } while (chunk > 0);
    b->used = (size_t)(r.at - bytes);
}
