/*
 * nearest.h: the known word that a mistyped one may have meant.
 */
#ifndef TOOL_NEAREST_H
#define TOOL_NEAREST_H

#include <stddef.h>

/**
 * The word of `known` that differs least from the first `length` bytes of `word`. Letters that are missing, too many, wrong
 * or swapped with their neighbour count one each. NULL if a third of the word or more would have to change.
 */
const char *nearest(const char *word, size_t length, const char *const known[], size_t count);

#endif
