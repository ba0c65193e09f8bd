/*
 * tests/hook/clock.h: points in time, for calls that end at one.
 */
#ifndef TESTS_HOOK_CLOCK_H
#define TESTS_HOOK_CLOCK_H

#include <time.h>

/* So far ahead on that clock; or behind. */
static inline struct timespec in_ms(clockid_t clock, long ms)
{
    struct timespec t;
    clock_gettime(clock, &t);
    long long ns = (long long)t.tv_sec * 1000000000 + t.tv_nsec + (long long)ms * 1000000;
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
}

#endif
