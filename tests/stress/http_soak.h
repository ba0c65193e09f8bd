/*
 * stress/http_soak.h: what the two halves of stress/http_soak share: its figures, and its clients.
 */
#ifndef TESTS_STRESS_HTTP_SOAK_H
#define TESTS_STRESS_HTTP_SOAK_H

#include <stdbool.h>
#include <stdint.h>

enum { SOAK_BIG = 256 * 1024 }; /* bytes of GET /big */

/* All rounds' figures. atomic */
struct soak_total {
    uint64_t connections, answers, refused, cut, resets, closes, halves, restarts;
};

extern struct soak_total soak_total;

static inline void soak_add(uint64_t *n, uint64_t more)
{
    __atomic_add_fetch(n, more, __ATOMIC_RELAXED);
}

/* A client's thread: it visits the server again and again. */
struct soak_client {
    uint64_t random; /* what it does next */
    int port;
    char address[24]; /* that it comes from */
    bool is_calm;     /* const: the server is not disturbed, and has room: each exchange must succeed */
    bool listens;     /* its connection has a stream that would not end */
    const int *over;  /* flag: it is to end */
};

/* Does one thing with one connection, chosen at random, and checks what comes back. */
void soak_visit(struct soak_client *me);

/* Byte number i of a large body. */
static inline char soak_byte(uint64_t i)
{
    return (char)('a' + (i * 7 + i / 251) % 26);
}

#endif
