/*
 * crowd.h: many clients of a server. Each is a fiber with a connection of its own, and takes one turn after the other: it
 * sends a request, and checks the answer.
 *
 * All calls are for one fiber, except crowd_turns, which any thread may call.
 */
#ifndef SUPPORT_CROWD_H
#define SUPPORT_CROWD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/time.h>

#define CROWD_PATIENCE (10 * WEFT_SEC) /* an answer that takes longer counts as lost */

/** What went wrong in a turn. */
struct crowd_wrong {
    const char *what; /* lives for ever */
    ptrdiff_t rc;     /* a negative errno, or 0 */
};

/** One turn of client number `client`, on its connection. Returns false if it went wrong, and has set *wrong. */
typedef bool crowd_turn(void *arg, unsigned client, int fd, struct crowd_wrong *wrong);

struct crowd;

/** Connects so many clients. Returns when each is connected, or has failed to connect. NULL: no memory. */
struct crowd *crowd_new(const char *address, unsigned clients, crowd_turn *turn, void *arg);

/** Lets the clients begin. */
void crowd_begin(struct crowd *crowd);

/** How many turns have gone well so far. */
uint64_t crowd_turns(const struct crowd *crowd);

/** Whether something went wrong. Then all clients are ending. */
bool crowd_failed(const struct crowd *crowd);

/**
 * Lets the clients finish their turns, ends them, and releases the crowd. Returns false if anything has gone wrong;
 * `why` then has the first failure.
 */
bool crowd_end(struct crowd *crowd, char *why, unsigned size);

#endif
