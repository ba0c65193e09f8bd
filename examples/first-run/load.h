/*
 * load.h: the clients of the web server (support/crowd.h). They ask for one file after the other, and compare every
 * byte of the answer with the file.
 */
#ifndef FIRST_RUN_LOAD_H
#define FIRST_RUN_LOAD_H

#include "../../bench/common/latency.h"
#include "../support/crowd.h"
#include "site.h"

/** Connects so many clients, as crowd_new does. There may be only one load at a time. */
struct crowd *load_new(const char *address, const struct site *site, unsigned clients);

/** The latencies of all answers so far. Any thread may ask. */
void load_latencies(struct latency *out);

/** Releases what load_new has made, after crowd_end. */
void load_free(void);

#endif
