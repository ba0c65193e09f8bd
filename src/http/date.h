/*
 * http/date.h: dates as HTTP writes and reads them (RFC 9110, section 5.6.7). No locale, no time zone, no tables of the
 * C library.
 */
#ifndef WH_HTTP_DATE_H
#define WH_HTTP_DATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WH_DATE_SIZE = 29 };

/* Writes "Sun, 06 Nov 1994 08:49:37 GMT", without a zero byte. `seconds` since 1970, in the years 0 to 9999. */
void wh_date_write(char out[WH_DATE_SIZE], int64_t seconds);

/* Reads any of the three forms. False: it is none of them. A year of two digits is taken as the nearest to `now`, as RFC 9110 says. */
bool wh_date_read(const char *text, size_t size, int64_t now, int64_t *seconds);

#endif
