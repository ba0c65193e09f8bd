/*
 * tests/unit/http/date.c: dates as HTTP writes and reads them, compared with the C library's over many random times.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "http/date.h"
#include "support/test.h"

enum { ROUNDS = 200000 };

static const int64_t now = 1700000000; /* Tue, 14 Nov 2023 22:13:20 GMT */
static const int64_t year_0 = -62167219200, year_10000 = 253402300800;

static const char *written(int64_t seconds)
{
    static char out[WH_DATE_SIZE + 1];
    wh_date_write(out, seconds);
    return out;
}

static const char *written_for_log(int64_t seconds)
{
    static char out[WH_LOG_DATE_SIZE + 1];
    wh_date_write_log(out, seconds);
    return out;
}

/* The seconds, or INT64_MIN: it is no date. */
static int64_t read_at(const char *text, int64_t today)
{
    int64_t seconds = INT64_MIN;
    bool is_date = wh_date_read(text, strlen(text), today, &seconds);
    CHECK(is_date == (seconds != INT64_MIN));
    return seconds;
}

static int64_t read_now(const char *text)
{
    return read_at(text, now);
}

TEST(dates_are_written_in_the_fixed_form)
{
    CHECK_STR(written(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
    CHECK_STR(written(0), "Thu, 01 Jan 1970 00:00:00 GMT");
    CHECK_STR(written(-1), "Wed, 31 Dec 1969 23:59:59 GMT");
    CHECK_STR(written(951782400), "Tue, 29 Feb 2000 00:00:00 GMT");
    CHECK_STR(written(year_0), "Sat, 01 Jan 0000 00:00:00 GMT");
    CHECK_STR(written(year_10000 - 1), "Fri, 31 Dec 9999 23:59:59 GMT");
}

TEST(dates_of_logs_are_written_in_utc)
{
    CHECK_STR(written_for_log(971186136), "10/Oct/2000:13:55:36 +0000");
    CHECK_STR(written_for_log(0), "01/Jan/1970:00:00:00 +0000");
}

TEST(all_three_forms_are_read)
{
    CHECK_INT(read_now("Sun, 06 Nov 1994 08:49:37 GMT"), ==, 784111777);
    CHECK_INT(read_now("Sunday, 06-Nov-94 08:49:37 GMT"), ==, 784111777);
    CHECK_INT(read_now("Sun Nov  6 08:49:37 1994"), ==, 784111777);
    CHECK_INT(read_now("Sun Nov 06 08:49:37 1994"), ==, 784111777);
    CHECK_INT(read_now("Wed Nov 16 08:49:37 1994"), ==, 784111777 + 10 * 86400);
    CHECK_INT(read_now("Wed, 31 Dec 1969 23:59:59 GMT"), ==, -1);
    CHECK_INT(read_now("Sat, 31 Dec 2016 23:59:60 GMT"), ==, 1483228800);
    CHECK_INT(read_now("Mon, 06 Nov 1994 08:49:37 GMT"), ==, 784111777); /* it was a Sunday */
}

TEST(what_is_no_date_is_refused)
{
    static const char *const bad[] = {
        "",
        "Sun",
        "Sunday",
        "Sun,",
        "784111777",
        "sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 gmt",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 +0000",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        " Sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun,  6 Nov 1994 08:49:37 GMT",
        "Sun 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 06 Nov 19941 08:49:37 GMT",
        "Sun, 06-Nov-1994 08:49:37 GMT",
        "Sun, 06-Nov-94 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Sun, 29 Feb 1994 08:49:37 GMT",
        "Sun, 29 Feb 1900 08:49:37 GMT",
        "Sun, 32 Jan 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 06 Nov 1994 8:49:37 GMT",
        "Sun, 06 Nov 1994 -8:49:37 GMT",
        "Sun, 06 Nov 1994 08.49.37 GMT",
        "Sun, -6 Nov 1994 08:49:37 GMT",
        "Sun, +6 Nov 1994 08:49:37 GMT",
        "Son, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sunday, 06 Nov 94 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37",
        "Sunday, 29-Feb-23 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994 GMT",
        "Sun Nov 6 08:49:37 1994",
        "Sun Nov   08:49:37 1994",
        "Sun Nov  0 08:49:37 1994",
        "Sun Nov  6 08:49:37 94",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (read_now(bad[i]) != INT64_MIN)
            test_failed(__FILE__, __LINE__, "\"%s\" was taken", bad[i]);
    }
}

TEST(no_prefix_and_no_changed_byte_of_a_date_reads_out_of_bounds)
{
    static const char *const dates[] = {"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
                                        "Sun Nov  6 08:49:37 1994"};
    for (size_t i = 0; i < 3; i++) {
        size_t size = strlen(dates[i]);
        for (size_t at = 0; at < size; at++) {
            int64_t seconds;
            char *part = strndup(dates[i], size);
            CHECK(!wh_date_read(part, at, now, &seconds));
            for (int c = 0; c < 256; c++) {
                part[at] = (char)c;
                bool is_date = wh_date_read(part, size, now, &seconds);
                CHECK(!is_date || (c >= ' ' && c < 0x7f));
            }
            free(part);
        }
    }
}

TEST(a_year_of_two_digits_is_at_most_50_years_ahead)
{
    /* from now, 22:13:20 on the 14th of November 2023 */
    CHECK_INT(read_now("Tuesday, 14-Nov-73 22:13:20 GMT"), ==, 3277923200);
    CHECK_INT(read_now("Tuesday, 14-Nov-73 22:13:21 GMT"), ==, 122163201);
    CHECK_INT(read_now("Tuesday, 15-Nov-73 00:00:00 GMT"), ==, 122169600);
    CHECK_INT(read_now("Tuesday, 01-Jan-74 00:00:00 GMT"), ==, 126230400);
    CHECK_INT(read_now("Tuesday, 31-Dec-72 23:59:59 GMT"), ==, 3250454399);
    CHECK_INT(read_now("Tuesday, 14-Nov-23 22:13:20 GMT"), ==, now);
    CHECK_INT(read_now("Tuesday, 29-Feb-00 00:00:00 GMT"), ==, 951782400);
    /* in 2075 */
    CHECK_INT(read_at("Friday, 01-Jan-10 00:00:00 GMT", 3313526400), ==, 4417977600);
    CHECK_INT(read_at("Friday, 01-Jan-99 00:00:00 GMT", 3313526400), ==, 4070908800);
}

static int64_t random_time(uint64_t *random)
{
    return year_0 + (int64_t)(test_random(random) % (uint64_t)(year_10000 - year_0));
}

TEST(random_dates_are_written_as_the_c_library_does)
{
    uint64_t random = test_seed();
    for (int i = 0; i < ROUNDS && !test_has_failed(); i++) {
        time_t t = random_time(&random);
        struct tm tm;
        char text[64], year[16];
        gmtime_r(&t, &tm);
        snprintf(year, sizeof year, "%04d", tm.tm_year + 1900); /* %Y does not pad everywhere */
        strftime(text, sizeof text, "%a, %d %b YYYY %H:%M:%S GMT", &tm);
        memcpy(text + 12, year, 4);
        CHECK_STR(written(t), text);
        strftime(text, sizeof text, "%d/%b/YYYY:%H:%M:%S +0000", &tm);
        memcpy(text + 7, year, 4);
        CHECK_STR(written_for_log(t), text);
    }
}

TEST(random_dates_of_every_form_are_read_as_timegm_does)
{
    uint64_t random = test_seed();
    for (int i = 0; i < ROUNDS && !test_has_failed(); i++) {
        time_t t = random_time(&random);
        struct tm tm;
        char text[64], year[16];
        gmtime_r(&t, &tm);
        CHECK_INT(timegm(&tm), ==, t);
        CHECK_INT(read_now(written(t)), ==, t);
        snprintf(year, sizeof year, "%04d", tm.tm_year + 1900);
        strftime(text, sizeof text, "%a %b %e %H:%M:%S YYYY", &tm);
        memcpy(text + 20, year, 4);
        CHECK_INT(read_now(text), ==, t);
        /* from 49 years before to 49 years after a random day */
        int64_t today = t + (int64_t)(test_random(&random) % (98 * 365 * 86400ull)) - 49 * 365 * 86400ll;
        strftime(text, sizeof text, "%A, %d-%b-", &tm);
        size_t size = strlen(text);
        snprintf(text + size, sizeof text - size, "%s", year + 2);
        strftime(text + size + 2, sizeof text - size - 2, " %H:%M:%S GMT", &tm);
        if (tm.tm_year + 1900 >= 100 && tm.tm_year + 1900 < 9900)
            CHECK_INT(read_at(text, today), ==, t);
    }
}

TESTS(date, dates_are_written_in_the_fixed_form, dates_of_logs_are_written_in_utc, all_three_forms_are_read,
      what_is_no_date_is_refused, no_prefix_and_no_changed_byte_of_a_date_reads_out_of_bounds,
      a_year_of_two_digits_is_at_most_50_years_ahead, random_dates_are_written_as_the_c_library_does,
      random_dates_of_every_form_are_read_as_timegm_does)
