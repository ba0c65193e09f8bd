/*
 * serve.h: `weft serve`.
 */
#ifndef TOOL_SERVE_H
#define TOOL_SERVE_H

#include "options.h"

/** Serves until SIGINT or SIGTERM. Returns the exit status of the program. If that is not 0, stderr says why. */
int serve(const struct options *options);

#endif
