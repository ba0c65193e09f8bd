/*
 * nearest.h: finds the word that the user may have meant by a mistyped word.
 */
#ifndef TOOL_NEAREST_H
#define TOOL_NEAREST_H

#include <stddef.h>

/**
 * The word of `known` that differs least from the first `length` bytes of `word`. A letter that is missing, extra,
 * wrong or swapped with its neighbour is one difference. NULL if even that word has more differences than about a third
 * of `length`.
 */
const char *nearest(const char *word, size_t length, const char *const known[], size_t count);

#endif
