/*
 * armed.h: what the timer benches of every library share: for how long each timer is set, and which one is armed anew.
 *
 * 1,000,000 timers are armed, timer i for armed_ms(i), before the clock starts; none of them fires while it runs. What is
 * added and cancelled is one more, each time for another span: one like theirs, or one that is over before theirs.
 */
#ifndef BENCH_TIMER_ARMED_H
#define BENCH_TIMER_ARMED_H

#include <stddef.h>
#include <stdint.h>

#define ARMED 1000000

/** How many timers the fire benches add before they let others run: as often a worker of weft looks at the clock. */
#define FIRE_TURN 64

/** The i-th number of splitmix64, the same in every library. */
static inline uint64_t armed_random(uint64_t i)
{
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/** From 1 s to 1000 s, in whole ms: that is what libuv has. The high half times the range: no division. */
static inline uint32_t armed_ms(uint64_t i)
{
    return 1000 + (uint32_t)((armed_random(i) >> 32) * 999001 >> 32);
}

/** From 1 to 500 ms: the deadline of something that is under way, beside a million that are for the idle. */
static inline uint32_t soon_ms(uint64_t i)
{
    return 1 + (uint32_t)((armed_random(i) >> 32) * 500 >> 32);
}

/** A timer of the ARMED. */
static inline size_t armed_pick(uint64_t i)
{
    return (size_t)((armed_random(i) & 0xffffffff) * ARMED >> 32);
}

#endif
