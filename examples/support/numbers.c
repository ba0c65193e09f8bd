/*
 * numbers.c: see numbers.h.
 */
#include "numbers.h"

#include <stdio.h>

const char *number_grouped(uint64_t n, char room[NUMBER_ROOM])
{
    char digits[NUMBER_ROOM];
    int count = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    char *to = room;
    for (int i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return room;
}

double number_rate(uint64_t before, weft_time from, uint64_t now, weft_time to)
{
    return (double)(now - before) * (double)WEFT_SEC / (double)(to.ns - from.ns);
}

const char *number_each(uint64_t calls, uint64_t count, char room[NUMBER_ROOM])
{
    if (count == 0)
        return "n/a";
    snprintf(room, NUMBER_ROOM, "%.2f", (double)calls / (double)count);
    return room;
}
