/*
 * base/panic.c: the last words of a program that misused the library.
 */
#include "base/panic.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void wf_say(const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        long n = syscall(SYS_write, STDERR_FILENO, text, left); /* not write(): a cancellation point */
        if (n <= 0)
            return;
        text += n;
        left -= (size_t)n;
    }
}

void wf_panic(const char *function, const char *fmt, ...)
{
    char line[1024];
    int n = snprintf(line, sizeof line, "weft: %s: ", function);
    va_list args;
    va_start(args, fmt);
    n += vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, args);
    va_end(args);
    if (n > (int)sizeof line - 2)
        n = (int)sizeof line - 2;
    line[n] = '\n';
    line[n + 1] = '\0';
    wf_say(line);
    abort();
}
