/*
 * numbers.h: figures as people read them.
 */
#ifndef SUPPORT_NUMBERS_H
#define SUPPORT_NUMBERS_H

#include <stdint.h>

#include <weft/time.h>

enum { NUMBER_ROOM = 32 };

/** Writes 1234567 as 1,234,567 to `room`. Returns `room`. */
const char *number_grouped(uint64_t n, char room[NUMBER_ROOM]);

/** The change of a count per second. */
double number_rate(uint64_t before, weft_time from, uint64_t now, weft_time to);

/** Writes `calls` divided by `count` with two decimals; "n/a" if nothing was counted. */
const char *number_each(uint64_t calls, uint64_t count, char room[NUMBER_ROOM]);

#endif
