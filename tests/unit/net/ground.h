/*
 * tests/unit/net/ground.h: a resolver whose answers a test makes up.
 */
#ifndef TESTS_UNIT_NET_GROUND_H
#define TESTS_UNIT_NET_GROUND_H

#include <netdb.h>

#include "base/sys.h"
#include "unit/io/ground.h"

enum { MOST_ANSWERS = 8 };

/* What the name "many" means: addresses with their ports. */
static struct {
    struct {
        char host[32], port[8];
    } of[MOST_ANSWERS];
    int count;
} answers;

static inline void answer(const char *host, int port)
{
    snprintf(answers.of[answers.count].host, sizeof answers.of[0].host, "%s", host);
    snprintf(answers.of[answers.count].port, sizeof answers.of[0].port, "%d", port);
    answers.count++;
}

/* Each is a list of its own from getaddrinfo, and freeaddrinfo takes them as one. */
static inline int many_addresses(const char *host, const char *port, const struct addrinfo *hints,
                                 struct addrinfo **out)
{
    if (!host || strcmp(host, "many") != 0 || hints->ai_flags & AI_NUMERICHOST)
        return getaddrinfo(host, port, hints, out);
    struct addrinfo numbers = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    for (int i = 0; i < answers.count; i++) {
        CHECK_INT(getaddrinfo(answers.of[i].host, answers.of[i].port, &numbers, out), ==, 0);
        out = &(*out)->ai_next;
    }
    return 0;
}

#endif
