/*
 * tests/unit/http/route.c: the table of routes: which patterns are malformed, which route a request gets, what parameters
 * hold, and the methods of a 405. route_random.c compares the table with a plain matcher.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/memory.h"
#include "http/route.h"
#include "support/test.h"

static int handler(weft_exchange *x, void *arg)
{
    (void)x;
    (void)arg;
    return 0;
}

static void add(struct wh_routes *r, const char *pattern)
{
    CHECK_INT(wh_routes_add(r, pattern, handler, (void *)pattern), ==, 0);
}

static struct wh_match match;
static char room[4096];

static int find(const struct wh_routes *r, const char *method, const char *path)
{
    return wh_routes_find(r, method, strlen(method), path, strlen(path), strchr(path, '%') != NULL, room, &match);
}

/* Checks that the request gets the route that was added with this pattern. */
#define CHECK_ROUTE(r, method, path, pattern)                                                                          \
    do {                                                                                                               \
        CHECK_INT(find(r, method, path), ==, 200);                                                                     \
        CHECK(match.fn == handler);                                                                                    \
        CHECK_STR((const char *)match.arg, pattern);                                                                   \
    } while (0)

static const char *param(const char *name)
{
    for (unsigned i = 0; i < match.count; i++) {
        if (strcmp(match.params[i].name, name) == 0)
            return match.params[i].value;
    }
    return NULL;
}

/* ---- patterns ------------------------------------------------------------------------------------------------ */

TEST(malformed_patterns_are_einval)
{
    static const char *const malformed[] = {
        "",          "a",        "GET",         "GET ",   " /a",    "GET  /a", "GET/a",  "G\tT /a",
        "GE(T /a",   "GET a",    "/{",          "/}",     "/{}",    "/{a",     "/a}",    "/{a}b",
        "/b{a}",     "/{a}{b}",  "/{1a}",       "/{a-b}", "/{a b}", "/{a..}",  "/{...}", "/{a...}/",
        "/{a...}/b", "/{a}/{a}", "/{a}/{a...}", "/.",     "/..",    "/a/./b",  "/a/..",  "//",
        "/a//b",     "/a%20b",   "/a?b",        "/a#b",   "/a\x01", "/a\x7f",  "//a",    "/{{a}}",
    };
    struct wh_routes *r = wh_routes_new();
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        if (wh_routes_add(r, malformed[i], handler, NULL) != -EINVAL)
            test_failed(__FILE__, __LINE__, "\"%s\" was taken", malformed[i]);
    }
    CHECK_INT(find(r, "GET", "/a"), ==, 404);
    wh_routes_free(r);
}

TEST(patterns_may_have_up_to_16_parameters)
{
    struct wh_routes *r = wh_routes_new();
    add(r, "/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}/{j}/{k}/{l}/{m}/{n}/{o}/{p}");
    CHECK_INT(wh_routes_add(r, "/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}/{j}/{k}/{l}/{m}/{n}/{o}/{p}/{q}", handler, NULL),
              ==, -EINVAL);
    CHECK_INT(find(r, "GET", "/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16"), ==, 200);
    CHECK_INT(match.count, ==, 16);
    CHECK_STR(param("p"), "16");
    wh_routes_free(r);
}

TEST(the_same_pattern_twice_is_eexist_whatever_its_parameters_are_called)
{
    struct wh_routes *r = wh_routes_new();
    add(r, "GET /a/{b}");
    add(r, "POST /a/{c}");
    add(r, "/a/{d}");
    CHECK_INT(wh_routes_add(r, "GET /a/{e}", handler, NULL), ==, -EEXIST);
    CHECK_INT(wh_routes_add(r, "/a/{e}", handler, NULL), ==, -EEXIST);
    add(r, "GET /a/{b}/");
    add(r, "GET /a/{b...}");
    CHECK_INT(wh_routes_add(r, "GET /a/{c...}", handler, NULL), ==, -EEXIST);
    CHECK_ROUTE(r, "POST", "/a/1", "POST /a/{c}");
    CHECK_STR(param("c"), "1");
    CHECK_PTR(param("b"), ==, NULL);
    wh_routes_free(r);
}

TEST(a_table_takes_64_methods)
{
    struct wh_routes *r = wh_routes_new();
    char pattern[32];
    int taken = 0;
    for (int i = 0; i < 64; i++) {
        snprintf(pattern, sizeof pattern, "M%d /a", i);
        taken += wh_routes_add(r, pattern, handler, NULL) == 0;
    }
    CHECK_INT(taken, ==, 64 - 9);
    CHECK_INT(wh_routes_add(r, "M63 /a", handler, NULL), ==, -EINVAL);
    CHECK_INT(wh_routes_add(r, "PUT /a", handler, NULL), ==, 0);
    CHECK_INT(find(r, "M54", "/a"), ==, 200);
    CHECK_INT(find(r, "M55", "/a"), ==, 501);
    CHECK_INT(find(r, "POST", "/a"), ==, 405);
    CHECK(strncmp(match.allow, "OPTIONS, PUT, M0, M1, ", 22) == 0);
    wh_routes_free(r);
}

TEST(without_memory_a_table_stays_as_it_was)
{
    for (unsigned nth = 1;; nth++) {
        wh_alloc_fail_at(nth);
        struct wh_routes *r = wh_routes_new();
        wh_alloc_fail_at(0);
        if (r) {
            wh_routes_free(r);
            CHECK_INT(nth, ==, 4);
            break;
        }
    }
    struct wh_routes *r = wh_routes_new();
    add(r, "GET /a/b");
    for (unsigned nth = 1;; nth++) {
        wh_alloc_fail_at(nth);
        int rc = wh_routes_add(r, "FETCH /a/c/{d}/{e...}", handler, "found");
        wh_alloc_fail_at(0);
        if (rc == 0)
            break;
        CHECK_INT(rc, ==, -ENOMEM);
        CHECK_INT(find(r, "GET", "/a/c/d/e"), ==, 404);
        CHECK_ROUTE(r, "GET", "/a/b", "GET /a/b");
    }
    CHECK_ROUTE(r, "FETCH", "/a/c/d/e", "found");
    add(r, "POST /{x...}");
    wh_alloc_fail_at(1);
    CHECK_INT(find(r, "PUT", "/a/b"), ==, 500);
    wh_alloc_fail_at(0);
    CHECK_INT(find(r, "PUT", "/a/b"), ==, 405);
    CHECK_STR(match.allow, "GET, HEAD, OPTIONS, POST");
    wh_routes_free(r);
}

/* ---- searches ------------------------------------------------------------------------------------------------ */

TEST(literals_win_over_parameters_and_these_over_the_rest)
{
    struct wh_routes *r = wh_routes_new();
    add(r, "GET /{rest...}");
    add(r, "GET /notes/{id}");
    add(r, "GET /notes/new");
    add(r, "GET /notes/{id}/edit");
    add(r, "GET /notes/new/{x...}");
    CHECK_ROUTE(r, "GET", "/notes/new", "GET /notes/new");
    CHECK_INT(match.count, ==, 0);
    CHECK_ROUTE(r, "GET", "/notes/7", "GET /notes/{id}");
    CHECK_STR(param("id"), "7");
    CHECK_ROUTE(r, "GET", "/notes/new/edit", "GET /notes/new/{x...}");
    CHECK_STR(param("x"), "edit");
    CHECK_ROUTE(r, "GET", "/notes/7/edit", "GET /notes/{id}/edit");
    CHECK_ROUTE(r, "GET", "/notes/7/show", "GET /{rest...}");
    CHECK_STR(param("rest"), "notes/7/show");
    CHECK_INT(match.count, ==, 1);
    wh_routes_free(r);
}

TEST(a_search_goes_back_where_a_literal_branch_fails)
{
    struct wh_routes *r = wh_routes_new();
    add(r, "GET /a/b/c");
    add(r, "GET /{x}/b/{y}");
    add(r, "GET /{x}/{y}/{z}/d");
    add(r, "GET /a/{rest...}");
    CHECK_ROUTE(r, "GET", "/a/b/d", "GET /a/{rest...}");
    CHECK_ROUTE(r, "GET", "/b/b/d", "GET /{x}/b/{y}");
    CHECK_STR(param("x"), "b");
    CHECK_STR(param("y"), "d");
    CHECK_ROUTE(r, "GET", "/b/b/c/d", "GET /{x}/{y}/{z}/d");
    CHECK_STR(param("y"), "b");
    CHECK_STR(param("z"), "c");
    CHECK_INT(find(r, "GET", "/b/b/c/e"), ==, 404);
    wh_routes_free(r);
}

TEST(a_trailing_slash_makes_another_path)
{
    struct wh_routes *r = wh_routes_new();
    add(r, "/");
    add(r, "/a");
    add(r, "/b/");
    add(r, "/c/{x}");
    add(r, "/d/{x...}");
    CHECK_ROUTE(r, "GET", "/", "/");
    CHECK_ROUTE(r, "GET", "", "/");
    CHECK_ROUTE(r, "GET", "/a", "/a");
    CHECK_INT(find(r, "GET", "/a/"), ==, 404);
    CHECK_INT(find(r, "GET", "/b"), ==, 404);
    CHECK_ROUTE(r, "GET", "/b/", "/b/");
    CHECK_INT(find(r, "GET", "/c/"), ==, 404);
    CHECK_INT(find(r, "GET", "/c/1/"), ==, 404);
    CHECK_INT(find(r, "GET", "/d"), ==, 404);
    CHECK_ROUTE(r, "GET", "/d/", "/d/{x...}");
    CHECK_STR(param("x"), "");
    CHECK_ROUTE(r, "GET", "/d/1/", "/d/{x...}");
    CHECK_STR(param("x"), "1/");
    wh_routes_free(r);
}

TEST(an_empty_segment_matches_nothing_but_the_rest)
{
    struct wh_routes *r = wh_routes_new();
    add(r, "/a/{x}/b");
    add(r, "/c/{x...}");
    CHECK_INT(find(r, "GET", "/a//b"), ==, 404);
    CHECK_INT(find(r, "GET", "//a/1/b"), ==, 404);
    CHECK_ROUTE(r, "GET", "/c//d//", "/c/{x...}");
    CHECK_STR(param("x"), "/d//");
    CHECK_ROUTE(r, "GET", "/c//%64//", "/c/{x...}");
    CHECK_STR(param("x"), "/d//");
    wh_routes_free(r);
}

TEST(segments_are_decoded_once_before_they_are_compared)
{
    struct wh_routes *r = wh_routes_new();
    add(r, "/notes/new");
    add(r, "/notes/{id}");
    add(r, "/gr\xc3\xbc\xc3\x9f e");
    CHECK_ROUTE(r, "GET", "/%6eotes/%6E%65w", "/notes/new");
    CHECK_ROUTE(r, "GET", "/notes/a%2Fb", "/notes/{id}");
    CHECK_STR(param("id"), "a/b");
    CHECK_ROUTE(r, "GET", "/notes/%2f", "/notes/{id}");
    CHECK_STR(param("id"), "/");
    CHECK_ROUTE(r, "GET", "/notes/%252e", "/notes/{id}");
    CHECK_STR(param("id"), "%2e");
    CHECK_ROUTE(r, "GET", "/notes/a+b%20", "/notes/{id}");
    CHECK_STR(param("id"), "a+b ");
    CHECK_ROUTE(r, "GET", "/gr%C3%BC%c3%9f%20e", "/gr\xc3\xbc\xc3\x9f e");
    CHECK_INT(find(r, "GET", "/notes%2Fnew"), ==, 404);
    wh_routes_free(r);
}

TEST(dot_segments_and_malformed_percents_are_400_in_every_encoding)
{
    static const char *const bad[] = {
        "/.",        "/..",          "/a/.",    "/a/..",     "/./a",       "/../a",        "/a/../b",
        "/a/./b",    "/%2e",         "/%2E%2e", "/.%2e",     "/%2e.",      "/a/%2e%2e/b",  "/f/..",
        "/f/x/../y", "/f/%2e%2e/y",  "/f/.",    "/f/x/.%2E", "/nowhere/.", "/nowhere/%2e", "/a/%",
        "/a/%4",     "/a/%4g",       "/a/%g4",  "/%",        "/a/%00",     "/f/a%00b",     "/f/%",
        "/f/%2",     "/nowhere/%zz", "/a%",     "/f/a%2Fb",  "/f/..%2Fb",  "/f/%2f",       "/f/x/%2F/y",
    };
    struct wh_routes *r = wh_routes_new();
    add(r, "/a/{x}");
    add(r, "/{x}");
    add(r, "/a/{x}/b");
    add(r, "/f/{x...}");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int status = find(r, "GET", bad[i]);
        if (status != 400 || match.fn)
            test_failed(__FILE__, __LINE__, "%s: %d", bad[i], status);
    }
    CHECK_INT(find(r, "NEVER-HEARD-OF", "/.."), ==, 400);
    CHECK_ROUTE(r, "GET", "/...", "/{x}");
    CHECK_ROUTE(r, "GET", "/a/.b", "/a/{x}");
    CHECK_ROUTE(r, "GET", "/a/%2e%2e%2e", "/a/{x}");
    CHECK_STR(param("x"), "...");
    CHECK_ROUTE(r, "GET", "/a/..%2Fb", "/a/{x}");
    CHECK_STR(param("x"), "../b");
    CHECK_ROUTE(r, "GET", "/f/.../..b/%2e%2ec", "/f/{x...}");
    CHECK_STR(param("x"), ".../..b/..c");
    wh_routes_free(r);
}

TEST(get_answers_head_and_options_unless_a_route_does)
{
    struct wh_routes *r = wh_routes_new();
    add(r, "GET /a");
    add(r, "GET /b");
    add(r, "HEAD /b");
    add(r, "OPTIONS /b");
    add(r, "POST /c");
    add(r, "GET /d");
    add(r, "/d");
    CHECK_ROUTE(r, "HEAD", "/a", "GET /a");
    CHECK(match.is_automatic_head);
    CHECK_ROUTE(r, "GET", "/a", "GET /a");
    CHECK(!match.is_automatic_head);
    CHECK_INT(find(r, "OPTIONS", "/a"), ==, 200);
    CHECK(match.is_options && !match.fn);
    CHECK_STR(match.allow, "GET, HEAD, OPTIONS");
    CHECK_ROUTE(r, "HEAD", "/b", "HEAD /b");
    CHECK(!match.is_automatic_head);
    CHECK_ROUTE(r, "OPTIONS", "/b", "OPTIONS /b");
    CHECK(!match.is_options);
    CHECK_INT(find(r, "HEAD", "/c"), ==, 405);
    CHECK_STR(match.allow, "OPTIONS, POST");
    CHECK_ROUTE(r, "HEAD", "/d", "GET /d");
    CHECK_ROUTE(r, "OPTIONS", "/d", "/d");
    CHECK_ROUTE(r, "PURGE", "/d", "/d");
    CHECK_INT(find(r, "OPTIONS", "/e"), ==, 404);
    wh_routes_free(r);
}

TEST(a_method_that_no_route_of_the_path_has_is_405_with_the_union)
{
    struct wh_routes *r = wh_routes_new();
    add(r, "GET /notes/new");
    add(r, "POST /notes/{id}");
    add(r, "FETCH /notes/{rest...}");
    CHECK_ROUTE(r, "POST", "/notes/new", "POST /notes/{id}");
    CHECK_STR(param("id"), "new");
    CHECK_ROUTE(r, "FETCH", "/notes/new", "FETCH /notes/{rest...}");
    CHECK_INT(find(r, "PUT", "/notes/new"), ==, 405);
    CHECK(!match.fn);
    CHECK_STR(match.allow, "GET, HEAD, OPTIONS, POST, FETCH");
    CHECK_INT(find(r, "PUT", "/notes/1"), ==, 405);
    CHECK_STR(match.allow, "OPTIONS, POST, FETCH");
    CHECK_INT(find(r, "OPTIONS", "/notes/1/2"), ==, 200);
    CHECK(match.is_options);
    CHECK_STR(match.allow, "OPTIONS, FETCH");
    wh_routes_free(r);
}

static const char *others(const struct wh_routes *r, const char *method, const char *path)
{
    return wh_routes_others(r, method, strlen(method), path, strlen(path), strchr(path, '%') != NULL, room);
}

TEST(the_other_methods_of_a_refused_request_are_those_of_its_path)
{
    struct wh_routes *r = wh_routes_new();
    add(r, "GET /a/b");
    add(r, "PUT /a/{x}");
    add(r, "POST /c");
    add(r, "/all");
    CHECK_STR(others(r, "GET", "/a/b"),
              "OPTIONS, PUT"); /* the GET route answers HEAD too, so HEAD is refused as well */
    CHECK_STR(others(r, "PUT", "/a/b"), "GET, HEAD, OPTIONS");
    CHECK_STR(others(r, "PUT", "/%61/b"), "GET, HEAD, OPTIONS");
    CHECK_STR(others(r, "POST", "/c"), "OPTIONS");
    CHECK_STR(others(r, "GET", "/all"), ""); /* only the handler knows */
    CHECK_STR(others(r, "GET", "/none"), "");
    wh_routes_free(r);
}

TEST(methods_that_are_not_known_are_501_and_cases_differ)
{
    struct wh_routes *r = wh_routes_new();
    add(r, "GET /a");
    CHECK_INT(find(r, "PATCH", "/a"), ==, 405);
    CHECK_INT(find(r, "TRACE", "/b"), ==, 404);
    CHECK_INT(find(r, "FETCH", "/a"), ==, 501);
    CHECK_INT(find(r, "FETCH", "/b"), ==, 501);
    CHECK_INT(find(r, "get", "/a"), ==, 501);
    CHECK_INT(find(r, "GETS", "/a"), ==, 501);
    CHECK_INT(find(r, "GE", "/a"), ==, 501);
    add(r, "/any");
    CHECK_INT(find(r, "FETCH", "/any"), ==, 200);
    CHECK_INT(find(r, "FETCH", "/a"), ==, 405);
    CHECK_INT(find(r, "FETCH", "/b"), ==, 404);
    wh_routes_free(r);
}

TEST(the_path_asterisk_has_all_methods_of_the_table)
{
    struct wh_routes *r = wh_routes_new();
    CHECK_INT(find(r, "OPTIONS", "*"), ==, 200);
    CHECK_STR(match.allow, "OPTIONS");
    add(r, "GET /a");
    add(r, "DELETE /b");
    add(r, "/{x...}");
    CHECK_INT(find(r, "OPTIONS", "*"), ==, 200);
    CHECK(match.is_options);
    CHECK_STR(match.allow, "GET, HEAD, OPTIONS, DELETE");
    CHECK_INT(find(r, "GET", "*"), ==, 404);
    CHECK_INT(find(r, "CONNECT", "a:1"), ==, 404);
    wh_routes_free(r);
}

TEST(values_of_the_longest_paths_fit_their_room)
{
    struct wh_routes *r = wh_routes_new();
    add(r, "/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}/{j}/{k}/{l}/{m}/{n}/{o}/{p...}");
    const char *paths[] = {"/1/2/3/4/5/6/7/8/9/1/2/3/4/5/6/", "/1/2/3/4/5/6/7/8/9/1/2/3/4/5/6/7//",
                           "/%31/2/3/4/5/6/7/8/9/1/2/3/4/5/6/7//"};
    for (size_t i = 0; i < 3; i++) {
        size_t size = strlen(paths[i]);
        char *path = malloc(size), *values = malloc(size + 1 + WH_PARAMS); /* sanitizers watch both ends */
        memcpy(path, paths[i], size);
        CHECK_INT(wh_routes_find(r, "GET", 3, path, size, i == 2, values, &match), ==, 200);
        CHECK_STR(param("a"), "1");
        CHECK_STR(param("p"), i == 0 ? "" : "7//");
        free(path);
        free(values);
    }
    wh_routes_free(r);
}

struct seeker {
    const struct wh_routes *r;
    unsigned wrong;
};

static void *seek_unions(void *arg)
{
    struct seeker *s = arg;
    struct wh_match m;
    char values[64], path[] = "/a/b/c";
    for (int i = 0; i < 64; i++) {
        path[1] = i & 1 ? 'a' : 'x';
        path[3] = i & 2 ? 'b' : 'x';
        path[5] = i & 4 ? 'c' : 'x';
        int status = wh_routes_find(s->r, "TRACE", 5, path, 6, false, values, &m);
        s->wrong += status != 405 || !strstr(m.allow, "OPTIONS");
    }
    return NULL;
}

TEST(threads_that_search_at_once_may_all_make_the_same_union)
{
    enum { THREADS = 4 };
    struct wh_routes *r = wh_routes_new();
    add(r, "GET /a/{x}/{y}");
    add(r, "PUT /{x}/b/{y}");
    add(r, "POST /{x}/{y}/c");
    add(r, "PATCH /{x...}");
    struct seeker seekers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        seekers[i] = (struct seeker){r, 0};
        pthread_create(&threads[i], NULL, seek_unions, &seekers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_INT(seekers[i].wrong, ==, 0);
    }
    CHECK_INT(find(r, "TRACE", "/a/b/x"), ==, 405);
    CHECK_STR(match.allow, "GET, HEAD, OPTIONS, PUT, PATCH");
    wh_routes_free(r);
}

TESTS(route, malformed_patterns_are_einval, patterns_may_have_up_to_16_parameters,
      the_same_pattern_twice_is_eexist_whatever_its_parameters_are_called, a_table_takes_64_methods,
      without_memory_a_table_stays_as_it_was, literals_win_over_parameters_and_these_over_the_rest,
      a_search_goes_back_where_a_literal_branch_fails, a_trailing_slash_makes_another_path,
      an_empty_segment_matches_nothing_but_the_rest, segments_are_decoded_once_before_they_are_compared,
      dot_segments_and_malformed_percents_are_400_in_every_encoding, get_answers_head_and_options_unless_a_route_does,
      a_method_that_no_route_of_the_path_has_is_405_with_the_union,
      the_other_methods_of_a_refused_request_are_those_of_its_path, methods_that_are_not_known_are_501_and_cases_differ,
      the_path_asterisk_has_all_methods_of_the_table, values_of_the_longest_paths_fit_their_room,
      threads_that_search_at_once_may_all_make_the_same_union)
