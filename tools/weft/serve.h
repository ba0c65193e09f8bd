/*
 * serve.h: `weft serve`.
 */
#ifndef TOOL_SERVE_H
#define TOOL_SERVE_H

#include "options.h"

/** Serves until SIGINT or SIGTERM. Returns the exit status of the program, and has said on stderr why it is not 0. */
int serve(const struct options *options);

#endif
