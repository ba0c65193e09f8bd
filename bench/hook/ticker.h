/*
 * ticker.h: 1,000 fibers of one worker that wait by the C library's calls, beside a ticker: a fiber that sleeps 1 ms again and
 * again. The answer is by how much its gaps are over that, at the 99th hundredth, in ms.
 */
#ifndef BENCH_HOOK_TICKER_H
#define BENCH_HOOK_TICKER_H

#include <weft/sched.h>

enum { TICKER_FIBERS = 1000 };

/* Each of the fibers calls `wait`; before and after that `begin` and `end` run in a fiber, untimed; they may be NULL. */
struct ticker {
    void (*begin)(void);
    void (*wait)(void);
    void (*end)(void);
    int dispatch; /* of the scheduler */
};

/* Does so, and gives the case's answer. */
void ticker_run(const struct ticker *t);

#endif
