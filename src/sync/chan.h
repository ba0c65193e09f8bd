/*
 * sync/chan.h: the insides of a channel, for chan.c and select.c.
 *
 * Who must wait is linked in one of two lists, in the order of arrival. Its waiter's `data` is where its value is or is
 * to go, which others may touch while it waits; `index` is what to settle it with: an even number if its operation
 * happened (0; select: twice the case's index), one more if the channel was closed.
 *
 * A select may have the channel in several cases. The winner of one of them takes the waiters of the others out of the
 * channel in the same step: the select does not touch the channel again, because the winner may free it at once.
 *
 * Who still counts, under the lock: somebody waits to receive only if the channel is empty, to send only if it is full.
 */
#ifndef WF_SYNC_CHAN_H
#define WF_SYNC_CHAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <weft/chan.h>

#include "base/lock.h"
#include "sched/wait.h"

/* All but the first two fields: guarded by: lock. */
struct weft_chan {
    size_t elem, capacity; /* const */
    struct wf_lock lock;
    bool closed;
    size_t first;   /* the slot of the element that is received next */
    size_t count;   /* elements from there on, round the end */
    size_t waiting; /* waiters that nobody has won and that their owners have not yet taken back */
    struct wf_waiters senders, receivers;
    _Alignas(max_align_t) unsigned char slots[];
};

enum { WF_CHAN_CLOSED = 1 };         /* added to a waiter's index */
#define WF_CHAN_SIBLINGS 0x80000000u /* in a waiter's index: it is in a wf_chan_case that has siblings */

/* A select's waiter. The siblings are its other cases on the same channel, in a ring. guarded by: the channel's lock */
struct wf_chan_case {
    struct wf_waiter waiter;
    struct wf_chan_case *sibling; /* valid if the waiter's index has WF_CHAN_SIBLINGS */
};

/* An element; the common size without a call. */
static inline void wf_chan_copy(void *to, const void *from, size_t elem)
{
    if (wf_likely(elem == 8))
        memcpy(to, from, 8);
    else if (elem > 0) /* else the places may be NULL */
        memcpy(to, from, elem);
}

/*
 * Under the lock: what can happen at once does. 0, -EPIPE, or -EAGAIN: it has to wait. *woken is who is to be made
 * ready once the lock is released, or unchanged.
 */
int wf_chan_send_now(weft_chan *c, const void *value, struct wf_sleeper **woken);
int wf_chan_recv_now(weft_chan *c, void *value, struct wf_sleeper **woken);

/* Under the lock. Every waiter that is added is won by somebody or taken back by its owner, who waits no more. */
static inline void wf_chan_add(weft_chan *c, bool sends, struct wf_waiter *w, struct wf_sleeper *who)
{
    c->waiting++;
    wf_waiters_add(sends ? &c->senders : &c->receivers, w, who);
}

/* For the owner, unless the waiter or a sibling of it was won. */
static inline void wf_chan_take_back(weft_chan *c, bool sends, struct wf_waiter *w)
{
    c->waiting--;
    wf_waiters_remove(sends ? &c->senders : &c->receivers, w);
}

#endif
