/*
 * The decoder of chunked bodies. Each body is given whole, in two parts split at every place, byte by byte, and with little
 * room; all must give the same data and the same end.
 */
#include "http/chunk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"

enum { ENDED = -1, MORE = 0, BAD = -400, DATA_MOST = 1 << 16 };

/* What a body has given. */
struct decoded {
    ptrdiff_t rc;
    size_t used, size;
    char data[DATA_MOST];
};

/* Decodes one part, in memory of its exact size. */
static void decode_part(struct wh_chunks *c, struct decoded *d, const char *part, size_t size, size_t room)
{
    char *copy = malloc(size ? size : 1);
    memcpy(copy, part, size);
    size_t at = 0;
    while (at < size && d->rc >= 0) {
        const char *data = NULL;
        size_t used = 0;
        d->rc = wh_chunks_take(c, copy + at, size - at, room, &data, &used);
        CHECK(used <= size - at);
        if (d->rc > 0) {
            REQUIRE(data >= copy + at && data + d->rc == copy + at + used && (size_t)d->rc <= room);
            memcpy(d->data + d->size, data, (size_t)d->rc);
            d->size += (size_t)d->rc;
        }
        at += used;
    }
    d->used += at;
    if (d->rc > 0)
        d->rc = MORE;
    free(copy);
}

static bool decoded_alike(const struct decoded *a, const struct decoded *b)
{
    return a->rc == b->rc && a->used == b->used && a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

static struct decoded whole, parts;

static void begin(struct wh_chunks *c, struct decoded *d)
{
    memset(c, 0, sizeof *c);
    d->rc = MORE;
    d->used = d->size = 0;
}

/* Decodes in every way; `whole` is the result. */
static bool decode(const char *bytes, size_t size)
{
    struct wh_chunks c;
    bool alike = true;
    begin(&c, &whole);
    decode_part(&c, &whole, bytes, size, SIZE_MAX);
    for (size_t split = 0; split <= size; split++) {
        begin(&c, &parts);
        decode_part(&c, &parts, bytes, split, SIZE_MAX);
        decode_part(&c, &parts, bytes + split, size - split, SIZE_MAX);
        alike &= decoded_alike(&whole, &parts);
    }
    for (size_t room = 1; room <= 3; room++) {
        begin(&c, &parts);
        decode_part(&c, &parts, bytes, size, room);
        alike &= decoded_alike(&whole, &parts);
    }
    begin(&c, &parts);
    for (size_t i = 0; i < size; i++)
        decode_part(&c, &parts, bytes + i, 1, SIZE_MAX);
    return alike && decoded_alike(&whole, &parts);
}

struct row {
    const char *bytes;
    size_t size;
    ptrdiff_t rc;
    const char *data;
};

#define ROW(rc, data, text)                                                                                            \
    {                                                                                                                  \
        text, sizeof(text) - 1, rc, data                                                                               \
    }
#define CHECK_ROWS(rows) check_rows(__LINE__, rows, sizeof(rows) / sizeof((rows)[0]))

static void check_rows(int line, const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct row *row = &rows[i];
        if (!decode(row->bytes, row->size))
            test_failed(__FILE__, line, "row %zu ends otherwise in parts: %s", i, row->bytes);
        if (whole.rc != row->rc)
            test_failed(__FILE__, line, "row %zu: %td, not %td: %s", i, whole.rc, row->rc, row->bytes);
        if (row->rc == ENDED && whole.used != row->size)
            test_failed(__FILE__, line, "row %zu: %zu bytes of %zu are used", i, whole.used, row->size);
        if (row->data && (whole.size != strlen(row->data) || memcmp(whole.data, row->data, whole.size) != 0))
            test_failed(__FILE__, line, "row %zu: the data is %.*s", i, (int)whole.size, whole.data);
    }
}

TEST(chunks_are_data_without_the_frame)
{
    static const struct row rows[] = {
        ROW(ENDED, "", "0\r\n\r\n"),
        ROW(ENDED, "hello", "5\r\nhello\r\n0\r\n\r\n"),
        ROW(ENDED, "hello, world", "5\r\nhello\r\n7\r\n, world\r\n0\r\n\r\n"),
        ROW(ENDED, "0123456789abcdef0", "10\r\n0123456789abcdef\r\n01\r\n0\r\n000\r\n\r\n"),
        ROW(ENDED, "abcdefghij", "a\r\nabcdefghij\r\n0\r\n\r\n"),
        ROW(ENDED, "abcdefghijk", "B\r\nabcdefghijk\r\n0\r\n\r\n"),
        ROW(ENDED, "\r\n0\r\n\r\n", "7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n"),
        ROW(ENDED, "x", "0000000000000001\r\nx\r\n0000000000000000\r\n\r\n"),
    };
    CHECK_ROWS(rows);
}

TEST(bytes_behind_the_body_are_not_read)
{
    static const char text[] = "1\r\nx\r\n0\r\n\r\nGET / HTTP/1.1\r\n";
    CHECK(decode(text, sizeof text - 1));
    CHECK_INT(whole.rc, ==, ENDED);
    CHECK_INT(whole.used, ==, 11);
}

TEST(a_body_that_is_not_complete_needs_more)
{
    static const char text[] = "5;a=\"b\\\"c\";d\r\nhello\r\n0\r\nX: y\r\n\r\n";
    for (size_t size = 0; size < sizeof text - 1; size++) {
        CHECK(decode(text, size));
        CHECK_INT(whole.rc, ==, MORE);
        CHECK_INT(whole.used, ==, size);
    }
}

TEST(sizes_are_hex_digits_and_nothing_else)
{
    static const struct row rows[] = {
        ROW(BAD, "", "\r\n\r\n"),
        ROW(BAD, "", "x\r\n"),
        ROW(BAD, "", "g\r\n"),
        ROW(BAD, "", "0x5\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "+5\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "-5\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", " 5\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5 \r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5\t\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5 ;a\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5,\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5\0\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5_0\r\n"),
        ROW(BAD, "", "5.\r\n"),
        ROW(BAD, "", "\xb5\r\n"),
        ROW(BAD, "hello", "5\r\nhello\r\n\r\n"),
        ROW(BAD, "hello", "5\r\nhello\r\n;a\r\n"),
    };
    CHECK_ROWS(rows);
}

TEST(sizes_are_limited)
{
    static const struct row rows[] = {
        ROW(MORE, "", "7fffffffffffffff\r\n"),     ROW(BAD, "", "8000000000000000\r\n"),
        ROW(BAD, "", "ffffffffffffffff\r\n"),      ROW(BAD, "", "fffffffffffffffe;a\r\n"),
        ROW(BAD, "", "10000000000000001\r\n"),     ROW(BAD, "", "00000000000000001\r\n"),
        ROW(BAD, "", "00000000000000000\r\n\r\n"),
    };
    CHECK_ROWS(rows);
}

TEST(lines_end_with_cr_lf_alone)
{
    static const struct row rows[] = {
        ROW(BAD, "", "5\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5\rhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5\r\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5;a\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5;a\rb\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "hello", "5\r\nhello\n0\r\n\r\n"),
        ROW(BAD, "hello", "5\r\nhello\r0\r\n\r\n"),
        ROW(BAD, "hello", "5\r\nhello0\r\n\r\n"),
        ROW(BAD, "hello", "5\r\nhello!\r\n0\r\n\r\n"),
        ROW(BAD, "hell", "4\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "hello\r", "6\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "0\r\n\n"),
        ROW(BAD, "", "0\r\n\r\r\n"),
        ROW(BAD, "", "0\n\n"),
        ROW(BAD, "", "0\r\nX: y\n\r\n"),
        ROW(BAD, "", "0\r\nX: y\r\r\n\r\n"),
        ROW(BAD, "", "0\r\nX: y\r\n\n"),
    };
    CHECK_ROWS(rows);
}

TEST(extensions_follow_the_grammar)
{
    static const struct row rows[] = {
        ROW(ENDED, "hello", "5;a\r\nhello\r\n0;b\r\n\r\n"),
        ROW(ENDED, "hello", "5;a=b;c;d=\"e\"\r\nhello\r\n0\r\n\r\n"),
        ROW(ENDED, "hello", "5;a=\"\"\r\nhello\r\n0\r\n\r\n"),
        ROW(ENDED, "hello", "5;a=\"b;c=\\\"d\\\\ \t\xe4\"\r\nhello\r\n0\r\n\r\n"),
        ROW(ENDED, "hello", "5;!#$%&'*+-.^_`|~09azAZ=!\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5;\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5;;a\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5; a\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5;a \r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5;a = b\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5;a= b\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5;=b\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5;a=\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5;a=;b\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5;a==b\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5;a=b=c\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5;a=b\"c\"\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5;a=\"b\"c\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5;a=\"b\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5;a=\"b\\\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5;a=\"\0\"\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5;a=\"\x7f\"\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5;a\x01\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5;\xe4\r\nhello\r\n0\r\n\r\n"),
        ROW(BAD, "", "5;a,b\r\nhello\r\n0\r\n\r\n"),
    };
    CHECK_ROWS(rows);
}

/* A size line of `size` bytes with its CR LF. */
static size_t size_line(char *to, const char *chunk, size_t size)
{
    size_t digits = strlen(chunk);
    memset(to, 'a', size);
    memcpy(to, chunk, digits);
    to[digits] = ';';
    memcpy(to + size - 2, "\r\n", 2);
    return size;
}

TEST(a_size_line_is_limited)
{
    char text[512];
    for (size_t over = 0; over < 2; over++) {
        size_t size = size_line(text, "0", WH_CHUNK_LINE_MOST + over);
        memcpy(text + size, "\r\n", 2);
        CHECK(decode(text, size + 2));
        CHECK_INT(whole.rc, ==, over ? BAD : ENDED);
    }
    /* Without an end it is refused as soon as it is too long. */
    memset(text, 'a', sizeof text);
    memcpy(text, "5;", 2);
    CHECK(decode(text, sizeof text));
    CHECK_INT(whole.rc, ==, BAD);
    CHECK_INT(whole.used, ==, WH_CHUNK_LINE_MOST + 1);
}

TEST(extensions_of_a_body_are_limited)
{
    char line[WH_CHUNK_LINE_MOST + 8];
    struct wh_chunks c;
    size_t size = size_line(line, "1", WH_CHUNK_LINE_MOST), extension = WH_CHUNK_LINE_MOST - 3;
    memcpy(line + size, "x\r\n", 3);
    begin(&c, &whole);
    for (size_t n = 1; n <= WH_EXTENSIONS_MOST / extension; n++) {
        decode_part(&c, &whole, line, size + 3, SIZE_MAX);
        CHECK_INT(whole.rc, ==, MORE);
    }
    decode_part(&c, &whole, line, size + 3, SIZE_MAX);
    CHECK_INT(whole.rc, ==, BAD);
}

TEST(trailer_fields_are_checked_and_thrown_away)
{
    static const struct row rows[] = {
        ROW(ENDED, "", "0\r\nX: y\r\n\r\n"),
        ROW(ENDED, "x", "1\r\nx\r\n0;a\r\nA:\r\nB: \t b c \xe4\t\r\nC:d\r\n\r\n"),
        ROW(ENDED, "", "0\r\nHosts: a\r\nX-Host: a\r\nHos: a\r\nContent-Lengt: 5\r\nContent-Length-X: 5\r\n\r\n"),
        ROW(ENDED, "", "0\r\nTransfer-Encodin: x\r\nTransfer-Encodings: x\r\nTransfer_Encoding: x\r\n\r\n"),
        ROW(BAD, "", "0\r\nHost: a\r\n\r\n"),
        ROW(BAD, "", "0\r\nHosts: a\r\nHost: a\r\n\r\n"),
        ROW(BAD, "", "0\r\nX: y\r\nhOsT:\r\n\r\n"),
        ROW(BAD, "", "0\r\nContent-Length: 5\r\n\r\n"),
        ROW(BAD, "", "0\r\ncontent-LENGTH: 5\r\n\r\n"),
        ROW(BAD, "", "0\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ROW(BAD, "", "0\r\nTRANSFER-ENCODING: chunked\r\n\r\n"),
        ROW(BAD, "", "0\r\n: y\r\n\r\n"),
        ROW(BAD, "", "0\r\nX\r\n\r\n"),
        ROW(BAD, "", "0\r\nX : y\r\n\r\n"),
        ROW(BAD, "", "0\r\nX y: z\r\n\r\n"),
        ROW(BAD, "", "0\r\n X: y\r\n\r\n"),
        ROW(BAD, "", "0\r\nX: y\r\n z\r\n\r\n"),
        ROW(BAD, "", "0\r\nX: y\0z\r\n\r\n"),
        ROW(BAD, "", "0\r\nX: y\x7f\r\n\r\n"),
        ROW(BAD, "", "0\r\nX\0: y\r\n\r\n"),
        ROW(BAD, "", "0\r\nHost\0: y\r\n\r\n"),
        ROW(BAD, "", "0\r\n\0\r\n\r\n"),
        ROW(BAD, "", "0\r\nGET / HTTP/1.1\r\n\r\n"),
    };
    CHECK_ROWS(rows);
}

TEST(a_trailer_is_limited)
{
    for (size_t over = 0; over < 2; over++) {
        struct wh_chunks c;
        static char text[WH_TRAILER_MOST + 8];
        size_t size = 3 + WH_TRAILER_MOST + over;
        memset(text, 'a', sizeof text);
        memcpy(text, "0\r\nX:", 5);
        memcpy(text + size - 4, "\r\n\r\n", 4);
        begin(&c, &whole);
        decode_part(&c, &whole, text, size, SIZE_MAX);
        CHECK_INT(whole.rc, ==, over ? BAD : ENDED);
    }
}

TEST(without_room_no_data_is_taken)
{
    struct wh_chunks c = {0};
    const char *data = NULL;
    size_t used = 0;
    CHECK_INT(wh_chunks_take(&c, "2\r\nxy", 5, 0, &data, &used), ==, 0);
    CHECK_INT(used, ==, 3);
    CHECK_INT(wh_chunks_take(&c, "xy", 2, 1, &data, &used), ==, 1);
    CHECK_INT(used, ==, 1);
    CHECK_INT(wh_chunks_take(&c, "y", 1, 9, &data, &used), ==, 1);
    CHECK_INT(*data, ==, 'y');
}

TESTS(http_chunk, chunks_are_data_without_the_frame, bytes_behind_the_body_are_not_read,
      a_body_that_is_not_complete_needs_more, sizes_are_hex_digits_and_nothing_else, sizes_are_limited,
      lines_end_with_cr_lf_alone, extensions_follow_the_grammar, a_size_line_is_limited,
      extensions_of_a_body_are_limited, trailer_fields_are_checked_and_thrown_away, a_trailer_is_limited,
      without_room_no_data_is_taken)
