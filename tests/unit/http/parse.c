/*
 * The parser of heads: request lines, targets, limits, and heads that come in parts. Fields are in parse_fields.c.
 */
#include <stdio.h>

#include "heads.h"

#define H "Host: a\r\n"

TEST(a_head_is_places_in_the_buffer)
{
    struct parsed p;
    ACCEPT(p, "GET /a/b?x=1&y HTTP/1.1\r\nHost: example.org:8080\r\nX-Empty:\r\naccept: \t text/html, */* \t\r\n\r\n");
    CHECK_STR(text_of(&p, p.head.method_text), "GET");
    CHECK_STR(text_of(&p, p.head.target), "/a/b?x=1&y");
    CHECK_STR(text_of(&p, p.head.path), "/a/b");
    CHECK(p.head.has_query);
    CHECK_STR(text_of(&p, p.head.query), "x=1&y");
    CHECK_STR(text_of(&p, p.head.host), "example.org:8080");
    CHECK_INT(p.head.method, ==, WH_GET);
    CHECK_INT(p.head.form, ==, WH_ORIGIN_FORM);
    CHECK_INT(p.head.minor, ==, 1);
    CHECK_INT(p.head.count, ==, 3);
    CHECK_STR(text_of(&p, p.fields[1].name), "X-Empty");
    CHECK_STR(text_of(&p, p.fields[1].value), "");
    CHECK_STR(text_of(&p, p.fields[2].name), "accept");
    CHECK_STR(text_of(&p, p.fields[2].value), "text/html, */*");
    CHECK(p.head.keeps_alive && !p.head.is_chunked && !p.head.has_length && !p.head.has_percent && !p.head.has_dot);
}

TEST(bytes_behind_a_head_are_not_read)
{
    struct parsed p;
    const char text[] = "GET / HTTP/1.1\r\n" H "\r\n\0\n\xff";
    parsed_init(&p, 1000, HEAD_FIELDS);
    CHECK_INT(parse_part(&p, text, sizeof text - 1), ==, sizeof text - 1 - 3);
}

TEST(methods_are_tokens_of_up_to_32_bytes)
{
    static const struct row rows[] = {
        ROW(WHOLE, "BREW / HTTP/1.1\r\n" H "\r\n"),
        ROW(WHOLE, "get / HTTP/1.1\r\n" H "\r\n"),
        ROW(WHOLE, "!#$%&'*+-.^_`|~09azAZ / HTTP/1.1\r\n" H "\r\n"),
        ROW(WHOLE, "A2345678901234567890123456789012 / HTTP/1.1\r\n" H "\r\n"),
        ROW(-501, "A23456789012345678901234567890123 / HTTP/1.1\r\n" H "\r\n"),
        ROW(-501, "A23456789012345678901234567890123"),
        ROW(-400, "A2345678901234567890123456789012( / HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, " / HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, " GET / HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "\tGET / HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GET\t/ HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GE(T / HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GET: / HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "G\0T / HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "G\xc3\x84T / HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "\x16\x03\x01\x02\x00\x01\x00"),
        ROW(-400, "GET\r\n"),
        ROW(-400, "GET\r\n\r\n"),
    };
    CHECK_ROWS(rows);
}

TEST(known_methods_have_numbers)
{
    static const struct {
        const char *text;
        int method;
    } rows[] = {
        {"GET", WH_GET},
        {"HEAD", WH_HEAD},
        {"POST", WH_POST},
        {"PUT", WH_PUT},
        {"DELETE", WH_DELETE},
        {"PATCH", WH_PATCH},
        {"OPTIONS", WH_OPTIONS},
        {"TRACE", WH_TRACE},
        {"GETS", WH_OTHER_METHOD},
        {"Get", WH_OTHER_METHOD},
        {"PROPFIND", WH_OTHER_METHOD},
        {"G", WH_OTHER_METHOD},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[64];
        struct parsed p;
        int size = snprintf(text, sizeof text, "%s / HTTP/1.1\r\n" H "\r\n", rows[i].text);
        CHECK(parse_bytes(&p, text, (size_t)size));
        CHECK_INT(p.rc, ==, size);
        CHECK_INT(p.head.method, ==, rows[i].method);
        CHECK_STR(text_of(&p, p.head.method_text), rows[i].text);
    }
}

TEST(versions_are_1_0_and_1_1)
{
    static const struct row rows[] = {
        ROW(WHOLE, "GET / HTTP/1.0\r\n\r\n"),
        ROW(WHOLE, "GET / HTTP/1.1\r\n" H "\r\n"),
        ROW(-505, "GET / HTTP/1.2\r\n" H "\r\n"),
        ROW(-505, "GET / HTTP/0.9\r\n" H "\r\n"),
        ROW(-505, "GET / HTTP/2.0\r\n" H "\r\n"),
        ROW(-505, "GET / HTTP/3.1\r\n" H "\r\n"),
        ROW(-505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        ROW(-400, "GET /\r\n"),
        ROW(-400, "GET / \r\n"),
        ROW(-400, "GET / http/1.1\r\n" H "\r\n"),
        ROW(-400, "GET / Http/1.1\r\n" H "\r\n"),
        ROW(-400, "GET / HTTP/1.10\r\n" H "\r\n"),
        ROW(-400, "GET / HTTP/01.1\r\n" H "\r\n"),
        ROW(-400, "GET / HTTP/11\r\n" H "\r\n"),
        ROW(-400, "GET / HTTP/1,1\r\n" H "\r\n"),
        ROW(-400, "GET / HTTP/1.\r\n" H "\r\n"),
        ROW(-400, "GET / HTTP/.1\r\n" H "\r\n"),
        ROW(-400, "GET / HTTP/1.x\r\n" H "\r\n"),
        ROW(-400, "GET / HTTP/-1.1\r\n" H "\r\n"),
        ROW(-400, "GET / HTTP1.1\r\n" H "\r\n"),
        ROW(-400, "GET / ICY/1.1\r\n" H "\r\n"),
        ROW(-400, "GET / HTTPS/1.1\r\n" H "\r\n"),
        ROW(-400, "GET /  HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GET / HTTP/ 1.1\r\n" H "\r\n"),
        ROW(-400, "GET / HTTP/1.1 \r\n" H "\r\n"),
        ROW(-400, "GET / HTTP/1.1\t\r\n" H "\r\n"),
        ROW(-400, "GET /\tHTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GET / HTTP/1.1 x\r\n" H "\r\n"),
        ROW(-400, "GET / a HTTP/1.1\r\n" H "\r\n"),
    };
    CHECK_ROWS(rows);
}

TEST(lines_end_with_cr_lf_alone)
{
    static const struct row rows[] = {
        ROW(-400, "GET / HTTP/1.1\n" H "\r\n"),
        ROW(-400, "GET / HTTP/1.0\n\n"),
        ROW(-400, "GET / HTTP/1.1\r" H "\r\n"),
        ROW(-400, "GET / HTTP/1.1\r\r\n" H "\r\n"),
        ROW(-400, "GET / HTTP/1.1\n\r" H "\r\n"),
        ROW(-400, "GET /a\nb HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GET /a\rb HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GET / HTTP/1.1\r\nHost: a\n\r\n"),
        ROW(-400, "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n"),
        ROW(-400, "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n"),
        ROW(-400, "GET / HTTP/1.1\r\n" H "X: a\nb: c\r\n\r\n"),
        ROW(-400, "GET / HTTP/1.1\r\n" H "X: a\rb: c\r\n\r\n"),
        ROW(-400, "GET / HTTP/1.1\r\n" H "\n"),
        ROW(-400, "GET / HTTP/1.1\r\n" H "\r\r\n"),
        ROW(-400, "GET / HTTP/1.1\r\n" H "\rX"),
    };
    CHECK_ROWS(rows);
}

TEST(one_empty_line_may_come_first)
{
    static const struct row rows[] = {
        ROW(WHOLE, "\r\nGET / HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "\nGET / HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "\rGET / HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "\r\n \r\n"),
        ROW(0, "\r\n"),
    };
    CHECK_ROWS(rows);
}

TEST(a_head_that_is_not_complete_needs_more)
{
    static const char text[] = "POST /a?b HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\n";
    for (size_t size = 0; size < sizeof text - 1; size++) {
        struct parsed p;
        CHECK(parse_bytes(&p, text, size));
        CHECK_INT(p.rc, ==, 0);
    }
}

TEST(targets_are_visible_ascii_without_some)
{
    static const char refused_in_path[] = "\"#<>\\", refused_in_query[] = "\"#<>";
    for (int byte = 0; byte < 256; byte++) {
        for (int in_query = 0; in_query < 2; in_query++) {
            /* The byte is once near the beginning and once behind a wide step. */
            for (int wide = 0; wide < 2; wide++) {
                char text[128];
                struct parsed p;
                int size = snprintf(text, sizeof text, "GET /%sab%s@c HTTP/1.1\r\n" H "\r\n", in_query ? "?" : "",
                                    wide ? "0123456789abcdefghijkl" : "");
                *strchr(text, '@') = (char)byte;
                bool is_visible = byte > 0x20 && byte < 0x7f;
                bool is_fine = is_visible && !strchr(in_query ? refused_in_query : refused_in_path, byte);
                CHECK(parse_bytes(&p, text, (size_t)size));
                if (p.rc != (is_fine ? size : -400))
                    test_failed(__FILE__, __LINE__, "byte %02x in %s: %d", byte, in_query ? "query" : "path", p.rc);
            }
        }
    }
}

TEST(a_percent_or_dot_in_the_query_does_not_mark_the_path)
{
    static const struct {
        const char *target;
        bool percent, dot;
    } rows[] = {
        {"/", false, false},
        {"/a.b", false, false},
        {"/.", false, true},
        {"/..", false, true},
        {"/a/../b", false, true},
        {"/a/b.c/d.e", false, false},
        {"/%2e", true, false},
        {"/a?b/../%41", false, false},
        {"/0123456789abcd.x", false, false},
        {"/0123456789abcdef/.x", false, true},
        {"/0123456789abc/../x", false, true},
        {"/0123456789abcd/../x", false, true},
        {"/0123456789abcde/./x", false, true},
        {"/0123456789abcdefghijklmnopqr%41", true, false},
        {"/0123456789abc?/../x%41", false, false},
        {"/a/0123456789?%/.", false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[128];
        struct parsed p;
        int size = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\n" H "\r\n", rows[i].target);
        CHECK(parse_bytes(&p, text, (size_t)size));
        CHECK_INT(p.rc, ==, size);
        CHECK_INT(p.head.has_percent, ==, rows[i].percent);
        CHECK_INT(p.head.has_dot, ==, rows[i].dot);
    }
}

TEST(an_empty_query_is_a_query)
{
    struct parsed p;
    ACCEPT(p, "GET /? HTTP/1.1\r\n" H "\r\n");
    CHECK(p.head.has_query);
    CHECK_INT(p.head.query.size, ==, 0);
    CHECK_STR(text_of(&p, p.head.path), "/");
    ACCEPT(p, "GET /a?b?c HTTP/1.1\r\n" H "\r\n");
    CHECK_STR(text_of(&p, p.head.query), "b?c");
}

TEST(an_absolute_form_names_the_host)
{
    struct parsed p;
    ACCEPT(p, "GET http://example.org:80/a?b HTTP/1.1\r\nHost: other\r\n\r\n");
    CHECK_INT(p.head.form, ==, WH_ABSOLUTE_FORM);
    CHECK_STR(text_of(&p, p.head.host), "example.org:80");
    CHECK_STR(text_of(&p, p.head.path), "/a");
    CHECK_STR(text_of(&p, p.head.query), "b");
    ACCEPT(p, "OPTIONS HTTP://[::1] HTTP/1.1\r\nHost:\r\n\r\n");
    CHECK_STR(text_of(&p, p.head.host), "[::1]");
    CHECK_INT(p.head.path.size, ==, 0);
    ACCEPT(p, "GET http://a?b HTTP/1.0\r\n\r\n");
    CHECK_INT(p.head.path.size, ==, 0);
    CHECK_STR(text_of(&p, p.head.query), "b");
    static const struct row rows[] = {
        ROW(-400, "GET http://a/ HTTP/1.1\r\n\r\n"),       /* Host must be there all the same */
        ROW(-421, "GET https://a/ HTTP/1.1\r\n" H "\r\n"), /* this connection is not secured */
        ROW(-421, "GET HTTPS://a:443 HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GET https:/// HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GET http://a/ HTTP/1.1\r\nHost: a b\r\n\r\n"),
        ROW(-400, "GET http:/// HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GET http:// HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GET http:/a HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GET http:a HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GET http HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GET http://u@a/ HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GET http://u:p@a/ HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GET http://a:b/ HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GET http://:80/ HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GET http://a:65536/ HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GET http://a%41/ HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GET http://?a HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GET ftp://a/ HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GET httpx://a/ HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GET //a/ http://a/ HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GET a HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GET ?a HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GET  HTTP/1.1\r\n" H "\r\n"),
        ROW(WHOLE, "GET //a/ HTTP/1.1\r\n" H "\r\n"), /* a path with an empty first segment */
    };
    CHECK_ROWS(rows);
}

TEST(other_forms_belong_to_their_methods)
{
    struct parsed p;
    ACCEPT(p, "OPTIONS * HTTP/1.1\r\nHost: a:1\r\n\r\n");
    CHECK_INT(p.head.form, ==, WH_ASTERISK_FORM);
    CHECK_STR(text_of(&p, p.head.path), "*");
    CHECK_STR(text_of(&p, p.head.host), "a:1");
    ACCEPT(p, "CONNECT example.org:443 HTTP/1.1\r\nHost: other\r\n\r\n");
    CHECK_INT(p.head.method, ==, WH_CONNECT);
    CHECK_INT(p.head.form, ==, WH_AUTHORITY_FORM);
    CHECK_STR(text_of(&p, p.head.host), "example.org:443");
    CHECK_INT(p.head.path.size, ==, 0);
    static const struct row rows[] = {
        ROW(WHOLE, "OPTIONS / HTTP/1.1\r\n" H "\r\n"),      ROW(-400, "GET * HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "OPTIONS *a HTTP/1.1\r\n" H "\r\n"),      ROW(-400, "OPTIONS *?a HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "options * HTTP/1.1\r\n" H "\r\n"),       ROW(WHOLE, "CONNECT [::1]:443 HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "GET a:443 HTTP/1.1\r\n" H "\r\n"),       ROW(-400, "CONNECT / HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "CONNECT * HTTP/1.1\r\n" H "\r\n"),       ROW(-400, "CONNECT a HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "CONNECT a: HTTP/1.1\r\n" H "\r\n"),      ROW(-400, "CONNECT a:0 HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "CONNECT a:65536 HTTP/1.1\r\n" H "\r\n"), ROW(-400, "CONNECT :443 HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "CONNECT u@a:443 HTTP/1.1\r\n" H "\r\n"), ROW(-400, "CONNECT a:443/ HTTP/1.1\r\n" H "\r\n"),
        ROW(-400, "CONNECT a:443? HTTP/1.1\r\n" H "\r\n"),  ROW(-400, "CONNECT http://a:443 HTTP/1.1\r\n" H "\r\n"),
    };
    CHECK_ROWS(rows);
}

TEST(a_head_beyond_its_bytes_is_431)
{
    static const char text[] = "GET / HTTP/1.1\r\n" H "X: 0123456789\r\n\r\n";
    const uint32_t size = sizeof text - 1;
    struct parsed p;
    CHECK(parse_within(&p, text, size, size, HEAD_FIELDS));
    CHECK_INT(p.rc, ==, size);
    for (uint32_t most = 16; most < size; most++) {
        CHECK(parse_within(&p, text, size, most, HEAD_FIELDS));
        CHECK_INT(p.rc, ==, -431);
    }
}

TEST(a_request_line_beyond_the_bytes_is_414)
{
    static const char text[] = "GET /0123456789012345678901234567890123456789 HTTP/1.1\r\n" H "\r\n";
    struct parsed p;
    for (uint32_t most = 1; most < sizeof text - 1 - 9 - 2; most++) {
        CHECK(parse_within(&p, text, sizeof text - 1, most, HEAD_FIELDS));
        CHECK_INT(p.rc, ==, -414);
    }
}

TEST(a_field_beyond_the_count_is_431)
{
    static const char text[] = "GET / HTTP/1.1\r\n" H "A: 1\r\nB: 2\r\n\r\n";
    struct parsed p;
    CHECK(parse_within(&p, text, sizeof text - 1, 1000, 3));
    CHECK_INT(p.rc, ==, sizeof text - 1);
    for (uint32_t most = 0; most < 3; most++) {
        CHECK(parse_within(&p, text, sizeof text - 1, 1000, most));
        CHECK_INT(p.rc, ==, -431);
    }
}

TEST(a_head_can_be_begun_again)
{
    static const char first[] = "POST http://b/%41/.x?y HTTP/1.1\r\n" H
                                "Content-Length: 5\r\nConnection: close, upgrade\r\n"
                                "Expect: 100-continue\r\nUpgrade: x\r\n\r\n";
    static const char second[] = "GET / HTTP/1.0\r\n\r\n";
    struct parsed p, fresh;
    parsed_init(&p, 1000, HEAD_FIELDS);
    CHECK_INT(parse_part(&p, first, sizeof first - 1), ==, sizeof first - 1);
    wh_head_begin(&p.head);
    CHECK_INT(parse_part(&p, second, sizeof second - 1), ==, sizeof second - 1);
    parsed_init(&fresh, 1000, HEAD_FIELDS);
    parse_part(&fresh, second, sizeof second - 1);
    CHECK(same_head(&p, &fresh));
    CHECK_INT(p.head.host.size, ==, 0);
}

/* Bytes that go on with the run that the parser has stopped in are looked at once: 1 MiB, byte by byte, in less than a
 * second. (Parsing the line again for each would look at 500 billion bytes.) */
TEST(a_long_line_byte_by_byte_costs_each_byte_once)
{
    enum { SIZE = 1 << 20 };
    static const char *const begins[] = {"GET /", "GET /?", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nX:"};
    char *bytes = malloc(SIZE);
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
        struct parsed p;
        memset(bytes, 'a', SIZE);
        memcpy(bytes, begins[i], strlen(begins[i]));
        parsed_init(&p, SIZE, HEAD_FIELDS);
        for (size_t n = 1; n <= SIZE && p.rc == 0; n++) {
            p.rc = wh_parse_head(&p.head, bytes, n);
            CHECK(n == SIZE || p.rc == 0);
        }
        CHECK_INT(p.rc, ==, i < 2 ? -414 : -431);
    }
    free(bytes);
}

TESTS(http_parse, a_head_is_places_in_the_buffer, bytes_behind_a_head_are_not_read,
      methods_are_tokens_of_up_to_32_bytes, known_methods_have_numbers, versions_are_1_0_and_1_1,
      lines_end_with_cr_lf_alone, one_empty_line_may_come_first, a_head_that_is_not_complete_needs_more,
      targets_are_visible_ascii_without_some, a_percent_or_dot_in_the_query_does_not_mark_the_path,
      an_empty_query_is_a_query, an_absolute_form_names_the_host, other_forms_belong_to_their_methods,
      a_head_beyond_its_bytes_is_431, a_request_line_beyond_the_bytes_is_414, a_field_beyond_the_count_is_431,
      a_head_can_be_begun_again, a_long_line_byte_by_byte_costs_each_byte_once)
