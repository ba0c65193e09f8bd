/*
 * base/panic.h: the end of a program that misused the library in a way that no return value can tell.
 */
#ifndef WF_BASE_PANIC_H
#define WF_BASE_PANIC_H

#include "base/compiler.h"

/* Prints "weft: FUNCTION: MESSAGE" to standard error and aborts. The message says what to do. */
WF_NORETURN WF_COLD WF_PRINTF(2, 3) void wf_panic(const char *function, const char *fmt, ...);

/* The same line without the end: safe in a signal handler and on a small stack. */
WF_COLD void wf_say(const char *text);

#endif
