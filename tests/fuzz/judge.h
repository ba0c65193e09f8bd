/*
 * fuzz/judge.h: whether what a connection has answered fits what its client has sent. It splits the sent bytes into requests
 * by the rules of rules.h, and the answers by answers.h, and so shares no code with the server.
 */
#ifndef TESTS_FUZZ_JUDGE_H
#define TESTS_FUZZ_JUDGE_H

#include "fuzz/fuzz.h"

struct conversation {
    const char *sent; /* by the client */
    size_t sent_size;
    const char *received; /* by the client, until the server has ended */
    size_t received_size;
    bool is_patient; /* the client has read until the server has ended */
    bool was_reset;  /* by the server, and so answers may be lost */
    bool can_reset;  /* TCP: an answer without a length that is cut ends by a reset */
};

/* Aborts if it does not fit. */
void judge(const struct conversation *c);

#endif
