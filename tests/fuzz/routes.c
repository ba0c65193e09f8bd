/*
 * fuzz/routes.c: see routes.h. unit/http/route_random.c checks which of several patterns wins; here patterns and paths are
 * arbitrary, and what is checked is that the result can be one.
 */
#include "fuzz/routes.h"

#include <errno.h>
#include <stdlib.h>

#include "fuzz/fuzz.h"
#include "http/route.h"

enum { PATTERNS = 8 };

/* A pattern that the table has taken. */
struct pattern {
    struct text method, path;
};

static int handler(weft_exchange *x, void *arg)
{
    (void)x;
    (void)arg;
    return 0;
}

/* The segment at the beginning, without its slash; *rest has at NULL behind the last one. */
static struct text take_segment(struct text *rest)
{
    const char *stop = rest->size ? memchr(rest->at, '/', rest->size) : NULL;
    struct text segment = stop ? text_between(rest->at, stop) : *rest;
    *rest = stop ? text_between(stop + 1, rest->at + rest->size) : (struct text){0};
    return segment;
}

/* Decodes a segment; false: a malformed percent sign, or %00. */
static bool decode(struct text *segment, char *out)
{
    size_t used = 0;
    for (size_t i = 0; i < segment->size; i++) {
        char digits[3] = {0};
        out[used] = segment->at[i];
        if (segment->at[i] == '%') {
            memcpy(digits, segment->at + i + 1, segment->size - i - 1 < 2 ? segment->size - i - 1 : 2);
            if (strspn(digits, "0123456789abcdefABCDEF") != 2 || strcmp(digits, "00") == 0)
                return false;
            out[used] = (char)strtol(digits, NULL, 16);
            i += 2;
        }
        used++;
    }
    *segment = (struct text){out, used};
    return true;
}

/* What {rest...} stands for: it is malformed if a segment decodes to one with a slash. */
static bool is_rest(struct text pattern)
{
    return pattern.size > 4 && pattern.at[0] == '{' && memcmp(pattern.at + pattern.size - 4, "...}", 4) == 0;
}

static bool fits(struct text pattern, struct text path, char *room)
{
    while (pattern.at) {
        struct text wanted = take_segment(&pattern);
        if (!path.at)
            return false;
        if (is_rest(wanted))
            return true;
        struct text segment = take_segment(&path);
        if (!decode(&segment, room))
            return false;
        if (wanted.size > 0 && wanted.at[0] == '{' ? segment.size == 0 : !texts_equal(wanted, segment))
            return false;
    }
    return !path.at;
}

/* A path that is refused whatever the patterns are. */
static bool is_bad(struct text path, char *room)
{
    while (path.at) {
        struct text segment = take_segment(&path);
        if (!decode(&segment, room) || text_is(segment, ".") || text_is(segment, ".."))
            return true;
    }
    return false;
}

static bool has_method(const struct pattern *p, struct text method)
{
    return p->method.size == 0 || texts_equal(p->method, method) ||
           (text_is(p->method, "GET") && text_is(method, "HEAD"));
}

static void check_params(const struct wh_match *m, const char *room, size_t size)
{
    FUZZ_CHECK(m->count <= WH_PARAMS);
    for (unsigned i = 0; i < m->count; i++) {
        const char *value = m->params[i].value;
        FUZZ_CHECK(m->params[i].name[0] != '\0');
        FUZZ_CHECK(value >= room && value + strlen(value) < room + size);
    }
}

static void check_found(int status, const struct wh_match *m, const struct pattern *all, int count, struct text method,
                        struct text path, char *room)
{
    bool fits_one = false, fits_method = false;
    for (int i = 0; i < count; i++) {
        bool fitting = fits(all[i].path, path, room);
        fits_one |= fitting;
        fits_method |= fitting && has_method(&all[i], method);
        if (status == 200 && m->fn && m->arg == &all[i])
            FUZZ_CHECK(fitting && has_method(&all[i], method));
    }
    bool bad = is_bad(path, room);
    if (status == 200)
        FUZZ_CHECK(!bad && (m->fn ? fits_method : fits_one && m->is_options));
    else if (status == 404)
        FUZZ_CHECK(!fits_one && !bad);
    else if (status == 405)
        FUZZ_CHECK(fits_one && !fits_method && !bad && m->allow);
    else if (status == 400)
        FUZZ_CHECK(bad || fits_one); /* or a %2F in what {rest...} stands for */
    else
        FUZZ_CHECK(status == 501 && !fits_method);
}

void check_routes(char *const *lines, const size_t *sizes, int count)
{
    struct wh_routes *routes = wh_routes_new();
    struct pattern all[PATTERNS];
    struct wh_match match;
    int known = 0;
    memset(&match, 0, sizeof match);
    for (int i = 0; i < count - 1; i++) {
        const char *slash = strchr(lines[i], '/');
        int rc = wh_routes_add(routes, lines[i], handler, &all[known]);
        FUZZ_CHECK(rc == 0 || rc == -EINVAL || rc == -EEXIST);
        if (rc != 0)
            continue;
        FUZZ_CHECK(slash && known < PATTERNS);
        const char *space = strchr(lines[i], ' ');
        all[known].method = space && space < slash ? text_between(lines[i], space) : (struct text){"", 0};
        all[known++].path = (struct text){slash + 1, strlen(slash + 1)};
    }
    const char *line = lines[count - 1], *space = strchr(line, ' ');
    if (space && space[1] == '/' && strlen(line) == sizes[count - 1]) {
        struct text method = text_between(line, space), path = {space + 1, strlen(space + 1)};
        size_t size = path.size + 1 + WH_PARAMS;
        char *exact = fuzz_copy(path.at, path.size), *room = malloc(size), *scratch = malloc(path.size + 1);
        int status = wh_routes_find(routes, method.at, method.size, exact, path.size, strchr(path.at, '%') != NULL,
                                    room, &match);
        if (status == 200 && match.fn)
            check_params(&match, room, size);
        check_found(status, &match, all, known, method, (struct text){path.at + 1, path.size - 1}, scratch);
        free(exact);
        free(room);
        free(scratch);
    }
    wh_routes_free(routes);
}
