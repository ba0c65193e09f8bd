/*
 * fuzz/reference.h: a second decoder of chunked bodies, for comparison. It reads a whole buffer by recursive descent, one
 * function for each rule of the grammar, and shares no code with src/http/chunk.c.
 */
#ifndef TESTS_FUZZ_REFERENCE_H
#define TESTS_FUZZ_REFERENCE_H

#include "fuzz/fuzz.h"

enum reference_end {
    REFERENCE_MORE,    /* the bytes are the beginning of a body */
    REFERENCE_ENDED,   /* they have a whole body */
    REFERENCE_REFUSED, /* they have a fault */
};

struct reference_body {
    enum reference_end end;
    const char *fault; /* NULL: none */
    size_t used;       /* bytes of the body; where the reader has stopped, if it has not ended */
    size_t size;       /* of the data */
    size_t plain_size;
    bool
        has_odd_extension; /* one that llhttp does not understand: a value with another extension behind it, or a backslash */
};

/* `data` and `plain` have room for `size` bytes each. The data goes to `data`, and the body without extensions to
 * `plain`. */
void reference_read(struct reference_body *b, const char *bytes, size_t size, char *data, char *plain);

#endif
