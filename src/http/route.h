/*
 * http/route.h: the table of routes, which finds the handler of a request. The table is built before the server serves.
 * Then it is only read, so any worker may search it.
 *
 * Patterns are decoded text, so '%' is malformed in a pattern. So are an empty segment before the last one, the
 * segments "." and "..", control characters, '?', '#', and braces that are not around a whole segment. The name of a
 * parameter has letters, digits and '_', and begins with no digit. The last segment may be empty: "/a" and "/a/" are
 * different paths.
 *
 * A search orders the patterns that match the path: at the first segment in which two patterns differ, a literal goes
 * before {name}, and {name} before {rest...}. The search takes the first pattern that has the method. If a pattern has
 * several routes, a route of the method itself goes first, then a GET route for HEAD, then a route of all methods. See
 * wh_routes_find.
 */
#ifndef WH_HTTP_ROUTE_H
#define WH_HTTP_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/http.h>

struct wh_routes; /* the table */

enum { WH_PARAMS = 16 }; /* the most parameters of a pattern */

struct wh_param {
    const char *name;  /* of the pattern; lives as long as the table */
    const char *value; /* decoded, with a zero byte behind it */
};

/* What was found. */
struct wh_match {
    weft_handler *fn; /* NULL: none */
    void *arg;
    const char *allow; /* when no method fits: the value of Allow, "GET, HEAD, OPTIONS"; lives as long as the table */
    bool is_automatic_head; /* a GET route that answers HEAD */
    bool is_options;        /* the automatic answer of OPTIONS: 204 with `allow` */
    unsigned count;
    struct wh_param params[WH_PARAMS];
};

/* NULL: no memory. */
struct wh_routes *wh_routes_new(void);
void wh_routes_free(struct wh_routes *r);

/* 0, -EINVAL a malformed pattern, or the table's 65th method; -EEXIST, -ENOMEM. The pattern is copied. */
int wh_routes_add(struct wh_routes *r, const char *pattern, weft_handler *fn, void *arg);

/*
 * The quick search: finds the route if the path is the literal text of a pattern, and that pattern has the method. No
 * other route goes before such a route. `method` is an enum wh_method; the path has no '%', and begins with a slash.
 * False: call wh_routes_find.
 */
bool wh_routes_find_literal(const struct wh_routes *r, unsigned method, const char *path, size_t path_size,
                            struct wh_match *out);

/*
 * Finds the route of a path (not decoded, without query) and a method. With "GET /notes/new" and "POST /notes/{id}", a
 * POST of /notes/new gets the second route. `room` has at least `path_size + 1 + WH_PARAMS` bytes and does not overlap
 * the path: decoded values are written there. `has_percent` says whether the path has a '%'. An empty path counts as
 * "/". The path "*" has all methods of the table, and OPTIONS gets the automatic answer.
 *
 * Returns 200: out->fn is set (or out->is_options); 404; 405: out->allow has the methods of all patterns that match the
 * path; 501: no route of the table takes the method, and it is neither PATCH nor a method of RFC 9110; 400: a malformed
 * %, %00, a dot segment, or a %2F in the part that {rest...} matches, where it would look like a slash; 500: no memory
 * for `allow`.
 *
 * The value of {rest...} may have empty segments, so it may begin with a slash ("/static//etc" gives "/etc").
 */
int wh_routes_find(const struct wh_routes *r, const char *method, size_t method_size, const char *path,
                   size_t path_size, bool has_percent, char *room, struct wh_match *out);

/*
 * The value of Allow for a request whose handler has refused the method: the other methods of the routes that match the
 * path. It may be empty. The arguments are those of wh_routes_find. NULL: no memory.
 */
const char *wh_routes_others(const struct wh_routes *r, const char *method, size_t method_size, const char *path,
                             size_t path_size, bool has_percent, char *room);

#endif
