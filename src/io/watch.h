/*
 * io/watch.h: a descriptor's watches, as its record sees them.
 *
 * A watch is a fiber that was made and not started: its record is there when it fires, so that nothing can fail then, and
 * the scheduler counts it among those that have not ended. Whoever takes it out of the descriptor's record, under that
 * one's lock, decides how it ends: by an event, a cancel, a close, or deleted. The fiber is started in any case; if the
 * watch was deleted it ends at once.
 */
#ifndef WF_IO_WATCH_H
#define WF_IO_WATCH_H

#include <stdint.h>

struct wf_fd;
struct wf_watch;

/* How a watch that nobody is to hear of ends. */
#define WF_WATCH_DELETED ((uint32_t)1 << 31)

/* Takes out those whose directions `events` (as of poll(2)) are about: a list, for wf_watch_fire. guarded by: e->lock */
struct wf_watch *wf_watch_take(struct wf_fd *e, uint32_t events);

/* Takes out those of these directions, which end with `events`. guarded by: e->lock */
struct wf_watch *wf_watch_take_for(struct wf_fd *e, uint32_t directions, uint32_t events);

/* Starts what was taken out. Any thread, without the lock. */
void wf_watch_fire(struct wf_watch *list);

#endif
