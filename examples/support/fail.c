/*
 * fail.c: see fail.h.
 */
#include "fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fail(int error, const char *what, ...)
{
    va_list args;
    va_start(args, what);
    fflush(stdout);
    fprintf(stderr, "\n%s: ", program_invocation_short_name); /* a live line may be under way */
    vfprintf(stderr, what, args);
    fprintf(stderr, "%s%s\n", error ? ": " : "", error ? strerror(error) : "");
    va_end(args);
    exit(1);
}
