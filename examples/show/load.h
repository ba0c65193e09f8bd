/*
 * load.h: clients for an echo server. Each is a fiber with a connection of its own: it sends a message, waits until that is
 * back, compares every byte, and sends the next.
 *
 * All of it is for one fiber; load_answered for any thread.
 */
#ifndef SHOW_LOAD_H
#define SHOW_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#define LOAD_BYTES 64 /* of a message */

struct load;

/** Connects so many clients. Returns when all of them are connected, or have failed to. NULL: no memory. */
struct load *load_new(const char *address, unsigned clients);

/** Lets them begin. */
void load_begin(struct load *load);

/** How many messages are back so far, as they were sent. */
uint64_t load_answered(const struct load *load);

/** Whether something went wrong. Then all of them are ending. */
bool load_failed(const struct load *load);

/**
 * Ends them when their messages under way are back, and releases the load. Returns false if anything went wrong, ever: what
 * came first is then in `why`.
 */
bool load_end(struct load *load, char *why, unsigned size);

#endif
