/*
 * unit/tools/json.h: whether a text is JSON (RFC 8259), and how many commas it has at a depth.
 */
#ifndef TESTS_UNIT_TOOLS_JSON_H
#define TESTS_UNIT_TOOLS_JSON_H

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static const char *json_value(const char *p);

/* Behind a number, or NULL: "-" digits without a leading zero, a fraction, an exponent. */
static inline const char *json_number(const char *p)
{
    p += *p == '-';
    if (!isdigit((unsigned char)*p) || (*p == '0' && isdigit((unsigned char)p[1])))
        return NULL;
    p += strspn(p, "0123456789");
    if (*p == '.') {
        size_t digits = strspn(p + 1, "0123456789");
        if (digits == 0)
            return NULL;
        p += 1 + digits;
    }
    if (*p == 'e' || *p == 'E') {
        p += p[1] == '+' || p[1] == '-' ? 2 : 1;
        size_t digits = strspn(p, "0123456789");
        return digits > 0 ? p + digits : NULL;
    }
    return p;
}

/* Without escapes, which these texts do not need. */
static inline const char *json_string(const char *p)
{
    if (*p++ != '"')
        return NULL;
    while ((unsigned char)*p >= 0x20 && *p != '"' && *p != '\\')
        p++;
    return *p == '"' ? p + 1 : NULL;
}

/* Behind the members of an object or the elements of an array, and their bracket. */
static inline const char *json_list(const char *p, bool is_object, char close)
{
    if (*p == close)
        return p + 1;
    for (;; p++) {
        if (is_object && (!(p = json_string(p)) || *p++ != ':'))
            return NULL;
        p = json_value(p);
        if (!p || *p == close)
            return p ? p + 1 : NULL;
        if (*p != ',')
            return NULL;
    }
}

static inline const char *json_value(const char *p)
{
    switch (*p) {
    case '{':
        return json_list(p + 1, true, '}');
    case '[':
        return json_list(p + 1, false, ']');
    case '"':
        return json_string(p);
    case 'n':
        return strncmp(p, "null", 4) == 0 ? p + 4 : NULL;
    default:
        return json_number(p);
    }
}

static inline bool is_json(const char *text)
{
    const char *end = json_value(text);
    return end && *end == '\0';
}

/* How many values an array has that is the whole text. */
static inline unsigned json_count(const char *text)
{
    unsigned count = 0;
    for (const char *p = text + 1; *p && *p != ']'; count++) {
        p = json_value(p);
        if (!p)
            return 0;
        p += *p == ',';
    }
    return count;
}

#endif
