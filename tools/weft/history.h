/*
 * history.h: the last minutes of a server, a point for each second, so that the live page has charts as soon as it is
 * opened.
 *
 * Not thread-safe: the caller locks.
 */
#ifndef TOOL_HISTORY_H
#define TOOL_HISTORY_H

#include "snapshot.h"

enum { HISTORY_SECONDS = 180 };

struct history {
    size_t workers, point_size;
    unsigned count, next; /* the number of points, and the place of the next one */
    unsigned char *points;
};

/** Makes an empty history. Returns false if there is no memory. */
bool history_init(struct history *h, size_t workers);

void history_destroy(struct history *h);

/** Adds a point: what has changed between two figures. If the history is full, its oldest point goes. */
void history_add(struct history *h, const struct figures *before, const struct figures *now);

/** All points as a JSON array, oldest first. Free it by free(3); NULL: no memory. */
char *history_text(const struct history *h);

#endif
