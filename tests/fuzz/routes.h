/*
 * fuzz/routes.h: a part of fuzz/decode.c: the table of routes against a matcher that compares a path with each pattern.
 */
#ifndef TESTS_FUZZ_ROUTES_H
#define TESTS_FUZZ_ROUTES_H

#include <stddef.h>

/* The last line is "METHOD path"; the others are patterns. */
void check_routes(char *const *lines, const size_t *sizes, int count);

#endif
