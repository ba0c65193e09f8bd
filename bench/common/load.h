/*
 * load.h: what the load generators share: clocks, descriptors, and connections to a server of 127.0.0.1.
 *
 * A load generator is one thread that starts a server (child.h) and keeps requests of its own under way.
 */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <stddef.h>
#include <stdint.h>

#include "child.h"

#define LOAD_SILENCE_MS 5000 /* so long without an answer: it is lost */
#define LOAD_KNOCK_EVERY 64 /* connections, of which one must be answered before more are made: the backlog is finite */

/** CLOCK_MONOTONIC. */
int64_t load_now_ns(void);

/** User and system time of this process so far. */
int64_t load_own_cpu_ns(void);

/** Lets this process, and those that it starts, have a descriptor for each of so many connections; n/a if it may not. */
void load_raise_descriptors(size_t connections);

/**
 * A connection whose calls wait for LOAD_SILENCE_MS at most, without Nagle's delays and with the cheapest congestion
 * control. Closing it resets it, so no port stays behind.
 */
int load_connect(uint16_t port);

/**
 * The same for a connection of one request, without what it does not need: calls do not end by themselves, and a request
 * must go out in one piece.
 */
int load_connect_briefly(uint16_t port);

/** Puts the server under load for so many ms, or a little longer. Returns how many answers came. */
typedef uint64_t load_run(double ms);

/** Counts the system calls of a server under load, and writes "calls=A_ANSWER " or "calls_na=WHY " as a parameter. */
void load_count_calls(struct child *server, load_run *run, double ms, char *text, size_t size);

#endif
