/*
 * descriptors.h: how many descriptors this process may have, and how many connections that is enough for.
 */
#ifndef TOOL_DESCRIPTORS_H
#define TOOL_DESCRIPTORS_H

#include <stdbool.h>

/**
 * Raises the limit of descriptors as far as this user may. *connections is how many connections may be open at a time; 0:
 * no fewer than the server's own limit. Says on stderr what is wrong, and returns false if the limit is too low to serve.
 */
bool descriptors_prepare(unsigned workers, unsigned *connections);

#endif
