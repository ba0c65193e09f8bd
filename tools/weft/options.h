/*
 * options.h: the command line of `weft`.
 *
 * One table (options.c) says which options `weft serve` has. It is read by the parser, by the help and by the search
 * for the option that a mistyped word may have meant.
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

/** Reads the command line. Returns false if it is wrong, and has said so on stderr. */
bool options_read(struct options *options, int argc, char **argv);

/** Prints what `weft help` says. */
void options_help(FILE *to);

/** Prints what `weft serve --help` says. */
void options_serve_help(FILE *to);

#endif
