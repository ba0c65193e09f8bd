/*
 * http/date.c: see date.h. Days are counted in years that begin on the first of March, so a leap day is the last day of
 * its year. 400 years have 146,097 days.
 */
#include "http/date.h"

#include <string.h>

enum { DAY = 86400, DAYS_OF_400_YEARS = 146097, DAYS_TO_1970 = 719468 /* from the first of March of the year 0 */ };

static const char day_names[7][10] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
static const char month_names[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

/* A time of the calendar, in UTC. */
struct civil {
    int64_t year;
    int month, day; /* from 1 */
    int hour, minute, second;
    int weekday; /* 0: Sunday; only civil_of sets it */
};

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Days from 1970 to a day, which need not exist: the 29th of February is the first of March where there is none. */
static int64_t days_to(int64_t year, int month, int day)
{
    year -= month <= 2;
    int64_t era = floor_div(year, 400), year_of_era = year - era * 400;
    int month_from_march = (month + 9) % 12;
    int64_t day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    return era * DAYS_OF_400_YEARS + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year -
           DAYS_TO_1970;
}

static int64_t seconds_to(const struct civil *c)
{
    return days_to(c->year, c->month, c->day) * DAY + c->hour * 3600 + c->minute * 60 + c->second;
}

static struct civil civil_of(int64_t seconds)
{
    int64_t days = floor_div(seconds, DAY);
    int of_day = (int)(seconds - days * DAY);
    int64_t since = days + DAYS_TO_1970, era = floor_div(since, DAYS_OF_400_YEARS);
    int day_of_era = (int)(since - era * DAYS_OF_400_YEARS);
    int year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int month_from_march = (5 * day_of_year + 2) / 153;
    int month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
    return (struct civil){
        .year = era * 400 + year_of_era + (month <= 2),
        .month = month,
        .day = day_of_year - (153 * month_from_march + 2) / 5 + 1,
        .hour = of_day / 3600,
        .minute = of_day / 60 % 60,
        .second = of_day % 60,
        .weekday = (int)(days + 4 - floor_div(days + 4, 7) * 7),
    };
}

static void put_two(char *out, int number)
{
    out[0] = (char)('0' + number / 10);
    out[1] = (char)('0' + number % 10);
}

static void put_year(char *out, int64_t year)
{
    put_two(out, (int)(year / 100 % 100));
    put_two(out + 2, (int)(year % 100));
}

static void put_time(char *out, const struct civil *c)
{
    put_two(out, c->hour);
    put_two(out + 3, c->minute);
    put_two(out + 6, c->second);
}

void wh_date_write(char out[WH_DATE_SIZE], int64_t seconds)
{
    struct civil c = civil_of(seconds);
    memcpy(out, "Sun, 06 Nov 1994 08:49:37 GMT", WH_DATE_SIZE);
    memcpy(out, day_names[c.weekday], 3);
    put_two(out + 5, c.day);
    memcpy(out + 8, month_names[c.month - 1], 3);
    put_year(out + 12, c.year);
    put_time(out + 17, &c);
}

void wh_date_write_log(char out[WH_LOG_DATE_SIZE], int64_t seconds)
{
    struct civil c = civil_of(seconds);
    memcpy(out, "06/Nov/1994:08:49:37 +0000", WH_LOG_DATE_SIZE);
    put_two(out, c.day);
    memcpy(out + 3, month_names[c.month - 1], 3);
    put_year(out + 7, c.year);
    put_time(out + 12, &c);
}

/* What is left of a text that is being read. */
struct reader {
    const char *at, *end;
};

static bool take(struct reader *r, const char *word)
{
    size_t size = strlen(word);
    if ((size_t)(r->end - r->at) < size || memcmp(r->at, word, size) != 0)
        return false;
    r->at += size;
    return true;
}

/* Takes a number of `digits` digits. With `padded`, the first may be a space instead. */
static bool take_number(struct reader *r, int digits, bool padded, int *number)
{
    if (r->end - r->at < digits)
        return false;
    *number = 0;
    for (int i = 0; i < digits; i++) {
        char c = *r->at++;
        if (i == 0 && padded && c == ' ')
            continue;
        if (c < '0' || c > '9')
            return false;
        *number = *number * 10 + c - '0';
    }
    return true;
}

static bool take_month(struct reader *r, int *month)
{
    for (*month = 1; *month <= 12; ++*month) {
        if (take(r, month_names[*month - 1]))
            return true;
    }
    return false;
}

static bool take_time(struct reader *r, struct civil *c)
{
    return take_number(r, 2, false, &c->hour) && take(r, ":") && take_number(r, 2, false, &c->minute) && take(r, ":") &&
           take_number(r, 2, false, &c->second);
}

static bool take_year(struct reader *r, struct civil *c)
{
    int year;
    if (!take_number(r, 4, false, &year))
        return false;
    c->year = year;
    return true;
}

/* After "Sun": ", 06 Nov 1994 08:49:37 GMT". */
static bool take_fixed(struct reader *r, struct civil *c)
{
    return take(r, ", ") && take_number(r, 2, false, &c->day) && take(r, " ") && take_month(r, &c->month) &&
           take(r, " ") && take_year(r, c) && take(r, " ") && take_time(r, c) && take(r, " GMT");
}

/* After "Sun": " Nov  6 08:49:37 1994". */
static bool take_asctime(struct reader *r, struct civil *c)
{
    return take(r, " ") && take_month(r, &c->month) && take(r, " ") && take_number(r, 2, true, &c->day) &&
           take(r, " ") && take_time(r, c) && take(r, " ") && take_year(r, c);
}

/* Chooses the century of a year of two digits, as RFC 9110 says. */
static void choose_century(struct civil *c, int digits, int64_t now)
{
    struct civil limit = civil_of(now);
    limit.year += 50;
    int64_t back = (limit.year - digits) % 100;
    c->year = limit.year - (back < 0 ? back + 100 : back);
    if (seconds_to(c) > seconds_to(&limit))
        c->year -= 100;
}

/* After "Sunday": ", 06-Nov-94 08:49:37 GMT". */
static bool take_rfc850(struct reader *r, struct civil *c, int64_t now)
{
    int digits;
    if (!take(r, ", ") || !take_number(r, 2, false, &c->day) || !take(r, "-") || !take_month(r, &c->month) ||
        !take(r, "-") || !take_number(r, 2, false, &digits) || !take(r, " ") || !take_time(r, c) || !take(r, " GMT"))
        return false;
    choose_century(c, digits, now);
    return true;
}

/* Takes a date of any form. */
static bool take_date(struct reader *r, struct civil *c, int64_t now)
{
    for (int i = 0; i < 7; i++) {
        if (take(r, day_names[i]))
            return take_rfc850(r, c, now);
        if (r->end - r->at < 4 || memcmp(r->at, day_names[i], 3) != 0)
            continue;
        r->at += 3;
        return *r->at == ',' ? take_fixed(r, c) : take_asctime(r, c);
    }
    return false;
}

static bool is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static bool exists(const struct civil *c)
{
    static const int8_t days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int last = days[c->month - 1] + (c->month == 2 && is_leap(c->year));
    return c->day >= 1 && c->day <= last && c->hour <= 23 && c->minute <= 59 && c->second <= 60;
}

bool wh_date_read(const char *text, size_t size, int64_t now, int64_t *seconds)
{
    struct reader r = {text, text + size};
    struct civil c;
    if (!take_date(&r, &c, now) || r.at != r.end || !exists(&c))
        return false;
    *seconds = seconds_to(&c);
    return true;
}
