/*
 * fuzz/partner.h: llhttp 8.1.0 in strict mode, as Debian's node-llhttp ships it: the partner of differential fuzzing.
 * Without that package FUZZ_LLHTTP is 0, and the harnesses have only the rules and the reference of this folder.
 */
#ifndef TESTS_FUZZ_PARTNER_H
#define TESTS_FUZZ_PARTNER_H

#include "fuzz/rules.h"

/* What it makes of a head. */
struct partner_head {
    bool is_accepted;
    const char *reason; /* why not */
    size_t size;        /* of the head with its empty line */
    char method[32];
    int major, minor;
    bool is_chunked, has_length, keeps_alive, has_upgrade;
    uint64_t length;
    unsigned count; /* fields; those behind RULES_FIELDS are not kept */
    struct text url;
    struct rules_field fields[RULES_FIELDS]; /* values without white space behind them */
};

void partner_read_head(struct partner_head *h, const char *bytes, size_t size);

/* Whether it knows a method. It refuses all others. */
bool partner_knows_method(struct text method);

/* What it makes of a chunked body. */
struct partner_body {
    bool has_ended, is_refused;
    const char *reason;
    size_t used; /* bytes up to the end of the body */
    size_t size; /* of its data, which goes to `data` of the caller */
};

/* `data` has room for `size` bytes. */
void partner_read_chunks(struct partner_body *b, const char *bytes, size_t size, char *data);

#endif
