/*
 * fuzz/answers.c: see answers.h.
 */
#include "fuzz/answers.h"

#include <ctype.h>
#include <stdlib.h>
#include <strings.h>

#include "fuzz/reference.h"

/* What is behind the status line. */
static struct text fields_of(const struct answer *a)
{
    const char *line_end = memmem(a->head.at, a->head.size, "\r\n", 2);
    return text_between(line_end + 2, a->head.at + a->head.size);
}

/* The field line at the beginning of *rest; the value begins with the space behind the colon. False at the empty line. */
static bool next_field(struct text *rest, struct text *name, struct text *value)
{
    const char *end = memmem(rest->at, rest->size, "\r\n", 2);
    const char *colon = memchr(rest->at, ':', (size_t)(end - rest->at));
    if (end == rest->at)
        return false;
    *name = text_between(rest->at, colon ? colon : end);
    *value = colon ? text_between(colon + 1, end) : (struct text){0};
    *rest = text_between(end + 2, rest->at + rest->size);
    return true;
}

static bool is_name(struct text t, const char *name)
{
    return t.size == strlen(name) && strncasecmp(t.at, name, t.size) == 0;
}

struct text answer_field(const struct answer *a, const char *name)
{
    struct text rest = fields_of(a), n, value;
    while (next_field(&rest, &n, &value)) {
        if (is_name(n, name))
            return (struct text){value.at + 1, value.size - 1};
    }
    return (struct text){0};
}

static unsigned count_fields(const struct answer *a, const char *name)
{
    struct text rest = fields_of(a), n, value;
    unsigned count = 0;
    while (next_field(&rest, &n, &value))
        count += is_name(n, name);
    return count;
}

static const char *check_field(struct text name, struct text value)
{
    if (name.size == 0 || value.size == 0 || value.at[0] != ' ')
        return "field line";
    for (size_t i = 0; i < name.size; i++) {
        if (!isalnum((unsigned char)name.at[i]) && !strchr("!#$%&'*+-.^_`|~", name.at[i]))
            return "name of a field";
    }
    for (size_t i = 0; i < value.size; i++) {
        if (((unsigned char)value.at[i] < ' ' && value.at[i] != '\t') || value.at[i] == 0x7f)
            return "value of a field";
    }
    return value.size > 1 && (value.at[1] == ' ' || value.at[value.size - 1] == ' ') ? "space around a value" : NULL;
}

static bool is_number(struct text t, uint64_t *n)
{
    *n = 0;
    for (size_t i = 0; i < t.size; i++) {
        if (!isdigit((unsigned char)t.at[i]) || i > 17)
            return false;
        *n = *n * 10 + (uint64_t)(t.at[i] - '0');
    }
    return t.size > 0 && (t.size == 1 || t.at[0] != '0');
}

static const char *read_framing(struct answer *a)
{
    struct text length = answer_field(a, "Content-Length"), coding = answer_field(a, "Transfer-Encoding");
    struct text connection = answer_field(a, "Connection");
    static const char *const once[] = {"Content-Length", "Transfer-Encoding", "Connection", "Date"};
    for (size_t i = 0; i < sizeof once / sizeof once[0]; i++) {
        if (count_fields(a, once[i]) > 1)
            return "a field is repeated";
    }
    if (a->status >= 200 && count_fields(a, "Date") != 1)
        return "no Date";
    a->has_length = length.at != NULL;
    a->is_chunked = coding.at != NULL;
    if ((a->has_length && !is_number(length, &a->length)) || (a->is_chunked && !text_is(coding, "chunked")))
        return "framing";
    if ((a->has_length && a->is_chunked) || (a->status < 200 && (a->has_length || a->is_chunked)) ||
        (a->status == 204 && (a->has_length || a->is_chunked)) || (a->status == 304 && a->is_chunked))
        return "framing of this status";
    a->says_close = connection.at && text_is(connection, "close");
    a->says_keep_alive = connection.at && text_is(connection, "keep-alive");
    return connection.at && !a->says_close && !a->says_keep_alive ? "Connection" : NULL;
}

static const char *read_head(struct answer *a)
{
    const char *p = a->head.at;
    struct text rest = fields_of(a), name, value;
    if (strncmp(p, "HTTP/1.1 ", 9) != 0 || strspn(p + 9, "0123456789") != 3 || p[12] != ' ')
        return "status line";
    a->status = atoi(p + 9);
    if (a->status < 100 || a->status > 599)
        return "status";
    while (next_field(&rest, &name, &value)) {
        const char *fault = check_field(name, value);
        if (fault)
            return fault;
    }
    return read_framing(a);
}

static const char *read_chunks(struct answer *a, const char *bytes, size_t size, char *room)
{
    struct reference_body b;
    char *plain = malloc(size + 1);
    reference_read(&b, bytes, size, room, plain);
    free(plain);
    a->body = (struct text){room, b.size};
    a->is_complete = b.end == REFERENCE_ENDED;
    a->used += b.used;
    return b.fault;
}

static const char *read_body(struct answer *a, const char *bytes, size_t size, bool is_head, char *room)
{
    bool has_none = is_head || a->status < 200 || a->status == 204 || a->status == 304;
    if (!has_none && a->is_chunked)
        return read_chunks(a, bytes, size, room);
    if (!has_none && !a->has_length && !a->says_close)
        return "nothing says how long the body is";
    a->ends_with_connection = !has_none && !a->has_length;
    uint64_t length = has_none ? 0 : a->has_length ? a->length : size;
    a->is_complete = length <= size;
    a->body = (struct text){bytes, a->is_complete ? (size_t)length : size};
    a->used += a->body.size;
    return NULL;
}

const char *answer_read(struct answer *a, const char *bytes, size_t size, bool is_head, char *room)
{
    *a = (struct answer){0};
    const char *end = memmem(bytes, size, "\r\n\r\n", 4);
    if (!end) {
        a->used = size;
        return NULL;
    }
    a->head = text_between(bytes, end + 4);
    a->used = a->head.size;
    if (memchr(bytes, '\0', a->head.size))
        return "zero byte";
    const char *fault = read_head(a);
    return fault ? fault : read_body(a, bytes + a->used, size - a->used, is_head, room);
}
