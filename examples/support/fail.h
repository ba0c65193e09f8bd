/*
 * fail.h: how a program that measures an example ends when something is wrong.
 */
#ifndef SUPPORT_FAIL_H
#define SUPPORT_FAIL_H

/**
 * Prints the program's name and what is wrong on standard error, with the meaning of `error` if that is an errno and not
 * 0. Ends the program with status 1.
 */
__attribute__((noreturn, format(printf, 2, 3))) void fail(int error, const char *what, ...);

#endif
