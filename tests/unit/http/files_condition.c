/*
 * Conditions, ranges and codings of requests for files: each rule of RFC 9110, sections 12.5.3, 13 and 14, and malformed values.
 */
#include <string.h>

#include "http/files_condition.h"
#include "support/test.h"

#define MODIFIED_TEXT "Sun, 06 Nov 1994 08:49:37 GMT"
#define BEFORE_TEXT "Sun, 06 Nov 1994 08:49:36 GMT"
#define AFTER_TEXT "Sun, 06 Nov 1994 08:49:38 GMT"
enum { MODIFIED = 784111777, NOW = MODIFIED + 3600 };

static const struct wh_representation file = {
    .etag = "\"a-1\"", .modified = MODIFIED, .has_modified = true, .size = 1000};

static int check(struct wh_conditions c)
{
    struct wh_part part;
    return wh_conditions_check(&c, &file, NOW, &part);
}
#define STATUS(...) check((struct wh_conditions){__VA_ARGS__})

/* ---- ranges ---- */

static void is_part(const char *value, uint64_t size, uint64_t first, uint64_t count)
{
    struct wh_part part = {77, 77};
    int status = wh_range_read(value, size, &part);
    if (status != 206 || part.first != first || part.count != count)
        test_failed(__FILE__, __LINE__, "%s of %llu: %d, %llu, %llu", value, (unsigned long long)size, status,
                    (unsigned long long)part.first, (unsigned long long)part.count);
}

static void is_no_part(const char *value, uint64_t size, int status)
{
    struct wh_part part = {77, 77};
    int got = wh_range_read(value, size, &part);
    if (got != status || part.first != 77 || part.count != 77)
        test_failed(__FILE__, __LINE__, "%s of %llu: %d", value, (unsigned long long)size, got);
}

TEST(a_single_range_is_read)
{
    is_part("bytes=0-0", 1000, 0, 1);
    is_part("bytes=0-499", 1000, 0, 500);
    is_part("bytes=500-", 1000, 500, 500);
    is_part("bytes=999-", 1000, 999, 1);
    is_part("bytes=0-", 1, 0, 1);
    is_part("bytes=-1", 1000, 999, 1);
    is_part("bytes=-1000", 1000, 0, 1000);
    is_part("bytes=007-008", 1000, 7, 2);
    is_part("BYTES=1-2", 1000, 1, 2);
}

TEST(a_range_beyond_the_end_is_clipped)
{
    is_part("bytes=990-2000", 1000, 990, 10);
    is_part("bytes=-2000", 1000, 0, 1000);
    is_part("bytes=0-18446744073709551615", 1000, 0, 1000);
    is_part("bytes=0-99999999999999999999999999999999999999999999", 1000, 0, 1000);
    is_part("bytes=-99999999999999999999999999999999999999999999", 1000, 0, 1000);
}

TEST(a_range_outside_of_the_file_is_416)
{
    is_no_part("bytes=1000-", 1000, 416);
    is_no_part("bytes=1000-1001", 1000, 416);
    is_no_part("bytes=0-", 0, 416);
    is_no_part("bytes=-0", 1000, 416);
    is_no_part("bytes=18446744073709551616-", 1000, 416);
    is_no_part("bytes=99999999999999999999999999999999999999-99999999999999999999999999999999999999", 1000, 416);
}

TEST(several_ranges_and_malformed_ones_are_ignored)
{
    static const char *const values[] = {
        "",           "bytes",      "bytes=",      "bytes=-",       "bytes=--1",  "bytes=a-b",  "bytes=1",
        "bytes=5-4",  "bytes=0-1,", "bytes=,0-1",  "bytes=0-1,5-6", "bytes=0-1 ", "bytes= 0-1", "bytes =0-1",
        "bytes=0 -1", "bytes=+0-1", "bytes=0x0-1", "bytes=0-1;",    "items=0-1",  "byte=0-1",   "bytes:0-1",
        "0-1",        "bytes=-5-6", "bytes=1-2-3", "bytes=-1-",
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        is_no_part(values[i], 1000, 200);
    is_no_part("bytes=-5", 0, 200);
}

/* ---- entity tags ---- */

TEST(a_list_of_entity_tags_is_searched)
{
    static const char *const lists[] = {
        "\"a-1\"",
        "\"x\", \"a-1\"",
        "\"x\",\"a-1\"",
        "\"x\" \t,\t \"a-1\",",
        ",,\"a-1\"",
        "\"a-1\", rubbish",
        "W/\"a-1\", \"a-1\"",
        "\"x,y\", \"a-1\"",
        "\"\", \"a-1\"",
        "*",
        " * ",
        "\"\x80\xff\", \"a-1\"",
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (!wh_etag_is_listed(lists[i], "\"a-1\"", true) || !wh_etag_is_listed(lists[i], "\"a-1\"", false))
            test_failed(__FILE__, __LINE__, "%s", lists[i]);
}

TEST(other_entity_tags_and_malformed_lists_do_not_match)
{
    static const char *const lists[] = {
        "",
        ",",
        "\"a-2\"",
        "\"a-1",
        "a-1",
        "a-1\"",
        "\"a-11\"",
        "\"a-\"",
        "\"A-1\"",
        "w/\"a-1\"",
        "W/ \"a-1\"",
        "W\"a-1\"",
        "rubbish, \"a-1\"",
        "\"x\" \"a-1\"",
        "\"x\"\"a-1\"",
        "\"a b\", \"a-1\"",
        "*, \"a-1\"",
        "\"x\";\"a-1\"",
        "\"a\x7f\", \"a-1\"",
        "W",
        "W/",
        "W/\"",
        "\"",
        "**",
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (wh_etag_is_listed(lists[i], "\"a-1\"", true) || wh_etag_is_listed(lists[i], "\"a-1\"", false))
            test_failed(__FILE__, __LINE__, "%s", lists[i]);
}

TEST(a_weak_entity_tag_matches_only_where_weak_comparison_counts)
{
    CHECK(wh_etag_is_listed("W/\"a-1\"", "\"a-1\"", true));
    CHECK(!wh_etag_is_listed("W/\"a-1\"", "\"a-1\"", false));
    CHECK_INT(STATUS(.if_none_match = "W/\"a-1\""), ==, 304);
    CHECK_INT(STATUS(.if_match = "W/\"a-1\""), ==, 412);
}

/* ---- conditions ---- */

TEST(without_conditions_the_whole_file_is_sent)
{
    CHECK_INT(STATUS(.range = NULL), ==, 200);
    CHECK_INT(STATUS(.if_range = "\"a-1\""), ==, 200);
}

TEST(if_match_and_if_unmodified_since_fail_with_412)
{
    CHECK_INT(STATUS(.if_match = "\"a-1\""), ==, 200);
    CHECK_INT(STATUS(.if_match = "*"), ==, 200);
    CHECK_INT(STATUS(.if_match = "\"a-2\""), ==, 412);
    CHECK_INT(STATUS(.if_match = ""), ==, 412);
    CHECK_INT(STATUS(.if_unmodified_since = MODIFIED_TEXT), ==, 200);
    CHECK_INT(STATUS(.if_unmodified_since = AFTER_TEXT), ==, 200);
    CHECK_INT(STATUS(.if_unmodified_since = BEFORE_TEXT), ==, 412);
}

TEST(if_none_match_and_if_modified_since_end_with_304)
{
    CHECK_INT(STATUS(.if_none_match = "\"a-1\""), ==, 304);
    CHECK_INT(STATUS(.if_none_match = "*"), ==, 304);
    CHECK_INT(STATUS(.if_none_match = "\"a-2\""), ==, 200);
    CHECK_INT(STATUS(.if_modified_since = MODIFIED_TEXT), ==, 304);
    CHECK_INT(STATUS(.if_modified_since = AFTER_TEXT), ==, 304);
    CHECK_INT(STATUS(.if_modified_since = BEFORE_TEXT), ==, 200);
    CHECK_INT(STATUS(.if_modified_since = "Sunday, 06-Nov-94 08:49:37 GMT"), ==, 304);
    CHECK_INT(STATUS(.if_modified_since = "Sun Nov  6 08:49:37 1994"), ==, 304);
}

TEST(conditions_on_entity_tags_win_over_those_on_dates)
{
    CHECK_INT(STATUS(.if_match = "\"a-1\"", .if_unmodified_since = BEFORE_TEXT), ==, 200);
    CHECK_INT(STATUS(.if_match = "\"a-2\"", .if_unmodified_since = AFTER_TEXT), ==, 412);
    CHECK_INT(STATUS(.if_none_match = "\"a-2\"", .if_modified_since = AFTER_TEXT), ==, 200);
    CHECK_INT(STATUS(.if_none_match = "", .if_modified_since = AFTER_TEXT), ==, 200);
    CHECK_INT(STATUS(.if_none_match = "\"a-1\"", .if_modified_since = BEFORE_TEXT), ==, 304);
}

TEST(a_412_comes_before_a_304_and_both_before_a_range)
{
    CHECK_INT(STATUS(.if_match = "\"a-2\"", .if_none_match = "\"a-1\"", .range = "bytes=0-1"), ==, 412);
    CHECK_INT(STATUS(.if_match = "\"a-1\"", .if_none_match = "\"a-1\"", .range = "bytes=0-1"), ==, 304);
    CHECK_INT(STATUS(.if_unmodified_since = BEFORE_TEXT, .if_none_match = "\"a-1\""), ==, 412);
    CHECK_INT(STATUS(.if_none_match = "\"a-1\"", .range = "bytes=2000-"), ==, 304);
    CHECK_INT(STATUS(.if_match = "\"a-1\"", .if_none_match = "\"a-2\"", .range = "bytes=0-1"), ==, 206);
}

TEST(malformed_dates_are_ignored)
{
    CHECK_INT(STATUS(.if_modified_since = "yesterday"), ==, 200);
    CHECK_INT(STATUS(.if_modified_since = ""), ==, 200);
    CHECK_INT(STATUS(.if_unmodified_since = "1994-11-06"), ==, 200);
    CHECK_INT(STATUS(.if_unmodified_since = ""), ==, 200);
}

TEST(conditions_on_dates_are_ignored_if_the_file_has_no_date)
{
    struct wh_representation r = file;
    struct wh_part part;
    r.has_modified = false;
    CHECK_INT(wh_conditions_check(&(struct wh_conditions){.if_modified_since = AFTER_TEXT}, &r, NOW, &part), ==, 200);
    CHECK_INT(wh_conditions_check(&(struct wh_conditions){.if_unmodified_since = BEFORE_TEXT}, &r, NOW, &part), ==,
              200);
    CHECK_INT(
        wh_conditions_check(&(struct wh_conditions){.range = "bytes=0-1", .if_range = MODIFIED_TEXT}, &r, NOW, &part),
        ==, 200);
}

TEST(if_range_takes_a_strong_tag_or_the_exact_date)
{
    CHECK_INT(STATUS(.range = "bytes=0-1", .if_range = "\"a-1\""), ==, 206);
    CHECK_INT(STATUS(.range = "bytes=0-1", .if_range = MODIFIED_TEXT), ==, 206);
    CHECK_INT(STATUS(.range = "bytes=2000-", .if_range = "\"a-1\""), ==, 416);
    static const char *const others[] = {"\"a-2\"", "W/\"a-1\"", "\"a-1\", \"a-2\"", "\"a-1\" ", "*",
                                         "",        "a-1",       BEFORE_TEXT,        AFTER_TEXT};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        CHECK_INT(STATUS(.range = "bytes=0-1", .if_range = others[i]), ==, 200);
        CHECK_INT(STATUS(.range = "bytes=2000-", .if_range = others[i]), ==, 200);
    }
}

TEST(the_date_of_a_file_that_was_modified_just_now_does_not_satisfy_if_range)
{
    struct wh_conditions c = {.range = "bytes=0-1", .if_range = MODIFIED_TEXT};
    struct wh_part part;
    CHECK_INT(wh_conditions_check(&c, &file, MODIFIED, &part), ==, 200);
    CHECK_INT(wh_conditions_check(&c, &file, MODIFIED + 1, &part), ==, 200);
    CHECK_INT(wh_conditions_check(&c, &file, MODIFIED + 2, &part), ==, 206);
}

/* ---- codings ---- */

TEST(gzip_is_sent_to_clients_that_accept_it)
{
    static const char *const values[] = {
        "gzip",
        "GZIP",
        "x-gzip",
        "gzip, deflate, br",
        "br;q=1.0, gzip;q=0.8, *;q=0.1",
        "*",
        "deflate, *;q=0.001",
        "gzip;q=1",
        "gzip;q=1.",
        "gzip;q=1.000",
        "gzip;Q=0.5",
        "gzip ; q=0.001",
        "identity;q=0, gzip",
        "identity;q=0.5, gzip;q=0.5",
        ",, gzip ,",
        "gzip;q=0, x-gzip",
        "identity;q=0.2, *;q=0.2",
        "deflate;q=rubbish, gzip",
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (!wh_accepts_gzip(values[i]))
            test_failed(__FILE__, __LINE__, "%s", values[i]);
}

TEST(gzip_is_not_sent_to_other_clients)
{
    static const char *const values[] = {
        "",
        "identity",
        "br",
        "gzipped",
        "gzi",
        "gzip;q=0",
        "gzip;q=0.000",
        "*;q=0",
        "gzip;q=0, *",
        "identity, gzip;q=0.5",
        "gzip;q=2",
        "gzip;q=1.1",
        "gzip;q=1.0001",
        "gzip;q=0.1234",
        "gzip;q=",
        "gzip;q=-1",
        "gzip;q",
        "gzip;",
        "gzip;x=1",
        "gzip q=1",
        "gzip;q=1;q=0",
        "deflate;gzip",
        "identity;q=1, *;q=0.5",
        ";q=1",
        "*gzip",
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (wh_accepts_gzip(values[i]))
            test_failed(__FILE__, __LINE__, "%s", values[i]);
    CHECK(!wh_accepts_gzip(NULL));
}

TESTS(files_condition, a_single_range_is_read, a_range_beyond_the_end_is_clipped, a_range_outside_of_the_file_is_416,
      several_ranges_and_malformed_ones_are_ignored, a_list_of_entity_tags_is_searched,
      other_entity_tags_and_malformed_lists_do_not_match, a_weak_entity_tag_matches_only_where_weak_comparison_counts,
      without_conditions_the_whole_file_is_sent, if_match_and_if_unmodified_since_fail_with_412,
      if_none_match_and_if_modified_since_end_with_304, conditions_on_entity_tags_win_over_those_on_dates,
      a_412_comes_before_a_304_and_both_before_a_range, malformed_dates_are_ignored,
      conditions_on_dates_are_ignored_if_the_file_has_no_date, if_range_takes_a_strong_tag_or_the_exact_date,
      the_date_of_a_file_that_was_modified_just_now_does_not_satisfy_if_range, gzip_is_sent_to_clients_that_accept_it,
      gzip_is_not_sent_to_other_clients)
