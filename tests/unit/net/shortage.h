/*
 * tests/unit/net/shortage.h: a time in which the process gets no descriptor more.
 */
#ifndef TESTS_UNIT_NET_SHORTAGE_H
#define TESTS_UNIT_NET_SHORTAGE_H

#include <sys/resource.h>
#include <unistd.h>

#include "support/test.h"

struct shortage {
    struct rlimit was;
    int blockers[64], n;
};

/* From the descriptor after `last` on. */
static inline void begin_shortage(struct shortage *lack, int last)
{
    *lack = (struct shortage){.n = 0};
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &lack->was), ==, 0);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)last + 1, lack->was.rlim_max}), ==, 0);
    while (lack->n < 64 && (lack->blockers[lack->n] = dup(0)) >= 0)
        lack->n++;
}

static inline void end_shortage(struct shortage *lack)
{
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &lack->was), ==, 0);
    while (lack->n > 0)
        close(lack->blockers[--lack->n]);
}

#endif
