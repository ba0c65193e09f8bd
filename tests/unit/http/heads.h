/*
 * tests/unit/http/heads.h: parsing of heads for tests. Each head is given to the parser whole, in two parts split at every
 * place, and byte by byte. All must end alike. Parts lie in memory of their exact size, so that a sanitizer sees a byte read
 * behind them.
 */
#ifndef TESTS_UNIT_HTTP_HEADS_H
#define TESTS_UNIT_HTTP_HEADS_H

#include <stdlib.h>
#include <string.h>

#include "http/parse.h"
#include "support/test.h"

enum { HEAD_FIELDS = 16 };

/* A head, and what the parser has made of it. */
struct parsed {
    int rc;
    struct wh_head head;
    struct wh_field fields[HEAD_FIELDS];
    const char *bytes;
};

static inline void parsed_init(struct parsed *p, uint32_t most_bytes, uint32_t most_fields)
{
    memset(p, 0, sizeof *p);
    p->head.fields = p->fields;
    p->head.most_fields = most_fields;
    p->head.most_bytes = most_bytes;
    wh_head_begin(&p->head);
}

/* One call, with the first `size` bytes. */
static inline int parse_part(struct parsed *p, const char *bytes, size_t size)
{
    char *copy = malloc(size ? size : 1);
    memcpy(copy, bytes, size);
    p->rc = wh_parse_head(&p->head, copy, size);
    free(copy);
    return p->rc;
}

static inline bool same_slice(struct wh_slice a, struct wh_slice b)
{
    return a.at == b.at && a.size == b.size;
}

/* True if two heads that were accepted have the same meaning. */
static inline bool same_head(const struct parsed *p, const struct parsed *q)
{
    const struct wh_head *a = &p->head, *b = &q->head;
    bool same = a->count == b->count && a->method == b->method && a->form == b->form && a->minor == b->minor &&
                a->has_query == b->has_query && a->has_percent == b->has_percent && a->has_dot == b->has_dot &&
                a->is_chunked == b->is_chunked && a->has_length == b->has_length && a->length == b->length &&
                a->keeps_alive == b->keeps_alive && a->says_keep_alive == b->says_keep_alive &&
                a->expects_continue == b->expects_continue && a->has_upgrade == b->has_upgrade &&
                same_slice(a->method_text, b->method_text) && same_slice(a->target, b->target) &&
                same_slice(a->path, b->path) && a->host.size == b->host.size;
    if (same && a->host.size)
        same = same_slice(a->host, b->host);
    if (same && a->has_query)
        same = same_slice(a->query, b->query);
    for (uint32_t i = 0; same && i < a->count; i++)
        same = same_slice(p->fields[i].name, q->fields[i].name) && same_slice(p->fields[i].value, q->fields[i].value);
    return same;
}

static inline bool ended_alike(const struct parsed *p, const struct parsed *q)
{
    return p->rc == q->rc && (p->rc <= 0 || same_head(p, q));
}

/* Parses in every way; the result is that of the whole. False if a way ended otherwise. */
static inline bool parse_within(struct parsed *whole, const char *bytes, size_t size, uint32_t most_bytes,
                                uint32_t most_fields)
{
    struct parsed p;
    bool alike = true;
    parsed_init(whole, most_bytes, most_fields);
    parse_part(whole, bytes, size);
    whole->bytes = bytes;
    for (size_t split = 0; split <= size; split++) {
        parsed_init(&p, most_bytes, most_fields);
        if (parse_part(&p, bytes, split) == 0)
            parse_part(&p, bytes, size);
        alike &= ended_alike(whole, &p);
    }
    parsed_init(&p, most_bytes, most_fields);
    for (size_t n = 1; n <= size && p.rc == 0; n++)
        parse_part(&p, bytes, n);
    return alike & ended_alike(whole, &p);
}

static inline bool parse_bytes(struct parsed *whole, const char *bytes, size_t size)
{
    return parse_within(whole, bytes, size, 16384, HEAD_FIELDS);
}

/* A row of a table of heads and their results. */
struct row {
    const char *bytes;
    size_t size;
    int rc; /* WHOLE: accepted, to the last byte */
};

enum { WHOLE = 1 };
#define ROW(rc, text)                                                                                                  \
    {                                                                                                                  \
        text, sizeof(text) - 1, rc                                                                                     \
    }

static inline void check_rows(const char *file, int line, const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct parsed p;
        int expected = rows[i].rc == WHOLE ? (int)rows[i].size : rows[i].rc;
        if (!parse_bytes(&p, rows[i].bytes, rows[i].size))
            test_failed(file, line, "row %zu ends otherwise in parts: %s", i, rows[i].bytes);
        if (p.rc != expected)
            test_failed(file, line, "row %zu: %d, not %d: %s", i, p.rc, expected, rows[i].bytes);
    }
}

#define CHECK_ROWS(rows) check_rows(__FILE__, __LINE__, rows, sizeof(rows) / sizeof((rows)[0]))

/* The text of a slice, for CHECK_STR. The copy is overwritten by the fourth call after this. */
static inline const char *text_of(const struct parsed *p, struct wh_slice slice)
{
    static char copies[4][512];
    static unsigned next;
    char *copy = copies[next++ % 4];
    size_t size = slice.size < sizeof copies[0] ? slice.size : sizeof copies[0] - 1;
    memcpy(copy, p->bytes + slice.at, size);
    copy[size] = 0;
    return copy;
}

/* Parses a head that must be accepted. */
#define ACCEPT(p, text)                                                                                                \
    do {                                                                                                               \
        CHECK(parse_bytes(&(p), text, sizeof(text) - 1));                                                              \
        CHECK_INT((p).rc, ==, sizeof(text) - 1);                                                                       \
    } while (0)

#endif
