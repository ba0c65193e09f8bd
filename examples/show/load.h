/*
 * load.h: what the clients of an echo server do (support/crowd.h): send a message, wait until it is back, and compare every
 * byte.
 */
#ifndef SHOW_LOAD_H
#define SHOW_LOAD_H

#include "../support/crowd.h"

#define LOAD_BYTES 64 /* of a message */

/** Connects so many clients, as crowd_new does. There is one load at a time. */
struct crowd *load_new(const char *address, unsigned clients);

/** Releases what load_new has made, after crowd_end. */
void load_free(void);

#endif
