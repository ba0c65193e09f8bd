/*
 * fuzz/decode.c: the pure functions that decode the strings of requests. Each is compared with a plain second version,
 * or its result is checked.
 *
 * An input is a letter, which selects the function, and the arguments, each on a line of its own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

#include "fuzz/fuzz.h"
#include "fuzz/routes.h"
#include "http/date.h"
#include "http/decode.h"
#include "http/field.h"
#include "http/files_condition.h"
#include "http/files_folder.h"
#include "http/log_line.h"

enum { LINES = 8, NOW = 1800000000 };

/* The arguments: each a string in memory of its exact size. */
struct lines {
    char *at[LINES];
    size_t size[LINES];
};

static void split(struct lines *l, const char *bytes, size_t size)
{
    for (int i = 0; i < LINES; i++) {
        const char *stop = size ? memchr(bytes, '\n', size) : NULL;
        l->size[i] = i == LINES - 1 || !stop ? size : (size_t)(stop - bytes);
        l->at[i] = malloc(l->size[i] + 1);
        memcpy(l->at[i], bytes, l->size[i]);
        l->at[i][l->size[i]] = '\0';
        size_t used = l->size[i] + (l->size[i] < size);
        bytes += used;
        size -= used;
    }
}

static void release(struct lines *l)
{
    for (int i = 0; i < LINES; i++)
        free(l->at[i]);
}

/* ---- percent-encoding, queries, cookies ---- */

/* Returns the size, or -1. */
static ptrdiff_t plain_decode(char *out, const char *text, size_t size, bool plus)
{
    size_t used = 0;
    for (size_t i = 0; i < size; i++) {
        char digits[3] = {0};
        out[used] = text[i];
        if (plus && text[i] == '+')
            out[used] = ' ';
        if (text[i] == '%') {
            memcpy(digits, text + i + 1, size - i - 1 < 2 ? size - i - 1 : 2);
            if (strspn(digits, "0123456789abcdefABCDEF") != 2 || strcmp(digits, "00") == 0)
                return -1;
            out[used] = (char)strtol(digits, NULL, 16);
            i += 2;
        }
        used++;
    }
    return (ptrdiff_t)used;
}

static void check_percent(struct lines *l, bool plus)
{
    size_t size = l->size[0];
    char *text = fuzz_copy(l->at[0], size), *out = malloc(size + 1), *expected = malloc(size + 1);
    ptrdiff_t n = plain_decode(expected, text, size, plus);
    FUZZ_CHECK_INT(wh_decode(out, text, size, plus), n);
    FUZZ_CHECK(n < 0 || memcmp(out, expected, (size_t)n) == 0);
    FUZZ_CHECK_INT(wh_decode(text, text, size, plus), n); /* in place */
    FUZZ_CHECK(n < 0 || memcmp(text, expected, (size_t)n) == 0);
    free(text);
    free(out);
    free(expected);
}

/* A part of a query, decoded if that can be, and with a zero byte. */
static void decode_part(char *out, struct text part)
{
    ptrdiff_t n = plain_decode(out, part.at, part.size, true);
    if (n < 0)
        memcpy(out, part.at, part.size);
    out[n < 0 ? part.size : (size_t)n] = '\0';
}

/* The part before the first separator; the rest stays, and has at NULL behind the last part. */
static struct text take_part(struct text *rest, char separator)
{
    const char *stop = rest->size ? memchr(rest->at, separator, rest->size) : NULL;
    struct text part = stop ? text_between(rest->at, stop) : *rest;
    *rest = stop ? text_between(stop + 1, rest->at + rest->size) : (struct text){0};
    return part;
}

static bool plain_query(struct text query, const char *name, char *out)
{
    while (query.at) {
        struct text value = take_part(&query, '&'), key = take_part(&value, '=');
        if (key.size == 0 && !value.at)
            continue;
        decode_part(out, key);
        if (plain_decode(out, key.at, key.size, true) < 0 ? !text_is(key, name) : strcmp(out, name) != 0)
            continue;
        decode_part(out, value.at ? value : (struct text){"", 0});
        return true;
    }
    return false;
}

static struct text trim(struct text t)
{
    while (t.size > 0 && strchr(" \t", t.at[0]))
        t = (struct text){t.at + 1, t.size - 1};
    while (t.size > 0 && strchr(" \t", t.at[t.size - 1]))
        t.size--;
    return t;
}

static bool plain_cookie(struct text cookies, const char *name, char *out)
{
    while (cookies.at) {
        struct text value = take_part(&cookies, ';'), key = trim(take_part(&value, '='));
        if (!value.at || !text_is(key, name))
            continue;
        value = trim(value);
        if (value.size >= 2 && value.at[0] == '"' && value.at[value.size - 1] == '"')
            value = (struct text){value.at + 1, value.size - 2};
        memcpy(out, value.at, value.size);
        out[value.size] = '\0';
        return true;
    }
    return false;
}

typedef bool find_fn(const char *text, size_t size, const char *name, char *out);

static void check_find(struct lines *l, find_fn *find, bool (*plain)(struct text, const char *, char *))
{
    size_t size = l->size[1];
    if (strlen(l->at[0]) != l->size[0] || memchr(l->at[1], '\0', size))
        return;
    char *text = fuzz_copy(l->at[1], size), *out = malloc(size + 1), *expected = malloc(size + 1);
    bool found = plain((struct text){text, size}, l->at[0], expected);
    FUZZ_CHECK_INT(find(text, size, l->at[0], out), found);
    FUZZ_CHECK(!found || strcmp(out, expected) == 0);
    free(text);
    free(out);
    free(expected);
}

/* ---- ranges and conditions ---- */

/* A field's value, as the parser lets it through. */
static bool is_value(const char *text, size_t size)
{
    return strlen(text) == size && wh_is_field_value(text, size);
}

/* Digits, as a number; UINT64_MAX if they do not fit. */
static uint64_t number(const char *digits)
{
    return strtoull(digits, NULL, 10);
}

static int plain_range(const char *value, uint64_t size, struct wh_part *part)
{
    if (strncasecmp(value, "bytes=", 6) != 0)
        return 200;
    const char *first = value + 6;
    size_t n = strspn(first, "0123456789");
    const char *last = first + n + 1;
    size_t m = first[n] == '-' ? strspn(last, "0123456789") : 0;
    if (first[n] != '-' || last[m] != '\0' || n + m == 0)
        return 200;
    if (n == 0) {
        if (number(last) == 0)
            return 416;
        part->count = number(last) < size ? number(last) : size;
        part->first = size - part->count;
        return size == 0 ? 200 : 206;
    }
    if (m > 0 && number(last) < number(first))
        return 200;
    if (number(first) >= size)
        return 416;
    part->first = number(first);
    part->count = (m > 0 && number(last) < size ? number(last) + 1 : size) - part->first;
    return 206;
}

static void check_range(struct lines *l)
{
    struct wh_part part = {1, 2}, expected = {1, 2};
    uint64_t size = number(l->at[1]);
    if (!is_value(l->at[0], l->size[0]) || strspn(l->at[1], "0123456789") == 0 || size > INT64_MAX)
        return;
    int status = plain_range(l->at[0], size, &expected);
    FUZZ_CHECK_INT(wh_range_read(l->at[0], size, &part), status);
    if (status != 206)
        return;
    FUZZ_CHECK_INT(part.first, expected.first);
    FUZZ_CHECK_INT(part.count, expected.count);
    FUZZ_CHECK(part.count > 0 && part.first < size && part.count <= size - part.first);
}

/* Whether a list has a tag; members behind a malformed one do not count. */
static bool plain_listed(const char *list, const char *etag, bool weak)
{
    struct text t = trim((struct text){list, strlen(list)});
    if (text_is(t, "*"))
        return true;
    for (const char *p = t.at, *end = t.at + t.size; p < end;) {
        p += strspn(p, " \t,");
        bool is_weak = strncmp(p, "W/", 2) == 0;
        const char *tag = p + (is_weak ? 2 : 0);
        size_t n = *tag == '"' ? 1 : 0;
        while (n > 0 && (unsigned char)tag[n] > ' ' && tag[n] != 0x7f && tag[n] != '"')
            n++;
        if (n == 0 || tag[n] != '"')
            return false;
        p = tag + n + 1 + strspn(tag + n + 1, " \t");
        if (p < end && *p != ',')
            return false;
        if ((weak || !is_weak) && strlen(etag) == n + 1 && memcmp(tag, etag, n + 1) == 0)
            return true;
    }
    return false;
}

/* RFC 9110, section 13.2.2, step by step. */
static int plain_conditions(const struct wh_conditions *c, const struct wh_representation *r, struct wh_part *part)
{
    int64_t date;
    if (c->if_match && !plain_listed(c->if_match, r->etag, false))
        return 412;
    if (!c->if_match && c->if_unmodified_since && r->has_modified &&
        wh_date_read(c->if_unmodified_since, strlen(c->if_unmodified_since), NOW, &date) && r->modified > date)
        return 412;
    if (c->if_none_match && plain_listed(c->if_none_match, r->etag, true))
        return 304;
    if (!c->if_none_match && c->if_modified_since && r->has_modified &&
        wh_date_read(c->if_modified_since, strlen(c->if_modified_since), NOW, &date) && r->modified <= date)
        return 304;
    if (!c->range)
        return 200;
    if (c->if_range && strcmp(c->if_range, r->etag) != 0 &&
        !(r->has_modified && wh_date_read(c->if_range, strlen(c->if_range), NOW, &date) && date == r->modified &&
          NOW - date > 1))
        return 200;
    return plain_range(c->range, r->size, part);
}

static void check_conditions(struct lines *l)
{
    struct wh_representation r = {.etag = "\"a-1\"", .modified = 784111777, .has_modified = true, .size = 100};
    struct wh_part part, expected;
    const char *values[6];
    for (int i = 0; i < 6; i++) {
        if (!is_value(l->at[i], l->size[i]))
            return;
        values[i] = l->size[i] > 0 ? l->at[i] : NULL;
    }
    r.has_modified = l->size[6] == 0;
    if (l->size[7] > 0) /* just now: a date is no strong validator then */
        r.modified = NOW - (int64_t)l->size[7] + 1;
    struct wh_conditions c = {values[0], values[1], values[2], values[3], values[4], values[5]};
    int status = plain_conditions(&c, &r, &expected);
    FUZZ_CHECK_INT(wh_conditions_check(&c, &r, NOW, &part), status);
    if (status == 206)
        FUZZ_CHECK(part.first == expected.first && part.count == expected.count);
}

/* Weights have no plain second version: a list of whole members is checked, and others for what the sanitizers see. */
static void check_gzip(struct lines *l)
{
    if (!is_value(l->at[0], l->size[0]))
        return;
    bool accepts = wh_accepts_gzip(l->at[0]);
    bool names = strcasestr(l->at[0], "gzip") || strchr(l->at[0], '*');
    FUZZ_CHECK(names || !accepts);
    if (strcasecmp(l->at[0], "gzip") == 0 || strcmp(l->at[0], "*") == 0)
        FUZZ_CHECK(accepts);
}

/* ---- dates, names of files, lines of the log ---- */

static void check_date(struct lines *l)
{
    const int64_t last_second = 253402300799; /* Fri, 31 Dec 9999 23:59:59 GMT */
    char written[WH_DATE_SIZE + 1] = {0}, expected[64];
    int64_t seconds, again;
    char *text = fuzz_copy(l->at[0], l->size[0]);
    /* A leap second at the end of the year 9999 is in a year that has no four digits. */
    if (wh_date_read(text, l->size[0], NOW, &seconds) && seconds <= last_second) {
        time_t time = (time_t)seconds;
        struct tm tm;
        wh_date_write(written, seconds);
        FUZZ_CHECK(gmtime_r(&time, &tm));
        strftime(expected, sizeof expected, "%a, %d %b ", &tm);
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%04d %02d:%02d:%02d GMT",
                 tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
        FUZZ_CHECK(strcmp(written, expected) == 0);
        FUZZ_CHECK(wh_date_read(written, WH_DATE_SIZE, NOW, &again) && again == seconds);
        if (text[3] == ',' && memcmp(text + 22, ":60", 2) != 0 && memcmp(text + 23, "60", 2) != 0)
            FUZZ_CHECK(strncasecmp(text + 4, written + 4, WH_DATE_SIZE - 4) == 0);
    }
    free(text);
}

static bool plain_is_plain(const char *path, bool hidden)
{
    struct text rest = {path, strlen(path)};
    if (rest.size == 0)
        return true;
    while (rest.at) {
        struct text name = take_part(&rest, '/');
        if (name.size == 0 || text_is(name, ".") || text_is(name, "..") || (!hidden && name.at[0] == '.'))
            return false;
    }
    return true;
}

static void check_path(struct lines *l)
{
    for (int hidden = 0; hidden < 2; hidden++)
        FUZZ_CHECK_INT(wh_path_is_plain(l->at[0], hidden), plain_is_plain(l->at[0], hidden));
}

/* A line is one line of printable ASCII, with two quotes that no backslash is before. */
static void check_log(struct lines *l)
{
    char *line = malloc(WH_LOG_LINE);
    struct wh_log_line of = {.second = NOW,
                             .method = l->at[0],
                             .path = l->at[1],
                             .query = l->at[2],
                             .version = 11,
                             .status = 200,
                             .bytes = UINT64_MAX};
    size_t size = wh_log_format(line, &of);
    unsigned quotes = 0;
    FUZZ_CHECK(size > 0 && size <= WH_LOG_LINE && line[size - 1] == '\n');
    for (size_t i = 0; i < size - 1; i++) {
        FUZZ_CHECK(line[i] >= ' ' && line[i] < 0x7f);
        quotes += line[i] == '"';
        if (line[i] == '\\')
            i++;
    }
    FUZZ_CHECK_INT(quotes, 2);
    free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size)
{
    struct lines l;
    if (input_size == 0)
        return 0;
    split(&l, (const char *)input + 1, input_size - 1);
    switch (input[0]) {
    case 'p':
        check_percent(&l, false);
        check_percent(&l, true);
        break;
    case 'q':
        check_find(&l, wh_query_find, plain_query);
        break;
    case 'c':
        check_find(&l, wh_cookie_find, plain_cookie);
        break;
    case 'r':
        check_range(&l);
        break;
    case 'i':
        check_conditions(&l);
        break;
    case 'g':
        check_gzip(&l);
        break;
    case 'd':
        check_date(&l);
        break;
    case 'f':
        check_path(&l);
        break;
    case 'l':
        check_log(&l);
        break;
    case 't':
        check_routes(l.at, l.size, LINES);
        break;
    default:
        break;
    }
    release(&l);
    return 0;
}
