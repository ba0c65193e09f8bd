/*
 * nearest.c: see nearest.h.
 */
#include "nearest.h"

#include <string.h>

#define LONGEST 32 /* no known word is longer */

static unsigned min(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/*
 * The edit distance, by rows: row[i] says how many changes make the first i letters of `a` from the letters of `b` so
 * far. A swap of neighbours looks back two rows.
 */
static unsigned distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    unsigned rows[3][LONGEST + 1];
    for (unsigned i = 0; i <= a_length; i++)
        rows[0][i] = i;
    for (unsigned j = 1; j <= b_length; j++) {
        unsigned *row = rows[j % 3], *last = rows[(j + 2) % 3], *before = rows[(j + 1) % 3];
        row[0] = j;
        for (unsigned i = 1; i <= a_length; i++) {
            unsigned change = a[i - 1] != b[j - 1];
            row[i] = min(min(row[i - 1], last[i]) + 1, last[i - 1] + change);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[i] = min(row[i], before[i - 2] + 1);
        }
    }
    return rows[b_length % 3][a_length];
}

const char *nearest(const char *word, size_t length, const char *const known[], size_t count)
{
    const char *best = NULL;
    unsigned least = length > 2 ? (unsigned)(length + 1) / 3 + 1 : 2;
    if (length > LONGEST)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        unsigned d = distance(word, length, known[i], strlen(known[i]));
        if (d < least) {
            least = d;
            best = known[i];
        }
    }
    return best;
}
