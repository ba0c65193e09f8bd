/*
 * http/pattern.c: see pattern.h.
 */
#include "http/pattern.h"

#include <string.h>

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"

static bool is_token(const char *text, size_t size)
{
    return size > 0 && strspn(text, LETTERS DIGITS "!#$%&'*+-.^_`|~") >= size;
}

static bool is_identifier(const char *text, size_t size)
{
    return size > 0 && strspn(text, LETTERS DIGITS "_") >= size && !strchr(DIGITS, text[0]);
}

static bool is_literal(const char *text, size_t size, bool is_last)
{
    if (wh_is_dots(text, size) || (size == 0 && !is_last))
        return false;
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)text[i] < 0x20 || strchr("%{}?#\x7f", text[i]))
            return false;
    }
    return true;
}

const char *wh_pattern_path(const char *pattern, size_t *method_size)
{
    size_t size = strcspn(pattern, " /");
    *method_size = size;
    if (pattern[0] == '/')
        return pattern + 1;
    return is_token(pattern, size) && pattern[size] == ' ' && pattern[size + 1] == '/' ? pattern + size + 2 : NULL;
}

bool wh_pattern_segment(const char **at, struct wh_segment *out)
{
    const char *text = *at;
    size_t size = strcspn(text, "/");
    bool is_last = text[size] == '\0';
    *at = text + size + !is_last;
    if (text[0] != '{') {
        *out = (struct wh_segment){WH_LITERAL, is_last, text, size};
        return is_literal(text, size, is_last);
    }
    if (text[size - 1] != '}')
        return false;
    *out = (struct wh_segment){WH_PARAM, is_last, text + 1, size - 2};
    if (is_last && out->size > 3 && memcmp(text + size - 4, "...", 3) == 0) {
        out->kind = WH_REST;
        out->size -= 3;
    }
    return is_identifier(out->text, out->size);
}
