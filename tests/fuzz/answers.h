/*
 * fuzz/answers.h: a strict reader of the answers that a connection has sent. It forgives nothing that a client might
 * misunderstand.
 */
#ifndef TESTS_FUZZ_ANSWERS_H
#define TESTS_FUZZ_ANSWERS_H

#include "fuzz/fuzz.h"

struct answer {
    int status;
    bool is_complete; /* false: the bytes have ended before it */
    bool has_length, is_chunked, says_close, says_keep_alive;
    bool
        ends_with_connection; /* only the end of the connection tells where the body ends; is_complete takes what there is */
    uint64_t length;
    struct text head; /* with its empty line */
    struct text body; /* without chunks' frames; what there is of it */
    size_t used;      /* bytes */
};

/*
 * Reads the answer at the beginning of `bytes`, behind which the server has ended. `is_head`: it answers HEAD. The data of
 * chunks goes to `room`, which has `size` bytes. Returns NULL, or what is malformed.
 */
const char *answer_read(struct answer *a, const char *bytes, size_t size, bool is_head, char *room);

/* The value of a field; at: NULL, there is none. */
struct text answer_field(const struct answer *a, const char *name);

#endif
