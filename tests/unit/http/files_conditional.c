/*
 * Conditional requests, ranges and twins over HTTP: the answers' status and fields, and the order in which conditions count
 * (RFC 9110, section 13.2.2).
 */
#include "http/exchange.h"
#include "unit/http/files_served.h"

enum { DIGITS = 100 };

#define MODIFIED "Sun, 06 Nov 1994 08:49:37 GMT"
#define BEFORE "Sun, 06 Nov 1994 08:49:36 GMT"
#define AFTER "Sun, 06 Nov 1994 08:49:38 GMT"

static void make_file(struct ground *g)
{
    char text[DIGITS + 1];
    for (int i = 0; i < DIGITS; i++)
        text[i] = (char)('0' + i % 10);
    text[DIGITS] = '\0';
    make_text(g, "file", text);
    set_modified(g, "file", 784111777);
}

/* The entity tag of a file, as an answer has it. */
static void read_etag(const struct site *site, const char *fields, char etag[80])
{
    struct answer a;
    CHECK_PTR(site_ask(site, "GET", "/file", fields, &a), ==, NULL);
    snprintf(etag, 80, "%s", answer_field(&a, "ETag"));
    answer_free(&a);
}

/* ---- ranges ---- */

static const struct range {
    const char *value;
    int status;
    const char *said; /* Content-Range; NULL: there is none */
    const char *body; /* NULL: the whole file, or any for 416 */
} ranges[] = {
    {"bytes=0-0", 206, "bytes 0-0/100", "0"},
    {"bytes=0-4", 206, "bytes 0-4/100", "01234"},
    {"bytes=13-17", 206, "bytes 13-17/100", "34567"},
    {"bytes=95-", 206, "bytes 95-99/100", "56789"},
    {"bytes=95-99", 206, "bytes 95-99/100", "56789"},
    {"bytes=95-1000", 206, "bytes 95-99/100", "56789"},
    {"bytes=99-99999999999999999999999", 206, "bytes 99-99/100", "9"},
    {"bytes=-3", 206, "bytes 97-99/100", "789"},
    {"bytes=-100", 206, "bytes 0-99/100", NULL},
    {"bytes=-1000", 206, "bytes 0-99/100", NULL},
    {"bytes=0-", 206, "bytes 0-99/100", NULL},
    {"Bytes=0-0", 206, "bytes 0-0/100", "0"},
    {"bytes=100-", 416, "bytes */100", NULL},
    {"bytes=100-200", 416, "bytes */100", NULL},
    {"bytes=99999999999999999999999-", 416, "bytes */100", NULL},
    {"bytes=-0", 416, "bytes */100", NULL},
    {"bytes=0-1,3-4", 200, NULL, NULL},
    {"bytes=0-1, -1", 200, NULL, NULL},
    {"bytes=5-4", 200, NULL, NULL},
    {"bytes=", 200, NULL, NULL},
    {"bytes=-", 200, NULL, NULL},
    {"bytes=a-b", 200, NULL, NULL},
    {"bytes=0x1-2", 200, NULL, NULL},
    {"bytes=+1-2", 200, NULL, NULL},
    {"bytes=1 - 2", 200, NULL, NULL},
    {"bytes 0-1", 200, NULL, NULL},
    {"lines=0-1", 200, NULL, NULL},
    {"0-1", 200, NULL, NULL},
    {"", 200, NULL, NULL},
};

static void check_range(const struct site *site, const struct range *r)
{
    struct answer a;
    char fields[120];
    snprintf(fields, sizeof fields, "Range: %s\r\n", r->value);
    CHECK_PTR(site_ask(site, "GET", "/file", fields, &a), ==, NULL);
    const char *said = answer_field(&a, "Content-Range");
    if (a.status != r->status || (said == NULL) != (r->said == NULL) || (said && strcmp(said, r->said) != 0))
        test_failed(__FILE__, __LINE__, "%s: %d, %s", r->value, a.status, said ? said : "(none)");
    if (r->body)
        CHECK_STR(a.body, r->body);
    else if (r->status != 416)
        CHECK_INT(a.size, ==, DIGITS);
    answer_free(&a);
}

TEST(one_range_is_206_one_outside_is_416_and_others_are_ignored)
{
    struct site site;
    site_begin(&site, make_file, NULL, 0);
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        check_range(&site, &ranges[i]);
    GIVES_WITH(&site, "/file", "Range: bytes=0-1\r\nRange: bytes=0-1\r\n", 200, NULL);
    site_end(&site);
}

TEST(a_range_has_the_validators_of_the_file_and_head_ignores_it)
{
    struct site site;
    char etag[80];
    site_begin(&site, make_file, NULL, 0);
    read_etag(&site, "", etag);
    SAYS(&site, "GET", "/file", "Range: bytes=1-2\r\n", "ETag", etag);
    SAYS(&site, "GET", "/file", "Range: bytes=1-2\r\n", "Last-Modified", MODIFIED);
    SAYS(&site, "GET", "/file", "Range: bytes=1-2\r\n", "Content-Length", "2");
    SAYS(&site, "HEAD", "/file", "Range: bytes=1-2\r\n", "Content-Length", "100");
    SAYS(&site, "HEAD", "/file", "Range: bytes=1-2\r\n", "Content-Range", NULL);
    SAYS(&site, "GET", "/file", "Range: bytes=1-2\r\n", "Content-Type", "application/octet-stream");
    site_end(&site);
}

/* Asks with one field whose value has the entity tag in it: %s. */
static void check_tagged(const struct site *site, const char *format, const char *etag, int status, int line)
{
    char fields[400];
    snprintf(fields, sizeof fields, format, etag, etag);
    check_gives(site, "/file", fields, status, NULL, line);
}
#define TAGGED(format, status) check_tagged(&site, format "\r\n", etag, status, __LINE__)

TEST(if_range_takes_the_strong_tag_or_the_exact_date)
{
    struct site site;
    char etag[80];
    site_begin(&site, make_file, NULL, 0);
    read_etag(&site, "", etag);
    TAGGED("Range: bytes=0-0\r\nIf-Range: %s", 206);
    TAGGED("Range: bytes=0-0\r\nIf-Range: W/%s", 200);
    TAGGED("Range: bytes=0-0\r\nIf-Range: \"other\"", 200);
    TAGGED("Range: bytes=0-0\r\nIf-Range: %s, %s", 200);
    TAGGED("Range: bytes=0-0\r\nIf-Range: " MODIFIED, 206);
    TAGGED("Range: bytes=0-0\r\nIf-Range: " AFTER, 200);
    TAGGED("Range: bytes=0-0\r\nIf-Range: " BEFORE, 200);
    TAGGED("Range: bytes=0-0\r\nIf-Range: yesterday", 200);
    TAGGED("Range: bytes=100-\r\nIf-Range: \"other\"", 200);
    TAGGED("If-Range: %s", 200);
    site_end(&site);
}

/* ---- conditions ---- */

TEST(if_none_match_and_if_modified_since_give_304)
{
    struct site site;
    char etag[80];
    site_begin(&site, make_file, NULL, 0);
    read_etag(&site, "", etag);
    TAGGED("If-None-Match: %s", 304);
    TAGGED("If-None-Match: W/%s", 304);
    TAGGED("If-None-Match: \"a\", W/\"b\" ,, %s", 304);
    TAGGED("If-None-Match: \"a\"\r\nIf-None-Match: %s", 304);
    TAGGED("If-None-Match: *", 304);
    TAGGED("If-None-Match: \"a\"", 200);
    TAGGED("If-None-Match: ", 200);
    TAGGED("If-Modified-Since: " MODIFIED, 304);
    TAGGED("If-Modified-Since: " AFTER, 304);
    TAGGED("If-Modified-Since: " BEFORE, 200);
    TAGGED("If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT", 304);
    TAGGED("If-Modified-Since: Sun Nov  6 08:49:37 1994", 304);
    TAGGED("If-Modified-Since: Sun Nov  6 08:49:36 1994", 200);
    TAGGED("If-Modified-Since: 1994-11-06", 200);
    TAGGED("If-Modified-Since: " MODIFIED "\r\nIf-Modified-Since: " MODIFIED, 200);
    SAYS(&site, "GET", "/file", "If-None-Match: *\r\n", "ETag", etag);
    SAYS(&site, "GET", "/file", "If-None-Match: *\r\n", "Vary", "Accept-Encoding");
    SAYS(&site, "GET", "/file", "If-None-Match: *\r\n", "Content-Length", NULL);
    SAYS(&site, "HEAD", "/file", "If-None-Match: *\r\n", "ETag", etag);
    site_end(&site);
}

TEST(if_match_and_if_unmodified_since_give_412)
{
    struct site site;
    char etag[80];
    site_begin(&site, make_file, NULL, 0);
    read_etag(&site, "", etag);
    TAGGED("If-Match: %s", 200);
    TAGGED("If-Match: *", 200);
    TAGGED("If-Match: \"a\", %s", 200);
    TAGGED("If-Match: W/%s", 412);
    TAGGED("If-Match: \"a\"", 412);
    TAGGED("If-Match: ", 412);
    TAGGED("If-Unmodified-Since: " MODIFIED, 200);
    TAGGED("If-Unmodified-Since: " AFTER, 200);
    TAGGED("If-Unmodified-Since: " BEFORE, 412);
    TAGGED("If-Unmodified-Since: Sunday, 06-Nov-94 08:49:36 GMT", 412);
    TAGGED("If-Unmodified-Since: before lunch", 200);
    site_end(&site);
}

TEST(conditions_count_in_the_order_of_rfc_9110)
{
    struct site site;
    char etag[80];
    site_begin(&site, make_file, NULL, 0);
    read_etag(&site, "", etag);
    /* If-Match overrules If-Unmodified-Since, and If-None-Match overrules If-Modified-Since. */
    TAGGED("If-Match: %s\r\nIf-Unmodified-Since: " BEFORE, 200);
    TAGGED("If-Unmodified-Since: " AFTER "\r\nIf-Match: \"a\"", 412);
    TAGGED("If-None-Match: \"a\"\r\nIf-Modified-Since: " AFTER, 200);
    TAGGED("If-Modified-Since: " BEFORE "\r\nIf-None-Match: %s", 304);
    /* 412 before 304, and both before ranges. */
    TAGGED("If-None-Match: *\r\nIf-Match: \"a\"", 412);
    TAGGED("If-Modified-Since: " AFTER "\r\nIf-Unmodified-Since: " BEFORE, 412);
    TAGGED("If-Match: %s\r\nIf-None-Match: %s", 304);
    TAGGED("Range: bytes=0-0\r\nIf-Match: \"a\"", 412);
    TAGGED("Range: bytes=0-0\r\nIf-None-Match: %s", 304);
    TAGGED("Range: bytes=100-\r\nIf-None-Match: %s", 304);
    TAGGED("Range: bytes=0-0\r\nIf-None-Match: \"a\"", 206);
    TAGGED("Range: bytes=100-\r\nIf-Match: %s", 416);
    site_end(&site);
}

TEST(a_change_gives_another_tag_and_304_has_no_body_on_a_kept_connection)
{
    struct site site;
    struct client c;
    char etag[80], request[300];
    site_begin(&site, make_file, NULL, 0);
    read_etag(&site, "", etag);
    snprintf(request, sizeof request, "GET /file HTTP/1.1\r\nHost: a\r\nIf-None-Match: %s\r\n\r\n", etag);
    client_open(&c, site.s.port);
    client_say(&c, request);
    client_expect_body(&c, 304, "");
    make_text(&site.g, "file", "other");
    client_say(&c, request);
    client_expect_body(&c, 200, "other");
    set_modified(&site.g, "file", 784111777);
    client_say(&c, request);
    client_expect_body(&c, 200, "other");
    client_close(&c);
    site_end(&site);
}

/* ---- twins ---- */

static void make_twins(struct ground *g)
{
    make_text(g, "file", "plain");
    make_text(g, "file.gz", "twin");
    make_text(g, "old", "plain");
    make_text(g, "old.gz", "twin");
    set_modified(g, "file", 1000000000);
    set_modified(g, "file.gz", 1000000000);
    set_modified(g, "old", 1000000001);
    set_modified(g, "old.gz", 1000000000);
    make_text(g, "lone.gz", "twin");
    make_text(g, "folder_twin", "plain");
    make_folder(g, "folder_twin.gz");
    make_text(g, "linked", "plain");
    make_link(g, "../secret", "linked.gz");
    make_text(g, "index.html", "plain");
    make_text(g, "index.html.gz", "twin");
}

TEST(a_twin_goes_to_clients_that_take_gzip)
{
    static const struct {
        const char *accepts;
        bool twin;
    } clients[] = {
        {"gzip", true},          {"deflate, gzip;q=0.5, br", true},
        {"x-gzip", true},        {"*", true},
        {"GZIP;q=0.001", true},  {"gzip;q=0", false},
        {"gzip;q=0.000", false}, {"*;q=0", false},
        {"gzip;q=0, *", false},  {"identity", false},
        {"br", false},           {"", false},
        {"gzipped", false},      {"gzip;q=0.5, identity;q=0.8", false},
        {"gzip;q=2", false},     {"identity;q=0, gzip", true},
    };
    struct site site;
    site_begin(&site, make_twins, NULL, 0);
    GIVES(&site, "/file", 200, "plain");
    for (size_t i = 0; i < sizeof clients / sizeof *clients; i++) {
        char fields[100];
        snprintf(fields, sizeof fields, "Accept-Encoding: %s\r\n", clients[i].accepts);
        GIVES_WITH(&site, "/file", fields, 200, clients[i].twin ? "twin" : "plain");
        SAYS(&site, "GET", "/file", fields, "Content-Encoding", clients[i].twin ? "gzip" : NULL);
        SAYS(&site, "GET", "/file", fields, "Vary", "Accept-Encoding");
    }
    GIVES_WITH(&site, "/file", "Accept-Encoding: br\r\nAccept-Encoding: gzip\r\n", 200, "twin");
    GIVES_WITH(&site, "/", "Accept-Encoding: gzip\r\n", 200, "twin");
    SAYS(&site, "GET", "/", "Accept-Encoding: gzip\r\n", "Content-Type", "text/html; charset=utf-8");
    SAYS(&site, "HEAD", "/file", "Accept-Encoding: gzip\r\n", "Content-Encoding", "gzip");
    SAYS(&site, "HEAD", "/file", "Accept-Encoding: gzip\r\n", "Content-Length", "4");
    site_end(&site);
}

TEST(a_twin_that_is_older_or_no_file_or_elsewhere_is_left_out)
{
    for (int way = 0; way < SITE_WAYS; way++) {
        struct site site;
        site_begin(&site, make_twins, NULL, way);
        GIVES_WITH(&site, "/old", "Accept-Encoding: gzip\r\n", 200, "plain");
        GIVES_WITH(&site, "/folder_twin", "Accept-Encoding: gzip\r\n", 200, "plain");
        GIVES_WITH(&site, "/linked", "Accept-Encoding: gzip\r\n", 200, "plain");
        GIVES_WITH(&site, "/lone", "Accept-Encoding: gzip\r\n", 404, NULL);
        GIVES_WITH(&site, "/lone.gz", "Accept-Encoding: gzip\r\n", 200, "twin");
        SAYS(&site, "GET", "/lone.gz", "Accept-Encoding: gzip\r\n", "Content-Encoding", NULL);
        SAYS(&site, "GET", "/lone.gz", "Accept-Encoding: gzip\r\n", "Content-Type", "application/gzip");
        site_end(&site);
    }
}

TEST(a_twin_has_a_tag_of_its_own)
{
    struct site site;
    char etag[80], twin[80], fields[300];
    site_begin(&site, make_twins, NULL, 0);
    read_etag(&site, "", etag);
    read_etag(&site, "Accept-Encoding: gzip\r\n", twin);
    CHECK(strcmp(etag, twin) != 0);
    snprintf(fields, sizeof fields, "If-None-Match: %s\r\n", twin);
    GIVES_WITH(&site, "/file", fields, 200, "plain");
    snprintf(fields, sizeof fields, "Accept-Encoding: gzip\r\nIf-None-Match: %s\r\n", twin);
    GIVES_WITH(&site, "/file", fields, 304, "");
    SAYS(&site, "GET", "/file", fields, "Content-Encoding", NULL);
    snprintf(fields, sizeof fields, "Accept-Encoding: gzip\r\nRange: bytes=1-2\r\nIf-Range: %s\r\n", etag);
    GIVES_WITH(&site, "/file", fields, 200, "twin");
    snprintf(fields, sizeof fields, "Accept-Encoding: gzip\r\nRange: bytes=1-2\r\nIf-Range: %s\r\n", twin);
    GIVES_WITH(&site, "/file", fields, 206, "wi");
    SAYS(&site, "GET", "/file", fields, "Content-Encoding", "gzip");
    site_end(&site);
}

/* The same bytes under both names are two representations still. */
TEST(a_twin_that_is_the_same_file_has_another_tag)
{
    struct site site;
    char etag[80], twin[80];
    site_begin(&site, make_file, NULL, 0);
    CHECK_INT(linkat(site.g.fd, "file", site.g.fd, "file.gz", 0), ==, 0);
    read_etag(&site, "", etag);
    read_etag(&site, "Accept-Encoding: gzip\r\n", twin);
    CHECK(strcmp(etag, twin) != 0);
    site_end(&site);
}

static int counts_memory(weft_exchange *x, void *arg)
{
    int rc = weft_http_next(x);
    for (const struct wh_extra *e = x->extra; e; e = e->next)
        ++*(int *)arg;
    return rc;
}

TEST(many_fields_of_a_list_are_joined_once)
{
    struct site site;
    struct answer a;
    char fields[8000] = "";
    int count = 0;
    for (int i = 0; i < 90; i++)
        strcat(fields, "If-None-Match: \"0123456789012345678901234567890123456789\"\r\n");
    strcat(fields, "If-None-Match: *\r\n");
    ground_begin(&site.g);
    make_file(&site.g);
    served_make(&site.s, NULL, NULL);
    CHECK_INT(weft_http_files(site.s.h, "/", absolute(&site.g, "site"), NULL), ==, 0);
    CHECK_INT(weft_http_use(site.s.h, counts_memory, &count), ==, 0);
    served_start(&site.s, 1);
    CHECK_PTR(site_ask(&site, "GET", "/file", fields, &a), ==, NULL);
    CHECK_INT(a.status, ==, 200);
    answer_free(&a);
    CHECK_INT(count, ==, 1);
    site_end(&site);
}

TESTS(files_conditional, many_fields_of_a_list_are_joined_once,
      one_range_is_206_one_outside_is_416_and_others_are_ignored,
      a_range_has_the_validators_of_the_file_and_head_ignores_it, if_range_takes_the_strong_tag_or_the_exact_date,
      if_none_match_and_if_modified_since_give_304, if_match_and_if_unmodified_since_give_412,
      conditions_count_in_the_order_of_rfc_9110, a_change_gives_another_tag_and_304_has_no_body_on_a_kept_connection,
      a_twin_goes_to_clients_that_take_gzip, a_twin_that_is_older_or_no_file_or_elsewhere_is_left_out,
      a_twin_has_a_tag_of_its_own, a_twin_that_is_the_same_file_has_another_tag)
