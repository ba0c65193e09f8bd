/*
 * arguments.h: the options of a program that measures an example. All of them are numbers: "--seconds 10".
 */
#ifndef SUPPORT_ARGUMENTS_H
#define SUPPORT_ARGUMENTS_H

struct argument {
    const char *name;
    unsigned *value; /* holds the default */
    unsigned least, most;
};

/** Reads the words of a command line. `all` ends with a NULL name. A wrong word ends the program, which prints `usage`. */
void arguments_read(char **words, const struct argument *all, const char *usage);

#endif
