/*
 * http/date.h: writes and reads dates of HTTP (RFC 9110, section 5.6.7). Pure functions, for any thread. They use no
 * locale and no time zone of the C library.
 */
#ifndef WH_HTTP_DATE_H
#define WH_HTTP_DATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WH_DATE_SIZE = 29, WH_LOG_DATE_SIZE = 26 };

/* Writes "Sun, 06 Nov 1994 08:49:37 GMT", without a zero byte. `seconds` since 1970, in the years 0 to 9999. */
void wh_date_write(char out[WH_DATE_SIZE], int64_t seconds);

/* Writes the same date in the form of access logs: "06/Nov/1994:08:49:37 +0000". */
void wh_date_write_log(char out[WH_LOG_DATE_SIZE], int64_t seconds);

/*
 * Reads any of the three forms: "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT" and
 * "Sun Nov  6 08:49:37 1994". False: the text has another form, or there is no such day or time. The text must name a
 * day of the week, which may be the wrong day. A second 60 is the first second of the next minute. A year of two digits
 * stands for the latest year with these digits that puts the date at most 50 years after `now`, as RFC 9110 says.
 */
bool wh_date_read(const char *text, size_t size, int64_t now, int64_t *seconds);

#endif
