/*
 * Files over HTTP: what an answer says about a file, methods, indexes, redirects to folders, hidden files, and what is not
 * served: other kinds of files, and those that may not be read.
 */
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include "unit/http/files_served.h"

static void make_plain(struct ground *g)
{
    make_text(g, "file.txt", "text");
    make_text(g, "empty.css", "");
    make_text(g, "none", "?");
    make_text(g, "index.html", "<p>index");
    make_text(g, ".hidden", "hidden");
    make_folder(g, ".git");
    make_text(g, ".git/config", "config");
    make_folder(g, "a");
    make_text(g, "a/index.html", "<p>a");
    make_text(g, "a/.b", "hidden");
    make_folder(g, "bare");
    make_text(g, "bare/other.html", "<p>other");
    make_folder(g, "odd");
    make_folder(g, "odd/index.html");
    set_modified(g, "file.txt", 784111777);
}

TEST(a_file_has_its_type_length_and_validators)
{
    struct site site;
    struct answer a;
    site_begin(&site, make_plain, NULL, 0);
    CHECK_PTR(site_ask(&site, "GET", "/file.txt", "", &a), ==, NULL);
    CHECK_INT(a.status, ==, 200);
    CHECK_STR(a.body, "text");
    CHECK_STR(answer_field(&a, "Content-Type"), "text/plain; charset=utf-8");
    CHECK_STR(answer_field(&a, "Content-Length"), "4");
    CHECK_STR(answer_field(&a, "Last-Modified"), "Sun, 06 Nov 1994 08:49:37 GMT");
    CHECK_STR(answer_field(&a, "Accept-Ranges"), "bytes");
    CHECK_STR(answer_field(&a, "Vary"), "Accept-Encoding");
    const char *etag = answer_field(&a, "ETag");
    CHECK(etag && etag[0] == '"' && strlen(etag) > 10 && etag[strlen(etag) - 1] == '"');
    CHECK_PTR(answer_field(&a, "Cache-Control"), ==, NULL);
    CHECK_PTR(answer_field(&a, "Content-Encoding"), ==, NULL);
    answer_free(&a);
    SAYS(&site, "GET", "/none", "", "Content-Type", "application/octet-stream");
    SAYS(&site, "GET", "/a/", "", "Content-Type", "text/html; charset=utf-8");
    site_end(&site);
}

TEST(an_empty_file_is_an_empty_answer)
{
    struct site site;
    site_begin(&site, make_plain, NULL, 0);
    GIVES(&site, "/empty.css", 200, "");
    SAYS(&site, "GET", "/empty.css", "", "Content-Length", "0");
    SAYS(&site, "HEAD", "/empty.css", "", "Content-Length", "0");
    GIVES_WITH(&site, "/empty.css", "Range: bytes=0-\r\n", 416, NULL);
    SAYS(&site, "GET", "/empty.css", "Range: bytes=0-\r\n", "Content-Range", "bytes */0");
    GIVES_WITH(&site, "/empty.css", "Range: bytes=-5\r\n", 200, "");
    site_end(&site);
}

/* Every field of two answers, but for Date. */
static void check_same_fields(const struct answer *a, const struct answer *b)
{
    CHECK_INT(a->status, ==, b->status);
    CHECK_INT(a->count, ==, b->count);
    for (unsigned i = 0; i < a->count; i++) {
        const char *name = a->fields[i].name, *value = answer_field(b, name);
        if (strcmp(name, "Date") != 0)
            CHECK_STR(value ? value : name, a->fields[i].value);
    }
}

TEST(head_has_the_fields_of_get_and_no_body)
{
    static const char *const targets[] = {"/file.txt", "/empty.css", "/a", "/a/", "/nothing", "/large"};
    struct site site;
    site_begin(&site, make_plain, NULL, 0);
    make_text(&site.g, "large", "");
    CHECK_INT(truncate(absolute(&site.g, "site/large"), 100000), ==, 0);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        struct answer get, head;
        CHECK_PTR(site_ask(&site, "GET", targets[i], "", &get), ==, NULL);
        CHECK_PTR(site_ask(&site, "HEAD", targets[i], "", &head), ==, NULL);
        check_same_fields(&get, &head);
        CHECK_INT(head.size, ==, 0);
        answer_free(&get);
        answer_free(&head);
    }
    site_end(&site);
}

TEST(a_connection_is_kept_over_heads_and_files_of_all_sizes)
{
    struct site site;
    struct client c;
    struct answer a;
    site_begin(&site, make_plain, NULL, 0);
    make_text(&site.g, "large", "");
    CHECK_INT(truncate(absolute(&site.g, "site/large"), 100000), ==, 0);
    client_open(&c, site.s.port);
    client_say(&c, "HEAD /large HTTP/1.1\r\nHost: a\r\n\r\nGET /large HTTP/1.1\r\nHost: a\r\n\r\n"
                   "GET /empty.css HTTP/1.1\r\nHost: a\r\n\r\nGET /file.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK_PTR(client_answer(&c, &a, true), ==, NULL);
    CHECK_STR(answer_field(&a, "Content-Length"), "100000");
    answer_free(&a);
    CHECK_PTR(client_answer(&c, &a, false), ==, NULL);
    CHECK_INT(a.size, ==, 100000);
    answer_free(&a);
    client_expect_body(&c, 200, "");
    client_expect_body(&c, 200, "text");
    client_close(&c);
    site_end(&site);
}

TEST(other_methods_are_405_with_allow)
{
    static const char *const methods[] = {"POST", "PUT", "PATCH", "DELETE", "TRACE"};
    struct site site;
    site_begin(&site, make_plain, NULL, 0);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        struct answer a;
        CHECK_PTR(site_ask(&site, methods[i], "/file.txt", "", &a), ==, NULL);
        CHECK_INT(a.status, ==, 405);
        CHECK_STR(answer_field(&a, "Allow"), "GET, HEAD, OPTIONS");
        answer_free(&a);
    }
    SAYS(&site, "OPTIONS", "/file.txt", "", "Allow", "GET, HEAD, OPTIONS");
    site_end(&site);
}

TEST(max_age_becomes_cache_control)
{
    struct site site;
    weft_files_opts opts = {.size = sizeof opts, .max_age = 3600 * WEFT_SEC};
    site_begin(&site, make_plain, &opts, 0);
    SAYS(&site, "GET", "/file.txt", "", "Cache-Control", "max-age=3600");
    SAYS(&site, "GET", "/file.txt", "If-None-Match: *\r\n", "Cache-Control", "max-age=3600");
    SAYS(&site, "GET", "/nothing", "", "Cache-Control", NULL);
    site_end(&site);
}

/* ---- folders ---- */

TEST(a_folder_answers_with_its_index)
{
    struct site site;
    site_begin(&site, make_plain, NULL, 0);
    GIVES(&site, "/", 200, "<p>index");
    GIVES(&site, "http://a", 200, "<p>index");
    GIVES(&site, "/?query", 200, "<p>index");
    GIVES(&site, "/a/", 200, "<p>a");
    GIVES(&site, "/bare/", 404, NULL);
    GIVES(&site, "/odd/", 404, NULL);
    GIVES(&site, "/nothing/", 404, NULL);
    GIVES(&site, "/file.txt/", 404, NULL);
    site_end(&site);
}

TEST(the_index_may_have_another_name)
{
    struct site site;
    weft_files_opts opts = {.size = sizeof opts, .index = "other.html"};
    site_begin(&site, make_plain, &opts, 0);
    GIVES(&site, "/bare/", 200, "<p>other");
    GIVES(&site, "/a/", 404, NULL);
    site_end(&site);
}

TEST(a_folder_without_its_slash_redirects_on_this_host)
{
    static const struct {
        const char *target, *location;
    } redirects[] = {
        {"/a", "/a/"},
        {"/a?x=1&y=%2F", "/a/?x=1&y=%2F"},
        {"/a?", "/a/?"},
        {"/%61", "/%61/"},
        {"/bare", "/bare/"},
        {"http://evil/a", "/a/"},
        {"/odd/index.html", "/odd/index.html/"},
    };
    struct site site;
    site_begin(&site, make_plain, NULL, 0);
    for (size_t i = 0; i < sizeof redirects / sizeof *redirects; i++) {
        GIVES(&site, redirects[i].target, 301, "");
        SAYS(&site, "GET", redirects[i].target, "", "Location", redirects[i].location);
    }
    site_end(&site);
}

/* Browsers read "//evil" and "/\evil" as another server. */
TEST(a_redirect_never_leads_to_another_host)
{
    static const char *const targets[] = {"//a",    "//a/..",      "///a",     "//evil/a",  "/%2fa",      "/%5ca",
                                          "/%09/a", "http://a//a", "//a%2f..", "//a?b=//c", "//evil.a//a"};
    for (int way = 0; way < SITE_WAYS; way++) {
        struct site site;
        site_begin(&site, make_plain, NULL, way);
        make_folder(&site.g, "\\a");
        for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
            struct answer a;
            CHECK_PTR(site_ask(&site, "GET", targets[i], "", &a), ==, NULL);
            const char *to = answer_field(&a, "Location");
            CHECK(!to || (to[0] == '/' && to[1] != '/' && to[1] != '\\'));
            answer_free(&a);
        }
        site_end(&site);
    }
}

TEST(folders_have_prefixes_of_their_own_and_routes_go_first)
{
    struct site site;
    ground_begin(&site.g);
    make_plain(&site.g);
    served_make(&site.s, NULL, (struct served_route[]){{"GET /s/file.txt", says_hello, NULL}, {0}});
    CHECK_INT(weft_http_files(site.s.h, "/s/", absolute(&site.g, "site"), NULL), ==, 0);
    weft_files_opts lists = {.size = sizeof lists, .list = true};
    CHECK_INT(weft_http_files(site.s.h, "/s/bare/", absolute(&site.g, "site/bare"), &lists), ==, 0);
    served_start(&site.s, 1);
    GIVES(&site, "/s/", 200, "<p>index");
    GIVES(&site, "/s/a/", 200, "<p>a");
    GIVES(&site, "/s/file.txt", 200, "hello\n");
    GIVES(&site, "/s/bare/other.html", 200, "<p>other");
    GIVES(&site, "/s/bare/", 200, NULL);
    GIVES(&site, "/s/bare/../file.txt", 400, NULL);
    GIVES(&site, "/s/bare", 301, NULL);
    SAYS(&site, "GET", "/s/a?b", "", "Location", "/s/a/?b");
    GIVES(&site, "/s", 404, NULL);
    GIVES(&site, "/sa", 404, NULL);
    GIVES(&site, "/", 404, NULL);
    GIVES(&site, "/s//", 404, NULL);
    GIVES(&site, "//s/", 404, NULL);
    site_end(&site);
}

/* ---- what is not served ---- */

TEST(hidden_files_are_404_unless_asked_for)
{
    for (int hidden = 0; hidden < 2; hidden++) {
        struct site site;
        weft_files_opts opts = {.size = sizeof opts, .hidden = hidden};
        site_begin(&site, make_plain, &opts, 0);
        GIVES(&site, "/.hidden", hidden ? 200 : 404, hidden ? "hidden" : NULL);
        GIVES(&site, "/%2ehidden", hidden ? 200 : 404, NULL);
        GIVES(&site, "/a/.b", hidden ? 200 : 404, NULL);
        GIVES(&site, "/.git", hidden ? 301 : 404, NULL);
        GIVES(&site, "/.git/config", hidden ? 200 : 404, NULL);
        site_end(&site);
    }
}

static void make_kinds(struct ground *g)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    CHECK_INT(mkfifoat(g->fd, "fifo", 0666), ==, 0);
    make_link(g, "fifo", "to_fifo");
    make_folder(g, "of_fifo");
    CHECK_INT(mkfifoat(g->fd, "of_fifo/index.html", 0666), ==, 0);
    make_text(g, "file", "text");
    CHECK_INT(mkfifoat(g->fd, "file.gz", 0666), ==, 0);
    snprintf(name.sun_path, sizeof name.sun_path, "%.100s", absolute(g, "site/socket"));
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(bind(s, (struct sockaddr *)&name, sizeof name), ==, 0);
    close(s);
    if (mknodat(g->fd, "null", S_IFCHR | 0666, makedev(1, 3)) != 0) /* not root */
        CHECK_INT(mkfifoat(g->fd, "null", 0666), ==, 0);
}

TEST(fifos_sockets_and_devices_are_404_and_do_not_block)
{
    for (int way = 0; way < SITE_WAYS; way++) {
        struct site site;
        site_begin(&site, make_kinds, NULL, way);
        GIVES(&site, "/fifo", 404, NULL);
        GIVES(&site, "/to_fifo", 404, NULL);
        GIVES(&site, "/of_fifo/", 404, NULL);
        GIVES(&site, "/socket", 404, NULL);
        GIVES(&site, "/null", 404, NULL);
        GIVES(&site, "/fifo/", 404, NULL);
        GIVES_WITH(&site, "/file", "Accept-Encoding: gzip\r\n", 200, "text");
        site_end(&site);
    }
}

static void check_unreadable(void *arg)
{
    struct site site;
    (void)arg;
    if (geteuid() == 0 && (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0))
        test_failed(__FILE__, __LINE__, "%s", strerror(errno));
    prctl(PR_SET_DUMPABLE, 1); /* else this process, as another user, could not open its own /proc/self */
    site_begin(&site, make_plain, NULL, 0);
    CHECK_INT(fchmodat(site.g.fd, "file.txt", 0, 0), ==, 0);
    CHECK_INT(fchmodat(site.g.fd, "a", 0, 0), ==, 0);
    GIVES(&site, "/file.txt", 403, NULL);
    GIVES(&site, "/a/", 403, NULL);
    GIVES(&site, "/a/nothing", 403, NULL);
    CHECK_INT(fchmodat(site.g.fd, "a", 0755, 0), ==, 0);
    site_end(&site);
}

/* Root may read everything: a child becomes another user. */
TEST(a_file_that_this_user_may_not_read_is_403)
{
    CHECK_CHILD(check_unreadable, NULL, 0, NULL);
}

TEST(a_folder_that_is_removed_meanwhile_has_no_files)
{
    for (int way = 0; way < SITE_WAYS; way++) {
        struct site site;
        site_begin(&site, NULL, NULL, way);
        make_text(&site.g, "file", "text");
        GIVES(&site, "/file", 200, "text");
        CHECK_INT(unlinkat(site.g.fd, "file", 0), ==, 0);
        CHECK_INT(rmdir(absolute(&site.g, "site")), ==, 0);
        GIVES(&site, "/file", 404, NULL);
        GIVES(&site, "/", 404, NULL);
        site_end(&site);
    }
}

/* The next descriptor that is opened is this one. */
static rlim_t lowest_descriptor(void)
{
    int fd = dup(STDOUT_FILENO);
    close(fd);
    return (rlim_t)fd;
}

TEST(without_descriptors_a_file_is_503_and_is_served_later)
{
    for (int way = 0; way < SITE_WAYS; way++) {
        struct site site;
        struct client c;
        struct rlimit all, few;
        site_begin(&site, make_plain, NULL, way);
        client_open(&c, site.s.port);
        client_say(&c, "GET /file.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        client_expect_body(&c, 200, "text");
        client_say(&c,
                   "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"); /* before it answers this, the server closes the file */
        client_expect(&c, 204);
        CHECK_INT(getrlimit(RLIMIT_NOFILE, &all), ==, 0);
        few = (struct rlimit){lowest_descriptor(), all.rlim_max};
        CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), ==, 0);
        client_say(&c, "GET /file.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        client_expect_body(&c, 503, NULL);
        CHECK_INT(setrlimit(RLIMIT_NOFILE, &all), ==, 0);
        client_say(&c, "GET /file.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        client_expect_body(&c, 200, "text");
        client_close(&c);
        site_end(&site);
    }
}

/* The first test forks: ThreadSanitizer lets no child of a program with threads have threads. */
TESTS(files_get, a_file_that_this_user_may_not_read_is_403, a_file_has_its_type_length_and_validators,
      an_empty_file_is_an_empty_answer, head_has_the_fields_of_get_and_no_body,
      a_connection_is_kept_over_heads_and_files_of_all_sizes, other_methods_are_405_with_allow,
      max_age_becomes_cache_control, a_folder_answers_with_its_index, the_index_may_have_another_name,
      a_folder_without_its_slash_redirects_on_this_host, a_redirect_never_leads_to_another_host,
      hidden_files_are_404_unless_asked_for, fifos_sockets_and_devices_are_404_and_do_not_block,
      a_folder_that_is_removed_meanwhile_has_no_files, folders_have_prefixes_of_their_own_and_routes_go_first,
      without_descriptors_a_file_is_503_and_is_served_later)
