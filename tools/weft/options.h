/*
 * options.h: the command line of `weft`.
 *
 * One table (options.c) has the options of `weft serve`. The parser, the help, and the search for mistyped options use
 * it.
 */
#ifndef TOOL_OPTIONS_H
#define TOOL_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

enum command { COMMAND_HELP, COMMAND_SERVE, COMMAND_SERVE_HELP, COMMAND_VERSION };

/** What the command line asks for. */
struct options {
    enum command command;
    const char *dir;
    const char *addr;
    unsigned port;
    unsigned workers; /* 0: one for each CPU */
    int io;           /* WEFT_IO_AUTO, ... */
    unsigned grace;   /* seconds */
    const char *log;  /* a file, "-" for the standard output, or NULL */
    bool status, list, hidden;
};

/** Reads the command line. If it is wrong, says so on stderr and returns false. */
bool options_read(struct options *options, int argc, char **argv);

/** Prints what `weft help` says. */
void options_help(FILE *to);

/** Prints what `weft serve --help` says. */
void options_serve_help(FILE *to);

#endif
