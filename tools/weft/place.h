/*
 * place.h: where `weft serve` serves: its listening socket, and the address to open in a browser.
 */
#ifndef TOOL_PLACE_H
#define TOOL_PLACE_H

#include <stdbool.h>
#include <stddef.h>

/** Listens. Returns the descriptor. On failure it says on stderr what is wrong and what helps, and returns -1. */
int place_listen(const char *addr, unsigned port);

/** Whether the address stands for all networks of this machine. */
bool place_is_open(const char *addr);

/** Writes "http://127.0.0.1:8080/" to `to`. */
void place_url(const char *addr, unsigned port, char *to, size_t size);

#endif
