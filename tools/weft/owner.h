/*
 * owner.h: which process listens on a port, as far as this user may know.
 */
#ifndef TOOL_OWNER_H
#define TOOL_OWNER_H

#include <stdbool.h>
#include <stddef.h>

/**
 * Finds the process whose socket keeps others from listening on this address and port, and writes "nginx (pid 123)" to
 * `to`. Returns false if it cannot find the process, which may belong to another user.
 */
bool owner_of_port(const char *addr, unsigned port, char *to, size_t size);

#endif
