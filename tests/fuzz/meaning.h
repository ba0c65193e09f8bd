/*
 * fuzz/meaning.h: checks what the parser has made of a head against the rules of rules.h, and against llhttp in strict mode.
 */
#ifndef TESTS_FUZZ_MEANING_H
#define TESTS_FUZZ_MEANING_H

#include "fuzz/fuzz.h"
#include "unit/http/heads.h"

enum { MEANING_HEAD = 16384 }; /* no head has more bytes */

struct meaning_limits {
    uint32_t bytes, fields;
};

/* Aborts if the result does not fit. `bytes` is all that the parser has been given. */
void check_meaning(const struct parsed *p, const char *bytes, size_t size, struct meaning_limits limits);

#endif
