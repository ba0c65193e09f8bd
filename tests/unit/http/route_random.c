/*
 * tests/unit/http/route_random.c: the table of routes gives what a plain matcher gives, which compares the path with every
 * pattern, for random sets of patterns and random paths.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/parse.h"
#include "http/route.h"
#include "support/test.h"

enum { TABLES = 3000, PATTERNS = 12, PATHS = 60, SEGMENTS = 5 };

static const char *const methods[] = {"GET", "HEAD", "OPTIONS", "POST", "FETCH", "", ""};
static const char *const asked[] = {"GET", "GET", "GET", "HEAD", "OPTIONS", "POST", "PUT", "FETCH", "NEVER"};
static const char *const allow_order[] = {"GET", "HEAD", "OPTIONS", "POST", "FETCH"};
static const char *const parts[] = {"a", "b", "ab", "{", "{", "a"}; /* of patterns; "{" becomes a parameter */
static const char *const sent[] = {"a", "b", "ab",    "a",   "b",    "%61", "%61b",     "a%62",
                                   "c", "",  "a%2Fb", "%2f", "x%20", "..a", "%2e%2e%2e"};
static const char *const sent_bad[] = {".", "..", "%2e", ".%2E", "%", "%4", "%zz", "%00", "a%00"};
#define PICK(random, list) list[test_random(random) % (sizeof list / sizeof list[0])]

/* ---- the plain matcher --------------------------------------------------------------------------------------- */

struct plain {
    char pattern[128], method[8];
    int count;                /* segments */
    char kinds[SEGMENTS + 1]; /* 'l' literal, 'p' parameter, 'r' rest: in this order they win, as they do as letters */
    char texts[SEGMENTS][8];
};

struct path {
    char text[128];
    int count;
    bool is_bad;
    char decoded[SEGMENTS + 2][32];
};

/* What is expected of a search. */
struct expected {
    int status;
    const struct plain *route;
    bool is_automatic_head, is_options;
    char allow[64];
};

static bool decode(char *out, const char *text)
{
    while (*text) {
        unsigned byte;
        if (*text == '%') {
            if (!isxdigit((unsigned char)text[1]) || !isxdigit((unsigned char)text[2]))
                return false;
            sscanf(text + 1, "%2x", &byte);
            if (byte == 0)
                return false;
            *out++ = (char)byte;
            text += 3;
        } else {
            *out++ = *text++;
        }
    }
    *out = '\0';
    return true;
}

static bool fits(const struct plain *p, const struct path *path)
{
    for (int i = 0; i < p->count; i++) {
        if (i >= path->count)
            return false;
        if (p->kinds[i] == 'r')
            return true;
        if (p->kinds[i] == 'p' ? path->decoded[i][0] == '\0' : strcmp(p->texts[i], path->decoded[i]) != 0)
            return false;
    }
    return p->count == path->count;
}

static bool is_same(const struct plain *a, const struct plain *b)
{
    if (strcmp(a->kinds, b->kinds) != 0)
        return false;
    for (int i = 0; i < a->count; i++) {
        if (a->kinds[i] == 'l' && strcmp(a->texts[i], b->texts[i]) != 0)
            return false;
    }
    return true;
}

/* How well a route has the method: 3 itself, 2 GET for HEAD, 1 all methods, 0 not at all. */
static int fitness(const struct plain *p, const char *method)
{
    if (strcmp(p->method, method) == 0)
        return 3;
    if (strcmp(p->method, "GET") == 0 && strcmp(method, "HEAD") == 0)
        return 2;
    return p->method[0] == '\0';
}

static bool wins(const struct plain *p, const struct plain *over, const char *method)
{
    int order = strcmp(p->kinds, over->kinds);
    return order != 0 ? order < 0 : fitness(p, method) > fitness(over, method);
}

static bool lists(const struct plain *all, int count, const struct path *path, const char *method)
{
    for (int i = 0; i < count; i++) {
        if (!fits(&all[i], path))
            continue;
        if (strcmp(method, "OPTIONS") == 0 || strcmp(all[i].method, method) == 0 ||
            (strcmp(method, "HEAD") == 0 && strcmp(all[i].method, "GET") == 0))
            return true;
    }
    return false;
}

static bool is_known(const struct plain *all, int count, const char *method)
{
    if (strcmp(method, "NEVER") != 0 && strcmp(method, "FETCH") != 0)
        return true;
    for (int i = 0; i < count; i++) {
        if (all[i].method[0] == '\0' || strcmp(all[i].method, method) == 0)
            return true;
    }
    return false;
}

static bool has_slash_in_rest(const struct plain *p, const struct path *path)
{
    if (p->kinds[p->count - 1] != 'r')
        return false;
    for (int i = p->count - 1; i < path->count; i++) {
        if (strchr(path->decoded[i], '/'))
            return true;
    }
    return false;
}

static struct expected expect(const struct plain *all, int count, const struct path *path, const char *method)
{
    struct expected e = {.status = 404};
    if (path->is_bad) {
        e.status = 400;
        return e;
    }
    for (int i = 0; i < count; i++) {
        if (fits(&all[i], path) && fitness(&all[i], method) > 0 && (!e.route || wins(&all[i], e.route, method)))
            e.route = &all[i];
    }
    if (e.route) {
        e.status = has_slash_in_rest(e.route, path) ? 400 : 200;
        e.is_automatic_head = fitness(e.route, method) == 2;
        return e;
    }
    if (!is_known(all, count, method)) {
        e.status = 501;
        return e;
    }
    for (size_t i = 0; i < sizeof allow_order / sizeof allow_order[0]; i++) {
        if (!lists(all, count, path, allow_order[i]))
            continue;
        strcat(e.allow, e.allow[0] ? ", " : "");
        strcat(e.allow, allow_order[i]);
    }
    e.is_options = e.allow[0] && strcmp(method, "OPTIONS") == 0;
    if (e.allow[0])
        e.status = e.is_options ? 200 : 405;
    return e;
}

/* The value of the parameter at segment i of a route. */
static void value_of(char *out, const struct plain *p, const struct path *path, int i)
{
    strcpy(out, path->decoded[i]);
    for (int j = i + 1; p->kinds[i] == 'r' && j < path->count; j++) {
        strcat(out, "/");
        strcat(out, path->decoded[j]);
    }
}

/* ---- random patterns and paths ------------------------------------------------------------------------------- */

static void make_pattern(struct plain *p, uint64_t *random)
{
    *p = (struct plain){.count = 1 + (int)(test_random(random) % SEGMENTS)};
    strcpy(p->method, PICK(random, methods));
    char *end = stpcpy(p->pattern, p->method);
    if (p->method[0])
        *end++ = ' ';
    for (int i = 0; i < p->count; i++) {
        bool is_last = i == p->count - 1;
        const char *part = is_last && test_random(random) % 8 == 0 ? "" : PICK(random, parts);
        p->kinds[i] = part[0] != '{' ? 'l' : is_last && test_random(random) % 2 ? 'r' : 'p';
        if (p->kinds[i] == 'l')
            end += sprintf(end, "/%s", strcpy(p->texts[i], part));
        else
            end += sprintf(end, p->kinds[i] == 'r' ? "/{p%d...}" : "/{p%d}", i);
    }
}

static void make_path(struct path *path, uint64_t *random)
{
    *path = (struct path){.count = 1 + (int)(test_random(random) % (SEGMENTS + 1))};
    for (int i = 0; i < path->count; i++) {
        const char *part = test_random(random) % 40 == 0 ? PICK(random, sent_bad) : PICK(random, sent);
        sprintf(path->text + strlen(path->text), "/%s", part);
        path->is_bad |= !decode(path->decoded[i], part);
        path->is_bad |= strcmp(path->decoded[i], ".") == 0 || strcmp(path->decoded[i], "..") == 0;
    }
}

static void fail(const struct plain *all, int count, const struct path *path, const char *method, const char *what)
{
    test_failed(__FILE__, __LINE__, "%s %s: %s", method, path->text, what);
    for (int i = 0; i < count; i++)
        fprintf(stderr, "    %s\n", all[i].pattern);
}

static const char *find_difference(const struct path *path, const struct expected *e, const struct wh_match *m,
                                   int status)
{
    if (status != e->status)
        return "status";
    if (e->status != 200 || !e->route)
        return strcmp(m->allow ? m->allow : "", e->allow) != 0 || m->is_options != e->is_options || m->fn ? "allow"
                                                                                                          : NULL;
    if (m->arg != (void *)e->route || m->is_automatic_head != e->is_automatic_head || m->is_options)
        return "route";
    unsigned count = 0;
    for (int i = 0; i < e->route->count; i++) {
        char name[16], value[256];
        if (e->route->kinds[i] == 'l')
            continue;
        snprintf(name, sizeof name, "p%d", i);
        value_of(value, e->route, path, i);
        if (count >= m->count || strcmp(m->params[count].name, name) != 0 || strcmp(m->params[count].value, value) != 0)
            return "parameter";
        count++;
    }
    return count == m->count ? NULL : "count";
}

static int handler(weft_exchange *x, void *arg)
{
    (void)x;
    (void)arg;
    return 0;
}

/* Fills a table and its plain twin; returns how many patterns it took. */
static int fill(struct wh_routes *r, struct plain all[PATTERNS], uint64_t *random)
{
    int count = 0;
    for (int i = 0; i < PATTERNS; i++) {
        struct plain *p = &all[count];
        make_pattern(p, random);
        int expected = 0;
        for (int j = 0; j < count; j++) {
            if (strcmp(all[j].method, p->method) == 0 && is_same(&all[j], p))
                expected = -EEXIST;
        }
        int rc = wh_routes_add(r, p->pattern, handler, p);
        if (rc != expected)
            test_failed(__FILE__, __LINE__, "%s: %d", p->pattern, rc);
        count += rc == 0;
    }
    return count;
}

/* The enum wh_method of a method that tables know from the beginning; WH_OTHER_METHOD: another one. */
static unsigned method_of(const char *text)
{
    static const char *const known[] = {"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "TRACE"};
    for (unsigned i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i], text) == 0)
            return WH_GET + i;
    }
    return WH_OTHER_METHOD;
}

/* The quick search finds what the general one has found, or nothing. Returns whether it has found something. */
static bool check_literal(const struct wh_routes *r, const char *method, const char *path,
                          const struct wh_match *general)
{
    struct wh_match match = {0};
    if (strchr(path, '%') || path[0] != '/' ||
        !wh_routes_find_literal(r, method_of(method), path, strlen(path), &match))
        return false;
    if (match.fn != general->fn || match.arg != general->arg || match.count != 0 || general->count != 0 ||
        match.is_automatic_head != general->is_automatic_head)
        test_failed(__FILE__, __LINE__, "%s %s: the quick search finds another route", method, path);
    return true;
}

TEST(the_table_gives_what_a_plain_matcher_gives)
{
    uint64_t random = test_seed();
    int statuses[6] = {0}, literals = 0;
    for (int i = 0; i < TABLES && !test_has_failed(); i++) {
        static struct plain all[PATTERNS];
        struct wh_routes *r = wh_routes_new();
        int count = fill(r, all, &random);
        for (int j = 0; j < PATHS && !test_has_failed(); j++) {
            struct path path;
            struct wh_match match;
            make_path(&path, &random);
            const char *method = PICK(&random, asked);
            size_t size = strlen(path.text);
            char *room = malloc(size + 1 + WH_PARAMS);
            int status = wh_routes_find(r, method, strlen(method), path.text, size, strchr(path.text, '%') != NULL,
                                        room, &match);
            struct expected e = expect(all, count, &path, method);
            const char *difference = find_difference(&path, &e, &match, status);
            if (difference)
                fail(all, count, &path, method, difference);
            literals += check_literal(r, method, path.text, &match);
            statuses[status / 100]++;
            free(room);
        }
        wh_routes_free(r);
    }
    printf("%d found, %d of them by the quick search, %d not\n", statuses[2], literals, statuses[4] + statuses[5]);
    CHECK_INT(statuses[2], >, TABLES);
    CHECK_INT(literals, >, TABLES / 10);
}

TESTS(route_random, the_table_gives_what_a_plain_matcher_gives)
