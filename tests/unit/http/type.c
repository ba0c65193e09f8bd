/*
 * tests/unit/http/type.c: content types of names, and reasons of statuses.
 */
#include <weft/http.h>

#include <string.h>

#include "support/test.h"

TEST(common_extensions_have_their_types)
{
    static const char *const expected[][2] = {
        {"a.html", "text/html; charset=utf-8"},
        {"a.htm", "text/html; charset=utf-8"},
        {"a.css", "text/css; charset=utf-8"},
        {"a.js", "text/javascript; charset=utf-8"},
        {"a.mjs", "text/javascript; charset=utf-8"},
        {"a.txt", "text/plain; charset=utf-8"},
        {"a.md", "text/markdown; charset=utf-8"},
        {"a.csv", "text/csv; charset=utf-8"},
        {"a.json", "application/json"},
        {"a.xml", "application/xml"},
        {"a.wasm", "application/wasm"},
        {"a.pdf", "application/pdf"},
        {"a.zip", "application/zip"},
        {"a.gz", "application/gzip"},
        {"a.svg", "image/svg+xml"},
        {"a.png", "image/png"},
        {"a.jpg", "image/jpeg"},
        {"a.jpeg", "image/jpeg"},
        {"a.gif", "image/gif"},
        {"a.webp", "image/webp"},
        {"a.avif", "image/avif"},
        {"a.ico", "image/x-icon"},
        {"a.woff", "font/woff"},
        {"a.woff2", "font/woff2"},
        {"a.ttf", "font/ttf"},
        {"a.otf", "font/otf"},
        {"a.mp3", "audio/mpeg"},
        {"a.mp4", "video/mp4"},
        {"a.webm", "video/webm"},
        {"a.webmanifest", "application/manifest+json"},
        {"a.3gp", "video/3gpp"},
        {"a.zst", "application/zstd"},
        {"a.c", "text/plain; charset=utf-8"},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        CHECK_STR(weft_http_type(expected[i][0]), expected[i][1]);
}

TEST(the_last_extension_counts_in_any_case)
{
    CHECK_STR(weft_http_type("A.HtMl"), "text/html; charset=utf-8");
    CHECK_STR(weft_http_type("a.tar.GZ"), "application/gzip");
    CHECK_STR(weft_http_type("a.gz.png"), "image/png");
    CHECK_STR(weft_http_type("/x.d/y.z/a.png"), "image/png");
    CHECK_STR(weft_http_type("..png"), "image/png");
}

TEST(names_without_a_known_extension_are_bytes)
{
    static const char *const names[] = {"",        "a",        "html",    "a.",      ".html",
                                        "/d/.css", "a.html/b", "a.htmx",  "a.htmll", "a.webmanifestx",
                                        "a.\xff",  "a.png ",   "a.p\xefg"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        CHECK_STR(weft_http_type(names[i]), "application/octet-stream");
    CHECK_STR(weft_http_type(NULL), "application/octet-stream");
}

TEST(registered_statuses_have_their_reasons)
{
    CHECK_STR(weft_http_reason(100), "Continue");
    CHECK_STR(weft_http_reason(103), "Early Hints");
    CHECK_STR(weft_http_reason(200), "OK");
    CHECK_STR(weft_http_reason(204), "No Content");
    CHECK_STR(weft_http_reason(206), "Partial Content");
    CHECK_STR(weft_http_reason(226), "IM Used");
    CHECK_STR(weft_http_reason(304), "Not Modified");
    CHECK_STR(weft_http_reason(308), "Permanent Redirect");
    CHECK_STR(weft_http_reason(400), "Bad Request");
    CHECK_STR(weft_http_reason(404), "Not Found");
    CHECK_STR(weft_http_reason(405), "Method Not Allowed");
    CHECK_STR(weft_http_reason(413), "Content Too Large");
    CHECK_STR(weft_http_reason(416), "Range Not Satisfiable");
    CHECK_STR(weft_http_reason(417), "Expectation Failed");
    CHECK_STR(weft_http_reason(421), "Misdirected Request");
    CHECK_STR(weft_http_reason(431), "Request Header Fields Too Large");
    CHECK_STR(weft_http_reason(451), "Unavailable For Legal Reasons");
    CHECK_STR(weft_http_reason(500), "Internal Server Error");
    CHECK_STR(weft_http_reason(505), "HTTP Version Not Supported");
    CHECK_STR(weft_http_reason(511), "Network Authentication Required");
    int known = 0;
    for (int status = -1000; status < 2000; status++)
        known += weft_http_reason(status)[0] != '\0';
    CHECK_INT(known, ==, 61);
}

TEST(other_statuses_have_no_reason)
{
    static const int unknown[] = {-2147483647 - 1, -1, 0, 99, 104, 306, 418, 499, 509, 512, 599, 600, 2147483647};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        CHECK_STR(weft_http_reason(unknown[i]), "");
}

TESTS(type, common_extensions_have_their_types, the_last_extension_counts_in_any_case,
      names_without_a_known_extension_are_bytes, registered_statuses_have_their_reasons, other_statuses_have_no_reason)
