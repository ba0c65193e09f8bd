/*
 * weft/chan.h: channels: values that pass from one fiber or thread to another, and a choice among several of them.
 *
 * A channel carries elements of one size, which it copies. With capacity 0 a send and a receive happen together, each
 * waits for the other; else the channel keeps up to `capacity` elements and a send waits only while it is full.
 * Elements arrive in the order in which they were sent, and who waits longest goes first. A value is handed straight to
 * a receiver that waits.
 *
 *      weft_chan *c;
 *      weft_chan_new(&c, sizeof(int), 0);
 *      ...
 *      int n = 42;
 *      weft_chan_send(c, &n, WEFT_FOREVER);        // in one fiber or thread
 *      weft_chan_recv(c, &n, weft_in(WEFT_SEC));   // in another
 *
 * Closing says that nothing will be sent any more: receivers get what is there, then -EPIPE. Only one side should
 * close, the one that sends.
 *
 * Fibers of any scheduler and plain threads use one channel as they like. The values may lie on a shared stack
 * (weft/stack.h): a call that has to wait keeps a copy of them in memory of its own meanwhile.
 *
 * A send, a receive or a select that need not wait may still let other fibers run before it returns: it yields if the
 * fiber has run for 100 us (weft_sched_opts.look_every). A call with WEFT_NOW never yields, nor does any call while
 * weft_hook_held counts locks of the fiber.
 *
 * A deadline in the past still tries once. A fiber that was cancelled gets -ECANCELED, also where it need not wait;
 * nothing was sent or received then. Only calls with WEFT_NOW, and calls in a shield, go on (weft_cancel).
 *
 * Failure: a negative errno is returned, errno is never set, and outputs are untouched.
 */
#ifndef WEFT_CHAN_H
#define WEFT_CHAN_H

#include <weft/api.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

struct weft_event; /* weft/sync.h */

typedef struct weft_chan weft_chan;

/**
 * Makes a channel for elements of `elem` bytes that keeps up to `capacity` of them. With elem 0 it carries no values,
 * only the fact that something was sent.
 *
 * Returns: 0, -EINVAL no out, or a size beyond what memory can have, -ENOMEM
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    the caller owns *out and releases it by weft_chan_free
 */
WEFT_API int weft_chan_new(weft_chan **out, size_t elem, size_t capacity);

/**
 * Releases a channel and the elements in it. NULL is allowed and does nothing.
 *
 * Nobody may use it from then on. Who has received the last value may free the channel at once, even if the send, the
 * close or the select that brought it has not returned yet.
 *
 * Returns: 0, -EBUSY a fiber or thread waits on it (debug builds also print a line)
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    takes c on 0
 */
WEFT_API int weft_chan_free(weft_chan *c);

/**
 * Sends a copy of the element at `value` (which may be NULL if elements have 0 bytes).
 *
 * Returns: 0, -EPIPE the channel is closed, or was while it waited, -ETIMEDOUT past `deadline`, -EAGAIN it would wait
 *          and the deadline is WEFT_NOW, -ECANCELED, -ENOMEM on a shared stack only: no memory for the copy, -EINVAL no
 *          c or value
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread, until the element is received or the channel has room
 * Owns:    nothing; `value` is copied
 */
WEFT_API int weft_chan_send(weft_chan *c, const void *value, weft_time deadline);

/**
 * Receives an element to `value` (which may be NULL if elements have 0 bytes).
 *
 * Returns: 0, -EPIPE the channel is closed and empty, -ETIMEDOUT past `deadline`, -EAGAIN it would wait and the
 *          deadline is WEFT_NOW, -ECANCELED, -ENOMEM on a shared stack only: no memory for the copy, -EINVAL no c or
 *          value
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread, until there is an element or the channel is closed
 * Owns:    the caller owns what it received; `value` is untouched on failure
 */
WEFT_API int weft_chan_recv(weft_chan *c, void *value, weft_time deadline);

/**
 * Closes a channel: sends fail from now on, and those that wait to send get -EPIPE. Elements that are in it can still
 * be received; those that wait to receive get -EPIPE, as there are none.
 *
 * Returns: 0, -EPIPE it was closed before, -EINVAL c is NULL
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing; c is still to be freed
 */
WEFT_API int weft_chan_close(weft_chan *c);

/**
 * How many elements are in the channel: sent and not yet received. Of one with capacity 0 always 0.
 *
 * Returns: the count; others may change it at any time. 0 if c is NULL
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API size_t weft_chan_count(const weft_chan *c);

/**
 * How many elements the channel can keep.
 *
 * Returns: the capacity that it was made with; 0 if c is NULL
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API size_t weft_chan_capacity(const weft_chan *c);

/** What a case of weft_select waits for. */
enum {
    WEFT_NONE = 0, /* nothing: the case never happens, and weft_select ignores its other fields */
    WEFT_SEND = 1, /* `value` can be sent to `chan`: it is */
    WEFT_RECV,     /* an element can be received from `chan`: it is, to `value` */
    WEFT_EVENT     /* `event` is set */
};

/** One of the things that weft_select chooses from. */
typedef struct weft_case {
    int op;                   /* WEFT_SEND, WEFT_RECV, WEFT_EVENT; WEFT_NONE: the case is switched off */
    int result;               /* set by weft_select in the case that happened: 0, or -EPIPE the channel is closed */
    weft_chan *chan;          /* SEND, RECV */
    void *value;              /* SEND: what, RECV: where to; may be NULL if the channel's elements have 0 bytes */
    struct weft_event *event; /* EVENT */
} weft_case;

/**
 * Waits until one of `n` cases can happen, and lets exactly that one happen. If several can, each of them is as likely
 * as any other. A case whose channel is closed can happen: its `result` is -EPIPE (of a receive only once the channel
 * is empty). Nothing of the other cases is touched.
 *
 * A channel or event may be in several cases. A channel may be in a send case and in a receive case: a select never
 * receives its own value. If a channel or event that is in several cases ends the wait, each of these cases is equally
 * likely.
 *
 * A case with WEFT_NONE never happens. The select works as if the case were not there, and the other cases keep their
 * indexes. So a loop can switch a case off and on again. If n is 0 (`cases` may then be NULL), or if all cases are
 * WEFT_NONE, nothing can happen: the call waits until the deadline. With WEFT_FOREVER only a cancel ends such a wait; a
 * plain thread waits for ever.
 *
 * Returns: the index of the case that happened, -ETIMEDOUT past `deadline`, -EAGAIN none can happen and the deadline is
 *          WEFT_NOW, -ECANCELED, -ENOMEM with more than 8 cases, or on a shared stack, -EINVAL n is above 2^30, or a
 *          case is not one: an unknown op, no channel, value or event
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing; channels, events and values must stay until it returns (weft_chan_free says when a channel may be
 *          freed earlier)
 */
WEFT_API int weft_select(weft_case *cases, size_t n, weft_time deadline);

/**
 * weft_select with a preference: if several cases can happen, the first of them in `cases` does. A case that can always
 * happen shuts out all cases after it.
 *
 * The preference holds among the cases that can happen when the call begins. If none can, the select waits, and the
 * case that ends the wait happens, even if an earlier case could happen too before the caller runs again. If a channel
 * or event that is in several cases ends the wait, the first of these cases happens.
 *
 * Returns: as weft_select
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    as weft_select
 */
WEFT_API int weft_select_ordered(weft_case *cases, size_t n, weft_time deadline);

WEFT_END_DECLS

#endif
