/*
 * http/route.c: see route.h. The patterns are a tree with a level for each segment: a node has sorted children for
 * literals, a child for {name} and a child for {rest...}. Patterns with the same shape share a node, so each route has
 * its own names of parameters. A search walks down the tree. It visits each node at most once, and only goes back where
 * a literal and a parameter both match.
 *
 * A path with a '%' is first decoded to the caller's room, with a zero byte behind each segment. The search then takes
 * the zero byte as the separator, and the values are already strings. A path without '%' is searched as it is.
 */
#include "http/route.h"

#include <errno.h>
#include <string.h>

#include "http/decode.h"
#include "http/field.h"
#include "http/memory.h"
#include "http/methods.h"
#include "http/parse.h"
#include "http/pattern.h"

struct route {
    struct route *next; /* of the same node */
    weft_handler *fn;
    void *arg;
    unsigned method; /* WH_METHODS: all */
    unsigned count;
    const char *names[WH_PARAMS]; /* in `text` */
    char text[];
};

struct node {
    struct node **literals; /* sorted by size, then by text */
    size_t literal_count;
    struct node *param, *rest;
    struct route *routes;
    uint64_t allowed; /* the methods of its routes, and HEAD and OPTIONS where they are automatic; 0: no routes */
    size_t size;
    char text[]; /* of a literal */
};

/* A path without parameters. These have a table of their own, and most requests are found there at once. */
struct literal {
    uint64_t hash;
    const struct node *node; /* NULL: free */
    char *path;
    size_t size;
};

struct wh_routes {
    struct node *root;
    struct literal *literals; /* open addressing: the first free place ends a search. At most half is used */
    size_t literal_room;      /* a power of two, or 0 */
    size_t literal_count;
    struct wh_methods methods;
    uint64_t allowed; /* of all nodes */
    bool has_all;     /* there is a route of all methods */
};

static bool has_name(const struct route *route, const char *name, size_t size)
{
    for (unsigned i = 0; i < route->count; i++) {
        if (strncmp(route->names[i], name, size) == 0 && route->names[i][size] == '\0')
            return true;
    }
    return false;
}

/* Checks the path of a pattern, and copies the names of its parameters to route->text. */
static bool read_path(struct route *route, const char *path)
{
    char *end = route->text;
    struct wh_segment s;
    do {
        if (!wh_pattern_segment(&path, &s))
            return false;
        if (s.kind == WH_LITERAL)
            continue;
        if (route->count == WH_PARAMS || has_name(route, s.text, s.size))
            return false;
        route->names[route->count++] = end;
        end = mempcpy(end, s.text, s.size);
        *end++ = '\0';
    } while (!s.is_last);
    return true;
}

/* ---- the tree ------------------------------------------------------------------------------------------------ */

static struct node *new_node(const char *text, size_t size)
{
    struct node *n = wh_alloc_zero(sizeof *n + size);
    if (!n)
        return NULL;
    n->size = size;
    memcpy(n->text, text, size);
    return n;
}

static void free_routes(struct route *first)
{
    for (struct route *route = first, *next; route; route = next) {
        next = route->next;
        wh_free(route);
    }
}

static void free_node(struct node *n)
{
    if (!n)
        return;
    for (size_t i = 0; i < n->literal_count; i++)
        free_node(n->literals[i]);
    free_node(n->param);
    free_node(n->rest);
    free_routes(n->routes);
    wh_free(n->literals);
    wh_free(n);
}

static int compare(const struct node *n, const char *text, size_t size)
{
    if (n->size != size)
        return n->size < size ? -1 : 1;
    return memcmp(n->text, text, size);
}

/* Where the child for a literal is, or belongs. */
static size_t place_of(const struct node *n, const char *text, size_t size, bool *is_there)
{
    size_t from = 0, to = n->literal_count;
    *is_there = false;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = compare(n->literals[middle], text, size);
        if (order == 0) {
            *is_there = true;
            return middle;
        }
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static struct node *add_literal(struct node *n, size_t place, const char *text, size_t size)
{
    struct node **more = wh_alloc((n->literal_count + 1) * sizeof *more);
    struct node *child = more ? new_node(text, size) : NULL;
    if (!child) {
        wh_free(more);
        return NULL;
    }
    if (n->literal_count > 0) {
        memcpy(more, n->literals, place * sizeof *more);
        memcpy(more + place + 1, n->literals + place, (n->literal_count - place) * sizeof *more);
    }
    more[place] = child;
    wh_free(n->literals);
    n->literals = more;
    n->literal_count++;
    return child;
}

/* Finds or makes the child for a segment of a pattern. NULL: no memory. */
static struct node *child_for(struct node *n, const struct wh_segment *s)
{
    bool is_there;
    if (s->kind == WH_LITERAL) {
        size_t place = place_of(n, s->text, s->size, &is_there);
        return is_there ? n->literals[place] : add_literal(n, place, s->text, s->size);
    }
    struct node **child = s->kind == WH_PARAM ? &n->param : &n->rest;
    if (!*child)
        *child = new_node("", 0);
    return *child;
}

/* Finds or makes the node of a path that read_path has checked. If memory runs out, nodes without routes stay, which
 * match nothing. */
static struct node *node_for(struct wh_routes *r, const char *path)
{
    struct node *n = r->root;
    struct wh_segment s;
    do {
        wh_pattern_segment(&path, &s);
        n = child_for(n, &s);
    } while (n && !s.is_last);
    return n;
}

/* ---- literal paths ------------------------------------------------------------------------------------------- */

/* Clients cannot add paths to the table, so the function need not be secret: for any path a search looks at few
 * places. */
static inline uint64_t hash_of(const char *path, size_t size)
{
    const uint64_t factor = 0x9e3779b97f4a7c15;
    uint64_t hash = size, word = 0;
    for (; size >= 8; path += 8, size -= 8)
        hash = (hash ^ wh_load8(path)) * factor;
    for (size_t i = 0; i < size; i++)
        word = word << 8 | (uint8_t)path[i];
    hash = (hash ^ word) * factor;
    return hash ^ hash >> 32;
}

/* Compares short texts quickly: most paths are short. */
static inline bool is_same(const char *a, const char *b, size_t size)
{
    for (; size >= 8; a += 8, b += 8, size -= 8) {
        if (wh_load8(a) != wh_load8(b))
            return false;
    }
    for (; size > 0; size--) {
        if (*a++ != *b++)
            return false;
    }
    return true;
}

/* The place of a path, or the free one where it belongs. */
static inline struct literal *literal_place(struct literal *literals, size_t room, uint64_t hash, const char *path,
                                            size_t size)
{
    for (size_t at = (size_t)hash;; at++) {
        struct literal *l = &literals[at & (room - 1)];
        if (!l->node || (l->hash == hash && l->size == size && is_same(l->path, path, size)))
            return l;
    }
}

static bool grow_literals(struct wh_routes *r)
{
    size_t room = r->literal_room ? r->literal_room * 2 : 16;
    struct literal *more = wh_alloc_zero(room * sizeof *more);
    if (!more)
        return false;
    for (size_t i = 0; i < r->literal_room; i++) {
        const struct literal *l = &r->literals[i];
        if (l->node)
            *literal_place(more, room, l->hash, l->path, l->size) = *l;
    }
    wh_free(r->literals);
    r->literals = more;
    r->literal_room = room;
    return true;
}

/* Notes the node of a path without parameters. `path` begins with a slash. */
static bool note_literal(struct wh_routes *r, const struct node *n, const char *path)
{
    size_t size = strlen(path);
    if (r->literal_count * 2 >= r->literal_room && !grow_literals(r))
        return false;
    uint64_t hash = hash_of(path, size);
    struct literal *l = literal_place(r->literals, r->literal_room, hash, path, size);
    if (l->node)
        return true;
    char *copy = wh_copy_part(path, size);
    if (!copy)
        return false;
    *l = (struct literal){hash, n, copy, size};
    r->literal_count++;
    return true;
}

static void free_literals(struct wh_routes *r)
{
    for (size_t i = 0; i < r->literal_room; i++)
        wh_free(r->literals[i].path);
    wh_free(r->literals);
}

/* ---- the table ----------------------------------------------------------------------------------------------- */

struct wh_routes *wh_routes_new(void)
{
    struct wh_routes *r = wh_alloc_zero(sizeof *r);
    if (!r)
        return NULL;
    r->root = new_node("", 0);
    if (r->root && wh_methods_init(&r->methods) == 0)
        return r;
    wh_routes_free(r);
    return NULL;
}

void wh_routes_free(struct wh_routes *r)
{
    if (!r)
        return;
    wh_methods_destroy(&r->methods);
    free_literals(r);
    free_node(r->root);
    wh_free(r);
}

/* The methods that a route of this method adds to its node: GET also adds HEAD, and every route adds OPTIONS. */
static uint64_t methods_with(unsigned method)
{
    uint64_t methods = wh_method_bit(WH_OPTIONS_NUMBER);
    if (method < WH_METHODS)
        methods |= wh_method_bit(method);
    if (method == WH_GET_NUMBER)
        methods |= wh_method_bit(WH_HEAD_NUMBER);
    return methods;
}

/* Puts a route into the tree. If it fails, every path finds the same route as before. */
static int add_route(struct wh_routes *r, struct route *route, const char *method, size_t method_size, const char *path)
{
    int number = method_size == 0 ? WH_METHODS : wh_methods_add(&r->methods, method, method_size);
    if (number < 0)
        return number;
    route->method = (unsigned)number;
    struct node *n = node_for(r, path);
    if (!n)
        return -ENOMEM;
    for (struct route *other = n->routes; other; other = other->next) {
        if (other->method == route->method)
            return -EEXIST;
    }
    uint64_t methods = methods_with(route->method);
    if (!wh_methods_allow(&r->methods, n->allowed | methods))
        return -ENOMEM;
    if (route->count == 0 && !note_literal(r, n, path - 1)) /* the slash before the first segment */
        return -ENOMEM;
    n->allowed |= methods;
    r->allowed |= methods;
    r->has_all |= route->method == WH_METHODS;
    route->next = n->routes;
    n->routes = route;
    return 0;
}

int wh_routes_add(struct wh_routes *r, const char *pattern, weft_handler *fn, void *arg)
{
    size_t method_size;
    const char *path = wh_pattern_path(pattern, &method_size);
    if (!path)
        return -EINVAL;
    struct route *route = wh_alloc_zero(sizeof *route + strlen(path) + 1);
    if (!route)
        return -ENOMEM;
    route->fn = fn;
    route->arg = arg;
    int rc = read_path(route, path) ? add_route(r, route, pattern, method_size, path) : -EINVAL;
    if (rc != 0)
        wh_free(route);
    return rc;
}

/* ---- searches ------------------------------------------------------------------------------------------------ */

enum { NO_METHOD = WH_METHODS + 1 }; /* a method that no route has */

struct search {
    const char *text; /* the path behind its first slash */
    size_t size;
    char separator;  /* between its segments */
    bool is_in_rest; /* `route` ends with {rest...} */
    bool is_automatic_head;
    unsigned method;
    uint64_t allowed;          /* of nodes that have the path and not the method */
    const struct route *route; /* what was found */
    size_t starts[WH_PARAMS], stops[WH_PARAMS];
};

static size_t segment_end(const struct search *s, size_t at)
{
    const char *found = memchr(s->text + at, s->separator, s->size - at);
    return found ? (size_t)(found - s->text) : s->size;
}

static const struct node *find_literal(const struct node *n, const char *text, size_t size)
{
    bool is_there;
    size_t place = place_of(n, text, size, &is_there);
    return is_there ? n->literals[place] : NULL;
}

/* The route of a node for a method; NULL: none. */
static const struct route *choose(const struct node *n, unsigned method, bool *is_automatic_head)
{
    const struct route *get = NULL, *all = NULL;
    for (const struct route *route = n->routes; route; route = route->next) {
        if (route->method == method)
            return route;
        if (route->method == WH_GET_NUMBER)
            get = route;
        else if (route->method == WH_METHODS)
            all = route;
    }
    *is_automatic_head = method == WH_HEAD_NUMBER && get;
    return *is_automatic_head ? get : all;
}

/* The path ends at this node. Returns whether the search ends too. */
static bool take(struct search *s, const struct node *n, bool is_in_rest)
{
    s->route = choose(n, s->method, &s->is_automatic_head);
    s->is_in_rest = is_in_rest;
    if (!s->route)
        s->allowed |= n->allowed;
    return s->route != NULL;
}

/* Searches below a node, from the segment at `at`, with `count` values so far. */
static bool walk(struct search *s, const struct node *n, size_t at, unsigned count)
{
    if (at > s->size)
        return take(s, n, false);
    size_t stop = segment_end(s, at);
    const struct node *literal = find_literal(n, s->text + at, stop - at);
    if (literal && walk(s, literal, stop + 1, count))
        return true;
    if (n->param && stop > at && !wh_is_dots(s->text + at, stop - at)) {
        s->starts[count] = at;
        s->stops[count] = stop;
        if (walk(s, n->param, stop + 1, count + 1))
            return true;
    }
    if (!n->rest)
        return false;
    s->starts[count] = at;
    s->stops[count] = s->size;
    return take(s, n->rest, true);
}

static bool has_dots(const struct search *s)
{
    for (size_t at = 0, stop; at <= s->size; at = stop + 1) {
        stop = segment_end(s, at);
        if (wh_is_dots(s->text + at, stop - at))
            return true;
    }
    return false;
}

/* Decodes the path of a search to `room`, each segment with a zero byte behind it. False: it is malformed. */
static bool decode_path(struct search *s, char *room)
{
    size_t used = 0;
    for (size_t at = 0, stop; at <= s->size; at = stop + 1) {
        stop = segment_end(s, at);
        ptrdiff_t decoded = wh_decode(room + used, s->text + at, stop - at, false);
        if (decoded < 0 || wh_is_dots(room + used, (size_t)decoded))
            return false;
        used += (size_t)decoded;
        room[used++] = '\0';
    }
    s->text = room;
    s->size = used - 1;
    s->separator = '\0';
    return true;
}

/* Makes the decoded rest of a path a string. False: a segment has a slash, which would look like a separator. */
static bool join_rest(char *from, char *end)
{
    if (memchr(from, '/', (size_t)(end - from)))
        return false;
    for (; (from = memchr(from, '\0', (size_t)(end - from))); from++)
        *from = '/';
    return true;
}

/* Makes the values of parameters strings. Those of a decoded path are strings already. */
static bool put_values(const struct search *s, char *room, struct wh_match *out)
{
    bool is_decoded = s->text == room;
    unsigned count = s->route->count;
    for (unsigned i = 0; i < count; i++) {
        out->params[i].name = s->route->names[i];
        out->params[i].value = is_decoded ? room + s->starts[i] : room;
        if (is_decoded)
            continue;
        room = mempcpy(room, s->text + s->starts[i], s->stops[i] - s->starts[i]);
        *room++ = '\0';
    }
    out->count = count;
    return !is_decoded || !s->is_in_rest || join_rest(room + s->starts[count - 1], room + s->stops[count - 1]);
}

/* The result if a route was found. The walk has looked at all segments but those of a {rest...}. */
static int found(const struct search *s, char *room, struct wh_match *out)
{
    if (s->is_in_rest && has_dots(s))
        return 400;
    if (!put_values(s, room, out))
        return 400;
    out->fn = s->route->fn;
    out->arg = s->route->arg;
    out->is_automatic_head = s->is_automatic_head;
    return 200;
}

/* The result if no route was found: `s->allowed` are the methods that the path has. */
static int not_found(const struct wh_routes *r, const struct search *s, struct wh_match *out)
{
    if (s->method == WH_METHODS && !r->has_all)
        return 501;
    if (s->allowed == 0)
        return 404;
    out->allow = wh_methods_allow(&r->methods, s->allowed);
    if (!out->allow)
        return 500;
    out->is_options = s->method == WH_OPTIONS_NUMBER;
    return out->is_options ? 200 : 405;
}

bool wh_routes_find_literal(const struct wh_routes *r, unsigned method, const char *path, size_t path_size,
                            struct wh_match *out)
{
    if (method == WH_OTHER_METHOD || r->literal_count == 0)
        return false;
    const struct literal *l = literal_place(r->literals, r->literal_room, hash_of(path, path_size), path, path_size);
    const struct route *route = l->node ? choose(l->node, method - WH_GET, &out->is_automatic_head) : NULL;
    if (!route)
        return false;
    out->fn = route->fn;
    out->arg = route->arg;
    out->count = 0;
    return true;
}

static void begin_search(struct search *s, unsigned method, const char *path, size_t path_size)
{
    s->method = method;
    s->allowed = 0;
    s->is_automatic_head = false;
    s->separator = '/';
    s->text = path_size > 0 ? path + 1 : path;
    s->size = path_size > 0 ? path_size - 1 : 0;
}

int wh_routes_find(const struct wh_routes *r, const char *method, size_t method_size, const char *path,
                   size_t path_size, bool has_percent, char *room, struct wh_match *out)
{
    struct search s;
    begin_search(&s, wh_methods_find(&r->methods, method, method_size), path, path_size);
    out->fn = NULL;
    out->arg = NULL;
    out->allow = NULL;
    out->is_automatic_head = out->is_options = false;
    out->count = 0;
    if (path_size > 0 && path[0] != '/') {
        if (path_size == 1 && path[0] == '*' && s.method == WH_OPTIONS_NUMBER)
            s.allowed = r->allowed | wh_method_bit(WH_OPTIONS_NUMBER);
        return not_found(r, &s, out);
    }
    if (has_percent && !decode_path(&s, room))
        return 400;
    if (walk(&s, r->root, 0, 0))
        return found(&s, room, out);
    if (!has_percent && has_dots(&s))
        return 400;
    return not_found(r, &s, out);
}

const char *wh_routes_others(const struct wh_routes *r, const char *method, size_t method_size, const char *path,
                             size_t path_size, bool has_percent, char *room)
{
    struct search s;
    unsigned refused = wh_methods_find(&r->methods, method, method_size);
    begin_search(&s, NO_METHOD, path, path_size);
    if (!has_percent || decode_path(&s, room))
        walk(&s, r->root, 0, 0); /* collects the methods; it can only find a route of all methods */
    if (refused < WH_METHODS)
        s.allowed &= ~wh_method_bit(refused);
    if (refused == WH_GET_NUMBER)
        s.allowed &= ~wh_method_bit(WH_HEAD_NUMBER);
    return wh_methods_allow(&r->methods, s.allowed);
}
