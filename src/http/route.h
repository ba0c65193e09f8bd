/*
 * http/route.h: the table of routes: patterns in, the handler of a request out. It is built before the server serves and
 * then only read, so any worker may look.
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
    const char *allow;      /* when no method fits: the value of Allow, "GET, HEAD, OPTIONS"; lives as long as the table */
    bool is_automatic_head; /* a GET route that answers HEAD */
    bool is_options;        /* the automatic answer of OPTIONS: 204 with `allow` */
    unsigned count;
    struct wh_param params[WH_PARAMS];
};

/* NULL: no memory. */
struct wh_routes *wh_routes_new(void);
void wh_routes_free(struct wh_routes *r);

/* 0, -EINVAL a malformed pattern, -EEXIST, -ENOMEM. The pattern is copied. */
int wh_routes_add(struct wh_routes *r, const char *pattern, weft_handler *fn, void *arg);

/*
 * Finds the route of a path (not decoded, without query) and a method. `room` has at least `path_size + 1 + WH_PARAMS` bytes:
 * decoded values are written there. `has_percent` says whether the path has a '%'.
 *
 * Returns 200: out->fn is set (or out->is_options); 404; 405: out->allow is set; 501: no route of the table has the method,
 * and it is none of RFC 9110; 400: a malformed %, %00, or a dot segment.
 */
int wh_routes_find(const struct wh_routes *r, const char *method, size_t method_size, const char *path, size_t path_size,
                   bool has_percent, char *room, struct wh_match *out);

#endif
