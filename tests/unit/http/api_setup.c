/*
 * The errors of the calls that set a server up: options out of range and at their bounds, structs of other versions,
 * routes, middleware and folders; and calls that come too late, while the server serves.
 */
#include <errno.h>
#include <stddef.h>
#include <sys/prctl.h>

#include <weft/weft.h>

#include "unit/http/client.h"
#include "unit/http/files_ground.h"
#include "unit/http/served.h"

/* Makes a server with options, and frees it. Returns what weft_http_new has returned. */
static int try_new(const weft_http_opts *opts)
{
    weft_http *none = (weft_http *)&none, *h = none;
    int rc = weft_http_new(&h, opts);
    CHECK((rc == 0) == (h != none));
    if (rc == 0)
        CHECK_INT(weft_http_free(h), ==, 0);
    return rc;
}

#define SET(field, value) try_new(&(weft_http_opts){.size = sizeof(weft_http_opts), .field = (value)})

TEST(options_out_of_range_are_einval)
{
    CHECK_INT(SET(head_bytes, 255), ==, -EINVAL);
    CHECK_INT(SET(head_bytes, (1 << 20) + 1), ==, -EINVAL);
    CHECK_INT(SET(head_bytes, SIZE_MAX), ==, -EINVAL);
    CHECK_INT(SET(head_fields, 10001), ==, -EINVAL);
    CHECK_INT(SET(head_fields, UINT32_MAX), ==, -EINVAL);
    CHECK_INT(SET(idle_time, -1), ==, -EINVAL);
    CHECK_INT(SET(head_time, -1), ==, -EINVAL);
    CHECK_INT(SET(write_time, INT64_MIN), ==, -EINVAL);
    CHECK_INT(SET(busy, 2), ==, -EINVAL);
    CHECK_INT(SET(busy, -1), ==, -EINVAL);
    CHECK_INT(SET(stack, WEFT_STACK_MIN - 1), ==, -EINVAL);
    weft_http_opts both = {.size = sizeof both, .stack = WEFT_STACK_MIN, .shared = (weft_stacks *)&both};
    CHECK_INT(try_new(&both), ==, -EINVAL);
    CHECK_INT(weft_http_new(NULL, NULL), ==, -EINVAL);
}

TEST(options_at_their_bounds_are_taken)
{
    CHECK_INT(try_new(NULL), ==, 0);
    CHECK_INT(SET(head_bytes, 256), ==, 0);
    CHECK_INT(SET(head_bytes, 1 << 20), ==, 0);
    CHECK_INT(SET(head_fields, 1), ==, 0);
    CHECK_INT(SET(head_fields, 10000), ==, 0);
    CHECK_INT(SET(body_bytes, UINT64_MAX), ==, 0);
    CHECK_INT(SET(drain_bytes, UINT64_MAX), ==, 0);
    CHECK_INT(SET(idle_time, INT64_MAX), ==, 0);
    CHECK_INT(SET(head_time, INT64_MAX), ==, 0);
    CHECK_INT(SET(body_rate, UINT64_MAX), ==, 0);
    CHECK_INT(SET(write_time, INT64_MAX), ==, 0);
    CHECK_INT(SET(grace, INT64_MAX), ==, 0);
    CHECK_INT(SET(grace, -1), ==, 0);
    CHECK_INT(SET(max_conns, UINT32_MAX), ==, 0);
    CHECK_INT(SET(max_per_address, 1), ==, 0);
    CHECK_INT(SET(busy, WEFT_HTTP_BUSY_CLOSE), ==, 0);
    CHECK_INT(SET(stack, WEFT_STACK_MIN), ==, 0);
}

TEST(a_server_with_limits_as_large_as_their_types_serves)
{
    struct served s;
    weft_http_opts o = {.size = sizeof o,
                        .head_bytes = 1 << 20,
                        .head_fields = 10000,
                        .body_bytes = UINT64_MAX,
                        .drain_bytes = UINT64_MAX,
                        .idle_time = INT64_MAX,
                        .head_time = INT64_MAX,
                        .body_rate = UINT64_MAX,
                        .write_time = INT64_MAX,
                        .grace = INT64_MAX,
                        .max_conns = UINT32_MAX,
                        .max_per_address = UINT32_MAX};
    served_begin(&s, &o, (struct served_route[]){{"/", says_hello, NULL}, {0}});
    CHECK_INT(ask_status(s.port, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"), ==, 200);
    CHECK_INT(ask_status(s.port, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), ==, 200);
    served_end(&s);
}

TEST(the_field_server_is_any_valid_value_of_at_most_256_bytes)
{
    static const char *const bad[] = {"a\r\nb", "a\n", "a\x01", " a", "a ", "\t", "a\x7f"};
    char text[258];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_INT(SET(server, bad[i]), ==, -EINVAL);
    memset(text, 'x', 257);
    text[257] = '\0';
    CHECK_INT(SET(server, text), ==, -EINVAL);
    CHECK_INT(SET(server, text + 1), ==, 0);
    CHECK_INT(SET(server, ""), ==, 0);

    for (int i = 0; i < 2; i++) {
        struct served s;
        struct answer a;
        weft_http_opts o = {.size = sizeof o, .server = i == 0 ? text + 1 : NULL};
        served_begin(&s, &o, (struct served_route[]){{"/", says_hello, NULL}, {0}});
        CHECK_PTR(ask(s.port, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", &a), ==, NULL);
        const char *said = answer_field(&a, "Server");
        CHECK_STR(said ? said : "(none)", i == 0 ? text + 1 : "(none)");
        answer_free(&a);
        served_end(&s);
    }
}

TEST(options_of_other_versions_are_read_by_their_size)
{
    union {
        weft_http_opts o;
        char bytes[8000];
    } u;
    memset(&u, 0, sizeof u);
    u.o.head_fields = 20000; /* out of range, where it is read */
    u.o.size = offsetof(weft_http_opts, head_fields);
    CHECK_INT(try_new(&u.o), ==, 0);
    u.o.size = offsetof(weft_http_opts, body_bytes);
    CHECK_INT(try_new(&u.o), ==, -EINVAL);
    u.o.size = 0; /* the first release's */
    CHECK_INT(try_new(&u.o), ==, -EINVAL);
    u.o.head_fields = 0;
    CHECK_INT(try_new(&u.o), ==, 0);
    for (size_t size = 1; size < sizeof size; size++) {
        u.o.size = size;
        CHECK_INT(try_new(&u.o), ==, -EINVAL);
    }
    u.o.size = sizeof u.o + 100;
    CHECK_INT(try_new(&u.o), ==, 0);
    u.bytes[sizeof u.o + 99] = 1; /* a field that is not known here, and that asks for something */
    CHECK_INT(try_new(&u.o), ==, -EINVAL);
    u.o.size = sizeof u.o + 99;
    CHECK_INT(try_new(&u.o), ==, 0);
    u.o.size = 5000; /* was not set */
    CHECK_INT(try_new(&u.o), ==, -EINVAL);
}

/* ---- routes and middleware ---- */

TEST(malformed_patterns_and_missing_arguments_are_einval)
{
    static const char *const patterns[] = {
        "",         "GET",    "GET ",    "a",     "GET a", "GET  /",     "GET/",        " /",
        "GE T /",   "GET\t/", "(GET) /", "/a//b", "//",    "/a/../b",    "/.",          "/{}",
        "/{1a}",    "/{a-b}", "/{a",     "/a}",   "/x{a}", "/{a}x",      "/{a...}/b",   "/{...}",
        "/{a}/{a}", "/a%20b", "/a?b",    "/a#b",  "/a\nb", "GET /a\x7f", "/{a}/{b}{c}", "/{a b}",
    };
    weft_http *h;
    CHECK_INT(weft_http_new(&h, NULL), ==, 0);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        int rc = weft_http_route(h, patterns[i], says_hello, NULL);
        if (rc != -EINVAL)
            test_failed(__FILE__, __LINE__, "%s: %d", patterns[i], rc);
    }
    CHECK_INT(weft_http_route(NULL, "/", says_hello, NULL), ==, -EINVAL);
    CHECK_INT(weft_http_route(h, NULL, says_hello, NULL), ==, -EINVAL);
    CHECK_INT(weft_http_route(h, "/", NULL, NULL), ==, -EINVAL);
    CHECK_INT(weft_http_use(NULL, says_hello, NULL), ==, -EINVAL);
    CHECK_INT(weft_http_use(h, NULL, NULL), ==, -EINVAL);
    CHECK_INT(weft_http_free(h), ==, 0);
    CHECK_INT(weft_http_free(NULL), ==, 0);
}

TEST(the_same_route_twice_is_eexist)
{
    weft_http *h;
    CHECK_INT(weft_http_new(&h, NULL), ==, 0);
    CHECK_INT(weft_http_route(h, "GET /a/{b}", says_hello, NULL), ==, 0);
    CHECK_INT(weft_http_route(h, "GET /a/{c}", says_hello, NULL), ==, -EEXIST);
    CHECK_INT(weft_http_route(h, "/a/{c}", says_hello, NULL), ==, 0);
    CHECK_INT(weft_http_route(h, "/a/{b}", says_hello, NULL), ==, -EEXIST);
    CHECK_INT(weft_http_route(h, "GET /a/{b...}", says_hello, NULL), ==, 0);
    CHECK_INT(weft_http_free(h), ==, 0);
}

TEST(a_server_that_serves_is_ebusy)
{
    struct served s;
    served_begin(&s, NULL, (struct served_route[]){{"/", says_hello, NULL}, {0}});
    CHECK_INT(ask_status(s.port, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"), ==, 200);
    CHECK_INT(weft_http_route(s.h, "/a", says_hello, NULL), ==, -EBUSY);
    CHECK_INT(weft_http_use(s.h, says_hello, NULL), ==, -EBUSY);
    CHECK_INT(weft_http_files(s.h, "/files/", "/tmp", NULL), ==, -EBUSY);
    CHECK_INT(weft_http_free(s.h), ==, -EBUSY);
    served_end(&s);
}

/* ---- folders ---- */

#define FILES(prefix, dir) weft_http_files(h, prefix, dir, NULL)
#define FILES_WITH(...)                                                                                                \
    weft_http_files(h, "/x/", site, &(weft_files_opts){.size = sizeof(weft_files_opts), __VA_ARGS__})

static void check_files(weft_http *h, const struct ground *g)
{
    static const char *const prefixes[] = {"",   "a",    "a/",   "/a",     "/{a}/", "/{a...}/",
                                           "//", "/a//", "/../", "/a%20/", "/a?/",  "/a\n/"};
    char site[128];
    snprintf(site, sizeof site, "%s", absolute(g, "site"));
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        CHECK_INT(FILES(prefixes[i], site), ==, -EINVAL);
    CHECK_INT(weft_http_files(NULL, "/", site, NULL), ==, -EINVAL);
    CHECK_INT(FILES(NULL, site), ==, -EINVAL);
    CHECK_INT(FILES("/", NULL), ==, -EINVAL);
    CHECK_INT(FILES("/", absolute(g, "nothing")), ==, -ENOENT);
    CHECK_INT(FILES("/", absolute(g, "secret")), ==, -ENOTDIR);
    CHECK_INT(FILES("/", ""), ==, -ENOENT);
    CHECK_INT(FILES_WITH(.links = -1), ==, -EINVAL);
    CHECK_INT(FILES_WITH(.links = 3), ==, -EINVAL);
    CHECK_INT(FILES_WITH(.max_age = -1), ==, -EINVAL);
    CHECK_INT(FILES_WITH(.index = ""), ==, -EINVAL);
    CHECK_INT(FILES_WITH(.index = "a/b"), ==, -EINVAL);
    CHECK_INT(FILES_WITH(.index = ".."), ==, -EINVAL);
    CHECK_INT(FILES_WITH(.max_age = INT64_MAX, .index = ".index"), ==, 0);
    CHECK_INT(FILES("/x/", site), ==, -EEXIST);
    CHECK_INT(weft_http_files(h, "/y/", site, &(weft_files_opts){.size = 7}), ==, -EINVAL);
    CHECK_INT(weft_http_files(h, "/y/", site, &(weft_files_opts){.size = 0}), ==, 0);
    CHECK_INT(FILES("/", site), ==, 0);
    CHECK_INT(FILES("/a b/", site), ==, 0);
}

TEST(a_folder_that_cannot_be_served_says_why_and_leaves_nothing_open)
{
    struct ground g;
    weft_http *h;
    ground_begin(&g);
    int before = descriptors();
    CHECK_INT(weft_http_new(&h, NULL), ==, 0);
    check_files(h, &g);
    CHECK_INT(weft_http_free(h), ==, 0);
    CHECK_INT(descriptors(), ==, before);
    ground_end(&g);
}

static void check_unreadable(void *arg)
{
    struct ground g;
    weft_http *h;
    (void)arg;
    if (geteuid() == 0 && (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0))
        test_failed(__FILE__, __LINE__, "%s", strerror(errno));
    prctl(PR_SET_DUMPABLE, 1); /* for the sanitizers */
    ground_begin(&g);
    CHECK_INT(mkdirat(g.fd, "closed", 0), ==, 0);
    make_folder(&g, "open");
    CHECK_INT(weft_http_new(&h, NULL), ==, 0);
    CHECK_INT(FILES("/", absolute(&g, "site/closed/in")), ==, -EACCES);
    CHECK_INT(FILES("/", absolute(&g, "site/open")), ==, 0);
    CHECK_INT(weft_http_free(h), ==, 0);
    CHECK_INT(unlinkat(g.fd, "closed", AT_REMOVEDIR), ==, 0);
    ground_end(&g);
}

/* Root may open everything: a child becomes another user. */
TEST(a_folder_that_may_not_be_reached_is_eacces)
{
    CHECK_CHILD(check_unreadable, NULL, 0, NULL);
}

TESTS(api_setup, options_out_of_range_are_einval, options_at_their_bounds_are_taken,
      a_server_with_limits_as_large_as_their_types_serves, the_field_server_is_any_valid_value_of_at_most_256_bytes,
      options_of_other_versions_are_read_by_their_size, malformed_patterns_and_missing_arguments_are_einval,
      the_same_route_twice_is_eexist, a_server_that_serves_is_ebusy,
      a_folder_that_cannot_be_served_says_why_and_leaves_nothing_open, a_folder_that_may_not_be_reached_is_eacces)
