/*
 * http/route.h: the table of routes: patterns in, the handler of a request out. It is built before the server serves and
 * then only read, so any worker may look.
 *
 * Patterns are text that was decoded: a '%' in one is malformed. So are an empty segment that is not the last one, the
 * segments "." and "..", control characters, '?', '#', and braces that are not around a whole segment. The name of a
 * parameter begins with a letter or '_', and goes on with these and digits. The last segment may be empty: "/a" and "/a/"
 * are different paths.
 *
 * Which route a request gets. Among the patterns that have the path, the more specific ones come first: at the first
 * segment in which two patterns differ, a literal goes before a {name}, and a {name} before a {rest...}. The first of
 * these patterns with the method has the request. At the same pattern, a route of the method itself goes before a GET
 * route that answers HEAD, and that before a route of all methods. So with "GET /notes/new" and "POST /notes/{id}" a
 * POST of /notes/new gets the second. A 405 lists the methods of all patterns that have the path.
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
 * The quick search: finds the route of a path that is the literal text of a pattern, and of a method that this pattern has.
 * Nothing else goes before such a route. `method` is an enum wh_method; the path is not decoded, has no '%', and
 * begins with a slash. False: wh_routes_find must say.
 */
bool wh_routes_find_literal(const struct wh_routes *r, unsigned method, const char *path, size_t path_size,
                            struct wh_match *out);

/*
 * Finds the route of a path (not decoded, without query) and a method. `room` has at least `path_size + 1 + WH_PARAMS` bytes,
 * apart from the path: decoded values are written there. `has_percent` says whether the path has a '%'. An empty path
 * counts as "/". The path "*" has all methods of the table, and only the automatic answer of OPTIONS.
 *
 * Returns 200: out->fn is set (or out->is_options); 404; 405: out->allow is set; 501: no route of the table has the method,
 * and it is none of RFC 9110, nor PATCH; 400: a malformed %, %00, a dot segment, or a %2F in what {rest...} stands for;
 * 500: no memory for `allow`.
 *
 * The value of a {rest...} is a string in which a %2F would look like a slash, so that one is refused. It may have empty
 * segments, and so may begin with a slash ("/static//etc" gives "/etc").
 */
int wh_routes_find(const struct wh_routes *r, const char *method, size_t method_size, const char *path,
                   size_t path_size, bool has_percent, char *room, struct wh_match *out);

/*
 * The value of Allow for a request whose handler has refused its method: the other methods that routes of the path have.
 * It may be empty. The arguments are those of wh_routes_find. NULL: no memory.
 */
const char *wh_routes_others(const struct wh_routes *r, const char *method, size_t method_size, const char *path,
                             size_t path_size, bool has_percent, char *room);

#endif
