/*
 * weft/alarm.h: functions that are called at a time of the wall clock.
 *
 * An alarm is for "at three o'clock": if somebody sets the clock, it is that clock which counts, and an alarm whose time is
 * then past goes off at once. For lengths of time use weft/timer.h, which no setting of clocks touches.
 *
 * An alarm has a fiber and a descriptor of its own: have tens of them, not thousands.
 *
 * Failure: a negative errno is returned, errno is never set, and an out pointer is untouched.
 */
#ifndef WEFT_ALARM_H
#define WEFT_ALARM_H

#include <weft/api.h>
#include <weft/timer.h>

WEFT_BEGIN_DECLS

/** A point in time by the wall clock: ns of CLOCK_REALTIME, which began with 1970. */
typedef struct weft_wall {
    int64_t ns;
} weft_wall;

typedef struct weft_alarm weft_alarm;

/**
 * The time by the wall clock.
 *
 * Returns: the time
 * Context: any thread, fibers and coroutines included
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API weft_wall weft_wall_now(void);

/**
 * Has fn(arg) called in a fiber when the wall clock shows `at` or more; never before. With `cond` (may be NULL) only if its
 * owner has not dropped it by then (weft_alive_new). With out NULL nobody has a handle. A scheduler that stops waits for
 * it, and past the deadline of the stop cancels it.
 *
 * Returns: 0, -EINVAL no fn, or `at` is before 1970; -ESRCH the owner of cond has dropped it; -ENXIO and -ESHUTDOWN as
 *          weft_go; -EMFILE and -ENFILE no descriptor is left; -ENOMEM
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    the caller owns *out and releases it by weft_alarm_free
 */
WEFT_API int weft_alarm_new(weft_alarm **out, weft_wall at, weft_alive *cond, void (*fn)(void *arg), void *arg);

/**
 * Stops an alarm. Never calls its function.
 *
 * Returns: 1 in time: its function will not be called; 0 too late: it was, or the alarm was cancelled before; -EINVAL a is
 *          NULL
 * Context: fiber | any thread; also in its own callback
 * Blocks:  never
 * Owns:    nothing: a is valid until weft_alarm_free
 */
WEFT_API int weft_alarm_cancel(weft_alarm *a);

/**
 * Cancels an alarm and releases the handle. NULL does nothing.
 *
 * Returns: as weft_alarm_cancel; 0 if a is NULL
 * Context: fiber | any thread; also in its own callback
 * Blocks:  never
 * Owns:    takes a
 */
WEFT_API int weft_alarm_free(weft_alarm *a);

WEFT_END_DECLS

#endif
