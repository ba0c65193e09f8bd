/*
 * descriptors.h: how many descriptors this process may have, and how many connections these allow.
 */
#ifndef TOOL_DESCRIPTORS_H
#define TOOL_DESCRIPTORS_H

#include <stdbool.h>

/**
 * Raises the limit of descriptors as far as this user may. *connections: how many connections may be open at a time; 0:
 * as many as the server's own limit. Returns false, and says so on stderr, if the limit is too low to serve.
 */
bool descriptors_prepare(unsigned workers, unsigned *connections);

#endif
