/*
 * fail.h: how the show ends when something is wrong.
 */
#ifndef SHOW_FAIL_H
#define SHOW_FAIL_H

/** Says what is wrong on standard error, with the meaning of `error` if that is an errno and not 0; ends with status 1. */
__attribute__((noreturn, format(printf, 2, 3))) void fail(int error, const char *what, ...);

#endif
