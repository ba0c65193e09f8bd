/*
 * tests/unit/http/decode.c: percent-encoding, queries and cookies.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "http/decode.h"
#include "support/test.h"

static char out[256];

/* The decoded text, or "malformed". */
static const char *decoded(const char *text, bool plus)
{
    ptrdiff_t size = wh_decode(out, text, strlen(text), plus);
    if (size < 0)
        return "malformed";
    out[size] = '\0';
    return out;
}

static const char *query(const char *text, const char *name)
{
    return wh_query_find(text, strlen(text), name, out) ? out : NULL;
}

static const char *cookie(const char *text, const char *name)
{
    return wh_cookie_find(text, strlen(text), name, out) ? out : NULL;
}

TEST(percents_are_decoded_once_with_digits_of_both_cases)
{
    CHECK_STR(decoded("", false), "");
    CHECK_STR(decoded("a%41%7a%7A%2f", false), "aAzz/");
    CHECK_STR(decoded("%2541", false), "%41");
    CHECK_STR(decoded("%ff%FE%01", false), "\xff\xfe\x01");
    CHECK_STR(decoded("a+b%2B", false), "a+b+");
    CHECK_STR(decoded("a+b%2B", true), "a b+");
}

TEST(malformed_percents_and_zero_bytes_are_refused)
{
    static const char *const bad[] = {"%",    "a%",  "%4",  "a%4", "%4g",   "%g4",
                                      "%%41", "% 4", "%-1", "%00", "a%00b", "%4\xff"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_STR(decoded(bad[i], false), "malformed");
}

TEST(every_pair_of_bytes_behind_a_percent_is_decoded_or_refused)
{
    for (int i = 0; i < 65536; i++) {
        char text[3] = {'%', (char)(i >> 8), (char)i}, digits[3] = {text[1], text[2], '\0'}, result;
        bool is_hex = strspn(digits, "0123456789abcdefABCDEF") == 2;
        long value = is_hex ? strtol(digits, NULL, 16) : 0;
        ptrdiff_t size = wh_decode(&result, text, 3, false);
        if (size != (value > 0 ? 1 : -1) || (size == 1 && (unsigned char)result != value))
            test_failed(__FILE__, __LINE__, "%%%02x%02x", i >> 8, i & 255);
    }
}

TEST(text_may_be_decoded_in_place)
{
    char text[] = "%41b%43+";
    ptrdiff_t size = wh_decode(text, text, strlen(text), true);
    CHECK_INT(size, ==, 4);
    CHECK(memcmp(text, "AbC ", 4) == 0);
}

TEST(a_query_gives_the_first_value_of_a_name)
{
    CHECK_STR(query("a=1&b=2&a=3", "a"), "1");
    CHECK_STR(query("a=1&b=2&a=3", "b"), "2");
    CHECK_PTR(query("a=1&b=2&a=3", "c"), ==, NULL);
    CHECK_STR(query("ab=1&a=2", "a"), "2");
    CHECK_STR(query("a=2&ab=1", "ab"), "1");
    CHECK_STR(query("a", "a"), "");
    CHECK_STR(query("a=", "a"), "");
    CHECK_STR(query("a&a=1", "a"), "");
    CHECK_STR(query("a==1=&b", "a"), "=1=");
    CHECK_STR(query("A=1&a=2", "a"), "2");
    CHECK_STR(query("a=1;b=2", "a"), "1;b=2");
    CHECK_PTR(query("", "a"), ==, NULL);
}

TEST(empty_pairs_of_a_query_are_skipped)
{
    CHECK_PTR(query("", ""), ==, NULL);
    CHECK_PTR(query("&&a=1&", ""), ==, NULL);
    CHECK_STR(query("&&a=1&", "a"), "1");
    CHECK_STR(query("&=2&", ""), "2");
}

TEST(names_and_values_of_a_query_are_decoded)
{
    CHECK_STR(query("%61%20b=c+d%26%3d", "a b"), "c d&=");
    CHECK_STR(query("a+b=1", "a b"), "1");
    CHECK_STR(query("a%2Bb=1", "a+b"), "1");
    CHECK_PTR(query("a%3D1", "a"), ==, NULL);
    CHECK_STR(query("a%3D1", "a=1"), "");
}

TEST(malformed_names_and_values_of_a_query_are_taken_as_they_were_sent)
{
    CHECK_STR(query("a=100%&b=1", "a"), "100%");
    CHECK_STR(query("a=100%&b=1", "b"), "1");
    CHECK_STR(query("a=%41%zz+", "a"), "%41%zz+");
    CHECK_STR(query("a=%00", "a"), "%00");
    CHECK_STR(query("%zz=%41", "%zz"), "A");
    CHECK_STR(query("a=%&", "a"), "%");
    CHECK_STR(query("a=%4&b=1", "a"), "%4"); /* the digits end with the pair */
}

TEST(a_query_needs_no_more_room_than_its_size_and_a_zero_byte)
{
    static const char *const texts[] = {"abcdefgh=",  "a=bcdefghi", "abcdefghijkl",
                                        "a=%%%%%%%%", "a=1&bcdef",  "%%%%%%%%%=1"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        size_t size = strlen(texts[i]);
        char *text = malloc(size), *exact = malloc(size + 1); /* sanitizers watch both ends */
        memcpy(text, texts[i], size);
        static const char *const names[] = {"", "a", "abcdefgh", "abcdefghijkl", "%%%%%%%%%", "b"};
        for (size_t j = 0; j < sizeof names / sizeof names[0]; j++) {
            wh_query_find(text, size, names[j], exact);
            wh_cookie_find(text, size, names[j], exact);
        }
        free(text);
        free(exact);
    }
}

TEST(a_cookie_is_found_by_its_exact_name)
{
    CHECK_STR(cookie("a=1; b=2; a=3", "a"), "1");
    CHECK_STR(cookie("a=1; b=2; a=3", "b"), "2");
    CHECK_STR(cookie("a=1;b=2", "b"), "2");
    CHECK_STR(cookie(" \ta =\t 1 ;  b = 2\t", "a"), "1");
    CHECK_STR(cookie(" \ta =\t 1 ;  b = 2\t", "b"), "2");
    CHECK_PTR(cookie("ab=1; A=2", "a"), ==, NULL);
    CHECK_PTR(cookie("", "a"), ==, NULL);
    CHECK_STR(cookie("a=", "a"), "");
    CHECK_STR(cookie("a=1=2", "a"), "1=2");
    CHECK_PTR(cookie("a; b=1", "a"), ==, NULL);
    CHECK_STR(cookie("; ;a=1", "a"), "1");
    CHECK_STR(cookie("c=a=1; a=2", "a"), "2");
}

TEST(a_cookie_is_not_decoded_and_loses_its_quotes)
{
    CHECK_STR(cookie("a=%41+b", "a"), "%41+b");
    CHECK_STR(cookie("a=\"b c\"; d=1", "a"), "b c");
    CHECK_STR(cookie("a=\"\"", "a"), "");
    CHECK_STR(cookie("a=\"", "a"), "\"");
    CHECK_STR(cookie("a=\"b", "a"), "\"b");
    CHECK_STR(cookie("a=b\"", "a"), "b\"");
    CHECK_STR(cookie("a=\"b\"c", "a"), "\"b\"c");
}

/* The processor's seconds for a search that finds nothing. */
static double seconds_for(bool (*find)(const char *, size_t, const char *, char *), const char *text, size_t size)
{
    char *room = malloc(size + 1);
    struct timespec from, to;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    CHECK(!find(text, size, "none", room));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    free(room);
    return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
}

TEST(a_flood_of_separators_costs_a_single_pass)
{
    enum { SIZE = 4 << 20 };
    static const char *const fills[] = {"&", "=", "&=",  "names&", "%41&", "%41",   "a=%&",
                                        "+", ";", "; =", "=;",     " ",    "name;", "\""};
    char *text = malloc(SIZE);
    for (size_t i = 0; i < sizeof fills / sizeof fills[0]; i++) {
        size_t size = strlen(fills[i]);
        for (size_t at = 0; at < SIZE; at++)
            text[at] = fills[i][at % size];
        CHECK(seconds_for(wh_query_find, text, SIZE) < 5); /* a pass takes some ms, a square of that hours */
        CHECK(seconds_for(wh_cookie_find, text, SIZE) < 5);
    }
    free(text);
}

TESTS(decode, percents_are_decoded_once_with_digits_of_both_cases, malformed_percents_and_zero_bytes_are_refused,
      every_pair_of_bytes_behind_a_percent_is_decoded_or_refused, text_may_be_decoded_in_place,
      a_query_gives_the_first_value_of_a_name, empty_pairs_of_a_query_are_skipped,
      names_and_values_of_a_query_are_decoded, malformed_names_and_values_of_a_query_are_taken_as_they_were_sent,
      a_query_needs_no_more_room_than_its_size_and_a_zero_byte, a_cookie_is_found_by_its_exact_name,
      a_cookie_is_not_decoded_and_loses_its_quotes, a_flood_of_separators_costs_a_single_pass)
