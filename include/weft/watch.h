/*
 * weft/watch.h: callbacks on a descriptor's readiness. For code that is written around events; a fiber that reads and
 * writes needs none of it.
 *
 * A watch is for one direction of one descriptor and fires once; to go on, add it again. Its function runs in a fiber of its
 * own, on the worker where it was added, and may do whatever a fiber may. Fibers that read or write the same descriptor are
 * no concern of a watch, nor it of theirs.
 *
 * What a watch waits for is a state, not a change: one that is added while there are bytes fires at once. An error or a
 * hang-up fires both directions, the other side's end fires WEFT_READ, weft_close fires them with WEFT_CLOSED. Close by
 * weft_close, or delete the watches first: of a descriptor that was closed otherwise they may stay for ever.
 *
 * A scheduler that stops waits for its watches; at the deadline it cancels them.
 *
 * Failure: a negative errno is returned, and errno is never set.
 */
#ifndef WEFT_WATCH_H
#define WEFT_WATCH_H

#include <weft/api.h>

WEFT_BEGIN_DECLS

/** What a watch is for, and what it fires with. POLLERR, POLLHUP and POLLRDHUP of poll(2) may come beside it. */
enum {
    WEFT_READ = 1,           /* there is something to read, or to accept; POLLIN */
    WEFT_WRITE = 4,          /* there is room to write, or it is connected; POLLOUT */
    WEFT_CANCELED = 1 << 16, /* weft_watch_cancel was called, or the scheduler is being stopped */
    WEFT_CLOSED = 1 << 17,   /* weft_close was called */
};

/** What a watch calls. */
typedef void weft_watch_fn(int fd, unsigned events, void *arg);

/**
 * Watches one direction or both (WEFT_READ | WEFT_WRITE: two watches, each of which fires once), on the scheduler of the
 * calling fiber; on a plain thread, on the one that weft_run started. With fn NULL nothing is called: the event unparks
 * the calling fiber, which must not end before that, or delete the watch first. An event that comes before it parks is
 * kept, as weft_park's token is.
 *
 * Returns: 0, -EEXIST there is one in this direction (nothing was added), -EPERM it is of a kind that is always ready (a
 *          regular file), -EBADF no descriptor, -EINVAL other events, or fn NULL on a plain thread; -ENXIO, -ESHUTDOWN as
 *          weft_go; -ENOMEM, or what registering it says
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_watch_add(int fd, unsigned events, weft_watch_fn *fn, void *arg);

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
