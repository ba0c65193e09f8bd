/*
 * http/pattern.h: reads the patterns of routes: "METHOD /path/{name}/{rest...}". http/route.h says which are malformed.
 * Pure functions, for any thread.
 */
#ifndef WH_HTTP_PATTERN_H
#define WH_HTTP_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

enum wh_segment_kind { WH_LITERAL, WH_PARAM, WH_REST };

struct wh_segment {
    enum wh_segment_kind kind;
    bool is_last;
    const char *text; /* of a literal, or the name of a parameter */
    size_t size;
};

/* The path of a pattern, behind its first slash; NULL: malformed before that. *method_size: 0 for all methods. */
const char *wh_pattern_path(const char *pattern, size_t *method_size);

/* Reads the segment at *at, and moves *at behind it and its slash. False: it is malformed. */
bool wh_pattern_segment(const char **at, struct wh_segment *out);

/* Whether a segment is "." or "..". */
static inline bool wh_is_dots(const char *text, size_t size)
{
    return (size == 1 || size == 2) && text[0] == '.' && text[size - 1] == '.';
}

#endif
