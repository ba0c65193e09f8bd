/*
 * http/decode.c: see decode.h. Every lookup is a single pass over the text, however many separators it has.
 */
#include "http/decode.h"

#include <stdint.h>
#include <string.h>

/* Returns 0 to 15, or -1: not a hex digit. */
static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

ptrdiff_t wh_decode(char *out, const char *text, size_t size, bool plus)
{
    size_t used = 0;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (c == '%') {
            int high = size - i > 2 ? hex_digit(text[i + 1]) : -1;
            int low = size - i > 2 ? hex_digit(text[i + 2]) : -1;
            if (high < 0 || low < 0 || high + low == 0)
                return -1;
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        out[used++] = c;
    }
    return (ptrdiff_t)used;
}

/* Decodes a name or a value of a query to `out`, with a zero byte. Copies a malformed one. Returns the size. */
static size_t decode_or_copy(char *out, const char *text, size_t size)
{
    ptrdiff_t decoded = wh_decode(out, text, size, true);
    if (decoded < 0) {
        memcpy(out, text, size);
        decoded = (ptrdiff_t)size;
    }
    out[decoded] = '\0';
    return (size_t)decoded;
}

static bool is_name(const char *text, size_t size, const char *name, size_t name_size)
{
    return size == name_size && memcmp(text, name, size) == 0;
}

/* Where the part that begins at `from` ends: at the separator, or at the end of the text. */
static const char *part_end(const char *from, const char *end, char separator)
{
    const char *stop = memchr(from, separator, (size_t)(end - from));
    return stop ? stop : end;
}

bool wh_query_find(const char *text, size_t size, const char *name, char *out)
{
    size_t name_size = strlen(name);
    const char *end = text + size;
    for (const char *pair = text, *stop; pair < end; pair = stop + 1) {
        stop = part_end(pair, end, '&');
        const char *equals = part_end(pair, stop, '=');
        size_t sent_size = (size_t)(equals - pair);
        if (pair == stop || sent_size < name_size) /* decoding never makes a name longer */
            continue;
        if (!is_name(out, decode_or_copy(out, pair, sent_size), name, name_size))
            continue;
        const char *value = equals < stop ? equals + 1 : stop;
        decode_or_copy(out, value, (size_t)(stop - value));
        return true;
    }
    return false;
}

/* Removes spaces and tabs from both ends. */
static void trim(const char **from, const char **end)
{
    while (*from < *end && (**from == ' ' || **from == '\t'))
        ++*from;
    while (*from < *end && ((*end)[-1] == ' ' || (*end)[-1] == '\t'))
        --*end;
}

bool wh_cookie_find(const char *text, size_t size, const char *name, char *out)
{
    size_t name_size = strlen(name);
    const char *end = text + size;
    for (const char *pair = text, *stop; pair < end; pair = stop + 1) {
        stop = part_end(pair, end, ';');
        const char *equals = memchr(pair, '=', (size_t)(stop - pair));
        if (!equals)
            continue;
        const char *from = pair, *to = equals;
        trim(&from, &to);
        if (!is_name(from, (size_t)(to - from), name, name_size))
            continue;
        from = equals + 1;
        to = stop;
        trim(&from, &to);
        if (to - from >= 2 && *from == '"' && to[-1] == '"') {
            from++;
            to--;
        }
        memcpy(out, from, (size_t)(to - from));
        out[to - from] = '\0';
        return true;
    }
    return false;
}
