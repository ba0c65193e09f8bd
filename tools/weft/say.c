/*
 * say.c: see say.h.
 */
#include "say.h"

#include <stdarg.h>
#include <stdio.h>

void say(const char *format, ...)
{
    char line[1024]; /* one write, so that lines of several processes do not mix */
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    fprintf(stderr, "weft: %s\n", line);
}
