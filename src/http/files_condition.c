/*
 * http/files_condition.c: see files_condition.h. As RFC 9110 says, a malformed field is ignored, so the client gets the
 * whole file. The exception is If-Match: if its list does not have the entity tag, the request fails.
 */
#include "http/files_condition.h"

#include <string.h>

#include "http/date.h"
#include "http/field.h"

static const char *skip_space(const char *p)
{
    return p + strspn(p, " \t");
}

/* ---- entity tags ---- */

/* The end of the entity tag at p, or NULL: there is none. *opaque is set to its part in quotes. */
static const char *etag_end(const char *p, const char **opaque, bool *is_weak)
{
    *is_weak = p[0] == 'W' && p[1] == '/';
    p += *is_weak ? 2 : 0;
    *opaque = p;
    if (*p++ != '"')
        return NULL;
    while (*p != '"') {
        if ((unsigned char)*p <= ' ' || *p == 0x7f)
            return NULL;
        p++;
    }
    return p + 1;
}

static bool is_etag(const char *text, const char *end, const char *etag)
{
    size_t size = (size_t)(end - text);
    return strlen(etag) == size && memcmp(text, etag, size) == 0;
}

bool wh_etag_is_listed(const char *list, const char *etag, bool weak)
{
    const char *p = skip_space(list);
    if (p[0] == '*' && *skip_space(p + 1) == '\0')
        return true;
    while (*p != '\0') {
        if (*p == ',') { /* an empty member is ignored */
            p = skip_space(p + 1);
            continue;
        }
        const char *opaque;
        bool is_weak;
        const char *end = etag_end(p, &opaque, &is_weak);
        if (!end)
            return false;
        p = skip_space(end);
        if (*p != ',' && *p != '\0')
            return false;
        if ((weak || !is_weak) && is_etag(opaque, end, etag))
            return true;
    }
    return false;
}

/* ---- ranges ---- */

/* Reads digits; *n becomes UINT64_MAX if they do not fit. Returns where they end, or NULL: there are none. */
static const char *read_number(const char *p, uint64_t *n)
{
    const char *begin = p;
    uint64_t sum = 0;
    bool fits = true;
    for (; *p >= '0' && *p <= '9'; p++)
        fits = fits && !__builtin_mul_overflow(sum, 10, &sum) &&
               !__builtin_add_overflow(sum, (unsigned)(*p - '0'), &sum);
    *n = fits ? sum : UINT64_MAX;
    return p == begin ? NULL : p;
}

/* "-n": the last n bytes. An empty file is sent whole, because no Content-Range can name its last bytes. */
static int read_suffix(const char *p, uint64_t size, struct wh_part *part)
{
    uint64_t count;
    p = read_number(p, &count);
    if (!p || *p != '\0')
        return 200;
    if (count == 0)
        return 416;
    if (size == 0)
        return 200;
    count = count < size ? count : size;
    *part = (struct wh_part){size - count, count};
    return 206;
}

int wh_range_read(const char *value, uint64_t size, struct wh_part *part)
{
    static const char unit[] = "bytes=";
    enum { UNIT = sizeof unit - 1 };
    if (strnlen(value, UNIT) < UNIT || !wh_is_word(value, UNIT, unit, UNIT))
        return 200;
    const char *p = value + UNIT;
    if (*p == '-')
        return read_suffix(p + 1, size, part);
    uint64_t first, last = UINT64_MAX;
    p = read_number(p, &first);
    if (!p || *p != '-')
        return 200;
    if (*++p != '\0') {
        p = read_number(p, &last);
        if (!p || *p != '\0' || last < first)
            return 200;
    }
    if (first >= size)
        return 416;
    last = last < size ? last : size - 1;
    *part = (struct wh_part){first, last - first + 1};
    return 206;
}

/* ---- the order ---- */

/* Whether If-Range allows a part. A date must be the file's own, and older than a second: a file that was modified just
 * now may be modified again within the same second, and would keep its date. */
static bool range_holds(const char *value, const struct wh_representation *r, int64_t now)
{
    const char *opaque;
    bool is_weak;
    const char *end = etag_end(value, &opaque, &is_weak);
    if (end)
        return *end == '\0' && !is_weak && is_etag(opaque, end, r->etag);
    int64_t date;
    return r->has_modified && wh_date_read(value, strlen(value), now, &date) && date == r->modified &&
           now - r->modified > 1;
}

/* Whether the file was modified after a date. Returns `otherwise` if the date is malformed, or the file has none. */
static bool is_modified_since(const char *value, const struct wh_representation *r, int64_t now, bool otherwise)
{
    int64_t date;
    if (!r->has_modified || !wh_date_read(value, strlen(value), now, &date))
        return otherwise;
    return r->modified > date;
}

int wh_conditions_check(const struct wh_conditions *c, const struct wh_representation *r, int64_t now,
                        struct wh_part *part)
{
    if (c->if_match) {
        if (!wh_etag_is_listed(c->if_match, r->etag, false))
            return 412;
    } else if (c->if_unmodified_since && is_modified_since(c->if_unmodified_since, r, now, false)) {
        return 412;
    }
    if (c->if_none_match) {
        if (wh_etag_is_listed(c->if_none_match, r->etag, true))
            return 304;
    } else if (c->if_modified_since && !is_modified_since(c->if_modified_since, r, now, true)) {
        return 304;
    }
    if (!c->range || (c->if_range && !range_holds(c->if_range, r, now)))
        return 200;
    return wh_range_read(c->range, r->size, part);
}

/* ---- codings ---- */

enum { NOT_LISTED = -1, MALFORMED = -2, MOST_WEIGHT = 1000 };

/* Reads ";q=0.5" in thousandths; without it the weight is 1. Returns where it ends. */
static const char *read_weight(const char *p, int *weight)
{
    *weight = MOST_WEIGHT;
    p = skip_space(p);
    if (*p != ';')
        return p;
    p = skip_space(p + 1);
    *weight = MALFORMED;
    if ((p[0] != 'q' && p[0] != 'Q') || p[1] != '=' || (p[2] != '0' && p[2] != '1'))
        return p;
    int sum = (p[2] - '0') * MOST_WEIGHT;
    p += 3;
    if (*p == '.')
        for (int unit = MOST_WEIGHT / 10; *++p >= '0' && *p <= '9' && unit > 0; unit /= 10)
            sum += (*p - '0') * unit;
    if (sum <= MOST_WEIGHT)
        *weight = sum;
    return skip_space(p);
}

bool wh_accepts_gzip(const char *value)
{
    int gzip = NOT_LISTED, identity = NOT_LISTED, any = NOT_LISTED;
    for (const char *p = value; p && *p != '\0';) {
        p += strspn(p, " \t,");
        size_t size = strcspn(p, " \t,;");
        int weight;
        const char *end = read_weight(p + size, &weight);
        bool is_whole = *end == ',' || *end == '\0';
        if (weight == MALFORMED || !is_whole)
            weight = NOT_LISTED;
        if (WH_IS_WORD(p, size, "gzip") || WH_IS_WORD(p, size, "x-gzip"))
            gzip = weight > gzip ? weight : gzip;
        else if (WH_IS_WORD(p, size, "identity"))
            identity = weight;
        else if (size == 1 && *p == '*')
            any = weight;
        p = end + strcspn(end, ",");
    }
    if (gzip == NOT_LISTED)
        gzip = any;
    return gzip > 0 && gzip >= identity;
}
