/*
 * io/watch.h: a descriptor's watches, as its record sees them.
 *
 * A watch is a fiber that was made and not started: its record is there when it fires, so that nothing can fail then, and
 * the scheduler counts it among those that have not ended. Whoever takes it out of the descriptor's record, under that
 * one's lock, decides how it ends: by an event, a cancel, a close, or deleted. The fiber is started in any case; if the
 * watch was deleted it ends at once.
 *
 *      a fiber of the scheduler                      any other thread
 *        │ lock e, publish, unlock                     │ lock the scheduler and e, publish, unlock
 *        └ arm                                         └ a fiber to its worker's inbox ─▶ the worker: arm what is there
 *                                                                                         and is not armed; or WEFT_FAILED
 *
 * Only its worker arms it, as a ring is its worker's alone. Nobody waits for that: whoever ends the watch before it is
 * armed finds it in the record as usual. Its fiber releases its memory, so on its worker: a pointer to the watch that the
 * worker finds under the lock stays good until the worker switches.
 *
 * Locks: the scheduler's, then the descriptor's.
 */
#ifndef WF_IO_WATCH_H
#define WF_IO_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct wf_fd;
struct wf_watch;

/* How a watch that nobody is to hear of ends. */
#define WF_WATCH_DELETED ((uint32_t)1 << 31)

/*
 * Takes out those whose directions `events` (as of poll(2)) are about: a list, for wf_watch_fire. If the event may have been over
 * before a watch was added, asks the kernel, and only what the kernel says counts. *again: that left watches of the calling
 * worker whose poll in its ring may be used up, and wf_watch_arm_again must follow. guarded by: e->lock
 */
struct wf_watch *wf_watch_take(struct wf_fd *e, uint32_t events, bool *again);

/* Arms those of the calling worker anew in its ring. Without the lock. */
void wf_watch_arm_again(int fd, struct wf_fd *e, uint32_t generation);

/* Takes out those of these directions, which end with `events`. guarded by: e->lock */
struct wf_watch *wf_watch_take_for(struct wf_fd *e, uint32_t directions, uint32_t events);

/* Starts what was taken out. Any thread, without the lock. */
void wf_watch_fire(struct wf_watch *list);

#endif
