/*
 * weft/time.h: lengths of time and points in time.
 *
 * A span is a length in nanoseconds. A time is a point on CLOCK_MONOTONIC, and a struct of its own, so that a length
 * passed where a deadline belongs does not compile. A call that waits takes one deadline, as its last argument. (The
 * calls of weft/scope.h take none: the scope has a deadline.)
 *
 * A deadline in the past still tries once, then -ETIMEDOUT. WEFT_NOW tries once and never waits: -EAGAIN. Nothing ever
 * wakes before its time.
 */
#ifndef WEFT_TIME_H
#define WEFT_TIME_H

#include <weft/api.h>

WEFT_BEGIN_DECLS

/** A length of time in nanoseconds. */
typedef int64_t weft_span;

/** A point in time, in nanoseconds of CLOCK_MONOTONIC. */
typedef struct weft_time {
    int64_t ns;
} weft_time;

#define WEFT_US ((weft_span)1000)
#define WEFT_MS ((weft_span)1000000)
#define WEFT_SEC ((weft_span)1000000000)

#ifdef __cplusplus
#define WEFT_FOREVER (weft_time{INT64_MAX})
#define WEFT_NOW (weft_time{INT64_MIN})
#else
#define WEFT_FOREVER ((weft_time){INT64_MAX}) /* never passes */
#define WEFT_NOW ((weft_time){INT64_MIN})     /* try once, never wait */
#endif

/**
 * The time by the clock that all deadlines are on.
 *
 * Returns: the time
 * Context: any thread, fibers and coroutines included
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API weft_time weft_now(void);

/**
 * The time `d` from now: weft_in(2 * WEFT_SEC) is a deadline. Too far is WEFT_FOREVER, a negative span is in the past.
 *
 * Returns: the time
 * Context: any thread, fibers and coroutines included
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API weft_time weft_in(weft_span d);

WEFT_END_DECLS

#endif
