/*
 * weft/timer.h: functions that are called when their time has come, once or again and again.
 *
 *      weft_timer_new(&t, 50 * WEFT_MS, true, NULL, tick, arg);      // every 50 ms, until weft_timer_free(t)
 *      weft_timer_new(NULL, 2 * WEFT_SEC, false, NULL, late, arg);   // once, in 2 s; there is nothing to free
 *
 * A callback runs in a fiber of its own: it may wait, and holds up no other timer. It never runs before its time. By
 * CLOCK_MONOTONIC: steps of the wall clock do not touch it (weft/alarm.h has a clock that does).
 *
 * A recurring timer does not drift: it is due at its first time plus n periods, however long its callback takes. It never
 * overlaps itself: times that pass while its callback runs, or waits to run, are counted (weft_timer_missed) and left out.
 *
 * A handle is valid until weft_timer_free, whatever has become of the timer, and of its scheduler. Any thread may call
 * anything here, and no call waits for a worker. To add or cancel a timer takes the same time however many timers there
 * are.
 *
 * A scheduler that has not started accepts timers, and their time runs. Timers that are due before the start fire when
 * the scheduler starts; with use_caller and one worker they fire when the caller's thread runs the scheduler. If a
 * scheduler is freed and never ran, its timers never fire.
 *
 * A scheduler that stops (and weft_run at its end) waits for timers that are to fire once, and lets recurring ones end;
 * past the deadline of weft_sched_stop it cancels all. In the child of a fork the timers of before have ended.
 *
 * Failure: a negative errno is returned, errno is never set, and an out pointer is untouched.
 */
#ifndef WEFT_TIMER_H
#define WEFT_TIMER_H

#include <weft/api.h>
#include <weft/sched.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

typedef struct weft_timer weft_timer;

/**
 * "Is its owner still there?": an object that callbacks use, and that must not go away under them.
 *
 * The owner makes one for its object, gives it to timers as their condition, and drops it when it is done with the object.
 * From then on no callback that depends on it begins; one that is under way keeps the object until it returns. Then, or
 * at once if there is none, the object's destructor runs.
 */
typedef struct weft_alive weft_alive;

/**
 * Makes a condition for `object`. `destroy` (may be NULL) is called with it, once, when the owner has dropped it and no
 * callback holds it: by whoever lets go last, in weft_alive_drop or in the fiber of a callback that has returned.
 *
 * Returns: 0, -EINVAL no out, -ENOMEM
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    the caller owns *out and gives it up by weft_alive_drop; object is owned by it from now on
 */
WEFT_API int weft_alive_new(weft_alive **out, void *object, void (*destroy)(void *object));

/**
 * The owner is done. Timers that have this condition may still be there, and never run any more; each ends at its next
 * time, if nobody cancels it before. NULL does nothing.
 *
 * Returns: nothing
 * Context: fiber | any thread; also in a callback that holds it
 * Blocks:  never, if the destructor does not
 * Owns:    takes a
 */
WEFT_API void weft_alive_drop(weft_alive *a);

/**
 * Has fn(arg) called in a fiber `period` from now; if `recurring`, every `period` from then on. With `cond` (may be NULL)
 * only as long as its owner has not dropped it. The timer belongs to the current scheduler (weft_sched_current). In a
 * fiber this is the fiber's scheduler; on a thread that is worker 0 of a scheduler (use_caller: from weft_sched_new to
 * weft_sched_free), it is that scheduler; elsewhere, the one that weft_run started.
 *
 * With out NULL nobody has a handle: it goes when it has fired, or, recurring, at the end of its owner or scheduler.
 *
 * Returns: 0, -EINVAL no fn, or recurring with a period that is not positive; -ENXIO there is no runtime (call weft_run),
 *          -ESHUTDOWN the scheduler is stopping and the caller is not one of its fibers, or it is recurring; -ECANCELED
 *          past the deadline of that stop; -ESRCH the owner of cond has dropped it, -ENOMEM
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    the caller owns *out and releases it by weft_timer_free
 */
WEFT_API int weft_timer_new(weft_timer **out, weft_span period, bool recurring, weft_alive *cond, void (*fn)(void *arg),
                            void *arg);

/**
 * weft_timer_new on this scheduler, which need not have started.
 *
 * Returns: as weft_timer_new; -EINVAL also if s is NULL, -ESHUTDOWN also if it has stopped
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    the caller owns *out and releases it by weft_timer_free
 */
WEFT_API int weft_sched_timer_new(weft_sched *s, weft_timer **out, weft_span period, bool recurring, weft_alive *cond,
                                  void (*fn)(void *arg), void *arg);

/**
 * Stops a timer. Never calls its function.
 *
 * Returns: 1 in time: its function is not running, and will not; 0 too late: it has fired, was cancelled before, or its
 *          function is running (a recurring one then ends with that); -EINVAL t is NULL
 * Context: fiber | any thread; also in its own callback
 * Blocks:  never
 * Owns:    nothing: t is valid until weft_timer_free
 */
WEFT_API int weft_timer_cancel(weft_timer *t);

/**
 * Starts the period anew: it is next due at now + period.
 *
 * Returns: 0, -ESRCH it has fired (for good) or was cancelled, -EINVAL t is NULL
 * Context: fiber | any thread; also in the callback of a recurring one
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_timer_refresh(weft_timer *t);

/**
 * Gives a timer another period. With from_now it is next due at now + period; else at the start of the period that is
 * under way + period, and at once if that is past. If its callback is running, at once is when that has returned.
 *
 * Returns: 0, -ESRCH it has fired (for good) or was cancelled, -EINVAL t is NULL, or it is recurring and the period is not
 *          positive
 * Context: fiber | any thread; also in the callback of a recurring one
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_timer_reset(weft_timer *t, weft_span period, bool from_now);

/**
 * When a timer is next due. With t NULL: when the next timer of the current scheduler is (as weft_timer_new has it); if
 * others were cancelled lately that may be too early.
 *
 * Returns: the time; WEFT_FOREVER if it is not due any more, or there is none
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API weft_time weft_timer_next(weft_timer *t);

/**
 * How many times a recurring timer was due and did not fire, as its callback was still running or had to wait for its
 * worker. They are counted when that callback has returned.
 *
 * Returns: the count since it was made; 0 if t is NULL
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API uint64_t weft_timer_missed(weft_timer *t);

/**
 * Cancels a timer and releases the handle. NULL does nothing.
 *
 * Returns: as weft_timer_cancel; 0 if t is NULL
 * Context: fiber | any thread; also in its own callback
 * Blocks:  never
 * Owns:    takes t
 */
WEFT_API int weft_timer_free(weft_timer *t);

WEFT_END_DECLS

#endif
