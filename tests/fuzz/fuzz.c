/*
 * fuzz/fuzz.c: see fuzz.h.
 */
#include "fuzz/fuzz.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void fuzz_fail(const char *file, int line, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

char *fuzz_copy(const void *bytes, size_t size)
{
    char *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    if (size > 0)
        memcpy(copy, bytes, size);
    return copy;
}
