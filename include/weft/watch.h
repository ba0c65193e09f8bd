/*
 * weft/watch.h: callbacks on a descriptor's readiness. For code that is written around events; a fiber that reads and
 * writes needs none of it.
 *
 * A watch is for one direction of one descriptor and fires once; to go on, add it again. Its function runs in a fiber of its
 * own, on the worker where it was added, and may do whatever a fiber may. Fibers that read or write the same descriptor are
 * no concern of a watch, nor it of theirs.
 *
 *      weft_sched_new(&s, &(weft_sched_opts){.use_caller = true});
 *      weft_watch_add(fd, WEFT_READ, can_read, arg);                 // no fiber, and no start, is needed before it
 *      weft_sched_run(s, WEFT_FOREVER);                              // until no watch, timer and fiber is left
 *
 * Any thread may add watches, even before the scheduler starts: such watches fire once the scheduler runs. A call from
 * outside the scheduler's fibers hands the watch to a worker and does not wait for that worker. (With use_caller it
 * chooses worker 0 only if there is no other worker.) If the worker then cannot watch the descriptor, it calls the
 * watch's function with WEFT_FAILED.
 *
 * What a watch waits for is a state, not a change: one that is added while there are bytes fires at once. An error or a
 * hang-up fires both directions, the other side's end fires WEFT_READ, weft_close fires them with WEFT_CLOSED. Close by
 * weft_close, or delete the watches first: of a descriptor that was closed otherwise they may stay for ever.
 *
 * A scheduler that stops waits for its watches; at the deadline it cancels them. If a scheduler is freed and never ran,
 * its watches never fire. In the child of a fork there are no watches.
 *
 * Failure: a negative errno is returned, and errno is never set.
 */
#ifndef WEFT_WATCH_H
#define WEFT_WATCH_H

#include <weft/api.h>
#include <weft/sched.h>

WEFT_BEGIN_DECLS

/**
 * The direction of a watch, and the events that it fires with. These are always its direction, and beside it perhaps
 * WEFT_CANCELED, WEFT_CLOSED or WEFT_FAILED, or POLLERR, POLLHUP and POLLRDHUP of poll(2). Test for the first three
 * before you use the descriptor: after WEFT_CLOSED the number is no longer yours.
 */
enum {
    WEFT_READ = 1,           /* there is something to read, or to accept; POLLIN */
    WEFT_WRITE = 4,          /* there is room to write, or it is connected; POLLOUT */
    WEFT_CANCELED = 1 << 16, /* weft_watch_cancel was called, or the scheduler is being stopped */
    WEFT_CLOSED = 1 << 17,   /* weft_close was called */
    WEFT_FAILED = 1 << 18,   /* the watch was added outside the scheduler's fibers, and its worker could not watch the
                              * descriptor: no memory, no descriptor for the worker's driver, or a kind of descriptor
                              * that cannot be waited for */
};

/** What a watch calls. */
typedef void weft_watch_fn(int fd, unsigned events, void *arg);

/**
 * Watches one direction or both (WEFT_READ | WEFT_WRITE: two watches, each of which fires once), on the current
 * scheduler (weft_sched_current). In a fiber this is the fiber's scheduler; on a thread that is worker 0 of a scheduler
 * (use_caller: from weft_sched_new to weft_sched_free), it is that scheduler; elsewhere, the one that weft_run started.
 * With fn NULL the watch calls no function: its event unparks the calling fiber. If the event comes before the fiber
 * parks, the next weft_park returns at once (weft_park's token). If the fiber has ended before the event, the event
 * unparks no fiber; the watch stays until it fires or is deleted. A fiber with WEFT_MIGRATE must delete its watch
 * before it ends: the fiber may end on one worker while the watch fires on another.
 *
 * Returns: 0, -EEXIST there is one in this direction (nothing was added), -EPERM it is of a kind that is always ready
 *          (a regular file), -EBADF no descriptor, or it is being closed; -EINVAL other events, or fn NULL outside of a
 *          fiber; -ENXIO, -ESHUTDOWN as weft_go; -ECANCELED a stop has cancelled all fibers and watches; -ENOMEM. In a
 *          fiber also what registering it says, such as -EMFILE; elsewhere that comes later, as WEFT_FAILED
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_watch_add(int fd, unsigned events, weft_watch_fn *fn, void *arg);

/**
 * weft_watch_add on this scheduler, which need not have started. With fn NULL the caller is one of its fibers.
 *
 * Returns: as weft_watch_add; -EINVAL also if s is NULL, -ESHUTDOWN it is stopping or has stopped, and the caller is
 *          not one of its fibers
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_sched_watch_add(weft_sched *s, int fd, unsigned events, weft_watch_fn *fn, void *arg);

/**
 * Deletes the watches of these directions: they never fire.
 *
 * Returns: 0, -ENOENT there is none, or it has fired, -EINVAL other events
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_watch_del(int fd, unsigned events);

/**
 * Fires the watches of these directions, with WEFT_CANCELED.
 *
 * Returns: 0, -ENOENT there is none, or it has fired, -EINVAL other events
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_watch_cancel(int fd, unsigned events);

/**
 * weft_watch_cancel of both directions.
 *
 * Returns: 0, -ENOENT there is none
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_watch_cancel_all(int fd);

WEFT_END_DECLS

#endif
